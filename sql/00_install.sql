-- Installing: one statement, and a worker may ask at once.
CREATE EXTENSION jobq;
SELECT jobq_claim();
SELECT * FROM jobq_claim();
SELECT jobq_version() = extversion AS library_and_extension_agree FROM pg_extension WHERE extname = 'jobq';

-- Functions are in the schema that CREATE EXTENSION targets, everything else in the schema jobq.
SELECT n.nspname AS schema, count(*) > 0 AS has_functions
FROM pg_depend d JOIN pg_proc p ON p.oid = d.objid JOIN pg_namespace n ON n.oid = p.pronamespace
WHERE d.classid = 'pg_proc'::regclass AND d.deptype = 'e' AND d.refobjid = (SELECT oid FROM pg_extension WHERE extname = 'jobq')
GROUP BY 1 ORDER BY 1;
SELECT relname, relkind FROM pg_class WHERE relnamespace = 'jobq'::regnamespace AND relkind IN ('r', 'v') ORDER BY relkind, relname;

-- A second time is refused, and so is loading the script by hand.
CREATE EXTENSION jobq;
