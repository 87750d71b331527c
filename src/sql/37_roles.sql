-- Functions that grant and check the privileges of roles.

--: grant a role the privileges that a producer, worker, operator, or monitor needs, for these queues or, by default, for all queues
CREATE FUNCTION jobq_grant(role text, profile text, queues text[] DEFAULT NULL)
    RETURNS void
    AS 'MODULE_PATHNAME'
    LANGUAGE C VOLATILE PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp;

--: revoke privileges that jobq_grant granted, for these queues or, by default, for all queues
CREATE FUNCTION jobq_revoke(role text, profile text, queues text[] DEFAULT NULL)
    RETURNS void
    AS 'MODULE_PATHNAME'
    LANGUAGE C VOLATILE PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp;

-- SECURITY DEFINER functions of other extensions, such as jobq_shard, call this function, because they must not reveal more about a
-- queue to a role than the functions of jobq would.
--: whether the role that called the outermost SECURITY DEFINER function may call the function of jobq named "call" for a queue
CREATE FUNCTION jobq.may_use(queue text, call text)
    RETURNS boolean
    AS 'MODULE_PATHNAME', 'jobq_may_use'
    LANGUAGE C STABLE PARALLEL UNSAFE SECURITY DEFINER SET search_path = pg_catalog, pg_temp;
