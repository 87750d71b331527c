-- A database that is a shard of a cluster: its job IDs contain its number. The test uses a separate database without jobs.
SELECT jobq_shard_id() IS NULL AS no_shard;
\set home :DBNAME
CREATE DATABASE regress_jobq_shard;
\c regress_jobq_shard
CREATE EXTENSION jobq;

-- Invalid shard numbers change nothing.
SELECT jobq_set_shard(NULL);
SELECT jobq_set_shard(-1);
SELECT jobq_set_shard(1024);
SELECT jobq_shard_id() IS NULL AS none_yet;

-- Existing jobs prevent the call, even uncommitted ones, unless their IDs happen to fit.
SELECT jobq_enqueue('plain');
SELECT jobq_set_shard(7);
SELECT jobq_shard_id() IS NULL AS none_yet, jobq_enqueue('plain') AS goes_on;
SELECT jobq_purge_queue('plain');
BEGIN;
SELECT jobq_enqueue('plain');
SELECT jobq_set_shard(7);
ROLLBACK;
INSERT INTO jobq.jobs (id, queue) VALUES (7, 'plain');
SELECT jobq_set_shard(7), jobq_shard_id();
SELECT jobq_set_shard(7) AS again;
SELECT shard_id FROM jobq.shard;

-- All functions and statements produce IDs of the shard: higher than the first 1024, increasing, and below 2^53.
SELECT jobq_enqueue('q') AS first;
SELECT array_agg(job_id % 1024) AS many, min(job_id) > 1031 AS later FROM jobq_enqueue_many('q', '{1,2,3}'::jsonb[]);
SELECT array_agg(job_id % 1024) AS keyed FROM jobq_enqueue_many('q', '{1,2}'::jsonb[], unique_keys => '{a,b}');
SELECT array_agg(job_id % 1024) AS specs FROM jobq_enqueue_jobs('[{"queue": "q"}, {"queue": "q", "unique_key": "c"}]');
INSERT INTO jobq.jobs (queue) VALUES ('q') RETURNING id % 1024 AS by_hand;
COPY jobq.jobs (queue) FROM stdin;
q
\.
INSERT INTO jobq.jobs (id, queue) VALUES (1024 * 100 + 7, 'q') RETURNING id;
SELECT jobq_run_schedule('s') % 1024 AS scheduled FROM jobq_schedule('s', '@yearly', 'q');
SELECT count(*), count(*) FILTER (WHERE id % 1024 <> 7) AS of_others, max(id) < 2 ^ 53 AS small FROM jobq.jobs;
SELECT seqmax = 2 ^ 53 - 1 AS ends_there FROM pg_sequence WHERE seqrelid = 'jobq.jobs_id_seq'::regclass;
TRUNCATE jobq.jobs RESTART IDENTITY;
SELECT jobq_enqueue('q') AS begins_anew;

-- An ID of another shard is rejected.
INSERT INTO jobq.jobs (id, queue) VALUES (1024 * 200 + 8, 'q');
UPDATE jobq.jobs SET id = 1024 * 200 + 8 WHERE id = (SELECT min(id) FROM jobq.jobs);

-- While the shard has jobs, its number cannot change. Without jobs, it can, and the IDs continue after the last one.
SELECT jobq_set_shard(8);
SELECT jobq_purge_queue('q');
SELECT jobq_set_shard(1023), jobq_enqueue('q') AS id;
SELECT jobq_purge_queue('q');
SELECT jobq_set_shard(0), jobq_enqueue('q') AS id;
-- A rollback restores the previous state.
SELECT jobq_purge_queue('q');
BEGIN;
SELECT jobq_set_shard(5), jobq_enqueue('q') % 1024 AS id;
ROLLBACK;
SELECT jobq_shard_id(), jobq_enqueue('q') % 1024 AS id;

-- The row in jobq.shard makes the database a shard, however it is written. Without the row, IDs are consecutive again.
UPDATE jobq.shard SET shard_id = 9;
UPDATE jobq.shard SET shard_id = 1024;
INSERT INTO jobq.shard (shard_id) VALUES (9);
SELECT jobq_purge_queue('q');
UPDATE jobq.shard SET shard_id = 9;
SELECT jobq_shard_id(), jobq_enqueue('q') % 1024 AS id;
DELETE FROM jobq.shard;
SELECT jobq_shard_id() IS NULL AS no_shard, jobq_enqueue('q') - max(id) AS next FROM jobq.jobs;
DELETE FROM jobq.jobs;
SET session_replication_role = replica;
INSERT INTO jobq.shard (shard_id) VALUES (3);
RESET session_replication_role;
SELECT jobq_shard_id();
TRUNCATE jobq.shard;
SELECT jobq_shard_id() IS NULL AS no_shard;
BEGIN READ ONLY;
SELECT jobq_set_shard(1);
ROLLBACK;

-- Only the owner can set the shard number.
CREATE ROLE regress_jobq_shard;
SELECT jobq_grant('regress_jobq_shard', 'operator'), jobq_grant('regress_jobq_shard', 'worker');
SET ROLE regress_jobq_shard;
SELECT jobq_shard_id() IS NULL AS asks;
SELECT jobq_set_shard(1);
RESET ROLE;
DROP OWNED BY regress_jobq_shard;
DROP ROLE regress_jobq_shard;
\c :home
DROP DATABASE regress_jobq_shard WITH (FORCE);
