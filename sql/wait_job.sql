-- Results and waiting for them. A producer enqueues a job, calls jobq_wait_job and reads jobq_result. Who is woken by
-- what is in test/process/wait_job.pl; here, when the call ends, what it answers, and where it may stand.
\set VERBOSITY default
\set SHOW_CONTEXT never
-- How long a call took: 'waited' for so long or longer, or 'at once', which on a slow server is less than a minute.
CREATE TABLE wait_job_begun (at timestamptz);
CREATE FUNCTION begin_clock() RETURNS void LANGUAGE sql AS 'TRUNCATE wait_job_begun; INSERT INTO wait_job_begun VALUES (clock_timestamp())';
CREATE FUNCTION took(at_least interval DEFAULT '1 min') RETURNS text LANGUAGE sql AS $$
    SELECT CASE WHEN clock_timestamp() - at >= at_least THEN 'waited' ELSE 'at once' END FROM wait_job_begun $$;
CREATE FUNCTION claim(OUT id bigint, OUT lease bigint) LANGUAGE sql AS
    $$SELECT id, lease FROM jobq_claim('wait_job', heartbeat_timeout => '1 hour')$$;

-- While the job waits or runs the call lasts until the timeout, which is no error; there is no result yet.
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

-- When it has completed, it ends at once.
SELECT jobq_complete(:job, :lease, '{"sum": 3}');
SELECT begin_clock();
CALL jobq_wait_job(:job, '1 hour');
CALL jobq_wait_job(:job);
CALL jobq_wait_job(job_id => :job, timeout => '0');
SELECT took(), jobq_result(:job);
-- Results are any jsonb, the JSON null too; NULL when the worker gave none.
SELECT jobq_enqueue('wait_job') AS job \gset
SELECT jobq_complete(id, lease, 'null') FROM claim();
SELECT jobq_result(:job), jobq_result(:job) IS NULL AS none;
SELECT jobq_enqueue('wait_job') AS job \gset
SELECT jobq_complete(id, lease) FROM claim();
SELECT jobq_result(:job), jobq_result(:job) IS NULL AS none;
-- One that lies out of line.
SELECT jobq_enqueue('wait_job') AS job \gset
SELECT jobq_complete(id, lease, (SELECT jsonb_agg(md5(n::text)) FROM generate_series(1, 5000) n)) FROM claim();
SELECT jsonb_array_length(jobq_result(:job)), jobq_result(:job) ->> 4999 = md5('5000') AS intact;

-- Failed for good or cancelled is finished, too: then there is an error or nothing. A retry to come is not.
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
-- A completed job that is run again has no result until it has completed again, whoever made it run.
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

-- A job that is not there has finished: deleted, not kept, pruned, never enqueued.
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

-- Where it cannot end the transaction
BEGIN;
CALL jobq_wait_job(-1);
ROLLBACK;
\set VERBOSITY sqlstate
DO $$ BEGIN CALL jobq_wait_job(-1); EXCEPTION WHEN division_by_zero THEN NULL; END $$;
CREATE FUNCTION wait_within() RETURNS void LANGUAGE plpgsql AS $$ BEGIN CALL jobq_wait_job(-1); END $$;
SELECT wait_within();
DROP FUNCTION wait_within();
\set VERBOSITY default
-- Where it can: it commits what came before it. So a procedure can enqueue, wait and go on with the result.
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
-- Only reads, whatever the transaction's defaults.
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
