-- Limits.

--: limit how many jobs of a queue or of a concurrency_key run at once, or start in a time; '*': each key; neither:
--: remove the limit
CREATE FUNCTION jobq_set_limit(
        queue text,
        key text DEFAULT NULL,
        max_running integer DEFAULT NULL,
        rate integer DEFAULT NULL,
        per interval DEFAULT NULL)
    RETURNS boolean
    AS 'MODULE_PATHNAME'
    LANGUAGE C VOLATILE PARALLEL UNSAFE;

-- For the view jobq.limits.
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
