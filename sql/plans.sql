-- The order and the number of claimed jobs never depend on query plans, that is, not on statistics and not on planner settings of
-- the caller. The table was analyzed when it was empty, as autovacuum may do.
ANALYZE jobq.jobs;
ANALYZE jobq.lane_directory;
CREATE FUNCTION pg_temp.fill(lanes integer) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    PERFORM jobq_drop_queue('plans', force => true);
    -- 300 jobs with priorities 0 to 2. Within a priority, the lowest payload comes first, although it is enqueued last.
    PERFORM jobq_enqueue_many('plans', array_agg(to_jsonb(n)), kind => 'k' || lane, priorities => array_agg(n / 100),
                              run_ats => array_agg('2001-01-01'::timestamptz + n * interval '1 s'))
    FROM (SELECT n, n % lanes AS lane FROM generate_series(299, 0, -1) AS n) jobs GROUP BY lane;
END $$;
-- Claims all jobs in batches of different sizes. Returns the first job that is out of order, and the number of jobs.
CREATE FUNCTION pg_temp.check_order(OUT jobs bigint, OUT out_of_place integer, OUT wrong_batches integer) LANGUAGE plpgsql AS $$
DECLARE
    got integer[];
    wanted integer;
BEGIN
    jobs := 0;
    wrong_batches := 0;
    FOR i IN 0 .. 99 LOOP
        wanted := (ARRAY[1, 2, 7, 40])[i % 4 + 1];
        SELECT array_agg(payload::integer ORDER BY ord) INTO got
        FROM ROWS FROM (jobq_claim('plans', batch => wanted)) WITH ORDINALITY AS c(id, lease, queue, kind, payload, a, b, d, e, f, g, h, i, j, ord);
        EXIT WHEN got IS NULL;
        IF cardinality(got) <> least(wanted, 300 - jobs) THEN wrong_batches := wrong_batches + 1; END IF;
        FOR n IN 1 .. cardinality(got) LOOP
            IF got[n] <> jobs + n - 1 THEN out_of_place := coalesce(out_of_place, got[n]); END IF;
        END LOOP;
        jobs := jobs + cardinality(got);
    END LOOP;
END $$;
CREATE FUNCTION pg_temp.check_all(setting text) RETURNS TABLE (lanes integer, jobs bigint, out_of_place integer, wrong_batches integer) LANGUAGE plpgsql AS $$
BEGIN
    FOREACH lanes IN ARRAY ARRAY[1, 5] LOOP
        PERFORM pg_temp.fill(lanes);
        SELECT * INTO jobs, out_of_place, wrong_batches FROM pg_temp.check_order();
        RETURN NEXT;
    END LOOP;
END $$;

SELECT * FROM pg_temp.check_all('as it is');
DISCARD PLANS;
SET plan_cache_mode = force_custom_plan;
SELECT * FROM pg_temp.check_all('custom plans');
DISCARD PLANS;
SET plan_cache_mode = force_generic_plan;
SELECT * FROM pg_temp.check_all('generic plans');
DISCARD PLANS;
SET enable_indexscan = off;
SET enable_indexonlyscan = off;
SELECT * FROM pg_temp.check_all('no index scans');
DISCARD PLANS;
SET enable_bitmapscan = off;
SET enable_nestloop = off;
SET enable_tidscan = off;
SELECT * FROM pg_temp.check_all('and no nested loops');
DISCARD PLANS;
RESET enable_indexscan;
RESET enable_indexonlyscan;
RESET enable_bitmapscan;
RESET enable_nestloop;
RESET enable_tidscan;
SET enable_seqscan = off;
SET enable_sort = off;
SELECT * FROM pg_temp.check_all('no sequential scans');
DISCARD PLANS;
RESET enable_seqscan;
RESET enable_sort;
SET random_page_cost = 1000000;
-- PostgreSQL 16 renamed this setting.
SELECT CASE WHEN current_setting('server_version_num')::integer < 160000 THEN 'force_parallel_mode' ELSE 'debug_parallel_query' END AS in_parallel \gset
SET :in_parallel = on;
SET jit_above_cost = 0;
SELECT * FROM pg_temp.check_all('odd costs');
DISCARD PLANS;
-- The statements of jobq are not JIT-compiled, however expensive they seem. A statement of the caller is.
\setenv PGDATABASE :DBNAME
\setenv PGOPTIONS '-c jit=on -c jit_above_cost=0 -c auto_explain.log_min_duration=0 -c auto_explain.log_nested_statements=on -c client_min_messages=log'
\! psql -Xqc "LOAD 'auto_explain'" -c "DO 'DECLARE n bigint; BEGIN n := jobq_retry_jobs(''plans''); n := jobq_redrive(''plans''); n := jobq_cancel_jobs(''plans'', max_jobs => 0); n := jobq_purge_queue(''nobodys''); END'" >plans.tmp 2>&1
\! grep -cE 'j.id (LIMIT|FOR UPDATE)' plans.tmp; grep -cE '^ *JIT:' plans.tmp; rm plans.tmp
SELECT pg_jit_available() AS jit \gset
\setenv JIT :jit
\! if [ "$JIT" = t ]; then psql -Xqc "LOAD 'auto_explain'" -c "DO 'DECLARE n bigint; BEGIN n := (SELECT count(*) FROM generate_series(1, 1000) m WHERE m % 7 = 1); END'" 2>&1 | grep -cE '^ *JIT:'; else echo 1; fi
\setenv PGOPTIONS
-- The caller's settings are restored afterward, also after an error.
SET enable_seqscan = off;
SET enable_hashjoin = on;
SELECT count(*) FROM jobq_claim('plans');
SELECT count(*) FROM jobq_claim('plans', batch => -1);
SHOW enable_seqscan;
SHOW enable_hashjoin;
SHOW enable_sort;
RESET ALL;

-- Analyzed when the table is full, then empty, then full again.
SELECT pg_temp.fill(5);
ANALYZE jobq.jobs;
SELECT jobq_purge_queue('plans');
SELECT * FROM pg_temp.check_all('statistics of a full table');
SELECT jobq_drop_queue('plans', force => true);

-- Plans that were made while the statistics said "two rows" look up IDs instead of scanning the table. The test counts instead of
-- measuring time: a scan of 20,000 entries of the primary key would show in the statistics of the index.
SELECT jobq_enqueue('plans') > 0, jobq_enqueue('plans') > 0;
ANALYZE jobq.jobs;
SELECT count(*) AS completed
FROM (SELECT array_agg(id) AS ids, array_agg(lease) AS leases FROM jobq_claim('plans', batch => 2)) c,
     jobq_complete_many(c.ids, c.leases) WHERE completed;
SELECT count(*) AS jobs FROM jobq_enqueue_many('plans', (SELECT array_agg('{}'::jsonb) FROM generate_series(1, 20000)));
BEGIN;
SELECT count(*) AS claimed FROM jobq_claim('plans', 'plans_worker', batch => 10);
SELECT pg_stat_get_xact_tuples_fetched('jobq.jobs'::regclass) AS before \gset
SELECT count(*) AS beaten FROM (SELECT array_agg(id) AS ids, array_agg(lease) AS leases FROM jobq.jobs
    WHERE worker_id = 'plans_worker' AND status = 'processing') c, jobq_heartbeat_many(c.ids, c.leases) WHERE state = 'held';
SELECT count(*) AS failed FROM (SELECT array_agg(id) AS ids, array_agg(lease) AS leases FROM jobq.jobs
    WHERE worker_id = 'plans_worker' AND status = 'processing') c, jobq_fail_many(c.ids[1:5], c.leases[1:5]) WHERE status = 'scheduled';
SELECT count(*) AS completed FROM (SELECT array_agg(id) AS ids, array_agg(lease) AS leases FROM jobq.jobs
    WHERE worker_id = 'plans_worker' AND status = 'processing') c, jobq_complete_many(c.ids, c.leases) WHERE completed;
SELECT pg_stat_get_xact_tuples_fetched('jobq.jobs'::regclass) - :before < 1000 AS looked_up;
ROLLBACK;
SELECT jobq_drop_queue('plans', force => true);

-- A trigger on jobq.jobs runs with the settings of the caller. The settings that it changes are not mixed with the settings of jobq.
CREATE FUNCTION plans_show() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    SET LOCAL enable_seqscan = on;
    RAISE NOTICE 'enable_hashjoin %, enable_sort %', current_setting('enable_hashjoin'), current_setting('enable_sort');
    RETURN NEW;
END $$;
CREATE TRIGGER plans_show BEFORE INSERT ON jobq.jobs FOR EACH ROW EXECUTE FUNCTION plans_show();
SELECT jobq_enqueue('plans') > 0 AS enqueued;
SHOW enable_seqscan;
DROP TRIGGER plans_show ON jobq.jobs;
DROP FUNCTION plans_show();
SELECT jobq_drop_queue('plans', force => true);

-- The amount of data read does not depend on statistics either: 4,000 jobs wait for one, and the tables are analyzed in between,
-- when the index by awaited job has grown. The planner may then consider an index that begins with the waiting job equally good,
-- but it would be read completely for each job.
CREATE FUNCTION pg_temp.pages() RETURNS numeric LANGUAGE sql AS
    $$ SELECT sum(pg_stat_get_xact_blocks_fetched(i.indexrelid)) FROM pg_index i WHERE i.indrelid IN ('jobq.steps'::regclass, 'jobq.edges'::regclass) $$;
CREATE PROCEDURE pg_temp.set_free(analyzed boolean, INOUT free bigint, INOUT pages numeric) LANGUAGE plpgsql AS $$
DECLARE
    one bigint := jobq_enqueue('plans', kind => 'one');
    before numeric;
BEGIN
    PERFORM jobq_enqueue_many('plans', array_fill('{}'::jsonb, ARRAY[4000]), kind => 'many');
    PERFORM a.state FROM jobq_claim('plans', 'w', 4000, kinds => '{many}') c, jobq_await_jobs(c.id, c.lease, ARRAY[one], 'one') a;
    COMMIT;
    -- From here on, no background worker runs this duty.
    PERFORM settle();
    IF analyzed THEN
        ALTER INDEX jobq.edges_target_idx SET (fillfactor = 10);
        REINDEX INDEX jobq.edges_target_idx;
        ANALYZE jobq.steps, jobq.edges;
    END IF;
    before := coalesce(pg_temp.pages(), 0);
    PERFORM jobq_cancel(one);
    PERFORM jobq_tick();
    free := (SELECT count(*) FROM jobq.jobs WHERE queue = 'plans' AND kind = 'many' AND status = 'pending');
    pages := pg_temp.pages() - before;
    COMMIT;
    PERFORM jobq_drop_queue('plans', force => true);
    COMMIT;
END $$;
ANALYZE jobq.steps, jobq.edges;
DISCARD PLANS;
CALL pg_temp.set_free(false, NULL, NULL) \gset before_
CALL pg_temp.set_free(true, NULL, NULL) \gset after_
SELECT :before_free AS before, :after_free AS after, :after_pages < 1.5 * :before_pages AS few;
ALTER INDEX jobq.edges_target_idx RESET (fillfactor);
REINDEX INDEX jobq.edges_target_idx;

-- jobq_explain_queue and jobq_explain read a limited number of rows, however many other queues have jobs that the counters do not
-- include.
BEGIN;
SELECT count(jobq_enqueue('plans other ' || n)) AS queues FROM generate_series(1, 20000) n;
SELECT count(jobq_enqueue('plans explained')) AS jobs FROM generate_series(1, 2);
SELECT max(id) AS last FROM (SELECT jobq_enqueue('plans explained', group_key => 'plans') AS id FROM generate_series(1, 2)) j \gset
CREATE FUNCTION pg_temp.blocks() RETURNS numeric LANGUAGE sql AS $$
    SELECT sum(pg_stat_get_xact_blocks_fetched(c.oid)) FROM pg_class c
    WHERE c.relnamespace = 'jobq'::regnamespace AND c.relkind IN ('r', 'i') $$;
SELECT pg_temp.blocks() AS before \gset
SELECT count(*) > 0 AS explained FROM jobq_explain_queue('plans explained');
SELECT pg_temp.blocks() - :before AS queue_blocks, pg_temp.blocks() AS before \gset
SELECT reason FROM jobq_explain(:last) WHERE reason = 'group';
SELECT pg_temp.blocks() - :before AS job_blocks \gset
SELECT :queue_blocks < 500 AS few_for_a_queue, :job_blocks < 500 AS few_for_a_job;
ROLLBACK;
