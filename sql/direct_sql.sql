-- jobq.jobs is a table: a DBA may insert, copy, update, and lock its rows with plain SQL.

-- INSERT: only the queue is required. Other columns get their defaults; max_attempts comes from the queue.
SELECT jobq_create_queue('direct', max_attempts => 7);
INSERT INTO jobq.jobs (queue) VALUES ('direct');
INSERT INTO jobq.jobs (queue, payload, kind, priority, run_at) VALUES ('direct', '"later"', 'k', 5, '2100-01-01');
INSERT INTO jobq.jobs (queue, payload, max_attempts, created_at) VALUES ('direct', '"given"', 3, '2001-01-01');
INSERT INTO jobq.jobs (queue, kind, payload, priority, version, created_at, attempts) VALUES ('direct', NULL, NULL, NULL, NULL, NULL, NULL);
SELECT kind, payload, priority, version, status, attempts, max_attempts, _ready AS claimable,
       created_at = '2001-01-01' AS old FROM jobq.jobs WHERE queue = 'direct' ORDER BY id;
SELECT payload, attempt FROM jobq_claim('direct', batch => 10);
-- Only NULL columns are filled, so a restored row keeps its values.
INSERT INTO jobq.jobs (queue, payload, status, attempts, finished_at, result) VALUES ('direct', '"history"', 'completed', 2, '2099-01-01', '"r"');
SELECT payload, status, attempts, max_attempts, result FROM jobq.jobs WHERE queue = 'direct' AND payload = '"history"';
-- Computed columns are set, whatever the statement says.
INSERT INTO jobq.jobs (queue, payload, run_at, _lane, _ready, _due) VALUES ('direct', '"odd"', '2100-01-01', 1, true, NULL);
SELECT status, _lane = jobq.lane_of('direct', '', 0, NULL) AS right_lane, _ready, _due AS waits FROM jobq.jobs WHERE queue = 'direct' AND payload = '"odd"';
SELECT jobq_drop_queue('direct', force => true);

-- COPY, with a new kind. The jobs are claimable after the commit.
COPY jobq.jobs (queue, kind, payload, requires) FROM stdin;
direct	copied	{"n": 1}	\N
direct	copied	{"n": 2}	{gpu}
direct	copied	{"n": 3}	\N
\.
SELECT payload, kind, attempt FROM jobq_claim('direct', kinds => '{copied}', batch => 10);
SELECT payload FROM jobq_claim('direct', capabilities => '{gpu}');
-- Copied to another table and back: all columns that are not computed keep their values, including leases.
CREATE TABLE direct_dump AS SELECT id, created_at, max_attempts, version, priority, queue, kind, payload, metadata, requires, heartbeat_timeout, run_at,
    status, attempts, lost_attempts, lease, started_at, last_heartbeat, finished_at, _lease_timeout, _rescue_indexed, worker_id FROM jobq.jobs WHERE queue = 'direct';
BEGIN;
DELETE FROM jobq.jobs WHERE queue = 'direct';
INSERT INTO jobq.jobs (id, created_at, max_attempts, version, priority, queue, kind, payload, metadata, requires, heartbeat_timeout, run_at,
    status, attempts, lost_attempts, lease, started_at, last_heartbeat, finished_at, _lease_timeout, _rescue_indexed, worker_id) SELECT * FROM direct_dump;
COMMIT;
SELECT jobq_complete(id, lease) FROM direct_dump ORDER BY id;
DROP TABLE direct_dump;
SELECT jobq_drop_queue('direct', force => true);

-- UPDATE: the columns that determine which worker may claim a job, and when, can be changed while the job waits.
SELECT count(*) FROM jobq_enqueue_many('direct', ARRAY['1', '2', '3', '4']::jsonb[]);
UPDATE jobq.jobs SET priority = -1 WHERE queue = 'direct' AND payload = '3';
UPDATE jobq.jobs SET run_at = '2001-01-01' WHERE queue = 'direct' AND payload = '2';
BEGIN;
SELECT payload FROM jobq_claim('direct', batch => 10);
ROLLBACK;
-- The job is moved to another queue, kind, and version, and is found there at once.
UPDATE jobq.jobs SET queue = 'direct 2', kind = 'moved', version = 3, requires = '{gpu}' WHERE queue = 'direct' AND payload = '3';
SELECT payload, kind, version FROM jobq_claim('direct 2', kinds => '{moved}', versions => '{3}', capabilities => '{gpu}');
UPDATE jobq.jobs SET kind = 'moved' WHERE queue = 'direct' AND payload = '4';
SELECT payload FROM jobq_claim('direct', kinds => '{moved}');
-- The status is set to blocked and back.
UPDATE jobq.jobs SET status = 'blocked' WHERE queue = 'direct' AND payload IN ('1', '2');
SELECT payload FROM jobq_claim('direct', batch => 10);
UPDATE jobq.jobs SET status = 'pending' WHERE queue = 'direct' AND payload = '1';
SELECT payload FROM jobq_claim('direct', batch => 10);
-- A running job is finished with plain SQL: the lease of the worker is lost.
SELECT id, lease FROM jobq.jobs WHERE queue = 'direct' AND payload = '1' \gset
UPDATE jobq.jobs SET status = 'cancelled', finished_at = now() WHERE id = :id;
SELECT jobq_complete(:id, :lease), jobq_heartbeat(:id, :lease);
SELECT status, lease, _rescue_indexed, finished_at IS NOT NULL AS finished FROM jobq.jobs WHERE id = :id;
-- A job that plain SQL sets to processing has a deadline like any other.
SELECT jobq_enqueue('direct', '"by hand"') AS id \gset
BEGIN;
UPDATE jobq.jobs SET status = 'processing' WHERE id = :id;
SELECT _rescue_indexed, _lease_timeout, _ready FROM jobq.jobs WHERE id = :id;
SELECT done > 0 AS rescued FROM tick_alone(now() + interval '2 minutes') WHERE duty = 'rescue';
SELECT status, _ready AS claimable FROM jobq.jobs WHERE id = :id;
ROLLBACK;
-- Several jobs and columns in one statement. _lane, _ready, and _due are computed.
UPDATE jobq.jobs SET status = 'scheduled', run_at = '2100-01-01', kind = 'bulk', _ready = true WHERE queue = 'direct' AND payload IN ('2', '"by hand"');
SELECT payload, status, _lane = jobq.lane_of(queue, kind, version, requires) AS right_lane, _ready, _due AS waits FROM jobq.jobs WHERE kind = 'bulk' ORDER BY id;
-- A job is deleted.
SELECT id, lease FROM jobq.jobs WHERE queue = 'direct' AND payload = '4' \gset
DELETE FROM jobq.jobs WHERE id = :id;
SELECT jobq_complete(:id, :lease), jobq_heartbeat(:id, :lease), jobq_cancel(:id);
SELECT jobq_drop_queue('direct', force => true), jobq_drop_queue('direct 2', force => true);

-- SELECT ... FOR UPDATE does not hide a job from a claim in the same transaction.
SELECT jobq_enqueue('direct', '"locked"') > 0 AS enqueued;
BEGIN;
SELECT payload FROM jobq.jobs WHERE queue = 'direct' FOR UPDATE;
SELECT payload FROM jobq_claim('direct');
ROLLBACK;

-- Invalid values are rejected, and the error names the column.
\set VERBOSITY terse
INSERT INTO jobq.jobs (queue) VALUES ('');
INSERT INTO jobq.jobs (queue) VALUES (repeat('q', 64));
INSERT INTO jobq.jobs (queue, max_attempts) VALUES ('direct', 0);
INSERT INTO jobq.jobs (queue, run_at) VALUES ('direct', 'infinity');
INSERT INTO jobq.jobs (queue, heartbeat_timeout) VALUES ('direct', '-1 s');
INSERT INTO jobq.jobs (queue, kind) VALUES ('direct', repeat('k', 256));
INSERT INTO jobq.jobs (queue, requires) VALUES ('direct', '{{a},{b}}');
INSERT INTO jobq.jobs (queue, requires) VALUES ('direct', '{NULL}');
UPDATE jobq.jobs SET queue = '' WHERE queue = 'direct';
UPDATE jobq.jobs SET max_attempts = 0 WHERE queue = 'direct';
UPDATE jobq.jobs SET run_at = '-infinity' WHERE queue = 'direct';
\set VERBOSITY sqlstate
INSERT INTO jobq.jobs (queue) VALUES (NULL);
INSERT INTO jobq.jobs (payload) VALUES ('1');
\set VERBOSITY default
SELECT count(*) FROM jobq.jobs WHERE queue = 'direct';
SELECT jobq_drop_queue('direct', force => true);

-- A job that is inserted as running has a deadline like any other. A job that is inserted as finished has finished_at.
INSERT INTO jobq.jobs (queue, status) VALUES ('direct', 'processing')
RETURNING _rescue_indexed, _lease_timeout, last_heartbeat IS NOT NULL AS heartbeat;
BEGIN;
SELECT done > 0 AS rescued FROM tick_alone(now() + interval '2 minutes') WHERE duty = 'rescue';
ROLLBACK;
INSERT INTO jobq.jobs (queue, status) VALUES ('direct', 'failed') RETURNING finished_at IS NOT NULL AS stamped;
SELECT jobq_drop_queue('direct', force => true);

-- If a job is deleted with plain SQL, its attempts are deleted, too.
SELECT jobq_enqueue('direct') AS id \gset
SELECT jobq_release(id, lease) FROM jobq_claim('direct');
SELECT outcome FROM jobq.attempts WHERE job_id = :id;
DELETE FROM jobq.jobs WHERE id = :id;
SELECT count(*) AS attempts FROM jobq.attempts WHERE job_id = :id;
SELECT jobq_drop_queue('direct', force => true);

-- Values that would stop the duties for all other jobs are rejected or corrected.
INSERT INTO jobq.jobs (queue, attempts) VALUES ('direct', 2147483647);
INSERT INTO jobq.jobs (queue, status, _lease_timeout) VALUES ('direct', 'processing', '100000000 years');
INSERT INTO jobq.jobs (queue, status, _lease_timeout) VALUES ('direct', 'processing', '-178000000 years');
INSERT INTO jobq.jobs (queue, status, last_heartbeat) VALUES ('direct', 'processing', '294276-12-31');
INSERT INTO jobq.jobs (queue, status, started_at) VALUES ('direct', 'processing', '-infinity');
INSERT INTO jobq.jobs (queue, status, worker_id) VALUES ('direct', 'processing', repeat('w', 256));
INSERT INTO jobq.jobs (id, queue) VALUES (0, 'direct');
INSERT INTO jobq.jobs (queue, status) VALUES ('direct', 'processing');
UPDATE jobq.jobs SET last_heartbeat = 'infinity' WHERE queue = 'direct';
UPDATE jobq.jobs SET id = -17 WHERE queue = 'direct';
SELECT count(*) AS duties FROM jobq_tick();
UPDATE jobq.jobs SET _rescue_indexed = NULL, _lease_timeout = NULL WHERE queue = 'direct' RETURNING status;
SELECT _rescue_indexed, _lease_timeout FROM jobq.jobs WHERE queue = 'direct';
-- Flags are true or NULL, whatever the statement says.
UPDATE jobq.jobs SET _rescue_indexed = false, _ready = false, _due = false, _holds_key = false WHERE queue = 'direct';
SELECT _rescue_indexed, _ready, _due, _holds_key FROM jobq.jobs WHERE queue = 'direct';
BEGIN;
UPDATE jobq.jobs SET _rescue_indexed = false, _ready = false, status = 'pending', unique_key = 'k', _holds_key = false WHERE queue = 'direct';
SELECT status, _rescue_indexed, _ready, _due, _holds_key FROM jobq.jobs WHERE queue = 'direct';
UPDATE jobq.jobs SET _rescue_indexed = true, _ready = false, _due = true, status = 'failed' WHERE queue = 'direct';
SELECT status, _rescue_indexed, _ready, _due, _holds_key FROM jobq.jobs WHERE queue = 'direct';
ROLLBACK;
-- With triggers disabled, computed columns are not updated, but a finished job is never claimed again.
SELECT jobq_enqueue('direct') > 0 AS enqueued;
SET session_replication_role = replica;
UPDATE jobq.jobs SET status = 'completed' WHERE queue = 'direct' AND status = 'pending';
RESET session_replication_role;
SELECT count(*) AS claimed FROM jobq_claim('direct', batch => 10);
-- The trigger functions cannot be used by other triggers.
CREATE TRIGGER direct_stray BEFORE INSERT ON jobq.jobs FOR EACH STATEMENT EXECUTE FUNCTION jobq.fill_job();
\set VERBOSITY terse
INSERT INTO jobq.jobs (queue) VALUES ('direct');
\set VERBOSITY default
DROP TRIGGER direct_stray ON jobq.jobs;
SELECT jobq_drop_queue('direct', force => true);

-- Large payloads as the first action of a session, with a new kind: no part of the row may refer to freed memory.
\c -
INSERT INTO jobq.jobs (queue, payload) VALUES ('direct large', to_jsonb(repeat('y', 33000)));
INSERT INTO jobq.jobs (queue, kind, payload) VALUES ('direct large', 'new', to_jsonb(repeat('y', 1000000)));
SELECT length(payload #>> '{}') FROM jobq_claim('direct large', batch => 2) ORDER BY 1;
SELECT jobq_drop_queue('direct large', force => true);

-- A pending job is claimable now: a job that is moved to a later time becomes scheduled, and a job that is moved to now becomes
-- pending.
INSERT INTO jobq.jobs (queue, status, run_at) VALUES ('direct', 'pending', now() + interval '1 hour') RETURNING status;
UPDATE jobq.jobs SET run_at = now() WHERE queue = 'direct';
SELECT status, _ready AS ready FROM jobq.jobs WHERE queue = 'direct';
UPDATE jobq.jobs SET run_at = now() + interval '1 hour' WHERE queue = 'direct';
SELECT status, _due AS due, _ready FROM jobq.jobs WHERE queue = 'direct';
SELECT count(*) AS claimed FROM jobq_claim('direct');
SELECT jobq_drop_queue('direct', force => true);
-- An UPDATE of a running job does not change the heartbeat timeout of its claim, even if it is the default and the queue now has
-- another one. A restore does not change it either.
SELECT jobq_create_queue('own timeout', heartbeat_timeout => '2 s') AS created;
SELECT jobq_enqueue('own timeout') AS id \gset
SELECT lease FROM jobq_claim('own timeout', 'w', heartbeat_timeout => '60 s') \gset
UPDATE jobq.jobs SET max_attempts = 10 WHERE id = :id;
SELECT j._lease_timeout, g.heartbeat_timeout FROM jobq.jobs j, jobq_get(:id) g WHERE j.id = :id;
CREATE TEMP TABLE dumped AS SELECT * FROM jobq.jobs WHERE id = :id;
DELETE FROM jobq.jobs WHERE id = :id;
INSERT INTO jobq.jobs OVERRIDING SYSTEM VALUE SELECT * FROM dumped;
SELECT _lease_timeout, lease = :lease AS same_lease, status FROM jobq.jobs WHERE id = :id;
-- A job that plain SQL sets to processing has the heartbeat timeout of the queue.
SELECT jobq_enqueue('own timeout') AS id \gset
UPDATE jobq.jobs SET status = 'processing' WHERE id = :id;
SELECT _lease_timeout, _rescue_indexed FROM jobq.jobs WHERE id = :id;
SELECT jobq_drop_queue('own timeout', force => true) AS dropped;
