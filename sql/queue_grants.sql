-- Grants for some queues: what a producer, a worker, and an operator of one queue can do in this queue and in another one.
SET client_min_messages = error;
CREATE ROLE regress_jobq_all;
CREATE ROLE regress_jobq_producer;
CREATE ROLE regress_jobq_worker;
CREATE ROLE regress_jobq_operator;
SELECT jobq_grant('regress_jobq_all', kind) FROM unnest('{producer,worker,operator}'::text[]) kind \g /dev/null
SELECT jobq_grant('regress_jobq_' || kind, kind, queues => '{grants mine}') FROM unnest('{producer,worker,operator}'::text[]) kind \g /dev/null
SELECT * FROM jobq.queue_grants ORDER BY role::text;

-- Roles and a function that can be used for handlers.
CREATE FUNCTION handles(job jsonb) RETURNS void LANGUAGE sql AS '';
ALTER ROLE regress_jobq_all LOGIN;
ALTER ROLE regress_jobq_operator LOGIN;

-- The same jobs in both queues. A worker whose name is that of the queue has claimed them.
CREATE TABLE target (name text PRIMARY KEY, queue text, worker text, done bigint, failed bigint, letter bigint, running bigint, lease bigint, waiting bigint, dependent bigint);
INSERT INTO target VALUES ('unknown', 'grants of nobody', 'nobody', 9000000000000001, 9000000000000002, 9000000000000003, 9000000000000004, 5, 9000000000000006, 9000000000000007);
DO $$
DECLARE
    q text;
    t target;
BEGIN
    PERFORM jobq_create_queue('grants letters');
    FOREACH q IN ARRAY '{grants mine,grants theirs}'::text[] LOOP
        t.queue := q;
        t.name := split_part(q, ' ', 2);
        t.worker := 'worker of ' || q;
        PERFORM jobq_create_queue(q, heartbeat_timeout => '1 day');
        t.done := jobq_enqueue(q, kind => 'done');
        PERFORM jobq_complete(c.id, c.lease, '{"secret": 1}') FROM jobq_claim(q) c;
        t.failed := jobq_enqueue(q, kind => 'failed');
        PERFORM jobq_fail(c.id, c.lease, 'secret', retry => false) FROM jobq_claim(q) c;
        t.letter := jobq_enqueue(q, kind => 'letter');
        PERFORM jobq_alter_queue(q, dead_letter_queue => 'grants letters');
        PERFORM jobq_fail(c.id, c.lease, 'secret', retry => false) FROM jobq_claim(q) c;
        PERFORM jobq_alter_queue(q, dead_letter_queue => '');
        t.running := jobq_enqueue(q, kind => 'running');
        SELECT c.lease INTO t.lease FROM jobq_claim(q, t.worker) c;
        t.waiting := jobq_enqueue(q, kind => 'waiting');
        t.dependent := jobq_enqueue(q, kind => 'dependent', depends_on => ARRAY[t.running]);
        PERFORM jobq_schedule('of ' || q, '@yearly', q);
        PERFORM jobq_set_handler(q, 'handled', 'handles(jsonb)', 'regress_jobq_operator');
        INSERT INTO target SELECT t.*;
    END LOOP;
END $$;

-- A batch for each queue, created by the producer of this queue or by the owner.
CREATE TABLE batch (queue text PRIMARY KEY, id bigint);
GRANT SELECT ON batch TO PUBLIC;
INSERT INTO batch SELECT q, jobq_create_batch(q) FROM unnest('{grants mine, grants theirs}'::text[]) q;
UPDATE jobq.batch_settings SET created_by = 'regress_jobq_producer' WHERE name = 'grants mine';
SELECT jobq_set_named_limit('of ' || q, ARRAY[q], max_running => 1000) FROM unnest('{grants mine, grants theirs}'::text[]) q;

-- All data of the other queue. The column that the rescue changes in running jobs is left out.
CREATE FUNCTION theirs() RETURNS text LANGUAGE sql AS $$
    SELECT md5(concat((SELECT string_agg((to_jsonb(j) - '_rescue_indexed')::text, ',' ORDER BY id) FROM jobq.jobs j WHERE 'grants theirs' IN (queue, dead_from)),
                      (SELECT string_agg(s::text, ',') FROM jobq.queue_settings s WHERE queue = 'grants theirs'),
                      (SELECT string_agg(s::text, ',') FROM jobq.schedule_settings s WHERE queue = 'grants theirs'),
                      (SELECT string_agg(h::text, ',') FROM jobq.handler_settings h WHERE queue = 'grants theirs'),
                      (SELECT string_agg(l::text, ',') FROM jobq.limit_settings l WHERE queue = 'grants theirs'),
                      (SELECT string_agg((to_jsonb(n) - 'highest_slot')::text, ',') FROM jobq.named_limit_settings n WHERE 'grants theirs' = ANY (queues)),
                      (SELECT string_agg(k::text, ',') FROM jobq.kind_settings k WHERE queue = 'grants theirs'),
                      (SELECT string_agg(d::text, ',' ORDER BY d.job_id, d.depends_on) FROM jobq.dependencies d, target t WHERE t.name = 'theirs' AND (d.job_id = t.dependent OR d.depends_on IN (t.running, t.waiting, t.done))),
                      (SELECT count(*) FROM jobq.attempts a, target t WHERE t.name = 'theirs' AND a.job_id IN (t.failed, t.letter, t.running)),
                      (SELECT count(*) FROM jobq.log_lines l, target t WHERE t.name = 'theirs' AND l.job_id = t.running)))
$$;
-- The answer of a call to a role, and whether the call changes the other queue. All changes are rolled back.
CREATE FUNCTION outcome(role text, call text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    answer text;
    before text := theirs();
    detail text;
    hint text;
BEGIN
    BEGIN
        EXECUTE format('SET LOCAL ROLE %I', role);
        EXECUTE call INTO answer;
        RESET ROLE;
        IF theirs() <> before THEN
            answer := 'CHANGED, ' || coalesce(answer, 'nothing');
        END IF;
        RAISE EXCEPTION SQLSTATE 'JQ999' USING MESSAGE = coalesce(answer, 'nothing');
    EXCEPTION
        WHEN SQLSTATE 'JQ999' THEN answer := SQLERRM;
        WHEN OTHERS THEN
            GET STACKED DIAGNOSTICS detail = PG_EXCEPTION_DETAIL, hint = PG_EXCEPTION_HINT;
            answer := concat(SQLSTATE, ': ', SQLERRM, chr(1), detail, hint);
    END;
    RETURN answer;
END $$;
-- The same without IDs.
CREATE FUNCTION answer(role text, call text, at text) RETURNS text LANGUAGE sql AS $$
    SELECT CASE WHEN o ~ '^42501: permission denied for queue' THEN 'refused'
                WHEN o ~ '^42501: permission denied for (function|procedure)' THEN '-'
                ELSE regexp_replace(regexp_replace(o, 'grants (mine|theirs|of nobody)', 'Q', 'g'), '\m([0-9]{1,9}|90+[0-9])\M(?!:)', '#', 'g') END
    FROM target t, LATERAL (SELECT replace(replace(replace(replace(replace(replace(replace(replace(replace(call, '{q}', quote_literal(t.queue)), '{worker}', quote_literal(t.worker)),
                                           '{done}', t.done::text), '{failed}', t.failed::text), '{letter}', t.letter::text), '{running}', t.running::text), '{lease}', t.lease::text),
                                           '{waiting}', t.waiting::text), '{dependent}', t.dependent::text)) c(text), LATERAL outcome(role, c.text) o
    WHERE t.name = at
$$;

-- Calls that are derived from the argument names that jobq uses for jobs and queues, with each of the jobs. A new function with
-- these names is included automatically.
CREATE VIEW own AS
SELECT p.* FROM pg_depend d JOIN pg_proc p ON p.oid = d.objid
WHERE d.classid = 'pg_proc'::regclass AND d.deptype = 'e' AND d.refobjid = (SELECT oid FROM pg_extension WHERE extname = 'jobq')
  AND p.pronamespace <> 'jobq'::regnamespace;
CREATE VIEW derived AS
SELECT DISTINCT p.proname AS function, bool_or(a.name LIKE 'queue%') AS names_queue,
       format('SELECT f::text FROM %s(%s) f', p.proname, string_agg(format('%s => %s', a.name, v.value), ', ' ORDER BY a.n) FILTER (WHERE v.value IS NOT NULL)) AS call
FROM own p, unnest('{done,failed,letter,running,waiting,dependent}'::text[]) job, unnest(p.proargnames[:p.pronargs]) WITH ORDINALITY a(name, n),
     LATERAL (SELECT CASE a.name WHEN 'job_id' THEN format('{%s}', job) WHEN 'job_ids' THEN format('ARRAY[{%s}]::bigint[]', job)
                                 WHEN 'queue' THEN '{q}' WHEN 'queues' THEN 'ARRAY[{q}]' WHEN 'lease' THEN '{lease}' WHEN 'leases' THEN 'ARRAY[{lease}]::bigint[]'
                                 WHEN 'run_at' THEN $$'2100-01-01'$$ WHEN 'delay' THEN $$'1 hour'$$ END) v(value)
WHERE p.prokind = 'f'
GROUP BY p.proname, p.pronargs, p.pronargdefaults, job
HAVING bool_or(a.name IN ('job_id', 'job_ids', 'queue', 'queues')) AND bool_and(v.value IS NOT NULL OR a.n > p.pronargs - p.pronargdefaults);

-- The answers of other calls. A function that does not name jobs or queues in this way needs a line here.
CREATE TABLE golden (n integer GENERATED ALWAYS AS IDENTITY, function text, call text);
INSERT INTO golden (function, call) VALUES
    ('jobq_enqueue',            $$SELECT jobq_enqueue({q}) > 0$$),
    ('jobq_enqueue',            $$SELECT jobq_enqueue('grants mine', depends_on => ARRAY[{running}]) > 0$$),
    ('jobq_enqueue_many',       $$SELECT bool_and(is_new) FROM jobq_enqueue_many({q}, ARRAY['1', '2']::jsonb[])$$),
    ('jobq_enqueue_jobs',       $$SELECT bool_and(is_new) FROM jobq_enqueue_jobs(jsonb_build_array(jsonb_build_object('queue', {q})))$$),
    ('jobq_get',                $$SELECT status FROM jobq_get({done})$$),
    ('jobq_result',             $$SELECT jobq_result({done})$$),
    ('jobq_claim',              $$SELECT kind FROM jobq_claim({q})$$),
    ('jobq_claim_any',          $$SELECT kind FROM jobq_claim_any(ARRAY[{q}])$$),
    ('jobq_claim_any',          $$SELECT kind FROM jobq_claim_any(patterns => ARRAY[{q}])$$),
    ('jobq_complete',           $$SELECT jobq_complete({running}, {lease})$$),
    ('jobq_complete',           $$SELECT jobq_complete({running}, {lease}, must_hold => true)$$),
    ('jobq_complete',           $$SELECT jobq_complete({running})$$),
    ('jobq_complete_many',      $$SELECT completed FROM jobq_complete_many(ARRAY[{running}]::bigint[], ARRAY[{lease}]::bigint[])$$),
    ('jobq_complete_and_claim', $$SELECT kind FROM jobq_complete_and_claim(ARRAY[{running}]::bigint[], ARRAY[{lease}]::bigint[], queue => {q})$$),
    ('jobq_complete_and_claim', $$SELECT kind FROM jobq_complete_and_claim(ARRAY[{running}]::bigint[], ARRAY[{lease}]::bigint[], queue => 'grants mine')$$),
    ('jobq_complete_and_claim_any', $$SELECT kind FROM jobq_complete_and_claim_any('{}', '{}', queues => ARRAY[{q}])$$),
    ('jobq_claim_json',         $$SELECT jobq_claim_json(ARRAY[{q}])->0->>'kind'$$),
    ('jobq_claim_json',         $$SELECT jobq_claim_json(patterns => ARRAY[{q}])->0->>'kind'$$),
    ('jobq_claim_json',         $$SELECT jobq_claim_json(ARRAY['grants mine'], job_ids => ARRAY[{running}]::bigint[], leases => ARRAY[{lease}]::bigint[])->0->>'kind'$$),
    ('jobq_fail',               $$SELECT jobq_fail({running}, {lease}, 'no')$$),
    ('jobq_fail_many',          $$SELECT status FROM jobq_fail_many(ARRAY[{running}]::bigint[], ARRAY[{lease}]::bigint[])$$),
    ('jobq_heartbeat',          $$SELECT jobq_heartbeat({running}, {lease})$$),
    ('jobq_heartbeat_many',     $$SELECT state FROM jobq_heartbeat_many(ARRAY[{running}]::bigint[], ARRAY[{lease}]::bigint[])$$),
    ('jobq_heartbeat_worker',   $$SELECT state FROM jobq_heartbeat_worker({worker})$$),
    ('jobq_write_log',          $$SELECT stored > 0 FROM jobq_write_log(ARRAY[{running}]::bigint[], ARRAY[{lease}]::bigint[], '{line}')$$),
    ('jobq_release',            $$SELECT jobq_release({running}, {lease})$$),
    ('jobq_release_many',       $$SELECT released FROM jobq_release_many(ARRAY[{running}]::bigint[], ARRAY[{lease}]::bigint[])$$),
    ('jobq_snooze',             $$SELECT jobq_snooze({running}, '1 hour', {lease})$$),
    ('jobq_step',               $$SELECT state FROM jobq_step({running}, {lease}, 's')$$),
    ('jobq_step_done',          $$SELECT state FROM jobq_step_done({running}, {lease}, 's', '1')$$),
    ('jobq_step_done',          $$SELECT state FROM jobq_step_done({running}, {lease}, 's', '1', must_hold => false)$$),
    ('jobq_spawn',              $$SELECT state FROM jobq_spawn({running}, {lease}, 's', jsonb_build_array(jsonb_build_object('queue', {q})))$$),
    ('jobq_spawn',              $$SELECT state FROM jobq_spawn({running}, {lease}, 's', '[{"queue": "grants mine"}]')$$),
    ('jobq_steps',              $$SELECT state FROM jobq_steps(ARRAY[{running}]::bigint[], ARRAY[{lease}]::bigint[])$$),
    ('jobq_sleep',              $$SELECT jobq_sleep({running}, {lease}, 's', '1 hour')$$),
    ('jobq_await',              $$SELECT state FROM jobq_await({running}, {lease}, 'e')$$),
    ('jobq_await_jobs',         $$SELECT state FROM jobq_await_jobs({running}, {lease}, ARRAY[{waiting}]::bigint[], 's')$$),
    ('jobq_await_jobs',         $$SELECT state, (results->0)->>'status' FROM jobq_await_jobs({running}, {lease}, ARRAY[{done}]::bigint[], 's')$$),
    ('jobq_signal',             $$SELECT jobq_signal({q}, 'e')$$),
    ('jobq_signal_job',         $$SELECT jobq_signal_job({running}, 'e')$$),
    ('jobq_signal_job',         $$SELECT jobq_signal_job({done}, 'e')$$),
    ('jobq_dependency_results', $$SELECT status FROM jobq_dependency_results({dependent})$$),
    ('jobq_cancel',             $$SELECT jobq_cancel({waiting})$$),
    ('jobq_cancel',             $$SELECT jobq_cancel({running})$$),
    ('jobq_skip',               $$SELECT jobq_skip({failed})$$),
    ('jobq_retry',              $$SELECT jobq_retry({failed})$$),
    ('jobq_retry',              $$SELECT jobq_retry({letter})$$),
    ('jobq_retry_from',         $$SELECT jobq_retry_from({failed}, 's')$$),
    ('jobq_reschedule',         $$SELECT jobq_reschedule({waiting}, '2100-01-01')$$),
    ('jobq_delete',             $$SELECT jobq_delete({done})$$),
    ('jobq_cancel_jobs',        $$SELECT jobq_cancel_jobs({q})$$),
    ('jobq_retry_jobs',         $$SELECT jobq_retry_jobs({q})$$),
    ('jobq_reschedule_jobs',    $$SELECT jobq_reschedule_jobs({q}, '2100-01-01')$$),
    ('jobq_delete_jobs',        $$SELECT jobq_delete_jobs({q})$$),
    ('jobq_redrive',            $$SELECT jobq_redrive({q})$$),
    ('jobq_dot',                $$SELECT length(jobq_dot({dependent})) > 50$$),
    ('jobq_create_queue',       $$SELECT jobq_create_queue({q})$$),
    ('jobq_alter_queue',        $$SELECT jobq_alter_queue({q}, max_lost => 7)$$),
    ('jobq_alter_queue',        $$SELECT jobq_alter_queue('grants mine', dead_letter_queue => {q})$$),
    ('jobq_drop_queue',         $$SELECT jobq_drop_queue({q}, true)$$),
    ('jobq_pause_queue',        $$SELECT jobq_pause_queue({q})$$),
    ('jobq_resume_queue',       $$SELECT jobq_resume_queue({q})$$),
    ('jobq_purge_queue',        $$SELECT jobq_purge_queue({q})$$),
    ('jobq_alter_kind',         $$SELECT jobq_alter_kind({q}, 'k', max_lost => 7)$$),
    ('jobq_alter_kind',         $$SELECT jobq_alter_kind('grants mine', 'k', dead_letter_queue => {q})$$),
    ('jobq_drop_kind',          $$SELECT jobq_drop_kind({q}, 'k')$$),
    ('jobq_set_limit',          $$SELECT jobq_set_limit({q}, max_running => 1)$$),
    ('jobq_set_named_limit',    $$SELECT jobq_set_named_limit('named', ARRAY['grants mine', {q}], max_running => 1)$$),
    ('jobq_drop_named_limit',   $$SELECT jobq_drop_named_limit('of ' || {q})$$),
    ('jobq_log',                 $$SELECT string_agg(event, ', ') FROM jobq_log({done})$$),
    ('jobq_explain',            $$SELECT string_agg(reason, ', ') FROM jobq_explain({dependent})$$),
    ('jobq_access',             $$SELECT allowed FROM jobq_access()$$),
    ('jobq_workers',            $$SELECT count(*) >= 0 FROM jobq_workers()$$),
    ('jobq_workers_wanted',     $$SELECT jobq_workers_wanted({q}) >= 0$$),
    ('jobq_metrics',            $$SELECT coalesce(sum(value), 0) > 0 FROM jobq_metrics() WHERE name = 'jobq_jobs' AND labels->>'queue' = {q}$$),
    ('jobq_prometheus',         $$SELECT jobq_prometheus() ~ ('jobq_jobs\{queue="' || {q} || '"')$$),
    ('jobq_reset_metrics',      $$SELECT count(*) FROM jobq_reset_metrics()$$),
    ('jobq_explain_queue',      $$SELECT count(*) > 0 FROM jobq_explain_queue({q})$$),
    ('jobq_schedule',           $$SELECT jobq_schedule('new', '@daily', {q}) > now()$$),
    ('jobq_schedule',           $$SELECT jobq_schedule('of ' || {q}, '@daily', 'grants mine') > now()$$),
    ('jobq_schedules',          $$SELECT string_agg(name || ' ' || change, ', ' ORDER BY name) FROM jobq_schedules(jsonb_build_array(jsonb_build_object('name', 'new', 'cron', '@daily', 'queue', {q})), prune => true)$$),
    ('jobq_unschedule',         $$SELECT jobq_unschedule('of ' || {q})$$),
    ('jobq_pause_schedule',     $$SELECT jobq_pause_schedule('of ' || {q})$$),
    ('jobq_resume_schedule',    $$SELECT jobq_resume_schedule('of ' || {q})$$),
    ('jobq_run_schedule',       $$SELECT jobq_run_schedule('of ' || {q}) > 0$$),
    ('jobq_set_handler',        $$SELECT jobq_set_handler({q}, 'new', 'handles(jsonb)')$$),
    ('jobq_drop_handler',       $$SELECT jobq_drop_handler({q}, 'handled')$$),
    ('jobq_create_batch',       $$SELECT jobq_create_batch(on_complete => jsonb_build_object('queue', {q})) > 0$$),
    ('jobq_seal_batch',         $$SELECT jobq_seal_batch((SELECT b.id FROM batch b WHERE b.queue = {q}))$$),
    ('jobq_get_batch',          $$SELECT created_by FROM jobq_get_batch((SELECT b.id FROM batch b WHERE b.queue = {q}))$$),
    ('jobq_enqueue',            $$SELECT jobq_enqueue('grants mine', options => jsonb_build_object('batch_id', (SELECT b.id FROM batch b WHERE b.queue = {q}))) > 0$$),
    ('jobq_next_runs',          $$SELECT count(*) FROM jobq_next_runs('@daily')$$),
    ('jobq_tick',               $$SELECT count(*) FROM jobq_tick()$$),
    ('jobq_adopt',              $$SELECT jobq_adopt()$$),
    ('jobq_shard_id',           $$SELECT jobq_shard_id() IS NULL$$),
    ('jobq_version',            $$SELECT jobq_version() IS NOT NULL$$);
-- Procedures, which are tested below; a function for workers without queues; and functions that no kind of role is granted.
INSERT INTO golden (function) VALUES ('jobq_wait'), ('jobq_wait_any'), ('jobq_wait_job'), ('jobq_wake'), ('jobq_grant'), ('jobq_revoke'), ('jobq_set_shard');
SELECT coalesce(o.proname, g.function) AS "not in the table, or no more a function"
FROM own o FULL JOIN (SELECT DISTINCT function FROM golden) g ON g.function = o.proname::text
WHERE o.proname IS NULL OR g.function IS NULL AND o.proname NOT IN (SELECT function FROM derived);
-- A role of one queue can call all functions that a role of all queues can call, except for the tick, the adoption, and the
-- totals of all queues.
SELECT k.kind, p.proname AS "only for all queues" FROM unnest('{producer,worker,operator}'::text[]) k(kind), own p
WHERE has_function_privilege('regress_jobq_all', p.oid, 'EXECUTE')
  AND NOT has_function_privilege('regress_jobq_producer', p.oid, 'EXECUTE') AND NOT has_function_privilege('regress_jobq_worker', p.oid, 'EXECUTE')
  AND NOT has_function_privilege('regress_jobq_operator', p.oid, 'EXECUTE') AND k.kind = 'operator';

-- The derived calls. A queue that was not granted is rejected. For a job, the answer is the same as for a job that does not
-- exist. Only wrong answers are shown.
SELECT c.call, r.kind AS role, split_part(mine, chr(1), 1) AS mine, split_part(theirs, chr(1), 1) AS theirs
FROM derived c, unnest('{producer,worker,operator}'::text[]) r(kind),
     LATERAL answer('regress_jobq_' || r.kind, c.call, 'mine') mine, LATERAL answer('regress_jobq_' || r.kind, c.call, 'theirs') theirs
WHERE mine <> '-' AND (mine ~ '^42[68P]' OR theirs ~ '^CHANGED'
                       OR theirs IS DISTINCT FROM CASE WHEN c.names_queue THEN 'refused' ELSE answer('regress_jobq_' || r.kind, c.call, 'unknown') END)
ORDER BY 1, 2;
SELECT count(DISTINCT function) > 30 AS enough FROM derived;

-- The golden table. In the other queue, the answer must be the same as for a job that does not exist; "all" shows that the job
-- exists.
SELECT g.call, r.kind AS role, split_part(mine, chr(1), 1) AS mine, split_part(theirs, chr(1), 1) AS theirs, CASE WHEN theirs IS DISTINCT FROM answer('regress_jobq_' || r.kind, g.call, 'unknown') THEN 'TOLD' END AS tells,
       split_part(answer('regress_jobq_all', g.call, 'theirs'), chr(1), 1) AS "all"
FROM golden g, unnest('{producer,worker,operator}'::text[]) WITH ORDINALITY r(kind, n),
     LATERAL answer('regress_jobq_' || r.kind, g.call, 'mine') mine, LATERAL answer('regress_jobq_' || r.kind, g.call, 'theirs') theirs
WHERE g.call IS NOT NULL AND mine <> '-' ORDER BY g.n, r.n;

-- The procedures, in autocommit mode. A wait for a job of another queue ends at once, like a wait for an unknown job.
SELECT waiting AS foreign_job FROM target WHERE name = 'theirs' \gset
SET statement_timeout = '1 min';
SET ROLE regress_jobq_worker;
CALL jobq_wait('grants theirs', '1 hour');
CALL jobq_wait('grants mine', '1 hour');
CALL jobq_wait_any('{grants mine,grants theirs}', '1 hour');
CALL jobq_wait_any(patterns => '{grants %}', timeout => '1 hour');
CALL jobq_wait_job(:foreign_job, '1 hour');
SET ROLE regress_jobq_producer;
CALL jobq_wait_job(:foreign_job, '1 hour');
SET ROLE regress_jobq_operator;
CALL jobq_wait_job(:foreign_job, '1 hour');
RESET ROLE;
RESET statement_timeout;

-- Arrays with jobs of both queues.
SELECT m.running AS mine, m.lease AS my_lease, t.running AS theirs, t.lease AS their_lease, m.waiting AS my_waiting, t.waiting AS their_waiting
FROM target m, target t WHERE m.name = 'mine' AND t.name = 'theirs' \gset
SET ROLE regress_jobq_worker;
SELECT state, job_id = :mine AS is_mine FROM jobq_heartbeat_many(ARRAY[:theirs, :mine, :theirs]::bigint[], ARRAY[:their_lease, :my_lease, :their_lease]::bigint[]);
BEGIN;
SELECT status, job_id = :mine AS is_mine FROM jobq_fail_many(ARRAY[:theirs, :mine]::bigint[], ARRAY[:their_lease, :my_lease]::bigint[], ARRAY['a', 'b']);
ROLLBACK;
BEGIN;
SELECT completed, job_id = :mine AS is_mine FROM jobq_complete_many(ARRAY[:theirs, :mine]::bigint[], ARRAY[:their_lease, :my_lease]::bigint[]);
ROLLBACK;
SELECT kind FROM jobq_claim_any('{grants mine,grants theirs}');
SET ROLE regress_jobq_producer;
SELECT jobq_enqueue_jobs('[{"queue": "grants mine"}, {"queue": "grants theirs"}]');
RESET ROLE;
-- The ID is higher than that of the new job. A different error for an existing job would reveal that it exists.
BEGIN;
SELECT last_value FROM jobq.jobs_id_seq \gset
INSERT INTO jobq.jobs (id, queue) OVERRIDING SYSTEM VALUE VALUES (8000000000000001, 'grants theirs');
SELECT setval('jobq.jobs_id_seq', :last_value) AS as_before \gset
SET LOCAL ROLE regress_jobq_producer;
SELECT jobq_enqueue('grants mine', depends_on => '{8000000000000001}');
ROLLBACK;
-- Unique keys and limits belong to a queue. The keys and limits of another queue have no effect and are not shown.
SELECT jobq_enqueue('grants theirs', unique_key => 'k', concurrency_key => 'c') AS keyed \gset
SELECT jobq_set_limit('grants theirs', 'c', max_running => 0), jobq_set_limit('grants theirs', max_running => 1);
SET ROLE regress_jobq_producer;
BEGIN;
SELECT jobq_enqueue('grants mine', unique_key => 'k', on_conflict => 'error', concurrency_key => 'c', kind => 'keyed') <> :keyed AS another;
RESET ROLE;
SET ROLE regress_jobq_worker;
SELECT kind FROM jobq_claim('grants mine', kinds => '{keyed}');
ROLLBACK;
RESET ROLE;
SELECT jobq_set_limit('grants theirs', 'c'), jobq_set_limit('grants theirs'), jobq_delete(:keyed);

-- jobq_spawn enqueues, so the role must also be a producer of the queues. A worker sees its own children in any queue, but no
-- other jobs there.
\set VERBOSITY terse
SET ROLE regress_jobq_worker;
SELECT jobq_spawn(:mine, :my_lease, 's', '[]');
RESET ROLE;
BEGIN;
GRANT regress_jobq_producer TO regress_jobq_worker;
SET LOCAL ROLE regress_jobq_worker;
SELECT state FROM jobq_spawn(:mine, :my_lease, 's', '[{"queue": "grants mine"}]');
SAVEPOINT s;
SELECT state FROM jobq_spawn(:mine, :my_lease, 't', '[{"queue": "grants theirs"}]');
ROLLBACK TO s;
RESET ROLE;
SELECT job_ids[1] AS child FROM jobq_spawn(:mine, :my_lease, 't', '[{"queue": "grants theirs"}]') \gset
SET LOCAL ROLE regress_jobq_worker;
SELECT a.state, r.value->>'status' AS status, (r.value->>'job_id')::bigint = :child AS child
FROM jobq_await_jobs(:mine, :my_lease, ARRAY[:child, :their_waiting]::bigint[], 'w', timeout => '0') a, jsonb_array_elements(a.results) r;
SELECT state FROM jobq_await_jobs(:mine, :my_lease, ARRAY[:their_waiting]::bigint[], 'x');
ROLLBACK;
\set VERBOSITY default

-- Workers of both queues have the same ID. A heartbeat extends and returns only jobs of granted queues.
BEGIN;
UPDATE jobq.jobs SET worker_id = 'same', last_heartbeat = '2020-01-01' WHERE id IN (:mine, :theirs);
SET LOCAL ROLE regress_jobq_worker;
SELECT job_id = :mine AS is_mine, state FROM jobq_heartbeat_worker('same');
RESET ROLE;
SELECT id = :mine AS is_mine, last_heartbeat > '2020-01-01' AS extended FROM jobq.jobs WHERE id IN (:mine, :theirs) ORDER BY id;
ROLLBACK;

-- A role for both queues can pass a result from one to the other. A graph leaves out jobs of other queues.
BEGIN;
SELECT jobq_enqueue('grants mine', kind => 'heir', depends_on => ARRAY[:theirs]) AS heir \gset
SELECT jobq_enqueue('grants theirs', kind => 'theirs', depends_on => ARRAY[:heir]) AS last \gset
SELECT jobq_enqueue('grants mine', kind => 'end', depends_on => ARRAY[:last]) AS far \gset
SELECT jobq_complete(:theirs, :their_lease, '"handed on"');
SET LOCAL ROLE regress_jobq_worker;
SELECT status, result FROM jobq_dependency_results(:heir);
SELECT * FROM jobq_dependency_results(:last);
SELECT jobq_result(:theirs) IS NULL AS not_by_its_id;
RESET ROLE;
SET LOCAL ROLE regress_jobq_operator;
SELECT jobq_dot(:heir) LIKE '%heir%' AS own, jobq_dot(:heir) LIKE '%theirs%' AS foreign, jobq_dot(:heir) LIKE '%end%' AS behind_it, jobq_dot(:last) AS unknown;
ROLLBACK;

-- Dead letters belong to their dead letter queue and to their original queue, but redrive only returns them to a granted queue.
CREATE ROLE regress_jobq_undertaker;
SELECT jobq_grant('regress_jobq_undertaker', 'operator', '{grants letters}');
SELECT m.letter AS my_letter, t.letter AS their_letter FROM target m, target t WHERE m.name = 'mine' AND t.name = 'theirs' \gset
SET ROLE regress_jobq_operator;
SELECT queue FROM jobq_get(:my_letter);
SELECT queue FROM jobq_get(:their_letter);
BEGIN;
SELECT jobq_redrive('grants mine'), jobq_redrive('grants mine');
ROLLBACK;
SELECT jobq_redrive('grants letters');
SET ROLE regress_jobq_undertaker;
SELECT queue FROM jobq_get(:my_letter);
SELECT jobq_redrive('grants letters'), jobq_retry(:my_letter), jobq_retry_jobs('grants letters'), jobq_retry_jobs('grants letters', max_jobs => 1);
RESET ROLE;
SELECT jobq_grant('regress_jobq_undertaker', 'operator', '{grants mine}');
SET ROLE regress_jobq_undertaker;
BEGIN;
SELECT jobq_redrive('grants letters');
ROLLBACK;
BEGIN;
SELECT jobq_retry_jobs('grants letters', max_jobs => 1);
ROLLBACK;
BEGIN;
SELECT jobq_delete_jobs('grants letters');
ROLLBACK;
RESET ROLE;
SELECT jobq_revoke('regress_jobq_undertaker', 'operator');
-- The result of a returned dead letter is for jobs of its original queue.
BEGIN;
SELECT jobq_grant('regress_jobq_undertaker', 'producer', '{grants letters}') \g /dev/null
SET LOCAL ROLE regress_jobq_producer;
SELECT jobq_enqueue('grants mine', depends_on => ARRAY[:my_letter]) > 0 AS enqueued;
SET LOCAL ROLE regress_jobq_undertaker;
\set VERBOSITY sqlstate
SELECT jobq_enqueue('grants letters', depends_on => ARRAY[:my_letter]);
\set VERBOSITY default
ROLLBACK;

-- Lanes, groups, and limits are identified by hashes. A role that chooses the names in its own queue cannot choose a hash of
-- another queue: these two names collide under FNV-1a, which has no secret, but not under the secret of the database.
SELECT E'\x0f,\x1a\x08\x1a\x16r\x16\x0e\x16\x04\x136)\x1c\x06x\x05\x09\x0c61\x16\x08' AS twin \gset
SELECT jobq.lane_of('grants mine', :'twin', 0, NULL) = jobq.lane_of('grants theirs', 'twin', 0, NULL) AS same_lane,
       jobq.group_of('grants mine', :'twin') = jobq.group_of('grants theirs', 'twin') AS same_group;
-- The head of a group that waits for the year 4000 does not block a group of another queue.
SET ROLE regress_jobq_producer;
SELECT jobq_enqueue('grants mine', kind => 'far', group_key => :'twin', run_at => '4000-01-01') AS far \gset
RESET ROLE;
SELECT settle();
SELECT jobq_enqueue('grants theirs', kind => 'twin', group_key => 'twin') AS near \gset
SELECT settle();
SELECT status FROM jobq.jobs WHERE id = :near;
-- A running job uses no slot of another queue.
SELECT jobq_set_limit(queue, '*', max_running => 1) FROM unnest('{grants mine,grants theirs}'::text[]) queue \g /dev/null
SET ROLE regress_jobq_producer;
SELECT jobq_enqueue('grants mine', kind => 'limited', concurrency_key => :'twin') AS limited \gset
SET ROLE regress_jobq_worker;
SELECT count(*) FROM jobq_claim('grants mine', kinds => '{limited}');
RESET ROLE;
SELECT jobq_enqueue('grants theirs', kind => 'limited', concurrency_key => 'twin') AS also_limited \gset
SELECT count(*) FROM jobq_claim('grants theirs', kinds => '{limited}');
SELECT jobq_set_limit(queue, '*') FROM unnest('{grants mine,grants theirs}'::text[]) queue \g /dev/null
DELETE FROM jobq.jobs WHERE id IN (:far, :near, :limited, :also_limited);
-- Only the owner can read the secret and compute hashes. A member of pg_read_all_data sees no row.
CREATE ROLE regress_jobq_reader;
GRANT pg_read_all_data TO regress_jobq_reader;
SET ROLE regress_jobq_reader;
SELECT count(*) FROM jobq.hash_secret;
\set VERBOSITY sqlstate
SELECT jobq.lane_of('grants theirs', 'twin', 0, NULL);
SET ROLE regress_jobq_producer;
SELECT count(*) FROM jobq.hash_secret;
RESET ROLE;
UPDATE jobq.hash_secret SET secret = DEFAULT;
DELETE FROM jobq.hash_secret;
TRUNCATE jobq.hash_secret;
\set VERBOSITY default
DROP ROLE regress_jobq_reader;
SELECT count(*) FROM jobq.hash_secret;

-- A schedule ignores the metadata of a job in another queue.
BEGIN;
SELECT jobq_enqueue('grants theirs', metadata => '{"schedule": "of both"}') AS marked \gset
SET LOCAL ROLE regress_jobq_operator;
SELECT jobq_schedule('of both', '@yearly', 'grants mine') > now() AS scheduled, jobq_run_schedule('of both') > 0 AS run;
SELECT jobq_schedule('of both', '@yearly', 'grants mine', overlap => 'replace') > now() AS changed, jobq_run_schedule('of both') > 0 AS run;
RESET ROLE;
SELECT status FROM jobq.jobs WHERE id = :marked;
ROLLBACK;

-- ---- Restricted roles
-- Whether a role may enqueue in each of the two queues.
CREATE FUNCTION may(role text) RETURNS text LANGUAGE sql AS $$
    SELECT answer(role, 'SELECT jobq_enqueue({q}) > 0', 'mine') || ', ' || replace(answer(role, 'SELECT jobq_enqueue({q}) > 0', 'theirs'), 'CHANGED, ', '')
$$;
SELECT may('regress_jobq_producer');
-- A member has the privileges of all its roles that it inherits.
CREATE ROLE regress_jobq_member IN ROLE regress_jobq_producer;
CREATE ROLE regress_jobq_stranger NOINHERIT IN ROLE regress_jobq_producer;
SELECT may('regress_jobq_member'), may('regress_jobq_stranger');
SELECT jobq_grant('regress_jobq_undertaker', 'producer', '{grants theirs}');
GRANT regress_jobq_undertaker TO regress_jobq_member;
SELECT may('regress_jobq_member');
REVOKE regress_jobq_undertaker FROM regress_jobq_member;
SELECT may('regress_jobq_member');
GRANT regress_jobq_all TO regress_jobq_member;
SELECT may('regress_jobq_member');
REVOKE regress_jobq_all FROM regress_jobq_member;
-- Since PostgreSQL 16, the INHERIT option of the grant matters, not the attribute of the role at the time of the check.
ALTER ROLE regress_jobq_member NOINHERIT;
REVOKE regress_jobq_producer FROM regress_jobq_member;
GRANT regress_jobq_producer TO regress_jobq_member;
SELECT may('regress_jobq_member');
ALTER ROLE regress_jobq_member INHERIT;
REVOKE regress_jobq_producer FROM regress_jobq_member;
GRANT regress_jobq_producer TO regress_jobq_member;
-- A grant of another kind without queues allows only the functions that both kinds share.
SELECT answer('regress_jobq_producer', 'SELECT status FROM jobq_get({done})', 'theirs');
SELECT jobq_grant('regress_jobq_producer', 'worker');
SELECT answer('regress_jobq_producer', 'SELECT status FROM jobq_get({done})', 'theirs'), may('regress_jobq_producer'), answer('regress_jobq_producer', 'SELECT kind FROM jobq_claim({q})', 'theirs');
SELECT jobq_revoke('regress_jobq_producer', 'worker');
SELECT answer('regress_jobq_producer', 'SELECT status FROM jobq_get({done})', 'theirs'), may('regress_jobq_producer');
-- GRANT EXECUTE is for all queues. It adds nothing to a role of certain queues.
GRANT EXECUTE ON FUNCTION jobq_result(bigint) TO regress_jobq_stranger;
SELECT answer('regress_jobq_stranger', 'SELECT jobq_result({done})', 'theirs');
REVOKE EXECUTE ON FUNCTION jobq_result(bigint) FROM regress_jobq_stranger;
SELECT oid::regprocedure AS enqueue FROM pg_proc WHERE proname = 'jobq_enqueue' \gset
GRANT EXECUTE ON FUNCTION :enqueue TO regress_jobq_producer;
SELECT may('regress_jobq_producer');
GRANT EXECUTE ON FUNCTION :enqueue TO PUBLIC;
SELECT may('regress_jobq_producer');
REVOKE EXECUTE ON FUNCTION :enqueue FROM PUBLIC;
SELECT may('regress_jobq_producer');
-- A grant of a single function does not make a role a member of its kind.
GRANT EXECUTE ON FUNCTION jobq_cancel(bigint) TO regress_jobq_producer;
SELECT answer('regress_jobq_producer', 'SELECT status FROM jobq_get({done})', 'theirs'), may('regress_jobq_producer');
REVOKE EXECUTE ON FUNCTION jobq_cancel(bigint) FROM regress_jobq_producer;
-- Even with GRANT EXECUTE, a restricted role cannot call functions that work on all queues.
GRANT EXECUTE ON FUNCTION jobq_tick(timestamptz) TO regress_jobq_operator;
SELECT replace(outcome('regress_jobq_operator', 'SELECT count(*) FROM jobq_tick()'), chr(1), '. ') AS tick;
REVOKE EXECUTE ON FUNCTION jobq_tick(timestamptz) FROM regress_jobq_operator;
-- In a SECURITY DEFINER function, the caller is its owner.
CREATE FUNCTION wrapped(queue text) RETURNS bigint LANGUAGE sql SECURITY DEFINER AS 'SELECT jobq_enqueue(queue)';
ALTER FUNCTION wrapped(text) OWNER TO regress_jobq_producer;
SELECT answer('regress_jobq_all', 'SELECT wrapped({q}) > 0', 'mine'), answer('regress_jobq_all', 'SELECT wrapped({q}) > 0', 'theirs');
ALTER FUNCTION wrapped(text) OWNER TO regress_jobq_all;
SELECT answer('regress_jobq_producer', 'SELECT wrapped({q}) > 0', 'theirs');
DROP FUNCTION wrapped(text);
-- The owner of the tables, its members, and superusers.
SELECT may('regress_jobq_all'), may(current_user);
-- A user-defined function with the name of a jobq function adds no privileges.
CREATE FUNCTION jobq_enqueue(queue integer) RETURNS text LANGUAGE sql AS $$ SELECT 'not ours' $$;
SELECT may('regress_jobq_producer');
DROP FUNCTION jobq_enqueue(integer);
-- If its rows in jobq.queue_grants are lost, a role can use no queues.
BEGIN;
TRUNCATE jobq.queue_grants;
SELECT may('regress_jobq_producer');
ROLLBACK;
SELECT may('regress_jobq_producer');
BEGIN;
REVOKE SELECT ON jobq.producer_queues FROM regress_jobq_producer;
SELECT may('regress_jobq_producer');
ROLLBACK;
-- A change that would block all queues.
SELECT answer('regress_jobq_operator', 'SELECT jobq_alter_queue({q}, round_robin => true)', 'mine'), answer('regress_jobq_operator', 'SELECT jobq_alter_queue({q}, round_robin => false)', 'mine');
-- Grants on all tables do not restrict a role.
BEGIN;
GRANT ALL ON ALL TABLES IN SCHEMA jobq TO regress_jobq_all;
SELECT may('regress_jobq_all');
ROLLBACK;
-- The information that a role has about its own grants.
SET ROLE regress_jobq_member;
TABLE jobq.producer_queues;
TABLE jobq.worker_queues;
TABLE jobq.queue_grants;
SELECT count(*) FROM jobq.jobs;
RESET ROLE;
SET ROLE regress_jobq_operator;
TABLE jobq.queue_stats;
TABLE jobq.jobs;
DELETE FROM jobq.kept_keys;
RESET ROLE;
-- A renamed role keeps its queues. Leftovers of a dropped role do not apply to another role.
ALTER ROLE regress_jobq_undertaker RENAME TO regress_jobq_digger;
SELECT may('regress_jobq_digger');
DROP OWNED BY regress_jobq_digger;
SELECT * FROM jobq.queue_grants WHERE role = 'regress_jobq_digger'::regrole;
SELECT jobq_grant('regress_jobq_digger', 'producer', '{grants mine}');
SELECT may('regress_jobq_digger');

-- ---- jobq_grant and jobq_revoke
SELECT jobq_grant('regress_jobq_producer', 'producer', '{grants more,grants more}');
SELECT queue FROM jobq.queue_grants WHERE role = 'regress_jobq_producer'::regrole ORDER BY 1;
SET client_min_messages = warning;
SELECT jobq_revoke('regress_jobq_producer', 'producer', '{grants more,grants mor}');
SELECT jobq_grant('regress_jobq_all', 'producer', '{grants mine}');
SELECT jobq_revoke('regress_jobq_all', 'producer', '{grants mine}');
SELECT jobq_revoke('regress_jobq_stranger', 'worker', '{grants mine}');
SELECT jobq_grant('regress_jobq_all', 'monitor', '{grants mine}');
SELECT jobq_grant('regress_jobq_stranger', 'worker', '{}');
SELECT jobq_grant('regress_jobq_stranger', 'worker', ARRAY['a', NULL]);
SELECT jobq_grant('regress_jobq_stranger', 'worker', ARRAY['a', '']);
SELECT jobq_grant('regress_jobq_stranger', 'worker', ARRAY['a', repeat('q', 64)]);
SELECT may('regress_jobq_stranger');
-- A grant without queues is for all queues. Revoking the last queue revokes the kind.
SELECT jobq_grant('regress_jobq_producer', 'producer');
SELECT may('regress_jobq_producer'), has_column_privilege('regress_jobq_producer', 'jobq.producer_queues', 'queue', 'SELECT') AS restricted, (SELECT count(*) FROM jobq.queue_grants WHERE role = 'regress_jobq_producer'::regrole) AS rows;
SELECT jobq_revoke('regress_jobq_digger', 'producer', '{grants mine}');
SELECT may('regress_jobq_digger'), has_schema_privilege('regress_jobq_digger', 'jobq', 'USAGE') AS schema;
-- A restricted kind survives the revocation of another kind, and stays restricted.
SELECT jobq_grant('regress_jobq_worker', 'operator'), jobq_revoke('regress_jobq_worker', 'operator');
SELECT answer('regress_jobq_worker', 'SELECT kind FROM jobq_claim({q})', 'mine'), answer('regress_jobq_worker', 'SELECT kind FROM jobq_claim({q})', 'theirs'),
       has_table_privilege('regress_jobq_worker', 'jobq.jobs', 'SELECT') AS reads_jobs;
-- No role can add queues to itself, even with the privilege to call jobq_grant.
GRANT EXECUTE ON FUNCTION jobq_grant(text, text, text[]), jobq_revoke(text, text, text[]) TO regress_jobq_worker;
SET client_min_messages = error;
SET ROLE regress_jobq_worker;
SELECT jobq_grant('regress_jobq_worker', 'worker', '{grants theirs}');
SELECT jobq_grant('regress_jobq_worker', 'worker');
SELECT jobq_revoke('regress_jobq_worker', 'worker');
INSERT INTO jobq.queue_grants VALUES ('regress_jobq_worker', 'worker', 'grants theirs');
RESET ROLE;
SELECT answer('regress_jobq_worker', 'SELECT kind FROM jobq_claim({q})', 'theirs');

SELECT jobq_drop_queue(q, force => true) FROM unnest('{grants mine,grants theirs,grants letters}'::text[]) q \g /dev/null
DROP OWNED BY regress_jobq_all, regress_jobq_producer, regress_jobq_worker, regress_jobq_operator, regress_jobq_digger, regress_jobq_member, regress_jobq_stranger;
DROP ROLE regress_jobq_all, regress_jobq_producer, regress_jobq_worker, regress_jobq_operator, regress_jobq_digger, regress_jobq_member, regress_jobq_stranger;
-- Grants are not dumped.
SELECT count(*) FROM jobq.queue_grants WHERE role::oid IN (SELECT oid FROM pg_roles);
TRUNCATE jobq.queue_grants;
DROP FUNCTION may(text);
DROP FUNCTION answer(text, text, text);
DROP FUNCTION outcome(text, text);
DROP FUNCTION theirs();
DROP FUNCTION handles(jsonb);
DROP VIEW derived, own;
DROP TABLE golden, target;
