# Tests jobs that depend on others, while the background worker learns of changes only from commits, because its repair does not run
# in time: large fans, latency, many jobs at once, PREPARE TRANSACTION, a crash, and changes that are not published.
use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/lib";

use JobqTest;
use JobqTime;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(time);

my $node = preloaded('dependencies',
    conf => ["jobq.tick_interval = '60 s'", 'max_prepared_transactions = 10', 'max_connections = 50']);
database($node, 'work');
value($node, 'work', <<'SQL');
CREATE FUNCTION states(q text) RETURNS text LANGUAGE sql AS
    $$SELECT string_agg(status || ' ' || n, ', ' ORDER BY status) FROM (SELECT status, count(*) AS n FROM jobq.jobs WHERE queue = q GROUP BY status) s$$;
-- Jobs that were given out although something they depend on had not finished.
CREATE TABLE early (id bigint);
-- Works until nothing has been left for a second.
CREATE PROCEDURE work(q text) LANGUAGE plpgsql AS $$
DECLARE ids bigint[] := '{}'; leases bigint[] := '{}'; idle int := 0;
BEGIN
    WHILE idle < 200 LOOP
        SELECT coalesce(array_agg(id), '{}'), coalesce(array_agg(lease), '{}') INTO ids, leases
        FROM jobq_complete_and_claim(ids, leases, queue => q, batch => 50);
        INSERT INTO early SELECT d.job_id FROM jobq.dependencies d JOIN jobq.jobs j ON j.id = d.depends_on
        WHERE d.job_id = ANY (ids) AND j.status <= 'processing';
        COMMIT;
        idle := CASE WHEN ids = '{}' THEN idle + 1 ELSE 0 END;
        IF ids = '{}' THEN PERFORM pg_sleep(0.005); END IF;
    END LOOP;
END $$;
-- The milliseconds from a completion's commit until the next job of a chain could be claimed.
CREATE TABLE latency (ms float8);
CREATE PROCEDURE chain(n int) LANGUAGE plpgsql AS $$
DECLARE job record; last bigint; began timestamptz;
BEGIN
    last := jobq_enqueue('chain');
    FOR i IN 1 .. n LOOP last := jobq_enqueue('chain', depends_on => ARRAY[last]); END LOOP;
    COMMIT;
    FOR i IN 0 .. n LOOP
        LOOP
            SELECT * INTO job FROM jobq_claim('chain');
            COMMIT;
            EXIT WHEN job.id IS NOT NULL;
        END LOOP;
        IF i > 0 THEN INSERT INTO latency VALUES (1000 * extract(epoch FROM clock_timestamp() - began)); END IF;
        PERFORM jobq_complete(job.id, job.lease);
        COMMIT;
        began := clock_timestamp();
    END LOOP;
END $$;
SQL

# ---- one job, then 10,000 jobs, then one job again

my $begun = time;
value($node, 'work', <<'SQL');
SELECT jobq_enqueue('fan', kind => 'root') AS root \gset
SELECT count(*) FROM jobq_enqueue_jobs((SELECT jsonb_agg(jsonb_build_object('queue', 'fan', 'kind', 'leaf', 'depends_on', jsonb_build_array(:root)))
                                        FROM generate_series(1, 10000)));
SELECT jobq_enqueue('fan', kind => 'join', depends_on => ARRAY(SELECT id FROM jobq.jobs WHERE kind = 'leaf'));
SQL
my @workers = map { session($node, 'work') } 1 .. 3;
$_->query_until(qr/begun/, "\\echo begun\nCALL work('fan');\n") for @workers;
becomes_true($node, 'work', q{SELECT status = 'completed' FROM jobq.jobs WHERE kind = 'join'}, 'the job that depends on 10,000 jobs completes');
my $seconds = time - $begun;
report_seconds('enqueue, run and join 10,000 jobs by 3 workers', $seconds);
$_->quit for @workers;
is(value($node, 'work', q{SELECT states('fan')}), 'completed 10002', 'all jobs are completed');
is(value($node, 'work', 'SELECT count(*) FROM early'), '0', 'each job ran after its dependencies');
is(value($node, 'work', q{SELECT completed FROM jobq.queue_stats WHERE queue = 'fan'}), '10002', 'the counters are exact');

# ---- one after the other

value($node, 'work', 'CALL chain(200)');
is(value($node, 'work', q{SELECT states('chain')}), 'completed 201', 'a chain of 200');
my $median = value($node, 'work', 'SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY ms) FROM latency');
diag sprintf('from a completion to the claim of the next: median %.2f ms', $median);
in_time($median / 1000, 0.1, 'the worker wakes up at once', 30);

# ---- a job fails on which other jobs depend, but not with their active edge; thousands of dependencies at once

value($node, 'work', <<'SQL');
SELECT count(*) FROM jobq_enqueue_many('many', array_fill('{}'::jsonb, ARRAY[6000]));
SELECT jobq_enqueue('many', kind => 'all', depends_on => ARRAY(SELECT id FROM jobq.jobs WHERE queue = 'many'));
SELECT jobq_enqueue('many', kind => 'all the same', on_dependency_failure => 'run', depends_on => ARRAY(SELECT id FROM jobq.jobs WHERE queue = 'many' AND kind = ''));
SELECT jobq_fail(id, lease, 'first', retry => false) FROM jobq_claim('many');
SQL
becomes_true($node, 'work', q{SELECT status = 'cancelled' AND error LIKE 'dependency % failed: first' FROM jobq.jobs WHERE kind = 'all'},
    'the first of 6,000 dependencies fails, so the job that depends on all of them is cancelled');
value($node, 'work', q{SELECT count(jobq_complete(id, lease)) FROM jobq_claim('many', batch => 6000)});
becomes_true($node, 'work', q{SELECT status = 'pending' FROM jobq.jobs WHERE kind = 'all the same'},
    'a job is unblocked by more completions in one transaction than are published individually');

# ---- dependencies that finish before the producer of their dependent commits

value($node, 'work', q{SELECT jobq_enqueue('open', kind => k) FROM unnest('{a,b,c}'::text[]) k});
my $producer = session($node, 'work');
$producer->query('BEGIN');
$producer->query(q{SELECT jobq_enqueue('open', kind => 'after a, b', depends_on => ARRAY(SELECT id FROM jobq.jobs WHERE queue = 'open' AND kind IN ('a', 'b')))});
$producer->query(q{SELECT jobq_enqueue('open', kind => 'after c', depends_on => ARRAY(SELECT id FROM jobq.jobs WHERE queue = 'open' AND kind = 'c'))});
value($node, 'work', q{SELECT jobq_fail(id, lease, retry => false) FROM jobq_claim('open', kinds => '{a}')});
value($node, 'work', q{SELECT jobq_complete(id, lease) FROM jobq_claim('open', kinds => '{c}')});
$producer->query('COMMIT');
becomes_true($node, 'work', q{SELECT status = 'cancelled' FROM jobq.jobs WHERE kind = 'after a, b'}, 'a job is cancelled because one of its two dependencies has failed');
becomes_true($node, 'work', q{SELECT status = 'pending' FROM jobq.jobs WHERE kind = 'after c'}, 'a job is unblocked because its only dependency has completed');
$producer->quit;

# ---- PREPARE TRANSACTION

value($node, 'work', <<'SQL');
SELECT jobq_enqueue('two', kind => 'a');
BEGIN;
SELECT jobq_enqueue('two', kind => 'b', depends_on => ARRAY(SELECT id FROM jobq.jobs WHERE queue = 'two'));
PREPARE TRANSACTION 'enqueue';
BEGIN;
SELECT jobq_complete(id, lease) FROM jobq_claim('two');
PREPARE TRANSACTION 'complete';
COMMIT PREPARED 'complete';
COMMIT PREPARED 'enqueue';
SQL
becomes_true($node, 'work', q{SELECT status = 'pending' FROM jobq.jobs WHERE queue = 'two' AND kind = 'b'}, 'a dependency completed before its dependent was committed by COMMIT PREPARED');
value($node, 'work', <<'SQL');
SELECT jobq_enqueue('two', kind => 'c', depends_on => ARRAY(SELECT id FROM jobq.jobs WHERE queue = 'two' AND kind = 'b'));
BEGIN;
SELECT jobq_fail(id, lease, retry => false) FROM jobq_claim('two');
PREPARE TRANSACTION 'fail';
COMMIT PREPARED 'fail';
SQL
becomes_true($node, 'work', q{SELECT status = 'cancelled' FROM jobq.jobs WHERE queue = 'two' AND kind = 'c'}, 'a dependency is failed by COMMIT PREPARED');

# ---- a crash after the completions are durable and before the dependents are changed

value($node, 'work', <<'SQL');
SELECT jobq_enqueue('crash', kind => 'good'), jobq_enqueue('crash', kind => 'bad');
SELECT jobq_enqueue('crash', kind => 'after ' || kind, depends_on => ARRAY[id]) FROM jobq.jobs WHERE queue = 'crash';
SQL
my $holder = session($node, 'work');
$holder->query('BEGIN');
$holder->query(q{SELECT count(*) FROM (SELECT FROM jobq.jobs WHERE queue = 'crash' AND kind LIKE 'after%' FOR UPDATE) h});
value($node, 'work', q{SELECT CASE kind WHEN 'good' THEN jobq_complete(id, lease)::text ELSE jobq_fail(id, lease, retry => false)::text END FROM jobq_claim('crash', batch => 2)});
is(value($node, 'work', q{SELECT states('crash')}), 'blocked 2, completed 1, failed 1', 'another session holds locks on the blocked jobs');
$node->stop('immediate');
eval { $holder->quit };
$node->start;
becomes_true($node, 'work', q{SELECT states('crash') = 'pending 1, completed 1, failed 1, cancelled 1'}, 'the dependents are processed after the crash');

# ---- changes that are not published

value($node, 'work', <<'SQL');
SELECT jobq_enqueue('quiet', kind => 'a');
SELECT jobq_enqueue('quiet', depends_on => ARRAY(SELECT id FROM jobq.jobs WHERE queue = 'quiet'));
SELECT jobq_tick();
SET session_replication_role = replica;
UPDATE jobq.jobs SET status = 'completed', finished_at = now(), _ready = NULL WHERE queue = 'quiet' AND kind = 'a';
RESET session_replication_role;
SELECT jobq_tick();
SQL
is(value($node, 'work', q{SELECT states('quiet')}), 'pending 1, completed 1', 'jobq_tick() finds the dependent');

# ---- without a worker

settings($node, 'jobq.enabled = off');
$node->restart;
value($node, 'work', <<'SQL');
SELECT jobq_enqueue('tick', kind => 'a');
SELECT jobq_enqueue('tick', kind => 'b', depends_on => ARRAY(SELECT max(id) FROM jobq.jobs WHERE queue = 'tick')) FROM generate_series(1, 1);
SELECT jobq_enqueue('tick', kind => 'c', depends_on => ARRAY(SELECT max(id) FROM jobq.jobs WHERE queue = 'tick'));
SELECT jobq_enqueue('tick', kind => 'd', depends_on => ARRAY(SELECT max(id) FROM jobq.jobs WHERE queue = 'tick'));
SELECT jobq_fail(id, lease, retry => false) FROM jobq_claim('tick');
SELECT jobq_tick();
SQL
is(value($node, 'work', q{SELECT states('tick')}), 'failed 1, cancelled 3', 'one call cancels the whole chain');

$node->stop;
done_testing();
