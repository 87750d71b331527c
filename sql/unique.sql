-- Unique jobs: at most one unfinished job of a queue has a given unique_key.

-- The second enqueue with a key returns the existing job, which does not change.
SELECT jobq_enqueue('unique', '"first"', unique_key => 'user 7') AS first \gset
SELECT jobq_enqueue('unique', '"second"', unique_key => 'user 7', priority => -5) = :first AS existing;
SELECT payload, priority, status, unique_key, _holds_key FROM jobq.jobs WHERE queue = 'unique';
-- Another key, another queue, and no key create other jobs. Keys are compared byte by byte.
SELECT jobq_enqueue('unique', unique_key => 'User 7') <> :first AS other_key,
       jobq_enqueue('unique 2', unique_key => 'user 7') <> :first AS other_queue,
       jobq_enqueue('unique') <> jobq_enqueue('unique') AS no_key;
-- Kind and version do not matter.
SELECT jobq_enqueue('unique', unique_key => 'user 7', kind => 'k', options => '{"version": 2}') = :first AS existing;

-- The key is taken while the job waits, runs, and waits for a retry.
SELECT lease FROM jobq_claim('unique', 'w', heartbeat_timeout => '1 hour') c WHERE id = :first \gset
SELECT jobq_enqueue('unique', unique_key => 'user 7') = :first AS existing;
SELECT jobq_fail(:first, :lease, 'e', retry_in => '1 day');
SELECT jobq_enqueue('unique', unique_key => 'user 7') = :first AS existing;
SELECT jobq_retry(:first);
SELECT lease FROM jobq_claim('unique', 'w', batch => 10, heartbeat_timeout => '1 hour') c WHERE id = :first \gset
SELECT jobq_release(:first, :lease);
SELECT jobq_enqueue('unique', unique_key => 'user 7') = :first AS existing;

-- Every end of a job frees its key, but the job still shows it. Each of these cases gets its own running job.
CREATE TABLE unique_ends (n serial, how text, id bigint, lease bigint);
CREATE FUNCTION pg_temp.freed(job unique_ends) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    other bigint;
BEGIN
    EXECUTE job.how USING job.id, job.lease;
    other := jobq_enqueue('unique ends', unique_key => job.how);
    RETURN CASE WHEN other = job.id THEN 'taken' ELSE 'free' END ||
           coalesce((SELECT format(', %s, key %s', j.status, CASE WHEN j.unique_key = job.how THEN 'shown' ELSE 'gone' END)
                     FROM jobq.jobs j WHERE j.id = job.id), ', gone');
END $$;
INSERT INTO unique_ends (how) VALUES
    ('SELECT jobq_heartbeat($1, $2)'),
    ('SELECT jobq_complete($1, $2)'),
    ('SELECT jobq_complete_many(ARRAY[$1], ARRAY[$2])'),
    ('SELECT jobq_complete_and_claim(ARRAY[$1], ARRAY[$2], queue => ''unique nowhere'')'),
    ('SELECT jobq_fail($1, $2)'),
    ('SELECT jobq_fail_many(ARRAY[$1], ARRAY[$2])'),
    ('SELECT jobq_cancel($1), jobq_release($1, $2)'),
    ('SELECT jobq_release($1, $2), jobq_cancel($1)'),
    ('SELECT jobq_cancel($1), $2'),
    ('SELECT jobq_cancel($1), jobq_tick(now() + interval ''10 minutes''), $2'),
    ('SELECT jobq_release($1, $2), jobq_delete($1)'),
    ('UPDATE jobq.jobs SET status = ''completed'' WHERE id = $1 AND lease = $2'),
    ('DELETE FROM jobq.jobs WHERE id = $1 AND lease = $2'),
    ('SELECT jobq_tick(now() + interval ''2 hours''), $1, $2');
SELECT count(*) FROM unique_ends, LATERAL jobq_enqueue('unique ends', unique_key => how, max_attempts => 1);
UPDATE unique_ends e SET id = c.id, lease = c.lease
FROM jobq_claim('unique ends', 'w', batch => 100, heartbeat_timeout => '1 hour') c JOIN jobq.jobs j USING (id) WHERE j.unique_key = e.how;
SELECT how, pg_temp.freed(e) FROM unique_ends e ORDER BY n;
SELECT jobq_drop_queue('unique ends', force => true);
-- This also holds if the queue keeps no finished jobs.
SELECT jobq_create_queue('unique ends', keep_completed => '0', keep_failed => '0');
DELETE FROM unique_ends WHERE how !~ '^SELECT jobq_(complete|fail)';
SELECT count(*) FROM unique_ends, LATERAL jobq_enqueue('unique ends', unique_key => how, max_attempts => 1);
UPDATE unique_ends e SET id = c.id, lease = c.lease
FROM jobq_claim('unique ends', 'w', batch => 100, heartbeat_timeout => '1 hour') c JOIN jobq.jobs j USING (id) WHERE j.unique_key = e.how;
SELECT how, pg_temp.freed(e) FROM unique_ends e ORDER BY n;
SELECT jobq_drop_queue('unique ends', force => true);

-- on_conflict => 'error' raises 23505. The error names the key and the job that has it.
CREATE FUNCTION pg_temp.refused(call text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    hint text;
    name text;
    detail text;
BEGIN
    EXECUTE 'SELECT ' || call;
    RETURN 'works';
EXCEPTION WHEN unique_violation THEN
    GET STACKED DIAGNOSTICS hint = PG_EXCEPTION_HINT, name = CONSTRAINT_NAME, detail = PG_EXCEPTION_DETAIL;
    RETURN concat_ws(' | ', SQLSTATE, regexp_replace(SQLERRM, '\d+$', 'N'), regexp_replace(nullif(detail, ''), ' until .*', ' until ...'), name, hint);
END $$;
SELECT jobq_enqueue('unique error', unique_key => 'k', on_conflict => 'error') AS job \gset
SELECT pg_temp.refused($$jobq_enqueue('unique error', unique_key => 'k', on_conflict => 'error')$$);
SELECT pg_temp.refused($$jobq_enqueue_jobs('[{"queue": "unique error", "unique_key": "k", "on_conflict": "error"}]')$$);
SELECT jobq_cancel(:job);
SELECT pg_temp.refused($$jobq_enqueue('unique error', unique_key => 'k', on_conflict => 'error')$$);

-- on_conflict => 'replace' replaces all attributes of a waiting job. Debouncing: only the last of several enqueues runs, some
-- time after it.
SELECT jobq_enqueue('unique replace', '1', unique_key => 'k', run_at => '2100-01-01', kind => 'old') AS job \gset
SELECT jobq_enqueue('unique replace', '2', unique_key => 'k', run_at => '2100-01-02', on_conflict => 'replace', kind => 'new') = :job AS same;
SELECT payload, kind, status, run_at = '2100-01-02' AS moved, _due AS waits, _ready FROM jobq.jobs WHERE queue = 'unique replace';
-- The job is moved to now, and before other jobs.
SELECT jobq_enqueue('unique replace', '"other"', kind => 'new') > 0 AS enqueued;
SELECT jobq_enqueue('unique replace', '3', kind => 'new', unique_key => 'k', run_at => '2001-01-01', priority => -1, on_conflict => 'replace') = :job AS same;
SELECT payload, status, priority, _due, _ready AS claimable FROM jobq.jobs WHERE id = :job;
SELECT payload FROM jobq_claim('unique replace', batch => 1);
-- That job is running: it loses the key and keeps running, and a new job is created.
SELECT jobq_enqueue('unique replace', '4', unique_key => 'k', on_conflict => 'replace') <> :job AS new_job;
SELECT payload, status, unique_key, _holds_key FROM jobq.jobs WHERE queue = 'unique replace' AND payload <> '"other"' ORDER BY id;
SELECT jobq_complete(id, lease) FROM jobq.jobs WHERE id = :job;
SELECT jobq_retry(:job);
SELECT payload, status, unique_key FROM jobq.jobs WHERE queue = 'unique replace' AND payload <> '"other"' ORDER BY id;
-- A claim finds the replaced job, whatever it has cached about the queue, and the counters include it.
SELECT count(*) FROM jobq_claim('unique replace', batch => 10);
SELECT count(*) FROM jobq_claim('unique replace', batch => 10);
SELECT jobq_enqueue('unique replace', '5', unique_key => 'late', run_at => '2100-01-01') > 0 AS enqueued;
SELECT count(*) FROM jobq_claim('unique replace', batch => 10);
SELECT jobq_enqueue('unique replace', '6', unique_key => 'late', run_at => '2001-01-01', on_conflict => 'replace') > 0 AS enqueued;
SELECT scheduled, pending FROM jobq.queue_stats WHERE queue = 'unique replace';
SELECT payload FROM jobq_claim('unique replace', batch => 10);
-- A replaced job that has run before starts over: the new payload has all its attempts and no old progress. The old attempts are
-- in jobq.attempts.
SELECT jobq_enqueue('unique replace', '"old"', kind => 'old', unique_key => 'again', max_attempts => 2, unique_for => '1 hour') AS job \gset
SELECT jobq_heartbeat(id, lease, '"half"'), jobq_fail(id, lease, 'old trouble', retry_in => '1 day') FROM jobq_claim('unique replace', 'w', kinds => '{old}');
SELECT status, attempts, max_attempts, error, progress FROM jobq.jobs WHERE id = :job;
SELECT jobq_enqueue('unique replace', '"new"', kind => 'newer', priority => 7, unique_key => 'again', max_attempts => 1, concurrency_key => 'c', metadata => '{"m": 1}',
                    on_conflict => 'replace', options => '{"version": 3, "requires": ["gpu"], "heartbeat_timeout": "5 min", "max_runtime": "10 min"}') = :job AS same;
SELECT payload, kind, version, requires, priority, metadata, max_attempts, heartbeat_timeout, max_runtime, concurrency_key, unique_for,
       _lane = jobq.lane_of(queue, kind, version, requires) AS own_lane FROM jobq.jobs WHERE id = :job;
SELECT status, attempts, lost_attempts, error, progress, started_at, worker_id, last_heartbeat, _lease_timeout, _ready AS claimable, _due FROM jobq.jobs WHERE id = :job;
SELECT event, attempt, detail FROM jobq_log(:job);
-- Only workers that may claim the new job find it, in its new place.
SELECT count(*) FROM jobq_claim('unique replace', kinds => '{newer}');
SELECT payload, attempt, max_attempts, progress FROM jobq_claim('unique replace', 'w', capabilities => '{gpu}', heartbeat_timeout => '1 hour');
-- A released job can be replaced, too.
SELECT jobq_release(id, lease) FROM jobq.jobs WHERE id = :job;
SELECT jobq_enqueue('unique replace', '"plain"', unique_key => 'again', on_conflict => 'replace') = :job AS same;
SELECT payload, kind, requires, attempts, max_attempts, started_at, metadata, max_runtime FROM jobq.jobs WHERE id = :job;
SELECT payload, attempt FROM jobq_claim('unique replace', 'w', heartbeat_timeout => '1 hour') WHERE id = :job;
-- A job that plain SQL has blocked stays blocked.
SELECT jobq_enqueue('unique replace', '7', unique_key => 'blocked') AS job \gset
UPDATE jobq.jobs SET status = 'blocked' WHERE id = :job;
SELECT jobq_enqueue('unique replace', '8', unique_key => 'blocked', on_conflict => 'replace') = :job AS same;
SELECT payload, status, _ready, _due FROM jobq.jobs WHERE id = :job;

-- unique_for: the key stays taken for a period after the job has finished. The enqueue returns the ID of that job.
SELECT jobq_enqueue('unique for', unique_key => 'hourly', unique_for => '1 hour') AS job \gset
SELECT jobq_complete(id, lease) FROM jobq_claim('unique for');
SELECT jobq_enqueue('unique for', unique_key => 'hourly') = :job AS ignored,
       jobq_enqueue('unique for', '"new"', unique_key => 'hourly', on_conflict => 'replace') = :job AS nothing_to_replace;
SELECT pg_temp.refused($$jobq_enqueue('unique for', unique_key => 'hourly', on_conflict => 'error')$$);
SELECT k.unique_key, k.job_id = :job AS of_that_job, k.kept_until - j.finished_at AS kept FROM jobq.kept_keys k JOIN jobq.jobs j ON j.id = k.job_id;
SELECT payload, status FROM jobq.jobs WHERE queue = 'unique for';
-- This holds even if the job is deleted.
SELECT jobq_delete(:job);
SELECT jobq_enqueue('unique for', unique_key => 'hourly') = :job AS ignored;
-- After the period, the key is free, and the tick deletes it. Deleting the row frees the key at once.
BEGIN;
UPDATE jobq.kept_keys SET kept_until = now() - interval '1 second' WHERE queue = 'unique for';
SELECT jobq_enqueue('unique for', unique_key => 'hourly') <> :job AS new_job;
SELECT count(*) FROM jobq_tick();
SELECT count(*) AS kept FROM jobq.kept_keys WHERE queue = 'unique for';
ROLLBACK;
BEGIN;
DELETE FROM jobq.kept_keys WHERE queue = 'unique for';
SELECT jobq_enqueue('unique for', unique_key => 'hourly') <> :job AS new_job;
ROLLBACK;
SELECT count(*) AS kept FROM jobq.kept_keys WHERE queue = 'unique for';
-- For plain SQL, a kept key is taken, too: INSERT, COPY, and an UPDATE that gives a job the key raise 23505. ON CONFLICT cannot
-- handle it, because no row conflicts. Finished jobs may have any key.
CREATE FUNCTION pg_temp.by_hand(statement text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    hint text;
BEGIN
    EXECUTE statement;
    RETURN 'works';
EXCEPTION WHEN OTHERS THEN
    GET STACKED DIAGNOSTICS hint = PG_EXCEPTION_HINT;
    RETURN concat_ws(' | ', SQLSTATE, regexp_replace(SQLERRM, '\d+$', 'N'), hint);
END $$;
INSERT INTO jobq.jobs (queue, payload) VALUES ('unique for', '"hand"');
INSERT INTO jobq.jobs (queue, unique_key, status, payload) VALUES ('unique for', 'hourly', 'failed', '"failed"');
SELECT statement, pg_temp.by_hand(statement) FROM unnest(ARRAY[
    $$INSERT INTO jobq.jobs (queue, unique_key) VALUES ('unique for', 'hourly')$$,
    $$INSERT INTO jobq.jobs (queue, unique_key, run_at) VALUES ('unique for', 'hourly', '2100-01-01') ON CONFLICT DO NOTHING$$,
    $$UPDATE jobq.jobs SET unique_key = 'hourly' WHERE queue = 'unique for' AND payload = '"hand"'$$,
    $$UPDATE jobq.jobs SET status = 'pending' WHERE queue = 'unique for' AND payload = '"failed"'$$,
    $$INSERT INTO jobq.jobs (queue, unique_key, status) VALUES ('unique for', 'hourly', 'completed')$$,
    $$INSERT INTO jobq.jobs (queue, unique_key) VALUES ('unique for 2', 'hourly')$$,
    $$UPDATE jobq.jobs SET queue = 'unique for' WHERE queue = 'unique for 2'$$,
    $$UPDATE jobq.jobs SET priority = 1 WHERE queue = 'unique for 2'$$]) AS statement;
\set VERBOSITY sqlstate
COPY jobq.jobs (queue, unique_key) FROM stdin;
unique for	hourly
\.
\set VERBOSITY default
SELECT payload, status, _holds_key FROM jobq.jobs WHERE queue = 'unique for' AND status = 'pending';
-- A row with a lane comes from a dump, and a restore must not fail.
BEGIN;
INSERT INTO jobq.jobs (queue, unique_key, _lane) VALUES ('unique for', 'hourly', 0);
ROLLBACK;
-- A job that runs again holds its key itself, and its kept key is deleted. So deleting the job frees the key.
SELECT jobq_enqueue('unique for', unique_key => 'own', unique_for => '1 hour', priority => -9) AS own \gset
SELECT jobq_complete(id, lease) FROM jobq_claim('unique for');
SELECT jobq_retry(:own);
SELECT count(*) AS kept FROM jobq.kept_keys WHERE job_id = :own;
SELECT jobq_complete(id, lease) FROM jobq_claim('unique for');
UPDATE jobq.jobs SET status = 'pending' WHERE id = :own;
SELECT count(*) AS kept FROM jobq.kept_keys WHERE job_id = :own;
SELECT jobq_delete(:own);
SELECT jobq_enqueue('unique for', unique_key => 'own') > :own AS new_job;
-- Purged jobs keep their keys, like pruned ones. TRUNCATE deletes all jobs and keys.
SELECT jobq_purge_queue('unique for') > 0 AS purged;
SELECT unique_key FROM jobq.kept_keys WHERE queue = 'unique for';
BEGIN;
TRUNCATE jobq.jobs;
SELECT count(*) AS kept FROM jobq.kept_keys;
ROLLBACK;
-- Every end keeps the key: completed, failed, canceled, rescued permanently, plain SQL, also if the job is not kept. The deletion
-- of an unfinished job does not keep it.
CREATE FUNCTION pg_temp.keeps(job unique_ends) RETURNS bigint LANGUAGE plpgsql AS $$
BEGIN
    EXECUTE job.how USING job.id, job.lease;
    RETURN (SELECT count(*) FROM jobq.kept_keys k WHERE k.unique_key = job.how AND k.job_id = job.id);
END $$;
SELECT jobq_create_queue('unique keeps', keep_completed => '0', keep_failed => '0');
TRUNCATE unique_ends;
INSERT INTO unique_ends (how) VALUES
    ('SELECT jobq_complete($1, $2)'),
    ('SELECT jobq_complete_many(ARRAY[$1], ARRAY[$2])'),
    ('SELECT jobq_fail($1, $2)'),
    ('SELECT jobq_cancel($1), jobq_release($1, $2)'),
    ('SELECT jobq_release($1, $2), jobq_cancel($1)'),
    ('UPDATE jobq.jobs SET status = ''failed'' WHERE id = $1 AND lease = $2'),
    ('SELECT jobq_release($1, $2), jobq_delete($1)'),
    ('DELETE FROM jobq.jobs WHERE id = $1 AND lease = $2'),
    ('SELECT jobq_tick(now() + interval ''2 hours''), $1, $2');
SELECT count(*) FROM unique_ends, LATERAL jobq_enqueue('unique keeps', unique_key => how, unique_for => '1 day', max_attempts => 1);
UPDATE unique_ends e SET id = c.id, lease = c.lease
FROM jobq_claim('unique keeps', 'w', batch => 100, heartbeat_timeout => '1 hour') c JOIN jobq.jobs j USING (id) WHERE j.unique_key = e.how;
SELECT how, pg_temp.keeps(e) AS kept FROM unique_ends e ORDER BY n;
SET client_min_messages = warning;
DROP TABLE unique_ends CASCADE;
RESET client_min_messages;
-- The key is kept in the transaction that ends the job.
SELECT jobq_enqueue('unique keeps', unique_key => 'back', unique_for => '1 day') AS job \gset
SELECT lease FROM jobq_claim('unique keeps', heartbeat_timeout => '1 hour') WHERE id = :job \gset
BEGIN;
SELECT jobq_complete(:job, :lease);
SELECT count(*) AS kept FROM jobq.kept_keys WHERE job_id = :job;
ROLLBACK;
SELECT count(*) AS kept FROM jobq.kept_keys WHERE job_id = :job;
-- A dropped queue has no kept keys.
SELECT jobq_drop_queue('unique keeps', force => true);
SELECT count(*) AS kept FROM jobq.kept_keys WHERE queue = 'unique keeps';

-- Many jobs in one call: is_new marks the new ones. A duplicate key is one job, and NULL means no key. New IDs have the order of
-- the payloads.
SELECT jobq_enqueue('unique many', '"b"', unique_key => 'b') AS b \gset
SELECT row_number() OVER () AS n, is_new, job_id = :b AS existing, job_id > lag(job_id) OVER () AS behind_the_last
FROM jobq_enqueue_many('unique many', ARRAY['1', '2', '3', '4', '5']::jsonb[], unique_keys => '{c,b,NULL,a,c}', priorities => '{5,4,3,2,1}');
SELECT payload, priority, unique_key FROM jobq.jobs WHERE queue = 'unique many' ORDER BY id;
SELECT * FROM jobq_enqueue_many('unique many', '{}', unique_keys => '{}');
SELECT count(*), count(*) FILTER (WHERE is_new) AS new
FROM jobq_enqueue_many('unique many', (SELECT array_agg(to_jsonb(n)) FROM generate_series(1, 5000) n),
                       unique_keys => (SELECT array_agg('k' || n % 3000) FROM generate_series(1, 5000) n));
SELECT count(*), count(DISTINCT unique_key) FILTER (WHERE _holds_key) FROM jobq.jobs WHERE queue = 'unique many' AND unique_key ~ '^k';
-- Elements with different on_conflict settings.
SELECT row_number() OVER () AS n, is_new, job_id = :b AS existing FROM jobq_enqueue_jobs('[
  {"queue": "unique many", "payload": "new b", "unique_key": "b", "on_conflict": "replace"},
  {"queue": "unique many", "payload": 10},
  {"queue": "unique many 2", "payload": 11, "unique_key": "b", "unique_for": "1 day"},
  {"queue": "unique many 2", "payload": 12, "unique_key": "b", "on_conflict": "replace"},
  {"queue": "unique many", "payload": 13, "unique_key": "b"}]');
SELECT payload FROM jobq.jobs WHERE id = :b;
SELECT payload, unique_for FROM jobq.jobs WHERE queue = 'unique many 2';
-- If one element is rejected, all are. The error names the element.
SELECT count(*) AS before FROM jobq.jobs \gset
\set VERBOSITY terse
SELECT * FROM jobq_enqueue_jobs('[{"queue": "unique many 3", "unique_key": "z"}, {"queue": "unique many 3", "unique_key": ""}]');
\set VERBOSITY default
SELECT count(*) - :before AS added FROM jobq.jobs;

-- A retry takes the key again. If another job has it, the retry raises 23505, and the job does not change.
SELECT jobq_enqueue('unique retry', '"old"', unique_key => 'k') AS old \gset
SELECT jobq_fail(id, lease, 'e', retry => false) FROM jobq_claim('unique retry');
SELECT jobq_enqueue('unique retry', '"new"', unique_key => 'k') AS new \gset
SELECT pg_temp.refused(format('jobq_retry(%s)', :old));
SELECT status, _holds_key FROM jobq.jobs WHERE id = :old;
SELECT jobq_cancel(:new), jobq_retry(:old);
SELECT status, _holds_key FROM jobq.jobs WHERE id = :old;
SELECT pg_temp.refused(format('jobq_retry(%s)', :new));
SELECT jobq_enqueue('unique retry', unique_key => 'k') = :old AS existing;
-- A key that another job keeps is also taken. A key that the job itself keeps does not prevent the retry.
SELECT jobq_enqueue('unique retry', '"kept"', unique_key => 'h', unique_for => '1 hour', priority => -1) AS kept \gset
SELECT jobq_complete(id, lease) FROM jobq_claim('unique retry');
SELECT jobq_retry(:kept);
SELECT jobq_cancel(:kept);
INSERT INTO jobq.jobs (queue, unique_key, status) VALUES ('unique retry', 'h', 'failed') RETURNING id AS other \gset
SELECT pg_temp.refused(format('jobq_retry(%s)', :other));
-- A retry by filter skips jobs whose key is taken. Of several jobs with one key, it retries the first.
SELECT jobq_drop_queue('unique retry', force => true);
INSERT INTO jobq.jobs (queue, unique_key, status, payload) VALUES ('unique retry', 'a', 'failed', '1'), ('unique retry', 'b', 'failed', '2'),
    ('unique retry', 'a', 'failed', '3'), ('unique retry', NULL, 'failed', '4'), ('unique retry', 'b', 'pending', '5');
SELECT jobq_retry_jobs('unique retry');
SELECT jobq_retry_jobs('unique retry');
SELECT payload, status, _holds_key FROM jobq.jobs WHERE queue = 'unique retry' ORDER BY id;

-- A job that lost its worker keeps its key, and the rescue never finds another job with the same key.
SELECT jobq_enqueue('unique rescue', unique_key => 'k') AS job \gset
SELECT count(*) FROM jobq_claim('unique rescue', 'dead', heartbeat_timeout => '1 hour');
SELECT jobq_enqueue('unique rescue', unique_key => 'k', on_conflict => 'replace') <> :job AS new_job;
SELECT count(*) AS duties FROM jobq_tick(now() + interval '2 hours');
SELECT status, lost_attempts, unique_key FROM jobq.jobs WHERE queue = 'unique rescue' ORDER BY id;

-- Plain SQL. INSERT and COPY: the unique index rejects a taken key, and ON CONFLICT works.
INSERT INTO jobq.jobs (queue, unique_key) VALUES ('unique hand', 'k');
INSERT INTO jobq.jobs (queue, unique_key) VALUES ('unique hand', 'k');
INSERT INTO jobq.jobs (queue, unique_key) VALUES ('unique hand', 'k') ON CONFLICT DO NOTHING;
INSERT INTO jobq.jobs (queue, unique_key, status) VALUES ('unique hand', 'k', 'completed');
SELECT status, unique_key, _holds_key FROM jobq.jobs WHERE queue = 'unique hand' ORDER BY id;
-- An UPDATE to a final status frees the key, an UPDATE back takes it, and a new key is a different key.
\set VERBOSITY terse
UPDATE jobq.jobs SET status = 'pending' WHERE queue = 'unique hand' AND status = 'completed';
UPDATE jobq.jobs SET status = 'failed' WHERE queue = 'unique hand' AND status = 'pending';
UPDATE jobq.jobs SET status = 'pending' WHERE id = (SELECT max(id) FROM jobq.jobs WHERE queue = 'unique hand');
SELECT status, unique_key, _holds_key FROM jobq.jobs WHERE queue = 'unique hand' ORDER BY id;
UPDATE jobq.jobs SET unique_key = 'other' WHERE queue = 'unique hand' AND status = 'pending';
SELECT jobq_enqueue('unique hand', '"new"', unique_key => 'k') > 0 AS enqueued;
UPDATE jobq.jobs SET unique_key = 'k' WHERE queue = 'unique hand' AND unique_key = 'other';
UPDATE jobq.jobs SET _holds_key = NULL WHERE queue = 'unique hand' AND unique_key = 'other';
UPDATE jobq.jobs SET unique_key = NULL WHERE queue = 'unique hand' AND payload = '"new"';
SELECT status, unique_key, _holds_key FROM jobq.jobs WHERE queue = 'unique hand' ORDER BY id;
INSERT INTO jobq.jobs (queue, unique_key) VALUES ('unique hand', '');
INSERT INTO jobq.jobs (queue, unique_key) VALUES ('unique hand', repeat('k', 1025));
INSERT INTO jobq.jobs (queue, unique_for) VALUES ('unique hand', '1 hour');
UPDATE jobq.jobs SET unique_for = '-1 hour' WHERE queue = 'unique hand' AND unique_key = 'other';
\set VERBOSITY default

-- With triggers and constraints of a DBA on the table. A trigger that suppresses the row causes an error, not an endless loop.
CREATE FUNCTION unique_first() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN NEW.priority := -7; RETURN NEW; END $$;
CREATE TRIGGER unique_first BEFORE INSERT ON jobq.jobs FOR EACH ROW EXECUTE FUNCTION unique_first();
SELECT count(*) FROM jobq_claim('unique dba');
SELECT jobq_enqueue('unique dba', unique_key => 'k', priority => 5) > 0 AS enqueued;
SELECT priority FROM jobq_claim('unique dba');
DROP TRIGGER unique_first ON jobq.jobs;
CREATE FUNCTION unique_nothing() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN NULL; END $$;
CREATE TRIGGER unique_nothing BEFORE INSERT ON jobq.jobs FOR EACH ROW EXECUTE FUNCTION unique_nothing();
\set VERBOSITY sqlstate
SELECT jobq_enqueue('unique dba', unique_key => 'nothing');
\set VERBOSITY default
DROP TRIGGER unique_nothing ON jobq.jobs;
DROP FUNCTION unique_first, unique_nothing;

-- A producer needs no other privileges for unique keys.
CREATE ROLE regress_jobq_unique;
SELECT jobq_grant('regress_jobq_unique', 'producer');
SET ROLE regress_jobq_unique;
SELECT jobq_enqueue('unique role', unique_key => 'k') = jobq_enqueue('unique role', unique_key => 'k', on_conflict => 'replace') AS same;
RESET ROLE;
SELECT jobq_revoke('regress_jobq_unique', 'producer');
DROP ROLE regress_jobq_unique;

-- After all of this, the counters match the rows.
SELECT j.queue, count(*) FILTER (WHERE status = 'pending'), count(*) FILTER (WHERE status = 'scheduled'),
       count(*) FILTER (WHERE status = 'processing'), count(*) FILTER (WHERE status = 'blocked'), count(*)
FROM jobq.jobs j WHERE j.queue LIKE 'unique%' GROUP BY j.queue
EXCEPT
SELECT s.queue, s.pending, s.scheduled, s.processing, s.blocked,
       s.pending + s.scheduled + s.processing + s.blocked + s.completed + s.failed + s.cancelled FROM jobq.queue_stats s;
SELECT count(jobq_drop_queue(queue, force => true)) > 0 AS dropped FROM jobq.queues WHERE queue LIKE 'unique%';
SELECT count(*) AS kept FROM jobq.kept_keys;
