# No process left for executors: max_worker_processes is exhausted by others. No call fails, jobs wait and burn nothing, jobq.handlers
# says why, the log once; when others give a process back all goes on by itself. With one process for two roles they take turns.
use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/lib";

use JobqTest;
use JobqTime;
use Test::More;
use Time::HiRes qw(time);

# The launcher, a worker, and one more, in which a parallel query sits. No round comes in time: the worker must see by itself that a
# process is free again.
my $node = preloaded('first', conf => [ "jobq.tick_interval = '60 s'", 'max_logical_replication_workers = 0', 'max_worker_processes = 3', 'jobq.max_workers = 1', 'jobq.max_executors = 4' ]);
database($node, 'work');
sub work { return value($node, 'work', $_[0]); }
work(<<'SQL');
CREATE ROLE one LOGIN; CREATE ROLE two LOGIN;
CREATE FUNCTION quick(job jsonb) RETURNS void LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_sleep(0.01); END $$;
SELECT jobq_set_handler('one', '', 'quick(jsonb)', 'one', max_executors => 4), jobq_set_handler('two', '', 'quick(jsonb)', 'two');
SQL

my $greedy = session($node, 'postgres');
# PostgreSQL 16 gave the setting another name.
$greedy->query(q{SELECT set_config(name, 'on', false) FROM pg_settings WHERE name IN ('force_parallel_mode', 'debug_parallel_query')});
my $taken = q{SELECT EXISTS (SELECT FROM pg_stat_activity WHERE backend_type = 'parallel worker')};
sub take_process
{
    $greedy->query_until(qr/started/, "\\echo started\nSELECT pg_sleep(600);\n");
    return becomes_true($node, 'postgres', $taken, 'the last process is taken');
}
sub give_back
{
    return run_sql($node, 'postgres', q{SELECT pg_cancel_backend(pid) FROM pg_stat_activity
        WHERE query LIKE '%pg_sleep(600)%' AND backend_type = 'client backend' AND pid <> pg_backend_pid()});
}

# ---- nothing left

take_process();
my $position = log_size($node);
my $job = work(q{SELECT jobq_enqueue('one')});
becomes_true($node, 'work', q{SELECT state = 'waiting' AND reason = 'no executor can be started; increase max_worker_processes' AND executors = 0
    FROM jobq.handlers WHERE queue = 'one'}, 'the view says why');
my $line = qr/LOG:  [^\n]*handlers in database "work" wait because max_worker_processes is exhausted/;
ok(seconds_until(sub { count_in_log($node, $line, $position) }), 'so does the log');
like(log_since($node, $position), qr/HINT:  [^\n]*max_worker_processes/, 'with a hint');
work(q{SELECT jobq_enqueue('plain', run_at => clock_timestamp() + interval '2 s')});
ok(claim_when_ready($node, 'work', 'plain'), 'duties and claims go on meanwhile');
is(work("SELECT status, attempts FROM jobq.jobs WHERE id = $job"), 'pending|0', 'the job waits, no attempt is burnt');
is(work(q{SELECT last_error FROM jobq.workers WHERE database = 'work'}), '', 'the worker has no error');
is(work("SELECT count(*) FROM jobq_claim('one', 'client')"), '1', 'a client may have it');
work("SELECT jobq_release(id, lease) FROM jobq.jobs WHERE id = $job");
is(value($node, 'postgres', $taken), 't', 'all the time');
is(count_in_log($node, $line, $position), 1, 'the log says it once');

# ---- a process is given back

my $began = time;
give_back();
becomes_true($node, 'work', "SELECT status = 'completed' AND attempts = 1 FROM jobq.jobs WHERE id = $job", 'it runs when there is one');
my $took = time - $began;
report_seconds('run after a process was free', $took);
in_time($took, 5, 'within seconds');
becomes_true($node, 'work', q{SELECT state <> 'waiting' AND reason IS NULL FROM jobq.handlers WHERE queue = 'one'}, 'and the view says no more');

# ---- one process for two roles

$began = time;
work(q{SELECT jobq_enqueue('two')});
becomes_true($node, 'work', q{SELECT bool_and(status = 'completed') FROM jobq.jobs WHERE queue = 'two'}, 'an idle executor makes room for another role');
$took = time - $began;
report_seconds('room made by an idle one', $took);
in_time($took, 10, 'at once, not when it has been idle for a minute');
my $last = work('SELECT max(id) FROM jobq.jobs');
my $turns = q{SELECT count(*) FROM (SELECT queue <> lag(queue) OVER (ORDER BY started_at, id) AS turn FROM jobq.jobs
    WHERE queue IN ('one', 'two') AND started_at IS NOT NULL AND id > } . "$last) t WHERE turn";
# Work for both, for as long as it takes.
my $turned = seconds_until(sub {
    work(q{SELECT jobq_enqueue(q) FROM unnest('{one,two}'::text[]) q, generate_series(1, 100) WHERE (SELECT count(*) FROM jobq.jobs WHERE queue = q AND status = 'pending') < 100});
    return work($turns) > 1;
});
ok(defined $turned, 'with work for both they take turns');
becomes_true($node, 'work', q{SELECT bool_and(status = 'completed') FROM jobq.jobs WHERE queue IN ('one', 'two')}, 'and all is done');
is(work(q{SELECT count(*) FROM jobq.jobs WHERE queue IN ('one', 'two') AND attempts <> 1}), '0', 'each in one attempt');

# ---- and again

becomes_true($node, 'postgres', q{SELECT count(pg_terminate_backend(pid)) = 0 FROM pg_stat_activity WHERE backend_type = 'jobq executor'}, 'the executor has gone');
take_process();
work(q{SELECT jobq_enqueue('one')});
becomes_true($node, 'work', q{SELECT state = 'waiting' FROM jobq.handlers WHERE queue = 'one'}, 'exhausted again: it shows again');
cmp_ok(count_in_log($node, $line, $position), '<=', 2, 'taking turns and waiting fills no log');
give_back();
becomes_true($node, 'work', q{SELECT bool_and(status = 'completed') FROM jobq.jobs WHERE queue = 'one'}, 'and is over again');
is(count_in_log($node, 'PANIC|TRAP|was terminated by signal', 0), 0, 'nothing has gone wrong');
$greedy->quit;

done_testing();
