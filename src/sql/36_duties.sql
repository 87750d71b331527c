-- Runs the duties of the background worker manually.

--: perform the duties of the background worker once: rescue, cancel, promote, schedules, unblock, prune, repair, reconcile
CREATE FUNCTION jobq_tick(now timestamptz DEFAULT NULL)
    RETURNS TABLE (duty text, done bigint)
    AS 'MODULE_PATHNAME'
    LANGUAGE C VOLATILE PARALLEL UNSAFE;

--: let the jobs of a copied or restored database run here; returns true if they were not allowed to before
CREATE FUNCTION jobq_adopt()
    RETURNS boolean
    AS 'MODULE_PATHNAME'
    LANGUAGE C VOLATILE PARALLEL UNSAFE;
