-- Limits: the function that sets them, and functions for the view jobq.limits.

--: set the limit of a queue or of a concurrency_key: how many of its jobs may run at the same time, or start per interval; the key
--: '*' sets the limit of every key that has no limit of its own; a call that specifies neither number removes the limit
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
--: number of running jobs that hold a slot of the limit of a queue (if "key" is NULL), of a concurrency key, or of all concurrency
--: keys that have no limit of their own (if "key" is '*')
CREATE FUNCTION jobq.limit_running(queue text, key text)
    RETURNS bigint
    AS 'MODULE_PATHNAME', 'jobq_limit_running'
    LANGUAGE C STABLE PARALLEL RESTRICTED SECURITY DEFINER SET search_path = pg_catalog, pg_temp;

--: number of jobs that a rate allows to start now; if this number is 0, also the time at which the next job can start
CREATE FUNCTION jobq.limit_tokens(queue text, key text, rate integer, per interval)
    RETURNS TABLE (tokens integer, next_token timestamptz)
    AS 'MODULE_PATHNAME', 'jobq_limit_tokens'
    LANGUAGE C VOLATILE PARALLEL RESTRICTED SECURITY DEFINER SET search_path = pg_catalog, pg_temp;
