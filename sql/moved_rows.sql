-- A report first looks at the position where the claim of the session left the row. The row may have moved, been deleted, or been
-- replaced since.
SET client_min_messages = warning;
CREATE TABLE moved_held (id bigint, lease bigint);
CREATE FUNCTION hold(jobs integer) RETURNS bigint LANGUAGE sql AS $$
    TRUNCATE moved_held;
    SELECT count(*) FROM jobq_enqueue_many('moved', array_fill('{}'::jsonb, ARRAY[jobs]));
    INSERT INTO moved_held SELECT id, lease FROM jobq_claim('moved', 'w', jobs, heartbeat_timeout => '1 hour');
    SELECT count(*) FROM moved_held $$;
CREATE FUNCTION finish() RETURNS TABLE (completed boolean, jobs bigint) LANGUAGE sql AS $$
    SELECT c.completed, count(*) FROM (SELECT array_agg(id) AS ids, array_agg(lease) AS leases FROM moved_held) h, jobq_complete_many(ids, leases) c GROUP BY 1 ORDER BY 1 $$;

-- More rows than a session remembers.
SELECT hold(5000);
SELECT * FROM finish();
-- Updates with plain SQL, HOT and not HOT, and heartbeats.
SELECT hold(3);
UPDATE jobq.jobs SET metadata = '1' WHERE queue = 'moved' AND status = 'processing';
UPDATE jobq.jobs SET priority = 3 WHERE queue = 'moved' AND status = 'processing' AND id = (SELECT min(id) FROM moved_held);
SELECT h.state, count(*) FROM (SELECT array_agg(id) AS ids, array_agg(lease) AS leases FROM moved_held) a, jobq_heartbeat_many(ids, leases) h GROUP BY 1;
SELECT jobq_heartbeat(id, lease, '"half"') FROM moved_held;
SELECT * FROM finish();
-- The table is rewritten.
SELECT hold(3);
VACUUM FULL jobq.jobs;
SELECT * FROM finish();
-- The rows are deleted, and other rows reuse their positions.
SELECT hold(50);
DELETE FROM jobq.jobs WHERE queue = 'moved';
VACUUM jobq.jobs;
SELECT count(*) FROM jobq_enqueue_many('moved', array_fill('{}'::jsonb, ARRAY[200]));
SELECT count(*) FROM jobq_claim('moved', 'x', 100, heartbeat_timeout => '1 hour');
SELECT * FROM finish();
-- The table is shorter.
SELECT hold(50);
DELETE FROM jobq.jobs WHERE queue = 'moved';
VACUUM (TRUNCATE) jobq.jobs;
SELECT * FROM finish();
SELECT hold(50);
TRUNCATE jobq.jobs;
SELECT * FROM finish();
-- The same IDs again, with other leases and without leases.
INSERT INTO jobq.jobs (id, queue, status, lease, _lease_timeout) SELECT id, 'moved', 'processing', lease + 1, '1 hour' FROM moved_held WHERE id % 2 = 0;
INSERT INTO jobq.jobs (id, queue) SELECT id, 'moved' FROM moved_held WHERE id % 2 = 1;
SELECT * FROM finish();
UPDATE moved_held SET lease = lease + 1;
SELECT * FROM finish();
DELETE FROM jobq.jobs WHERE queue = 'moved';
-- A claim that was rolled back, also to a savepoint, and a claim in the same transaction.
SELECT count(*) FROM jobq_enqueue_many('moved', array_fill('{}'::jsonb, ARRAY[4]));
BEGIN;
SELECT count(*) FROM jobq_claim('moved', 'w', 4);
ROLLBACK;
BEGIN;
SAVEPOINT a;
SELECT count(*) FROM jobq_claim('moved', 'w', 4);
ROLLBACK TO a;
SELECT c.id AS rolled_back, c.lease AS rolled_back_lease FROM jobq_claim('moved', 'w') c \gset
ROLLBACK TO a;
SELECT jobq_complete(:rolled_back, :rolled_back_lease);
SELECT count(*) FROM (SELECT jobq_complete(id) AS done FROM jobq_claim('moved', 'w', 2)) c WHERE done;
COMMIT;
-- REPEATABLE READ.
BEGIN ISOLATION LEVEL REPEATABLE READ;
SELECT count(*) FROM (SELECT jobq_complete(id) AS done FROM jobq_claim('moved', 'w', 2)) c WHERE done;
COMMIT;
SELECT status, count(*) FROM jobq.jobs WHERE queue = 'moved' GROUP BY 1;

SELECT jobq_drop_queue('moved', force => true);
DROP TABLE moved_held;
DROP FUNCTION hold, finish;
