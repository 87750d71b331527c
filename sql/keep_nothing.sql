-- Queues with keep_completed => '0': a completion deletes the job. Nothing of the job may remain, a rollback must restore all of
-- it, and attachments of a DBA must see the same changes as in any other queue.
SET client_min_messages = warning;
-- Jobs of other tests may lose their workers during this test, so only new attempts count.
SELECT coalesce(max(id), 0) AS before FROM jobq.jobs \gset
CREATE TEMP VIEW brief_attempts AS SELECT * FROM jobq.attempts WHERE job_id > :before;
CREATE FUNCTION pg_temp.shown() RETURNS text LANGUAGE sql AS $$
    SELECT format('%s pending, %s processing, %s completed; rows: %s; attempts: %s', pending, processing, completed,
                  (SELECT string_agg(n || ' ' || status, ', ' ORDER BY status) FROM (SELECT status, count(*) AS n FROM jobq.jobs WHERE queue = 'brief' GROUP BY 1) r),
                  (SELECT count(*) FROM brief_attempts))
    FROM jobq.queue_stats WHERE queue = 'brief' $$;
CREATE TABLE brief_held (n integer PRIMARY KEY, id bigint, lease bigint);
-- Functions that enqueue and claim jobs with these numbers, claim jobs that returned, and complete jobs in order.
CREATE FUNCTION hold_again() RETURNS bigint LANGUAGE sql AS $$
    WITH claimed AS (INSERT INTO brief_held SELECT payload::integer, id, lease FROM jobq_claim('brief', 'w', 100, heartbeat_timeout => '1 hour')
                     ON CONFLICT (n) DO UPDATE SET lease = excluded.lease RETURNING n)
    SELECT count(*) FROM claimed $$;
CREATE FUNCTION hold(first integer, last integer) RETURNS bigint LANGUAGE plpgsql AS $$
BEGIN
    PERFORM jobq_enqueue_many('brief', (SELECT array_agg(to_jsonb(n)) FROM generate_series(first, last) n));
    RETURN hold_again();
END $$;
CREATE FUNCTION finish(VARIADIC numbers integer[]) RETURNS SETOF boolean LANGUAGE plpgsql AS $$
BEGIN
    FOR i IN 1 .. cardinality(numbers) LOOP
        RETURN QUERY SELECT jobq_complete(h.id, h.lease, '"done"') FROM brief_held h WHERE h.n = numbers[i];
    END LOOP;
END $$;
-- If k is 1, the lease is wrong.
CREATE FUNCTION batch(numbers integer[], wrong integer[], OUT ids bigint[], OUT leases bigint[]) LANGUAGE sql AS $$
    SELECT array_agg(h.id ORDER BY ord), array_agg(h.lease + k ORDER BY ord)
    FROM unnest(numbers, wrong) WITH ORDINALITY AS u(n, k, ord) JOIN brief_held h USING (n) $$;
SELECT jobq_create_queue('brief', keep_completed => '0');
SELECT count(*) FROM jobq_tick() WHERE duty = 'reconcile';

-- One job, a second time, and with must_hold.
SELECT hold(1, 4);
SELECT finish(1, 1);
SELECT pg_temp.shown();
\set VERBOSITY sqlstate
SELECT jobq_complete(id, lease, must_hold => true) FROM brief_held WHERE n = 1;
\set VERBOSITY default
-- A wrong lease, and no lease in the transaction that claimed the job.
SELECT jobq_complete(id, lease + 1) FROM brief_held WHERE n = 2;
BEGIN;
SELECT jobq_enqueue('brief') > 0 AS enqueued;
SELECT jobq_complete(id) FROM jobq_claim('brief', 'w');
SELECT pg_temp.shown();
COMMIT;
SELECT pg_temp.shown();

-- After a rollback, also to a savepoint, the worker holds the job as before.
BEGIN;
SELECT finish(2);
SELECT pg_temp.shown();
ROLLBACK;
SELECT pg_temp.shown();
BEGIN;
SELECT finish(2);
SAVEPOINT a;
SELECT finish(3, 2);
SELECT pg_temp.shown();
ROLLBACK TO a;
SELECT finish(3, 4);
SELECT jobq_release(id, lease), jobq_heartbeat(id, lease), jobq_fail(id, lease) FROM brief_held WHERE n = 3;
COMMIT;
SELECT pg_temp.shown();

-- Many jobs in one call: a duplicate, a wrong lease, a finished job, an unknown job, and a job of a queue that keeps its jobs.
SELECT hold(5, 9);
SELECT jobq_enqueue('lasting', '100') AS lasting \gset
INSERT INTO brief_held SELECT 100, id, lease FROM jobq_claim('lasting', heartbeat_timeout => '1 hour');
SELECT h.n, c.completed
FROM batch('{9,5,6,5,100,7,1}', '{0,0,1,0,0,0,0}') b,
     jobq_complete_many(b.ids || -1::bigint, b.leases || 8::bigint, array_fill('"many"'::jsonb, ARRAY[8])) WITH ORDINALITY c(job_id, completed, ord)
     LEFT JOIN brief_held h ON h.id = c.job_id ORDER BY ord;
SELECT pg_temp.shown();
SELECT status, result FROM jobq.jobs WHERE id = :lasting;
-- The call also claims the next jobs.
SELECT jobq_enqueue('brief', '10') > 0, jobq_enqueue('brief', '11') > 0;
SELECT c.payload FROM batch('{6,8}', '{0,0}') b, jobq_complete_and_claim(b.ids, b.leases, queue => 'brief', worker_id => 'w', batch => 2, heartbeat_timeout => '1 hour') c;
SELECT pg_temp.shown();
SELECT jobq_complete(id, lease) FROM jobq.jobs WHERE queue = 'brief' AND status = 'processing';

-- The attempts of a job are deleted with it, whatever their outcomes are. Attempts of other jobs stay.
SELECT hold(12, 16);
SELECT jobq_fail(id, lease, 'e', '0') FROM brief_held WHERE n = 12;
SELECT jobq_release(id, lease) FROM brief_held WHERE n IN (13, 14);
SELECT jobq_snooze(id, '0', lease) FROM brief_held WHERE n = 15;
SELECT outcome, count(*) FROM brief_attempts GROUP BY 1 ORDER BY 1;
SELECT hold_again();
SELECT count(*) FILTER (WHERE completed) FROM batch('{12,13,16}', '{0,0,0}') b, jobq_complete_many(b.ids, b.leases);
SELECT pg_temp.shown();
BEGIN;
SELECT finish(14);
SELECT pg_temp.shown();
ROLLBACK;
SELECT pg_temp.shown();
SELECT finish(14);
SELECT pg_temp.shown();
-- The index on the attempts has been dropped.
DROP INDEX jobq.attempts_job_idx;
SELECT finish(15);
SELECT pg_temp.shown();
CREATE INDEX attempts_job_idx ON jobq.attempts (job_id, lease);
SELECT hold(17, 17);
SELECT jobq_release(id, lease) FROM brief_held WHERE n = 17;
SELECT hold_again();
SELECT finish(17);
SELECT pg_temp.shown();
-- A payload in TOAST.
SELECT jobq_enqueue('brief', (SELECT jsonb_agg(md5(n::text)) FROM generate_series(1, 2000) n), priority => -1) > 0 AS enqueued;
SELECT jobq_complete(id, lease) AS completed, jsonb_array_length(payload) FROM jobq_claim('brief');

-- Row triggers of a DBA see the completion with its result, and then the deletion. They run with the privileges of the owner.
CREATE TABLE brief_seen (seq serial, what text, old_status text, new_status text, result jsonb);
CREATE FUNCTION brief_note() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO public.brief_seen (what, old_status, new_status, result)
    VALUES (TG_WHEN || ' ' || TG_OP, OLD.status, CASE TG_OP WHEN 'UPDATE' THEN NEW.status END, CASE TG_OP WHEN 'UPDATE' THEN NEW.result ELSE OLD.result END);
    RETURN CASE TG_OP WHEN 'UPDATE' THEN NEW ELSE OLD END;
END $$;
CREATE FUNCTION seen() RETURNS SETOF text LANGUAGE sql AS $$
    WITH taken AS (DELETE FROM brief_seen RETURNING *) SELECT concat_ws(' ', what, old_status, new_status, result) FROM taken ORDER BY seq $$;
SELECT hold(21, 28);
CREATE TRIGGER dba_delete BEFORE DELETE ON jobq.jobs FOR EACH ROW EXECUTE FUNCTION brief_note();
SELECT finish(21);
SELECT seen();
DROP TRIGGER dba_delete ON jobq.jobs;
CREATE TRIGGER dba_update AFTER UPDATE OF status ON jobq.jobs FOR EACH ROW EXECUTE FUNCTION brief_note();
CREATE TRIGGER dba_delete AFTER DELETE ON jobq.jobs FOR EACH ROW EXECUTE FUNCTION brief_note();
SELECT finish(22);
SELECT seen();
BEGIN;
SELECT finish(23);
ROLLBACK;
SELECT seen();
ALTER TABLE jobq.jobs DISABLE TRIGGER dba_update, DISABLE TRIGGER dba_delete;
SELECT finish(23);
SELECT seen();
DROP TRIGGER dba_update ON jobq.jobs;
DROP TRIGGER dba_delete ON jobq.jobs;
SELECT pg_temp.shown();
-- A statement trigger for DELETE fires, because jobq then deletes with SQL.
CREATE FUNCTION brief_count() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO public.brief_seen (what) SELECT 'deleted at once: ' || count(*) FROM gone;
    RETURN NULL;
END $$;
CREATE TRIGGER dba_statement AFTER DELETE ON jobq.jobs REFERENCING OLD TABLE AS gone FOR EACH STATEMENT EXECUTE FUNCTION brief_count();
SELECT count(*) FILTER (WHERE completed) FROM batch('{27,28}', '{0,0}') b, jobq_complete_many(b.ids, b.leases);
SELECT seen();
DROP TRIGGER dba_statement ON jobq.jobs;
-- One trigger raises an error, and another trigger keeps the row.
CREATE FUNCTION brief_refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'not this one'; END $$;
CREATE TRIGGER dba_refuse BEFORE DELETE ON jobq.jobs FOR EACH ROW EXECUTE FUNCTION brief_refuse();
\set VERBOSITY sqlstate
SELECT finish(24);
\set VERBOSITY default
DROP TRIGGER dba_refuse ON jobq.jobs;
SELECT pg_temp.shown();
CREATE FUNCTION brief_keep() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN NULL; END $$;
CREATE TRIGGER dba_keep BEFORE DELETE ON jobq.jobs FOR EACH ROW EXECUTE FUNCTION brief_keep();
SELECT finish(24);
SELECT pg_temp.shown();
-- The background worker prunes the kept row when it can.
DROP TRIGGER dba_keep ON jobq.jobs;
DELETE FROM jobq.jobs WHERE queue = 'brief' AND status = 'completed';
-- Foreign keys with ON DELETE CASCADE and without.
CREATE TABLE brief_child (job bigint REFERENCES jobq.jobs ON DELETE CASCADE);
INSERT INTO brief_child SELECT id FROM brief_held WHERE n = 25;
SELECT finish(25);
SELECT count(*) AS children FROM brief_child;
DROP TABLE brief_child;
CREATE TABLE brief_child (job bigint REFERENCES jobq.jobs);
INSERT INTO brief_child SELECT id FROM brief_held WHERE n = 26;
\set VERBOSITY sqlstate
SELECT finish(26);
\set VERBOSITY default
DROP TABLE brief_child;
-- A constraint on completed jobs.
ALTER TABLE jobq.jobs ADD CONSTRAINT dba_result CHECK (status <> 'completed' OR result IS NOT NULL) NOT VALID;
\set VERBOSITY sqlstate
SELECT jobq_complete(id, lease) FROM brief_held WHERE n = 26;
\set VERBOSITY default
SELECT finish(26);
ALTER TABLE jobq.jobs DROP CONSTRAINT dba_result;
SELECT pg_temp.shown();
-- A publication of deletes without a replica identity.
SET client_min_messages = error;
CREATE PUBLICATION brief_deletions FOR TABLE jobq.jobs WITH (publish = 'delete');
ALTER TABLE jobq.jobs REPLICA IDENTITY NOTHING;
SELECT hold(60, 60);
\set VERBOSITY sqlstate
SELECT finish(60);
\set VERBOSITY default
DROP PUBLICATION brief_deletions;
ALTER TABLE jobq.jobs REPLICA IDENTITY DEFAULT;
SELECT finish(60);

-- The setting at the end of the job applies.
SELECT jobq_alter_queue('brief', keep_completed => '1 day');
SELECT hold(70, 70);
BEGIN;
SELECT jobq_alter_queue('brief', keep_completed => '0');
SELECT finish(70);
SELECT pg_temp.shown();
ROLLBACK;
SELECT finish(70);
SELECT count(*) FROM jobq.jobs WHERE queue = 'brief' AND payload = '70' AND status = 'completed';

SELECT jobq_drop_queue('brief', force => true), jobq_drop_queue('lasting', force => true);
DROP TABLE brief_held, brief_seen;
DROP FUNCTION hold, hold_again, finish, batch, brief_note, brief_count, brief_refuse, brief_keep, seen;
