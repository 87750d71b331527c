# Tests jobq_wait with a batch: a commit wakes up only as many sleeping sessions as its jobs need, and no job is left while a
# session sleeps that could claim it.
#
# Each sleeping session also checks the table once a second, which hides lost wake-ups. The control sleepers_do_not_look runs this file
# with a library whose sessions check once an hour, where the test must pass. The controls left_jobs_not_told and
# lookout_does_not_scan run it with libraries that also lose wake-ups, where the test must fail.
use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/lib";

use JobqSleep;
use JobqTest;
use Test::More;

my $node = preloaded('wake_shares', conf => ['max_connections = 60']);
database($node, 'work');
my $other = session($node, 'work');
sub work { my ($sql) = @_; return value($node, 'work', $sql); }
sub enqueue { my ($queue, $jobs) = @_; return $other->query("SELECT count(*) FROM jobq_enqueue_many('$queue', array_fill('{}'::jsonb, ARRAY[$jobs]))"); }
sub claims { my ($queue, $batch, $more) = @_; return "SELECT count(*) FROM jobq_claim('$queue', batch => $batch" . ($more // '') . ')'; }

# Makes sessions wait one after the other, in this order, and then claim.
sub wait_in_order
{
    my ($queue, $batch, $then, @sleepers) = @_;
    for my $sleeper (@sleepers)
    {
        start($sleeper, "CALL jobq_wait('$queue', '1 hour', batch => $batch)", $then);
        asleep($sleeper);
    }
    return;
}

sub ends
{
    my ($sleeper, $name) = @_;
    local $Test::Builder::Level = $Test::Builder::Level + 1;
    # A session that still sleeps would disturb the rest of the test.
    return ok(seconds_to_end($sleeper, 60) < 60, $name) || die "the sleeper sleeps on\n";
}

my @crowd = map { sleeper($node) } 0 .. 7;

# ---- as few sessions as the jobs need are woken up

# The sessions claim once, so that they know the queue and their next claims are fast.
for my $sleeper (@crowd) { $sleeper->{session}->query(claims('shared', 1)); }
my $woken = 0;
my $rounds = 5;
for my $round (1 .. $rounds)
{
    wait_in_order('shared', 10, claims('shared', 10), @crowd);
    enqueue('shared', 20);
    my $done = q{SELECT NOT EXISTS (SELECT FROM jobq.jobs WHERE queue = 'shared' AND status = 'pending')};
    becomes_true($node, 'work', $done, "round $round: 20 jobs are claimed");
    # The other sessions still sleep. A job for each ends their waits.
    my @asleep = grep { !ended($_) } @crowd;
    $woken += @crowd - @asleep;
    enqueue('shared', 10) for @asleep;
    ends($_, 'each wait ends') for @crowd;
    work(q{DELETE FROM jobq.jobs WHERE queue = 'shared'});
}
diag("$woken sleepers were woken for $rounds times 20 jobs in batches of 10");
cmp_ok($woken, '>=', 2 * $rounds, 'two batches wake up two sessions or more');
cmp_ok($woken, '<=', 4 * $rounds, 'but not all eight');

# ---- a claim that takes fewer jobs than its wait has announced

my ($first, $second, $third, $fourth) = @crowd;
wait_in_order('less', 10, claims('less', 1), $first, $second, $third);
enqueue('less', 3);
ends($_, 'a claim that leaves jobs wakes the next sleeper') for $first, $second, $third;
is(join(' ', map { $_->{output} } $first, $second, $third), "1\n 1\n 1\n", 'each session gets a job');

wait_in_order('less', 1, claims('less', 1), $second, $third);
enqueue('less', 1);
ends($second, 'a job wakes up the session that has waited longest');
ok(!ended($third), 'and no other session');
# Claimed by a session that has not waited.
$other->query(q{BEGIN; SELECT jobq_enqueue('less'), jobq_enqueue('less')});
is($other->query(claims('less', 1)), '1', 'a session claims one of its two new jobs');
$other->query('COMMIT');
ends($third, 'the other job wakes up the next session');

# ---- sessions that are woken up and do not claim

for my $end (qw(pg_cancel_backend pg_terminate_backend))
{
    my $victim = sleeper($node);
    wait_in_order('kept', 10, undef, $victim);
    wait_in_order('kept', 1, claims('kept', 1), $second, $third, $fourth);
    kill 'STOP', $victim->{pid};
    enqueue('kept', 3);
    work("SELECT $end($victim->{pid})");
    kill 'CONT', $victim->{pid};
    ends($_, "$end: the jobs wake up other sessions") for $second, $third, $fourth;
    is(join(' ', map { $_->{output} } $second, $third, $fourth), "1\n 1\n 1\n", 'each of three sessions gets a job');
    $end eq 'pg_cancel_backend' ? $victim->{session}->quit : eval { $victim->{session}{run}->kill_kill; };
}

# A worker whose wait has ended and whose session is terminated before it claims.
my $victim = sleeper($node);
wait_in_order('idle', 10, undef, $victim);
wait_in_order('idle', 10, claims('idle', 10), $second);
enqueue('idle', 3);
ends($victim, 'the wait ends');
work("SELECT pg_terminate_backend($victim->{pid})");
ends($second, 'terminated before the claim: the jobs wake up another session');
is($second->{output}, "3\n", 'it gets all of them');
eval { $victim->{session}{run}->kill_kill; };

wait_in_order('filter', 10, claims('filter', 10, q{, kinds => '{other}'}), $first);
wait_in_order('filter', 10, claims('filter', 10), $second);
enqueue('filter', 2);
ends($first, 'a worker claims with another filter than that of its wait');
is($first->{output}, "0\n", 'it gets nothing');
ends($second, 'the jobs wake up another session');
is($second->{output}, "2\n", 'it gets all of them');

wait_in_order('filter', 10, q{CALL jobq_wait('elsewhere', '0 s')}, $first);
wait_in_order('filter', 10, claims('filter', 10), $second);
enqueue('filter', 2);
ends($first, 'a worker waits for another queue instead of claiming');
ends($second, 'the jobs wake up another session');

# The first claim fails because the table is locked.
my $locks = session($node, 'work');
wait_in_order('fails', 10, q{SET lock_timeout = '10 ms'; } . claims('fails', 10) . '; RESET lock_timeout', $first);
wait_in_order('fails', 10, undef, $second);
kill 'STOP', $first->{pid}, $second->{pid};
enqueue('fails', 2);
$locks->query(q{BEGIN; LOCK TABLE jobq.jobs IN SHARE MODE});
kill 'CONT', $first->{pid}, $second->{pid};
ends($first, 'the claim of a woken session fails');
like($first->{session}{stderr}, qr/lock timeout/, 'because of a lock');
$first->{session}{stderr} = '';
ends($second, 'the job wakes up another session');
$locks->query('COMMIT');

# ---- claims that are rolled back

for my $way ([ 'BEGIN', 'ROLLBACK' ], [ 'BEGIN; SAVEPOINT s', 'ROLLBACK TO s' ])
{
    enqueue('undone', 2);
    $other->query($way->[0]);
    is($other->query(claims('undone', 2)), '2', 'two jobs are claimed');
    wait_in_order('undone', 1, claims('undone', 1), $first, $second);
    $other->query($way->[1]);
    ends($_, "$way->[1]: a job that is claimable again wakes up a session") for $first, $second;
    is("$first->{output}$second->{output}", "1\n1\n", 'and the session gets the job');
    $other->query('COMMIT') if $way->[1] ne 'ROLLBACK';
}

# ---- limits and pauses

work(q{SELECT jobq_set_limit('limited', max_running => 2)});
enqueue('limited', 6);
is($other->query(q{CREATE TEMP TABLE held AS SELECT id, lease FROM jobq_claim('limited', batch => 10); SELECT count(*) FROM held}), '2', 'the limit is reached');
wait_in_order('limited', 1, claims('limited', 1), $first, $second, $third);
$other->query(q{SELECT count(jobq_complete(id, lease)) FROM held});
becomes_true($node, 'work', q{SELECT count(*) = 2 FROM jobq.jobs WHERE queue = 'limited' AND status = 'processing'}, 'two released slots wake up two sessions');
ends($first, 'the first session');
ends($second, 'the second session');
work(q{UPDATE jobq.jobs SET status = 'completed' WHERE queue = 'limited' AND status = 'processing'});
ends($third, 'another released slot wakes up the third session');

work(q{SELECT jobq_pause_queue('paused')});
enqueue('paused', 2);
wait_in_order('paused', 1, claims('paused', 1), $first, $second);
work(q{SELECT jobq_resume_queue('paused')});
ends($_, 'jobq_resume_queue wakes up the sessions') for $first, $second;

# ---- a worker that claims in another session, as with a connection pooler

start($first, q{CALL jobq_wait('pooled', '1 hour', worker_id => 'roams', batch => 10)});
asleep($first);
wait_in_order('pooled', 1, claims('pooled', 1), $second);
for my $round (1, 2)
{
    my $sleeper = $round == 1 ? $first : $second;
    enqueue('pooled', 1);
    ends($sleeper, $round == 1 ? 'the wait of the worker ends' : 'a later job is not reserved for it');
    is($other->query(q{SELECT count(*) FROM jobq_claim('pooled', 'roams', 10)}), '1', 'the worker claims in another session') if $round == 1;
}

# ---- arguments of jobq_wait

is(sqlstate($node, 'work', "CALL jobq_wait('q', '0 s', batch => $_)"), $_ eq 'NULL' ? '22004' : '22023', "batch $_") for qw(0 -1 NULL);
is(sqlstate($node, 'work', q{CALL jobq_wait('q', '0 s', batch => 2147483647)}), '00000', 'a batch may be larger than a claim allows');

# ---- random load: no session sleeps while there is a job that it could claim

work(q{CREATE TABLE stop (now boolean); INSERT INTO stop VALUES (false)});
my $rounds_each = 400;
my @workers = map { sleeper($node) } 1 .. 8;
for my $number (0 .. $#workers)
{
    my $batch = (1, 1, 5, 20)[ $number % 4 ];
    my $undoes = $number % 2 ? 'true' : 'false';
    my $kinds = $number % 3 == 2 ? q{, kinds => '{a}'} : '';
    start($workers[$number], qq{DO \$\$ DECLARE taken int; BEGIN LOOP
        CALL jobq_wait('random', '1 hour', worker_id => 'random $number', batch => $batch$kinds);
        EXIT WHEN (SELECT now FROM stop);
        LOOP
            -- Sometimes fewer than the wait has said.
            SELECT count(jobq_complete(id, lease)) INTO taken FROM jobq_claim('random', 'random $number', 1 + (random() * ($batch - 1))::int$kinds);
            IF $undoes AND random() < 0.1 THEN ROLLBACK; ELSE COMMIT; END IF;
            -- Sometimes it waits again before the queue is empty.
            EXIT WHEN taken = 0 OR random() < 0.3;
        END LOOP;
    END LOOP; END \$\$});
}
asleep(@workers);
$other->query(qq{DO \$\$ BEGIN FOR i IN 1 .. $rounds_each LOOP
    PERFORM count(*) FROM jobq_enqueue_many('random', array_fill('{}'::jsonb, ARRAY[1 + (random() * random() * 40)::int]), CASE WHEN random() < 0.5 THEN 'a' ELSE '' END);
    COMMIT;
    PERFORM pg_sleep(random() * 0.01) WHERE random() < 0.7;
    COMMIT;
END LOOP; END \$\$});
becomes_true($node, 'work', q{SELECT NOT EXISTS (SELECT FROM jobq.jobs WHERE queue = 'random' AND status = 'pending')}, 'all jobs of eight sleepers are claimed');
sub stop_workers
{
    my ($name) = @_;
    work(q{UPDATE stop SET now = true});
    work("SELECT jobq_wake('$name $_')") for 0 .. $#workers;
    ends($_, "each worker $name stops") for @workers;
    work(q{UPDATE stop SET now = false});
    return;
}
stop_workers('random');

# ---- many commits of one job each: workers that are awake claim most jobs, so that a sleeper becomes the lookout

for my $number (0 .. $#workers)
{
    start($workers[$number], qq{DO \$\$ BEGIN LOOP
        CALL jobq_wait('single', '1 hour', worker_id => 'single $number');
        EXIT WHEN (SELECT now FROM stop);
        LOOP
            PERFORM jobq_complete(id, lease) FROM jobq_claim('single', 'single $number');
            EXIT WHEN NOT FOUND;
            COMMIT;
        END LOOP;
    END LOOP; END \$\$});
}
asleep(@workers);
my $producer = sleeper($node);
start($producer, q{DO $$ BEGIN FOR burst IN 1 .. 100 LOOP
    FOR i IN 1 .. 40 LOOP
        PERFORM jobq_enqueue('single');
        COMMIT;
    END LOOP;
    WHILE EXISTS (SELECT FROM jobq.jobs WHERE queue = 'single' AND status = 'pending') LOOP
        PERFORM pg_sleep(0.001);
        COMMIT;
    END LOOP;
END LOOP; END $$});
ends($producer, 'sleepers claim the last job of each burst');
stop_workers('single');

end_sessions($other, $locks, map { $_->{session} } $producer, @workers);
stops_fast($node);
done_testing();
