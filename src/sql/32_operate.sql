-- Functions that show, change, and wait for jobs. Each function applies to one job, which is selected by its id, or to several jobs
-- of a queue, which are selected by a filter. The argument "filter" contains the conditions for which the function has no separate
-- argument.

--: the row of a job, for roles that cannot read the table jobq.jobs; returns no rows if the job does not exist
CREATE FUNCTION jobq_get(job_id bigint)
    RETURNS TABLE (id bigint, queue text, kind text, payload jsonb, priority integer, status jobq.job_status,
                   run_at timestamptz, attempts integer, max_attempts integer, worker_id text,
                   started_at timestamptz, last_heartbeat timestamptz, heartbeat_timeout interval,
                   created_at timestamptz, finished_at timestamptz, result jsonb, error text, progress jsonb,
                   version integer, requires text[], cancel_requested_at timestamptz, metadata jsonb)
    AS 'MODULE_PATHNAME'
    LANGUAGE C STABLE PARALLEL UNSAFE;

--: the result of a completed job; NULL if there is none
CREATE FUNCTION jobq_result(job_id bigint)
    RETURNS jsonb
    AS 'MODULE_PATHNAME'
    LANGUAGE C STABLE PARALLEL UNSAFE;

-- Like jobq_wait, this is a procedure, because it ends its transaction before it waits. An open transaction would hold back vacuum.
--: wait until a job has finished, or until the timeout has passed
CREATE PROCEDURE jobq_wait_job(job_id bigint, timeout interval DEFAULT '30 s')
    AS 'MODULE_PATHNAME'
    LANGUAGE C;

--: the history of a job, one event per row; returns no rows if the job does not exist
CREATE FUNCTION jobq_log(job_id bigint)
    RETURNS TABLE (at timestamptz, event text, attempt integer, worker_id text, detail text, details jsonb)
    AS 'MODULE_PATHNAME'
    LANGUAGE C STABLE PARALLEL UNSAFE;

--: cancel a job; if it is running, the next heartbeat tells its worker to stop; returns the status
CREATE FUNCTION jobq_cancel(job_id bigint)
    RETURNS jobq.job_status
    AS 'MODULE_PATHNAME'
    LANGUAGE C VOLATILE PARALLEL UNSAFE;

--: let the next job of a halted group run: moves the failed job that halts the group to the dead letter queue if its queue has one;
--: returns false if the job does not halt a group
CREATE FUNCTION jobq_skip(job_id bigint)
    RETURNS boolean
    AS 'MODULE_PATHNAME'
    LANGUAGE C VOLATILE PARALLEL UNSAFE;

--: run a finished or scheduled job again, now or at run_at; a new payload deletes the saved steps unless keep_steps is true; returns
--: the new status
CREATE FUNCTION jobq_retry(
        job_id bigint,
        payload jsonb DEFAULT NULL,
        run_at timestamptz DEFAULT NULL,
        max_attempts integer DEFAULT NULL,
        keep_steps boolean DEFAULT false)
    RETURNS jobq.job_status
    AS 'MODULE_PATHNAME'
    LANGUAGE C VOLATILE PARALLEL UNSAFE;

--: change the time at which a waiting job runs; returns the new status
CREATE FUNCTION jobq_reschedule(job_id bigint, run_at timestamptz)
    RETURNS jobq.job_status
    AS 'MODULE_PATHNAME'
    LANGUAGE C VOLATILE PARALLEL UNSAFE;

--: delete a job that is not running; returns its last status
CREATE FUNCTION jobq_delete(job_id bigint)
    RETURNS jobq.job_status
    AS 'MODULE_PATHNAME'
    LANGUAGE C VOLATILE PARALLEL UNSAFE;

--: cancel the jobs of a queue that match a filter, at most max_jobs; returns how many were canceled
CREATE FUNCTION jobq_cancel_jobs(
        queue text,
        kind text DEFAULT NULL,
        statuses jobq.job_status[] DEFAULT NULL,
        error_like text DEFAULT NULL,
        older_than interval DEFAULT NULL,
        metadata jsonb DEFAULT NULL,
        max_jobs integer DEFAULT 1000,
        filter jsonb DEFAULT NULL)
    RETURNS bigint
    AS 'MODULE_PATHNAME'
    LANGUAGE C VOLATILE PARALLEL UNSAFE;

--: retry the jobs of a queue that match a filter (by default, failed jobs), at most max_jobs; returns how many were retried
CREATE FUNCTION jobq_retry_jobs(
        queue text,
        kind text DEFAULT NULL,
        statuses jobq.job_status[] DEFAULT NULL,
        error_like text DEFAULT NULL,
        older_than interval DEFAULT NULL,
        metadata jsonb DEFAULT NULL,
        max_jobs integer DEFAULT 1000,
        filter jsonb DEFAULT NULL)
    RETURNS bigint
    AS 'MODULE_PATHNAME'
    LANGUAGE C VOLATILE PARALLEL UNSAFE;

--: change run_at of the waiting jobs of a queue that match a filter, at most max_jobs; returns how many were changed
CREATE FUNCTION jobq_reschedule_jobs(
        queue text,
        run_at timestamptz,
        kind text DEFAULT NULL,
        statuses jobq.job_status[] DEFAULT NULL,
        error_like text DEFAULT NULL,
        older_than interval DEFAULT NULL,
        metadata jsonb DEFAULT NULL,
        max_jobs integer DEFAULT 1000,
        filter jsonb DEFAULT NULL)
    RETURNS bigint
    AS 'MODULE_PATHNAME'
    LANGUAGE C VOLATILE PARALLEL UNSAFE;

--: delete the jobs of a queue that match a filter (by default, finished jobs), at most max_jobs; returns how many were deleted
CREATE FUNCTION jobq_delete_jobs(
        queue text,
        kind text DEFAULT NULL,
        statuses jobq.job_status[] DEFAULT NULL,
        error_like text DEFAULT NULL,
        older_than interval DEFAULT NULL,
        metadata jsonb DEFAULT NULL,
        max_jobs integer DEFAULT 1000,
        filter jsonb DEFAULT NULL)
    RETURNS bigint
    AS 'MODULE_PATHNAME'
    LANGUAGE C VOLATILE PARALLEL UNSAFE;

--: move dead letters back to the queues in which they failed, so that they run again; at most per_second jobs become due per second;
--: returns how many jobs were moved
CREATE FUNCTION jobq_redrive(
        queue text,
        max_jobs integer DEFAULT 1000,
        per_second double precision DEFAULT NULL)
    RETURNS bigint
    AS 'MODULE_PATHNAME'
    LANGUAGE C VOLATILE PARALLEL UNSAFE;
