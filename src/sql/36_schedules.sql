-- When work is due again and again.

--: the next runs of a cron expression in a time zone, after a moment
CREATE FUNCTION jobq_next_runs(cron text, timezone text DEFAULT 'UTC', after timestamptz DEFAULT NULL, n integer DEFAULT 5)
    RETURNS SETOF timestamptz
    AS 'MODULE_PATHNAME'
    LANGUAGE C STABLE PARALLEL SAFE ROWS 5;

--: enqueue a job again and again, or change how; returns its next run
CREATE FUNCTION jobq_schedule(
        name text,
        cron text,
        queue text,
        payload jsonb DEFAULT '{}',
        kind text DEFAULT '',
        timezone text DEFAULT 'UTC',
        missed text DEFAULT 'once',
        max_missed integer DEFAULT 100,
        overlap text DEFAULT 'allow',
        deadline interval DEFAULT NULL,
        jitter interval DEFAULT NULL,
        starts_at timestamptz DEFAULT NULL,
        ends_at timestamptz DEFAULT NULL,
        paused boolean DEFAULT NULL,
        source text DEFAULT '',
        options jsonb DEFAULT '{}')
    RETURNS timestamptz
    AS 'MODULE_PATHNAME'
    LANGUAGE C VOLATILE PARALLEL UNSAFE;

--: make schedules what the objects say, keys named as the parameters of jobq_schedule; with prune no others of the
--: source are left
CREATE FUNCTION jobq_schedules(specs jsonb, prune boolean DEFAULT false, source text DEFAULT '')
    RETURNS TABLE (name text, change text, next_run timestamptz)
    AS 'MODULE_PATHNAME'
    LANGUAGE C VOLATILE PARALLEL UNSAFE;

--: remove a schedule; its jobs stay; false when there was none
CREATE FUNCTION jobq_unschedule(name text)
    RETURNS boolean
    AS 'MODULE_PATHNAME'
    LANGUAGE C VOLATILE PARALLEL UNSAFE;

--: let a schedule fire nothing until it is resumed; false when it was paused
CREATE FUNCTION jobq_pause_schedule(name text)
    RETURNS boolean
    AS 'MODULE_PATHNAME'
    LANGUAGE C VOLATILE PARALLEL UNSAFE;

--: let a paused schedule go on from now; false when it was not paused
CREATE FUNCTION jobq_resume_schedule(name text)
    RETURNS boolean
    AS 'MODULE_PATHNAME'
    LANGUAGE C VOLATILE PARALLEL UNSAFE;

--: fire a schedule now, whatever its times; returns the job, NULL when the last one is in its way
CREATE FUNCTION jobq_run_schedule(name text)
    RETURNS bigint
    AS 'MODULE_PATHNAME'
    LANGUAGE C VOLATILE PARALLEL UNSAFE;
