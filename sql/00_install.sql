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

-- For the tests that follow, beside a background worker and however slow the server is. A tick leaves what the worker is at
-- to the worker: this one ticks until it has looked itself for what can be set free. It keeps the lock of whoever does.
CREATE FUNCTION settle() RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    LOOP
        PERFORM jobq_tick();
        EXIT WHEN EXISTS (SELECT FROM pg_locks WHERE pid = pg_backend_pid() AND locktype = 'object' AND classid = 'pg_class'::regclass
                          AND objid = 'jobq.jobs'::regclass AND mode = 'ExclusiveLock');
    END LOOP;
END $$;
-- And this one waits until the worker has no row in hand, which the rescue would pass over.
CREATE FUNCTION tick_alone(now timestamptz) RETURNS TABLE (duty text, done bigint) LANGUAGE plpgsql AS $$
BEGIN
    LOCK TABLE jobq.jobs IN SHARE ROW EXCLUSIVE MODE;
    RETURN QUERY SELECT t.duty, t.done FROM jobq_tick(now) t;
END $$;
