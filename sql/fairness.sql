-- Fairness, which is a setting of the queue and off by default. Priority aging: a stream of urgent jobs does not starve jobs of
-- low priority. Round-robin: the concurrency keys of a queue take turns, however long their backlogs are.
CREATE FUNCTION pg_temp.order_of(queue text, batch int) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    got text := '';
    part text;
BEGIN
    LOOP
        SELECT string_agg(c.payload #>> '{}', ' ' ORDER BY c.place) INTO part
        FROM (SELECT payload, row_number() OVER () AS place FROM jobq_claim(queue, batch => batch, kinds => NULL)) c;
        EXIT WHEN part IS NULL;
        got := got || ' ' || part;
    END LOOP;
    RETURN ltrim(got);
END $$;

-- ---- Priority aging

-- Without aging, a lower number always comes first, however long other jobs have waited.
CREATE FUNCTION pg_temp.fill_aged() RETURNS bigint LANGUAGE sql AS $$
    SELECT count(jobq_enqueue('aged', to_jsonb(name), kind => kind, priority => priority, run_at => timestamptz '2020-01-01 12:00+00' - waited))
    FROM (VALUES ('now0', 'a', 0, interval '0'), ('now1', 'a', 1, '0'), ('5min5', 'a', 5, '5 min'), ('4min5', 'b', 5, '4 min'), ('6min5', 'b', 5, '6 min'),
                 ('10min9', 'a', 9, '10 min'), ('1min0', 'b', 0, '1 min'), ('30s-1', 'a', -1, '30 s'), ('2h100', 'b', 100, '2 h')) j(name, kind, priority, waited) $$;
SELECT pg_temp.fill_aged();
SELECT pg_temp.order_of('aged', 1);
SELECT jobq_drop_queue('aged', force => true);
-- With aging, each minute of waiting counts as one step of priority: a job of priority 5 that has waited for 6 minutes comes
-- before a new job of priority 0. This holds across kinds, for single claims and in batches.
SELECT jobq_create_queue('aged', priority_ageing => '1 min');
SELECT priority_ageing, round_robin FROM jobq.queues WHERE queue = 'aged';
SELECT pg_temp.fill_aged();
BEGIN;
SELECT pg_temp.order_of('aged', 1);
ROLLBACK;
BEGIN;
SELECT pg_temp.order_of('aged', 4);
ROLLBACK;
SELECT pg_temp.order_of('aged', 100);
SELECT jobq_purge_queue('aged') AS purged;
SELECT jobq_drop_queue('aged', force => true);

-- All jobs of a random backlog, claimed in batches of random size, come in the order of priority - waited / aging.
SELECT jobq_create_queue('aged', priority_ageing => '10 s');
SELECT setseed(0.25);
SELECT count(*) FROM jobq_enqueue_jobs((SELECT jsonb_agg(jsonb_build_object('queue', 'aged', 'kind', chr(97 + n % 3), 'priority', floor(random() * 12) - 6,
    'run_at', timestamptz '2020-01-01 12:00+00' - random() * interval '2 min')) FROM generate_series(1, 600) n));
CREATE TEMPORARY TABLE aged_order (place serial, id bigint);
DO $$
BEGIN
    FOR n IN 1 .. 200 LOOP
        INSERT INTO aged_order (id) SELECT id FROM jobq_claim('aged', batch => 1 + n % 7);
    END LOOP;
END $$;
SELECT count(*), count(*) FILTER (WHERE o.place <> w.place) AS out_of_order FROM aged_order o
JOIN (SELECT id, row_number() OVER (ORDER BY run_at + priority * interval '10 s', priority, id) AS place FROM jobq.jobs WHERE queue = 'aged') w USING (id);
SELECT jobq_drop_queue('aged', force => true);

-- The order also holds for single claims that commit while other jobs arrive, with very different priorities and hundreds of jobs
-- with the same time.
SELECT jobq_create_queue('aged', priority_ageing => '10 s');
SELECT count(*) FROM jobq_enqueue_jobs((SELECT jsonb_agg(jsonb_build_object('queue', 'aged', 'kind', chr(97 + n % 2), 'priority', 10 * (n % 4),
    'run_at', timestamptz '2020-01-01 12:00+00' + n / 500 * interval '25 s')) FROM generate_series(0, 1499) n));
DO $$
DECLARE
    next bigint;
    taken bigint;
    wrong int := 0;
BEGIN
    FOR n IN 1 .. 1000 LOOP
        SELECT id INTO next FROM jobq.jobs WHERE queue = 'aged' AND status = 'pending' ORDER BY run_at + priority * interval '10 s', priority, id LIMIT 1;
        SELECT id INTO taken FROM jobq_claim('aged');
        IF taken IS DISTINCT FROM next THEN wrong := wrong + 1; END IF;
        IF n % 7 = 0 THEN
            PERFORM jobq_enqueue('aged', kind => chr(97 + n % 3), priority => 5 * (n % 9),
                run_at => timestamptz '2020-01-01 12:00+00' + (n % 11 - 5) * interval '10 s');
        END IF;
        COMMIT;
    END LOOP;
    RAISE NOTICE 'out of order: %', wrong;
END $$;
SELECT jobq_drop_queue('aged', force => true);

-- A stream of urgent jobs, twice as many as the worker can run: a job of priority 3 comes after the urgent jobs of the first
-- three minutes, and before later ones.
SELECT jobq_create_queue('aged', priority_ageing => '1 min');
SELECT jobq_enqueue('aged', '"low"', priority => 3, run_at => '2020-01-01 12:00+00') AS low \gset
DO $$
DECLARE
    taken text;
BEGIN
    FOR minute IN 0 .. 9 LOOP
        PERFORM jobq_enqueue('aged', '"urgent"', run_at => timestamptz '2020-01-01 12:00+00' + (minute * interval '1 min')) FROM generate_series(1, 2);
        SELECT payload #>> '{}' INTO taken FROM jobq_claim('aged');
        RAISE NOTICE 'minute %: %', minute, taken;
        EXIT WHEN taken = 'low';
    END LOOP;
END $$;
-- Aging is turned off again.
SELECT jobq_alter_queue('aged', priority_ageing => '0');
SELECT priority_ageing FROM jobq.queues WHERE queue = 'aged';
SELECT jobq_drop_queue('aged', force => true);

-- ---- Round-robin

-- A hundred jobs of one customer, then one of another. Without round_robin, the last job waits for all others.
SELECT count(*) FROM jobq_enqueue_many('turns', (SELECT array_agg('"big"'::jsonb) FROM generate_series(1, 100)), concurrency_keys => (SELECT array_agg(text 'big') FROM generate_series(1, 100)));
SELECT jobq_enqueue('turns', '"small"', concurrency_key => 'small') > 0 AS enqueued;
BEGIN;
SELECT position('small' IN pg_temp.order_of('turns', 1)) > 100 * length('big') AS comes_last;
ROLLBACK;
-- With round_robin, it is the first or the second job.
SELECT jobq_alter_queue('turns', round_robin => true);
SELECT round_robin FROM jobq.queues WHERE queue = 'turns';
BEGIN;
SELECT 'small' = ANY (array_agg(payload #>> '{}')) AS among_the_first_two FROM jobq_claim('turns', batch => 2);
ROLLBACK;
SELECT jobq_drop_queue('turns', force => true);

-- Keys with backlogs alternate, and the others continue when one has no jobs left. The jobs of a key keep their order: priority,
-- time, ID. This holds for all batch sizes and across kinds.
SELECT jobq_create_queue('turns', round_robin => true);
CREATE FUNCTION pg_temp.fill_turns() RETURNS bigint LANGUAGE sql AS $$
    SELECT count(jobq_enqueue('turns', to_jsonb(key || n), kind => CASE n % 2 WHEN 0 THEN 'even' ELSE 'odd' END, concurrency_key => key))
    FROM (VALUES ('a', 5), ('b', 2), ('c', 3)) k(key, jobs), generate_series(1, jobs) n $$;
CREATE FUNCTION pg_temp.round_of(taken text) RETURNS text LANGUAGE sql AS $$
    -- The keys that each round has served, sorted within the round.
    SELECT string_agg(keys, ' | ' ORDER BY round) FROM (
        SELECT round, string_agg(key || round, ' ' ORDER BY key) AS keys FROM (
            SELECT left(j, 1) AS key, row_number() OVER (PARTITION BY left(j, 1) ORDER BY place) AS round, substr(j, 2)::int AS n FROM regexp_split_to_table(taken, ' ') WITH ORDINALITY t(j, place)) s
        WHERE n = round GROUP BY round) r $$;
SELECT pg_temp.fill_turns();
BEGIN;
SELECT pg_temp.order_of('turns', 1) AS one_by_one \gset
SELECT pg_temp.round_of(:'one_by_one');
ROLLBACK;
BEGIN;
SELECT pg_temp.order_of('turns', 4) AS by_four \gset
SELECT pg_temp.round_of(:'by_four');
ROLLBACK;
SELECT pg_temp.order_of('turns', 100) AS at_once \gset
SELECT pg_temp.round_of(:'at_once');
-- No key is served twice in a row while another one waits.
CREATE FUNCTION pg_temp.alternates(taken text) RETURNS boolean LANGUAGE sql AS $$
    SELECT count(*) = 0 FROM (SELECT left(j, 1) AS key, lag(left(j, 1)) OVER (ORDER BY place) AS before, place FROM regexp_split_to_table(taken, ' ') WITH ORDINALITY t(j, place)) s
    WHERE key = before AND place <= 8 $$;
SELECT pg_temp.alternates(:'one_by_one'), pg_temp.alternates(:'by_four'), pg_temp.alternates(:'at_once');
SELECT jobq_drop_queue('turns', force => true);

-- Two queues never share a position in the round, even if a hash puts them into the same set of entries. Otherwise, claims from a
-- queue with one key could starve keys of the other queue.
SELECT 'crowd ' || n AS crowd FROM generate_series(1, 100000) n, pg_database d
WHERE d.datname = current_database() AND (hashtextextended('crowd ' || n, d.oid::bigint) # hashtextextended('alone', d.oid::bigint)) & 1023 = 0
ORDER BY n LIMIT 1 \gset
SELECT jobq_create_queue(queue, round_robin => true) FROM unnest(ARRAY['alone', :'crowd']) queue;
SELECT count(*) FROM jobq_enqueue_many('alone', array_fill('1'::jsonb, '{20}'), concurrency_keys => array_fill('k'::text, '{20}'));
SELECT count(jobq_enqueue(:'crowd', concurrency_key => 'k' || n % 5)) FROM generate_series(1, 100) n;
SELECT count(*) FROM generate_series(1, 20) n, LATERAL (SELECT jobq_claim('alone') WHERE n > 0) a,
       LATERAL (SELECT jobq_claim(:'crowd') WHERE n > 0) b;
SELECT concurrency_key, count(*) FROM jobq.jobs WHERE queue = :'crowd' AND status = 'processing' GROUP BY 1 ORDER BY 1;
SELECT jobq_drop_queue(queue, force => true) FROM unnest(ARRAY['alone', :'crowd']) queue;

-- The jobs without a key count as one key. Priorities apply within a key. Filters of workers apply.
SELECT jobq_create_queue('turns', round_robin => true);
SELECT count(jobq_enqueue('turns', to_jsonb(coalesce(k, 'none') || p), kind => 'k' || p, concurrency_key => k, priority => p)) FROM unnest('{a,b,NULL}'::text[]) k, unnest('{2,1}'::int[]) p;
BEGIN;
SELECT array_agg(payload #>> '{}' ORDER BY payload #>> '{}') FROM jobq_claim('turns', batch => 3);
SELECT array_agg(payload #>> '{}' ORDER BY payload #>> '{}') FROM jobq_claim('turns', batch => 3);
ROLLBACK;
BEGIN;
SELECT array_agg(payload #>> '{}' ORDER BY payload #>> '{}') FROM jobq_claim('turns', batch => 9, kinds => '{k2}');
ROLLBACK;
-- Aging applies within a key, too.
SELECT jobq_alter_queue('turns', priority_ageing => '1 min');
SELECT jobq_reschedule(id, now() - interval '1 hour') FROM jobq.jobs WHERE queue = 'turns' AND payload = '"a2"';
BEGIN;
SELECT array_agg(payload #>> '{}' ORDER BY payload #>> '{}') FROM jobq_claim('turns', batch => 3);
ROLLBACK;

-- A job that is released, retried, or promoted keeps its round-robin key. If plain SQL changes its concurrency key or queue, the
-- round-robin key changes, too.
BEGIN;
SELECT count(jobq_release(id, lease)) FROM jobq_claim('turns', batch => 6);
SELECT count(jobq_fail(id, lease, retry_in => '0')) FROM jobq_claim('turns', batch => 6);
SELECT count(*) FROM jobq_claim('turns', batch => 6);
ROLLBACK;
UPDATE jobq.jobs SET concurrency_key = 'c' WHERE queue = 'turns' AND payload = '"b2"';
SELECT count(*) AS has_key, count(*) FILTER (WHERE _round_robin_key = jobq.round_robin_key_of(concurrency_key)) AS in_their_own FROM jobq.jobs WHERE queue = 'turns';
UPDATE jobq.jobs SET queue = 'no turns' WHERE queue = 'turns' AND payload = '"none2"';
SELECT _round_robin_key FROM jobq.jobs WHERE queue = 'no turns';
UPDATE jobq.jobs SET queue = 'turns' WHERE queue = 'no turns';
INSERT INTO jobq.jobs (queue, payload, concurrency_key) VALUES ('turns', '"inserted"', 'd');
SELECT jobq_enqueue('turns', '"unique"', concurrency_key => 'e', unique_key => 'u') > 0 AS enqueued;
SELECT is_new FROM jobq_enqueue_jobs('[{"queue": "turns", "payload": "spec", "concurrency_key": "f"}, {"queue": "turns", "payload": "unique spec", "concurrency_key": "f", "unique_key": "v"}]');
SELECT count(*) AS has_key, count(*) FILTER (WHERE _round_robin_key = jobq.round_robin_key_of(concurrency_key)) AS in_their_own FROM jobq.jobs WHERE queue = 'turns';
-- A job whose insertion bypassed the triggers has no round-robin key. It is claimed when no other job waits.
SET session_replication_role = replica;
INSERT INTO jobq.jobs (queue, payload, run_at, _ready, max_attempts, status, _lane)
VALUES ('turns', '"replicated"', '2001-01-01', true, 3, 'pending', jobq.lane_of('turns', '', 0, NULL));
RESET session_replication_role;
SELECT array_agg(payload #>> '{}' ORDER BY payload #>> '{}') FROM jobq_claim('turns', batch => 100);

-- When round_robin is turned on for a queue with jobs, all jobs get round-robin keys, including running and finished jobs. When
-- it is turned off, the usual order applies, and no job with a round-robin key is lost.
SELECT jobq_alter_queue('turns', round_robin => false);
SELECT jobq_complete(id, lease) FROM jobq.jobs WHERE queue = 'turns' AND payload = '"a1"';
SELECT count(jobq_release(id, lease)) FROM jobq.jobs WHERE queue = 'turns' AND status = 'processing' AND payload <> '"a2"';
SELECT jobq_enqueue('turns', '"new"', concurrency_key => 'a') > 0 AS enqueued;
SELECT payload FROM jobq.jobs WHERE queue = 'turns' AND _round_robin_key IS NULL ORDER BY id;
SELECT payload FROM jobq_claim('turns');
UPDATE jobq.queue_settings SET round_robin = true WHERE queue = 'turns';
SELECT count(*) FILTER (WHERE _round_robin_key IS NULL) AS without, count(*) FILTER (WHERE _round_robin_key = jobq.round_robin_key_of(concurrency_key)) AS in_their_own FROM jobq.jobs WHERE queue = 'turns';
\set VERBOSITY terse
BEGIN ISOLATION LEVEL REPEATABLE READ;
SELECT jobq_create_queue('other turns', round_robin => true);
SELECT jobq_drop_queue('other turns'), jobq_enqueue('other turns', concurrency_key => 'k') > 0 AS enqueued;
SELECT jobq_create_queue('other turns', round_robin => true);
ROLLBACK;
\set VERBOSITY default
-- A dead letter has no round-robin key. It gets one when it returns to its queue.
SELECT jobq_alter_queue('turns', dead_letter_queue => 'dead turns');
SELECT jobq_fail(id, lease, 'no', retry => false) FROM jobq_claim('turns');
SELECT count(*) AS letters, count(_round_robin_key) AS has_key FROM jobq.jobs WHERE queue = 'dead turns';
SELECT jobq_redrive('dead turns');
SELECT count(*) FILTER (WHERE _round_robin_key IS NULL) AS without FROM jobq.jobs WHERE queue = 'turns';
SELECT jobq_drop_queue('turns', force => true);

-- With limits: keys without room are skipped.
SELECT jobq_create_queue('turns', round_robin => true);
SELECT jobq_set_limit('turns', 'a', max_running => 1);
SELECT count(*) FROM jobq_enqueue_many('turns', (SELECT array_agg('{}'::jsonb) FROM generate_series(1, 30)), concurrency_keys => (SELECT array_agg(substr('abc', n % 3 + 1, 1)) FROM generate_series(1, 30) n));
SELECT j.concurrency_key, count(*) FROM jobq_claim('turns', batch => 9) c JOIN jobq.jobs j USING (id) GROUP BY 1 ORDER BY 1;
SELECT j.concurrency_key, count(*) FROM jobq_claim('turns', batch => 100) c JOIN jobq.jobs j USING (id) GROUP BY 1 ORDER BY 1;
SELECT jobq_drop_queue('turns', force => true);

-- With a limit of the queue, the next turn continues where the last slot was given, whatever batch size the claims ask for.
CREATE PROCEDURE pg_temp.one_by_one(turns integer, batch integer, INOUT keys text) LANGUAGE plpgsql AS $$
DECLARE job record;
BEGIN
    FOR turn IN 1 .. turns LOOP
        SELECT c.id, c.lease, j.concurrency_key INTO job FROM jobq_claim('turns', batch => batch) c JOIN jobq.jobs j USING (id);
        keys := keys || job.concurrency_key;
        PERFORM jobq_complete(job.id, job.lease);
        COMMIT;
    END LOOP;
END $$;
SELECT jobq_create_queue('turns', round_robin => true);
SELECT jobq_set_limit('turns', max_running => 1);
SELECT count(*) FROM jobq_enqueue_many('turns', array_fill('{}'::jsonb, ARRAY[40]), concurrency_keys => (SELECT array_agg(substr('ab', n % 2 + 1, 1)) FROM generate_series(1, 40) n));
CALL pg_temp.one_by_one(10, 2, '') \gset
SELECT :'keys' ~ '^((ab){5}|(ba){5})$' AS by_turns;
CALL pg_temp.one_by_one(10, 100, '') \gset
SELECT :'keys' ~ '^((ab){5}|(ba){5})$' AS by_turns;
SELECT jobq_drop_queue('turns', force => true);

-- A replaced job has the round-robin key of its new concurrency key.
SELECT jobq_create_queue('turns', round_robin => true);
SELECT jobq_enqueue('turns', concurrency_key => 'a', unique_key => 'u') = jobq_enqueue('turns', concurrency_key => 'b', unique_key => 'u', on_conflict => 'replace') AS same;
SELECT concurrency_key, _round_robin_key = jobq.round_robin_key_of('b') AS its_key FROM jobq.jobs WHERE queue = 'turns';
SELECT jobq_drop_queue('turns', force => true) AS turns, jobq_drop_queue('no turns') AS none, jobq_drop_queue('dead turns') AS dead;

-- Bad input.
\set VERBOSITY terse
SELECT jobq_create_queue('turns', priority_ageing => '-1 s');
SELECT jobq_create_queue('turns', priority_ageing => '1 microsecond');
SELECT jobq_create_queue('turns', priority_ageing => '366 days');
SELECT jobq_enqueue('turns', concurrency_key => '');
SELECT jobq_enqueue('turns', concurrency_key => repeat('k', 256));
SELECT jobq_enqueue_many('turns', '{1,2}', concurrency_keys => '{a}');
SELECT jobq_enqueue_jobs('[{"queue": "turns", "concurrency_key": 7}]');
INSERT INTO jobq.jobs (queue, concurrency_key) VALUES ('turns', '');
INSERT INTO jobq.queue_settings (queue, priority_ageing) VALUES ('turns', '-1 s');
SELECT count(*) AS jobs FROM jobq.jobs WHERE queue = 'turns';

-- While the limit of the kind is reached, claims do not move the round-robin position, however many concurrency keys there are.
SELECT jobq_create_queue('full turns', round_robin => true), jobq_set_limit('full turns', kind => 'slow', max_running => 1);
SELECT count(*) FROM jobq_enqueue_many('full turns', array_fill('1'::jsonb, '{300}'), 'slow',
    concurrency_keys => (SELECT array_agg('key ' || n) FROM generate_series(1, 300) n));
SELECT id AS served, lease FROM jobq_claim('full turns', 'w') \gset
SELECT count(*) AS claimed FROM generate_series(1, 5) n, LATERAL (SELECT FROM jobq_claim('full turns', 'w' || n)) c;
SELECT jobq_complete(:served, :lease);
SELECT j.id = (SELECT n.id FROM jobq.jobs n, jobq.jobs s WHERE s.id = :served AND n.queue = 'full turns' AND n.id <> s.id
               ORDER BY n._round_robin_key < s._round_robin_key, n._round_robin_key LIMIT 1) AS is_next
FROM jobq_claim('full turns', 'w') j;
-- The jobs of another kind take turns in the meantime.
SELECT count(jobq_enqueue('full turns', to_jsonb(k || n), kind => 'fast', concurrency_key => k)) FROM unnest('{a,b}'::text[]) k, generate_series(1, 2) n;
SELECT array_agg(left(payload #>> '{}', 1) ORDER BY payload #>> '{}') FROM jobq_claim('full turns', 'w', batch => 2);
SELECT jobq_drop_queue('full turns', force => true);
