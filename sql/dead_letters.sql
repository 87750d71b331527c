-- Dead letters: with a dead_letter_queue, a job that fails for good leaves its queue. It stays `failed`, with its id, its
-- attempts and its error; dead_from says where it came from. jobq_redrive() runs it again there.
CREATE FUNCTION pg_temp.letters() RETURNS TABLE (payload jsonb, queue text, status jobq.job_status, dead_from text, attempts integer, error text) LANGUAGE sql AS
    $$ SELECT payload, queue, status, dead_from, attempts, error FROM jobq.jobs WHERE queue LIKE 'letters%' ORDER BY id $$;
-- Queues whose numbers in jobq.queue_stats are not those of the rows.
CREATE FUNCTION pg_temp.differs() RETURNS TABLE (queue text, status text, shown bigint, rows bigint) LANGUAGE sql AS $$
    SELECT coalesce(s.queue, j.queue), coalesce(s.status, j.status), s.shown, j.rows
    FROM (SELECT q.queue, u.status, (to_jsonb(q) ->> u.status)::bigint AS shown
          FROM jobq.queue_stats q, unnest(enum_range(NULL::jobq.job_status)::text[]) u(status) WHERE q.queue LIKE 'letters%') s
    FULL JOIN (SELECT queue, status::text, count(*) AS rows FROM jobq.jobs WHERE queue LIKE 'letters%' GROUP BY 1, 2) j
         ON j.queue = s.queue AND j.status = s.status
    WHERE coalesce(s.shown, 0) <> coalesce(j.rows, 0) ORDER BY 1, 2 $$;
SELECT count(*) FROM jobq_tick() WHERE duty = 'reconcile';

-- It is a setting of the queue. The dead letter queue itself needs no preparation.
SELECT jobq_create_queue('letters', max_attempts => 2, dead_letter_queue => 'letters dead');
SELECT queue, dead_letter_queue FROM jobq.queues WHERE queue LIKE 'letters%';
SELECT jobq_enqueue('letters', '1', kind => 'mail') AS id \gset
-- Fails, but has attempts left: it stays.
SELECT jobq_fail(id, lease, 'first', retry_in => '0') FROM jobq_claim('letters', 'w');
SELECT * FROM pg_temp.letters();
-- Fails for good: it is moved in the same transaction. The answer is the same as without.
SELECT jobq_fail(id, lease, 'second') FROM jobq_claim('letters', 'w');
SELECT * FROM pg_temp.letters();
SELECT id = :id AS same_id, finished_at IS NOT NULL AS finished, _lane = jobq.lane_of(queue, kind, version, requires) AS lane_fits FROM jobq.jobs WHERE queue = 'letters dead';
SELECT attempt, outcome, error FROM jobq.attempts WHERE job_id = :id ORDER BY attempt;
SELECT event, attempt, detail FROM jobq_log(:id);
SELECT queue, pending, processing, failed FROM jobq.queue_stats WHERE queue LIKE 'letters%' ORDER BY queue;
-- Nobody can claim it there.
SELECT count(*) FROM jobq_claim('letters dead');
-- Rolled back with the transaction.
SELECT jobq_enqueue('letters', '2') > 0 AS enqueued;
BEGIN;
SELECT jobq_fail(id, lease, 'rolled back', retry => false) FROM jobq_claim('letters', 'w');
SELECT * FROM pg_temp.letters();
SELECT * FROM pg_temp.differs();
ROLLBACK;
SELECT * FROM pg_temp.letters();

-- Every way to fail for good: told not to retry, in a batch, lost its workers. What has been cancelled has not failed.
SELECT count(*) FROM jobq_enqueue_many('letters', ARRAY['3', '4', '5', '6']::jsonb[], kind => 'sms');
SELECT jobq_fail(id, lease, 'hopeless', retry => false) FROM jobq_claim('letters', 'w');
SELECT f.status FROM (SELECT array_agg(id) AS ids, array_agg(lease) AS leases FROM jobq_claim('letters', 'w', 2)) c, jobq_fail_many(ids, leases, retry => false) f;
SELECT jobq_alter_queue('letters', max_lost => 1);
SELECT payload FROM jobq_claim('letters', 'w', heartbeat_timeout => '1 hour');
SELECT done > 0 AS rescued FROM jobq_tick(now() + interval '2 hours') WHERE duty = 'rescue';
SELECT jobq_cancel(id) FROM jobq.jobs WHERE queue = 'letters' AND payload = '6';
SELECT * FROM pg_temp.letters();
SELECT * FROM pg_temp.differs();

-- Redrive: back to where they came from, lowest ids first, from the beginning: no attempt counted, all of them allowed.
SELECT jobq_redrive('letters dead', 2);
SELECT * FROM pg_temp.letters();
SELECT payload, kind, attempt, max_attempts FROM jobq_claim('letters', 'w', 10);
SELECT status, finished_at, _lane = jobq.lane_of(queue, kind, version, requires) AS lane_fits FROM jobq.jobs WHERE id = :id;
-- What the first life left is still told of.
SELECT event, attempt, detail FROM jobq_log(:id);
SELECT * FROM pg_temp.differs();
-- So many a second: the first now, the others scheduled. One every 1000 s here. Nobody waits for ten years.
SELECT jobq_redrive('letters dead', 10, 1e-300);
SELECT jobq_redrive('letters dead', 10, 1e-9);
SELECT jobq_redrive('letters dead', per_second => 0.001);
SELECT payload, queue, status, run_at - first_value(run_at) OVER (ORDER BY id) AS after_the_first FROM jobq.jobs
WHERE id > :id AND queue LIKE 'letters%' AND status IN ('pending', 'scheduled') ORDER BY id;
SELECT jobq_redrive('letters dead'), jobq_redrive('no such queue'), jobq_redrive('letters');
SELECT * FROM pg_temp.differs();
-- The tick brings them in when they are due.
SELECT done > 0 AS promoted FROM jobq_tick(now() + interval '1500 s') WHERE duty = 'promote';
SELECT payload, status FROM jobq.jobs WHERE queue = 'letters' AND kind = 'sms' ORDER BY id;
SELECT jobq_drop_queue('letters', force => true), jobq_drop_queue('letters dead', force => true);

-- jobq_retry, and jobq_retry_jobs with its filters, bring dead letters back too, as they retry any job: attempts go on.
SELECT jobq_create_queue('letters', max_attempts => 1, dead_letter_queue => 'letters dead');
SELECT count(*) FROM jobq_enqueue_many('letters', ARRAY['1', '2', '3']::jsonb[]);
SELECT jobq_fail(id, lease, 'error ' || payload::text) FROM jobq_claim('letters', 'w', 3);
SELECT jobq_retry(id) FROM jobq.jobs WHERE queue = 'letters dead' AND payload = '1';
SELECT jobq_retry_jobs('letters dead', error_like => '%2');
SELECT * FROM pg_temp.letters();
SELECT payload, attempt, max_attempts FROM jobq_claim('letters', 'w', 3);
-- A failed job that was always there is no dead letter: retried there, not redriven.
SELECT jobq_enqueue('letters dead', '4', max_attempts => 1) > 0 AS enqueued;
SELECT jobq_fail(id, lease, 'its own') FROM jobq_claim('letters dead', 'w');
SELECT jobq_redrive('letters dead');
SELECT jobq_retry_jobs('letters dead');
SELECT * FROM pg_temp.letters();
SELECT * FROM pg_temp.differs();
SELECT jobq_drop_queue('letters', force => true), jobq_drop_queue('letters dead', force => true);

-- Paused queues: a pause stops claims, nothing else. Jobs are moved to and from a paused dead letter queue.
SELECT jobq_create_queue('letters', dead_letter_queue => 'letters dead');
SELECT jobq_pause_queue('letters dead');
SELECT jobq_enqueue('letters', '1') > 0 AS enqueued;
SELECT jobq_fail(id, lease, 'e', retry => false) FROM jobq_claim('letters', 'w');
SELECT * FROM pg_temp.letters();
SELECT jobq_redrive('letters dead');
SELECT payload, queue FROM jobq_claim('letters', 'w');
SELECT jobq_drop_queue('letters', force => true), jobq_drop_queue('letters dead');

-- Several queues may share a dead letter queue. Redriven by its name, all go home; by the name of one, those of that one.
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

-- Chains and circles: the dead letter queue may have one of its own, for jobs of its own. A dead letter has failed and
-- does not run, so nothing goes round.
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

-- A dead letter queue is dropped with its letters only if forced. The next dead letter makes it again: it is a name.
SELECT jobq_create_queue('letters', dead_letter_queue => 'letters dead');
SELECT count(*) FROM jobq_enqueue_many('letters', ARRAY['1', '2']::jsonb[]);
SELECT jobq_fail(id, lease, 'e', retry => false) FROM jobq_claim('letters', 'w');
SELECT jobq_drop_queue('letters dead');
SELECT jobq_drop_queue('letters dead', force => true);
SELECT jobq_fail(id, lease, 'e', retry => false) FROM jobq_claim('letters', 'w');
SELECT * FROM pg_temp.letters();
-- The queue that they came from is dropped: its dead letters stay, and make it again when they go back.
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

-- Retention is that of the queue where the job is: one that keeps nothing itself keeps its dead letters nevertheless.
SELECT jobq_create_queue('letters', keep_failed => '0', dead_letter_queue => 'letters dead');
SELECT jobq_create_queue('letters dead', keep_failed => '1 hour');
SELECT count(*) FROM jobq_enqueue_many('letters', ARRAY['1', '2']::jsonb[]);
SELECT jobq_fail(id, lease, 'kept', retry => false) FROM jobq_claim('letters', 'w');
SELECT jobq_cancel(id), jobq_fail(id, lease, 'cancelled, not kept') FROM jobq_claim('letters', 'w');
SELECT * FROM pg_temp.letters();
-- A tick passes over the prune while the background worker is at it: wait for its end, and keep it out.
BEGIN;
SELECT count(*) FROM (SELECT FROM jobq.tick_state FOR UPDATE) t;
SELECT done > 0 AS pruned FROM tick_alone(now() + interval '2 hours') WHERE duty = 'prune';
COMMIT;
SELECT * FROM pg_temp.letters();
SELECT * FROM pg_temp.differs();
-- A dead letter queue that keeps nothing would lose them: refused.
SELECT jobq_alter_queue('letters dead', keep_failed => '0');
SELECT jobq_create_queue('letters 3', keep_failed => '0');
SELECT jobq_alter_queue('letters', dead_letter_queue => 'letters 3');
SELECT dead_letter_queue FROM jobq.queues WHERE queue = 'letters';
SELECT jobq_drop_queue('letters'), jobq_drop_queue('letters dead'), jobq_drop_queue('letters 3');

-- By hand. A job whose status is set to failed is moved like any other; INSERT keeps what it is given.
SELECT jobq_create_queue('letters', dead_letter_queue => 'letters dead');
SELECT count(*) FROM jobq_enqueue_many('letters', ARRAY['1', '2', '3', '4']::jsonb[], kind => 'mail');
UPDATE jobq.jobs SET status = 'failed', error = 'by hand' WHERE queue = 'letters';
INSERT INTO jobq.jobs (queue, payload, status) VALUES ('letters', '5', 'failed');
INSERT INTO jobq.jobs (queue, payload, status, dead_from) VALUES ('letters dead', '6', 'failed', 'letters'), ('letters dead', '7', 'pending', 'letters');
SELECT * FROM pg_temp.letters();
-- A dead letter that is set to run again goes home; unless the same UPDATE puts it into a queue.
UPDATE jobq.jobs SET status = 'pending' WHERE queue = 'letters dead' AND payload = '1';
UPDATE jobq.jobs SET status = 'pending', run_at = '2100-01-01' WHERE queue = 'letters dead' AND payload = '2';
UPDATE jobq.jobs SET status = 'pending', queue = 'letters 2' WHERE queue = 'letters dead' AND payload = '3';
-- Moved on, it is still a dead letter.
UPDATE jobq.jobs SET queue = 'letters 2' WHERE queue = 'letters dead' AND payload = '4';
SELECT * FROM pg_temp.letters();
SELECT queue, payload, _lane = jobq.lane_of(queue, kind, version, requires) AS lane_fits, _ready AS ready, _due AS due FROM jobq.jobs WHERE queue LIKE 'letters%' ORDER BY id;
SELECT queue, payload FROM jobq_claim('letters', 'w', 10);
SELECT queue, payload FROM jobq_claim('letters 2', 'w', 10);
SELECT jobq_redrive('letters 2'), jobq_redrive('letters dead');
SELECT * FROM pg_temp.letters();
SELECT * FROM pg_temp.differs();
SELECT count(jobq_drop_queue(queue, force => true)) FROM jobq.queues WHERE queue LIKE 'letters%';

-- The setting: altered, kept by an alter that does not name it, taken away by an empty name, changed by plain SQL.
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
