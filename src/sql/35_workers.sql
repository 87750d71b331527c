-- The function that the view jobq.workers calls. Operators of some queues may call it, too.

--: the connected workers, that is, the workers that have recently passed worker_info; no rows if jobq is not preloaded
CREATE FUNCTION jobq_workers()
    RETURNS TABLE (worker_id text, queues text[], kinds text[], slots integer, client text, started_at timestamptz,
                   state text, running bigint, last_claim timestamptz, last_seen timestamptz, info jsonb)
    AS 'MODULE_PATHNAME'
    LANGUAGE C VOLATILE PARALLEL UNSAFE;
