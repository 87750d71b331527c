-- jobq_tick() does the work of the background worker, at any simulated time.
SELECT duty FROM jobq_tick();

-- Rescue: a job is rescued when its heartbeat timeout has passed since the last heartbeat, not earlier.
SELECT jobq_enqueue('tick', '"job"') AS id \gset
SELECT id, lease FROM jobq_claim('tick', 'w') \gset
BEGIN;
SELECT last_heartbeat FROM jobq.jobs WHERE id = :id \gset
SELECT done AS rescued FROM jobq_tick(:'last_heartbeat'::timestamptz + interval '60 s') WHERE duty = 'rescue';
SELECT done AS rescued FROM jobq_tick(:'last_heartbeat'::timestamptz + interval '60.000001 s') WHERE duty = 'rescue';
SELECT status, attempts, lost_attempts, lease, _rescue_indexed FROM jobq.jobs WHERE id = :id;
-- The worker that was considered dead comes back. Its lease is lost, so it changes nothing.
SELECT jobq_heartbeat(:id, :lease), jobq_complete(:id, :lease, '"zombie"'), jobq_fail(:id, :lease, 'zombie'), jobq_release(:id, :lease);
SELECT payload, attempt FROM jobq_claim('tick', 'w2');
SELECT jobq_heartbeat(:id, :lease), jobq_complete(:id, :lease, '"zombie"'), jobq_fail(:id, :lease, 'zombie'), jobq_release(:id, :lease);
SELECT status, worker_id, result, lease <> :lease AS new_lease FROM jobq.jobs WHERE id = :id;
SELECT attempt, lease = :lease AS same_lease, outcome, worker_id, started_at < finished_at AS in_order FROM jobq.attempts WHERE job_id = :id;
ROLLBACK;

-- A job runs for 25 minutes with a heartbeat every 30 seconds and a timeout of 60 seconds. It is never rescued during 50
-- heartbeats, each of which follows a tick at the latest possible time. It is rescued one minute after the last heartbeat.
CREATE FUNCTION pg_temp.run_for(job_id bigint, heartbeats integer, every interval) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    rescued bigint := 0;
    at timestamptz;
BEGIN
    FOR n IN 1 .. heartbeats LOOP
        SELECT started_at + every * n INTO at FROM jobq.jobs WHERE id = job_id;
        rescued := rescued + (SELECT done FROM jobq_tick(at) WHERE duty = 'rescue');
        UPDATE jobq.jobs SET last_heartbeat = at WHERE id = job_id AND status = 'processing';
    END LOOP;
    RETURN rescued;
END $$;
BEGIN;
SELECT pg_temp.run_for(:id, 50, '30 s') AS rescued;
SELECT status, last_heartbeat - started_at AS ran_for FROM jobq.jobs WHERE id = :id;
SELECT done AS rescued FROM jobq_tick((SELECT last_heartbeat + interval '61 s' FROM jobq.jobs WHERE id = :id)) WHERE duty = 'rescue';
SELECT status FROM jobq.jobs WHERE id = :id;
ROLLBACK;
-- If heartbeats are too far apart, the job is rescued before the first of them.
BEGIN;
SELECT pg_temp.run_for(:id, 1, '61 s') AS rescued;
ROLLBACK;
SELECT jobq_complete(:id, :lease);

-- Cancel: after a request to cancel, a running job has jobq.cancel_grace to stop.
SELECT jobq_enqueue('tick', '"stubborn"') AS id \gset
BEGIN;
SELECT lease FROM jobq_claim('tick', 'w', heartbeat_timeout => '1 hour') \gset
SELECT jobq_cancel(:id);
SET LOCAL jobq.cancel_grace = '10 min';
SELECT done AS cancelled FROM jobq_tick(now() + interval '9 min') WHERE duty = 'cancel';
SELECT jobq_heartbeat(:id, :lease);
SELECT done AS cancelled FROM jobq_tick(now() + interval '11 min') WHERE duty = 'cancel';
SELECT status, lease, finished_at IS NOT NULL AS finished FROM jobq.jobs WHERE id = :id;
SELECT jobq_heartbeat(:id, :lease), jobq_complete(:id, :lease);
SELECT outcome FROM jobq.attempts WHERE job_id = :id;
ROLLBACK;
-- If cancellation was requested and the worker then died, the job is canceled and does not run again.
BEGIN;
SELECT lease FROM jobq_claim('tick', 'w', heartbeat_timeout => '1 s') \gset
SELECT jobq_cancel(:id);
SELECT done AS rescued FROM jobq_tick(clock_timestamp() + interval '5 s') WHERE duty = 'rescue';
SELECT status FROM jobq.jobs WHERE id = :id;
ROLLBACK;
SELECT jobq_drop_queue('tick', force => true);

-- Promote: a scheduled job becomes pending when it is due.
SELECT jobq_enqueue('tick', '"2100"', run_at => '2100-01-01 00:00+00') > 0 AS enqueued;
SELECT jobq_enqueue('tick', '"2101"', run_at => '2101-01-01 00:00+00') > 0 AS enqueued;
SELECT payload FROM jobq_claim('tick', batch => 10);
BEGIN;
SELECT done AS promoted FROM jobq_tick('2099-12-31 23:59:59.999999+00') WHERE duty = 'promote';
SELECT done AS promoted FROM jobq_tick('2100-01-01 00:00+00') WHERE duty = 'promote';
SELECT payload, status, _ready AS claimable, _due IS NULL AS promoted FROM jobq.jobs WHERE queue = 'tick' ORDER BY id;
SELECT payload FROM jobq_claim('tick', batch => 10);
ROLLBACK;
-- An update that bypassed the triggers left a finished job in the index of due jobs. It does not delay jobs that are due.
BEGIN;
SET LOCAL session_replication_role = replica;
UPDATE jobq.jobs SET status = 'cancelled', finished_at = now() WHERE payload = '"2100"';
SET LOCAL session_replication_role = origin;
SELECT done AS promoted FROM jobq_tick('2100-01-01 00:00+00') WHERE duty = 'promote';
SELECT done AS promoted FROM jobq_tick('2101-01-01 00:00+00') WHERE duty = 'promote';
SELECT payload, status, _due FROM jobq.jobs WHERE queue = 'tick' ORDER BY id;
ROLLBACK;
SELECT jobq_drop_queue('tick', force => true);

-- Prune: completed jobs are deleted after keep_completed, and failed and canceled jobs after keep_failed, by the settings of the
-- queue.
CREATE FUNCTION pg_temp.finish_all(queue text) RETURNS bigint LANGUAGE plpgsql AS $$
BEGIN
    PERFORM jobq_enqueue_many(queue, ARRAY['"completed"', '"failed"', '"cancelled"']::jsonb[]);
    PERFORM jobq_complete(id, lease) FROM jobq_claim(queue);
    PERFORM jobq_fail(id, lease, 'no', retry => false) FROM jobq_claim(queue);
    RETURN jobq_cancel_jobs(queue);
END $$;
SELECT jobq_create_queue('tick long', keep_completed => '30 days', keep_failed => '60 days');
-- A tick skips the prune while the background worker is pruning. This lock waits until the background worker has finished
-- pruning, and prevents it from starting again.
BEGIN;
SELECT count(*) FROM (SELECT FROM jobq.tick_state FOR UPDATE) t;
SELECT pg_temp.finish_all('tick'), pg_temp.finish_all('tick long');
SELECT jobq_enqueue('tick', '"old and pending"', run_at => '2001-01-01') > 0 AS enqueued;
SELECT done AS pruned FROM jobq_tick(now() + interval '23 hours') WHERE duty = 'prune';
SELECT done AS pruned FROM jobq_tick(now() + interval '25 hours') WHERE duty = 'prune';
SELECT queue, payload FROM jobq.jobs WHERE queue LIKE 'tick%' ORDER BY id;
SELECT done AS pruned FROM jobq_tick(now() + interval '15 days') WHERE duty = 'prune';
SELECT done AS pruned FROM jobq_tick(now() + interval '31 days') WHERE duty = 'prune';
SELECT done AS pruned FROM jobq_tick(now() + interval '61 days') WHERE duty = 'prune';
SELECT queue, payload FROM jobq.jobs WHERE queue LIKE 'tick%' ORDER BY id;
SELECT count(*) AS attempts_left FROM jobq.attempts a WHERE NOT EXISTS (SELECT FROM jobq.jobs j WHERE j.id = a.job_id);
ROLLBACK;
SELECT jobq_drop_queue('tick long');

-- An insertion that bypasses the triggers, as in logical replication, adds the kind to the directory. Repair: a job whose kind is
-- missing there is found after a tick.
BEGIN;
SET LOCAL session_replication_role = replica;
INSERT INTO jobq.jobs (queue, kind, payload, run_at, _ready, max_attempts, status, _lane)
VALUES ('tick', 'restored', '"restored"', '2001-01-01', true, 3, 'pending', jobq.lane_of('tick', 'restored', 0, NULL));
SET LOCAL session_replication_role = origin;
SELECT count(*) AS noted FROM jobq.lane_directory WHERE queue = 'tick' AND kind = 'restored';
DELETE FROM jobq.lane_directory WHERE queue = 'tick' AND kind = 'restored';
SELECT payload, kind FROM jobq_claim('tick');
SELECT count(*) AS duties FROM jobq_tick();
SELECT payload, kind FROM jobq_claim('tick');
ROLLBACK;

SELECT * FROM jobq_tick('infinity');

-- A tick prunes only for some milliseconds, so this repeats it until enough jobs are pruned.
CREATE FUNCTION pg_temp.pruned(at timestamptz, wanted bigint) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    pruned bigint := 0;
BEGIN
    FOR i IN 1..1000 LOOP
        pruned := pruned + (SELECT done FROM jobq_tick(at) WHERE duty = 'prune');
        EXIT WHEN pruned >= wanted;
    END LOOP;
    RETURN pruned;
END $$;
-- A queue with a short retention is pruned even if its jobs come after many jobs with a longer retention.
BEGIN;
SELECT count(*) FROM (SELECT FROM jobq.tick_state FOR UPDATE) t;
SELECT jobq_create_queue('tick_short', keep_completed => '1 second');
INSERT INTO jobq.jobs (queue, status, finished_at) SELECT 'tick_long', 'completed', now() FROM generate_series(1, 1500);
INSERT INTO jobq.jobs (queue, status, finished_at) SELECT 'tick_short', 'completed', now() FROM generate_series(1, 5);
SELECT pg_temp.pruned(now() + interval '1 minute', 5);
ROLLBACK;
-- An imported history comes after young jobs, with early times and high IDs. The slow scan finds it.
BEGIN;
SELECT count(*) FROM (SELECT FROM jobq.tick_state FOR UPDATE) t;
INSERT INTO jobq.jobs (queue) SELECT 'tick_young' FROM generate_series(1, 1500);
INSERT INTO jobq.jobs (queue, status, created_at, finished_at)
SELECT 'tick_old', 'completed', now() - interval '3 days', now() - interval '2 days' FROM generate_series(1, 5);
SELECT pg_temp.pruned(now(), 5);
ROLLBACK;
