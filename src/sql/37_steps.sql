-- Durable steps: what a worker saves between the attempts of a job, and what the job waits for.

--: whether the worker must run a step of its job; the state is "run", "done" (with the saved result), "cancel", or "lost"
CREATE FUNCTION jobq_step(job_id bigint, lease bigint, name text)
    RETURNS TABLE (state text, result jsonb)
    AS 'MODULE_PATHNAME'
    LANGUAGE C VOLATILE PARALLEL UNSAFE;

--: save the result of a step; the state is "saved", or "kept" (with the existing result) if the step was saved before; if the lease
--: is lost, returns the state "lost" or, with must_hold, raises JQ001
CREATE FUNCTION jobq_step_done(job_id bigint, lease bigint, name text, result jsonb DEFAULT NULL, must_hold boolean DEFAULT true)
    RETURNS TABLE (state text, result jsonb)
    AS 'MODULE_PATHNAME'
    LANGUAGE C VOLATILE PARALLEL UNSAFE;

--: enqueue child jobs as a step, so that a retry does not enqueue them again; finished children are not pruned before their parent
--: has finished; the state is "saved", or "kept" if the step was saved before; raises JQ001 if the lease is lost
CREATE FUNCTION jobq_spawn(job_id bigint, lease bigint, name text, specs jsonb)
    RETURNS TABLE (state text, job_ids bigint[])
    AS 'MODULE_PATHNAME'
    LANGUAGE C VOLATILE PARALLEL UNSAFE;

--: the saved steps of jobs that the worker holds, in the order in which they were saved
CREATE FUNCTION jobq_steps(job_ids bigint[], leases bigint[])
    RETURNS TABLE (job_id bigint, name text, state text, result jsonb)
    AS 'MODULE_PATHNAME'
    LANGUAGE C VOLATILE PARALLEL UNSAFE;

--: run a finished or scheduled job again, starting from one of its steps; returns the new status
CREATE FUNCTION jobq_retry_from(job_id bigint, step text)
    RETURNS jobq.job_status
    AS 'MODULE_PATHNAME'
    LANGUAGE C VOLATILE PARALLEL UNSAFE;

--: enqueue a copy of a job, with the results of the steps that were saved before the given step, or of all saved steps; returns the
--: id of the copy, or NULL if the job does not exist
CREATE FUNCTION jobq_fork(job_id bigint, step text DEFAULT NULL)
    RETURNS bigint
    AS 'MODULE_PATHNAME'
    LANGUAGE C VOLATILE PARALLEL UNSAFE;

--: release a job and make it wait until a given time; returns "waiting", "ready" (if the time has come), "cancelled", or "lost"
CREATE FUNCTION jobq_sleep(job_id bigint, lease bigint, name text, delay interval DEFAULT NULL, until timestamptz DEFAULT NULL)
    RETURNS text
    AS 'MODULE_PATHNAME'
    LANGUAGE C VOLATILE PARALLEL UNSAFE;

--: release a job and make it wait for a signal; returns the state: "waiting", "ready" (with the payload of the signal), "timeout",
--: "cancelled", or "lost"
CREATE FUNCTION jobq_await(job_id bigint, lease bigint, event text, timeout interval DEFAULT NULL, name text DEFAULT NULL)
    RETURNS TABLE (state text, payload jsonb)
    AS 'MODULE_PATHNAME'
    LANGUAGE C VOLATILE PARALLEL UNSAFE;

--: release a job and make it wait until all or any of the given jobs have finished; returns "waiting", "ready", "timeout",
--: "cancelled", or "lost"; with "ready" and "timeout", also returns the results of the jobs
CREATE FUNCTION jobq_await_jobs(job_id bigint, lease bigint, ids bigint[], name text, mode text DEFAULT 'all', timeout interval DEFAULT NULL)
    RETURNS TABLE (state text, results jsonb)
    AS 'MODULE_PATHNAME'
    LANGUAGE C VOLATILE PARALLEL UNSAFE;

--: send a signal to all jobs of a queue, including jobs that await it later; returns false if this signal was sent before
CREATE FUNCTION jobq_signal(queue text, event text, payload jsonb DEFAULT NULL)
    RETURNS boolean
    AS 'MODULE_PATHNAME'
    LANGUAGE C VOLATILE PARALLEL UNSAFE;

--: send a signal to one job; returns false if this signal was sent before, and NULL if the job does not exist or has finished
CREATE FUNCTION jobq_signal_job(job_id bigint, event text, payload jsonb DEFAULT NULL)
    RETURNS boolean
    AS 'MODULE_PATHNAME'
    LANGUAGE C VOLATILE PARALLEL UNSAFE;
