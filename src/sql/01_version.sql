-- Which library there is. A server that preloaded an older one keeps it until it is restarted: it refuses here, where its answer is
-- clear, and not at the first function that it lacks.

--: version of the jobq library
CREATE FUNCTION jobq_version()
    RETURNS text
    AS 'MODULE_PATHNAME'
    LANGUAGE C STABLE PARALLEL SAFE;

--: raises an error unless the library is at least as new as the extension; the first call of each upgrade script
CREATE FUNCTION jobq.require_library()
    RETURNS void
    AS 'MODULE_PATHNAME', 'jobq_require_library'
    LANGUAGE C VOLATILE PARALLEL UNSAFE;
SELECT jobq.require_library();
