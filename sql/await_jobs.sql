-- jobq_await_jobs: jobs that wait for other jobs to finish, which may be their children or any other jobs.
\getenv abs_srcdir PG_ABS_SRCDIR
\set functions :abs_srcdir '/sql/children.psql'
\i :functions

-- With "any", the wait ends when one of the jobs has finished, whatever its outcome is.
SELECT id AS flow, lease AS l, ids FROM pg_temp.spawned(3) \gset
UPDATE jobq.jobs SET payload = '"no"' WHERE id = (:'ids'::bigint[])[2];
UPDATE jobq.jobs SET run_at = '2100-01-01' WHERE id = ANY (:'ids') AND id <> (:'ids'::bigint[])[2];
SELECT state FROM jobq_await_jobs(:flow, :l, :'ids', 'first', 'any');
SELECT detail FROM jobq_explain(:flow);
SELECT pg_temp.work(), settle();
SELECT lease AS l FROM pg_temp.claimed() \gset
SELECT a.state, s.* FROM jobq_await_jobs(:flow, :l, :'ids', 'first', 'any') a, pg_temp.said(a.results, :'ids') s;
-- Timeouts.
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
-- An abandoned wait does not wake up its job, and a request to cancel is answered first.
SELECT state FROM jobq_await_jobs(:flow, :l, :'ids', 'abandoned', 'all');
UPDATE jobq.jobs SET status = 'pending' WHERE id = :flow;
SELECT lease AS l FROM pg_temp.claimed() \gset
SELECT state FROM jobq_await(:flow, :l, 'a signal');
SELECT count(*) FROM jobq.edges WHERE kind = 'awaits' AND job_id = :flow;
UPDATE jobq.jobs SET status = 'pending' WHERE id = :flow;
SELECT lease AS l FROM pg_temp.claimed() \gset
SELECT jobq_cancel(:flow);
SELECT * FROM jobq_await_jobs(:flow, :l, :'ids', 'cancelled');
SELECT jobq_release(:flow, :l), jobq_delete(:flow);
-- Its children keep running, although no job needs them anymore.
SELECT count(*) AS children FROM jobq.edges WHERE kind = 'child' AND job_id = :flow;
-- The failed job is deleted by the next prune.
DO $$ BEGIN
    WHILE EXISTS (SELECT FROM jobq.jobs WHERE queue = 'pieces' AND status = 'failed') LOOP
        PERFORM FROM jobq_tick();
        COMMIT;
    END LOOP;
END $$;
SELECT status, count(*) FROM jobq.jobs WHERE queue = 'pieces' GROUP BY 1 ORDER BY 1;
SELECT jobq_purge_queue('pieces') > 0 AS purged;

-- Jobs that are not children. A job that no longer exists counts as finished.
SELECT id AS flow, lease AS l, ids FROM pg_temp.spawned(2) \gset
SELECT jobq_enqueue('pieces', '7') AS other \gset
SELECT state FROM jobq_await_jobs(:flow, :l, ARRAY[-1, :other] || :'ids'::bigint[], 'mixed');
SELECT jobq_delete((:'ids'::bigint[])[1]);
SELECT pg_temp.work(), settle();
SELECT lease AS l FROM pg_temp.claimed() \gset
SELECT a.state, s.* FROM jobq_await_jobs(:flow, :l, ARRAY[-1, :other] || :'ids'::bigint[], 'mixed') a, pg_temp.said(a.results, ARRAY[-1, :other] || :'ids'::bigint[]) s;
-- A completed child that has been deleted leaves its result. A duplicate ID appears twice in the results.
SELECT jobq_delete((:'ids'::bigint[])[2]);
SELECT a.state, s.* FROM jobq_await_jobs(:flow, :l, (:'ids'::bigint[])[2:2] || :'ids'::bigint[], 'deleted') a, pg_temp.said(a.results, :'ids') s;
SELECT * FROM jobq_await_jobs(:flow, :l, '{}', 'none');
SELECT jobq_complete(:flow, :l), jobq_delete(:flow);

-- All children are deleted during the wait, with plain SQL and together with their queue.
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
-- Many jobs: each is read once, in any order.
SELECT id AS flow, lease AS l, ids FROM pg_temp.spawned(3000) \gset
SELECT state FROM jobq_await_jobs(:flow, :l, :'ids', 'w');
SELECT pg_temp.work(), pg_temp.work(), settle();
SELECT status FROM jobq.jobs WHERE id = :flow;
SELECT pg_temp.work(), settle();
SELECT lease AS l FROM pg_temp.claimed() \gset
SELECT state, jsonb_array_length(results), results->0->'result' AS first, results->-1->'result' AS last FROM jobq_await_jobs(:flow, :l, :'ids', 'w');
SELECT jobq_complete(:flow, :l), jobq_delete(:flow);
-- Many jobs wait for one.
SELECT jobq_enqueue('pieces', '4') AS one \gset
SELECT count(*) FROM jobq_enqueue_many('flows', array_fill('{}'::jsonb, ARRAY[2500]));
SELECT w.state, count(*) FROM jobq_claim('flows', 'w', 2500) c, jobq_await_jobs(c.id, c.lease, ARRAY[:one]::bigint[], 'one') w GROUP BY 1;
SELECT pg_temp.work(), settle();
SELECT w.state, w.results->0->'result' AS result, count(*) FROM jobq_claim('flows', 'w', 2500) c, jobq_await_jobs(c.id, c.lease, ARRAY[:one]::bigint[], 'one') w GROUP BY 1, 2;
SELECT count(*) FROM jobq.edges WHERE kind = 'awaits';
TRUNCATE jobq.jobs;
SELECT (SELECT count(*) FROM jobq.edges WHERE kind = 'child') AS children, (SELECT count(*) FROM jobq.edges WHERE kind = 'awaits') AS waits, (SELECT count(*) FROM jobq.deleted_dependencies) AS results;
-- Jobs cannot wait for each other permanently, directly or through other jobs, because none of them would finish. This is allowed
-- if a wait has a timeout or ends with any of several jobs.
SELECT jobq_enqueue('flows') AS a, jobq_enqueue('flows') AS b, jobq_enqueue('flows') AS c \gset
SELECT max(lease) FILTER (WHERE id = :a) AS la, max(lease) FILTER (WHERE id = :b) AS lb, max(lease) FILTER (WHERE id = :c) AS lc FROM jobq_claim('flows', 'w', 3) \gset
SELECT state FROM jobq_await_jobs(:a, :la, ARRAY[:b]::bigint[], 'b');
SELECT state FROM jobq_await_jobs(:b, :lb, ARRAY[:c, -1]::bigint[], 'c', 'any', timeout => '1 hour');
SELECT state FROM jobq_await_jobs(:c, :lc, ARRAY[:a]::bigint[], 'a', timeout => '0');
UPDATE jobq.jobs SET status = 'pending' WHERE id = :b;
SELECT lease AS lb FROM pg_temp.claimed() \gset
SELECT state FROM jobq_await_jobs(:b, :lb, format('[5:6]={%s,%s}', :c, :c)::bigint[], 'c again', 'any');
\set VERBOSITY sqlstate
SELECT * FROM jobq_await_jobs(:c, :lc, ARRAY[-1, :a]::bigint[], 'a again');
SELECT * FROM jobq_await_jobs(:c, :lc, ARRAY[:a]::bigint[], 'a again', 'any');
SELECT * FROM jobq_await_jobs(:c, :lc, ARRAY[:a, :a]::bigint[], 'a again', 'any');
\set VERBOSITY default
SELECT state FROM jobq_await_jobs(:c, :lc, ARRAY[:a, :b]::bigint[], 'any of them', 'any', timeout => '1 hour');
SELECT status, count(*) FROM jobq.jobs WHERE queue = 'flows' GROUP BY 1;
SELECT jobq_cancel(:c), settle();
SELECT id = :b AS woken, lease AS lb FROM pg_temp.claimed() \gset
SELECT :'woken' AS woken, jobq_complete(:b, :lb), settle();
SELECT id = :a AS woken, lease AS la FROM pg_temp.claimed() \gset
SELECT :'woken' AS woken, jobq_complete(:a, :la);

-- Rejected calls.
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
SELECT jobq_drop_queue('flows', force => true), jobq_drop_queue('pieces', force => true);
