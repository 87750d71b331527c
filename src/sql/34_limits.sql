-- Limits: the function that sets them, and functions for the view jobq.limits.

--: set the limit of a queue, of a concurrency_key, or of a kind: how many of its jobs may run at the same time, or start per
--: interval; the key or kind '*' sets the limit of every key or kind that has no limit of its own; a call that specifies neither
--: number removes the limit
CREATE FUNCTION jobq_set_limit(
        queue text,
        key text DEFAULT NULL,
        max_running integer DEFAULT NULL,
        rate integer DEFAULT NULL,
        per interval DEFAULT NULL,
        kind text DEFAULT NULL)
    RETURNS boolean
    AS 'MODULE_PATHNAME'
    LANGUAGE C VOLATILE PARALLEL UNSAFE;

--: set a limit that several queues share: how many of the jobs that name it may run at the same time, or start per interval; a call
--: that specifies neither number removes the limit
CREATE FUNCTION jobq_set_named_limit(
        name text,
        queues text[],
        max_running integer DEFAULT NULL,
        rate integer DEFAULT NULL,
        per interval DEFAULT NULL)
    RETURNS boolean
    AS 'MODULE_PATHNAME'
    LANGUAGE C VOLATILE PARALLEL UNSAFE;

--: remove a limit that jobq_set_named_limit has set; returns false if there is no such limit
CREATE FUNCTION jobq_drop_named_limit(name text)
    RETURNS boolean
    AS 'MODULE_PATHNAME'
    LANGUAGE C VOLATILE PARALLEL UNSAFE;

-- The view jobq.named_limits calls the next two functions.
--: number of running jobs that hold a slot of a named limit
CREATE FUNCTION jobq.named_limit_running(name text)
    RETURNS bigint
    AS 'MODULE_PATHNAME', 'jobq_named_limit_running'
    LANGUAGE C STABLE PARALLEL RESTRICTED SECURITY DEFINER SET search_path = pg_catalog, pg_temp;

--: number of jobs that the rate of a named limit allows to start now; if this number is 0, also the time at which the next job can start
CREATE FUNCTION jobq.named_limit_tokens(name text, rate integer, per interval)
    RETURNS TABLE (tokens integer, next_token timestamptz)
    AS 'MODULE_PATHNAME', 'jobq_named_limit_tokens'
    LANGUAGE C VOLATILE PARALLEL RESTRICTED SECURITY DEFINER SET search_path = pg_catalog, pg_temp;

-- The view jobq.limits calls the next two functions.
--: number of running jobs that hold a slot of the limit of a queue (if "key" and "kind" are NULL), of a concurrency key, of a kind, or
--: of all keys or kinds that have no limit of their own (if "key" or "kind" is '*')
CREATE FUNCTION jobq.limit_running(queue text, key text, kind text)
    RETURNS bigint
    AS 'MODULE_PATHNAME', 'jobq_limit_running'
    LANGUAGE C STABLE PARALLEL RESTRICTED SECURITY DEFINER SET search_path = pg_catalog, pg_temp;

--: number of jobs that a rate allows to start now; if this number is 0, also the time at which the next job can start
CREATE FUNCTION jobq.limit_tokens(queue text, key text, rate integer, per interval, kind text DEFAULT NULL)
    RETURNS TABLE (tokens integer, next_token timestamptz)
    AS 'MODULE_PATHNAME', 'jobq_limit_tokens'
    LANGUAGE C VOLATILE PARALLEL RESTRICTED SECURITY DEFINER SET search_path = pg_catalog, pg_temp;
