-- Reports on many jobs in one statement, with arrays of IDs and leases.
CREATE TABLE many_held (n integer, id bigint, lease bigint);
SELECT count(*) FROM jobq_enqueue_many('many', ARRAY['1', '2', '3', '4', '5', '6', '7', '8', '9']::jsonb[]);
INSERT INTO many_held SELECT payload::integer, id, lease FROM jobq_claim('many', 'w', batch => 9, heartbeat_timeout => '1 hour');
-- Returns the jobs with these numbers in this order, as arrays. For a number above 100, the job is n - 100, and the lease is
-- wrong.
CREATE FUNCTION pg_temp.jobs(VARIADIC numbers integer[], OUT ids bigint[], OUT leases bigint[]) LANGUAGE sql AS $$
    SELECT array_agg(h.id ORDER BY ord), array_agg(h.lease + u.n / 100 ORDER BY ord)
    FROM unnest(numbers) WITH ORDINALITY AS u(n, ord) JOIN many_held h ON h.n = u.n % 100
$$;
CREATE FUNCTION pg_temp.number(id bigint) RETURNS integer LANGUAGE sql AS 'SELECT n FROM many_held h WHERE h.id = $1';

-- One row per job in the caller's order. A duplicate job is one row, at its first position.
SELECT pg_temp.number(job_id) AS n, completed
FROM pg_temp.jobs(3, 1, 2, 3, 1), jobq_complete_many(ids, leases, ARRAY['"third"', '"first"', NULL, '"again"', NULL]::jsonb[]);
SELECT payload, status, result FROM jobq.jobs WHERE queue = 'many' AND payload <= '3' ORDER BY id;
-- The answer is false for lost leases, finished jobs, and unknown jobs. The other jobs are completed.
SELECT coalesce(pg_temp.number(job_id), 0) AS n, completed
FROM pg_temp.jobs(104, 1, 4), jobq_complete_many(ids || -1::bigint, leases || 1::bigint);

-- must_hold: either all jobs are completed, or an error names the jobs that are not held, and none is completed.
SELECT count(*) FROM jobq_enqueue_many('many must', '{21,22,23}');
INSERT INTO many_held SELECT payload::integer, id, lease FROM jobq_claim('many must', 'w2', batch => 3, heartbeat_timeout => '1 hour');
CREATE FUNCTION pg_temp.must(VARIADIC numbers integer[]) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    answer text; detail text; hint text;
BEGIN
    SELECT string_agg(pg_temp.number(c.job_id) || ' ' || c.completed, ', ') INTO answer
    FROM pg_temp.jobs(VARIADIC numbers), jobq_complete_many(ids, leases, must_hold => true) c;
    RETURN answer;
EXCEPTION WHEN SQLSTATE 'JQ001' THEN
    GET STACKED DIAGNOSTICS detail = PG_EXCEPTION_DETAIL, hint = PG_EXCEPTION_HINT;
    RETURN format('%s: %s | %s | %s', SQLSTATE, SQLERRM,
                  (SELECT replace(detail, h.id::text, '#' || h.n) FROM many_held h WHERE detail ~ ('\m' || h.id || '\M') LIMIT 1), hint);
END $$;
SELECT pg_temp.must(21, 22, 123);
SELECT status, count(*) FROM jobq.jobs WHERE queue = 'many must' GROUP BY status;
SELECT pg_temp.must(21, 23, 22, 23);
SELECT pg_temp.must(22);
SELECT status, count(*) FROM jobq.jobs WHERE queue = 'many must' GROUP BY status;
SELECT jobq_complete_many('{}', '{}', must_hold => true);
SELECT jobq_complete_many('{}', '{}', NULL, NULL);
-- The immediate deletion of completed jobs is undone, too.
SELECT jobq_create_queue('many unkept', keep_completed => '0');
SELECT count(*) FROM jobq_enqueue_many('many unkept', '{1,2}');
INSERT INTO many_held SELECT 30 + payload::integer, id, lease FROM jobq_claim('many unkept', 'w2', batch => 2, heartbeat_timeout => '1 hour');
SELECT pg_temp.must(31, 132);
SELECT pg_temp.must(31, 32);
SELECT processing, completed FROM jobq.queue_stats WHERE queue = 'many unkept';
SELECT jobq_drop_queue('many unkept'), jobq_drop_queue('many must');

SELECT pg_temp.number(job_id) AS n, state FROM pg_temp.jobs(9, 5, 1, 108, 8), jobq_heartbeat_many(ids, leases);
-- By worker ID: all jobs that the worker holds.
SELECT pg_temp.number(job_id) AS n, state FROM jobq_heartbeat_worker('w') ORDER BY 1;
SELECT count(*) FROM jobq_heartbeat_worker('nobody');

SELECT pg_temp.number(job_id) AS n, status
FROM pg_temp.jobs(6, 5, 107, 1), jobq_fail_many(ids, leases, ARRAY['six', NULL, 'seven', 'one'], retry => false);
SELECT pg_temp.number(job_id) AS n, status FROM pg_temp.jobs(7), jobq_fail_many(ids, leases, ARRAY['later'], retry_in => '1 day');
SELECT payload, status, error FROM jobq.jobs WHERE queue = 'many' AND payload IN ('1', '5', '6', '7') ORDER BY id;

SELECT pg_temp.number(job_id) AS n, released FROM pg_temp.jobs(9, 108, 8, 1), jobq_release_many(ids, leases);
SELECT payload, status, attempts FROM jobq.jobs WHERE queue = 'many' AND payload >= '8' ORDER BY id;

-- Empty arrays return no rows.
SELECT * FROM jobq_complete_many('{}', '{}');
SELECT * FROM jobq_fail_many('{}', '{}', '{}');
SELECT * FROM jobq_heartbeat_many('{}', '{}');
SELECT * FROM jobq_release_many('{}', '{}');

-- Completes jobs and claims the next ones, in one round trip and one commit.
DELETE FROM many_held;
INSERT INTO many_held SELECT payload::integer, id, lease FROM jobq_claim('many', 'w', batch => 1, heartbeat_timeout => '1 hour');
SELECT payload, attempt, worker_id FROM pg_temp.jobs(8),
    LATERAL (SELECT c.*, j.worker_id FROM jobq_complete_and_claim(ids, leases, ARRAY['"done"']::jsonb[], 'many', 'w2', batch => 5, heartbeat_timeout => '1 hour') c
             JOIN jobq.jobs j USING (id)) c;
SELECT payload, status, result, worker_id FROM jobq.jobs WHERE queue = 'many' AND payload >= '8' ORDER BY id;
-- A lost lease is a warning. The other jobs are completed, and the next jobs are claimed.
SELECT jobq_enqueue('many', '"next"') > 0 AS enqueued;
\set VERBOSITY terse
SELECT payload FROM jobq_complete_and_claim('{-1}', '{1}', queue => 'many', heartbeat_timeout => '1 hour');
\set VERBOSITY default
-- Without jobs to complete, the call is a claim. With batch 0, it only completes.
SELECT payload FROM jobq_complete_and_claim('{}', '{}', queue => 'many', heartbeat_timeout => '1 hour');

-- Arrays of different lengths, with NULL elements, or with two dimensions are rejected.
SELECT * FROM jobq_complete_many('{1,2}', '{1}');
SELECT * FROM jobq_complete_many('{1,2}', '{1,2}', ARRAY['1']::jsonb[]);
SELECT * FROM jobq_fail_many('{1}', '{1}', '{a,b}');
SELECT * FROM jobq_heartbeat_many('{1,NULL}', '{1,2}');
SELECT * FROM jobq_release_many('{1}', '{NULL}');
SELECT * FROM jobq_release_many('{{1},{2}}', '{1,2}');
SELECT * FROM jobq_complete_many(NULL, '{1}');

SELECT jobq_drop_queue('many', force => true);
DROP TABLE many_held CASCADE;
