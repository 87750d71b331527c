-- Jobs with a group_key that also depend on others: first the dependencies, then the group.
CREATE FUNCTION pg_temp.tick() RETURNS void LANGUAGE sql AS 'SELECT settle()';
CREATE FUNCTION pg_temp.jobs() RETURNS TABLE (payload jsonb, status jobq.job_status, in_line boolean, is_head boolean, error text) LANGUAGE sql AS
    $$ SELECT payload, status, _group_waiting IS NOT NULL, _group_active IS NOT NULL, regexp_replace(error, '\d+', 'N') FROM jobq.jobs WHERE queue = 'combined' ORDER BY id $$;
SELECT jobq_enqueue('combined', '"a"') AS a \gset
SELECT jobq_enqueue('combined', '"b"', depends_on => ARRAY[:a], group_key => 'g') AS b \gset
SELECT jobq_enqueue('combined', '"c"', group_key => 'g') AS c \gset
SELECT jobq_enqueue('combined', '"d"', depends_on => ARRAY[:b, :c], group_key => 'g', unique_key => 'u') AS d \gset
SELECT pg_temp.tick();
-- b does not hold up its group while it waits for a.
SELECT * FROM pg_temp.jobs();
SELECT payload, jobq_complete(id, lease) FROM jobq_claim('combined');
SELECT pg_temp.tick();
-- It may run now, and waits for c, which is the head of the group.
SELECT * FROM pg_temp.jobs();
SELECT payload, jobq_complete(id, lease) FROM jobq_claim('combined');
SELECT pg_temp.tick();
SELECT * FROM pg_temp.jobs();
-- What is done to d by hand does not let it in front of what it waits for.
UPDATE jobq.jobs SET priority = 3 WHERE id = :d;
UPDATE jobq.jobs SET status = 'blocked' WHERE id = :d;
UPDATE jobq.jobs SET group_key = 'h' WHERE id = :d;
UPDATE jobq.jobs SET group_key = 'g' WHERE id = :d;
SELECT pg_temp.tick();
SELECT * FROM pg_temp.jobs() WHERE payload = '"d"';
SELECT payload, jobq_complete(id, lease) FROM jobq_claim('combined');
SELECT pg_temp.tick();
SELECT * FROM pg_temp.jobs() WHERE payload = '"d"';
SELECT payload, jobq_complete(id, lease) FROM jobq_claim('combined');

-- A dependency whose edge is deleted by hand is none: the job gets into line.
SELECT jobq_purge_queue('combined');
SELECT jobq_enqueue('combined', '"a"') AS a \gset
SELECT jobq_enqueue('combined', '"b"', depends_on => ARRAY[:a], group_key => 'g') AS b \gset
DELETE FROM jobq.dependencies WHERE job_id = :b;
SELECT pg_temp.tick();
SELECT * FROM pg_temp.jobs();
-- An edge that is inserted by hand takes a job out of it.
SELECT jobq_enqueue('combined', '"c"', group_key => 'g') AS c \gset
INSERT INTO jobq.dependencies (job_id, depends_on, on_failure) VALUES (:c, :a, 'cancel');
SELECT jobq_cancel(:b);
SELECT pg_temp.tick();
SELECT * FROM pg_temp.jobs();
-- The failure of a dependency cancels it, and a retry of both makes it wait again.
SELECT payload, jobq_fail(id, lease, 'broken', retry => false) FROM jobq_claim('combined');
SELECT pg_temp.tick();
SELECT * FROM pg_temp.jobs();
SELECT jobq_retry(:c), jobq_retry(:a);
SELECT pg_temp.tick();
SELECT * FROM pg_temp.jobs();
SELECT payload, jobq_complete(id, lease) FROM jobq_claim('combined');
SELECT pg_temp.tick();
SELECT payload, jobq_complete(id, lease) FROM jobq_claim('combined');

-- A head that has to wait for a dependency again is none any more: what it waits for may stand in line behind it.
SELECT jobq_purge_queue('combined');
SELECT jobq_enqueue('combined', '"a"', group_key => 'g') AS a \gset
SELECT jobq_enqueue('combined', '"b"', depends_on => ARRAY[:a], group_key => 'g', run_at => now() + interval '1 hour') AS b \gset
SELECT pg_temp.tick();
SELECT payload, jobq_complete(id, lease) FROM jobq_claim('combined');
SELECT pg_temp.tick();
SELECT jobq_retry(:a);
SELECT * FROM pg_temp.jobs();
SELECT jobq_retry(:b);
SELECT pg_temp.tick();
SELECT * FROM pg_temp.jobs();
SELECT payload, jobq_complete(id, lease) FROM jobq_claim('combined');
SELECT pg_temp.tick();
SELECT * FROM pg_temp.jobs();
-- The same for an edge by hand.
SELECT jobq_enqueue('combined', '"c"') AS c \gset
SELECT jobq_enqueue('combined', '"d"', group_key => 'h') AS d \gset
SELECT pg_temp.tick();
SELECT jobq_enqueue('combined', '"e"', group_key => 'h') AS e \gset
INSERT INTO jobq.dependencies (job_id, depends_on, on_failure) VALUES (:d, :c, 'cancel');
SELECT pg_temp.tick();
SELECT * FROM pg_temp.jobs() WHERE payload IN ('"d"', '"e"');
-- One whose dependencies have completed keeps its place.
SELECT jobq_enqueue('combined', '"f"', depends_on => ARRAY[:a], group_key => 'i', run_at => now() + interval '1 hour') AS f \gset
SELECT pg_temp.tick();
SELECT jobq_enqueue('combined', '"g"', group_key => 'i') AS g \gset
SELECT jobq_retry(:f);
SELECT * FROM pg_temp.jobs() WHERE payload IN ('"f"', '"g"');
SELECT jobq_purge_queue('combined');
-- One in line has its dependencies behind it: whatever is changed of it by hand, or becomes of them, it keeps its place.
SELECT jobq_enqueue('combined', '"a1"', kind => 'a') AS a1 \gset
SELECT jobq_enqueue('combined', '"a2"', kind => 'a') AS a2 \gset
SELECT jobq_enqueue('combined', '"b"', group_key => 'g') > 0 AS enqueued;
SELECT jobq_enqueue('combined', '"c"', depends_on => ARRAY[:a1, :a2], group_key => 'g') AS c \gset
SELECT jobq_enqueue('combined', '"d"', group_key => 'g') > 0 AS enqueued;
SELECT payload, jobq_complete(id, lease) FROM jobq_claim('combined', kinds => '{a}', batch => 2);
SELECT pg_temp.tick();
SELECT * FROM pg_temp.jobs();
UPDATE jobq.jobs SET priority = 1 WHERE id = :c;
UPDATE jobq.dependencies SET on_failure = 'run' WHERE job_id = :c AND depends_on = :a2;
DELETE FROM jobq.dependencies WHERE job_id = :c AND depends_on = :a2;
SELECT * FROM pg_temp.jobs() WHERE payload = '"c"';
-- A dependency that is retried, and fails then, holds up nobody who was free by then.
SELECT jobq_retry(:a1);
UPDATE jobq.jobs SET priority = 2 WHERE id = :c;
SELECT payload, jobq_fail(id, lease, 'broken', retry => false) FROM jobq_claim('combined', kinds => '{a}');
UPDATE jobq.jobs SET priority = 3 WHERE id = :c;
SELECT pg_temp.tick();
-- The commit that ends the head makes it the next one.
BEGIN;
UPDATE jobq.jobs SET priority = 0 WHERE id = :c;
SELECT payload, jobq_complete(id, lease) FROM jobq_claim('combined');
COMMIT;
SELECT pg_temp.tick();
SELECT * FROM pg_temp.jobs();
-- Blocked by hand it waits for its dependencies again: not for one that has completed.
SELECT jobq_retry(:a1);
SELECT payload, jobq_complete(id, lease) FROM jobq_claim('combined', kinds => '{a}');
UPDATE jobq.jobs SET status = 'blocked' WHERE id = :c;
SELECT pg_temp.tick();
SELECT * FROM pg_temp.jobs();
SELECT jobq_retry(:a1);
UPDATE jobq.jobs SET status = 'blocked' WHERE id = :c;
SELECT pg_temp.tick();
SELECT * FROM pg_temp.jobs();
SELECT jobq_purge_queue('combined');

-- With a limit on top: the head of the group still needs a slot, and what waits takes none.
SELECT jobq_set_limit('combined', max_running => 1);
SELECT jobq_enqueue('combined', '"a"') AS a \gset
SELECT jobq_enqueue('combined', '"b"', depends_on => ARRAY[:a], group_key => 'g', concurrency_key => 'k') AS b \gset
SELECT jobq_enqueue('combined', '"c"', group_key => 'g', concurrency_key => 'k') AS c \gset
SELECT pg_temp.tick();
SELECT id, lease, payload FROM jobq_claim('combined', batch => 10) \gset
SELECT count(*) FROM jobq_claim('combined', batch => 10);
SELECT :'payload' AS running, jobq_complete(:id, :lease);
SELECT pg_temp.tick();
SELECT payload, jobq_complete(id, lease) FROM jobq_claim('combined', batch => 10);
SELECT pg_temp.tick();
SELECT payload, jobq_complete(id, lease) FROM jobq_claim('combined', batch => 10);
SELECT blocked, pending, processing FROM jobq.queue_stats WHERE queue = 'combined';
SELECT jobq_drop_queue('combined', force => true);
SELECT count(*) FROM jobq.dependencies d WHERE NOT EXISTS (SELECT FROM jobq.jobs j WHERE j.id = d.job_id);
