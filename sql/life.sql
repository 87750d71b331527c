-- The life cycle of a job: the next status for each status and event. docs/internals/life.md contains this table.
SET client_min_messages = warning;
SELECT jobq_create_queue('life', heartbeat_timeout => '1 minute', backoff_base => '1 hour', max_attempts => 2) AS created;
-- The background worker does not see these jobs, because the whole test is one transaction.
BEGIN;
CREATE FUNCTION pg_temp.in_status(wanted jobq.job_status, OUT id bigint, OUT held bigint) LANGUAGE plpgsql AS $$
BEGIN
    IF wanted = 'blocked' THEN
        id := jobq_enqueue('life', depends_on => ARRAY[jobq_enqueue('life', kind => 'other')]);
    ELSE
        id := jobq_enqueue('life', run_at => CASE wanted WHEN 'scheduled' THEN now() + interval '1 day' END, unique_key => 'k' || random());
    END IF;
    IF wanted < 'processing' THEN
        RETURN;
    END IF;
    SELECT c.lease INTO STRICT held FROM jobq_claim('life', 'w', kinds => '{""}') c;
    CASE wanted
        WHEN 'completed' THEN PERFORM jobq_complete(id, held, '1');
        WHEN 'failed' THEN PERFORM jobq_fail(id, held, 'bad', retry => false);
        WHEN 'cancelled' THEN PERFORM jobq_cancel(id), jobq_release(id, held);
        ELSE NULL;
    END CASE;
END $$;
-- The columns that depend on the status. An empty result means that all of them are correct.
CREATE FUNCTION pg_temp.wrong(j jobq.jobs) RETURNS text LANGUAGE sql AS $$
    SELECT string_agg(law, ', ') FROM (VALUES
        ('_ready', j._ready IS NOT DISTINCT FROM CASE j.status WHEN 'pending' THEN true END),
        ('_due', j._due IS NOT DISTINCT FROM CASE j.status WHEN 'scheduled' THEN true END),
        ('_holds_key', j._holds_key IS NOT DISTINCT FROM CASE WHEN j.status <= 'processing' AND j.unique_key IS NOT NULL THEN true END),
        ('lease', j.lease IS NULL OR j.status = 'processing'),
        ('_rescue_indexed', j._rescue_indexed IS NULL OR j.status = 'processing'),
        ('_must_end_at', j._must_end_at IS NULL OR j.status = 'processing'),
        ('finished_at', (j.finished_at IS NOT NULL) = (j.status > 'processing')),
        ('result', j.result IS NULL OR j.status = 'completed'),
        ('cancel_requested_at', j.cancel_requested_at IS NULL OR j.status >= 'processing'),
        ('attempts', j.attempts BETWEEN 0 AND j.max_attempts)) l(law, holds) WHERE NOT holds $$;
CREATE FUNCTION pg_temp.becomes(was jobq.job_status, event text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    job_id bigint;
    held bigint;
    answer text;
    job jobq.jobs;
BEGIN
    SELECT s.id, coalesce(s.held, 1) INTO job_id, held FROM pg_temp.in_status(was) s;
    BEGIN
        EXECUTE format(event, job_id, held) INTO answer;
    EXCEPTION WHEN others THEN
        answer := SQLSTATE;
    END;
    SELECT * INTO job FROM jobq.jobs j WHERE j.id = job_id;
    IF pg_temp.wrong(job) <> '' THEN
        RAISE 'after %: wrong: %', event, pg_temp.wrong(job);
    END IF;
    -- Later claims must not get another job instead.
    DELETE FROM jobq.jobs j WHERE j.queue = 'life' AND j.kind = '';
    -- No arrow means no change.
    RETURN coalesce(answer, 'NULL') || CASE WHEN job.id IS NULL THEN ' -> gone' WHEN job.status <> was THEN ' -> ' || job.status
                          WHEN was = 'processing' AND job.cancel_requested_at IS NOT NULL THEN ', asked' ELSE '' END;
END $$;
CREATE FUNCTION pg_temp.lost_at_last(job bigint) RETURNS bigint LANGUAGE plpgsql AS $$
BEGIN
    UPDATE jobq.jobs SET max_attempts = attempts WHERE id = job AND status = 'processing';
    RETURN (SELECT sum(done) FROM jobq_tick(now() + interval '1 hour') WHERE duty = 'rescue');
END $$;
SELECT event, s, pg_temp.becomes(s, call)
FROM (VALUES (1, 'claim', $$SELECT count(*) FROM jobq_claim('life', 'w', kinds => '{""}')$$),
             (2, 'heartbeat', 'SELECT jobq_heartbeat(%s, %s)'),
             (3, 'complete', 'SELECT jobq_complete(%s, %s)'),
             (4, 'fail', $$SELECT jobq_fail(%s, %s, 'bad')$$),
             (5, 'fail permanently', $$SELECT jobq_fail(%s, %s, 'bad', retry => false)$$),
             (6, 'release', 'SELECT jobq_release(%s, %s)'),
             (7, 'snooze', $$SELECT jobq_snooze(%s, '1 hour', %s)$$),
             (8, 'cancel', 'SELECT jobq_cancel(%s)'),
             (9, 'retry', 'SELECT jobq_retry(%s)'),
             (10, 'reschedule', $$SELECT jobq_reschedule(%s, now() + interval '2 days')$$),
             (11, 'reschedule, due', $$SELECT jobq_reschedule(%s, now())$$),
             (12, 'delete', 'SELECT jobq_delete(%s)'),
             (13, 'tick, an hour later', $$SELECT sum(done) FROM jobq_tick(now() + interval '1 hour') WHERE duty IN ('rescue', 'promote')$$),
             (14, 'tick, two days later', $$SELECT sum(done) FROM jobq_tick(now() + interval '2 days') WHERE duty IN ('rescue', 'promote')$$),
             (15, 'tick, 15 days later', $$SELECT sum(done) FROM jobq_tick(now() + interval '15 days') WHERE duty IN ('rescue', 'promote')$$),
             (16, 'lost in the last attempt', 'SELECT pg_temp.lost_at_last(%s)')
            ) e(n, event, call),
     unnest(enum_range(NULL::jobq.job_status)) s
ORDER BY n, s \crosstabview
-- The same for changes with plain SQL.
SELECT 'SET status = ' || t AS event, s,
       pg_temp.becomes(s, $$UPDATE jobq.jobs SET status = '$$ || t || $$' WHERE id = %s RETURNING status$$)
FROM unnest(enum_range(NULL::jobq.job_status)) t, unnest(enum_range(NULL::jobq.job_status)) s
ORDER BY t, s \crosstabview
ROLLBACK;
SELECT jobq_drop_queue('life', force => true) AS dropped;
