-- Durable steps: what a worker keeps of a job between its attempts, and what it awaits.

--: whether a step of a held job is to be done: run, done with its result, cancel, or lost
CREATE FUNCTION jobq_step(job_id bigint, lease bigint, name text)
    RETURNS TABLE (state text, result jsonb)
    AS 'MODULE_PATHNAME'
    LANGUAGE C VOLATILE PARALLEL UNSAFE;

--: save a step of a held job, once; the first result stays: saved or kept; lost: an error (JQ001) with must_hold
CREATE FUNCTION jobq_step_done(job_id bigint, lease bigint, name text, result jsonb DEFAULT NULL, must_hold boolean DEFAULT true)
    RETURNS TABLE (state text, result jsonb)
    AS 'MODULE_PATHNAME'
    LANGUAGE C VOLATILE PARALLEL UNSAFE;

--: enqueue jobs of a held job, as jobq_enqueue_jobs does, once; they are kept until it has finished: saved or kept; an error (JQ001) when the lease is lost
CREATE FUNCTION jobq_spawn(job_id bigint, lease bigint, name text, specs jsonb)
    RETURNS TABLE (state text, job_ids bigint[])
    AS 'MODULE_PATHNAME'
    LANGUAGE C VOLATILE PARALLEL UNSAFE;

--: the saved steps of held jobs, in the order in which they were saved
CREATE FUNCTION jobq_steps(job_ids bigint[], leases bigint[])
    RETURNS TABLE (job_id bigint, name text, state text, result jsonb)
    AS 'MODULE_PATHNAME'
    LANGUAGE C VOLATILE PARALLEL UNSAFE;

--: make a finished or scheduled job run again from one of its steps on; returns its status
CREATE FUNCTION jobq_retry_from(job_id bigint, step text)
    RETURNS jobq.job_status
    AS 'MODULE_PATHNAME'
    LANGUAGE C VOLATILE PARALLEL UNSAFE;

--: give a held job back until a time; ready when it has come, waiting, cancelled or lost
CREATE FUNCTION jobq_sleep(job_id bigint, lease bigint, name text, delay interval DEFAULT NULL, until timestamptz DEFAULT NULL)
    RETURNS text
    AS 'MODULE_PATHNAME'
    LANGUAGE C VOLATILE PARALLEL UNSAFE;

--: give a held job back until a signal has come; ready with its payload, timeout, waiting, cancelled or lost
CREATE FUNCTION jobq_await(job_id bigint, lease bigint, event text, timeout interval DEFAULT NULL, name text DEFAULT NULL)
    RETURNS TABLE (state text, payload jsonb)
    AS 'MODULE_PATHNAME'
    LANGUAGE C VOLATILE PARALLEL UNSAFE;

--: give a held job back until other jobs have ended, all or any of them; ready or timeout with what became of them, waiting, cancelled or lost
CREATE FUNCTION jobq_await_jobs(job_id bigint, lease bigint, ids bigint[], name text, mode text DEFAULT 'all', timeout interval DEFAULT NULL)
    RETURNS TABLE (state text, results jsonb)
    AS 'MODULE_PATHNAME'
    LANGUAGE C VOLATILE PARALLEL UNSAFE;

--: tell all jobs of a queue that something has happened, also those that ask later; false when somebody has before
CREATE FUNCTION jobq_signal(queue text, event text, payload jsonb DEFAULT NULL)
    RETURNS boolean
    AS 'MODULE_PATHNAME'
    LANGUAGE C VOLATILE PARALLEL UNSAFE;

--: tell one job that something has happened; false when somebody has before, NULL when it is unknown or has finished
CREATE FUNCTION jobq_signal_job(job_id bigint, event text, payload jsonb DEFAULT NULL)
    RETURNS boolean
    AS 'MODULE_PATHNAME'
    LANGUAGE C VOLATILE PARALLEL UNSAFE;
