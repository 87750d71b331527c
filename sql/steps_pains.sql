-- Problems that other libraries have had, with the reports in parentheses. jobq must not have them. A lost wake-up (absurd #61)
-- is a race, which the isolation specs signals and children test in every order of commits.
SET client_min_messages = warning;
SELECT jobq_create_queue('pains', heartbeat_timeout => '1 hour', backoff_base => '0', max_attempts => 9);
CREATE FUNCTION pg_temp.claimed(OUT id bigint, OUT lease bigint) LANGUAGE sql AS $$ SELECT c.id, c.lease FROM jobq_claim('pains', 'w') c $$;

-- A timeout is saved and also holds for later attempts, even if the event happens later (absurd #96).
SELECT jobq_enqueue('pains') AS job \gset
SELECT lease AS l FROM pg_temp.claimed() \gset
SELECT * FROM jobq_await(:job, :l, 'answer', '0');
SELECT jobq_signal_job(:job, 'answer', '42');
SELECT jobq_fail(:job, :l, 'dies');
SELECT lease AS l FROM pg_temp.claimed() \gset
SELECT * FROM jobq_await(:job, :l, 'answer', '1 day');
-- The same for a wait for other jobs.
SELECT job_ids AS ids FROM jobq_spawn(:job, :l, 'split', '[{"queue": "pains 2"}]') \gset
SELECT state, results->0->>'status' AS status FROM jobq_await_jobs(:job, :l, :'ids', 'joined', timeout => '0');
SELECT jobq_complete(id, lease) FROM jobq_claim('pains 2');
SELECT state, results->0->>'status' AS status FROM jobq_await_jobs(:job, :l, :'ids', 'joined', timeout => '1 day');
SELECT jobq_complete(:job, :l);

-- An event that happens before a job waits for it, or before the job exists, is not lost (inngest #1433).
SELECT jobq_signal('pains', 'early', '1');
SELECT jobq_enqueue('pains') AS job \gset
SELECT jobq_signal_job(:job, 'earlier', '2');
SELECT lease AS l FROM pg_temp.claimed() \gset
SELECT e.event, a.* FROM unnest('{early,earlier}'::text[]) e(event), jobq_await(:job, :l, e.event, '1 hour') a;
-- A child that finishes before its parent waits.
SELECT job_ids AS ids FROM jobq_spawn(:job, :l, 'split', '[{"queue": "pains 2"}]') \gset
SELECT jobq_complete(id, lease, '3') FROM jobq_claim('pains 2');
SELECT state, results->0->'result' AS result FROM jobq_await_jobs(:job, :l, :'ids', 'joined');
SELECT jobq_complete(:job, :l);

-- A waiting job uses no slot, so with a limit of 1, a parent can wait for a child in its own queue (hatchet #2935).
SELECT jobq_set_limit('pains', max_running => 1);
SELECT jobq_enqueue('pains') AS parent \gset
SELECT lease AS l FROM pg_temp.claimed() \gset
SELECT job_ids AS ids FROM jobq_spawn(:parent, :l, 'split', '[{"queue": "pains"}, {"queue": "pains"}]') \gset
SELECT count(*) AS "while it runs" FROM pg_temp.claimed() WHERE id IS NOT NULL;
SELECT state FROM jobq_await_jobs(:parent, :l, :'ids', 'joined');
SELECT jobq_complete(id, lease) AS "while it waits" FROM pg_temp.claimed();
SELECT jobq_complete(id, lease) AS "while it waits" FROM pg_temp.claimed();
SELECT settle();
SELECT id = :parent AS parent, lease AS l FROM pg_temp.claimed() \gset
SELECT :'parent' AS parent, state FROM jobq_await_jobs((SELECT id FROM jobq.jobs WHERE queue = 'pains' AND status = 'processing'), :l, :'ids', 'joined');
SELECT jobq_complete(id, lease) FROM jobq.jobs WHERE queue = 'pains' AND status = 'processing';
SELECT jobq_set_limit('pains');

-- Steps have names, not positions: new code adds a step at the front, omits one, and runs the others in another order
-- (dbos-transact-py #714).
SELECT jobq_enqueue('pains') AS job \gset
SELECT lease AS l FROM pg_temp.claimed() \gset
SELECT s.name, d.* FROM unnest('{a,b,c}'::text[]) s(name), jobq_step_done(:job, :l, s.name, to_jsonb(s.name)) d;
SELECT jobq_fail(:job, :l, 'dies');
SELECT lease AS l FROM pg_temp.claimed() \gset
SELECT s.name, d.* FROM unnest('{new,c,a}'::text[]) s(name), jobq_step(:job, :l, s.name) d;
SELECT jobq_complete(:job, :l);
SELECT jobq_drop_queue('pains', force => true), jobq_drop_queue('pains 2', force => true);
