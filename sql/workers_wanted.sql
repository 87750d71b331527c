-- jobq_workers_wanted: how many workers an autoscaler should run for a queue. Each call here says how long a job runs, because the
-- running times that jobq measures differ from run to run.
\set VERBOSITY default
\set SHOW_CONTEXT never

-- A queue without jobs needs no worker, even if it has never been used.
SELECT jobq_workers_wanted('nowhere');

-- 100 jobs of 3 s each start within 30 s if 10 workers run them, or within 10 s if 30 workers run them. A worker that runs 4 jobs at a
-- time counts as 4.
SELECT count(jobq_enqueue('scaled')) FROM generate_series(1, 100);
SELECT jobq_workers_wanted('scaled', duration => '3 s') AS in_30_s,
       jobq_workers_wanted('scaled', '10 s', duration => '3 s') AS in_10_s,
       jobq_workers_wanted('scaled', slots => 4, duration => '3 s') AS four_slots;
-- There are never more workers than jobs, however long the jobs run. Until jobq has measured a job, it assumes that a job runs as long
-- as another job may wait.
SELECT jobq_workers_wanted('scaled', duration => '1 day') AS long_jobs, jobq_workers_wanted('scaled') AS unknown_jobs;
-- When jobs have ended, the mean running time counts (if jobq is preloaded; otherwise, jobq measures nothing).
SELECT count(jobq_enqueue('measured')) FROM generate_series(1, 101);
SELECT jobq_complete(id, lease) FROM jobq_claim('measured', 'w', 1, heartbeat_timeout => '1 hour');
SELECT jobq_workers_wanted('measured', '1 day') = CASE WHEN current_setting('shared_preload_libraries') ~ 'jobq' THEN 1 ELSE 100 END AS measured;
-- Even the shortest job needs a worker.
SELECT jobq_workers_wanted('scaled', duration => '1 us');
-- Jobs that are delayed or blocked need no worker yet. In a group, only the first job counts.
SELECT jobq_enqueue('later', run_at => now() + interval '1 hour') AS delayed \gset
SELECT count(jobq_enqueue('later', depends_on => ARRAY[:delayed])) AS blocked FROM generate_series(1, 5);
SELECT jobq_workers_wanted('later', duration => '1 hour');
SELECT count(jobq_enqueue('grouped', group_key => 'g' || n % 3)) FROM generate_series(1, 30) n;
SELECT settle();
SELECT jobq_workers_wanted('grouped', duration => '1 hour') AS groups;

-- A running job keeps its worker, in a paused queue too. A paused queue needs no other workers.
SELECT count(*) FROM jobq_claim('scaled', 'w', 2, heartbeat_timeout => '1 hour');
SELECT jobq_workers_wanted('scaled', duration => '3 s');
SELECT jobq_pause_queue('scaled'), jobq_workers_wanted('scaled', duration => '3 s') AS running;
SELECT jobq_pause_queue('later'), jobq_enqueue('later') > 0 AS enqueued, jobq_workers_wanted('later') AS none;
SELECT jobq_resume_queue('scaled'), jobq_workers_wanted('scaled', duration => '3 s');
-- If a job has waited longer than the target, although the running times promise that a slot becomes free, one more worker is wanted.
SELECT count(jobq_enqueue('stuck')) FROM generate_series(1, 2);
SELECT count(*) FROM jobq_claim('stuck', 'w', 1, heartbeat_timeout => '1 hour');
SELECT jobq_workers_wanted('stuck', '1 hour', duration => '1 s') AS busy;
UPDATE jobq.jobs SET run_at = run_at - interval '2 hours' WHERE queue = 'stuck' AND status = 'pending';
SELECT jobq_workers_wanted('stuck', '1 hour', duration => '1 s') AS one_more;

-- Workers that limits would keep idle are not wanted. These are the limit of a queue, ...
SELECT jobq_set_limit('scaled', max_running => 7);
SELECT jobq_workers_wanted('scaled', duration => '3 s');
SELECT jobq_set_limit('scaled', max_running => 0);
SELECT jobq_workers_wanted('scaled', duration => '3 s') AS running;
SELECT jobq_set_limit('scaled');
-- ... of keys (customer "a" runs up to 3 jobs, and every other customer 1; jobs without a key have no limit), ...
SELECT jobq_set_limit('keyed', 'a', max_running => 3), jobq_set_limit('keyed', '*', max_running => 1);
SELECT count(jobq_enqueue('keyed', concurrency_key => key)) FROM unnest('{a,b,c}'::text[]) key, generate_series(1, 20);
SELECT jobq_workers_wanted('keyed', duration => '1 hour') AS keys;
SELECT count(*) FROM jobq_claim('keyed', 'w', 2, heartbeat_timeout => '1 hour');
SELECT jobq_workers_wanted('keyed', duration => '1 hour') AS still;
SELECT count(jobq_enqueue('keyed')) FROM generate_series(1, 4);
SELECT jobq_workers_wanted('keyed', duration => '1 hour') AS with_jobs_without_a_key;
-- ... of kinds, and named limits, which count the jobs of other queues, too.
SELECT jobq_set_limit('kinds', kind => 'video', max_running => 2);
SELECT jobq_set_named_limit('api', '{kinds,others}', max_running => 5);
SELECT count(jobq_enqueue('kinds', kind => 'video')) FROM generate_series(1, 10);
SELECT count(jobq_enqueue('kinds', kind => 'call', options => '{"limits": ["api"]}')) FROM generate_series(1, 10);
SELECT jobq_workers_wanted('kinds', duration => '1 hour') AS kinds;
SELECT count(jobq_enqueue('others', options => '{"limits": ["api"]}')) FROM generate_series(1, 4);
SELECT count(*) FROM jobq_claim('others', 'w', 4, heartbeat_timeout => '1 hour');
SELECT jobq_workers_wanted('kinds', duration => '1 hour') AS kinds;

-- If so many lanes have claimable jobs that jobq does not look at all of them, at least one worker is wanted, even if the jobs that jobq
-- has found cannot start.
SELECT count(jobq_set_limit('many', kind => 'k' || n, max_running => 0)), count(jobq_enqueue('many', kind => 'k' || n)) FROM generate_series(1, 150) n;
SELECT jobq_workers_wanted('many') AS unknown;
SELECT jobq_purge_queue('many', max_jobs => 1000) AS purged;
SELECT count(jobq_enqueue('many', kind => 'k' || n)) FROM generate_series(1, 99) n;
SELECT jobq_workers_wanted('many') AS none;
-- Jobs with a handler run inside the server, so they need no worker.
CREATE FUNCTION scaled_handler(job jsonb) RETURNS void LANGUAGE sql AS '';
CREATE ROLE scaled_handlers LOGIN;
SELECT jobq_set_handler('kinds', 'video', 'scaled_handler(jsonb)', run_as => 'scaled_handlers');
SELECT jobq_workers_wanted('kinds', duration => '1 hour') AS kinds;
SELECT jobq_drop_handler('kinds', 'video');
DROP FUNCTION scaled_handler;
DROP ROLE scaled_handlers;

-- A wrong argument raises an error.
SELECT jobq_workers_wanted(NULL);
SELECT jobq_workers_wanted('scaled', '0 s');
SELECT jobq_workers_wanted('scaled', NULL);
SELECT jobq_workers_wanted('scaled', slots => 0);
SELECT jobq_workers_wanted('scaled', slots => NULL);
SELECT jobq_workers_wanted('scaled', duration => '-1 s');

-- The call reads a limited number of rows, however many jobs wait, and however many have finished.
BEGIN;
SELECT count(jobq_enqueue('keyed', concurrency_key => 'k' || n % 5)) FROM generate_series(1, 20000) n;
CREATE FUNCTION pg_temp.blocks() RETURNS numeric LANGUAGE sql AS $$
    SELECT sum(pg_stat_get_xact_blocks_fetched(c.oid)) FROM pg_class c
    WHERE c.relnamespace = 'jobq'::regnamespace AND c.relkind IN ('r', 'i') $$;
SELECT pg_temp.blocks() AS before \gset
SELECT jobq_workers_wanted('keyed', duration => '1 hour');
SELECT pg_temp.blocks() - :before < 5000 AS few;
ROLLBACK;

SELECT count(*) > 0 AS gone FROM jobq_purge_queue('scaled', max_jobs => 1000), jobq_drop_named_limit('api');
