-- Dependencies: what a worker and an operator ask about them.

CREATE FUNCTION jobq_dependency_results(job_id bigint)
    RETURNS TABLE (job_id bigint, status jobq.job_status, result jsonb)
    AS 'MODULE_PATHNAME'
    LANGUAGE C STABLE PARALLEL UNSAFE;
COMMENT ON FUNCTION jobq_dependency_results(bigint) IS
    'the dependencies of a job, their status and results, lowest id first';

CREATE FUNCTION jobq_dot(job_id bigint, max_jobs integer DEFAULT 1000)
    RETURNS text
    AS 'MODULE_PATHNAME'
    LANGUAGE C STABLE PARALLEL UNSAFE;
COMMENT ON FUNCTION jobq_dot(bigint, integer) IS
    'the jobs that are connected with a job by dependencies, as a graph for Graphviz; NULL when there is no such job';
