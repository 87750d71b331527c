-- Jobs that spawn others and await their ends.
SET client_min_messages = warning;
SELECT jobq_create_queue('flows', heartbeat_timeout => '1 hour', max_attempts => 3, backoff_base => '0'),
       jobq_create_queue('pieces', heartbeat_timeout => '1 hour', keep_completed => '0', keep_failed => '0', backoff_base => '0', max_attempts => 1);
CREATE FUNCTION pg_temp.claimed(queue text DEFAULT 'flows', OUT id bigint, OUT lease bigint) LANGUAGE sql AS $$
    SELECT c.id, c.lease FROM jobq_claim(queue, 'w') c $$;
-- A flow that runs and has spawned pieces, so many.
CREATE FUNCTION pg_temp.spawned(pieces integer, OUT id bigint, OUT lease bigint, OUT ids bigint[]) LANGUAGE plpgsql AS $$
BEGIN
    id := jobq_enqueue('flows');
    SELECT c.lease INTO STRICT lease FROM jobq_claim('flows', 'w') c WHERE c.id = spawned.id;
    SELECT s.job_ids INTO STRICT ids FROM jobq_spawn(id, lease, 'split',
        coalesce((SELECT jsonb_agg(jsonb_build_object('queue', 'pieces', 'payload', n)) FROM generate_series(1, pieces) n), '[]')) s;
END $$;
-- Lets all that can run of the pieces end: 'no' fails, the others give their payload back, ten times as large.
CREATE FUNCTION pg_temp.work() RETURNS bigint LANGUAGE sql AS $$
    SELECT count(CASE WHEN c.payload = '"no"' THEN jobq_fail(c.id, c.lease, 'no')::text
                      ELSE jobq_complete(c.id, c.lease, to_jsonb(CASE jsonb_typeof(c.payload) WHEN 'number' THEN 10 * c.payload::int ELSE 0 END))::text END)
    FROM jobq_claim('pieces', 'w', 1000) c $$;
CREATE FUNCTION pg_temp.said(results jsonb, ids bigint[], OUT n bigint, OUT status text, OUT result jsonb) RETURNS SETOF record LANGUAGE sql AS $$
    SELECT array_position(ids, (r.value->>'job_id')::bigint), r.value->>'status', r.value->'result'
    FROM jsonb_array_elements(results) WITH ORDINALITY r ORDER BY r.ordinality $$;

-- Specs are those of jobq_enqueue_jobs, refs included. The ids are a step: exactly once.
SELECT jobq_enqueue('flows') AS flow \gset
SELECT lease AS l FROM pg_temp.claimed() \gset
SELECT state, cardinality(job_ids), job_ids FROM jobq_spawn(:flow, :l, 'split', '[{"queue": "pieces", "payload": 1, "ref": "a"}, {"queue": "pieces", "payload": 2, "depends_on": ["@a"]}]') \gset
SELECT :'state' AS state, :cardinality AS jobs, (SELECT count(*) FROM jobq.dependencies WHERE job_id = (:'job_ids'::bigint[])[2] AND depends_on = (:'job_ids'::bigint[])[1]) AS edges;
SELECT state, job_ids = :'job_ids' AS same FROM jobq_spawn(:flow, :l, 'split', '[{"queue": "pieces"}]');
SELECT s.name, s.state, s.result = to_jsonb(:'job_ids'::bigint[]) AS ids FROM jobq_steps(ARRAY[:flow], ARRAY[:l]::bigint[]) s;
SELECT count(*) FROM jobq.children WHERE parent_id = :flow;
SELECT count(*) FROM jobq.jobs WHERE queue = 'pieces';
-- A zombie spawns nothing, nor does a transaction that rolls back; none is a number, too.
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

-- To await them takes no lease, no attempt. Each end of one is not the end of all.
SELECT * FROM jobq_await_jobs(:flow, :l, :'job_ids', 'joined', timeout => '1 hour');
SELECT status, attempts, lease, _due, _must_end_at = (SELECT until FROM jobq.steps WHERE job_id = :flow AND name = 'joined') AS deadline FROM jobq.jobs WHERE id = :flow;
SELECT reason, detail, jobs = :'job_ids' AS jobs FROM jobq_explain(:flow);
SELECT pg_temp.work(), settle();
SELECT status FROM jobq.jobs WHERE id = :flow;
SELECT reason, detail, jobs = (:'job_ids'::bigint[])[2:2] AS jobs FROM jobq_explain(:flow);
SELECT pg_temp.work(), settle();
SELECT status FROM jobq.jobs WHERE id = :flow;
-- The results, in the order of the ids; the queue keeps nothing, but these are kept.
SELECT lease AS l FROM pg_temp.claimed() \gset
SELECT a.state, s.* FROM jobq_await_jobs(:flow, :l, :'job_ids', 'joined') a, pg_temp.said(a.results, :'job_ids') s;
SELECT status, count(*) FROM jobq.jobs WHERE queue = 'pieces' GROUP BY 1;
SELECT count(*) FROM jobq.job_waits WHERE job_id = :flow;
-- What was decided stays decided.
SELECT jobq_retry((:'job_ids'::bigint[])[1]);
SELECT a.state, s.* FROM jobq_await_jobs(:flow, :l, :'job_ids', 'joined') a, pg_temp.said(a.results, :'job_ids') s;
SELECT a.state, s.n, s.status FROM jobq_await_jobs(:flow, :l, :'job_ids', 'now', timeout => '0') a, pg_temp.said(a.results, :'job_ids') s;
SELECT pg_temp.work();
SELECT event, detail FROM jobq_log(:flow) WHERE event IN ('spawned', 'wait begun');
-- They are kept until their parent has finished.
SELECT jobq_complete(:flow, :l);
DO $$ BEGIN
    FOR i IN 1..1000 LOOP
        EXIT WHEN NOT EXISTS (SELECT FROM jobq.jobs WHERE queue = 'pieces');
        PERFORM jobq_tick();
    END LOOP;
END $$;
SELECT count(*) FROM jobq.jobs WHERE queue = 'pieces';
SELECT jobq_delete(:flow);
SELECT count(*) FROM jobq.children WHERE parent_id = :flow;

-- Any of them; how one ended does not matter.
SELECT id AS flow, lease AS l, ids FROM pg_temp.spawned(3) \gset
UPDATE jobq.jobs SET payload = '"no"' WHERE id = (:'ids'::bigint[])[2];
UPDATE jobq.jobs SET run_at = '2100-01-01' WHERE id = ANY (:'ids') AND id <> (:'ids'::bigint[])[2];
SELECT state FROM jobq_await_jobs(:flow, :l, :'ids', 'first', 'any');
SELECT detail FROM jobq_explain(:flow);
SELECT pg_temp.work(), settle();
SELECT lease AS l FROM pg_temp.claimed() \gset
SELECT a.state, s.* FROM jobq_await_jobs(:flow, :l, :'ids', 'first', 'any') a, pg_temp.said(a.results, :'ids') s;
-- In time or not.
SELECT a.state, s.n, s.status FROM jobq_await_jobs(:flow, :l, :'ids', 'late', timeout => '0') a, pg_temp.said(a.results, :'ids') s;
SELECT state FROM jobq_await_jobs(:flow, :l, :'ids', 'later', timeout => '1 hour');
SELECT done >= 1 AS promoted FROM jobq_tick(now() + interval '2 hours') WHERE duty = 'promote';
UPDATE jobq.jobs SET run_at = '2100-01-01' WHERE queue = 'pieces' AND status < 'processing';
SELECT lease AS l FROM pg_temp.claimed() \gset
SELECT state FROM jobq_await_jobs(:flow, :l, :'ids', 'later', timeout => '2 hours');
SELECT until < now() + interval '90 minutes' AS first_deadline FROM jobq.steps WHERE job_id = :flow AND name = 'later';
UPDATE jobq.steps SET until = now() WHERE job_id = :flow AND name = 'later';
UPDATE jobq.jobs SET status = 'pending', run_at = now() WHERE id = :flow;
SELECT lease AS l FROM pg_temp.claimed() \gset
SELECT state FROM jobq_await_jobs(:flow, :l, :'ids', 'later');
SELECT state FROM jobq_await_jobs(:flow, :l, :'ids', 'later');
-- A wait that is abandoned wakes nobody, and an open cancellation is answered first.
SELECT state FROM jobq_await_jobs(:flow, :l, :'ids', 'abandoned', 'all');
UPDATE jobq.jobs SET status = 'pending' WHERE id = :flow;
SELECT lease AS l FROM pg_temp.claimed() \gset
SELECT state FROM jobq_await(:flow, :l, 'a signal');
SELECT count(*) FROM jobq.job_waits WHERE job_id = :flow;
UPDATE jobq.jobs SET status = 'pending' WHERE id = :flow;
SELECT lease AS l FROM pg_temp.claimed() \gset
SELECT jobq_cancel(:flow);
SELECT * FROM jobq_await_jobs(:flow, :l, :'ids', 'cancelled');
SELECT jobq_release(:flow, :l), jobq_delete(:flow);
-- Its children go on, and nobody needs them any more.
SELECT count(*) AS children FROM jobq.children WHERE parent_id = :flow;
SELECT status, count(*) FROM jobq.jobs WHERE queue = 'pieces' GROUP BY 1 ORDER BY 1;
SELECT jobq_purge_queue('pieces') > 0 AS purged;

-- Other jobs than one's own, and what is gone: it has ended.
SELECT id AS flow, lease AS l, ids FROM pg_temp.spawned(2) \gset
SELECT jobq_enqueue('pieces', '7') AS other \gset
SELECT state FROM jobq_await_jobs(:flow, :l, ARRAY[-1, :other] || :'ids'::bigint[], 'mixed');
SELECT jobq_delete((:'ids'::bigint[])[1]);
SELECT pg_temp.work(), settle();
SELECT lease AS l FROM pg_temp.claimed() \gset
SELECT a.state, s.* FROM jobq_await_jobs(:flow, :l, ARRAY[-1, :other] || :'ids'::bigint[], 'mixed') a, pg_temp.said(a.results, ARRAY[-1, :other] || :'ids'::bigint[]) s;
-- A completed child that somebody deletes leaves its result; the same id twice is there twice.
SELECT jobq_delete((:'ids'::bigint[])[2]);
SELECT a.state, s.* FROM jobq_await_jobs(:flow, :l, (:'ids'::bigint[])[2:2] || :'ids'::bigint[], 'deleted') a, pg_temp.said(a.results, :'ids') s;
SELECT * FROM jobq_await_jobs(:flow, :l, '{}', 'none');
SELECT jobq_complete(:flow, :l), jobq_delete(:flow);

-- All its children deleted while it waits, by hand and with their queue.
SELECT id AS flow, lease AS l, ids FROM pg_temp.spawned(2) \gset
SELECT state FROM jobq_await_jobs(:flow, :l, :'ids', 'w', 'any');
DELETE FROM jobq.jobs WHERE id = ANY (:'ids');
SELECT settle();
SELECT lease AS l FROM pg_temp.claimed() \gset
SELECT a.state, s.* FROM jobq_await_jobs(:flow, :l, :'ids', 'w', 'any') a, pg_temp.said(a.results, :'ids') s;
SELECT job_ids AS ids FROM jobq_spawn(:flow, :l, 'more', '[{"queue": "pieces 2"}, {"queue": "pieces 2"}]') \gset
SELECT state FROM jobq_await_jobs(:flow, :l, :'ids', 'w2');
SELECT jobq_drop_queue('pieces 2', force => true), settle();
SELECT status FROM jobq.jobs WHERE id = :flow;
SELECT jobq_delete(:flow);

-- A child that has failed for good, a dead letter, is kept, too: in its dead letter queue.
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

-- A retry of a completed job begins anew, also with its children; that of a failed one goes on with them.
SELECT id AS flow, lease AS l, ids FROM pg_temp.spawned(1) \gset
SELECT jobq_fail(:flow, :l, 'no', retry => false), jobq_retry(:flow);
SELECT lease AS l FROM pg_temp.claimed() \gset
SELECT state, job_ids = :'ids' AS same FROM jobq_spawn(:flow, :l, 'split', '[{"queue": "pieces"}]');
SELECT jobq_complete(:flow, :l), jobq_retry(:flow);
SELECT count(*) FROM jobq.children WHERE parent_id = :flow;
SELECT lease AS l FROM pg_temp.claimed() \gset
SELECT state, job_ids = :'ids' AS same FROM jobq_spawn(:flow, :l, 'split', '[{"queue": "pieces"}]');
-- Another id takes them along.
SELECT job_ids AS ids FROM jobq_spawn(:flow, :l, 'split', '[]') \gset
SELECT state FROM jobq_await_jobs(:flow, :l, :'ids', 'w');
UPDATE jobq.jobs SET id = :flow + 1000000 WHERE id = :flow;
SELECT (SELECT count(*) FROM jobq.children WHERE parent_id = :flow + 1000000) AS children, (SELECT count(*) FROM jobq.job_waits WHERE job_id = :flow + 1000000) AS waits;
SELECT pg_temp.work(), settle();
SELECT status FROM jobq.jobs WHERE id = :flow + 1000000;
SELECT jobq_delete(:flow + 1000000);

-- A child that is there already, by its key, is a child as well.
SELECT jobq_enqueue('pieces', '5', unique_key => 'k') AS there \gset
SELECT id AS flow, lease AS l FROM pg_temp.spawned(0) \gset
SELECT state, job_ids = ARRAY[:there]::bigint[] AS there FROM jobq_spawn(:flow, :l, 'keyed', '[{"queue": "pieces", "unique_key": "k"}]');
SELECT pg_temp.work();
SELECT a.results->0->'result' AS result FROM jobq_await_jobs(:flow, :l, ARRAY[:there]::bigint[], 'w') a;
SELECT jobq_complete(:flow, :l), jobq_delete(:flow);

-- Many: each is looked at once, whatever their order.
SELECT id AS flow, lease AS l, ids FROM pg_temp.spawned(3000) \gset
SELECT state FROM jobq_await_jobs(:flow, :l, :'ids', 'w');
SELECT pg_temp.work(), pg_temp.work(), settle();
SELECT status FROM jobq.jobs WHERE id = :flow;
SELECT pg_temp.work(), settle();
SELECT lease AS l FROM pg_temp.claimed() \gset
SELECT state, jsonb_array_length(results), results->0->'result' AS first, results->-1->'result' AS last FROM jobq_await_jobs(:flow, :l, :'ids', 'w');
SELECT jobq_complete(:flow, :l), jobq_delete(:flow);
-- Many await one.
SELECT jobq_enqueue('pieces', '4') AS one \gset
SELECT count(*) FROM jobq_enqueue_many('flows', array_fill('{}'::jsonb, ARRAY[2500]));
SELECT w.state, count(*) FROM jobq_claim('flows', 'w', 2500) c, jobq_await_jobs(c.id, c.lease, ARRAY[:one]::bigint[], 'one') w GROUP BY 1;
SELECT pg_temp.work(), settle();
SELECT w.state, w.results->0->'result' AS result, count(*) FROM jobq_claim('flows', 'w', 2500) c, jobq_await_jobs(c.id, c.lease, ARRAY[:one]::bigint[], 'one') w GROUP BY 1, 2;
SELECT count(*) FROM jobq.job_waits;
TRUNCATE jobq.jobs;
SELECT (SELECT count(*) FROM jobq.children) AS children, (SELECT count(*) FROM jobq.job_waits) AS waits, (SELECT count(*) FROM jobq.deleted_dependencies) AS results;

-- What is refused.
SELECT jobq_enqueue('flows', group_key => 'g') AS flow, jobq_enqueue('flows', group_key => 'g') AS behind, settle() \gset
SELECT lease AS l FROM pg_temp.claimed() \gset
\set VERBOSITY sqlstate
SELECT * FROM jobq_await_jobs(:flow, :l, ARRAY[:flow]::bigint[], 'w');
SELECT * FROM jobq_await_jobs(:flow, :l, ARRAY[:behind]::bigint[], 'w');
\set VERBOSITY default
SELECT * FROM jobq_await_jobs(:flow, :l, '{}', 'w', 'any');
SELECT * FROM jobq_await_jobs(:flow, :l, '{1}', 'w', 'some');
SELECT * FROM jobq_await_jobs(:flow, :l, '{1,NULL}', 'w');
SELECT * FROM jobq_await_jobs(:flow, :l, '{{1},{2}}', 'w');
SELECT * FROM jobq_await_jobs(:flow, :l, NULL, 'w');
SELECT * FROM jobq_await_jobs(:flow, :l, '{1}', NULL);
SELECT * FROM jobq_await_jobs(:flow, :l, '{1}', 'w', NULL);
SELECT * FROM jobq_await_jobs(:flow, :l, '{1}', 'w', timeout => '-1 s');
SELECT * FROM jobq_await_jobs(:flow, :l, array_fill(1::bigint, ARRAY[100000]), 'w');
SELECT state FROM jobq_await_jobs(:flow, :l, '{-1}', 'w');
SELECT state FROM jobq_await_jobs(:flow, :l, '{-1,-2}', 'w');
SELECT state FROM jobq_await_jobs(:flow, :l, '{-1}', 'w', 'any');
SELECT state FROM jobq_await_jobs(:flow, :l + 1, '{-1}', 'w');
SELECT state FROM jobq_await(:flow, :l, 'w');
SELECT * FROM jobq_spawn(:flow, :l, 'w', '[]');
SELECT state FROM jobq_spawn(:flow, :l, 's', '[]');
SELECT state FROM jobq_step(:flow, :l, 's');
SELECT * FROM jobq_spawn(:flow, :l, 'x', '{}');
SELECT * FROM jobq_spawn(:flow, :l, 'x', '[{"queue": "pieces", "depends_on": ["@a"]}]');
SELECT * FROM jobq_spawn(:flow, :l, 'x', NULL);
SELECT * FROM jobq_spawn(:flow, :l, '', '[]');
SET jobq.max_steps = 2;
\set VERBOSITY sqlstate
SELECT * FROM jobq_spawn(:flow, :l, 'x', '[]');
\set VERBOSITY default
RESET jobq.max_steps;
SELECT jobq_drop_queue('flows', force => true), jobq_drop_queue('pieces', force => true);
