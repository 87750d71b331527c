-- jobq_log(id): the history of a job, one event per row, in order of time. It is computed from the job and its attempts.
SELECT jobq_create_queue('history', max_lost => 3);
CREATE FUNCTION pg_temp.log(job_id bigint) RETURNS TABLE (event text, attempt integer, worker_id text, detail text) LANGUAGE sql AS
    'SELECT l.event, l.attempt, l.worker_id, replace(l.detail, '' by '' || session_user, '' by operator'') FROM jobq_log(job_id) l';
-- Every event has a time, and the events are in order of time.
CREATE FUNCTION pg_temp.in_order(job_id bigint) RETURNS boolean LANGUAGE sql AS
    'SELECT count(*) > 0 AND count(l.at) = count(*) AND array_agg(l.at) = array_agg(l.at ORDER BY l.at) FROM jobq_log(job_id) l';

-- A job that completes in its first attempt.
SELECT jobq_enqueue('history', '1') AS id \gset
SELECT * FROM pg_temp.log(:id);
SELECT lease FROM jobq_claim('history', 'w1') \gset
SELECT * FROM pg_temp.log(:id);
SELECT jobq_heartbeat(:id, :lease);
SELECT * FROM pg_temp.log(:id);
SELECT jobq_complete(:id, :lease);
SELECT * FROM pg_temp.log(:id);
SELECT pg_temp.in_order(:id);
-- A completed job that is retried: the log still contains its attempt, but no longer the completion.
SELECT jobq_retry(:id);
SELECT * FROM pg_temp.log(:id);
SELECT jobq_delete(:id);
SELECT * FROM pg_temp.log(:id);

-- All ways in which an attempt can end. The times are the same as in the tables.
SELECT jobq_enqueue('history', '2', run_at => now() - interval '1 hour') AS id \gset
SELECT jobq_release(id, lease) FROM jobq_claim('history', 'w1');
SELECT jobq_snooze(id, '0', lease) FROM jobq_claim('history', 'w1');
SELECT jobq_fail(id, lease, 'mailbox full', retry_in => '0') FROM jobq_claim('history', 'w2');
SELECT attempt FROM jobq_claim('history', 'w3', heartbeat_timeout => '1 hour');
BEGIN;
UPDATE jobq.jobs SET last_heartbeat = last_heartbeat - interval '2 hours' WHERE id = :id;
SELECT done > 0 AS rescued FROM jobq_tick() WHERE duty = 'rescue';
COMMIT;
SELECT jobq_fail(id, lease, 'no such mailbox', retry => false) FROM jobq_claim('history', 'w2');
SELECT * FROM pg_temp.log(:id);
SELECT pg_temp.in_order(:id);
SELECT l.event, l.at = j.created_at AS enqueued, l.at = j.finished_at AS finished FROM jobq.jobs j, jobq_log(j.id) l
WHERE j.id = :id AND l.event IN ('enqueued', 'failed');
-- No event of an attempt is missing or duplicated.
SELECT count(*) FILTER (WHERE l.event = 'claimed') AS claimed, count(*) FILTER (WHERE l.event LIKE 'attempt %') AS ended,
       (SELECT count(*) FROM jobq.attempts a WHERE a.job_id = :id) AS attempts FROM jobq_log(:id) l;

-- A scheduled job: the last row has the time when it is due.
SELECT jobq_enqueue('history', '3', run_at => '2100-01-01') AS id \gset
SELECT event, at = '2100-01-01' AS in_2100 FROM jobq_log(:id);
SELECT jobq_cancel(:id);
SELECT * FROM pg_temp.log(:id);

-- Cancellation of a running job is requested. The worker stops, and the job is canceled.
SELECT jobq_enqueue('history', '4') AS id \gset
SELECT lease FROM jobq_claim('history', 'w1', heartbeat_timeout => '1 hour') \gset
SELECT jobq_cancel(:id);
SELECT * FROM pg_temp.log(:id);
SELECT jobq_fail(:id, :lease, 'stopped');
SELECT * FROM pg_temp.log(:id);
SELECT pg_temp.in_order(:id);

-- A cancellation by jobq has a reason. A cancellation by an operator has no reason, and does not show the error of an earlier
-- attempt.
SELECT jobq_alter_queue('history', max_depth => 1, on_full => 'drop_oldest');
SELECT jobq_enqueue('history', '6') AS id \gset
SELECT jobq_fail(id, lease, 'mailbox full', retry_in => '0') FROM jobq_claim('history', 'w1');
SELECT jobq_enqueue('history', '7') AS next \gset
SELECT * FROM pg_temp.log(:id);
SELECT jobq_retry(:id);
SELECT jobq_fail(id, lease, 'mailbox full', retry_in => '1 day') FROM jobq_claim('history', 'w1', batch => 2);
SELECT jobq_cancel(:id);
SELECT event, detail FROM pg_temp.log(:id) WHERE event = 'cancelled';
UPDATE jobq.jobs SET status = 'cancelled' WHERE id = :next;
SELECT event, detail FROM pg_temp.log(:next) WHERE event = 'cancelled';

-- Changes with plain SQL: without a row in jobq.attempts, the event comes from the job itself.
SELECT jobq_enqueue('history', '5') AS id \gset
SELECT count(*) FROM jobq_claim('history', 'w1', heartbeat_timeout => '1 hour');
UPDATE jobq.jobs SET status = 'failed', error = 'given up by hand' WHERE id = :id;
SELECT * FROM pg_temp.log(:id);
INSERT INTO jobq.jobs (queue, status, finished_at, created_at) VALUES ('history', 'completed', '2001-01-02', '2001-01-01') RETURNING id \gset
SELECT event, attempt, at::date FROM jobq_log(:id);

-- Bad input, and the privileges to call the function.
SELECT * FROM jobq_log(NULL);
SELECT count(*) FROM jobq_log(-1);
SELECT has_function_privilege('pg_monitor', 'jobq_log(bigint)', 'EXECUTE') AS monitors,
       EXISTS (SELECT FROM pg_proc p, aclexplode(p.proacl) a WHERE p.oid = 'jobq_log(bigint)'::regprocedure AND a.grantee = 0) AS everybody;
SELECT jobq_drop_queue('history', force => true);
