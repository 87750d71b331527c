-- Checks the version of the library. A server that has preloaded an older library uses that library until the server is restarted.
-- Until then, CREATE EXTENSION fails here with a clear error, instead of at the first function that the older library lacks.

--: version of the jobq library
CREATE FUNCTION jobq_version()
    RETURNS text
    AS 'MODULE_PATHNAME'
    LANGUAGE C STABLE PARALLEL SAFE;

--: raises an error if the library is older than the extension; each upgrade script calls this function first
CREATE FUNCTION jobq.require_library()
    RETURNS void
    AS 'MODULE_PATHNAME', 'jobq_require_library'
    LANGUAGE C VOLATILE PARALLEL UNSAFE;
SELECT jobq.require_library();
