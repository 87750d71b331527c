-- Enqueues: one job, many jobs, and jobs of different queues in one call.

-- Only the queue is required. A job that is due is pending, which means claimable now.
SELECT jobq_enqueue('enqueue') AS id \gset
\x on
SELECT queue, kind, payload, priority, status, attempts, max_attempts, version, requires, heartbeat_timeout, metadata,
       run_at = created_at AS due_now, _ready AS in_claim_index, _due, lease, worker_id, started_at,
       finished_at, result, error, progress
FROM jobq.jobs WHERE id = :id;

-- All arguments are given. With a later run_at, the job is scheduled.
SELECT jobq_enqueue('enqueue', '{"to": "ann"}', kind => 'mail', priority => -3, run_at => '2100-01-01 00:00+00',
                    max_attempts => 5, metadata => '{"tenant": 7}',
                    options => '{"version": 2, "requires": ["gpu", "eu"], "heartbeat_timeout": "5 minutes"}') AS id \gset
SELECT queue, kind, payload, priority, status, max_attempts, version, requires, heartbeat_timeout, metadata,
       run_at = '2100-01-01 00:00+00' AS runs_then, _ready, _due AS waits
FROM jobq.jobs WHERE id = :id;
\x off

-- A job whose run_at is in the past is due, and comes before jobs that became due later.
SELECT jobq_enqueue('enqueue', '"past"', run_at => '2001-01-01') AS id \gset
SELECT status FROM jobq.jobs WHERE id = :id;
SELECT payload FROM jobq_claim('enqueue');

-- Any jsonb value can be a payload. The default is the empty object. Names are stored byte by byte.
SELECT payload, jobq_enqueue('enqueue payloads', payload) > 0 AS enqueued
FROM unnest(ARRAY['{}', '[]', 'null', 'true', '0', '-1.50', '"text"', '[[[[1]]]]']::jsonb[]) AS payload;
SELECT payload FROM jobq_claim('enqueue payloads', batch => 100);
SELECT jobq_enqueue('Enqueue "quoted" é', kind => 'Ünïcode; DROP TABLE') > 0 AS enqueued;
SELECT queue, kind FROM jobq_claim('enqueue "quoted" é');
SELECT queue = 'Enqueue "quoted" é' AS same_queue, kind = 'Ünïcode; DROP TABLE' AS same_kind FROM jobq_claim('Enqueue "quoted" é');

-- The enqueue is part of the caller's transaction.
BEGIN;
SELECT jobq_enqueue('enqueue', '"never"') > 0 AS enqueued;
ROLLBACK;
SELECT count(*) FROM jobq.jobs WHERE payload = '"never"';

-- Many jobs in one statement. The IDs have the order of the payloads.
SELECT row_number() OVER () AS n, job_id > lag(job_id, 1, 0::bigint) OVER () AS ascending, is_new
FROM jobq_enqueue_many('enqueue many', ARRAY['1', '2', '3']::jsonb[], kind => 'k', priority => 4, max_attempts => 2);
SELECT payload, kind, priority, status, max_attempts FROM jobq.jobs WHERE queue = 'enqueue many' ORDER BY id;
-- Each job has its own time and priority.
SELECT count(*) FROM jobq_enqueue_many('enqueue many', ARRAY['4', '5', '6']::jsonb[], priority => 9,
    run_ats => ARRAY['2001-01-01', '2100-01-01', '2001-01-01']::timestamptz[], priorities => ARRAY[0, 1, 2]);
SELECT payload, priority, status FROM jobq.jobs WHERE queue = 'enqueue many' AND payload >= '4' ORDER BY id;
SELECT * FROM jobq_enqueue_many('enqueue many', '{}');

-- A JSON array of objects whose keys are the arguments of jobq_enqueue. One call can use different queues and kinds.
SELECT row_number() OVER () AS n, job_id > lag(job_id, 1, 0::bigint) OVER () AS ascending, is_new
FROM jobq_enqueue_jobs('[
  {"queue": "enqueue jobs", "payload": {"n": 1}},
  {"queue": "enqueue jobs 2", "kind": "k", "priority": 7, "version": 3, "requires": ["b", "a"], "max_attempts": 4},
  {"queue": "enqueue jobs", "payload": null, "run_at": "2100-01-01T00:00:00Z", "heartbeat_timeout": "90 s", "metadata": {"m": [1]}}]');
SELECT queue, kind, payload, priority, status, version, requires, max_attempts, heartbeat_timeout, metadata
FROM jobq.jobs WHERE queue LIKE 'enqueue jobs%' ORDER BY id;
SELECT * FROM jobq_enqueue_jobs('[]');
-- If one element is invalid, no job is enqueued. The error names the element.
SELECT * FROM jobq_enqueue_jobs('[{"queue": "enqueue jobs"}, {"queue": "enqueue jobs", "priority": 40000}]');
SELECT * FROM jobq_enqueue_jobs('[{"queue": "enqueue jobs"}, {"queue": "enqueue jobs", "prio": 4}]');
SELECT * FROM jobq_enqueue_jobs('[{"queue": "enqueue jobs"}, 7]');
SELECT count(*) FROM jobq.jobs WHERE queue LIKE 'enqueue jobs%';

-- Options: attributes that are not arguments. A null means the default, like an absent key.
SELECT jobq_enqueue('enqueue options', '1', options => '{}') > 0 AS enqueued;
SELECT jobq_enqueue('enqueue options', '2',
                    options => '{"version": null, "requires": null, "heartbeat_timeout": null, "max_runtime": null}') > 0 AS enqueued;
SELECT job_id > 0 AS enqueued, is_new FROM jobq_enqueue_many('enqueue options', '{3,4}', kind => 'k', priorities => '{1,2}',
    options => '{"version": "7", "requires": ["b", "a", "b"], "heartbeat_timeout": "2 min", "max_runtime": "1 h", "metadata": {"m": 1}}');
SELECT payload, kind, priority, version, requires, heartbeat_timeout, max_runtime, metadata
FROM jobq.jobs WHERE queue = 'enqueue options' ORDER BY id;
SELECT payload FROM jobq_claim('enqueue options', batch => 9, versions => '{7}', capabilities => '{a,b}');
-- on_conflict decides what happens if a key is taken. Jobs without a key are not affected.
SELECT is_new FROM jobq_enqueue_many('enqueue options', '{5,6,7}', unique_keys => '{a,b,NULL}', run_at => '2100-01-01',
    options => '{"unique_for": "1 day", "metadata": {"m": 2}}');
SELECT is_new FROM jobq_enqueue_many('enqueue options', '{8,9,10}', unique_keys => '{b,c,NULL}', options => '{"on_conflict": "replace"}');
SELECT payload, status, unique_key, unique_for, metadata FROM jobq.jobs WHERE queue = 'enqueue options' AND payload >= '5' ORDER BY payload;
\set VERBOSITY sqlstate
SELECT is_new FROM jobq_enqueue_many('enqueue options', '{11}', unique_keys => '{c}', options => '{"on_conflict": "error"}');
\set VERBOSITY default
-- If an option is an argument of the function, the hint names the argument. If an option is unknown, the hint names the most
-- similar key, or all keys.
SELECT jobq_enqueue('enqueue options', options => '{"priority": 1}');
SELECT jobq_enqueue('enqueue options', options => '{"ref": "a"}');
SELECT jobq_enqueue('enqueue options', options => '{"max_run_time": "1 h"}');
SELECT jobq_enqueue('enqueue options', options => '{"colour": "red"}');
SELECT jobq_enqueue('enqueue options', options => '[]');
SELECT jobq_enqueue('enqueue options', options => '{"requires": "gpu"}');
SELECT jobq_enqueue_many('enqueue options', '{1}', options => '{"group_key": "g"}');
SELECT jobq_enqueue_many('enqueue options', '{1}', options => '{"depends_on": [1]}');
SELECT count(*) FROM jobq.jobs WHERE queue = 'enqueue options';

SELECT count(jobq_drop_queue(queue, force => true)) FROM jobq.queues WHERE queue ILIKE 'enqueue%';

-- A JSON number may be an integer in any notation. Other numbers, and numbers out of range, are rejected.
SELECT count(*) AS enqueued FROM jobq_enqueue_jobs('[{"queue": "whole", "priority": 1.0, "version": 1e2, "max_attempts": 30.00}]');
SELECT priority, version, max_attempts FROM jobq.jobs WHERE queue = 'whole';
SELECT count(*) AS depends FROM jobq_enqueue('whole') e, jobq_enqueue_jobs(format('[{"queue": "whole", "depends_on": [%s.0]}]', e)::jsonb) d;
SELECT jobq_enqueue_jobs('[{"queue": "whole", "priority": 1.5}]');
SELECT jobq_enqueue_jobs('[{"queue": "whole", "priority": 1e100}]');
SELECT jobq_enqueue_jobs('[{"queue": "whole", "priority": "1.0"}]');
SELECT jobq_schedules('[{"name": "whole", "cron": "@daily", "queue": "whole", "max_missed": 5.0}]') IS NOT NULL AS schedules;
SELECT max_missed FROM jobq.schedule_settings WHERE name = 'whole';
SELECT jobq_drop_queue('whole', force => true);
