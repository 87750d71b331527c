-- jobq_metrics counts the events of jobs by queue and kind, after they are committed. jobq_prometheus returns the same as text.
-- Without preload, there are no totals, but everything else is the same. `wrong` returns unexpected totals, if there are any.
CREATE FUNCTION has_totals() RETURNS boolean LANGUAGE sql AS $$ SELECT labels->>'preloaded' = 'true' FROM jobq_metrics() WHERE name = 'jobq_info' $$;
CREATE FUNCTION told(of_queue text, of_kind text) RETURNS text LANGUAGE sql AS $$
    SELECT string_agg(concat_ws(' ', regexp_replace(m.name, '^jobq_(jobs_|attempts_)?|_total$', '', 'g'), m.labels->>'outcome', m.value), ', ' ORDER BY m.name, m.labels->>'outcome')
    FROM jobq_metrics() m WHERE m.labels->>'queue' = of_queue AND coalesce(m.labels->>'kind', '') = of_kind AND m.name LIKE '%\_total' AND m.value <> 0 $$;
CREATE FUNCTION wrong(of_queue text, of_kind text, expected text) RETURNS text LANGUAGE sql AS $$
    SELECT told(of_queue, of_kind) WHERE told(of_queue, of_kind) IS DISTINCT FROM CASE WHEN has_totals() THEN expected END $$;
-- The count of a histogram.
CREATE FUNCTION observed(span text, of_queue text) RETURNS bigint LANGUAGE sql AS $$
    SELECT sum(value) FROM jobq_metrics() WHERE name = format('jobq_job_%s_seconds_count', span) AND labels->>'queue' = of_queue $$;

-- Changes by function calls.
SELECT count(*) FROM jobq_enqueue_many('metrics', array_fill('{}'::jsonb, '{12}'), kind => 'a');
SELECT count(*) FROM (SELECT jobq_complete(id, lease) FROM jobq_claim('metrics', batch => 2)) c;
SELECT count(*) FROM (SELECT jobq_fail(id, lease, 'e', '1 hour') FROM jobq_claim('metrics')) c;
SELECT count(*) FROM (SELECT jobq_fail(id, lease, 'e', retry => false) FROM jobq_claim('metrics')) c;
SELECT count(*) FROM (SELECT jobq_snooze(id, '1 day', lease) FROM jobq_claim('metrics')) c;
SELECT wrong('metrics', 'a', 'ended completed 2, ended failed 2, ended released 1, claimed 5, completed 2, enqueued 12, failed 1');
SELECT observed('wait', 'metrics') IS DISTINCT FROM CASE WHEN has_totals() THEN 5 END AS waits, observed('run', 'metrics') IS DISTINCT FROM CASE WHEN has_totals() THEN 5 END AS runs;
-- A running job is canceled, a waiting job is canceled, a job is retried, and jobs are deleted.
SELECT id, lease FROM jobq_claim('metrics', heartbeat_timeout => '1 hour') \gset
SELECT jobq_cancel(:id), jobq_release(:id, :lease), jobq_cancel_jobs('metrics', statuses => '{pending}', max_jobs => 1), jobq_retry(:id);
SELECT jobq_delete(:id), jobq_delete_jobs('metrics', statuses => '{completed}', max_jobs => 1);
SELECT wrong('metrics', 'a', 'ended completed 2, ended failed 2, ended released 1, ended withdrawn 1, cancelled 2, claimed 6, completed 2, deleted 2, enqueued 12, failed 1, retried 1');

-- A rolled-back change is not counted.
BEGIN;
SELECT count(*) FROM (SELECT jobq_enqueue('metrics', kind => 'b') FROM generate_series(1, 3)) e;
SAVEPOINT s;
SELECT jobq_enqueue('metrics', kind => 'b') IS NOT NULL AS e;
SELECT count(*) FROM jobq_claim('metrics', kinds => '{b}', batch => 2);
ROLLBACK TO s;
SAVEPOINT t;
SELECT jobq_enqueue('metrics', kind => 'b') IS NOT NULL AS e;
RELEASE t;
SELECT wrong('metrics', 'b', NULL) AS "nothing is told before the commit";
COMMIT;
BEGIN;
SELECT count(*) FROM (SELECT jobq_complete(id, lease) FROM jobq_claim('metrics', kinds => '{b}', batch => 4)) c;
ROLLBACK;
SELECT wrong('metrics', 'b', 'enqueued 4');

-- Changes with plain SQL. If the kind changes, the event counts for the new kind.
INSERT INTO jobq.jobs (queue, kind, status) VALUES ('metrics', 'c', 'pending'), ('metrics', 'c', 'completed'), ('metrics', 'c', 'processing');
UPDATE jobq.jobs SET status = 'failed' WHERE queue = 'metrics' AND kind = 'c' AND status = 'processing';
UPDATE jobq.jobs SET status = 'processing' WHERE queue = 'metrics' AND kind = 'c' AND status = 'pending';
UPDATE jobq.jobs SET status = 'pending' WHERE queue = 'metrics' AND kind = 'c' AND status = 'failed';
DELETE FROM jobq.jobs WHERE queue = 'metrics' AND kind = 'c';
SELECT wrong('metrics', 'c', 'ended withdrawn 2, claimed 2, deleted 3, enqueued 3, failed 1, retried 1');

-- Dependencies, full queues, unique keys, and queues that keep no finished jobs.
SELECT jobq_create_queue('metrics brief', keep_completed => '0', max_depth => 2, on_full => 'drop_oldest');
SELECT count(*) FROM (SELECT jobq_enqueue('metrics brief') FROM generate_series(1, 3)) e;
SELECT count(*) FROM (SELECT jobq_complete(id, lease) FROM jobq_claim('metrics brief', batch => 1)) c;
SELECT count(*) FROM (SELECT jobq_enqueue('metrics brief', unique_key => 'k', on_conflict => 'ignore') FROM generate_series(1, 3)) e;
SELECT wrong('metrics brief', '', 'ended completed 1, claimed 1, completed 1, deleted 1, dropped 1, enqueued 4');
SELECT jobq_enqueue('metrics', kind => 'd') AS first \gset
SELECT jobq_enqueue('metrics', kind => 'd', depends_on => ARRAY[:first]) IS NOT NULL AS second;
SELECT jobq_cancel(:first);
SELECT settle();
SELECT wrong('metrics', 'd', 'cancelled 1, dropped 1, enqueued 2');
-- A job expires.
SELECT jobq_enqueue('metrics', kind => 'f', run_at => now() - interval '2 hours', options => '{"expires_in": "1 hour"}') IS NOT NULL AS e;
SELECT settle();
SELECT wrong('metrics', 'f', 'enqueued 1, expired 1');

-- An expired lease, and an attempt that exceeds max_runtime.
SELECT jobq_create_queue('metrics lost', max_lost => 1, on_max_runtime => 'fail', backoff_base => '1 day', backoff_max => '1 day');
SELECT count(*) FROM (SELECT jobq_enqueue('metrics lost') FROM generate_series(1, 2)) e;
SELECT count(*) FROM jobq_claim('metrics lost', heartbeat_timeout => '10 min');
UPDATE jobq.jobs SET max_runtime = '20 min', heartbeat_timeout = '3 hours' WHERE queue = 'metrics lost' AND status = 'pending';
SELECT count(*) FROM jobq_claim('metrics lost');
SELECT count(*) > 0 AS ticked FROM tick_alone(now() + interval '1 hour');
SELECT wrong('metrics lost', '', 'ended failed 1, ended lost 1, claimed 2, enqueued 2');

-- While tracking is off, nothing is counted, so the totals are too low afterward.
SET jobq.track_metrics = off;
SELECT jobq_enqueue('metrics', kind => 'e') IS NOT NULL AS e;
RESET jobq.track_metrics;
SELECT wrong('metrics', 'e', NULL);

-- The current state.
SELECT labels, value FROM jobq_metrics() WHERE name = 'jobq_jobs' AND labels->>'queue' = 'metrics' AND labels->>'status' IN ('pending', 'scheduled', 'processing') ORDER BY labels;
SELECT jobq_pause_queue('metrics brief');
SELECT labels, value FROM jobq_metrics() WHERE name = 'jobq_queue_paused' AND labels->>'queue' LIKE 'metrics%' ORDER BY labels;
SELECT count(*) FROM jobq_claim('metrics', 'somebody', kinds => '{b}', batch => 2, heartbeat_timeout => '1 hour');
SELECT name, labels, value < 600 AS value FROM jobq_metrics() WHERE name IN ('jobq_busy_workers', 'jobq_queue_oldest_heartbeat_seconds') AND labels->>'queue' = 'metrics' ORDER BY name;
SELECT value > 0 AND value < 600 AS age FROM jobq_metrics() WHERE name = 'jobq_queue_oldest_pending_seconds' AND labels->>'queue' = 'metrics';
SELECT count(*) AS states FROM jobq_metrics() WHERE name = 'jobq_schedules';

-- All names and labels are in the list of metrics, no series is duplicated, and each histogram is valid.
SELECT DISTINCT m.name FROM jobq_metrics() m
WHERE NOT EXISTS (SELECT FROM jobq.metric_families() f
                  WHERE m.name = ANY (CASE f.type WHEN 'histogram' THEN ARRAY[f.name || '_bucket', f.name || '_sum', f.name || '_count'] ELSE ARRAY[f.name] END)
                    AND NOT EXISTS (SELECT FROM jsonb_object_keys(m.labels) k WHERE k <> ALL (string_to_array(f.labels, ',')) AND (k <> 'le' OR m.name NOT LIKE '%\_bucket')));
SELECT name, labels FROM jobq_metrics() GROUP BY 1, 2 HAVING count(*) > 1;
SELECT name, labels FROM (SELECT name, labels, value, lag(value) OVER (PARTITION BY name, labels - 'le' ORDER BY (labels->>'le')::float8) AS before
                          FROM jobq_metrics() WHERE name LIKE '%\_bucket') b WHERE value < before;
SELECT b.name, b.labels FROM jobq_metrics() b JOIN jobq_metrics() c ON b.name LIKE '%\_bucket' AND c.name = replace(b.name, '_bucket', '_count') AND c.labels = b.labels - 'le'
WHERE b.labels->>'le' = '+Inf' AND b.value <> c.value;

-- As text: the same metrics in the order of the list, each family once with its help and type. Labels are escaped.
SELECT jobq_enqueue(E'metrics "quoted" \\ \n', kind => E'\t''k') IS NOT NULL AS e;
CREATE TEMP TABLE lines AS SELECT n, line FROM regexp_split_to_table(jobq_prometheus(), '\n') WITH ORDINALITY l(line, n) WHERE line <> '';
SELECT line FROM lines WHERE line LIKE '%metrics _"quoted%pending"%';
SELECT count(*) FROM lines WHERE line !~ '^(# (HELP|TYPE) jobq_\w+ .*|jobq_\w+(\{(\w+="([^"\\]|\\["\\n])*",?)+\})? ([-+.e0-9]+|\+Inf|NaN))$';
SELECT line FROM lines WHERE line LIKE '#%' GROUP BY 1 HAVING count(*) > 1;
SELECT count(*) > 8 AS enough, count(*) FILTER (WHERE h.line NOT LIKE '# HELP%') AS without_help
FROM lines t LEFT JOIN lines h ON h.n = t.n - 1 WHERE t.line LIKE '# TYPE%';

-- If a queue is dropped, its totals are dropped, too, unless the drop is rolled back.
BEGIN;
SELECT jobq_drop_queue('metrics lost', force => true);
ROLLBACK;
SELECT wrong('metrics lost', '', 'ended failed 1, ended lost 1, claimed 2, enqueued 2');
SELECT jobq_drop_queue('metrics lost', force => true);
SELECT wrong('metrics lost', '', NULL);
-- A reset of all totals.
SELECT clock_timestamp() AS before \gset
SELECT jobq_reset_metrics() >= :'before' IS DISTINCT FROM CASE WHEN has_totals() THEN true END AS wrong;
SELECT name, labels, value FROM jobq_metrics() WHERE labels->>'queue' LIKE 'metrics%' AND (name LIKE '%\_total' OR name LIKE '%\_count');
SELECT count(*) AS wrong FROM jobq_metrics() WHERE name = 'jobq_stats_reset_timestamp_seconds' AND value < extract(epoch FROM :'before'::timestamptz)::float8 - 0.001;
SELECT count(*) FROM (SELECT jobq_complete(id, lease) FROM jobq_claim('metrics', batch => 1, kinds => '{a}')) c;
SELECT wrong('metrics', 'a', 'ended completed 1, claimed 1, completed 1');

-- The value falls when a schedule is removed, so it is not a counter.
SELECT value AS skipped FROM jobq_metrics() WHERE name = 'jobq_schedule_runs_skipped' \gset
SELECT jobq_schedule('metrics', '@daily', 'metrics') > now() AS scheduled;
UPDATE jobq.schedule_settings SET skipped = 5 WHERE name = 'metrics';
SELECT name, type, value - :skipped AS skipped FROM jobq_metrics() JOIN jobq.metric_families() USING (name) WHERE name = 'jobq_schedule_runs_skipped';
SELECT jobq_unschedule('metrics');
SELECT value - :skipped AS skipped FROM jobq_metrics() WHERE name = 'jobq_schedule_runs_skipped';

-- Extreme values in the rows are reported.
BEGIN;
SELECT jobq_schedule('metrics', '@daily', 'metrics') > now() AS scheduled;
UPDATE jobq.schedule_settings SET next_run = 'infinity', skipped = 9223372036854775807 WHERE name = 'metrics';
SELECT value > 1e9 AS overdue FROM jobq_metrics() WHERE name = 'jobq_schedules_overdue_seconds';
UPDATE jobq.schedule_settings SET next_run = '-infinity' WHERE name = 'metrics';
SELECT value > 1e9 AS overdue FROM jobq_metrics() WHERE name = 'jobq_schedules_overdue_seconds';
SELECT jobq_schedule('metrics more', '@daily', 'metrics') > now() AS scheduled;
UPDATE jobq.schedule_settings SET skipped = 9223372036854775807 WHERE name = 'metrics more';
SELECT value > 1e19 AS skipped FROM jobq_metrics() WHERE name = 'jobq_schedule_runs_skipped';
SET LOCAL session_replication_role = replica;
INSERT INTO jobq.jobs (queue, max_attempts, run_at, status, attempts, worker_id, lease, started_at, last_heartbeat, _rescue_indexed, _lane)
SELECT 'metrics ' || t, 1, now(), 'processing', 1, 'w', 1, t, t, true, 1 FROM unnest('{infinity,-infinity}'::timestamptz[]) t;
SELECT labels->>'queue' AS queue, value > 1e9 AS long_ago FROM jobq_metrics() WHERE name = 'jobq_queue_oldest_heartbeat_seconds' AND labels->>'queue' LIKE '%infinity' ORDER BY queue;
ROLLBACK;

-- Privileges.
CREATE ROLE regress_jobq_metrics;
SET ROLE regress_jobq_metrics;
SELECT count(*) FROM jobq_metrics();
SELECT jobq_prometheus();
RESET ROLE;
SELECT jobq_grant('regress_jobq_metrics', 'monitor');
SET ROLE regress_jobq_metrics;
SELECT count(*) > 20 AS monitor FROM jobq_metrics();
SELECT jobq_prometheus() ~ '^# HELP jobq_jobs ' AS monitor;
SELECT jobq_reset_metrics();
RESET ROLE;
SELECT jobq_revoke('regress_jobq_metrics', 'monitor');
-- An operator of some queues sees only these queues.
SELECT jobq_grant('regress_jobq_metrics', 'operator', queues => '{metrics brief}');
SET ROLE regress_jobq_metrics;
SELECT DISTINCT labels->>'queue' AS queue FROM jobq_metrics();
RESET ROLE;
SELECT jobq_revoke('regress_jobq_metrics', 'operator');
DROP ROLE regress_jobq_metrics;
SELECT count(*) FROM (SELECT jobq_drop_queue(queue, force => true) FROM jobq.queues WHERE queue LIKE 'metrics%') d;
DROP FUNCTION has_totals, told, wrong, observed;
