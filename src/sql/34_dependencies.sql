-- Functions that show the dependencies of jobs, for workers and operators.

--: the dependencies of a job with their statuses and results, ordered by id
CREATE FUNCTION jobq_dependency_results(job_id bigint)
    RETURNS TABLE (job_id bigint, status jobq.job_status, result jsonb)
    AS 'MODULE_PATHNAME'
    LANGUAGE C STABLE PARALLEL UNSAFE;

--: the dependency graph that a job belongs to, in the DOT language of Graphviz; NULL if the job does not exist
CREATE FUNCTION jobq_dot(job_id bigint, max_jobs integer DEFAULT 1000)
    RETURNS text
    AS 'MODULE_PATHNAME'
    LANGUAGE C STABLE PARALLEL UNSAFE;
