-- Cancellation. A waiting job is canceled at once. A running job is first asked to stop: its heartbeats return `cancel`, and its
-- worker has jobq.cancel_grace to stop. After that, the job is canceled and its lease is lost.
SELECT count(*) FROM jobq_enqueue_many('cancel', ARRAY['1', '2', '3', '4', '5', '6', '7']::jsonb[]);
SELECT jobq_enqueue('cancel', '"later"', run_at => '2100-01-01') AS later \gset
SELECT jobq_cancel(:later), jobq_cancel(:later) AS again;
SELECT status, finished_at IS NOT NULL AS finished, _due, cancel_requested_at IS NOT NULL AS asked FROM jobq.jobs WHERE id = :later;

-- Cancellation of seven running jobs is requested. They keep running, and their workers keep the leases.
CREATE TEMPORARY TABLE held AS SELECT id, lease, payload::text::int AS n FROM jobq_claim('cancel', 'w', batch => 7, heartbeat_timeout => '1 hour');
SELECT DISTINCT jobq_heartbeat(id, lease) FROM held;
SELECT jobq_cancel(id) FROM held WHERE n = 1;
SELECT jobq_cancel_jobs('cancel') AS asked;
-- A second request changes nothing and is not counted, so a loop that repeats the call until it returns 0 ends.
SELECT cancel_requested_at AS first_asked FROM jobq.jobs WHERE id = (SELECT id FROM held WHERE n = 1) \gset
SELECT jobq_cancel(id) FROM held WHERE n = 1;
SELECT cancel_requested_at = :'first_asked' AS as_before FROM jobq.jobs WHERE id = (SELECT id FROM held WHERE n = 1);
SELECT jobq_cancel_jobs('cancel') AS asked;
SELECT status, count(*), count(lease) AS leased FROM jobq.jobs WHERE queue = 'cancel' GROUP BY status ORDER BY status;

-- All heartbeat functions return `cancel`, every time.
SELECT jobq_heartbeat(id, lease) FROM held WHERE n = 1;
SELECT DISTINCT state FROM jobq_heartbeat_many((SELECT array_agg(id) FROM held), (SELECT array_agg(lease) FROM held));
SELECT state, count(*) FROM jobq_heartbeat_worker('w') GROUP BY state;

-- The worker completes the job nevertheless. The job is completed, with its result.
SELECT jobq_complete(id, lease, '"done"') FROM held WHERE n = 1;
-- The worker fails, releases, or snoozes the job. The job is canceled and does not run again, even if it has attempts left.
SELECT jobq_fail(id, lease, 'stopped half way', retry_in => '0 s') FROM held WHERE n = 2;
SELECT jobq_release(id, lease) FROM held WHERE n = 3;
SELECT jobq_snooze(id, '1 hour', lease) FROM held WHERE n = 4;
SELECT f.status FROM held, jobq_fail_many(ARRAY[id], ARRAY[lease], ARRAY['stopped']) f WHERE n = 5;
SELECT h.n, j.status, j.result, j.error, j.lease, j.finished_at IS NOT NULL AS finished, a.outcome
FROM held h JOIN jobq.jobs j USING (id) LEFT JOIN jobq.attempts a ON a.job_id = j.id WHERE h.n <= 5 ORDER BY h.n;
SELECT count(*) FROM jobq_claim('cancel');

-- The worker dies. The rescue cancels the job instead of making it pending.
BEGIN;
SELECT done AS rescued FROM jobq_tick(clock_timestamp() + interval '59 min') WHERE duty = 'rescue';
ROLLBACK;
BEGIN;
SET LOCAL jobq.cancel_grace = '10 h';
SELECT done AS rescued FROM jobq_tick(clock_timestamp() + interval '61 min') WHERE duty = 'rescue';
SELECT DISTINCT j.status, a.outcome, a.error FROM held h JOIN jobq.jobs j USING (id) JOIN jobq.attempts a ON a.job_id = j.id WHERE h.n >= 6;
ROLLBACK;

-- The worker ignores the request and keeps sending heartbeats. After the grace period, the job is canceled and the lease is lost,
-- so no report of this worker changes anything.
SHOW jobq.cancel_grace;
BEGIN;
UPDATE jobq.jobs SET last_heartbeat = clock_timestamp() + interval '1 min' WHERE queue = 'cancel' AND status = 'processing';
SELECT duty, done FROM jobq_tick(:'first_asked'::timestamptz + interval '59 s') WHERE duty IN ('rescue', 'cancel');
SELECT duty, done FROM jobq_tick(clock_timestamp() + interval '1 min') WHERE duty IN ('rescue', 'cancel');
SELECT h.n, j.status, j.error, j.lease, j._rescue_indexed, a.outcome, a.lease = h.lease AS its_lease, a.error = j.error AS says_why
FROM held h JOIN jobq.jobs j USING (id) JOIN jobq.attempts a ON a.job_id = j.id WHERE h.n >= 6 ORDER BY h.n;
SELECT n, jobq_heartbeat(id, lease), jobq_complete(id, lease, '"too late"'), jobq_fail(id, lease, 'too late'), jobq_release(id, lease), jobq_snooze(id, '1 h', lease)
FROM held WHERE n >= 6 ORDER BY n;
SELECT event, attempt, worker_id, detail FROM jobq_log((SELECT id FROM held WHERE n = 6));
-- A manual tick uses the grace period of its session, not that of the background worker.
SAVEPOINT own_grace;
SELECT jobq_enqueue('cancel own', '1') AS own \gset
SELECT count(*) FROM jobq_claim('cancel own', heartbeat_timeout => '1 hour');
SELECT jobq_cancel(:own);
SELECT done FROM jobq_tick() WHERE duty = 'cancel';
SET LOCAL jobq.cancel_grace = '0';
SELECT done FROM jobq_tick() WHERE duty = 'cancel';
SELECT status FROM jobq.jobs WHERE id = :own;
ROLLBACK TO own_grace;
-- An operator can retry the job. The cancellation leaves no trace, and the job gets a new lease.
SELECT jobq_retry(id) FROM held WHERE n = 6;
SELECT c.attempt, c.lease <> h.lease AS new_lease, jobq_heartbeat(c.id, c.lease), jobq_heartbeat(h.id, h.lease) AS old_worker
FROM jobq_claim('cancel') c JOIN held h USING (id);
ROLLBACK;

-- With a grace period of 0, the next tick cancels the job.
BEGIN;
SET LOCAL jobq.cancel_grace = 0;
SELECT done AS cancelled FROM jobq_tick(clock_timestamp()) WHERE duty = 'cancel';
ROLLBACK;

-- With plain SQL: setting cancel_requested_at requests cancellation, and the status 'cancelled' cancels the job at once.
SELECT jobq_enqueue('cancel', '"by hand"') AS id \gset
SELECT lease FROM jobq_claim('cancel', 'w', kinds => '{""}', heartbeat_timeout => '1 hour') WHERE id = :id \gset
UPDATE jobq.jobs SET cancel_requested_at = clock_timestamp() WHERE id = :id;
SELECT jobq_heartbeat(:id, :lease);
BEGIN;
SELECT done > 0 AS cancelled FROM jobq_tick(clock_timestamp() + interval '1 min') WHERE duty = 'cancel';
SELECT status, jobq_heartbeat(:id, :lease) FROM jobq.jobs WHERE id = :id;
ROLLBACK;
-- The request is withdrawn with plain SQL.
UPDATE jobq.jobs SET cancel_requested_at = NULL WHERE id = :id;
SELECT jobq_heartbeat(:id, :lease);
BEGIN;
UPDATE jobq.jobs SET status = 'cancelled' WHERE id = :id;
SELECT status, lease, finished_at IS NOT NULL AS finished, jobq_heartbeat(:id, :lease) FROM jobq.jobs WHERE id = :id;
ROLLBACK;

-- If the queue keeps no finished jobs, a canceled job is deleted.
SELECT jobq_create_queue('cancel unkept', keep_failed => '0');
SELECT jobq_enqueue('cancel unkept') AS id \gset
SELECT lease FROM jobq_claim('cancel unkept', 'w', heartbeat_timeout => '1 hour') \gset
SELECT jobq_cancel(:id);
SELECT done > 0 AS cancelled FROM jobq_tick(clock_timestamp() + interval '61 s') WHERE duty = 'cancel';
SELECT count(*) AS jobs, (SELECT count(*) FROM jobq.attempts WHERE job_id = :id) AS attempts FROM jobq.jobs WHERE id = :id;

-- A waiting job and its attempts are deleted at once, however it is canceled. The call returns the final status.
SELECT count(*) FROM jobq_enqueue_many('cancel unkept', ARRAY['1', '2', '3', '4', '5']::jsonb[], kind => 'waits');
SELECT count(jobq_fail(id, lease, 'e', retry_in => '0')) FROM jobq_claim('cancel unkept', batch => 5);
SELECT jobq_cancel(id) FROM jobq.jobs WHERE queue = 'cancel unkept' AND payload = '1';
SELECT jobq_cancel_jobs('cancel unkept', max_jobs => 1) AS cancelled;
UPDATE jobq.jobs SET status = 'cancelled' WHERE queue = 'cancel unkept' AND payload = '3' RETURNING status;
UPDATE jobq.jobs SET status = 'failed' WHERE queue = 'cancel unkept' AND payload = '4' RETURNING status;
UPDATE jobq.jobs SET status = 'completed' WHERE queue = 'cancel unkept' AND payload = '5' RETURNING status;
SELECT j.payload, j.status, count(a.*) AS attempts FROM jobq.jobs j LEFT JOIN jobq.attempts a ON a.job_id = j.id WHERE j.queue = 'cancel unkept' GROUP BY j.id;
SELECT count(*) AS attempts FROM jobq.attempts a WHERE NOT EXISTS (SELECT FROM jobq.jobs j WHERE j.id = a.job_id);
SELECT pending, completed, failed, cancelled FROM jobq.queue_stats WHERE queue = 'cancel unkept';
-- After a rollback, nothing has been deleted. keep_completed does not apply to canceled jobs.
SELECT jobq_alter_queue('cancel unkept', keep_completed => '0');
SELECT jobq_retry(id) FROM jobq.jobs WHERE queue = 'cancel unkept';
BEGIN;
SELECT jobq_cancel(id) FROM jobq.jobs WHERE queue = 'cancel unkept';
SELECT count(*) FROM jobq.jobs WHERE queue = 'cancel unkept';
ROLLBACK;
SELECT count(*) FROM jobq.jobs WHERE queue = 'cancel unkept';
UPDATE jobq.jobs SET status = 'completed' WHERE queue = 'cancel unkept';
SELECT count(*) FROM jobq.jobs WHERE queue = 'cancel unkept';
SELECT pending, completed, failed, cancelled FROM jobq.queue_stats WHERE queue = 'cancel unkept';

SELECT jobq_drop_queue('cancel', force => true), jobq_drop_queue('cancel unkept', force => true);
