-- When work is due again and again.

--: the next runs of a cron expression in a time zone, behind a moment
CREATE FUNCTION jobq_next_runs(cron text, timezone text DEFAULT 'UTC', after timestamptz DEFAULT NULL, n integer DEFAULT 5)
    RETURNS SETOF timestamptz
    AS 'MODULE_PATHNAME'
    LANGUAGE C STABLE PARALLEL SAFE ROWS 5;
