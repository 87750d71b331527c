-- The indexes are few and narrow, and none contains the status, so that a heartbeat, a progress report, and a completion are HOT updates.
BEGIN;
CREATE EXTENSION IF NOT EXISTS pgtap;
CREATE EXTENSION IF NOT EXISTS jobq;
SELECT plan(32);

CREATE TEMP VIEW job_indexes AS SELECT i.*, pg_get_indexdef(i.indexrelid) AS def FROM pg_index i WHERE i.indrelid = 'jobq.jobs'::regclass;
SELECT indexes_are('jobq', 'jobs', '{jobs_pkey,jobs_ready_idx,jobs_due_idx,jobs_expiry_idx,jobs_batch_idx,jobs_running_idx,jobs_rescue_idx,jobs_unique_idx,jobs_queue_slot_idx,jobs_key_slot_idx,jobs_kind_slot_idx,jobs_limit_slot1_idx,jobs_limit_slot2_idx,jobs_key_idx,jobs_group_waiting_idx,jobs_group_active_idx,jobs_round_robin_idx}'::name[]);
SELECT is((SELECT count(*) FROM job_indexes WHERE def ~ '\mstatus\M'), 0::bigint, 'no index key and no predicate mentions status');
SELECT is((SELECT count(*) FROM job_indexes i JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = ANY (i.indkey::smallint[])
           WHERE a.attname IN ('status', 'last_heartbeat', 'progress', 'result', 'error', 'finished_at', 'lease', 'attempts')), 0::bigint,
          'no index contains columns that a heartbeat or a completion writes');
SELECT is((SELECT count(*) FROM pg_index i JOIN pg_class c ON c.oid = i.indrelid WHERE c.relnamespace = 'jobq'::regnamespace AND pg_get_indexdef(i.indexrelid) ~ '\mstatus\M'), 0::bigint,
          'no index of another table mentions status');
SELECT ok((SELECT def LIKE '%(_lane, priority, run_at, id) WHERE _ready' FROM job_indexes WHERE indexrelid = 'jobq.jobs_ready_idx'::regclass), 'the claim index has the expected columns and predicate');
SELECT ok((SELECT bool_and(indpred IS NOT NULL) FROM job_indexes WHERE NOT indisprimary), 'all indexes except the primary key are partial');

CREATE FUNCTION pg_temp.hot() RETURNS bigint LANGUAGE sql AS $$SELECT pg_stat_get_xact_tuples_hot_updated('jobq.jobs'::regclass)$$;
CREATE FUNCTION pg_temp.updated() RETURNS bigint LANGUAGE sql AS $$SELECT pg_stat_get_xact_tuples_updated('jobq.jobs'::regclass)$$;
CREATE TEMP TABLE held AS SELECT jobq_enqueue('indexes') AS id, 0::bigint AS lease, 0::double precision AS page;
UPDATE held h SET page = (j.ctid::text::point)[0] FROM jobq.jobs j WHERE j.id = h.id;
SELECT pg_temp.updated() AS updated, pg_temp.hot() AS hot \gset
UPDATE held h SET lease = c.lease FROM jobq_claim('indexes', 'w') c WHERE c.id = h.id;
SELECT is(pg_temp.updated() - :updated, 1::bigint, 'a claim updates the row once');
SELECT is(pg_temp.hot() - :hot, 0::bigint, 'a claim removes the job from the claim index, so it is not HOT');

SELECT pg_temp.updated() AS updated, pg_temp.hot() AS hot \gset
SELECT jobq_heartbeat(id, lease) = 'held' AS held FROM held \gset
SELECT is(ARRAY[pg_temp.updated() - :updated, pg_temp.hot() - :hot], '{1,1}', 'a heartbeat is one HOT update');
SELECT pg_temp.updated() AS updated, pg_temp.hot() AS hot \gset
SELECT jobq_heartbeat(id, lease, '{"done": 5}') = 'held' AS held FROM held \gset
SELECT is(ARRAY[pg_temp.updated() - :updated, pg_temp.hot() - :hot], '{1,1}', 'a heartbeat with progress is one HOT update');
SELECT pg_temp.updated() AS updated, pg_temp.hot() AS hot \gset
SELECT count(*) AS n FROM held, jobq_heartbeat_many(ARRAY[id], ARRAY[lease]) \gset
SELECT is(ARRAY[pg_temp.updated() - :updated, pg_temp.hot() - :hot], '{1,1}', 'jobq_heartbeat_many makes one HOT update per job');
SELECT pg_temp.updated() AS updated, pg_temp.hot() AS hot \gset
SELECT count(*) AS n FROM jobq_heartbeat_worker('w') \gset
SELECT is(ARRAY[pg_temp.updated() - :updated, pg_temp.hot() - :hot], '{1,1}', 'jobq_heartbeat_worker makes one HOT update per job');
SELECT pg_temp.updated() AS updated, pg_temp.hot() AS hot \gset
SELECT jobq_cancel(id) = 'processing' AS asked FROM held \gset
SELECT is(pg_temp.updated() - :updated, 1::bigint, 'a request to cancel a running job is one update');
SELECT pg_temp.updated() AS updated, pg_temp.hot() AS hot \gset
SELECT jobq_complete(id, lease, '1') AS completed FROM held \gset
SELECT is(:'completed'::boolean AND pg_temp.updated() - :updated = 1, true, 'a completion updates the row once');
SELECT is((SELECT count(*) FROM held h JOIN jobq.jobs j ON j.id = h.id WHERE (j.ctid::text::point)[0] = h.page), 1::bigint, 'all versions of the row are on one page');
SELECT is((SELECT progress FROM held h JOIN jobq.jobs j ON j.id = h.id), '{"done": 5}'::jsonb, 'the progress is kept');

-- Groups: the indexes are partial, and heartbeats of an active job are HOT updates.
SELECT ok((SELECT def LIKE '%(_group_waiting, id) WHERE (_group_waiting IS NOT NULL)' FROM job_indexes WHERE indexrelid = 'jobq.jobs_group_waiting_idx'::regclass), 'the index of jobs in line has the expected columns and predicate');
SELECT ok((SELECT NOT indisunique AND def LIKE '%(_group_active) WITH (deduplicate_items=off) WHERE (_group_active IS NOT NULL)' FROM job_indexes WHERE indexrelid = 'jobq.jobs_group_active_idx'::regclass), 'the index of active jobs is not unique');
SELECT is(pg_relation_size('jobq.jobs_group_waiting_idx') + pg_relation_size('jobq.jobs_group_active_idx'), 2 * current_setting('block_size')::bigint, 'jobs without a group have no entries in the indexes of groups');
SELECT jobq_enqueue('indexes', group_key => 'k') AS id \gset
SELECT cmp_ok(pg_relation_size('jobq.jobs_group_waiting_idx'), '>', current_setting('block_size')::bigint, 'a job with a group has an entry');
SELECT count(*) AS ticked FROM jobq_tick() \gset
SELECT lease FROM jobq_claim('indexes', 'w') WHERE id = :id \gset
SELECT pg_temp.updated() AS updated, pg_temp.hot() AS hot \gset
SELECT jobq_heartbeat(:id, :lease) = 'held' AS held \gset
SELECT is(ARRAY[pg_temp.updated() - :updated, pg_temp.hot() - :hot], '{1,1}', 'the heartbeat of a job of a group is one HOT update');
SELECT pg_temp.updated() AS updated \gset
SELECT jobq_complete(:id, :lease) AS completed \gset
SELECT is(:'completed'::boolean AND pg_temp.updated() - :updated = 1, true, 'the completion of a job of a group is one update');

-- Unique jobs: a job without a key has no entry in the index, and heartbeats of a job with a key are HOT updates.
SELECT ok((SELECT indisunique AND def LIKE '%(unique_key, queue COLLATE "C") WHERE _holds_key' FROM job_indexes WHERE indexrelid = 'jobq.jobs_unique_idx'::regclass), 'the unique index has the expected columns and predicate');
SELECT ok((SELECT bool_and(c.collname = 'C') FROM pg_index i, unnest(i.indcollation) AS u(oid) JOIN pg_collation c USING (oid) WHERE i.indexrelid = 'jobq.jobs_unique_idx'::regclass), 'the unique index compares bytes, so that changed collations do not break it');
SELECT is(pg_relation_size('jobq.jobs_unique_idx'), current_setting('block_size')::bigint, 'jobs without a key have no entries in the unique index');
SELECT jobq_enqueue('indexes', unique_key => 'k') AS id \gset
SELECT cmp_ok(pg_relation_size('jobq.jobs_unique_idx'), '>', current_setting('block_size')::bigint, 'a job with a key has an entry');
SELECT lease FROM jobq_claim('indexes', 'w') WHERE id = :id \gset
SELECT pg_temp.updated() AS updated, pg_temp.hot() AS hot \gset
SELECT jobq_heartbeat(:id, :lease) = 'held' AS held \gset
SELECT is(ARRAY[pg_temp.updated() - :updated, pg_temp.hot() - :hot], '{1,1}', 'the heartbeat of a job with a key is one HOT update');
SELECT pg_temp.updated() AS updated \gset
SELECT jobq_complete(:id, :lease) AS completed \gset
SELECT is(:'completed'::boolean AND pg_temp.updated() - :updated = 1, true, 'the completion of a job with a key is one update');

-- Limits: jobs of queues without a limit have no entries in the indexes, and heartbeats of a job with a slot are HOT updates.
SELECT is((SELECT string_agg(pg_relation_size(i)::text, ' ') FROM unnest('{jobq.jobs_queue_slot_idx,jobq.jobs_key_slot_idx,jobq.jobs_kind_slot_idx,jobq.jobs_limit_slot1_idx,jobq.jobs_limit_slot2_idx,jobq.jobs_key_idx}'::regclass[]) i),
          concat_ws(' ', current_setting('block_size'), current_setting('block_size'), current_setting('block_size'), current_setting('block_size'), current_setting('block_size'), current_setting('block_size')), 'jobs without a limit have no entries in the indexes of limits');
SELECT is((SELECT bool_or(indisunique) FROM job_indexes WHERE indexrelid::regclass::text ~ 'slot'), false, 'the indexes of slots are not unique, because a claim must not wait');
SELECT jobq_set_limit('limited indexes', max_running => 1) AS set, jobq_enqueue('limited indexes') AS id \gset
SELECT lease FROM jobq_claim('limited indexes', 'w') WHERE id = :id \gset
SELECT cmp_ok(pg_relation_size('jobq.jobs_queue_slot_idx'), '>', current_setting('block_size')::bigint, 'a job with a limit has an entry');
SELECT pg_temp.updated() AS updated, pg_temp.hot() AS hot \gset
SELECT jobq_heartbeat(:id, :lease) = 'held' AS held \gset
SELECT is(ARRAY[pg_temp.updated() - :updated, pg_temp.hot() - :hot], '{1,1}', 'the heartbeat of a job with a slot is one HOT update');

SELECT * FROM finish();
ROLLBACK;
