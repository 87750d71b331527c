-- Types. CREATE EXTENSION runs this file; upgrades do not run it again.

--: the status of a job; possible values:
--@ each status: --: {name} (the job {text})
CREATE TYPE jobq.job_status AS ENUM (
    --@ row status: '{name}'
);

-- The functions that claim jobs return a composite type instead of TABLE (...), because the server then finds the columns in a cache.
-- Otherwise, it would read them from the catalog in each call. Reading the catalog takes a quarter of the instructions of an empty claim.
--: a claimed job, as the functions that claim jobs return it
CREATE TYPE jobq.claimed_job AS (
    id bigint,
    lease bigint,
    queue text,
    kind text,
    payload jsonb,
    attempt integer,
    max_attempts integer,
    priority integer,
    version integer,
    run_at timestamptz,
    created_at timestamptz,
    progress jsonb,
    metadata jsonb,
    heartbeat_seconds integer
);
