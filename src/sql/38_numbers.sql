-- Functions that the views call.

-- The view jobq.queue_stats calls the next three functions. They are STABLE, so that the planner omits the calls whose results a
-- query does not select.
--: the number of jobs in each status, and rates, for each queue; read from counters if the queue has them, and otherwise counted in
--: the table
CREATE FUNCTION jobq.queue_counters()
    RETURNS TABLE (queue text,
                   --@ each status: {name} bigint,
                   enqueued_per_second double precision, claimed_per_second double precision,
                   completed_per_second double precision, failed_per_second double precision,
                   lost_per_second double precision, paused boolean, source text)
    AS 'MODULE_PATHNAME', 'jobq_queue_counters'
    LANGUAGE C STABLE PARALLEL RESTRICTED SECURITY DEFINER SET search_path = pg_catalog, pg_temp;

--: how long ago the oldest claimable job of a queue became due; NULL if no job is claimable
CREATE FUNCTION jobq.oldest_pending_age(queue text)
    RETURNS interval
    AS 'MODULE_PATHNAME', 'jobq_oldest_pending_age'
    LANGUAGE C STABLE PARALLEL RESTRICTED SECURITY DEFINER SET search_path = pg_catalog, pg_temp;

--: the oldest heartbeat of the running jobs of each queue
CREATE FUNCTION jobq.oldest_heartbeats()
    RETURNS TABLE (queue text, oldest_heartbeat timestamptz)
    AS 'MODULE_PATHNAME', 'jobq_oldest_heartbeats'
    LANGUAGE C STABLE PARALLEL RESTRICTED SECURITY DEFINER SET search_path = pg_catalog, pg_temp;

-- The view jobq.lanes calls this function.
--: the lanes of this database for which shared memory contains the position of the first claimable job
CREATE FUNCTION jobq.tracked_lanes()
    RETURNS TABLE (lane bigint, first_priority smallint, first_run_at timestamptz, first_id bigint, known_empty boolean,
                   ranges integer, refreshed_at timestamptz)
    AS 'MODULE_PATHNAME', 'jobq_tracked_lanes'
    LANGUAGE C VOLATILE PARALLEL SAFE;

-- The view jobq.background_workers calls this function.
--: the state of the launcher and of the background workers
CREATE FUNCTION jobq.background_workers()
    RETURNS TABLE (pid integer, database text, state text, last_round timestamptz, next_round timestamptz,
                   last_error text, last_error_at timestamptz, last_error_over_at timestamptz, rounds bigint,
                   rescued bigint, cancelled bigint, expired bigint, promoted bigint, unblocked bigint, pruned bigint,
                   repaired bigint, reconciled bigint, note text)
    AS 'MODULE_PATHNAME', 'jobq_background_workers'
    LANGUAGE C VOLATILE PARALLEL UNSAFE SECURITY DEFINER SET search_path = pg_catalog, pg_temp;
