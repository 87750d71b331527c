-- Problems that other schedulers have had, with the reports in parentheses. jobq must not have them. The tests use times that are
-- years ahead, and are rolled back.
SET timezone = 'UTC';
SET client_min_messages = warning;
CREATE FUNCTION pg_temp.tick(at timestamptz) RETURNS bigint LANGUAGE sql AS $$ SELECT done FROM jobq_tick(at) WHERE duty = 'schedules' $$;
CREATE FUNCTION pg_temp.runs(schedule text) RETURNS TABLE (run timestamptz, status jobq.job_status) LANGUAGE sql AS $$
    SELECT (j.metadata->>'scheduled_for')::timestamptz, j.status FROM jobq.jobs j WHERE j.metadata->>'schedule' = schedule ORDER BY j.id
$$;

-- A schedule has its own time zone: nine in Shanghai and nine in New York, in summer and in winter, whatever the time zone of the
-- session is (pg_cron #16).
BEGIN;
SET LOCAL timezone = 'Asia/Tokyo';
SELECT jobq_schedule('shanghai', '0 9 * * *', 'q', timezone => 'Asia/Shanghai', starts_at => '2035-01-01 00:00+00') AT TIME ZONE 'Asia/Shanghai' AS there;
SELECT jobq_schedule('new york', '0 9 * * *', 'q', timezone => 'America/New_York', starts_at => '2035-01-01 00:00+00') AT TIME ZONE 'America/New_York' AS there;
SELECT pg_temp.tick('2035-01-01 14:00+00'), pg_temp.tick('2035-07-02 14:00+00');
SELECT s.name, r.run AT TIME ZONE s.timezone AS there FROM jobq.schedules s, pg_temp.runs(s.name) r ORDER BY s.name, r.run;
ROLLBACK;

-- The only run of a week is due during a deployment: no tick runs for ten minutes, and then the schedules are deployed again. The
-- run is late, but not lost, and is fired once (oban #630).
BEGIN;
SELECT '[{"name": "weekly", "cron": "0 4 * * sun", "queue": "q", "payload": {"v": 1}, "starts_at": "2035-01-01"}]'::jsonb AS set \gset
SELECT change, next_run FROM jobq_schedules(:'set', prune => true, source => 'app');
SELECT change, next_run FROM jobq_schedules(jsonb_set(:'set', '{0,payload,v}', '2'), prune => true, source => 'app');
SELECT pg_temp.tick('2035-01-07 04:10'), pg_temp.tick('2035-01-07 04:20');
SELECT * FROM pg_temp.runs('weekly');
SELECT next_run, skipped FROM jobq.schedules WHERE name = 'weekly';
ROLLBACK;

-- The server was off for two weeks. A schedule with a run every five seconds runs once, not 241,920 times (river #1035).
BEGIN;
SELECT jobq_schedule('poll', '@every 5s', 'q', starts_at => '2035-01-01');
SELECT pg_temp.tick('2035-01-15 00:00:01'), pg_temp.tick('2035-01-15 00:00:02');
SELECT * FROM pg_temp.runs('poll');
SELECT next_run, last_skipped, skip_reason FROM jobq.schedules WHERE name = 'poll';
ROLLBACK;

-- A job takes longer than the interval of its schedule. The next jobs do not queue up, and the schedule says so (pg_cron #44).
BEGIN;
SELECT date_trunc('minute', now()) + interval '1 day' AS first \gset
SELECT jobq_schedule('refresh', '* * * * *', 'refresh', overlap => 'skip', options => '{"heartbeat_timeout": "30 days"}', starts_at => :'first') = :'first';
SELECT pg_temp.tick(:'first');
UPDATE jobq.jobs SET run_at = now() WHERE queue = 'refresh';
SELECT count(*) AS claimed FROM jobq_claim('refresh');
SELECT pg_temp.tick(:'first'::timestamptz + n * interval '1 minute') FROM generate_series(1, 3) n;
SELECT status FROM pg_temp.runs('refresh');
SELECT skipped, skip_reason FROM jobq.schedules WHERE name = 'refresh';
SELECT jobq_complete(id, lease) FROM jobq.jobs WHERE queue = 'refresh';
SELECT pg_temp.tick(:'first'::timestamptz + interval '4 minutes');
SELECT status, run - :'first' AS behind FROM pg_temp.runs('refresh') WHERE status <> 'completed';
ROLLBACK;

-- The only time of an expression does not exist in one of the years, because the clock changes from one to two (node-cron #919).
-- Also a day that never comes.
SELECT jobq_next_runs('0 1 30 3 *', 'Europe/Lisbon', '2024-11-15', 2);
SELECT jobq_next_runs('0 0 30 2 *');
SELECT jobq_schedule('never', '0 0 31 4,6,9,11 *', 'q');
