-- Jobs that spawn child jobs exactly once. The children are kept as long as the parent needs them. For waits, see await_jobs.sql.
\getenv abs_srcdir PG_ABS_SRCDIR
\set functions :abs_srcdir '/sql/children.psql'
\i :functions

-- The specs have the same keys as in jobq_enqueue_jobs, including refs. The IDs are saved as a step, so that the jobs are spawned exactly
-- once.
SELECT jobq_enqueue('flows') AS flow \gset
SELECT lease AS l FROM pg_temp.claimed() \gset
SELECT state, cardinality(job_ids), job_ids FROM jobq_spawn(:flow, :l, 'split', '[{"queue": "pieces", "payload": 1, "ref": "a"}, {"queue": "pieces", "payload": 2, "depends_on": ["@a"]}]') \gset
SELECT :'state' AS state, :cardinality AS jobs, (SELECT count(*) FROM jobq.dependencies WHERE job_id = (:'job_ids'::bigint[])[2] AND depends_on = (:'job_ids'::bigint[])[1]) AS edges;
SELECT state, job_ids = :'job_ids' AS same FROM jobq_spawn(:flow, :l, 'split', '[{"queue": "pieces"}]');
SELECT s.name, s.state, s.result = to_jsonb(:'job_ids'::bigint[]) AS ids FROM jobq_steps(ARRAY[:flow], ARRAY[:l]::bigint[]) s;
SELECT count(*) FROM jobq.edges WHERE kind = 'child' AND job_id = :flow;
SELECT count(*) FROM jobq.jobs WHERE queue = 'pieces';
-- A worker with a lost lease spawns no jobs, and neither does a transaction that is rolled back. An empty list of specs is
-- allowed.
SELECT jobq_fail(:flow, :l, 'dies');
\set VERBOSITY sqlstate
SELECT * FROM jobq_spawn(:flow, :l, 'again', '[{"queue": "pieces"}]');
\set VERBOSITY default
SELECT lease AS l FROM pg_temp.claimed() \gset
BEGIN;
SELECT state FROM jobq_spawn(:flow, :l, 'again', '[{"queue": "pieces"}]');
ROLLBACK;
SELECT * FROM jobq_spawn(:flow, :l, 'again', '[]');
SELECT count(*) FROM jobq.jobs WHERE queue = 'pieces';

-- A waiting job has no lease and uses no attempt. The end of one child does not end a wait for all of them.
SELECT * FROM jobq_await_jobs(:flow, :l, :'job_ids', 'joined', timeout => '1 hour');
SELECT status, attempts, lease, _due, _must_end_at = (SELECT until FROM jobq.steps WHERE job_id = :flow AND name = 'joined') AS deadline FROM jobq.jobs WHERE id = :flow;
SELECT reason, detail, jobs = :'job_ids' AS jobs FROM jobq_explain(:flow);
SELECT pg_temp.work(), settle();
SELECT status FROM jobq.jobs WHERE id = :flow;
SELECT reason, detail, jobs = (:'job_ids'::bigint[])[2:2] AS jobs FROM jobq_explain(:flow);
SELECT pg_temp.work(), settle();
SELECT status FROM jobq.jobs WHERE id = :flow;
-- The results have the order of the IDs. The queue keeps no finished jobs, but these are kept.
SELECT lease AS l FROM pg_temp.claimed() \gset
SELECT a.state, s.* FROM jobq_await_jobs(:flow, :l, :'job_ids', 'joined') a, pg_temp.said(a.results, :'job_ids') s;
SELECT status, count(*) FROM jobq.jobs WHERE queue = 'pieces' GROUP BY 1;
SELECT count(*) FROM jobq.edges WHERE kind = 'awaits' AND job_id = :flow;
-- A decided wait does not change.
SELECT jobq_retry((:'job_ids'::bigint[])[1]);
SELECT a.state, s.* FROM jobq_await_jobs(:flow, :l, :'job_ids', 'joined') a, pg_temp.said(a.results, :'job_ids') s;
SELECT a.state, s.n, s.status FROM jobq_await_jobs(:flow, :l, :'job_ids', 'now', timeout => '0') a, pg_temp.said(a.results, :'job_ids') s;
SELECT pg_temp.work();
SELECT event, detail FROM jobq_log(:flow) WHERE event IN ('spawned', 'wait begun');
-- The children are kept until their parent has finished.
SELECT jobq_complete(:flow, :l);
DO $$ BEGIN
    FOR i IN 1..1000 LOOP
        EXIT WHEN NOT EXISTS (SELECT FROM jobq.jobs WHERE queue = 'pieces');
        PERFORM jobq_tick();
    END LOOP;
END $$;
SELECT count(*) FROM jobq.jobs WHERE queue = 'pieces';
SELECT jobq_delete(:flow);
SELECT count(*) FROM jobq.edges WHERE kind = 'child' AND job_id = :flow;
-- A child that failed permanently is kept in its dead letter queue.
SELECT jobq_create_queue('dead pieces'), jobq_alter_queue('pieces', dead_letter_queue => 'dead pieces', keep_failed => '14 days');
SELECT id AS flow, lease AS l, ids FROM pg_temp.spawned(1) \gset
UPDATE jobq.jobs SET payload = '"no"' WHERE id = ANY (:'ids');
SELECT state FROM jobq_await_jobs(:flow, :l, :'ids', 'w');
SELECT pg_temp.work(), settle();
SELECT queue, status FROM jobq.jobs WHERE id = ANY (:'ids');
SELECT count(*) >= 0 AS ticked FROM jobq_tick(now() + interval '1 year');
SELECT queue, status FROM jobq.jobs WHERE id = ANY (:'ids');
SELECT lease AS l FROM pg_temp.claimed() \gset
SELECT a.state, s.* FROM jobq_await_jobs(:flow, :l, :'ids', 'w') a, pg_temp.said(a.results, :'ids') s;
SELECT jobq_complete(:flow, :l);
DO $$ BEGIN
    FOR i IN 1..1000 LOOP
        EXIT WHEN NOT EXISTS (SELECT FROM jobq.jobs WHERE queue = 'dead pieces');
        PERFORM jobq_tick(now() + interval '1 year');
    END LOOP;
END $$;
SELECT count(*) FROM jobq.jobs WHERE queue = 'dead pieces';
SELECT jobq_alter_queue('pieces', dead_letter_queue => ''), jobq_drop_queue('dead pieces');

-- A retry of a completed job starts from the beginning and spawns new children. A retry of a failed job continues with the
-- existing children.
SELECT id AS flow, lease AS l, ids FROM pg_temp.spawned(1) \gset
SELECT jobq_fail(:flow, :l, 'no', retry => false), jobq_retry(:flow);
SELECT lease AS l FROM pg_temp.claimed() \gset
SELECT state, job_ids = :'ids' AS same FROM jobq_spawn(:flow, :l, 'split', '[{"queue": "pieces"}]');
SELECT jobq_complete(:flow, :l), jobq_retry(:flow);
SELECT count(*) FROM jobq.edges WHERE kind = 'child' AND job_id = :flow;
SELECT lease AS l FROM pg_temp.claimed() \gset
SELECT state, job_ids = :'ids' AS same FROM jobq_spawn(:flow, :l, 'split', '[{"queue": "pieces"}]');
-- If the ID of the parent changes, it keeps its children.
SELECT job_ids AS ids FROM jobq_spawn(:flow, :l, 'split', '[]') \gset
SELECT state FROM jobq_await_jobs(:flow, :l, :'ids', 'w');
UPDATE jobq.jobs SET id = :flow + 1000000 WHERE id = :flow;
SELECT (SELECT count(*) FROM jobq.edges WHERE kind = 'child' AND job_id = :flow + 1000000) AS children, (SELECT count(*) FROM jobq.edges WHERE kind = 'awaits' AND job_id = :flow + 1000000) AS waits;
SELECT pg_temp.work(), settle();
SELECT status FROM jobq.jobs WHERE id = :flow + 1000000;
SELECT jobq_delete(:flow + 1000000);

-- An existing job with the same unique key becomes a child.
SELECT jobq_enqueue('pieces', '5', unique_key => 'k') AS there \gset
SELECT id AS flow, lease AS l FROM pg_temp.spawned(0) \gset
SELECT state, job_ids = ARRAY[:there]::bigint[] AS there FROM jobq_spawn(:flow, :l, 'keyed', '[{"queue": "pieces", "unique_key": "k"}]');
SELECT pg_temp.work();
SELECT a.results->0->'result' AS result FROM jobq_await_jobs(:flow, :l, ARRAY[:there]::bigint[], 'w') a;
SELECT jobq_complete(:flow, :l), jobq_delete(:flow);

-- Rejected calls.
SELECT id AS flow, lease AS l FROM pg_temp.spawned(0) \gset
SELECT state FROM jobq_await_jobs(:flow, :l, '{-1}', 'w');
SELECT * FROM jobq_spawn(:flow, :l, 'w', '[]');
SELECT state FROM jobq_spawn(:flow, :l, 's', '[]');
SELECT state FROM jobq_step(:flow, :l, 's');
SELECT * FROM jobq_spawn(:flow, :l, 'x', '{}');
SELECT * FROM jobq_spawn(:flow, :l, 'x', '[{"queue": "pieces", "depends_on": ["@a"]}]');
SELECT * FROM jobq_spawn(:flow, :l, 'x', NULL);
SELECT * FROM jobq_spawn(:flow, :l, '', '[]');
-- Plain SQL can only write dependencies, not the edges of jobq_spawn and jobq_await_jobs.
SELECT (SELECT min(target) FROM jobq.edges WHERE job_id = :flow AND kind = 'child') IS NULL AS none;
SELECT cardinality(job_ids) AS spawned FROM jobq_spawn(:flow, :l, 'two', '[{"queue": "pieces"}, {"queue": "pieces"}]');
INSERT INTO jobq.edges (job_id, kind, target, on_failure) VALUES (:flow, 'awaits', :flow, NULL);
UPDATE jobq.edges SET kind = 'depends', job_id = target, target = job_id, on_failure = 'run' WHERE job_id = :flow;
DELETE FROM jobq.edges WHERE job_id = :flow;
\set VERBOSITY terse
INSERT INTO jobq.edges (job_id, kind, target) VALUES (:flow, 'child', 1);
INSERT INTO jobq.edges (job_id, target, on_failure) VALUES (:flow, 1, NULL);
\set VERBOSITY default
DELETE FROM jobq.dependencies WHERE job_id = :flow;
SELECT kind, count(*) FROM jobq.edges WHERE job_id = :flow GROUP BY 1;
-- Steps that are inserted with plain SQL may lack the job IDs. Then the name counts as used by a different step.
INSERT INTO jobq.steps (job_id, number, name, kind, state, jobs) VALUES (:flow, 8, 'h1', 'spawn', 'done', NULL), (:flow, 9, 'h2', 'all', 'done', NULL), (:flow, 10, 'h3', 'any', 'done', '{NULL}');
SELECT * FROM jobq_spawn(:flow, :l, 'h1', '[]');
SELECT * FROM jobq_await_jobs(:flow, :l, '{1}', 'h2');
SELECT * FROM jobq_await_jobs(:flow, :l, '{1}', 'h3', 'any');
SET jobq.max_steps = 2;
\set VERBOSITY sqlstate
SELECT * FROM jobq_spawn(:flow, :l, 'x', '[]');
\set VERBOSITY default
RESET jobq.max_steps;
SELECT jobq_drop_queue('flows', force => true), jobq_drop_queue('pieces', force => true);
