-- Durable steps: a saved step is not repeated, however often the job is claimed.
SET client_min_messages = warning;
SELECT jobq_create_queue('orders', heartbeat_timeout => '1 hour', backoff_base => '0', max_attempts => 3) AS created;

-- A worker checks whether a step is saved before it runs the step, and saves the result together with its own writes.
SELECT jobq_enqueue('orders', '{"order": 1}') AS order \gset
SELECT lease AS l FROM jobq_claim('orders', 'w1') \gset
SELECT * FROM jobq_step(:order, :l, 'charge');
SELECT * FROM jobq_step_done(:order, :l, 'charge', '{"receipt": 17}');
SELECT * FROM jobq_step(:order, :l, 'charge');
-- The first result is kept.
SELECT * FROM jobq_step_done(:order, :l, 'charge', '{"receipt": 18}');
-- The job fails after the step. The next attempt continues after the saved step.
SELECT jobq_fail(:order, :l, 'the carrier does not answer');
SELECT lease AS l2 FROM jobq_claim('orders', 'w2') \gset
SELECT * FROM jobq_step(:order, :l2, 'charge');
SELECT * FROM jobq_step(:order, :l2, 'ship');
-- The previous worker gets an error, so that its transaction rolls back, or an answer if must_hold is false.
SELECT * FROM jobq_step(:order, :l, 'ship');
\set VERBOSITY sqlstate
SELECT * FROM jobq_step_done(:order, :l, 'ship', '1');
\set VERBOSITY default
SELECT * FROM jobq_step_done(:order, :l, 'ship', '1', must_hold => false);
SELECT name, kind, state, number, result FROM jobq.steps WHERE job_id = :order;
-- A step without a result counts as saved.
SELECT * FROM jobq_step_done(:order, :l2, 'ship');
SELECT * FROM jobq_step(:order, :l2, 'ship');
-- A step that is rolled back is not saved.
BEGIN;
SELECT state FROM jobq_step_done(:order, :l2, 'mail');
SELECT state FROM jobq_step(:order, :l2, 'mail');
ROLLBACK;
SELECT state FROM jobq_step(:order, :l2, 'mail');

-- All steps of a batch of jobs in one call. For a lost lease, the row says so.
SELECT job_id = :order AS "order", name, state, result FROM jobq_steps(ARRAY[:order, :order], ARRAY[:l2, :l]::bigint[]) ORDER BY name NULLS FIRST;
SELECT count(*) FROM jobq_steps('{}', '{}');

-- After a request to cancel, saved steps are still returned, but no new step begins.
SELECT jobq_cancel(:order);
SELECT state FROM jobq_step(:order, :l2, 'ship');
SELECT state FROM jobq_step(:order, :l2, 'mail');
SELECT jobq_sleep(:order, :l2, 'pause', '1 hour');
SELECT * FROM jobq_await(:order, :l2, 'delivered');
SELECT jobq_release(:order, :l2);
SELECT status FROM jobq.jobs WHERE id = :order;

-- A retry of a canceled or failed job keeps its steps. A retry of a completed job does not.
SELECT jobq_retry(:order);
SELECT lease AS l FROM jobq_claim('orders', 'w') \gset
SELECT name FROM jobq_steps(ARRAY[:order], ARRAY[:l]::bigint[]);
SELECT state FROM jobq_step_done(:order, :l, 'mail', '3');
SELECT jobq_complete(:order, :l);
SELECT name, number FROM jobq.steps WHERE job_id = :order ORDER BY number;
-- A retry from a step runs this step and all steps that were saved after it again.
SELECT jobq_retry_from(:order, 'ship');
SELECT name, number FROM jobq.steps WHERE job_id = :order ORDER BY number;
SELECT lease AS l FROM jobq_claim('orders', 'w') \gset
SELECT state FROM jobq_step_done(:order, :l, 'ship', '"again"');
SELECT name, number, result FROM jobq.steps WHERE job_id = :order ORDER BY number;
-- A running job is not changed.
SELECT jobq_retry_from(:order, 'charge');
SELECT jobq_complete(:order, :l);
\set VERBOSITY sqlstate
SELECT jobq_retry_from(:order, 'nothing');
\set VERBOSITY default
SELECT jobq_retry(:order);
SELECT count(*) AS steps, (SELECT _steps FROM jobq.jobs WHERE id = :order) FROM jobq.steps WHERE job_id = :order;
SELECT jobq_retry_from(-1, 'nothing') IS NULL AS unknown;

-- The log of the job contains the steps.
SELECT lease AS l FROM jobq_claim('orders', 'w') \gset
SELECT state FROM jobq_step_done(:order, :l, 'charge');
SELECT event, detail FROM jobq_log(:order) WHERE event LIKE 'step%' OR event LIKE '%begun';

-- A job that makes progress is not a suspect: workers that it lost earlier do not count.
UPDATE jobq.jobs SET lost_attempts = 2, _company_lease = 5 WHERE id = :order;
SELECT state FROM jobq_step_done(:order, :l, 'ship');
SELECT lost_attempts, _company_lease, last_heartbeat > started_at AS heard FROM jobq.jobs WHERE id = :order;
-- A step that was saved before is no progress: a job that reaches the same step each time and then kills its worker stays a
-- suspect.
SELECT state FROM jobq_spawn(:order, :l, 'parts', '[]');
UPDATE jobq.jobs SET lost_attempts = 2, _company_lease = 5, last_heartbeat = started_at WHERE id = :order;
SELECT d.state AS done, s.state AS spawned FROM jobq_step_done(:order, :l, 'ship') d, jobq_spawn(:order, :l, 'parts', '[]') s;
SELECT lost_attempts, _company_lease, last_heartbeat > started_at AS heard FROM jobq.jobs WHERE id = :order;
SELECT jobq_complete(:order, :l);

-- A job with saved steps has begun: an enqueue does not replace it, and a full queue does not drop it.
SELECT jobq_enqueue('orders', '"first"', unique_key => 'k') AS begun \gset
SELECT lease AS l FROM jobq_claim('orders', 'w') \gset
SELECT state FROM jobq_step_done(:begun, :l, 'charge', '1');
SELECT jobq_snooze(:begun, '0', :l);
SELECT jobq_enqueue('orders', '"other"', unique_key => 'k') = :begun AS ignored;
SELECT jobq_enqueue('orders', '"second"', unique_key => 'k', on_conflict => 'replace') AS second \gset
SELECT id = :begun AS begun, payload, status, unique_key, _holds_key, _steps FROM jobq.jobs WHERE id IN (:begun, :second) ORDER BY id;
SELECT jobq_alter_queue('orders', max_depth => 2, on_full => 'drop_oldest');
SELECT jobq_enqueue('orders', '"third"') AS third \gset
SELECT id = :begun AS begun, payload, status FROM jobq.jobs WHERE id IN (:begun, :second, :third) ORDER BY id;
SELECT jobq_alter_queue('orders', max_depth => 0);
SELECT jobq_purge_queue('orders') > 0 AS purged;

-- Steps are deleted with their job, however it is deleted.
CREATE FUNCTION pg_temp.stepped(queue text, OUT id bigint, OUT lease bigint) LANGUAGE plpgsql AS $$
BEGIN
    id := jobq_enqueue(queue);
    SELECT c.lease INTO STRICT lease FROM jobq_claim(queue, 'w') c WHERE c.id = stepped.id;
    PERFORM jobq_step_done(id, lease, 'a', '1'), jobq_step_done(id, lease, 'b', '2');
END $$;
SELECT id, lease FROM pg_temp.stepped('orders') \gset
SELECT jobq_release(:id, :lease), jobq_delete(:id);
SELECT count(*) FROM jobq.steps WHERE job_id = :id;
SELECT id, lease FROM pg_temp.stepped('orders') \gset
DELETE FROM jobq.jobs WHERE id = :id;
SELECT count(*) FROM jobq.steps WHERE job_id = :id;
SELECT id, lease FROM pg_temp.stepped('orders') \gset
SELECT jobq_complete(:id, :lease);
SELECT done > 0 AS pruned FROM tick_alone(now() + interval '1 year') WHERE duty = 'prune';
SELECT count(*) FROM jobq.steps WHERE job_id = :id;
SELECT jobq_alter_queue('orders', keep_completed => '0');
SELECT id, lease FROM pg_temp.stepped('orders') \gset
SELECT jobq_complete(:id, :lease);
SELECT (SELECT count(*) FROM jobq.jobs WHERE id = :id), (SELECT count(*) FROM jobq.steps WHERE job_id = :id);
-- If the ID of the job changes, it keeps its steps.
SELECT id, lease FROM pg_temp.stepped('orders') \gset
UPDATE jobq.jobs SET id = :id + 1000000 WHERE id = :id;
SELECT count(*) FROM jobq.steps WHERE job_id = :id + 1000000;
SELECT jobq_release(:id + 1000000, :lease), jobq_delete(:id + 1000000);
-- A dead letter keeps its steps. When it is redriven, it continues after them.
SELECT jobq_create_queue('dead'), jobq_alter_queue('orders', dead_letter_queue => 'dead');
SELECT id, lease FROM pg_temp.stepped('orders') \gset
SELECT jobq_fail(:id, :lease, 'no', retry => false), jobq_redrive('dead');
SELECT lease AS l FROM jobq_claim('orders', 'w') \gset
SELECT name, state, result FROM jobq_steps(ARRAY[:id], ARRAY[:l]::bigint[]);
SELECT jobq_complete(:id, :l);

-- Limits, and rejected calls.
SELECT id, lease FROM pg_temp.stepped('orders') \gset
SET jobq.max_steps = 2;
\set VERBOSITY sqlstate
SELECT * FROM jobq_step_done(:id, :lease, 'c');
\set VERBOSITY default
SELECT state FROM jobq_step_done(:id, :lease, 'a');
RESET jobq.max_steps;
SET jobq.max_step_bytes = '1kB';
SELECT * FROM jobq_step_done(:id, :lease, 'c', to_jsonb(repeat('x', 2000)));
RESET jobq.max_step_bytes;
SELECT * FROM jobq_step(:id, :lease, '');
SELECT * FROM jobq_step(:id, :lease, repeat('x', 256));
SELECT * FROM jobq_step(:id, :lease, NULL);
SELECT * FROM jobq_step(NULL, :lease, 'a');
\set VERBOSITY sqlstate
SELECT * FROM jobq_step(:id, NULL, 'a');
\set VERBOSITY default
SELECT * FROM jobq_step_done(:id, :lease, 'c', must_hold => NULL);
SELECT * FROM jobq_steps(ARRAY[1], ARRAY[1, 2]::bigint[]);
-- Steps, sleeps, and waits share one namespace.
SELECT jobq_sleep(:id, :lease, 'a', '1 s');
SELECT jobq_await(:id, :lease, 'a');
SELECT jobq_sleep(:id, :lease, 'nap', '0');
SELECT * FROM jobq_step(:id, :lease, 'nap');
SELECT * FROM jobq_step_done(:id, :lease, 'nap');
SELECT name, kind, state FROM jobq.steps WHERE job_id = :id ORDER BY number;
-- The lease may be omitted in the transaction of the claim.
SELECT jobq_release(:id, :lease);
BEGIN;
SELECT id = :id AS same FROM jobq_claim('orders', 'w');
SELECT * FROM jobq_step(:id, NULL, 'a');
SELECT * FROM jobq_step_done(:id, NULL, 'z');
COMMIT;
-- TRUNCATE also deletes the steps.
TRUNCATE jobq.jobs;
SELECT count(*) FROM jobq.steps;
SELECT jobq_drop_queue('orders', force => true), jobq_drop_queue('dead', force => true);
