-- Functions for batches.

--: create a batch, which jobs join with the key batch_id; returns its id; when the batch has been sealed and all of its jobs have ended,
--: jobq enqueues the callbacks, whose objects have keys as in jobq_enqueue_jobs
CREATE FUNCTION jobq_create_batch(
        name text DEFAULT '',
        on_complete jsonb DEFAULT NULL,
        on_success jsonb DEFAULT NULL,
        on_failure jsonb DEFAULT NULL,
        metadata jsonb DEFAULT NULL)
    RETURNS bigint
    AS 'MODULE_PATHNAME'
    LANGUAGE C VOLATILE PARALLEL UNSAFE;

--: seal a batch, so that no more jobs can join it; returns false if it was already sealed, and NULL if it does not exist
CREATE FUNCTION jobq_seal_batch(batch_id bigint)
    RETURNS boolean
    AS 'MODULE_PATHNAME'
    LANGUAGE C VOLATILE PARALLEL UNSAFE;

--: the progress of a batch, with the same columns as the view jobq.batches; no rows if the batch does not exist
CREATE FUNCTION jobq_get_batch(batch_id bigint)
    RETURNS TABLE (id bigint, name text, total bigint, pending bigint, running bigint, completed bigint, failed bigint,
                   cancelled bigint, progress double precision, sealed boolean, finished_at timestamptz, callbacks bigint[],
                   error text, metadata jsonb, created_by text, created_at timestamptz, sealed_at timestamptz)
    AS 'MODULE_PATHNAME'
    LANGUAGE C STABLE PARALLEL UNSAFE ROWS 1;
