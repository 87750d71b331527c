-- Privileges. PUBLIC may do nothing: a role that may call every function is an operator, whatever it was made for.
-- jobq_grant(role, profile) hands out what each profile needs.
DO $$
DECLARE
    f regprocedure;
BEGIN
    -- search_path is pg_catalog, pg_temp: see the views.
    FOR f IN SELECT p.oid FROM pg_catalog.pg_depend d
             JOIN pg_catalog.pg_proc p ON p.oid = d.objid
             WHERE d.classid = 'pg_catalog.pg_proc'::pg_catalog.regclass::pg_catalog.oid AND d.deptype = 'e'
               AND d.refclassid = 'pg_catalog.pg_extension'::pg_catalog.regclass::pg_catalog.oid
               AND d.refobjid = (SELECT e.oid FROM pg_catalog.pg_extension e WHERE e.extname = 'jobq')
    LOOP
        EXECUTE pg_catalog.format('REVOKE ALL ON ROUTINE %s FROM PUBLIC', f);
    END LOOP;
END
$$;
GRANT USAGE ON SCHEMA jobq TO pg_monitor;
GRANT SELECT ON jobq.queues, jobq.queue_stats, jobq.lanes, jobq.workers, jobq.attempts, jobq.limits, jobq.schedules TO pg_monitor;
GRANT SELECT ON jobq.handlers TO pg_monitor;
-- The views call these with the rights of the reader.
GRANT EXECUTE ON FUNCTION jobq.background_workers(), jobq.tracked_lanes(), jobq.queue_counters(),
    jobq.oldest_pending_age(text), jobq.oldest_heartbeats(), jobq.limit_running(text, text),
    jobq.limit_tokens(text, text, integer, interval) TO pg_monitor;
GRANT EXECUTE ON FUNCTION jobq.handler_state(text, text, text, text, text[]) TO pg_monitor;
-- What it tells of a job beyond jobq.attempts is when it was claimed and how it ended.
GRANT EXECUTE ON FUNCTION @extschema@.jobq_log(bigint) TO pg_monitor;
GRANT EXECUTE ON FUNCTION @extschema@.jobq_metrics(), @extschema@.jobq_prometheus(), jobq.metric_families() TO pg_monitor;
-- Whoever may INSERT or UPDATE jobs directly runs the triggers' conditions and lane_of with rights of their own;
-- both are harmless.
GRANT EXECUTE ON FUNCTION jobq.by_hand(), jobq.lane_of(text, text, integer, text[]) TO PUBLIC;
