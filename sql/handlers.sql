-- Handlers: functions in the database that run jobs. This file tests which functions and roles are allowed, and when a handler is
-- broken. test/process/handlers.pl tests how handlers run, which requires preload.
CREATE ROLE regress_jobq_runner LOGIN;
CREATE ROLE regress_jobq_operates LOGIN;
CREATE SCHEMA handled;
GRANT USAGE ON SCHEMA handled TO regress_jobq_runner;
CREATE FUNCTION handled.welcome(job jsonb) RETURNS jsonb LANGUAGE sql AS $$ SELECT jsonb_build_object('to', job->'payload'->'to') $$;
CREATE FUNCTION handled.quietly(job jsonb) RETURNS void LANGUAGE plpgsql AS $$ BEGIN END $$;
CREATE PROCEDURE handled.in_pieces(job jsonb) LANGUAGE plpgsql AS $$ BEGIN COMMIT; END $$;
CREATE FUNCTION public.echoed(job jsonb) RETURNS jsonb LANGUAGE sql AS 'SELECT job';
-- For a handler that is not broken, the state in jobq.handlers depends on preload and on the running executors.
CREATE VIEW seen AS SELECT queue, kind, handler, run_as, state = 'broken' AS broken, CASE state WHEN 'broken' THEN reason END AS reason FROM jobq.handlers ORDER BY 1, 2;

-- One statement: this function runs the jobs of this queue and kind as this role. The answer says whether the handler is new.
SELECT jobq_set_handler('emails', 'welcome', 'handled.welcome(jsonb)', 'regress_jobq_runner');
SELECT jobq_set_handler('emails', 'welcome', 'handled.welcome(jsonb)', 'regress_jobq_runner');
SELECT jobq_set_handler('emails', 'welcome', 'handled.welcome(jsonb)', 'regress_jobq_runner', max_executors => 2, versions => '{1,2}', capabilities => '{smtp}', settings => '{work_mem=64MB,"search_path=handled, pg_temp"}');
SELECT handler, run_as, max_executors, versions, capabilities, settings FROM jobq.handlers;
-- Functions without a result, and procedures. The empty kind means jobs without a kind.
SELECT jobq_set_handler('emails', '', 'handled.quietly(jsonb)', 'regress_jobq_runner'), jobq_set_handler('emails', 'digest', 'handled.in_pieces(jsonb)', 'regress_jobq_runner');
SELECT * FROM seen;
SELECT jobq_drop_handler('emails', 'digest');
SELECT jobq_drop_handler('emails', 'digest');

-- ---- Functions that cannot be handlers
CREATE FUNCTION handled.of_text(job text) RETURNS void LANGUAGE sql AS '';
CREATE FUNCTION handled.of_two(job jsonb, more int) RETURNS void LANGUAGE sql AS '';
CREATE FUNCTION handled.to_text(job jsonb) RETURNS text LANGUAGE sql AS $$ SELECT '' $$;
CREATE FUNCTION handled.to_rows(job jsonb) RETURNS SETOF jsonb LANGUAGE sql AS $$ SELECT job $$;
CREATE PROCEDURE handled.gives(INOUT job jsonb) LANGUAGE plpgsql AS $$ BEGIN END $$;
CREATE FUNCTION pg_temp.mine(job jsonb) RETURNS void LANGUAGE sql AS '';
\set VERBOSITY verbose
CREATE PROCEDURE tries(handler regprocedure) LANGUAGE plpgsql AS $$
DECLARE hint text;
BEGIN
    PERFORM jobq_set_handler('emails', 'x', handler, 'regress_jobq_runner');
    RAISE NOTICE '%: set', handler;
EXCEPTION WHEN OTHERS THEN
    GET STACKED DIAGNOSTICS hint = PG_EXCEPTION_HINT;
    RAISE NOTICE '%: % (%)', SQLSTATE, SQLERRM, hint;
END $$;
\set VERBOSITY terse
CALL tries('handled.of_text(text)');
CALL tries('handled.of_two(jsonb, int)');
CALL tries('handled.to_text(jsonb)');
CALL tries('handled.to_rows(jsonb)');
CALL tries('handled.gives(jsonb)');
CALL tries('1234567');
CALL tries(NULL);
DO $$ BEGIN PERFORM jobq_set_handler('emails', 'x', 'pg_temp.mine(jsonb)', 'regress_jobq_runner'); EXCEPTION WHEN OTHERS THEN RAISE NOTICE '%: a function of this session only', SQLSTATE; END $$;

-- ---- Arguments
\set VERBOSITY default
SELECT jobq_set_handler(NULL, 'x', 'handled.welcome(jsonb)', 'regress_jobq_runner');
SELECT jobq_set_handler('', 'x', 'handled.welcome(jsonb)', 'regress_jobq_runner');
SELECT jobq_set_handler('emails', NULL, 'handled.welcome(jsonb)', 'regress_jobq_runner');
SELECT jobq_set_handler('emails', repeat('k', 256), 'handled.welcome(jsonb)', 'regress_jobq_runner');
SELECT jobq_set_handler('emails', 'x', 'handled.welcome(jsonb)', 'regress_jobq_runner', max_executors => 0);
SELECT jobq_set_handler('emails', 'x', 'handled.welcome(jsonb)', 'regress_jobq_runner', max_executors => 65);
SELECT jobq_set_handler('emails', 'x', 'handled.welcome(jsonb)', 'regress_jobq_runner', max_executors => NULL);
SELECT jobq_set_handler('emails', 'x', 'handled.welcome(jsonb)', 'regress_jobq_runner', versions => '{1,NULL}');
SELECT jobq_set_handler('emails', 'x', 'handled.welcome(jsonb)', 'regress_jobq_runner', capabilities => '{{a},{b}}');
SELECT jobq_set_handler('emails', 'x', 'handled.welcome(jsonb)', 'regress_jobq_runner', settings => '{work_mem}');
SELECT jobq_set_handler('emails', 'x', 'handled.welcome(jsonb)', 'regress_jobq_runner', settings => '{role=postgres}');
SELECT jobq_set_handler('emails', 'x', 'handled.welcome(jsonb)', 'regress_jobq_runner', settings => '{Default_Transaction_Isolation=serializable}');
-- Only settings that the role itself may set are allowed.
SELECT jobq_set_handler('emails', 'x', 'handled.welcome(jsonb)', 'regress_jobq_runner', settings => '{log_statement=none}');
SELECT jobq_set_handler('emails', 'x', 'handled.welcome(jsonb)', 'regress_jobq_runner', settings => '{work_mem=much}');
SELECT jobq_set_handler('emails', 'x', 'handled.welcome(jsonb)', 'regress_jobq_runner', settings => '{no_such_setting=1}');
-- The queue has no settings, although jobq.require_queues requires them.
SET jobq.require_queues = on;
SELECT jobq_set_handler('emials', 'x', 'handled.welcome(jsonb)', 'regress_jobq_runner');
RESET jobq.require_queues;
-- Rejected calls leave no handler.
SELECT count(*) FROM jobq.handlers WHERE kind = 'x';
-- A capability may be any text, including the empty text, because jobs may require it.
SELECT jobq_set_handler('emails', 'x', 'handled.welcome(jsonb)', 'regress_jobq_runner', versions => '{}', capabilities => '{"",smtp}', settings => '{}');
SELECT versions, capabilities, settings FROM jobq.handlers WHERE kind = 'x';
SELECT jobq_drop_handler('emails', 'x');

-- ---- Privileges: an operator of the queue who can SET ROLE to the role that runs the handler
\set VERBOSITY terse
SELECT jobq_grant('regress_jobq_operates', 'operator', queues => '{emails}');
SET ROLE regress_jobq_operates;
SELECT jobq_set_handler('emails', 'x', 'public.echoed(jsonb)', 'regress_jobq_runner');
RESET ROLE;
GRANT regress_jobq_runner TO regress_jobq_operates;
SET ROLE regress_jobq_operates;
SELECT jobq_set_handler('emails', 'x', 'public.echoed(jsonb)', 'regress_jobq_runner');
SELECT jobq_set_handler('reports', 'x', 'public.echoed(jsonb)', 'regress_jobq_runner');
SELECT jobq_drop_handler('reports', 'x');
-- Without run_as, the handler runs as the caller.
SELECT jobq_set_handler('emails', 'x', 'public.echoed(jsonb)');
RESET ROLE;
SELECT run_as FROM jobq.handlers WHERE kind = 'x';
SELECT jobq_drop_handler('emails', 'x');
-- Superusers cannot run handlers. Roles without LOGIN can run them only since PostgreSQL 17.
SELECT rolname AS superuser FROM pg_roles WHERE rolsuper ORDER BY oid LIMIT 1 \gset
DO $$ BEGIN PERFORM jobq_set_handler('emails', 'x', 'handled.welcome(jsonb)', current_user::regrole); EXCEPTION WHEN insufficient_privilege THEN RAISE NOTICE '%', replace(SQLERRM, current_user, '...'); END $$;
CREATE ROLE regress_jobq_group;
GRANT USAGE ON SCHEMA handled TO regress_jobq_group;
DO $$ BEGIN
    ASSERT jobq_set_handler('emails', 'group', 'handled.welcome(jsonb)', 'regress_jobq_group') AND current_setting('server_version_num')::int >= 170000;
EXCEPTION WHEN insufficient_privilege THEN
    ASSERT SQLERRM = 'role "regress_jobq_group" is not permitted to log in' AND current_setting('server_version_num')::int < 170000, SQLERRM;
END $$;
DELETE FROM jobq.handler_settings WHERE kind = 'group';
-- The role lacks a privilege.
REVOKE EXECUTE ON FUNCTION handled.welcome(jsonb) FROM PUBLIC;
SELECT jobq_set_handler('emails', 'x', 'handled.welcome(jsonb)', 'regress_jobq_runner');
GRANT EXECUTE ON FUNCTION handled.welcome(jsonb) TO regress_jobq_runner;
REVOKE USAGE ON SCHEMA handled FROM regress_jobq_runner;
SELECT jobq_set_handler('emails', 'x', 'handled.welcome(jsonb)', 'regress_jobq_runner');
GRANT USAGE ON SCHEMA handled TO regress_jobq_runner;
SELECT current_database() AS here \gset
REVOKE CONNECT ON DATABASE :"here" FROM PUBLIC;
SELECT jobq_set_handler('emails', 'x', 'handled.welcome(jsonb)', 'regress_jobq_runner');
GRANT CONNECT ON DATABASE :"here" TO PUBLIC;

-- ---- A broken handler works again after the cause is fixed. In the meantime, jobs wait and lose no attempts.
DELETE FROM jobq.handler_settings WHERE kind <> 'welcome';
SELECT broken, reason FROM seen;
ALTER FUNCTION handled.welcome(jsonb) RENAME TO farewell;
SELECT broken, reason FROM seen;
ALTER FUNCTION handled.farewell(jsonb) RENAME TO welcome;
SELECT broken, reason FROM seen;
ALTER FUNCTION handled.welcome(jsonb) OWNER TO regress_jobq_operates;
REVOKE EXECUTE ON FUNCTION handled.welcome(jsonb) FROM regress_jobq_runner;
SELECT broken, reason FROM seen;
GRANT EXECUTE ON FUNCTION handled.welcome(jsonb) TO PUBLIC;
ALTER ROLE regress_jobq_runner SUPERUSER;
SELECT broken, reason FROM seen;
ALTER ROLE regress_jobq_runner NOSUPERUSER;
ALTER ROLE regress_jobq_runner RENAME TO regress_jobq_runs;
SELECT broken, reason FROM seen;
ALTER ROLE regress_jobq_runs RENAME TO regress_jobq_runner;
DROP FUNCTION handled.welcome(jsonb);
CREATE FUNCTION handled.welcome(job jsonb) RETURNS integer LANGUAGE sql AS 'SELECT 1';
SELECT broken, reason FROM seen;
-- Plain SQL can store any text.
UPDATE jobq.handler_settings SET handler = 'no name at all';
SELECT broken, reason FROM seen;
UPDATE jobq.handler_settings SET handler = 'public.echoed', settings = '{nothing}';
SELECT broken, reason FROM seen;
UPDATE jobq.handler_settings SET settings = NULL;
SELECT broken, reason FROM seen;
INSERT INTO jobq.handler_settings (queue, kind, handler, run_as, versions) VALUES ('emails', 'n', 'n.n', 'n', '{NULL}');
INSERT INTO jobq.handler_settings (queue, kind, handler, run_as, max_executors) VALUES ('emails', 'n', 'n.n', 'n', 0);

-- If a queue is dropped, its handlers are dropped, too.
SELECT jobq_drop_queue('emails');
SELECT jobq_drop_queue('emails', force => true), (SELECT count(*) FROM jobq.handlers) AS left;

-- ---- The lease of an executor does not expire. If no executor of this server holds it, as after a crash, a promotion, or a
-- restore, it is lost at once.
-- The background worker may have locked the jobs, so the tick is repeated.
CREATE PROCEDURE rescued() LANGUAGE plpgsql AS $$
DECLARE give_up timestamptz := clock_timestamp() + interval '1 min';
BEGIN
    WHILE EXISTS (SELECT FROM jobq.jobs WHERE queue = 'orphans' AND status = 'processing' AND lease IS NOT NULL) AND clock_timestamp() < give_up LOOP
        PERFORM jobq_tick();
        COMMIT;
    END LOOP;
END $$;
CREATE FUNCTION orphan(amount int) RETURNS void LANGUAGE sql AS $$
    INSERT INTO jobq.jobs (queue, status, worker_id, attempts, lease, started_at, last_heartbeat, _lease_timeout, payload)
    SELECT 'orphans', 'processing', 'backend:executor', 1, 1000 + n, now(), now(), interval '365000 days', to_jsonb(n) FROM generate_series(1, amount) n
$$;
BEGIN;
SELECT orphan(1);
SELECT jobq_heartbeat(id, lease) FROM jobq.jobs WHERE queue = 'orphans';
COMMIT;
CALL rescued();
SELECT status, attempts, lost_attempts, error FROM jobq.jobs WHERE queue = 'orphans';
SELECT a.outcome, a.error FROM jobq.attempts a JOIN jobq.jobs j ON j.id = a.job_id WHERE j.queue = 'orphans';
-- If several jobs are lost together, any of them may have crashed the executor. None of them is blamed, and from then on they run
-- one at a time.
SELECT jobq_purge_queue('orphans', '{pending}');
SELECT orphan(3);
CALL rescued();
SELECT status, lost_attempts, error FROM jobq.jobs WHERE queue = 'orphans' ORDER BY payload;
-- A job that was a suspect before is to blame.
UPDATE jobq.jobs SET status = 'processing', lease = 2000 + payload::int, lost_attempts = CASE payload WHEN '2' THEN 1 ELSE 0 END, _company_lease = NULL, _lease_timeout = interval '365000 days', attempts = 2 WHERE queue = 'orphans';
CALL rescued();
SELECT status, lost_attempts, error FROM jobq.jobs WHERE queue = 'orphans' ORDER BY payload;
-- A job that plain SQL sets to processing has no lease, so it gets a heartbeat timeout.
UPDATE jobq.jobs SET status = 'processing', worker_id = NULL WHERE queue = 'orphans' AND payload = '1';
CALL rescued();
SELECT status, _lease_timeout FROM jobq.jobs WHERE queue = 'orphans' AND payload = '1';
-- jobq_get shows no heartbeat timeout for a job of an executor.
BEGIN;
SELECT orphan(1);
SELECT g.heartbeat_timeout IS NULL AS no_timeout FROM jobq.jobs j, jobq_get(j.id) g WHERE j.queue = 'orphans' AND j.lease = 1001;
COMMIT;
SELECT jobq_drop_queue('orphans', force => true);

SELECT jobq_revoke('regress_jobq_operates', 'operator');
DROP PROCEDURE rescued();
DROP FUNCTION orphan(int);
DROP PROCEDURE tries(regprocedure);
DROP FUNCTION public.echoed(jsonb);
DROP VIEW seen;
DROP OWNED BY regress_jobq_runner, regress_jobq_operates, regress_jobq_group CASCADE;
DROP SCHEMA handled CASCADE;
DROP ROLE regress_jobq_runner, regress_jobq_operates, regress_jobq_group;
