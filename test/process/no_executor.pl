# Tests executors when max_worker_processes is exhausted by other processes. No call fails, jobs wait without using up attempts,
# jobq.handlers says why, and the log says so once. When a process is free again, the jobs run. With one process for two roles, the
# roles take turns.
use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/lib";

use JobqTest;
use JobqTime;
use Test::More;
use Time::HiRes qw(time);

# There are processes for the launcher, a worker, and one more, which a parallel query occupies. No round occurs in time, so the
# worker must notice by itself that a process is free again.
my $node = preloaded('first', conf => [ "jobq.tick_interval = '60 s'", 'max_logical_replication_workers = 0', 'max_worker_processes = 3', 'jobq.max_workers = 1', 'jobq.max_executors = 4' ]);
database($node, 'work');
sub work { return value($node, 'work', $_[0]); }
work(<<'SQL');
CREATE ROLE one LOGIN; CREATE ROLE two LOGIN;
CREATE FUNCTION quick(job jsonb) RETURNS void LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_sleep(0.01); END $$;
SELECT jobq_set_handler('one', '', 'quick(jsonb)', 'one', max_executors => 4), jobq_set_handler('two', '', 'quick(jsonb)', 'two');
SQL

my $greedy = session($node, 'postgres');
# The setting was renamed in PostgreSQL 16.
$greedy->query(q{SELECT set_config(name, 'on', false) FROM pg_settings WHERE name IN ('force_parallel_mode', 'debug_parallel_query')});
my $taken = q{SELECT EXISTS (SELECT FROM pg_stat_activity WHERE backend_type = 'parallel worker')};

# The postmaster frees the slot of a process a moment after the process has left pg_stat_activity. A query that begins in between
# gets no process, so it is repeated.
sub take_process
{
    my $took = seconds_until(sub {
        $greedy->query_until(qr/started/, "\\echo started\nSELECT pg_sleep(600);\n");
        return 1 if defined seconds_until(sub { value($node, 'postgres', $taken) eq 't' }, 2);
        give_back();
        return 0;
    });
    return ok(defined $took, 'the last process is taken');
}

sub give_back
{
    return run_sql($node, 'postgres', q{SELECT pg_cancel_backend(pid) FROM pg_stat_activity
        WHERE query LIKE '%pg_sleep(600)%' AND backend_type = 'client backend' AND pid <> pg_backend_pid()});
}

# ---- no free process

take_process();
my $position = log_size($node);
my $job = work(q{SELECT jobq_enqueue('one')});
becomes_true($node, 'work', q{SELECT state = 'waiting' AND reason = 'no executor can be started; increase max_worker_processes' AND executors = 0
    FROM jobq.handlers WHERE queue = 'one'}, 'jobq.handlers says why the job waits');
my $line = qr/LOG:  [^\n]*handlers in database "work" are waiting because all background worker slots are in use/;
ok(seconds_until(sub { count_in_log($node, $line, $position) }), 'the log says it, too');
like(log_since($node, $position), qr/HINT:  [^\n]*max_worker_processes/, 'the message has a hint');
work(q{SELECT jobq_enqueue('plain', run_at => clock_timestamp() + interval '2 s')});
ok(claim_when_ready($node, 'work', 'plain'), 'duties and claims continue');
is(work("SELECT status, attempts FROM jobq.jobs WHERE id = $job"), 'pending|0', 'the job waits without using up an attempt');
is(work(q{SELECT last_error FROM jobq.background_workers WHERE database = 'work'}), '', 'the worker has no error');
is(work("SELECT count(*) FROM jobq_claim('one', 'client')"), '1', 'a client can claim the job');
work("SELECT jobq_release(id, lease) FROM jobq.jobs WHERE id = $job");
is(value($node, 'postgres', $taken), 't', 'the process was occupied the whole time');
is(count_in_log($node, $line, $position), 1, 'the log says it once');

# ---- a process is given back

my $began = time;
give_back();
becomes_true($node, 'work', "SELECT status = 'completed' AND attempts = 1 FROM jobq.jobs WHERE id = $job", 'the job runs when a process is free');
my $took = time - $began;
report_seconds('run after a process was free', $took);
in_time($took, 5, 'within 5 s');
becomes_true($node, 'work', q{SELECT state <> 'waiting' AND reason IS NULL FROM jobq.handlers WHERE queue = 'one'}, 'jobq.handlers has no reason anymore');

# ---- one process for two roles

$began = time;
work(q{SELECT jobq_enqueue('two')});
becomes_true($node, 'work', q{SELECT bool_and(status = 'completed') FROM jobq.jobs WHERE queue = 'two'}, 'an idle executor exits for another role');
$took = time - $began;
report_seconds('time until an idle executor was replaced', $took);
in_time($took, 10, 'without waiting until it has been idle for a minute');
my $last = work('SELECT max(id) FROM jobq.jobs');
my $turns = q{SELECT count(*) FROM (SELECT queue <> lag(queue) OVER (ORDER BY started_at, id) AS turn FROM jobq.jobs
    WHERE queue IN ('one', 'two') AND started_at IS NOT NULL AND id > } . "$last) t WHERE turn";
# Enqueues jobs for both roles until the roles have taken turns.
my $turned = seconds_until(sub {
    work(q{SELECT jobq_enqueue(q) FROM unnest('{one,two}'::text[]) q, generate_series(1, 100) WHERE (SELECT count(*) FROM jobq.jobs WHERE queue = q AND status = 'pending') < 100});
    return work($turns) > 1;
});
ok(defined $turned, 'roles take turns if both have jobs');
becomes_true($node, 'work', q{SELECT bool_and(status = 'completed') FROM jobq.jobs WHERE queue IN ('one', 'two')}, 'all jobs are completed');
is(work(q{SELECT count(*) FROM jobq.jobs WHERE queue IN ('one', 'two') AND attempts <> 1}), '0', 'each in one attempt');

# ---- the processes are exhausted again

becomes_true($node, 'postgres', q{SELECT count(pg_terminate_backend(pid)) = 0 FROM pg_stat_activity WHERE backend_type = 'jobq executor'}, 'the executor has exited');
take_process();
work(q{SELECT jobq_enqueue('one')});
becomes_true($node, 'work', q{SELECT state = 'waiting' FROM jobq.handlers WHERE queue = 'one'}, 'jobq.handlers says so again');
cmp_ok(count_in_log($node, $line, $position), '<=', 2, 'taking turns and waiting do not flood the log');
give_back();
becomes_true($node, 'work', q{SELECT bool_and(status = 'completed') FROM jobq.jobs WHERE queue = 'one'}, 'the jobs run when a process is free');
is(count_in_log($node, 'PANIC|TRAP|was terminated by signal', 0), 0, 'no process crashed');
$greedy->quit;

done_testing();
