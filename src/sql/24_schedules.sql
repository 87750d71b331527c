-- Schedules, which enqueue jobs repeatedly. Runs once: an upgrade never re-runs this fragment.

-- The functions check and write the rows, and the duty "schedules" fires the schedules that are due, which it finds by `_due_at`.
--: schedules, written by jobq_schedule and similar functions, shown by the view jobq.schedules
CREATE TABLE jobq.schedule_settings (
    name         text COLLATE "C" PRIMARY KEY
                 CONSTRAINT schedule_settings_name CHECK (octet_length(name) BETWEEN 1 AND 255),
    cron         text NOT NULL,  --: when it runs: a cron expression, as for jobq_next_runs
    timezone     text NOT NULL DEFAULT 'UTC',  --: time zone of the times in cron
    queue        text NOT NULL CONSTRAINT schedule_settings_queue_name CHECK (octet_length(queue) BETWEEN 1 AND 63),
    kind         text NOT NULL DEFAULT '',
    payload      jsonb NOT NULL DEFAULT '{}',
    options      jsonb NOT NULL DEFAULT '{}'  --: other attributes of its jobs, as for jobq_enqueue
                 CONSTRAINT schedule_settings_options_object CHECK (jsonb_typeof(options) = 'object'),
    missed       text NOT NULL DEFAULT 'once'  --: which missed runs are made up for: once (the latest), all,
                                               --: or skip (none)
                 CONSTRAINT schedule_settings_missed_choice CHECK (missed IN ('once', 'all', 'skip')),
    max_missed   integer NOT NULL DEFAULT 100
                 CONSTRAINT schedule_settings_max_missed_range CHECK (max_missed BETWEEN 1 AND 1000),
    overlap      text NOT NULL DEFAULT 'allow'  --: what a run does if the last job has not finished: allow, skip,
                                                --: or replace
                 CONSTRAINT schedule_settings_overlap_choice CHECK (overlap IN ('allow', 'skip', 'replace')),
    deadline     interval,  --: a run that is later than this is dropped; NULL: never
    jitter       interval,  --: the run_at of its jobs is delayed by up to this time; NULL: not at all
    starts_at    timestamptz,  --: time before which it does not run; @every counts from here
    ends_at      timestamptz,  --: time after which it does not run
    paused       boolean NOT NULL DEFAULT false,
    source       text NOT NULL DEFAULT '',  --: the application that owns it: jobq_schedules with prune removes only
                                             --: schedules with its source
    created_at   timestamptz NOT NULL DEFAULT clock_timestamp(),
    next_run     timestamptz,  --: the next run, or the run that is due; NULL if it is paused or will not run again
    last_run     timestamptz,  --: the last run
    last_job     bigint,  --: the last job; it may have been deleted
    skipped      bigint NOT NULL DEFAULT 0,  --: number of skipped runs, at most 1000 per outage
    last_skipped timestamptz,  --: the last skipped run
    skip_reason  text,  --: why it was skipped: missed, deadline, or overlap
    error        text,  --: why the last run failed; NULL if it did not
    failures     integer NOT NULL DEFAULT 0,  --: how many runs have failed in a row
    _due_at      timestamptz,  --: when the background worker looks at it again: next_run, or later after a failure
    _unfinished  bigint[]  --: with overlap replace: its jobs that had not finished at the last run
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.05);
CREATE INDEX schedule_settings_due_idx ON jobq.schedule_settings (_due_at) WHERE _due_at IS NOT NULL;

-- Makes pg_dump include the rows.
SELECT pg_catalog.pg_extension_config_dump('jobq.schedule_settings', '');

--: sets the next run of schedules that are inserted, copied, or changed with plain SQL
CREATE FUNCTION jobq.fill_schedule() RETURNS trigger
    AS 'MODULE_PATHNAME', 'jobq_fill_schedule'
    LANGUAGE C SECURITY DEFINER SET search_path = pg_catalog, pg_temp;
CREATE TRIGGER fill_schedule BEFORE INSERT OR UPDATE ON jobq.schedule_settings FOR EACH ROW
    WHEN (jobq.by_hand())
    EXECUTE FUNCTION jobq.fill_schedule();
CREATE TRIGGER note_restore BEFORE INSERT ON jobq.schedule_settings FOR EACH STATEMENT
    WHEN (jobq.by_hand())
    EXECUTE FUNCTION jobq.note_restore();
