-- Row triggers, constraints, and indexes that a DBA attaches to jobq.jobs are honored, however jobq accesses the rows.
SET client_min_messages = warning;
\set SHOW_CONTEXT never

-- Indexes: on an expression, partial with its own condition, unique.
CREATE INDEX dba_payload_idx ON jobq.jobs ((payload ->> 'customer'));
CREATE INDEX dba_failing_idx ON jobq.jobs (queue) WHERE attempts > 1 AND status = 'processing';
CREATE UNIQUE INDEX dba_once_idx ON jobq.jobs ((metadata ->> 'once'));
SELECT count(*) FROM jobq_enqueue_many('dba', ARRAY[jsonb '{"customer": "a"}', '{"customer": "b"}']);
SELECT jobq_enqueue('dba', '{"customer": "c"}', metadata => '{"once": "x"}') > 0 AS enqueued;
SELECT jobq_enqueue('dba', metadata => '{"once": "x"}');
SELECT count(*) AS claimed FROM jobq_claim('dba', 'w', batch => 3) c, jobq_release(c.id, c.lease) r WHERE r;
SELECT count(*) AS claimed_again FROM jobq_claim('dba', 'w', batch => 3);
SET enable_seqscan = off;
SET enable_bitmapscan = off;
SELECT payload FROM jobq.jobs WHERE payload ->> 'customer' = 'b';
SELECT count(*) FROM jobq.jobs WHERE queue = 'dba' AND attempts > 1 AND status = 'processing';
RESET enable_seqscan;
RESET enable_bitmapscan;
SELECT count(*) AS completed FROM jobq.jobs j, jobq_complete(j.id, j.lease) c WHERE j.queue = 'dba' AND j.status = 'processing' AND c;
DROP INDEX jobq.dba_payload_idx, jobq.dba_failing_idx, jobq.dba_once_idx;
-- A unique index that includes a job when it is claimed: only one job of a queue runs at a time. A unique key that does not
-- change stays unique.
CREATE UNIQUE INDEX dba_single_idx ON jobq.jobs (queue) WHERE status = 'processing';
CREATE UNIQUE INDEX dba_payload_idx ON jobq.jobs (queue, payload) WHERE payload <> '{}';
SELECT jobq_enqueue('dba single', '1') > 0 AS enqueued, jobq_enqueue('dba single', '2') > 0 AS enqueued;
SELECT payload FROM jobq_claim('dba single', 'w', batch => 1);
\set VERBOSITY sqlstate
SELECT payload FROM jobq_claim('dba single', 'w', batch => 1);
SELECT jobq_enqueue('dba single', '1');
\set VERBOSITY default
SELECT jobq_complete(id, lease) FROM jobq.jobs WHERE queue = 'dba single' AND status = 'processing';
SELECT payload FROM jobq_claim('dba single', 'w', batch => 1);
SELECT jobq_complete(id, lease) FROM jobq.jobs WHERE queue = 'dba single' AND status = 'processing';
DROP INDEX jobq.dba_single_idx, jobq.dba_payload_idx;

-- Row triggers run with the privileges of the owner. This includes triggers with UPDATE OF.
CREATE TABLE dba_seen (what text, id bigint, who text);
CREATE FUNCTION dba_note() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO public.dba_seen VALUES (TG_NAME, NEW.id, CASE WHEN current_user = session_user THEN 'session' ELSE 'owner' END);
    RETURN NEW;
END $$;
CREATE TRIGGER dba_insert AFTER INSERT ON jobq.jobs FOR EACH ROW EXECUTE FUNCTION dba_note();
CREATE TRIGGER dba_status AFTER UPDATE OF status ON jobq.jobs FOR EACH ROW EXECUTE FUNCTION dba_note();
CREATE TRIGGER dba_beat AFTER UPDATE OF last_heartbeat ON jobq.jobs FOR EACH ROW EXECUTE FUNCTION dba_note();
CREATE ROLE regress_jobq_dba_worker;
SELECT jobq_grant('regress_jobq_dba_worker', 'worker'), jobq_grant('regress_jobq_dba_worker', 'producer');
SET SESSION AUTHORIZATION regress_jobq_dba_worker;
SELECT jobq_enqueue('dba') AS id \gset
SELECT lease FROM jobq_claim('dba', 'w') \gset
SELECT jobq_heartbeat(:id, :lease);
SELECT jobq_complete(:id, :lease);
RESET SESSION AUTHORIZATION;
SELECT what, who, count(*) FROM dba_seen GROUP BY 1, 2 ORDER BY 1, 2;
DROP TRIGGER dba_insert ON jobq.jobs;
DROP TRIGGER dba_status ON jobq.jobs;
DROP TRIGGER dba_beat ON jobq.jobs;

-- A trigger changes the inserted row. The job is found in its actual queue.
CREATE FUNCTION dba_first() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN NEW.priority := -7; RETURN NEW; END $$;
CREATE TRIGGER dba_first BEFORE INSERT ON jobq.jobs FOR EACH ROW EXECUTE FUNCTION dba_first();
SELECT count(*) AS empty FROM jobq_claim('dba', 'w');
SELECT jobq_enqueue('dba', '"moved"', priority => 5) > 0 AS enqueued;
SELECT payload, priority FROM jobq_claim('dba', 'w');
DROP TRIGGER dba_first ON jobq.jobs;

-- A trigger reads the table. It sees the preceding elements of jobq_enqueue_jobs.
CREATE FUNCTION dba_before() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    NEW.metadata := to_jsonb((SELECT count(*) FROM jobq.jobs WHERE queue = NEW.queue));
    RETURN NEW;
END $$;
CREATE TRIGGER dba_before BEFORE INSERT ON jobq.jobs FOR EACH ROW EXECUTE FUNCTION dba_before();
SELECT count(*) FROM jobq_enqueue_jobs('[{"queue": "dba each"}, {"queue": "dba each", "kind": "other"}, {"queue": "dba each"}]');
SELECT kind, metadata AS seen_before FROM jobq.jobs WHERE queue = 'dba each' ORDER BY id;
DROP TRIGGER dba_before ON jobq.jobs;
SELECT jobq_drop_queue('dba each', force => true);

-- A trigger suppresses the row, which is an error, so that no job is lost.
CREATE FUNCTION dba_nothing() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN NULL; END $$;
CREATE TRIGGER dba_nothing BEFORE INSERT OR UPDATE ON jobq.jobs FOR EACH ROW EXECUTE FUNCTION dba_nothing();
\set VERBOSITY sqlstate
SELECT jobq_enqueue('dba');
DROP TRIGGER dba_nothing ON jobq.jobs;
-- A constraint of the DBA.
ALTER TABLE jobq.jobs ADD CONSTRAINT dba_no_secrets CHECK (NOT payload ? 'password') NOT VALID;
SELECT jobq_enqueue('dba', '{"password": "x"}');
SELECT count(*) FROM jobq_enqueue_many('dba', ARRAY[jsonb '1', '{"password": "x"}']);
ALTER TABLE jobq.jobs DROP CONSTRAINT dba_no_secrets;
-- A deferred constraint and an exclusion constraint are honored.
ALTER TABLE jobq.jobs ADD CONSTRAINT dba_later UNIQUE (id) DEFERRABLE;
SELECT jobq_enqueue('dba') > 0 AS enqueued;
SELECT count(*) AS claimed FROM jobq_claim('dba', 'w');
ALTER TABLE jobq.jobs DROP CONSTRAINT dba_later;
ALTER TABLE jobq.jobs ADD CONSTRAINT dba_exclusion EXCLUDE (kind WITH =) WHERE (kind = 'alone');
SELECT jobq_enqueue('dba', kind => 'alone') > 0 AS enqueued;
SELECT jobq_enqueue('dba', kind => 'alone');
SELECT count(jobq_complete(id, lease)) AS completed FROM jobq_claim('dba', 'w', kinds => '{alone}');
ALTER TABLE jobq.jobs DROP CONSTRAINT dba_exclusion;
\set VERBOSITY default
SELECT count(*) AS left_over FROM jobq.jobs WHERE queue = 'dba' AND status = 'pending';

SELECT jobq_drop_queue('dba', force => true), jobq_drop_queue('dba single', force => true);
DROP FUNCTION dba_note, dba_first, dba_before, dba_nothing;
DROP TABLE dba_seen;
SELECT jobq_revoke('regress_jobq_dba_worker', 'worker'), jobq_revoke('regress_jobq_dba_worker', 'producer');
DROP ROLE regress_jobq_dba_worker;
