-- Views of all shards, for monitoring. A query of a view reads all its rows from all shards. For a single job, use jobq_get,
-- jobq_log, and jobq_explain.

--@ view queues (queue text, paused boolean, has_settings boolean, created_at timestamptz, {settings})
--@ view kinds (queue text, kind text, has_settings boolean, created_at timestamptz, {kind_settings}, origins jsonb)
--@ view queue_stats (queue text, {statuses}, oldest_pending_age interval, oldest_heartbeat timestamptz, paused boolean,
    enqueued_per_second double precision, claimed_per_second double precision, completed_per_second double precision,
    failed_per_second double precision, lost_per_second double precision, source text)
--@ view jobs ({table})
--@ view attempts ({table})
--@ view background_workers (pid integer, database text, state text, last_round timestamptz, next_round timestamptz, last_error text,
    last_error_at timestamptz, last_error_over_at timestamptz, rounds bigint, rescued bigint, cancelled bigint, expired bigint,
    promoted bigint, unblocked bigint, pruned bigint, repaired bigint, reconciled bigint, note text)
--@ view workers (worker_id text, queues text[], kinds text[], slots integer, client text, started_at timestamptz, state text, running bigint,
    last_claim timestamptz, last_seen timestamptz, info jsonb)
--@ view limits (queue text, key text, max_running integer, running bigint, rate integer, per interval, tokens integer, next_token timestamptz, kind text)
--@ view batches (id bigint, name text, total bigint, pending bigint, running bigint, completed bigint, failed bigint, cancelled bigint,
    progress double precision, sealed boolean, finished_at timestamptz, callbacks bigint[], error text, metadata jsonb,
    created_by text, created_at timestamptz, sealed_at timestamptz)
--@ view schedules (name text, queue text, kind text, cron text, timezone text, next_run timestamptz, last_run timestamptz, last_job bigint,
    paused boolean, skipped bigint, last_skipped timestamptz, skip_reason text, error text, failures integer, retry_at timestamptz,
    missed text, max_missed integer, overlap text, deadline interval, jitter interval, starts_at timestamptz, ends_at timestamptz,
    source text, created_at timestamptz)
--@ view halted_groups (queue text, group_key text, job_id bigint, kind text, error text, halted_at timestamptz, waiting bigint)
