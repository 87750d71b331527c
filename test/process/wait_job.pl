# jobq_wait_job: who is woken by what, who is not, what a sleeping session holds, and how it ends.
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

# A queue for each job, so that a claim gets that one.
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

# ---- a commit wakes, and not before

my $job = enqueue();
waits_for($one, $job);
is(value($node, 'work', "SELECT backend_xmin IS NULL AND backend_xid IS NULL FROM pg_stat_activity WHERE pid = $one->{pid}"),
    't', 'a sleeper has neither snapshot nor transaction id');
is(value($node, 'work', "SELECT count(*) FROM pg_locks WHERE pid = $one->{pid} AND locktype <> 'virtualxid'"), '0', 'nor locks');
$other->query('BEGIN');
complete($job);
sleeps_on($one, 'a completion alone wakes nobody');
$other->query('ROLLBACK');
sleeps_on($one, 'nor does a rollback');
$other->query('BEGIN');
complete($job);
$other->query('COMMIT');
wakes($one, 'a commit does');
is($one->{output}, "\"done\"\n", 'and the result is there');

# ---- whatever ends a job

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
    'a transaction that ends more jobs than are remembered' =>
      q{BEGIN; SELECT jobq_cancel(jobq_enqueue('heap')) FROM generate_series(1, 5000); SELECT jobq_complete(id, lease) FROM claim(JOB); COMMIT});
for my $way (sort keys %ways)
{
    $job = enqueue();
    waits_for($one, $job);
    $other->query($ways{$way} =~ s/JOB/$job/gr);
    wakes($one, "woken by $way");
}

$job = enqueue();
waits_for($one, $job);
for (1 .. 3)
{
    $other->query("SELECT id FROM claim($job)");
    $other->query("SELECT count(*) FROM jobq_tick(clock_timestamp() + interval '2 hours')");
}
wakes($one, 'woken by the rescue, when it gives up');
is($other->query("SELECT status FROM jobq_get($job)"), 'failed', 'since the job has failed');

# ---- what does not end it

$job = enqueue();
waits_for($one, $job);
$other->query("SELECT jobq_fail(id, lease, retry_in => '0') FROM claim($job)");
sleeps_on($one, 'a failed attempt is not the end');
$other->query("SELECT jobq_release(id, lease) FROM claim($job)");
$other->query("SELECT jobq_cancel(id) FROM claim($job)");
sleeps_on($one, 'nor is being asked to stop');
$other->query("SELECT jobq_complete(id, lease, '7') FROM jobq.jobs WHERE id = $job");
wakes($one, 'the completion is');
is($one->{output}, "7\n", 'and its result is there');

# ---- only who waits for the job

my @crowd = map { sleeper($node) } 1 .. 8;
my @jobs = map { scalar enqueue() } @crowd;
waits_for($crowd[$_], $jobs[$_]) for 0 .. $#crowd;
my @before = map { sleeps($_) } @crowd;
$other->query(q{DO $$ BEGIN FOR i IN 1..3000 LOOP
    PERFORM jobq_enqueue('stream'); PERFORM jobq_complete(id, lease) FROM jobq_claim('stream'); COMMIT; END LOOP; END $$});
my $woken = 0;
$woken += sleeps($crowd[$_]) - $before[$_] for 0 .. $#crowd;
diag("$woken wake-ups of 8 sleepers while 3000 other jobs were completed");
cmp_ok($woken, '<', 150, 'jobs that nobody waits for wake nobody');
complete($jobs[3]);
wakes($crowd[3], 'each its own');
is(scalar(grep { ended($_) } @crowd), 1, 'and nobody else');
waits_for($crowd[3], $jobs[4]);
complete($jobs[4]);
wakes($_, 'all who wait for the same job') for @crowd[ 3, 4 ];
value($node, 'postgres', 'CREATE DATABASE elsewhere');
value($node, 'elsewhere', 'CREATE EXTENSION jobq');
value($node, 'elsewhere', "INSERT INTO jobq.jobs (id, queue) VALUES ($jobs[5], 'q'); SELECT jobq_complete(id, lease) FROM jobq_claim('q')");
sleeps_on($crowd[5], 'a job of that number in another database is another one');
complete($jobs[$_]) for 0 .. 2, 5 .. 7;
wakes($_, 'the others too') for @crowd;

# ---- none is lost: a look a second later would find it, and take that long

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
cmp_ok(seconds_to_end($one, 30), '<', 30, 'a thousand wake-ups');
my ($worst) = $one->{output} =~ /([\d.e-]+)/;
report_seconds('slowest of 500 questions and answers', $worst // 1e9);
in_time($worst // 1e9, 0.8, 'none was lost', 30);

# ---- timeouts, cancel, terminate, client gone

$job = enqueue();
my $begin = time;
$one->{session}->query("CALL jobq_wait_job($job, '1.3 s')");
my $took = time - $begin;
cmp_ok($took, '>=', 1.25, 'a timeout is not over early');
in_time($took, 1.3 + $slack, 'nor late');
is(sqlstate($node, 'work', "SET statement_timeout = '300 ms'; CALL jobq_wait_job($job)"), '57014', 'statement_timeout ends it');
waits_for($one, $job);
value($node, 'work', "SELECT pg_cancel_backend($one->{pid})");
wakes($one, 'a cancel is answered at once');
like($one->{session}{stderr}, qr/canceling statement due to user request/, 'with the usual error');
$one->{session}{stderr} = '';
waits_for($one, $job);
value($node, 'work', "SELECT jobq_cancel($job)");
wakes($one, 'and the session waits again, and is woken');
$job = enqueue();
for my $end ('terminated', 'left')
{
    my $victim = sleeper($node);
    waits_for($victim, $job);
    value($node, 'work', "SELECT pg_terminate_backend($victim->{pid})") if $end eq 'terminated';
    $victim->{session}{run}->signal('KILL') if $end eq 'left';
    my $gone = seconds_until(sub { !-e "/proc/$victim->{pid}" }, 10) // 1e9;
    in_time($gone, $end eq 'left' ? 2 : $slack, "a $end sleeper is gone soon");
    eval { $victim->{session}{run}->kill_kill; };
}
complete($job);
is($other->query("SELECT jobq_result($job)"), '"done"', 'and nobody misses it');

# ---- with the rights of the caller

value($node, 'work', q{CREATE ROLE web LOGIN; CREATE ROLE nobody LOGIN; SELECT jobq_grant('web', 'producer')});
is(sqlstate($node, 'work', q{SET ROLE nobody; CALL jobq_wait_job(1, '0 s')}), '42501', 'not without the right to');
is(sqlstate($node, 'work', q{SET ROLE nobody; SELECT jobq_result(1)}), '42501', 'nor read a result');
my $producer = sleeper($node, connect_as('web'));
$job = enqueue();
waits_for($producer, $job);
complete($job);
wakes($producer, 'a producer may wait');
is($producer->{output}, "\"done\"\n", 'and read the result');
is($producer->{session}{stderr}, '', 'without an error');

# ---- the extension is dropped; shutdown

$job = enqueue();
waits_for($one, $job);
value($node, 'work', 'DROP EXTENSION jobq');
in_time(seconds_to_end($one, 10), 3, 'DROP EXTENSION does not wait for sleepers, and ends them');
like($one->{session}{stderr}, qr/jobq_wait_job\(\) was dropped/, 'with a plain error');
$one->{session}{stderr} = '';
value($node, 'work', 'CREATE EXTENSION jobq');
$job = $other->query(q{SELECT jobq_enqueue('q')});
waits_for($_, $job, '60 s') for @crowd;
stops_fast($node);
eval { $_->{session}{run}->kill_kill; } for @crowd, $one, $two, $producer;
eval { $other->{run}->kill_kill; };

# ---- without preload it polls

my $plain = server('wait_job_plain');
database($plain, 'work');
my $lone = sleeper($plain);
$job = value($plain, 'work', q{SELECT jobq_enqueue('q')});
waits_for($lone, $job);
value($plain, 'work', q{SELECT jobq_complete(id, lease, '"done"') FROM jobq_claim('q')});
in_time(seconds_to_end($lone, 10), 1.5, 'without preload the end is noticed within about a second');
is($lone->{output}, "\"done\"\n", 'and the result is there');
$lone->{session}->quit;

done_testing();
