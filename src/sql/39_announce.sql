-- Calling jobq.announce() makes the jobs belong to this database, and makes the launcher look for work in the database.

--: records that the jobs belong to this database, and tells the launcher to start a worker for it
CREATE FUNCTION jobq.announce()
    RETURNS void
    AS 'MODULE_PATHNAME', 'jobq_announce'
    LANGUAGE C VOLATILE PARALLEL UNSAFE SECURITY DEFINER SET search_path = pg_catalog, pg_temp;
SELECT jobq.announce();
