-- PostgreSQL lets a role that has the USAGE privilege on a foreign server map itself to any user of that server. If a shard does
-- not ask the router for a password, or .pgpass contains the password, the role would be that user on the shard. A role that drops
-- its own mapping, for example with DROP OWNED, would connect with the mapping for PUBLIC.
--: reject user mappings for the servers of shards unless the owner of the servers creates, changes, or drops them
CREATE FUNCTION jobq_router.check_mapping() RETURNS event_trigger
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    servers text[];
BEGIN
    IF TG_EVENT = 'sql_drop' THEN
        servers := ARRAY(SELECT o.address_args[1] FROM pg_event_trigger_dropped_objects() o WHERE o.classid = 'pg_user_mapping'::regclass);
    ELSE
        servers := ARRAY(SELECT u.srvname FROM pg_event_trigger_ddl_commands() c JOIN pg_user_mappings u ON u.umid = c.objid WHERE c.classid = 'pg_user_mapping'::regclass);
    END IF;
    IF EXISTS (SELECT FROM pg_foreign_server s WHERE s.srvname = ANY (servers) AND s.srvname ~ '^jobq_shard_[0-9]+$' AND NOT pg_has_role(s.srvowner, 'USAGE')) THEN
        RAISE 'only the owner of the servers of shards can change their user mappings' USING ERRCODE = 'insufficient_privilege',
            HINT = 'A user mapping determines which role its user has on the shard.';
    END IF;
END
$$;
CREATE EVENT TRIGGER jobq_router_check_mapping ON ddl_command_end WHEN TAG IN ('CREATE USER MAPPING', 'ALTER USER MAPPING')
    EXECUTE FUNCTION jobq_router.check_mapping();
CREATE EVENT TRIGGER jobq_router_check_dropped_mapping ON sql_drop WHEN TAG IN ('DROP USER MAPPING', 'DROP OWNED')
    EXECUTE FUNCTION jobq_router.check_mapping();
-- The triggers must also fire in the sessions of a role that can set session_replication_role.
ALTER EVENT TRIGGER jobq_router_check_mapping ENABLE ALWAYS;
ALTER EVENT TRIGGER jobq_router_check_dropped_mapping ENABLE ALWAYS;

-- PUBLIC gets no privileges. jobq_grant grants privileges to a role.
DO $$
DECLARE
    f record;
BEGIN
    FOR f IN SELECT c.oid::pg_catalog.regprocedure AS name FROM jobq_router.calls() c LOOP
        EXECUTE pg_catalog.format('REVOKE ALL ON ROUTINE %s FROM PUBLIC', f.name);
    END LOOP;
END
$$;
