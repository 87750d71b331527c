-- Named limits: a limit that several queues share, for example the limit of an external service that several kinds of jobs call. Jobs
-- join it by its name. All limits that apply to a job must have room.
\set VERBOSITY default
\set SHOW_CONTEXT never
CREATE FUNCTION pg_temp.complete(job text) RETURNS boolean LANGUAGE sql AS $$
    SELECT jobq_complete(id, lease) FROM jobq.jobs WHERE payload = to_jsonb(job) AND status = 'processing' $$;

-- At most two jobs run at once that name the limit "stripe", in both queues together. Other jobs are not limited.
SELECT jobq_set_named_limit('stripe', '{refunds,charges}', max_running => 2);
SELECT count(jobq_enqueue(q, to_jsonb(q || n), options => '{"limits": ["stripe"]}')) FROM unnest('{charges,refunds}'::text[]) q, generate_series(1, 3) n;
SELECT count(jobq_enqueue(q, to_jsonb('free ' || q))) FROM unnest('{charges,refunds}'::text[]) q;
SELECT claim_payloads('charges', 1), claim_payloads('refunds');
SELECT name, queues, max_running, running FROM jobq.named_limits;
SELECT claim_payloads('charges');
-- jobq_explain names the limit and the jobs that hold its slots.
SELECT e.reason, e.detail, (SELECT string_agg(j.payload #>> '{}', ' ' ORDER BY j.id) FROM jobq.jobs j WHERE j.id = ANY (e.jobs)) AS jobs
FROM jobq.jobs, jobq_explain(id) e WHERE payload = '"refunds2"';
SELECT e.reason, e.detail, (SELECT string_agg(j.payload #>> '{}', ' ' ORDER BY j.id) FROM jobq.jobs j WHERE j.id = ANY (e.jobs)) AS jobs
FROM jobq_explain_queue('refunds') e;
-- Jobs with the same limits are in one lane, so a claim does not read the other jobs of the lane when a limit is full.
SELECT queue, limits FROM jobq.lanes WHERE queue IN ('charges', 'refunds') ORDER BY queue, limits NULLS FIRST;
-- Each end of an attempt in one queue frees the slot for all queues, even a deletion, and a rollback takes it again.
SELECT pg_temp.complete('charges1'), claim_payloads('refunds', 1);
BEGIN;
SELECT pg_temp.complete('refunds1'), claim_payloads('charges', 1);
ROLLBACK;
SELECT claim_payloads('charges', 1);
DELETE FROM jobq.jobs WHERE payload = '"refunds1"';
SELECT claim_payloads('charges', 1), claim_payloads('charges', 1);
SELECT running FROM jobq.named_limits WHERE name = 'stripe';

-- A job can have two named limits. The first limit of one job can be the second limit of another.
SELECT jobq_set_named_limit('db', '{pair}', max_running => 2), jobq_set_named_limit('api', '{pair}', max_running => 1), jobq_set_named_limit('aux', '{pair}', max_running => 1);
SELECT count(jobq_enqueue('pair', to_jsonb(name), priority => n, options => jsonb_build_object('limits', limits)))
FROM (VALUES (1, 'db-api', '{db,api,db}'::text[]), (2, 'db', '{db}'), (3, 'aux-db', '{aux,db}'), (4, 'api', '{api}'), (5, 'aux', '{aux}')) j(n, name, limits);
SELECT payload, limits FROM jobq.jobs WHERE queue = 'pair' ORDER BY priority;
-- The limit "db" is the second limit of "db-api" and the only limit of "db". When it is full, "aux-db" cannot run, and does not keep the
-- slot of "aux".
SELECT claim_payloads('pair');
SELECT name, max_running, running FROM jobq.named_limits WHERE 'pair' = ANY (queues) ORDER BY name;
SELECT pg_temp.complete('db'), claim_payloads('pair');
SELECT pg_temp.complete('aux'), claim_payloads('pair');
SELECT pg_temp.complete('db-api'), claim_payloads('pair');
SELECT name, max_running, running FROM jobq.named_limits WHERE 'pair' = ANY (queues) ORDER BY name;

-- A queue or a kind can name limits for its jobs. The limits of a job replace the limits of its kind, and the limits of a kind replace the
-- limits of its queue. An empty list means no limit. A job keeps the limits that it got when it was enqueued.
SELECT jobq_set_named_limit(l, '{settings}', max_running => 5) FROM unnest('{of_queue,of_kind,of_job}'::text[]) l;
SELECT jobq_create_queue('settings', limits => '{of_queue}'), jobq_alter_kind('settings', 'k', limits => '{of_kind}'), jobq_alter_kind('settings', 'none', limits => '{}');
SELECT count(jobq_enqueue('settings', to_jsonb(name), kind => kind, priority => n, options => options))
FROM (VALUES (1, 'queue', '', NULL::jsonb), (2, 'kind', 'k', NULL), (3, 'job', 'k', '{"limits": ["of_job"]}'), (4, 'no limit of the job', 'k', '{"limits": []}'), (5, 'no limit of the kind', 'none', NULL)) j(n, name, kind, options);
INSERT INTO jobq.jobs (queue, payload, kind, priority, limits) VALUES ('settings', '"plain SQL"', 'k', 6, NULL), ('settings', '"plain SQL without a limit"', 'k', 7, '{}');
SELECT jobq_alter_queue('settings', limits => '{}');
SELECT payload, limits FROM jobq.jobs WHERE queue = 'settings' ORDER BY priority;
SELECT queue, kind, limits FROM jobq.kinds WHERE queue = 'settings' ORDER BY kind;
-- A copy of a job has the same limits. So do the jobs of schedules, and jobs that are enqueued together or spawned.
SELECT jobq_alter_queue('settings', limits => '{of_queue}');
-- A setting can name a limit that does not limit the queue yet. A NOTICE says so, because it can be a mistake.
SELECT jobq_alter_kind('settings', 'mistyped', limits => '{of_kind,of_kidn}'), jobq_drop_kind('settings', 'mistyped');
SELECT jobq_create_queue('elsewhere', limits => '{of_queue}'), jobq_drop_queue('elsewhere');
SELECT max(id) AS last FROM jobq.jobs \gset
SELECT count(jobq_fork(id)) AS forked FROM jobq.jobs WHERE queue = 'settings' AND priority IN (3, 4);
SELECT count(*) FROM jobq_enqueue_many('settings', '{"\"many\""}', options => '{"limits": ["of_job", "of_kind"]}');
SELECT count(*) FROM jobq_enqueue_jobs('[{"queue": "settings", "payload": "spec", "limits": ["of_job"]}, {"queue": "settings", "payload": "spec without limits"}]');
SELECT jobq_schedule('limited', '0 0 1 1 *', 'settings', payload => '"schedule"', options => '{"limits": ["of_job"]}') > now() AS scheduled, jobq_run_schedule('limited') > 0 AS fired;
SELECT jobq_enqueue('settings', '"unique"', unique_key => 'u', options => '{"limits": ["of_job"]}') = jobq_enqueue('settings', '"replaced"', unique_key => 'u', on_conflict => 'replace', options => '{"limits": ["of_kind"]}') AS replaced;
SELECT payload, limits FROM jobq.jobs WHERE id > :last ORDER BY id;
-- A dead letter keeps its limits, although they do not include the queue of the dead letters, and has them when it is back.
SELECT jobq_alter_queue('settings', dead_letter_queue => 'dead');
SELECT jobq_fail(id, lease, 'no', retry => false) FROM jobq_claim('settings', heartbeat_timeout => '1 hour', kinds => '{k}');
SELECT queue, payload, limits FROM jobq.jobs WHERE queue = 'dead';
SELECT jobq_redrive('settings');
SELECT queue, payload, limits, status FROM jobq.jobs WHERE payload = '"kind"';

-- Setting a limit while jobs run: they count. Lowering it and adding a queue: the same.
SELECT jobq_set_named_limit('later', '{l1}', max_running => 9);
SELECT count(jobq_enqueue('l1', to_jsonb('l1-' || n), options => '{"limits": ["later"]}')) FROM generate_series(1, 5) n;
SELECT claim_payloads('l1', 2);
SELECT jobq_set_named_limit('later', '{l1}', max_running => 2), claim_payloads('l1');
SELECT jobq_set_named_limit('later', '{l1,l2}', max_running => 3), jobq_enqueue('l2', '"l2-1"', options => '{"limits": ["later"]}') > 0 AS enqueued;
SELECT claim_payloads('l2'), claim_payloads('l1');
-- A queue that shares no longer: its jobs run without the limit. Those that run already count until they have ended.
SELECT jobq_set_named_limit('later', '{l2}', max_running => 3), claim_payloads('l1', 1);
SELECT running FROM jobq.named_limits WHERE name = 'later';
SELECT jobq_set_named_limit('later', '{l1,l2}', max_running => 3), claim_payloads('l1'), (SELECT running FROM jobq.named_limits WHERE name = 'later');
SELECT pg_temp.complete('l1-1'), claim_payloads('l1'), pg_temp.complete('l1-2'), claim_payloads('l1');
-- A limit that was dropped no longer limits the jobs that name it. If it is set again, it does.
SELECT jobq_drop_named_limit('later'), jobq_drop_named_limit('later');
SELECT jobq_enqueue('l1', '"l1-6"', options => '{"limits": []}') > 0 AS enqueued, claim_payloads('l1');
SELECT jobq_set_named_limit('later', '{l1,l2}', max_running => 1);
SELECT running FROM jobq.named_limits WHERE name = 'later';

-- With plain SQL: a job that is made to stop, or gets other limits, frees its slot. A job that is made to run counts from the next tick
-- on. A name of a limit that does not exist does not limit.
SELECT jobq_set_named_limit('hand', '{hand}', max_running => 1);
SELECT count(jobq_enqueue('hand', to_jsonb('hand' || n), options => '{"limits": ["hand"]}')) FROM generate_series(1, 4) n;
SELECT claim_payloads('hand');
UPDATE jobq.jobs SET status = 'completed' WHERE payload = '"hand1"';
SELECT claim_payloads('hand');
UPDATE jobq.jobs SET limits = '{other}' WHERE payload = '"hand2"';
SELECT _limit_slot1 FROM jobq.jobs WHERE payload = '"hand2"';
SELECT claim_payloads('hand');
UPDATE jobq.jobs SET limits = '{hand}' WHERE payload = '"hand2"';
SELECT count(*) > 0 AS ticked FROM tick_alone(now());
SELECT running FROM jobq.named_limits WHERE name = 'hand';
SELECT pg_temp.complete('hand2'), claim_payloads('hand'), pg_temp.complete('hand3'), claim_payloads('hand');
-- A waiting job that gets other limits moves to another lane.
SELECT jobq_enqueue('hand', '"hand5"', options => '{"limits": ["hand"]}') > 0 AS enqueued, claim_payloads('hand');
UPDATE jobq.jobs SET limits = NULL WHERE payload = '"hand5"';
SELECT claim_payloads('hand');
-- The table of the limits can be changed, too.
INSERT INTO jobq.jobs (queue, payload, limits) VALUES ('hand', '"hand6"', '{hand}');
SELECT claim_payloads('hand');
UPDATE jobq.named_limit_settings SET max_running = 2 WHERE name = 'hand';
SELECT claim_payloads('hand');
INSERT INTO jobq.jobs (queue, limits) VALUES ('hand', '{a,b,c}');
UPDATE jobq.jobs SET limits = '{a,b,c}' WHERE queue = 'hand';

-- All limits of a job need room: of its queue, its key, its kind, and its named limits. A limit that refuses the job leaves the others as
-- they were.
SELECT jobq_set_named_limit('n', '{all}', max_running => 1), jobq_set_limit('all', max_running => 3), jobq_set_limit('all', 'k', max_running => 1), jobq_set_limit('all', kind => 'a', max_running => 2);
SELECT count(jobq_enqueue('all', to_jsonb(name), kind => kind, concurrency_key => key, priority => p, options => options))
FROM (VALUES (1, 'a-k-n', 'a', 'k', '{"limits": ["n"]}'::jsonb), (2, 'a-n', 'a', NULL, '{"limits": ["n"]}'), (3, 'k', '', 'k', NULL), (4, 'a', 'a', NULL, NULL), (5, 'a2', 'a', NULL, NULL), (6, 'free', '', NULL, NULL), (7, 'free2', '', NULL, NULL)) j(p, name, kind, key, options);
SELECT claim_payloads('all');
SELECT key, kind, running FROM jobq.limits WHERE queue = 'all' ORDER BY key NULLS FIRST, kind NULLS FIRST;
SELECT pg_temp.complete('a-k-n'), claim_payloads('all', 1), pg_temp.complete('free'), claim_payloads('all', 1);

-- Rates. Without preload, jobq rejects a rate. A job that another limit refuses spends no token.
CREATE FUNCTION pg_temp.rated() RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    claimed text;
    tokens_before int;
BEGIN
    BEGIN
        PERFORM jobq_set_named_limit('rated', '{r1,r2}', rate => 1000000, per => '1 s');
    EXCEPTION WHEN object_not_in_prerequisite_state THEN
        RETURN CASE WHEN current_setting('shared_preload_libraries') LIKE '%jobq%' THEN 'refused' ELSE 'as it should be' END;
    END;
    PERFORM jobq_enqueue(q, options => '{"limits": ["rated"]}') FROM unnest('{r1,r2,r2}'::text[]) q;
    claimed := (SELECT count(*) FROM jobq_claim('r1', batch => 9, heartbeat_timeout => '1 hour'));
    IF claimed <> '1' THEN RETURN claimed || ' jobs run'; END IF;
    -- With this rate, no token is available for a day, in any queue.
    PERFORM jobq_set_named_limit('rated', '{r1,r2}', rate => 2, per => '2 days');
    IF EXISTS (SELECT FROM jobq_claim('r2', batch => 9)) THEN RETURN 'a job has run without a token'; END IF;
    IF NOT EXISTS (SELECT FROM jobq.named_limits WHERE name = 'rated' AND tokens = 0 AND next_token > now()) THEN RETURN 'the view is wrong'; END IF;
    IF NOT EXISTS (SELECT FROM jobq.jobs, jobq_explain(id) e WHERE queue = 'r2' AND e.reason = 'rate' AND e.detail LIKE 'limit "rated"%') THEN RETURN 'jobq_explain is wrong'; END IF;
    -- The bucket gets ten tokens a second. The limit "stop" has no room.
    PERFORM jobq_set_named_limit('spent', '{r1,r2}', rate => 1000, per => '100 s'), jobq_set_named_limit('stop', '{r1,r2}', max_running => 0);
    PERFORM jobq_enqueue('r1', options => '{"limits": ["spent", "stop"]}');
    FOR i IN 1 .. 600 LOOP
        EXIT WHEN (SELECT tokens >= 40 FROM jobq.named_limits WHERE name = 'spent');
        PERFORM pg_sleep(0.1);
    END LOOP;
    tokens_before := (SELECT tokens FROM jobq.named_limits WHERE name = 'spent');
    FOR i IN 1 .. 40 LOOP
        PERFORM jobq_enqueue('r1', priority => -1);
        PERFORM jobq_complete(id, lease) FROM jobq_claim('r1', batch => 9);
    END LOOP;
    RETURN CASE WHEN tokens_before >= 40 AND (SELECT tokens >= tokens_before FROM jobq.named_limits WHERE name = 'spent') THEN 'as it should be' ELSE 'tokens were spent' END;
END $$;
SELECT pg_temp.rated();

-- An operator needs rights over all queues that share the limit, so far and from now on.
CREATE ROLE named_limits_operator;
SELECT jobq_grant('named_limits_operator', 'operator', '{mine,ours}');
SELECT jobq_set_named_limit('foreign', '{mine,other}', max_running => 1);
SET ROLE named_limits_operator;
SELECT call, outcome_with_hint(call) FROM unnest(ARRAY[
    $$jobq_set_named_limit('own', '{mine,ours}', max_running => 1)$$, $$jobq_set_named_limit('own', '{mine,other}', max_running => 1)$$,
    $$jobq_set_named_limit('foreign', '{mine}', max_running => 1)$$, $$jobq_set_named_limit('foreign', '{mine}')$$, $$jobq_drop_named_limit('foreign')$$,
    $$jobq_drop_named_limit('own')$$, $$jobq_drop_named_limit('unknown')$$]) AS call;
RESET ROLE;
SELECT name, queues FROM jobq.named_limits WHERE 'mine' = ANY (queues);
SELECT jobq_revoke('named_limits_operator', 'operator');
DROP ROLE named_limits_operator;

-- Bad input changes nothing.
SELECT call, outcome_with_hint(call) FROM unnest(ARRAY[
    $$jobq_set_named_limit(NULL, '{a}', max_running => 1)$$, $$jobq_set_named_limit('', '{a}', max_running => 1)$$, $$jobq_set_named_limit(repeat('n', 64), '{a}', max_running => 1)$$,
    $$jobq_set_named_limit('bad', NULL, max_running => 1)$$, $$jobq_set_named_limit('bad', '{}', max_running => 1)$$, $$jobq_set_named_limit('bad', '{a,NULL}', max_running => 1)$$,
    $$jobq_set_named_limit('bad', '{""}', max_running => 1)$$, $$jobq_set_named_limit('bad', '{a}', max_running => -1)$$, $$jobq_set_named_limit('bad', '{a}', per => '1 s')$$,
    $$jobq_set_named_limit('bad', array_fill('a'::text, '{101}'), max_running => 1)$$,
    $$jobq_set_named_limit('bad', '{a}')$$, $$jobq_drop_named_limit(NULL)$$,
    $$jobq_enqueue('charges', options => '{"limits": ["strype"]}')$$, $$jobq_enqueue('elsewhere', options => '{"limits": ["stripe"]}')$$,
    $$jobq_enqueue('charges', options => '{"limits": ["a", "b", "c"]}')$$, $$jobq_enqueue('charges', options => '{"limits": "stripe"}')$$, $$jobq_enqueue('charges', options => '{"limits": [""]}')$$,
    $$jobq_schedule('bad', '* * * * *', 'charges', options => '{"limits": ["strype"]}')$$,
    $$jobq_create_batch('bad', on_complete => '{"queue": "charges", "limits": ["strype"]}')$$,
    $$jobq_alter_queue('charges', limits => '{a,b,c}')$$]) AS call;

-- A queue that is dropped no longer shares the limits. A limit without queues is dropped.
SET client_min_messages = warning;
SELECT count(jobq_drop_queue(q, force => true)) FROM unnest('{charges,pair,settings,l1,hand,all,r1,mine,other,dead}'::text[]) q;
SELECT name, queues FROM jobq.named_limits WHERE name IN ('later', 'stripe') ORDER BY name;
SELECT count(jobq_drop_queue(q, force => true)) FROM unnest('{refunds,l2,r2}'::text[]) q;
RESET client_min_messages;
SELECT count(*) FROM jobq.named_limits;
