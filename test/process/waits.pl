# Tests jobq_wait and NOTIFY: which commits wake up which sessions, what a sleeping session holds, and how a wait ends.
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

# Claims all jobs of the queue, so that a sleeping session that checks the table finds none.
sub clear { my ($queue) = @_; return $other->query("SELECT count(*) FROM jobq_claim('$queue', 'clearer', 1000, capabilities => '{gpu}')"); }

my ($one, $two) = map { sleeper($node) } 1 .. 2;

# ---- a commit wakes up the session, and nothing wakes it up earlier

start($one, q{CALL jobq_wait('q', '3 min')}, q{SELECT kind FROM jobq_claim('q', 'one')});
asleep($one);
is(value($node, 'work', "SELECT backend_xmin IS NULL AND backend_xid IS NULL FROM pg_stat_activity WHERE pid = $one->{pid}"),
    't', 'a sleeper has neither snapshot nor transaction id');
is(value($node, 'work', "SELECT count(*) FROM pg_locks WHERE pid = $one->{pid} AND locktype <> 'virtualxid'"), '0', 'a sleeping session has no locks');
$other->query('BEGIN');
enqueue(q{'q', kind => 'first'});
sleeps_on($one, 'an uncommitted enqueue does not wake up the session');
$other->query('COMMIT');
wakes($one, 'the commit wakes up the session');
is($one->{output}, "first\n", 'the session claims the job');
start($one, q{CALL jobq_wait('q', '3 min')});
asleep($one);
$other->query(q{BEGIN; SELECT jobq_enqueue('q'); ROLLBACK});
sleeps_on($one, 'a rollback does not wake up the session');
enqueue(q{'another'});
sleeps_on($one, 'a job in another queue does not wake up the session');
enqueue(q{'q'});
wakes($one, 'the next commit wakes up the session');
start($one, q{CALL jobq_wait('q', '3 min')});
wakes($one, 'a job that already exists ends the call at once');
clear('q');

# ---- other ways in which jobs become claimable

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
    wakes($one, "woken up by $way");
    clear('ways');
}

start($one, q{CALL jobq_wait('later', '3 min')}, q{SELECT round(extract(epoch FROM clock_timestamp() - run_at) * 1000) FROM jobq_claim('later')});
asleep($one);
enqueue(q{'later', run_at => clock_timestamp() + interval '700 ms'});
cmp_ok(seconds_to_end($one), '>', 0.4, 'a delayed job does not wake up the session early');
like($one->{output}, qr/^\d+\n$/, 'its promotion wakes up the session');
diag("ms from run_at to the claim: $one->{output}");

value($node, 'work', q{BEGIN; SELECT jobq_enqueue('prepared', kind => 'new'); PREPARE TRANSACTION 'jobs'});
start($one, q{CALL jobq_wait('prepared', '3 min')});
asleep($one);
value($node, 'work', q{COMMIT PREPARED 'jobs'});
wakes($one, 'woken up by COMMIT PREPARED in another session');

# ---- as many sessions as there are jobs are woken up, those that have waited longest first

my @crowd = map { sleeper($node) } 1 .. 5;
for my $round ('an unused queue', 'a used queue')
{
    for my $sleeper (@crowd)
    {
        start($sleeper, q{CALL jobq_wait('crowd', '3 min')}, q{SELECT count(*) FROM jobq_claim('crowd')});
        asleep($sleeper);
    }
    $other->query(q{SELECT count(*) FROM jobq_enqueue_many('crowd', '{1,2}')});
    wakes($_, "$round: two jobs wake up the two sessions that have waited longest") for @crowd[ 0, 1 ];
    becomes_true($node, 'work', q{SELECT NOT EXISTS (SELECT FROM jobq.jobs WHERE queue = 'crowd' AND status = 'pending')}, 'both jobs are claimed');
    # If the second session is slow to claim, the claim of the first one wakes up another session.
    my @asleep = grep { !ended($_) } @crowd[ 2 .. 4 ];
    cmp_ok(scalar @asleep, '>=', 2, 'the other sessions still sleep');
    enqueue(q{'crowd'}) for @asleep;
    wakes($_, 'jobs for the other sessions wake them up') for @asleep;
}

# ---- only sessions that can claim the job are woken up

start($one, q{CALL jobq_wait('kinds', '3 min', kinds => '{mail}')});
start($two, q{CALL jobq_wait('kinds', '3 min', kinds => '{sms}', versions => '{0}')});
asleep($one, $two);
enqueue(q{'kinds', kind => 'fax'});
enqueue(q{'kinds', kind => 'sms', options => '{"version": 1}'});
sleeps_on($_, 'jobs of other kinds, including new ones, do not wake up the session') for $one, $two;
my @before = map { sleeps($_) } $one, $two;
$other->query(q{DO $$ BEGIN FOR i IN 1..2000 LOOP PERFORM jobq_enqueue('kinds', kind => 'fax'); COMMIT; END LOOP; END $$});
usleep(200_000);
cmp_ok(sleeps($one) - $before[0], '<', 30, 'a backlog of another kind does not keep a session busy');
cmp_ok(sleeps($two) - $before[1], '<', 30, 'nor the other session');
ok(!ended($one) && !ended($two), 'both sessions sleep');
enqueue(q{'kinds', kind => 'sms'});
wakes($two, 'a new kind wakes up the session that waits for it');
ok(!ended($one), 'and not the other session');
enqueue(q{'kinds', kind => 'mail'});
wakes($one, 'the other kind wakes up the other session');

start($one, q{CALL jobq_wait('able', '3 min')});
start($two, q{CALL jobq_wait('able', '3 min', capabilities => '{gpu,disk}')});
asleep($one, $two);
enqueue(q{'able', options => '{"requires": ["tape"]}'});
sleeps_on($_, 'a job that neither session can run wakes up neither') for $one, $two;
enqueue(q{'able', options => '{"requires": ["gpu"]}'});
wakes($two, 'a job wakes up the only session that has its capability');
ok(!ended($one), 'and not the other session');
enqueue(q{'able'});
wakes($one, 'a job without requirements wakes up the other session');

# More kinds than shared memory holds for a session.
my $kinds = join ',', map { "kind$_" } 1 .. 40;
start($one, "CALL jobq_wait('wide', '3 min', kinds => '{$kinds}')");
asleep($one);
enqueue(q{'wide', kind => 'no'});
sleeps_on($one, 'a job of another kind does not wake up a session with many kinds');
enqueue(q{'wide', kind => 'kind40'});
wakes($one, 'a job of one of its kinds wakes it up');

# ---- paused queues

enqueue(q{'paused'});
$other->query(q{SELECT jobq_pause_queue('paused')});
start($one, q{CALL jobq_wait('paused', '3 min')});
sleeps_on($one, 'a session sleeps while the queue is paused');
asleep($one);
enqueue(q{'paused'});
sleeps_on($one, 'new jobs do not wake it up');
$other->query(q{SELECT jobq_resume_queue('paused')});
wakes($one, 'jobq_resume_queue wakes it up');
clear('paused');
start($one, q{CALL jobq_wait('paused', '3 min')});
asleep($one);
$other->query(q{SELECT jobq_pause_queue('paused')});
enqueue(q{'paused'});
sleeps_on($one, 'a pause applies to a session that already sleeps');
$other->query(q{UPDATE jobq.queue_settings SET paused = false WHERE queue = 'paused'});
wakes($one, 'an UPDATE of the settings wakes it up');

# ---- jobs that a transaction has locked

enqueue(q{'held'});
$other->query(q{BEGIN; SELECT id FROM jobq.jobs WHERE queue = 'held' FOR UPDATE});
start($one, q{CALL jobq_wait('held', '3 min')});
sleeps_on($one, 'a job that a transaction has locked does not end the wait');
$before[0] = sleeps($one);
usleep(1_000_000);
cmp_ok(sleeps($one) - $before[0], '<', 30, 'and does not keep the session busy');
$other->query('ROLLBACK');
in_time(seconds_to_end($one, 10), 2, 'the rollback ends the wait');

# A worker that waits repeatedly without claiming the job.
my $begin = time;
$one->{session}->query(q{CALL jobq_wait('held', '1 s')}) for 1 .. 10;
cmp_ok(time - $begin, '>', 0.2, 'repeated waits for the same job are slowed down');

# ---- an unused wake-up is handed to another session

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
    wakes($two, "$end session hands its wake-up to another one");
    is($two->{output}, "1\n", 'the other session claims the job');
    $first->{session}->quit if $end eq 'a cancelled';
    eval { $first->{session}{run}->kill_kill; } unless $end eq 'a cancelled';
}

# ---- no wake-up is lost: the check that a session makes once a second would find the job, but up to a second later

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
wakes($_, 'the workers stop') for $one, $two;

# ---- timeouts

$begin = time;
$one->{session}->query(q{CALL jobq_wait('empty', '0 s')});
in_time(time - $begin, $slack, 'a timeout of zero checks once');
$begin = time;
$one->{session}->query(q{CALL jobq_wait('empty', '1.3 s')});
my $took = time - $begin;
cmp_ok($took, '>=', 1.25, 'a timeout does not end early');
in_time($took, 1.3 + $slack, 'a timeout does not end late');
start($one, q{CALL jobq_wait('empty', '100000 years')});
asleep($one);
enqueue(q{'empty'});
wakes($one, 'a session with a very long timeout is woken up');
clear('empty');
is(sqlstate($node, 'work', q{SET statement_timeout = '300 ms'; CALL jobq_wait('empty', '3 min')}), '57014', 'statement_timeout ends the wait');

# ---- cancellation and termination

start($one, q{CALL jobq_wait('empty', '3 min')});
asleep($one);
$begin = time;
value($node, 'work', "SELECT pg_cancel_backend($one->{pid})");
in_time(seconds_to_end($one, 10), $slack, 'a cancellation ends the wait at once');
like($one->{session}{stderr}, qr/canceling statement due to user request/, 'with the usual error');
$one->{session}{stderr} = '';
is($one->{session}->query('SELECT 1'), '1', 'the session can be used afterward');
start($one, q{CALL jobq_wait('empty', '3 min')});
asleep($one);
enqueue(q{'empty'});
wakes($one, 'the session can wait again');
clear('empty');
my $victim = sleeper($node);
start($victim, q{CALL jobq_wait('empty', '3 min')});
asleep($victim);
value($node, 'work', "SELECT pg_terminate_backend($victim->{pid})");
my $gone = seconds_until(sub { !-e "/proc/$victim->{pid}" }, 10) // 1e9;
report_seconds('terminated', $gone);
in_time($gone, $slack, 'a terminated session exits at once');
eval { $victim->{session}{run}->kill_kill; };

# ---- contexts in which it is rejected

is(sqlstate($node, 'work', q{BEGIN; CALL jobq_wait('empty')}), '25001', 'rejected in a transaction block');
is(sqlstate($node, 'work', q{SELECT 1\; CALL jobq_wait('empty')}), '25001', 'rejected with several statements in one message');
is(sqlstate($node, 'work', q{BEGIN; DO $$ BEGIN CALL jobq_wait('empty'); END $$}), '25001', 'rejected in DO in a transaction block');
is(sqlstate($node, 'work', q{CREATE FUNCTION f() RETURNS void LANGUAGE plpgsql AS $$ BEGIN CALL jobq_wait('empty'); END $$; SELECT f()}),
    '25001', 'rejected in a function');
is(sqlstate($node, 'work', q{DO $$ BEGIN CALL jobq_wait('empty'); EXCEPTION WHEN division_by_zero THEN NULL; END $$}),
    '25001', 'rejected in an exception block');
is(sqlstate($node, 'work', q{SET default_transaction_read_only = on; CALL jobq_wait('empty', '0 s')}), '25006', 'rejected in a read-only transaction');

# A loop in a DO statement.
start($two, q{DO $$ DECLARE job bigint; BEGIN LOOP CALL jobq_wait('loop', '3 min'); SELECT id INTO job FROM jobq_claim('loop'); COMMIT; EXIT WHEN FOUND; END LOOP; END $$});
asleep($two);
is(value($node, 'work', "SELECT backend_xmin IS NULL AND backend_xid IS NULL FROM pg_stat_activity WHERE pid = $two->{pid}"),
    't', 'a session that waits in DO outside a transaction block has no snapshot either');
enqueue(q{'loop'});
wakes($two, 'and it is woken up');

# ---- privileges, search_path, and isolation levels

value($node, 'work', q{CREATE ROLE drudge LOGIN; SELECT jobq_grant('drudge', 'worker')});
is(sqlstate($node, 'work', q{CREATE ROLE nobody LOGIN; SET ROLE nobody; CALL jobq_wait('empty', '0 s')}), '42501', 'a role without privileges cannot wait');
my $worker = sleeper($node, connect_as('drudge'));
value($node, 'work', q{CREATE SCHEMA evil; GRANT USAGE ON SCHEMA evil TO PUBLIC;
    CREATE FUNCTION evil.eq(bigint, bigint) RETURNS boolean LANGUAGE plpgsql AS $$ BEGIN RAISE 'as %', current_user; END $$;
    CREATE OPERATOR evil.= (LEFTARG = bigint, RIGHTARG = bigint, FUNCTION = evil.eq)});
$worker->{session}->query(q{SET search_path = evil, pg_catalog, public; SET default_transaction_isolation = serializable});
start($worker, q{CALL jobq_wait('rights', '3 min')}, q{SELECT current_user, current_setting('search_path')});
asleep($worker);
enqueue(q{'rights'});
wakes($worker, 'a worker role can wait');
is($worker->{output}, "drudge|evil, pg_catalog, public\n", 'its role and search_path are unchanged');
is($worker->{session}{stderr}, '', 'no shadowed function was called');

# ---- NOTIFY

my $listener = session($node, 'work');
$listener->query('LISTEN jobq');

# The payloads that have arrived, with the pids of their senders.
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
hears('Mixed Case', 'a commit sends the name of its queue');
is($heard[-1][1], worker_pid($node, 'work'), 'the notification comes from the background worker');
silence();
$other->query('BEGIN');
enqueue(q{'unborn'});
silence();
$other->query('ROLLBACK');
usleep(50_000);
heard();
is(scalar @heard, 0, 'a rollback sends nothing');
value($node, 'work', q{BEGIN; SELECT jobq_enqueue('two phases'); PREPARE TRANSACTION 'told'});
silence();
value($node, 'work', q{COMMIT PREPARED 'told'});
hears('', 'COMMIT PREPARED sends the payload for any queue');
silence();
$other->query(q{SELECT jobq_resume_queue('paused') IS NULL, jobq_alter_queue('resumed', max_attempts => 3)});
hears('resumed', 'a change of settings sends the name of the queue');
silence();
$other->query(q{DO $$ BEGIN FOR i IN 1..1000 LOOP PERFORM jobq_enqueue('many'); COMMIT; END LOOP; END $$});
hears('many', 'many commits send the name of the queue');
usleep(100_000);
heard();
diag(@heard . ' notifications of 1000 commits');
cmp_ok(scalar @heard, '<', 300, 'but far fewer notifications than commits');
silence();
$other->query(q{SELECT count(*) FROM (SELECT jobq_enqueue('queue ' || n) FROM generate_series(1, 100) n) e});
hears('', 'a commit with too many queues sends the payload for any queue');
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
is(scalar @heard, 0, 'no notification is sent');
settings($node, 'jobq.notify = on');
$node->reload;
seconds_until(sub { $other->query('SHOW jobq.notify') eq 'on' });

# The worker exits when the database is idle.
value($node, 'work', q{TRUNCATE jobq.jobs});
becomes_true($node, 'postgres', q{SELECT NOT EXISTS (SELECT FROM pg_stat_activity WHERE backend_type = 'jobq worker')},
    'an idle database has no worker');
@heard = ();
enqueue(q{'from idle'});
my $late = hears('from idle', 'a new worker sends the notification for the next job');
report_seconds('from an idle database', $late // 1e9);

# ---- DROP EXTENSION

clear('empty');
start($one, q{CALL jobq_wait('empty', '3 min')});
asleep($one);
value($node, 'work', 'DROP EXTENSION jobq');
in_time(seconds_to_end($one, 10), 3, 'DROP EXTENSION ends the waits and does not wait for them');
like($one->{session}{stderr}, qr/jobq_wait\(\) was dropped/, 'the wait ends with an error that says so');
$one->{session}{stderr} = '';
value($node, 'work', 'CREATE EXTENSION jobq');

# A session that checks the table while DROP EXTENSION waits for a transaction must wait, too, and gets the same error.
my $holder = session($node, 'work');
$holder->query('BEGIN');
$holder->query(q{SELECT FROM jobq_claim('empty')});
start($two, 'DROP EXTENSION jobq');
becomes_true($node, 'work', q{SELECT count(*) = 1 FROM pg_locks WHERE NOT granted}, 'DROP EXTENSION waits for a transaction');
start($one, q{CALL jobq_wait('empty', '3 min')});
becomes_true($node, 'work', q{SELECT count(*) = 2 FROM pg_locks WHERE NOT granted}, 'a new wait waits for DROP EXTENSION');
$holder->query('COMMIT');
in_time(seconds_to_end($one, 10), 3, 'the wait ends with DROP EXTENSION');
like($one->{session}{stderr}, qr/jobq_wait\(\) was dropped/, 'with the same error');
$one->{session}{stderr} = '';
in_time(seconds_to_end($two, 10), 3, 'DROP EXTENSION succeeds');
eval { $holder->{run}->kill_kill; };
value($node, 'work', 'CREATE EXTENSION jobq');

# ---- shutdown

start($_, q{CALL jobq_wait('empty', '60 s')}) for @crowd;
asleep(@crowd);
stops_fast($node);
eval { $_->{session}{run}->kill_kill; } for @crowd, $one, $two, $worker;
eval { $_->{run}->kill_kill; } for $other, $listener;

# ---- without preload, jobq_wait polls

my $plain = server('waits_plain');
database($plain, 'work');
$node = $plain;
my $lone = sleeper($node);
start($lone, q{CALL jobq_wait('q', '3 min')}, q{SELECT count(*) FROM jobq_claim('q')});
asleep($lone);
value($plain, 'work', q{SELECT jobq_enqueue('q')});
in_time(seconds_to_end($lone, 10), 1.5, 'without preload, a job is found within about a second');
is($lone->{output}, "1\n", 'the session claims the job');
$begin = time;
$lone->{session}->query(q{CALL jobq_wait('q', '700 ms')});
$took = time - $begin;
cmp_ok($took, '>=', 0.65, 'a timeout does not end early');
in_time($took, 0.7 + $slack, 'a timeout does not end late');
$lone->{session}->quit;

done_testing();
