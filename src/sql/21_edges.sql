-- Edges between jobs: the table, its indexes and triggers. Runs once: an upgrade never re-runs this fragment.

-- Everything about edges stands here, not in jobq.jobs, so that jobs without edges pay nothing. No foreign keys, because
-- they would make completions wait for producers.
--: which jobs depend on which others, await them, or have spawned them
CREATE TABLE jobq.edges (
    job_id     bigint NOT NULL,  --: the job that the edge begins at: the dependent, the job that awaits, or the parent
    kind       text COLLATE "C" NOT NULL DEFAULT 'depends',  --: depends, awaits (jobq_await_jobs) or child (jobq_spawn)
    target     bigint NOT NULL,  --: the job that the edge leads to; a dependency always has a lower id
    on_failure text DEFAULT 'cancel',  --: depends: what job_id does when target ends without having completed, cancel or
                                       --: run; other kinds: NULL
    active     boolean,  --: true if jobq looks at job_id again when target ends, else NULL
    PRIMARY KEY (job_id, kind, target),
    CONSTRAINT edges_kind_choice CHECK (kind IN ('depends', 'awaits', 'child')),
    -- Therefore dependencies never form a cycle.
    CONSTRAINT edges_depend_on_older_jobs_only CHECK (kind <> 'depends' OR target < job_id),
    CONSTRAINT edges_on_failure_choice
        CHECK (CASE kind WHEN 'depends' THEN coalesce(on_failure IN ('cancel', 'run'), false) ELSE on_failure IS NULL END)
) WITH (autovacuum_vacuum_scale_factor = 0.05);
-- Finds the jobs that the end of a job concerns, and whether the job is still needed.
CREATE INDEX edges_target_idx ON jobq.edges (target, kind, job_id);
-- The active edges, one index per kind: while an index has no pages beyond the first, no job has waited in this way.
CREATE INDEX edges_depends_idx ON jobq.edges (job_id) WHERE kind = 'depends' AND active;
CREATE INDEX edges_awaits_idx ON jobq.edges (job_id, target) WHERE kind = 'awaits' AND active;

-- Completed jobs that were deleted while others still had edges to them. The index is not unique, so that a transaction
-- that deletes a job waits for no other and cannot fail.
--: completed jobs that were deleted although others depended on them, had spawned them or awaited them
CREATE TABLE jobq.deleted_dependencies (
    job_id bigint NOT NULL,
    result jsonb
);
CREATE INDEX deleted_dependencies_job_idx ON jobq.deleted_dependencies (job_id);

-- As for the tables without a key in 20_tables.sql.
ALTER TABLE jobq.deleted_dependencies REPLICA IDENTITY FULL;

-- pg_dump keeps the rows of these.
SELECT pg_catalog.pg_extension_config_dump('jobq.edges', '');
SELECT pg_catalog.pg_extension_config_dump('jobq.deleted_dependencies', '');

-- Asks whose statement it is, and takes the owner's rights after that: so it is not SECURITY DEFINER.
--: after a change of jobq.edges by hand: blocks jobs that wait now, sets free those that wait no more
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
