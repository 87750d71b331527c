# Tests handlers that executors run: each effect occurs once, even if processes or the server are terminated, killed, stopped,
# restarted, or promoted. A lease ends with its process. Jobs of a broken handler wait and use up no attempts. A canceled handler
# stops. Executors do not block DDL.
use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/lib";

use JobqTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(time);

my $directory = PostgreSQL::Test::Utils::tempdir;
my $node = preloaded('first', init => { allows_streaming => 1 }, conf => [ 'max_connections = 40', 'max_worker_processes = 16', 'jobq.max_executors = 4' ]);
value($node, 'postgres', 'CREATE ROLE runner LOGIN; CREATE ROLE other LOGIN');

sub with_handlers
{
    my ($name) = @_;
    database($node, $name);
    value($node, $name, <<'SQL');
CREATE TABLE effects (job bigint, kind text, who text, pid int);
GRANT ALL ON effects TO runner, other;
CREATE FUNCTION effect(job jsonb) RETURNS jsonb LANGUAGE plpgsql AS $$ BEGIN
    INSERT INTO effects VALUES ((job->>'id')::bigint, job->>'kind', current_user, pg_backend_pid());
    RETURN job->'payload';
END $$;
CREATE FUNCTION flaky(job jsonb) RETURNS jsonb LANGUAGE plpgsql AS $$ BEGIN
    PERFORM effect(job);
    IF (job->>'attempt')::int % 2 = 1 THEN RAISE 'odd' USING ERRCODE = 'P0042', DETAIL = 'An odd attempt.', HINT = 'Try again.'; END IF;
    RETURN NULL;
END $$;
CREATE FUNCTION slow(job jsonb) RETURNS void LANGUAGE plpgsql AS $$ BEGIN PERFORM effect(job); PERFORM pg_sleep(600); END $$;
CREATE FUNCTION deaf(job jsonb) RETURNS void LANGUAGE plpgsql AS $$ BEGIN
    LOOP BEGIN PERFORM pg_sleep(600); EXCEPTION WHEN query_canceled THEN NULL; END; END LOOP;
END $$;
CREATE FUNCTION itself(job jsonb) RETURNS jsonb LANGUAGE plpgsql AS $$ BEGIN
    PERFORM effect(job), jobq_complete((job->>'id')::bigint, (job->>'lease')::bigint, '"by itself"');
    RETURN '"not this"';
END $$;
CREATE FUNCTION untidy(job jsonb) RETURNS jsonb LANGUAGE plpgsql AS $$ DECLARE found text; BEGIN
    found := concat_ws(' ', current_setting('work_mem'), current_setting('lock_timeout'), current_setting('transaction_isolation'), current_user,
                       (SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND pid = pg_backend_pid()), (SELECT count(*) FROM pg_prepared_statements),
                       (SELECT count(*) FROM pg_class WHERE relnamespace = pg_my_temp_schema()));
    SET work_mem = '99MB'; SET lock_timeout = '1h'; PERFORM pg_advisory_lock(7); CREATE TEMP TABLE left_behind (); EXECUTE 'PREPARE left_over AS SELECT 1';
    RETURN to_jsonb(found);
END $$;
CREATE TABLE documents (document jsonb);
ALTER TABLE documents ALTER document SET STORAGE EXTERNAL;
INSERT INTO documents SELECT to_jsonb(repeat('x', 9000));
GRANT SELECT ON documents TO runner;
CREATE FUNCTION reads(job jsonb) RETURNS jsonb LANGUAGE plpgsql AS $$ DECLARE found jsonb; BEGIN
    SELECT document INTO found FROM documents;
    PERFORM pg_advisory_xact_lock(8);
    RETURN found;
END $$;
CREATE FUNCTION listens(job jsonb) RETURNS void LANGUAGE plpgsql AS $$ BEGIN LISTEN nobody; END $$;
CREATE FUNCTION at_commit(job jsonb) RETURNS void LANGUAGE plpgsql AS $$ BEGIN PERFORM effect(job); INSERT INTO twice VALUES (1), (1); END $$;
CREATE TABLE twice (a int UNIQUE DEFERRABLE INITIALLY DEFERRED);
GRANT ALL ON twice TO runner;
CREATE PROCEDURE pieces(job jsonb) LANGUAGE plpgsql AS $$ BEGIN PERFORM effect(job); COMMIT; PERFORM effect(job); END $$;
SELECT jobq_grant('runner', 'worker');
SELECT jobq_set_handler('work', k, (k || '(jsonb)')::regprocedure, 'runner', max_executors => CASE WHEN k IN ('effect', 'flaky') THEN 2 ELSE 1 END)
FROM unnest('{effect,flaky,slow,deaf,itself,untidy,reads,listens,at_commit,pieces}'::text[]) k;
SELECT jobq_create_queue('work', max_lost => 1000, max_attempts => 1000, backoff_base => '10 ms', backoff_max => '20 ms');
SELECT jobq_set_handler('quick', '', 'effect(jsonb)', 'other');
-- What must hold whatever happens, each with what breaks it. A procedure that commits is at least once.
CREATE VIEW broken AS
SELECT 'done twice' AS law, job FROM effects WHERE kind <> 'pieces' GROUP BY job HAVING count(*) > 1
UNION ALL
SELECT 'done, not completed', e.job FROM effects e LEFT JOIN jobq.jobs j ON j.id = e.job WHERE j.status IS DISTINCT FROM 'completed' AND e.kind <> 'pieces'
UNION ALL
SELECT 'completed, not done', j.id FROM jobq.jobs j LEFT JOIN effects e ON e.job = j.id
WHERE j.status = 'completed' AND e.job IS NULL AND j.kind IN ('', 'effect', 'flaky', 'itself')
UNION ALL
SELECT 'as another role', job FROM effects WHERE who <> CASE kind WHEN '' THEN 'other' ELSE 'runner' END
UNION ALL
SELECT 'runs without an executor', j.id FROM jobq.jobs j
WHERE j.status = 'processing' AND j.worker_id = 'backend:executor' AND NOT EXISTS (SELECT FROM pg_stat_activity a WHERE a.backend_type = 'jobq executor' AND a.query LIKE '%job ' || j.id || ' of%');
SQL
    return;
}
with_handlers('work');

sub keeps_laws
{
    my ($where, $name) = @_;
    local $Test::Builder::Level = $Test::Builder::Level + 1;
    # A change that has just occurred may be visible in one place and not yet in the other, so the check is repeated.
    becomes_true($where, 'work', q{SELECT NOT EXISTS (SELECT FROM broken)}, "$name: no law is broken")
        < 1e8 or diag(value($where, 'work', 'SELECT law, count(*), min(job) FROM broken GROUP BY 1'));
    return;
}

sub enqueue
{
    my ($where, $kind, %more) = @_;
    my $max = $more{max_runtime} ? ", options => '{\"max_runtime\": \"$more{max_runtime}\"}'" : '';
    return value($where, 'work', "SELECT jobq_enqueue('work', '{\"n\": 1}', kind => '$kind'$max)");
}
sub job { my ($where, $id, $columns) = @_; return value($where, 'work', "SELECT $columns FROM jobq.jobs WHERE id = $id"); }
sub becomes
{
    my ($where, $id, $condition, $name) = @_;
    local $Test::Builder::Level = $Test::Builder::Level + 1;
    return becomes_true($where, 'work', "SELECT $condition FROM jobq.jobs WHERE id = $id", $name);
}
sub write_file
{
    my ($name, $text) = @_;
    open my $file, '>', $name or die "$name: $!";
    print $file $text;
    close $file or die "$name: $!";
    return;
}

# Returns the pid of the process that runs a job.
sub pid_of
{
    my ($where, $id) = @_;
    my $pid = '';
    seconds_until(sub { ($pid) = run_sql($where, 'work', "SELECT pid FROM pg_stat_activity WHERE backend_type = 'jobq executor' AND query LIKE '%job $id of%'"); return $pid =~ /^\d+$/ });
    return $pid;
}

# ---- what a handler can do

my %first = map { $_ => enqueue($node, $_) } qw(effect flaky itself untidy listens at_commit pieces);
becomes($node, $first{effect}, q{status = 'completed' AND result = '{"n": 1}' AND attempts = 1}, 'a function runs, and its return value is the result of the job');
is(sqlstate($node, 'work', "SELECT id FROM jobq_claim('work', (SELECT worker_id FROM jobq.jobs WHERE id = $first{effect}))"), '22023',
    'no worker can use the name of the executors');
becomes($node, $first{flaky}, q{status = 'completed' AND attempts = 2}, 'an error is retried as the queue says');
is(value($node, 'work', "SELECT outcome, split_part(error, E'\\n', 1), error ~ 'CONTEXT:  PL/pgSQL function' FROM jobq.attempts WHERE job_id = $first{flaky}"),
    'failed|P0042: odd|t', 'the error is recorded with SQLSTATE, message, and context');
is(value($node, 'work', "SELECT details->>'class', details->>'stack' ~ '^PL/pgSQL function', details - '{class,stack}'::text[] FROM jobq.attempts WHERE job_id = $first{flaky}"),
    'P0042|t|{"hint": "Try again.", "detail": "An odd attempt."}', 'the details contain the SQLSTATE, the context, the detail, and the hint');
becomes($node, $first{itself}, q{status = 'completed' AND result = '"by itself"'}, 'a handler may complete its job itself; then its return value is ignored');
becomes($node, $first{untidy}, q{result = '"4MB 0 read committed runner 0 0 0"'}, 'the handler gets a clean session');
becomes($node, enqueue($node, 'untidy'), q{result = '"4MB 0 read committed runner 0 0 0"'}, 'the next handler gets a clean session, too');
becomes($node, $first{listens}, q{attempts > 1 AND error LIKE '0A000: cannot execute LISTEN%'}, 'LISTEN is rejected');
becomes($node, $first{at_commit}, q{attempts > 1 AND error LIKE '23505: %twice%'}, 'an error at COMMIT counts');
becomes($node, $first{pieces}, q{status = 'completed'}, 'a procedure may commit');
is(value($node, 'work', "SELECT count(*) FROM effects WHERE job = $first{pieces}"), '2', 'all parts of the procedure have taken effect');
value($node, 'work', "SELECT jobq_cancel($_)") for $first{listens}, $first{at_commit};
value($node, 'work', q{DELETE FROM jobq.handler_settings WHERE kind IN ('listens', 'at_commit')});
keeps_laws($node, 'without faults');

# ---- the row that a handler returns is deleted and vacuumed before the job is completed

my ($keeper, $holder) = map { session($node, 'work') } 1 .. 2;
$keeper->query('SELECT pg_advisory_lock(8)');
my $reads = enqueue($node, 'reads');
my $waits = "SELECT count(*) = 1 FROM pg_stat_activity WHERE backend_type = 'jobq executor' AND query LIKE '%job $reads of%' AND wait_event";
becomes_true($node, 'work', "$waits = 'advisory'", 'a handler has read the value that it will return');
value($node, 'work', 'DELETE FROM documents');
$holder->query("BEGIN; SELECT FROM jobq.jobs WHERE id = $reads FOR UPDATE");
$keeper->query('SELECT pg_advisory_unlock(8)');
becomes_true($node, 'work', "$waits = 'transactionid'", 'the handler has returned, and its executor waits for the lock on the job');
becomes_true($node, 'work', q{VACUUM documents; SELECT pg_relation_size(reltoastrelid) = 0 FROM pg_class WHERE oid = 'documents'::regclass}, 'the row has been vacuumed');
end_sessions($keeper, $holder);
becomes($node, $reads, q{status = 'completed' AND attempts = 1 AND length(result #>> '{}') = 9000}, 'the result is the value that the handler read');

# ---- faults under a mixed load

sub load { return value($_[0], 'work', q{SELECT count(jobq_enqueue('work', kind => CASE n % 7 WHEN 0 THEN 'flaky' WHEN 1 THEN 'itself' WHEN 2 THEN 'pieces' ELSE 'effect' END)) + count(jobq_enqueue('quick')) FROM generate_series(1, 300) n}); }
my $empties = q{SELECT NOT EXISTS (SELECT FROM jobq.jobs WHERE status <= 'processing' AND kind NOT IN ('slow', 'deaf'))};
my $executors = q{FROM pg_stat_activity WHERE backend_type = 'jobq executor'};

$node->backup('copy');
my $standby = PostgreSQL::Test::Cluster->new('second');
$standby->init_from_backup($node, 'copy', has_streaming => 1);
$standby->start;

my %fault = (
    'executors that are terminated' => sub { value($node, 'postgres', "SELECT count(pg_terminate_backend(pid)) $executors") for 1 .. 5 },
    'executors that are cancelled' => sub { value($node, 'postgres', "SELECT count(pg_cancel_backend(pid)) $executors") for 1 .. 5 },
    'an executor that is killed' => sub { my ($pid) = split /\n/, value($node, 'postgres', "SELECT pid $executors"); kill 'KILL', $pid if $pid },
    'a worker that is terminated' => sub { value($node, 'postgres', q{SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE backend_type = 'jobq worker'}) },
    'a server that stops at once' => sub { $node->stop('immediate'); starts_again($node) },
    'a server that restarts' => sub { $node->restart },
);
for my $name ($ENV{JOBQ_FAULTS} ? 'executors that are terminated' : sort keys %fault)
{
    load($node);
    my $slow = enqueue($node, 'slow');
    becomes($node, $slow, q{status = 'processing'}, "$name: a long job runs");
    my $lease = job($node, $slow, 'lease');
    $fault{$name}->();
    becomes($node, $slow, "status = 'processing' AND lease <> $lease", "$name: the long job runs again") unless $name =~ /worker/;
    # Other jobs that lost their executor run only after the long job's trial.
    value($node, 'work', "UPDATE jobq.jobs SET started_at = started_at - interval '1 minute' WHERE id = $slow");
    becomes_true($node, 'work', $empties, "$name: all other jobs are done");
    value($node, 'work', "SELECT jobq_cancel($slow)");
    becomes($node, $slow, q{status = 'cancelled'}, "$name: the long job stops when it is cancelled");
    keeps_laws($node, $name);
}
if ($ENV{JOBQ_FAULTS})
{
    done_testing();
    exit;
}

# ---- a suspect is on trial for a minute, and meanwhile, no other suspect runs

sub enqueue_suspect { return value($node, 'work', "INSERT INTO jobq.jobs (queue, kind, lost_attempts) VALUES ('work', '$_[0]', 1) RETURNING id"); }
my $tried = enqueue_suspect('slow');
becomes($node, $tried, q{status = 'processing'}, 'a suspect runs');
my $suspect = enqueue_suspect('effect');
is(value($node, 'work', "SELECT until > now() AND until <= now() + interval '1 minute' FROM jobq_explain($suspect) WHERE reason = 'suspect'"), 't',
    'another suspect waits for the end of the trial');
# The next statement makes a minute pass.
value($node, 'work', "UPDATE jobq.jobs SET started_at = started_at - interval '1 minute' WHERE id = $tried");
becomes($node, $suspect, q{status = 'completed'}, 'the other suspect runs after the trial');
is(job($node, $tried, 'status'), 'processing', 'the first one is still running');
value($node, 'work', "SELECT jobq_cancel($tried)");
becomes($node, $tried, q{status = 'cancelled'}, 'the suspect stops');

# ---- a lease ends with its process at once; an orderly shutdown does not count as an attempt

my $slow = enqueue($node, 'slow');
my $pid = pid_of($node, $slow);
my $began = time;
value($node, 'postgres', "SELECT pg_terminate_backend($pid)");
becomes($node, $slow, q{attempts = 2}, 'a job whose executor was terminated runs again');
report_seconds('until it ran again', time - $began);
is(value($node, 'work', "SELECT outcome, error FROM jobq.attempts WHERE job_id = $slow"), 'lost|the process that ran its handler has ended', 'the attempt is recorded as lost');
# A worker can notice the end of the executor before the shutdown terminates the worker itself. The postmaster has then already
# written to its lock file that the server is stopping.
my $lock_file = $node->data_dir . '/postmaster.pid';
my $running = slurp_file($lock_file);
my $stopping = $running =~ s/^ready *$/stopping/mr;
isnt($stopping, $running, 'the lock file contains the state of the server');
$pid = pid_of($node, $slow);
write_file($lock_file, $stopping);
value($node, 'postgres', "SELECT pg_terminate_backend($pid)");
my $released = "SELECT count(*) = %d FROM jobq.attempts WHERE job_id = $slow AND outcome = 'released'";
becomes_true($node, 'work', sprintf($released, 1), 'while the server is stopping, the worker releases the job');
write_file($lock_file, $running);
pid_of($node, $slow);
$node->restart;
becomes_true($node, 'work', sprintf($released, 2), 'a restart releases the job');
becomes($node, $slow, q{status = 'processing' AND attempts = 2 AND lost_attempts = 1}, 'the attempts that were released do not count');

# ---- a job that the completion of another job has claimed and that has not begun is not lost with its process

value($node, 'work', <<'SQL');
CREATE FUNCTION far(job jsonb) RETURNS void LANGUAGE plpgsql AS $$ BEGIN PERFORM effect(job), set_config('synchronous_commit', 'on', true); END $$;
SELECT jobq_set_handler('work', 'far', 'far(jsonb)', 'runner', max_executors => 1);
SQL
settings($node, q{synchronous_commit = local}, q{synchronous_standby_names = 'nobody'});
$node->reload;
is(value($node, 'work', 'SHOW synchronous_standby_names'), 'nobody', 'commits wait for a synchronous standby that does not exist');
my @far = split /\n/, value($node, 'work', q{SELECT job_id FROM jobq_enqueue_many('work', array_fill('{}'::jsonb, '{2}'), kind => 'far')});
$pid = pid_of($node, $far[0]);
becomes_true($node, 'work', "SELECT wait_event = 'SyncRep' FROM pg_stat_activity WHERE pid = $pid", 'a completion, which also claims the next job, waits for the standby');
value($node, 'postgres', "SELECT pg_terminate_backend($pid)");
becomes($node, $far[0], q{status = 'completed'}, 'after the executor is terminated, the completion stands');
settings($node, q{synchronous_standby_names = ''});
$node->reload;
becomes($node, $far[1], q{status = 'completed' AND attempts = 1 AND lost_attempts = 0}, 'the next job is released and runs');
is(value($node, 'work', "SELECT string_agg(outcome, ' ') FROM jobq.attempts WHERE job_id = $far[1]"), 'released', 'the released attempt does not count');
settings($node, q{synchronous_commit = on});
$node->reload;

# ---- a promotion: no process of the new primary has the lease

my $lease = job($node, $slow, 'lease');
$node->wait_for_catchup($standby);
$node->stop('fast');
$standby->promote;
$node = $standby;
becomes($node, $slow, "status = 'processing' AND lease <> $lease", 'after a promotion the job runs again');
load($node);
becomes_true($node, 'work', $empties, 'all other jobs are done');
keeps_laws($node, 'a promotion');

# ---- cancellation and max_runtime

value($node, 'work', "SELECT jobq_cancel($slow)");
becomes($node, $slow, q{status = 'cancelled' AND error LIKE '57014: %'}, 'a cancellation interrupts the handler');
my $overrun = enqueue($node, 'slow', max_runtime => '300 ms');
becomes($node, $overrun, q{attempts >= 3 AND error LIKE 'ran longer than max_runtime%'}, 'max_runtime interrupts the handler, and the job is retried');
value($node, 'work', "SELECT jobq_cancel($overrun)");
becomes($node, $overrun, q{status = 'cancelled'}, 'the job stops when it is cancelled');
settings($node, q{jobq.cancel_grace = '1 s'});
$node->reload;
my $deaf = enqueue($node, 'deaf');
$pid = pid_of($node, $deaf);
value($node, 'work', "SELECT jobq_cancel($deaf)");
becomes($node, $deaf, q{status = 'cancelled'}, 'a handler that ignores the cancellation loses its job after the grace period');
becomes_true($node, 'work', "SELECT NOT EXISTS (SELECT FROM pg_stat_activity WHERE pid = $pid)", 'and its executor is terminated');
is(value($node, 'work', "SELECT count(*) FROM effects WHERE job IN ($slow, $overrun)"), '0', 'the interrupted handlers had no effect');

# ---- a broken handler: its jobs are not claimed and use up no attempts, other handlers continue, and it recovers by itself

value($node, 'work', 'ALTER FUNCTION effect(jsonb) RENAME TO gone; CREATE FUNCTION well(job jsonb) RETURNS void LANGUAGE sql AS $$ $$');
value($node, 'work', q{SELECT jobq_set_handler('work', 'well', 'well(jsonb)', 'runner')});
my @waits = map { enqueue($node, 'effect') } 1 .. 5;
is(value($node, 'work', q{SELECT state, reason FROM jobq.handlers WHERE kind = 'effect'}), 'broken|function public.effect(jsonb) does not exist', 'jobq.handlers says why the handler is broken');
becomes($node, enqueue($node, 'well'), q{status = 'completed'}, 'other handlers continue');
is(value($node, 'work', "SELECT sum(attempts), count(*) FILTER (WHERE status = 'pending') FROM jobq.jobs WHERE id IN (@{[join ',', @waits]})"), '0|5', 'the jobs of the broken handler wait');
value($node, 'work', 'ALTER FUNCTION gone(jsonb) RENAME TO effect');
becomes($node, $_, q{status = 'completed' AND attempts = 1}, 'the repaired handler runs the jobs') for @waits;
value($node, 'work', 'REVOKE EXECUTE ON FUNCTION effect(jsonb) FROM PUBLIC');
my $refused = enqueue($node, 'effect');
becomes($node, enqueue($node, 'well'), q{status = 'completed'}, 'other handlers continue when the privilege to execute one is revoked');
is(job($node, $refused, 'status, attempts'), 'pending|0', 'a job whose handler may not be executed uses up no attempt');
value($node, 'work', 'GRANT EXECUTE ON FUNCTION effect(jsonb) TO PUBLIC');
becomes($node, $refused, q{status = 'completed' AND attempts = 1}, 'the job runs when the privilege is granted again');
keeps_laws($node, 'broken and repaired');

# ---- fewer executors than roles: the roles take turns, and the log says so in one line

my $log = log_size($node);
settings($node, 'jobq.max_executors = 1');
$node->reload;
value($node, 'work', q{SELECT count(jobq_enqueue('quick')), count(jobq_enqueue('work', kind => 'effect')) FROM generate_series(1, 3000) n});
becomes_true($node, 'work', $empties, 'two roles with one executor: all jobs are done');
cmp_ok(count_in_log($node, 'handlers in database .* wait because', $log), '<=', 1, 'the log has at most one line about it');
settings($node, 'jobq.max_executors = 0');
$node->reload;
becomes_true($node, 'work', q{SELECT bool_and(state = 'off' AND reason = 'jobq.max_executors is 0') FROM jobq.handlers}, 'without executors, jobq.handlers says why');
becomes_true($node, 'work', "SELECT count(*) = 0 $executors", 'the executors exit');
my $later = enqueue($node, 'effect');
settings($node, 'jobq.max_executors = 4');
$node->reload;
becomes($node, $later, q{status = 'completed'}, 'the executors start again');

# ---- executors do not block DDL; a dump contains handlers; a copy does not run them

$node->command_ok([ 'pg_dump', '-f', "$directory/dump", $node->connstr('work') ], 'pg_dump');
value($node, 'postgres', 'CREATE DATABASE restored');
$node->command_ok([ 'psql', '-X', '-q', '-v', 'ON_ERROR_STOP=1', '-f', "$directory/dump", $node->connstr('restored') ], 'the dump is restored');
is(value($node, 'restored', 'SELECT count(*) > 5 FROM jobq.handlers'), 't', 'the handlers are restored');
my $copied = value($node, 'restored', q{SELECT jobq_enqueue('work', kind => 'well')});
is(value($node, 'restored', q{SELECT DISTINCT state FROM jobq.handlers}), 'off', 'the handlers are off in a copy');
value($node, 'restored', 'SELECT jobq_adopt()');
becomes_true($node, 'restored', "SELECT status = 'completed' FROM jobq.jobs WHERE id = $copied", 'the handlers run after the copy is adopted');
for my $command ('ALTER DATABASE restored RENAME TO renamed', 'CREATE DATABASE template_of TEMPLATE renamed', 'DROP DATABASE renamed')
{
    my $name = $command =~ /RENAME/ ? 'restored' : 'renamed';
    my $id = value($node, $name, q{SELECT jobq_enqueue('work', kind => 'slow')});
    becomes_true($node, 'postgres', "SELECT count(*) > 0 $executors AND datname = '$name' AND query LIKE '%slow%'", 'a long job runs');
    my ($out, $err, $done) = run_sql($node, 'postgres', $command);
    ok($done, "$command while a handler runs") or diag($err);
}
value($node, 'work', 'ALTER ROLE other RENAME TO another');
becomes_true($node, 'work', q{SELECT state = 'broken' FROM jobq.handlers WHERE queue = 'quick'}, 'a handler is broken when its role is renamed');
value($node, 'work', 'ALTER ROLE another RENAME TO other');
becomes_true($node, 'work', q{SELECT state <> 'broken' FROM jobq.handlers WHERE queue = 'quick'}, 'the handler works when the role has its name again');
keeps_laws($node, 'after DDL');
value($node, 'work', q{SELECT jobq_enqueue('work', kind => 'effect')});
value($node, 'work', 'DROP EXTENSION jobq CASCADE');
becomes_true($node, 'postgres', "SELECT count(*) = 0 $executors AND datname = 'work'", 'the executors exit when the extension is dropped');
is(count_in_log($node, 'TRAP|PANIC|was terminated by signal 11', 0), 0, 'no process crashed');
$began = time;
$node->stop('fast');
report_seconds('shutdown', time - $began);

done_testing();
