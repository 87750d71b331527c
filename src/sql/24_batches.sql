-- Batches: sets of jobs whose end enqueues other jobs (callbacks). CREATE EXTENSION runs this file; upgrades do not run it again.

-- A batch has no counters, because each end of a member would update the same row. The background duty "batches" looks for a member
-- that has not ended, and counts the members when there is none. The ids come from the sequence of the jobs, so that they contain the
-- number of the shard. The role is stored by name, because a dump of a column of type regrole cannot be restored on a server without
-- the role. If the role is renamed, only roles that may use all queues can use its batches.
--: batches, written by jobq_create_batch, jobq_seal_batch, and the background duty "batches"; shown by the view jobq.batches
CREATE TABLE jobq.batch_settings (
    id           bigint PRIMARY KEY CONSTRAINT batch_settings_id_range CHECK (id >= 1),
    name         text NOT NULL DEFAULT '' CONSTRAINT batch_settings_name CHECK (octet_length(name) <= 255),
    metadata     jsonb,  --: any data that the producer wants to keep with the batch
    on_complete  jsonb,  --: the job that is enqueued when all members have ended; NULL if there is none
    on_success   jsonb,  --: the job that is enqueued if all members have completed; NULL if there is none
    on_failure   jsonb,  --: the job that is enqueued if a member has failed or was canceled; NULL if there is none
    created_by   text NOT NULL DEFAULT current_user,  --: the role that created the batch
    created_at   timestamptz NOT NULL DEFAULT clock_timestamp(),
    sealed_at    timestamptz,  --: when the batch was sealed; NULL if jobs can still join the batch
    finished_at  timestamptz,  --: when jobq found that all members of the sealed batch had ended, and enqueued the callbacks
    callbacks    bigint[],  --: ids of the callbacks that were enqueued
    error        text,  --: why the callbacks could not be enqueued; NULL if they were enqueued
    _witness     bigint,  --: a member that had not ended when the duty last looked; while it has not ended, the batch has not
                          --: either
    _look_at     timestamptz,  --: when the duty tries again to enqueue the callbacks; for a finished batch, when the duty "prune"
                               --: looks whether it can delete the batch
    CONSTRAINT batch_settings_finished_is_sealed CHECK (finished_at IS NULL OR sealed_at IS NOT NULL)
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.05);
-- Used by the background duty "batches" to find the sealed batches that have not finished, and to count batches for the metrics.
CREATE INDEX batch_settings_unfinished_idx ON jobq.batch_settings (sealed_at, id) WHERE finished_at IS NULL;
-- Used by the background duty "prune" to find the batches that it can delete.
CREATE INDEX batch_settings_finished_idx ON jobq.batch_settings (_look_at) WHERE finished_at IS NOT NULL;

-- Transactions only insert rows here, so they never wait for each other. The duty "prune" replaces the rows of a batch with one row.
--: numbers of deleted members of batches; the counts of a batch are the sums of its rows plus the members in jobq.jobs
CREATE TABLE jobq.batch_counts (
    batch_id  bigint NOT NULL,
    completed bigint NOT NULL DEFAULT 0,
    failed    bigint NOT NULL DEFAULT 0,
    cancelled bigint NOT NULL DEFAULT 0,  --: includes the members that were deleted before they had ended
    _folded   boolean NOT NULL DEFAULT false  --: true if the row is the sum of rows that the duty "prune" has deleted
) WITH (autovacuum_vacuum_scale_factor = 0.05);
CREATE INDEX batch_counts_batch_idx ON jobq.batch_counts (batch_id, _folded);
CREATE INDEX batch_counts_new_idx ON jobq.batch_counts (batch_id) WHERE NOT _folded;

-- REPLICA IDENTITY FULL is needed because the table has no key: see 20_tables.sql.
ALTER TABLE jobq.batch_counts REPLICA IDENTITY FULL;

-- Makes pg_dump include the rows of these tables.
SELECT pg_catalog.pg_extension_config_dump('jobq.batch_settings', '');
SELECT pg_catalog.pg_extension_config_dump('jobq.batch_counts', '');

-- While a dump is being restored, a sealed batch can lack its members, so the duty "batches" must wait.
CREATE TRIGGER note_restore BEFORE INSERT ON jobq.batch_settings FOR EACH STATEMENT
    WHEN (jobq.by_hand())
    EXECUTE FUNCTION jobq.note_restore();
CREATE TRIGGER note_restore BEFORE INSERT ON jobq.batch_counts FOR EACH STATEMENT
    WHEN (jobq.by_hand())
    EXECUTE FUNCTION jobq.note_restore();
