# Tests jobq_wait_job: which commits wake up which sessions, what a sleeping session holds, and how a wait ends.
use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/lib";

use JobqSleep;
use JobqTest;
use JobqTime;
use Test::More;
use Time::HiRes qw(time usleep);

my $node = preloaded('wait_job', conf => [ 'max_prepared_transactions = 10', 'max_connections = 60' ]);
database($node, 'work');
my $other = session($node, 'work');
$other->query(q{CREATE FUNCTION claim(job bigint, OUT id bigint, OUT lease bigint) LANGUAGE plpgsql AS $$
    DECLARE of_queue text := (SELECT queue FROM jobq.jobs j WHERE j.id = job);
    BEGIN SELECT c.id, c.lease INTO id, lease FROM jobq_claim(of_queue, heartbeat_timeout => '1 hour') c; END $$});

# Each job gets a queue of its own, so that a claim gets this job.
my $queues = 0;
sub enqueue { my ($arguments) = @_; return $other->query("SELECT jobq_enqueue('q" . ++$queues . "'" . ($arguments ? ", $arguments" : '') . ')'); }
sub complete { my ($job) = @_; return $other->query("SELECT jobq_complete(id, lease, '\"done\"') FROM claim($job)"); }

sub waits_for
{
    my ($sleeper, $job, $timeout) = @_;
    local $Test::Builder::Level = $Test::Builder::Level + 1;
    start($sleeper, "CALL jobq_wait_job($job, '@{[$timeout // '3 min']}')", "SELECT jobq_result($job)");
    return asleep($sleeper);
}

my ($one, $two) = map { sleeper($node) } 1 .. 2;

# ---- a commit wakes up the session, and nothing wakes it up earlier

my $job = enqueue();
waits_for($one, $job);
is(value($node, 'work', "SELECT backend_xmin IS NULL AND backend_xid IS NULL FROM pg_stat_activity WHERE pid = $one->{pid}"),
    't', 'a sleeper has neither snapshot nor transaction id');
is(value($node, 'work', "SELECT count(*) FROM pg_locks WHERE pid = $one->{pid} AND locktype <> 'virtualxid'"), '0', 'a sleeping session has no locks');
$other->query('BEGIN');
complete($job);
sleeps_on($one, 'an uncommitted completion does not wake up the session');
$other->query('ROLLBACK');
sleeps_on($one, 'a rollback does not wake up the session');
$other->query('BEGIN');
complete($job);
$other->query('COMMIT');
wakes($one, 'a commit wakes up the session');
is($one->{output}, "\"done\"\n", 'the result of the job is available');

# ---- everything that ends a job

my %ways = (
    'jobq_complete_many' => q{SELECT count(*) FROM claim(JOB) c, jobq_complete_many(ARRAY[c.id], ARRAY[c.lease])},
    'jobq_complete_and_claim' => q{SELECT count(*) FROM claim(JOB) c, jobq_complete_and_claim(ARRAY[c.id], ARRAY[c.lease])},
    'the end of its attempts' => q{SELECT jobq_fail(id, lease, retry => false) FROM claim(JOB)},
    'jobq_fail_many' => q{SELECT count(*) FROM claim(JOB) c, jobq_fail_many(ARRAY[c.id], ARRAY[c.lease], retry => false)},
    'jobq_cancel' => q{SELECT jobq_cancel(JOB)},
    'jobq_cancel_jobs' => q{SELECT jobq_cancel_jobs(queue) FROM jobq.jobs WHERE id = JOB},
    'the cancellation of a running job' => q{SELECT jobq_cancel(id), jobq_release(id, lease) FROM claim(JOB)},
    'jobq_delete' => q{SELECT jobq_delete(JOB)},
    'jobq_delete_jobs' => q{SELECT jobq_delete_jobs(queue, statuses => '{pending}') FROM jobq.jobs WHERE id = JOB},
    'jobq_purge_queue' => q{SELECT jobq_purge_queue(queue) FROM jobq.jobs WHERE id = JOB},
    'jobq_drop_queue' => q{SELECT jobq_drop_queue(queue, force => true) FROM jobq.jobs WHERE id = JOB},
    'an UPDATE by hand' => q{UPDATE jobq.jobs SET status = 'completed' WHERE id = JOB},
    'an UPDATE of its id' => q{UPDATE jobq.jobs SET id = id + 1000000 WHERE id = JOB},
    'a DELETE by hand' => q{DELETE FROM jobq.jobs WHERE id = JOB},
    'an UPDATE that was replicated' => q{SET session_replication_role = replica; UPDATE jobq.jobs SET status = 'completed', _ready = NULL WHERE id = JOB; RESET session_replication_role},
    'TRUNCATE' => q{TRUNCATE jobq.jobs},
    'a completion that is deleted at once' => q{SELECT jobq_alter_queue(queue, keep_completed => '0') FROM jobq.jobs WHERE id = JOB; SELECT jobq_complete(id, lease) FROM claim(JOB)},
    'COMMIT PREPARED' => q{BEGIN; SELECT jobq_complete(id, lease) FROM claim(JOB); PREPARE TRANSACTION 'end'; COMMIT PREPARED 'end'},
    'a transaction that ends more jobs than can be published individually' =>
      q{BEGIN; SELECT jobq_cancel(jobq_enqueue('heap')) FROM generate_series(1, 5000); SELECT jobq_complete(id, lease) FROM claim(JOB); COMMIT});
for my $way (sort keys %ways)
{
    $job = enqueue();
    waits_for($one, $job);
    $other->query($ways{$way} =~ s/JOB/$job/gr);
    wakes($one, "woken up by $way");
}

$job = enqueue();
waits_for($one, $job);
for (1 .. 3)
{
    $other->query("SELECT id FROM claim($job)");
    $other->query("SELECT count(*) FROM jobq_tick(clock_timestamp() + interval '2 hours')");
}
wakes($one, 'woken up by the rescue when the job has no attempts left');
is($other->query("SELECT status FROM jobq_get($job)"), 'failed', 'the job has failed');

# ---- changes that do not end a job

$job = enqueue();
waits_for($one, $job);
$other->query("SELECT jobq_fail(id, lease, retry_in => '0') FROM claim($job)");
sleeps_on($one, 'a failed attempt that is retried does not end the wait');
$other->query("SELECT jobq_release(id, lease) FROM claim($job)");
$other->query("SELECT jobq_cancel(id) FROM claim($job)");
sleeps_on($one, 'a cancellation request does not end the wait');
$other->query("SELECT jobq_complete(id, lease, '7') FROM jobq.jobs WHERE id = $job");
wakes($one, 'a completion ends the wait');
is($one->{output}, "7\n", 'the result of the job is available');

# ---- only sessions that wait for the job are woken up

my @crowd = map { sleeper($node) } 1 .. 8;
my @jobs = map { scalar enqueue() } @crowd;
waits_for($crowd[$_], $jobs[$_]) for 0 .. $#crowd;
my @before = map { sleeps($_) } @crowd;
$other->query(q{DO $$ BEGIN FOR i IN 1..3000 LOOP
    PERFORM jobq_enqueue('stream'); PERFORM jobq_complete(id, lease) FROM jobq_claim('stream'); COMMIT; END LOOP; END $$});
my $woken = 0;
$woken += sleeps($crowd[$_]) - $before[$_] for 0 .. $#crowd;
diag("$woken wake-ups of 8 sleepers while 3000 other jobs were completed");
cmp_ok($woken, '<', 150, 'jobs without waiting sessions wake up almost no session');
complete($jobs[3]);
wakes($crowd[3], 'a completion wakes up the session that waits for the job');
is(scalar(grep { ended($_) } @crowd), 1, 'no other session is woken up');
waits_for($crowd[3], $jobs[4]);
complete($jobs[4]);
wakes($_, 'all sessions that wait for the same job are woken up') for @crowd[ 3, 4 ];
value($node, 'postgres', 'CREATE DATABASE elsewhere');
value($node, 'elsewhere', 'CREATE EXTENSION jobq');
value($node, 'elsewhere', "INSERT INTO jobq.jobs (id, queue) VALUES ($jobs[5], 'q'); SELECT jobq_complete(id, lease) FROM jobq_claim('q')");
sleeps_on($crowd[5], 'a job with the same id in another database does not end the wait');
complete($jobs[$_]) for 0 .. 2, 5 .. 7;
wakes($_, 'the other sessions are woken up') for @crowd;

# ---- no wake-up is lost: the check that a session makes once a second would find the job, but up to a second later

start($one, q{DO $$ DECLARE job bigint; began timestamptz; worst float := 0; BEGIN
    FOR i IN 1 .. 500 LOOP
        began := clock_timestamp();
        job := jobq_enqueue('asks', to_jsonb(i));
        CALL jobq_wait_job(job, '3 min');
        IF jobq_result(job) IS DISTINCT FROM to_jsonb(i) THEN RAISE 'no result of %', job; END IF;
        worst := greatest(worst, extract(epoch FROM clock_timestamp() - began));
    END LOOP;
    PERFORM set_config('test.worst', worst::text, false), jobq_enqueue('asks', '"stop"');
END $$}, q{SELECT current_setting('test.worst')});
$two->{session}->query(q{DO $$ DECLARE job record; BEGIN LOOP
    CALL jobq_wait('asks', '3 min');
    SELECT * INTO job FROM jobq_claim('asks');
    CONTINUE WHEN NOT FOUND;
    PERFORM jobq_complete(job.id, job.lease, job.payload);
    COMMIT;
    EXIT WHEN job.payload = '"stop"';
END LOOP; END $$});
cmp_ok(seconds_to_end($one, 30), '<', 30, 'a session receives all wake-ups');
my ($worst) = $one->{output} =~ /([\d.e-]+)/;
report_seconds('slowest of 500 round trips', $worst // 1e9);
in_time($worst // 1e9, 0.8, 'no wake-up was lost', 30);

# ---- timeout, cancellation, termination, and a client that has gone

$job = enqueue();
my $begin = time;
$one->{session}->query("CALL jobq_wait_job($job, '1.3 s')");
my $took = time - $begin;
cmp_ok($took, '>=', 1.25, 'a timeout does not end early');
in_time($took, 1.3 + $slack, 'a timeout does not end late');
is(sqlstate($node, 'work', "SET statement_timeout = '300 ms'; CALL jobq_wait_job($job)"), '57014', 'statement_timeout ends the wait');
waits_for($one, $job);
value($node, 'work', "SELECT pg_cancel_backend($one->{pid})");
wakes($one, 'a cancellation ends the wait at once');
like($one->{session}{stderr}, qr/canceling statement due to user request/, 'with the usual error');
$one->{session}{stderr} = '';
waits_for($one, $job);
value($node, 'work', "SELECT jobq_cancel($job)");
wakes($one, 'the session can wait again and is woken up');
$job = enqueue();
for my $end ('terminated', 'left')
{
    my $victim = sleeper($node);
    waits_for($victim, $job);
    value($node, 'work', "SELECT pg_terminate_backend($victim->{pid})") if $end eq 'terminated';
    $victim->{session}{run}->signal('KILL') if $end eq 'left';
    my $gone = seconds_until(sub { !-e "/proc/$victim->{pid}" }, 10) // 1e9;
    in_time($gone, $end eq 'left' ? 2 : $slack, "$end: the session exits soon");
    eval { $victim->{session}{run}->kill_kill; };
}
complete($job);
is($other->query("SELECT jobq_result($job)"), '"done"', 'later completions work without it');

# ---- privileges

value($node, 'work', q{CREATE ROLE web LOGIN; CREATE ROLE nobody LOGIN; SELECT jobq_grant('web', 'producer')});
is(sqlstate($node, 'work', q{SET ROLE nobody; CALL jobq_wait_job(1, '0 s')}), '42501', 'a role without privileges cannot wait');
is(sqlstate($node, 'work', q{SET ROLE nobody; SELECT jobq_result(1)}), '42501', 'a role without privileges cannot read a result');
my $producer = sleeper($node, connect_as('web'));
$job = enqueue();
waits_for($producer, $job);
complete($job);
wakes($producer, 'a producer can wait');
is($producer->{output}, "\"done\"\n", 'a producer can read the result');
is($producer->{session}{stderr}, '', 'without an error');

# ---- DROP EXTENSION and shutdown

$job = enqueue();
waits_for($one, $job);
value($node, 'work', 'DROP EXTENSION jobq');
in_time(seconds_to_end($one, 10), 3, 'DROP EXTENSION ends the waits and does not wait for them');
like($one->{session}{stderr}, qr/jobq_wait_job\(\) was dropped/, 'the wait ends with an error that says so');
$one->{session}{stderr} = '';
value($node, 'work', 'CREATE EXTENSION jobq');
$job = $other->query(q{SELECT jobq_enqueue('q')});
waits_for($_, $job, '60 s') for @crowd;
stops_fast($node);
eval { $_->{session}{run}->kill_kill; } for @crowd, $one, $two, $producer;
eval { $other->{run}->kill_kill; };

# ---- without preload, jobq_wait_job polls

my $plain = server('wait_job_plain');
database($plain, 'work');
my $lone = sleeper($plain);
$job = value($plain, 'work', q{SELECT jobq_enqueue('q')});
waits_for($lone, $job);
value($plain, 'work', q{SELECT jobq_complete(id, lease, '"done"') FROM jobq_claim('q')});
in_time(seconds_to_end($lone, 10), 1.5, 'without preload, the end of the job is noticed within about a second');
is($lone->{output}, "\"done\"\n", 'the result of the job is available');
$lone->{session}->quit;

done_testing();
