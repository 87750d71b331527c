-- Kinds with settings of their own. For each setting, the argument of the call or job comes first, then the kind, the queue, and the
-- default.
CREATE FUNCTION pg_temp.own(name text) RETURNS TABLE (kind text, settings jsonb) LANGUAGE sql AS
    $$SELECT k.kind, jsonb_strip_nulls(to_jsonb(k) - '{queue,kind,created_at}'::text[]) FROM jobq.kind_settings k WHERE k.queue = name ORDER BY k.kind$$;

SELECT jobq_create_queue('kinds', max_attempts => 7, heartbeat_timeout => '2 hours', expires_in => '1 day', max_runtime => '3 hours',
                         dead_letter_queue => 'kinds dead');
SELECT jobq_alter_kind('kinds', 'mail', max_attempts => 3, expires_in => '1 hour', backoff => '{10s,1min,5min}');
SELECT jobq_alter_kind('kinds', 'report', heartbeat_timeout => '1 hour', keep_completed => '0', on_max_runtime => 'cancel');
-- NULL leaves a setting unchanged. The value 0, or an empty text, replaces the value of the queue by "none".
SELECT jobq_alter_kind('kinds', 'mail', max_lost => 1);
SELECT jobq_alter_kind('kinds', 'report', max_runtime => '0', expires_in => '0', dead_letter_queue => '');
SELECT * FROM pg_temp.own('kinds');

-- jobq.kinds shows the effective value of each setting, and where it comes from. It also contains kinds without settings that have jobs.
SELECT jobq_enqueue('kinds', kind => 'plain', priority => 9) > 0 AS enqueued;
SELECT kind, has_settings, max_attempts, expires_in, backoff FROM jobq.kinds WHERE queue = 'kinds' ORDER BY kind;
SELECT o.key AS setting, to_jsonb(k) ->> o.key AS value, o.value AS origin
FROM jobq.kinds k, jsonb_each_text(k.origins) o WHERE k.queue = 'kinds' AND k.kind = 'report' ORDER BY o.key COLLATE "C";

-- max_attempts and expires_in are fixed at the enqueue, in whatever way the job is enqueued.
SELECT num_nonnulls(jobq_enqueue('kinds', '1', 'mail'), jobq_enqueue('kinds', '2', 'mail', max_attempts => 5, options => '{"expires_in": "2 hours"}'),
                    jobq_enqueue('kinds', '3', 'mail', unique_key => 'k'), jobq_enqueue('kinds', '4', 'report')) AS enqueued;
SELECT count(*) FROM jobq_enqueue_many('kinds', '{5}', 'mail');
SELECT count(*) FROM jobq_enqueue_jobs('[{"queue": "kinds", "payload": 6, "kind": "mail"}, {"queue": "kinds", "payload": 7, "kind": "report"}]');
INSERT INTO jobq.jobs (queue, kind, payload) VALUES ('kinds', 'mail', '8');
SELECT jobq_schedule('kinds', '0 0 1 1 *', 'kinds', '9', 'mail') > now() AS scheduled;
SELECT jobq_run_schedule('kinds') > 0 AS ran;
SELECT jobq_unschedule('kinds');
SELECT payload, kind, max_attempts, expires_at - run_at AS expires_in FROM jobq.jobs WHERE queue = 'kinds' ORDER BY id;
SELECT jobq_alter_kind('kinds', 'mail', max_attempts => 4);
SELECT DISTINCT max_attempts FROM jobq.jobs WHERE queue = 'kinds' AND payload = '1';

-- max_runtime is fixed at the claim, and so is heartbeat_timeout, unless the claim has an argument. One claim can take several kinds.
SELECT payload, kind, heartbeat_seconds FROM jobq_claim('kinds', 'w', batch => 4, kinds => '{mail,report}');
SELECT kind, _must_end_at - started_at AS max_runtime FROM jobq.jobs WHERE queue = 'kinds' AND status = 'processing' ORDER BY id;
SELECT payload, kind, heartbeat_seconds FROM jobq_claim('kinds', 'w', kinds => '{report}', heartbeat_timeout => '3 hours');
-- Retention is decided when a job finishes: jobs of kind "report" are not kept.
SELECT jobq_complete(id, lease) FROM jobq.jobs WHERE queue = 'kinds' AND kind = 'report' AND status = 'processing';
SELECT count(*) AS reports FROM jobq.jobs WHERE queue = 'kinds' AND kind = 'report';
SELECT jobq_drop_queue('kinds', force => true);
SELECT * FROM pg_temp.own('kinds');

-- Backoff: a list of delays, whose last delay repeats, or a first delay that is doubled until the maximum. Each delay varies by 10 %.
SELECT jobq_create_queue('kinds', backoff => '{1 hour,2 hours}');
SELECT jobq_alter_kind('kinds', 'list', backoff => '{10s,1min,5min}'), jobq_alter_kind('kinds', 'doubled', backoff_base => '1 day'),
       jobq_alter_kind('kinds', 'none', backoff => '{}');
CREATE FUNCTION pg_temp.delays(name text, failures integer) RETURNS SETOF interval LANGUAGE plpgsql AS $$
DECLARE
    job bigint := jobq_enqueue('kinds', kind => name, max_attempts => 99);
    delay interval;
BEGIN
    FOR attempt IN 1 .. failures LOOP
        PERFORM jobq_fail(c.id, c.lease) FROM jobq_claim('kinds', kinds => ARRAY[name]) c;
        SELECT j.run_at - max(a.finished_at) INTO delay FROM jobq.jobs j JOIN jobq.attempts a ON a.job_id = j.id WHERE j.id = job GROUP BY j.id;
        RETURN QUERY SELECT d FROM unnest('{1s,2s,4s,8s,10s,1min,5min,1h,2h,1d}'::interval[]) d WHERE delay BETWEEN d * 0.9 AND d * 1.1;
        PERFORM jobq_reschedule(job, now());
    END LOOP;
    PERFORM jobq_delete(job);
END $$;
SELECT k AS kind, array_agg(d) AS delays FROM unnest('{list,doubled,none,other}'::text[]) k, pg_temp.delays(k, 4) d GROUP BY k ORDER BY k;
-- The default maximum of an hour also applies to a first delay of a day. backoff_base and backoff_max end the use of a list, and a list
-- replaces them.
SELECT jobq_alter_kind('kinds', 'doubled', backoff_max => '2 days'), jobq_alter_kind('kinds', 'list', backoff_max => '2s'),
       jobq_alter_queue('kinds', backoff_base => '4s');
SELECT k AS kind, array_agg(d) AS delays FROM unnest('{list,doubled,other}'::text[]) k, pg_temp.delays(k, 1) d GROUP BY k ORDER BY k;
SELECT * FROM pg_temp.own('kinds');
SELECT backoff, backoff_base FROM jobq.queues WHERE queue = 'kinds';

-- jobq_drop_kind removes the settings with these names, or all settings. The backoff settings are removed together.
SELECT jobq_alter_kind('kinds', 'list', max_lost => 2, keep_failed => '1 day');
SELECT jobq_drop_kind('kinds', 'list', '{backoff_base,max_lost}') AS dropped, jobq_drop_kind('kinds', 'list', '{max_lost}') AS again;
SELECT * FROM pg_temp.own('kinds') WHERE kind = 'list';
SELECT jobq_drop_kind('kinds', 'list', '{keep_failed}') AS last, jobq_drop_kind('kinds', 'doubled') AS dropped, jobq_drop_kind('kinds', 'doubled') AS again;
SELECT kind FROM pg_temp.own('kinds');
SELECT jobq_drop_queue('kinds', force => true);

-- max_lost and the dead letter queue are decided at the failure. The argument of the tick simulates the time.
SELECT jobq_create_queue('kinds', dead_letter_queue => 'kinds dead', heartbeat_timeout => '1 hour', max_lost => 5);
SELECT jobq_alter_kind('kinds', 'fragile', max_lost => 1, dead_letter_queue => 'kinds fragile'), jobq_alter_kind('kinds', 'stays', dead_letter_queue => '');
SELECT jobq_enqueue('kinds', kind => 'fragile') > 0 AS enqueued;
SELECT kind FROM jobq_claim('kinds', 'w');
SELECT count(*) > 0 AS ticked FROM tick_alone(now() + interval '61 minutes');
SELECT queue, dead_from, status, error FROM jobq.jobs WHERE kind = 'fragile';
SELECT count(*) FROM jobq_enqueue_jobs('[{"queue": "kinds", "kind": "stays"}, {"queue": "kinds", "kind": "other"}, {"queue": "kinds", "kind": "fragile"}]');
SELECT jobq_fail(id, lease, 'e', retry => false) FROM jobq_claim('kinds', 'w', batch => 9);
SELECT kind, queue FROM jobq.jobs WHERE queue LIKE 'kinds%' ORDER BY kind, queue;
-- A dead letter queue and all its kinds must keep failed jobs.
SELECT jobq_alter_queue('kinds fragile', keep_failed => '0');
SELECT jobq_alter_kind('kinds fragile', 'fragile', keep_failed => '0');
SELECT jobq_alter_kind('kinds gone', 'k', keep_failed => '0');
SELECT jobq_alter_kind('kinds', 'fragile', dead_letter_queue => 'kinds gone');
SELECT jobq_alter_kind('kinds', 'fragile', dead_letter_queue => 'kinds');
SELECT jobq_drop_queue(q, force => true) FROM unnest('{kinds,kinds dead,kinds fragile,kinds gone}'::text[]) q;

-- The prune deletes each job when the time of its kind is over.
SELECT jobq_create_queue('kinds', keep_completed => '1 day');
SELECT jobq_alter_kind('kinds', 'short', keep_completed => '1 hour'), jobq_alter_kind('kinds', 'long', keep_completed => '1 year');
SELECT count(*) FROM jobq_enqueue_jobs('[{"queue": "kinds", "kind": "short"}, {"queue": "kinds", "kind": "long"}, {"queue": "kinds"}]');
SELECT count(jobq_complete(id, lease)) FROM jobq_claim('kinds', batch => 9);
SELECT count(*) > 0 AS ticked FROM tick_alone(now() + interval '2 hours');
SELECT kind FROM jobq.jobs WHERE queue = 'kinds' ORDER BY kind;
SELECT count(*) > 0 AS ticked FROM tick_alone(now() + interval '2 days');
SELECT kind FROM jobq.jobs WHERE queue = 'kinds' ORDER BY kind;

-- A change takes effect at once, and is rolled back with its transaction. Plain SQL on jobq.kind_settings has the same effect.
BEGIN;
SELECT jobq_alter_kind('kinds', '', max_attempts => 2);
SELECT jobq_enqueue('kinds') AS job \gset
SELECT max_attempts FROM jobq.jobs WHERE id = :job;
ROLLBACK;
SELECT jobq_enqueue('kinds', kind => 'long') AS job \gset
SELECT max_attempts FROM jobq.jobs WHERE id = :job;
UPDATE jobq.kind_settings SET max_attempts = 11 WHERE queue = 'kinds' AND kind = 'long';
SELECT jobq_enqueue('kinds', kind => 'long') AS job \gset
SELECT max_attempts FROM jobq.jobs WHERE id = :job;
DELETE FROM jobq.kind_settings WHERE queue = 'kinds' AND kind = 'long';
SELECT jobq_enqueue('kinds', kind => 'long') AS job \gset
SELECT max_attempts FROM jobq.jobs WHERE id = :job;
-- A job that plain SQL sets to running gets the timeouts of its kind.
INSERT INTO jobq.kind_settings (queue, kind, heartbeat_timeout, max_runtime) VALUES ('kinds', 'long', '5 hours', '6 hours');
UPDATE jobq.jobs SET status = 'processing', started_at = now() WHERE id = :job;
SELECT _lease_timeout, _must_end_at - started_at AS max_runtime FROM jobq.jobs WHERE id = :job;

-- Invalid values are rejected, by the functions and by the table.
\set VERBOSITY terse
SELECT jobq_alter_kind('kinds', NULL);
SELECT jobq_alter_kind('kinds', repeat('k', 256));
SELECT jobq_alter_kind('kinds', 'k', max_attempts => 0);
SELECT jobq_alter_kind('kinds', 'k', heartbeat_timeout => '0');
SELECT jobq_alter_kind('kinds', 'k', max_runtime => '1 ms');
SELECT jobq_alter_kind('kinds', 'k', on_max_runtime => 'retry');
SELECT jobq_alter_kind('kinds', 'k', backoff => '{1s,-1s}');
SELECT jobq_alter_kind('kinds', 'k', backoff => '{1s,NULL}');
SELECT jobq_alter_kind('kinds', 'k', backoff => '{{1s}}');
SELECT jobq_alter_kind('kinds', 'k', backoff => array_fill('1s'::interval, '{101}'));
SELECT jobq_alter_kind('kinds', 'k', backoff => '{1s}', backoff_base => '1s');
SELECT jobq_create_queue('kinds 2', backoff => '{1s}', backoff_max => '1s');
SELECT jobq_drop_kind('kinds', 'long', '{max_depth}');
INSERT INTO jobq.kind_settings (queue, kind, backoff) VALUES ('kinds', 'k', '{NULL}');
INSERT INTO jobq.kind_settings (queue, kind, max_runtime) VALUES ('kinds', 'k', '1 ms');
INSERT INTO jobq.kind_settings (queue, kind, dead_letter_queue) VALUES ('kinds', 'k', 'kinds');
\set VERBOSITY default

-- A role needs the profile "operator" for the queue.
CREATE ROLE kinds_operator;
SELECT jobq_grant('kinds_operator', 'operator', queues => '{kinds}');
SET ROLE kinds_operator;
SELECT jobq_alter_kind('kinds', 'mine', max_lost => 9), jobq_drop_kind('kinds', 'mine') AS dropped;
SELECT jobq_alter_kind('kinds theirs', 'mine', max_lost => 9);
SELECT jobq_drop_kind('kinds theirs', 'mine');
SELECT jobq_alter_kind('kinds', 'mine', dead_letter_queue => 'kinds theirs');
RESET ROLE;
SELECT jobq_revoke('kinds_operator', 'operator');
DROP ROLE kinds_operator;

-- With jobq.require_queues, the queue must exist. Its kinds do not make it exist.
SELECT jobq_drop_queue('kinds', force => true);
SET jobq.require_queues = on;
SELECT jobq_alter_kind('kinds', 'k', max_lost => 9);
RESET jobq.require_queues;
SELECT jobq_alter_kind('kinds', 'k', max_lost => 9);
SELECT has_settings FROM jobq.queues WHERE queue = 'kinds';
SELECT jobq_drop_queue('kinds');
