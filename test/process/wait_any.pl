# Tests jobq_wait_any: a job wakes up one session that waits for its queue, whatever other queues the sessions wait for, and no job is
# left while a session sleeps that could claim it.
#
# Each sleeping session also checks the table once a second, which hides lost wake-ups. The control sleepers_do_not_look runs this file
# with a library whose sessions check once an hour, where the test must pass. The control unread_queues_not_checked runs it with a
# library that also loses wake-ups, where the test must fail.
use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/lib";

use JobqSleep;
use JobqTest;
use Test::More;
use Time::HiRes qw(usleep);

my $node = preloaded('wait_any', conf => ['max_connections = 60']);
database($node, 'work');
my $other = session($node, 'work');
sub work { my ($sql) = @_; return value($node, 'work', $sql); }
sub enqueue { my (@queues) = @_; return $other->query('SELECT ' . join(', ', map { "jobq_enqueue('$_')" } @queues)); }
sub wait_any { my ($arguments) = @_; return "CALL jobq_wait_any(timeout => '1 hour', $arguments)"; }
sub claim_any { my ($arguments) = @_; return "SELECT coalesce(string_agg(queue, ' ' ORDER BY queue), 'none') FROM jobq_claim_any($arguments)"; }

# Makes a session wait for the queues, and then claim.
sub waits
{
    my ($sleeper, $queues, $batch, $then) = @_;
    start($sleeper, wait_any("queues => '{$queues}', batch => $batch"), $then // claim_any("'{$queues}', batch => $batch"));
    return asleep($sleeper);
}

sub gets
{
    my ($sleeper, $output, $name) = @_;
    local $Test::Builder::Level = $Test::Builder::Level + 1;
    # A session that still sleeps would disturb the rest of the test.
    seconds_to_end($sleeper, 60) < 60 || fail("$name: the sleeper sleeps on") || die;
    return is($sleeper->{output}, "$output\n", $name);
}

# No job is lost and claimed again during the test, even on a slow machine.
work(q{SELECT jobq_create_queue(queue, heartbeat_timeout => '1 day') FROM unnest('{a,b,c,d}'::text[]) queue});

my ($first, $second, $third, $fourth) = my @four = map { sleeper($node) } 1 .. 4;

# ---- one job wakes up one session

for my $queue (qw(a b c))
{
    waits($_, 'a,b,c', 1) for @four;
    enqueue($queue);
    gets($first, $queue, "a job in $queue wakes up the session that has waited longest");
    ok(!(grep { ended($_) } $second, $third, $fourth), 'and no other session');
    enqueue(qw(c b a));
    becomes_true($node, 'work', q{SELECT NOT EXISTS (SELECT FROM jobq.jobs WHERE status = 'pending')}, 'three jobs in one commit are claimed');
    seconds_to_end($_, 60) for $second, $third, $fourth;
    is(join(' ', sort map { $_->{output} =~ s/\n//r } $second, $third, $fourth), 'a b c', 'each of the other sessions gets one of them');
}

# ---- overlapping sets of queues, and sessions that wait for one queue

waits($first, 'a,b', 1);
waits($second, 'b,c', 1);
enqueue('c');
gets($second, 'c', 'a job wakes up the session that waits for its queue');
enqueue('b');
gets($first, 'b', 'a job of a queue of both sessions wakes up the session that still sleeps');

waits($first, 'a,b', 1);
start($second, q{CALL jobq_wait('a', '1 hour')}, q{SELECT queue FROM jobq_claim('a')});
asleep($second);
enqueue('a');
gets($second, 'a', 'the session that waits only for the queue comes first');
enqueue('a');
gets($first, 'a', 'the next job wakes up the session that waits for several queues');

# ---- jobs that the woken session does not claim are passed on

waits($first, 'a,b', 10, claim_any(q{'{a}'}));
waits($second, 'b,c', 1);
enqueue('a', 'b');
gets($first, 'a', 'a worker claims from one of its queues');
gets($second, 'b', 'the job of the other queue wakes up another session');

waits($first, 'a,b', 10, q{SELECT queue FROM jobq_claim('b')});
start($second, q{CALL jobq_wait('a', '1 hour')}, q{SELECT queue FROM jobq_claim('a')});
asleep($second);
kill 'STOP', $second->{pid};
enqueue('a', 'b', 'a');
kill 'CONT', $second->{pid};
gets($first, 'b', 'a worker claims from one queue after it has waited for two');
gets($second, 'a', 'the job of the other queue wakes up a session that waits for this queue');
$other->query(claim_any(q{'{a,b}', batch => 10}));

waits($first, 'a,b', 10, claim_any(q{'{a,b}'}));
waits($second, 'b,c', 1);
enqueue('a', 'b');
gets($first, 'a', 'a claim takes as many jobs as it wants from its first queue');
gets($second, 'b', 'and wakes up a session for the job in the queue that it has not read');

waits($first, 'a,b', 10, claim_any(q{'{a,b}', batch => 10, batches => '{1,1}'}));
waits($second, 'a,b', 10);
enqueue('a', 'a', 'b');
gets($first, 'a b', 'a claim takes as many jobs of a queue as it may');
gets($second, 'a', 'and wakes up a session for the rest');

for my $end (qw(pg_cancel_backend pg_terminate_backend))
{
    my $victim = sleeper($node);
    waits($victim, 'a,b', 10, 'SELECT 1');
    waits($first, 'a,c', 10);
    waits($second, 'b,c', 10);
    kill 'STOP', $victim->{pid};
    enqueue('a', 'b');
    work("SELECT $end($victim->{pid})");
    kill 'CONT', $victim->{pid};
    gets($first, 'a', "$end: the job of one queue wakes up another session");
    gets($second, 'b', "$end: so does the job of the other queue");
    $end eq 'pg_cancel_backend' ? $victim->{session}->quit : eval { $victim->{session}{run}->kill_kill; };
}

# ---- claims that name only some of the queues of the wait

for my $claim (q{jobq_claim('a', batch => 10)}, q{jobq_claim_any('{a}', batch => 10)})
{
    # The first worker leaves jobs in both queues to the second worker, because it has waited for the same queues.
    waits($first, 'a,b', 10, claim_any(q{'{a,b}'}));
    waits($second, 'a,b', 10, "SELECT string_agg(queue, ' ') FROM $claim");
    waits($third, 'b,c', 1);
    enqueue('a', 'a', 'b');
    gets($first, 'a', 'a claim takes one of three jobs');
    gets($second, 'a', "$claim takes the next one");
    gets($third, 'b', 'and wakes up a session for the queue that it does not name');
}

# The claim of the first worker lasts until the third worker has claimed one of its two jobs and has left the other one to the first worker.
work(q{CREATE FUNCTION linger() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    PERFORM pg_advisory_lock(1);
    WHILE NOT EXISTS (SELECT FROM pg_locks WHERE locktype = 'advisory' AND objid = 2) LOOP PERFORM pg_sleep(0.001); END LOOP;
    PERFORM pg_advisory_unlock(1);
    RETURN NEW;
END $$;
CREATE TRIGGER linger BEFORE UPDATE ON jobq.jobs FOR EACH ROW
    WHEN (NEW.kind = 'lingers' AND NEW.status = 'processing' AND OLD.status = 'pending') EXECUTE FUNCTION linger()});
for my $claim (q{jobq_claim('a')}, q{jobq_claim_any('{a}')}, q{jobq_claim('a')}, q{jobq_claim_any('{a}')})
{
    start($first, qq{DO \$\$ BEGIN CALL jobq_wait_any('{a,b}', '1 hour', batch => 10); PERFORM FROM $claim; END \$\$});
    asleep($first);
    start($third, q{DO $$ BEGIN CALL jobq_wait_any('{b,c}', '1 hour', batch => 10); PERFORM FROM jobq_claim_any('{b,c}'); END $$});
    asleep($third);
    waits($fourth, 'b,d', 1);
    $other->query(q{DO $$ DECLARE held bigint; BEGIN
        SELECT count(*) INTO held FROM jobq.jobs WHERE status = 'processing';
        PERFORM jobq_enqueue('a', kind => 'lingers');
        COMMIT;
        WHILE NOT EXISTS (SELECT FROM pg_locks WHERE locktype = 'advisory' AND objid = 1) LOOP PERFORM pg_sleep(0.001); END LOOP;
        PERFORM jobq_enqueue('b'), jobq_enqueue('b');
        COMMIT;
        WHILE (SELECT count(*) FROM jobq.jobs WHERE status = 'processing') = held LOOP PERFORM pg_sleep(0.001); COMMIT; END LOOP;
        PERFORM pg_advisory_lock(2);
    END $$});
    ok(seconds_to_end($_, 60) < 60, "$claim: a worker ends its claim") for $first, $third;
    gets($fourth, 'b', 'a job that another claim has left to this claim wakes up a session');
    $other->query('SELECT pg_advisory_unlock(2)');
}
work(q{DROP TRIGGER linger ON jobq.jobs; DROP FUNCTION linger});

# ---- claims that are rolled back

enqueue('a', 'b');
$other->query('BEGIN');
is($other->query(claim_any(q{'{a,b}', batch => 10})), 'a b', 'two jobs are claimed');
waits($first, 'a,c', 1);
waits($second, 'b,c', 1);
$other->query('ROLLBACK');
gets($first, 'a', 'ROLLBACK: the job of one queue wakes up a session');
gets($second, 'b', 'ROLLBACK: so does the job of the other queue');

# ---- pauses and limits

work(q{SELECT jobq_pause_queue('a')});
waits($first, 'a,b', 1);
enqueue('a');
sleeps_on($first, 'a job of a paused queue wakes up no session');
work(q{SELECT jobq_resume_queue('a')});
gets($first, 'a', 'jobq_resume_queue wakes up the session');
work(q{SELECT jobq_set_limit('limited', max_running => 1)});
enqueue('limited', 'limited');
is($other->query(q{CREATE TEMP TABLE held AS SELECT id, lease FROM jobq_claim('limited', batch => 10); SELECT count(*) FROM held}), '1', 'the limit is reached');
waits($first, 'a,limited', 1);
$other->query(q{SELECT count(jobq_complete(id, lease)) FROM held});
gets($first, 'limited', 'a released slot wakes up the session');

# ---- patterns

for my $sleeper ($first, $second)
{
    start($sleeper, wait_any(q{patterns => '{new%}'}), claim_any(q{patterns => '{new%}'}));
    asleep($sleeper);
}
enqueue('news', 'old');
becomes_true($node, 'work', q{SELECT NOT EXISTS (SELECT FROM jobq.jobs WHERE queue = 'news' AND status = 'pending')}, 'a job in a new queue is claimed');
my ($woken) = grep { seconds_to_end($_, 1) < 1 } $first, $second;
my ($asleep) = grep { !ended($_) } $first, $second;
ok($woken && $asleep, 'the new queue wakes up one of two sessions');
enqueue('newer');
gets($asleep, 'newer', 'the next new queue wakes up the other session');
work(q{SELECT count(*) FROM jobq_claim('old')});

start($first, wait_any(q{queues => '{news}', patterns => '{new%}', batches => '{0,1}'}), claim_any(q{'{news}', patterns => '{new%}', batches => '{0,1}'}));
asleep($first);
enqueue('news');
sleeps_on($first, 'a job of an excluded queue wakes up no session');
enqueue('newest');
gets($first, 'newest', 'a job of another queue that matches the pattern does');
work(q{SELECT count(*) FROM jobq_claim('news')});

# A session that excludes a pattern does not wait for the same queues as a session that does not exclude it.
for my $sleeper ([ $first, '{1,0}' ], [ $second, '{1,1}' ])
{
    my $arguments = "patterns => '{x%,y%}', batches => '$sleeper->[1]'";
    start($sleeper->[0], wait_any($arguments), claim_any($arguments));
    asleep($sleeper->[0]);
}
enqueue('y');
gets($second, 'y', 'a job of a new queue wakes up the session that does not exclude its pattern');
ok(!ended($first), 'and not the session that excludes it');
enqueue('x');
gets($first, 'x', 'a job of another pattern wakes up that session');
start($first, wait_any(q{patterns => '{z%,zz%,%}', batches => '{1,0,0}'}), claim_any(q{patterns => '{z%,zz%,%}', batches => '{1,0,0}'}));
asleep($first);
enqueue('zz');
gets($first, 'zz', 'the first pattern that matches a queue decides');

# ---- more queues than an entry of the list can contain

my $many = join ',', map { "many $_" } 1 .. 300;
for my $queue ('many 1', 'many 300')
{
    waits($first, $many, 1);
    enqueue($queue);
    gets($first, $queue, "a job of $queue of 300 wakes up the session");
}
enqueue(map { "many $_" } 1 .. 200);
$other->query(q{SELECT count(*) FROM jobq_claim_any(patterns => '{many%}', batch => 1000)});
start($first, wait_any(q{patterns => '{many%}'}), claim_any(q{patterns => '{many%}'}));
asleep($first);
enqueue('many 199');
gets($first, 'many 199', 'a job of one of 200 queues that match a pattern wakes up the session');

# ---- the lookout

for my $round (1 .. 3)
{
    # A session becomes the lookout after two useless wake-ups.
    for (1 .. 2)
    {
        waits($first, 'a,b,c', 1);
        kill 'STOP', $first->{pid};
        enqueue('a');
        work(q{SELECT count(*) FROM jobq_claim('a')});
        kill 'CONT', $first->{pid};
        gets($first, 'none', 'another session has claimed the job');
    }
    my @others = ($second, $third, $fourth);
    waits($_, 'a,b,c', 1) for @others;
    my %before = map { ($_ => sleeps($others[$_])) } 0 .. 2;
    # While the session is the lookout, which is a moment if no other session relies on it, the commit of a job relies on it.
    start($first, wait_any(q{queues => '{a,b,c}'}), claim_any(q{'{a,b,c}'}));
    $other->query(qq{DO \$\$ BEGIN
        WHILE NOT EXISTS (SELECT FROM pg_stat_activity WHERE pid = $first->{pid} AND wait_event IN ('JobqWait', 'Extension')) LOOP COMMIT; END LOOP;
        PERFORM jobq_enqueue('b');
    END \$\$});
    becomes_true($node, 'work', q{SELECT NOT EXISTS (SELECT FROM jobq.jobs WHERE queue = 'b' AND status = 'pending')}, 'a session claims the job');
    SKIP:
    {
        skip 'each session scans the table once a second', 1 unless $ENV{JOBQ_FAULTS};
        usleep(200_000);
        my @woken = grep { sleeps($others[$_]) > $before{$_} && !ended($others[$_]) } 0 .. 2;
        cmp_ok(scalar @woken, '<=', 1, 'when the lookout leaves, at most one of the other sessions scans the table');
    }
    my @left = grep { !ended($_) } $first, @others;
    enqueue(('c') x @left);
    ok(seconds_to_end($_, 60) < 60, 'each of the other sessions gets a job') for @left;
}

# ---- grants

work(q{CREATE ROLE worker; SELECT jobq_grant('worker', 'worker', queues => '{a}')});
start($first, q{SET ROLE worker}, wait_any(q{patterns => '{%}'}) . ';' . claim_any(q{patterns => '{%}'}));
asleep($first);
enqueue('b');
sleeps_on($first, 'a job of a queue that the role was not granted wakes up no session');
work(q{SELECT jobq_grant('worker', 'worker', queues => '{b}')});
SKIP:
{
    skip 'without periodic scans, a grant does not wake up a session', 1 if $ENV{JOBQ_FAULTS};
    gets($first, 'b', 'the session notices a new grant');
}
work("SELECT pg_cancel_backend($first->{pid})") unless ended($first);
seconds_to_end($first, 60);
$first->{session}->query('RESET ROLE');
$first->{session}{stderr} = '';
work(q{SELECT count(*) FROM jobq_claim('b')});

# ---- a worker that claims in another session, and jobq_wake

start($first, wait_any(q{queues => '{a,b}', worker_id => 'roams', batch => 10}));
asleep($first);
waits($second, 'a,b', 1);
enqueue('b');
ok(seconds_to_end($first, 60) < 60, 'the wait of the worker ends');
is($other->query(claim_any(q{'{a,b}', 'roams', 10})), 'b', 'the worker claims in another session');
enqueue('a');
gets($second, 'a', 'a later job is not reserved for it');

start($first, wait_any(q{queues => '{a,b}', worker_id => 'stops'}));
asleep($first);
is(work(q{SELECT jobq_wake('stops')}), '1', 'jobq_wake ends the wait');
ok(seconds_to_end($first, 60) < 60, 'at once');

# ---- jobq_explain and the metric count sessions that wait for several queues

waits($first, 'a,b', 1);
start($second, q{CALL jobq_wait('a', '1 hour')});
asleep($second);
$other->query(q{BEGIN; SELECT jobq_enqueue('a', run_at => now() + interval '1 day'); COMMIT});
is(work(q{SELECT string_agg(labels->>'queue' || ' ' || value, ', ' ORDER BY labels->>'queue' COLLATE "C") FROM jobq_metrics() WHERE name = 'jobq_waiting_sessions'}),
    'a 2, b 1', 'the metric counts the session for each of its queues');
work(q{SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE query ~* '^call jobq_wait'});
seconds_to_end($_, 60) for $first, $second;
$_->{session}{stderr} = '' for $first, $second;
work(q{DELETE FROM jobq.jobs});

# ---- random load: sessions wait for overlapping sets of queues, and no session sleeps while there is a job that it could claim

work(q{CREATE TABLE stop (now boolean); INSERT INTO stop VALUES (false)});
my @sets = (
    q{queues => '{q1,q2,q3}'}, q{queues => '{q3,q4}'}, q{queues => '{q5,q1}'}, q{patterns => '{q%}'},
    q{queues => '{q2}', patterns => '{q_,n%}'}, q{queues => '{q4,q5,q6}', patterns => '{n%}'}, q{queues => '{q6}'}, q{patterns => '{%}'},
);
my @workers = map { sleeper($node) } @sets;
for my $number (0 .. $#workers)
{
    my $batch = (1, 1, 5, 20)[ $number % 4 ];
    my $undoes = $number % 2 ? 'true' : 'false';
    my $order = $number % 3 == 1 ? ', oldest_first => true' : '';
    start($workers[$number], qq{DO \$\$ DECLARE taken int; BEGIN LOOP
        CALL jobq_wait_any(timeout => '1 hour', worker_id => 'random $number', batch => $batch, $sets[$number]);
        EXIT WHEN (SELECT now FROM stop);
        LOOP
            -- Sometimes fewer than the wait has said.
            SELECT count(jobq_complete(id, lease)) INTO taken
            FROM jobq_claim_any(worker_id => 'random $number', batch => 1 + (random() * ($batch - 1))::int, $sets[$number]$order);
            IF $undoes AND random() < 0.1 THEN ROLLBACK; ELSE COMMIT; END IF;
            -- Sometimes it waits again before the queues are empty.
            EXIT WHEN taken = 0 OR random() < 0.3;
        END LOOP;
    END LOOP; END \$\$});
}
asleep(@workers);
my $rounds = 300;
$other->query(qq{DO \$\$ BEGIN FOR i IN 1 .. $rounds LOOP
    PERFORM jobq_enqueue(CASE WHEN random() < 0.05 THEN 'n' || i ELSE 'q' || (1 + random() * 5)::int END)
    FROM generate_series(1, 1 + (random() * random() * 20)::int);
    COMMIT;
    PERFORM pg_sleep(random() * 0.01) WHERE random() < 0.7;
    COMMIT;
END LOOP; END \$\$});
becomes_true($node, 'work', q{SELECT NOT EXISTS (SELECT FROM jobq.jobs WHERE status = 'pending')}, 'all jobs of sessions with overlapping sets of queues are claimed');

# Commits of one job each: workers that are awake claim most jobs, so that a sleeper becomes the lookout.
$other->query(q{DO $$ BEGIN FOR burst IN 1 .. 60 LOOP
    FOR i IN 1 .. 40 LOOP
        PERFORM jobq_enqueue('q' || (1 + random() * 5)::int);
        COMMIT;
    END LOOP;
    FOR i IN 1 .. 60000 LOOP
        EXIT WHEN NOT EXISTS (SELECT FROM jobq.jobs WHERE status = 'pending');
        PERFORM pg_sleep(0.001);
        COMMIT;
    END LOOP;
END LOOP; END $$});
becomes_true($node, 'work', q{SELECT NOT EXISTS (SELECT FROM jobq.jobs WHERE status = 'pending')}, 'the last job of each burst is claimed');

# One job at a time, while all sessions sleep.
for my $round (1 .. 60)
{
    asleep(@workers) if $round % 10 == 1;
    enqueue('q' . (1 + $round % 6));
    my $done = q{SELECT NOT EXISTS (SELECT FROM jobq.jobs WHERE status = 'pending')};
    $round % 10 == 0 ? becomes_true($node, 'work', $done, "round $round: a single job is claimed") : $node->poll_query_until('work', $done);
}
work(q{UPDATE stop SET now = true});
work("SELECT jobq_wake('random $_')") for 0 .. $#workers;
ok(seconds_to_end($_, 60) < 60, 'each worker stops') for @workers;

end_sessions($other, map { $_->{session} } @four, @workers);
stops_fast($node);
done_testing();
