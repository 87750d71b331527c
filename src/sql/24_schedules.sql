-- Schedules: what is enqueued again and again. Runs once: an upgrade never re-runs this fragment.

-- The functions check and write it, the duty "schedules" fires what is due. `_due_at` is what that looks for.
--: what is to be enqueued again and again: jobq_schedule and the like write it, jobq.schedules shows it
CREATE TABLE jobq.schedule_settings (
    name         text COLLATE "C" PRIMARY KEY
                 CONSTRAINT schedule_settings_name CHECK (octet_length(name) BETWEEN 1 AND 255),
    cron         text NOT NULL,  --: when it runs, as jobq_next_runs understands it
    timezone     text NOT NULL DEFAULT 'UTC',  --: where
    queue        text NOT NULL CONSTRAINT schedule_settings_queue_name CHECK (octet_length(queue) BETWEEN 1 AND 63),
    kind         text NOT NULL DEFAULT '',
    payload      jsonb NOT NULL DEFAULT '{}',
    options      jsonb NOT NULL DEFAULT '{}'  --: what else of its jobs is to be as jobq_enqueue would be told
                 CONSTRAINT schedule_settings_options_object CHECK (jsonb_typeof(options) = 'object'),
    missed       text NOT NULL DEFAULT 'once'  --: which of the runs that nobody fired in time are fired later: once,
                                               --: all or skip
                 CONSTRAINT schedule_settings_missed_choice CHECK (missed IN ('once', 'all', 'skip')),
    max_missed   integer NOT NULL DEFAULT 100
                 CONSTRAINT schedule_settings_max_missed_range CHECK (max_missed BETWEEN 1 AND 1000),
    overlap      text NOT NULL DEFAULT 'allow'  --: what a run does while the last job is unfinished: allow, skip or
                                                --: replace
                 CONSTRAINT schedule_settings_overlap_choice CHECK (overlap IN ('allow', 'skip', 'replace')),
    deadline     interval,  --: a run that is later than that is dropped; NULL: none is
    jitter       interval,  --: the run_at of its jobs is spread over so much time; NULL: over none
    starts_at    timestamptz,  --: no run is earlier; @every counts from it
    ends_at      timestamptz,  --: no run is later
    paused       boolean NOT NULL DEFAULT false,
    source       text NOT NULL DEFAULT '',  --: who keeps it: jobq_schedules with prune removes what has the same
    created_at   timestamptz NOT NULL DEFAULT clock_timestamp(),
    next_run     timestamptz,  --: the run that comes next, or that is due; NULL: paused, or there is none any more
    last_run     timestamptz,  --: the run that was fired last
    last_job     bigint,  --: the job that was enqueued last; it may be gone
    skipped      bigint NOT NULL DEFAULT 0,  --: runs that were not fired, of one outage a thousand at most
    last_skipped timestamptz,  --: the last of them
    skip_reason  text,  --: why: missed, deadline or overlap
    error        text,  --: why it could not be fired; NULL: it could
    failures     integer NOT NULL DEFAULT 0,  --: so many times in a row
    _due_at      timestamptz,  --: when the duty looks at it again: next_run, or later after a failure
    _unfinished  bigint[]  --: of overlap replace: its jobs that had not finished when it was fired last
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.05);
CREATE INDEX schedule_settings_due_idx ON jobq.schedule_settings (_due_at) WHERE _due_at IS NOT NULL;

-- pg_dump keeps the rows.
SELECT pg_catalog.pg_extension_config_dump('jobq.schedule_settings', '');

--: lets schedules that come by an INSERT or COPY go on from now, and those that are changed by hand run as they say
CREATE FUNCTION jobq.fill_schedule() RETURNS trigger
    AS 'MODULE_PATHNAME', 'jobq_fill_schedule'
    LANGUAGE C SECURITY DEFINER SET search_path = pg_catalog, pg_temp;
CREATE TRIGGER fill_schedule BEFORE INSERT OR UPDATE ON jobq.schedule_settings FOR EACH ROW
    WHEN (jobq.by_hand())
    EXECUTE FUNCTION jobq.fill_schedule();
CREATE TRIGGER note_restore BEFORE INSERT ON jobq.schedule_settings FOR EACH STATEMENT
    WHEN (jobq.by_hand())
    EXECUTE FUNCTION jobq.note_restore();
