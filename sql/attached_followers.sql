-- Tables that follow jobq.jobs by a foreign key: their triggers, which the server fires with the rights of whoever deletes
-- the job, get those of jobq's owner only if their functions come from somebody who has them anyway.
SET client_min_messages = warning;
\set SHOW_CONTEXT never
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
-- A job of the queue, which the table follows, completed by a worker.
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
-- Whether a table follows at all, before there are triggers.
SELECT complete('unkept');
SELECT count(*) AS tenants FROM regress_jobq_app.tenants;
SELECT complete('brief');
SELECT complete('brief');
SELECT min(id) AS job FROM jobq.jobs WHERE queue = 'brief' \gset

-- Every way to delete, by ROW and by STATEMENT, of a table behind that one, and of a partition.
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
SELECT done FROM jobq_tick(now() + interval '1 day') WHERE duty = 'prune';
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
-- A trigger BEFORE the change runs as the owner of its table; a function of the owner's is trusted.
CREATE TRIGGER ours AFTER DELETE ON regress_jobq_app.tenants FOR EACH ROW EXECUTE FUNCTION ours();
SELECT complete('unkept');
DROP TRIGGER ours ON regress_jobq_app.tenants;
CREATE FUNCTION before() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN INSERT INTO public.fired VALUES (current_user); RETURN OLD; END $$;
ALTER FUNCTION before() OWNER TO regress_jobq_app;
CREATE TRIGGER before BEFORE DELETE ON regress_jobq_app.tenants FOR EACH ROW EXECUTE FUNCTION before();
SELECT complete('unkept');
SELECT CASE who WHEN 'regress_jobq_app' THEN who ELSE 'the owner' END AS fired_as FROM fired;
-- Where the key does nothing there is nothing to fear.
DROP TABLE regress_jobq_app.tenants;
CREATE TABLE regress_jobq_app.tenants (job_id bigint REFERENCES jobq.jobs, tenant int);
CREATE TRIGGER theirs AFTER DELETE ON regress_jobq_app.tenants FOR EACH ROW EXECUTE FUNCTION regress_jobq_app.theirs();
SET ROLE regress_jobq_doer;
SELECT jobq_purge_queue('brief');
RESET ROLE;

DROP TABLE regress_jobq_app.tenants, fired;
DROP FUNCTION regress_jobq_app.theirs, ours, before, complete;
SELECT count(jobq_drop_queue(q, force => true)) FROM unnest('{unkept,brief}'::text[]) q;
DROP SCHEMA regress_jobq_app;
DROP OWNED BY regress_jobq_doer, regress_jobq_app;
DROP ROLE regress_jobq_doer, regress_jobq_app;
DELETE FROM jobq.jobs;
