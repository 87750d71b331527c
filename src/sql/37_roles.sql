-- Privileges of roles.

--: grant a role what a producer, worker, operator, or monitor needs, for these queues or for all
CREATE FUNCTION jobq_grant(role text, profile text, queues text[] DEFAULT NULL)
    RETURNS void
    AS 'MODULE_PATHNAME'
    LANGUAGE C VOLATILE PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp;

--: revoke what jobq_grant granted, for these queues or for all
CREATE FUNCTION jobq_revoke(role text, profile text, queues text[] DEFAULT NULL)
    RETURNS void
    AS 'MODULE_PATHNAME'
    LANGUAGE C VOLATILE PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp;

-- For SECURITY DEFINER functions of other extensions, such as jobq_shard, which must reveal about a queue only what the functions
-- of jobq would reveal.
--: whether the role that called the outermost SECURITY DEFINER function may call a function of jobq for a queue
CREATE FUNCTION jobq.may_use(queue text, call text)
    RETURNS boolean
    AS 'MODULE_PATHNAME', 'jobq_may_use'
    LANGUAGE C STABLE PARALLEL UNSAFE SECURITY DEFINER SET search_path = pg_catalog, pg_temp;
