-- jobq_grant: every public function belongs to a kind of role, and each kind gets only the functions that it needs.
BEGIN;
CREATE EXTENSION IF NOT EXISTS pgtap;
CREATE EXTENSION IF NOT EXISTS jobq;
SELECT plan(30);

CREATE ROLE regress_jobq_producer;
CREATE ROLE regress_jobq_worker;
CREATE ROLE regress_jobq_operator;
CREATE ROLE regress_jobq_monitor;
SELECT lives_ok(format('SELECT jobq_grant(%L, %L)', 'regress_jobq_' || kind, kind), 'jobq_grant, ' || kind) FROM unnest('{producer,worker,operator,monitor}'::text[]) AS kind;

CREATE TEMP VIEW own AS
SELECT p.oid, p.proname FROM pg_depend d JOIN pg_proc p ON p.oid = d.objid
WHERE d.classid = 'pg_proc'::regclass AND d.refclassid = 'pg_extension'::regclass AND d.deptype = 'e'
  AND d.refobjid = (SELECT oid FROM pg_extension WHERE extname = 'jobq') AND p.pronamespace <> 'jobq'::regnamespace;
CREATE FUNCTION pg_temp.may(kind text) RETURNS SETOF text LANGUAGE sql AS
    $$SELECT proname::text FROM own WHERE has_function_privilege('regress_jobq_' || kind, oid, 'EXECUTE')$$;

-- The complete table of roles and functions is in docs/reference/functions.md, which a test compares with the catalog.
SELECT set_has($$SELECT pg_temp.may('producer')$$, $$SELECT unnest('{jobq_enqueue,jobq_enqueue_many,jobq_get,jobq_wait_job,jobq_version}'::text[])$$, 'a producer enqueues, reads, and waits');
SELECT set_has($$SELECT pg_temp.may('worker')$$, $$SELECT unnest('{jobq_claim,jobq_wait,jobq_complete,jobq_fail_many,jobq_heartbeat_worker,jobq_get,jobq_version}'::text[])$$, 'a worker claims and reports');
SELECT set_has($$SELECT pg_temp.may('operator')$$, $$SELECT unnest('{jobq_get,jobq_cancel,jobq_retry_jobs,jobq_create_queue,jobq_set_limit,jobq_tick,jobq_log}'::text[])$$, 'an operator manages queues and jobs');
SELECT set_hasnt($$SELECT pg_temp.may('operator')$$, $$SELECT unnest('{jobq_enqueue,jobq_claim,jobq_complete,jobq_wait,jobq_grant}'::text[])$$, 'an operator is neither producer nor worker');
SELECT set_has($$SELECT pg_temp.may('monitor')$$, $$SELECT unnest('{jobq_explain,jobq_log,jobq_version}'::text[])$$, 'a monitor calls functions that explain and log');
SELECT set_hasnt($$SELECT pg_temp.may('monitor')$$, $$SELECT unnest('{jobq_enqueue,jobq_get,jobq_claim,jobq_complete,jobq_cancel,jobq_pause_queue,jobq_tick}'::text[])$$, 'a monitor changes nothing and sees no payloads');
SELECT set_eq($$SELECT pg_temp.may(k) FROM unnest('{producer,worker,operator,monitor}'::text[]) AS k$$,
              $$SELECT proname::text FROM own WHERE proname NOT IN ('jobq_grant', 'jobq_revoke', 'jobq_set_shard')$$, 'every function except those of the owner belongs to a kind of role');
SELECT is((SELECT array_agg(proname::text ORDER BY proname) FROM own WHERE has_function_privilege('pg_monitor', oid, 'EXECUTE')), '{jobq_log,jobq_metrics,jobq_prometheus,jobq_workers}'::text[], 'pg_monitor calls four public functions');

SELECT is(has_schema_privilege('regress_jobq_' || kind, 'jobq', 'USAGE'), true, kind || ' may use the schema') FROM unnest('{producer,worker,operator,monitor}'::text[]) AS kind;
SELECT is((SELECT count(*) FROM pg_class c WHERE c.relnamespace = 'jobq'::regnamespace AND c.relkind IN ('r', 'v', 'S')
           AND (has_table_privilege('regress_jobq_' || kind, c.oid, 'INSERT, UPDATE, TRUNCATE, REFERENCES, TRIGGER') OR
                has_table_privilege('regress_jobq_' || kind, c.oid, 'DELETE') AND (kind, c.relname) <> ('operator', 'kept_keys') OR
                c.relkind = 'S' AND has_sequence_privilege('regress_jobq_' || kind, c.oid, 'USAGE, UPDATE'))),
          0::bigint, kind || ' cannot write tables, except that an operator deletes kept keys') FROM unnest('{producer,worker,operator,monitor}'::text[]) AS kind;
SELECT is((SELECT count(*) FROM pg_class c WHERE c.relnamespace = 'jobq'::regnamespace AND c.relkind IN ('r', 'v')
           AND has_table_privilege('regress_jobq_' || kind, c.oid, 'SELECT')), 0::bigint, kind || ' cannot read tables') FROM unnest('{producer,worker}'::text[]) AS kind;
SELECT is(has_table_privilege('regress_jobq_monitor', 'jobq.queue_stats', 'SELECT'), true, 'a monitor reads the statistics');
SELECT is(has_table_privilege('regress_jobq_monitor', 'jobq.jobs', 'SELECT'), false, 'a monitor does not read the jobs');

-- jobq_grant runs with the privileges of its caller, so the privilege to call it does not allow a role to grant.
GRANT EXECUTE ON FUNCTION jobq_grant(text, text, text[]) TO regress_jobq_worker;
CREATE FUNCTION pg_temp.grant_as_worker() RETURNS void LANGUAGE plpgsql SET client_min_messages = error AS $$
BEGIN
    SET LOCAL ROLE regress_jobq_worker;
    PERFORM jobq_grant('regress_jobq_worker', 'operator');
    RESET ROLE;
EXCEPTION WHEN OTHERS THEN
    RESET ROLE;
    RAISE;
END $$;
SELECT throws_ok('SELECT pg_temp.grant_as_worker()', '42501', NULL, 'a role cannot grant itself another kind');
SELECT is(has_function_privilege('regress_jobq_worker', 'jobq_cancel(bigint)', 'EXECUTE'), false, 'the role does not have the privileges of that kind');

SET LOCAL client_min_messages = error;
SELECT jobq_revoke('regress_jobq_' || kind, kind) FROM unnest('{producer,worker,operator,monitor}'::text[]) AS kind \g /dev/null
SELECT is((SELECT count(*) FROM pg_temp.may(kind)), 0::bigint, 'jobq_revoke revokes the privileges of ' || kind) FROM unnest('{producer,operator,monitor}'::text[]) AS kind;
SELECT set_eq($$SELECT pg_temp.may('worker')$$, '{jobq_grant}'::text[], 'a privilege that was not granted by jobq_grant stays');

SELECT * FROM finish();
ROLLBACK;
