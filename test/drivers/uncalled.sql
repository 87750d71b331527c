-- The functions and procedures of the extension that nobody has called in this database, by name; names that
-- are overloaded, which untyped drivers could not tell apart. Needs track_functions = 'all' while calling.
SELECT 'never called: ' || p.oid::regprocedure
FROM pg_depend d
JOIN pg_extension e ON d.refclassid = 'pg_extension'::regclass AND d.refobjid = e.oid AND e.extname = 'jobq'
JOIN pg_proc p ON d.classid = 'pg_proc'::regclass AND d.objid = p.oid
WHERE d.deptype = 'e' AND p.proname LIKE 'jobq\_%'
  AND NOT EXISTS (SELECT FROM pg_stat_user_functions s WHERE s.funcid = p.oid AND s.calls > 0)
UNION ALL
SELECT 'overloaded: ' || proname
FROM pg_proc WHERE proname LIKE 'jobq\_%'
GROUP BY proname HAVING count(*) > 1
ORDER BY 1;
