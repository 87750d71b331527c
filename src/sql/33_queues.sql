-- Queues and their settings.

--: create a queue with its own settings; a setting that is NULL takes its default value
CREATE FUNCTION jobq_create_queue(
        queue text,
        --@ each setting: {name} {type} DEFAULT NULL
        )
    RETURNS void
    AS 'MODULE_PATHNAME'
    LANGUAGE C VOLATILE PARALLEL UNSAFE;

--: change settings of a queue; NULL leaves a setting unchanged
CREATE FUNCTION jobq_alter_queue(
        queue text,
        --@ each setting: {name} {type} DEFAULT NULL
        )
    RETURNS void
    AS 'MODULE_PATHNAME'
    LANGUAGE C VOLATILE PARALLEL UNSAFE;

--: change settings of a kind of a queue; NULL leaves a setting unchanged
CREATE FUNCTION jobq_alter_kind(
        queue text,
        kind text,
        --@ each kind_setting: {name} {type} DEFAULT NULL
        )
    RETURNS void
    AS 'MODULE_PATHNAME'
    LANGUAGE C VOLATILE PARALLEL UNSAFE;

--: remove all settings of a kind, or the settings with these names, so that the settings of the queue apply; returns false if the
--: kind had no such settings
CREATE FUNCTION jobq_drop_kind(queue text, kind text, settings text[] DEFAULT NULL)
    RETURNS boolean
    AS 'MODULE_PATHNAME'
    LANGUAGE C VOLATILE PARALLEL UNSAFE;

--: drop a queue and its finished jobs; if "force" is true, also its other jobs, schedules, and handlers; returns false if the queue
--: did not exist
CREATE FUNCTION jobq_drop_queue(queue text, force boolean DEFAULT false)
    RETURNS boolean
    AS 'MODULE_PATHNAME'
    LANGUAGE C VOLATILE PARALLEL UNSAFE;

--: pause a queue, so that none of its jobs are claimed; returns false if it was already paused
CREATE FUNCTION jobq_pause_queue(queue text)
    RETURNS boolean
    AS 'MODULE_PATHNAME'
    LANGUAGE C VOLATILE PARALLEL UNSAFE;

--: resume a paused queue; returns false if it was not paused
CREATE FUNCTION jobq_resume_queue(queue text)
    RETURNS boolean
    AS 'MODULE_PATHNAME'
    LANGUAGE C VOLATILE PARALLEL UNSAFE;

--: delete the jobs of a queue that are not running, at most max_jobs; returns how many were deleted
CREATE FUNCTION jobq_purge_queue(queue text, statuses jobq.job_status[] DEFAULT NULL, max_jobs integer DEFAULT NULL)
    RETURNS bigint
    AS 'MODULE_PATHNAME'
    LANGUAGE C VOLATILE PARALLEL UNSAFE;
