-- Schedules: recurring enqueues, and missed runs.
SET timezone = 'UTC';
-- The jobs of a schedule by their runs, and the state of the schedule.
CREATE FUNCTION fired(schedule text) RETURNS TABLE (queue text, kind text, payload jsonb, status jobq.job_status, scheduled_for text, run_at timestamptz) LANGUAGE sql AS $$
    SELECT j.queue, j.kind, j.payload, j.status, j.metadata->>'scheduled_for', j.run_at FROM jobq.jobs j WHERE j.metadata->>'schedule' = schedule ORDER BY j.id
$$;
CREATE FUNCTION runs(schedule text) RETURNS text[] LANGUAGE sql AS $$
    SELECT array_agg(to_char((j.metadata->>'scheduled_for')::timestamptz, 'HH24:MI:SS') || CASE WHEN j.status > 'processing' THEN ' ' || j.status ELSE '' END ORDER BY j.id) FROM jobq.jobs j WHERE j.metadata->>'schedule' = schedule
$$;
CREATE FUNCTION tick(at timestamptz) RETURNS bigint LANGUAGE sql AS $$ SELECT done FROM jobq_tick(at) WHERE duty = 'schedules' $$;
CREATE VIEW standing AS SELECT name, next_run, last_run, last_job IS NOT NULL AS has_job, skipped, last_skipped, skip_reason AS reason, error, failures FROM jobq.schedules ORDER BY name;
-- The background worker acts on committed rows at once, so these tests use times that are years ahead, and are rolled back.
BEGIN;

-- One statement: every night at three in the time zone of the office. The call returns the next run.
SELECT jobq_schedule('report', '0 3 * * *', 'reports', '{"of": "sales"}', kind => 'daily', timezone => 'Europe/Berlin', starts_at => '2035-03-24');
SELECT tick('2035-03-24 01:59:59.999999'), tick('2035-03-24 02:00');
SELECT * FROM fired('report');
SELECT * FROM standing;
-- A run is fired once, whichever sessions tick and however often. In summer, the UTC time is an hour earlier. On the day of the
-- change, the run is also at three.
SELECT tick('2035-03-24 02:00'), tick('2035-03-25 00:59:59'), tick('2035-03-25 01:00'), tick('2035-03-26 01:00');
SELECT runs('report');

-- The options are the same as for jobq_enqueue. The metadata of a job contains its run.
SELECT jobq_schedule('sync', '@every 90s', 'sync', options => '{"priority": -5, "max_attempts": 3, "metadata": {"team": "ops"}, "group_key": "g"}', starts_at => '2036-01-01');
SELECT tick('2036-01-01'), tick('2036-01-01 00:01:30');
SELECT priority, max_attempts, group_key, metadata FROM jobq.jobs WHERE queue = 'sync' ORDER BY id;

-- The call is repeated with the same name. The same times keep the next run, whatever else changes. With other times, the next
-- run is computed from now.
SELECT jobq_schedule('sync', '@every 90s', 'sync', '{"v": 2}', starts_at => '2036-01-01');
SELECT jobq_schedule('sync', '@every 1h', 'sync', '{"v": 2}', starts_at => '2036-01-01');
SELECT jobq_schedule('sync', '@every 1h', 'sync', starts_at => '2036-01-01', ends_at => '2036-01-01 01:00');
SELECT tick('2036-01-01'), tick('2036-01-01 01:00'), tick('2037-01-01');
SELECT name, next_run, last_run FROM jobq.schedules WHERE name = 'sync';

-- A paused schedule fires no runs. After it is resumed, it continues from now and ignores the time before.
SELECT jobq_pause_schedule('report'), jobq_pause_schedule('report'), tick('2035-04-30');
SELECT next_run, paused FROM jobq.schedules WHERE name = 'report';
SELECT jobq_schedule('report', '0 3 * * *', 'reports', timezone => 'Europe/Berlin', starts_at => '2035-03-24') IS NULL AS still_paused;
SELECT jobq_resume_schedule('report'), jobq_resume_schedule('report');
SELECT next_run > now() AS from_now, paused FROM jobq.schedules WHERE name = 'report';
SELECT jobq_schedule('report', '0 3 * * *', 'reports', starts_at => '2035-03-24', paused => true) IS NULL AS paused_again;

-- A manual run, at any time, also of a paused schedule.
SELECT jobq_run_schedule('report') AS job \gset
SELECT j.status, j.metadata->>'schedule' AS schedule, (j.metadata->>'scheduled_for')::timestamptz = s.last_run AS is_last_run, s.last_job = j.id AS is_last_job FROM jobq.jobs j, jobq.schedules s WHERE j.id = :job AND s.name = 'report';

-- The clock was set back by two hours. Runs that were fired after the new time must not be fired again, so a manual run does not
-- become the last run.
UPDATE jobq.schedule_settings SET last_run = now() + interval '2 hours' WHERE name = 'report';
SELECT jobq_run_schedule('report') > :job AS by_hand;
SELECT last_run > now() + interval '1 hour' AS known FROM jobq.schedules WHERE name = 'report';

-- The schedule is removed. Its jobs stay.
SELECT jobq_unschedule('report'), jobq_unschedule('report'), count(*) AS jobs FROM jobq.jobs WHERE queue = 'reports';
SELECT jobq_run_schedule('report');
ROLLBACK;

-- ---- Missed runs: no tick for four and a half hours
BEGIN;
SELECT jobq_schedule('once', '0 * * * *', 'q', starts_at => '2035-01-01 08:00'), jobq_schedule('all', '0 * * * *', 'q', missed => 'all', starts_at => '2035-01-01 08:00'),
       jobq_schedule('all, two', '0 * * * *', 'q', missed => 'all', max_missed => 2, starts_at => '2035-01-01 08:00'),
       jobq_schedule('skip', '0 * * * *', 'q', missed => 'skip', starts_at => '2035-01-01 08:00'),
       jobq_schedule('skip, one hour', '0 * * * *', 'q', missed => 'skip', deadline => '1 hour', starts_at => '2035-01-01 08:00'),
       jobq_schedule('all, deadline', '0 * * * *', 'q', missed => 'all', deadline => '2 hours', starts_at => '2035-01-01 08:00');
SELECT tick('2035-01-01 12:30');
SELECT name, runs(name), next_run, skipped, last_skipped, reason FROM standing;
-- If the tick is on time, all settings behave the same.
SELECT tick('2035-01-01 13:00:00.5');
SELECT name, (runs(name))[cardinality(runs(name))] AS last FROM standing;
-- The search for missed runs ends, however long the gap is.
SELECT jobq_schedule('second', '* * * * * *', 'q', missed => 'all', max_missed => 3, starts_at => '2035-01-01 08:00');
SELECT tick('2135-01-01');
SELECT runs(name), next_run, skipped, last_skipped, reason FROM standing WHERE name = 'second';
ROLLBACK;

-- ---- Overlap: the last job is unfinished
BEGIN;
SET LOCAL jobq.cancel_grace = '1 d';
-- The day after tomorrow is soon enough that the tick does not treat running jobs as lost.
SELECT date_trunc('day', now()) + interval '2 days' AS day \gset
SELECT jobq_schedule('allow', '* * * * *', 'allow', options => '{"heartbeat_timeout": "30 days"}', starts_at => :'day'), jobq_schedule('skip', '* * * * *', 'skip', overlap => 'skip', options => '{"heartbeat_timeout": "30 days"}', starts_at => :'day'),
       jobq_schedule('replace', '* * * * *', 'replace', overlap => 'replace', options => '{"heartbeat_timeout": "30 days"}', starts_at => :'day') \g /dev/null
SELECT tick(:'day'::timestamptz + '00:00');
SELECT tick(:'day'::timestamptz + '00:01');
SELECT name, runs(name), skipped, reason FROM standing;
-- With "replace", a running job is asked to stop, and the next job waits until it has stopped. Jobs of the runs in between are
-- dropped, whatever their outcome is.
UPDATE jobq.jobs SET run_at = now() WHERE queue = 'replace';
SELECT id, lease FROM jobq_claim('replace') \gset
SELECT tick(:'day'::timestamptz + '00:02'), jobq_heartbeat(:id, :lease);
SELECT status, right(scheduled_for, 14) AS scheduled_for FROM fired('replace');
SELECT tick(:'day'::timestamptz + '00:03');
SELECT status, right(scheduled_for, 14) AS scheduled_for FROM fired('replace');
SELECT jobq_release(:id, :lease), settle();
SELECT status, right(scheduled_for, 14) AS scheduled_for FROM fired('replace');
-- The jobs share a unique key. A replacement must not leave the schedule without a job.
SELECT jobq_schedule('keyed', '* * * * *', 'keyed', overlap => 'replace', options => '{"unique_key": "k", "heartbeat_timeout": "30 days"}', starts_at => :'day') > now();
SELECT tick(:'day'::timestamptz + '00:00');
UPDATE jobq.jobs SET run_at = now() WHERE queue = 'keyed';
SELECT id, lease FROM jobq_claim('keyed') \gset
SELECT tick(:'day'::timestamptz + '00:01'), jobq_heartbeat(:id, :lease), jobq_run_schedule('keyed') > :id AS another;
SELECT status, _holds_key, id = (SELECT last_job FROM jobq.schedules WHERE name = 'keyed') AS last FROM jobq.jobs WHERE queue = 'keyed' ORDER BY id;
SELECT jobq_release(:id, :lease), settle();
SELECT status FROM jobq.jobs WHERE queue = 'keyed' ORDER BY id;
-- If another job has the key, it is not replaced, and the run counts as fired.
SELECT jobq_schedule('keyed', '* * * * *', 'keyed', overlap => 'replace', options => '{"unique_key": "other", "heartbeat_timeout": "30 days"}', starts_at => :'day') > now();
SELECT jobq_enqueue('keyed', '"his"', unique_key => 'other') AS his \gset
SELECT jobq_run_schedule('keyed') = :his AS his, status, payload FROM jobq.jobs WHERE id = :his;
SELECT jobq_unschedule('keyed');
-- The same with unique_for: a job that is canceled while it waits does not keep the key.
SELECT jobq_create_queue('gone', keep_failed => '0'),
       jobq_schedule('kept', '* * * * *', 'kept', overlap => 'replace', options => '{"unique_key": "k", "unique_for": "1 day", "heartbeat_timeout": "30 days"}', starts_at => :'day') > now() AS kept,
       jobq_schedule('gone', '* * * * *', 'gone', overlap => 'replace', options => '{"unique_key": "k", "unique_for": "1 day"}', starts_at => :'day') > now() AS gone;
SELECT tick(:'day'::timestamptz + '00:00'), tick(:'day'::timestamptz + '00:01');
SELECT queue, status = 'cancelled' AS cancelled, _holds_key FROM jobq.jobs WHERE queue IN ('kept', 'gone') ORDER BY queue, id;
UPDATE jobq.jobs SET run_at = now() WHERE queue = 'kept';
SELECT id, lease FROM jobq_claim('kept') \gset
SELECT tick(:'day'::timestamptz + '00:02'), jobq_heartbeat(:id, :lease), tick(:'day'::timestamptz + '00:03');
SELECT status, _holds_key FROM jobq.jobs WHERE queue = 'kept' ORDER BY id;
SELECT count(*), (SELECT count(*) FROM jobq.kept_keys WHERE queue IN ('kept', 'gone')) AS keys FROM jobq.jobs WHERE queue = 'gone';
SELECT jobq_unschedule('kept'), jobq_unschedule('gone');
-- A job that waits for a retry is unfinished. After it has finished, the next run is fired.
UPDATE jobq.jobs SET run_at = now() WHERE queue = 'skip';
SELECT id, lease FROM jobq_claim('skip') \gset
SELECT jobq_fail(:id, :lease, 'no', retry_in => '30 years'), tick(:'day'::timestamptz + '00:04'), jobq_cancel(:id), tick(:'day'::timestamptz + '00:05');
SELECT runs('skip');
-- This also applies to manual runs.
SELECT jobq_run_schedule('skip') IS NULL AS skipped;
-- A job whose ID was only written into the schedule is not canceled and does not block runs.
SELECT jobq_enqueue('other') AS other \gset
UPDATE jobq.schedule_settings SET last_job = :other, _unfinished = ARRAY[:other] WHERE name IN ('skip', 'replace');
SELECT tick(:'day'::timestamptz + '00:06'), (SELECT status FROM jobq.jobs WHERE id = :other);
-- A schedule that did not track its unfinished jobs tracks all of them from now on.
SELECT jobq_schedule('allow', '* * * * *', 'allow', overlap => 'replace', starts_at => :'day') > now(), tick(:'day'::timestamptz + '00:07');
SELECT runs('allow');
ROLLBACK;

-- ---- Jitter: each run of each schedule has its own delay, which is always the same
BEGIN;
SELECT count(jobq_schedule('j' || n, '0 0 * * *', 'j', jitter => '10 min', starts_at => '2035-01-01')) FROM generate_series(1, 100) n;
SELECT tick('2035-01-01');
SELECT count(*), count(DISTINCT run_at) > 90 AS spread, min(run_at) >= '2035-01-01' AND max(run_at) < '2035-01-01 00:10' AS within, bool_and(status IN ('scheduled', 'pending')) AS wait FROM jobq.jobs WHERE queue = 'j';
SELECT run_at FROM fired('j1');
ROLLBACK;

-- ---- Runs that cannot be fired are retried less and less often. Other schedules continue. A taken key is not a failure.
BEGIN;
SELECT jobq_create_queue('full', max_depth => 1), jobq_enqueue('full') > 0;
SELECT jobq_schedule('full', '* * * * *', 'full', starts_at => '2035-01-01'), jobq_schedule('good', '* * * * *', 'good', starts_at => '2035-01-01'),
       jobq_schedule('keyed', '* * * * *', 'keyed', options => '{"unique_key": "k", "on_conflict": "error"}', starts_at => '2035-01-01');
SET LOCAL client_min_messages = error;
SELECT tick('2035-01-01');
SELECT name, next_run, failures, error, retry_at FROM jobq.schedules ORDER BY name;
SELECT tick('2035-01-01 00:00:00.9'), tick('2035-01-01 00:00:01');
SELECT failures, retry_at FROM jobq.schedules WHERE name = 'full';
RESET client_min_messages;
SELECT jobq_purge_queue('full'), tick('2035-01-01 00:01');
SELECT name, runs(name), last_run, failures, error, retry_at FROM jobq.schedules ORDER BY name;
-- More failing schedules than fit into a batch.
SELECT count(jobq_schedule('bad ' || n, '@every 1h', 'full', starts_at => '2035-01-02')) FROM generate_series(1, 510) n;
SELECT jobq_schedule('behind them', '@every 1h', 'good', starts_at => '2035-01-02 00:00:00.1') > now();
SET LOCAL client_min_messages = error;
SELECT tick('2035-01-02 00:00:00.2') > 0;
SELECT runs('behind them'), count(*) FILTER (WHERE failures = 1) AS failed FROM jobq.schedules WHERE name LIKE 'bad%';
ROLLBACK;

-- ---- Rows that are inserted or copied, for example from a dump, continue from now. If the time zone is unknown, the row has an
-- error.
BEGIN;
SELECT jobq_schedule('copied', '@hourly', 'q') > now(), jobq_schedule('paused', '@hourly', 'q', paused => true) IS NULL, jobq_schedule('stranger', '@hourly', 'q') > now();
CREATE TEMP TABLE dump AS SELECT * FROM jobq.schedule_settings;
UPDATE dump SET next_run = '2020-01-01', _due_at = '2020-01-01', last_run = '2019-12-31 23:00', error = 'there', failures = 3;
UPDATE dump SET timezone = 'Moon/Tycho' WHERE name = 'stranger';
DELETE FROM jobq.schedule_settings;
INSERT INTO jobq.schedule_settings SELECT * FROM dump;
SELECT name, next_run > now() AS from_now, last_run, _due_at = next_run AS due, error, failures FROM jobq.schedule_settings ORDER BY name;
SET LOCAL client_min_messages = error;
SELECT tick(clock_timestamp());
RESET client_min_messages;
SELECT name, next_run > now() AS from_now, error FROM jobq.schedules ORDER BY name;
-- Changes with plain SQL take effect.
UPDATE jobq.schedule_settings SET timezone = 'UTC' WHERE name = 'stranger';
UPDATE jobq.schedule_settings SET next_run = now() WHERE name = 'copied';
UPDATE jobq.schedule_settings SET paused = false WHERE name = 'paused';
SELECT tick(now());
SELECT name, next_run > now() AS later, last_run = now() AS ran, error FROM jobq.schedules ORDER BY name;
-- Infinity means no limit. Runs that were fired while the clock was hours ahead are not fired again. A last run that is days
-- ahead is considered wrong.
UPDATE jobq.schedule_settings SET starts_at = '-infinity', ends_at = 'infinity' WHERE name = 'copied';
UPDATE jobq.schedule_settings SET timezone = 'Europe/Berlin', last_run = date_trunc('hour', now()) + interval '3 hours' WHERE name = 'paused';
UPDATE jobq.schedule_settings SET timezone = 'Europe/Berlin', last_run = now() + interval '2 days' WHERE name = 'stranger';
SELECT name, next_run <= now() + interval '1 hour' AS within_the_hour, next_run = last_run + interval '1 hour' AS behind FROM jobq.schedules WHERE name <> 'stranger' ORDER BY name;
SELECT jobq_schedule('stranger', '@hourly', 'q', timezone => 'Europe/London') <= now() + interval '1 hour' AS days_ahead;
-- A schedule that lost its next run gets it back when it is deployed again.
UPDATE jobq.schedule_settings SET next_run = NULL WHERE name = 'stranger';
SELECT change, next_run > now() AS later FROM jobq_schedules('[{"name": "stranger", "cron": "@hourly", "queue": "q", "timezone": "Europe/London"}]');
ROLLBACK;

-- ---- Deployments: the set of schedules of a source is what the JSON contains
BEGIN;
SELECT jobq_schedule('by hand', '@daily', 'q', starts_at => '2035-01-01');
SELECT * FROM jobq_schedules('[{"name": "b", "cron": "0 6 * * *", "queue": "q", "starts_at": "2035-01-01"},
                               {"name": "a", "cron": "@every 1h", "queue": "q", "payload": null, "kind": "k", "timezone": "Europe/Berlin", "missed": "all", "max_missed": 7,
                                "overlap": "skip", "deadline": "1 day", "jitter": "1 min", "starts_at": "2035-01-01", "ends_at": "2036-01-01", "paused": true, "options": {"priority": 1}}]', prune => true, source => 'shop');
SELECT payload, kind, timezone, missed, max_missed, overlap, deadline, jitter, starts_at, ends_at, paused, source, options FROM jobq.schedule_settings WHERE name = 'a';
-- A deployment that takes a minute loses no runs: the same times keep the next run, even if it is overdue.
SELECT tick('2035-01-01 06:00');
UPDATE jobq.schedule_settings SET next_run = '2026-01-01 06:00' WHERE name = 'b';
SELECT * FROM jobq_schedules('[{"name": "b", "cron": "0 6 * * *", "queue": "q", "payload": {"v": 2}, "starts_at": "2035-01-01"}]', prune => true, source => 'shop');
SELECT * FROM jobq_schedules('[{"name": "b", "cron": "0 6 * * *", "queue": "q", "payload": {"v": 2}, "starts_at": "2035-01-01"}]', prune => true, source => 'shop');
SELECT * FROM jobq_schedules('[]', source => 'shop');
SELECT * FROM jobq_schedules('[]', prune => true, source => 'shop');
SELECT name FROM jobq.schedules;
ROLLBACK;
SELECT jobq_schedules('{}');
SELECT jobq_schedules('[1]');
SELECT jobq_schedules(NULL);
SELECT jobq_schedules('[{"name": "a", "cron": "@daily", "queue": "q"}, {"name": "a", "cron": "@daily", "queue": "q"}]');
SELECT jobq_schedules('[{"name": "a", "cron": "@daily", "queue": "q"}, {"name": "b", "cron": "0 25 * * *", "queue": "q"}]');
SELECT jobq_schedules('[{"name": "a", "cron": "@daily"}]');
SELECT jobq_schedules('[{"name": "a", "cron": "@daily", "queue": "q", "source": "other"}]');
SELECT jobq_schedules('[{"name": "a", "cron": "@daily", "queue": "q", "deadline": 5}]');
SELECT jobq_schedules('[{"name": "a", "cron": "@daily", "queue": "q", "deadline": "soon"}]');
SELECT jobq_schedules('[{"name": "a", "cron": "@daily", "queue": "q", "paused": "no"}]');
SELECT jobq_schedules('[]', source => repeat('s', 256));

-- ---- A queue with a schedule cannot be dropped, because the schedule would create it again.
BEGIN;
SELECT jobq_create_queue('dropped'), jobq_schedule('of it', '@daily', 'dropped') > now();
SAVEPOINT before;
SELECT jobq_drop_queue('dropped');
ROLLBACK TO before;
SELECT jobq_drop_queue('dropped', force => true);
SELECT count(*) FROM jobq.schedules;
ROLLBACK;

-- ---- Rejected calls change nothing.
SELECT jobq_schedule('bad', '0 25 * * *', 'q');
SELECT jobq_schedule('bad', '0 0 30 feb *', 'q');
SELECT jobq_schedule('bad', '@daily', 'q', timezone => 'Foo5');
SELECT jobq_schedule(NULL, '@daily', 'q');
SELECT jobq_schedule('', '@daily', 'q');
SELECT jobq_schedule(repeat('n', 256), '@daily', 'q');
SELECT jobq_schedule('bad', '@daily', '');
SELECT jobq_schedule('bad', '@daily', 'q', NULL);
SELECT jobq_schedule('bad', '@daily', 'q', kind => repeat('k', 256));
SELECT jobq_schedule('bad', '@daily', 'q', missed => 'never');
SELECT jobq_schedule('bad', '@daily', 'q', overlap => 'Skip');
SELECT jobq_schedule('bad', '@daily', 'q', overlap => repeat('x', 1000));
SELECT jobq_schedule('bad', '@daily', 'q', max_missed => 0);
SELECT jobq_schedule('bad', '@daily', 'q', max_missed => 1001);
SELECT jobq_schedule('bad', '@daily', 'q', deadline => '0');
SELECT jobq_schedule('bad', '@daily', 'q', deadline => '-1 s');
SELECT jobq_schedule('bad', '@daily', 'q', jitter => '366 days');
SELECT jobq_schedule('bad', '@daily', 'q', starts_at => 'infinity');
SELECT jobq_schedule('bad', '@daily', 'q', starts_at => '7000-01-01');
SELECT jobq_schedule('bad', '@daily', 'q', starts_at => '2030-01-02', ends_at => '2030-01-01');
SELECT jobq_schedule('bad', '@daily', 'q', source => repeat('s', 256));
SELECT jobq_schedule('bad', '@daily', 'q', options => '[]');
SELECT jobq_schedule('bad', '@daily', 'q', options => '{"run_at": "2030-01-01"}');
SELECT jobq_schedule('bad', '@daily', 'q', options => '{"depends_on": [1]}');
SELECT jobq_schedule('bad', '@daily', 'q', options => '{"colour": 1}');
SELECT jobq_schedule('bad', '@daily', 'q', options => '{"priority": "high"}');
SELECT jobq_schedule('bad', '@daily', 'q', options => '{"metadata": [1]}');
SELECT jobq_schedule('bad', '@daily', 'q', options => '{"max_attempts": 0}');
SELECT jobq_unschedule(NULL);
SELECT jobq_run_schedule('');
SELECT count(*) FROM jobq.schedules WHERE name = 'bad';
DROP VIEW standing;
DROP FUNCTION fired, runs, tick;
