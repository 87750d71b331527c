-- All arguments are given by position, as by drivers that always send all of them. The omitted ones are NULL or have their
-- default values.
SELECT jobq_enqueue('arguments', '{}', '', 0, NULL, NULL, NULL, 'ignore', NULL, NULL, NULL, NULL, 'cancel', NULL, NULL) > 0 AS enqueued;
SELECT is_new FROM jobq_enqueue_many('arguments', ARRAY['1']::jsonb[], '', 0, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL);
SELECT is_new FROM jobq_enqueue_jobs('[{"queue": "arguments", "unique_key": null, "on_conflict": "ignore", "unique_for": null, "group_key": null,
    "concurrency_key": null, "depends_on": null, "on_dependency_failure": "cancel", "max_runtime": null}]');
-- If no queue is given, producers and workers use the queue 'default'.
SELECT jobq_enqueue(kind => 'nameless') > 0 AS enqueued;
SELECT is_new FROM jobq_enqueue_jobs('[{"kind": "nameless"}, {"queue": null, "kind": "nameless"}]');
SELECT queue, count(*) FROM jobq_claim(kinds => '{nameless}', batch => 10) GROUP BY queue;
SELECT jobq_drop_queue('default', force => true);
-- All values of the enumerated arguments.
SELECT jobq_enqueue('arguments', unique_key => c, on_conflict => c, on_dependency_failure => d) > 0 AS enqueued
FROM (VALUES ('replace', 'cancel'), ('error', 'run')) AS v(c, d);
-- Without a unique key, there can be no conflict, so on_conflict means that the producer has forgotten the key.
SELECT jobq_enqueue('arguments', on_conflict => 'ignore') > 0 AS enqueued;
SELECT jobq_enqueue('arguments', on_conflict => 'replace');
SELECT jobq_enqueue_jobs('[{"queue": "arguments", "on_conflict": "error"}]');
SELECT jobq_enqueue('arguments', on_conflict => 'overwrite');
SELECT jobq_enqueue('arguments', on_dependency_failure => 'wait');
SELECT jobq_drop_queue('arguments', force => true);
