# jobq_wait and NOTIFY: who is woken by what, who is not, what a sleeping session holds, and how it ends.
use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/lib";

use JobqSleep;
use JobqTest;
use JobqTime;
use Test::More;
use Time::HiRes qw(time usleep);

my $node = preloaded('waits', conf => [ 'max_prepared_transactions = 10', 'max_connections = 60' ]);
database($node, 'work');
my $other = session($node, 'work');
sub enqueue { my ($arguments) = @_; return $other->query("SELECT jobq_enqueue($arguments)"); }

# Claims everything, so that nothing is left that a look could find.
sub clear { my ($queue) = @_; return $other->query("SELECT count(*) FROM jobq_claim('$queue', 'clearer', 1000, capabilities => '{gpu}')"); }

my ($one, $two) = map { sleeper($node) } 1 .. 2;

# ---- a commit wakes, and not before

start($one, q{CALL jobq_wait('q', '3 min')}, q{SELECT kind FROM jobq_claim('q', 'one')});
asleep($one);
is(value($node, 'work', "SELECT backend_xmin IS NULL AND backend_xid IS NULL FROM pg_stat_activity WHERE pid = $one->{pid}"),
    't', 'a sleeper has neither snapshot nor transaction id');
is(value($node, 'work', "SELECT count(*) FROM pg_locks WHERE pid = $one->{pid} AND locktype <> 'virtualxid'"), '0', 'nor locks');
$other->query('BEGIN');
enqueue(q{'q', kind => 'first'});
sleeps_on($one, 'an enqueue alone wakes nobody');
$other->query('COMMIT');
wakes($one, 'its commit does');
is($one->{output}, "first\n", 'and the job is there');
start($one, q{CALL jobq_wait('q', '3 min')});
asleep($one);
$other->query(q{BEGIN; SELECT jobq_enqueue('q'); ROLLBACK});
sleeps_on($one, 'a rollback wakes nobody');
enqueue(q{'another'});
sleeps_on($one, 'nor does another queue');
enqueue(q{'q'});
wakes($one, 'the next commit does');
start($one, q{CALL jobq_wait('q', '3 min')});
wakes($one, 'a job that is there already ends the call at once');
clear('q');

# ---- what else makes jobs claimable

my %ways = (
    'a plain INSERT' => q{INSERT INTO jobq.jobs (queue) VALUES ('ways')},
    'jobq_enqueue_many' => q{SELECT count(*) FROM jobq_enqueue_many('ways', '{1}')},
    'jobq_release' => q{SELECT jobq_release(id, lease) FROM jobq.jobs WHERE id = (SELECT max(id) FROM jobq.jobs WHERE status = 'processing')},
    'jobq_fail without delay' => q{SELECT jobq_fail(id, lease, retry_in => '0') FROM jobq.jobs WHERE id = (SELECT max(id) FROM jobq.jobs WHERE status = 'processing')},
    'an UPDATE of the status' => q{UPDATE jobq.jobs SET status = 'pending' WHERE id = (SELECT max(id) FROM jobq.jobs WHERE status = 'processing')});
for my $way (sort keys %ways)
{
    enqueue(q{'ways'});
    clear('ways');
    start($one, q{CALL jobq_wait('ways', '3 min')});
    asleep($one);
    $other->query($ways{$way});
    wakes($one, "woken by $way");
    clear('ways');
}

start($one, q{CALL jobq_wait('later', '3 min')}, q{SELECT round(extract(epoch FROM clock_timestamp() - run_at) * 1000) FROM jobq_claim('later')});
asleep($one);
enqueue(q{'later', run_at => clock_timestamp() + interval '700 ms'});
cmp_ok(seconds_to_end($one), '>', 0.4, 'a delayed job wakes nobody before its time');
like($one->{output}, qr/^\d+\n$/, 'but when it is promoted');
diag("ms from run_at to the claim: $one->{output}");

value($node, 'work', q{BEGIN; SELECT jobq_enqueue('prepared', kind => 'new'); PREPARE TRANSACTION 'jobs'});
start($one, q{CALL jobq_wait('prepared', '3 min')});
asleep($one);
value($node, 'work', q{COMMIT PREPARED 'jobs'});
wakes($one, 'woken by COMMIT PREPARED in another session');

# ---- as many as there are jobs, the longest waiting first

my @crowd = map { sleeper($node) } 1 .. 5;
for my $round ('a queue nobody has used', 'a queue in use')
{
    for my $sleeper (@crowd)
    {
        start($sleeper, q{CALL jobq_wait('crowd', '3 min')}, q{SELECT count(*) FROM jobq_claim('crowd')});
        asleep($sleeper);
    }
    $other->query(q{SELECT count(*) FROM jobq_enqueue_many('crowd', '{1,2}')});
    wakes($_, "$round: two jobs wake the two that wait longest") for @crowd[ 0, 1 ];
    becomes_true($node, 'work', q{SELECT NOT EXISTS (SELECT FROM jobq.jobs WHERE queue = 'crowd' AND status = 'pending')}, 'both jobs are claimed');
    # If the second is slow to claim, the claim of the first wakes one more.
    my @asleep = grep { !ended($_) } @crowd[ 2 .. 4 ];
    cmp_ok(scalar @asleep, '>=', 2, 'and not the others');
    enqueue(q{'crowd'}) for @asleep;
    wakes($_, 'a commit for each of the others wakes them') for @asleep;
}

# ---- only who may take the job

start($one, q{CALL jobq_wait('kinds', '3 min', kinds => '{mail}')});
start($two, q{CALL jobq_wait('kinds', '3 min', kinds => '{sms}', versions => '{0}')});
asleep($one, $two);
enqueue(q{'kinds', kind => 'fax'});
enqueue(q{'kinds', kind => 'sms', options => '{"version": 1}'});
sleeps_on($_, 'jobs of kinds that are new, and that nobody asked for') for $one, $two;
my @before = map { sleeps($_) } $one, $two;
$other->query(q{DO $$ BEGIN FOR i IN 1..2000 LOOP PERFORM jobq_enqueue('kinds', kind => 'fax'); COMMIT; END LOOP; END $$});
usleep(200_000);
cmp_ok(sleeps($one) - $before[0], '<', 30, 'a backlog of another kind does not keep it busy');
cmp_ok(sleeps($two) - $before[1], '<', 30, 'nor the other');
ok(!ended($one) && !ended($two), 'both sleep on');
enqueue(q{'kinds', kind => 'sms'});
wakes($two, 'a new kind wakes who asked for it');
ok(!ended($one), 'and nobody else');
enqueue(q{'kinds', kind => 'mail'});
wakes($one, 'the other kind the other');

start($one, q{CALL jobq_wait('able', '3 min')});
start($two, q{CALL jobq_wait('able', '3 min', capabilities => '{gpu,disk}')});
asleep($one, $two);
enqueue(q{'able', options => '{"requires": ["tape"]}'});
sleeps_on($_, 'a job that neither can do') for $one, $two;
enqueue(q{'able', options => '{"requires": ["gpu"]}'});
wakes($two, 'a capability');
ok(!ended($one), 'that only one has');
enqueue(q{'able'});
wakes($one, 'a job without requirements');

# More kinds than are kept in shared memory.
my $kinds = join ',', map { "kind$_" } 1 .. 40;
start($one, "CALL jobq_wait('wide', '3 min', kinds => '{$kinds}')");
asleep($one);
enqueue(q{'wide', kind => 'no'});
sleeps_on($one, 'a wide filter is still a filter');
enqueue(q{'wide', kind => 'kind40'});
wakes($one, 'and finds what it wants');

# ---- paused queues

enqueue(q{'paused'});
$other->query(q{SELECT jobq_pause_queue('paused')});
start($one, q{CALL jobq_wait('paused', '3 min')});
sleeps_on($one, 'a paused queue counts as empty');
asleep($one);
enqueue(q{'paused'});
sleeps_on($one, 'whatever comes in');
$other->query(q{SELECT jobq_resume_queue('paused')});
wakes($one, 'until it is resumed');
clear('paused');
start($one, q{CALL jobq_wait('paused', '3 min')});
asleep($one);
$other->query(q{SELECT jobq_pause_queue('paused')});
enqueue(q{'paused'});
sleeps_on($one, 'a pause reaches who sleeps already');
$other->query(q{UPDATE jobq.queue_settings SET paused = false WHERE queue = 'paused'});
wakes($one, 'and so does an UPDATE of the settings');

# ---- jobs that somebody holds

enqueue(q{'held'});
$other->query(q{BEGIN; SELECT id FROM jobq.jobs WHERE queue = 'held' FOR UPDATE});
start($one, q{CALL jobq_wait('held', '3 min')});
sleeps_on($one, 'a job that a transaction holds is not claimable');
$before[0] = sleeps($one);
usleep(1_000_000);
cmp_ok(sleeps($one) - $before[0], '<', 30, 'and does not keep the sleeper busy');
$other->query('ROLLBACK');
in_time(seconds_to_end($one, 10), 2, 'when the transaction has gone, it is');

# A worker that does not take what it is told of.
my $begin = time;
$one->{session}->query(q{CALL jobq_wait('held', '1 s')}) for 1 .. 10;
cmp_ok(time - $begin, '>', 0.2, 'who comes again and again for the same job is slowed down');

# ---- a wake-up that is not used goes to another

for my $end ('a cancelled', 'a terminated', 'a lost')
{
    my $first = sleeper($node);
    start($first, q{CALL jobq_wait('handed', '3 min')});
    asleep($first);
    start($two, q{CALL jobq_wait('handed', '3 min')}, q{SELECT count(*) FROM jobq_claim('handed')});
    asleep($two);
    kill 'STOP', $first->{pid};
    enqueue(q{'handed'});
    if ($end eq 'a lost')
    {
        $first->{session}{run}->signal('KILL');
        usleep(100_000);
    }
    else
    {
        my $call = $end eq 'a cancelled' ? 'pg_cancel_backend' : 'pg_terminate_backend';
        value($node, 'work', "SELECT $call($first->{pid})");
    }
    kill 'CONT', $first->{pid};
    wakes($two, "$end sleeper hands its wake-up on");
    is($two->{output}, "1\n", 'and the job is not left lying');
    $first->{session}->quit if $end eq 'a cancelled';
    eval { $first->{session}{run}->kill_kill; } unless $end eq 'a cancelled';
}

# ---- none is lost: a look a second later would find the job, and take that long

my $work = q{DO $$ DECLARE job record; BEGIN LOOP
    CALL jobq_wait('stress', '3 min');
    LOOP
        SELECT * INTO job FROM jobq_claim('stress');
        EXIT WHEN NOT FOUND;
        PERFORM jobq_complete(job.id, job.lease);
        COMMIT;
        IF job.kind = 'stop' THEN RETURN; END IF;
    END LOOP;
    COMMIT;
END LOOP; END $$};
start($_, $work) for $one, $two;
asleep($one, $two);
$other->query(q{DO $$ DECLARE worst float := 0; job bigint; began timestamptz; BEGIN
    FOR i IN 1 .. 400 LOOP
        began := clock_timestamp();
        job := jobq_enqueue('stress', kind => CASE WHEN i % 2 = 0 THEN 'same' ELSE 'new ' || i END);
        COMMIT;
        WHILE (SELECT j.status <> 'completed' FROM jobq.jobs j WHERE j.id = job) LOOP PERFORM pg_sleep(0.0005); COMMIT; END LOOP;
        worst := greatest(worst, extract(epoch FROM clock_timestamp() - began));
        COMMIT;
    END LOOP;
    PERFORM set_config('waits.worst', worst::text, false), jobq_enqueue('stress', kind => 'stop') FROM generate_series(1, 2);
END $$});
my $worst = $other->query(q{SELECT current_setting('waits.worst')});
report_seconds('slowest of 400 jobs, half of them of a new kind', $worst);
in_time($worst, 0.8, 'none of 400 wake-ups was lost', 60);
wakes($_, 'and the workers stop') for $one, $two;

# ---- timeouts

$begin = time;
$one->{session}->query(q{CALL jobq_wait('empty', '0 s')});
in_time(time - $begin, $slack, 'zero looks once');
$begin = time;
$one->{session}->query(q{CALL jobq_wait('empty', '1.3 s')});
my $took = time - $begin;
cmp_ok($took, '>=', 1.25, 'a timeout is not over early');
in_time($took, 1.3 + $slack, 'nor late');
start($one, q{CALL jobq_wait('empty', '100000 years')});
asleep($one);
enqueue(q{'empty'});
wakes($one, 'a very long one too');
clear('empty');
is(sqlstate($node, 'work', q{SET statement_timeout = '300 ms'; CALL jobq_wait('empty', '3 min')}), '57014', 'statement_timeout ends it');

# ---- cancel and terminate

start($one, q{CALL jobq_wait('empty', '3 min')});
asleep($one);
$begin = time;
value($node, 'work', "SELECT pg_cancel_backend($one->{pid})");
in_time(seconds_to_end($one, 10), $slack, 'a cancel is answered at once');
like($one->{session}{stderr}, qr/canceling statement due to user request/, 'with the usual error');
$one->{session}{stderr} = '';
is($one->{session}->query('SELECT 1'), '1', 'and the session goes on');
start($one, q{CALL jobq_wait('empty', '3 min')});
asleep($one);
enqueue(q{'empty'});
wakes($one, 'and waits again');
clear('empty');
my $victim = sleeper($node);
start($victim, q{CALL jobq_wait('empty', '3 min')});
asleep($victim);
value($node, 'work', "SELECT pg_terminate_backend($victim->{pid})");
my $gone = seconds_until(sub { !-e "/proc/$victim->{pid}" }, 10) // 1e9;
report_seconds('terminated', $gone);
in_time($gone, $slack, 'a terminated sleeper is gone at once');
eval { $victim->{session}{run}->kill_kill; };

# ---- where it cannot be called

is(sqlstate($node, 'work', q{BEGIN; CALL jobq_wait('empty')}), '25001', 'a transaction block');
is(sqlstate($node, 'work', q{SELECT 1\; CALL jobq_wait('empty')}), '25001', 'several statements in one message');
is(sqlstate($node, 'work', q{BEGIN; DO $$ BEGIN CALL jobq_wait('empty'); END $$}), '25001', 'DO in a transaction block');
is(sqlstate($node, 'work', q{CREATE FUNCTION f() RETURNS void LANGUAGE plpgsql AS $$ BEGIN CALL jobq_wait('empty'); END $$; SELECT f()}),
    '25001', 'a function');
is(sqlstate($node, 'work', q{DO $$ BEGIN CALL jobq_wait('empty'); EXCEPTION WHEN division_by_zero THEN NULL; END $$}),
    '25001', 'an exception block');
is(sqlstate($node, 'work', q{SET default_transaction_read_only = on; CALL jobq_wait('empty', '0 s')}), '25006', 'a read-only transaction');

# A loop inside the server.
start($two, q{DO $$ DECLARE job bigint; BEGIN LOOP CALL jobq_wait('loop', '3 min'); SELECT id INTO job FROM jobq_claim('loop'); COMMIT; EXIT WHEN FOUND; END LOOP; END $$});
asleep($two);
is(value($node, 'work', "SELECT backend_xmin IS NULL AND backend_xid IS NULL FROM pg_stat_activity WHERE pid = $two->{pid}"),
    't', 'DO outside of a transaction block: no snapshot either');
enqueue(q{'loop'});
wakes($two, 'and it is woken');

# ---- with the rights of the caller, under any search_path and isolation level

value($node, 'work', q{CREATE ROLE drudge LOGIN; SELECT jobq_grant('drudge', 'worker')});
is(sqlstate($node, 'work', q{CREATE ROLE nobody LOGIN; SET ROLE nobody; CALL jobq_wait('empty', '0 s')}), '42501', 'not without the right to');
my $worker = sleeper($node, connect_as('drudge'));
value($node, 'work', q{CREATE SCHEMA evil; GRANT USAGE ON SCHEMA evil TO PUBLIC;
    CREATE FUNCTION evil.eq(bigint, bigint) RETURNS boolean LANGUAGE plpgsql AS $$ BEGIN RAISE 'as %', current_user; END $$;
    CREATE OPERATOR evil.= (LEFTARG = bigint, RIGHTARG = bigint, FUNCTION = evil.eq)});
$worker->{session}->query(q{SET search_path = evil, pg_catalog, public; SET default_transaction_isolation = serializable});
start($worker, q{CALL jobq_wait('rights', '3 min')}, q{SELECT current_user, current_setting('search_path')});
asleep($worker);
enqueue(q{'rights'});
wakes($worker, 'a worker may wait');
is($worker->{output}, "drudge|evil, pg_catalog, public\n", 'and is who it was');
is($worker->{session}{stderr}, '', 'nobody interfered');

# ---- NOTIFY

my $listener = session($node, 'work');
$listener->query('LISTEN jobq');

# The payloads that have arrived, and who sent them.
my @heard;
sub heard
{
    my $printed = $listener->query('SELECT 1');
    push @heard, [ $1, $2 ]
      while $printed =~ /Asynchronous notification "jobq"(?: with payload "([^"]*)")? received from server process with PID (\d+)/g;
    return;
}
sub hears
{
    my ($payload, $name) = @_;
    local $Test::Builder::Level = $Test::Builder::Level + 1;
    my $seconds = seconds_until(sub { heard(); return scalar grep { ($_->[0] // '') eq $payload } @heard }, 10);
    ok(defined $seconds, $name);
    return $seconds;
}
sub silence { usleep(100_000); heard(); @heard = (); return; }

silence();
enqueue(q{'MixedCase "q"'});
@heard = ();
enqueue(q{'Mixed Case'});
hears('Mixed Case', 'a commit is told of by its name');
is($heard[-1][1], worker_pid($node, 'work'), 'by the background worker');
silence();
$other->query('BEGIN');
enqueue(q{'unborn'});
silence();
$other->query('ROLLBACK');
usleep(50_000);
heard();
is(scalar @heard, 0, 'a rollback is not told of');
value($node, 'work', q{BEGIN; SELECT jobq_enqueue('two phases'); PREPARE TRANSACTION 'told'});
silence();
value($node, 'work', q{COMMIT PREPARED 'told'});
hears('', 'COMMIT PREPARED is told of as any queue');
silence();
$other->query(q{SELECT jobq_resume_queue('paused') IS NULL, jobq_alter_queue('resumed', max_attempts => 3)});
hears('resumed', 'so is a change of settings');
silence();
$other->query(q{DO $$ BEGIN FOR i IN 1..1000 LOOP PERFORM jobq_enqueue('many'); COMMIT; END LOOP; END $$});
hears('many', 'many commits');
usleep(100_000);
heard();
diag(@heard . ' notifications of 1000 commits');
cmp_ok(scalar @heard, '<', 300, 'are told of far less often');
silence();
$other->query(q{SELECT count(*) FROM (SELECT jobq_enqueue('queue ' || n) FROM generate_series(1, 100) n) e});
hears('', 'more queues at once than are told apart: any queue');
silence();
settings($node, 'jobq.notify = off');
$node->reload;
becomes_true($node, 'work', q{SELECT NOT current_setting('jobq.notify')::boolean}, 'jobq.notify is off');
seconds_until(sub { $other->query('SHOW jobq.notify') eq 'off' });
enqueue(q{'unheard'});
silence();
enqueue(q{'unheard'});
usleep(100_000);
heard();
is(scalar @heard, 0, 'then nothing is sent');
settings($node, 'jobq.notify = on');
$node->reload;
seconds_until(sub { $other->query('SHOW jobq.notify') eq 'on' });

# The worker does not stay for ever.
value($node, 'work', q{TRUNCATE jobq.jobs});
becomes_true($node, 'postgres', q{SELECT NOT EXISTS (SELECT FROM pg_stat_activity WHERE backend_type = 'jobq worker')},
    'an idle database has no worker');
@heard = ();
enqueue(q{'from idle'});
my $late = hears('from idle', 'and the next job is told of by a new one');
report_seconds('from an idle database', $late // 1e9);

# ---- the extension is dropped

clear('empty');
start($one, q{CALL jobq_wait('empty', '3 min')});
asleep($one);
value($node, 'work', 'DROP EXTENSION jobq');
in_time(seconds_to_end($one, 10), 3, 'DROP EXTENSION does not wait for sleepers, and ends them');
like($one->{session}{stderr}, qr/jobq_wait\(\) was dropped/, 'with a plain error');
$one->{session}{stderr} = '';
value($node, 'work', 'CREATE EXTENSION jobq');

# Who looks while it waits for somebody else's transaction waits for it, and hears the same.
my $holder = session($node, 'work');
$holder->query('BEGIN');
$holder->query(q{SELECT FROM jobq_claim('empty')});
start($two, 'DROP EXTENSION jobq');
becomes_true($node, 'work', q{SELECT count(*) = 1 FROM pg_locks WHERE NOT granted}, 'DROP EXTENSION waits for a transaction');
start($one, q{CALL jobq_wait('empty', '3 min')});
becomes_true($node, 'work', q{SELECT count(*) = 2 FROM pg_locks WHERE NOT granted}, 'and who begins to wait, for it');
$holder->query('COMMIT');
in_time(seconds_to_end($one, 10), 3, 'it ends with the drop');
like($one->{session}{stderr}, qr/jobq_wait\(\) was dropped/, 'with the same error');
$one->{session}{stderr} = '';
in_time(seconds_to_end($two, 10), 3, 'which is done');
eval { $holder->{run}->kill_kill; };
value($node, 'work', 'CREATE EXTENSION jobq');

# ---- shutdown

start($_, q{CALL jobq_wait('empty', '60 s')}) for @crowd;
asleep(@crowd);
stops_fast($node);
eval { $_->{session}{run}->kill_kill; } for @crowd, $one, $two, $worker;
eval { $_->{run}->kill_kill; } for $other, $listener;

# ---- without preload it polls

my $plain = server('waits_plain');
database($plain, 'work');
$node = $plain;
my $lone = sleeper($node);
start($lone, q{CALL jobq_wait('q', '3 min')}, q{SELECT count(*) FROM jobq_claim('q')});
asleep($lone);
value($plain, 'work', q{SELECT jobq_enqueue('q')});
in_time(seconds_to_end($lone, 10), 1.5, 'without preload a job is found within about a second');
is($lone->{output}, "1\n", 'and can be claimed');
$begin = time;
$lone->{session}->query(q{CALL jobq_wait('q', '700 ms')});
$took = time - $begin;
cmp_ok($took, '>=', 0.65, 'a timeout is not over early');
in_time($took, 0.7 + $slack, 'nor late');
$lone->{session}->quit;

done_testing();
