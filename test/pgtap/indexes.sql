-- Few and narrow indexes, none of which knows the status: a heartbeat, a report of progress and a completion stay HOT.
BEGIN;
CREATE EXTENSION IF NOT EXISTS pgtap;
CREATE EXTENSION IF NOT EXISTS jobq;
SELECT plan(16);

CREATE TEMP VIEW job_indexes AS SELECT i.*, pg_get_indexdef(i.indexrelid) AS def FROM pg_index i WHERE i.indrelid = 'jobq.jobs'::regclass;
SELECT indexes_are('jobq', 'jobs', '{jobs_pkey,jobs_ready_idx,jobs_due_idx,jobs_watched_idx}'::name[]);
SELECT is((SELECT count(*) FROM job_indexes WHERE def ~ '\mstatus\M'), 0::bigint, 'no index key and no predicate mentions status');
SELECT is((SELECT count(*) FROM job_indexes i JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = ANY (i.indkey::smallint[])
           WHERE a.attname IN ('status', 'last_heartbeat', 'progress', 'result', 'error', 'finished_at', 'lease', 'attempts')), 0::bigint,
          'no index on what a heartbeat or a completion writes');
SELECT is((SELECT count(*) FROM pg_index i JOIN pg_class c ON c.oid = i.indrelid WHERE c.relnamespace = 'jobq'::regnamespace AND pg_get_indexdef(i.indexrelid) ~ '\mstatus\M'), 0::bigint,
          'and in no other table either');
SELECT ok((SELECT def LIKE '%(lane, priority, ready_at, id) WHERE (ready_at IS NOT NULL)' FROM job_indexes WHERE indexrelid = 'jobq.jobs_ready_idx'::regclass), 'the claim index');
SELECT ok((SELECT bool_and(indpred IS NOT NULL) FROM job_indexes WHERE NOT indisprimary), 'all but the primary key are partial');

CREATE FUNCTION pg_temp.hot() RETURNS bigint LANGUAGE sql AS $$SELECT pg_stat_get_xact_tuples_hot_updated('jobq.jobs'::regclass)$$;
CREATE FUNCTION pg_temp.updated() RETURNS bigint LANGUAGE sql AS $$SELECT pg_stat_get_xact_tuples_updated('jobq.jobs'::regclass)$$;
CREATE TEMP TABLE held AS SELECT jobq_enqueue('indexes') AS id, 0::bigint AS lease, 0::double precision AS page;
UPDATE held h SET page = (j.ctid::text::point)[0] FROM jobq.jobs j WHERE j.id = h.id;
SELECT pg_temp.updated() AS updated, pg_temp.hot() AS hot \gset
UPDATE held h SET lease = c.lease FROM jobq_claim('indexes', 'w') c WHERE c.id = h.id;
SELECT is(pg_temp.updated() - :updated, 1::bigint, 'a claim updates the row once');
SELECT is(pg_temp.hot() - :hot, 0::bigint, 'a claim takes it out of the claim index: not HOT');

SELECT pg_temp.updated() AS updated, pg_temp.hot() AS hot \gset
SELECT jobq_heartbeat(id, lease) = 'held' AS held FROM held \gset
SELECT is(ARRAY[pg_temp.updated() - :updated, pg_temp.hot() - :hot], '{1,1}', 'a heartbeat is one HOT update');
SELECT pg_temp.updated() AS updated, pg_temp.hot() AS hot \gset
SELECT jobq_heartbeat(id, lease, '{"done": 5}') = 'held' AS held FROM held \gset
SELECT is(ARRAY[pg_temp.updated() - :updated, pg_temp.hot() - :hot], '{1,1}', 'with progress too');
SELECT pg_temp.updated() AS updated, pg_temp.hot() AS hot \gset
SELECT count(*) AS n FROM held, jobq_heartbeat_many(ARRAY[id], ARRAY[lease]) \gset
SELECT is(ARRAY[pg_temp.updated() - :updated, pg_temp.hot() - :hot], '{1,1}', 'jobq_heartbeat_many too');
SELECT pg_temp.updated() AS updated, pg_temp.hot() AS hot \gset
SELECT count(*) AS n FROM jobq_heartbeat_worker('w') \gset
SELECT is(ARRAY[pg_temp.updated() - :updated, pg_temp.hot() - :hot], '{1,1}', 'jobq_heartbeat_worker too');
SELECT pg_temp.updated() AS updated, pg_temp.hot() AS hot \gset
SELECT jobq_cancel(id) = 'processing' AS asked FROM held \gset
SELECT is(pg_temp.updated() - :updated, 1::bigint, 'asking a running job to stop is one update');
SELECT pg_temp.updated() AS updated, pg_temp.hot() AS hot \gset
SELECT jobq_complete(id, lease, '1') AS completed FROM held \gset
SELECT is(:'completed'::boolean AND pg_temp.updated() - :updated = 1, true, 'a completion updates the row once');
SELECT is((SELECT count(*) FROM held h JOIN jobq.jobs j ON j.id = h.id WHERE (j.ctid::text::point)[0] = h.page), 1::bigint, 'and all of its versions were on one page');
SELECT is((SELECT progress FROM held h JOIN jobq.jobs j ON j.id = h.id), '{"done": 5}'::jsonb, 'nothing of it was lost');

SELECT * FROM finish();
ROLLBACK;
