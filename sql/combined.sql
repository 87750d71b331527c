-- Jobs with a group_key and dependencies. The dependencies come first. Then the job enters the line of its group.
CREATE FUNCTION pg_temp.tick() RETURNS void LANGUAGE sql AS 'SELECT settle()';
CREATE FUNCTION pg_temp.jobs() RETURNS TABLE (payload jsonb, status jobq.job_status, in_line boolean, is_head boolean, error text) LANGUAGE sql AS
    $$ SELECT payload, status, _group_waiting IS NOT NULL, _group_active IS NOT NULL, regexp_replace(error, '\d+', 'N') FROM jobq.jobs WHERE queue = 'combined' ORDER BY id $$;
SELECT jobq_enqueue('combined', '"a"') AS a \gset
SELECT jobq_enqueue('combined', '"b"', depends_on => ARRAY[:a], group_key => 'g') AS b \gset
SELECT jobq_enqueue('combined', '"c"', group_key => 'g') AS c \gset
SELECT jobq_enqueue('combined', '"d"', depends_on => ARRAY[:b, :c], group_key => 'g', unique_key => 'u') AS d \gset
SELECT pg_temp.tick();
-- b does not block its group while it waits for a.
SELECT * FROM pg_temp.jobs();
SELECT payload, jobq_complete(id, lease) FROM jobq_claim('combined');
SELECT pg_temp.tick();
-- The dependency of b has completed, and b waits for c, which is the head of the group.
SELECT * FROM pg_temp.jobs();
SELECT payload, jobq_complete(id, lease) FROM jobq_claim('combined');
SELECT pg_temp.tick();
SELECT * FROM pg_temp.jobs();
-- UPDATE statements cannot move d ahead of jobs that it waits for.
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

-- If the edge of a dependency is deleted with plain SQL, the dependency no longer counts, and the job enters the line.
SELECT jobq_purge_queue('combined');
SELECT jobq_enqueue('combined', '"a"') AS a \gset
SELECT jobq_enqueue('combined', '"b"', depends_on => ARRAY[:a], group_key => 'g') AS b \gset
DELETE FROM jobq.dependencies WHERE job_id = :b;
SELECT pg_temp.tick();
SELECT * FROM pg_temp.jobs();
-- If an edge is inserted with plain SQL, the job leaves the line.
SELECT jobq_enqueue('combined', '"c"', group_key => 'g') AS c \gset
INSERT INTO jobq.dependencies (job_id, depends_on, on_failure) VALUES (:c, :a, 'cancel');
SELECT jobq_cancel(:b);
SELECT pg_temp.tick();
SELECT * FROM pg_temp.jobs();
-- If the dependency fails, the job is canceled. If both are retried, the job waits again.
SELECT payload, jobq_fail(id, lease, 'broken', retry => false) FROM jobq_claim('combined');
SELECT pg_temp.tick();
SELECT * FROM pg_temp.jobs();
SELECT jobq_retry(:c), jobq_retry(:a);
SELECT pg_temp.tick();
SELECT * FROM pg_temp.jobs();
SELECT payload, jobq_complete(id, lease) FROM jobq_claim('combined');
SELECT pg_temp.tick();
SELECT payload, jobq_complete(id, lease) FROM jobq_claim('combined');

-- A head that waits for a dependency again is no longer the head, because the dependency may be after it in the same line.
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
-- The same for an edge that is inserted with plain SQL.
SELECT jobq_enqueue('combined', '"c"') AS c \gset
SELECT jobq_enqueue('combined', '"d"', group_key => 'h') AS d \gset
SELECT pg_temp.tick();
SELECT jobq_enqueue('combined', '"e"', group_key => 'h') AS e \gset
INSERT INTO jobq.dependencies (job_id, depends_on, on_failure) VALUES (:d, :c, 'cancel');
SELECT pg_temp.tick();
SELECT * FROM pg_temp.jobs() WHERE payload IN ('"d"', '"e"');
-- A job whose dependencies have completed keeps its place.
SELECT jobq_enqueue('combined', '"f"', depends_on => ARRAY[:a], group_key => 'i', run_at => now() + interval '1 hour') AS f \gset
SELECT pg_temp.tick();
SELECT jobq_enqueue('combined', '"g"', group_key => 'i') AS g \gset
SELECT jobq_retry(:f);
SELECT * FROM pg_temp.jobs() WHERE payload IN ('"f"', '"g"');
SELECT jobq_purge_queue('combined');
-- For a job in line, its dependencies no longer matter: the job keeps its place if it is changed with plain SQL, or if the
-- dependencies change.
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
-- If a dependency is retried and then fails, jobs that no longer waited for it are not affected.
SELECT jobq_retry(:a1);
UPDATE jobq.jobs SET priority = 2 WHERE id = :c;
SELECT payload, jobq_fail(id, lease, 'broken', retry => false) FROM jobq_claim('combined', kinds => '{a}');
UPDATE jobq.jobs SET priority = 3 WHERE id = :c;
SELECT pg_temp.tick();
-- The commit that ends the head makes this job the next head.
BEGIN;
UPDATE jobq.jobs SET priority = 0 WHERE id = :c;
SELECT payload, jobq_complete(id, lease) FROM jobq_claim('combined');
COMMIT;
SELECT pg_temp.tick();
SELECT * FROM pg_temp.jobs();
-- If the job is blocked with plain SQL, it waits for its dependencies again, except for completed ones.
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

-- With a limit: the head of the group needs a slot, and blocked jobs use none.
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
