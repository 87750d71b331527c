-- Limits of kinds: how many jobs of a kind run at once, and how many start per period. All limits that apply to a job must have
-- room: the limit of its queue, of its concurrency key, and of its kind.
\set VERBOSITY default
\set SHOW_CONTEXT never
CREATE FUNCTION pg_temp.complete(job text) RETURNS boolean LANGUAGE sql AS $$
    SELECT jobq_complete(id, lease) FROM jobq.jobs WHERE payload = to_jsonb(job) $$;

-- At most two jobs of the kind "pdf" run at once. Claims skip the other ones and return jobs of other kinds.
SELECT jobq_set_limit('media', kind => 'pdf', max_running => 2);
SELECT count(jobq_enqueue('media', to_jsonb('pdf' || n), kind => 'pdf')) FROM generate_series(1, 5) n;
SELECT count(jobq_enqueue('media', to_jsonb('mail' || n), kind => 'mail')) FROM generate_series(1, 2) n;
SELECT claim_payloads('media');
SELECT queue, key, kind, max_running, running FROM jobq.limits;
SELECT claim_payloads('media'), claim_payloads('media', kinds => '{pdf}');
-- All versions of a kind share its limit, and so do the jobs that require capabilities.
SELECT jobq_enqueue('media', '"pdf of version 2"', kind => 'pdf', options => '{"version": 2, "requires": ["gpu"]}') > 0 AS enqueued;
SELECT payload FROM jobq_claim('media', 'w', 9, capabilities => '{gpu}');
-- jobq_explain names the limit and the jobs that hold its slots.
SELECT e.reason, e.detail, (SELECT string_agg(j.payload #>> '{}', ' ' ORDER BY j.id) FROM jobq.jobs j WHERE j.id = ANY (e.jobs)) AS jobs
FROM jobq.jobs, jobq_explain(id) e WHERE payload = '"pdf3"';
SELECT e.reason, e.detail, (SELECT string_agg(j.payload #>> '{}', ' ' ORDER BY j.id) FROM jobq.jobs j WHERE j.id = ANY (e.jobs)) AS jobs
FROM jobq_explain_queue('media') e;
-- Each end of an attempt frees the slot, even a deletion, and a rollback takes it again.
SELECT pg_temp.complete('pdf1'), claim_payloads('media', 1);
SELECT count(jobq_release(id, lease)) FROM jobq.jobs WHERE payload = '"pdf2"';
SELECT claim_payloads('media', 1), claim_payloads('media', 1);
BEGIN;
SELECT pg_temp.complete('pdf2'), claim_payloads('media', 1);
ROLLBACK;
SELECT claim_payloads('media', 1);
DELETE FROM jobq.jobs WHERE payload IN ('"pdf2"', '"pdf3"');
SELECT claim_payloads('media');
SELECT count(_kind_slot) AS slots, count(_slot_seq) AS numbers FROM jobq.jobs WHERE queue = 'media' AND status = 'processing' AND kind = 'pdf';

-- '*' is the limit of each kind without its own limit. Jobs without a kind have the kind ''.
SELECT jobq_set_limit('each', kind => '*', max_running => 1), jobq_set_limit('each', kind => 'big', max_running => 2), jobq_set_limit('each', kind => '', max_running => 3);
SELECT count(jobq_enqueue('each', to_jsonb(coalesce(nullif(k, ''), 'none') || n), kind => k)) FROM unnest('{a,b,big,""}'::text[]) k, generate_series(1, 4) n;
SELECT string_agg(job, ' ' ORDER BY job) AS claimed FROM string_to_table(claim_payloads('each', 20), ' ') job;
SELECT kind, max_running, running FROM jobq.limits WHERE queue = 'each' ORDER BY kind;
-- If the limit of a kind is removed, the limit of '*' applies to its running jobs, too.
SELECT jobq_set_limit('each', kind => 'big'), jobq_set_limit('each', kind => 'big');
SELECT pg_temp.complete('big1'), claim_payloads('each'), pg_temp.complete('big2'), claim_payloads('each');

-- All limits of a job need room: of its queue, its key, and its kind. A limit that refuses the job leaves the others as they were.
SELECT jobq_set_limit('all', max_running => 3), jobq_set_limit('all', 'k', max_running => 1), jobq_set_limit('all', kind => 'a', max_running => 2);
SELECT count(jobq_enqueue('all', to_jsonb(upper(kind) || n), kind => kind, concurrency_key => key, priority => n))
FROM (VALUES ('a', 'k', 1), ('a', 'k', 2), ('a', NULL, 3), ('a', NULL, 4), ('b', NULL, 5), ('b', 'k', 6)) j(kind, key, n);
SELECT claim_payloads('all');
SELECT key, kind, max_running, running FROM jobq.limits WHERE queue = 'all' ORDER BY key NULLS FIRST, kind NULLS FIRST;
SELECT pg_temp.complete('B5'), claim_payloads('all');
SELECT pg_temp.complete('A1'), claim_payloads('all');
SELECT pg_temp.complete('A3'), pg_temp.complete('A2'), claim_payloads('all');
SELECT key, kind, running FROM jobq.limits WHERE queue = 'all' ORDER BY key NULLS FIRST, kind NULLS FIRST;

-- A queue whose keys take turns.
SELECT jobq_create_queue('turns', round_robin => true), jobq_set_limit('turns', kind => 'a', max_running => 2);
SELECT count(jobq_enqueue('turns', to_jsonb(kind || key || n), kind => kind, concurrency_key => key))
FROM unnest('{a,b}'::text[]) kind, unnest('{x,y}'::text[]) key, generate_series(1, 2) n;
SELECT left(job, 1) AS kind, count(*) FROM string_to_table(claim_payloads('turns', 20), ' ') job GROUP BY 1 ORDER BY 1;

-- A new limit counts the jobs that are already running.
SELECT count(jobq_enqueue('later', to_jsonb('later' || n), kind => 'x')) FROM generate_series(1, 5) n;
SELECT claim_payloads('later', 2);
SELECT jobq_set_limit('later', kind => 'x', max_running => 3), claim_payloads('later');
SELECT jobq_set_limit('later', kind => 'x', max_running => 1);
SELECT pg_temp.complete('later1'), pg_temp.complete('later2'), claim_payloads('later'), pg_temp.complete('later3'), claim_payloads('later');

-- With plain SQL: a job that is made to stop, or gets another kind, frees its slot. A job that is made to run counts from the next
-- tick on.
SELECT jobq_set_limit('hand', kind => '*', max_running => 1);
SELECT count(jobq_enqueue('hand', to_jsonb('hand' || n), kind => 'h')) FROM generate_series(1, 4) n;
SELECT claim_payloads('hand');
UPDATE jobq.jobs SET status = 'completed' WHERE payload = '"hand1"';
SELECT claim_payloads('hand');
UPDATE jobq.jobs SET kind = 'other' WHERE payload = '"hand2"';
SELECT _kind_slot FROM jobq.jobs WHERE payload = '"hand2"';
SELECT claim_payloads('hand');
UPDATE jobq.jobs SET status = 'processing' WHERE payload = '"hand4"';
SELECT count(*) > 0 AS ticked FROM tick_alone(now());
SELECT kind, count(*), count(DISTINCT _kind_slot) AS slots FROM jobq.jobs WHERE queue = 'hand' AND status = 'processing' GROUP BY kind ORDER BY kind;
INSERT INTO jobq.limit_settings (queue, key, by_kind, max_running) VALUES ('hand', 'h', true, 3);
SELECT jobq_enqueue('hand', '"hand5"', kind => 'h') > 0 AS enqueued;
SELECT claim_payloads('hand'), (SELECT running FROM jobq.limits WHERE queue = 'hand' AND kind = 'h');
UPDATE jobq.limit_settings SET max_running = 0 WHERE queue = 'hand' AND key = 'h' AND by_kind;
SELECT pg_temp.complete('hand3'), jobq_enqueue('hand', '"hand6"', kind => 'h') > 0 AS enqueued, claim_payloads('hand');
DELETE FROM jobq.limit_settings WHERE queue = 'hand';
SELECT claim_payloads('hand');

-- Rates. Without preload, jobq rejects a rate.
CREATE FUNCTION pg_temp.rated() RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    claimed text;
BEGIN
    BEGIN
        PERFORM jobq_set_limit('rated', kind => 'slow', rate => 2, per => '1 day');
    EXCEPTION WHEN object_not_in_prerequisite_state THEN
        RETURN CASE WHEN current_setting('shared_preload_libraries') LIKE '%jobq%' THEN 'refused' ELSE 'as it should be' END;
    END;
    -- The first bucket of a queue starts empty if the server has been started less than a day ago, so the test uses a high rate.
    PERFORM jobq_set_limit('rated', kind => 'slow', rate => 1000000, per => '1 s'), jobq_set_limit('rated', max_running => 1);
    PERFORM jobq_enqueue('rated', kind => k) FROM unnest('{slow,slow,fast}'::text[]) k;
    claimed := (SELECT count(*) FROM jobq_claim('rated', batch => 9, heartbeat_timeout => '1 hour'));
    IF claimed <> '1' THEN RETURN claimed || ' jobs run under a limit of 1'; END IF;
    -- With this rate, no token is available for a day.
    PERFORM jobq_set_limit('rated', kind => 'slow', rate => 2, per => '2 days'), jobq_set_limit('rated');
    claimed := (SELECT string_agg(kind, ' ') FROM jobq_claim('rated', batch => 9, heartbeat_timeout => '1 hour'));
    IF claimed IS DISTINCT FROM 'fast' THEN RETURN 'claimed ' || coalesce(claimed, 'nothing'); END IF;
    RETURN (SELECT CASE WHEN tokens = 0 AND next_token > now() THEN 'as it should be' ELSE 'the view is wrong' END
            FROM jobq.limits WHERE queue = 'rated' AND kind = 'slow' AND rate = 2);
END $$;
SELECT pg_temp.rated();
-- A job whose kind has no room takes no token of its key. Each claim below takes one job, and then reaches such a job.
CREATE FUNCTION pg_temp.tokens() RETURNS integer LANGUAGE sql AS $$ SELECT tokens FROM jobq.limits WHERE queue = 'tokens' AND key = 'k' $$;
CREATE FUNCTION pg_temp.spent() RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    before int;
BEGIN
    -- The bucket gets ten tokens a second.
    PERFORM jobq_set_limit('tokens', 'k', rate => 1000, per => '100 s'), jobq_set_limit('tokens', kind => 'full', max_running => 0);
    PERFORM jobq_enqueue('tokens', kind => 'full', concurrency_key => 'k');
    FOR i IN 1 .. 600 LOOP
        EXIT WHEN pg_temp.tokens() >= 40;
        PERFORM pg_sleep(0.1);
    END LOOP;
    before := pg_temp.tokens();
    FOR i IN 1 .. 40 LOOP
        PERFORM jobq_enqueue('tokens', kind => 'other', priority => -1);
        PERFORM jobq_complete(id, lease) FROM jobq_claim('tokens', batch => 9);
    END LOOP;
    RETURN CASE WHEN before >= 40 AND pg_temp.tokens() >= before THEN 'as it should be' ELSE before || ', then ' || pg_temp.tokens() END;
EXCEPTION WHEN object_not_in_prerequisite_state THEN
    RETURN 'as it should be';
END $$;
SELECT pg_temp.spent();

-- Bad input changes nothing. A key and a kind have separate limits.
SELECT call, outcome_with_hint(call) FROM unnest(ARRAY[
    $$jobq_set_limit('bad', 'k', kind => 'a', max_running => 1)$$, $$jobq_set_limit('bad', 'k', kind => 'a')$$,
    $$jobq_set_limit('bad', kind => repeat('k', 256), max_running => 1)$$, $$jobq_set_limit('bad', kind => 'a', max_running => -1)$$,
    $$jobq_set_limit('bad', kind => 'a', per => '1 s')$$]) AS call;
SELECT count(*) FROM jobq.limits WHERE queue = 'bad';

-- The limits of the kinds of a queue are dropped with it.
SET client_min_messages = warning;
SELECT count(jobq_drop_queue(q, force => true)) FROM unnest('{media,each,all,turns,later,hand,rated,tokens}'::text[]) q;
RESET client_min_messages;
SELECT count(*) FROM jobq.limits;
