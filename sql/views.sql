-- The views for a DBA: jobq.queues, jobq.queue_stats, jobq.background_workers, jobq.attempts.
SELECT jobq_create_queue('views', max_attempts => 3);
SELECT jobq_enqueue('views', '"completed"') > 0 AS enqueued;
SELECT jobq_complete(id, lease) FROM jobq_claim('views', 'w');
SELECT jobq_enqueue('views', '"failed"') > 0 AS enqueued;
SELECT jobq_fail(id, lease, 'no', retry => false) FROM jobq_claim('views', 'w');
SELECT jobq_cancel(jobq_enqueue('views', '"cancelled"'));
SELECT jobq_enqueue('views', '"processing"') > 0 AS enqueued;
SELECT payload FROM jobq_claim('views', 'w', heartbeat_timeout => '1 hour');
SELECT jobq_enqueue('views', '"scheduled"', run_at => '2100-01-01') > 0 AS enqueued;
SELECT jobq_enqueue('views', '"pending"') > 0, jobq_enqueue('views', '"pending too"', run_at => now() - interval '1 hour') > 0;
SELECT jobq_enqueue('views 2', '"elsewhere"') > 0 AS enqueued;

-- Queues in use, and queues with settings.
SELECT queue, paused, max_attempts, has_settings, created_at IS NOT NULL AS has_date FROM jobq.queues WHERE queue LIKE 'views%' ORDER BY queue;
-- For each queue, the jobs by status and the age of the oldest ones.
SELECT queue, scheduled, blocked, pending, processing, completed, failed, cancelled, paused FROM jobq.queue_stats WHERE queue LIKE 'views%' ORDER BY queue;
SELECT queue, oldest_pending_age BETWEEN '1 hour' AND '61 minutes' AS pending_for_an_hour, now() - oldest_heartbeat < '1 minute' AS heard_of_just_now
FROM jobq.queue_stats WHERE queue LIKE 'views%' ORDER BY queue;
-- One row for each attempt that did not complete.
SELECT a.attempt, a.outcome, a.worker_id, a.lease > 0 AS has_lease, a.started_at <= a.finished_at AS in_order, a.error
FROM jobq.attempts a JOIN jobq.jobs j ON j.id = a.job_id WHERE j.queue = 'views';
-- Background workers. If none is running, one row says so.
SELECT count(*) > 0 AS says_something, bool_and(state IS NOT NULL) AS has_state FROM jobq.background_workers;

-- An empty queue with settings has zeros. A queue without settings may be missing after its jobs are deleted.
SELECT jobq_purge_queue('views') AS purged;
SELECT jobq_create_queue('views empty');
SELECT queue, scheduled + blocked + pending + completed + failed + cancelled AS jobs, processing, oldest_pending_age FROM jobq.queue_stats WHERE queue LIKE 'views%' AND queue <> 'views 2' ORDER BY queue;
SELECT count(jobq_drop_queue(queue, force => true)) FROM jobq.queues WHERE queue LIKE 'views%';
