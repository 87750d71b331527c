-- Jobs that wait for a time or a signal. A waiting job uses no worker, no slot, and no attempt.
SET client_min_messages = warning;
SELECT jobq_create_queue('parcels', heartbeat_timeout => '1 hour', max_runtime => '1 hour', max_attempts => 1) AS created;
SELECT jobq_set_limit('parcels', max_running => 1);
CREATE FUNCTION pg_temp.claimed(OUT id bigint, OUT lease bigint) LANGUAGE sql AS $$
    SELECT c.id, c.lease FROM jobq_claim('parcels', 'w') c $$;
CREATE VIEW pg_temp.parcels AS
SELECT j.id, j.status, j.attempts, j.lease IS NOT NULL AS leased, j._queue_slot IS NOT NULL AS slot, j._must_end_at = 'infinity' AS for_ever,
       j._due AS due, j._group_active IS NOT NULL AS head, j._holds_key AS holds_key
FROM jobq.jobs j WHERE j.queue = 'parcels';

-- A job can wait for a signal that has not been sent.
SELECT jobq_enqueue('parcels', group_key => 'g', unique_key => 'k') AS first \gset
SELECT jobq_enqueue('parcels', group_key => 'g') AS behind \gset
SELECT settle();
SELECT id AS first, lease AS l FROM pg_temp.claimed() \gset
SELECT * FROM jobq_await(:first, :l, 'delivered 1');
-- The job is blocked. It keeps its place in its group and its unique key.
SELECT status, attempts, leased, slot, for_ever, due, head, holds_key FROM pg_temp.parcels WHERE id = :first;
SELECT reason, detail, until FROM jobq_explain(:first);
SELECT outcome, reported FROM jobq.attempts WHERE job_id = :first;
SELECT name, kind, state, event, until FROM jobq.steps WHERE job_id = :first;
SELECT settle();
SELECT count(*) FROM pg_temp.claimed() WHERE id IS NOT NULL;
-- A late heartbeat learns that its own worker has ended the attempt.
SELECT jobq_heartbeat(:first, :l);
-- The first signal is kept. A second one with the same name is ignored.
SELECT jobq_signal('parcels', 'delivered 1', '{"to": "door"}');
SELECT jobq_signal('parcels', 'delivered 1', '{"to": "nobody"}');
SELECT settle();
SELECT lease AS l FROM pg_temp.claimed() WHERE id = :first \gset
SELECT * FROM jobq_await(:first, :l, 'delivered 1');
-- A decided wait does not change.
DELETE FROM jobq.signals WHERE queue = 'parcels';
SELECT * FROM jobq_await(:first, :l, 'delivered 1');
-- Signals to a job take precedence over those to its queue, and can be sent before the job waits. A second wait for the same
-- signal needs another name.
SELECT jobq_signal_job(:first, 'paid', '1'), jobq_signal_job(:first, 'paid', '2');
SELECT jobq_signal('parcels', 'paid', '3');
SELECT * FROM jobq_await(:first, :l, 'paid');
SELECT * FROM jobq_await(:first, :l, 'paid', name => 'paid again');
SELECT name, state, result FROM jobq_steps(ARRAY[:first], ARRAY[:l]::bigint[]);
SELECT event, detail FROM jobq_log(:first) WHERE event IN ('signal', 'wait begun') ORDER BY 1, 2;
SELECT jobq_complete(:first, :l);
SELECT jobq_signal_job(:first, 'paid') IS NULL AS finished, jobq_signal_job(-1, 'paid') IS NULL AS unknown;

-- A timeout is saved by the first call. Later calls do not change it.
SELECT settle();
SELECT id AS job, lease AS l FROM pg_temp.claimed() \gset
SELECT state FROM jobq_await(:job, :l, 'delivered 2', '1 hour');
SELECT status, due, for_ever FROM pg_temp.parcels WHERE id = :job;
SELECT run_at = _must_end_at AS same, _must_end_at = (SELECT until FROM jobq.steps WHERE job_id = :job) AS saved FROM jobq.jobs WHERE id = :job;
SELECT reason, until = (SELECT until FROM jobq.steps WHERE job_id = :job) AS saved FROM jobq_explain(:job);
-- If the awaited signal is missing after a wake-up, the job waits again, and only for its current wait.
UPDATE jobq.jobs SET status = 'pending', run_at = now() WHERE id = :job;
SELECT lease AS l FROM pg_temp.claimed() \gset
SELECT state FROM jobq_await(:job, :l, 'delivered 2', '2 hours');
SELECT until < now() + interval '90 minutes' AS first_deadline FROM jobq.steps WHERE job_id = :job;
SELECT _must_end_at < now() + interval '90 minutes' AS first_deadline FROM jobq.jobs WHERE id = :job;
SELECT done >= 1 AS promoted FROM jobq_tick(now() + interval '2 hours') WHERE duty = 'promote';
SELECT status FROM pg_temp.parcels WHERE id = :job;
SELECT lease AS l FROM pg_temp.claimed() \gset
-- The timeout has not passed, because only the clock of the tick was ahead.
SELECT state FROM jobq_await(:job, :l, 'delivered 2', '0');
UPDATE jobq.jobs SET status = 'pending', run_at = now() WHERE id = :job;
UPDATE jobq.steps SET until = now() - interval '1 second' WHERE job_id = :job;
SELECT lease AS l FROM pg_temp.claimed() \gset
SELECT * FROM jobq_await(:job, :l, 'delivered 2');
-- The timeout is decided, even if the signal is sent later.
SELECT jobq_signal_job(:job, 'delivered 2');
SELECT * FROM jobq_await(:job, :l, 'delivered 2');
-- If the wait is not decided yet, a signal counts even after the deadline.
SELECT jobq_signal_job(:job, 'late', '"late"');
SELECT * FROM jobq_await(:job, :l, 'late', '0');
SELECT * FROM jobq_await(:job, :l, 'never', '0');

-- Sleeps.
SELECT jobq_sleep(:job, :l, 'night', '1 hour');
SELECT status, attempts, due, for_ever FROM pg_temp.parcels WHERE id = :job;
SELECT jobq_retry(:job);
SELECT lease AS l FROM pg_temp.claimed() \gset
SELECT jobq_sleep(:job, :l, 'night', '1 minute');
SELECT run_at = until AS same, run_at > now() + interval '50 minutes' AS first_deadline FROM jobq.jobs j JOIN jobq.steps s ON s.job_id = j.id AND s.name = 'night' WHERE j.id = :job;
UPDATE jobq.steps SET until = now() WHERE job_id = :job AND name = 'night';
SELECT jobq_retry(:job);
SELECT lease AS l FROM pg_temp.claimed() \gset
SELECT jobq_sleep(:job, :l, 'night', '1 hour'), jobq_sleep(:job, :l, 'night', '1 hour'), jobq_sleep(:job, :l, 'past', until => '2000-01-01');
SELECT jobq_sleep(:job, :l + 1, 'night', '1 hour');
SELECT * FROM jobq_await(:job, :l + 1, 'night');

-- An abandoned wait does not wake up its job.
SELECT state FROM jobq_await(:job, :l, 'old way');
UPDATE jobq.jobs SET status = 'pending' WHERE id = :job;
SELECT lease AS l FROM pg_temp.claimed() \gset
SELECT state FROM jobq_await(:job, :l, 'new way');
SELECT jobq_signal_job(:job, 'old way');
SELECT settle();
SELECT status FROM pg_temp.parcels WHERE id = :job;
SELECT jobq_signal_job(:job, 'new way');
SELECT settle();
SELECT status FROM pg_temp.parcels WHERE id = :job;

-- In another queue, the job waits for the signals of that queue. (Its group is removed, because the job would enter the line
-- there.)
UPDATE jobq.jobs SET group_key = NULL WHERE id = :job;
SELECT lease AS l FROM pg_temp.claimed() \gset
SELECT state FROM jobq_await(:job, :l, 'moved');
UPDATE jobq.jobs SET queue = 'parcels 2' WHERE id = :job;
SELECT a.state FROM jobq_claim('parcels 2', 'w') c, jobq_await(c.id, c.lease, 'moved') a;
SELECT jobq_signal('parcels', 'moved'), settle();
SELECT count(*) FROM jobq_claim('parcels 2', 'w');
SELECT jobq_signal('parcels 2', 'moved'), settle();
UPDATE jobq.jobs SET queue = 'parcels' WHERE id = :job;
SELECT jobq_drop_queue('parcels 2');

-- A waiting job can be canceled, deleted, and retried. A retry keeps its deadline.
SELECT lease AS l FROM pg_temp.claimed() \gset
SELECT state FROM jobq_await(:job, :l, 'x', '1 hour');
SELECT jobq_retry(:job), jobq_reschedule(:job, now());
SELECT jobq_cancel(:job);
SELECT status, due, for_ever FROM pg_temp.parcels WHERE id = :job;
SELECT jobq_retry(:job);
SELECT settle();
SELECT lease AS l FROM pg_temp.claimed() \gset
SELECT state FROM jobq_await(:job, :l, 'x');
SELECT jobq_delete(:job);
SELECT (SELECT count(*) FROM jobq.steps WHERE job_id = :job) AS steps, (SELECT count(*) FROM jobq.job_signals WHERE job_id = :job) AS signals;

-- Many jobs wait for one signal.
SELECT jobq_set_limit('parcels');
SELECT count(*) FROM jobq_enqueue_many('parcels', array_fill('{}'::jsonb, ARRAY[2500]));
SELECT w.state, count(*) FROM jobq_claim('parcels', 'w', 2500) c, jobq_await(c.id, c.lease, 'all') w GROUP BY 1;
SELECT status, count(*) FROM pg_temp.parcels WHERE status < 'processing' GROUP BY 1;
SELECT jobq_signal('parcels', 'all', '1');
SELECT settle();
SELECT status, count(*) FROM pg_temp.parcels WHERE status < 'processing' GROUP BY 1;
SELECT w.state, w.payload, count(*) FROM jobq_claim('parcels', 'w', 2500) c, jobq_await(c.id, c.lease, 'all') w GROUP BY 1, 2;
SELECT count(*) FROM jobq.steps s JOIN jobq.jobs j ON j.id = s.job_id WHERE j.queue = 'parcels' AND s._awaited IS NOT NULL;

-- Signals to a queue are kept for a limited time.
CREATE FUNCTION pg_temp.goes(name text) RETURNS boolean LANGUAGE plpgsql AS $$ BEGIN
    FOR i IN 1..1000 LOOP
        EXIT WHEN NOT EXISTS (SELECT FROM jobq.signals WHERE event = name);
        PERFORM jobq_tick();
    END LOOP;
    RETURN NOT EXISTS (SELECT FROM jobq.signals WHERE event = name);
END $$;
SELECT jobq_signal('parcels', 'old');
UPDATE jobq.signals SET sent_at = now() - interval '31 days' WHERE event = 'old';
SELECT pg_temp.goes('old');
SELECT event FROM jobq.signals WHERE queue = 'parcels' ORDER BY 1;

-- A signal is kept longer if a job that waited for it has not been claimed since, for example because the workers were off for a
-- month.
SELECT jobq_enqueue('parcels') AS id \gset
SELECT state FROM pg_temp.claimed() c, jobq_await(c.id, c.lease, 'refunded');
SELECT jobq_signal('parcels', 'refunded', '{"cents": 1299}'), jobq_signal('parcels', 'old'), settle();
UPDATE jobq.signals SET sent_at = now() - interval '31 days' WHERE event IN ('refunded', 'old');
SELECT pg_temp.goes('old');
SELECT state, payload FROM pg_temp.claimed() c, jobq_await(c.id, c.lease, 'refunded');
SELECT pg_temp.goes('refunded');
SELECT event FROM jobq.signals WHERE queue = 'parcels' ORDER BY 1;

-- Rejected calls.
SELECT jobq_enqueue('parcels') AS id \gset
SELECT lease AS l FROM pg_temp.claimed() \gset
SELECT jobq_sleep(:id, :l, 'a');
SELECT jobq_sleep(:id, :l, 'a', '1 s', now());
SELECT jobq_sleep(:id, :l, 'a', '-1 s');
SELECT jobq_sleep(:id, :l, 'a', until => 'infinity');
SELECT jobq_sleep(:id, :l, 'a', until => '9999-01-01');
SELECT jobq_await(:id, :l, NULL);
SELECT jobq_await(:id, :l, '');
SELECT jobq_await(:id, :l, 'e', '-1 s');
SELECT jobq_await(:id, :l, 'e', name => '');
SELECT state FROM jobq_await(:id, :l, 'e', '0', 'n');
-- A different event with the same name.
SELECT state FROM jobq_await(:id, :l, 'f', '0', 'n');
SELECT jobq_signal('', 'e');
SELECT jobq_signal('parcels', NULL);
SELECT jobq_signal('parcels', repeat('x', 256));
SELECT jobq_signal_job(NULL, 'e');
SET jobq.max_step_bytes = '1kB';
SELECT jobq_signal('parcels', 'e', to_jsonb(repeat('x', 2000)));
RESET jobq.max_step_bytes;
SELECT jobq_drop_queue('parcels', force => true);
SELECT count(*) FROM jobq.signals WHERE queue = 'parcels';
-- A queue that contains only signals.
SELECT jobq_signal('parcels', 'lonely');
SELECT jobq_drop_queue('parcels'), jobq_drop_queue('parcels');
