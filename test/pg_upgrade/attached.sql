-- A second database: the functions are in a separate schema, and a DBA has attached objects to jobq.jobs.
\set ON_ERROR_STOP 1
\o /dev/null
CREATE SCHEMA queue;
CREATE EXTENSION jobq SCHEMA queue;
SET search_path = queue, public;
CREATE TABLE notes (job_id bigint PRIMARY KEY REFERENCES jobq.jobs ON DELETE CASCADE, note text NOT NULL);
CREATE TABLE archive (job_id bigint, status text);
CREATE FUNCTION archive() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO queue.archive VALUES (NEW.id, NEW.status::text);
    RETURN NULL;
END $$;
CREATE INDEX jobs_tenant_idx ON jobq.jobs ((metadata ->> 'tenant'));
ALTER TABLE jobq.jobs ADD COLUMN tenant text;
ALTER TABLE jobq.jobs SET (fillfactor = 50);
CREATE TRIGGER archive AFTER UPDATE OF status ON jobq.jobs FOR EACH ROW EXECUTE FUNCTION archive();
SELECT jobq_enqueue('attached', metadata => '{"tenant": "acme"}') FROM generate_series(1, 5);
INSERT INTO notes SELECT id, 'note' FROM jobq.jobs;
UPDATE jobq.jobs SET tenant = metadata ->> 'tenant';
SELECT count(*) FROM jobq_claim('attached', 'alive', heartbeat_timeout => '1 h');
