-- Functions for schedules.

--: the next times that match a cron expression in a time zone
CREATE FUNCTION jobq_next_runs(cron text, timezone text DEFAULT 'UTC', after timestamptz DEFAULT NULL, n integer DEFAULT 5)
    RETURNS SETOF timestamptz
    AS 'MODULE_PATHNAME'
    LANGUAGE C STABLE PARALLEL SAFE ROWS 5;

--: create or change a schedule, which enqueues a job at certain times; returns the time of the next run
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

--: create and change schedules from an array of objects, whose keys are the arguments of jobq_schedule; if "prune" is true, also
--: remove the other schedules of the source
CREATE FUNCTION jobq_schedules(specs jsonb, prune boolean DEFAULT false, source text DEFAULT '')
    RETURNS TABLE (name text, change text, next_run timestamptz)
    AS 'MODULE_PATHNAME'
    LANGUAGE C VOLATILE PARALLEL UNSAFE;

--: remove a schedule but not its jobs; returns false if it did not exist
CREATE FUNCTION jobq_unschedule(name text)
    RETURNS boolean
    AS 'MODULE_PATHNAME'
    LANGUAGE C VOLATILE PARALLEL UNSAFE;

--: pause a schedule; returns false if it was already paused
CREATE FUNCTION jobq_pause_schedule(name text)
    RETURNS boolean
    AS 'MODULE_PATHNAME'
    LANGUAGE C VOLATILE PARALLEL UNSAFE;

--: resume a paused schedule without making up for the missed runs; returns false if it was not paused
CREATE FUNCTION jobq_resume_schedule(name text)
    RETURNS boolean
    AS 'MODULE_PATHNAME'
    LANGUAGE C VOLATILE PARALLEL UNSAFE;

--: enqueue the job of a schedule now; returns the id of the job, or NULL if "overlap" is "skip" and the last job has not finished
CREATE FUNCTION jobq_run_schedule(name text)
    RETURNS bigint
    AS 'MODULE_PATHNAME'
    LANGUAGE C VOLATILE PARALLEL UNSAFE;
