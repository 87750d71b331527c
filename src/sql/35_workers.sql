-- Functions about the workers of queues.

-- The view jobq.workers calls this function. Operators of some queues may call it, too.
--: the connected workers, that is, the workers that have recently passed worker_info; no rows if jobq is not preloaded
CREATE FUNCTION jobq_workers()
    RETURNS TABLE (worker_id text, queues text[], kinds text[], slots integer, client text, started_at timestamptz,
                   state text, running bigint, last_claim timestamptz, last_seen timestamptz, info jsonb)
    AS 'MODULE_PATHNAME'
    LANGUAGE C VOLATILE PARALLEL UNSAFE;

--: number of workers that a queue needs so that its jobs start within the target time, at most as many as its limits allow to be busy;
--: each worker runs up to "slots" jobs at a time, and "duration" replaces the running time that jobq has measured
CREATE FUNCTION jobq_workers_wanted(
        queue text,
        target interval DEFAULT '30 seconds',
        slots integer DEFAULT 1,
        duration interval DEFAULT NULL)
    RETURNS integer
    AS 'MODULE_PATHNAME'
    LANGUAGE C VOLATILE PARALLEL UNSAFE;
