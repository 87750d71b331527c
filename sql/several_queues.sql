-- One worker, several queues: jobq_claim_any, jobq_complete_and_claim_any, and jobq_wait_any take names and patterns of queues.
-- test/process/wait_any.pl tests the wake-ups.
\set SHOW_CONTEXT never

-- Enqueues jobs into queues. The payload of a job names its queue and its number. The job n of a queue has been due since the hour n.
CREATE FUNCTION pg_temp.fill(VARIADIC names text[]) RETURNS void LANGUAGE sql AS $$
SELECT jobq_enqueue(q.name, to_jsonb(q.name || ' ' || n), run_at => '2000-01-01 00:00+00'::timestamptz + n * interval '1 hour')
FROM unnest(names) WITH ORDINALITY q (name, at), generate_series(1, 2) n ORDER BY n, q.at;
$$;
CREATE FUNCTION pg_temp.clear() RETURNS void LANGUAGE sql AS $$ DELETE FROM jobq.jobs WHERE queue LIKE 'several %'; $$;

-- A claim takes the jobs of the first queue, then the jobs of the second queue, and so on. Paused queues and queues without jobs are
-- skipped, and a queue that is listed twice counts once.
SELECT pg_temp.fill('several b', 'several a', 'several c');
BEGIN;
SELECT queue, payload FROM jobq_claim_any('{several none,several a,several b,several a,several c}', batch => 5);
ROLLBACK;
SELECT jobq_pause_queue('several a');
SELECT jobq_set_limit('several b', max_running => 1);
BEGIN;
SELECT payload FROM jobq_claim_any('{several a,several b,several c}', batch => 5);
ROLLBACK;
SELECT jobq_resume_queue('several a'), jobq_set_limit('several b');

-- "batches" limits the number of jobs from each queue. A queue with the batch 0 is excluded.
BEGIN;
SELECT payload FROM jobq_claim_any('{several a,several b,several c}', batch => 3, batches => '{1,0,7}');
ROLLBACK;

-- A pattern has the syntax of LIKE and selects all queues whose names it matches. Queues that are named come first, and those that
-- match a pattern follow in the order of the patterns and of their names.
SELECT pg_temp.fill('several 100%', 'several_x', 'several ü');
BEGIN;
SELECT queue FROM jobq_claim_any(patterns => '{several _}', batch => 100);
ROLLBACK;
BEGIN;
SELECT queue FROM jobq_claim_any('{several b}', patterns => E'{%100\\\\%,several\\\\_%,several%}', batch => 100);
ROLLBACK;
BEGIN;
-- A named queue with the batch 0 is excluded from the patterns, too. The batch of a pattern applies to each queue that it matches.
SELECT queue, count(*) FROM jobq_claim_any('{several b}', patterns => '{several _}', batches => '{0,1}', batch => 100) GROUP BY queue ORDER BY queue COLLATE "C";
ROLLBACK;
-- A pattern also selects queues that are created later, in the same transaction, too.
BEGIN;
SELECT count(*) FROM jobq_claim_any(patterns => '{several new%}');
SELECT jobq_enqueue('several new') > 0 AS enqueued;
SELECT queue FROM jobq_claim_any(patterns => '{several new%}');
ROLLBACK;
SELECT count(*) FROM jobq_claim_any(patterns => '{several new%}');

-- With oldest_first, each job comes from the queue whose next job has the earliest run_at.
BEGIN;
SELECT payload FROM jobq_claim_any('{several c,several a,several b}', batch => 4, oldest_first => true);
ROLLBACK;
BEGIN;
SELECT payload FROM jobq_claim_any('{several c,several a,several b}', batch => 4, oldest_first => true, batches => '{5,1,5}');
ROLLBACK;

-- With weights, the order of the queues is random. The weight of a queue is proportional to its chance to be the first.
CREATE FUNCTION pg_temp.first_queues(n integer) RETURNS TABLE (queue text, times bigint) LANGUAGE plpgsql AS $$
DECLARE
    got text;
    all_of_them text[] := '{}';
BEGIN
    FOR i IN 1..n LOOP
        BEGIN
            SELECT c.queue INTO got FROM jobq_claim_any('{several a,several b,several c}', weights => '{1,3,6}') c;
            RAISE division_by_zero;
        EXCEPTION WHEN division_by_zero THEN
            all_of_them := all_of_them || got;
        END;
    END LOOP;
    RETURN QUERY SELECT q, count(*) FROM unnest(all_of_them) q GROUP BY q;
END $$;
SELECT queue, abs(times - 1000 * CASE queue WHEN 'several a' THEN 0.1 WHEN 'several b' THEN 0.3 ELSE 0.6 END) < 90 AS as_often_as_its_weight_says
FROM pg_temp.first_queues(1000) ORDER BY queue COLLATE "C";
-- If the first queue has no jobs, the claim continues with the others.
SELECT count(*) FROM jobq_claim_any('{several none,several a,several b}', weights => '{1000000,1,1}', batch => 100);

-- A worker gets only jobs that match its filter, from all of its queues.
SELECT jobq_enqueue('several b', '"b gpu"', kind => 'render', options => '{"requires": ["gpu"]}') > 0 AS enqueued;
SELECT count(*) FROM jobq_claim_any('{several a,several b}', kinds => '{render}');
SELECT payload FROM jobq_claim_any('{several a,several b}', kinds => '{render}', capabilities => '{gpu}');

-- jobq_complete_and_claim_any takes the same arguments.
SELECT id, lease FROM jobq_claim_any('{several c}') \gset
SELECT payload FROM jobq_complete_and_claim_any(ARRAY[:id], ARRAY[:lease], queues => '{several none,several c}');
SELECT status FROM jobq_get(:id);
SELECT count(*) FROM jobq_complete_and_claim_any('{}', '{}', patterns => '{several _}', batch => 100, batches => '{1}');

-- A job that has lost a worker before is claimed alone. A claim that already has jobs of another queue leaves it for the next claim.
SELECT pg_temp.clear();
SELECT pg_temp.fill('several a', 'several b');
UPDATE jobq.jobs SET lost_attempts = 1 WHERE queue = 'several a' AND payload = '"several a 1"' OR queue = 'several b' AND payload = '"several b 1"';
SELECT payload FROM jobq_claim_any('{several a,several b}', 'w1', batch => 10);
SELECT payload FROM jobq_claim_any('{several a,several b}', 'w2', batch => 10);
SELECT payload FROM jobq_claim_any('{several a,several b}', 'w3', batch => 10);

-- If the first queue always has jobs, the next claim of the session takes the suspect before any other job.
SELECT pg_temp.clear();
SELECT pg_temp.fill('several a', 'several b');
UPDATE jobq.jobs SET lost_attempts = 1 WHERE queue = 'several b' AND payload = '"several b 1"';
SELECT payload FROM jobq_claim_any('{several a,several b}', 'w4', batch => 10);
SELECT pg_temp.fill('several a', 'several b');
SELECT payload FROM jobq_claim_any('{several a,several b}', 'w4', batch => 10);
SELECT payload FROM jobq_claim_any('{several a,several b}', 'w5', batch => 10);
-- The suspect does not overtake other jobs of its own queue.
SELECT pg_temp.clear();
SELECT pg_temp.fill('several a', 'several b');
UPDATE jobq.jobs SET lost_attempts = 1, payload = '"suspect"' WHERE queue = 'several b' AND payload = '"several b 2"';
SELECT payload FROM jobq_claim_any('{several a,several b}', 'w6', batch => 10);
SELECT pg_temp.fill('several a', 'several b');
SELECT payload FROM jobq_claim_any('{several a,several b}', 'w6', batch => 3);
SELECT payload FROM jobq_claim_any('{several a,several b}', 'w6', batch => 3);

-- A job in any of the queues ends a wait at once.
SELECT pg_temp.clear();
SELECT pg_temp.fill('several b');
CALL jobq_wait_any('{several a,several b}', '1 hour');
CALL jobq_wait_any(patterns => '{several %}', timeout => '1 hour', worker_id => 'w', batch => 10);
CALL jobq_wait_any('{several a}', '10 ms', '{k}', '{0}', '{gpu}', 'w', 1, '{several none%}');
CALL jobq_wait_any('{several b}', '10 ms', patterns => '{several %}', batches => '{0,1}');
CALL jobq_wait_any('{}', '0 s');
SELECT jobq_pause_queue('several b');
CALL jobq_wait_any('{several a,several b}', '10 ms');

-- A role that was granted some queues may name only these queues. Patterns match only these queues.
CREATE ROLE several_worker;
SELECT jobq_grant('several_worker', 'worker', queues => '{several a,several c}');
SELECT jobq_resume_queue('several b');
SELECT pg_temp.fill('several a', 'several c');
SET ROLE several_worker;
SELECT DISTINCT queue FROM jobq_claim_any(patterns => '{%}', batch => 100) ORDER BY queue;
\set VERBOSITY sqlstate
SELECT * FROM jobq_claim_any('{several a,several b}');
SELECT * FROM jobq_complete_and_claim_any('{}', '{}', queues => '{several b}');
CALL jobq_wait_any('{several a,several b}', '0 s');
\set VERBOSITY default
CALL jobq_wait_any(patterns => '{%}', timeout => '10 ms');
RESET ROLE;
SELECT jobq_grant('several_worker', 'worker', queues => '{several b}');
SET ROLE several_worker;
SELECT DISTINCT queue FROM jobq_claim_any(patterns => '{%}', batch => 100) ORDER BY queue;
RESET ROLE;
SELECT jobq_revoke('several_worker', 'worker');
DROP ROLE several_worker;

-- Errors
SELECT jobq_claim_any();
SELECT jobq_claim_any('{several a}', patterns => E'{x,several\\\\}');
SELECT jobq_claim_any('{several a}', patterns => '{""}');
SELECT jobq_claim_any('{several a}', patterns => '{a,b}', weights => '{1,2}');
SELECT jobq_claim_any('{several a}', weights => '{0}');
SELECT jobq_claim_any('{several a}', batches => '{-1}');
SELECT jobq_claim_any('{several a}', weights => '{1}', oldest_first => true);
SELECT jobq_claim_any('{several a}', oldest_first => NULL);
SELECT jobq_complete_and_claim_any('{}', '{}', batches => '{1}');
CALL jobq_wait_any(timeout => '0 s');
CALL jobq_wait_any('{several a}', '0 s', batch => 0);
BEGIN;
CALL jobq_wait_any('{several a}', '0 s');
ROLLBACK;

SELECT count(jobq_drop_queue(queue, force => true)) FROM jobq.queues WHERE queue LIKE 'several_%';
