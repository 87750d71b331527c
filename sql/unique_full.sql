-- Unique jobs in queues that have a max_depth or a dead letter queue.
-- Queues whose numbers in jobq.queue_stats are not those of the rows: none.
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

-- A full queue refuses a new key. One that is taken adds nothing: the answer is the job that has it.
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
-- The same whatever the isolation level.
BEGIN ISOLATION LEVEL REPEATABLE READ;
SELECT jobq_enqueue('full', '9', unique_key => 'a') = :a AS same;
SELECT jobq_enqueue('full', '10', unique_key => 'c');
ROLLBACK;
-- And by hand: the index speaks of a taken key before the limit would.
INSERT INTO jobq.jobs (queue, unique_key) VALUES ('full', 'a');
INSERT INTO jobq.jobs (queue, unique_key) VALUES ('full', 'a') ON CONFLICT DO NOTHING;
INSERT INTO jobq.jobs (queue, unique_key) VALUES ('full', 'c') ON CONFLICT DO NOTHING;
SELECT unique_key, payload FROM jobq.jobs WHERE queue = 'full' ORDER BY id;

-- A job that is dropped for another gives its key back, or keeps it as long as unique_for says.
SELECT jobq_alter_queue('full', on_full => 'drop_oldest');
SELECT jobq_enqueue('full', '11', unique_key => 'c', unique_for => '1 hour') AS c \gset
SELECT unique_key, payload, status, _holds_key FROM jobq.jobs WHERE queue = 'full' ORDER BY id;
SELECT jobq_enqueue('full', '12', unique_key => 'a') > :c AS free_again;
SELECT jobq_enqueue('full', '13', unique_key => 'd') > :c AS dropped_c;
SELECT jobq_enqueue('full', '14', unique_key => 'c') = :c AS kept;
SELECT unique_key, payload, status, _holds_key FROM jobq.jobs WHERE queue = 'full' ORDER BY id;
SELECT * FROM pg_temp.differs();

-- A job with which the call answers is not dropped for the others of the call: the next oldest is. Whatever the order,
-- and from either function.
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
-- Too few are left that could go: refused, and nothing has gone.
SELECT is_new FROM jobq_enqueue_many('full', ARRAY['1', '2', '3']::jsonb[], unique_keys => ARRAY['e', 'j', 'l']);
SELECT pg_temp.shown('full');
-- A key that stands there several times is one job.
SELECT count(*) FILTER (WHERE is_new) AS new, count(DISTINCT job_id) AS jobs
FROM jobq_enqueue_many('full', ARRAY['1', '2', '3', '4', '5']::jsonb[], unique_keys => ARRAY['m', 'n', 'm', 'n', 'm']);
SELECT pg_temp.shown('full');
SELECT count(*) FILTER (WHERE is_new) AS new FROM jobq_enqueue_jobs('[{"queue": "full", "unique_key": "o"}, {"queue": "full", "unique_key": "o"}, {"queue": "full", "unique_key": "o"}]');
SELECT pg_temp.shown('full');
-- A running job whose key is replaced goes on, and the new one is one more.
SELECT lease FROM jobq_claim('full', heartbeat_timeout => '1 hour') \gset
SELECT jobq_enqueue('full', '31', unique_key => 'p') > 0 AS p;
SELECT is_new FROM jobq_enqueue_jobs('[{"queue": "full", "unique_key": "n", "on_conflict": "replace"}]');
SELECT pg_temp.shown('full');
SELECT * FROM pg_temp.differs();

-- So does one that waits and has begun: the new one needs room.
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

-- A dead letter has given its key up, for the queue that it came from. Home again it needs it.
SELECT jobq_create_queue('full of letters', max_attempts => 1, dead_letter_queue => 'full dead');
SELECT count(*) FROM jobq_enqueue_many('full of letters', ARRAY['1', '2', '3', '4']::jsonb[], unique_keys => ARRAY['a', 'b', 'c', NULL]);
SELECT count(jobq_fail(id, lease, 'dead')) FROM jobq_claim('full of letters', batch => 4);
SELECT queue, dead_from, unique_key, _holds_key FROM jobq.jobs WHERE queue = 'full dead' ORDER BY id;
SELECT jobq_enqueue('full of letters', '5', unique_key => 'b') > 0 AS free;
-- In the dead letter queue itself the key is another one.
SELECT jobq_enqueue('full dead', '6', unique_key => 'a') > 0 AS other;
SELECT pg_temp.refused(format('jobq_retry(%s)', id)) FROM jobq.jobs WHERE dead_from IS NOT NULL AND unique_key = 'b';
SELECT jobq_retry(id) FROM jobq.jobs WHERE dead_from IS NOT NULL AND unique_key = 'a';
-- b is passed over, by the set operation too, and stays where it is.
SELECT jobq_retry_jobs('full dead', statuses => '{failed}', max_jobs => 1);
SELECT jobq_redrive('full dead');
SELECT jobq_redrive('full dead');
SELECT queue, dead_from, payload, status, _holds_key FROM jobq.jobs WHERE queue IN ('full of letters', 'full dead') ORDER BY id;
SELECT * FROM pg_temp.differs();
-- Two dead letters with one key: the older runs.
SELECT count(jobq_fail(id, lease, 'dead', retry => false)) FROM jobq_claim('full of letters', batch => 5);
SELECT jobq_redrive('full dead');
SELECT payload, status, dead_from, _holds_key FROM jobq.jobs WHERE queue IN ('full of letters', 'full dead') AND unique_key = 'b' ORDER BY id;
-- Paced, the places of those that are passed over are not left empty.
SELECT count(jobq_fail(id, lease, 'dead', retry => false)) FROM jobq_claim('full of letters', batch => 5);
SELECT jobq_redrive('full dead', per_second => 0.1);
SELECT payload, status, dead_from, CASE WHEN dead_from IS NULL THEN extract(epoch FROM run_at - min(run_at) FILTER (WHERE dead_from IS NULL) OVER ())::int END AS after FROM jobq.jobs WHERE queue IN ('full of letters', 'full dead') AND kind = '' AND payload <> '6' ORDER BY id;
-- With unique_for a dead letter keeps the key of its own queue.
SELECT jobq_enqueue('full of letters', '7', unique_key => 'long', unique_for => '1 hour', priority => -1) AS long \gset
SELECT jobq_fail(id, lease, 'dead') FROM jobq_claim('full of letters');
SELECT queue, unique_key, job_id = :long AS its FROM jobq.kept_keys WHERE queue LIKE 'full of%';
SELECT jobq_enqueue('full of letters', '8', unique_key => 'long') = :long AS same;
SELECT * FROM pg_temp.differs();
SELECT jobq_drop_queue(q, true) FROM unnest('{full, full of letters, full dead}'::text[]) q;
