-- The launcher looks at this database from now on.

--: tells the launcher to visit this database
CREATE FUNCTION jobq.announce()
    RETURNS void
    AS 'MODULE_PATHNAME', 'jobq_announce'
    LANGUAGE C VOLATILE PARALLEL UNSAFE SECURITY DEFINER SET search_path = pg_catalog, pg_temp;
SELECT jobq.announce();
