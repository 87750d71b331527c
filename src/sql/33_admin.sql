-- Queues, the tick, roles and the version.

--: give a queue settings of its own; NULL: the default
CREATE FUNCTION jobq_create_queue(
        queue text,
        --@ each setting: {name} {type} DEFAULT NULL
        )
    RETURNS void
    AS 'MODULE_PATHNAME'
    LANGUAGE C VOLATILE PARALLEL UNSAFE;

--: change settings of a queue; NULL: unchanged
CREATE FUNCTION jobq_alter_queue(
        queue text,
        --@ each setting: {name} {type} DEFAULT NULL
        )
    RETURNS void
    AS 'MODULE_PATHNAME'
    LANGUAGE C VOLATILE PARALLEL UNSAFE;

--: drop a queue and its finished jobs; with force its other jobs too; false when there was none
CREATE FUNCTION jobq_drop_queue(queue text, force boolean DEFAULT false)
    RETURNS boolean
    AS 'MODULE_PATHNAME'
    LANGUAGE C VOLATILE PARALLEL UNSAFE;

--: stop claims from a queue; false when it was paused already
CREATE FUNCTION jobq_pause_queue(queue text)
    RETURNS boolean
    AS 'MODULE_PATHNAME'
    LANGUAGE C VOLATILE PARALLEL UNSAFE;

--: allow claims from a paused queue; false when it was not paused
CREATE FUNCTION jobq_resume_queue(queue text)
    RETURNS boolean
    AS 'MODULE_PATHNAME'
    LANGUAGE C VOLATILE PARALLEL UNSAFE;

--: delete all jobs of a queue that are not running; returns how many
CREATE FUNCTION jobq_purge_queue(queue text, statuses jobq.job_status[] DEFAULT NULL)
    RETURNS bigint
    AS 'MODULE_PATHNAME'
    LANGUAGE C VOLATILE PARALLEL UNSAFE;

--: do what the background worker does: rescue, cancel, promote, unblock, prune, repair, reconcile
CREATE FUNCTION jobq_tick(now timestamptz DEFAULT NULL)
    RETURNS TABLE (duty text, done bigint)
    AS 'MODULE_PATHNAME'
    LANGUAGE C VOLATILE PARALLEL UNSAFE;

--: grant a role what a producer, worker, operator or monitor needs, for these queues or for all
CREATE FUNCTION jobq_grant(role text, profile text, queues text[] DEFAULT NULL)
    RETURNS void
    AS 'MODULE_PATHNAME'
    LANGUAGE C VOLATILE PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp;

--: take back what jobq_grant granted, for these queues or for all
CREATE FUNCTION jobq_revoke(role text, profile text, queues text[] DEFAULT NULL)
    RETURNS void
    AS 'MODULE_PATHNAME'
    LANGUAGE C VOLATILE PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp;

--: version of the jobq library
CREATE FUNCTION jobq_version()
    RETURNS text
    AS 'MODULE_PATHNAME'
    LANGUAGE C IMMUTABLE PARALLEL SAFE;

-- For the view jobq.queue_stats. STABLE: the planner leaves out what a query does not ask for.
--: jobs by status and rates of every queue: from the counters where there are any, else from the rows
CREATE FUNCTION jobq.queue_counters()
    RETURNS TABLE (queue text,
                   --@ each status: {name} bigint,
                   enqueued_per_second double precision, claimed_per_second double precision,
                   completed_per_second double precision, failed_per_second double precision,
                   lost_per_second double precision, paused boolean, source text)
    AS 'MODULE_PATHNAME', 'jobq_queue_counters'
    LANGUAGE C STABLE PARALLEL RESTRICTED SECURITY DEFINER SET search_path = pg_catalog, pg_temp;

--: for how long the oldest claimable job of a queue has been due; NULL: there is none
CREATE FUNCTION jobq.oldest_pending_age(queue text)
    RETURNS interval
    AS 'MODULE_PATHNAME', 'jobq_oldest_pending_age'
    LANGUAGE C STABLE PARALLEL RESTRICTED SECURITY DEFINER SET search_path = pg_catalog, pg_temp;

--: the oldest heartbeat of the running jobs of each queue
CREATE FUNCTION jobq.oldest_heartbeats()
    RETURNS TABLE (queue text, oldest_heartbeat timestamptz)
    AS 'MODULE_PATHNAME', 'jobq_oldest_heartbeats'
    LANGUAGE C STABLE PARALLEL RESTRICTED SECURITY DEFINER SET search_path = pg_catalog, pg_temp;

-- For the view jobq.workers.
--: the lanes of this database of which shared memory knows where their first jobs can be
CREATE FUNCTION jobq.tracked_lanes()
    RETURNS TABLE (lane bigint, first_priority smallint, first_run_at timestamptz, first_id bigint, known_empty boolean,
                   ranges integer, refreshed_at timestamptz)
    AS 'MODULE_PATHNAME', 'jobq_tracked_lanes'
    LANGUAGE C VOLATILE PARALLEL SAFE;

--: what the launcher and the background workers report
CREATE FUNCTION jobq.background_workers()
    RETURNS TABLE (pid integer, database text, state text, last_round timestamptz, next_round timestamptz,
                   last_error text, last_error_at timestamptz, last_error_over_at timestamptz, rounds bigint,
                   rescued bigint, cancelled bigint, promoted bigint, unblocked bigint, pruned bigint,
                   repaired bigint, reconciled bigint, note text)
    AS 'MODULE_PATHNAME', 'jobq_background_workers'
    LANGUAGE C VOLATILE PARALLEL UNSAFE SECURITY DEFINER SET search_path = pg_catalog, pg_temp;

-- Tells the launcher that this database has the extension now.
--: tells the launcher to visit this database
CREATE FUNCTION jobq.announce()
    RETURNS void
    AS 'MODULE_PATHNAME', 'jobq_announce'
    LANGUAGE C VOLATILE PARALLEL UNSAFE SECURITY DEFINER SET search_path = pg_catalog, pg_temp;
SELECT jobq.announce();
