-- Arguments of features that come with a later version are in the signatures already, so that no second function is
-- ever needed. Giving one is 0A000; its NULL or its default is not.
CREATE FUNCTION pg_temp.outcome(statement text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    hint text;
BEGIN
    EXECUTE statement;
    RETURN 'works';
EXCEPTION WHEN OTHERS THEN
    RETURN SQLSTATE || ': ' || SQLERRM;
END $$;
CREATE TABLE reserved_calls (n serial, call text);
INSERT INTO reserved_calls (call) VALUES
    ($$jobq_enqueue('reserved', unique_key => 'k')$$),
    ($$jobq_enqueue('reserved', unique_for => '1 hour')$$),
    ($$jobq_enqueue('reserved', group_key => 'k')$$),
    ($$jobq_enqueue('reserved', concurrency_key => 'k')$$),
    ($$jobq_enqueue('reserved', depends_on => '{1}')$$),
    ($$jobq_enqueue('reserved', max_runtime => '1 hour')$$),
    ($$jobq_enqueue_many('reserved', '{}', unique_keys => '{}')$$),
    ($$jobq_enqueue_many('reserved', '{}', group_keys => '{}')$$),
    ($$jobq_enqueue_many('reserved', '{}', concurrency_keys => '{}')$$),
    ($$jobq_enqueue_jobs('[{"queue": "reserved", "unique_key": "k"}]')$$),
    ($$jobq_enqueue_jobs('[{"queue": "reserved", "unique_for": "1 hour"}]')$$),
    ($$jobq_enqueue_jobs('[{"queue": "reserved", "group_key": "k"}]')$$),
    ($$jobq_enqueue_jobs('[{"queue": "reserved", "concurrency_key": "k"}]')$$),
    ($$jobq_enqueue_jobs('[{"queue": "reserved", "depends_on": [1]}]')$$),
    ($$jobq_enqueue_jobs('[{"queue": "reserved", "max_runtime": "1 hour"}]')$$);
SELECT call, pg_temp.outcome('SELECT ' || call) FROM reserved_calls ORDER BY n;
SELECT count(*) AS jobs FROM jobq.jobs WHERE queue = 'reserved';

-- All of them left at NULL, in place, as drivers do that send every argument.
SELECT jobq_enqueue('reserved', '{}', '', 0, NULL, NULL, NULL, 'ignore', NULL, NULL, NULL, NULL, 'cancel', 0, NULL, NULL, NULL, NULL) > 0 AS enqueued;
SELECT is_new FROM jobq_enqueue_many('reserved', ARRAY['1']::jsonb[], '', 0, NULL, NULL, NULL, NULL, NULL, NULL, NULL);
SELECT is_new FROM jobq_enqueue_jobs('[{"queue": "reserved", "unique_key": null, "on_conflict": "ignore", "unique_for": null, "group_key": null,
    "concurrency_key": null, "depends_on": null, "on_dependency_failure": "cancel", "max_runtime": null}]');
-- What goes with them has its choices already.
SELECT jobq_enqueue('reserved', on_conflict => c, on_dependency_failure => d) > 0 AS enqueued
FROM (VALUES ('replace', 'cancel'), ('error', 'run')) AS v(c, d);
SELECT jobq_enqueue('reserved', on_conflict => 'overwrite');
SELECT jobq_enqueue('reserved', on_dependency_failure => 'wait');

-- Nor by hand.
\set VERBOSITY terse
INSERT INTO jobq.jobs (queue, unique_key) VALUES ('reserved', 'k');
INSERT INTO jobq.jobs (queue, group_key) VALUES ('reserved', 'k');
INSERT INTO jobq.jobs (queue, concurrency_key) VALUES ('reserved', 'k');
INSERT INTO jobq.jobs (queue, max_runtime) VALUES ('reserved', '1 hour');
\set VERBOSITY default

SELECT jobq_drop_queue('reserved', force => true);
DROP TABLE reserved_calls;
