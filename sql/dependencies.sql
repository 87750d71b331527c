-- Dependencies: a job becomes pending when the jobs that it depends on have completed. The background worker or jobq_tick()
-- promotes it.
-- Completes this many jobs of the queue, with their kind as the result.
CREATE FUNCTION pg_temp.work(jobs int) RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE job record;
BEGIN
    FOR job IN SELECT id, lease, kind FROM jobq_claim('deps', batch => jobs) ORDER BY id LOOP
        PERFORM jobq_complete(job.id, job.lease, to_jsonb(job.kind));
        RETURN NEXT job.kind;
    END LOOP;
    PERFORM settle();
END $$;
CREATE FUNCTION pg_temp.fail(job bigint) RETURNS jobq.job_status LANGUAGE plpgsql AS $$
DECLARE claimed record; status jobq.job_status;
BEGIN
    SELECT c.id, c.lease INTO STRICT claimed FROM jobq_claim('deps') c;
    IF claimed.id <> job THEN RAISE 'claimed job %', claimed.id; END IF;
    status := jobq_fail(claimed.id, claimed.lease, 'no paper', retry => false);
    PERFORM settle();
    RETURN status;
END $$;
CREATE FUNCTION pg_temp.states() RETURNS TABLE (kind text, status jobq.job_status, error text) LANGUAGE sql AS
    $$SELECT j.kind, j.status, regexp_replace(j.error, '\d+', 'N', 'g') FROM jobq.jobs j WHERE j.queue = 'deps' ORDER BY j.id$$;

-- A diamond: first `split`, then `left` and `right`, and `join` when both have completed. Duplicate IDs are allowed.
SELECT jobq_enqueue('deps', kind => 'split') AS split \gset
SELECT jobq_enqueue('deps', kind => 'left', depends_on => ARRAY[:split]) AS left \gset
SELECT jobq_enqueue('deps', kind => 'right', depends_on => ARRAY[:split, :split]) AS right \gset
SELECT jobq_enqueue('deps', kind => 'join', depends_on => ARRAY[:right, :left]) AS join \gset
SELECT * FROM pg_temp.states();
SELECT settle();
SELECT * FROM pg_temp.work(10);
SELECT * FROM pg_temp.states();
-- One completed dependency is not enough.
SELECT * FROM pg_temp.work(1);
SELECT * FROM pg_temp.states();
SELECT * FROM pg_temp.work(10);
SELECT * FROM pg_temp.states();

-- The results of the dependencies, for the worker of the last job.
SELECT r.job_id = :left AS is_left, r.status, r.result FROM jobq_dependency_results(:join) r;
-- A job without dependencies, and an unknown job.
SELECT count(*) FROM jobq_dependency_results(:split);
SELECT count(*) FROM jobq_dependency_results(-1);

-- The graph.
SELECT d.job_id - :split AS job, d.depends_on - :split AS depends_on, d.on_failure FROM jobq.dependencies d WHERE d.job_id >= :split ORDER BY 1, 2;
-- The graph in the format of Graphviz.
SELECT regexp_replace(jobq_dot(:left), '\m\d+\M', 'N', 'g');
-- Quotes, backslashes, and line breaks in a kind are escaped.
SELECT jobq_enqueue('deps quoted', kind => E'a "b" \\n c\nd') AS quoted \gset
SELECT regexp_replace(jobq_dot(:quoted), '\m\d+\M', 'N', 'g');
-- A large graph is truncated, which its output says. It always contains the requested job.
SELECT regexp_replace(jobq_dot(:join, 2), '\m\d+\M', 'N', 'g');
SELECT jobq_dot(-1) IS NULL AS unknown;
SELECT * FROM pg_temp.work(10);

-- Dependencies that have already completed do not block a job. An empty array means no dependencies.
SELECT jobq_enqueue('deps', kind => 'after', depends_on => ARRAY[:join]) > 0 AS enqueued;
SELECT jobq_enqueue('deps', kind => 'free', depends_on => '{}') > 0 AS enqueued;
SELECT settle();
SELECT * FROM pg_temp.work(10);
DELETE FROM jobq.jobs WHERE queue = 'deps';
SELECT count(*) AS edges FROM jobq.dependencies;

-- Dependencies on jobs of the same transaction, in one call. run_at matters after the dependencies have completed. IDs may be
-- strings, because some drivers return them as strings.
BEGIN;
SELECT jobq_enqueue('deps', kind => 'first') AS first \gset
SELECT count(*), bool_and(is_new) FROM jobq_enqueue_jobs(jsonb_build_array(
    jsonb_build_object('queue', 'deps', 'kind', 'now', 'depends_on', jsonb_build_array(:first, :'first'::text)),
    jsonb_build_object('queue', 'deps', 'kind', 'next year', 'depends_on', jsonb_build_array(:first), 'run_at', now() + interval '1 year'),
    jsonb_build_object('queue', 'deps', 'kind', 'keyed', 'depends_on', jsonb_build_array(:'first'::text), 'unique_key', 'k'),
    jsonb_build_object('queue', 'deps', 'kind', 'same key', 'depends_on', jsonb_build_array(:first), 'unique_key', 'k'),
    '{"queue": "deps", "kind": "independent", "depends_on": []}'::jsonb));
COMMIT;
SELECT * FROM pg_temp.states();
SELECT count(*) AS edges FROM jobq.dependencies;
SELECT * FROM pg_temp.work(1);
SELECT * FROM pg_temp.states();
DELETE FROM jobq.jobs WHERE queue = 'deps';

-- If a dependency fails permanently, is canceled, or is deleted, its dependents are canceled, and so are their dependents.
SELECT jobq_enqueue('deps', kind => 'paper', priority => -1) AS paper \gset
SELECT jobq_enqueue('deps', kind => 'other') AS other \gset
SELECT jobq_enqueue('deps', kind => 'print', depends_on => ARRAY[:paper, :other]) AS print \gset
SELECT jobq_enqueue('deps', kind => 'send', depends_on => ARRAY[:print]) AS send \gset
-- This job runs in any case.
SELECT jobq_enqueue('deps', kind => 'tidy up', depends_on => ARRAY[:send], on_dependency_failure => 'run') AS tidy \gset
SELECT settle();
-- A failed attempt that will be retried does not count as a failure.
SELECT jobq_fail(id, lease, 'paper jam', retry_in => '0') FROM jobq_claim('deps');
SELECT settle();
SELECT * FROM pg_temp.states();
SELECT pg_temp.fail(:paper);
SELECT * FROM pg_temp.states();
SELECT r.job_id - :paper AS job, r.status, r.result FROM jobq_dependency_results(:tidy) r;
-- A retry of the failed job does not restore its canceled dependents.
SELECT jobq_retry(:paper);
SELECT settle();
SELECT * FROM pg_temp.states();
-- They are retried individually, and wait again.
SELECT jobq_retry(:print), jobq_retry(:send);
SELECT settle();
SELECT kind, status FROM pg_temp.states();
SELECT * FROM pg_temp.work(2);
SELECT * FROM pg_temp.work(2);
SELECT kind, status FROM pg_temp.states();
DELETE FROM jobq.jobs WHERE queue = 'deps';

SELECT jobq_enqueue('deps', kind => 'a') AS a \gset
SELECT jobq_enqueue('deps', kind => 'b') AS b \gset
SELECT jobq_enqueue('deps', kind => 'after a', depends_on => ARRAY[:a]) AS aa \gset
SELECT jobq_enqueue('deps', kind => 'after b', depends_on => ARRAY[:b]) AS bb \gset
SELECT jobq_cancel(:a), jobq_delete(:b);
SELECT settle();
SELECT * FROM pg_temp.states();
DELETE FROM jobq.jobs WHERE queue = 'deps';

-- The result of a dependency that completed and was then deleted is kept.
SELECT jobq_enqueue('deps', kind => 'a') AS a \gset
SELECT jobq_enqueue('deps', kind => 'b') AS b \gset
SELECT jobq_enqueue('deps', kind => 'both', depends_on => ARRAY[:a, :b]) AS both \gset
SELECT * FROM pg_temp.work(1);
SELECT jobq_delete(:a);
SELECT * FROM pg_temp.states();
SELECT * FROM pg_temp.work(1);
SELECT * FROM pg_temp.states();
SELECT r.status, r.result FROM jobq_dependency_results(:both) r;
-- The result is kept until the last dependent is deleted.
SELECT count(*) FROM jobq.deleted_dependencies;
SELECT jobq_delete(:both);
SELECT settle();
SELECT count(*) FROM jobq.deleted_dependencies;
DELETE FROM jobq.jobs WHERE queue = 'deps';

-- The retention of a job starts when no unfinished job depends on it.
SELECT jobq_create_queue('deps', keep_completed => '0', keep_failed => '0');
SELECT jobq_enqueue('deps', kind => 'a') AS a \gset
SELECT jobq_enqueue('deps', kind => 'after a', depends_on => ARRAY[:a]) AS aa \gset
SELECT * FROM pg_temp.work(1);
SELECT * FROM pg_temp.states();
SELECT r.status, r.result FROM jobq_dependency_results(:aa) r;
SELECT * FROM pg_temp.work(1);
SELECT settle();
SELECT * FROM pg_temp.states();
SELECT count(*) FROM jobq.dependencies;
-- Canceled dependents are deleted at once, too.
SELECT jobq_enqueue('deps', kind => 'a') AS a \gset
SELECT jobq_enqueue('deps', kind => 'after a', depends_on => ARRAY[:a]) AS aa \gset
SELECT pg_temp.fail(:a);
SELECT settle();
SELECT * FROM pg_temp.states();
SELECT jobq_drop_queue('deps');

-- With plain SQL, an operator can run a job at once, ...
SELECT jobq_enqueue('deps', kind => 'a') AS a \gset
SELECT jobq_enqueue('deps', kind => 'after a', depends_on => ARRAY[:a]) AS aa \gset
UPDATE jobq.jobs SET status = 'pending' WHERE id = :aa;
SELECT settle();
SELECT kind, status FROM pg_temp.states();
-- ... make it wait again, ...
UPDATE jobq.jobs SET status = 'blocked' WHERE id = :aa;
SELECT settle();
SELECT kind, status FROM pg_temp.states();
-- ... remove a dependency, ...
DELETE FROM jobq.dependencies WHERE job_id = :aa;
SELECT kind, status FROM pg_temp.states();
-- ... or add one.
INSERT INTO jobq.dependencies (job_id, depends_on) VALUES (:aa, :a);
SELECT kind, status FROM pg_temp.states();
UPDATE jobq.jobs SET status = 'completed', result = '"by hand"' WHERE id = :a;
SELECT settle();
SELECT kind, status FROM pg_temp.states();
UPDATE jobq.jobs SET status = 'blocked' WHERE id = :aa;
DELETE FROM jobq.jobs WHERE id = :a;
SELECT settle();
SELECT kind, status FROM pg_temp.states();
SELECT status, result FROM jobq_dependency_results(:aa);
UPDATE jobq.jobs SET status = 'blocked' WHERE id = :aa;
TRUNCATE jobq.edges;
SELECT kind, status FROM pg_temp.states();
-- Cycles are rejected.
\set VERBOSITY terse
INSERT INTO jobq.dependencies (job_id, depends_on) VALUES (:aa, :aa);
\set VERBOSITY default
-- A dependency needs an existing job and a valid ID. One statement can insert both the job and its dependency.
INSERT INTO jobq.dependencies (job_id, depends_on) VALUES (9e18, :aa);
INSERT INTO jobq.dependencies (job_id, depends_on) VALUES (:aa, -1);
UPDATE jobq.jobs SET status = 'pending' WHERE id = :aa;
WITH new AS (INSERT INTO jobq.jobs (queue, kind) VALUES ('deps', 'by hand') RETURNING id)
INSERT INTO jobq.dependencies (job_id, depends_on) SELECT id, :aa FROM new;
INSERT INTO jobq.dependencies (job_id, depends_on) SELECT jobq_enqueue('deps', kind => 'enqueued'), :aa;
SELECT kind, status FROM pg_temp.states();
UPDATE jobq.dependencies SET job_id = 9e18 WHERE job_id = (SELECT id FROM jobq.jobs WHERE kind = 'by hand');
UPDATE jobq.dependencies SET on_failure = 'run' WHERE depends_on = :aa;
DELETE FROM jobq.dependencies WHERE depends_on = :aa;
SELECT kind, status FROM pg_temp.states();
-- The counters are exact.
SELECT blocked, pending, cancelled FROM jobq.queue_stats WHERE queue = 'deps';
DELETE FROM jobq.jobs WHERE queue = 'deps';

-- If a job with saved steps is blocked with plain SQL, it waits again, and is canceled like any other job if its dependency
-- fails.
SELECT jobq_enqueue('deps', kind => 'a', priority => -1) AS a \gset
SELECT jobq_enqueue('deps', kind => 'after a', depends_on => ARRAY[:a]) AS aa \gset
SELECT * FROM pg_temp.work(1);
SELECT id, lease FROM jobq_claim('deps') \gset
SELECT state FROM jobq_step_done(:id, :lease, 'half', '1');
SELECT jobq_release(:id, :lease);
SELECT jobq_retry(:a);
SELECT pg_temp.fail(:a);
SELECT * FROM pg_temp.states();
UPDATE jobq.jobs SET status = 'blocked' WHERE id = :aa;
SELECT settle();
SELECT * FROM pg_temp.states();
DELETE FROM jobq.jobs WHERE queue = 'deps';

-- Bad input.
CREATE FUNCTION pg_temp.outcome(statement text) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
    EXECUTE statement;
    RETURN 'works';
EXCEPTION WHEN OTHERS THEN
    RETURN SQLSTATE || ': ' || SQLERRM;
END $$;
SELECT call, pg_temp.outcome('SELECT ' || call) FROM (VALUES
    ($$jobq_enqueue('deps', depends_on => '{-1}')$$),
    ($$jobq_enqueue('deps', depends_on => '{NULL}')$$),
    ($$jobq_enqueue('deps', depends_on => '{{1,2},{3,4}}')$$),
    ($$jobq_enqueue('deps', depends_on => array_fill(1, ARRAY[100000]))$$),
    ($$jobq_enqueue('deps', depends_on => '{}', on_dependency_failure => 'ignore')$$),
    ($$jobq_enqueue('deps', depends_on => '{}', on_dependency_failure => NULL)$$),
    ($$jobq_enqueue_jobs('[{"queue": "deps", "depends_on": [null]}]')$$),
    ($$jobq_enqueue_jobs('[{"queue": "deps", "depends_on": ["x"]}]')$$),
    ($$jobq_enqueue_jobs('[{"queue": "deps", "depends_on": 1}]')$$),
    ($$jobq_enqueue_jobs('[{"queue": "deps", "depends_on": [1e30]}]')$$),
    ($$jobq_enqueue_jobs('[{"queue": "deps", "depends_on": [true]}]')$$),
    ($$jobq_dot(NULL)$$),
    ($$jobq_dot(1, 0)$$),
    ($$jobq_dot(1, NULL)$$),
    ($$jobq_dot(1, 1000000)$$),
    ($$jobq_dependency_results(NULL)$$)) AS v(call);
-- The context of the error says which element of the call is wrong.
SELECT jobq_enqueue_jobs('[{"queue": "deps"}, {"queue": "deps", "depends_on": [-7]}]');
SELECT count(*) AS unchanged FROM jobq.jobs WHERE queue = 'deps';
-- If the ID of a job changes, it keeps its dependencies and its attempts.
SELECT jobq_enqueue('deps renamed') AS before \gset
SELECT jobq_enqueue('deps renamed', depends_on => ARRAY[:before]::bigint[]) AS named \gset
UPDATE jobq.jobs SET id = id + 1000000 WHERE id = :named;
DO $$BEGIN UPDATE jobq.jobs SET id = (SELECT depends_on FROM jobq.dependencies WHERE job_id = j.id) - 1 FROM jobq.jobs j WHERE j.id = jobs.id AND j.queue = 'deps renamed' AND j.status = 'blocked';
EXCEPTION WHEN invalid_parameter_value THEN RAISE NOTICE '%', regexp_replace(SQLERRM, '\d+', 'N', 'g'); END$$;
SELECT j.status, d.depends_on = :before AS waits FROM jobq.jobs j JOIN jobq.dependencies d ON d.job_id = j.id WHERE j.id = :named + 1000000;
SELECT count(jobq_complete(id, lease)) FROM jobq_claim('deps renamed', batch => 2);
SELECT settle();
SELECT id = :named + 1000000 AS renamed, jobq_fail(id, lease, 'once') FROM jobq_claim('deps renamed');
UPDATE jobq.jobs SET id = :named WHERE id = :named + 1000000;
SELECT a.job_id = :named AS its, a.error FROM jobq.attempts a WHERE a.job_id IN (:named, :named + 1000000);
SELECT jobq_drop_queue('deps renamed', force => true);
-- A dump may contain the edges before the jobs.
BEGIN;
SET LOCAL check_function_bodies = off;
INSERT INTO jobq.dependencies (job_id, depends_on) VALUES (9e18, 1);
ROLLBACK;
DROP FUNCTION pg_temp.work, pg_temp.fail, pg_temp.states, pg_temp.outcome;
SELECT jobq_drop_queue('deps', force => true), jobq_drop_queue('deps quoted', force => true);
