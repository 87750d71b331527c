-- In a copy of a database, no job runs before jobq_adopt(). This test makes the jobs look like jobs of another server.
SELECT jobq_adopt() AS nothing_to_adopt;
SELECT system_identifier = (SELECT s.system_identifier FROM pg_control_system() s) AS of_this_server,
       database = (SELECT oid FROM pg_database WHERE datname = current_database()) AS of_this_database,
       major_version = current_setting('server_version_num')::int / 10000 AS of_this_version, copied
FROM jobq.identity;

SELECT jobq_enqueue('adopt', '"waits"') AS waits, jobq_enqueue('adopt', '"runs"', priority => -1) AS runs \gset
SELECT lease FROM jobq_claim('adopt', 'w', heartbeat_timeout => '1 day') \gset
UPDATE jobq.identity SET system_identifier = system_identifier - 1;

-- Functions for workers fail and change nothing.
\set VERBOSITY terse
SELECT jobq_claim('adopt');
SELECT jobq_claim_any('{adopt}');
SELECT jobq_complete(:runs, :lease);
SELECT jobq_complete_many(ARRAY[:runs], ARRAY[:lease]);
SELECT jobq_complete_and_claim(ARRAY[:runs], ARRAY[:lease], queue => 'adopt');
SELECT jobq_fail(:runs, :lease);
SELECT jobq_fail_many(ARRAY[:runs], ARRAY[:lease]);
SELECT jobq_heartbeat(:runs, :lease);
SELECT jobq_heartbeat_many(ARRAY[:runs], ARRAY[:lease]);
SELECT jobq_heartbeat_worker('w');
SELECT jobq_release(:runs, :lease);
SELECT jobq_release_many(ARRAY[:runs], ARRAY[:lease]);
SELECT jobq_snooze(:runs, '1 s', :lease);
CALL jobq_wait('adopt');
CALL jobq_wait_job(:waits);
\set VERBOSITY sqlstate
SELECT jobq_claim('adopt');
\set VERBOSITY terse
-- The duties do nothing.
UPDATE jobq.jobs SET last_heartbeat = now() - interval '2 days' WHERE id = :runs;
SELECT sum(done) AS done FROM jobq_tick();
SELECT payload, status FROM jobq.jobs WHERE queue = 'adopt' ORDER BY id;
\set VERBOSITY default
SELECT reason, detail ~ '^the database is a copy; see jobq_adopt\(\)\. The jobs belong to the database with OID \d+ and system identifier \d+, but this database has OID \d+ and' AS detail
FROM jobq_explain_queue('adopt') WHERE reason IN ('copy', 'claimable');
SELECT reason FROM jobq_explain(:waits) WHERE reason = 'copy';
-- Before they run, jobs can be added, read, and canceled.
SELECT jobq_cancel(jobq_enqueue('adopt', '"no"')), jobq_cancel(:waits);

-- Only operators of all queues can adopt the jobs. The call can be rolled back, and a second call does nothing.
CREATE ROLE regress_jobq_adopts;
SELECT jobq_grant('regress_jobq_adopts', 'worker');
SET ROLE regress_jobq_adopts;
SELECT jobq_adopt();
RESET ROLE;
SELECT jobq_revoke('regress_jobq_adopts', 'worker'), jobq_grant('regress_jobq_adopts', 'operator');
BEGIN;
SELECT jobq_adopt();
SELECT count(*) FROM jobq_claim('nothing');
ROLLBACK;
\set VERBOSITY terse
SELECT jobq_claim('adopt');
\set VERBOSITY default
SET ROLE regress_jobq_adopts;
SELECT jobq_adopt();
SELECT jobq_adopt();
RESET ROLE;
SELECT count(*), bool_or(copied) AS copied FROM jobq.identity;

-- From then on, each lease lasts for one heartbeat timeout.
SELECT done AS rescued FROM jobq_tick() WHERE duty = 'rescue';
SELECT jobq_heartbeat(:runs, :lease), jobq_complete(:runs, :lease);

-- The identity table was emptied, so nothing says that this database is a copy. The tick stores the identity of this server.
TRUNCATE jobq.identity;
SELECT count(*) FROM jobq_claim('adopt');
SELECT count(*) > 0 AS ticked FROM jobq_tick();
SELECT count(*) FROM jobq.identity;
SELECT jobq_adopt() AS nothing_to_adopt;

-- The state after pg_upgrade: the stored identity is that of an older server. Jobs keep running, and the tick stores the new
-- identity.
UPDATE jobq.identity SET system_identifier = system_identifier - 1, major_version = major_version - 1;
SELECT count(*) FROM jobq_claim('adopt');
SELECT count(*) > 0 AS ticked FROM jobq_tick();
SELECT system_identifier = (SELECT s.system_identifier FROM pg_control_system() s) AS of_this_server,
       major_version = current_setting('server_version_num')::int / 10000 AS of_this_version
FROM jobq.identity;

SELECT jobq_revoke('regress_jobq_adopts', 'operator');
DROP ROLE regress_jobq_adopts;
SELECT jobq_purge_queue('adopt') > 0 AS purged, jobq_drop_queue('adopt', force => true) IS NOT NULL AS dropped;
