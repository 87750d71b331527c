-- Operations on jobs: read, cancel, retry, reschedule, and delete, either one job by its ID or many jobs of a queue by a filter.

-- Creates a job in each status.
CREATE FUNCTION pg_temp.fill() RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    PERFORM jobq_drop_queue('operate', force => true);
    PERFORM jobq_enqueue('operate', '"completed"', kind => 'a', metadata => '{"tenant": 1}');
    PERFORM jobq_complete(id, lease, '1') FROM jobq_claim('operate', 'w');
    PERFORM jobq_enqueue('operate', '"failed"', kind => 'b', metadata => '{"tenant": 1}', max_attempts => 1);
    PERFORM jobq_fail(id, lease, 'timeout talking to mail-1') FROM jobq_claim('operate', 'w');
    PERFORM jobq_enqueue('operate', '"failed 2"', kind => 'a', metadata => '{"tenant": 2}', max_attempts => 1);
    PERFORM jobq_fail(id, lease, 'no such user') FROM jobq_claim('operate', 'w');
    PERFORM jobq_enqueue('operate', '"processing"', kind => 'a', metadata => '{"tenant": 2}');
    PERFORM FROM jobq_claim('operate', 'w', heartbeat_timeout => '1 hour');
    PERFORM jobq_cancel(jobq_enqueue('operate', '"cancelled"', kind => 'b'));
    PERFORM jobq_enqueue('operate', '"pending"', kind => 'a', metadata => '{"tenant": 1, "x": []}');
    PERFORM jobq_enqueue('operate', '"scheduled"', kind => 'b', run_at => '2100-01-01');
END $$;
SELECT pg_temp.fill();
SELECT payload, status FROM jobq.jobs WHERE queue = 'operate' ORDER BY id;

-- jobq_get is for roles that cannot read the table.
\x on
SELECT g.queue, g.kind, g.payload, g.priority, g.status, g.attempts, g.max_attempts, g.worker_id, g.heartbeat_timeout, g.error,
       g.finished_at IS NOT NULL AS finished, g.metadata
FROM jobq.jobs j, jobq_get(j.id) g WHERE j.payload = '"failed"';
\x off
SELECT * FROM jobq_get(-1);

-- By ID: the call returns the status after the call, which is unchanged if the operation does not apply, or NULL if the job does
-- not exist.
BEGIN;
SELECT payload, status AS before, jobq_cancel(id) AS cancel FROM jobq.jobs WHERE queue = 'operate' ORDER BY id;
ROLLBACK;
BEGIN;
SELECT payload, status AS before, jobq_retry(id) AS retry FROM jobq.jobs WHERE queue = 'operate' ORDER BY id;
SELECT payload, attempts, max_attempts, result, error, finished_at, cancel_requested_at FROM jobq.jobs WHERE queue = 'operate' AND payload IN ('"completed"', '"failed"', '"cancelled"') ORDER BY id;
ROLLBACK;
BEGIN;
SELECT payload, status AS before, jobq_reschedule(id, '2100-06-01') AS later FROM jobq.jobs WHERE queue = 'operate' ORDER BY id;
SELECT payload, status AS before, jobq_reschedule(id, '2001-01-01') AS due FROM jobq.jobs WHERE queue = 'operate' ORDER BY id;
ROLLBACK;
BEGIN;
SELECT payload, jobq_delete(id) AS status_it_had FROM jobq.jobs WHERE queue = 'operate' ORDER BY id;
SELECT payload, status FROM jobq.jobs WHERE queue = 'operate';
SELECT count(*) AS attempts_left FROM jobq.attempts a WHERE NOT EXISTS (SELECT FROM jobq.jobs j WHERE j.id = a.job_id);
ROLLBACK;
SELECT jobq_cancel(-1), jobq_retry(-1), jobq_reschedule(-1, now()), jobq_delete(-1);

-- A retried job runs again, even if its attempts were used up.
SELECT jobq_retry(id) FROM jobq.jobs WHERE queue = 'operate' AND payload = '"failed"';
SELECT payload, attempt, max_attempts FROM jobq_claim('operate', kinds => '{b}');

-- By filter: the call returns the number of jobs. Without statuses, it uses the statuses that the function is meant for.
CREATE FUNCTION pg_temp.changed(call text) RETURNS TABLE (n bigint, jobs text) LANGUAGE plpgsql AS $$
DECLARE
    before jsonb;
BEGIN
    PERFORM pg_temp.fill();
    SELECT jsonb_object_agg(id, status) INTO before FROM jobq.jobs WHERE queue = 'operate';
    EXECUTE 'SELECT ' || call INTO n;
    SELECT string_agg(b.value || ' -> ' || coalesce(CASE WHEN j.cancel_requested_at IS NOT NULL AND j.status = 'processing' THEN 'asked' ELSE j.status::text END, 'gone'), ', ' ORDER BY b.key::bigint)
    INTO jobs FROM jsonb_each_text(before) b LEFT JOIN jobq.jobs j ON j.id = b.key::bigint
    WHERE j.status IS DISTINCT FROM b.value::jobq.job_status OR (j.cancel_requested_at IS NOT NULL AND j.status = 'processing') OR j.run_at > '2100-02-01';
    RETURN NEXT;
END $$;
SELECT * FROM pg_temp.changed($$jobq_cancel_jobs('operate')$$);
SELECT * FROM pg_temp.changed($$jobq_cancel_jobs('operate', statuses => '{pending,scheduled}')$$);
SELECT * FROM pg_temp.changed($$jobq_retry_jobs('operate')$$);
SELECT * FROM pg_temp.changed($$jobq_retry_jobs('operate', statuses => '{cancelled,completed,scheduled}')$$);
SELECT * FROM pg_temp.changed($$jobq_reschedule_jobs('operate', '2100-06-01')$$);
SELECT * FROM pg_temp.changed($$jobq_reschedule_jobs('operate', '2001-01-01')$$);
SELECT * FROM pg_temp.changed($$jobq_delete_jobs('operate')$$);
SELECT * FROM pg_temp.changed($$jobq_delete_jobs('operate', statuses => '{pending}')$$);
-- Kind, error, metadata, and age restrict the jobs. max_jobs limits their number, lowest IDs first.
SELECT * FROM pg_temp.changed($$jobq_retry_jobs('operate', kind => 'a')$$);
SELECT * FROM pg_temp.changed($$jobq_retry_jobs('operate', error_like => '%timeout%')$$);
SELECT * FROM pg_temp.changed($$jobq_retry_jobs('operate', metadata => '{"tenant": 2}')$$);
SELECT * FROM pg_temp.changed($$jobq_cancel_jobs('operate', metadata => '{"tenant": 1}', kind => 'a')$$);
SELECT * FROM pg_temp.changed($$jobq_delete_jobs('operate', older_than => '1 hour')$$);
SELECT * FROM pg_temp.changed($$jobq_delete_jobs('operate', older_than => '0')$$);
SELECT * FROM pg_temp.changed($$jobq_delete_jobs('operate', max_jobs => 2)$$);
SELECT * FROM pg_temp.changed($$jobq_delete_jobs('operate', max_jobs => 0)$$);
SELECT * FROM pg_temp.changed($$jobq_delete_jobs('no such queue')$$);
SELECT * FROM pg_temp.changed($$jobq_delete_jobs('operate', statuses => '{}')$$);
-- Jobs that are already in the requested state are skipped. So a call that is repeated with the same time until it returns 0
-- reaches all jobs.
CREATE FUNCTION pg_temp.rounds(call text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    n bigint;
    all_rounds text := '';
BEGIN
    FOR i IN 1 .. 10 LOOP
        EXECUTE 'SELECT ' || call INTO n;
        all_rounds := all_rounds || n || ' ';
        EXIT WHEN n = 0;
    END LOOP;
    RETURN all_rounds;
END $$;
SELECT count(*) FROM jobq_enqueue_many('many', array_fill('1'::jsonb, '{250}'));
SELECT pg_temp.rounds($$jobq_reschedule_jobs('many', '2100-01-01', max_jobs => 100)$$);
SELECT status, run_at = '2100-01-01' AS there, count(*) FROM jobq.jobs WHERE queue = 'many' GROUP BY 1, 2;
SELECT pg_temp.rounds($$jobq_reschedule_jobs('many', '2001-01-01', max_jobs => 100)$$);
SELECT status, run_at = '2001-01-01' AS there, count(*) FROM jobq.jobs WHERE queue = 'many' GROUP BY 1, 2;
SELECT jobq_drop_queue('many', force => true);
-- A job that is due but not promoted becomes pending. No tick sees it, because of this transaction.
BEGIN;
SELECT clock_timestamp() + interval '1 s' AS t \gset
SELECT jobq_enqueue('many', run_at => :'t') AS job \gset
SELECT status, pg_sleep(1) FROM jobq.jobs WHERE id = :job;
SELECT jobq_reschedule_jobs('many', :'t');
SELECT status FROM jobq.jobs WHERE id = :job;
SELECT jobq_reschedule_jobs('many', :'t');
ROLLBACK;
-- A status to which the function does not apply is an error. The hint lists the allowed statuses.
SELECT jobq_retry_jobs('operate', statuses => '{failed,pending}');
SELECT jobq_reschedule_jobs('operate', now(), statuses => '{failed}');
\set VERBOSITY terse
SELECT jobq_delete_jobs('operate', statuses => '{processing}');
SELECT jobq_cancel_jobs('operate', statuses => '{failed}');
\set VERBOSITY default
-- A pattern that ends with an escape character is an error, too. Two backslashes mean one.
SELECT jobq_delete_jobs('operate', error_like => '%\');
SELECT jobq_delete_jobs('operate', error_like => '\\\');
SELECT jobq_delete_jobs('operate', error_like => '%\\'), jobq_delete_jobs('operate', error_like => '\\\%'), jobq_delete_jobs('operate', error_like => '');
SELECT jobq_drop_queue('operate', force => true);

-- The keys of filter. All given keys and arguments must match.
SELECT count(*) FROM jobq_enqueue_jobs('[{"queue": "filtered", "payload": 1, "concurrency_key": "ann"},
    {"queue": "filtered", "payload": 2, "concurrency_key": "ann", "version": 2}, {"queue": "filtered", "payload": 3, "concurrency_key": "bob", "version": 2},
    {"queue": "filtered", "payload": 4, "group_key": "g", "kind": "k"}, {"queue": "filtered", "payload": 5, "group_key": "g"}]');
CREATE FUNCTION pg_temp.with_status(job_status jobq.job_status) RETURNS text LANGUAGE sql AS $$
    SELECT string_agg(payload::text, ' ' ORDER BY id) FROM jobq.jobs WHERE queue = 'filtered' AND status = job_status $$;
-- A bulk function skips jobs whose rows another transaction has locked. The promoter locks the first job of a group to unblock it.
DO $$ BEGIN
    WHILE EXISTS (SELECT FROM jobq.jobs WHERE queue = 'filtered' AND payload = '4' AND status = 'blocked') LOOP
        PERFORM jobq_tick();
        PERFORM pg_sleep(0.01);
    END LOOP;
END $$;
SELECT jobq_reschedule_jobs('filtered', '2100-01-01', filter => '{"version": 2}');
SELECT pg_temp.with_status('scheduled');
SELECT jobq_cancel_jobs('filtered', filter => '{"concurrency_key": "ann", "version": 2}');
SELECT jobq_cancel_jobs('filtered', kind => 'k', filter => '{"group_key": "g"}');
SELECT pg_temp.with_status('cancelled');
SELECT jobq_retry_jobs('filtered', statuses => '{cancelled}', filter => '{"concurrency_key": "ann"}');
SELECT pg_temp.with_status('cancelled');
SELECT jobq_delete_jobs('filtered', statuses => '{pending,cancelled}', filter => '{"concurrency_key": "ann"}', max_jobs => 1);
SELECT jobq_delete_jobs('filtered', statuses => '{pending,scheduled,blocked,cancelled}', filter => '{"group_key": "none"}');
SELECT jobq_delete_jobs('filtered', statuses => '{pending,scheduled,blocked,cancelled}', filter => '{}');
SELECT jobq_delete_jobs('filtered', filter => '{"version": "one"}');
SELECT jobq_drop_queue('filtered', force => true);

-- An ID is never mistaken for a queue, and a queue never for an ID: an untyped literal '42' is an ID in the first function and a
-- name in the second.
SELECT jobq_delete('42'), jobq_delete_jobs('42');
