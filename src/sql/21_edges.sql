-- Edges between jobs: the table, its indexes, and its triggers. CREATE EXTENSION runs this file; upgrades do not run it again.

-- Edges have a table of their own, instead of columns in jobq.jobs, so that jobs without edges have no extra cost. The table has no
-- foreign keys, because they would make completions wait for producers.
--: edges between jobs: dependencies, awaited jobs, and children
CREATE TABLE jobq.edges (
    job_id     bigint NOT NULL,  --: the job at which the edge begins: the dependent, the awaiting job, or the parent
    kind       text COLLATE "C" NOT NULL DEFAULT 'depends',  --: "depends", "awaits" (jobq_await_jobs), or "child" (jobq_spawn)
    target     bigint NOT NULL,  --: the job to which the edge leads: the dependency, the awaited job, or the child; a dependency
                                 --: always has a lower id than its dependent
    on_failure text DEFAULT 'cancel',  --: for kind "depends", what happens to the job job_id if the job target ends without
                                       --: completing: "cancel" or "run"; NULL for other kinds
    active     boolean,  --: true if jobq must check the job job_id when the job target ends; otherwise NULL
    PRIMARY KEY (job_id, kind, target),
    CONSTRAINT edges_kind_choice CHECK (kind IN ('depends', 'awaits', 'child')),
    -- Makes cycles of dependencies impossible.
    CONSTRAINT edges_depend_on_older_jobs_only CHECK (kind <> 'depends' OR target < job_id),
    CONSTRAINT edges_on_failure_choice
        CHECK (CASE kind WHEN 'depends' THEN coalesce(on_failure IN ('cancel', 'run'), false) ELSE on_failure IS NULL END)
) WITH (autovacuum_vacuum_scale_factor = 0.05);
-- Used to find the jobs that are waiting for a given job to end. The background duty "prune" also uses this index to find out
-- whether other jobs prevent the deletion of a finished job.
CREATE INDEX edges_target_idx ON jobq.edges (target, kind, job_id);
-- These indexes contain the active edges of the kinds "depends" and "awaits". If an index has only one page, which is its metapage,
-- there is no active edge of that kind, so jobq does not search for one.
CREATE INDEX edges_depends_idx ON jobq.edges (job_id) WHERE kind = 'depends' AND active;
CREATE INDEX edges_awaits_idx ON jobq.edges (job_id, target) WHERE kind = 'awaits' AND active;

-- The index is not unique, so that a transaction that deletes a job never waits or fails because of it.
--: results of completed jobs that were deleted while other jobs depended on them, had spawned them, or awaited them
CREATE TABLE jobq.deleted_dependencies (
    job_id bigint NOT NULL,
    result jsonb
);
CREATE INDEX deleted_dependencies_job_idx ON jobq.deleted_dependencies (job_id);

-- REPLICA IDENTITY FULL is needed because the table has no key: see 20_tables.sql.
ALTER TABLE jobq.deleted_dependencies REPLICA IDENTITY FULL;

-- Makes pg_dump include the rows of these tables.
SELECT pg_catalog.pg_extension_config_dump('jobq.edges', '');
SELECT pg_catalog.pg_extension_config_dump('jobq.deleted_dependencies', '');

-- The function is not SECURITY DEFINER, because it checks which role has executed the statement before it switches to the owner.
--: after plain SQL has changed jobq.edges, blocks the jobs that now have to wait, and unblocks the jobs that no longer have to wait
CREATE FUNCTION jobq.follow_edge() RETURNS trigger
    AS 'MODULE_PATHNAME', 'jobq_follow_edge'
    LANGUAGE C;

CREATE TRIGGER follow_edge AFTER INSERT OR UPDATE OR DELETE ON jobq.edges FOR EACH ROW
    WHEN (jobq.by_hand())
    EXECUTE FUNCTION jobq.follow_edge();
CREATE TRIGGER follow_edges AFTER TRUNCATE ON jobq.edges FOR EACH STATEMENT
    EXECUTE FUNCTION jobq.follow_edge();

CREATE TRIGGER note_restore BEFORE INSERT ON jobq.edges FOR EACH STATEMENT
    WHEN (jobq.by_hand())
    EXECUTE FUNCTION jobq.note_restore();
CREATE TRIGGER note_restore BEFORE INSERT ON jobq.deleted_dependencies FOR EACH STATEMENT
    WHEN (jobq.by_hand())
    EXECUTE FUNCTION jobq.note_restore();
