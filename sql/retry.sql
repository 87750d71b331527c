-- Failed and lost attempts: when a job runs again, and when it fails permanently.

-- After a failed attempt, the job is scheduled after the backoff: base * 2^(attempt - 1), at most the maximum, +/- 10 %.
SELECT jobq_create_queue('retry', max_attempts => 4, backoff_base => '1 hour', backoff_max => '3 hours', max_lost => 2);
SELECT jobq_enqueue('retry') AS id \gset
CREATE FUNCTION pg_temp.fail_once(job_id bigint, OUT status jobq.job_status, OUT attempt integer, OUT in_range boolean, OUT error text)
LANGUAGE plpgsql AS $$
DECLARE
    expected interval;
BEGIN
    SELECT c.attempt, jobq_fail(c.id, c.lease, 'attempt ' || c.attempt) INTO attempt, status FROM jobq_claim('retry') c;
    expected := least(interval '3 hours', interval '1 hour' * 2 ^ (attempt - 1));
    SELECT j.run_at - clock_timestamp() BETWEEN expected * 0.89 AND expected * 1.11, j.error INTO in_range, error
    FROM jobq.jobs j WHERE j.id = job_id;
    PERFORM jobq_reschedule(job_id, now());
END $$;
SELECT * FROM pg_temp.fail_once(:id);
SELECT * FROM pg_temp.fail_once(:id);
SELECT * FROM pg_temp.fail_once(:id);
-- After the last allowed attempt, the job fails permanently.
SELECT status, attempt, error FROM pg_temp.fail_once(:id);
SELECT status, attempts, error, finished_at IS NOT NULL AS finished, _due, _ready FROM jobq.jobs WHERE id = :id;
SELECT attempt, outcome, error FROM jobq.attempts WHERE job_id = :id ORDER BY attempt;
SELECT count(*) FROM jobq_claim('retry');

-- Jitter: jobs that failed at the same time are not retried at the same time.
SELECT count(*) FROM jobq_enqueue_many('retry', array_fill('1'::jsonb, ARRAY[50]));
SELECT count(*) FILTER (WHERE status = 'scheduled') AS scheduled FROM (SELECT jobq_fail(id, lease) AS status FROM jobq_claim('retry', batch => 50)) f;
SELECT count(DISTINCT run_at) > 40 AS spread, max(run_at) - min(run_at) < interval '13 minutes' AS within_the_jitter
FROM jobq.jobs WHERE queue = 'retry' AND status = 'scheduled';
SELECT jobq_purge_queue('retry');

-- The worker can choose the delay, or prevent a retry.
SELECT count(*) FROM jobq_enqueue_many('retry', ARRAY['1', '2', '3']::jsonb[]);
SELECT jobq_fail(id, lease, 'try again tomorrow', retry_in => '1 day') FROM jobq_claim('retry');
SELECT jobq_fail(id, lease, 'at once', retry_in => '0') FROM jobq_claim('retry');
SELECT payload, attempt FROM jobq_claim('retry');
SELECT jobq_fail(id, lease, 'hopeless', retry => false) FROM jobq_claim('retry');
SELECT payload, status, attempts, error, run_at > now() + interval '23 hours' AS tomorrow FROM jobq.jobs WHERE queue = 'retry' ORDER BY id;
SELECT jobq_cancel_jobs('retry', statuses => '{processing}') AS cancelled;
-- max_attempts 1 allows only one attempt.
SELECT jobq_enqueue('retry', '"once"', max_attempts => 1) > 0 AS enqueued;
SELECT jobq_fail(id, lease, 'once') FROM jobq_claim('retry', 'once');
-- Very long delays end at the largest timestamp.
SELECT jobq_enqueue('retry', '"long"') AS id \gset
SELECT jobq_fail(id, lease, retry_in => '300000 years') FROM jobq_claim('retry');
SELECT run_at > '294000-01-01' AS far FROM jobq.jobs WHERE id = :id;

-- An error text is stored unchanged, up to 32 kB.
SELECT jobq_enqueue('retry', '"text"') AS id \gset
SELECT jobq_fail(id, lease, repeat('x', 100000), retry => false) FROM jobq_claim('retry');
SELECT length(error) FROM jobq.jobs WHERE id = :id;

-- A lost attempt: no heartbeat arrived for the heartbeat timeout. The attempt is counted, and the job is pending again at once,
-- without backoff. After max_lost lost attempts, the job fails. The argument of the tick simulates the time.
SELECT jobq_purge_queue('retry', '{scheduled,failed,cancelled,completed}') > 0 AS purged;
SELECT jobq_enqueue('retry', '"lost"') AS id \gset
SELECT attempt FROM jobq_claim('retry', 'w1', kinds => '{""}', heartbeat_timeout => '1 hour') WHERE id = :id;
SELECT done > 0 AS rescued FROM tick_alone(now() + interval '61 minutes') WHERE duty = 'rescue';
SELECT status, attempts, lost_attempts, _ready AS in_its_old_place, error IS NOT NULL AS says_why FROM jobq.jobs WHERE id = :id;
SELECT attempt FROM jobq_claim('retry', 'w2', heartbeat_timeout => '1 hour') WHERE id = :id;
SELECT done > 0 AS rescued FROM tick_alone(now() + interval '61 minutes') WHERE duty = 'rescue';
SELECT status, attempts, lost_attempts, error LIKE '%max_lost%' AS says_why, finished_at IS NOT NULL AS finished FROM jobq.jobs WHERE id = :id;
SELECT attempt, outcome, worker_id FROM jobq.attempts WHERE job_id = :id ORDER BY attempt;
-- Lost attempts count toward max_attempts.
SELECT jobq_enqueue('retry', '"lost once"', max_attempts => 1) AS id \gset
SELECT attempt FROM jobq_claim('retry', 'w1', heartbeat_timeout => '1 hour') WHERE id = :id;
SELECT done > 0 AS rescued FROM tick_alone(now() + interval '61 minutes') WHERE duty = 'rescue';
SELECT status, error LIKE '%attempts exhausted%' AS says_why FROM jobq.jobs WHERE id = :id;

-- A job with the largest possible number of attempts, which a restore may bring, does not prevent the retry of other jobs.
SELECT jobq_purge_queue('retry', '{scheduled,failed,cancelled,completed}') > 0 AS purged;
INSERT INTO jobq.jobs (queue, status, attempts) VALUES ('retry', 'failed', 1), ('retry', 'failed', 1), ('retry', 'failed', 1);
SELECT min(id) AS id FROM jobq.jobs WHERE queue = 'retry' \gset
SET session_replication_role = replica;
UPDATE jobq.jobs SET attempts = 2147483647 WHERE id = :id;
RESET session_replication_role;
SELECT jobq_retry_jobs('retry');
SELECT status, attempts, max_attempts FROM jobq.jobs WHERE queue = 'retry' ORDER BY id;

SELECT jobq_drop_queue('retry', force => true);
