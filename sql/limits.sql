-- Limits: how many jobs of a queue or of a concurrency key run at once, and how many start per period. A job without room stays
-- pending, and claims skip it. Limits work the same with and without preload, except for rates.
\set VERBOSITY default
\set SHOW_CONTEXT never
CREATE FUNCTION pg_temp.job(job jsonb) RETURNS bigint LANGUAGE sql AS $$ SELECT id FROM jobq.jobs WHERE payload = job $$;
CREATE FUNCTION pg_temp.lease(job jsonb) RETURNS bigint LANGUAGE sql AS $$ SELECT lease FROM jobq.jobs WHERE payload = job $$;

-- A limit of a queue: at most two jobs run at once, whatever batch size the claim asks for.
SELECT jobq_set_limit('narrow', max_running => 2);
SELECT count(jobq_enqueue('narrow', to_jsonb(n))) FROM generate_series(1, 9) n;
SELECT claim_payloads('narrow');
SELECT claim_payloads('narrow');
SELECT queue, key, max_running, running, rate, per, tokens FROM jobq.limits;
-- Each end of an attempt frees the slot: completion, failure, release, snooze, cancellation, rescue, deletion.
SELECT jobq_complete(pg_temp.job('1'), pg_temp.lease('1')), claim_payloads('narrow');
SELECT jobq_fail(pg_temp.job('2'), pg_temp.lease('2'), retry_in => '1 day'), claim_payloads('narrow');
SELECT jobq_snooze(pg_temp.job('3'), '1 day', pg_temp.lease('3')), claim_payloads('narrow');
SELECT jobq_cancel(pg_temp.job('4')), jobq_fail(pg_temp.job('4'), pg_temp.lease('4')), claim_payloads('narrow');
SELECT jobq_release(pg_temp.job('5'), pg_temp.lease('5')), claim_payloads('narrow', 1);
-- The released job is claimed again, because it has kept its place in the order.
SELECT running FROM jobq.limits;
-- If one call completes and claims, the freed slot is used at once.
SELECT payload FROM jobq_complete_and_claim(ARRAY[pg_temp.job('5'), pg_temp.job('6')], ARRAY[pg_temp.lease('5'), pg_temp.lease('6')], queue => 'narrow', batch => 9);
-- A rollback undoes both.
BEGIN;
SELECT payload FROM jobq_complete_and_claim(ARRAY[pg_temp.job('7')], ARRAY[pg_temp.lease('7')], queue => 'narrow', batch => 9);
ROLLBACK;
SELECT claim_payloads('narrow'), (SELECT running FROM jobq.limits);
BEGIN;
SAVEPOINT s;
SELECT jobq_complete(pg_temp.job('8'), pg_temp.lease('8')), claim_payloads('narrow');
ROLLBACK TO s;
SELECT claim_payloads('narrow');
COMMIT;
-- A lost worker.
UPDATE jobq.jobs SET last_heartbeat = now() - interval '1 day', started_at = now() + interval '1 s' WHERE payload = '7';
-- The background worker may have locked the row. Then a later tick finds the job rescued.
DO $$ BEGIN
    FOR i IN 1 .. 200 LOOP
        PERFORM jobq_tick();
        EXIT WHEN (SELECT status = 'pending' FROM jobq.jobs WHERE payload = '7');
        PERFORM pg_sleep(0.05);
    END LOOP;
END $$;
SELECT claim_payloads('narrow');

-- A changed limit applies at once. Running jobs keep running and count.
SELECT jobq_set_limit('narrow', max_running => 1);
SELECT jobq_complete(pg_temp.job('7'), pg_temp.lease('7')), claim_payloads('narrow');
SELECT jobq_set_limit('narrow', max_running => 2), claim_payloads('narrow');
SELECT jobq_set_limit('narrow', max_running => 0);
SELECT jobq_complete(pg_temp.job('8'), pg_temp.lease('8')), claim_payloads('narrow');
-- A call without max_running and rate removes the limit.
SELECT jobq_set_limit('narrow'), jobq_set_limit('narrow'), (SELECT count(*) FROM jobq.limits);

-- A new limit counts the jobs that are already running.
SELECT count(jobq_enqueue('later', to_jsonb('later ' || n))) FROM generate_series(1, 4) n;
SELECT claim_payloads('later', 2);
SELECT jobq_set_limit('later', max_running => 3), claim_payloads('later');
SELECT jobq_set_limit('later', max_running => 1);
SELECT jobq_complete(pg_temp.job('"later 1"'), pg_temp.lease('"later 1"')), jobq_complete(pg_temp.job('"later 2"'), pg_temp.lease('"later 2"')), claim_payloads('later');
SELECT jobq_complete(pg_temp.job('"later 3"'), pg_temp.lease('"later 3"')), claim_payloads('later');

-- Keys: '*' is the limit of each key without its own limit. It does not apply to jobs without a key.
SELECT jobq_set_limit('keys', '*', max_running => 1), jobq_set_limit('keys', 'big', max_running => 2), jobq_set_limit('keys', max_running => 5);
SELECT count(job_id) FROM jobq_enqueue_many('keys', ARRAY['"a1"', '"a2"', '"b1"', '"b2"', '"big1"', '"big2"', '"big3"', '"free1"', '"free2"']::jsonb[],
    concurrency_keys => '{a,a,b,b,big,big,big,NULL,NULL}');
SELECT claim_payloads('keys');
SELECT key, max_running, running FROM jobq.limits WHERE queue = 'keys' ORDER BY key NULLS FIRST;
-- A freed slot of a key goes to the next job of that key while the queue stays full.
SELECT jobq_complete(pg_temp.job('"b1"'), pg_temp.lease('"b1"')), claim_payloads('keys');
SELECT jobq_complete(pg_temp.job('"a1"'), pg_temp.lease('"a1"')), claim_payloads('keys');
SELECT jobq_set_limit('keys', 'big'), jobq_set_limit('keys'), claim_payloads('keys');
SELECT jobq_complete(pg_temp.job('"big1"'), pg_temp.lease('"big1"')), claim_payloads('keys');
SELECT jobq_complete(pg_temp.job('"big2"'), pg_temp.lease('"big2"')), claim_payloads('keys');
-- The other ways to enqueue with a key.
SELECT jobq_enqueue('keys', '"one"', concurrency_key => 'x', unique_key => 'u') > 0 AS one;
SELECT is_new FROM jobq_enqueue_jobs('[{"queue": "keys", "payload": "two", "concurrency_key": "x"}, {"queue": "keys", "payload": "three", "concurrency_key": "y"}]');
SELECT payload, concurrency_key FROM jobq.jobs WHERE concurrency_key IN ('x', 'y') ORDER BY id;
SELECT claim_payloads('keys');
-- Claims remember jobs without room, so they do not check them again, and find each of them when it has room.
SELECT jobq_set_limit('row', '*', max_running => 1);
SELECT count(jobq_enqueue('row', to_jsonb('A' || n), concurrency_key => 'A', run_at => '2001-01-01')) FROM generate_series(1, 200) n;
SELECT count(jobq_enqueue('row', to_jsonb('B' || n), concurrency_key => 'B', run_at => '2001-01-02')) FROM generate_series(1, 100) n;
SELECT count(jobq_enqueue('row', to_jsonb('C' || n), concurrency_key => 'C', run_at => '2001-01-03')) FROM generate_series(1, 3) n;
SELECT claim_payloads('row'), claim_payloads('row');
SELECT jobq_complete(pg_temp.job('"C1"'), pg_temp.lease('"C1"')), claim_payloads('row');
SELECT jobq_complete(pg_temp.job('"B1"'), pg_temp.lease('"B1"')), claim_payloads('row');
SELECT jobq_complete(pg_temp.job('"A1"'), pg_temp.lease('"A1"')), jobq_complete(pg_temp.job('"B2"'), pg_temp.lease('"B2"')), claim_payloads('row');
SELECT jobq_enqueue('row', '"A first"', priority => -1, concurrency_key => 'A') > 0, jobq_enqueue('row', '"D"', priority => -1, concurrency_key => 'D') > 0;
SELECT claim_payloads('row');
SELECT jobq_complete(pg_temp.job('"A2"'), pg_temp.lease('"A2"')), claim_payloads('row');
SELECT jobq_set_limit('row', 'A', max_running => 3), claim_payloads('row');
-- For jobq_claim_any, a queue without room is like an empty queue.
SELECT jobq_set_limit('full', max_running => 0), jobq_enqueue('full') > 0, jobq_enqueue('open', '"open"') > 0;
SELECT payload FROM jobq_claim_any('{full,open}');

-- Rates: a bucket of `rate` tokens gets one token per (per / rate). A claim takes a token for each job and never returns it. The
-- tokens are in shared memory, so a rate is rejected without preload.
CREATE FUNCTION pg_temp.rated() RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    preloaded boolean := current_setting('shared_preload_libraries') LIKE '%jobq%';
    began timestamptz := clock_timestamp();
    claimed int := 0;
    held record;
BEGIN
    BEGIN
        PERFORM jobq_set_limit('rated', rate => 100, per => '1 s');
    EXCEPTION WHEN object_not_in_prerequisite_state THEN
        RETURN CASE WHEN preloaded THEN 'refused' ELSE 'as it should be' END;
    END;
    PERFORM jobq_enqueue('rated') FROM generate_series(1, 400);
    FOR i IN 1 .. 40 LOOP
        claimed := claimed + (SELECT count(jobq_release(id, lease)) FROM jobq_claim('rated', batch => 30));
        PERFORM pg_sleep(0.01);
    END LOOP;
    RETURN CASE WHEN NOT preloaded THEN 'not refused' WHEN claimed = 0 THEN 'nothing was claimed'
                WHEN claimed > 100 + 100 * extract(epoch FROM clock_timestamp() - began) THEN 'too many were claimed'
                WHEN (SELECT count(*) = 1 FROM jobq.limits WHERE queue = 'rated' AND rate = 100 AND per = '1 s' AND (tokens > 0 OR next_token > now()))
                THEN 'as it should be' ELSE 'the view is wrong' END;
END $$;
SELECT pg_temp.rated();
-- Without preload, the queue is unknown.
SET client_min_messages = warning;
SELECT jobq_set_limit('rated') IS NOT NULL AS removed, jobq_drop_queue('rated', force => true) IS NOT NULL AS dropped;
RESET client_min_messages;

-- With plain SQL: a job that is made to stop frees its slots. A job that is made to run gets its slots from the tick and counts
-- from then on, even if there is no room.
SELECT jobq_set_limit('hand', max_running => 1), jobq_set_limit('hand', '*', max_running => 1);
SELECT count(jobq_enqueue('hand', to_jsonb('hand ' || n), concurrency_key => 'h' || n)) FROM generate_series(1, 5) n;
SELECT claim_payloads('hand');
UPDATE jobq.jobs SET status = 'completed' WHERE payload = '"hand 1"';
SELECT _queue_slot, _key_slot FROM jobq.jobs WHERE payload = '"hand 1"';
SELECT claim_payloads('hand');
UPDATE jobq.jobs SET concurrency_key = 'h9' WHERE payload = '"hand 2"';
DELETE FROM jobq.jobs WHERE payload = '"hand 2"';
SELECT claim_payloads('hand');
-- A session that sets the limit of another queue leaves these slots to the tick.
BEGIN;
UPDATE jobq.jobs SET status = 'processing' WHERE payload = '"hand 4"';
SELECT jobq_set_limit('beside', max_running => 1);
SELECT _queue_slot IS NULL AS left_to_the_tick FROM jobq.jobs WHERE payload = '"hand 4"';
ROLLBACK;
UPDATE jobq.jobs SET status = 'processing' WHERE payload = '"hand 4"';
-- The background worker may have locked the row here, too.
DO $$ BEGIN
    FOR i IN 1 .. 200 LOOP
        PERFORM jobq_tick();
        EXIT WHEN (SELECT min(running) = 2 FROM jobq.limits WHERE queue = 'hand');
        PERFORM pg_sleep(0.05);
    END LOOP;
END $$;
SELECT key, running FROM jobq.limits WHERE queue = 'hand' ORDER BY key NULLS FIRST;
SELECT jobq_complete(pg_temp.job('"hand 3"'), pg_temp.lease('"hand 3"')), claim_payloads('hand');
UPDATE jobq.jobs SET status = 'failed' WHERE payload = '"hand 4"';
SELECT claim_payloads('hand');
-- The table of limits can be changed, too.
UPDATE jobq.limit_settings SET max_running = 2 WHERE queue = 'hand' AND key = '';
SELECT count(jobq_enqueue('hand', to_jsonb('hand ' || n))) FROM generate_series(6, 7) n;
SELECT claim_payloads('hand');

-- If a hundred slots of one key become free at once while claims skip its jobs, the next claim gets all of them.
SELECT jobq_set_limit('wide', '*', max_running => 100);
SELECT count(*) FROM jobq_enqueue_many('wide', array_fill('{}'::jsonb, ARRAY[1000]), concurrency_keys => array_fill('k'::text, ARRAY[1000]));
SELECT count(*) FROM jobq_claim('wide', 'w', 100, heartbeat_timeout => '1 hour');
DO $$ BEGIN
    FOR i IN 1 .. 4 LOOP
        PERFORM FROM jobq_claim('wide', 'w', 100, heartbeat_timeout => '1 hour');
    END LOOP;
END $$;
SELECT count(*) FILTER (WHERE c.completed)
FROM (SELECT array_agg(id) AS ids, array_agg(lease) AS leases FROM jobq.jobs WHERE queue = 'wide' AND status = 'processing') j, jobq_complete_many(j.ids, j.leases) c;
SELECT count(*) FROM jobq_claim('wide', 'w', 100, heartbeat_timeout => '1 hour');

-- If the limit of a key is removed, the limit for '*' applies to it. Running jobs count, even with slot numbers above that limit,
-- and even if a tick found earlier that no job used such slots.
SELECT jobq_set_limit(q, '*', max_running => 2), jobq_set_limit(q, 'own', max_running => 5) FROM unnest('{gone,gone by hand}'::text[]) q;
DO $$ BEGIN
    FOR i IN 1 .. 1000 LOOP
        PERFORM jobq_tick();
        COMMIT;
        EXIT WHEN (SELECT max(highest_slot) = 0 FROM jobq.limit_settings WHERE queue LIKE 'gone%');
        PERFORM pg_sleep(0.05);
    END LOOP;
END $$;
SELECT count(*) FROM unnest('{gone,gone by hand}'::text[]) q, jobq_enqueue_many(q, array_fill('{}'::jsonb, ARRAY[10]), concurrency_keys => array_fill('own'::text, ARRAY[10]));
SELECT q, count(*) FROM unnest('{gone,gone by hand}'::text[]) q, jobq_claim(q, 'w', 9, heartbeat_timeout => '1 hour') GROUP BY q ORDER BY q;
SELECT count(jobq_complete(id, lease)) FROM jobq.jobs WHERE queue LIKE 'gone%' AND _key_slot & 1048575 < 3;
SELECT jobq_set_limit('gone', 'own');
DELETE FROM jobq.limit_settings WHERE queue = 'gone by hand' AND key = 'own';
SELECT claim_payloads('gone'), claim_payloads('gone by hand');
-- After two more completions, one job may run in addition to the last one.
SELECT count(jobq_complete(id, lease)) FROM jobq.jobs WHERE queue LIKE 'gone%' AND _key_slot & 1048575 < 5;
SELECT claim_payloads('gone'), claim_payloads('gone by hand');
-- A limit that is inserted with plain SQL counts running jobs without slots at once.
SELECT count(jobq_enqueue('new by hand', to_jsonb('new ' || n))) FROM generate_series(1, 4) n;
SELECT claim_payloads('new by hand', 2);
INSERT INTO jobq.limit_settings (queue, max_running) VALUES ('new by hand', 3);
SELECT running FROM jobq.limits WHERE queue = 'new by hand';
SELECT claim_payloads('new by hand');

-- Bad input changes nothing.
SELECT count(*) AS limits FROM jobq.limits \gset
SELECT call, outcome_with_hint(call) FROM unnest(ARRAY[
    $$jobq_set_limit(NULL, max_running => 1)$$, $$jobq_set_limit('', max_running => 1)$$, $$jobq_set_limit(repeat('q', 64), max_running => 1)$$,
    $$jobq_set_limit('bad', '', max_running => 1)$$, $$jobq_set_limit('bad', repeat('k', 256), max_running => 1)$$,
    $$jobq_set_limit('bad', max_running => -1)$$, $$jobq_set_limit('bad', max_running => 1000001)$$,
    $$jobq_set_limit('bad', rate => 0)$$, $$jobq_set_limit('bad', per => '1 s')$$, $$jobq_set_limit('bad', max_running => 1, per => '1 s')$$,
    $$jobq_set_limit('bad', rate => 1, per => '0')$$, $$jobq_set_limit('bad', rate => 1, per => '-1 s')$$,
    $$jobq_set_limit('bad', rate => 1, per => '366 days')$$, $$jobq_set_limit('bad', rate => 1000001)$$,
    $$jobq_enqueue('bad', concurrency_key => '')$$, $$jobq_enqueue('bad', concurrency_key => '*')$$,
    $$jobq_enqueue('bad', concurrency_key => repeat('k', 256))$$, $$jobq_enqueue_many('bad', '{1,2}', concurrency_keys => '{k}')$$,
    $$jobq_enqueue_many('bad', '{1}', concurrency_keys => '{*}')$$, $$jobq_enqueue_jobs('[{"queue": "bad", "concurrency_key": 1}]')$$]) AS call;
SELECT count(*) = :limits AS unchanged FROM jobq.limits;
\set VERBOSITY sqlstate
INSERT INTO jobq.limit_settings (queue, max_running) VALUES ('bad', -1);
INSERT INTO jobq.limit_settings (queue, rate) VALUES ('bad', 1);
INSERT INTO jobq.limit_settings (queue) VALUES ('bad');
INSERT INTO jobq.jobs (queue, concurrency_key) VALUES ('bad', '*');
\set VERBOSITY default

-- The limits of a queue are dropped with it.
SELECT jobq_drop_queue(q, force => true) FROM unnest('{narrow,later,keys,row,full,open,hand,wide,gone,gone by hand,new by hand}'::text[]) q;
SELECT count(*) FROM jobq.limits;
