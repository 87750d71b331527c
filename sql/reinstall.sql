-- The extension is dropped and created again in a session that has cached plans and data.
SELECT jobq_enqueue('reinstall', '"old"') > 0 AS enqueued;
SELECT payload FROM jobq_claim('reinstall');
DROP EXTENSION jobq;
-- The hint depends on the version of PostgreSQL.
\set VERBOSITY terse
SELECT jobq_enqueue('reinstall');
\set VERBOSITY default
SELECT to_regnamespace('jobq') IS NULL AS schema_is_gone;
SELECT count(*) FROM pg_proc WHERE proname LIKE 'jobq%';

-- PostgreSQL 18 adds the line of the script to the context of the error.
\set SHOW_CONTEXT never
CREATE EXTENSION jobq;
SELECT count(*) FROM jobq.jobs;
SELECT * FROM jobq_claim('reinstall');
SELECT jobq_enqueue('reinstall', '"new"', kind => 'k') > 0 AS enqueued;
SELECT payload, kind, attempt FROM jobq_claim('reinstall', 'w') ;
SELECT duty FROM jobq_tick();

-- After a rollback, the old extension exists again.
BEGIN;
DROP EXTENSION jobq;
ROLLBACK;
SELECT payload, status FROM jobq.jobs;
SELECT jobq_complete(id, lease) FROM jobq.jobs;
DROP EXTENSION jobq;
BEGIN;
CREATE EXTENSION jobq;
SELECT jobq_enqueue('reinstall', '"in the creating transaction"') > 0 AS enqueued;
SELECT payload FROM jobq_claim('reinstall');
ROLLBACK;
SELECT to_regnamespace('jobq') IS NULL AS schema_is_gone;

-- Default privileges of the installing role do not apply to the objects of the extension.
CREATE ROLE regress_jobq_default;
ALTER DEFAULT PRIVILEGES GRANT ALL ON FUNCTIONS TO regress_jobq_default;
ALTER DEFAULT PRIVILEGES GRANT ALL ON TABLES TO regress_jobq_default;
ALTER DEFAULT PRIVILEGES GRANT ALL ON SEQUENCES TO regress_jobq_default;
ALTER DEFAULT PRIVILEGES GRANT ALL ON SCHEMAS TO regress_jobq_default;
CREATE EXTENSION jobq;
SELECT count(*) FROM pg_shdepend WHERE refobjid = 'regress_jobq_default'::regrole AND deptype = 'a' AND classid <> 'pg_default_acl'::regclass;
DROP EXTENSION jobq;
DROP OWNED BY regress_jobq_default;
DROP ROLE regress_jobq_default;

-- The functions can be in any schema. Types, tables, and views are always in the schema jobq.
CREATE SCHEMA "Job queue";
CREATE EXTENSION jobq SCHEMA "Job queue";
SELECT "Job queue".jobq_enqueue('reinstall', '"elsewhere"') > 0 AS enqueued;
SELECT payload FROM "Job queue".jobq_claim('reinstall');
CREATE ROLE regress_jobq_elsewhere;
SELECT "Job queue".jobq_grant('regress_jobq_elsewhere', 'producer');
SELECT has_function_privilege('regress_jobq_elsewhere', oid, 'EXECUTE') AS may_enqueue FROM pg_proc WHERE proname = 'jobq_enqueue';
SELECT "Job queue".jobq_revoke('regress_jobq_elsewhere', 'producer');
SET search_path = "Job queue";
SELECT jobq_drop_queue('reinstall', force => true);
RESET search_path;
DROP EXTENSION jobq;
DROP OWNED BY regress_jobq_elsewhere;
DROP ROLE regress_jobq_elsewhere;
DROP SCHEMA "Job queue";

-- CREATE EXTENSION does not use an existing schema jobq.
CREATE SCHEMA jobq;
CREATE EXTENSION jobq;
DROP SCHEMA jobq;
CREATE EXTENSION jobq;
SELECT * FROM jobq_claim();

-- Operators in the target schema are not called while a superuser installs the extension, although an exact match there would be
-- preferred over an operator in pg_catalog that needs a coercion.
CREATE SCHEMA regress_jobq_evil;
CREATE FUNCTION regress_jobq_evil.pwn(oid, regclass) RETURNS boolean LANGUAGE plpgsql AS
    $$ BEGIN RAISE EXCEPTION 'called'; END $$;
CREATE OPERATOR regress_jobq_evil.= (LEFTARG = oid, RIGHTARG = regclass, FUNCTION = regress_jobq_evil.pwn);
-- jobq does not call functions in the target schema either, even if their arguments match better than the arguments of the
-- server's functions, which take any array. In a constraint, they would run with the privileges of the owner.
DO $$
DECLARE
    arguments text;
BEGIN
    FOR arguments IN
        SELECT DISTINCT format('%I(%s)', p.proname, (SELECT string_agg(CASE WHEN a.type IN ('anyarray', 'anycompatiblearray') THEN t || '[]'
                                                                            WHEN a.type IN ('anyelement', 'anycompatible') THEN t ELSE a.type END, ', ' ORDER BY a.n)
                                                     FROM unnest(p.proargtypes::regtype[]::text[]) WITH ORDINALITY a(type, n)))
        FROM pg_proc p, unnest('{integer,bigint,text}'::text[]) t
        WHERE p.pronamespace = 'pg_catalog'::regnamespace AND p.prokind = 'f'
          AND '{anyarray,anycompatiblearray}'::regtype[]::oid[] && p.proargtypes::oid[] AND 'internal'::regtype <> ALL (p.proargtypes::oid[])
    LOOP
        EXECUTE format('CREATE FUNCTION regress_jobq_evil.%s RETURNS boolean LANGUAGE sql RETURN NULL::boolean', arguments);
    END LOOP;
END $$;
DROP EXTENSION jobq;
CREATE EXTENSION jobq SCHEMA regress_jobq_evil;
SELECT pg_describe_object(d.classid, d.objid, d.objsubid) AS "calls a function of others", p.oid::regprocedure AS function
FROM pg_depend d JOIN pg_proc p ON p.oid = d.refobjid
WHERE d.refclassid = 'pg_proc'::regclass AND d.classid <> 'pg_operator'::regclass AND p.pronamespace = 'regress_jobq_evil'::regnamespace
  AND NOT EXISTS (SELECT FROM pg_depend e WHERE e.classid = 'pg_proc'::regclass AND e.objid = p.oid AND e.deptype = 'e');
DROP EXTENSION jobq;
SET client_min_messages = warning;
DROP SCHEMA regress_jobq_evil CASCADE;
RESET client_min_messages;
CREATE EXTENSION jobq;
