-- Explains why a job does not run, and why a queue is stuck. test/process/explain.pl tests what only a preloaded library knows
-- (which kinds workers have claimed, rates), and how a missing background worker is reported.
\set VERBOSITY terse
-- IDs are relative to the first job of this file.
SELECT set_config('explain.before', (SELECT nextval(pg_get_serial_sequence('jobq.jobs', 'id')))::text, false) IS NULL AS none;
-- Removes the IDs, and what a preloaded library adds about the claims of workers.
CREATE FUNCTION pg_temp.lasting(detail text) RETURNS text LANGUAGE sql AS $$
    SELECT regexp_replace(regexp_replace(detail, '^job \d+', 'job N'), '; (a worker last|no worker has) asked for .*', '') $$;
CREATE FUNCTION pg_temp.explain(job bigint) RETURNS TABLE (reason text, detail text, jobs bigint[], pids boolean, until boolean) LANGUAGE sql AS $$
    SELECT e.reason, pg_temp.lasting(e.detail), ARRAY(SELECT j - current_setting('explain.before')::bigint FROM unnest(e.jobs) j), e.pids IS NOT NULL, e.until IS NOT NULL
    FROM jobq_explain(job + current_setting('explain.before')::bigint) e WHERE e.reason NOT IN ('unasked', 'unserved') $$;
CREATE FUNCTION pg_temp.explain(queue text) RETURNS TABLE (reason text, detail text, jobs bigint[], pids boolean, until boolean) LANGUAGE sql AS $$
    SELECT e.reason, pg_temp.lasting(e.detail), ARRAY(SELECT j - current_setting('explain.before')::bigint FROM unnest(e.jobs) j), e.pids IS NOT NULL, e.until IS NOT NULL
    FROM jobq_explain_queue(queue) e WHERE e.reason NOT IN ('unasked', 'unserved') $$;

-- Nothing to explain, and wrong arguments.
SELECT * FROM jobq_explain(4711);
SELECT * FROM pg_temp.explain('never heard of');
SELECT jobq_explain(NULL);
SELECT jobq_explain_queue(NULL);
SELECT jobq_explain_queue('');

-- Claimable jobs, and jobs that come after others. The claims, which find no jobs, show that workers serve these queues.
SELECT count(*) FROM unnest('{why,why narrow,why line}'::text[]) q, jobq_claim(q);
SELECT count(jobq_enqueue('why', priority => n)) FROM generate_series(1, 3) n;
SELECT * FROM pg_temp.explain(1);
SELECT * FROM pg_temp.explain(3);
SELECT * FROM pg_temp.explain('why');
SELECT jobq_alter_queue('why', round_robin => true);
SELECT detail FROM pg_temp.explain(2);
SELECT jobq_alter_queue('why', round_robin => false, priority_ageing => '1 minute');
SELECT detail FROM pg_temp.explain(2);

-- A paused queue.
SELECT jobq_pause_queue('why');
SELECT * FROM pg_temp.explain(1);
SELECT * FROM pg_temp.explain('why');
SELECT jobq_resume_queue('why');

-- A running job, before and after a request to cancel it.
SELECT count(id) FROM jobq_claim('why', 'w1', heartbeat_timeout => '1 hour');
SELECT * FROM pg_temp.explain(1);
SELECT jobq_cancel(current_setting('explain.before')::bigint + 1);
SELECT * FROM pg_temp.explain(1);

-- Limits of the queue and of a key. The running jobs are listed.
SELECT jobq_set_limit('why', max_running => 1);
SELECT * FROM pg_temp.explain(2);
SELECT * FROM pg_temp.explain('why');
SELECT jobq_set_limit('why'), jobq_set_limit('why', '*', max_running => 1);
SELECT count(jobq_enqueue('why', concurrency_key => 'customer 1', priority => 9)) FROM generate_series(1, 2);
SELECT count(id) FROM jobq_claim('why', 'w2', 9, heartbeat_timeout => '1 hour');
SELECT * FROM pg_temp.explain(5);
SELECT * FROM pg_temp.explain('why');

-- A job that was blocked with plain SQL.
UPDATE jobq.jobs SET status = 'blocked' WHERE id = current_setting('explain.before')::bigint + 5;
SELECT * FROM pg_temp.explain(5);

-- A scheduled job, and a job that waits for a retry.
SELECT count(jobq_enqueue('why later', run_at => now() + interval '1 day'));
SELECT * FROM pg_temp.explain(6);
SELECT count(jobq_enqueue('why later', kind => 'again'));
SELECT jobq_fail(c.id, c.lease, 'no route', retry_in => '1 hour') FROM jobq_claim('why later') c;
SELECT * FROM pg_temp.explain(7);
SELECT * FROM pg_temp.explain('why later');

-- Jobs that are blocked by dependencies or by their group. The tick makes the first job of the group its head.
SELECT count(jobq_enqueue('why line', group_key => 'g')) FROM generate_series(1, 3);
SELECT count(jobq_enqueue('why line', depends_on => ARRAY[id - 2, id])) FROM (SELECT max(id) AS id FROM jobq.jobs) j;
SELECT count(*) FROM jobq_tick() WHERE done < 0;
SELECT * FROM pg_temp.explain(9);
SELECT * FROM pg_temp.explain(10);
SELECT * FROM pg_temp.explain(11);
SELECT reason, detail FROM pg_temp.explain('why line') ORDER BY reason;

-- Finished jobs and dead letters.
SELECT jobq_cancel(max(id)) FROM jobq.jobs;
SELECT * FROM pg_temp.explain(11);
SELECT jobq_create_queue('why brittle', dead_letter_queue => 'why brittle dead');
SELECT count(jobq_enqueue('why brittle'));
SELECT jobq_fail(c.id, c.lease, 'broken', retry => false) FROM jobq_claim('why brittle') c;
SELECT * FROM pg_temp.explain(12);
SELECT * FROM pg_temp.explain('why brittle');
SELECT count(jobq_enqueue('why done'));
SELECT jobq_complete(c.id, c.lease) FROM jobq_claim('why done') c;
SELECT * FROM pg_temp.explain(13);

-- A full queue.
SELECT jobq_create_queue('why narrow', max_depth => 2);
SELECT count(jobq_enqueue('why narrow')) FROM generate_series(1, 2);
SELECT * FROM pg_temp.explain('why narrow');

-- Jobs that were lost together are claimed one at a time, and a worker that holds one of them gets no other.
SELECT count(*) FROM jobq_claim('why lost');
SELECT count(jobq_enqueue('why lost')) FROM generate_series(1, 3);
SELECT count(*) FROM jobq_claim('why lost', 'w', 3, heartbeat_timeout => '1 hour');
SELECT sum(done) > 2 AS rescued FROM tick_alone(now() + interval '61 minutes') WHERE duty = 'rescue';
SELECT * FROM pg_temp.explain(16);
SELECT * FROM pg_temp.explain('why lost');
SELECT count(*) FROM jobq_claim('why lost', 'w', 3, heartbeat_timeout => '1 hour');
SELECT * FROM pg_temp.explain(17);
SELECT * FROM pg_temp.explain('why lost');
-- A job after them in the queue can be claimed.
SELECT count(jobq_enqueue('why lost'));
SELECT reason FROM pg_temp.explain(19);
SELECT reason, detail FROM pg_temp.explain('why lost');
-- An error that every claim would raise.
SET jobq.access = direct;
CREATE RULE nothing AS ON UPDATE TO jobq.jobs WHERE NEW.queue = 'nobody''s' DO ALSO SELECT 1;
SELECT reason, detail FROM pg_temp.explain(19);
SELECT reason, detail FROM pg_temp.explain('why lost') WHERE reason IN ('refused', 'claimable');
DROP RULE nothing ON jobq.jobs;
RESET jobq.access;
SELECT count(jobq_complete(id, lease)) FROM jobq.jobs WHERE queue = 'why lost' AND status = 'processing';
SELECT * FROM pg_temp.explain(17);
-- A key whose limit is 0.
SELECT count(jobq_enqueue('why none', concurrency_key => 'customer 2')), count(jobq_set_limit('why none', '*', max_running => 0));
SELECT count(*) FROM jobq_claim('why none');
SELECT reason, detail FROM pg_temp.explain('why none') WHERE reason <> 'unasked';

-- More full keys than are listed: no job is claimable. Then a job with another key is claimable, and then also a job without a
-- key.
SELECT count(*) FROM jobq_claim('why keys');
SELECT count(jobq_set_limit('why keys', '*', max_running => 1));
SELECT count(jobq_enqueue('why keys', concurrency_key => 'customer ' || lpad(n::text, 3, '0'))) FROM generate_series(1, 60) n, generate_series(1, 2);
SELECT count(*) FROM jobq_claim('why keys', 'w', 100, heartbeat_timeout => '1 hour');
CREATE FUNCTION pg_temp.explain_keys() RETURNS TABLE (reasons bigint, reason text, detail text) LANGUAGE sql AS $$
    SELECT count(*), e.reason, regexp_replace(e.detail, '^concurrency_key "customer \d+"', 'concurrency_key N')
    FROM pg_temp.explain('why keys') e GROUP BY 2, 3 ORDER BY 2, 3 $$;
SELECT * FROM pg_temp.explain_keys();
SELECT count(jobq_enqueue('why keys', concurrency_key => 'late customer'));
SELECT * FROM pg_temp.explain_keys();
SELECT count(jobq_enqueue('why keys', priority => 9));
SELECT * FROM pg_temp.explain_keys();
-- More keys than are checked, or more jobs than are checked, the last of which has no key.
SELECT count(*) FROM unnest('{why checked keys,why checked jobs}'::text[]) q, jobq_claim(q);
SELECT count(jobq_enqueue('why checked keys', concurrency_key => 'customer ' || n)) FROM generate_series(1, 1001) n;
SELECT count(jobq_enqueue('why checked jobs', concurrency_key => 'customer 1')) FROM generate_series(1, 10001) n;
SELECT count(jobq_enqueue('why checked jobs', priority => 9));
SELECT count(jobq_set_limit(q, '*', max_running => 0)) FROM unnest('{why checked keys,why checked jobs}'::text[]) q;
SELECT count(*), reason, regexp_replace(detail, '^concurrency_key "customer \d+"', 'concurrency_key N') AS detail
FROM unnest('{why checked keys,why checked jobs}'::text[]) q, pg_temp.explain(q) GROUP BY q, 2, 3 ORDER BY q DESC, 3;
SELECT count(jobq_set_limit(q, '*')) FROM unnest('{why keys,why checked keys,why checked jobs}'::text[]) q;

-- A chain of five waits: a dependency, an awaited job, a dependency, the head of a group, and a running job that the head awaits.
SELECT count(*) FROM jobq_claim('why chain');
CREATE FUNCTION pg_temp.await(job bigint, awaited bigint) RETURNS text LANGUAGE sql AS $$
    SELECT a.state FROM jobq_claim('why chain', 'w', heartbeat_timeout => '1 hour') c, jobq_await_jobs(c.id, c.lease, ARRAY[awaited], 'wait') a WHERE c.id = job $$;
SELECT jobq_enqueue('why chain') AS root \gset
SELECT count(*) FROM jobq_claim('why chain', 'w', heartbeat_timeout => '1 hour');
SELECT jobq_enqueue('why chain', group_key => 'chain') AS head \gset
SELECT settle();
SELECT pg_temp.await(:head, :root);
SELECT jobq_enqueue('why chain', group_key => 'chain') AS next \gset
SELECT jobq_enqueue('why chain', depends_on => ARRAY[:next]) AS dependent \gset
SELECT jobq_enqueue('why chain') AS flow \gset
SELECT pg_temp.await(:flow, :dependent);
SELECT jobq_enqueue('why chain', depends_on => ARRAY[:flow]) AS last \gset
SELECT string_agg(reason, ',') AS reasons FROM jobq_explain(:last);
SELECT regexp_replace(detail, ' \d+ ', ' N ') AS detail, jobs = ARRAY[:root]::bigint[] AS names_root FROM jobq_explain(:last) WHERE reason = 'chain';
SELECT detail IS NOT NULL AS says FROM jobq_explain(:head) WHERE reason = 'chain';
-- A chain with several roots, one of which is scheduled.
SELECT jobq_enqueue('why chain', run_at => now() + interval '1 day') AS later \gset
SELECT jobq_enqueue('why chain', depends_on => ARRAY[:later, :last]) AS last \gset
SELECT regexp_replace(detail, ' \d+ ', ' N ', 'g') AS detail, jobs = ARRAY[:later, :root]::bigint[] AS names_roots FROM jobq_explain(:last) WHERE reason = 'chain';
-- A cycle, which only plain SQL without triggers can create.
BEGIN;
UPDATE jobq.jobs SET status = 'blocked' WHERE id = :root;
SET LOCAL session_replication_role = replica;
INSERT INTO jobq.edges (job_id, kind, target, on_failure) VALUES (:root, 'awaits', :flow, NULL);
SET LOCAL session_replication_role = origin;
SELECT detail, jobs FROM jobq_explain(:flow) WHERE reason = 'chain';
ROLLBACK;
-- A chain that is too long.
SELECT jobq_enqueue('why chain', run_at => now() + interval '1 day') AS first \gset
DO $$
DECLARE
    last bigint := (SELECT max(id) FROM jobq.jobs);
BEGIN
    FOR i IN 1 .. 1001 LOOP
        last := jobq_enqueue('why chain', depends_on => ARRAY[last]);
    END LOOP;
END $$;
SELECT detail = format('the chain continues with job %s; only 1000 jobs of the chain were checked', :first + 1) AS says, jobs = ARRAY[:first + 1]::bigint[] AS names_next
FROM jobq_explain((SELECT max(id) FROM jobq.jobs)) WHERE reason = 'chain';
SELECT detail = format('the chain of waits begins at job %s (scheduled)', :first) AS says
FROM jobq_explain((SELECT max(id) - 2 FROM jobq.jobs)) WHERE reason = 'chain';
SELECT jobq_drop_queue('why chain', force => true);

SELECT count(jobq_set_limit('why', '*')), count(jobq_drop_queue(q.queue, force => true)) FROM (SELECT queue FROM jobq.queues WHERE queue LIKE 'why%' ORDER BY queue DESC) q;
