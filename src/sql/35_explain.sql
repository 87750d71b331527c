-- Why nothing happens.

--: why a job does not run, a reason a row; no row when there is no such job
CREATE FUNCTION jobq_explain(job_id bigint)
    RETURNS TABLE (reason text, detail text, jobs bigint[], pids integer[], until timestamptz)
    AS 'MODULE_PATHNAME'
    LANGUAGE C VOLATILE PARALLEL UNSAFE;

--: why a queue stands still, a reason a row
CREATE FUNCTION jobq_explain_queue(queue text)
    RETURNS TABLE (reason text, detail text, jobs bigint[], pids integer[], until timestamptz)
    AS 'MODULE_PATHNAME'
    LANGUAGE C VOLATILE PARALLEL UNSAFE;

--: how this session reaches the rows of jobq.jobs, sql or direct, and why; not allowed: jobq.access is direct and every
--: call fails
CREATE FUNCTION jobq_access()
    RETURNS TABLE (way text, reason text, allowed boolean)
    AS 'MODULE_PATHNAME'
    LANGUAGE C VOLATILE PARALLEL UNSAFE;
