-- Queues: any name is allowed. A queue with its own settings has a row in jobq.queue_settings.
CREATE FUNCTION pg_temp.settings(name text) RETURNS SETOF jobq.queue_settings LANGUAGE sql AS
    'SELECT * FROM jobq.queue_settings WHERE queue = name';

SELECT jobq_create_queue('queues', max_attempts => 3, backoff_base => '2 s', keep_failed => '30 days');
\x on
SELECT queue, paused, max_attempts, backoff_base, backoff_max, heartbeat_timeout, max_lost, keep_completed, keep_failed FROM pg_temp.settings('queues');
-- Settings that are NULL have their defaults.
SELECT queue, paused, max_attempts, backoff_base, backoff_max, heartbeat_timeout, max_lost, keep_completed, keep_failed, has_settings FROM jobq.queues WHERE queue = 'queues';
\x off
SELECT jobq_create_queue('queues');
-- jobq_alter_queue changes the given settings and keeps the others. A queue without settings gets a row.
SELECT jobq_alter_queue('queues', heartbeat_timeout => '5 minutes', max_attempts => 4);
SELECT max_attempts, backoff_base, heartbeat_timeout, keep_failed FROM pg_temp.settings('queues');
SELECT jobq_alter_queue('queues 2', max_lost => 1);
SELECT max_lost, max_attempts FROM pg_temp.settings('queues 2');

-- A change takes effect at once: max_attempts for new jobs, the other settings also for existing jobs.
SELECT jobq_enqueue('queues', '1') > 0 AS enqueued;
SELECT jobq_alter_queue('queues', max_attempts => 9);
SELECT jobq_enqueue('queues', '2') > 0, jobq_enqueue('queues', '3', max_attempts => 1) > 0;
SELECT payload, max_attempts, heartbeat_seconds FROM jobq_claim('queues', batch => 3);
-- The settings can be changed with plain SQL.
UPDATE jobq.queue_settings SET max_attempts = 5, paused = true WHERE queue = 'queues';
SELECT jobq_enqueue('queues', '4') > 0 AS enqueued;
SELECT payload, max_attempts FROM jobq_claim('queues');
DELETE FROM jobq.queue_settings WHERE queue = 'queues';
SELECT payload, max_attempts FROM jobq_claim('queues');
-- A change is rolled back with its transaction.
BEGIN;
SELECT jobq_create_queue('queues', max_attempts => 2);
SELECT jobq_enqueue('queues', '5') > 0 AS enqueued;
SELECT max_attempts FROM jobq.jobs WHERE queue = 'queues' AND payload = '5';
ROLLBACK;
SELECT jobq_enqueue('queues', '6') > 0 AS enqueued;
SELECT max_attempts FROM jobq.jobs WHERE queue = 'queues' AND payload = '6';

-- Pause and resume return true if they changed something. A pause creates a row of settings.
SELECT jobq_pause_queue('queues'), jobq_pause_queue('queues');
SELECT paused, max_attempts FROM pg_temp.settings('queues');
SELECT payload FROM jobq_claim('queues');
SELECT jobq_enqueue('queues', '7') > 0 AS enqueue_works;
SELECT jobq_resume_queue('queues'), jobq_resume_queue('queues');
SELECT paused FROM pg_temp.settings('queues');
SELECT payload FROM jobq_claim('queues', batch => 10);

-- Purge deletes jobs that are not running, either all of them or by status.
SELECT count(*) FROM jobq_enqueue_many('queues', ARRAY['8', '9']::jsonb[]);
SELECT jobq_enqueue('queues', '10', run_at => '2100-01-01') > 0 AS enqueued;
SELECT jobq_purge_queue('queues', '{pending,completed}');
SELECT status, count(*) FROM jobq.jobs WHERE queue = 'queues' GROUP BY status ORDER BY status;
SELECT jobq_purge_queue('queues'), jobq_purge_queue('queues'), jobq_purge_queue('no such queue');
SELECT status, count(*) FROM jobq.jobs WHERE queue = 'queues' GROUP BY status ORDER BY status;

-- A queue with unfinished jobs is dropped only with force. Its finished jobs, attempts, and settings are deleted, too.
SELECT jobq_drop_queue('queues');
SELECT jobq_drop_queue('queues', force => true);
SELECT jobq_drop_queue('queues'), jobq_drop_queue('queues 2'), jobq_drop_queue('no such queue');
SELECT count(*) FROM jobq.jobs WHERE queue = 'queues';
SELECT count(*) FROM jobq.queues WHERE queue LIKE 'queues%';
-- The name can be used again, with the defaults.
SELECT jobq_enqueue('queues', '"again"') > 0 AS enqueued;
SELECT payload, max_attempts FROM jobq_claim('queues');
SELECT jobq_drop_queue('queues', force => true);

-- With keep 0, a finished job and its attempts are deleted at once. The answers are the same.
SELECT jobq_create_queue('queues', keep_completed => '0', keep_failed => '0', max_attempts => 2);
SELECT count(*) FROM jobq_enqueue_many('queues', ARRAY['1', '2', '3', '4']::jsonb[]);
SELECT jobq_complete(id, lease, '1') FROM jobq_claim('queues');
SELECT jobq_fail(id, lease, 'once', retry_in => '0') FROM jobq_claim('queues');
SELECT jobq_fail(id, lease, 'hopeless', retry => false) FROM jobq_claim('queues');
SELECT c.completed FROM (SELECT array_agg(id) AS ids, array_agg(lease) AS leases FROM jobq_claim('queues')) h, jobq_complete_many(ids, leases) c;
SELECT jobq_fail(id, lease, 'twice') FROM jobq_claim('queues');
SELECT payload, status FROM jobq.jobs WHERE queue = 'queues';
SELECT count(*) AS attempts_left FROM jobq.attempts a WHERE NOT EXISTS (SELECT FROM jobq.jobs j WHERE j.id = a.job_id);
SELECT jobq_drop_queue('queues', force => true);

-- jobq.require_queues: queues that were not created are rejected.
SET jobq.require_queues = on;
SELECT jobq_enqueue('queues');
\set VERBOSITY terse
SELECT * FROM jobq_enqueue_many('queues', ARRAY['1']::jsonb[]);
SELECT * FROM jobq_enqueue_jobs('[{"queue": "queues"}]');
SELECT * FROM jobq_claim('queues');
SELECT * FROM jobq_claim_any('{queues}');
SELECT jobq_pause_queue('queues');
SELECT jobq_alter_queue('queues', max_lost => 2);
SELECT jobq_purge_queue('queues');
SELECT jobq_cancel_jobs('queues');
\set VERBOSITY default
SELECT jobq_create_queue('queues');
SELECT jobq_enqueue('queues', '"known"') > 0 AS enqueued;
SELECT payload FROM jobq_claim('queues');
SELECT jobq_drop_queue('queues', force => true);
RESET jobq.require_queues;

-- jobq.max_queues: an enqueue creates a new queue only if the database has fewer queues. A known queue is not new.
SELECT jobq_create_queue('queues');
SET jobq.max_queues = 0;
SELECT jobq_enqueue('queues') > 0 AS known;
SELECT jobq_enqueue('queues', kind => 'another') > 0 AS known;
SELECT jobq_enqueue('queues new');
SELECT count(*) + 2 AS two_more FROM jobq.queues \gset
SET jobq.max_queues = :two_more;
\set VERBOSITY sqlstate
SELECT jobq_enqueue('queues new 1') > 0 AS first;
SELECT count(*) FROM jobq_enqueue_jobs('[{"queue": "queues new 2"}, {"queue": "queues new 3"}]');
INSERT INTO jobq.jobs (queue) VALUES ('queues new 2'), ('queues new 3');
SELECT jobq_enqueue('queues new 2', unique_key => 'k') > 0 AS second;
SELECT jobq_enqueue('queues new 3', unique_key => 'k') > 0 AS third;
CREATE ROLE namer;
SET ROLE namer;
SET jobq.max_queues = -1;
RESET ROLE;
DROP ROLE namer;
\set VERBOSITY default
RESET jobq.max_queues;
SELECT jobq_drop_queue(n, force => true) FROM unnest('{queues,queues new 1,queues new 2}'::text[]) n;

-- On a standby or in a read-only transaction, a claim raises an error even if there are no jobs.
BEGIN READ ONLY;
SELECT * FROM jobq_claim('queues');
ROLLBACK;
-- Running jobs are not purged.
\set VERBOSITY terse
SELECT jobq_purge_queue('queues', '{processing}');
\set VERBOSITY default

-- A queue is purged in batches, oldest jobs first, until no jobs are left.
SELECT count(*) FROM jobq_enqueue_many('pieces', (SELECT array_agg(to_jsonb(n)) FROM generate_series(1, 25) n));
SELECT jobq_purge_queue('pieces', max_jobs => 10) AS purged, jobq_purge_queue('pieces', '{failed}', 10) AS failed, jobq_purge_queue('pieces', max_jobs => 0) AS none;
SELECT min(payload::text::int), count(*) FROM jobq.jobs WHERE queue = 'pieces';
SELECT jobq_purge_queue('pieces', max_jobs => 10) AS second, jobq_purge_queue('pieces', max_jobs => 10) AS third, jobq_purge_queue('pieces', max_jobs => 10) AS last;
SELECT jobq_purge_queue('pieces', max_jobs => -1);
SELECT jobq_drop_queue('pieces');
