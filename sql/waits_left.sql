-- A finished job waits for nothing: no rows of its waits are left, and no results are kept for it.
SELECT jobq_create_queue('waits_left', keep_completed => '0') AS created;
CREATE VIEW waits_left AS
SELECT (SELECT count(*) FROM jobq.edges w WHERE w.kind = 'awaits') AS waits, (SELECT count(*) FROM jobq.steps s WHERE s._awaited IS NOT NULL) AS armed,
       (SELECT count(*) FROM jobq.deleted_dependencies) AS results;
-- A job that waits for two others. The first one has completed and was deleted.
CREATE FUNCTION await_two(OUT waiter bigint, OUT state text) LANGUAGE plpgsql AS $$
DECLARE
    first bigint := jobq_enqueue('waits_left', kind => 'first');
    second bigint := jobq_enqueue('waits_left', kind => 'second', run_at => now() + interval '1 day');
    held record;
BEGIN
    waiter := jobq_enqueue('waits_left', kind => 'waiter');
    SELECT id, lease INTO held FROM jobq_claim('waits_left', kinds => '{waiter}', heartbeat_timeout => '1 hour');
    PERFORM jobq_step_done(held.id, held.lease, 'before');
    state := (SELECT a.state FROM jobq_await_jobs(held.id, held.lease, ARRAY[first, second], 'both') a);
    PERFORM jobq_complete(id, lease, '"result"') FROM jobq_claim('waits_left', kinds => '{first}', heartbeat_timeout => '1 hour');
    PERFORM jobq_delete(first);
END $$;

SELECT state, waiter FROM await_two() \gset
SELECT :'state' AS state;
SELECT settle();
SELECT count(*) > 0 AS ticked FROM tick_alone(now());
SELECT * FROM waits_left;
-- The job is canceled while it waits.
SELECT jobq_cancel(:waiter) AS cancelled;
SELECT waits, armed FROM waits_left;
SELECT settle();
SELECT count(*) > 0 AS ticked FROM tick_alone(now());
SELECT * FROM waits_left;

-- Plain SQL sets the status to failed.
SELECT state, waiter FROM await_two() \gset
SELECT settle();
UPDATE jobq.jobs SET status = 'failed' WHERE id = :waiter;
SELECT waits, armed FROM waits_left;
SELECT settle();
SELECT count(*) > 0 AS ticked FROM tick_alone(now());
SELECT * FROM waits_left;
-- When it is retried, it waits again.
SELECT jobq_retry(:waiter) AS retried;
SELECT a.state FROM jobq_claim('waits_left', kinds => '{waiter}', heartbeat_timeout => '1 hour') c,
    jobq_await_jobs(c.id, c.lease, (SELECT jobs FROM jobq.steps WHERE job_id = c.id AND name = 'both'), 'both') a;
SELECT waits, armed FROM waits_left;
SELECT jobq_cancel(:waiter) AS cancelled;

-- The job became pending, did not check its wait, and is retried from a step before the wait.
SELECT state, waiter FROM await_two() \gset
SELECT settle();
UPDATE jobq.jobs SET status = 'pending' WHERE id = :waiter;
SELECT jobq_snooze(id, '1 hour', lease) FROM jobq_claim('waits_left', kinds => '{waiter}', heartbeat_timeout => '1 hour');
SELECT waits FROM waits_left;
SELECT jobq_retry_from(:waiter, 'before') AS retried;
SELECT waits, armed FROM waits_left;
SELECT settle();
SELECT count(*) > 0 AS ticked FROM tick_alone(now());
SELECT * FROM waits_left;

-- A signal is not kept for a canceled job that waited for it.
SELECT jobq_enqueue('waits_left', kind => 'event') AS waiter \gset
SELECT a.state FROM jobq_claim('waits_left', kinds => '{event}', heartbeat_timeout => '1 hour') c, jobq_await(c.id, c.lease, 'paid') a;
SELECT jobq_cancel(:waiter) AS cancelled;
SELECT waits, armed FROM waits_left;

DROP FUNCTION await_two;
DROP VIEW waits_left;
SELECT jobq_drop_queue('waits_left', force => true);
