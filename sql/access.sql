-- jobq accesses the rows of jobq.jobs directly, or with SQL if the table has an attachment that only SQL honors. For each
-- attachment, jobq_access() names it, and jobs run as usual.
SET client_min_messages = warning;
\set SHOW_CONTEXT never
CREATE FUNCTION why() RETURNS text LANGUAGE sql SET jobq.access = auto AS $$SELECT way || ': ' || reason FROM jobq_access()$$;
-- Runs five jobs from enqueue to completion, and counts the jobs that pass each stage.
CREATE FUNCTION live(OUT enqueued int, OUT claimed int, OUT held int, OUT completed int) LANGUAGE plpgsql AS $$
DECLARE
    ids bigint[];
    leases bigint[];
BEGIN
    PERFORM jobq_enqueue('access', '1'), jobq_enqueue('access', '2', unique_key => 'u');
    PERFORM jobq_enqueue_many('access', ARRAY[jsonb '3', '4'], kind => 'other');
    PERFORM jobq_enqueue_jobs('[{"queue": "access", "payload": 5, "metadata": {"by": "jobs"}}]');
    SELECT count(*) INTO enqueued FROM jobq.jobs WHERE queue = 'access' AND status = 'pending';
    SELECT count(*), array_agg(id), array_agg(lease) INTO claimed, ids, leases FROM jobq_claim('access', 'w', batch => 10);
    SELECT count(*) INTO held FROM jobq_heartbeat_many(ids, leases) h WHERE h.state = 'held';
    SELECT count(*) INTO completed FROM jobq_complete_many(ids, leases) c WHERE c.completed;
END $$;
SELECT why();
SELECT * FROM live();

-- Attachments that prevent direct access. The second statement removes the attachment.
CREATE FUNCTION with_it(change text, undo text) RETURNS TABLE (attached text, enqueued int, claimed int, held int, completed int) LANGUAGE plpgsql AS $$
BEGIN
    EXECUTE change;
    SELECT why() INTO attached;
    SELECT l.* INTO enqueued, claimed, held, completed FROM live() l;
    EXECUTE undo;
    RETURN NEXT;
END $$;
CREATE FUNCTION nothing() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN NULL; END $$;
SELECT * FROM with_it('CREATE TRIGGER access_row AFTER UPDATE ON jobq.jobs FOR EACH ROW EXECUTE FUNCTION nothing()', 'DROP TRIGGER access_row ON jobq.jobs');
SELECT * FROM with_it('CREATE TRIGGER access_statement BEFORE INSERT ON jobq.jobs EXECUTE FUNCTION nothing()', 'DROP TRIGGER access_statement ON jobq.jobs');
-- jobq's own triggers are recognized by their function, not by their name.
SELECT * FROM with_it('CREATE TRIGGER tell_jobs AFTER DELETE ON jobq.jobs EXECUTE FUNCTION nothing()', 'DROP TRIGGER tell_jobs ON jobq.jobs');
SELECT * FROM with_it('ALTER TRIGGER fill_job ON jobq.jobs RENAME TO access_fill', 'ALTER TRIGGER access_fill ON jobq.jobs RENAME TO fill_job');
SELECT * FROM with_it('CREATE TABLE access_followers (job_id bigint CONSTRAINT access_follows REFERENCES jobq.jobs)', 'DROP TABLE access_followers');
SELECT * FROM with_it('ALTER TABLE jobq.jobs ENABLE ROW LEVEL SECURITY', 'ALTER TABLE jobq.jobs DISABLE ROW LEVEL SECURITY');
SELECT * FROM with_it('ALTER TABLE jobq.jobs ADD CONSTRAINT access_check CHECK (priority < 100)', 'ALTER TABLE jobq.jobs DROP CONSTRAINT access_check');
SELECT * FROM with_it('ALTER TABLE jobq.jobs ADD COLUMN access_twice int GENERATED ALWAYS AS (priority * 2) STORED', 'ALTER TABLE jobq.jobs DROP COLUMN access_twice');
SELECT * FROM with_it('ALTER TABLE jobq.jobs ADD COLUMN access_default int DEFAULT 7', 'ALTER TABLE jobq.jobs DROP COLUMN access_default');
SELECT * FROM with_it('ALTER TABLE jobq.jobs ADD CONSTRAINT access_apart EXCLUDE (id WITH =)', 'ALTER TABLE jobq.jobs DROP CONSTRAINT access_apart');
SELECT * FROM with_it('ALTER INDEX jobq.jobs_ready_idx RENAME TO access_ready_idx', 'ALTER INDEX jobq.access_ready_idx RENAME TO jobs_ready_idx');
-- Rules also prevent direct access. A unique key does not work with some rules: see attached_triggers.
BEGIN;
CREATE RULE access_rule AS ON DELETE TO jobq.jobs DO ALSO SELECT 1;
SELECT why();
ROLLBACK;
SELECT why();
-- Attachments that do not prevent direct access.
SELECT * FROM with_it('ALTER TABLE jobq.jobs ADD COLUMN access_note text', 'ALTER TABLE jobq.jobs DROP COLUMN access_note');
SELECT * FROM with_it('CREATE UNIQUE INDEX access_idx ON jobq.jobs ((payload ->> ''x''))', 'DROP INDEX jobq.access_idx');

-- The setting jobq.access: sql always uses SQL; direct uses direct access wherever possible.
SET jobq.access = sql;
SELECT * FROM jobq_access();
SET jobq.access = direct;
SELECT * FROM jobq_access();
CREATE TRIGGER access_row AFTER UPDATE ON jobq.jobs FOR EACH ROW EXECUTE FUNCTION nothing();
SELECT * FROM jobq_access();
SELECT jobq_enqueue('access');
SELECT jobq_claim('access', 'w');
DROP TRIGGER access_row ON jobq.jobs;
SELECT * FROM live();
SET jobq.access = nowhere;
RESET jobq.access;

-- Statement triggers fire, and their transition tables contain the rows.
CREATE TABLE access_seen (what text, rows int);
CREATE FUNCTION count_new() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO public.access_seen SELECT TG_OP || coalesce(' to ' || min(status::text), ''), count(*) FROM new_jobs;
    RETURN NULL;
END $$;
CREATE TRIGGER count_inserted AFTER INSERT ON jobq.jobs REFERENCING NEW TABLE AS new_jobs EXECUTE FUNCTION count_new();
CREATE TRIGGER count_updated AFTER UPDATE ON jobq.jobs REFERENCING NEW TABLE AS new_jobs EXECUTE FUNCTION count_new();
SELECT * FROM live();
SELECT what, sum(rows) FROM access_seen GROUP BY 1 ORDER BY 1;
-- The jobs of one call are inserted by one statement.
TRUNCATE access_seen;
SELECT count(*) FROM jobq_enqueue_many('access', ARRAY[jsonb '1', '2', '3']);
SELECT what, rows FROM access_seen;
DROP TRIGGER count_inserted ON jobq.jobs;
DROP TRIGGER count_updated ON jobq.jobs;
SELECT count(jobq_complete(id, lease)) FROM jobq_claim('access', 'w', batch => 10);

-- Row security that also applies to the owner.
CREATE ROLE regress_jobq_access;
SELECT pg_get_userbyid(relowner) AS owner FROM pg_class WHERE oid = 'jobq.jobs'::regclass \gset
GRANT ALL ON SCHEMA jobq TO regress_jobq_access;
GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA jobq TO regress_jobq_access;
ALTER TABLE jobq.jobs OWNER TO regress_jobq_access;
SELECT jobq_enqueue('access', '"shown"') > 0 AS enqueued, jobq_enqueue('access', '"hidden"') > 0 AS enqueued;
ALTER TABLE jobq.jobs ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
CREATE POLICY access_shown ON jobq.jobs USING (payload <> '"hidden"');
SELECT why();
SELECT payload FROM jobq_claim('access', 'w', batch => 10);
DROP POLICY access_shown ON jobq.jobs;
ALTER TABLE jobq.jobs DISABLE ROW LEVEL SECURITY, NO FORCE ROW LEVEL SECURITY;
SELECT payload FROM jobq_claim('access', 'w', batch => 10);
ALTER TABLE jobq.jobs OWNER TO :"owner";
REVOKE ALL ON SCHEMA jobq FROM regress_jobq_access;
REVOKE ALL ON ALL FUNCTIONS IN SCHEMA jobq FROM regress_jobq_access;
DROP ROLE regress_jobq_access;
SELECT count(jobq_complete(id, lease)) FROM jobq.jobs WHERE queue = 'access' AND status = 'processing';

SELECT jobq_drop_queue('access', force => true);
DROP TABLE access_seen;

DROP FUNCTION why, live, with_it, nothing, count_new;
DELETE FROM jobq.jobs;
