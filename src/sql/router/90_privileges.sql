-- PUBLIC may do nothing; jobq_grant lets a role in.
DO $$
DECLARE
    f record;
BEGIN
    FOR f IN SELECT c.oid::pg_catalog.regprocedure AS name FROM jobq_router.calls() c LOOP
        EXECUTE pg_catalog.format('REVOKE ALL ON ROUTINE %s FROM PUBLIC', f.name);
    END LOOP;
END
$$;
