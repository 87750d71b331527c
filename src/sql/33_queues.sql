-- Queues and their settings.

--: give a queue settings of its own; NULL: the default
CREATE FUNCTION jobq_create_queue(
        queue text,
        --@ each setting: {name} {type} DEFAULT NULL
        )
    RETURNS void
    AS 'MODULE_PATHNAME'
    LANGUAGE C VOLATILE PARALLEL UNSAFE;

--: change settings of a queue; NULL: unchanged
CREATE FUNCTION jobq_alter_queue(
        queue text,
        --@ each setting: {name} {type} DEFAULT NULL
        )
    RETURNS void
    AS 'MODULE_PATHNAME'
    LANGUAGE C VOLATILE PARALLEL UNSAFE;

--: drop a queue and its finished jobs; with force its other jobs, schedules and handlers too; false when there was none
CREATE FUNCTION jobq_drop_queue(queue text, force boolean DEFAULT false)
    RETURNS boolean
    AS 'MODULE_PATHNAME'
    LANGUAGE C VOLATILE PARALLEL UNSAFE;

--: stop claims from a queue; false when it was paused already
CREATE FUNCTION jobq_pause_queue(queue text)
    RETURNS boolean
    AS 'MODULE_PATHNAME'
    LANGUAGE C VOLATILE PARALLEL UNSAFE;

--: allow claims from a paused queue; false when it was not paused
CREATE FUNCTION jobq_resume_queue(queue text)
    RETURNS boolean
    AS 'MODULE_PATHNAME'
    LANGUAGE C VOLATILE PARALLEL UNSAFE;

--: delete all jobs of a queue that are not running, or max_jobs of them; returns how many
CREATE FUNCTION jobq_purge_queue(queue text, statuses jobq.job_status[] DEFAULT NULL, max_jobs integer DEFAULT NULL)
    RETURNS bigint
    AS 'MODULE_PATHNAME'
    LANGUAGE C VOLATILE PARALLEL UNSAFE;
