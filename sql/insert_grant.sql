-- A role that may INSERT into jobq.jobs but does not own it is treated as a producer: columns that jobq_enqueue does not let a
-- producer choose get their usual values, whatever the statement says.
CREATE ROLE regress_jobq_inserter;
CREATE ROLE regress_jobq_columns;
GRANT USAGE ON SCHEMA jobq TO regress_jobq_inserter, regress_jobq_columns;
GRANT INSERT, SELECT ON jobq.jobs TO regress_jobq_inserter;
GRANT INSERT (queue, kind, payload, metadata, requires, priority, version, max_attempts, run_at, heartbeat_timeout, max_runtime, unique_key,
              unique_for, group_key, concurrency_key), SELECT (id) ON jobq.jobs TO regress_jobq_columns;
SELECT jobq_create_queue('narrow', max_depth => 2), jobq_create_queue('fair', round_robin => true);

-- IDs come from the sequence, so the next enqueue of another session does not collide with an existing ID.
SELECT jobq_enqueue('granted', '"before"') AS id \gset
SET ROLE regress_jobq_inserter;
INSERT INTO jobq.jobs (id, queue) SELECT :id + n, 'granted' FROM generate_series(1, 20) n;
INSERT INTO jobq.jobs (id, queue) VALUES (-1, 'granted') RETURNING id > :id AS drawn;
COPY jobq.jobs (id, queue, payload) FROM stdin;
9223372036854775807	granted	"copied"
\.
RESET ROLE;
SELECT count(jobq_enqueue('granted')) FROM generate_series(1, 40);
SELECT max(id) < :id + 200 AS drawn, count(*) FROM jobq.jobs WHERE queue = 'granted';

-- A value for _lane does not bypass max_depth.
SET ROLE regress_jobq_inserter;
INSERT INTO jobq.jobs (queue, _lane) VALUES ('narrow', 0), ('narrow', 0);
INSERT INTO jobq.jobs (queue, _lane) VALUES ('narrow', 0);
RESET ROLE;

-- The head of a group cannot be inserted either. Only one job of the group runs.
BEGIN;
SET ROLE regress_jobq_inserter;
INSERT INTO jobq.jobs (queue, _lane, group_key, _group_active, status) SELECT 'grouped', 0, 'g', 7, 'pending' FROM generate_series(1, 2);
INSERT INTO jobq.jobs (queue, _lane, group_key, _group_active, status) VALUES ('grouped', 0, 'g', 7, 'processing');
RESET ROLE;
SELECT status, _group_active IS NOT NULL AS active, _group_waiting = jobq.group_of('grouped', 'g') AS waits FROM jobq.jobs WHERE queue = 'grouped';
COMMIT;
-- The background worker or this tick makes one of them the head.
DO $$ BEGIN
    FOR n IN 1..6000 LOOP
        PERFORM pg_sleep(0.01), jobq_tick();
        COMMIT;
        EXIT WHEN EXISTS (SELECT FROM jobq.jobs WHERE queue = 'grouped' AND status = 'pending');
    END LOOP;
END $$;
SELECT count(*) FROM jobq_claim('grouped', batch => 10);

-- A row with values for all columns.
SET ROLE regress_jobq_inserter;
INSERT INTO jobq.jobs (id, created_at, _lane, max_attempts, version, priority, queue, kind, payload, metadata, requires, heartbeat_timeout, max_runtime, unique_key,
    unique_for, concurrency_key, run_at, _ready, _due, _holds_key, status, attempts, lost_attempts, lease, _claim_xid, started_at,
    last_heartbeat, finished_at, _lease_timeout, cancel_requested_at, _rescue_indexed, worker_id, error, progress, result, dead_from, _must_end_at, _queue_slot, _key_slot,
    _slot_seq, _group_waiting, _group_active, _round_robin_key)
VALUES (1, '2001-01-01', 7, 3, 2, -5, 'fair', 'k', '1', '2', '{gpu}', '2 min', '3 min', 'u', '4 min', 'c', '2100-01-01', true, true, false,
    'processing', 99, 99, 99, '99', '2001-01-01', '2001-01-01', '2001-01-01', '9 s', '2001-01-01', true, 'w', 'e', '3', '4', 'granted', '2001-01-01', 9, 9, 9, 9, 9, 9);
RESET ROLE;
\x on
SELECT created_at > now() - interval '1 hour' AS created_now, _lane = jobq.lane_of('fair', 'k', 2, '{gpu}') AS its_lane, max_attempts, version, priority, queue, kind,
    payload, metadata, requires, heartbeat_timeout, max_runtime, unique_key, unique_for, group_key, concurrency_key, run_at = '2100-01-01' AS as_asked, _ready,
    _due AS due, _holds_key, status, attempts, lost_attempts, lease, _claim_xid, started_at, last_heartbeat, finished_at, _lease_timeout,
    cancel_requested_at, _rescue_indexed, worker_id, error, progress, result, dead_from, _must_end_at, _queue_slot, _key_slot, _slot_seq, _group_waiting, _group_active,
    _round_robin_key = jobq.round_robin_key_of('c') AS its_key
FROM jobq.jobs WHERE queue = 'fair';
\x off

-- The statuses of waiting jobs are kept. Other statuses are set only by claims and workers.
BEGIN;
SET ROLE regress_jobq_inserter;
INSERT INTO jobq.jobs (queue, kind, status) SELECT 'statuses', s::text, s FROM unnest(enum_range(NULL::jobq.job_status)) s;
RESET ROLE;
SELECT kind AS given, status FROM jobq.jobs WHERE queue = 'statuses' ORDER BY id;
COMMIT;

-- The limits for producers apply to these roles.
SET jobq.require_queues = on;
SET jobq.max_payload = '1kB';
SET ROLE regress_jobq_inserter;
INSERT INTO jobq.jobs (queue) VALUES ('unknown');
INSERT INTO jobq.jobs (queue, payload) VALUES ('fair', to_jsonb(repeat('x', 2000)));
INSERT INTO jobq.jobs (queue, metadata) VALUES ('fair', to_jsonb(repeat('x', 2000)));
RESET ROLE;
RESET jobq.require_queues;
RESET jobq.max_payload;

-- A grant on columns is enough. The error names a column that was not granted.
SET ROLE regress_jobq_columns;
INSERT INTO jobq.jobs (queue, kind, payload, run_at, unique_key, group_key) VALUES ('granted', 'by column', '{"n": 1}', '2100-01-01', 'k', 'g') RETURNING id > 0 AS id;
COPY jobq.jobs (queue, kind) FROM stdin;
granted	by column
\.
INSERT INTO jobq.jobs (id, queue) VALUES (1, 'granted');
INSERT INTO jobq.jobs (queue, _lane) VALUES ('granted', 1);
INSERT INTO jobq.jobs (queue, status) VALUES ('granted', 'processing');
RESET ROLE;
SELECT status = 'pending' AS claimable, count(*) FROM jobq.jobs WHERE kind = 'by column' GROUP BY 1 ORDER BY 1;

-- The owner, its members, and superusers can restore any values.
SELECT rolname AS owner FROM pg_roles r JOIN pg_class c ON c.relowner = r.oid WHERE c.oid = 'jobq.jobs'::regclass \gset
GRANT :"owner" TO regress_jobq_inserter;
SET ROLE regress_jobq_inserter;
INSERT INTO jobq.jobs (id, queue, status, attempts, _lane) VALUES (-17, 'restored', 'completed', 3, 0) RETURNING id, status, attempts;
RESET ROLE;
REVOKE :"owner" FROM regress_jobq_inserter;

SELECT jobq_drop_queue(q, force => true) FROM unnest('{granted,narrow,grouped,fair,statuses,restored}'::text[]) q;
REVOKE ALL ON jobq.jobs FROM regress_jobq_inserter, regress_jobq_columns;
REVOKE USAGE ON SCHEMA jobq FROM regress_jobq_inserter, regress_jobq_columns;
DROP ROLE regress_jobq_inserter, regress_jobq_columns;
