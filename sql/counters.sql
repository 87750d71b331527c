-- jobq.queue_stats must match the rows, with and without counters, after every kind of change, and also within the transaction of
-- the change. Each row of differs() is a queue with wrong numbers.
CREATE FUNCTION differs() RETURNS TABLE (queue text, status text, shown bigint, rows bigint) LANGUAGE sql AS $$
    SELECT coalesce(s.queue, j.queue), coalesce(s.status, j.status), s.shown, j.rows
    FROM (SELECT q.queue, u.status, (to_jsonb(q) ->> u.status)::bigint AS shown
          FROM jobq.queue_stats q, unnest(enum_range(NULL::jobq.job_status)::text[]) u(status)) s
    FULL JOIN (SELECT queue, status::text, count(*) AS rows FROM jobq.jobs GROUP BY 1, 2) j
         ON j.queue = s.queue AND j.status = s.status
    WHERE coalesce(s.shown, 0) <> coalesce(j.rows, 0) ORDER BY 1, 2 $$;
CREATE FUNCTION shown(name text) RETURNS text LANGUAGE sql AS $$
    SELECT string_agg((to_jsonb(q) ->> s::text) || ' ' || s, ', ' ORDER BY s)
    FROM jobq.queue_stats q, unnest(enum_range(NULL::jobq.job_status)) s WHERE queue = name AND to_jsonb(q) ->> s::text <> '0' $$;
-- The tick does not repeat a long recount at once, so this waits until the counters match.
CREATE FUNCTION reconciled() RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
    FOR i IN 1..200 LOOP
        PERFORM FROM jobq_tick();
        IF NOT EXISTS (SELECT FROM differs()) THEN RETURN true; END IF;
        PERFORM pg_sleep(0.05);
    END LOOP;
    RETURN false;
END $$;
-- From here on, counters exist if the library is preloaded.
SELECT count(*) FROM jobq_tick() WHERE duty = 'reconcile';
SELECT * FROM differs();

-- Changes by function calls.
SELECT count(*) FROM jobq_enqueue_many('counted', array_fill('{}'::jsonb, '{20}'));
SELECT jobq_enqueue('counted', run_at => now() + interval '1 day') AS later \gset
SELECT count(*) FROM jobq_enqueue_jobs('[{"queue": "counted"}, {"queue": "counted too"}, {"queue": "counted", "run_at": "2100-01-01"}]');
SELECT shown('counted'), shown('counted too');
SELECT count(*) FROM (SELECT jobq_complete(id, lease) FROM jobq_claim('counted', batch => 3)) c;
SELECT count(*) FROM (SELECT jobq_fail(id, lease, 'e', retry => false) FROM jobq_claim('counted', batch => 2)) c;
SELECT count(*) FROM (SELECT jobq_fail(id, lease, 'e', '1 hour') FROM jobq_claim('counted', batch => 2)) c;
SELECT count(*) FROM (SELECT jobq_release(id, lease) FROM jobq_claim('counted')) c;
SELECT count(*) FROM (SELECT jobq_snooze(id, '1 day', lease) FROM jobq_claim('counted')) c;
SELECT count(*) FROM jobq_claim('counted', batch => 3, heartbeat_timeout => '10 min');
SELECT shown('counted');
SELECT * FROM differs();
SELECT jobq_cancel_jobs('counted', statuses => '{pending}', max_jobs => 2), jobq_cancel(:later), jobq_cancel(:later);
SELECT jobq_cancel_jobs('counted', statuses => '{processing}', max_jobs => 1);
SELECT jobq_retry_jobs('counted', statuses => '{failed}'), jobq_retry(:later), jobq_reschedule(:later, '2100-01-01');
SELECT jobq_reschedule_jobs('counted', '2000-01-01', max_jobs => 1), jobq_delete_jobs('counted', statuses => '{completed}', max_jobs => 1);
SELECT jobq_delete(:later), jobq_purge_queue('counted too');
SELECT * FROM differs();
SELECT duty, done FROM tick_alone(now() + interval '2 hours') WHERE duty IN ('rescue', 'cancel', 'promote');
SELECT shown('counted');
SELECT * FROM differs();
SELECT duty, done > 0 AS done FROM tick_alone(now() + interval '20 days') WHERE duty = 'prune';
SELECT * FROM differs();
SELECT jobq_create_queue('counted too', keep_completed => '0', keep_failed => '0');
SELECT count(*) FROM jobq_enqueue_many('counted too', array_fill('{}'::jsonb, '{6}'));
SELECT count(*) FROM (SELECT jobq_complete(id, lease) FROM jobq_claim('counted too', batch => 3)) c;
SELECT count(*) FROM (SELECT jobq_fail(id, lease, 'e', retry => false) FROM jobq_claim('counted too', batch => 1)) c;
SELECT shown('counted too');
SELECT jobq_drop_queue('counted too', force => true), shown('counted too');
SELECT * FROM differs();

-- Transactions and savepoints that are rolled back.
BEGIN;
SELECT jobq_enqueue('counted') IS NOT NULL;
SELECT * FROM differs();
SAVEPOINT a;
SELECT jobq_enqueue('counted') IS NOT NULL, jobq_enqueue('counted 2') IS NOT NULL;
SAVEPOINT b;
SELECT count(*) FROM generate_series(1, 17) n, LATERAL jobq_claim('counted', 'w' || n, batch => 100);
SELECT * FROM differs();
ROLLBACK TO b;
SELECT * FROM differs();
SELECT count(*) FROM jobq_claim('counted 2', batch => 100);
RELEASE b;
SELECT * FROM differs();
ROLLBACK TO a;
SELECT * FROM differs();
SELECT jobq_enqueue('counted 3') IS NOT NULL;
RELEASE a;
SELECT * FROM differs();
COMMIT;
SELECT * FROM differs();
BEGIN;
SELECT jobq_enqueue('counted') IS NOT NULL;
ROLLBACK;
SELECT * FROM differs();
DO $$
BEGIN
    FOR i IN 1 .. 200 LOOP
        BEGIN
            PERFORM jobq_enqueue('counted ' || i % 7);
            BEGIN
                PERFORM jobq_claim('counted ' || i % 5);
                IF i % 3 = 0 THEN RAISE EXCEPTION 'inner'; END IF;
            EXCEPTION WHEN raise_exception THEN NULL;
            END;
            IF i % 4 = 0 THEN RAISE EXCEPTION 'outer'; END IF;
        EXCEPTION WHEN raise_exception THEN NULL;
        END;
    END LOOP;
END $$;
SELECT * FROM differs();

-- Changes with plain SQL.
INSERT INTO jobq.jobs (queue, run_at) SELECT 'by hand ' || n % 3, now() + n % 2 * interval '1 hour' FROM generate_series(1, 30) n;
INSERT INTO jobq.jobs (queue, status) VALUES ('by hand', 'completed'), ('by hand', 'blocked'), ('by hand', 'processing') RETURNING status;
SELECT * FROM differs();
SELECT max(id) AS taken FROM jobq.jobs \gset
INSERT INTO jobq.jobs (id, queue) VALUES (:taken, 'by hand') ON CONFLICT (id) DO NOTHING;
INSERT INTO jobq.jobs (id, queue) VALUES (:taken, 'by hand') ON CONFLICT (id) DO UPDATE SET status = 'failed', queue = 'by hand 9';
SELECT * FROM differs();
COPY jobq.jobs (queue, priority) FROM stdin;
by hand 1	3
by hand 7	4
\.
SELECT * FROM differs();
UPDATE jobq.jobs SET status = 'completed' WHERE queue = 'by hand 1';
UPDATE jobq.jobs SET queue = 'by hand 8' WHERE queue = 'by hand 2';
UPDATE jobq.jobs SET run_at = now() + interval '1 hour' WHERE queue = 'by hand 0';
UPDATE jobq.jobs SET queue = 'by hand 6', run_at = now() WHERE queue = 'by hand 0' AND id % 2 = 0;
UPDATE jobq.jobs SET status = 'pending' WHERE queue = 'by hand';
SELECT * FROM differs();
DELETE FROM jobq.jobs WHERE queue IN ('by hand 8', 'by hand 1');
SELECT * FROM differs();
BEGIN;
UPDATE jobq.jobs SET status = 'cancelled' WHERE queue LIKE 'by hand%';
DELETE FROM jobq.jobs WHERE queue LIKE 'counted%';
SELECT * FROM differs();
ROLLBACK;
SELECT * FROM differs();

-- One trigger of the DBA changes the row again, and another trigger suppresses rows.
CREATE FUNCTION meddle() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF new.priority = 7 THEN UPDATE jobq.jobs SET status = 'cancelled', priority = 8 WHERE id = new.id; END IF;
    RETURN NULL;
END $$;
CREATE TRIGGER aaa AFTER UPDATE ON jobq.jobs FOR EACH ROW EXECUTE FUNCTION meddle();
CREATE TRIGGER zzz AFTER UPDATE ON jobq.jobs FOR EACH ROW EXECUTE FUNCTION meddle();
UPDATE jobq.jobs SET status = 'failed', priority = 7 WHERE queue = 'by hand 6';
SELECT * FROM differs();
CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN NULL; END $$;
CREATE TRIGGER zz_refuse BEFORE INSERT ON jobq.jobs FOR EACH ROW WHEN (new.priority = 9) EXECUTE FUNCTION refuse();
INSERT INTO jobq.jobs (queue, priority) VALUES ('by hand', 9), ('by hand', 1);
SELECT * FROM differs();
DROP TRIGGER aaa ON jobq.jobs;
DROP TRIGGER zzz ON jobq.jobs;
DROP TRIGGER zz_refuse ON jobq.jobs;

-- The age of the oldest waiting job, over all lanes and priorities. The rates are never negative.
SELECT jobq_enqueue('ages', priority => 5, run_at => now() - interval '1 hour') IS NOT NULL,
       jobq_enqueue('ages', priority => 1, kind => 'a', run_at => now() - interval '1 minute') IS NOT NULL,
       jobq_enqueue('ages', priority => 9, kind => 'a', run_at => now() - interval '3 hours') IS NOT NULL,
       jobq_enqueue('ages', priority => 9, kind => 'a', run_at => now() + interval '3 hours') IS NOT NULL;
SELECT date_trunc('hour', oldest_pending_age), oldest_heartbeat FROM jobq.queue_stats WHERE queue = 'ages';
SELECT count(*) FROM jobq_claim('ages', kinds => '{a}', batch => 2);
SELECT date_trunc('hour', oldest_pending_age), oldest_heartbeat > now() - interval '1 minute' AS beats FROM jobq.queue_stats WHERE queue = 'ages';
SELECT count(*) FROM jobq.queue_stats
WHERE least(enqueued_per_second, claimed_per_second, completed_per_second, failed_per_second, lost_per_second) < 0
   OR source NOT IN ('counters', 'rows') OR (source = 'counters') <> (enqueued_per_second IS NOT NULL);

-- The tick corrects the counters after changes that bypassed the triggers, also within a transaction, and a second time.
ALTER TABLE jobq.jobs DISABLE TRIGGER USER;
INSERT INTO jobq.jobs (_lane, queue, run_at, status, max_attempts) SELECT 0, 'counted', now(), 'completed', 1 FROM generate_series(1, 5);
DELETE FROM jobq.jobs WHERE queue = 'by hand 7';
ALTER TABLE jobq.jobs ENABLE TRIGGER USER;
BEGIN;
SELECT jobq_enqueue('counted') IS NOT NULL;
SELECT reconciled();
SELECT * FROM differs();
SELECT jobq_enqueue('counted') IS NOT NULL;
COMMIT;
SELECT * FROM differs();
SELECT done FROM jobq_tick() WHERE duty = 'reconcile';
BEGIN;
SELECT jobq_enqueue('counted') IS NOT NULL;
SELECT done FROM jobq_tick() WHERE duty = 'reconcile';
ROLLBACK;
SELECT * FROM differs();

-- TRUNCATE.
BEGIN;
TRUNCATE jobq.jobs;
SELECT jobq_enqueue('counted') IS NOT NULL;
SELECT * FROM differs();
ROLLBACK;
SELECT * FROM differs();
TRUNCATE jobq.jobs;
SELECT * FROM differs();
SELECT jobq_enqueue('counted') IS NOT NULL;
SELECT done FROM jobq_tick() WHERE duty = 'reconcile';
SELECT shown('counted');
SELECT * FROM differs();
SELECT jobq_purge_queue('counted');
DELETE FROM jobq.queue_settings WHERE queue LIKE 'counted%';
DROP FUNCTION reconciled, differs, shown, meddle, refuse;
