-- Expiry: a job that no worker has claimed before its expires_at does not run. jobq cancels it with the error "expired".

-- Calls the tick at a time, and shows the jobs of a queue afterward.
CREATE FUNCTION pg_temp.jobs_at(name text, now timestamptz) RETURNS TABLE (kind text, status jobq.job_status, error text)
LANGUAGE plpgsql AS $$
BEGIN
    PERFORM tick_alone(now);
    RETURN QUERY SELECT j.kind, j.status, j.error FROM jobq.jobs j WHERE j.queue = name ORDER BY j.kind, j.id;
END $$;

-- An enqueue sets the time itself (expires_at), or the time since run_at (expires_in). Without both, a job does not expire.
SELECT num_nonnulls(jobq_enqueue('expiry', kind => 'at', options => '{"expires_at": "2100-01-01 00:00+00"}'),
                    jobq_enqueue('expiry', kind => 'in', options => '{"expires_in": "1 hour"}'),
                    jobq_enqueue('expiry', kind => 'in, later', run_at => '2100-01-01 00:00+00', options => '{"expires_in": "1 hour"}'),
                    jobq_enqueue('expiry', kind => 'in, unique', unique_key => 'k', options => '{"expires_in": "1 hour"}'),
                    jobq_enqueue('expiry', kind => 'never')) AS enqueued;
SELECT count(*) FROM jobq_enqueue_many('expiry', '{1, 2}', kind => 'many', run_ats => '{2100-01-01 00:00+00, 2100-01-02 00:00+00}',
                                       options => '{"expires_in": "1 hour"}');
SELECT count(*) FROM jobq_enqueue_jobs('[{"queue": "expiry", "kind": "specs", "expires_in": "1 hour"},
                                         {"queue": "expiry", "kind": "specs", "unique_key": "a", "expires_in": "2 hours"},
                                         {"queue": "expiry", "kind": "specs", "unique_key": "b", "expires_in": "3 hours"}]');
SELECT kind, CASE WHEN run_at > '2099-01-01' THEN (expires_at AT TIME ZONE 'UTC')::text ELSE (expires_at - run_at)::text END AS expires
FROM jobq.jobs WHERE queue = 'expiry' AND kind <> 'at' ORDER BY kind, id;

-- jobq_explain and jobq_log show when a waiting job expires.
SELECT id AS at FROM jobq.jobs WHERE queue = 'expiry' AND kind = 'at' \gset
SELECT reason, detail, until AT TIME ZONE 'UTC' AS until FROM jobq_explain(:at) WHERE reason = 'expires';
SELECT event, detail FROM jobq_log(:at);

-- The tick cancels the jobs whose time has passed. The others stay as they are.
SELECT * FROM pg_temp.jobs_at('expiry', now() + interval '90 minutes');
SELECT id AS expired FROM jobq.jobs WHERE queue = 'expiry' AND kind = 'in' \gset
SELECT event, detail FROM jobq_log(:expired);
SELECT reason, detail FROM jobq_explain(:expired);
SELECT pending, scheduled, cancelled FROM jobq.queue_stats WHERE queue = 'expiry';
SELECT jobq_drop_queue('expiry', force => true);

-- No claim hands out a job that has expired, even if the tick has not canceled it yet. Here, no other session can have canceled it,
-- because the transaction is open.
BEGIN;
SELECT jobq_enqueue('expiry', kind => 'expired', run_at => now() - interval '2 hours', options => '{"expires_in": "1 hour"}') AS job \gset
SELECT jobq_enqueue('expiry', kind => 'later', priority => 5) > 0 AS enqueued;
SELECT kind FROM jobq_claim('expiry', 'w', batch => 10);
SELECT status FROM jobq.jobs WHERE id = :job;
SELECT reason, detail FROM jobq_explain(:job) WHERE reason <> 'unserved';
ROLLBACK;
-- This also holds with aging, in turn (round_robin), and with limits. A job that has expired takes no slot and no token.
SELECT jobq_create_queue('expiry aging', priority_ageing => '1 min'), jobq_create_queue('expiry turns', round_robin => true),
       jobq_create_queue('expiry limits'), jobq_set_limit('expiry limits', 'k', max_running => 1);
BEGIN;
SELECT count(jobq_enqueue(queue, kind => 'expired', concurrency_key => 'k', run_at => now() - interval '2 hours',
                          options => '{"expires_in": "1 hour"}')),
       count(jobq_enqueue(queue, kind => 'good', concurrency_key => 'k'))
FROM unnest('{expiry aging, expiry turns, expiry limits}'::text[]) queue;
SELECT q, c.kind FROM unnest('{expiry aging, expiry turns, expiry limits}'::text[]) q, LATERAL jobq_claim(q, 'w', batch => 10) c;
SELECT running FROM jobq.limits WHERE queue = 'expiry limits';
ROLLBACK;
SELECT jobq_drop_queue('expiry aging'), jobq_drop_queue('expiry turns'), jobq_drop_queue('expiry limits');

-- The first claim ends the expiry. From then on, the job runs until it has ended, however often its worker gives it back, fails, or is
-- lost. A claim that is rolled back does not count.
SELECT jobq_create_queue('expiry first', heartbeat_timeout => '1 hour');
SELECT jobq_enqueue('expiry first', options => '{"expires_in": "1 day"}') AS job \gset
BEGIN;
SELECT id = :job AS claimed FROM jobq_claim('expiry first', 'w');
ROLLBACK;
SELECT expires_at IS NOT NULL AS expires FROM jobq.jobs WHERE id = :job;
SELECT lease FROM jobq_claim('expiry first', 'w') \gset
SELECT expires_at FROM jobq.jobs WHERE id = :job;
SELECT jobq_release(:job, :lease);
SELECT * FROM pg_temp.jobs_at('expiry first', now() + interval '2 days');
SELECT lease FROM jobq_claim('expiry first', 'w') \gset
SELECT jobq_snooze(:job, '1 hour', :lease);
SELECT * FROM pg_temp.jobs_at('expiry first', now() + interval '2 days');
SELECT lease FROM jobq_claim('expiry first', 'w') \gset
SELECT jobq_fail(:job, :lease, 'e', retry_in => '0');
SELECT lease FROM jobq_claim('expiry first', 'w') \gset
SELECT * FROM pg_temp.jobs_at('expiry first', now() + interval '2 days');
SELECT jobq_drop_queue('expiry first', force => true);

-- Jobs expire whatever they wait for: a time, a dependency, their group, or a paused queue.
SELECT jobq_enqueue('expiry waits', kind => 'a dependency') AS target \gset
SELECT jobq_enqueue('expiry waits', kind => 'blocked', depends_on => ARRAY[:target], options => '{"expires_in": "1 hour"}') > 0 AS enqueued;
SELECT jobq_enqueue('expiry waits', kind => 'delayed', run_at => now() + interval '2 hours', options => '{"expires_in": "1 hour"}') AS delayed \gset
SELECT jobq_enqueue('expiry waits', kind => 'pending', options => '{"expires_in": "1 hour"}') > 0 AS enqueued;
SELECT jobq_pause_queue('expiry waits');
SELECT * FROM pg_temp.jobs_at('expiry waits', now() + interval '90 minutes');
SELECT * FROM pg_temp.jobs_at('expiry waits', now() + interval '4 hours');
SELECT jobq_drop_queue('expiry waits', force => true);

-- When the head of a group expires, the next job becomes the head. A job in the middle of the line can expire, too.
SELECT count(*) FROM jobq_enqueue_jobs('[{"queue": "expiry group", "kind": "1", "group_key": "g", "expires_in": "1 hour"},
                                         {"queue": "expiry group", "kind": "2", "group_key": "g", "expires_in": "1 hour"},
                                         {"queue": "expiry group", "kind": "3", "group_key": "g"}]');
SELECT settle();
SELECT kind, status FROM jobq.jobs WHERE queue = 'expiry group' ORDER BY kind;
SELECT status FROM pg_temp.jobs_at('expiry group', now() + interval '2 hours') LIMIT 2;
SELECT settle();
SELECT kind, status FROM jobq.jobs WHERE queue = 'expiry group' ORDER BY kind;
SELECT jobq_drop_queue('expiry group', force => true);

-- Jobs that depend on a job see its expiry as a cancellation. No dead letter is made.
SELECT jobq_create_queue('expiry end', dead_letter_queue => 'expiry dead');
SELECT jobq_enqueue('expiry end', kind => 'expires', options => '{"expires_in": "1 hour"}') AS target \gset
SELECT jobq_enqueue('expiry end', kind => 'cancel', depends_on => ARRAY[:target]) > 0,
       jobq_enqueue('expiry end', kind => 'run', depends_on => ARRAY[:target], on_dependency_failure => 'run') > 0 AS enqueued;
SELECT count(*) FROM pg_temp.jobs_at('expiry end', now() + interval '2 hours');
SELECT settle();
SELECT kind, status, regexp_replace(error, '\d+', 'N') AS error FROM jobq.jobs WHERE queue = 'expiry end' ORDER BY kind;
SELECT count(*) FROM jobq.jobs WHERE queue = 'expiry dead';
-- jobq_retry runs an expired job without expiry.
SELECT jobq_retry(:target);
SELECT expires_at, error FROM jobq.jobs WHERE id = :target;
SELECT jobq_drop_queue('expiry end', force => true);

-- An expired job gives back its unique key, at the latest when the key is wanted again. With unique_for, the key stays reserved from
-- then on.
BEGIN;
SELECT jobq_enqueue('expiry unique', unique_key => 'k', run_at => now() - interval '2 hours', options => '{"expires_in": "1 hour"}') AS old \gset
SELECT jobq_enqueue('expiry unique', unique_key => 'k') AS new \gset
SELECT :new <> :old AS is_new;
SELECT status, error FROM jobq.jobs WHERE id IN (:old, :new) ORDER BY id;
ROLLBACK;
BEGIN;
SELECT jobq_enqueue('expiry unique', unique_key => 'k', unique_for => '1 day', run_at => now() - interval '2 hours',
                    options => '{"expires_in": "1 hour"}') AS old \gset
SELECT jobq_enqueue('expiry unique', unique_key => 'k') = :old AS kept;
SELECT status FROM jobq.jobs WHERE id = :old;
ROLLBACK;
-- A retry of a job whose unique key an expired job holds takes the key, too. With unique_for, the expired job keeps it.
BEGIN;
SELECT jobq_enqueue('expiry unique', kind => 'done', unique_key => 'k') AS done \gset
SELECT jobq_cancel(:done);
SELECT jobq_enqueue('expiry unique', kind => 'late', unique_key => 'k', run_at => now() - interval '2 hours', options => '{"expires_in": "1 hour"}') AS late \gset
SAVEPOINT one;
SELECT jobq_retry(:done);
SELECT kind, status, error FROM jobq.jobs WHERE queue = 'expiry unique' ORDER BY id;
ROLLBACK TO one;
SELECT jobq_retry_jobs('expiry unique', statuses => '{cancelled}');
SELECT kind, status, error FROM jobq.jobs WHERE queue = 'expiry unique' ORDER BY id;
ROLLBACK TO one;
-- If one call retries both, the scheduled job does not expire anymore.
UPDATE jobq.jobs SET run_at = now() + interval '1 hour', status = 'scheduled' WHERE id = :late;
SELECT jobq_retry_jobs('expiry unique', statuses => '{cancelled,scheduled}');
SELECT kind, status, expires_at IS NOT NULL AS expires FROM jobq.jobs WHERE queue = 'expiry unique' ORDER BY id;
ROLLBACK TO one;
UPDATE jobq.jobs SET unique_for = '1 day' WHERE id = :late;
SELECT jobq_retry_jobs('expiry unique', statuses => '{cancelled}');
\set VERBOSITY sqlstate
SELECT jobq_retry(:done);
\set VERBOSITY default
ROLLBACK;
BEGIN;
SELECT jobq_create_queue('expiry letters', dead_letter_queue => 'expiry dead');
SELECT jobq_enqueue('expiry letters', unique_key => 'k') AS letter \gset
SELECT jobq_fail(id, lease, retry => false) FROM jobq_claim('expiry letters');
SELECT jobq_enqueue('expiry letters', kind => 'late', unique_key => 'k', run_at => now() - interval '2 hours', options => '{"expires_in": "1 hour"}') > 0 AS enqueued;
SELECT jobq_redrive('expiry dead');
SELECT id = :letter AS letter, queue, status FROM jobq.jobs WHERE queue LIKE 'expiry %' AND unique_key = 'k' ORDER BY id;
ROLLBACK;
-- If a call enqueues two jobs with one key, the second job meets the first, even if the first has expired.
SELECT count(*) AS jobs, count(DISTINCT job_id) AS ids, count(*) FILTER (WHERE is_new) AS new
FROM jobq_enqueue_many('expiry unique', '{1, 2, 3}', unique_keys => '{a, b, b}', run_at => now() - interval '2 hours',
                       options => '{"expires_in": "1 hour"}');
-- A replacement sets a new expiry, or none.
SELECT jobq_enqueue('expiry unique', unique_key => 'k', options => '{"expires_in": "1 hour"}') AS job \gset
SELECT jobq_enqueue('expiry unique', unique_key => 'k', on_conflict => 'replace', options => '{"expires_in": "2 hours"}') = :job AS replaced;
SELECT expires_at - run_at AS expires_in FROM jobq.jobs WHERE id = :job;
SELECT jobq_enqueue('expiry unique', unique_key => 'k', on_conflict => 'replace') = :job AS replaced;
SELECT expires_at FROM jobq.jobs WHERE id = :job;
SELECT jobq_drop_queue('expiry unique', force => true);

-- Expired jobs do not make a queue full.
SELECT jobq_create_queue('expiry full', max_depth => 2);
BEGIN;
SELECT count(jobq_enqueue('expiry full', kind => 'late', run_at => now() - interval '2 hours', options => '{"expires_in": "1 hour"}'))
FROM generate_series(1, 2);
SELECT jobq_enqueue('expiry full', kind => 'new') > 0 AS enqueued;
SELECT kind, status, count(*) FROM jobq.jobs WHERE queue = 'expiry full' GROUP BY 1, 2 ORDER BY 1, 2;
SELECT count(jobq_enqueue('expiry full', kind => 'new')) FROM generate_series(1, 2);
ROLLBACK;
SELECT jobq_drop_queue('expiry full', force => true);

-- The setting expires_in of a queue applies to new jobs that have no expiry of their own. The value 0 stands for no expiry.
SELECT jobq_create_queue('expiry setting', expires_in => '1 hour');
SELECT jobq_enqueue('expiry setting', kind => 'a queue''s') > 0,
       jobq_enqueue('expiry setting', kind => 'b own', options => '{"expires_in": "2 hours"}') > 0,
       jobq_enqueue('expiry setting', kind => 'c never', options => '{"expires_in": "0"}') > 0 AS enqueued;
INSERT INTO jobq.jobs (queue, kind) VALUES ('expiry setting', 'd plain SQL');
SELECT jobq_alter_queue('expiry setting', expires_in => '0');
SELECT jobq_enqueue('expiry setting', kind => 'e later') > 0 AS enqueued;
SELECT kind, expires_at - run_at AS expires_in FROM jobq.jobs WHERE queue = 'expiry setting' ORDER BY kind;
SELECT jobq_drop_queue('expiry setting', force => true);

-- Plain SQL can set and clear the time of a waiting job. Other jobs have none.
SELECT jobq_enqueue('expiry hand') AS job \gset
UPDATE jobq.jobs SET expires_at = now() + interval '1 hour' WHERE id = :job;
SELECT * FROM pg_temp.jobs_at('expiry hand', now() + interval '2 hours');
UPDATE jobq.jobs SET expires_at = now() WHERE id = :job RETURNING status;
SELECT expires_at FROM jobq.jobs WHERE id = :job;
BEGIN;
SELECT jobq_enqueue('expiry hand', kind => 'a') AS job \gset
UPDATE jobq.jobs SET expires_at = now() - interval '1 hour' WHERE id = :job;
SELECT count(*) FROM jobq_claim('expiry hand', 'w');
UPDATE jobq.jobs SET expires_at = NULL WHERE id = :job;
SELECT count(*) FROM jobq_claim('expiry hand', 'w');
ROLLBACK;
SELECT jobq_enqueue('expiry hand') AS job \gset
UPDATE jobq.jobs SET expires_at = 'infinity' WHERE id = :job;
-- The first claim has ended the expiry, but an operator can set a new one while the job waits again.
SELECT lease FROM jobq_claim('expiry hand', 'w') \gset
UPDATE jobq.jobs SET expires_at = now() + interval '1 hour' WHERE id = :job;
SELECT expires_at FROM jobq.jobs WHERE id = :job;
SELECT jobq_release(:job, :lease);
UPDATE jobq.jobs SET expires_at = now() + interval '1 hour' WHERE id = :job;
SELECT status, error FROM pg_temp.jobs_at('expiry hand', now() + interval '2 hours') OFFSET 1;
SELECT jobq_drop_queue('expiry hand', force => true);

-- For a schedule, the time counts from the planned run, so a run that is made up for too late expires at once.
SELECT jobq_schedule('expiry', '0 3 * * *', 'expiry schedule', options => '{"expires_in": "1 hour"}') IS NOT NULL AS scheduled;
SELECT count(*) FROM tick_alone((SELECT next_run FROM jobq.schedules WHERE name = 'expiry') + interval '2 hours');
SELECT expires_at - (metadata->>'scheduled_for')::timestamptz AS expires_in, metadata - 'scheduled_for' AS metadata
FROM jobq.jobs WHERE queue = 'expiry schedule';
SELECT jobq_unschedule('expiry');
-- The jitter delays the run and its expiry, so that the job does not expire before it can run.
SELECT jobq_schedule('expiry jitter', '0 3 * * *', 'expiry schedule', kind => 'jitter', jitter => '5 hours', options => '{"expires_in": "1 min"}') IS NOT NULL AS scheduled;
SELECT count(*) FROM tick_alone((SELECT next_run FROM jobq.schedules WHERE name = 'expiry jitter'));
SELECT run_at > (metadata->>'scheduled_for')::timestamptz + interval '1 min' AS delayed, expires_at - run_at AS expires_in
FROM jobq.jobs WHERE queue = 'expiry schedule' AND kind = 'jitter';
SELECT jobq_unschedule('expiry jitter');
-- A job that has expired is not unfinished, so the next run does not wait for it (overlap).
SELECT jobq_schedule('expiry overlap', '0 3 * * *', 'expiry schedule', kind => 'overlap', overlap => 'skip', options => '{"expires_in": "1 hour"}') IS NOT NULL AS scheduled;
BEGIN;
SELECT jobq_run_schedule('expiry overlap') IS NOT NULL AS ran;
SELECT jobq_run_schedule('expiry overlap') IS NOT NULL AS ran;
UPDATE jobq.jobs SET expires_at = now() - interval '1 hour' WHERE kind = 'overlap';
SELECT jobq_run_schedule('expiry overlap') IS NOT NULL AS ran;
SELECT jobq_schedule('expiry overlap', '0 3 * * *', 'expiry schedule', kind => 'overlap', overlap => 'replace', options => '{"expires_in": "1 hour"}') IS NOT NULL AS scheduled;
UPDATE jobq.jobs SET expires_at = now() - interval '1 hour' WHERE kind = 'overlap';
SELECT jobq_run_schedule('expiry overlap') IS NOT NULL AS ran;
SELECT status, error, expires_at > now() AS expires_later FROM jobq.jobs WHERE kind = 'overlap' ORDER BY id;
ROLLBACK;
SELECT jobq_unschedule('expiry overlap');
SELECT jobq_schedule('expiry', '0 3 * * *', 'expiry schedule', options => '{"expires_at": "2100-01-01"}');
SELECT jobq_drop_queue('expiry schedule', force => true);

-- Bad input is an error, and nothing is enqueued. A job that would expire before it may run is a mistake, too.
SELECT jobq_enqueue('expiry bad', options => '{"expires_at": "2000-01-01"}');
SELECT jobq_enqueue('expiry bad', run_at => '2100-01-02', options => '{"expires_at": "2100-01-02"}');
SELECT jobq_enqueue_many('expiry bad', '{1, 2}', run_ats => '{2100-01-01, 2100-01-03}', options => '{"expires_at": "2100-01-02"}');
SELECT jobq_enqueue('expiry bad', options => '{"expires_at": "2100-01-01", "expires_in": "1 hour"}');
SELECT jobq_enqueue('expiry bad', options => '{"expires_at": "infinity"}');
SELECT jobq_enqueue('expiry bad', options => '{"expires_at": "soon"}');
SELECT jobq_enqueue('expiry bad', options => '{"expires_in": "-1 s"}');
SELECT jobq_enqueue('expiry bad', options => '{"expires_in": 5}');
SELECT jobq_create_queue('expiry bad', expires_in => '1 ms');
SELECT count(*) FROM jobq.jobs WHERE queue = 'expiry bad';

DROP FUNCTION pg_temp.jobs_at;
