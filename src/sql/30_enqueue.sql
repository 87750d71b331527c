-- Functions for producers. Like all public functions, they are created in the target schema of CREATE EXTENSION.

--: enqueue one job; returns its id or, if another job has its unique key, the id of that job; "options" is an object with rarely
--: used attributes
CREATE FUNCTION jobq_enqueue(
        queue text DEFAULT 'default',
        payload jsonb DEFAULT '{}',
        kind text DEFAULT '',
        priority integer DEFAULT 0,
        run_at timestamptz DEFAULT NULL,
        max_attempts integer DEFAULT NULL,
        unique_key text DEFAULT NULL,
        on_conflict text DEFAULT 'ignore',
        unique_for interval DEFAULT NULL,
        group_key text DEFAULT NULL,
        concurrency_key text DEFAULT NULL,
        depends_on bigint[] DEFAULT NULL,
        on_dependency_failure text DEFAULT 'cancel',
        metadata jsonb DEFAULT NULL,
        options jsonb DEFAULT NULL)
    RETURNS bigint
    AS 'MODULE_PATHNAME'
    LANGUAGE C VOLATILE PARALLEL UNSAFE;

--: enqueue one job for each payload; returns the job ids in the order of the payloads, and whether each job is new; "options" is an
--: object with rarely used attributes
CREATE FUNCTION jobq_enqueue_many(
        queue text,
        payloads jsonb[],
        kind text DEFAULT '',
        priority integer DEFAULT 0,
        run_at timestamptz DEFAULT NULL,
        max_attempts integer DEFAULT NULL,
        unique_keys text[] DEFAULT NULL,
        group_keys text[] DEFAULT NULL,
        concurrency_keys text[] DEFAULT NULL,
        run_ats timestamptz[] DEFAULT NULL,
        priorities integer[] DEFAULT NULL,
        options jsonb DEFAULT NULL)
    RETURNS TABLE (job_id bigint, is_new boolean)
    AS 'MODULE_PATHNAME'
    LANGUAGE C VOLATILE PARALLEL UNSAFE;

--: enqueue the jobs described by a JSON array of objects, whose keys are arguments and options of jobq_enqueue
CREATE FUNCTION jobq_enqueue_jobs(specs jsonb)
    RETURNS TABLE (job_id bigint, is_new boolean)
    AS 'MODULE_PATHNAME'
    LANGUAGE C VOLATILE PARALLEL UNSAFE;
