-- Dependencies between jobs: the table, its indexes and triggers. Runs once: an upgrade never re-runs this fragment.

-- Everything about dependencies stands here, not in jobq.jobs: jobs without any pay nothing. An edge goes to a lower id
-- only, so there is no cycle. No foreign keys: they would make completions wait for producers.
--: which jobs wait, or waited, for which others
CREATE TABLE jobq.dependencies (
    job_id     bigint NOT NULL,  --: the job that waits
    depends_on bigint NOT NULL,  --: the job that it waits for: always one with a lower id
    on_failure text NOT NULL DEFAULT 'cancel',  --: what job_id does when depends_on ends without having completed:
                                                --: cancel or run
    active    boolean,  --: true for the one unfinished dependency at whose end job_id is looked at again, else NULL
    PRIMARY KEY (job_id, depends_on),
    CONSTRAINT dependencies_on_older_jobs_only CHECK (depends_on < job_id),
    CONSTRAINT dependencies_on_failure_choice CHECK (on_failure IN ('cancel', 'run'))
) WITH (autovacuum_vacuum_scale_factor = 0.05);
-- Whom the end of a job concerns.
CREATE INDEX dependencies_depends_on_idx ON jobq.dependencies (depends_on, job_id);
-- One edge of each job that waits.
CREATE INDEX dependencies_active_idx ON jobq.dependencies (job_id) WHERE active;

-- Completed jobs that were deleted while others still depended on them. No unique index: whoever deletes a job waits
-- for nobody and cannot fail for it.
--: completed jobs that were deleted although others depended on them, had spawned them or awaited them
CREATE TABLE jobq.deleted_dependencies (
    job_id bigint NOT NULL,
    result jsonb
);
CREATE INDEX deleted_dependencies_job_idx ON jobq.deleted_dependencies (job_id);

-- As for the tables without a key in 20_tables.sql.
ALTER TABLE jobq.deleted_dependencies REPLICA IDENTITY FULL;

-- pg_dump keeps the rows of these.
SELECT pg_catalog.pg_extension_config_dump('jobq.dependencies', '');
SELECT pg_catalog.pg_extension_config_dump('jobq.deleted_dependencies', '');

-- Asks whose statement it is, and takes the owner's rights after that: so it is not SECURITY DEFINER.
--: after a change of jobq.dependencies by hand: blocks jobs that wait now, sets free those that wait no more
CREATE FUNCTION jobq.follow_dependency() RETURNS trigger
    AS 'MODULE_PATHNAME', 'jobq_follow_dependency'
    LANGUAGE C;

CREATE TRIGGER follow_dependency AFTER INSERT OR UPDATE OR DELETE ON jobq.dependencies FOR EACH ROW
    WHEN (jobq.by_hand())
    EXECUTE FUNCTION jobq.follow_dependency();
CREATE TRIGGER follow_dependencies AFTER TRUNCATE ON jobq.dependencies FOR EACH STATEMENT
    EXECUTE FUNCTION jobq.follow_dependency();

CREATE TRIGGER note_restore BEFORE INSERT ON jobq.dependencies FOR EACH STATEMENT
    WHEN (jobq.by_hand())
    EXECUTE FUNCTION jobq.note_restore();
CREATE TRIGGER note_restore BEFORE INSERT ON jobq.deleted_dependencies FOR EACH STATEMENT
    WHEN (jobq.by_hand())
    EXECUTE FUNCTION jobq.note_restore();
