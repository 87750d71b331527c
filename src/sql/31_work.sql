-- Functions with which workers claim jobs, report on them, and return them.

--: claim at most "batch" jobs of a queue; returns no rows if no job is claimable; never waits for a row lock
CREATE FUNCTION jobq_claim(
        queue text DEFAULT 'default',
        worker_id text DEFAULT NULL,
        batch integer DEFAULT 1,
        kinds text[] DEFAULT NULL,
        versions integer[] DEFAULT NULL,
        capabilities text[] DEFAULT NULL,
        heartbeat_timeout interval DEFAULT NULL,
        worker_info jsonb DEFAULT NULL)
    RETURNS SETOF jobq.claimed_job
    AS 'MODULE_PATHNAME'
    LANGUAGE C VOLATILE PARALLEL UNSAFE;

--: claim at most "batch" jobs of several queues, in the order of the list, in a random order by weight, or by run_at; patterns have the
--: syntax of LIKE; never waits for a row lock
CREATE FUNCTION jobq_claim_any(
        queues text[] DEFAULT NULL,
        worker_id text DEFAULT NULL,
        batch integer DEFAULT 1,
        kinds text[] DEFAULT NULL,
        versions integer[] DEFAULT NULL,
        capabilities text[] DEFAULT NULL,
        heartbeat_timeout interval DEFAULT NULL,
        patterns text[] DEFAULT NULL,
        weights integer[] DEFAULT NULL,
        oldest_first boolean DEFAULT false,
        batches integer[] DEFAULT NULL,
        worker_info jsonb DEFAULT NULL)
    RETURNS SETOF jobq.claimed_job
    AS 'MODULE_PATHNAME'
    LANGUAGE C VOLATILE PARALLEL UNSAFE;

--: complete a job; if the lease is lost, returns false or, with must_hold, raises JQ001
CREATE FUNCTION jobq_complete(
        job_id bigint,
        lease bigint DEFAULT NULL,
        result jsonb DEFAULT NULL,
        must_hold boolean DEFAULT false)
    RETURNS boolean
    AS 'MODULE_PATHNAME'
    LANGUAGE C VOLATILE PARALLEL UNSAFE;

--: complete several jobs; returns one row per job; with must_hold, completes all of them or raises JQ001
CREATE FUNCTION jobq_complete_many(
        job_ids bigint[],
        leases bigint[],
        results jsonb[] DEFAULT NULL,
        must_hold boolean DEFAULT false)
    RETURNS TABLE (job_id bigint, completed boolean)
    AS 'MODULE_PATHNAME'
    LANGUAGE C VOLATILE PARALLEL UNSAFE;

--: complete jobs and claim the next jobs of a queue in one round trip; raises a warning if a lease is lost
CREATE FUNCTION jobq_complete_and_claim(
        job_ids bigint[],
        leases bigint[],
        results jsonb[] DEFAULT NULL,
        queue text DEFAULT 'default',
        worker_id text DEFAULT NULL,
        batch integer DEFAULT 1,
        kinds text[] DEFAULT NULL,
        versions integer[] DEFAULT NULL,
        capabilities text[] DEFAULT NULL,
        heartbeat_timeout interval DEFAULT NULL,
        worker_info jsonb DEFAULT NULL)
    RETURNS SETOF jobq.claimed_job
    AS 'MODULE_PATHNAME'
    LANGUAGE C VOLATILE PARALLEL UNSAFE;

--: complete jobs and claim the next jobs of several queues in one round trip; raises a warning if a lease is lost
CREATE FUNCTION jobq_complete_and_claim_any(
        job_ids bigint[],
        leases bigint[],
        results jsonb[] DEFAULT NULL,
        queues text[] DEFAULT NULL,
        worker_id text DEFAULT NULL,
        batch integer DEFAULT 1,
        kinds text[] DEFAULT NULL,
        versions integer[] DEFAULT NULL,
        capabilities text[] DEFAULT NULL,
        heartbeat_timeout interval DEFAULT NULL,
        patterns text[] DEFAULT NULL,
        weights integer[] DEFAULT NULL,
        oldest_first boolean DEFAULT false,
        batches integer[] DEFAULT NULL,
        worker_info jsonb DEFAULT NULL)
    RETURNS SETOF jobq.claimed_job
    AS 'MODULE_PATHNAME'
    LANGUAGE C VOLATILE PARALLEL UNSAFE;

--: claim at most "batch" jobs of one or more queues, and return them as one JSON array, which costs less than rows; with "job_ids",
--: completes these jobs first
CREATE FUNCTION jobq_claim_json(
        queues text[] DEFAULT NULL,
        worker_id text DEFAULT NULL,
        batch integer DEFAULT 1,
        kinds text[] DEFAULT NULL,
        versions integer[] DEFAULT NULL,
        capabilities text[] DEFAULT NULL,
        heartbeat_timeout interval DEFAULT NULL,
        worker_info jsonb DEFAULT NULL,
        job_ids bigint[] DEFAULT NULL,
        leases bigint[] DEFAULT NULL,
        results jsonb[] DEFAULT NULL,
        patterns text[] DEFAULT NULL,
        weights integer[] DEFAULT NULL,
        oldest_first boolean DEFAULT false,
        batches integer[] DEFAULT NULL)
    RETURNS json
    AS 'MODULE_PATHNAME'
    LANGUAGE C VOLATILE PARALLEL UNSAFE;

--: report a failed attempt; returns the new status, or NULL if the lease is lost
CREATE FUNCTION jobq_fail(
        job_id bigint,
        lease bigint DEFAULT NULL,
        error text DEFAULT NULL,
        retry_in interval DEFAULT NULL,
        retry boolean DEFAULT true,
        details jsonb DEFAULT NULL)
    RETURNS jobq.job_status
    AS 'MODULE_PATHNAME'
    LANGUAGE C VOLATILE PARALLEL UNSAFE;

--: report several failed attempts; returns one row per job
CREATE FUNCTION jobq_fail_many(
        job_ids bigint[],
        leases bigint[],
        errors text[] DEFAULT NULL,
        retry_in interval DEFAULT NULL,
        retry boolean DEFAULT true,
        details jsonb[] DEFAULT NULL)
    RETURNS TABLE (job_id bigint, status jobq.job_status)
    AS 'MODULE_PATHNAME'
    LANGUAGE C VOLATILE PARALLEL UNSAFE;

--: extend a lease; returns "held", "cancel", "finished", "lost", or "gone"
CREATE FUNCTION jobq_heartbeat(job_id bigint, lease bigint DEFAULT NULL, progress jsonb DEFAULT NULL)
    RETURNS text
    AS 'MODULE_PATHNAME'
    LANGUAGE C VOLATILE PARALLEL UNSAFE;

--: extend several leases; returns one row per job; with worker_info, also records that the worker is connected
CREATE FUNCTION jobq_heartbeat_many(job_ids bigint[], leases bigint[], worker_info jsonb DEFAULT NULL)
    RETURNS TABLE (job_id bigint, state text)
    AS 'MODULE_PATHNAME'
    LANGUAGE C VOLATILE PARALLEL UNSAFE;

--: extend the leases of all jobs that were claimed with this worker_id; each process must have its own worker_id
CREATE FUNCTION jobq_heartbeat_worker(worker_id text)
    RETURNS TABLE (job_id bigint, state text)
    AS 'MODULE_PATHNAME'
    LANGUAGE C VOLATILE PARALLEL UNSAFE;

--: store lines of text about attempts, which jobq_log shows; returns one row per job with the number of lines that were stored
CREATE FUNCTION jobq_write_log(
        job_ids bigint[],
        leases bigint[],
        lines text[],
        levels text[] DEFAULT NULL,
        seconds_ago double precision[] DEFAULT NULL)
    RETURNS TABLE (job_id bigint, stored integer)
    AS 'MODULE_PATHNAME'
    LANGUAGE C VOLATILE PARALLEL UNSAFE;

--: return a job to its queue without counting the attempt; the job is claimable immediately
CREATE FUNCTION jobq_release(job_id bigint, lease bigint DEFAULT NULL)
    RETURNS boolean
    AS 'MODULE_PATHNAME'
    LANGUAGE C VOLATILE PARALLEL UNSAFE;

--: return several jobs to their queues; returns one row per job
CREATE FUNCTION jobq_release_many(job_ids bigint[], leases bigint[])
    RETURNS TABLE (job_id bigint, released boolean)
    AS 'MODULE_PATHNAME'
    LANGUAGE C VOLATILE PARALLEL UNSAFE;

--: return a job to its queue without counting the attempt; the job is claimable after the delay
CREATE FUNCTION jobq_snooze(job_id bigint, delay interval, lease bigint DEFAULT NULL)
    RETURNS boolean
    AS 'MODULE_PATHNAME'
    LANGUAGE C VOLATILE PARALLEL UNSAFE;

-- The procedure commits. It has neither SECURITY DEFINER nor SET search_path, because PostgreSQL does not allow a procedure with
-- either of them to commit. Instead, the C code switches the role and sets search_path.
--: wait until the queue may have a claimable job for this worker, until jobq_wake is called, or until the timeout
CREATE PROCEDURE jobq_wait(
        queue text DEFAULT 'default',
        timeout interval DEFAULT '30 s',
        kinds text[] DEFAULT NULL,
        versions integer[] DEFAULT NULL,
        capabilities text[] DEFAULT NULL,
        worker_id text DEFAULT NULL,
        batch integer DEFAULT 1,
        worker_info jsonb DEFAULT NULL)
    AS 'MODULE_PATHNAME'
    LANGUAGE C;

-- See the comment on jobq_wait.
--: wait until one of several queues may have a claimable job for this worker, until jobq_wake is called, or until the timeout
CREATE PROCEDURE jobq_wait_any(
        queues text[] DEFAULT NULL,
        timeout interval DEFAULT '30 s',
        kinds text[] DEFAULT NULL,
        versions integer[] DEFAULT NULL,
        capabilities text[] DEFAULT NULL,
        worker_id text DEFAULT NULL,
        batch integer DEFAULT 1,
        patterns text[] DEFAULT NULL,
        batches integer[] DEFAULT NULL,
        worker_info jsonb DEFAULT NULL)
    AS 'MODULE_PATHNAME'
    LANGUAGE C;

--: end the jobq_wait and jobq_wait_any calls of a worker from any session; returns the number of calls that ended; if no call was
--: waiting, the next such call of the worker ends immediately
CREATE FUNCTION jobq_wake(worker_id text)
    RETURNS integer
    AS 'MODULE_PATHNAME'
    LANGUAGE C VOLATILE PARALLEL UNSAFE;
