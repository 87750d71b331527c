-- If an index of jobq is invalid (which a canceled CREATE INDEX CONCURRENTLY leaves), missing, or has a different definition,
-- jobq finds the jobs with SQL instead. Only unique keys require their index, and the error says so.
SET client_min_messages = warning;
CREATE FUNCTION attempt(statement text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    hint text;
    found int;
BEGIN
    EXECUTE statement;
    GET DIAGNOSTICS found = ROW_COUNT;
    RETURN CASE WHEN found > 0 THEN 'done' ELSE 'found nothing' END;
EXCEPTION WHEN others THEN
    GET STACKED DIAGNOSTICS hint = PG_EXCEPTION_HINT;
    RETURN SQLSTATE || ': ' || SQLERRM || '; ' || hint;
END $$;
CREATE FUNCTION why() RETURNS text LANGUAGE sql SET jobq.access = auto AS $$SELECT way || ': ' || reason FROM jobq_access()$$;
-- Statements that use an index. Those that fail or find nothing are shown.
CREATE VIEW uses AS SELECT * FROM (VALUES
    (1, 'claim', $$SELECT jobq_claim('plain', 'w')$$),
    (2, 'report', $$SELECT jobq_heartbeat(id, lease) FROM jobq.jobs WHERE queue = 'long' AND status = 'processing'$$),
    (3, 'limit', $$SELECT jobq_claim('limited', 'w')$$),
    (4, 'turns', $$SELECT jobq_claim('turns', 'w')$$),
    (5, 'unique', $$SELECT jobq_enqueue('plain', unique_key => 'u', on_conflict => 'ignore')$$),
    (6, 'groups', $$SELECT jobq_tick()$$)) AS u(n, use, statement);
CREATE FUNCTION use_all() RETURNS TABLE (use text, said text) LANGUAGE plpgsql AS $$
DECLARE
    u record;
BEGIN
    FOR u IN SELECT * FROM uses ORDER BY n LOOP
        use := u.use;
        said := attempt(u.statement);
        IF said <> 'done' THEN RETURN NEXT; END IF;
    END LOOP;
END $$;
CREATE FUNCTION set_valid(index text, is_valid boolean) RETURNS void LANGUAGE sql AS $$
    UPDATE pg_index SET indisvalid = is_valid WHERE indexrelid = ('jobq.' || index)::regclass;
$$;
SELECT jobq_set_limit('limited', max_running => 100), jobq_set_limit('limited', 'k', max_running => 100),
       jobq_create_queue('turns', round_robin => true);
SELECT count(jobq_enqueue('plain')), count(jobq_enqueue('limited', concurrency_key => 'k')),
       count(jobq_enqueue('turns', concurrency_key => 'k')) FROM generate_series(1, 40);
SELECT jobq_enqueue('long') > 0 AS enqueued, jobq_enqueue('plain', unique_key => 'u') > 0 AS enqueued;
SELECT count(*) AS claimed FROM jobq_claim('long', 'w');
SELECT * FROM use_all();

-- Invalid indexes.
CREATE FUNCTION use_without(index text) RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE
    u record;
BEGIN
    PERFORM set_valid(index, false);
    RETURN NEXT why();
    FOR u IN SELECT * FROM use_all() LOOP
        RETURN NEXT u.use || ' ' || u.said;
    END LOOP;
    PERFORM set_valid(index, true);
END $$;
SELECT use_without('jobs_ready_idx');
SELECT use_without('jobs_round_robin_idx');
SELECT use_without('jobs_queue_slot_idx');
SELECT use_without('jobs_key_slot_idx');
SELECT use_without('jobs_kind_slot_idx');
SELECT use_without('jobs_limit_slot1_idx');
SELECT use_without('jobs_limit_slot2_idx');
SELECT use_without('jobs_group_waiting_idx');
SELECT use_without('jobs_group_active_idx');
SELECT use_without('jobs_unique_idx');
SELECT set_valid('jobs_pkey', false);
\c -
SELECT why();
SELECT * FROM use_all();
SELECT set_valid('jobs_pkey', true);
-- Indexes that only SQL uses anyway.
SELECT jobq_enqueue('later', run_at => now() + interval '1 hour') AS later \gset
SELECT set_valid('jobs_due_idx', false), set_valid('jobs_rescue_idx', false), set_valid('jobs_key_idx', false),
       set_valid('attempts_job_idx', false), set_valid('edges_target_idx', false);
SELECT * FROM use_all();
SELECT duty, done > 0 AS any_done FROM jobq_tick(now() + interval '2 hours') WHERE duty IN ('rescue', 'promote') ORDER BY duty;
SELECT status FROM jobq.jobs WHERE id = :later;
SELECT jobq_alter_queue('later', keep_completed => '0');
SELECT jobq_complete(id, lease) FROM jobq_claim('later', 'w');
SELECT count(*) AS kept FROM jobq.jobs WHERE id = :later;
SELECT set_valid('jobs_due_idx', true), set_valid('jobs_rescue_idx', true), set_valid('jobs_key_idx', true),
       set_valid('attempts_job_idx', true), set_valid('edges_target_idx', true);

-- Missing indexes, and indexes with other columns.
SELECT jobq_enqueue('long') > 0 AS enqueued;
SELECT count(*) > 0 AS claimed FROM jobq_claim('long', 'v');
DROP INDEX jobq.jobs_ready_idx, jobq.jobs_round_robin_idx, jobq.jobs_queue_slot_idx, jobq.jobs_group_waiting_idx, jobq.jobs_unique_idx;
SELECT why();
SELECT * FROM use_all();
CREATE INDEX jobs_round_robin_idx ON jobq.jobs (_lane, _round_robin_key, run_at, priority, id) WHERE _round_robin_key IS NOT NULL AND _ready;
CREATE INDEX jobs_queue_slot_idx ON jobq.jobs (_queue_slot, _slot_seq) WHERE _queue_slot > 0;
CREATE INDEX jobs_group_waiting_idx ON jobq.jobs (_group_waiting DESC, id) WHERE _group_waiting IS NOT NULL;
CREATE INDEX jobs_unique_idx ON jobq.jobs (unique_key, queue COLLATE "C") WHERE _holds_key;
CREATE INDEX jobs_ready_idx ON jobq.jobs (_lane, priority, run_at, id);
SELECT why();
SELECT * FROM use_all();
DROP INDEX jobq.jobs_ready_idx, jobq.jobs_round_robin_idx, jobq.jobs_queue_slot_idx, jobq.jobs_group_waiting_idx, jobq.jobs_unique_idx;
CREATE INDEX jobs_ready_idx ON jobq.jobs (_lane, priority, run_at, id) WHERE _ready;
CREATE INDEX jobs_round_robin_idx ON jobq.jobs (_lane, _round_robin_key, priority, run_at, id) WHERE _round_robin_key IS NOT NULL AND _ready;
CREATE INDEX jobs_queue_slot_idx ON jobq.jobs (_queue_slot, _slot_seq) WHERE _queue_slot IS NOT NULL;
CREATE INDEX jobs_group_waiting_idx ON jobq.jobs (_group_waiting, id) WHERE _group_waiting IS NOT NULL;
CREATE UNIQUE INDEX jobs_unique_idx ON jobq.jobs (unique_key, queue COLLATE "C") WHERE _holds_key;
SELECT why();
SELECT * FROM use_all();

-- An index that keeps pages pinned between insertions, as BRIN does since PostgreSQL 17: the server would warn about leaked pins.
CREATE INDEX ranges ON jobq.jobs USING brin (created_at, run_at);
SELECT why();
SELECT count(jobq_enqueue('plain')) FROM generate_series(1, 3);
SELECT * FROM use_all();
SELECT count(jobq_complete(id, lease)) > 0 AS completed FROM jobq.jobs WHERE status = 'processing';
DROP INDEX jobq.ranges;

SELECT jobq_drop_queue(q, force => true) FROM unnest('{plain,limited,turns,long,later}'::text[]) q;
DELETE FROM jobq.jobs;
DROP VIEW uses;
DROP FUNCTION attempt, why, use_all, set_valid, use_without;
