-- Tables that reference jobq.jobs with a foreign key. The server fires their triggers with the privileges of the session that
-- deletes the job. The triggers run with the privileges of jobq's owner only if their functions are owned by a role that has
-- these privileges anyway.
SET client_min_messages = warning;
\set SHOW_CONTEXT never
-- The error message names the job.
SELECT setval('jobq.jobs_id_seq', 999999) \g /dev/null
CREATE ROLE regress_jobq_app;
CREATE ROLE regress_jobq_doer;
SELECT jobq_grant('regress_jobq_doer', 'worker'), jobq_grant('regress_jobq_doer', 'operator');
CREATE SCHEMA regress_jobq_app AUTHORIZATION regress_jobq_app;
CREATE TABLE regress_jobq_app.tenants (job_id bigint REFERENCES jobq.jobs ON DELETE CASCADE, tenant int);
ALTER TABLE regress_jobq_app.tenants OWNER TO regress_jobq_app;
CREATE TABLE fired (who name);
GRANT INSERT ON fired TO PUBLIC;
CREATE FUNCTION ours() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN INSERT INTO public.fired VALUES (current_user); RETURN NULL; END $$;
SET ROLE regress_jobq_app;
CREATE FUNCTION regress_jobq_app.theirs() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN INSERT INTO public.fired VALUES (current_user); RETURN NULL; END $$;
RESET ROLE;
SELECT jobq_create_queue('unkept', keep_completed => '0'), jobq_create_queue('brief', keep_completed => '1 h');
-- A worker completes a job of the queue that is referenced by the table.
CREATE FUNCTION complete(queue text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    job bigint;
    done boolean;
BEGIN
    job := jobq_enqueue(queue);
    INSERT INTO regress_jobq_app.tenants VALUES (job, 1);
    SET LOCAL ROLE regress_jobq_doer;
    SELECT jobq_complete(c.id, c.lease) INTO done FROM jobq_claim(queue) c;
    RESET ROLE;
    RETURN done;
EXCEPTION WHEN others THEN
    RETURN SQLSTATE || ': ' || SQLERRM;
END $$;
-- The table references jobs, but has no triggers yet.
SELECT complete('unkept');
SELECT count(*) AS tenants FROM regress_jobq_app.tenants;
SELECT complete('brief');
SELECT complete('brief');
SELECT min(id) AS job FROM jobq.jobs WHERE queue = 'brief' \gset

-- All ways to delete jobs, with FOR EACH ROW and FOR EACH STATEMENT triggers. The triggers are on the table that references
-- jobq.jobs, on a table that references this table, and on a partition.
SET ROLE regress_jobq_app;
CREATE TRIGGER theirs AFTER DELETE ON regress_jobq_app.tenants FOR EACH ROW EXECUTE FUNCTION regress_jobq_app.theirs();
RESET ROLE;
SELECT complete('unkept');
SET ROLE regress_jobq_doer;
\set VERBOSITY terse
SELECT jobq_delete(:job);
SELECT jobq_delete_jobs('brief', statuses => '{completed}', older_than => '0');
SELECT jobq_purge_queue('brief');
SELECT jobq_drop_queue('brief', force => true);
\set VERBOSITY default
SELECT jobq_delete(:job);
RESET ROLE;
-- A tick skips the prune while the background worker is pruning. This lock waits until the background worker has finished
-- pruning, and prevents it from starting again.
BEGIN;
SELECT count(*) FROM (SELECT FROM jobq.tick_state FOR UPDATE) t;
SET ROLE regress_jobq_doer;
SELECT done FROM jobq_tick(now() + interval '1 day') WHERE duty = 'prune';
COMMIT;
RESET ROLE;
ALTER TABLE regress_jobq_app.tenants DISABLE TRIGGER theirs;
SET ROLE regress_jobq_doer;
SELECT jobq_delete(:job);
RESET ROLE;
ALTER TABLE regress_jobq_app.tenants ENABLE TRIGGER theirs;
DROP TRIGGER theirs ON regress_jobq_app.tenants;
CREATE TRIGGER theirs AFTER DELETE ON regress_jobq_app.tenants FOR EACH STATEMENT EXECUTE FUNCTION regress_jobq_app.theirs();
SELECT complete('unkept');
DROP TRIGGER theirs ON regress_jobq_app.tenants;
ALTER TABLE regress_jobq_app.tenants ADD UNIQUE (job_id);
CREATE TABLE regress_jobq_app.behind (job_id bigint REFERENCES regress_jobq_app.tenants (job_id) ON DELETE SET NULL);
CREATE TRIGGER theirs AFTER UPDATE ON regress_jobq_app.behind FOR EACH ROW EXECUTE FUNCTION regress_jobq_app.theirs();
SELECT complete('unkept');
DROP TABLE regress_jobq_app.behind;
CREATE TABLE regress_jobq_app.parted (job_id bigint REFERENCES jobq.jobs ON DELETE CASCADE) PARTITION BY RANGE (job_id);
CREATE TABLE regress_jobq_app.part PARTITION OF regress_jobq_app.parted DEFAULT;
CREATE TRIGGER theirs AFTER DELETE ON regress_jobq_app.part FOR EACH ROW EXECUTE FUNCTION regress_jobq_app.theirs();
SELECT complete('unkept');
DROP TABLE regress_jobq_app.parted;
-- Rows that move to another partition fire INSERT triggers there.
CREATE TABLE regress_jobq_app.parted (job_id bigint REFERENCES jobq.jobs ON DELETE SET NULL) PARTITION BY LIST (job_id);
CREATE TABLE regress_jobq_app.part PARTITION OF regress_jobq_app.parted DEFAULT;
CREATE TABLE regress_jobq_app.jobless PARTITION OF regress_jobq_app.parted FOR VALUES IN (NULL);
ALTER TABLE regress_jobq_app.parted OWNER TO regress_jobq_app;
ALTER TABLE regress_jobq_app.part OWNER TO regress_jobq_app;
ALTER TABLE regress_jobq_app.jobless OWNER TO regress_jobq_app;
SELECT complete('unkept');
CREATE TRIGGER theirs AFTER INSERT ON regress_jobq_app.jobless FOR EACH ROW EXECUTE FUNCTION regress_jobq_app.theirs();
SELECT complete('unkept');
DROP TABLE regress_jobq_app.parted;
-- Triggers of tables that a rule also changes count, too.
CREATE TABLE regress_jobq_app.log (job_id bigint);
CREATE RULE also AS ON DELETE TO regress_jobq_app.tenants DO ALSO INSERT INTO regress_jobq_app.log VALUES (1);
SELECT complete('unkept');
DROP RULE also ON regress_jobq_app.tenants;
-- Deferred constraints call functions.
CREATE FUNCTION regress_jobq_app.tell(id bigint) RETURNS bigint LANGUAGE sql IMMUTABLE AS 'SELECT id';
ALTER TABLE regress_jobq_app.tenants ADD CONSTRAINT told EXCLUDE USING btree ((regress_jobq_app.tell(job_id)) WITH =) DEFERRABLE;
SELECT complete('unkept');
ALTER TABLE regress_jobq_app.tenants DROP CONSTRAINT told;
-- A child table without the foreign key does not count.
CREATE TABLE regress_jobq_app.child () INHERITS (regress_jobq_app.tenants);
CREATE TRIGGER theirs AFTER DELETE ON regress_jobq_app.child FOR EACH ROW EXECUTE FUNCTION regress_jobq_app.theirs();
SELECT complete('unkept');
DROP TABLE regress_jobq_app.child;
-- Tables that reference queues, limits, or dependencies.
CREATE TABLE regress_jobq_app.queues (queue text REFERENCES jobq.queue_settings ON DELETE CASCADE);
ALTER TABLE regress_jobq_app.queues OWNER TO regress_jobq_app;
INSERT INTO regress_jobq_app.queues VALUES ('unkept');
CREATE TRIGGER theirs AFTER DELETE ON regress_jobq_app.queues FOR EACH ROW EXECUTE FUNCTION regress_jobq_app.theirs();
SET ROLE regress_jobq_doer;
SELECT jobq_drop_queue('unkept', force => true);
RESET ROLE;
DROP TABLE regress_jobq_app.queues;
SELECT jobq_set_limit('unkept', 'k', max_running => 1);
CREATE TABLE regress_jobq_app.limits (queue text, key text, by_kind boolean, FOREIGN KEY (queue, key, by_kind) REFERENCES jobq.limit_settings ON DELETE CASCADE);
ALTER TABLE regress_jobq_app.limits OWNER TO regress_jobq_app;
CREATE TRIGGER theirs AFTER DELETE ON regress_jobq_app.limits FOR EACH ROW EXECUTE FUNCTION regress_jobq_app.theirs();
SET ROLE regress_jobq_doer;
SELECT jobq_set_limit('unkept', 'k');
RESET ROLE;
DROP TABLE regress_jobq_app.limits;
SELECT jobq_set_limit('unkept', 'k');
CREATE TABLE regress_jobq_app.edges (job_id bigint, kind text, target bigint, FOREIGN KEY (job_id, kind, target) REFERENCES jobq.edges ON DELETE CASCADE);
ALTER TABLE regress_jobq_app.edges OWNER TO regress_jobq_app;
CREATE TRIGGER theirs AFTER DELETE ON regress_jobq_app.edges FOR EACH ROW EXECUTE FUNCTION regress_jobq_app.theirs();
SELECT jobq_enqueue('unkept') AS first \gset
SELECT jobq_enqueue('unkept', depends_on => ARRAY[:first]) AS second \gset
INSERT INTO regress_jobq_app.edges SELECT job_id, kind, target FROM jobq.edges;
SET ROLE regress_jobq_doer;
\set VERBOSITY terse
SELECT jobq_delete(:second);
-- A manual DELETE of a job is rejected, too, because jobq deletes its dependencies.
RESET ROLE;
GRANT SELECT, DELETE ON jobq.jobs TO regress_jobq_doer;
SET ROLE regress_jobq_doer;
DELETE FROM jobq.jobs WHERE id = :second;
RESET ROLE;
REVOKE SELECT, DELETE ON jobq.jobs FROM regress_jobq_doer;
\set VERBOSITY default
DROP TABLE regress_jobq_app.edges;
SELECT jobq_delete(:second), jobq_delete(:first);
-- Any other table of the extension to which a DBA has added a key.
ALTER TABLE jobq.deleted_dependencies ADD UNIQUE (job_id);
CREATE TABLE regress_jobq_app.results (job_id bigint REFERENCES jobq.deleted_dependencies (job_id) ON DELETE CASCADE);
ALTER TABLE regress_jobq_app.results OWNER TO regress_jobq_app;
CREATE TRIGGER theirs AFTER DELETE ON regress_jobq_app.results FOR EACH ROW EXECUTE FUNCTION regress_jobq_app.theirs();
INSERT INTO jobq.deleted_dependencies (job_id) VALUES (0);
INSERT INTO regress_jobq_app.results VALUES (0);
-- The tick leaves these rows out and prunes the others.
SELECT complete('brief');
SELECT count(*) AS pruned_jobs FROM jobq.jobs WHERE status = 'completed' \gset
SELECT done = :pruned_jobs AS pruned_jobs FROM tick_alone(now() + interval '1 day') WHERE duty = 'prune';
SELECT count(*) AS finished, (SELECT count(*) FROM jobq.deleted_dependencies) AS results FROM jobq.jobs WHERE status = 'completed';
DROP TABLE regress_jobq_app.results;
ALTER TABLE jobq.kept_keys ADD UNIQUE (job_id);
CREATE TABLE regress_jobq_app.keys (job_id bigint REFERENCES jobq.kept_keys (job_id) ON DELETE SET NULL);
ALTER TABLE regress_jobq_app.keys OWNER TO regress_jobq_app;
CREATE TRIGGER theirs AFTER UPDATE ON regress_jobq_app.keys FOR EACH ROW EXECUTE FUNCTION regress_jobq_app.theirs();
-- The background worker does not see the row before the COMMIT, so it cannot delete it first.
BEGIN;
INSERT INTO jobq.kept_keys (queue, unique_key, job_id, kept_until) VALUES ('brief', 'k', 0, '2001-01-01');
SELECT done FROM jobq_tick() WHERE duty = 'prune';
SELECT count(*) AS kept, (SELECT count(*) FROM jobq.deleted_dependencies) AS results FROM jobq.kept_keys;
DROP TABLE regress_jobq_app.keys;
ALTER TABLE jobq.kept_keys DROP CONSTRAINT kept_keys_job_id_key;
SELECT done FROM jobq_tick() WHERE duty = 'prune';
SELECT count(*) AS kept FROM jobq.kept_keys;
COMMIT;
ALTER TABLE jobq.deleted_dependencies DROP CONSTRAINT deleted_dependencies_job_id_key;
DELETE FROM jobq.deleted_dependencies;
SELECT count(*) AS fired FROM fired WHERE who <> 'regress_jobq_app';
-- If the table belongs to another role, a trigger with a function of the owner is not trusted either, because that role chooses
-- its arguments.
CREATE TRIGGER ours AFTER DELETE ON regress_jobq_app.tenants FOR EACH ROW EXECUTE FUNCTION ours();
SELECT complete('unkept');
ALTER TABLE regress_jobq_app.tenants OWNER TO CURRENT_USER;
SELECT complete('unkept');
ALTER TABLE regress_jobq_app.tenants OWNER TO regress_jobq_app;
DROP TRIGGER ours ON regress_jobq_app.tenants;
-- A BEFORE trigger runs as the owner of its table.
CREATE FUNCTION before() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN INSERT INTO public.fired VALUES (current_user); RETURN OLD; END $$;
ALTER FUNCTION before() OWNER TO regress_jobq_app;
CREATE TRIGGER before BEFORE DELETE ON regress_jobq_app.tenants FOR EACH ROW EXECUTE FUNCTION before();
SELECT complete('unkept');
SELECT CASE who WHEN 'regress_jobq_app' THEN who ELSE 'the owner' END AS fired_as FROM fired;
-- A foreign key that only rejects the deletion changes no rows, so triggers of its table do not matter.
DROP TABLE regress_jobq_app.tenants;
CREATE TABLE regress_jobq_app.tenants (job_id bigint REFERENCES jobq.jobs, tenant int);
ALTER TABLE regress_jobq_app.tenants OWNER TO regress_jobq_app;
CREATE TRIGGER theirs AFTER DELETE ON regress_jobq_app.tenants FOR EACH ROW EXECUTE FUNCTION regress_jobq_app.theirs();
SELECT jobq_enqueue('brief') AS kept, jobq_enqueue('brief') AS free \gset
INSERT INTO regress_jobq_app.tenants VALUES (:kept, 1);
SET ROLE regress_jobq_doer;
\set VERBOSITY sqlstate
SELECT jobq_delete(:kept);
\set VERBOSITY default
SELECT jobq_delete(:free);
RESET ROLE;
DROP TABLE regress_jobq_app.tenants;
-- A TRUNCATE of jobq.jobs makes jobq delete rows of its other tables.
CREATE TABLE regress_jobq_app.edges (job_id bigint, kind text, target bigint, FOREIGN KEY (job_id, kind, target) REFERENCES jobq.edges ON DELETE CASCADE);
ALTER TABLE regress_jobq_app.edges OWNER TO regress_jobq_app;
CREATE TRIGGER theirs AFTER DELETE ON regress_jobq_app.edges FOR EACH ROW EXECUTE FUNCTION regress_jobq_app.theirs();
SELECT jobq_enqueue('brief', depends_on => ARRAY[:kept]) AS second \gset
INSERT INTO regress_jobq_app.edges SELECT job_id, kind, target FROM jobq.edges;
TRUNCATE fired;
GRANT TRUNCATE ON jobq.jobs TO regress_jobq_doer;
SET ROLE regress_jobq_doer;
\set VERBOSITY terse
TRUNCATE jobq.jobs;
\set VERBOSITY default
RESET ROLE;
REVOKE TRUNCATE ON jobq.jobs FROM regress_jobq_doer;
SELECT (SELECT count(*) FROM regress_jobq_app.edges) AS edges, (SELECT count(*) FROM fired) AS fired;
DROP TABLE regress_jobq_app.edges;
TRUNCATE jobq.jobs, jobq.edges, jobq.deleted_dependencies;

-- Tables that reference columns that jobq updates in a claim or in a move to the dead letter queue. The primary key never
-- changes.
SELECT jobq_create_queue('dead'), jobq_create_queue('mortal', dead_letter_queue => 'dead');
SELECT jobq_enqueue('mortal') AS job \gset
ALTER TABLE jobq.jobs ADD UNIQUE (id, queue);
CREATE TABLE regress_jobq_app.places (job_id bigint REFERENCES jobq.jobs ON UPDATE CASCADE, queue text,
    FOREIGN KEY (job_id, queue) REFERENCES jobq.jobs (id, queue));
ALTER TABLE regress_jobq_app.places OWNER TO regress_jobq_app;
INSERT INTO regress_jobq_app.places VALUES (:job, 'mortal');
CREATE TRIGGER theirs AFTER UPDATE ON regress_jobq_app.places FOR EACH ROW EXECUTE FUNCTION regress_jobq_app.theirs();
TRUNCATE fired;
SET ROLE regress_jobq_doer;
SELECT lease FROM jobq_claim('mortal') \gset
RESET ROLE;
ALTER TABLE regress_jobq_app.places DROP CONSTRAINT places_job_id_queue_fkey,
    ADD FOREIGN KEY (job_id, queue) REFERENCES jobq.jobs (id, queue) ON UPDATE CASCADE;
SET ROLE regress_jobq_doer;
SELECT jobq_fail(:job, :lease, 'no', retry => false);
\set VERBOSITY terse
SELECT jobq_heartbeat(:job, :lease);
SELECT jobq_cancel(:job);
\set VERBOSITY default
RESET ROLE;
SELECT jobq_enqueue('mortal') IS NOT NULL AS enqueued;
SELECT count(*) AS fired FROM fired;
-- The triggers fire if the table belongs to the owner.
ALTER TABLE regress_jobq_app.places OWNER TO CURRENT_USER;
DROP TRIGGER theirs ON regress_jobq_app.places;
CREATE TRIGGER ours AFTER UPDATE ON regress_jobq_app.places FOR EACH ROW EXECUTE FUNCTION ours();
SET ROLE regress_jobq_doer;
SELECT jobq_fail(:job, :lease, 'no', retry => false);
RESET ROLE;
SELECT queue, (SELECT count(*) FROM fired) AS fired FROM regress_jobq_app.places;
-- They also fire if jobq changes the row directly, without SQL.
DROP TABLE regress_jobq_app.places;
ALTER TABLE jobq.jobs DROP CONSTRAINT jobs_id_queue_key, ADD UNIQUE (id, status);
CREATE TABLE regress_jobq_app.states (job_id bigint, status jobq.job_status,
    FOREIGN KEY (job_id, status) REFERENCES jobq.jobs (id, status) ON UPDATE CASCADE);
INSERT INTO regress_jobq_app.states SELECT id, status FROM jobq.jobs WHERE queue = 'mortal';
CREATE TRIGGER ours AFTER UPDATE ON regress_jobq_app.states FOR EACH ROW EXECUTE FUNCTION ours();
TRUNCATE fired;
SET ROLE regress_jobq_doer;
SELECT attempt FROM jobq_claim('mortal');
RESET ROLE;
SELECT status, (SELECT count(*) FROM fired) AS fired FROM regress_jobq_app.states;
SELECT jobq_enqueue('mortal') IS NOT NULL AS enqueued;
ALTER TABLE regress_jobq_app.states OWNER TO regress_jobq_app;
SET ROLE regress_jobq_doer;
\set VERBOSITY terse
SELECT attempt FROM jobq_claim('mortal');
\set VERBOSITY default
RESET ROLE;
DROP TABLE regress_jobq_app.states;
ALTER TABLE jobq.jobs DROP CONSTRAINT jobs_id_status_key;
SELECT jobq_drop_queue('mortal', force => true), jobq_drop_queue('dead', force => true);

-- Deferred triggers of a session fire as they would at its commit, whatever function calls the tick.
CREATE TABLE regress_jobq_app.own (n int);
GRANT INSERT ON regress_jobq_app.own TO regress_jobq_app;
ALTER TABLE regress_jobq_app.own OWNER TO regress_jobq_app;
SET ROLE regress_jobq_app;
CREATE CONSTRAINT TRIGGER later AFTER INSERT ON regress_jobq_app.own INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION regress_jobq_app.theirs();
RESET ROLE;
CREATE FUNCTION regress_jobq_tick() RETURNS bigint LANGUAGE sql SECURITY DEFINER AS 'SELECT count(*) FROM jobq_tick()';
TRUNCATE fired;
SET ROLE regress_jobq_app;
BEGIN;
INSERT INTO regress_jobq_app.own VALUES (1);
SELECT regress_jobq_tick() > 0 AS ticked;
COMMIT;
RESET ROLE;
SELECT who AS fired_as FROM fired;
DROP FUNCTION regress_jobq_tick;
DROP TABLE regress_jobq_app.own, regress_jobq_app.log;

DROP TABLE fired;
DROP FUNCTION regress_jobq_app.theirs, regress_jobq_app.tell, ours, before, complete;
SELECT count(jobq_drop_queue(q, force => true)) FROM unnest('{unkept,brief}'::text[]) q;
DROP SCHEMA regress_jobq_app;
DROP OWNED BY regress_jobq_doer, regress_jobq_app;
DROP ROLE regress_jobq_doer, regress_jobq_app;
DELETE FROM jobq.jobs;
