-- Batches: jobs that join a batch, and callbacks that jobq enqueues once, when the batch is sealed and all of its jobs have ended.

-- Shows the callbacks of a batch in the order in which they were enqueued.
CREATE FUNCTION pg_temp.callbacks_of(batch bigint) RETURNS TABLE (queue text, kind text, payload jsonb, metadata jsonb)
LANGUAGE sql AS $$
    SELECT j.queue, j.kind, j.payload, j.metadata - 'batch'
    FROM jobq.jobs j WHERE (j.metadata ->> 'batch')::bigint = batch ORDER BY j.id
$$;
-- Performs the duties when the background worker is not performing one, because otherwise, the tick would skip a batch that the worker
-- is checking.
CREATE FUNCTION pg_temp.check_batches() RETURNS void LANGUAGE sql AS 'SELECT FROM tick_alone(now())';
-- Claims jobs of the queue "batch" and completes them.
CREATE FUNCTION pg_temp.work(n integer) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    ids bigint[];
    leases bigint[];
BEGIN
    SELECT array_agg(c.id), array_agg(c.lease) INTO ids, leases FROM jobq_claim('batch', 'w', batch => n) c;
    RETURN (SELECT count(*) FROM jobq_complete_many(ids, leases));
END $$;

-- A producer creates a batch with its callbacks, adds jobs, and seals the batch.
SELECT jobq_create_batch('import', on_complete => '{"queue": "batch done", "kind": "complete", "payload": {"n": 1}}',
                         on_success => '{"queue": "batch done", "kind": "success", "priority": 5, "metadata": {"tenant": 7}}',
                         on_failure => '{"queue": "batch done", "kind": "failure"}', metadata => '{"file": "a.csv"}') AS batch \gset
SELECT jobq_enqueue('batch', kind => 'one', options => jsonb_build_object('batch_id', :batch)) > 0 AS enqueued;
SELECT count(*) FROM jobq_enqueue_many('batch', '{1, 2}', kind => 'many', options => jsonb_build_object('batch_id', :batch));
SELECT count(*) FROM jobq_enqueue_jobs(jsonb_build_array(jsonb_build_object('queue', 'batch', 'kind', 'spec', 'batch_id', :batch),
                                                         jsonb_build_object('queue', 'batch', 'kind', 'spec, unique', 'unique_key', 'k', 'batch_id', :batch)));
SELECT name, total, pending, running, completed, failed, cancelled, progress, sealed, finished_at, metadata FROM jobq.batches WHERE id = :batch;
SELECT event, detail::bigint = :batch AS same FROM jobq.jobs, LATERAL jobq_log(id) WHERE batch_id = :batch AND kind = 'one' AND event = 'batch';
-- The number can be a string, because drivers without 64-bit integers return ids as strings.
SELECT jobq_enqueue('batch', kind => 'string', options => jsonb_build_object('batch_id', :batch::text)) > 0 AS enqueued;
-- As long as the batch is open, it does not end, even if all of its jobs have ended.
SELECT pg_temp.work(3);
SELECT total, pending, running, completed, progress, sealed FROM jobq_get_batch(:batch);
SELECT jobq_seal_batch(:batch), jobq_seal_batch(:batch);
SELECT * FROM pg_temp.callbacks_of(:batch);
SELECT id AS job, lease FROM jobq_claim('batch', 'w') \gset
SELECT running, pending FROM jobq_get_batch(:batch);
SELECT pg_temp.work(10);
SELECT pg_temp.check_batches();
SELECT * FROM pg_temp.callbacks_of(:batch);
SELECT jobq_complete(:job, :lease);
SELECT pg_temp.check_batches();
SELECT * FROM pg_temp.callbacks_of(:batch);
SELECT total, pending, running, completed, failed, cancelled, progress, sealed, finished_at IS NOT NULL AS finished,
       callbacks = ARRAY(SELECT j.id FROM jobq.jobs j WHERE j.queue = 'batch done' ORDER BY j.id) AS has_callbacks
FROM jobq.batches WHERE id = :batch;
SELECT priority, batch_id FROM jobq.jobs WHERE queue = 'batch done' ORDER BY id;
-- The callbacks are enqueued once.
SELECT pg_temp.check_batches();
SELECT count(*) FROM pg_temp.callbacks_of(:batch);

-- A sealed batch accepts no jobs.
SELECT jobq_enqueue('batch', options => jsonb_build_object('batch_id', 999999999));
\set VERBOSITY sqlstate
SELECT jobq_enqueue('batch', options => jsonb_build_object('batch_id', :batch));
INSERT INTO jobq.jobs (queue, batch_id) VALUES ('batch', :batch);
\set VERBOSITY default
-- Neither does a batch that was rolled back after the session has added a job.
BEGIN;
SELECT jobq_create_batch() AS other \gset
SELECT jobq_enqueue('batch', options => jsonb_build_object('batch_id', :other)) > 0 AS enqueued;
ROLLBACK;
\set VERBOSITY sqlstate
SELECT jobq_enqueue('batch', options => jsonb_build_object('batch_id', :other));
\set VERBOSITY default

-- A sealed batch without jobs succeeds immediately.
SELECT jobq_create_batch('empty', on_success => '{"queue": "batch done", "kind": "empty success"}',
                         on_failure => '{"queue": "batch done", "kind": "empty failure"}') AS batch \gset
SELECT jobq_seal_batch(:batch);
SELECT total, progress, sealed, finished_at IS NOT NULL AS finished FROM jobq_get_batch(:batch);
SELECT * FROM pg_temp.callbacks_of(:batch);
-- If all jobs have ended before the batch is sealed, the callbacks are enqueued by the transaction that seals it.
SELECT jobq_create_batch(on_complete => '{"queue": "batch done"}') AS batch \gset
SELECT jobq_enqueue('batch', options => jsonb_build_object('batch_id', :batch)) > 0 AS enqueued;
SELECT pg_temp.work(1);
BEGIN;
SELECT jobq_seal_batch(:batch);
SELECT count(*) FROM pg_temp.callbacks_of(:batch);
ROLLBACK;
SELECT sealed, finished_at FROM jobq_get_batch(:batch);
-- In REPEATABLE READ, the snapshot may be old, so the background worker checks the batch.
BEGIN ISOLATION LEVEL REPEATABLE READ;
SELECT jobq_seal_batch(:batch);
SELECT count(*) FROM pg_temp.callbacks_of(:batch);
COMMIT;
SELECT pg_temp.check_batches();
SELECT count(*) FROM pg_temp.callbacks_of(:batch);

-- Failed jobs, canceled jobs, expired jobs, and jobs that were deleted before they had ended make the batch fail.
SELECT jobq_create_queue('batch ends', max_attempts => 1), jobq_create_queue('batch deletes', keep_completed => '0', keep_failed => '0');
SELECT jobq_create_batch('ends', on_success => '{"queue": "batch done", "kind": "success"}',
                         on_failure => '{"queue": "batch done", "kind": "failure"}') AS batch \gset
SELECT count(jobq_enqueue('batch ends', kind => kind, options => jsonb_build_object('batch_id', :batch)
                          || CASE kind WHEN 'expires' THEN '{"expires_in": "1 hour"}' ELSE '{}' END::jsonb))
FROM unnest('{fails, completes, canceled, expires, deleted, deleted by hand}'::text[]) kind;
SELECT jobq_seal_batch(:batch);
SELECT jobq_fail(id, lease, 'e') FROM jobq_claim('batch ends', 'w', kinds => '{fails}');
SELECT jobq_complete(id, lease) FROM jobq_claim('batch ends', 'w', kinds => '{completes}');
SELECT jobq_cancel(id) FROM jobq.jobs WHERE batch_id = :batch AND kind = 'canceled';
SELECT jobq_delete(id) FROM jobq.jobs WHERE batch_id = :batch AND kind = 'deleted';
SELECT total, pending, completed, failed, cancelled FROM jobq_get_batch(:batch);
DELETE FROM jobq.jobs WHERE batch_id = :batch AND kind = 'deleted by hand';
SELECT pg_temp.check_batches();
SELECT finished_at FROM jobq_get_batch(:batch);
SELECT count(*) > 0 AS ticked FROM tick_alone(now() + interval '2 hours');
SELECT total, pending, running, completed, failed, cancelled, progress, finished_at IS NOT NULL AS finished FROM jobq_get_batch(:batch);
SELECT * FROM pg_temp.callbacks_of(:batch);
-- A retry after the end changes the counts, but the callbacks are not enqueued again.
SELECT jobq_retry_jobs('batch ends', filter => jsonb_build_object('batch_id', :batch));
SELECT total, pending, completed, failed, cancelled, progress, finished_at IS NOT NULL AS finished FROM jobq_get_batch(:batch);
SELECT count(*) FROM jobq_claim('batch ends', 'w', batch => 10) c, LATERAL jobq_complete(c.id, c.lease);
SELECT pg_temp.check_batches();
SELECT total, completed, failed, cancelled FROM jobq_get_batch(:batch);
SELECT kind FROM pg_temp.callbacks_of(:batch);

-- A job that is retried before the batch has ended must end again.
SELECT jobq_create_batch(on_success => '{"queue": "batch done", "kind": "success"}') AS batch \gset
SELECT jobq_enqueue('batch ends', kind => 'first', options => jsonb_build_object('batch_id', :batch)) AS first \gset
SELECT jobq_enqueue('batch ends', kind => 'second', options => jsonb_build_object('batch_id', :batch)) AS second \gset
SELECT jobq_fail(id, lease, 'e') FROM jobq_claim('batch ends', 'w', kinds => '{first}');
SELECT jobq_seal_batch(:batch);
SELECT jobq_retry(:first);
SELECT jobq_complete(id, lease) FROM jobq_claim('batch ends', 'w', kinds => '{second}');
SELECT pg_temp.check_batches();
SELECT finished_at FROM jobq_get_batch(:batch);
SELECT jobq_complete(id, lease) FROM jobq_claim('batch ends', 'w', kinds => '{first}');
SELECT pg_temp.check_batches();
SELECT kind FROM pg_temp.callbacks_of(:batch);

-- The counts of a batch include members that have been deleted: by keep_completed, by the prune, or by dropping their queue.
SELECT jobq_create_batch(on_success => '{"queue": "batch done", "kind": "success"}') AS batch \gset
SELECT count(*) FROM jobq_enqueue_many('batch deletes', '{1, 2, 3, 4}', options => jsonb_build_object('batch_id', :batch));
SELECT count(jobq_complete(id, lease)) FROM jobq_claim('batch deletes', 'w', batch => 2);
SELECT total, pending, completed FROM jobq_get_batch(:batch);
SELECT count(*) FROM jobq.jobs WHERE batch_id = :batch;
SELECT count(jobq_complete(id, lease)) FROM jobq_claim('batch deletes', 'w');
SELECT jobq_seal_batch(:batch);
SELECT count(jobq_complete(id, lease)) FROM jobq_claim('batch deletes', 'w');
SELECT pg_temp.check_batches();
SELECT kind FROM pg_temp.callbacks_of(:batch);
-- The duty "prune" adds up the numbers. One call adds up all of them, although each statement adds up only 10 * jobq.prune_batch rows.
BEGIN;
INSERT INTO jobq.batch_counts (batch_id, completed)
SELECT :batch, (n = 1)::int FROM generate_series(1, 25 * current_setting('jobq.prune_batch')::int) n;
SELECT count(*) > 0 AS ticked FROM tick_alone(now());
SELECT count(*), sum(completed) FROM jobq.batch_counts WHERE batch_id = :batch;
ROLLBACK;
SELECT count(*) > 0 AS ticked FROM tick_alone(now());
SELECT count(*), sum(completed) FROM jobq.batch_counts WHERE batch_id = :batch;
SELECT total, completed, progress FROM jobq_get_batch(:batch);
SELECT jobq_create_batch(on_success => '{"queue": "batch done", "kind": "success"}', on_failure => '{"queue": "batch done", "kind": "failure"}') AS batch \gset
SELECT count(*) FROM jobq_enqueue_many('batch deletes', '{1, 2}', options => jsonb_build_object('batch_id', :batch));
SELECT jobq_seal_batch(:batch);
SELECT jobq_drop_queue('batch deletes', force => true);
SELECT pg_temp.check_batches();
SELECT total, cancelled FROM jobq_get_batch(:batch);
SELECT kind FROM pg_temp.callbacks_of(:batch);
-- A finished batch is deleted a day later, or when its last job has been deleted if that is later.
SELECT count(*) > 0 AS ticked FROM tick_alone(now() + interval '23 hours');
SELECT count(*) FROM jobq_get_batch(:batch);
SELECT count(*) > 0 AS ticked FROM tick_alone(now() + interval '25 hours');
SELECT count(*) FROM jobq_get_batch(:batch);
SELECT count(*) FROM jobq.batch_counts WHERE batch_id = :batch;

-- An enqueue whose unique key is taken adds nothing to the batch: it creates no job, and the existing job does not join.
SELECT jobq_create_batch() AS batch \gset
SELECT jobq_enqueue('batch', unique_key => 'taken') AS job \gset
SELECT jobq_enqueue('batch', unique_key => 'taken', options => jsonb_build_object('batch_id', :batch)) = :job AS same,
       jobq_enqueue('batch', unique_key => 'taken', on_conflict => 'replace', options => jsonb_build_object('batch_id', :batch)) = :job AS same;
SELECT total FROM jobq_get_batch(:batch);
SELECT batch_id FROM jobq.jobs WHERE id = :job;
-- A copy of a job does not join either.
SELECT jobq_enqueue('batch', kind => 'forked', options => jsonb_build_object('batch_id', :batch)) AS job \gset
SELECT jobq_fork(:job) > 0 AS forked;
SELECT total FROM jobq_get_batch(:batch);

-- A worker can add jobs to the batch while it holds a job of the batch.
SELECT jobq_spawn(id, lease, 'children', jsonb_build_array(jsonb_build_object('queue', 'batch', 'kind', 'child', 'batch_id', :batch))) IS NOT NULL AS spawned
FROM jobq_claim('batch', 'w', kinds => '{forked}', batch => 1) WHERE id = :job;
SELECT total FROM jobq_get_batch(:batch);
-- Cancel a whole batch: seal it, and cancel its jobs.
SELECT jobq_seal_batch(:batch), jobq_cancel_jobs('batch', filter => jsonb_build_object('batch_id', :batch));
SELECT pending, running, cancelled FROM jobq_get_batch(:batch);
SELECT jobq_purge_queue('batch') > 0 AS purged;
SELECT jobq_cancel_jobs('batch', filter => '{"batch_id": null}');

-- Plain SQL can add jobs to an open batch, move jobs, and end jobs.
SELECT jobq_create_batch('hand', on_complete => '{"queue": "batch done", "kind": "complete"}') AS batch \gset
INSERT INTO jobq.jobs (queue, kind, batch_id) VALUES ('batch', 'hand 1', :batch), ('batch', 'hand 2', :batch), ('batch', 'hand 3', :batch);
SELECT jobq_seal_batch(:batch);
UPDATE jobq.jobs SET status = 'completed' WHERE batch_id = :batch AND kind = 'hand 1';
UPDATE jobq.jobs SET batch_id = NULL WHERE batch_id = :batch AND kind = 'hand 2';
SELECT total, pending, completed FROM jobq_get_batch(:batch);
\set VERBOSITY sqlstate
UPDATE jobq.jobs SET batch_id = :batch WHERE queue = 'batch' AND kind = 'hand 2';
\set VERBOSITY default
UPDATE jobq.jobs SET status = 'cancelled' WHERE batch_id = :batch AND kind = 'hand 3';
SELECT pg_temp.check_batches();
SELECT kind FROM pg_temp.callbacks_of(:batch);

-- The callbacks are checked when the batch is created. Keys that make no sense for a job that jobq enqueues later are rejected.
SELECT jobq_create_batch(on_complete => '[]');
SELECT jobq_create_batch(on_success => '{"queue": ""}');
SELECT jobq_create_batch(on_success => '{"queue": "batch done", "knid": "x"}');
SELECT jobq_create_batch(on_failure => '{"queue": "batch done", "batch_id": 1}');
SELECT jobq_create_batch(on_failure => '{"queue": "batch done", "unique_key": "k"}');
SELECT jobq_create_batch(on_failure => '{"queue": "batch done", "depends_on": [1]}');
SELECT jobq_create_batch(on_failure => '{"queue": "batch done", "metadata": 1}');
SELECT jobq_create_batch(repeat('x', 256));
SELECT jobq_create_batch(NULL);
SELECT jobq_enqueue('batch', options => '{"batch_id": 0}');
SELECT jobq_enqueue('batch', options => '{"batch_id": true}');
SELECT jobq_schedule('batch', '@daily', 'batch', options => '{"batch_id": 1}');
SELECT jobq_seal_batch(NULL);
SELECT jobq_seal_batch(999999999);
SELECT count(*) FROM jobq_get_batch(999999999);

-- If the callbacks cannot be enqueued, the batch shows the error, and jobq tries again.
SELECT jobq_create_batch('full', on_complete => '{"queue": "batch full"}') AS batch \gset
SELECT jobq_enqueue('batch', kind => 'full', options => jsonb_build_object('batch_id', :batch)) > 0 AS enqueued;
SELECT jobq_seal_batch(:batch);
SELECT jobq_create_queue('batch full', max_depth => 1);
SELECT jobq_enqueue('batch full') AS job \gset
SELECT jobq_complete(id, lease) FROM jobq_claim('batch', 'w', kinds => '{full}');
SET client_min_messages = error;
SELECT pg_temp.check_batches();
RESET client_min_messages;
SELECT error, finished_at FROM jobq_get_batch(:batch);
SELECT jobq_delete(:job);
SELECT count(*) > 0 AS ticked FROM tick_alone(now() + interval '1 minute');
SELECT error, finished_at IS NOT NULL AS finished FROM jobq_get_batch(:batch);
SELECT count(*) FROM pg_temp.callbacks_of(:batch);

-- A role that is restricted to some queues can use the batches that it has created, but not batches of other roles. A worker of another
-- role can add jobs only under the lease of a job of the batch.
CREATE ROLE batch_producer;
CREATE ROLE batch_worker;
SELECT jobq_grant('batch_producer', 'producer', queues => '{batch, batch done}');
SELECT jobq_grant('batch_worker', 'producer', queues => '{batch}'), jobq_grant('batch_worker', 'worker', queues => '{batch}');
SELECT jobq_create_batch('owner') AS other \gset
SET ROLE batch_producer;
SELECT jobq_create_batch('mine', on_complete => '{"queue": "batch done"}') AS batch \gset
SELECT jobq_enqueue('batch', kind => 'mine', options => jsonb_build_object('batch_id', :batch)) > 0 AS enqueued;
SELECT total, created_by FROM jobq_get_batch(:batch);
\set VERBOSITY sqlstate
SELECT jobq_create_batch('mine', on_complete => '{"queue": "forbidden"}');
SELECT jobq_enqueue('batch', options => jsonb_build_object('batch_id', :other));
SELECT jobq_seal_batch(:other);
\set VERBOSITY default
SELECT count(*) FROM jobq_get_batch(:other);
SET ROLE batch_worker;
\set VERBOSITY sqlstate
SELECT jobq_enqueue('batch', options => jsonb_build_object('batch_id', :batch));
SELECT id AS job, lease FROM jobq_claim('batch', 'w', kinds => '{mine}') \gset
SELECT jobq_spawn(:job, :lease, 'others', jsonb_build_array(jsonb_build_object('queue', 'batch', 'batch_id', :other)));
\set VERBOSITY default
SELECT jobq_spawn(:job, :lease, 'mine', jsonb_build_array(jsonb_build_object('queue', 'batch', 'kind', 'child', 'batch_id', :batch))) IS NOT NULL AS spawned;
SELECT jobq_complete(:job, :lease);
SELECT jobq_complete(id, lease) FROM jobq_claim('batch', 'w', kinds => '{child}');
SET ROLE batch_producer;
SELECT jobq_seal_batch(:batch);
SELECT total, completed, finished_at IS NOT NULL AS finished FROM jobq_get_batch(:batch);
RESET ROLE;

-- jobq_explain shows the batch of a member and of a callback.
SELECT jobq_create_batch('explained', on_complete => '{"queue": "batch done", "kind": "explained"}') AS batch \gset
SELECT jobq_enqueue('batch', kind => 'explained', options => jsonb_build_object('batch_id', :batch)) AS first \gset
SELECT jobq_enqueue('batch', kind => 'explained', options => jsonb_build_object('batch_id', :batch)) AS second \gset
CREATE FUNCTION pg_temp.explain_batch(job bigint, batch bigint) RETURNS SETOF text
LANGUAGE sql AS $$SELECT replace(e.detail, batch::text, 'N') FROM jobq_explain(job) e WHERE e.reason = 'batch'$$;
SELECT pg_temp.explain_batch(:first, :batch);
SELECT jobq_seal_batch(:batch);
SELECT jobq_complete(id, lease) FROM jobq_claim('batch', 'w', kinds => '{explained}');
SELECT pg_temp.explain_batch(:first, :batch);
SELECT jobq_cancel(:second);
SELECT pg_temp.check_batches();
SELECT pg_temp.explain_batch(:first, :batch);
SELECT id AS callback FROM jobq.jobs WHERE queue = 'batch done' AND kind = 'explained' \gset
SELECT pg_temp.explain_batch(:callback, :batch);
-- A job is not a callback only because it has the same metadata.
SELECT count(jobq_enqueue('batch done', kind => 'other', metadata => jsonb_build_object('batch', batch)))
FROM unnest(ARRAY[to_jsonb(:batch::bigint), '"x"', '{}', 'null', '99999999999999999999']) batch;
SELECT count(*) FROM jobq.jobs j, LATERAL jobq_explain(j.id) e WHERE j.kind = 'other' AND e.reason = 'batch';
SELECT count(jobq_delete(id)) FROM jobq.jobs WHERE kind = 'other';
-- A batch that was deleted with plain SQL.
BEGIN;
DELETE FROM jobq.batch_settings WHERE id = :batch;
SELECT pg_temp.explain_batch(:first, :batch);
ROLLBACK;

-- The metrics count the batches in each state.
BEGIN;
DELETE FROM jobq.batch_settings;
INSERT INTO jobq.batch_settings (id, sealed_at, finished_at, error)
SELECT n, CASE WHEN n > 1 THEN now() END, CASE WHEN n > 6 THEN now() END, CASE WHEN n IN (4, 5, 6) THEN 'e' END FROM generate_series(1, 10) n;
SELECT labels, value FROM jobq_metrics() WHERE name = 'jobq_batches';
ROLLBACK;

-- A queue in which a batch has callbacks cannot be dropped without "force". The callbacks are enqueued nevertheless.
SELECT jobq_create_batch(on_failure => '{"queue": "batch dropped"}', on_success => '{"queue": "batch dropped", "kind": "success"}') AS batch \gset
SELECT jobq_create_queue('batch dropped');
SELECT jobq_drop_queue('batch dropped');
SELECT jobq_drop_queue('batch dropped', force => true);
SELECT jobq_seal_batch(:batch);
SELECT kind FROM pg_temp.callbacks_of(:batch);
SELECT jobq_drop_queue('batch dropped', force => true);
SELECT jobq_create_queue('batch dropped'), jobq_drop_queue('batch dropped') AS dropped_after_the_end;
-- A callback without the key "queue" is in the default queue.
BEGIN;
SELECT jobq_create_batch(on_complete => '{}') > 0 AS created, jobq_create_queue('default');
SELECT jobq_drop_queue('default');
ROLLBACK;

-- TRUNCATE also deletes all batches, because nothing is left that could be counted. No callback is enqueued.
BEGIN;
SELECT jobq_create_batch(on_complete => '{"queue": "batch done"}') AS batch \gset
SELECT jobq_enqueue('batch', options => jsonb_build_object('batch_id', :batch)) > 0 AS enqueued;
SELECT jobq_seal_batch(:batch);
TRUNCATE jobq.jobs;
SELECT count(*) FROM jobq.batches;
SELECT count(*) FROM jobq.batch_counts;
ROLLBACK;

SELECT jobq_revoke('batch_producer', 'producer'), jobq_revoke('batch_worker', 'producer'), jobq_revoke('batch_worker', 'worker');
DROP ROLE batch_producer, batch_worker;
SELECT jobq_drop_queue('batch', force => true), jobq_drop_queue('batch done', force => true), jobq_drop_queue('batch ends', force => true),
       jobq_drop_queue('batch full', force => true);
DELETE FROM jobq.batch_settings;
DELETE FROM jobq.batch_counts;
