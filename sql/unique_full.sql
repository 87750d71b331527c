-- Unique jobs in queues with max_depth or a dead letter queue.
-- Queues whose numbers in jobq.queue_stats do not match the rows. There must be none.
CREATE FUNCTION pg_temp.differs() RETURNS TABLE (queue text, failed bigint, rows bigint) LANGUAGE sql AS $$
    SELECT s.queue, s.pending + s.failed + s.cancelled, count(j.*) FILTER (WHERE j.status IN ('pending', 'failed', 'cancelled'))
    FROM jobq.queue_stats s LEFT JOIN jobq.jobs j ON j.queue = s.queue WHERE s.queue LIKE 'full%' GROUP BY 1, 2
    HAVING s.pending + s.failed + s.cancelled <> count(j.*) FILTER (WHERE j.status IN ('pending', 'failed', 'cancelled')) ORDER BY 1 $$;
SELECT count(*) FROM jobq_tick() WHERE duty = 'reconcile';

CREATE FUNCTION pg_temp.refused(call text) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
    EXECUTE 'SELECT ' || call;
    RETURN 'works';
EXCEPTION WHEN unique_violation THEN
    RETURN SQLSTATE || ' ' || regexp_replace(SQLERRM, '\d+$', 'N');
END $$;

-- A full queue rejects a new key. A taken key adds no job, so the enqueue returns the job that has it.
SELECT jobq_create_queue('full', max_depth => 2);
SELECT jobq_enqueue('full', '1', unique_key => 'a') AS a \gset
SELECT jobq_enqueue('full', '2', unique_key => 'b') AS b \gset
SELECT jobq_enqueue('full', '3', unique_key => 'c');
SELECT jobq_enqueue('full', '4', unique_key => 'a') = :a AS same;
SELECT jobq_enqueue('full', '5', unique_key => 'b', on_conflict => 'replace') = :b AS same;
SELECT pg_temp.refused($$jobq_enqueue('full', '6', unique_key => 'b', on_conflict => 'error')$$);
SELECT is_new FROM jobq_enqueue_many('full', ARRAY['7', '8']::jsonb[], unique_keys => ARRAY['a', 'b']);
SELECT is_new FROM jobq_enqueue_many('full', ARRAY['7', '8']::jsonb[], unique_keys => ARRAY['a', 'c']);
SELECT is_new FROM jobq_enqueue_jobs('[{"queue": "full", "unique_key": "a"}, {"queue": "full", "unique_key": "b"}]');
SELECT is_new FROM jobq_enqueue_jobs('[{"queue": "full", "unique_key": "a"}, {"queue": "full", "unique_key": "c"}]');
-- The isolation level makes no difference.
BEGIN ISOLATION LEVEL REPEATABLE READ;
SELECT jobq_enqueue('full', '9', unique_key => 'a') = :a AS same;
SELECT jobq_enqueue('full', '10', unique_key => 'c');
ROLLBACK;
-- With plain SQL, the unique index reports a taken key before the limit is checked.
INSERT INTO jobq.jobs (queue, unique_key) VALUES ('full', 'a');
INSERT INTO jobq.jobs (queue, unique_key) VALUES ('full', 'a') ON CONFLICT DO NOTHING;
INSERT INTO jobq.jobs (queue, unique_key) VALUES ('full', 'c') ON CONFLICT DO NOTHING;
SELECT unique_key, payload FROM jobq.jobs WHERE queue = 'full' ORDER BY id;

-- A dropped job frees its key, or keeps it for the period of unique_for.
SELECT jobq_alter_queue('full', on_full => 'drop_oldest');
SELECT jobq_enqueue('full', '11', unique_key => 'c', unique_for => '1 hour') AS c \gset
SELECT unique_key, payload, status, _holds_key FROM jobq.jobs WHERE queue = 'full' ORDER BY id;
SELECT jobq_enqueue('full', '12', unique_key => 'a') > :c AS free_again;
SELECT jobq_enqueue('full', '13', unique_key => 'd') > :c AS dropped_c;
SELECT jobq_enqueue('full', '14', unique_key => 'c') = :c AS kept;
SELECT unique_key, payload, status, _holds_key FROM jobq.jobs WHERE queue = 'full' ORDER BY id;
SELECT * FROM pg_temp.differs();

-- A job that the call returns is not dropped for other jobs of the call. The next oldest job is dropped instead. This holds for
-- any order and for both functions.
CREATE FUNCTION pg_temp.shown(name text) RETURNS text LANGUAGE sql AS $$
    SELECT string_agg(format('%s %s', unique_key, status), ', ' ORDER BY id) FROM jobq.jobs WHERE queue = name AND status <> 'cancelled' $$;
SELECT jobq_purge_queue('full') > 0 AS purged;
SELECT jobq_enqueue('full', '21', unique_key => 'e') AS e \gset
SELECT jobq_enqueue('full', '22', unique_key => 'f') > :e AS f;
SELECT is_new, job_id = :e AS e FROM jobq_enqueue_many('full', ARRAY['23', '24']::jsonb[], unique_keys => ARRAY['g', 'e']);
SELECT pg_temp.shown('full');
SELECT is_new, job_id = :e AS e FROM jobq_enqueue_many('full', ARRAY['25', '26']::jsonb[], unique_keys => ARRAY['e', 'h']);
SELECT pg_temp.shown('full');
SELECT is_new, job_id = :e AS e FROM jobq_enqueue_jobs('[{"queue": "full", "unique_key": "i"}, {"queue": "full", "unique_key": "e"}]');
SELECT pg_temp.shown('full');
SELECT is_new, job_id = :e AS e FROM jobq_enqueue_jobs('[{"queue": "full", "unique_key": "e", "on_conflict": "replace", "payload": 27}, {"queue": "full", "unique_key": "j"}]');
SELECT pg_temp.shown('full');
BEGIN ISOLATION LEVEL REPEATABLE READ;
SELECT is_new, job_id = :e AS e FROM jobq_enqueue_many('full', ARRAY['28', '29']::jsonb[], unique_keys => ARRAY['k', 'e']);
SELECT pg_temp.shown('full');
ROLLBACK;
-- If too few jobs can be dropped, the call is rejected, and no job is dropped.
SELECT is_new FROM jobq_enqueue_many('full', ARRAY['1', '2', '3']::jsonb[], unique_keys => ARRAY['e', 'j', 'l']);
SELECT pg_temp.shown('full');
-- A duplicate key is one job.
SELECT count(*) FILTER (WHERE is_new) AS new, count(DISTINCT job_id) AS jobs
FROM jobq_enqueue_many('full', ARRAY['1', '2', '3', '4', '5']::jsonb[], unique_keys => ARRAY['m', 'n', 'm', 'n', 'm']);
SELECT pg_temp.shown('full');
SELECT count(*) FILTER (WHERE is_new) AS new FROM jobq_enqueue_jobs('[{"queue": "full", "unique_key": "o"}, {"queue": "full", "unique_key": "o"}, {"queue": "full", "unique_key": "o"}]');
SELECT pg_temp.shown('full');
-- A running job whose key is replaced keeps running, and the new job counts in addition.
SELECT lease FROM jobq_claim('full', heartbeat_timeout => '1 hour') \gset
SELECT jobq_enqueue('full', '31', unique_key => 'p') > 0 AS p;
SELECT is_new FROM jobq_enqueue_jobs('[{"queue": "full", "unique_key": "n", "on_conflict": "replace"}]');
SELECT pg_temp.shown('full');
SELECT * FROM pg_temp.differs();

-- The same holds for a waiting job that has begun: the new job needs room.
SELECT jobq_create_queue('full begun', max_depth => 1);
SELECT jobq_enqueue('full begun', '1', unique_key => 'k') AS id \gset
SELECT lease FROM jobq_claim('full begun', heartbeat_timeout => '1 hour') \gset
SELECT state FROM jobq_step_done(:id, :lease, 'half', '1');
SELECT jobq_release(:id, :lease);
SELECT jobq_enqueue('full begun', '2', unique_key => 'k', on_conflict => 'replace');
SELECT is_new FROM jobq_enqueue_jobs('[{"queue": "full begun", "unique_key": "k"}, {"queue": "full begun", "unique_key": "k", "on_conflict": "replace"}]');
SELECT jobq_alter_queue('full begun', max_depth => 2);
SELECT jobq_enqueue('full begun', '3', unique_key => 'k', on_conflict => 'replace') > :id AS new;
SELECT pg_temp.shown('full begun');
SELECT jobq_drop_queue('full begun', force => true);

-- A dead letter no longer holds its key. When it returns to its original queue, it needs the key again.
SELECT jobq_create_queue('full of letters', max_attempts => 1, dead_letter_queue => 'full dead');
SELECT count(*) FROM jobq_enqueue_many('full of letters', ARRAY['1', '2', '3', '4']::jsonb[], unique_keys => ARRAY['a', 'b', 'c', NULL]);
SELECT count(jobq_fail(id, lease, 'dead')) FROM jobq_claim('full of letters', batch => 4);
SELECT queue, dead_from, unique_key, _holds_key FROM jobq.jobs WHERE queue = 'full dead' ORDER BY id;
SELECT jobq_enqueue('full of letters', '5', unique_key => 'b') > 0 AS free;
-- In the dead letter queue itself, the same key is a different key.
SELECT jobq_enqueue('full dead', '6', unique_key => 'a') > 0 AS other;
SELECT pg_temp.refused(format('jobq_retry(%s)', id)) FROM jobq.jobs WHERE dead_from IS NOT NULL AND unique_key = 'b';
SELECT jobq_retry(id) FROM jobq.jobs WHERE dead_from IS NOT NULL AND unique_key = 'a';
-- The dead letter with the key b is skipped by jobq_retry_jobs and jobq_redrive, too, and stays where it is.
SELECT jobq_retry_jobs('full dead', statuses => '{failed}', max_jobs => 1);
SELECT jobq_redrive('full dead');
SELECT jobq_redrive('full dead');
SELECT queue, dead_from, payload, status, _holds_key FROM jobq.jobs WHERE queue IN ('full of letters', 'full dead') ORDER BY id;
SELECT * FROM pg_temp.differs();
-- Of two dead letters with one key, the older one runs.
SELECT count(jobq_fail(id, lease, 'dead', retry => false)) FROM jobq_claim('full of letters', batch => 5);
SELECT jobq_redrive('full dead');
SELECT payload, status, dead_from, _holds_key FROM jobq.jobs WHERE queue IN ('full of letters', 'full dead') AND unique_key = 'b' ORDER BY id;
-- With a rate, skipped jobs leave no gaps.
SELECT count(jobq_fail(id, lease, 'dead', retry => false)) FROM jobq_claim('full of letters', batch => 5);
SELECT jobq_redrive('full dead', per_second => 0.1);
SELECT payload, status, dead_from, CASE WHEN dead_from IS NULL THEN extract(epoch FROM run_at - min(run_at) FILTER (WHERE dead_from IS NULL) OVER ())::int END AS after FROM jobq.jobs WHERE queue IN ('full of letters', 'full dead') AND kind = '' AND payload <> '6' ORDER BY id;
-- With unique_for, a dead letter keeps its key in its original queue.
SELECT jobq_enqueue('full of letters', '7', unique_key => 'long', unique_for => '1 hour', priority => -1) AS long \gset
SELECT jobq_fail(id, lease, 'dead') FROM jobq_claim('full of letters');
SELECT queue, unique_key, job_id = :long AS its FROM jobq.kept_keys WHERE queue LIKE 'full of%';
SELECT jobq_enqueue('full of letters', '8', unique_key => 'long') = :long AS same;
SELECT * FROM pg_temp.differs();
SELECT jobq_drop_queue(q, true) FROM unnest('{full, full of letters, full dead}'::text[]) q;
