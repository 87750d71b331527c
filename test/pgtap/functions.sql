-- Checks of every function of the extension: parallel safety, privileges, search_path, and comment. Names, arguments, and results
-- are in docs/reference, which a test compares with the catalog.
BEGIN;
CREATE EXTENSION IF NOT EXISTS pgtap;
CREATE EXTENSION IF NOT EXISTS jobq;

CREATE TEMP VIEW own AS
SELECT p.*, n.nspname, p.oid::regprocedure AS signature
FROM pg_depend d JOIN pg_proc p ON p.oid = d.objid JOIN pg_namespace n ON n.oid = p.pronamespace
WHERE d.classid = 'pg_proc'::regclass AND d.refclassid = 'pg_extension'::regclass AND d.deptype = 'e'
  AND d.refobjid = (SELECT oid FROM pg_extension WHERE extname = 'jobq');
CREATE TEMP VIEW public_ones AS SELECT o.* FROM own o WHERE o.nspname <> 'jobq';

SELECT plan((SELECT 4 * count(*)::integer FROM own) + 7);

SELECT cmp_ok((SELECT count(*) FROM public_ones), '>', 40::bigint, 'the extension has more than 40 public functions');
SELECT is((SELECT count(*) FROM public_ones), (SELECT count(DISTINCT proname) FROM public_ones), 'no public function is overloaded: untyped drivers would get 42725');
SELECT is((SELECT count(DISTINCT nspname) FROM public_ones), 1::bigint, 'the public functions are in one schema');

-- Only functions that compute without access to tables may be parallel safe. STABLE functions only read: see test/fuzz/verdict.py.
SELECT set_eq($$SELECT proname::text FROM own WHERE provolatile = 'i'$$, '{}'::text[], 'no function is immutable: the numbers depend on the secret of the database');
SELECT is(o.proparallel, CASE WHEN o.proname IN ('jobq_version', 'jobq_next_runs', 'lane_of', 'group_of', 'round_robin_key_of', 'tracked_lanes', 'metric_families') THEN 's' WHEN o.proname IN ('queue_counters', 'oldest_pending_age', 'oldest_heartbeats', 'limit_running', 'limit_tokens', 'named_limit_running', 'named_limit_tokens') THEN 'r' ELSE 'u' END::"char", o.signature || ': parallel safety')
FROM own o ORDER BY o.signature::text;
-- Public functions identify their caller by the current user, and switch to the owner's privileges internally. Triggers and
-- functions behind the views run as the owner, except for triggers that check which role has executed the statement that fired
-- them. Functions that only compute need no privileges, and jobq_grant uses the privileges of its caller.
CREATE TEMP VIEW of_the_caller AS SELECT o.oid FROM own o WHERE o.nspname <> 'jobq' OR o.proname IN ('jobq_log', 'lane_of', 'group_of', 'round_robin_key_of', 'tracked_lanes', 'metric_families', 'by_hand', 'apart', 'fill_job', 'keep_secret', 'note_restore', 'follow_edge', 'require_library');
SELECT is(o.prosecdef, o.oid NOT IN (SELECT oid FROM of_the_caller), o.signature || ': SECURITY DEFINER')
FROM own o ORDER BY o.signature::text;
-- Functions that run SQL with the privileges of their caller have a fixed search_path with pg_temp last.
SELECT is(o.proconfig, CASE WHEN o.oid NOT IN (SELECT oid FROM of_the_caller) OR o.proname IN ('jobq_grant', 'jobq_revoke') THEN '{"search_path=pg_catalog, pg_temp"}'::text[] END, o.signature || ': search_path')
FROM own o ORDER BY o.signature::text;
SELECT isnt(coalesce(obj_description(o.oid, 'pg_proc'), ''), '', o.signature || ': comment') FROM own o ORDER BY o.signature::text;

-- PUBLIC may call only the function that triggers need for any role that may write the table.
SELECT set_eq($$SELECT o.proname::text FROM own o, aclexplode(coalesce(o.proacl, acldefault('f', o.proowner))) a WHERE a.grantee = 0$$,
              ARRAY['by_hand'], 'PUBLIC may execute only this function');
SELECT is((SELECT count(*) FROM own WHERE proisstrict), 0::bigint, 'no function is strict, because an error names a NULL argument');
SELECT is((SELECT count(*) FROM own WHERE prolang <> (SELECT oid FROM pg_language WHERE lanname = 'c')), 0::bigint, 'all functions are in C');

SELECT * FROM finish();
ROLLBACK;
