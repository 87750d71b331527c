-- Installation takes one statement. Workers can claim at once.
CREATE EXTENSION jobq;
SELECT jobq_claim();
SELECT * FROM jobq_claim();
SELECT jobq_version() = extversion AS library_and_extension_agree FROM pg_extension WHERE extname = 'jobq';

-- Functions are in the target schema of CREATE EXTENSION. Everything else is in the schema jobq.
SELECT n.nspname AS schema, count(*) > 0 AS has_functions
FROM pg_depend d JOIN pg_proc p ON p.oid = d.objid JOIN pg_namespace n ON n.oid = p.pronamespace
WHERE d.classid = 'pg_proc'::regclass AND d.deptype = 'e' AND d.refobjid = (SELECT oid FROM pg_extension WHERE extname = 'jobq')
GROUP BY 1 ORDER BY 1;
SELECT relname, relkind FROM pg_class WHERE relnamespace = 'jobq'::regnamespace AND relkind IN ('r', 'v') ORDER BY relkind, relname;

-- The extension cannot be installed twice, and its script cannot be loaded manually.
CREATE EXTENSION jobq;

-- The following tests use settle(), so that their results do not depend on a background worker or the speed of the server. A tick
-- skips a duty that the background worker is doing. settle() calls the tick until this session has done the search for jobs to
-- unblock: a session that does the search keeps the lock until its transaction ends.
CREATE FUNCTION settle() RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    LOOP
        PERFORM jobq_tick();
        EXIT WHEN EXISTS (SELECT FROM pg_locks WHERE pid = pg_backend_pid() AND locktype = 'object' AND classid = 'pg_class'::regclass
                          AND objid = 'jobq.jobs'::regclass AND mode = 'ExclusiveLock');
    END LOOP;
END $$;
-- Calls the tick when the background worker has locked no row and is not pruning, because otherwise, the tick would skip these rows or
-- the prune.
CREATE FUNCTION tick_alone(now timestamptz) RETURNS TABLE (duty text, done bigint) LANGUAGE plpgsql AS $$
BEGIN
    LOCK TABLE jobq.jobs IN SHARE ROW EXCLUSIVE MODE;
    PERFORM FROM jobq.tick_state FOR UPDATE;
    RETURN QUERY SELECT t.duty, t.done FROM jobq_tick(now) t;
END $$;
-- Claims jobs and returns their payloads.
CREATE FUNCTION claim_payloads(name text, batch int DEFAULT 9, kinds text[] DEFAULT NULL) RETURNS text LANGUAGE sql AS $$
    SELECT coalesce(string_agg(payload #>> '{}', ' '), 'nothing') FROM jobq_claim(name, 'w', batch, kinds => kinds, heartbeat_timeout => '1 hour') $$;
-- Returns the result of a call, or its SQLSTATE, message, and hint.
CREATE FUNCTION outcome_with_hint(call text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    answer text;
    hint text;
BEGIN
    EXECUTE 'SELECT ' || call INTO answer;
    RETURN answer;
EXCEPTION WHEN OTHERS THEN
    GET STACKED DIAGNOSTICS hint = PG_EXCEPTION_HINT;
    RETURN SQLSTATE || ' ' || SQLERRM || ' / ' || hint;
END $$;
