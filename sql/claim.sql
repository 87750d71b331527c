-- Claims: the order, the filters, and the returned columns.

SELECT jobq_enqueue('claim', '{"to": "ann"}', kind => 'mail', metadata => '{"tenant": 7}', max_attempts => 3) AS id \gset
\x on
SELECT id = :id AS same_id, lease > 0 AND lease < 2^53 AS lease_fits_json, queue, kind, payload, attempt, max_attempts, priority,
       version, run_at = created_at AS due_when_created, progress, metadata, heartbeat_seconds
FROM jobq_claim('claim', 'worker-1');
SELECT status, attempts, worker_id, lease > 0 AS leased, _lease_timeout, started_at = last_heartbeat AS just_started,
       _ready, finished_at
FROM jobq.jobs WHERE id = :id;
\x off
SELECT jobq_drop_queue('claim', force => true);

-- jobq_claim_json returns the same columns as JSON.
SELECT jobq_enqueue('claim', '{"to": "änn \"\\"}', kind => 'm"ä\l', run_at => '1969-12-31 23:59:59.5+00', metadata => '{"tenant": 7}') AS id \gset
SELECT jobq_enqueue('claim', '[1.50, null, "x"]', run_at => '0044-03-15 BC') AS oldest \gset
SELECT jobq_claim_json('{claim}', 'worker-1', batch => 5) AS jobs \gset
SELECT j->>'id' IN (:'id', :'oldest') AS known, (j->>'lease')::bigint = (SELECT lease FROM jobq.jobs WHERE id = (j->>'id')::bigint) AS lease,
       (j->>'created_at')::numeric = (SELECT extract(epoch FROM created_at) FROM jobq.jobs WHERE id = (j->>'id')::bigint) AS created,
       j::jsonb - '{id,lease,created_at}'::text[] AS job
FROM json_array_elements(:'jobs') j;
-- Every payload keeps its value.
BEGIN;
SELECT count(*) FROM jobq_enqueue_many('claim', ARRAY['"\u0001\b\f\n\r\t\\\"/ä😀"', '{}', '[]', '[[], {}, [{"a": [true, false, null]}]]', '"x"', '-1.5e300',
                                                      'null', '{"": {"b\"": {"c": ""}}, "d": [1, "2"]}']::jsonb[]);
SELECT count(*) FROM jobq_enqueue_many('claim', ARRAY(SELECT to_jsonb(repeat('é', n / 2) || repeat('x', n % 2) || c || repeat('y', 20))
                                                      FROM generate_series(0, 19) n, unnest(ARRAY['"', E'\x01', '\', E'\x7f']) c));
SELECT count(*) FROM jobq_enqueue_many('claim', ARRAY[to_jsonb(repeat('long "', 100000)), (SELECT jsonb_agg(md5(n::text)) FROM generate_series(1, 1000) n)]);
-- The chunks of a value in the TOAST table have 1996 bytes, except for the last chunk.
SELECT count(*) FROM jobq_enqueue_many('claim', ARRAY(SELECT to_jsonb(left(random, n))
                                                      FROM (SELECT string_agg(md5(n::text), '') AS random FROM generate_series(1, 200) n) t,
                                                           generate_series(1900, 6100, 50) n));
SELECT count(*), bool_and((j->'payload')::jsonb = (SELECT payload FROM jobq.jobs WHERE id = (j->>'id')::bigint)) AS same
FROM json_array_elements(jobq_claim_json('{claim}', batch => 200)) j;
ROLLBACK;
-- When the text has reached 64 MB, the claim takes no more jobs, neither of this queue nor of the next one.
BEGIN;
SELECT count(*) FROM jobq_enqueue_many('claim', array_fill(to_jsonb(repeat('x', 34000000)), ARRAY[3])), jobq_enqueue('claim 2');
SELECT j->>'queue' AS queue FROM json_array_elements(jobq_claim_json('{claim,claim 2}', batch => 100)) j;
SELECT j->>'queue' AS queue FROM json_array_elements(jobq_claim_json('{claim,claim 2}', batch => 100)) j;
ROLLBACK;
-- The progress of an earlier attempt.
BEGIN;
SELECT jobq_enqueue('claim') > 0 AS enqueued;
SELECT jobq_heartbeat(id, lease, '{"percent": 50}'), jobq_release(id, lease) FROM jobq_claim('claim', batch => 1);
SELECT jobq_claim_json('{claim}')->0->'progress' AS progress;
ROLLBACK;
-- It can complete jobs first. A lost lease causes a warning, as in jobq_complete_and_claim.
SELECT jobq_enqueue('claim', kind => 'next') > 0 AS enqueued;
SELECT array_agg(j->>'id') AS ids, array_agg(j->>'lease') AS leases FROM json_array_elements(:'jobs') j \gset
SELECT j->'kind' AS kind FROM json_array_elements(jobq_claim_json('{claim}', job_ids => :'ids', leases => :'leases', results => '{1,2}')) j;
SELECT result FROM jobq.jobs WHERE queue = 'claim' AND status = 'completed' ORDER BY id;
SELECT jobq_claim_json(patterns => '{claim%}', job_ids => '{4711}', leases => '{1}');
SELECT jobq_claim_json(), jobq_claim_json('{claim}', job_ids => '{1}');
SELECT jobq_claim_json('{claim}', job_ids => '{1}');
SELECT jobq_claim_json('{claim}', results => '{1}');
SELECT jobq_drop_queue('claim', force => true);

-- The order across kinds: priority, then run_at, then ID.
SELECT count(*) FROM jobq_enqueue_jobs('[
  {"queue": "claim", "payload": "g", "kind": "y", "priority": 1},
  {"queue": "claim", "payload": "d", "kind": "x"},
  {"queue": "claim", "payload": "e", "kind": "y"},
  {"queue": "claim", "payload": "c", "kind": "z", "run_at": "2002-01-01"},
  {"queue": "claim", "payload": "f", "kind": "x"},
  {"queue": "claim", "payload": "b", "kind": "y", "run_at": "2001-01-01"},
  {"queue": "claim", "payload": "h", "kind": "x", "priority": 32767, "run_at": "2000-01-01"},
  {"queue": "claim", "payload": "a", "kind": "x", "priority": -32768},
  {"queue": "claim", "payload": "later", "priority": -32768, "run_at": "2100-01-01"}]');
BEGIN;
SELECT payload, kind, priority FROM jobq_claim('claim', batch => 100);
ROLLBACK;
-- The same order within a kind, and in small batches.
BEGIN;
SELECT payload FROM jobq_claim('claim', batch => 3, kinds => '{x}');
SELECT payload FROM jobq_claim('claim', batch => 3, kinds => '{x}');
SELECT payload FROM jobq_claim('claim', batch => 3);
SELECT payload FROM jobq_claim('claim', batch => 3);
SELECT payload FROM jobq_claim('claim', batch => 3);
ROLLBACK;
-- A batch of 0 returns no jobs.
SELECT payload FROM jobq_claim('claim', batch => 0);
SELECT jobq_drop_queue('claim', force => true);

-- Kinds, versions, and capabilities: a worker gets only jobs that match its filters. NULL matches every kind and version.
SELECT count(*) FROM jobq_enqueue_jobs('[
  {"queue": "claim", "payload": "plain"},
  {"queue": "claim", "payload": "a1", "kind": "a", "version": 1},
  {"queue": "claim", "payload": "a2", "kind": "a", "version": 2},
  {"queue": "claim", "payload": "b gpu", "kind": "b", "requires": ["gpu"]},
  {"queue": "claim", "payload": "b gpu+eu", "kind": "b", "requires": ["gpu", "eu"]},
  {"queue": "claim", "payload": "b eu+gpu", "kind": "b", "requires": ["eu", "gpu", "eu"]},
  {"queue": "claim", "payload": "b none", "kind": "b", "requires": []}]');
CREATE FUNCTION pg_temp.claimable(kinds text[] DEFAULT NULL, versions integer[] DEFAULT NULL, capabilities text[] DEFAULT NULL)
    RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    found text;
BEGIN
    SELECT string_agg(payload #>> '{}', ', ') INTO found
    FROM jobq_claim('claim', batch => 100, kinds => $1, versions => $2, capabilities => $3);
    RAISE EXCEPTION '%', coalesce(found, 'nothing');
EXCEPTION WHEN raise_exception THEN
    RETURN SQLERRM;  -- rolls back the claim
END $$;
SELECT pg_temp.claimable() AS everything_without_requirements;
SELECT pg_temp.claimable(kinds => '{a}') AS one_kind;
SELECT pg_temp.claimable(kinds => '{a,b,"",c}') AS kinds;
SELECT pg_temp.claimable(kinds => '{""}') AS the_kind_without_a_name;
SELECT pg_temp.claimable(kinds => '{A}') AS case_matters;
SELECT pg_temp.claimable(kinds => '{}') AS no_kind;
SELECT pg_temp.claimable(versions => '{1}') AS version_1;
SELECT pg_temp.claimable(versions => '{0,2}') AS versions_0_and_2;
SELECT pg_temp.claimable(versions => '{}') AS no_version;
SELECT pg_temp.claimable(kinds => '{a}', versions => '{2,3}') AS kind_and_version;
SELECT pg_temp.claimable(kinds => '{b}', capabilities => '{gpu}') AS one_capability;
SELECT pg_temp.claimable(kinds => '{b}', capabilities => '{eu}') AS the_wrong_capability;
SELECT pg_temp.claimable(kinds => '{b}', capabilities => '{fpga,gpu,eu,gpu}') AS all_capabilities;
SELECT jobq_drop_queue('claim', force => true);

-- jobq_claim_any claims from several queues in the given order (see several_queues.sql).
SELECT jobq_enqueue('claim 2', '"second queue"', kind => 'k') > 0 AS enqueued;
SELECT jobq_enqueue('claim 3', '"third queue"') > 0 AS enqueued;
SELECT queue, payload FROM jobq_claim_any('{claim,claim 3,claim 2}', batch => 1);
SELECT queue, payload FROM jobq_claim_any('{claim,claim 3,claim 2}', batch => 10, kinds => '{other}');
SELECT queue, payload FROM jobq_claim_any('{claim,claim 3,claim 2}', batch => 10, kinds => '{k}');
SELECT queue, payload FROM jobq_claim_any('{claim,claim 3,claim 2}');
SELECT queue, payload FROM jobq_claim_any('{}');

-- The worker ID is the argument, or otherwise the setting, or otherwise a name with the process ID.
SELECT count(*) FROM jobq_enqueue_many('claim', ARRAY['1', '2', '3']::jsonb[]);
SELECT payload FROM jobq_claim('claim', 'named by argument');
SET jobq.worker_id = 'named by setting';
SELECT payload FROM jobq_claim('claim');
RESET jobq.worker_id;
SELECT payload FROM jobq_claim('claim');
SELECT payload, replace(worker_id, pg_backend_pid()::text, '<pid>') AS worker_id FROM jobq.jobs WHERE queue = 'claim' ORDER BY id;
SELECT jobq_drop_queue('claim', force => true);

-- The heartbeat timeout is that of the claim, or otherwise that of the job, or otherwise that of the queue. heartbeat_seconds is
-- a third of it.
SELECT count(*) FROM jobq_enqueue_jobs('[{"queue": "claim"}, {"queue": "claim", "heartbeat_timeout": "9 minutes"}, {"queue": "claim"}]');
SELECT heartbeat_seconds FROM jobq_claim('claim', batch => 2);
SELECT heartbeat_seconds FROM jobq_claim('claim', heartbeat_timeout => '2 hours');
SELECT _lease_timeout FROM jobq.jobs WHERE queue = 'claim' ORDER BY id;
SELECT jobq_drop_queue('claim', force => true);

-- Claims get no jobs from a paused queue.
SELECT jobq_enqueue('claim', '"job"') > 0 AS enqueued;
SELECT jobq_pause_queue('claim');
SELECT payload FROM jobq_claim('claim');
SELECT payload FROM jobq_claim_any('{claim}');
SELECT jobq_resume_queue('claim');
SELECT payload FROM jobq_claim('claim');

-- Claims skip a job that was claimed recently, unless it is claimable again because of a failure, a release, or a rollback.
SELECT count(jobq_enqueue('claim 4', to_jsonb(n), priority => CASE n WHEN 1 THEN 0 ELSE 1 + n % 2 END)) FROM generate_series(1, 600) n;
CREATE FUNCTION next_priority() RETURNS int LANGUAGE sql AS $$ SELECT priority FROM jobq_claim('claim 4') $$;
BEGIN;
SELECT next_priority() AS rolled_back;
ROLLBACK;
BEGIN;
SAVEPOINT s;
SELECT next_priority() AS rolled_back_to_savepoint;
ROLLBACK TO s;
COMMIT;
SELECT jobq_release(id, lease), priority FROM jobq_claim('claim 4');
SELECT jobq_fail(id, lease, retry_in => '0'), priority FROM jobq_claim('claim 4');
SELECT count(*), min(priority), max(priority) FROM jobq_claim('claim 4', batch => 300);
SELECT count(jobq_release(id, lease)) FROM jobq.jobs WHERE queue = 'claim 4' AND status = 'processing';
SELECT count(*), min(priority), max(priority) FROM jobq_claim('claim 4', batch => 300);
SELECT count(jobq_fail(id, lease, retry_in => '0')) FROM jobq.jobs WHERE queue = 'claim 4' AND status = 'processing';
BEGIN;
SELECT count(*), min(priority), max(priority) FROM jobq_claim('claim 4', batch => 300);
ROLLBACK;
SELECT count(*), min(priority), max(priority) FROM jobq_claim('claim 4', batch => 300);
DROP FUNCTION next_priority;

SELECT count(jobq_drop_queue(queue, force => true)) FROM jobq.queues WHERE queue LIKE 'claim%';
