-- Results, and waits for them. A producer enqueues a job, calls jobq_wait_job, and reads jobq_result. test/process/wait_job.pl
-- tests the wake-ups. This file tests when the call ends, what it returns, and where it may be called.
\set VERBOSITY default
\set SHOW_CONTEXT never
-- How long a call took: 'waited' means at least the given time; 'at once' means less, which allows up to a minute on a slow
-- server.
CREATE TABLE wait_job_begun (at timestamptz);
CREATE FUNCTION begin_clock() RETURNS void LANGUAGE sql AS 'TRUNCATE wait_job_begun; INSERT INTO wait_job_begun VALUES (clock_timestamp())';
CREATE FUNCTION took(at_least interval DEFAULT '1 min') RETURNS text LANGUAGE sql AS $$
    SELECT CASE WHEN clock_timestamp() - at >= at_least THEN 'waited' ELSE 'at once' END FROM wait_job_begun $$;
CREATE FUNCTION claim(OUT id bigint, OUT lease bigint) LANGUAGE sql AS
    $$SELECT id, lease FROM jobq_claim('wait_job', heartbeat_timeout => '1 hour')$$;

-- While the job waits or runs, the call waits until the timeout, which is not an error. There is no result yet.
SELECT jobq_enqueue('wait_job') AS job \gset
SELECT begin_clock();
CALL jobq_wait_job(:job, '300 ms');
SELECT took('300 ms'), jobq_result(:job);
SELECT lease FROM claim() \gset
SELECT begin_clock();
CALL jobq_wait_job(:job, '300 ms');
SELECT took('300 ms'), jobq_result(:job);
SELECT jobq_heartbeat(:job, :lease, '{"percent": 50}');
SELECT status, progress, result FROM jobq_get(:job);

-- If the job has completed, the call ends at once.
SELECT jobq_complete(:job, :lease, '{"sum": 3}');
SELECT begin_clock();
CALL jobq_wait_job(:job, '1 hour');
CALL jobq_wait_job(:job);
CALL jobq_wait_job(job_id => :job, timeout => '0');
SELECT took(), jobq_result(:job);
-- A result can be any jsonb, including JSON null. It is NULL if the worker gave none.
SELECT jobq_enqueue('wait_job') AS job \gset
SELECT jobq_complete(id, lease, 'null') FROM claim();
SELECT jobq_result(:job), jobq_result(:job) IS NULL AS none;
SELECT jobq_enqueue('wait_job') AS job \gset
SELECT jobq_complete(id, lease) FROM claim();
SELECT jobq_result(:job), jobq_result(:job) IS NULL AS none;
-- A result in TOAST.
SELECT jobq_enqueue('wait_job') AS job \gset
SELECT jobq_complete(id, lease, (SELECT jsonb_agg(md5(n::text)) FROM generate_series(1, 5000) n)) FROM claim();
SELECT jsonb_array_length(jobq_result(:job)), jobq_result(:job) ->> 4999 = md5('5000') AS intact;

-- A job that failed permanently or was canceled has finished, so there is an error or no result. A job that waits for a retry has
-- not finished.
SELECT jobq_enqueue('wait_job', max_attempts => 2) AS job \gset
SELECT jobq_fail(id, lease, 'first', retry_in => '1 hour') FROM claim();
SELECT begin_clock();
CALL jobq_wait_job(:job, '300 ms');
SELECT took('300 ms'), jobq_retry(:job);
SELECT jobq_fail(id, lease, 'second') FROM claim();
SELECT begin_clock();
CALL jobq_wait_job(:job, '1 hour');
SELECT took(), jobq_result(:job), status, error FROM jobq_get(:job);
SELECT jobq_enqueue('wait_job', run_at => now() + interval '1 hour') AS job \gset
SELECT jobq_cancel(:job);
SELECT begin_clock();
CALL jobq_wait_job(:job, '1 hour');
SELECT took(), jobq_result(:job), status FROM jobq_get(:job);
-- A completed job that is retried has no result until it completes again, however it was retried.
SELECT jobq_enqueue('wait_job') AS job \gset
SELECT jobq_complete(id, lease, '1') FROM claim();
SELECT jobq_retry(:job);
SELECT jobq_result(:job);
SELECT jobq_complete(id, lease, '2') FROM claim();
SELECT jobq_result(:job);
UPDATE jobq.jobs SET status = 'pending' WHERE id = :job;
SELECT jobq_result(:job);
SELECT begin_clock();
CALL jobq_wait_job(:job, '300 ms');
SELECT took('300 ms');
SELECT jobq_complete(id, lease, '3') FROM claim();

-- A job that does not exist counts as finished: deleted, not kept, pruned, or never enqueued.
SELECT begin_clock();
SELECT jobq_delete(:job);
CALL jobq_wait_job(:job, '1 hour');
CALL jobq_wait_job(-1, '1 hour');
SELECT jobq_alter_queue('wait_job', keep_completed => '0');
SELECT jobq_enqueue('wait_job') AS job \gset
SELECT jobq_complete(id, lease, '4') FROM claim();
CALL jobq_wait_job(:job, '1 hour');
SELECT took(), jobq_result(:job), jobq_result(-1);

-- Arguments
CALL jobq_wait_job(NULL);
CALL jobq_wait_job(1, NULL);
CALL jobq_wait_job(1, '-1 ms');
SELECT jobq_result(NULL);
CALL jobq_wait_job(-1, '100000 years');

-- Calls that fail because jobq_wait_job cannot end the transaction
BEGIN;
CALL jobq_wait_job(-1);
ROLLBACK;
\set VERBOSITY sqlstate
DO $$ BEGIN CALL jobq_wait_job(-1); EXCEPTION WHEN division_by_zero THEN NULL; END $$;
CREATE FUNCTION wait_within() RETURNS void LANGUAGE plpgsql AS $$ BEGIN CALL jobq_wait_job(-1); END $$;
SELECT wait_within();
DROP FUNCTION wait_within();
\set VERBOSITY default
-- A call in which jobq_wait_job can end the transaction: it commits the work before it, so a procedure can enqueue, wait, and use
-- the result.
CREATE PROCEDURE ask() LANGUAGE plpgsql AS $$
DECLARE
    job bigint := jobq_enqueue('wait_job', '"question"');
BEGIN
    CALL jobq_wait_job(job, '1 ms');
    RAISE EXCEPTION 'after the wait';
END $$;
CALL ask();
SELECT payload FROM jobq_claim('wait_job');
DROP PROCEDURE ask();
-- The call only reads, whatever the transaction's defaults are.
SET default_transaction_read_only = on;
SET default_transaction_isolation = serializable;
SET default_transaction_deferrable = on;
SET search_path = pg_temp, public, pg_catalog;
CALL jobq_wait_job(-1, '1 ms');
SHOW transaction_isolation;
SHOW search_path;
RESET ALL;

SELECT jobq_drop_queue('wait_job', force => true);
DROP TABLE wait_job_begun;
DROP FUNCTION begin_clock, took, claim;
