-- The two time limits of a running job. heartbeat_timeout: the longest time without a heartbeat. max_runtime: the longest duration of
-- an attempt, however many heartbeats arrive. The argument of jobq_tick() simulates the time.
CREATE FUNCTION pg_temp.tick(job_id bigint, after interval) RETURNS TABLE (duty text, done bigint) LANGUAGE sql AS
$$ SELECT t.duty, t.done FROM jobq.jobs j, tick_alone(j.started_at + after) t WHERE j.id = job_id AND t.duty IN ('rescue', 'cancel') AND t.done > 0 $$;
CREATE FUNCTION pg_temp.show(job_id bigint, OUT status jobq.job_status, OUT attempts int, OUT lost int, OUT held boolean, OUT due_in_future boolean, OUT error text, OUT history text) LANGUAGE sql AS
$$ SELECT j.status, j.attempts, j.lost_attempts, j.lease IS NOT NULL, j._due AND j.run_at > j.last_heartbeat, j.error,
          (SELECT string_agg(a.attempt || ' ' || a.outcome || ': ' || coalesce(a.error, '-'), '; ' ORDER BY a.attempt, a.finished_at) FROM jobq.attempts a WHERE a.job_id = j.id)
   FROM jobq.jobs j WHERE j.id = job_id $$;

-- A job with its own max_runtime. Its worker sends heartbeats all the time. When max_runtime is over, the attempt has failed, and
-- is retried after the backoff like any other.
SELECT jobq_enqueue('clocks', '"endless"', max_attempts => 2, options => '{"max_runtime": "30 min"}') AS id \gset
BEGIN;
SELECT lease FROM jobq_claim('clocks', 'w', heartbeat_timeout => '1 hour') \gset
SELECT max_runtime, _must_end_at - started_at AS must_end_after FROM jobq.jobs WHERE id = :id;
SELECT jobq_heartbeat(:id, :lease, '"half"');
SELECT * FROM pg_temp.tick(:id, '30 min');
SELECT jobq_heartbeat(:id, :lease);
SELECT * FROM pg_temp.tick(:id, '30 min 0.000001 s');
SELECT * FROM pg_temp.show(:id);
-- The lease is lost: the heartbeat says so, and no report has an effect.
SELECT jobq_heartbeat(:id, :lease), jobq_complete(:id, :lease), jobq_fail(:id, :lease), jobq_release(:id, :lease);
SELECT _must_end_at, _rescue_indexed, lease, finished_at FROM jobq.jobs WHERE id = :id;
-- Each attempt gets the full max_runtime. After the last allowed attempt, the job has failed permanently.
SELECT jobq_retry(:id);
SELECT attempt, max_attempts FROM jobq_claim('clocks', 'w', heartbeat_timeout => '1 hour');
SELECT _must_end_at - started_at AS must_end_after FROM jobq.jobs WHERE id = :id;
SELECT * FROM pg_temp.tick(:id, '31 min');
SELECT * FROM pg_temp.show(:id);
SELECT event, attempt, detail FROM jobq_log(:id) WHERE event NOT IN ('heartbeat', 'operator');
ROLLBACK;

-- The clock that expires first decides. A worker without heartbeats is lost after its heartbeat timeout, whatever the other clock
-- says: the job is pending again at once, without backoff.
BEGIN;
SELECT lease FROM jobq_claim('clocks', 'w', heartbeat_timeout => '10 min') \gset
SELECT * FROM pg_temp.tick(:id, '11 min');
SELECT * FROM pg_temp.show(:id);
ROLLBACK;
-- If both time limits have expired at the time of the check, the limit that expired first decides.
BEGIN;
SELECT lease FROM jobq_claim('clocks', 'w', heartbeat_timeout => '10 min') \gset
SELECT * FROM pg_temp.tick(:id, '2 hours');
SELECT status, history FROM pg_temp.show(:id);
ROLLBACK;
BEGIN;
SELECT lease FROM jobq_claim('clocks', 'w', heartbeat_timeout => '1 hour') \gset
SELECT * FROM pg_temp.tick(:id, '2 hours');
SELECT status, history FROM pg_temp.show(:id);
ROLLBACK;

-- A report in time counts and ends the clock.
BEGIN;
SELECT jobq_complete(id, lease) FROM jobq_claim('clocks', heartbeat_timeout => '1 hour');
SELECT status, _must_end_at FROM jobq.jobs WHERE id = :id;
SELECT * FROM pg_temp.tick(:id, '2 hours');
ROLLBACK;
BEGIN;
SELECT jobq_release(id, lease) FROM jobq_claim('clocks', heartbeat_timeout => '1 hour');
SELECT status, _must_end_at FROM jobq.jobs WHERE id = :id;
SELECT jobq_snooze(id, '1 day', lease) FROM jobq_claim('clocks', heartbeat_timeout => '1 hour');
SELECT status, _must_end_at FROM jobq.jobs WHERE id = :id;
SELECT jobq_retry(:id);
SELECT jobq_fail(id, lease, 'no') FROM jobq_claim('clocks', heartbeat_timeout => '1 hour');
SELECT status, _must_end_at FROM jobq.jobs WHERE id = :id;
SELECT * FROM pg_temp.tick(:id, '40 min');
ROLLBACK;
-- If cancellation was requested, the job is canceled when max_runtime is over.
BEGIN;
SET LOCAL jobq.cancel_grace = '10 h';
SELECT lease FROM jobq_claim('clocks', 'w', heartbeat_timeout => '1 hour') \gset
SELECT jobq_cancel(:id);
SELECT * FROM pg_temp.tick(:id, '31 min');
SELECT status, error, history FROM pg_temp.show(:id);
ROLLBACK;
SELECT jobq_drop_queue('clocks', force => true);

-- The max_runtime of the queue applies from the next claim on to jobs that have none. The job's own value takes precedence.
SELECT jobq_create_queue('clocks', max_runtime => '1 hour');
SELECT max_runtime, on_max_runtime FROM jobq.queues WHERE queue = 'clocks';
SELECT jobq_enqueue('clocks', '"queue''s"'), jobq_enqueue('clocks', '"its own"', options => '{"max_runtime": "2 hours"}') \gset
SELECT count(*) FROM jobq_claim('clocks', 'w', batch => 2, heartbeat_timeout => '10 hours');
SELECT payload, max_runtime, _must_end_at - started_at AS must_end_after FROM jobq.jobs WHERE queue = 'clocks' ORDER BY id;
SELECT jobq_alter_queue('clocks', max_runtime => '3 hours');
SELECT payload, _must_end_at - started_at AS must_end_after FROM jobq.jobs WHERE queue = 'clocks' ORDER BY id;
-- An UPDATE of another column does not change the deadline of a running job to the new value of the queue.
SELECT jobq_alter_queue('clocks', max_runtime => '10 min');
UPDATE jobq.jobs SET metadata = '{}' WHERE queue = 'clocks';
SELECT payload, _must_end_at - started_at AS must_end_after FROM jobq.jobs WHERE queue = 'clocks' ORDER BY id;
SELECT jobq_alter_queue('clocks', max_runtime => '3 hours');
-- on_max_runtime 'cancel': the job is canceled and does not run again. The setting at the end of max_runtime applies.
SELECT jobq_alter_queue('clocks', on_max_runtime => 'cancel');
BEGIN;
SELECT done AS ended FROM tick_alone(clock_timestamp() + interval '90 min') WHERE duty = 'rescue';
SELECT j.payload, j.status, j.finished_at IS NOT NULL AS finished, j.error, a.outcome, a.error = j.error AS says_why FROM jobq.jobs j LEFT JOIN jobq.attempts a ON a.job_id = j.id WHERE j.queue = 'clocks' ORDER BY j.id;
ROLLBACK;
-- Without a limit.
SELECT jobq_alter_queue('clocks', max_runtime => '0');
SELECT max_runtime FROM jobq.queue_settings WHERE queue = 'clocks';
SELECT jobq_release(id, lease) FROM jobq.jobs WHERE queue = 'clocks' AND max_runtime IS NULL;
SELECT payload FROM jobq_claim('clocks', 'w', heartbeat_timeout => '10 hours');
SELECT payload, _must_end_at - started_at AS must_end_after FROM jobq.jobs WHERE queue = 'clocks' ORDER BY id;
SELECT jobq_drop_queue('clocks', force => true);

-- Many jobs end in the same tick, each with its own outcome.
SELECT jobq_create_queue('clocks', max_attempts => 1, max_runtime => '1 hour');
SELECT count(*) FROM jobq_enqueue_many('clocks', array_fill('{}'::jsonb, ARRAY[700]));
SELECT count(*) FROM jobq_claim('clocks', 'w', batch => 700, heartbeat_timeout => '10 hours');
SELECT count(jobq_complete(id, lease)) AS completed FROM jobq.jobs WHERE queue = 'clocks' AND (id - (SELECT min(id) FROM jobq.jobs WHERE queue = 'clocks')) % 7 = 0;
SELECT done AS ended FROM tick_alone(clock_timestamp() + interval '61 min') WHERE duty = 'rescue';
SELECT status, count(*), min(error) AS error, max(error) = min(error) AS same FROM jobq.jobs WHERE queue = 'clocks' GROUP BY status ORDER BY status;
SELECT jobq_drop_queue('clocks', force => true);

-- With other enqueue functions, and with plain SQL.
SELECT count(*) FROM jobq_enqueue_jobs('[{"queue": "clocks", "payload": 1, "max_runtime": "1 hour"}, {"queue": "clocks", "payload": 2, "max_runtime": "2 hours", "unique_key": "k"}, {"queue": "clocks", "payload": 3, "max_runtime": null}]');
SELECT jobq_enqueue('clocks', '4', unique_key => 'l', options => '{"max_runtime": "4 hours"}') > 0 AS enqueued;
INSERT INTO jobq.jobs (queue, payload, max_runtime) VALUES ('clocks', '5', '5 hours');
SELECT payload, max_runtime, _must_end_at FROM jobq.jobs WHERE queue = 'clocks' ORDER BY id;
SELECT count(*) FROM jobq_claim('clocks', 'w', batch => 10, heartbeat_timeout => '10 hours');
SELECT payload, _must_end_at - started_at AS must_end_after FROM jobq.jobs WHERE queue = 'clocks' ORDER BY id;
-- _must_end_at is computed from other columns, so a written value is ignored, and a running job can be given more time.
UPDATE jobq.jobs SET max_runtime = '6 hours' WHERE queue = 'clocks' AND payload = '5';
UPDATE jobq.jobs SET _must_end_at = now() WHERE queue = 'clocks' AND payload = '4';
UPDATE jobq.jobs SET max_runtime = NULL WHERE queue = 'clocks' AND payload = '2';
UPDATE jobq.jobs SET max_runtime = '30 min' WHERE queue = 'clocks' AND payload = '1';
UPDATE jobq.jobs SET started_at = started_at + interval '15 min' WHERE queue = 'clocks' AND payload = '4';
UPDATE jobq.jobs SET status = 'pending' WHERE queue = 'clocks' AND payload = '3';
SELECT payload, status, _must_end_at - started_at AS must_end_after, _must_end_at - last_heartbeat AS left_at_heartbeat FROM jobq.jobs WHERE queue = 'clocks' ORDER BY id;
BEGIN;
SELECT done AS ended FROM tick_alone(clock_timestamp() + interval '31 min') WHERE duty = 'rescue';
SELECT payload, status, error FROM jobq.jobs WHERE queue = 'clocks' AND error IS NOT NULL ORDER BY id;
ROLLBACK;
-- For a job that is inserted as running, the clock starts at started_at or now.
BEGIN;
INSERT INTO jobq.jobs (queue, payload, status, max_runtime, started_at) VALUES ('clocks', '6', 'processing', '1 hour', '2020-01-01 12:00+00'), ('clocks', '7', 'processing', '1 hour', NULL);
SELECT payload, CASE payload WHEN '6' THEN _must_end_at = '2020-01-01 13:00+00' ELSE _must_end_at = last_heartbeat + interval '1 hour' END AS in_an_hour, _rescue_indexed FROM jobq.jobs WHERE queue = 'clocks' AND payload IN ('6', '7') ORDER BY id;
COMMIT;
SELECT jobq_drop_queue('clocks', force => true);

-- Poison: a job that loses max_lost workers fails permanently, and its error says so.
SELECT jobq_create_queue('poison', max_lost => 2, max_runtime => '10 hours');
SELECT jobq_enqueue('poison', '"kills its worker"') AS id \gset
SELECT attempt FROM jobq_claim('poison', 'w1', heartbeat_timeout => '1 hour');
SELECT done AS rescued FROM tick_alone(clock_timestamp() + interval '61 min') WHERE duty = 'rescue';
SELECT * FROM pg_temp.show(:id);
SELECT attempt FROM jobq_claim('poison', 'w2', heartbeat_timeout => '1 hour');
SELECT done AS rescued FROM tick_alone(clock_timestamp() + interval '61 min') WHERE duty = 'rescue';
SELECT * FROM pg_temp.show(:id);
-- The default is 3. Attempts that exceed max_runtime, fail, or are released are not lost.
SELECT max_lost FROM jobq.queues WHERE queue = 'poison';
SELECT jobq_retry(:id);
SELECT lost_attempts FROM jobq.jobs WHERE id = :id;
SELECT attempt, lease FROM jobq_claim('poison', 'w3', heartbeat_timeout => '20 hours') \gset
SELECT done AS ended FROM tick_alone(clock_timestamp() + interval '601 min') WHERE duty = 'rescue';
SELECT status, lost, error FROM pg_temp.show(:id);
SELECT jobq_drop_queue('poison', force => true);

-- Bad input.
\set VERBOSITY terse
\set ON_ERROR_ROLLBACK on
SELECT jobq_enqueue('clocks', options => '{"max_runtime": "0"}');
SELECT jobq_enqueue('clocks', options => '{"max_runtime": "-1 s"}');
SELECT jobq_enqueue('clocks', options => '{"max_runtime": "9 ms"}');
SELECT jobq_enqueue('clocks', options => '{"max_runtime": "366 days"}');
SELECT jobq_enqueue_jobs('[{"queue": "clocks", "max_runtime": 5}]');
SELECT jobq_enqueue_jobs('[{"queue": "clocks", "max_runtime": "soon"}]');
SELECT jobq_create_queue('clocks', max_runtime => '1 ms');
SELECT jobq_create_queue('clocks', max_runtime => '300000 years');
SELECT jobq_create_queue('clocks', on_max_runtime => 'explode');
SELECT jobq_alter_queue('clocks', on_max_runtime => '');
INSERT INTO jobq.jobs (queue, max_runtime) VALUES ('clocks', '-1 day');
INSERT INTO jobq.queue_settings (queue, max_runtime) VALUES ('clocks', '0');
INSERT INTO jobq.queue_settings (queue, on_max_runtime) VALUES ('clocks', 'explode');
SELECT count(*) AS jobs, (SELECT count(*) FROM jobq.queues WHERE queue = 'clocks') AS queues FROM jobq.jobs WHERE queue = 'clocks';
