-- Privileges. PUBLIC gets no privileges except EXECUTE on jobq.by_hand(), because a role that could call all functions could do
-- what operators can do. jobq_grant(role, profile) grants what each profile needs. This statement also revokes the privileges that
-- roles have because of ALTER DEFAULT PRIVILEGES.
DO $$
DECLARE
    given record;
BEGIN
    -- Every name is schema-qualified, because 40_views.sql has set search_path to pg_catalog, pg_temp.
    FOR given IN
        SELECT DISTINCT o.object, CASE a.grantee WHEN 0 THEN 'PUBLIC' ELSE pg_catalog.quote_ident(pg_catalog.pg_get_userbyid(a.grantee)) END AS grantee
        FROM pg_catalog.pg_depend d,
             LATERAL (SELECT pg_catalog.format('ROUTINE %s', p.oid::pg_catalog.regprocedure), p.proowner, coalesce(p.proacl, pg_catalog.acldefault('f', p.proowner))
                      FROM pg_catalog.pg_proc p WHERE d.classid = 'pg_catalog.pg_proc'::pg_catalog.regclass::pg_catalog.oid AND p.oid = d.objid
                      UNION ALL
                      SELECT pg_catalog.format('%s %s', CASE c.relkind WHEN 'S' THEN 'SEQUENCE' ELSE 'TABLE' END, c.oid::pg_catalog.regclass), c.relowner, c.relacl
                      FROM pg_catalog.pg_class c WHERE d.classid = 'pg_catalog.pg_class'::pg_catalog.regclass::pg_catalog.oid AND c.oid = d.objid
                      UNION ALL
                      SELECT pg_catalog.format('SCHEMA %I', n.nspname), n.nspowner, n.nspacl
                      FROM pg_catalog.pg_namespace n WHERE d.classid = 'pg_catalog.pg_namespace'::pg_catalog.regclass::pg_catalog.oid AND n.oid = d.objid) o(object, owner, acl),
             pg_catalog.aclexplode(o.acl) a
        WHERE d.deptype = 'e' AND d.refclassid = 'pg_catalog.pg_extension'::pg_catalog.regclass::pg_catalog.oid
          AND d.refobjid = (SELECT e.oid FROM pg_catalog.pg_extension e WHERE e.extname = 'jobq') AND a.grantee <> o.owner
    LOOP
        EXECUTE pg_catalog.format('REVOKE ALL ON %s FROM %s', given.object, given.grantee);
    END LOOP;
END
$$;
GRANT USAGE ON SCHEMA jobq TO pg_monitor;
GRANT SELECT ON jobq.queues, jobq.queue_stats, jobq.lanes, jobq.background_workers, jobq.attempts, jobq.log_lines, jobq.limits, jobq.named_limits, jobq.schedules, jobq.kinds TO pg_monitor;
GRANT SELECT ON jobq.handlers, jobq.halted_groups, jobq.workers, jobq.batches TO pg_monitor;
-- The views call these functions with the privileges of the role that reads the view.
GRANT EXECUTE ON FUNCTION jobq.background_workers(), jobq.tracked_lanes(), jobq.queue_counters(),
    jobq.oldest_pending_age(text), jobq.oldest_heartbeats(), jobq.limit_running(text, text, text),
    jobq.limit_tokens(text, text, integer, interval, text), jobq.named_limit_running(text),
    jobq.named_limit_tokens(text, integer, interval) TO pg_monitor;
GRANT EXECUTE ON FUNCTION jobq.handler_state(text, text, text, text, text[]) TO pg_monitor;
-- Monitors may call jobq_log, because the only information that it shows in addition to jobq.attempts and jobq.log_lines is when a
-- job was claimed and how it ended.
GRANT EXECUTE ON FUNCTION @extschema@.jobq_log(bigint), @extschema@.jobq_workers() TO pg_monitor;
GRANT EXECUTE ON FUNCTION @extschema@.jobq_metrics(), @extschema@.jobq_prometheus(), jobq.metric_families() TO pg_monitor;
-- PUBLIC needs this privilege, because the WHEN conditions of the triggers are evaluated with the privileges of the role that
-- executes the statement. Only the owner can call the functions that compute hashes, because these functions would reveal to other
-- roles which names have a given hash.
GRANT EXECUTE ON FUNCTION jobq.by_hand() TO PUBLIC;
