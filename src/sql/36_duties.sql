-- What the background worker does, by hand.

--: do what the background worker does: rescue, cancel, promote, schedules, unblock, prune, repair, reconcile
CREATE FUNCTION jobq_tick(now timestamptz DEFAULT NULL)
    RETURNS TABLE (duty text, done bigint)
    AS 'MODULE_PATHNAME'
    LANGUAGE C VOLATILE PARALLEL UNSAFE;

--: make the jobs of a copied or restored database its own, so that they run; true when they were not
CREATE FUNCTION jobq_adopt()
    RETURNS boolean
    AS 'MODULE_PATHNAME'
    LANGUAGE C VOLATILE PARALLEL UNSAFE;
