-- Who may do what.

--: grant a role what a producer, worker, operator or monitor needs, for these queues or for all
CREATE FUNCTION jobq_grant(role text, profile text, queues text[] DEFAULT NULL)
    RETURNS void
    AS 'MODULE_PATHNAME'
    LANGUAGE C VOLATILE PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp;

--: take back what jobq_grant granted, for these queues or for all
CREATE FUNCTION jobq_revoke(role text, profile text, queues text[] DEFAULT NULL)
    RETURNS void
    AS 'MODULE_PATHNAME'
    LANGUAGE C VOLATILE PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp;
