-- Reports of a worker on the job that it holds: complete, fail, release, snooze, heartbeat. All of them require the current
-- lease.

-- A completion with a result. The second completion fails, because the lease has ended.
SELECT jobq_enqueue('report', '"a"') AS id \gset
SELECT id, lease FROM jobq_claim('report', 'w') \gset
SELECT jobq_complete(:id, :lease, '{"sum": 3}');
SELECT status, result, attempts, lease, _rescue_indexed, worker_id, finished_at >= started_at AS finished FROM jobq.jobs WHERE id = :id;
SELECT jobq_complete(:id, :lease, '{"sum": 4}');
\set VERBOSITY sqlstate
SELECT jobq_complete(:id, :lease, must_hold => true);
SELECT status, result FROM jobq.jobs WHERE id = :id;
SELECT count(*) AS attempts_recorded FROM jobq.attempts WHERE job_id = :id;

-- must_hold is for exactly-once effects: the writes of the worker and the completion commit together or not at all.
CREATE TABLE report_effects (job_id bigint);
SELECT jobq_enqueue('report', '"b"') AS id \gset
SELECT id, lease FROM jobq_claim('report', 'w') \gset
BEGIN;
INSERT INTO report_effects VALUES (:id);
SELECT jobq_complete(:id, :lease + 1, must_hold => true);
COMMIT;
BEGIN;
INSERT INTO report_effects VALUES (:id);
SELECT jobq_complete(:id, :lease, must_hold => true);
COMMIT;
SELECT count(*) AS effects FROM report_effects;
DROP TABLE report_effects;

-- A report with another lease changes nothing.
SELECT jobq_enqueue('report', '"c"') AS id \gset
\set VERBOSITY default
SELECT id, lease FROM jobq_claim('report', 'w') \gset
SELECT jobq_complete(:id, :lease - 1), jobq_fail(:id, :lease - 1, 'no'), jobq_heartbeat(:id, :lease - 1, '1'),
       jobq_release(:id, :lease - 1), jobq_snooze(:id, '1 hour', :lease - 1);
SELECT jobq_complete(:id, 0), jobq_complete(:id, -1), jobq_complete(:id, 9223372036854775807);
-- A report on a job that does not exist changes nothing.
SELECT jobq_complete(-1, :lease), jobq_fail(-1, :lease), jobq_heartbeat(-1, :lease), jobq_release(-1, :lease), jobq_snooze(-1, '0', :lease);
SELECT status, attempts, error, progress FROM jobq.jobs WHERE id = :id;
-- A report with the lease of an earlier attempt changes nothing.
SELECT jobq_release(:id, :lease);
SELECT :lease AS old_lease \gset
SELECT id, lease FROM jobq_claim('report', 'w') \gset
SELECT :lease <> :old_lease AS new_lease, jobq_complete(:id, :old_lease), jobq_heartbeat(:id, :old_lease);
SELECT jobq_complete(:id, :lease);

-- A heartbeat extends the lease and stores progress. Without progress, the last progress stays.
SELECT jobq_enqueue('report', '"d"') AS id \gset
SELECT id, lease FROM jobq_claim('report', 'w') \gset
SELECT jobq_heartbeat(:id, :lease, '{"done": 10}');
SELECT jobq_heartbeat(:id, :lease);
SELECT progress, last_heartbeat > started_at AS heard_of FROM jobq.jobs WHERE id = :id;
-- The next attempt gets the progress.
SELECT jobq_release(:id, :lease);
SELECT id, lease, progress FROM jobq_claim('report', 'w') \gset
SELECT :'progress' AS progress;

-- A released job is claimable at once and keeps its place in the order. The attempt is not counted.
SELECT jobq_enqueue('report', '"e"') > 0 AS enqueued;
SELECT jobq_release(:id, :lease);
SELECT status, attempts, worker_id FROM jobq.jobs WHERE id = :id;
SELECT id = :id AS same_job, payload, attempt FROM jobq_claim('report', 'w');
SELECT attempt, outcome, worker_id, error FROM jobq.attempts WHERE job_id = :id ORDER BY finished_at;

-- Snooze does the same, but the job is scheduled for later.
SELECT id, lease FROM jobq_claim('report', 'w') \gset
SELECT jobq_snooze(:id, '1 day', :lease);
SELECT status, attempts, run_at > now() + interval '23 hours' AS tomorrow FROM jobq.jobs WHERE id = :id;
SELECT attempt, outcome FROM jobq.attempts WHERE job_id = :id;
SELECT jobq_drop_queue('report', force => true);

-- The lease may be omitted in the transaction of the claim.
SELECT count(*) FROM jobq_enqueue_many('report', ARRAY['1', '2', '3', '4', '5', '6']::jsonb[]);
BEGIN;
SELECT jobq_complete(id, result => payload) FROM jobq_claim('report');
SELECT jobq_fail(id, error => 'no', retry => false) FROM jobq_claim('report');
SELECT jobq_snooze(id, '1 day') FROM jobq_claim('report');
SELECT id FROM jobq_claim('report') \gset
SELECT jobq_heartbeat(:id), jobq_heartbeat(:id, progress => '"p"');
SAVEPOINT s;
SELECT jobq_release(:id);
ROLLBACK TO s;
SELECT jobq_complete(:id);
-- This includes a claim in a subtransaction that was not rolled back.
SAVEPOINT s;
SELECT id FROM jobq_claim('report') \gset
RELEASE s;
SELECT jobq_complete(:id);
SAVEPOINT s;
SELECT id FROM jobq_claim('report') \gset
ROLLBACK TO s;
SAVEPOINT s;
\set VERBOSITY terse
SELECT jobq_complete(:id);
ROLLBACK TO s;
COMMIT;
SELECT payload, status, result, progress, error FROM jobq.jobs WHERE queue = 'report' ORDER BY id;
-- In autocommit mode, the claim and the report are two transactions. In one statement, they are one transaction.
SELECT id FROM jobq_claim('report') \gset
SELECT jobq_complete(:id), jobq_heartbeat(:id);
SELECT jobq_fail(:id);
SELECT jobq_release(:id);
SELECT jobq_snooze(:id, '1 hour');
SELECT jobq_complete(-1);
\set VERBOSITY default
SELECT status FROM jobq.jobs WHERE id = :id;
SELECT jobq_drop_queue('report', force => true);
