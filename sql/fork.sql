-- A fork is a new job with the attributes of an existing job and the results of its steps, so that it does not repeat them.
SET client_min_messages = warning;
SELECT jobq_create_queue('films', heartbeat_timeout => '1 hour', dead_letter_queue => 'lost films') AS created;
SELECT jobq_enqueue('films', '{"film": 7}', kind => 'encode', priority => 3, max_attempts => 4, unique_key => 'film 7', concurrency_key => 'studio',
                    group_key => 'g', metadata => '{"customer": 9}', unique_for => '1 day',
                    options => '{"version": 2, "requires": ["gpu"], "heartbeat_timeout": "2 hours", "max_runtime": "3 hours"}') AS film \gset
SELECT settle();
SELECT lease FROM jobq_claim('films', versions => '{2}', capabilities => '{gpu}') \gset
SELECT state FROM jobq_step_done(:film, :lease, 'fetch', '"file 1"');
SELECT state, cardinality(job_ids) AS children FROM jobq_spawn(:film, :lease, 'split', '[{"queue": "film parts"}]');
SELECT state FROM jobq_step_done(:film, :lease, 'encode', '"file 2"');
SELECT jobq_sleep(:film, :lease, 'nap', '1 day');

-- The fork runs now. It has the results of the steps, but not the wait that has not ended. It has no unique key, no children, and
-- no attempts. It waits for its turn in the group of the job.
SELECT jobq_fork(:film) AS fork \gset
SELECT :fork > :film AS is_new;
SELECT queue, kind, payload, priority, status, attempts, max_attempts, unique_key, unique_for, concurrency_key, group_key,
       metadata - 'forked_from' AS metadata, (metadata ->> 'forked_from')::bigint = :film AS has_origin, version, requires,
       heartbeat_timeout, max_runtime, run_at <= now() + interval '1 minute' AS runs_now, _steps FROM jobq.jobs WHERE id = :fork \gx
SELECT name, kind, state, number, result IS NOT NULL AS has_result FROM jobq.steps WHERE job_id = :fork ORDER BY number;
SELECT count(*) AS children FROM jobq.edges WHERE job_id = :fork;
-- The job itself is not changed.
SELECT status, unique_key, _steps FROM jobq.jobs WHERE id = :film;
SELECT jobq_cancel(:film);
SELECT settle();
SELECT lease AS fork_lease FROM jobq_claim('films', versions => '{2}', capabilities => '{gpu}') \gset
SELECT state, result FROM jobq_step(:fork, :fork_lease, 'encode');
SELECT state FROM jobq_step_done(:fork, :fork_lease, 'upload', '1');
SELECT name, number FROM jobq.steps WHERE job_id = :fork ORDER BY number;

-- With a step, the fork runs this step and all later steps.
SELECT jobq_fork(:film, 'encode') AS fork2 \gset
SELECT name, state FROM jobq.steps WHERE job_id = :fork2 ORDER BY number;
SELECT jobq_fork(:film, step => 'fetch') AS fork3 \gset
SELECT _steps, (SELECT count(*) FROM jobq.steps WHERE job_id = :fork3) AS steps FROM jobq.jobs WHERE id = :fork3;
-- Metadata that are not an object stay as they are.
SELECT jobq_enqueue('films', metadata => '[1]') AS listed \gset
SELECT jobq_fork(:listed) AS fork4 \gset
SELECT metadata FROM jobq.jobs WHERE id = :fork4;
-- A step that the job does not have is an error, and nothing is enqueued.
SELECT count(*) AS before FROM jobq.jobs WHERE queue = 'films' \gset
\set VERBOSITY sqlstate
SELECT jobq_fork(:film, 'encod');
SELECT jobq_fork(:film, '');
SELECT jobq_fork(:film, repeat('x', 300));
SELECT jobq_fork(NULL);
\set VERBOSITY default
SELECT count(*) = :before AS nothing_enqueued FROM jobq.jobs WHERE queue = 'films';
SELECT jobq_fork(-1) IS NULL AS unknown;

-- A fork of a dead letter goes to the queue from which the dead letter came.
SELECT jobq_fail(:fork, :fork_lease, 'disk full', retry => false);
SELECT queue FROM jobq.jobs WHERE id = :fork;
SELECT jobq_fork(:fork, 'upload') AS fork4 \gset
SELECT queue, dead_from, status, error FROM jobq.jobs WHERE id = :fork4;
-- A fork counts as a new job of a full queue, and it never drops the job that it copies.
SELECT jobq_create_queue('few films', max_depth => 1, on_full => 'drop_oldest') AS created;
SELECT jobq_enqueue('few films') AS few \gset
\set VERBOSITY sqlstate
SELECT jobq_fork(:few);
\set VERBOSITY default
SELECT status FROM jobq.jobs WHERE queue = 'few films';
-- A copy that has not begun to run can be dropped like a new job, even if it has the results of steps. A job that has run its steps is
-- not dropped.
SELECT jobq_create_queue('full films', max_depth => 1, on_full => 'drop_oldest') AS created;
SELECT jobq_enqueue('full films', kind => 'first') AS first \gset
SELECT lease FROM jobq_claim('full films') \gset
SELECT state FROM jobq_step(:first, :lease, 'fetch');
SELECT state FROM jobq_step_done(:first, :lease, 'fetch', '1');
SELECT jobq_fork(:first) AS copy \gset
SELECT jobq_enqueue('full films', kind => 'new') > 0 AS enqueued;
SELECT status, error FROM jobq.jobs WHERE id = :copy;
SELECT jobq_cancel_jobs('full films', kind => 'new');
SELECT jobq_release(:first, :lease);
\set VERBOSITY sqlstate
SELECT jobq_enqueue('full films', kind => 'new') > 0 AS enqueued;
\set VERBOSITY default

SELECT jobq_drop_queue(q, force => true) FROM unnest('{films,lost films,film parts,few films,full films}'::text[]) q;
