-- The view jobq.workers shows the workers that are connected: a worker describes itself with the argument worker_info when it waits,
-- claims, or sends heartbeats. Without preload, the view is empty. test/process/workers.pl tests waiting and expiry.

-- Returns what the view shows of a worker if it is not as expected.
CREATE FUNCTION wrong(worker text, expected text) RETURNS text LANGUAGE sql AS $$
    SELECT told FROM (SELECT (SELECT concat_ws(' ', queues, kinds, slots, client, state, running, last_claim IS NOT NULL, info) FROM jobq.workers WHERE worker_id = worker)) w (told)
    WHERE told IS DISTINCT FROM CASE WHEN current_setting('shared_preload_libraries') LIKE '%jobq%' THEN expected END $$;

-- A worker passes the same object with every call.
\set mailer '\'{"worker_id": "mailer-1", "queues": ["workers"], "kinds": ["welcome", "bill"], "slots": 2, "client": "jobq-test 1.0.0", "started_at": "2030-01-01 10:00+00", "host": "web1", "expires_in": "1 day"}\''
CALL jobq_wait('workers', '0 s', worker_id => 'mailer-1', worker_info => :mailer);
SELECT wrong('mailer-1', '{workers} {welcome,bill} 2 jobq-test 1.0.0 idle 0 f {"host": "web1"}');
SELECT count(*) FROM jobq.workers WHERE worker_id = 'mailer-1' AND (started_at <> '2030-01-01 10:00+00' OR last_seen NOT BETWEEN now() - interval '10 min' AND clock_timestamp());
-- The worker is busy while it runs jobs.
SELECT count(*) FROM jobq_enqueue_many('workers', array_fill('{}'::jsonb, '{3}'), kind => 'bill');
CREATE TABLE held AS SELECT id, lease FROM jobq_claim('workers', 'mailer-1', 2, heartbeat_timeout => '1 h', worker_info => :mailer);
SELECT wrong('mailer-1', '{workers} {welcome,bill} 2 jobq-test 1.0.0 busy 2 t {"host": "web1"}');
SELECT state FROM jobq_heartbeat_many(ARRAY(SELECT id FROM held), ARRAY(SELECT lease FROM held), :mailer);
-- jobq_explain says that the workers are busy.
SELECT count(*) FROM jobq.jobs j, jobq_explain(j.id) e
WHERE j.queue = 'workers' AND j.status = 'pending' AND e.reason = 'claimable'
  AND current_setting('shared_preload_libraries') LIKE '%jobq%' <> (e.detail LIKE '%; connected workers that take jobs of this kind: 1 (it is busy)');
SELECT count(*) FROM jobq_complete_and_claim(ARRAY(SELECT id FROM held), ARRAY(SELECT lease FROM held), NULL, 'workers', 'mailer-1', 2,
    heartbeat_timeout => '1 h', worker_info => :mailer);
SELECT wrong('mailer-1', '{workers} {welcome,bill} 2 jobq-test 1.0.0 busy 1 t {"host": "web1"}');
-- The metric counts the worker.
SELECT count(*) FROM jobq_metrics() WHERE name = 'jobq_connected_workers' AND labels = '{"queue": "workers"}' AND value <> 1;

-- Only worker_id and queues are required. Keys that jobq does not know are shown in "info".
SELECT count(*) FROM jobq_claim_any('{workers none,workers no one}', 'mailer-2', worker_info => '{"worker_id": "mailer-2", "queues": ["workers none", "workers no one"], "slots": null, "expires_in": "1 day"}');
SELECT wrong('mailer-2', '{"workers none","workers no one"} idle 0 f');
-- A worker that stops says goodbye.
SELECT count(*) FROM jobq_heartbeat_many('{}', '{}', '{"worker_id": "mailer-2", "queues": ["workers"], "expires_in": "0"}');
SELECT wrong('mailer-2', NULL);
-- A call without worker_info changes nothing.
SELECT count(*) FROM jobq_claim('workers none', 'mailer-2');
SELECT wrong('mailer-2', NULL);

-- An operator and a worker of some queues. The operator sees the workers of its queues, and none of their other queues.
CREATE ROLE regress_jobq_some;
SELECT jobq_grant('regress_jobq_some', 'operator', queues => '{workers}'), jobq_grant('regress_jobq_some', 'worker', queues => '{workers}');
SELECT count(*) FROM jobq_heartbeat_many('{}', '{}', '{"worker_id": "both", "queues": ["workers none", "workers"]}');
SELECT count(*) FROM jobq_heartbeat_many('{}', '{}', '{"worker_id": "other", "queues": ["workers none"]}');
SET ROLE regress_jobq_some;
SELECT count(*) FROM jobq_workers() WHERE worker_id = 'other' OR queues <> '{workers}';
SELECT count(*) FROM jobq_claim('workers', 'mine', worker_info => '{"worker_id": "mine", "queues": ["workers", "workers none"]}');
SELECT count(*) FROM jobq_claim('workers', 'mine', kinds => '{none}', worker_info => '{"worker_id": "mine", "queues": ["workers"]}');
SELECT count(*) FROM jobq.workers;
RESET ROLE;
-- A worker can list patterns of queues. The metric counts the worker for the queues that have jobs.
SELECT count(*) FROM jobq_claim_any(patterns => '{worker_,none%}', worker_id => 'pattern', kinds => '{none}',
                                    worker_info => '{"worker_id": "pattern", "queues": [], "patterns": ["worker_", "none%"]}');
SELECT wrong('pattern', '{} idle 0 f {"patterns": ["worker_", "none%"]}');
SELECT count(*) FROM jobq_metrics() WHERE name = 'jobq_connected_workers' AND labels = '{"queue": "workers"}' AND value <> 4;
SELECT current_setting('shared_preload_libraries') LIKE '%jobq%' AS preloaded \gset
SET ROLE regress_jobq_some;
SELECT count(*) FROM jobq_workers() WHERE worker_id = 'pattern' HAVING count(*) <> :'preloaded'::boolean::integer;
RESET ROLE;
SELECT jobq_revoke('regress_jobq_some', 'operator'), jobq_revoke('regress_jobq_some', 'worker');
DROP ROLE regress_jobq_some;

-- Known keys are checked. The worker_id of the call must be the same.
\set VERBOSITY terse
SELECT jobq_heartbeat_many('{}', '{}', '[]');
SELECT jobq_heartbeat_many('{}', '{}', '{"queues": ["q"]}');
SELECT jobq_heartbeat_many('{}', '{}', '{"worker_id": "w"}');
SELECT jobq_heartbeat_many('{}', '{}', '{"worker_id": "w", "queues": []}');
SELECT jobq_heartbeat_many('{}', '{}', '{"worker_id": "w", "queues": "q"}');
SELECT jobq_heartbeat_many('{}', '{}', '{"worker_id": "w", "queues": ["q", 1]}');
SELECT jobq_heartbeat_many('{}', '{}', '{"worker_id": "w", "queues": [], "patterns": []}');
SELECT jobq_heartbeat_many('{}', '{}', '{"worker_id": "w", "queues": [], "patterns": [""]}');
SELECT jobq_heartbeat_many('{}', '{}', '{"worker_id": "w", "queues": [], "patterns": "%"}');
SELECT jobq_heartbeat_many('{}', '{}', '{"worker_id": "w", "queues": ["q", ""]}');
SELECT jobq_heartbeat_many('{}', '{}', '{"worker_id": "", "queues": ["q"]}');
SELECT jobq_heartbeat_many('{}', '{}', '{"worker_id": "w", "queues": ["q"], "kinds": [["k"]]}');
SELECT jobq_heartbeat_many('{}', '{}', '{"worker_id": "w", "queues": ["q"], "slots": 0}');
SELECT jobq_heartbeat_many('{}', '{}', '{"worker_id": "w", "queues": ["q"], "slots": 1e10}');
SELECT jobq_heartbeat_many('{}', '{}', '{"worker_id": "w", "queues": ["q"], "client": 1}');
SELECT jobq_heartbeat_many('{}', '{}', '{"worker_id": "w", "queues": ["q"], "started_at": "yesterday or so"}');
SELECT jobq_heartbeat_many('{}', '{}', '{"worker_id": "w", "queues": ["q"], "expires_in": 60}');
SELECT jobq_heartbeat_many('{}', '{}', '{"worker_id": "w", "queues": ["q"], "expires_in": "-1 s"}');
SELECT jobq_heartbeat_many('{}', '{}', '{"worker_id": "w", "queues": ["q"], "expires_in": "25 h"}');
SELECT jobq_heartbeat_many('{}', '{}', jsonb_build_object('worker_id', 'w', 'queues', '{q}'::text[], 'note', repeat('x', 5000)));
SELECT jobq_claim('workers', 'w1', worker_info => '{"worker_id": "w2", "queues": ["workers"]}');
CALL jobq_wait('workers', '0 s', worker_info => '{"worker_id": "w2", "queues": ["workers"]}');
\set VERBOSITY default
SELECT jobq_heartbeat_many('{}', '{}', '{"worker_id": "w", "queues": ["q"], "expires_in": "soon"}');
DROP FUNCTION wrong(text, text);
DROP TABLE held;
