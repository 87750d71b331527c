-- What the release after this one changes in a scratch repository (scripts/next_release.sh).

ALTER TABLE jobq.jobs ADD COLUMN next_column text;
COMMENT ON COLUMN jobq.jobs.next_column IS 'a column of the next release';

CREATE OR REPLACE VIEW jobq.background_workers AS
SELECT w.*, 1 AS next_column FROM jobq.background_workers() w;
COMMENT ON VIEW jobq.background_workers IS 'a view that has one more column in the next release';

--: a function of the next release
CREATE FUNCTION jobq.next(job_id bigint, value text DEFAULT NULL)
    RETURNS text
    AS 'MODULE_PATHNAME', 'jobq_next'
    LANGUAGE C VOLATILE PARALLEL UNSAFE;
REVOKE ALL ON FUNCTION jobq.next FROM PUBLIC;
GRANT EXECUTE ON FUNCTION jobq.next TO pg_monitor;
