-- Limits.

--: set the limit of a queue or of a concurrency_key: how many of its jobs may run at the same time, or start per interval;
--: the key '*' sets the limit for all keys that have no limit of their own; a call without max_running and rate removes the
--: limit
CREATE FUNCTION jobq_set_limit(
        queue text,
        key text DEFAULT NULL,
        max_running integer DEFAULT NULL,
        rate integer DEFAULT NULL,
        per interval DEFAULT NULL)
    RETURNS boolean
    AS 'MODULE_PATHNAME'
    LANGUAGE C VOLATILE PARALLEL UNSAFE;

-- The view jobq.limits calls the next two functions.
--: how many running jobs hold a slot of the limit of a queue (key NULL), of a key, or of the other keys ('*')
CREATE FUNCTION jobq.limit_running(queue text, key text)
    RETURNS bigint
    AS 'MODULE_PATHNAME', 'jobq_limit_running'
    LANGUAGE C STABLE PARALLEL RESTRICTED SECURITY DEFINER SET search_path = pg_catalog, pg_temp;

--: how many jobs a rate lets start now, and when the next one may if none
CREATE FUNCTION jobq.limit_tokens(queue text, key text, rate integer, per interval)
    RETURNS TABLE (tokens integer, next_token timestamptz)
    AS 'MODULE_PATHNAME', 'jobq_limit_tokens'
    LANGUAGE C VOLATILE PARALLEL RESTRICTED SECURITY DEFINER SET search_path = pg_catalog, pg_temp;
