-- The jobs are this database's own, and the launcher looks at it from now on.

--: writes down that the jobs are this database's own, and tells the launcher to visit it
CREATE FUNCTION jobq.announce()
    RETURNS void
    AS 'MODULE_PATHNAME', 'jobq_announce'
    LANGUAGE C VOLATILE PARALLEL UNSAFE SECURITY DEFINER SET search_path = pg_catalog, pg_temp;
SELECT jobq.announce();
