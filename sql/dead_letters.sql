-- Dead letters: in a queue with a dead_letter_queue, a job that fails permanently is moved to that queue. It stays `failed` and
-- keeps its ID, its attempts, and its error. dead_from is its original queue. jobq_redrive() returns it to this queue and runs it
-- again.
CREATE FUNCTION pg_temp.letters() RETURNS TABLE (payload jsonb, queue text, status jobq.job_status, dead_from text, attempts integer, error text) LANGUAGE sql AS
    $$ SELECT payload, queue, status, dead_from, attempts, error FROM jobq.jobs WHERE queue LIKE 'letters%' ORDER BY id $$;
-- Queues whose numbers in jobq.queue_stats do not match the rows.
CREATE FUNCTION pg_temp.differs() RETURNS TABLE (queue text, status text, shown bigint, rows bigint) LANGUAGE sql AS $$
    SELECT coalesce(s.queue, j.queue), coalesce(s.status, j.status), s.shown, j.rows
    FROM (SELECT q.queue, u.status, (to_jsonb(q) ->> u.status)::bigint AS shown
          FROM jobq.queue_stats q, unnest(enum_range(NULL::jobq.job_status)::text[]) u(status) WHERE q.queue LIKE 'letters%') s
    FULL JOIN (SELECT queue, status::text, count(*) AS rows FROM jobq.jobs WHERE queue LIKE 'letters%' GROUP BY 1, 2) j
         ON j.queue = s.queue AND j.status = s.status
    WHERE coalesce(s.shown, 0) <> coalesce(j.rows, 0) ORDER BY 1, 2 $$;
SELECT count(*) FROM jobq_tick() WHERE duty = 'reconcile';

-- The dead letter queue is a setting of the queue. It does not have to be created.
SELECT jobq_create_queue('letters', max_attempts => 2, dead_letter_queue => 'letters dead');
SELECT queue, dead_letter_queue FROM jobq.queues WHERE queue LIKE 'letters%';
SELECT jobq_enqueue('letters', '1', kind => 'mail') AS id \gset
-- A failed job with attempts left is not moved.
SELECT jobq_fail(id, lease, 'first', retry_in => '0') FROM jobq_claim('letters', 'w');
SELECT * FROM pg_temp.letters();
-- A permanent failure moves the job in the same transaction. The answer is the same as without a dead letter queue.
SELECT jobq_fail(id, lease, 'second') FROM jobq_claim('letters', 'w');
SELECT * FROM pg_temp.letters();
SELECT id = :id AS same_id, finished_at IS NOT NULL AS finished, _lane = jobq.lane_of(queue, kind, version, requires) AS lane_fits FROM jobq.jobs WHERE queue = 'letters dead';
SELECT attempt, outcome, error FROM jobq.attempts WHERE job_id = :id ORDER BY attempt;
SELECT event, attempt, detail FROM jobq_log(:id);
SELECT queue, pending, processing, failed FROM jobq.queue_stats WHERE queue LIKE 'letters%' ORDER BY queue;
-- It cannot be claimed there.
SELECT count(*) FROM jobq_claim('letters dead');
-- The move is rolled back with the transaction.
SELECT jobq_enqueue('letters', '2') > 0 AS enqueued;
BEGIN;
SELECT jobq_fail(id, lease, 'rolled back', retry => false) FROM jobq_claim('letters', 'w');
SELECT * FROM pg_temp.letters();
SELECT * FROM pg_temp.differs();
ROLLBACK;
SELECT * FROM pg_temp.letters();

-- All causes of a permanent failure: retry => false, a batch, lost workers. A canceled job is not a failed job.
SELECT count(*) FROM jobq_enqueue_many('letters', ARRAY['3', '4', '5', '6']::jsonb[], kind => 'sms');
SELECT jobq_fail(id, lease, 'hopeless', retry => false) FROM jobq_claim('letters', 'w');
SELECT f.status FROM (SELECT array_agg(id) AS ids, array_agg(lease) AS leases FROM jobq_claim('letters', 'w', 2)) c, jobq_fail_many(ids, leases, retry => false) f;
SELECT jobq_alter_queue('letters', max_lost => 1);
SELECT payload FROM jobq_claim('letters', 'w', heartbeat_timeout => '1 hour');
SELECT done > 0 AS rescued FROM tick_alone(now() + interval '2 hours') WHERE duty = 'rescue';
SELECT jobq_cancel(id) FROM jobq.jobs WHERE queue = 'letters' AND payload = '6';
SELECT * FROM pg_temp.letters();
SELECT * FROM pg_temp.differs();

-- Redrive returns dead letters to their original queues, lowest IDs first. They start again without attempts and with all
-- attempts allowed.
SELECT jobq_redrive('letters dead', 2);
SELECT * FROM pg_temp.letters();
SELECT payload, kind, attempt, max_attempts FROM jobq_claim('letters', 'w', 10);
SELECT status, finished_at, _lane = jobq.lane_of(queue, kind, version, requires) AS lane_fits FROM jobq.jobs WHERE id = :id;
-- The log still contains the events before the redrive.
SELECT event, attempt, detail FROM jobq_log(:id);
SELECT * FROM pg_temp.differs();
-- With a rate, the first job is pending and the others are scheduled, here one every 1000 s. No delay may exceed ten years.
SELECT jobq_redrive('letters dead', 10, 1e-300);
SELECT jobq_redrive('letters dead', 10, 1e-9);
SELECT jobq_redrive('letters dead', per_second => 0.001);
SELECT payload, queue, status, run_at - first_value(run_at) OVER (ORDER BY id) AS after_the_first FROM jobq.jobs
WHERE id > :id AND queue LIKE 'letters%' AND status IN ('pending', 'scheduled') ORDER BY id;
SELECT jobq_redrive('letters dead'), jobq_redrive('no such queue'), jobq_redrive('letters');
SELECT * FROM pg_temp.differs();
-- The tick promotes them when they are due.
SELECT done > 0 AS promoted FROM tick_alone(now() + interval '1500 s') WHERE duty = 'promote';
SELECT payload, status FROM jobq.jobs WHERE queue = 'letters' AND kind = 'sms' ORDER BY id;
SELECT jobq_drop_queue('letters', force => true), jobq_drop_queue('letters dead', force => true);

-- jobq_retry and jobq_retry_jobs also return dead letters, but like any retry, they keep the attempts.
SELECT jobq_create_queue('letters', max_attempts => 1, dead_letter_queue => 'letters dead');
SELECT count(*) FROM jobq_enqueue_many('letters', ARRAY['1', '2', '3']::jsonb[]);
SELECT jobq_fail(id, lease, 'error ' || payload::text) FROM jobq_claim('letters', 'w', 3);
SELECT jobq_retry(id) FROM jobq.jobs WHERE queue = 'letters dead' AND payload = '1';
SELECT jobq_retry_jobs('letters dead', error_like => '%2');
SELECT * FROM pg_temp.letters();
SELECT payload, attempt, max_attempts FROM jobq_claim('letters', 'w', 3);
-- A job that failed in the dead letter queue itself is not a dead letter. It can be retried, but not redriven.
SELECT jobq_enqueue('letters dead', '4', max_attempts => 1) > 0 AS enqueued;
SELECT jobq_fail(id, lease, 'its own') FROM jobq_claim('letters dead', 'w');
SELECT jobq_redrive('letters dead');
SELECT jobq_retry_jobs('letters dead');
SELECT * FROM pg_temp.letters();
SELECT * FROM pg_temp.differs();
SELECT jobq_drop_queue('letters', force => true), jobq_drop_queue('letters dead', force => true);

-- A pause only stops claims. Jobs can be moved to and from a paused dead letter queue.
SELECT jobq_create_queue('letters', dead_letter_queue => 'letters dead');
SELECT jobq_pause_queue('letters dead');
SELECT jobq_enqueue('letters', '1') > 0 AS enqueued;
SELECT jobq_fail(id, lease, 'e', retry => false) FROM jobq_claim('letters', 'w');
SELECT * FROM pg_temp.letters();
SELECT jobq_redrive('letters dead');
SELECT payload, queue FROM jobq_claim('letters', 'w');
SELECT jobq_drop_queue('letters', force => true), jobq_drop_queue('letters dead');

-- Several queues may share a dead letter queue. Redrive returns all dead letters, or only the dead letters of a given original queue.
SELECT jobq_create_queue('letters', dead_letter_queue => 'letters dead'), jobq_create_queue('letters 2', dead_letter_queue => 'letters dead');
SELECT jobq_enqueue('letters', '1') > 0, jobq_enqueue('letters 2', '2') > 0, jobq_enqueue('letters', '3') > 0;
SELECT jobq_fail(id, lease, 'e', retry => false) FROM jobq_claim('letters', batch => 2);
SELECT jobq_fail(id, lease, 'e', retry => false) FROM jobq_claim('letters 2');
SELECT * FROM pg_temp.letters();
SELECT jobq_redrive('letters 2');
SELECT * FROM pg_temp.letters();
SELECT jobq_redrive('letters dead');
SELECT * FROM pg_temp.letters();
SELECT count(jobq_drop_queue(queue, force => true)) FROM jobq.queues WHERE queue LIKE 'letters%';

-- Chains and cycles: a dead letter queue may have its own dead letter queue for its own jobs. A dead letter is failed and does
-- not run, so it cannot circulate.
SELECT jobq_create_queue('letters', dead_letter_queue => 'letters dead');
SELECT jobq_create_queue('letters dead', dead_letter_queue => 'letters');
SELECT jobq_enqueue('letters', '1') > 0, jobq_enqueue('letters dead', '2') > 0;
SELECT jobq_fail(id, lease, 'e', retry => false) FROM jobq_claim('letters', 'w');
SELECT jobq_fail(id, lease, 'e', retry => false) FROM jobq_claim('letters dead', 'w');
SELECT * FROM pg_temp.letters();
SELECT jobq_retry_jobs('letters dead'), jobq_redrive('letters');
SELECT * FROM pg_temp.letters();
SELECT * FROM pg_temp.differs();
SELECT jobq_drop_queue('letters', force => true), jobq_drop_queue('letters dead', force => true);

-- A dead letter queue with dead letters is dropped only with force. The next dead letter creates it again, because it is only a
-- name.
SELECT jobq_create_queue('letters', dead_letter_queue => 'letters dead');
SELECT count(*) FROM jobq_enqueue_many('letters', ARRAY['1', '2']::jsonb[]);
SELECT jobq_fail(id, lease, 'e', retry => false) FROM jobq_claim('letters', 'w');
SELECT jobq_drop_queue('letters dead');
SELECT jobq_drop_queue('letters dead', force => true);
SELECT jobq_fail(id, lease, 'e', retry => false) FROM jobq_claim('letters', 'w');
SELECT * FROM pg_temp.letters();
-- If the original queue is dropped, its dead letters stay, and a redrive creates the queue again.
SELECT jobq_drop_queue('letters');
SELECT * FROM pg_temp.letters();
SET jobq.require_queues = on;
SELECT jobq_create_queue('letters dead');
SELECT jobq_redrive('letters dead');
RESET jobq.require_queues;
SELECT jobq_redrive('letters dead');
SELECT * FROM pg_temp.letters();
SELECT payload FROM jobq_claim('letters', 'w');
SELECT jobq_drop_queue('letters', force => true), jobq_drop_queue('letters dead');

-- The retention settings of the queue that contains the job apply. A queue that keeps no jobs itself can still keep its dead
-- letters.
SELECT jobq_create_queue('letters', keep_failed => '0', dead_letter_queue => 'letters dead');
SELECT jobq_create_queue('letters dead', keep_failed => '1 hour');
SELECT count(*) FROM jobq_enqueue_many('letters', ARRAY['1', '2']::jsonb[]);
SELECT jobq_fail(id, lease, 'kept', retry => false) FROM jobq_claim('letters', 'w');
SELECT jobq_cancel(id), jobq_fail(id, lease, 'cancelled, not kept') FROM jobq_claim('letters', 'w');
SELECT * FROM pg_temp.letters();
SELECT done > 0 AS pruned FROM tick_alone(now() + interval '2 hours') WHERE duty = 'prune';
SELECT * FROM pg_temp.letters();
SELECT * FROM pg_temp.differs();
-- A dead letter queue with keep_failed 0 would lose the dead letters, so it is rejected.
SELECT jobq_alter_queue('letters dead', keep_failed => '0');
SELECT jobq_create_queue('letters 3', keep_failed => '0');
SELECT jobq_alter_queue('letters', dead_letter_queue => 'letters 3');
SELECT dead_letter_queue FROM jobq.queues WHERE queue = 'letters';
SELECT jobq_drop_queue('letters'), jobq_drop_queue('letters dead'), jobq_drop_queue('letters 3');

-- With plain SQL: an UPDATE that sets the status to failed moves the job. An INSERT keeps the given queue.
SELECT jobq_create_queue('letters', dead_letter_queue => 'letters dead');
SELECT count(*) FROM jobq_enqueue_many('letters', ARRAY['1', '2', '3', '4']::jsonb[], kind => 'mail');
UPDATE jobq.jobs SET status = 'failed', error = 'by hand' WHERE queue = 'letters';
INSERT INTO jobq.jobs (queue, payload, status) VALUES ('letters', '5', 'failed');
INSERT INTO jobq.jobs (queue, payload, status, dead_from) VALUES ('letters dead', '6', 'failed', 'letters'), ('letters dead', '7', 'pending', 'letters');
SELECT * FROM pg_temp.letters();
-- If an UPDATE makes a dead letter runnable, it returns to its original queue, unless the UPDATE also sets the queue.
UPDATE jobq.jobs SET status = 'pending' WHERE queue = 'letters dead' AND payload = '1';
UPDATE jobq.jobs SET status = 'pending', run_at = '2100-01-01' WHERE queue = 'letters dead' AND payload = '2';
UPDATE jobq.jobs SET status = 'pending', queue = 'letters 2' WHERE queue = 'letters dead' AND payload = '3';
-- A dead letter that is moved to another queue stays a dead letter.
UPDATE jobq.jobs SET queue = 'letters 2' WHERE queue = 'letters dead' AND payload = '4';
SELECT * FROM pg_temp.letters();
SELECT queue, payload, _lane = jobq.lane_of(queue, kind, version, requires) AS lane_fits, _ready AS ready, _due AS due FROM jobq.jobs WHERE queue LIKE 'letters%' ORDER BY id;
SELECT queue, payload FROM jobq_claim('letters', 'w', 10);
SELECT queue, payload FROM jobq_claim('letters 2', 'w', 10);
SELECT jobq_redrive('letters 2'), jobq_redrive('letters dead');
SELECT * FROM pg_temp.letters();
SELECT * FROM pg_temp.differs();
SELECT count(jobq_drop_queue(queue, force => true)) FROM jobq.queues WHERE queue LIKE 'letters%';

-- The setting is changed, kept if jobq_alter_queue does not name it, removed by an empty name, and changed with plain SQL.
SELECT jobq_create_queue('letters', dead_letter_queue => 'letters dead');
SELECT jobq_alter_queue('letters', max_attempts => 1);
SELECT dead_letter_queue FROM jobq.queue_settings WHERE queue = 'letters';
SELECT jobq_alter_queue('letters', dead_letter_queue => '');
SELECT dead_letter_queue FROM jobq.queue_settings WHERE queue = 'letters';
SELECT jobq_enqueue('letters', '1') > 0 AS enqueued;
SELECT jobq_fail(id, lease, 'stays') FROM jobq_claim('letters', 'w');
UPDATE jobq.queue_settings SET dead_letter_queue = 'letters dead' WHERE queue = 'letters';
SELECT jobq_enqueue('letters', '2') > 0 AS enqueued;
SELECT jobq_fail(id, lease, 'goes') FROM jobq_claim('letters', 'w');
SELECT * FROM pg_temp.letters();

-- Bad input changes nothing.
SELECT jobq_alter_queue('letters', dead_letter_queue => 'letters');
SELECT jobq_create_queue('letters 2', dead_letter_queue => repeat('x', 64));
SET jobq.require_queues = on;
SELECT jobq_alter_queue('letters', dead_letter_queue => 'letters nowhere');
SELECT jobq_redrive('letters nowhere');
RESET jobq.require_queues;
SELECT jobq_redrive(NULL);
SELECT jobq_redrive('');
SELECT jobq_redrive('letters dead', NULL);
SELECT jobq_redrive('letters dead', -1);
SELECT jobq_redrive('letters dead', per_second => 0);
\set VERBOSITY terse
UPDATE jobq.queue_settings SET dead_letter_queue = 'letters' WHERE queue = 'letters';
SELECT jobq_redrive('letters dead', per_second => -1);
SELECT jobq_redrive('letters dead', per_second => 'NaN');
SELECT jobq_redrive('letters dead', per_second => 'Infinity');
INSERT INTO jobq.jobs (queue, status, dead_from) VALUES ('letters dead', 'failed', '');
BEGIN READ ONLY;
SELECT jobq_redrive('letters dead');
ROLLBACK;
SELECT jobq_redrive('letters dead', 0);
SELECT * FROM pg_temp.letters();
SELECT count(jobq_drop_queue(queue, force => true)) FROM jobq.queues WHERE queue LIKE 'letters%';

-- A redrive skips a dead letter if the head of its group waits for it, and a notice says why. After the head has finished, the dead
-- letter can be redriven. The test sets the IDs because the notice shows them.
\set VERBOSITY default
INSERT INTO jobq.jobs (id, queue, payload, status, dead_from, group_key)
VALUES (4000000001, 'letters dead', '1', 'failed', 'letters', 'g'), (4000000002, 'letters dead', '2', 'failed', 'letters 2', NULL);
INSERT INTO jobq.jobs (id, queue, payload, group_key) VALUES (4000000003, 'letters', '3', 'g');
SELECT settle();
SELECT jobq_enqueue('letters 2', '4', run_at => '2100-01-01') AS other \gset
SELECT id, lease AS l FROM jobq_claim('letters', 'w', heartbeat_timeout => '1 hour') \gset
SELECT state FROM jobq_await_jobs(:id, :l, ARRAY[4000000001, :other], 'both');
SELECT jobq_redrive('letters dead');
SELECT * FROM pg_temp.letters();
SELECT jobq_cancel(:other), settle();
SELECT jobq_complete(id, lease) FROM jobq_claim('letters', 'w', heartbeat_timeout => '1 hour');
SELECT jobq_redrive('letters dead');
SELECT settle();
SELECT * FROM pg_temp.letters();
SELECT jobq_drop_queue('letters', force => true), jobq_drop_queue('letters 2', force => true);
