-- Workers' functions: take jobs, report on them, give them back.

--: take up to batch claimable jobs of a queue; no row when there is none; never waits for a lock
CREATE FUNCTION jobq_claim(
        queue text DEFAULT 'default',
        worker_id text DEFAULT NULL,
        batch integer DEFAULT 1,
        kinds text[] DEFAULT NULL,
        versions integer[] DEFAULT NULL,
        capabilities text[] DEFAULT NULL,
        heartbeat_timeout interval DEFAULT NULL)
    RETURNS TABLE (id bigint, lease bigint, queue text, kind text, payload jsonb, attempt integer,
                   max_attempts integer, priority integer, version integer, run_at timestamptz,
                   created_at timestamptz, progress jsonb, metadata jsonb, heartbeat_seconds integer)
    AS 'MODULE_PATHNAME'
    LANGUAGE C VOLATILE PARALLEL UNSAFE;

--: take jobs of the first of these queues that has any; never waits for a lock
CREATE FUNCTION jobq_claim_any(
        queues text[],
        worker_id text DEFAULT NULL,
        batch integer DEFAULT 1,
        kinds text[] DEFAULT NULL,
        versions integer[] DEFAULT NULL,
        capabilities text[] DEFAULT NULL,
        heartbeat_timeout interval DEFAULT NULL)
    RETURNS TABLE (id bigint, lease bigint, queue text, kind text, payload jsonb, attempt integer,
                   max_attempts integer, priority integer, version integer, run_at timestamptz,
                   created_at timestamptz, progress jsonb, metadata jsonb, heartbeat_seconds integer)
    AS 'MODULE_PATHNAME'
    LANGUAGE C VOLATILE PARALLEL UNSAFE;

--: complete a job; false when the lease is lost, or an error (JQ001) with must_hold
CREATE FUNCTION jobq_complete(
        job_id bigint,
        lease bigint DEFAULT NULL,
        result jsonb DEFAULT NULL,
        must_hold boolean DEFAULT false)
    RETURNS boolean
    AS 'MODULE_PATHNAME'
    LANGUAGE C VOLATILE PARALLEL UNSAFE;

--: complete many jobs in one statement; a row per job; with must_hold all or none: an error (JQ001) for lost leases
CREATE FUNCTION jobq_complete_many(
        job_ids bigint[],
        leases bigint[],
        results jsonb[] DEFAULT NULL,
        must_hold boolean DEFAULT false)
    RETURNS TABLE (job_id bigint, completed boolean)
    AS 'MODULE_PATHNAME'
    LANGUAGE C VOLATILE PARALLEL UNSAFE;

--: complete jobs and take the next ones in one round trip; lost leases are a warning
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
        heartbeat_timeout interval DEFAULT NULL)
    RETURNS TABLE (id bigint, lease bigint, queue text, kind text, payload jsonb, attempt integer,
                   max_attempts integer, priority integer, version integer, run_at timestamptz,
                   created_at timestamptz, progress jsonb, metadata jsonb, heartbeat_seconds integer)
    AS 'MODULE_PATHNAME'
    LANGUAGE C VOLATILE PARALLEL UNSAFE;

--: report a failed attempt; returns the new status, NULL when the lease is lost
CREATE FUNCTION jobq_fail(
        job_id bigint,
        lease bigint DEFAULT NULL,
        error text DEFAULT NULL,
        retry_in interval DEFAULT NULL,
        retry boolean DEFAULT true)
    RETURNS jobq.job_status
    AS 'MODULE_PATHNAME'
    LANGUAGE C VOLATILE PARALLEL UNSAFE;

--: report many failed attempts in one statement; a row per job
CREATE FUNCTION jobq_fail_many(
        job_ids bigint[],
        leases bigint[],
        errors text[] DEFAULT NULL,
        retry_in interval DEFAULT NULL,
        retry boolean DEFAULT true)
    RETURNS TABLE (job_id bigint, status jobq.job_status)
    AS 'MODULE_PATHNAME'
    LANGUAGE C VOLATILE PARALLEL UNSAFE;

--: extend a lease; returns held, cancel, finished, lost or gone
CREATE FUNCTION jobq_heartbeat(job_id bigint, lease bigint DEFAULT NULL, progress jsonb DEFAULT NULL)
    RETURNS text
    AS 'MODULE_PATHNAME'
    LANGUAGE C VOLATILE PARALLEL UNSAFE;

--: extend many leases in one statement; a row per job
CREATE FUNCTION jobq_heartbeat_many(job_ids bigint[], leases bigint[])
    RETURNS TABLE (job_id bigint, state text)
    AS 'MODULE_PATHNAME'
    LANGUAGE C VOLATILE PARALLEL UNSAFE;

--: extend the leases of all jobs of a worker that named itself; each process needs a name of its own
CREATE FUNCTION jobq_heartbeat_worker(worker_id text)
    RETURNS TABLE (job_id bigint, state text)
    AS 'MODULE_PATHNAME'
    LANGUAGE C VOLATILE PARALLEL UNSAFE;

--: give a job back without burning an attempt; it is claimable at once
CREATE FUNCTION jobq_release(job_id bigint, lease bigint DEFAULT NULL)
    RETURNS boolean
    AS 'MODULE_PATHNAME'
    LANGUAGE C VOLATILE PARALLEL UNSAFE;

--: give many jobs back in one statement; a row per job
CREATE FUNCTION jobq_release_many(job_ids bigint[], leases bigint[])
    RETURNS TABLE (job_id bigint, released boolean)
    AS 'MODULE_PATHNAME'
    LANGUAGE C VOLATILE PARALLEL UNSAFE;

--: give a job back for later without burning an attempt
CREATE FUNCTION jobq_snooze(job_id bigint, delay interval, lease bigint DEFAULT NULL)
    RETURNS boolean
    AS 'MODULE_PATHNAME'
    LANGUAGE C VOLATILE PARALLEL UNSAFE;

-- Commits, hence neither SECURITY DEFINER nor a search_path: both would forbid that. It sees to both by itself.
--: wait until there may be a job of the queue for this worker, or somebody wakes it, or the timeout is over
CREATE PROCEDURE jobq_wait(
        queue text DEFAULT 'default',
        timeout interval DEFAULT '30 s',
        kinds text[] DEFAULT NULL,
        versions integer[] DEFAULT NULL,
        capabilities text[] DEFAULT NULL,
        worker_id text DEFAULT NULL,
        batch integer DEFAULT 1)
    AS 'MODULE_PATHNAME'
    LANGUAGE C;

--: end the jobq_wait of a worker, from any session; how many waits were ended; 0: its next one will be
CREATE FUNCTION jobq_wake(worker_id text)
    RETURNS integer
    AS 'MODULE_PATHNAME'
    LANGUAGE C VOLATILE PARALLEL UNSAFE;
