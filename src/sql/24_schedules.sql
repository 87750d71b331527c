-- Schedules, which enqueue jobs repeatedly. CREATE EXTENSION runs this file; upgrades do not run it again.

-- jobq_schedule and similar functions check and write the rows. The background duty "schedules" uses _due_at to find the schedules
-- that are due, and enqueues their jobs.
--: schedules, written by jobq_schedule and similar functions, shown by the view jobq.schedules
CREATE TABLE jobq.schedule_settings (
    name         text COLLATE "C" PRIMARY KEY
                 CONSTRAINT schedule_settings_name CHECK (octet_length(name) BETWEEN 1 AND 255),
    cron         text NOT NULL,  --: when the schedule runs: a cron expression (see jobq_next_runs)
    timezone     text NOT NULL DEFAULT 'UTC',  --: time zone in which the cron expression is evaluated
    queue        text NOT NULL CONSTRAINT schedule_settings_queue_name CHECK (octet_length(queue) BETWEEN 1 AND 63),
    kind         text NOT NULL DEFAULT '',
    payload      jsonb NOT NULL DEFAULT '{}',
    options      jsonb NOT NULL DEFAULT '{}'  --: other attributes of the jobs (see jobq_enqueue)
                 CONSTRAINT schedule_settings_options_object CHECK (jsonb_typeof(options) = 'object'),
    missed       text NOT NULL DEFAULT 'once'  --: which missed runs the schedule makes up for: "once" (only the latest), "all", or
                                               --: "skip" (none)
                 CONSTRAINT schedule_settings_missed_choice CHECK (missed IN ('once', 'all', 'skip')),
    max_missed   integer NOT NULL DEFAULT 100
                 CONSTRAINT schedule_settings_max_missed_range CHECK (max_missed BETWEEN 1 AND 1000),
    overlap      text NOT NULL DEFAULT 'allow'  --: what happens when a run is due but the previous job has not finished: "allow",
                                                --: "skip", or "replace"
                 CONSTRAINT schedule_settings_overlap_choice CHECK (overlap IN ('allow', 'skip', 'replace')),
    deadline     interval,  --: maximum delay of a run, after which the run is skipped; NULL if there is no deadline
    jitter       interval,  --: maximum delay that is added to the run_at of a job; the delay depends only on the schedule and the
                            --: time of the run; NULL if there is no jitter
    starts_at    timestamptz,  --: the schedule does not run before this time, from which the interval of @every is counted
    ends_at      timestamptz,  --: the schedule does not run after this time
    paused       boolean NOT NULL DEFAULT false,
    source       text NOT NULL DEFAULT '',  --: the application that owns the schedule; jobq_schedules with prune removes only
                                            --: schedules of the same source
    created_at   timestamptz NOT NULL DEFAULT clock_timestamp(),
    next_run     timestamptz,  --: time of the next run, or of the run that is due; NULL if the schedule is paused or has no more
                               --: runs
    last_run     timestamptz,  --: time of the last run
    last_job     bigint,  --: id of the last job of the schedule, which may have been deleted
    skipped      bigint NOT NULL DEFAULT 0,  --: number of skipped runs, of which at most 1000 are counted per outage
    last_skipped timestamptz,  --: time of the last skipped run
    skip_reason  text,  --: why the last skipped run was skipped: "missed", "deadline", or "overlap"
    error        text,  --: why the last run failed; NULL if it succeeded
    failures     integer NOT NULL DEFAULT 0,  --: number of consecutive runs that have failed
    _due_at      timestamptz,  --: when the background worker processes the schedule again: next_run, or a later time after a
                               --: failure
    _unfinished  bigint[]  --: if overlap is "replace", the jobs of the schedule that had not finished at the last run
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.05);
CREATE INDEX schedule_settings_due_idx ON jobq.schedule_settings (_due_at) WHERE _due_at IS NOT NULL;

-- Makes pg_dump include the rows of this table.
SELECT pg_catalog.pg_extension_config_dump('jobq.schedule_settings', '');

--: sets the next run of schedules that are inserted or updated with plain SQL, including COPY
CREATE FUNCTION jobq.fill_schedule() RETURNS trigger
    AS 'MODULE_PATHNAME', 'jobq_fill_schedule'
    LANGUAGE C SECURITY DEFINER SET search_path = pg_catalog, pg_temp;
CREATE TRIGGER fill_schedule BEFORE INSERT OR UPDATE ON jobq.schedule_settings FOR EACH ROW
    WHEN (jobq.by_hand())
    EXECUTE FUNCTION jobq.fill_schedule();
CREATE TRIGGER note_restore BEFORE INSERT ON jobq.schedule_settings FOR EACH STATEMENT
    WHEN (jobq.by_hand())
    EXECUTE FUNCTION jobq.note_restore();
