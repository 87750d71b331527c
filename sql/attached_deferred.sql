-- A deferred constraint on jobq.jobs or on a table that references jobq.jobs does not stop the duties. They skip the job that
-- violates the constraint.
SET client_min_messages = warning;
\set SHOW_CONTEXT never
CREATE TABLE referring (job_id bigint REFERENCES jobq.jobs DEFERRABLE INITIALLY DEFERRED);
CREATE FUNCTION refuse_bad() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NEW.payload = '"bad"' THEN RAISE 'bad jobs stay as they are'; END IF;
    RETURN NULL;
END $$;
SELECT count(jobq_enqueue('duties', to_jsonb(p), run_at => now() + interval '1 hour')) FROM unnest('{good,bad,good}'::text[]) p;
SELECT count(jobq_enqueue('done', to_jsonb(n))) FROM generate_series(1, 4) n;
SELECT count(jobq_complete(id, lease)) FROM jobq_claim('done', 'w', batch => 4);
INSERT INTO referring SELECT id FROM jobq.jobs WHERE queue = 'done' AND payload = '3';
CREATE CONSTRAINT TRIGGER refuse_bad AFTER UPDATE ON jobq.jobs DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION refuse_bad();
SET client_min_messages = error;
SELECT bool_or(done = 2) FILTER (WHERE duty = 'promote') AS promoted, bool_or(done >= 3) FILTER (WHERE duty = 'prune') AS pruned
FROM tick_alone(now() + interval '2 days');
SET client_min_messages = warning;
SELECT payload, status FROM jobq.jobs WHERE queue IN ('duties', 'done') ORDER BY id;
-- A function that a worker or an operator calls does not check the constraint before the end of the transaction.
BEGIN;
UPDATE jobq.jobs SET priority = 1 WHERE payload = '"bad"';
SELECT count(*) AS claimed FROM jobq_claim('duties', 'w', batch => 2);
\set VERBOSITY terse
COMMIT;
DROP TRIGGER refuse_bad ON jobq.jobs;

-- When jobq_tick() checks constraints, deferred triggers of the caller's transaction fire with the privileges of the caller, not
-- with the privileges of the owner.
CREATE ROLE regress_jobq_ticker;
SELECT jobq_grant('regress_jobq_ticker', 'operator');
SET ROLE regress_jobq_ticker;
CREATE TEMP TABLE waiting (n int);
CREATE FUNCTION pg_temp.tell_user() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE WARNING 'fired as %, % by SET ROLE', current_user, current_setting('role');
    RETURN NULL;
END $$;
CREATE CONSTRAINT TRIGGER tell_user AFTER INSERT ON waiting DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION pg_temp.tell_user();
BEGIN;
INSERT INTO waiting VALUES (1);
SELECT count(*) AS duties FROM jobq_tick();
COMMIT;
RESET ROLE;
DROP TABLE waiting;
DROP OWNED BY regress_jobq_ticker;
DROP ROLE regress_jobq_ticker;

DROP TABLE referring;
DROP FUNCTION refuse_bad;
SELECT count(jobq_drop_queue(q, force => true)) FROM unnest('{duties,done}'::text[]) q;
DELETE FROM jobq.jobs;
