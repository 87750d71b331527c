-- If a queue is unknown, probably because of a typo, a NOTICE says so and suggests the most similar known name.
\set VERBOSITY default
SELECT jobq_enqueue('emails') > 0 AS enqueued;
SELECT jobq_create_queue('reports', dead_letter_queue => 'dead reports');

-- Calls that would do nothing
SELECT jobq_resume_queue('email');
SELECT jobq_drop_queue('emial');
SELECT jobq_purge_queue('emaisl');
SELECT jobq_retry_jobs('Emails');
SELECT jobq_cancel_jobs('emails2');
SELECT jobq_reschedule_jobs('eamils', now() + interval '1 hour');
SELECT jobq_delete_jobs('report');
SELECT jobq_redrive('dead report');
SELECT jobq_set_limit('e-mails');
-- A call that would create a queue with this name
SELECT jobq_pause_queue('emals');
-- Calls that may be the first for a new queue: a NOTICE only if there is a similar name
SELECT jobq_alter_queue('reprots', max_attempts => 3);
SELECT jobq_set_limit('eemails', max_running => 3);
SELECT jobq_alter_queue('something else', max_attempts => 3);
SELECT jobq_set_limit('yet another', max_running => 3);
-- No similar name
SELECT jobq_retry_jobs('typo');
SELECT jobq_drop_queue('x');
SELECT jobq_drop_queue(repeat('ü', 31));

-- Known queues without matching jobs: a queue that had jobs, or has settings, a limit, or dead letters of other queues.
SELECT count(jobq_complete(id, lease)) FROM jobq_claim('emails');
SELECT jobq_retry_jobs('emails'), jobq_cancel_jobs('emails'), jobq_delete_jobs('emails', kind => 'no'), jobq_resume_queue('emails'), jobq_redrive('emails');
SELECT jobq_purge_queue('emails'), jobq_purge_queue('emails');
SELECT jobq_delete_jobs('reports'), jobq_redrive('dead reports'), jobq_delete_jobs('dead reports'), jobq_cancel_jobs('yet another');
SELECT jobq_set_limit('yet another', 'no key'), jobq_resume_queue('emals'), jobq_resume_queue('emals');
-- A dropped queue is unknown
SELECT jobq_drop_queue('emals');
SELECT jobq_drop_queue('emals');

-- In the transaction that creates the queue
BEGIN;
SELECT jobq_pause_queue('paused here'), jobq_resume_queue('paused here');
SELECT jobq_enqueue('used here') > 0 AS enqueued;
SELECT jobq_retry_jobs('used here');
ROLLBACK;
-- With jobq.require_queues, it is an error.
SET jobq.require_queues = on;
SELECT jobq_pause_queue('email');
RESET jobq.require_queues;

-- Many queues, one of them with many lanes: a hint considers a thousand names, not every lane.
INSERT INTO jobq.lane_directory (lane, queue, kind, version) SELECT jobq.lane_of('many lanes', 'kind ' || i, 0, NULL), 'many lanes', 'kind ' || i, 0 FROM generate_series(1, 3000) i;
INSERT INTO jobq.queue_settings (queue) SELECT 'queue ' || i FROM generate_series(1, 3000) i;
SELECT jobq_retry_jobs('many lane');
SELECT jobq_retry_jobs('emailss');
DELETE FROM jobq.lane_directory WHERE queue = 'many lanes';
DELETE FROM jobq.queue_settings WHERE queue ~ '^queue \d+$';
SELECT q, jobq_drop_queue(q, force => true) FROM unnest('{emails,eemails,reports,reprots,something else,yet another}'::text[]) q;
