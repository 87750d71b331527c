-- Lists the functions and procedures of the extension that the driver has not called, and overloaded names, which drivers without
-- types could not distinguish.
SELECT 'never called: ' || oid::regprocedure FROM uncalled
UNION ALL
SELECT 'overloaded: ' || proname
FROM pg_proc WHERE proname LIKE 'jobq\_%'
GROUP BY proname HAVING count(*) > 1
ORDER BY 1;
