-- What the background worker does, by hand; and the version.

--: do what the background worker does: rescue, cancel, promote, unblock, prune, repair, reconcile
CREATE FUNCTION jobq_tick(now timestamptz DEFAULT NULL)
    RETURNS TABLE (duty text, done bigint)
    AS 'MODULE_PATHNAME'
    LANGUAGE C VOLATILE PARALLEL UNSAFE;

--: version of the jobq library
CREATE FUNCTION jobq_version()
    RETURNS text
    AS 'MODULE_PATHNAME'
    LANGUAGE C IMMUTABLE PARALLEL SAFE;
