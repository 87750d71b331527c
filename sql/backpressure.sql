-- Backpressure: max_depth limits the number of waiting jobs of a queue (pending, scheduled, blocked). Above the limit, an enqueue
-- is rejected, or the oldest pending jobs are canceled. The limit is approximate. It works the same with and without preload.
\set VERBOSITY default
\set SHOW_CONTEXT never
CREATE FUNCTION pg_temp.shown(name text) RETURNS text LANGUAGE sql AS $$
    SELECT coalesce(string_agg(status || ' ' || payloads, '; ' ORDER BY status), 'nothing')
    FROM (SELECT status, string_agg(payload #>> '{}', ',' ORDER BY id) AS payloads FROM jobq.jobs WHERE queue = name GROUP BY status) s $$;
-- Runs each statement separately and returns its answer.
CREATE FUNCTION pg_temp.outcome(call text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    answer text;
BEGIN
    EXECUTE 'SELECT count(*) FROM (SELECT ' || call || ') c' INTO answer;
    RETURN 'works';
EXCEPTION WHEN OTHERS THEN
    RETURN SQLSTATE || ' ' || SQLERRM;
END $$;

-- max_depth is set and shown like all settings. The default policy is `reject`.
SELECT jobq_create_queue('narrow', max_depth => 3);
SELECT jobq_create_queue('narrow 2', max_depth => 3, on_full => 'drop_oldest');
SELECT jobq_create_queue('wide');
SELECT queue, max_depth, on_full FROM jobq.queues WHERE queue LIKE 'narrow%' OR queue = 'wide' ORDER BY queue;
SELECT pg_temp.outcome(call) FROM unnest(ARRAY[
    $$jobq_create_queue('narrow 3', max_depth => -1)$$, $$jobq_alter_queue('narrow', max_depth => -5)$$,
    $$jobq_create_queue('narrow 3', on_full => 'drop')$$, $$jobq_alter_queue('narrow', on_full => '')$$]) AS call;
SELECT jobq_alter_queue('narrow', max_depth => -1);
\set VERBOSITY sqlstate
UPDATE jobq.queue_settings SET max_depth = 0 WHERE queue = 'narrow';
UPDATE jobq.queue_settings SET on_full = 'drop' WHERE queue = 'narrow';
\set VERBOSITY default

-- reject: the first job that does not fit raises an error with a hint, and nothing changes.
SELECT jobq_enqueue('narrow', to_jsonb(n)) > 0 AS enqueued FROM generate_series(1, 3) n;
SELECT jobq_enqueue('narrow', '4');
SELECT pg_temp.shown('narrow');
-- A running job does not count, so there is room for another one.
SELECT id, lease FROM jobq_claim('narrow', heartbeat_timeout => '1 hour') \gset
SELECT jobq_enqueue('narrow', '5') > 0 AS enqueued;
SELECT pg_temp.outcome($$jobq_enqueue('narrow', '6')$$);
-- Only new jobs are rejected. A job that returns can exceed the limit.
SELECT jobq_release(:id, :lease);
SELECT pg_temp.shown('narrow');
SELECT pg_temp.outcome($$jobq_enqueue('narrow', '6')$$);
SELECT count(jobq_complete(id, lease)) FROM jobq_claim('narrow', batch => 3);
-- Scheduled jobs count, and so do jobs that this transaction has enqueued.
BEGIN;
SELECT jobq_enqueue('narrow', '7', run_at => now() + interval '1 hour') > 0 AS enqueued;
SAVEPOINT s;
SELECT jobq_enqueue('narrow', '8') > 0 AS enqueued;
SELECT pg_temp.outcome($$jobq_enqueue('narrow', '9')$$);
ROLLBACK TO s;
SELECT pg_temp.outcome($$jobq_enqueue('narrow', '9')$$);
COMMIT;
SELECT pg_temp.shown('narrow');
SELECT pg_temp.outcome($$jobq_enqueue('narrow', '10')$$);
SELECT jobq_cancel(id) FROM jobq.jobs WHERE queue = 'narrow' AND payload = '7';
SELECT pg_temp.outcome($$jobq_enqueue('narrow', '10')$$);

-- Several jobs in one call: all of them or none.
SELECT jobq_purge_queue('narrow') > 0 AS purged;
SELECT jobq_enqueue('narrow', '1') > 0 AS enqueued;
SELECT * FROM jobq_enqueue_many('narrow', ARRAY['2', '3', '4']::jsonb[]);
SELECT count(*) FROM jobq_enqueue_many('narrow', ARRAY['2', '3']::jsonb[]);
SELECT jobq_purge_queue('narrow') AS purged;
SELECT * FROM jobq_enqueue_many('narrow', ARRAY['1', '2', '3', '4']::jsonb[]);
\set SHOW_CONTEXT errors
SELECT * FROM jobq_enqueue_jobs('[{"queue": "wide"}, {"queue": "narrow"}, {"queue": "narrow"}, {"queue": "narrow"}, {"queue": "narrow"}]');
\set SHOW_CONTEXT never
SELECT count(*) FROM jobq_enqueue_jobs('[{"queue": "wide"}, {"queue": "narrow"}, {"queue": "narrow"}, {"queue": "narrow"}]');
SELECT count(*) FROM jobq_enqueue_many('narrow', '{}');

-- A plain INSERT counts as an enqueue. A row with a lane comes from a dump, and a restore must not fail.
INSERT INTO jobq.jobs (queue) VALUES ('narrow');
INSERT INTO jobq.jobs (queue, status) VALUES ('narrow', 'completed');
INSERT INTO jobq.jobs (queue, _lane) VALUES ('narrow', 0);
SELECT status, count(*) FROM jobq.jobs WHERE queue = 'narrow' GROUP BY status ORDER BY status;

-- A change of max_depth takes effect at once, and so does its removal. Other queues are not affected.
SELECT jobq_alter_queue('narrow', max_depth => 5);
SELECT pg_temp.outcome($$jobq_enqueue('narrow')$$) FROM generate_series(1, 2);
SELECT jobq_alter_queue('narrow', max_depth => 0);
SELECT pg_temp.outcome($$jobq_enqueue('narrow')$$) FROM generate_series(1, 2);
SELECT queue, max_depth, on_full FROM jobq.queues WHERE queue = 'narrow';
SELECT count(*) FROM jobq_enqueue_many('wide', array_fill('{}'::jsonb, ARRAY[1000]));

-- drop_oldest: the job that has been pending the longest is canceled, whatever its priority, and its error says why.
SELECT jobq_enqueue('narrow 2', '1', priority => -5) > 0, jobq_enqueue('narrow 2', '2', kind => 'other') > 0,
       jobq_enqueue('narrow 2', '3', run_at => now() - interval '1 day') > 0;
SELECT jobq_enqueue('narrow 2', '4') > 0 AS enqueued;
SELECT pg_temp.shown('narrow 2');
SELECT payload, status, error, finished_at IS NOT NULL AS finished FROM jobq.jobs WHERE queue = 'narrow 2' AND status = 'cancelled';
SELECT jobq_enqueue('narrow 2', '5') > 0 AS enqueued;
SELECT pg_temp.shown('narrow 2');
SELECT jobq_enqueue('narrow 2', '6') > 0 AS enqueued;
SELECT pg_temp.shown('narrow 2');
-- Claims return the remaining jobs in the usual order.
SELECT payload FROM jobq_claim('narrow 2', batch => 2, heartbeat_timeout => '1 hour');
-- Running and scheduled jobs are not dropped. If dropping cannot make enough room, the enqueue is rejected.
SELECT jobq_enqueue('narrow 2', to_jsonb(n), run_at => now() + interval '1 hour') > 0 AS enqueued FROM generate_series(7, 9) n;
SELECT pg_temp.shown('narrow 2');
SELECT jobq_enqueue('narrow 2', '10');
SELECT pg_temp.shown('narrow 2');
-- After a rollback, no job has been dropped.
SELECT jobq_purge_queue('narrow 2', '{scheduled,cancelled}') > 0 AS purged;
SELECT count(*) FROM jobq_enqueue_many('narrow 2', ARRAY['11', '12', '13']::jsonb[]);
BEGIN;
SELECT jobq_enqueue('narrow 2', '14') > 0 AS enqueued;
SELECT pg_temp.shown('narrow 2');
ROLLBACK;
SELECT pg_temp.shown('narrow 2');
-- Several jobs in one call. A job of the same transaction can be dropped, too.
BEGIN;
SELECT count(*) FROM jobq_enqueue_many('narrow 2', ARRAY['21', '22']::jsonb[]);
SELECT pg_temp.shown('narrow 2');
SELECT count(*) FROM jobq_enqueue_jobs('[{"queue": "narrow 2", "payload": 23}, {"queue": "narrow 2", "payload": 24}]');
SELECT pg_temp.shown('narrow 2');
COMMIT;
INSERT INTO jobq.jobs (queue, payload) VALUES ('narrow 2', '25');
SELECT pg_temp.shown('narrow 2');
-- More jobs than max_depth are rejected, because they would not fit even in an empty queue.
SELECT * FROM jobq_enqueue_many('narrow 2', ARRAY['31', '32', '33', '34']::jsonb[]);
SELECT * FROM jobq_enqueue_jobs('[{"queue": "wide"}, {"queue": "narrow 2"}, {"queue": "narrow 2"}, {"queue": "narrow 2", "unique_key": "k"}, {"queue": "narrow 2"}]');
-- All jobs of a call are checked together, so none of them is dropped for another.
BEGIN;
SELECT is_new FROM jobq_enqueue_jobs('[{"queue": "narrow 2", "payload": 31, "unique_key": "k"}, {"queue": "wide"}, {"queue": "narrow 2", "payload": 32}, {"queue": "narrow 2", "payload": 33}]');
SELECT pg_temp.shown('narrow 2');
ROLLBACK;
-- A dropped job has finished: it is kept as long as other canceled jobs, and can be retried.
SELECT jobq_retry(id) FROM jobq.jobs WHERE queue = 'narrow 2' AND payload = '22';
SELECT pg_temp.shown('narrow 2');
SELECT jobq_purge_queue('narrow 2', '{cancelled}');
SELECT jobq_alter_queue('narrow 2', keep_failed => '0');
SELECT jobq_enqueue('narrow 2', '41') > 0 AS enqueued;
SELECT pg_temp.shown('narrow 2');
-- A dependency of the new job is not dropped for it. If no other job can be dropped, the enqueue is rejected.
SELECT jobq_create_queue('narrow 3', max_depth => 2, on_full => 'drop_oldest');
SELECT jobq_enqueue('narrow 3', '1') AS first \gset
SELECT jobq_enqueue('narrow 3', '2') > 0 AS enqueued;
SELECT jobq_enqueue('narrow 3', '3', depends_on => ARRAY[:first]) > 0 AS enqueued;
SELECT pg_temp.shown('narrow 3');
SELECT jobq_enqueue('narrow 3', '4', depends_on => ARRAY[:first]);
SELECT pg_temp.outcome(format($$jobq_enqueue('narrow 3', '4', depends_on => ARRAY[%s], unique_key => 'k')$$, :first));
-- It is not dropped for another job of the call either.
SELECT pg_temp.outcome(format($$jobq_enqueue_jobs('[{"queue": "narrow 3"}, {"queue": "wide", "depends_on": [%s]}]')$$, :first));
SELECT jobq_purge_queue('narrow 3'), jobq_alter_queue('narrow 3', keep_failed => '0');
SELECT jobq_enqueue('narrow 3', '5') AS first \gset
SELECT jobq_enqueue('narrow 3', '6') > 0 AS enqueued;
SELECT jobq_enqueue('narrow 3', '7', depends_on => ARRAY[:first]) > 0 AS enqueued;
SELECT pg_temp.shown('narrow 3');
-- After the limit has been lowered, each enqueue drops up to 100 more jobs than it adds.
SELECT jobq_alter_queue('narrow 2', max_depth => 1000);
SELECT count(*) FROM jobq_enqueue_many('narrow 2', array_fill('0'::jsonb, ARRAY[300]));
SELECT jobq_alter_queue('narrow 2', max_depth => 2);
SELECT pending FROM jobq.queue_stats WHERE queue = 'narrow 2';
SELECT jobq_enqueue('narrow 2', '51') > 0 AS enqueued;
SELECT pending FROM jobq.queue_stats WHERE queue = 'narrow 2';
SELECT count(jobq_enqueue('narrow 2', to_jsonb(n))) FROM generate_series(52, 54) n;
SELECT pg_temp.shown('narrow 2');

-- A trigger of the DBA sees the dropped jobs.
CREATE TABLE narrow_seen (what text);
CREATE FUNCTION narrow_note() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO public.narrow_seen VALUES (format('%s: %s to %s', OLD.payload, OLD.status, NEW.status));
    RETURN NEW;
END $$;
CREATE TRIGGER narrow_note AFTER UPDATE OF status ON jobq.jobs FOR EACH ROW EXECUTE FUNCTION narrow_note();
SELECT jobq_enqueue('narrow 2', '61') > 0 AS enqueued;
SELECT what FROM narrow_seen;
DROP TRIGGER narrow_note ON jobq.jobs;
DROP FUNCTION narrow_note();
DROP TABLE narrow_seen;

-- The counters match the rows.
SELECT s.queue, bool_and((to_jsonb(s) ->> u::text)::bigint = (SELECT count(*) FROM jobq.jobs j WHERE j.queue = s.queue AND j.status = u)) AS agree
FROM jobq.queue_stats s, unnest(enum_range(NULL::jobq.job_status)) u
WHERE s.queue LIKE 'narrow%' GROUP BY s.queue ORDER BY s.queue;
SELECT jobq_drop_queue(name, force => true) FROM unnest('{narrow,narrow 2,narrow 3,wide}'::text[]) AS name;
