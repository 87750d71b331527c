-- Groups: the jobs of a queue with the same group_key run one at a time, in the order of their IDs. The commit that ends the head
-- makes the next job the head. Otherwise, the background worker does, or, as here, a tick.
\set VERBOSITY default
\set SHOW_CONTEXT never
CREATE FUNCTION pg_temp.tick() RETURNS void LANGUAGE sql AS 'SELECT settle()';
CREATE FUNCTION pg_temp.shown(name text) RETURNS text LANGUAGE sql AS $$
    SELECT string_agg(format('%s %s%s', payload #>> '{}', status,
                             CASE WHEN _group_active IS NOT NULL THEN ' (head)' WHEN _group_waiting IS NOT NULL THEN ' (waits)' END), ', ' ORDER BY id)
    FROM jobq.jobs WHERE queue = name $$;
CREATE FUNCTION pg_temp.id(name text, job text) RETURNS bigint LANGUAGE sql AS $$
    SELECT id FROM jobq.jobs WHERE queue = name AND payload = to_jsonb(job) $$;
CREATE FUNCTION pg_temp.lease(name text, job text) RETURNS bigint LANGUAGE sql AS $$
    SELECT lease FROM jobq.jobs WHERE queue = name AND payload = to_jsonb(job) $$;

-- A new job with a group_key is always blocked, because the producer does not check whether another job of the group exists.
BEGIN;
SELECT jobq_enqueue('g', '"a1"', group_key => 'a') > 0 AS enqueued;
SELECT count(*) FROM jobq_enqueue_many('g', '{"\"a2\"","\"b1\"","\"x\"","\"b2\""}', group_keys => '{a,b,NULL,b}');
SELECT count(*) FROM jobq_enqueue_jobs('[{"queue": "g", "payload": "a3", "group_key": "a"}, {"queue": "g 2", "payload": "a1", "group_key": "a"}]');
SELECT pg_temp.shown('g');
SELECT queue, blocked, pending FROM jobq.queue_stats WHERE queue = 'g';
COMMIT;
-- Each group has one head. Jobs without a group are pending at once. Groups of different queues are independent.
SELECT pg_temp.tick();
SELECT pg_temp.shown('g'), pg_temp.shown('g 2');
SELECT queue, blocked, pending FROM jobq.queue_stats WHERE queue = 'g';
SELECT payload FROM jobq_claim('g', batch => 10, heartbeat_timeout => '1 hour');
SELECT payload FROM jobq_claim('g', batch => 10);

-- When the head has completed, the next job becomes the head.
SELECT jobq_complete(pg_temp.id('g', 'a1'), pg_temp.lease('g', 'a1'));
SELECT pg_temp.tick();
SELECT pg_temp.shown('g');

-- A job that will be retried keeps its place. No other job overtakes it.
SELECT id, lease FROM jobq_claim('g', heartbeat_timeout => '1 hour') \gset
SELECT jobq_fail(:id, :lease, 'e', retry_in => '1 hour');
SELECT pg_temp.tick();
SELECT pg_temp.shown('g');
SELECT jobq_retry(:id), jobq_reschedule(:id, now() + interval '1 hour'), jobq_reschedule(:id, now());
SELECT id, lease FROM jobq_claim('g', heartbeat_timeout => '1 hour') \gset
SELECT jobq_snooze(:id, '1 hour', :lease), jobq_retry(:id);
SELECT id, lease FROM jobq_claim('g', heartbeat_timeout => '1 hour') \gset
SELECT jobq_release(:id, :lease);
SELECT id, lease FROM jobq_claim('g', 'lost', heartbeat_timeout => '1 hour') \gset
SELECT count(*) FROM tick_alone(now() + interval '2 hours');
SELECT pg_temp.tick();
SELECT pg_temp.shown('g');
SELECT attempts, lost_attempts FROM jobq.jobs WHERE id = :id;

-- However the head ends, the next job becomes the head. Each of these cases gets a running job and another job after it.
CREATE TABLE group_ends (n serial, how text, id bigint, lease bigint);
CREATE FUNCTION pg_temp.followed(job group_ends) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
    EXECUTE job.how USING job.id, job.lease;
    PERFORM pg_temp.tick();
    RETURN (SELECT string_agg(j.status::text, ', ' ORDER BY j.id) FROM jobq.jobs j WHERE j.group_key = job.how);
END $$;
INSERT INTO group_ends (how) VALUES
    ('SELECT jobq_heartbeat($1, $2)'),
    ('SELECT jobq_complete($1, $2)'),
    ('SELECT jobq_complete_many(ARRAY[$1], ARRAY[$2])'),
    ('SELECT jobq_complete_and_claim(ARRAY[$1], ARRAY[$2], queue => ''nowhere'')'),
    ('SELECT jobq_fail($1, $2, retry => false)'),
    ('SELECT jobq_fail_many(ARRAY[$1], ARRAY[$2], retry => false)'),
    ('SELECT jobq_cancel($1), jobq_release($1, $2)'),
    ('SELECT jobq_release($1, $2), jobq_cancel($1)'),
    ('SELECT jobq_cancel($1), $2'),
    ('SELECT jobq_cancel($1), jobq_tick(now() + interval ''10 minutes''), $2'),
    ('SELECT jobq_release($1, $2), jobq_delete($1)'),
    ('UPDATE jobq.jobs SET status = ''completed'' WHERE id = $1 AND lease = $2'),
    ('UPDATE jobq.jobs SET group_key = NULL, status = ''pending'' WHERE id = $1 AND lease = $2'),
    ('DELETE FROM jobq.jobs WHERE id = $1 AND lease = $2'),
    ('SELECT jobq_tick(now() + interval ''2 hours''), $1, $2');
SELECT count(*) FROM generate_series(1, 2) i, group_ends, LATERAL jobq_enqueue('ends', to_jsonb(i), group_key => how, max_attempts => 1);
SELECT pg_temp.tick();
UPDATE group_ends e SET id = c.id, lease = c.lease
FROM jobq_claim('ends', 'w', batch => 100, heartbeat_timeout => '1 hour') c JOIN jobq.jobs j USING (id) WHERE j.group_key = e.how;
SELECT how, pg_temp.followed(e) FROM group_ends e ORDER BY n;
SELECT jobq_drop_queue('ends', force => true);
-- This also holds for queues that keep no finished jobs, and for queues with a dead letter queue.
SELECT jobq_create_queue('ends', keep_completed => '0', keep_failed => '0');
DELETE FROM group_ends WHERE how !~ '^SELECT jobq_(complete|fail|release|tick)';
SELECT count(*) FROM generate_series(1, 2) i, group_ends, LATERAL jobq_enqueue('ends', to_jsonb(i), group_key => how, max_attempts => 1);
SELECT pg_temp.tick();
UPDATE group_ends e SET id = c.id, lease = c.lease
FROM jobq_claim('ends', 'w', batch => 100, heartbeat_timeout => '1 hour') c JOIN jobq.jobs j USING (id) WHERE j.group_key = e.how;
SELECT how, pg_temp.followed(e) FROM group_ends e ORDER BY n;
SELECT jobq_drop_queue('ends', force => true);
DROP FUNCTION pg_temp.followed;
DROP TABLE group_ends;

-- A dead letter has left its group. When it is redriven, it enters the line again.
SELECT jobq_create_queue('shop', dead_letter_queue => 'shop dead');
SELECT jobq_enqueue('shop', to_jsonb('s' || n), group_key => 's', max_attempts => 1) > 0 AS enqueued FROM generate_series(1, 3) n;
SELECT pg_temp.tick();
SELECT jobq_fail(id, lease) FROM jobq_claim('shop');
SELECT pg_temp.tick();
SELECT pg_temp.shown('shop'), pg_temp.shown('shop dead');
BEGIN;
SELECT jobq_redrive('shop dead');
SELECT pg_temp.shown('shop');
COMMIT;
SELECT pg_temp.tick();
SELECT pg_temp.shown('shop');
SELECT jobq_complete(id, lease) FROM jobq_claim('shop');
SELECT pg_temp.tick();
SELECT pg_temp.shown('shop');

-- The head of a group is the job with the lowest ID, even if it is scheduled for later. The other jobs wait for it.
SELECT jobq_enqueue('later', '"l1"', group_key => 'l', run_at => now() + interval '1 hour') > 0 AS enqueued;
SELECT jobq_enqueue('later', '"l2"', group_key => 'l', priority => -5) > 0 AS enqueued;
SELECT pg_temp.tick();
SELECT pg_temp.shown('later');
SELECT count(*) FROM tick_alone(now() + interval '2 hours');
SELECT pg_temp.shown('later');
-- Waiting jobs can be canceled.
SELECT count(*) FROM jobq_enqueue_many('later', '{"\"l3\"","\"l4\""}', group_keys => '{l,l}');
SELECT jobq_cancel(pg_temp.id('later', 'l2')), jobq_cancel(pg_temp.id('later', 'l1'));
SELECT pg_temp.tick();
SELECT pg_temp.shown('later');
-- A finished job that is retried enters the line. It comes next, because its ID is lower.
BEGIN;
SELECT jobq_retry(pg_temp.id('later', 'l1'));
SELECT pg_temp.shown('later');
COMMIT;
SELECT jobq_complete(id, lease) FROM jobq_claim('later');
SELECT pg_temp.tick();
SELECT pg_temp.shown('later');

-- With a unique key, a waiting job can be replaced and keeps its place.
BEGIN;
SELECT jobq_enqueue('both', '"u1"', unique_key => 'u1', group_key => 'u') AS u1 \gset
SELECT job_id = :u1 AS existing, is_new FROM jobq_enqueue_many('both', '{"\"u1\"","\"u2\""}', unique_keys => '{u1,u2}', group_keys => '{u,u}');
SELECT jobq_enqueue('both', '"changed"', unique_key => 'u2', on_conflict => 'replace') > :u1 AS replaced;
SELECT pg_temp.shown('both');
COMMIT;
SELECT pg_temp.tick();
SELECT jobq_enqueue('both', '"too"', unique_key => 'u1', on_conflict => 'replace') = :u1 AS replaced;
SELECT pg_temp.shown('both');

-- In a paused queue, a job can become the head, but cannot be claimed.
SELECT jobq_pause_queue('both');
SELECT jobq_cancel(:u1);
SELECT pg_temp.tick();
SELECT pg_temp.shown('both');
SELECT count(*) FROM jobq_claim('both');
SELECT jobq_resume_queue('both');
SELECT payload FROM jobq_claim('both');

-- max_depth includes blocked jobs.
SELECT jobq_create_queue('narrow', max_depth => 3);
SELECT count(*) FROM jobq_enqueue_many('narrow', '{1,2,3}', group_keys => '{n,n,n}');
SELECT jobq_enqueue('narrow', group_key => 'n');
SELECT pg_temp.tick();
SELECT jobq_enqueue('narrow', group_key => 'n');
-- Only pending jobs are dropped, so the dropped job is always the head of a group.
SELECT jobq_alter_queue('narrow', on_full => 'drop_oldest');
SELECT jobq_enqueue('narrow', '4', group_key => 'n') > 0 AS enqueued;
SELECT pg_temp.tick();
SELECT pg_temp.shown('narrow');

-- With plain SQL: a job of a group waits in its line, whatever status it is given. It cannot be made to run.
INSERT INTO jobq.jobs (queue, payload, group_key) VALUES ('hand', '"h1"', 'h'), ('hand', '"h2"', 'h');
INSERT INTO jobq.jobs (queue, payload, group_key, status) VALUES ('hand', '"h3"', 'h', 'pending'), ('hand', '"h4"', 'h', 'completed');
INSERT INTO jobq.jobs (queue, payload, group_key, status) VALUES ('hand', '"h5"', 'h', 'processing');
INSERT INTO jobq.jobs (queue, payload, group_key) VALUES ('hand', '"h5"', '');
SELECT pg_temp.tick();
SELECT pg_temp.shown('hand');
UPDATE jobq.jobs SET status = 'processing' WHERE queue = 'hand' AND status = 'blocked';
BEGIN;
UPDATE jobq.jobs SET status = 'pending' WHERE queue = 'hand';
SELECT pg_temp.shown('hand');
COMMIT;
-- Computed columns cannot be set.
UPDATE jobq.jobs SET _group_active = _group_waiting, _group_waiting = NULL WHERE queue = 'hand';
SELECT pg_temp.shown('hand');
-- A job moves to another group, or leaves its group.
UPDATE jobq.jobs SET group_key = CASE WHEN payload = '"h2"' THEN 'k' END WHERE queue = 'hand' AND payload IN ('"h2"', '"h3"');
SELECT pg_temp.tick();
SELECT pg_temp.shown('hand');
-- If the head is blocked, it returns to the line, and the job with the lowest ID becomes the head, which is the same job here.
-- The head can also move to another group.
UPDATE jobq.jobs SET status = 'blocked' WHERE queue = 'hand' AND payload = '"h1"';
SELECT pg_temp.tick();
SELECT pg_temp.shown('hand');
UPDATE jobq.jobs SET group_key = 'k' WHERE queue = 'hand' AND payload = '"h1"';
SELECT pg_temp.tick();
SELECT pg_temp.shown('hand');
-- The group of a running job does not change.
SELECT count(*) FROM jobq_claim('hand', batch => 10, heartbeat_timeout => '1 hour');
UPDATE jobq.jobs SET group_key = 'k2' WHERE queue = 'hand' AND payload = '"h2"';
UPDATE jobq.jobs SET priority = 3 WHERE queue = 'hand' AND payload = '"h2"';
SELECT pg_temp.shown('hand');
DELETE FROM jobq.jobs WHERE queue = 'hand' AND payload = '"h2"';
SELECT pg_temp.tick();
SELECT pg_temp.shown('hand');
-- A job has the number of its group.
SELECT (SELECT _group_active FROM jobq.jobs WHERE queue = 'hand' AND payload = '"h1"') = jobq.group_of('hand', 'k') AS ours;

-- Purged and dropped queues.
SELECT jobq_purge_queue('hand', statuses => '{pending,blocked}');
SELECT pg_temp.shown('hand');
SELECT jobq_drop_queue(queue, force => true) FROM unnest('{g,"g 2",shop,"shop dead",later,both,narrow,hand}'::text[]) AS queue;
SELECT count(*) FROM jobq.jobs WHERE group_key IS NOT NULL;
