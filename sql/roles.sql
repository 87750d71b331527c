-- Roles: PUBLIC has no privileges. jobq_grant gives a role the privileges of a producer, a worker, an operator, or a monitor.
CREATE ROLE regress_jobq_nobody;
CREATE ROLE regress_jobq_producer;
CREATE ROLE regress_jobq_worker;
CREATE ROLE regress_jobq_operator;
CREATE ROLE "regress_jobq ""Monitor""";
SELECT jobq_grant('regress_jobq_producer', 'producer'), jobq_grant('regress_jobq_worker', 'worker'),
       jobq_grant('regress_jobq_operator', 'operator'), jobq_grant('regress_jobq "Monitor"', 'monitor');

-- Operators can read the tables, and monitors can read the views. No role can write the tables, except that an operator can
-- delete kept keys.
SELECT r.rolname, string_agg(c.relname, ', ' ORDER BY c.relname COLLATE "C") FILTER (WHERE has_table_privilege(r.oid, c.oid, 'SELECT')) AS reads,
       count(*) FILTER (WHERE has_table_privilege(r.oid, c.oid, 'INSERT, UPDATE, DELETE, TRUNCATE, REFERENCES, TRIGGER')) AS writes,
       bool_or(has_schema_privilege(r.oid, 'jobq', 'CREATE')) AS creates
FROM pg_roles r CROSS JOIN pg_class c WHERE (r.rolname LIKE 'regress\_jobq%' OR r.rolname = 'pg_monitor') AND c.relnamespace = 'jobq'::regnamespace AND c.relkind IN ('r', 'v')
GROUP BY r.rolname ORDER BY r.rolname COLLATE "C";

-- Each role calls functions.
SET ROLE regress_jobq_producer;
SELECT jobq_enqueue('roles', '"job"') AS id \gset
SELECT status FROM jobq_get(:id);
\set VERBOSITY terse
SELECT jobq_claim('roles');
SELECT jobq_cancel(:id);
SELECT count(*) FROM jobq.jobs;
SELECT count(*) FROM jobq.queue_stats;
INSERT INTO jobq.jobs (queue) VALUES ('roles');
SET ROLE regress_jobq_worker;
SELECT id, lease FROM jobq_claim('roles', 'w') \gset
SELECT jobq_heartbeat(:id, :lease), jobq_complete(:id, :lease);
SELECT jobq_enqueue('roles');
SELECT jobq_tick();
SELECT count(*) FROM jobq.jobs;
SET ROLE regress_jobq_operator;
SELECT jobq_retry(:id), jobq_pause_queue('roles');
SELECT queue, pending, paused FROM jobq.queue_stats WHERE queue = 'roles';
SELECT payload, status FROM jobq.jobs WHERE id = :id;
SELECT jobq_claim('roles');
DELETE FROM jobq.jobs;
DELETE FROM jobq.kept_keys;
SET ROLE "regress_jobq ""Monitor""";
SELECT queue, pending, paused FROM jobq.queue_stats WHERE queue = 'roles';
SELECT count(*) >= 0 AS readable FROM jobq.background_workers;
SELECT count(*) FROM jobq.queues WHERE queue = 'roles';
SELECT count(*) FROM jobq.attempts WHERE job_id = :id;
SELECT status FROM jobq_get(:id);
SELECT jobq_cancel(:id);
SELECT count(*) FROM jobq.jobs;
SET ROLE pg_monitor;
SELECT queue, pending, paused FROM jobq.queue_stats WHERE queue = 'roles';
SELECT count(*) >= 0 AS readable FROM jobq.background_workers;
SET ROLE regress_jobq_nobody;
SELECT jobq_enqueue('roles');
SELECT jobq_version();
SELECT jobq_grant('regress_jobq_nobody', 'operator');
RESET ROLE;
\set VERBOSITY default

-- The schema of the functions is not accessible to PUBLIC.
BEGIN;
REVOKE USAGE ON SCHEMA public FROM PUBLIC;
SELECT jobq_grant('regress_jobq "Monitor"', 'worker');
GRANT USAGE ON SCHEMA public TO "regress_jobq ""Monitor""";
SELECT jobq_grant('regress_jobq "Monitor"', 'worker');
ROLLBACK;

-- Privileges are revoked. A role of two kinds keeps the privileges of the other kind. A role that does not exist is an error.
SELECT jobq_grant('regress_jobq_producer', 'worker');
SELECT jobq_revoke('regress_jobq_producer', 'producer');
SELECT has_function_privilege('regress_jobq_producer', p.oid, 'EXECUTE') AS may, proname FROM pg_proc p
WHERE proname IN ('jobq_enqueue', 'jobq_claim') ORDER BY 2;
SELECT jobq_revoke('regress_jobq_producer', 'worker');
SELECT count(*) FROM pg_proc p WHERE proname LIKE 'jobq\_%' AND has_function_privilege('regress_jobq_producer', p.oid, 'EXECUTE');
SELECT jobq_grant('regress_jobq_unknown', 'worker');
SELECT jobq_grant('regress_jobq_worker', 'admin');
SELECT jobq_grant(NULL, 'worker');
SELECT jobq_grant('regress_jobq_worker; DROP TABLE jobq.jobs', 'worker');

-- A role that may INSERT into the table needs no other privileges.
GRANT USAGE ON SCHEMA jobq TO regress_jobq_nobody;
GRANT INSERT, SELECT, UPDATE, DELETE ON jobq.jobs TO regress_jobq_nobody;
SET ROLE regress_jobq_nobody;
INSERT INTO jobq.jobs (queue, kind, payload) VALUES ('roles', 'direct', '"direct"');
UPDATE jobq.jobs SET kind = 'changed', priority = -1 WHERE kind = 'direct';
RESET ROLE;
SELECT jobq_resume_queue('roles');
SELECT payload, kind FROM jobq_claim('roles');
SELECT jobq_drop_queue('roles', force => true);

-- A schema at the front of the caller's search_path contains operators, functions, and types with the names of built-in ones.
-- None of them is ever called, neither with the privileges of the owner nor with the privileges of the caller.
CREATE SCHEMA regress_jobq_evil;
DO $$
DECLARE
    t text;
    op text;
    f text;
BEGIN
    FOREACH t IN ARRAY '{bigint,integer,smallint,text,timestamptz,interval,boolean,xid,oid,name,jsonb,bigint[],text[],jobq.job_status,tid}'::text[] LOOP
        EXECUTE format('CREATE FUNCTION regress_jobq_evil.hijack(a %1$s, b %1$s) RETURNS boolean LANGUAGE plpgsql AS ''BEGIN RAISE EXCEPTION ''''hijacked: %1$s''''; END''', t);
        FOREACH op IN ARRAY '{=,<>,<,<=,>,>=,@>,~~}'::text[] LOOP
            EXECUTE format('CREATE OPERATOR regress_jobq_evil.%1$s (LEFTARG = %2$s, RIGHTARG = %2$s, FUNCTION = regress_jobq_evil.hijack)', op, t);
        END LOOP;
    END LOOP;
    FOREACH f IN ARRAY '{clock_timestamp(),now(),jsonb_array_elements(jsonb),jsonb_object_keys(jsonb),jsonb_each(jsonb),unnest(bigint[]),unnest(text[]),count(),count(boolean),min(timestamptz),quote_ident(text)}'::text[] LOOP
        EXECUTE format('CREATE FUNCTION regress_jobq_evil.%s RETURNS text LANGUAGE plpgsql AS ''BEGIN RAISE EXCEPTION ''''hijacked: %s''''; END''', f, f);
    END LOOP;
    CREATE TYPE regress_jobq_evil.job_status AS ENUM ('hijacked');
    CREATE TABLE regress_jobq_evil.jobs (id bigint);
END $$;
GRANT USAGE ON SCHEMA regress_jobq_evil TO PUBLIC;
-- In a new session, so that every plan is made with this path.
\c -
SET search_path = regress_jobq_evil, public, pg_catalog;
CREATE TEMP TABLE jobs (id bigint);
CREATE TEMP TABLE queue_settings (queue text);
\set VERBOSITY terse
SELECT 1::bigint = 1::bigint;
SELECT now();
-- These statements themselves use no operators or shadowed functions.
SELECT jobq_create_queue('roles', max_attempts => 2);
SELECT jobq_alter_queue('roles', max_lost => 2);
SELECT jobq_enqueue('roles', '1', kind => 'k', options => '{"requires": ["a"]}') AS id \gset
SELECT is_new FROM jobq_enqueue_many('roles', ARRAY['2', '3', '4', '5']::jsonb[]);
SELECT is_new FROM jobq_enqueue_jobs('[{"queue": "roles", "payload": 6, "requires": ["b"], "run_at": "2100-01-01"}]');
INSERT INTO jobq.jobs (queue, kind, payload) VALUES ('roles', 'direct', '7');
SELECT id, lease FROM jobq_claim('roles', 'w', capabilities => ARRAY['a']) \gset
SELECT jobq_heartbeat(:id, :lease);
SELECT state FROM jobq_heartbeat_many(ARRAY[:id]::bigint[], ARRAY[:lease]::bigint[]);
SELECT state FROM jobq_heartbeat_worker('w');
SELECT jobq_fail(:id, :lease, 'no');
SELECT jobq_retry(:id), jobq_cancel(:id), jobq_reschedule(:id, '2100-01-01'), jobq_delete(:id);
SELECT id, lease FROM jobq_claim_any(ARRAY['roles', 'other']) \gset
SELECT jobq_release(:id, :lease);
SELECT id, lease FROM jobq_claim('roles') \gset
SELECT jobq_snooze(:id, '1 day', :lease);
SELECT id, lease FROM jobq_claim('roles') \gset
SELECT payload FROM jobq_complete_and_claim(ARRAY[:id]::bigint[], ARRAY[:lease]::bigint[], queue => 'roles');
SELECT id, lease FROM jobq_claim('roles') \gset
SELECT completed FROM jobq_complete_many(ARRAY[:id]::bigint[], ARRAY[:lease]::bigint[]);
BEGIN;
SELECT id FROM jobq_claim('roles') \gset
SELECT jobq_complete(:id, result => '1');
COMMIT;
UPDATE jobq.jobs SET kind = 'z', status = 'pending';
SELECT payload, kind FROM jobq_claim('roles', batch => 1, kinds => ARRAY['z']);
SELECT status FROM jobq_get(:id);
SELECT jobq_cancel_jobs('roles', error_like => 'x', older_than => '1 hour', metadata => '1'), jobq_retry_jobs('roles'), jobq_reschedule_jobs('roles', '2100-06-01'), jobq_delete_jobs('roles');
SELECT duty FROM jobq_tick();
SELECT jobq_pause_queue('roles'), jobq_resume_queue('roles');
SELECT queue, paused, max_attempts FROM jobq.queues;
SELECT queue, failed, paused FROM jobq.queue_stats;
SELECT jobq_create_queue('roles 2', dead_letter_queue => 'roles dead');
SELECT jobq_enqueue('roles 2', '8') AS id \gset
SELECT jobq_fail(id, lease, retry => false) FROM jobq_claim('roles 2');
SELECT event FROM jobq_log(:id);
SELECT jobq_redrive('roles dead', per_second => 1);
UPDATE jobq.jobs SET status = 'failed' WHERE id OPERATOR(pg_catalog.=) :id;
SELECT jobq_retry(:id);
SELECT jobq_drop_queue('roles 2', force => true), jobq_drop_queue('roles dead');
SELECT jobq_grant('regress_jobq_worker', 'monitor'), jobq_revoke('regress_jobq_worker', 'monitor');
SELECT jobq_purge_queue('roles') AS purged \gset
SELECT jobq_drop_queue('roles', force => true);
\set VERBOSITY default
RESET search_path;
SELECT count(*) FROM jobq.jobs;
DROP TABLE pg_temp.jobs, pg_temp.queue_settings;
SET client_min_messages = warning;
DROP SCHEMA regress_jobq_evil CASCADE;
RESET client_min_messages;

DROP OWNED BY regress_jobq_nobody, regress_jobq_producer, regress_jobq_worker, regress_jobq_operator, "regress_jobq ""Monitor""";
DROP ROLE regress_jobq_nobody, regress_jobq_producer, regress_jobq_worker, regress_jobq_operator, "regress_jobq ""Monitor""";

-- A revoke keeps the privileges that another kind of the same role needs. The last revoke leaves none.
CREATE ROLE regress_jobq_both;
SELECT jobq_grant('regress_jobq_both', 'worker'), jobq_grant('regress_jobq_both', 'producer');
SELECT jobq_revoke('regress_jobq_both', 'producer');
SELECT p.proname, has_function_privilege('regress_jobq_both', p.oid, 'EXECUTE') AS may
FROM pg_proc p WHERE p.proname IN ('jobq_enqueue', 'jobq_get', 'jobq_claim', 'jobq_version') ORDER BY p.proname;
SELECT jobq_revoke('regress_jobq_both', 'worker');
DROP ROLE regress_jobq_both;

-- A monitor that is no longer an operator is still a monitor. It cannot read payloads. PUBLIC cannot be given a kind.
CREATE ROLE regress_jobq_both;
SELECT jobq_grant('regress_jobq_both', 'monitor'), jobq_grant('regress_jobq_both', 'operator');
SELECT jobq_revoke('regress_jobq_both', 'operator');
SET ROLE regress_jobq_both;
SELECT count(*) >= 0 AS sees FROM jobq.queue_stats;
SELECT count(*) > 20 AS sees FROM jobq.metric_families();
SELECT jobq_get(1);
RESET ROLE;
SELECT jobq_revoke('regress_jobq_both', 'monitor');
DROP ROLE regress_jobq_both;
-- A manual grant of one function does not make a role a member of its kind, so a revoke does not grant the privileges of that
-- kind.
CREATE ROLE regress_jobq_both;
SELECT jobq_grant('regress_jobq_both', 'producer');
GRANT EXECUTE ON FUNCTION jobq_cancel(bigint) TO regress_jobq_both;
SELECT jobq_revoke('regress_jobq_both', 'producer');
SELECT has_table_privilege('regress_jobq_both', 'jobq.jobs', 'SELECT') AS reads, string_agg(p.proname, ', ' ORDER BY p.proname) AS calls
FROM pg_proc p WHERE p.proname LIKE 'jobq%' AND has_function_privilege('regress_jobq_both', p.oid, 'EXECUTE');
REVOKE EXECUTE ON FUNCTION jobq_cancel(bigint) FROM regress_jobq_both;
DROP ROLE regress_jobq_both;
SELECT jobq_grant('public', 'worker');
