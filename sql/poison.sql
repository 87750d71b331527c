-- A job that kills its worker. If several jobs are lost together, any of them may be the cause: from then on they are claimed one
-- at a time, and only a job that is lost alone counts toward max_lost. The argument of the tick simulates the time.
\set VERBOSITY default
\set SHOW_CONTEXT never
CREATE FUNCTION pg_temp.claim(name text, batch int DEFAULT 9, worker text DEFAULT 'w') RETURNS text LANGUAGE sql AS $$
    SELECT coalesce(string_agg(payload #>> '{}', ' '), 'nothing') FROM jobq_claim(name, worker, batch, heartbeat_timeout => '1 hour') $$;
CREATE FUNCTION pg_temp.pass(minutes int DEFAULT 61) RETURNS bigint LANGUAGE sql AS $$
    SELECT sum(done)::bigint FROM jobq_tick(clock_timestamp() + make_interval(mins => minutes)) WHERE duty = 'rescue' $$;
CREATE FUNCTION pg_temp.complete(name text, keep text DEFAULT '') RETURNS bigint LANGUAGE sql AS $$
    SELECT count(jobq_complete(id, lease)) FROM jobq.jobs WHERE queue = name AND status = 'processing' AND payload #>> '{}' <> keep $$;

-- Runs all jobs of a queue. A worker that holds a guilty job dies with all the jobs that it has claimed.
CREATE TEMP TABLE rounds (queue text, claims int, deaths int);
CREATE PROCEDURE pg_temp.work_off(name text, batch int) LANGUAGE plpgsql AS $$
DECLARE
    taken text[];
    claims int := 0;
    deaths int := 0;
BEGIN
    LOOP
        SELECT array_agg(payload #>> '{}') INTO taken FROM jobq_claim(name, 'w', batch, heartbeat_timeout => '1 hour');
        COMMIT;
        EXIT WHEN taken IS NULL AND NOT EXISTS (SELECT FROM jobq.jobs WHERE queue = name AND status IN ('blocked', 'pending'));
        claims := claims + 1;
        IF claims > 2000 THEN
            RAISE EXCEPTION 'no end';
        END IF;
        IF 'guilty' = ANY (taken) THEN
            deaths := deaths + 1;
            PERFORM pg_temp.pass();
        ELSE
            PERFORM pg_temp.complete(name);
            COMMIT;
            PERFORM jobq_tick();
        END IF;
        COMMIT;
    END LOOP;
    INSERT INTO rounds VALUES (name, claims, deaths);
END $$;
CREATE FUNCTION pg_temp.fate(name text) RETURNS TABLE (jobs bigint, job text, status jobq.job_status, attempts int, lost int, error text) LANGUAGE sql AS $$
    SELECT count(*), CASE payload WHEN '"guilty"' THEN 'guilty' ELSE 'innocent' END, j.status, j.attempts, j.lost_attempts, j.error
    FROM jobq.jobs j WHERE j.queue = name GROUP BY 2, 3, 4, 5, 6 ORDER BY 2, 3, 4 $$;

-- Five jobs that are claimed together, and then a hundred. One is guilty and fails. All others complete.
SELECT count(jobq_enqueue('five', CASE n WHEN 3 THEN '"guilty"' ELSE to_jsonb(n) END)) FROM generate_series(1, 5) n;
CALL pg_temp.work_off('five', 5);
SELECT * FROM pg_temp.fate('five');
SELECT a.attempt, a.outcome, a.error FROM jobq.attempts a JOIN jobq.jobs j ON j.id = a.job_id WHERE j.queue = 'five' AND j.payload = '"guilty"' ORDER BY a.attempt;
SELECT count(jobq_enqueue('hundred', CASE n WHEN 38 THEN '"guilty"' ELSE to_jsonb(n) END)) FROM generate_series(1, 100) n;
CALL pg_temp.work_off('hundred', 100);
SELECT * FROM pg_temp.fate('hundred');
-- Several guilty jobs. Even with max_lost 1, no innocent job ever fails.
SELECT count(jobq_enqueue('several', CASE WHEN n % 20 = 7 THEN '"guilty"' ELSE to_jsonb(n) END)) FROM generate_series(1, 200) n;
CALL pg_temp.work_off('several', 50);
SELECT * FROM pg_temp.fate('several');
SELECT jobq_create_queue('strict', max_lost => 1);
SELECT count(jobq_enqueue('strict', CASE n WHEN 2 THEN '"guilty"' ELSE to_jsonb(n) END)) FROM generate_series(1, 10) n;
CALL pg_temp.work_off('strict', 10);
SELECT * FROM pg_temp.fate('strict');
-- A job that is claimed alone from the beginning fails after exactly max_lost losses.
SELECT jobq_enqueue('single', '"guilty"') > 0 AS enqueued;
CALL pg_temp.work_off('single', 1);
SELECT * FROM pg_temp.fate('single');
-- All losses count as attempts: a job whose worker always dies ends, whatever max_lost is. A job with max_attempts 1 runs once.
SELECT jobq_create_queue('patient', max_lost => 1000);
SELECT count(jobq_enqueue('patient', CASE n WHEN 2 THEN '"guilty"' ELSE to_jsonb(n) END, max_attempts => 7)) FROM generate_series(1, 5) n;
CALL pg_temp.work_off('patient', 5);
SELECT * FROM pg_temp.fate('patient');
SELECT count(jobq_enqueue('once', to_jsonb(n), max_attempts => 1)) FROM generate_series(1, 2) n;
SELECT pg_temp.claim('once'), pg_temp.pass();
SELECT * FROM pg_temp.fate('once');

-- With groups, limits, and round-robin keys, also with priority aging.
SELECT jobq_create_queue('grouped');
SELECT count(jobq_enqueue('grouped', CASE n WHEN 7 THEN '"guilty"' ELSE to_jsonb(n) END, group_key => 'g' || n % 10)) FROM generate_series(1, 60) n;
SELECT count(done) FROM jobq_tick();
CALL pg_temp.work_off('grouped', 20);
SELECT * FROM pg_temp.fate('grouped');
SELECT jobq_set_limit('limited', max_running => 30), jobq_set_limit('limited', '*', max_running => 4);
SELECT count(jobq_enqueue('limited', CASE n WHEN 11 THEN '"guilty"' ELSE to_jsonb(n) END, concurrency_key => 'k' || n % 10)) FROM generate_series(1, 100) n;
CALL pg_temp.work_off('limited', 100);
SELECT * FROM pg_temp.fate('limited');
SELECT max(running) FROM jobq.limits WHERE queue = 'limited';
SELECT jobq_create_queue('turns', round_robin => true);
SELECT count(jobq_enqueue('turns', CASE n WHEN 11 THEN '"guilty"' ELSE to_jsonb(n) END, concurrency_key => 'k' || n % 10)) FROM generate_series(1, 100) n;
SELECT count(jobq_enqueue('turns', '"guilty"', concurrency_key => 'k 9', priority => 1)) FROM generate_series(1, 2) n;
CALL pg_temp.work_off('turns', 20);
SELECT sum(jobs) AS jobs, job, status, max(attempts) AS attempts, max(lost) AS lost FROM pg_temp.fate('turns') GROUP BY job, status ORDER BY job;
SELECT jobq_create_queue('aged', priority_ageing => '1 minute');
SELECT count(jobq_enqueue('aged', CASE n WHEN 11 THEN '"guilty"' ELSE to_jsonb(n) END, priority => n % 5)) FROM generate_series(1, 100) n;
CALL pg_temp.work_off('aged', 40);
SELECT * FROM pg_temp.fate('aged');
-- Deaths: one with the whole batch, and three for each guilty job.
SELECT * FROM rounds WHERE queue <> 'turns' ORDER BY queue;  -- the start of the round is arbitrary

-- A claim ends before a job that must run alone, so that the order does not change.
SELECT count(jobq_enqueue('order', to_jsonb(n))) FROM generate_series(1, 6) n;
SELECT pg_temp.claim('order', 4), pg_temp.pass();
UPDATE jobq.jobs SET priority = 1 WHERE queue = 'order' AND payload IN ('1', '2');
SELECT count(jobq_enqueue('order', to_jsonb(n), priority => -1)) FROM generate_series(7, 8) n;
SELECT pg_temp.claim('order'), pg_temp.complete('order') FROM generate_series(1, 6);
-- With round-robin, the key of this job does not lose its turn.
SELECT jobq_create_queue('key kept', round_robin => true);
SELECT count(jobq_enqueue('key kept', to_jsonb('a' || n), concurrency_key => 'a')) FROM generate_series(1, 2) n;
SELECT pg_temp.claim('key kept'), pg_temp.pass();
SELECT count(jobq_enqueue('key kept', to_jsonb('b' || n), concurrency_key => 'b')) FROM generate_series(1, 9) n;
SELECT string_agg(taken, ', ') AS taken FROM (SELECT pg_temp.claim('key kept', 3) AS taken, pg_temp.complete('key kept') FROM generate_series(1, 7)) c;

-- Several claims of one worker: jobs whose last heartbeat was at the same time were lost together.
SELECT count(jobq_enqueue('threads', to_jsonb(n))) FROM generate_series(1, 3) n;
SELECT pg_temp.claim('threads', 1) FROM generate_series(1, 3);
SELECT pg_temp.pass();
SELECT * FROM pg_temp.fate('threads');
-- The worker gets one suspect at a time, until that job has run longer than a heartbeat timeout. In the meantime, it gets other
-- jobs, and other workers get the next suspect.
SELECT jobq_enqueue('threads', '4') > 0 AS enqueued;
SELECT pg_temp.claim('threads', 1), pg_temp.claim('threads', 9), pg_temp.claim('threads', 1), pg_temp.claim('threads', 9, 'other');
UPDATE jobq.jobs SET started_at = started_at - interval '1 hour' WHERE queue = 'threads' AND payload = '1';
SELECT pg_temp.claim('threads', 1), pg_temp.claim('threads', 1);
SELECT pg_temp.complete('threads');
-- A suspect that ends makes room for the next one in the same transaction.
SELECT count(jobq_enqueue('next', to_jsonb(n))) FROM generate_series(1, 3) n;
SELECT pg_temp.claim('next'), pg_temp.pass();
SELECT pg_temp.claim('next');
SELECT c.payload FROM jobq.jobs j, jobq_complete_and_claim(ARRAY[j.id], ARRAY[j.lease], worker_id => 'w', queue => 'next', batch => 9) c WHERE j.queue = 'next' AND j.status = 'processing';
SELECT c.payload FROM jobq.jobs j, jobq_complete_and_claim(ARRAY[j.id], ARRAY[j.lease], worker_id => 'w', queue => 'next', batch => 9) c WHERE j.queue = 'next' AND j.status = 'processing';
SELECT pg_temp.complete('next');

-- Leases of one worker that expire one after the other: the last job does not count as lost alone.
SELECT count(jobq_enqueue('uneven', to_jsonb(n), options => jsonb_build_object('heartbeat_timeout', make_interval(hours => n)))) FROM generate_series(1, 4) n;
SELECT count(*) FROM jobq_claim('uneven', 'uneven', 9);
SELECT pg_temp.pass(60 * n + 1) FROM generate_series(1, 4) n;
SELECT payload, status, lost_attempts, error FROM jobq.jobs WHERE queue = 'uneven' ORDER BY id;
-- A job counts as lost alone if its worker continues with the other jobs.
SELECT count(jobq_enqueue('hung', to_jsonb(n))) FROM generate_series(1, 3) n;
SELECT pg_temp.claim('hung', 3, 'hung');
UPDATE jobq.jobs SET last_heartbeat = last_heartbeat - interval '31 minutes' WHERE queue = 'hung' AND payload = '2';
SELECT pg_temp.pass(30);
SELECT payload, status, lost_attempts, error FROM jobq.jobs WHERE queue = 'hung' ORDER BY id;
SELECT pg_temp.complete('hung');
-- Jobs of different workers are not lost together.
SELECT count(jobq_enqueue('apart', to_jsonb(n))) FROM generate_series(1, 2) n;
SELECT pg_temp.claim('apart', 1, 'one'), pg_temp.claim('apart', 1, 'two'), pg_temp.pass();
SELECT payload, status, lost_attempts FROM jobq.jobs WHERE queue = 'apart' ORDER BY id;

-- A job that an operator retries is no longer a suspect, so it is claimed in a batch.
SELECT count(jobq_enqueue('retried', to_jsonb(n))) FROM generate_series(1, 3) n;
SELECT pg_temp.claim('retried'), pg_temp.pass();
SELECT pg_temp.claim('retried');
SELECT count(jobq_fail(id, lease, retry => false)) FROM jobq.jobs WHERE queue = 'retried' AND status = 'processing';
SELECT count(jobq_cancel(id)) FROM jobq.jobs WHERE queue = 'retried' AND status = 'pending';
SELECT jobq_retry_jobs('retried', statuses => '{failed,cancelled}');
SELECT pg_temp.claim('retried');
SELECT pg_temp.complete('retried');

SELECT count(jobq_drop_queue(queue, force => true)) FROM (SELECT DISTINCT queue FROM jobq.jobs UNION SELECT queue FROM jobq.queue_settings) q;
DROP TABLE rounds;
