-- Checks the version of the library. A server that preloaded an older library keeps it until it is restarted. Such a server
-- rejects the extension here, where the error is clear, instead of at the first function that the older library lacks.

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
