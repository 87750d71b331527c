-- Halted groups: with the queue setting group_on_failure => 'halt', a job that fails permanently stays the head of its group. The next
-- job of the group does not run until an operator has retried, canceled, deleted, or skipped the failed job.
\set VERBOSITY default
\set SHOW_CONTEXT never
CREATE FUNCTION pg_temp.shown(name text) RETURNS text LANGUAGE sql AS $$
    SELECT string_agg(format('%s %s%s', payload #>> '{}', status,
                             CASE WHEN _group_active IS NOT NULL THEN ' (head)' WHEN _group_waiting IS NOT NULL THEN ' (waits)' END), ', ' ORDER BY id)
    FROM jobq.jobs WHERE queue = name $$;
CREATE FUNCTION pg_temp.id(name text, job text) RETURNS bigint LANGUAGE sql AS $$
    SELECT id FROM jobq.jobs WHERE queue = name AND payload = to_jsonb(job) $$;
-- Enqueues jobs a1, a2, and a3 of group a, and makes the first one fail.
CREATE FUNCTION pg_temp.halt(name text) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
    PERFORM jobq_enqueue_many(name, '{"\"a1\"","\"a2\"","\"a3\""}', group_keys => '{a,a,a}');
    PERFORM settle();
    PERFORM jobq_fail(id, lease, 'broken', retry => false) FROM jobq_claim(name, 'w', heartbeat_timeout => '1 hour');
    PERFORM settle();
    RETURN pg_temp.shown(name);
END $$;

SELECT jobq_create_queue('halt', group_on_failure => 'halt', dead_letter_queue => 'halt dead');
SELECT group_on_failure FROM jobq.queues WHERE queue = 'halt';
SELECT pg_temp.halt('halt');
-- The failed job is not moved to the dead letter queue, and no other job of the group runs. Other groups are not affected.
SELECT jobq_enqueue('halt', '"b1"', group_key => 'b') > 0 AS enqueued, jobq_enqueue('halt', '"x"') > 0;
SELECT settle();
SELECT payload FROM jobq_claim('halt', 'w', batch => 10, heartbeat_timeout => '1 hour');
SELECT jobq_complete(id, lease) FROM jobq.jobs WHERE queue = 'halt' AND status = 'processing' ORDER BY id;
SELECT pg_temp.shown('halt');
-- The view shows halted groups, and so do the explanations of the failed job, of the jobs that wait, and of the queue.
SELECT queue, group_key, job_id = pg_temp.id('halt', 'a1') AS is_a1, kind, error, halted_at IS NOT NULL AS halted, waiting FROM jobq.halted_groups;
SELECT pg_temp.id('halt', 'a1') AS a1, pg_temp.id('halt', 'a2') AS a2, pg_temp.id('halt', 'a3') AS a3 \gset
SELECT reason, detail FROM jobq_explain(:a1);
SELECT reason, regexp_replace(detail, 'job \d+', 'job N') AS detail, jobs = ARRAY[:a1]::bigint[] AS names_a1 FROM jobq_explain(:a3);
SELECT reason, detail, jobs = ARRAY[:a1]::bigint[] AS names_a1 FROM jobq_explain_queue('halt') WHERE reason = 'halted';
SELECT event, detail FROM jobq_log(:a1);
SELECT name, labels, value FROM jobq_metrics() WHERE name = 'jobq_halted_groups';

-- The prune does not delete the failed job, however old it is.
SELECT count(*) > 0 AS ticked FROM tick_alone(now() + interval '10 years');
SELECT pg_temp.shown('halt');

-- A retry runs the failed job again, still as the head.
SELECT jobq_retry(:a1);
SELECT settle();
SELECT pg_temp.shown('halt');
-- If it fails again, the group halts again. If it completes, the group continues.
SELECT jobq_fail(id, lease, 'broken again', retry => false) FROM jobq_claim('halt', 'w', heartbeat_timeout => '1 hour');
SELECT settle();
SELECT pg_temp.shown('halt');
SELECT jobq_retry(:a1);
SELECT jobq_complete(id, lease) FROM jobq_claim('halt', 'w', heartbeat_timeout => '1 hour');
SELECT settle();
SELECT pg_temp.shown('halt');
SELECT count(*) FROM jobq.halted_groups;

-- jobq_skip moves the failed job to the dead letter queue, and the next job runs. The retention period begins with the skip. The
-- function returns false for a job that does not halt its group.
SELECT jobq_fail(id, lease, 'broken', retry => false) FROM jobq_claim('halt', 'w', heartbeat_timeout => '1 hour');
SELECT finished_at AS failed_at FROM jobq.jobs WHERE id = :a2 \gset
SELECT jobq_skip(:a1), jobq_skip(:a3), jobq_skip(-1);
SELECT jobq_skip(:a2);
SELECT jobq_skip(:a2);
SELECT settle();
SELECT pg_temp.shown('halt');
SELECT payload, status, error, dead_from, finished_at > :'failed_at' AS kept_longer FROM jobq.jobs WHERE queue = 'halt dead';
-- A dead letter that is moved back waits in its group again.
SELECT jobq_redrive('halt dead');
SELECT settle();
SELECT pg_temp.shown('halt');
SELECT jobq_drop_queue('halt', force => true);

-- Without a dead letter queue, the skipped job stays in its queue as an ordinary failed job.
SELECT jobq_create_queue('halt', group_on_failure => 'halt');
SELECT pg_temp.halt('halt');
SELECT jobq_skip(pg_temp.id('halt', 'a1'));
SELECT settle();
SELECT pg_temp.shown('halt');
SELECT jobq_drop_queue('halt', force => true);

-- The group also continues when the failed job is canceled or deleted.
SELECT jobq_create_queue('halt', group_on_failure => 'halt');
SELECT pg_temp.halt('halt');
SELECT jobq_cancel(pg_temp.id('halt', 'a1'));
SELECT settle();
SELECT pg_temp.shown('halt');
SELECT jobq_fail(id, lease, 'broken', retry => false) FROM jobq_claim('halt', 'w', heartbeat_timeout => '1 hour');
SELECT jobq_delete(pg_temp.id('halt', 'a2'));
SELECT settle();
SELECT pg_temp.shown('halt');
-- Other failed jobs cannot be canceled.
SELECT jobq_enqueue('halt', '"x"', max_attempts => 1) AS x \gset
SELECT jobq_fail(id, lease, 'broken') FROM jobq_claim('halt', 'w', batch => 10, heartbeat_timeout => '1 hour') WHERE id = :x;
SELECT jobq_cancel(:x);
SELECT jobq_drop_queue('halt', force => true);

-- Each of these failures halts the group: the last attempt fails, the worker is lost too often, and the attempt takes too long.
SELECT jobq_create_queue('halt', group_on_failure => 'halt', max_attempts => 1);
SELECT count(*) FROM jobq_enqueue_many('halt', '{"\"a1\"","\"b1\"","\"c1\"","\"a2\"","\"b2\"","\"c2\""}', group_keys => '{a,b,c,a,b,c}');
UPDATE jobq.jobs SET max_attempts = 5 WHERE queue = 'halt' AND payload = '"b1"';
UPDATE jobq.jobs SET max_runtime = '1 hour' WHERE queue = 'halt' AND payload = '"c1"';
SELECT jobq_alter_queue('halt', max_lost => 1);
SELECT settle();
SELECT count(*) FROM jobq_claim('halt', 'w1', batch => 1, heartbeat_timeout => '300 days');
SELECT count(*) FROM jobq_claim('halt', 'w2', batch => 1, heartbeat_timeout => '30 minutes');
SELECT count(*) FROM jobq_claim('halt', 'w3', batch => 1, heartbeat_timeout => '300 days');
SELECT jobq_fail(id, lease, 'broken') FROM jobq.jobs WHERE queue = 'halt' AND payload = '"a1"';
SELECT count(*) > 0 AS ticked FROM tick_alone(now() + interval '2 hours');
SELECT settle();
SELECT pg_temp.shown('halt');
SELECT group_key, error FROM jobq.halted_groups ORDER BY group_key;
SELECT jobq_drop_queue('halt', force => true);
-- These ends do not halt the group: a cancellation of the running job, an expiry, an exceeded max_runtime that cancels the job, and a
-- job that the full queue drops.
SELECT jobq_create_queue('halt', group_on_failure => 'halt', on_max_runtime => 'cancel', on_full => 'drop_oldest', max_depth => 5);
SELECT count(*) FROM jobq_enqueue_many('halt', '{"\"a1\"","\"a2\"","\"a3\"","\"a4\"","\"a5\""}', group_keys => '{a,a,a,a,a}');
SELECT settle();
SELECT jobq_cancel(id), jobq_fail(id, lease, 'broken') FROM jobq_claim('halt', 'w', heartbeat_timeout => '1 hour');
SELECT settle();
UPDATE jobq.jobs SET expires_at = now() WHERE queue = 'halt' AND payload = '"a2"';
SELECT count(*) > 0 AS ticked FROM tick_alone(now());
SELECT settle();
SELECT pg_temp.shown('halt');
UPDATE jobq.jobs SET max_runtime = '10 minutes' WHERE queue = 'halt' AND payload = '"a3"';
SELECT count(*) FROM jobq_claim('halt', 'w', heartbeat_timeout => '1 hour');
SELECT count(*) > 0 AS ticked FROM tick_alone(now() + interval '20 minutes');
SELECT settle();
SELECT pg_temp.shown('halt');
SELECT count(jobq_enqueue('halt', to_jsonb('b' || i))) FROM generate_series(1, 4) i;
SELECT settle();
SELECT pg_temp.shown('halt');
SELECT jobq_drop_queue('halt', force => true);

-- A job that depends on the failed job sees a failed job, as without this setting.
SELECT jobq_create_queue('halt', group_on_failure => 'halt');
SELECT jobq_enqueue('halt', '"a1"', group_key => 'a') AS a1 \gset
SELECT jobq_enqueue('halt', '"later"', depends_on => ARRAY[:a1]::bigint[]) > 0 AS enqueued;
SELECT settle();
SELECT jobq_fail(id, lease, 'broken', retry => false) FROM jobq_claim('halt', 'w', heartbeat_timeout => '1 hour');
SELECT settle();
SELECT pg_temp.shown('halt');
SELECT jobq_drop_queue('halt', force => true);

-- If another job has taken the unique key of the failed job, the retry fails and the group stays halted.
SELECT jobq_create_queue('halt', group_on_failure => 'halt');
SELECT jobq_enqueue('halt', '"a1"', group_key => 'a', unique_key => 'k') AS a1 \gset
SELECT jobq_enqueue('halt', '"a2"', group_key => 'a') > 0 AS enqueued;
SELECT settle();
SELECT jobq_fail(id, lease, 'broken', retry => false) FROM jobq_claim('halt', 'w', heartbeat_timeout => '1 hour');
SELECT jobq_enqueue('halt', '"x"', unique_key => 'k') AS x \gset
\set VERBOSITY sqlstate
SELECT jobq_retry(:a1);
\set VERBOSITY default
SELECT jobq_retry_jobs('halt') AS retried;
SELECT settle();
SELECT pg_temp.shown('halt');
SELECT jobq_delete(:x), jobq_retry(:a1);
SELECT pg_temp.shown('halt');
SELECT jobq_drop_queue('halt', force => true);

-- When the setting becomes 'continue', the halted groups continue. The failed jobs stay in their queue.
SELECT jobq_create_queue('halt', group_on_failure => 'halt', dead_letter_queue => 'halt dead');
SELECT pg_temp.halt('halt');
SELECT jobq_alter_queue('halt', group_on_failure => 'continue');
SELECT settle();
SELECT pg_temp.shown('halt');
-- A change of the setting does not halt groups whose job has failed before.
SELECT jobq_alter_queue('halt', group_on_failure => 'halt');
SELECT settle();
SELECT pg_temp.shown('halt');
-- The setting can also be changed with plain SQL.
SELECT jobq_fail(id, lease, 'broken', retry => false) FROM jobq_claim('halt', 'w', heartbeat_timeout => '1 hour');
SELECT pg_temp.shown('halt');
UPDATE jobq.queue_settings SET group_on_failure = 'continue' WHERE queue = 'halt';
SELECT settle();
SELECT pg_temp.shown('halt');
SELECT jobq_drop_queue('halt', force => true);

-- Operators of other queues cannot skip the job, and producers cannot call the function.
SELECT jobq_create_queue('halt', group_on_failure => 'halt');
SELECT pg_temp.halt('halt');
SELECT pg_temp.id('halt', 'a1') AS a1 \gset
CREATE ROLE regress_jobq_halt;
SELECT jobq_grant('regress_jobq_halt', 'operator', queues => '{elsewhere}');
SET ROLE regress_jobq_halt;
SELECT jobq_skip(:a1);
RESET ROLE;
SELECT jobq_revoke('regress_jobq_halt', 'operator');
SELECT jobq_grant('regress_jobq_halt', 'producer');
SET ROLE regress_jobq_halt;
SELECT jobq_skip(:a1);
RESET ROLE;
SELECT jobq_revoke('regress_jobq_halt', 'producer');
DROP ROLE regress_jobq_halt;
SELECT jobq_drop_queue('halt', force => true);

-- A queue that keeps no failed jobs keeps the failed job until the job does not halt its group any more.
SELECT jobq_create_queue('halt', group_on_failure => 'halt', keep_failed => '0');
SELECT pg_temp.halt('halt');
SELECT count(*) > 0 AS ticked FROM tick_alone(now() + interval '1 day');
SELECT pg_temp.shown('halt');
SELECT jobq_skip(pg_temp.id('halt', 'a1'));
SELECT settle();
SELECT count(*) > 0 AS ticked FROM tick_alone(now() + interval '1 day');
SELECT pg_temp.shown('halt');
SELECT jobq_alter_queue('halt', group_on_failure => 'stop');
SELECT jobq_drop_queue('halt', force => true);

-- Plain SQL: an UPDATE that sets the head to failed halts the group, and other changes of the failed job do not end the halt. An UPDATE
-- that sets the failed job to completed or cancelled, or a DELETE, lets the group continue.
SELECT jobq_create_queue('halt', group_on_failure => 'halt', dead_letter_queue => 'halt dead');
SELECT count(*) FROM jobq_enqueue_many('halt', '{"\"a1\"","\"a2\"","\"a3\"","\"a4\""}', group_keys => '{a,a,a,a}');
SELECT settle();
UPDATE jobq.jobs SET status = 'failed', error = 'by hand' WHERE queue = 'halt' AND payload = '"a1"';
UPDATE jobq.jobs SET metadata = '{"seen": true}' WHERE queue = 'halt' AND payload = '"a1"';
SELECT settle();
SELECT pg_temp.shown('halt');
-- A job in line that is set to failed does not halt the group.
UPDATE jobq.jobs SET status = 'failed' WHERE queue = 'halt' AND payload = '"a2"';
SELECT settle();
SELECT pg_temp.shown('halt'), pg_temp.shown('halt dead');
UPDATE jobq.jobs SET status = 'pending' WHERE queue = 'halt' AND payload = '"a1"';
SELECT pg_temp.shown('halt');
UPDATE jobq.jobs SET status = 'failed' WHERE queue = 'halt' AND payload = '"a1"';
UPDATE jobq.jobs SET status = 'completed' WHERE queue = 'halt' AND payload = '"a1"';
SELECT settle();
SELECT pg_temp.shown('halt');
UPDATE jobq.jobs SET status = 'failed' WHERE queue = 'halt' AND payload = '"a3"';
DELETE FROM jobq.jobs WHERE queue = 'halt' AND payload = '"a3"';
SELECT settle();
SELECT pg_temp.shown('halt');
SELECT jobq_drop_queue('halt', force => true), jobq_drop_queue('halt dead', force => true);
-- An UPDATE that moves the failed job out of the group ends the halt, too. The retention period of the job begins at this time.
SELECT jobq_create_queue('halt', group_on_failure => 'halt');
SELECT pg_temp.halt('halt');
SELECT finished_at AS failed_at FROM jobq.jobs WHERE queue = 'halt' AND payload = '"a1"' \gset
UPDATE jobq.jobs SET metadata = '1' WHERE queue = 'halt' AND payload = '"a1"';
SELECT finished_at > :'failed_at' AS kept_longer FROM jobq.jobs WHERE queue = 'halt' AND payload = '"a1"';
UPDATE jobq.jobs SET group_key = NULL WHERE queue = 'halt' AND payload = '"a1"';
SELECT finished_at > :'failed_at' AS kept_longer FROM jobq.jobs WHERE queue = 'halt' AND payload = '"a1"';
SELECT settle();
SELECT pg_temp.shown('halt');
SELECT jobq_drop_queue('halt', force => true);
