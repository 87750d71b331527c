-- Bad input: each call either raises an error with an SQLSTATE of class 22, 23, 42, or 54 that names the argument, or does
-- nothing in a defined way. In both cases, nothing has changed afterward.
SELECT jobq_create_queue('bad', max_attempts => 3);
SELECT jobq_enqueue('bad', '"waiting"') AS waiting \gset
SELECT jobq_enqueue('bad', '"finished"', priority => -2) > 0 AS enqueued;
SELECT id AS finished, jobq_complete(id, lease) FROM jobq_claim('bad') \gset
SELECT jobq_enqueue('bad', '"held"', priority => -1) > 0 AS enqueued;
SELECT id, lease FROM jobq_claim('bad', 'w', heartbeat_timeout => '1 day') \gset
CREATE FUNCTION pg_temp.everything() RETURNS text LANGUAGE sql AS $$
    -- The jobs of this test, without the column that the background worker changes in running jobs.
    SELECT md5(concat((SELECT string_agg((to_jsonb(j) - '_rescue_indexed')::text, ';' ORDER BY j.id) FROM jobq.jobs j WHERE j.id >= current_setting('test.waiting')::bigint),
                      (SELECT string_agg(a::text, ';' ORDER BY a::text) FROM jobq.attempts a WHERE a.job_id >= current_setting('test.waiting')::bigint),
                      (SELECT string_agg(s::text, ';' ORDER BY s.queue COLLATE "C") FROM jobq.queue_settings s)))
$$;
CREATE FUNCTION pg_temp.outcome(call text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    before text := pg_temp.everything();
    answer text;
BEGIN
    BEGIN
        EXECUTE 'SELECT string_agg(coalesce(r::text, ''NULL''), '','') FROM ' || call || ' AS r' INTO answer;
        answer := 'returns ' || coalesce(answer, 'no row');
    EXCEPTION WHEN OTHERS THEN
        answer := SQLSTATE || ' ' || SQLERRM;
    END;
    RETURN answer || CASE WHEN before = pg_temp.everything() THEN '' ELSE ' AND CHANGED SOMETHING' END;
END $$;
-- One call per line. :id, :lease, and so on are replaced by the values of the jobs above.
CREATE FUNCTION pg_temp.outcomes(calls text) RETURNS TABLE (call text, outcome text) LANGUAGE plpgsql AS $$
BEGIN
    FOR call IN SELECT trim(l) FROM regexp_split_to_table(calls, '\n') AS l WHERE trim(l) <> '' LOOP
        outcome := pg_temp.outcome(replace(replace(replace(replace(call, '<id>', current_setting('test.id')), '<lease>', current_setting('test.lease')),
                                           '<waiting>', current_setting('test.waiting')), '<finished>', current_setting('test.finished')));
        outcome := replace(replace(outcome, current_setting('test.lease'), '<lease>'), 'Job ' || current_setting('test.id'), 'Job <id>');
        RETURN NEXT;
    END LOOP;
END $$;
SELECT set_config('test.id', :'id', false) = :'id' AND set_config('test.lease', :'lease', false) = :'lease' AND
       set_config('test.waiting', :'waiting', false) = :'waiting' AND set_config('test.finished', :'finished', false) = :'finished' AS set;
\pset format unaligned
\pset tuples_only on
\pset fieldsep ' => '

-- NULL where it is not allowed.
SELECT * FROM pg_temp.outcomes($$
    jobq_enqueue(NULL)
    jobq_enqueue('bad', NULL)
    jobq_enqueue('bad', kind => NULL)
    jobq_enqueue('bad', priority => NULL)
    jobq_enqueue('bad', on_conflict => NULL)
    jobq_enqueue('bad', on_dependency_failure => NULL)
    jobq_enqueue_many(NULL, '{}')
    jobq_enqueue_many('bad', NULL)
    jobq_enqueue_many('bad', '{}', kind => NULL)
    jobq_enqueue_many('bad', '{}', priority => NULL)
    jobq_enqueue_many('bad', ARRAY['1', NULL]::jsonb[])
    jobq_enqueue_many('bad', ARRAY['1']::jsonb[], run_ats => '{NULL}')
    jobq_enqueue_many('bad', ARRAY['1']::jsonb[], priorities => '{NULL}')
    jobq_enqueue_jobs(NULL)
    jobq_claim(NULL)
    jobq_claim('bad', batch => NULL)
    jobq_claim('bad', kinds => '{NULL}')
    jobq_claim('bad', versions => '{NULL}')
    jobq_claim('bad', capabilities => '{a,NULL}')
    jobq_claim_any(NULL)
    jobq_claim_any('{bad,NULL}')
    jobq_complete(NULL, 1)
    jobq_complete(<id>)
    jobq_complete(<id>, <lease>, must_hold => NULL)
    jobq_fail(NULL, 1)
    jobq_fail(<id>)
    jobq_fail(<id>, <lease>, retry => NULL)
    jobq_heartbeat(NULL, 1)
    jobq_heartbeat(<id>)
    jobq_heartbeat_worker(NULL)
    jobq_release(NULL, 1)
    jobq_release(<id>)
    jobq_snooze(NULL, '1 s', 1)
    jobq_snooze(<id>, NULL, <lease>)
    jobq_snooze(<id>, '1 s')
    jobq_complete_many(NULL, '{1}')
    jobq_complete_many('{1}', NULL)
    jobq_complete_many('{1}', '{NULL}')
    jobq_fail_many('{1}', '{1}', retry => NULL)
    jobq_fail_many(NULL, NULL)
    jobq_heartbeat_many(NULL, NULL)
    jobq_release_many(NULL, NULL)
    jobq_complete_and_claim(NULL, '{}')
    jobq_complete_and_claim('{}', '{}', queue => NULL)
    jobq_claim_json(NULL)
    jobq_get(NULL)
    jobq_cancel(NULL)
    jobq_retry(NULL)
    jobq_reschedule(NULL, now())
    jobq_reschedule(<waiting>, NULL)
    jobq_delete(NULL)
    jobq_cancel_jobs(NULL)
    jobq_retry_jobs(NULL)
    jobq_reschedule_jobs(NULL, now())
    jobq_reschedule_jobs('bad', NULL)
    jobq_delete_jobs(NULL)
    jobq_delete_jobs('bad', statuses => '{NULL}')
    jobq_delete_jobs('bad', max_jobs => NULL)
    jobq_create_queue(NULL)
    jobq_alter_queue(NULL)
    jobq_drop_queue(NULL)
    jobq_drop_queue('bad', NULL)
    jobq_pause_queue(NULL)
    jobq_resume_queue(NULL)
    jobq_purge_queue(NULL)
    jobq_purge_queue('bad', '{NULL}')
    jobq_grant(NULL, 'worker')
    jobq_grant('postgres', NULL)
    jobq_grant('postgres', 'worker', '{NULL}')
    jobq_revoke(NULL, 'worker')
$$);

-- Names: empty or too long.
SELECT * FROM pg_temp.outcomes($$
    jobq_enqueue('')
    jobq_enqueue(repeat('q', 64))
    jobq_enqueue(repeat('ä', 32))
    jobq_enqueue('bad', kind => repeat('k', 256))
    jobq_enqueue('bad', options => jsonb_build_object('requires', ARRAY[repeat('r', 64)]))
    jobq_enqueue('bad', options => jsonb_build_object('requires', array_fill('r'::text, ARRAY[65])))
    jobq_enqueue('bad', options => '{"requires": [["a"], ["b"]]}')
    jobq_enqueue('bad', options => '{"requires": [null]}')
    jobq_enqueue_many('', '{}')
    jobq_enqueue_jobs('[{"queue": ""}]')
    jobq_enqueue('bad', unique_key => '')
    jobq_enqueue('bad', unique_key => repeat('k', 1025))
    jobq_enqueue('bad', unique_key => 'k', on_conflict => 'IGNORE')
    jobq_enqueue('bad', group_key => '')
    jobq_enqueue('bad', group_key => repeat('k', 1025))
    jobq_enqueue_many('bad', ARRAY['1', '2']::jsonb[], group_keys => ARRAY['k', ''])
    jobq_enqueue_jobs('[{"queue": "bad", "group_key": "k"}, {"queue": "bad", "group_key": ""}]')
    jobq_enqueue_jobs('[{"queue": "bad", "group_key": 7}]')
    jobq_enqueue_many('bad', ARRAY['1']::jsonb[], unique_keys => '{""}')
    jobq_enqueue_many('bad', ARRAY['1', '2']::jsonb[], unique_keys => ARRAY['k', repeat('k', 1025)])
    jobq_enqueue_jobs('[{"queue": "bad", "unique_key": "k"}, {"queue": "bad", "unique_key": ""}]')
    jobq_claim('')
    jobq_claim(repeat('q', 64))
    jobq_claim('bad', '')
    jobq_claim('bad', repeat('w', 256))
    jobq_claim('bad', 'backend:1')
    jobq_claim('bad', kinds => ARRAY[repeat('k', 256)])
    jobq_claim('bad', capabilities => ARRAY[repeat('c', 64)])
    jobq_claim('bad', kinds => array_fill('k'::text, ARRAY[1001]))
    jobq_claim_any('{bad,""}')
    jobq_heartbeat_worker('')
    jobq_heartbeat_worker('backend:1')
    jobq_create_queue('')
    jobq_create_queue(repeat('q', 64))
    jobq_cancel_jobs('')
    jobq_pause_queue('')
    jobq_purge_queue(repeat('q', 64))
    jobq_grant('', 'worker')
    jobq_grant(repeat('r', 64), 'worker')
    jobq_grant('postgres', 'WORKER')
    jobq_grant('postgres', 'worker', '{}')
    jobq_grant('postgres', 'worker', '{bad,""}')
    jobq_revoke('postgres', 'worker', ARRAY['bad', repeat('q', 64)])
    jobq_grant('postgres', 'monitor', '{bad}')
$$);

-- Numbers out of range.
SELECT * FROM pg_temp.outcomes($$
    jobq_enqueue('bad', priority => 32768)
    jobq_enqueue('bad', priority => -32769)
    jobq_enqueue('bad', priority => 2147483648)
    jobq_enqueue('bad', max_attempts => 0)
    jobq_enqueue('bad', max_attempts => -1)
    jobq_enqueue_many('bad', ARRAY['1']::jsonb[], priorities => '{40000}')
    jobq_enqueue_many('bad', ARRAY['1']::jsonb[], max_attempts => 0)
    jobq_enqueue_jobs('[{"queue": "bad", "priority": 99999}]')
    jobq_claim('bad', batch => -1)
    jobq_claim('bad', batch => 100000)
    jobq_claim('bad', batch => 2147483647)
    jobq_claim('bad', batch => 0)
    jobq_complete_and_claim('{}', '{}', queue => 'bad', batch => -1)
    jobq_delete_jobs('bad', max_jobs => -1)
    jobq_create_queue('bad 2', max_attempts => 0)
    jobq_create_queue('bad 2', max_lost => 0)
    jobq_alter_queue('bad', max_lost => -5)
$$);

-- Times and intervals: negative, zero, infinite, very long.
SELECT * FROM pg_temp.outcomes($$
    jobq_enqueue('bad', run_at => 'infinity')
    jobq_enqueue('bad', run_at => '-infinity')
    jobq_enqueue('bad', options => '{"heartbeat_timeout": "0"}')
    jobq_enqueue('bad', options => '{"heartbeat_timeout": "-1 s"}')
    jobq_enqueue('bad', options => '{"heartbeat_timeout": "1 us"}')
    jobq_enqueue('bad', options => '{"heartbeat_timeout": "1 day -1 month"}')
    jobq_enqueue_many('bad', ARRAY['1']::jsonb[], run_at => 'infinity')
    jobq_enqueue_many('bad', ARRAY['1']::jsonb[], run_ats => '{infinity}')
    jobq_enqueue_jobs('[{"queue": "bad", "run_at": "infinity"}]')
    jobq_enqueue_jobs('[{"queue": "bad", "heartbeat_timeout": "-1 s"}]')
    jobq_enqueue('bad', unique_for => '1 hour')
    jobq_enqueue('bad', unique_key => 'k', unique_for => '-1 s')
    jobq_enqueue('bad', unique_key => 'k', unique_for => '36501 days')
    jobq_enqueue_jobs('[{"queue": "bad", "unique_for": "1 hour"}]')
    jobq_enqueue_jobs('[{"queue": "bad", "unique_key": "k", "unique_for": 5}]')
    jobq_claim('bad', heartbeat_timeout => '0')
    jobq_claim('bad', heartbeat_timeout => '-1 s')
    jobq_fail(<id>, <lease>, retry_in => '-1 s')
    jobq_fail_many('{<id>}', '{<lease>}', retry_in => '-1 s')
    jobq_snooze(<id>, '-1 s', <lease>)
    jobq_reschedule(<waiting>, 'infinity')
    jobq_reschedule_jobs('bad', '-infinity')
    jobq_delete_jobs('bad', older_than => '-1 s')
    jobq_delete_jobs('bad', older_than => '300000 years')
    jobq_create_queue('bad 2', backoff_base => '-1 s')
    jobq_create_queue('bad 2', backoff_max => '-1 s')
    jobq_create_queue('bad 2', heartbeat_timeout => '0')
    jobq_create_queue('bad 2', keep_completed => '-1 s')
    jobq_create_queue('bad 2', keep_failed => '-1 month')
    jobq_tick('-infinity')
$$);

-- Options and filters. The queue and the order of a job cannot be set with an option, whatever the value is.
SELECT * FROM pg_temp.outcomes($$
    jobq_enqueue('bad', options => 'null')
    jobq_enqueue('bad', options => '7')
    jobq_enqueue('bad', options => '[{"version": 1}]')
    jobq_enqueue('bad', options => '{"queue": "bad 2"}')
    jobq_enqueue('bad', options => '{"queue": null}')
    jobq_enqueue('bad', options => '{"unique_key": "k"}')
    jobq_enqueue('bad', options => '{"group_key": "g"}')
    jobq_enqueue('bad', options => '{"concurrency_key": "c"}')
    jobq_enqueue('bad', options => '{"depends_on": []}')
    jobq_enqueue('bad', options => '{"version": 1, "metadata": {}}')
    jobq_enqueue('bad', options => '{"version": 1.5}')
    jobq_enqueue('bad', options => '{"version": 3000000000}')
    jobq_enqueue('bad', options => '{"max_runtime": 5}')
    jobq_enqueue('bad', options => '{"max_runtime": "soon"}')
    jobq_enqueue('bad', options => '{"": 1}')
    jobq_enqueue('bad', options => jsonb_build_object(repeat('k', 1000), 1))
    jobq_enqueue_many('bad', '{1}', options => '"x"')
    jobq_enqueue_many('bad', '{1}', options => '{"queue": "bad 2"}')
    jobq_enqueue_many('bad', '{1}', options => '{"payload": 2}')
    jobq_enqueue_many('bad', '{1}', options => '{"unique_keys": ["k"]}')
    jobq_enqueue_many('bad', '{1}', options => '{"concurrency_key": "c"}')
    jobq_enqueue_many('bad', '{1}', options => '{"on_dependency_failure": "run"}')
    jobq_enqueue_many('bad', '{1}', options => '{"on_conflict": "replace"}')
    jobq_enqueue_many('bad', '{1}', options => '{"on_conflict": "maybe"}', unique_keys => '{k}')
    jobq_enqueue_many('bad', '{1}', options => '{"unique_for": "1 hour"}')
    jobq_enqueue_many('bad', '{1}', options => '{"heartbeat_timeout": "0"}')
    jobq_delete_jobs('bad', filter => '[]')
    jobq_delete_jobs('bad', filter => '{"queue": "bad 2"}')
    jobq_delete_jobs('bad', filter => '{"kind": "k"}')
    jobq_delete_jobs('bad', filter => '{"concurrency": "k"}')
    jobq_delete_jobs('bad', filter => '{"concurrency_key": null}')
    jobq_delete_jobs('bad', filter => '{"concurrency_key": ""}')
    jobq_cancel_jobs('bad', filter => '{"group_key": 7}')
    jobq_retry_jobs('bad', filter => '{"version": "one"}')
    jobq_reschedule_jobs('bad', now(), filter => '{"run_at": "2001-01-01"}')
$$);

-- Arrays: different lengths, two dimensions, too many elements. JSON with a wrong structure.
SELECT * FROM pg_temp.outcomes($$
    jobq_enqueue_many('bad', ARRAY['1']::jsonb[], unique_keys => '{}')
    jobq_enqueue_many('bad', ARRAY['1']::jsonb[], unique_keys => '{{k}}')
    jobq_enqueue_many('bad', ARRAY['1']::jsonb[], group_keys => '{}')
    jobq_enqueue_many('bad', ARRAY['1']::jsonb[], group_keys => '{{k}}')
    jobq_enqueue_many('bad', '{{1,2}}')
    jobq_enqueue_many('bad', ARRAY['1', '2']::jsonb[], run_ats => ARRAY[now()])
    jobq_enqueue_many('bad', ARRAY['1', '2']::jsonb[], priorities => '{1}')
    jobq_enqueue_jobs('{}')
    jobq_enqueue_jobs('"bad"')
    jobq_enqueue_jobs('null')
    jobq_enqueue_jobs('[[]]')
    jobq_enqueue_jobs('[{"queue": "bad", "Priority": 1}]')
    jobq_enqueue_jobs('[{"queue": "bad"}, null]')
    jobq_claim('bad', kinds => '{{a}}')
    jobq_claim_any('{{bad}}')
    jobq_complete_many('{1,2}', '{1}')
    jobq_complete_many('{1}', '{1}', '{}')
    jobq_complete_many('{{1}}', '{1}')
    jobq_complete_many(array_fill(1::bigint, ARRAY[100000]), array_fill(1::bigint, ARRAY[100000]))
    jobq_fail_many('{1}', '{1}', '{a,b}')
    jobq_heartbeat_many('{1}', '{1,2}')
    jobq_release_many('{1}', '{}')
    jobq_delete_jobs('bad', statuses => '{{failed}}')
    jobq_purge_queue('bad', '{{failed}}')
$$);
\pset tuples_only off
\set VERBOSITY sqlstate
SELECT jobq_enqueue_jobs('[{"queue": "bad"}, {"queue": "bad", "requires": "x"}]');
SELECT jobq_enqueue_jobs('[{"queue": "bad"}, {"queue": "bad", "priority": "high"}]');
SELECT jobq_enqueue_jobs('[{"queue": "bad"}, {"queue": "bad", "max_attempts": 1e10}]');
SELECT jobq_enqueue_jobs('[{"queue": "bad"}, {"queue": "bad", "run_at": "tomorrowish"}]');
\set VERBOSITY default
\pset format aligned

-- For an unknown, finished, or lost job, the answer is a row with this state; see report.sql and many.sql. A job of another queue
-- is treated like any other job.
SELECT jobq_complete(:finished, 1), jobq_fail(:finished, 1), jobq_heartbeat(:finished, 1), jobq_release(:finished, 1), jobq_snooze(:finished, '0', 1);
SELECT jobq_complete(9223372036854775807, 1), jobq_cancel(-9223372036854775808);

-- Payloads: any jsonb value up to jobq.max_payload is accepted. A larger one raises 54000, whichever argument contains it.
\set VERBOSITY terse
SELECT jobq_enqueue('bad', '"\u0000"');
SELECT jobq_enqueue('bad', '{');
SELECT jobq_enqueue('bad 3', jsonb_build_object('mb', repeat('x', 1000000))) > 0 AS one_megabyte;
SELECT jobq_enqueue('bad 3', (repeat('[', 2000) || repeat(']', 2000))::jsonb) > 0 AS deep;
SELECT length(payload::text) FROM jobq_claim('bad 3', batch => 2);
SET jobq.max_payload = '2kB';
SELECT jobq_enqueue('bad', to_jsonb(repeat('x', 3000)));
SELECT jobq_enqueue('bad', metadata => to_jsonb(repeat('x', 3000)));
SELECT jobq_enqueue_many('bad', ARRAY['1', to_jsonb(repeat('x', 3000))]);
SELECT jobq_enqueue_jobs(jsonb_build_array(jsonb_build_object('queue', 'bad', 'payload', repeat('x', 3000))));
SELECT jobq_complete(:id, :lease, to_jsonb(repeat('x', 3000)));
SELECT jobq_complete_many(ARRAY[:id], ARRAY[:lease], ARRAY[to_jsonb(repeat('x', 3000))]);
SELECT jobq_heartbeat(:id, :lease, to_jsonb(repeat('x', 3000)));
RESET jobq.max_payload;
\set VERBOSITY default
-- A long error text is truncated at a character boundary, not rejected.
BEGIN;
SELECT jobq_fail(:id, :lease, 'x' || repeat('é', 100000), retry => false);
SELECT octet_length(error) BETWEEN 32760 AND 32768 AS cut, error LIKE 'xéé%' AS as_given FROM jobq.jobs WHERE id = :id;
ROLLBACK;

-- If a queue is dropped while a worker holds one of its jobs, the report of the worker finds no job.
SELECT payload, status, attempts FROM jobq.jobs WHERE queue = 'bad' ORDER BY id;
SELECT jobq_drop_queue('bad', force => true), jobq_drop_queue('bad 3', force => true);
SELECT jobq_heartbeat(:id, :lease), jobq_complete(:id, :lease);

-- A heartbeat timeout that would overflow a timestamp.
SELECT jobq_claim('bad', heartbeat_timeout => '1000000 years');
SELECT jobq_enqueue('bad', options => '{"heartbeat_timeout": "366 days"}');
SELECT jobq_create_queue('bad', heartbeat_timeout => '100000000 years');
SELECT count(*) FROM jobq.queue_settings WHERE queue = 'bad';

-- Calls from a function that is marked PARALLEL SAFE, in a parallel worker or, if none is available, in the leader.
CREATE FUNCTION bad_writer(n integer) RETURNS bigint LANGUAGE sql PARALLEL SAFE AS $$ SELECT jobq_enqueue('bad parallel') $$;
CREATE FUNCTION bad_reader(n integer) RETURNS text LANGUAGE plpgsql PARALLEL SAFE AS $$ BEGIN RETURN (SELECT status FROM jobq_get(n)); END $$;
CREATE TABLE bad_parallel AS SELECT n FROM generate_series(1, 1000) n;
ALTER TABLE bad_parallel SET (parallel_workers = 2);
DO $$
DECLARE
    reader text;
BEGIN
    SET LOCAL parallel_setup_cost = 0;
    SET LOCAL parallel_tuple_cost = 0;
    SET LOCAL min_parallel_table_scan_size = 0;
    SET LOCAL parallel_leader_participation = off;
    BEGIN
        PERFORM bad_writer(n) FROM bad_parallel;
    EXCEPTION WHEN invalid_transaction_state THEN
        GET STACKED DIAGNOSTICS reader = PG_EXCEPTION_HINT;
        RAISE NOTICE '% %. %', SQLSTATE, SQLERRM, reader;
    END;
    BEGIN
        PERFORM bad_reader(n) FROM bad_parallel;
    EXCEPTION WHEN invalid_transaction_state THEN
        RAISE NOTICE '% %', SQLSTATE, SQLERRM;
    END;
END $$;
SELECT count(*) FROM jobq.jobs WHERE queue = 'bad parallel';
DROP TABLE bad_parallel;
DROP FUNCTION bad_writer(integer), bad_reader(integer);
