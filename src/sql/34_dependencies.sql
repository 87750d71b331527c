-- Dependencies: what a worker and an operator ask about them.

--: the dependencies of a job, their status and results, lowest id first
CREATE FUNCTION jobq_dependency_results(job_id bigint)
    RETURNS TABLE (job_id bigint, status jobq.job_status, result jsonb)
    AS 'MODULE_PATHNAME'
    LANGUAGE C STABLE PARALLEL UNSAFE;

--: the jobs that are connected with a job by dependencies, as a graph for Graphviz; NULL when there is no such job
CREATE FUNCTION jobq_dot(job_id bigint, max_jobs integer DEFAULT 1000)
    RETURNS text
    AS 'MODULE_PATHNAME'
    LANGUAGE C STABLE PARALLEL UNSAFE;
