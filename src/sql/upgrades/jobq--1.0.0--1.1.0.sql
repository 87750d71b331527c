-- What has changed in src/sql since 1.0.0. CONTRIBUTING.md, "Change SQL after a release".
\echo Use "ALTER EXTENSION jobq UPDATE" to load this file. \quit

SELECT jobq.require_library();

-- Schedules: what is enqueued again and again.

-- The functions check and write it, the duty "schedules" fires what is due. `_due_at` is what that looks for.
CREATE TABLE jobq.schedule_settings (
    name         text COLLATE "C" PRIMARY KEY
                 CONSTRAINT schedule_settings_name CHECK (octet_length(name) BETWEEN 1 AND 255),
    cron         text NOT NULL,
    timezone     text NOT NULL DEFAULT 'UTC',
    queue        text NOT NULL CONSTRAINT schedule_settings_queue_name CHECK (octet_length(queue) BETWEEN 1 AND 63),
    kind         text NOT NULL DEFAULT '',
    payload      jsonb NOT NULL DEFAULT '{}',
    options      jsonb NOT NULL DEFAULT '{}'
                 CONSTRAINT schedule_settings_options_object CHECK (jsonb_typeof(options) = 'object'),
    missed       text NOT NULL DEFAULT 'once'
                 CONSTRAINT schedule_settings_missed_choice CHECK (missed IN ('once', 'all', 'skip')),
    max_missed   integer NOT NULL DEFAULT 100
                 CONSTRAINT schedule_settings_max_missed_range CHECK (max_missed BETWEEN 1 AND 1000),
    overlap      text NOT NULL DEFAULT 'allow'
                 CONSTRAINT schedule_settings_overlap_choice CHECK (overlap IN ('allow', 'skip', 'replace')),
    deadline     interval,
    jitter       interval,
    starts_at    timestamptz,
    ends_at      timestamptz,
    paused       boolean NOT NULL DEFAULT false,
    source       text NOT NULL DEFAULT '',
    created_at   timestamptz NOT NULL DEFAULT clock_timestamp(),
    next_run     timestamptz,
    last_run     timestamptz,
    last_job     bigint,
    skipped      bigint NOT NULL DEFAULT 0,
    last_skipped timestamptz,
    skip_reason  text,
    error        text,
    failures     integer NOT NULL DEFAULT 0,
    _due_at      timestamptz,
    _unfinished  bigint[]
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.05);
COMMENT ON TABLE jobq.schedule_settings IS 'what is to be enqueued again and again: jobq_schedule and the like write it, jobq.schedules shows it';
COMMENT ON COLUMN jobq.schedule_settings.cron IS 'when it runs, as jobq_next_runs understands it';
COMMENT ON COLUMN jobq.schedule_settings.timezone IS 'where';
COMMENT ON COLUMN jobq.schedule_settings.options IS 'what else of its jobs is to be as jobq_enqueue would be told';
COMMENT ON COLUMN jobq.schedule_settings.missed IS 'which of the runs that nobody fired in time are fired later: once, all or skip';
COMMENT ON COLUMN jobq.schedule_settings.overlap IS 'what a run does while the last job is unfinished: allow, skip or replace';
COMMENT ON COLUMN jobq.schedule_settings.deadline IS 'a run that is later than that is dropped; NULL: none is';
COMMENT ON COLUMN jobq.schedule_settings.jitter IS 'the run_at of its jobs is spread over so much time; NULL: over none';
COMMENT ON COLUMN jobq.schedule_settings.starts_at IS 'no run is earlier; @every counts from it';
COMMENT ON COLUMN jobq.schedule_settings.ends_at IS 'no run is later';
COMMENT ON COLUMN jobq.schedule_settings.source IS 'who keeps it: jobq_schedules with prune removes what has the same';
COMMENT ON COLUMN jobq.schedule_settings.next_run IS 'the run that comes next, or that is due; NULL: paused, or there is none any more';
COMMENT ON COLUMN jobq.schedule_settings.last_run IS 'the run that was fired last';
COMMENT ON COLUMN jobq.schedule_settings.last_job IS 'the job that was enqueued last; it may be gone';
COMMENT ON COLUMN jobq.schedule_settings.skipped IS 'runs that were not fired, of one outage a thousand at most';
COMMENT ON COLUMN jobq.schedule_settings.last_skipped IS 'the last of them';
COMMENT ON COLUMN jobq.schedule_settings.skip_reason IS 'why: missed, deadline or overlap';
COMMENT ON COLUMN jobq.schedule_settings.error IS 'why it could not be fired; NULL: it could';
COMMENT ON COLUMN jobq.schedule_settings.failures IS 'so many times in a row';
COMMENT ON COLUMN jobq.schedule_settings._due_at IS 'when the duty looks at it again: next_run, or later after a failure';
COMMENT ON COLUMN jobq.schedule_settings._unfinished IS 'of overlap replace: its jobs that had not finished when it was fired last';
CREATE INDEX schedule_settings_due_idx ON jobq.schedule_settings (_due_at) WHERE _due_at IS NOT NULL;

-- pg_dump keeps the rows.
SELECT pg_catalog.pg_extension_config_dump('jobq.schedule_settings', '');

CREATE FUNCTION jobq.fill_schedule() RETURNS trigger
    AS 'MODULE_PATHNAME', 'jobq_fill_schedule'
    LANGUAGE C SECURITY DEFINER SET search_path = pg_catalog, pg_temp;
COMMENT ON FUNCTION jobq.fill_schedule IS 'lets schedules that come by an INSERT or COPY go on from now, and those that are changed by hand run as they say';
CREATE TRIGGER fill_schedule BEFORE INSERT OR UPDATE ON jobq.schedule_settings FOR EACH ROW
    WHEN (jobq.by_hand())
    EXECUTE FUNCTION jobq.fill_schedule();
CREATE TRIGGER note_restore BEFORE INSERT ON jobq.schedule_settings FOR EACH STATEMENT
    WHEN (jobq.by_hand())
    EXECUTE FUNCTION jobq.note_restore();
COMMENT ON FUNCTION jobq_drop_queue IS 'drop a queue and its finished jobs; with force its other jobs and its schedules too; false when there was none';
COMMENT ON FUNCTION jobq_tick IS 'do what the background worker does: rescue, cancel, promote, schedules, unblock, prune, repair, reconcile';

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
COMMENT ON FUNCTION jobq_schedule IS 'enqueue a job again and again, or change how; returns its next run';

CREATE FUNCTION jobq_schedules(specs jsonb, prune boolean DEFAULT false, source text DEFAULT '')
    RETURNS TABLE (name text, change text, next_run timestamptz)
    AS 'MODULE_PATHNAME'
    LANGUAGE C VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION jobq_schedules IS 'make schedules what the objects say, keys named as the parameters of jobq_schedule; with prune no others of the source are left';

CREATE FUNCTION jobq_unschedule(name text)
    RETURNS boolean
    AS 'MODULE_PATHNAME'
    LANGUAGE C VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION jobq_unschedule IS 'remove a schedule; its jobs stay; false when there was none';

CREATE FUNCTION jobq_pause_schedule(name text)
    RETURNS boolean
    AS 'MODULE_PATHNAME'
    LANGUAGE C VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION jobq_pause_schedule IS 'let a schedule fire nothing until it is resumed; false when it was paused';

CREATE FUNCTION jobq_resume_schedule(name text)
    RETURNS boolean
    AS 'MODULE_PATHNAME'
    LANGUAGE C VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION jobq_resume_schedule IS 'let a paused schedule go on from now; false when it was not paused';

CREATE FUNCTION jobq_run_schedule(name text)
    RETURNS bigint
    AS 'MODULE_PATHNAME'
    LANGUAGE C VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION jobq_run_schedule IS 'fire a schedule now, whatever its times; returns the job, NULL when the last one is in its way';
-- Without the payload and the options: who watches need not read what jobs are told.
CREATE VIEW jobq.schedules AS
SELECT s.name, s.queue, s.kind, s.cron, s.timezone, s.next_run, s.last_run, s.last_job, s.paused,
       s.skipped, s.last_skipped, s.skip_reason,
       s.error, s.failures, CASE WHEN s.error IS NOT NULL THEN s._due_at END AS retry_at,
       s.missed, s.max_missed, s.overlap, s.deadline, s.jitter, s.starts_at, s.ends_at, s.source, s.created_at
FROM jobq.schedule_settings s;
COMMENT ON VIEW jobq.schedules IS 'every schedule: when it runs next and ran last, its last job, what it has skipped and why, its error';

REVOKE ALL ON FUNCTION jobq.fill_schedule FROM PUBLIC;
REVOKE ALL ON FUNCTION jobq_schedule FROM PUBLIC;
REVOKE ALL ON FUNCTION jobq_schedules FROM PUBLIC;
REVOKE ALL ON FUNCTION jobq_unschedule FROM PUBLIC;
REVOKE ALL ON FUNCTION jobq_pause_schedule FROM PUBLIC;
REVOKE ALL ON FUNCTION jobq_resume_schedule FROM PUBLIC;
REVOKE ALL ON FUNCTION jobq_run_schedule FROM PUBLIC;
GRANT SELECT ON jobq.schedules TO pg_monitor;
