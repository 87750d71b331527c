-- Functions that explain why jobs do not run.

--: why a job does not run, one reason per row; returns no rows if the job does not exist
CREATE FUNCTION jobq_explain(job_id bigint)
    RETURNS TABLE (reason text, detail text, jobs bigint[], pids integer[], until timestamptz)
    AS 'MODULE_PATHNAME'
    LANGUAGE C VOLATILE PARALLEL UNSAFE;

--: why none of the jobs of a queue start, one reason per row
CREATE FUNCTION jobq_explain_queue(queue text)
    RETURNS TABLE (reason text, detail text, jobs bigint[], pids integer[], until timestamptz)
    AS 'MODULE_PATHNAME'
    LANGUAGE C VOLATILE PARALLEL UNSAFE;

--: whether this session accesses the rows of jobq.jobs with SQL or directly, and why; "allowed" is false if the setting jobq.access
--: requires direct access but the table requires SQL, so that every call fails
CREATE FUNCTION jobq_access()
    RETURNS TABLE (way text, reason text, allowed boolean)
    AS 'MODULE_PATHNAME'
    LANGUAGE C VOLATILE PARALLEL UNSAFE;
