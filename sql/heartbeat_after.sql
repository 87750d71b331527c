-- The answer of a heartbeat after the attempt has ended: "finished" if a report with the same lease ended it, "lost" if the lease
-- was taken away, and "gone" if the job does not exist.
\set VERBOSITY default
SET client_min_messages = warning;
CREATE TEMP TABLE held (n integer, id bigint, lease bigint);
CREATE FUNCTION pg_temp.take(queue text, n integer) RETURNS void LANGUAGE sql AS
$$ INSERT INTO held SELECT take.n, c.id, c.lease FROM jobq_claim(take.queue, 'w', batch => 1, heartbeat_timeout => '1 hour') c $$;
CREATE FUNCTION pg_temp.state(n integer) RETURNS text LANGUAGE sql AS
$$ SELECT jobq_heartbeat(h.id, h.lease, '"late"') FROM held h WHERE h.n = state.n $$;
CREATE FUNCTION pg_temp.beat(n integer, report text) RETURNS text LANGUAGE plpgsql AS
$$ DECLARE answer text; BEGIN
    EXECUTE (SELECT format('SELECT ' || report, h.id, h.lease) FROM held h WHERE h.n = beat.n) INTO answer;
    RETURN answer || ', then ' || pg_temp.state(n);
END $$;
SELECT count(*) FROM jobq_enqueue_many('after', array_fill('{}'::jsonb, '{10}'), max_attempts => 2);

-- After each kind of report
SELECT pg_temp.take('after', n) FROM generate_series(1, 5) n \g /dev/null
SELECT pg_temp.beat(1, 'jobq_complete(%s, %s)') AS completed,
       pg_temp.beat(2, $$jobq_fail(%s, %s, retry_in => '1 hour')$$) AS scheduled,
       pg_temp.beat(3, $$jobq_fail(%s, %s, retry => false)$$) AS failed,
       pg_temp.beat(4, 'jobq_release(%s, %s)') AS released,
       pg_temp.beat(5, $$jobq_snooze(%s, '1 hour', %s)$$) AS snoozed \gx
SELECT status, progress FROM jobq.jobs WHERE queue = 'after' AND id IN (SELECT id FROM held) ORDER BY id;
-- With other leases
SELECT jobq_heartbeat(id, lease + 1) FROM held ORDER BY n;

-- Cancellation was requested, and the worker stopped
SELECT pg_temp.take('after', 6) \g /dev/null
SELECT jobq_cancel(id) FROM held WHERE n = 6;
SELECT pg_temp.state(6), pg_temp.beat(6, 'jobq_fail(%s, %s)') AS cancelled;
SELECT pg_temp.take('after', 7) \g /dev/null
SELECT jobq_cancel(id) FROM held WHERE n = 7;
SELECT pg_temp.beat(7, 'jobq_release(%s, %s)') AS cancelled;

-- The job runs again. The outcome of the new attempt does not affect the answer for the first one.
SELECT jobq_retry(id) FROM held WHERE n IN (1, 2) ORDER BY n;
SELECT pg_temp.state(1), pg_temp.state(2);
UPDATE held SET n = 100 + n WHERE n IN (1, 2);
INSERT INTO held SELECT h.n - 100, c.id, c.lease FROM jobq_claim('after', 'w', batch => 100, heartbeat_timeout => '1 hour') c LEFT JOIN held h ON h.id = c.id AND h.n > 100;
SELECT pg_temp.state(1), pg_temp.state(101), pg_temp.state(2), pg_temp.state(102);
SELECT jobq_complete(id, lease) FROM held WHERE n IN (1, 2);
SELECT pg_temp.state(1), pg_temp.state(101), pg_temp.state(2), pg_temp.state(102);

-- The lease was taken away: missing heartbeats, max_runtime, a forced cancellation, plain SQL
SELECT count(*) FROM jobq_enqueue_many('taken', '{1,2}');
SELECT jobq_enqueue('taken', options => '{"max_runtime": "30 min"}') > 0 AS enqueued;
SELECT jobq_create_queue('overrun', on_max_runtime => 'cancel', max_runtime => '30 min');
SELECT jobq_enqueue('overrun') > 0 AS enqueued;
TRUNCATE held;
SELECT pg_temp.take('taken', n) FROM generate_series(1, 3) n \g /dev/null
SELECT pg_temp.take('overrun', 4) \g /dev/null
SELECT jobq_cancel(id) FROM held WHERE n = 2;
SELECT pg_temp.state(n) FROM generate_series(1, 4) n;
UPDATE jobq.jobs SET last_heartbeat = now() - interval '30 min' WHERE id = (SELECT id FROM held WHERE n = 1);
UPDATE jobq.jobs SET cancel_requested_at = now() - interval '2 hours' WHERE id = (SELECT id FROM held WHERE n = 2);
-- The background worker may have locked one of these jobs.
DO $$ BEGIN
    FOR i IN 1..6000 LOOP
        PERFORM jobq_tick(now() + interval '40 min');
        EXIT WHEN NOT EXISTS (SELECT FROM jobq.jobs j JOIN held USING (id) WHERE j.status = 'processing');
        PERFORM pg_sleep(0.01);
    END LOOP;
END $$;
SELECT h.n, j.status, a.outcome, a.reported, pg_temp.state(h.n)
FROM held h JOIN jobq.jobs j USING (id) JOIN jobq.attempts a ON a.job_id = j.id ORDER BY h.n;
INSERT INTO held SELECT 5, id, lease FROM jobq_claim('taken', heartbeat_timeout => '1 hour');
UPDATE jobq.jobs SET status = 'completed' WHERE id = (SELECT id FROM held WHERE n = 5);
SELECT pg_temp.state(5);

-- The job does not exist: it was deleted when it finished, deleted with plain SQL while it ran, or never existed
SELECT jobq_create_queue('unkept', keep_completed => '0', keep_failed => '0');
SELECT count(*) FROM jobq_enqueue_many('unkept', array_fill('{}'::jsonb, '{3}'));
TRUNCATE held;
SELECT pg_temp.take('unkept', n) FROM generate_series(1, 3) n \g /dev/null
SELECT pg_temp.beat(1, 'jobq_complete(%s, %s)') AS completed, pg_temp.beat(2, 'jobq_fail(%s, %s, retry => false)') AS failed;
DELETE FROM jobq.jobs WHERE id = (SELECT id FROM held WHERE n = 3);
SELECT pg_temp.state(3), jobq_heartbeat(-1, 1);

-- Many heartbeats in one call: the caller's order, duplicates once; also for roles without access to the tables, and without the
-- index
SELECT count(*) FROM jobq_enqueue_many('after', array_fill('{}'::jsonb, '{4}'));
TRUNCATE held;
SELECT pg_temp.take('after', n) FROM generate_series(1, 4) n \g /dev/null
SELECT jobq_complete(id, lease) FROM held WHERE n = 1;
SELECT jobq_release(id, lease) FROM held WHERE n = 3;
SELECT jobq_cancel(id) FROM held WHERE n = 4;
DROP INDEX jobq.attempts_job_idx;
CREATE ROLE regress_jobq_beats;
SELECT jobq_grant('regress_jobq_beats', 'worker');
GRANT SELECT ON held TO regress_jobq_beats;
SET ROLE regress_jobq_beats;
SELECT b.place, h.n, b.state
FROM jobq_heartbeat_many((SELECT array_agg(id ORDER BY n DESC) || ARRAY[-7, -7]::bigint[] FROM held),
                         (SELECT array_agg(lease ORDER BY n DESC) || ARRAY[1, 1]::bigint[] FROM held)) WITH ORDINALITY AS b(id, state, place) LEFT JOIN held h USING (id) ORDER BY b.place;
RESET ROLE;
CREATE INDEX attempts_job_idx ON jobq.attempts (job_id, lease);
DROP OWNED BY regress_jobq_beats;
DROP ROLE regress_jobq_beats;
SELECT jobq_drop_queue(q, force => true) FROM unnest('{after,taken,overrun,unkept}'::text[]) q;
