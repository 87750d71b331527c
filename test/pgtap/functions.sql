-- Every function of the contract, under exactly these names, argument names, defaults and result.
-- And of every function that the extension has: volatility, parallel safety, rights, search_path, comment.
BEGIN;
CREATE EXTENSION IF NOT EXISTS pgtap;
CREATE EXTENSION IF NOT EXISTS jobq;

CREATE TEMP TABLE wanted (name text PRIMARY KEY, arguments text, result text, volatility "char" DEFAULT 'v') ON COMMIT DROP;
\set claimed 'TABLE(id bigint, lease bigint, queue text, kind text, payload jsonb, attempt integer, max_attempts integer, priority integer, version integer, run_at timestamp with time zone, created_at timestamp with time zone, progress jsonb, metadata jsonb, heartbeat_seconds integer)'
\set worker 'worker_id text DEFAULT NULL::text, batch integer DEFAULT 1, kinds text[] DEFAULT NULL::text[], versions integer[] DEFAULT NULL::integer[], capabilities text[] DEFAULT NULL::text[], heartbeat_timeout interval DEFAULT NULL::interval'
\set filter 'kind text DEFAULT NULL::text, statuses jobq.job_status[] DEFAULT NULL::jobq.job_status[], error_like text DEFAULT NULL::text, older_than interval DEFAULT NULL::interval, metadata jsonb DEFAULT NULL::jsonb, max_jobs integer DEFAULT 1000'
\set settings 'queue text, max_attempts integer DEFAULT NULL::integer, backoff_base interval DEFAULT NULL::interval, backoff_max interval DEFAULT NULL::interval, heartbeat_timeout interval DEFAULT NULL::interval, max_lost integer DEFAULT NULL::integer, keep_completed interval DEFAULT NULL::interval, keep_failed interval DEFAULT NULL::interval, max_depth integer DEFAULT NULL::integer, on_full text DEFAULT NULL::text, dead_letter_queue text DEFAULT NULL::text, max_runtime interval DEFAULT NULL::interval, on_max_runtime text DEFAULT NULL::text, priority_ageing interval DEFAULT NULL::interval, round_robin boolean DEFAULT NULL::boolean'
INSERT INTO wanted VALUES
    ('jobq_enqueue', 'queue text, payload jsonb DEFAULT ''{}''::jsonb, kind text DEFAULT ''''::text, priority integer DEFAULT 0, run_at timestamp with time zone DEFAULT NULL::timestamp with time zone, max_attempts integer DEFAULT NULL::integer, unique_key text DEFAULT NULL::text, on_conflict text DEFAULT ''ignore''::text, unique_for interval DEFAULT NULL::interval, group_key text DEFAULT NULL::text, concurrency_key text DEFAULT NULL::text, depends_on bigint[] DEFAULT NULL::bigint[], on_dependency_failure text DEFAULT ''cancel''::text, version integer DEFAULT 0, requires text[] DEFAULT NULL::text[], heartbeat_timeout interval DEFAULT NULL::interval, max_runtime interval DEFAULT NULL::interval, metadata jsonb DEFAULT NULL::jsonb', 'bigint'),
    ('jobq_enqueue_many', 'queue text, payloads jsonb[], kind text DEFAULT ''''::text, priority integer DEFAULT 0, run_at timestamp with time zone DEFAULT NULL::timestamp with time zone, max_attempts integer DEFAULT NULL::integer, unique_keys text[] DEFAULT NULL::text[], group_keys text[] DEFAULT NULL::text[], concurrency_keys text[] DEFAULT NULL::text[], run_ats timestamp with time zone[] DEFAULT NULL::timestamp with time zone[], priorities integer[] DEFAULT NULL::integer[]', 'TABLE(job_id bigint, is_new boolean)'),
    ('jobq_enqueue_jobs', 'specs jsonb', 'TABLE(job_id bigint, is_new boolean)'),
    ('jobq_claim', 'queue text DEFAULT ''default''::text, ' || :'worker', :'claimed'),
    ('jobq_claim_any', 'queues text[], ' || :'worker', :'claimed'),
    ('jobq_complete', 'job_id bigint, lease bigint DEFAULT NULL::bigint, result jsonb DEFAULT NULL::jsonb, must_hold boolean DEFAULT false', 'boolean'),
    ('jobq_complete_many', 'job_ids bigint[], leases bigint[], results jsonb[] DEFAULT NULL::jsonb[], must_hold boolean DEFAULT false', 'TABLE(job_id bigint, completed boolean)'),
    ('jobq_complete_and_claim', 'job_ids bigint[], leases bigint[], results jsonb[] DEFAULT NULL::jsonb[], queue text DEFAULT ''default''::text, ' || :'worker', :'claimed'),
    ('jobq_fail', 'job_id bigint, lease bigint DEFAULT NULL::bigint, error text DEFAULT NULL::text, retry_in interval DEFAULT NULL::interval, retry boolean DEFAULT true', 'jobq.job_status'),
    ('jobq_fail_many', 'job_ids bigint[], leases bigint[], errors text[] DEFAULT NULL::text[], retry_in interval DEFAULT NULL::interval, retry boolean DEFAULT true', 'TABLE(job_id bigint, status jobq.job_status)'),
    ('jobq_heartbeat', 'job_id bigint, lease bigint DEFAULT NULL::bigint, progress jsonb DEFAULT NULL::jsonb', 'text'),
    ('jobq_heartbeat_many', 'job_ids bigint[], leases bigint[]', 'TABLE(job_id bigint, state text)'),
    ('jobq_heartbeat_worker', 'worker_id text', 'TABLE(job_id bigint, state text)'),
    ('jobq_release', 'job_id bigint, lease bigint DEFAULT NULL::bigint', 'boolean'),
    ('jobq_release_many', 'job_ids bigint[], leases bigint[]', 'TABLE(job_id bigint, released boolean)'),
    ('jobq_snooze', 'job_id bigint, delay interval, lease bigint DEFAULT NULL::bigint', 'boolean'),
    ('jobq_wait', 'IN queue text DEFAULT ''default''::text, IN timeout interval DEFAULT ''00:00:30''::interval, IN kinds text[] DEFAULT NULL::text[], IN versions integer[] DEFAULT NULL::integer[], IN capabilities text[] DEFAULT NULL::text[], IN worker_id text DEFAULT NULL::text', NULL),
    ('jobq_wake', 'worker_id text', 'integer'),
    ('jobq_wait_job', 'IN job_id bigint, IN timeout interval DEFAULT ''00:00:30''::interval', NULL),
    ('jobq_cancel', 'job_id bigint', 'jobq.job_status'),
    ('jobq_retry', 'job_id bigint', 'jobq.job_status'),
    ('jobq_reschedule', 'job_id bigint, run_at timestamp with time zone', 'jobq.job_status'),
    ('jobq_delete', 'job_id bigint', 'jobq.job_status'),
    ('jobq_cancel_jobs', 'queue text, ' || :'filter', 'bigint'),
    ('jobq_retry_jobs', 'queue text, ' || :'filter', 'bigint'),
    ('jobq_reschedule_jobs', 'queue text, run_at timestamp with time zone, ' || :'filter', 'bigint'),
    ('jobq_delete_jobs', 'queue text, ' || :'filter', 'bigint'),
    ('jobq_redrive', 'queue text, max_jobs integer DEFAULT 1000, per_second double precision DEFAULT NULL::double precision', 'bigint'),
    ('jobq_create_queue', :'settings', 'void'),
    ('jobq_alter_queue', :'settings', 'void'),
    ('jobq_drop_queue', 'queue text, force boolean DEFAULT false', 'boolean'),
    ('jobq_pause_queue', 'queue text', 'boolean'),
    ('jobq_resume_queue', 'queue text', 'boolean'),
    ('jobq_purge_queue', 'queue text, statuses jobq.job_status[] DEFAULT NULL::jobq.job_status[]', 'bigint'),
    ('jobq_set_limit', 'queue text, key text DEFAULT NULL::text, max_running integer DEFAULT NULL::integer, rate integer DEFAULT NULL::integer, per interval DEFAULT NULL::interval', 'boolean'),
    ('jobq_tick', 'now timestamp with time zone DEFAULT NULL::timestamp with time zone', 'TABLE(duty text, done bigint)'),
    ('jobq_explain', 'job_id bigint', 'TABLE(reason text, detail text, jobs bigint[], pids integer[], until timestamp with time zone)'),
    ('jobq_access', '', 'TABLE(way text, reason text, allowed boolean)'),
    ('jobq_explain_queue', 'queue text', 'TABLE(reason text, detail text, jobs bigint[], pids integer[], until timestamp with time zone)'),
    ('jobq_grant', 'role text, profile text, queues text[] DEFAULT NULL::text[]', 'void'),
    ('jobq_revoke', 'role text, profile text, queues text[] DEFAULT NULL::text[]', 'void');
INSERT INTO wanted VALUES
    ('jobq_log', 'job_id bigint', 'TABLE(at timestamp with time zone, event text, attempt integer, worker_id text, detail text)', 's'),
    ('jobq_get', 'job_id bigint', 'TABLE(id bigint, queue text, kind text, payload jsonb, priority integer, status jobq.job_status, run_at timestamp with time zone, attempts integer, max_attempts integer, worker_id text, started_at timestamp with time zone, last_heartbeat timestamp with time zone, heartbeat_timeout interval, created_at timestamp with time zone, finished_at timestamp with time zone, result jsonb, error text, progress jsonb, version integer, requires text[], cancel_requested_at timestamp with time zone, metadata jsonb)', 's'),
    ('jobq_result', 'job_id bigint', 'jsonb', 's'),
    ('jobq_dependency_results', 'job_id bigint', 'TABLE(job_id bigint, status jobq.job_status, result jsonb)', 's'),
    ('jobq_dot', 'job_id bigint, max_jobs integer DEFAULT 1000', 'text', 's'),
    ('jobq_version', '', 'text', 'i');

CREATE TEMP VIEW own AS
SELECT p.*, n.nspname, p.oid::regprocedure AS signature
FROM pg_depend d JOIN pg_proc p ON p.oid = d.objid JOIN pg_namespace n ON n.oid = p.pronamespace
WHERE d.classid = 'pg_proc'::regclass AND d.refclassid = 'pg_extension'::regclass AND d.deptype = 'e'
  AND d.refobjid = (SELECT oid FROM pg_extension WHERE extname = 'jobq');
CREATE TEMP VIEW public_ones AS SELECT o.* FROM own o WHERE o.nspname <> 'jobq';

SELECT plan((SELECT 3 * count(*)::integer FROM wanted) + (SELECT 4 * count(*)::integer FROM own) + 7);

SELECT cmp_ok((SELECT count(*) FROM own), '>', 40::bigint, 'the extension has functions to look at');
SELECT set_eq('SELECT proname::text FROM public_ones', 'SELECT name FROM wanted', 'the public functions are these and no others');
SELECT is((SELECT count(*) FROM public_ones), (SELECT count(DISTINCT proname) FROM public_ones), 'no public function is overloaded: untyped drivers would get 42725');
SELECT is((SELECT count(DISTINCT nspname) FROM public_ones), 1::bigint, 'they are in one schema');

SELECT is(pg_get_function_arguments(o.oid), w.arguments, w.name || ': arguments and defaults') FROM wanted w LEFT JOIN own o ON o.proname = w.name ORDER BY w.name;
SELECT is(pg_get_function_result(o.oid), w.result, w.name || ': result') FROM wanted w LEFT JOIN own o ON o.proname = w.name ORDER BY w.name;
SELECT is(o.provolatile, w.volatility, w.name || ': volatility') FROM wanted w LEFT JOIN own o ON o.proname = w.name ORDER BY w.name;


-- What the two functions that only compute may promise, the others must not.
SELECT is(o.proparallel, CASE WHEN o.proname IN ('jobq_version', 'lane_of', 'group_of', 'turn_of', 'tracked_lanes') THEN 's' WHEN o.proname IN ('queue_counters', 'oldest_pending_age', 'oldest_heartbeats', 'limit_running', 'limit_tokens') THEN 'r' ELSE 'u' END::"char", o.signature || ': parallel safety')
FROM own o ORDER BY o.signature::text;
-- What others are granted knows by the current user who calls: the owner's rights it takes within. Triggers, and what stands
-- behind the views, are of the owner, but for triggers that ask whose statement fired them. Who only computes needs no rights, and who grants does it with the caller's.
CREATE TEMP VIEW of_the_caller AS SELECT o.oid FROM own o WHERE o.nspname <> 'jobq' OR o.proname IN ('jobq_log', 'lane_of', 'group_of', 'turn_of', 'tracked_lanes', 'by_hand', 'apart', 'fill_job', 'note_restore', 'follow_dependency');
SELECT is(o.prosecdef, o.oid NOT IN (SELECT oid FROM of_the_caller), o.signature || ': SECURITY DEFINER')
FROM own o ORDER BY o.signature::text;
-- A fixed search_path, with pg_temp last, for all that run SQL with the rights that they are called with.
SELECT is(o.proconfig, CASE WHEN o.oid NOT IN (SELECT oid FROM of_the_caller) OR o.proname IN ('jobq_grant', 'jobq_revoke') THEN '{"search_path=pg_catalog, pg_temp"}'::text[] END, o.signature || ': search_path')
FROM own o ORDER BY o.signature::text;
SELECT isnt(coalesce(obj_description(o.oid, 'pg_proc'), ''), '', o.signature || ': comment') FROM own o ORDER BY o.signature::text;

-- PUBLIC may call only what triggers need of whoever may write the table.
SELECT set_eq($$SELECT o.proname::text FROM own o, aclexplode(coalesce(o.proacl, acldefault('f', o.proowner))) a WHERE a.grantee = 0$$,
              ARRAY['by_hand', 'lane_of'], 'PUBLIC may execute nothing but these');
SELECT is((SELECT count(*) FROM own WHERE proisstrict), 0::bigint, 'none is strict: a NULL is named in an error');
SELECT is((SELECT count(*) FROM own WHERE prolang <> (SELECT oid FROM pg_language WHERE lanname = 'c')), 0::bigint, 'all are in C');

SELECT * FROM finish();
ROLLBACK;
