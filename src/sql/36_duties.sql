-- Functions that run the duties of the background worker and that allow the jobs of a copied database to run.

--: perform the duties of the background worker once: "rescue", "cancel", "expire", "promote", "schedules", "unblock", "batches",
--: "prune", "repair", and "reconcile"
CREATE FUNCTION jobq_tick(now timestamptz DEFAULT NULL)
    RETURNS TABLE (duty text, done bigint)
    AS 'MODULE_PATHNAME'
    LANGUAGE C VOLATILE PARALLEL UNSAFE;

--: allow the jobs of a copied or restored database to run in this database; returns false if they were already allowed to run
CREATE FUNCTION jobq_adopt()
    RETURNS boolean
    AS 'MODULE_PATHNAME'
    LANGUAGE C VOLATILE PARALLEL UNSAFE;
