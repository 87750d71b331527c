-- Run by run.sh in the database of each driver. Needs track_functions = 'all'.

-- The functions and procedures of the extension that have not been called in this database.
CREATE VIEW uncalled AS
SELECT p.oid, p.proname
FROM pg_depend d
JOIN pg_extension e ON d.refclassid = 'pg_extension'::regclass AND d.refobjid = e.oid AND e.extname = 'jobq'
JOIN pg_proc p ON d.classid = 'pg_proc'::regclass AND d.objid = p.oid
WHERE d.deptype = 'e' AND p.proname LIKE 'jobq\_%'
  AND NOT EXISTS (SELECT FROM pg_stat_user_functions s WHERE s.funcid = p.oid AND s.calls > 0);

-- The database is already a shard, so that jobq_set_shard(1) changes nothing.
INSERT INTO jobq.shard (shard_id) VALUES (1);

-- A function for a handler, and the role that runs it.
CREATE FUNCTION derived_handler(job jsonb) RETURNS void LANGUAGE sql AS '';
DO $$ BEGIN CREATE ROLE derived_runner LOGIN; EXCEPTION WHEN duplicate_object OR unique_violation THEN NULL; END $$;

-- Calls that are derived from the catalog: of the uncalled functions and, to test the derivation, of all functions that are not
-- VOLATILE. So every driver calls a new function without naming it. An optional text may be an enumerated argument, so it is
-- omitted, and so is worker_info, which must name the same worker. There are two versions of the values: literals, and values for drivers.
CREATE VIEW derived_calls AS
SELECT p.proname::text AS name, p.prokind = 'p' AS procedure, coalesce(g.names, '{}') AS names, coalesce(g.types, '{}') AS types,
       coalesce(g.literals, '{}') AS literals, coalesce(g.vals, '[]') AS vals
FROM pg_proc p
CROSS JOIN LATERAL (
    SELECT array_agg(a.name ORDER BY a.n) AS names, array_agg(format_type(a.type, NULL) ORDER BY a.n) AS types,
           array_agg(CASE a.name WHEN 'cron' THEN '@daily' WHEN 'options' THEN '{}' WHEN 'specs' THEN '[]' WHEN 'ids' THEN '{}' WHEN 'settings' THEN '{work_mem=4MB}'
                     WHEN 'weights' THEN '{1,1}' WHEN 'batches' THEN '{1,1}' WHEN 'oldest_first' THEN 'false' ELSE s.literal END ORDER BY a.n) AS literals,
           jsonb_agg(CASE a.name WHEN 'cron' THEN '"@daily"' WHEN 'options' THEN '{}' WHEN 'specs' THEN '[]' WHEN 'ids' THEN '[]' WHEN 'settings' THEN '["work_mem=4MB"]'
                     WHEN 'weights' THEN '[1, 1]' WHEN 'batches' THEN '[1, 1]' WHEN 'oldest_first' THEN 'false' ELSE s.val END ORDER BY a.n) AS vals
    FROM unnest(p.proargtypes, p.proargnames) WITH ORDINALITY a(type, name, n)
    LEFT JOIN (
        SELECT * FROM (SELECT coalesce(max(id), 1) AS job FROM jobq.jobs) j, LATERAL (VALUES
            ('text', 'derived', '"derived"'::jsonb),
            ('text[]', '{derived}', '["derived"]'),
            ('bigint', job::text, to_jsonb(job)),
            ('bigint[]', format('{%s}', job), jsonb_build_array(job)),
            ('integer', '1', '1'),
            ('integer[]', '{1}', '[1]'),
            ('double precision', '0.5', '0.5'),
            ('boolean', 'true', 'true'),
            ('interval', '1 s', '"1 s"'),
            ('timestamp with time zone', '2100-01-01', '"2100-01-01"'),
            ('jsonb', '{"n": 1}', '{"n": 1}'),
            ('jsonb[]', '{"{\"n\": 1}"}', '[{"n": 1}]'),
            ('regprocedure', 'derived_handler(jsonb)', '"derived_handler(jsonb)"'),
            ('regrole', 'derived_runner', '"derived_runner"'),
            ('jobq.job_status', 'pending', '"pending"'),
            ('jobq.job_status[]', '{pending}', '["pending"]')) v(type, literal, val)) s ON s.type = format_type(a.type, NULL)
    WHERE a.type IS NOT NULL AND (a.n <= p.pronargs - p.pronargdefaults OR a.type <> 'text'::regtype AND a.name <> 'worker_info')) g
WHERE p.oid IN (SELECT oid FROM uncalled)
   OR p.provolatile <> 'v' AND p.proname LIKE 'jobq\_%' AND p.oid IN (SELECT objid FROM pg_depend WHERE classid = 'pg_proc'::regclass AND deptype = 'e');
