-- Triggers with transition tables, triggers that change IDs, rules, and functions that change jobs during one of jobq's own
-- changes.
SET client_min_messages = warning;
\set SHOW_CONTEXT never

-- A row trigger with transition tables sees the row.
CREATE TABLE seen (seq serial, what text, id bigint, old_rows int, new_rows int, changed boolean);
CREATE FUNCTION note_inserted() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO public.seen (what, id, new_rows) VALUES (TG_OP, NEW.id, (SELECT count(*) FROM new_jobs n WHERE n.id = NEW.id));
    RETURN NULL;
END $$;
CREATE FUNCTION note_updated() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO public.seen (what, id, old_rows, new_rows, changed)
    SELECT TG_OP || ' ' || NEW.status, NEW.id, (SELECT count(*) FROM old_jobs o WHERE o.id = NEW.id), count(*), bool_and(n.status = NEW.status)
    FROM new_jobs n WHERE n.id = NEW.id;
    RETURN NULL;
END $$;
CREATE TRIGGER note_inserted AFTER INSERT ON jobq.jobs REFERENCING NEW TABLE AS new_jobs FOR EACH ROW EXECUTE FUNCTION note_inserted();
CREATE TRIGGER note_updated AFTER UPDATE ON jobq.jobs REFERENCING OLD TABLE AS old_jobs NEW TABLE AS new_jobs FOR EACH ROW EXECUTE FUNCTION note_updated();
SELECT jobq_enqueue('seen') > 0 AS enqueued, jobq_enqueue('seen', unique_key => 'u') > 0 AS enqueued;
SELECT count(*) FROM jobq_enqueue_many('seen', ARRAY[jsonb '1', '2']);
INSERT INTO jobq.jobs (queue) VALUES ('seen');
SELECT what, count(DISTINCT id), min(new_rows), max(new_rows) FROM seen WHERE what = 'INSERT' GROUP BY 1;
CREATE TABLE held AS SELECT row_number() OVER (ORDER BY id) AS n, id, lease FROM jobq_claim('seen', 'w', batch => 4);
SELECT jobq_complete(id, lease) FROM held WHERE n = 1;
SELECT jobq_fail(id, lease, 'e') FROM held WHERE n = 2;
SELECT what, count(DISTINCT id), min(old_rows), max(new_rows), bool_and(changed) FROM seen WHERE what <> 'INSERT' GROUP BY 1 ORDER BY 1;
DROP TRIGGER note_inserted ON jobq.jobs;
DROP TRIGGER note_updated ON jobq.jobs;
SELECT jobq_drop_queue('seen', force => true);
DROP TABLE held;

-- If a trigger changes the ID of a new job, jobq returns the new ID. The ID of an existing job cannot be changed.
CREATE FUNCTION other_id() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN NEW.id := NEW.id + 1000000; RETURN NEW; END $$;
CREATE TRIGGER other_id BEFORE INSERT ON jobq.jobs FOR EACH ROW EXECUTE FUNCTION other_id();
SELECT jobq_enqueue('ids') > 1000000 AS as_inserted;
SELECT min(job_id) > 1000000 AS as_inserted, count(*) FROM jobq_enqueue_many('ids', ARRAY[jsonb '1', '2', '3', '4', '5']);
\set VERBOSITY sqlstate
SELECT jobq_enqueue('ids', unique_key => 'u');
\set VERBOSITY default
DROP TRIGGER other_id ON jobq.jobs;
SELECT jobq_enqueue('ids', unique_key => 'u') > 0 AS enqueued;
CREATE TABLE held AS SELECT row_number() OVER (ORDER BY id) AS n, id, lease FROM jobq_claim('ids', 'w', batch => 4);
CREATE TRIGGER other_id BEFORE UPDATE ON jobq.jobs FOR EACH ROW EXECUTE FUNCTION other_id();
CREATE TABLE before AS SELECT * FROM jobq.jobs;
\set VERBOSITY sqlstate
SELECT jobq_claim('ids', 'w');
SELECT jobq_heartbeat(id, lease) FROM held WHERE n = 1;
SELECT jobq_complete(id, lease) FROM held WHERE n = 1;
SELECT jobq_complete_many(array_agg(id), array_agg(lease)) FROM held;
SELECT jobq_fail_many(array_agg(id), array_agg(lease)) FROM held;
SELECT jobq_heartbeat_many(array_agg(id), array_agg(lease)) FROM held;
SELECT jobq_release_many(array_agg(id), array_agg(lease)) FROM held;
SELECT jobq_cancel(id) FROM held WHERE n = 1;
SELECT jobq_reschedule(min(id), now()) FROM jobq.jobs WHERE status = 'pending';
SELECT jobq_enqueue('ids', unique_key => 'u', on_conflict => 'replace');
\set VERBOSITY default
SELECT count(*) AS changed FROM (SELECT * FROM before EXCEPT SELECT * FROM jobq.jobs) d;
DROP TRIGGER other_id ON jobq.jobs;
SELECT jobq_drop_queue('ids', force => true);
DROP TABLE held, before;

-- Rules are honored. With a rule for INSERT or UPDATE, the server does not allow ON CONFLICT, which a unique key requires.
CREATE TABLE ruled (what text, id bigint);
CREATE RULE ruled_insert AS ON INSERT TO jobq.jobs DO ALSO INSERT INTO ruled VALUES ('insert', NEW.id);
SELECT jobq_enqueue('ruled') > 0 AS enqueued;
SELECT count(*) AS enqueued FROM jobq_enqueue_many('ruled', ARRAY[jsonb '1', '2']);
SELECT jobq_enqueue('ruled', unique_key => 'u');
DROP RULE ruled_insert ON jobq.jobs;
CREATE RULE ruled_update AS ON UPDATE TO jobq.jobs DO ALSO INSERT INTO ruled VALUES (OLD.status || ' to ' || NEW.status, NEW.id);
SELECT count(*) AS claimed FROM jobq_claim('ruled', 'w', batch => 2);
DROP RULE ruled_update ON jobq.jobs;
SELECT what, count(DISTINCT r.id), count(j.id) FROM ruled r LEFT JOIN jobq.jobs j USING (id) GROUP BY 1 ORDER BY 1;
TRUNCATE ruled;
-- A rule replaces the statement, which is an error, so that no job is lost.
\set VERBOSITY sqlstate
CREATE RULE ruled_update AS ON UPDATE TO jobq.jobs DO INSTEAD NOTHING;
SELECT jobq_claim('ruled', 'w');
DROP RULE ruled_update ON jobq.jobs;
-- A rule for DELETE, while dependencies exist.
SELECT jobq_enqueue('ruled', kind => 'dependent', depends_on => ARRAY[jobq_enqueue('ruled', kind => 'other', run_at => 'tomorrow')]) > 0 AS enqueued;
CREATE RULE ruled_delete AS ON DELETE TO jobq.jobs DO ALSO INSERT INTO ruled VALUES ('delete', OLD.id);
\set VERBOSITY default
SELECT jobq_create_queue('ruled', keep_completed => '0');
SELECT jobq_complete(id, lease) FROM jobq_claim('ruled', 'w');
SELECT jobq_purge_queue('ruled');
SELECT what, count(*) FROM ruled GROUP BY 1;
SELECT status, count(*) AS left_over FROM jobq.jobs WHERE queue = 'ruled' GROUP BY 1;
DROP RULE ruled_delete ON jobq.jobs;
SELECT jobq_drop_queue('ruled', force => true);

-- Functions that change other jobs during one of jobq's own changes: in a CHECK constraint, a default, or the expression or
-- condition of an index. Their changes count as plain SQL, and jobq updates the columns that depend on them.
CREATE FUNCTION cancel_poked() RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
    UPDATE jobq.jobs SET status = 'cancelled' WHERE queue = 'poked' AND status = 'pending';
    RETURN true;
END $$;
CREATE FUNCTION poke(queue text) RETURNS boolean LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
    IF queue = 'poker' THEN PERFORM public.cancel_poked(); END IF;
    RETURN true;
END $$;
-- Enqueues a job for the function to change, runs the statement, and shows the state of the job.
CREATE FUNCTION poked_by(statement text) RETURNS TABLE (status jobq.job_status, claimable boolean, finished boolean) LANGUAGE plpgsql AS $$
DECLARE
    poked bigint := jobq_enqueue('poked');
BEGIN
    EXECUTE statement;
    RETURN QUERY SELECT j.status, j._ready, j.finished_at IS NOT NULL FROM jobq.jobs j WHERE j.id = poked;
END $$;
CREATE FUNCTION poke_all() RETURNS TABLE (what text, status jobq.job_status, claimable boolean, finished boolean) LANGUAGE sql AS $$
    SELECT w.what, p.* FROM (VALUES
        ('enqueue', $s$SELECT jobq_enqueue('poker')$s$),
        ('unique', $s$SELECT jobq_enqueue('poker', unique_key => gen_random_uuid()::text)$s$),
        ('claim', $s$SELECT jobq_claim('poker', 'w')$s$),
        ('release', $s$SELECT jobq_release(id, lease) FROM jobq.jobs WHERE queue = 'poker' AND status = 'processing' LIMIT 1$s$))
        AS w(what, statement), poked_by(w.statement) p
$$;
ALTER TABLE jobq.jobs ADD CONSTRAINT poke CHECK (poke(queue));
SELECT * FROM poke_all();
ALTER TABLE jobq.jobs DROP CONSTRAINT poke;
-- (CREATE INDEX must not call the function, not even for rows that only an old snapshot sees.)
TRUNCATE jobq.jobs;
CREATE INDEX poke_idx ON jobq.jobs ((poke(queue)));
SELECT * FROM poke_all();
DROP INDEX jobq.poke_idx;
TRUNCATE jobq.jobs;
CREATE INDEX poke_idx ON jobq.jobs (queue) WHERE poke(queue);
SELECT * FROM poke_all();
DROP INDEX jobq.poke_idx;
ALTER TABLE jobq.jobs ADD COLUMN poke boolean DEFAULT cancel_poked();
SELECT * FROM poke_all() WHERE what IN ('enqueue', 'unique');
ALTER TABLE jobq.jobs DROP COLUMN poke;

DROP TABLE ruled, seen;
DROP FUNCTION note_inserted, note_updated, other_id, cancel_poked, poke, poked_by, poke_all;
SELECT count(jobq_drop_queue(q, force => true)) FROM unnest('{poked,poker}'::text[]) q;
DELETE FROM jobq.jobs;

\set VERBOSITY default
-- Each session caches one prepared statement per set of written columns, for any number of such sets.
SET jobq.access = sql;
CREATE FUNCTION many_sets() RETURNS bigint LANGUAGE sql AS $$
    SELECT count(jobq_enqueue('sets', concurrency_key => CASE WHEN i & 1 > 0 THEN 'c' END, group_key => CASE WHEN i & 2 > 0 THEN 'g' END,
                              metadata => CASE WHEN i & 16 > 0 THEN '{}'::jsonb END,
                              options => jsonb_build_object('heartbeat_timeout', CASE WHEN i & 4 > 0 THEN interval '5 min' END,
                                                            'max_runtime', CASE WHEN i & 8 > 0 THEN interval '1 h' END,
                                                            'requires', CASE WHEN i & 32 > 0 THEN '{x}'::text[] END)))
    FROM generate_series(0, 63) i $$;
SELECT many_sets();
SELECT count(*) AS plans FROM pg_backend_memory_contexts WHERE name = 'CachedPlanSource' \gset
SELECT many_sets() + many_sets() AS many_sets;
SELECT count(*) <= :plans + 5 AS kept_once FROM pg_backend_memory_contexts WHERE name = 'CachedPlanSource';
RESET jobq.access;
SELECT jobq_drop_queue('sets', force => true);
DROP FUNCTION many_sets;

-- What a call returns, and what the end of a job causes, depends on the row that a BEFORE trigger returns.
CREATE FUNCTION refuse_cancel() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RETURN CASE NEW.status WHEN 'cancelled' THEN OLD ELSE NEW END;
END $$;
CREATE TRIGGER refuse_cancel BEFORE UPDATE ON jobq.jobs FOR EACH ROW EXECUTE FUNCTION refuse_cancel();
SELECT jobq_enqueue('refused', unique_key => 'u', unique_for => '1 day') AS id \gset
SELECT jobq_cancel(:id);
SELECT count(*) AS kept FROM jobq.kept_keys WHERE queue = 'refused';
-- A tick ends even if such a trigger prevents the cancellation of a job whose dependency has failed.
SELECT jobq_enqueue('refused', kind => 'first') AS first \gset
SELECT jobq_enqueue('refused', depends_on => ARRAY[:first]) AS second \gset
SELECT jobq_fail(id, lease, 'bad', retry => false) FROM jobq_claim('refused', kinds => '{first}');
SELECT settle();
SELECT status FROM jobq.jobs WHERE id = :second;
DROP TRIGGER refuse_cancel ON jobq.jobs;
DROP FUNCTION refuse_cancel;
SELECT jobq_cancel(:id);
SELECT count(*) AS kept FROM jobq.kept_keys WHERE queue = 'refused';
SELECT jobq_drop_queue('refused', force => true);
