-- What has changed in src/sql since 1.0.0. CONTRIBUTING.md, "Change SQL after a release".
\echo Use "ALTER EXTENSION jobq UPDATE" to load this file. \quit

SELECT jobq.require_library();

COMMENT ON TYPE jobq.job_status IS 'where a job is in its life: it waits for its time (scheduled), waits for its dependencies, for a signal, for other jobs it awaits, or behind the head of its group (blocked), may be claimed (pending), is held by a worker under a lease (processing), has been done (completed), has failed for good (failed), is not to be done (cancelled)';
ALTER TABLE jobq.jobs ADD COLUMN _steps bigint;
-- For pages to come.
ALTER INDEX IF EXISTS jobq.jobs_pkey SET (fillfactor = 60);
ALTER INDEX IF EXISTS jobq.jobs_group_active_idx SET (deduplicate_items = off);
COMMENT ON COLUMN jobq.jobs._due IS 'true while the job is scheduled, or blocked with a timeout, else NULL: promotion looks for it';
COMMENT ON COLUMN jobq.jobs._must_end_at IS 'started_at + max_runtime while the job runs: then it is taken from its worker; NULL: no limit. While it awaits something: until when, infinity: for ever';
COMMENT ON COLUMN jobq.jobs._steps IS 'number of its last step in jobq.steps; NULL: it has none';
COMMENT ON TABLE jobq.deleted_dependencies IS 'completed jobs that were deleted although others depended on them, had spawned them or awaited them';
-- A library of 1.0 refuses from here on.
DROP TRIGGER follow_job ON jobq.jobs;
CREATE TRIGGER follow_job AFTER UPDATE ON jobq.jobs FOR EACH ROW
    WHEN (jobq.by_hand())
    EXECUTE FUNCTION jobq.follow_job('1.1');
-- Where a key's own limit goes, that of '*' is its limit.
DROP TRIGGER limits_changed ON jobq.limit_settings;
CREATE TRIGGER limits_changed AFTER INSERT OR UPDATE OR DELETE ON jobq.limit_settings FOR EACH STATEMENT
    WHEN (jobq.by_hand())
    EXECUTE FUNCTION jobq.limits_changed();
ALTER TABLE jobq.limit_settings ENABLE ALWAYS TRIGGER limits_changed;
COMMENT ON COLUMN jobq.limit_settings.highest_slot IS 'running jobs may hold slots up to this number, if it is above max_running; 1048575: some may hold none';
ALTER TABLE jobq.unslotted ALTER COLUMN since SET DEFAULT 'infinity';
COMMENT ON COLUMN jobq.unslotted.since IS 'when the tick met it; infinity: it has not yet';
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
-- Durable steps and signals: tables, their indexes and triggers.

-- The job's row says that there are some (_steps): jobs without any pay nothing. Under the lock of that row they are
-- written, so two workers never save the same one.
CREATE TABLE jobq.steps (
    job_id   bigint NOT NULL,
    number   bigint NOT NULL,
    name     text COLLATE "C" NOT NULL,
    kind     text NOT NULL,
    state    text NOT NULL,
    saved_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    until    timestamptz,
    event    text COLLATE "C",
    result   jsonb,
    _awaited bigint,
    jobs     bigint[],
    PRIMARY KEY (job_id, name),
    CONSTRAINT steps_name_length CHECK (octet_length(name) BETWEEN 1 AND 255),
    CONSTRAINT steps_kind_choice CHECK (kind IN ('step', 'spawn', 'sleep', 'event', 'all', 'any')),
    CONSTRAINT steps_state_choice CHECK (state IN ('done', 'timeout', 'waiting'))
) WITH (autovacuum_vacuum_scale_factor = 0.05);
COMMENT ON TABLE jobq.steps IS 'what jobs have done, and what they await: jobq_step_done, jobq_spawn, jobq_sleep, jobq_await, jobq_await_jobs';
COMMENT ON COLUMN jobq.steps.number IS 'rises within the job; jobq_retry_from drops a step and those with higher numbers';
COMMENT ON COLUMN jobq.steps.kind IS 'step, spawn, sleep, event, or all and any: a wait for other jobs';
COMMENT ON COLUMN jobq.steps.state IS 'done; timeout: what it awaits had not come in time; waiting: it is not decided yet';
COMMENT ON COLUMN jobq.steps.saved_at IS 'when it was done, or first waited for';
COMMENT ON COLUMN jobq.steps.until IS 'sleep: when it is over; other waits: when it stops to wait; NULL: never';
COMMENT ON COLUMN jobq.steps.event IS 'kind event: the signal that it awaits';
COMMENT ON COLUMN jobq.steps.result IS 'of a step, what came with the signal, or what became of the jobs';
COMMENT ON COLUMN jobq.steps._awaited IS 'while the state is waiting: hash of the queue and the event, -1: other jobs; else NULL';
COMMENT ON COLUMN jobq.steps.jobs IS 'spawn: the children; all and any: the jobs that it awaits';
-- Whom a signal concerns; the search for all that wait.
CREATE INDEX steps_awaited_idx ON jobq.steps (_awaited, job_id) WHERE _awaited IS NOT NULL;
CREATE INDEX steps_waiting_idx ON jobq.steps (job_id) WHERE _awaited IS NOT NULL;

-- The step says as well which jobs it has spawned. By these rows the child finds its parent: it is kept until that has
-- finished. An edge may lead to a job that another has spawned, or nobody: who has its unique key.
CREATE TABLE jobq.children (
    parent_id bigint NOT NULL,
    child_id  bigint NOT NULL,
    PRIMARY KEY (parent_id, child_id)
);
COMMENT ON TABLE jobq.children IS 'which jobs have spawned which: jobq_spawn';
CREATE INDEX children_child_idx ON jobq.children (child_id);

-- The wait that a job is in, no earlier ones.
CREATE TABLE jobq.job_waits (
    job_id bigint NOT NULL,
    awaits bigint NOT NULL,
    active boolean,
    PRIMARY KEY (job_id, awaits)
) WITH (autovacuum_vacuum_scale_factor = 0.05);
COMMENT ON TABLE jobq.job_waits IS 'which jobs await the end of which others: jobq_await_jobs';
COMMENT ON COLUMN jobq.job_waits.job_id IS 'the job that waits';
COMMENT ON COLUMN jobq.job_waits.awaits IS 'the job whose end it awaits; it may be gone';
COMMENT ON COLUMN jobq.job_waits.active IS 'true where its end makes jobq look whether job_id need wait any more, else NULL';
CREATE INDEX job_waits_awaits_idx ON jobq.job_waits (awaits, job_id);
-- Those of each job that waits.
CREATE INDEX job_waits_active_idx ON jobq.job_waits (job_id, awaits) WHERE active;

-- A signal is a fact: the first one stays, for whoever awaits it now or later.
CREATE TABLE jobq.signals (
    queue   text COLLATE "C" NOT NULL,
    event   text COLLATE "C" NOT NULL,
    payload jsonb,
    sent_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (queue, event)
);
COMMENT ON TABLE jobq.signals IS 'signals to a queue, jobq_signal; the tick deletes them after jobq.keep_signals';
CREATE INDEX signals_sent_idx ON jobq.signals (sent_at);

CREATE TABLE jobq.job_signals (
    job_id  bigint NOT NULL,
    event   text COLLATE "C" NOT NULL,
    payload jsonb,
    sent_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (job_id, event)
);
COMMENT ON TABLE jobq.job_signals IS 'signals to a job, jobq_signal_job; they go with it';

-- pg_dump keeps the rows of these.
SELECT pg_catalog.pg_extension_config_dump('jobq.steps', '');
SELECT pg_catalog.pg_extension_config_dump('jobq.children', '');
SELECT pg_catalog.pg_extension_config_dump('jobq.job_waits', '');
SELECT pg_catalog.pg_extension_config_dump('jobq.signals', '');
SELECT pg_catalog.pg_extension_config_dump('jobq.job_signals', '');

CREATE TRIGGER note_restore BEFORE INSERT ON jobq.steps FOR EACH STATEMENT
    WHEN (jobq.by_hand())
    EXECUTE FUNCTION jobq.note_restore();
CREATE TRIGGER note_restore BEFORE INSERT ON jobq.children FOR EACH STATEMENT
    WHEN (jobq.by_hand())
    EXECUTE FUNCTION jobq.note_restore();
CREATE TRIGGER note_restore BEFORE INSERT ON jobq.job_waits FOR EACH STATEMENT
    WHEN (jobq.by_hand())
    EXECUTE FUNCTION jobq.note_restore();
CREATE TRIGGER note_restore BEFORE INSERT ON jobq.job_signals FOR EACH STATEMENT
    WHEN (jobq.by_hand())
    EXECUTE FUNCTION jobq.note_restore();
COMMENT ON FUNCTION jobq_drop_queue IS 'drop a queue and its finished jobs; with force its other jobs, schedules and handlers too; false when there was none';
COMMENT ON FUNCTION jobq_tick IS 'do what the background worker does: rescue, cancel, promote, schedules, unblock, prune, repair, reconcile';
COMMENT ON FUNCTION jobq_next_runs IS 'the next runs of a cron expression in a time zone, after a moment';

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
-- Durable steps: what a worker keeps of a job between its attempts, and what it awaits.

CREATE FUNCTION jobq_step(job_id bigint, lease bigint, name text)
    RETURNS TABLE (state text, result jsonb)
    AS 'MODULE_PATHNAME'
    LANGUAGE C VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION jobq_step IS 'whether a step of a held job is to be done: run, done with its result, cancel, or lost';

CREATE FUNCTION jobq_step_done(job_id bigint, lease bigint, name text, result jsonb DEFAULT NULL, must_hold boolean DEFAULT true)
    RETURNS TABLE (state text, result jsonb)
    AS 'MODULE_PATHNAME'
    LANGUAGE C VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION jobq_step_done IS 'save a step of a held job, once; the first result stays: saved or kept; lost: an error (JQ001) with must_hold';

CREATE FUNCTION jobq_spawn(job_id bigint, lease bigint, name text, specs jsonb)
    RETURNS TABLE (state text, job_ids bigint[])
    AS 'MODULE_PATHNAME'
    LANGUAGE C VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION jobq_spawn IS 'enqueue jobs of a held job, as jobq_enqueue_jobs does, once; they are kept until it has finished: saved or kept; an error (JQ001) when the lease is lost';

CREATE FUNCTION jobq_steps(job_ids bigint[], leases bigint[])
    RETURNS TABLE (job_id bigint, name text, state text, result jsonb)
    AS 'MODULE_PATHNAME'
    LANGUAGE C VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION jobq_steps IS 'the saved steps of held jobs, in the order in which they were saved';

CREATE FUNCTION jobq_retry_from(job_id bigint, step text)
    RETURNS jobq.job_status
    AS 'MODULE_PATHNAME'
    LANGUAGE C VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION jobq_retry_from IS 'make a finished or scheduled job run again from one of its steps on; returns its status';

CREATE FUNCTION jobq_sleep(job_id bigint, lease bigint, name text, delay interval DEFAULT NULL, until timestamptz DEFAULT NULL)
    RETURNS text
    AS 'MODULE_PATHNAME'
    LANGUAGE C VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION jobq_sleep IS 'give a held job back until a time; ready when it has come, waiting, cancelled or lost';

CREATE FUNCTION jobq_await(job_id bigint, lease bigint, event text, timeout interval DEFAULT NULL, name text DEFAULT NULL)
    RETURNS TABLE (state text, payload jsonb)
    AS 'MODULE_PATHNAME'
    LANGUAGE C VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION jobq_await IS 'give a held job back until a signal has come; ready with its payload, timeout, waiting, cancelled or lost';

CREATE FUNCTION jobq_await_jobs(job_id bigint, lease bigint, ids bigint[], name text, mode text DEFAULT 'all', timeout interval DEFAULT NULL)
    RETURNS TABLE (state text, results jsonb)
    AS 'MODULE_PATHNAME'
    LANGUAGE C VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION jobq_await_jobs IS 'give a held job back until other jobs have ended, all or any of them; ready or timeout with what became of them, waiting, cancelled or lost';

CREATE FUNCTION jobq_signal(queue text, event text, payload jsonb DEFAULT NULL)
    RETURNS boolean
    AS 'MODULE_PATHNAME'
    LANGUAGE C VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION jobq_signal IS 'tell all jobs of a queue that something has happened, also those that ask later; false when somebody has before';

CREATE FUNCTION jobq_signal_job(job_id bigint, event text, payload jsonb DEFAULT NULL)
    RETURNS boolean
    AS 'MODULE_PATHNAME'
    LANGUAGE C VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION jobq_signal_job IS 'tell one job that something has happened; false when somebody has before, NULL when it is unknown or has finished';
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
REVOKE ALL ON FUNCTION jobq_step FROM PUBLIC;
REVOKE ALL ON FUNCTION jobq_step_done FROM PUBLIC;
REVOKE ALL ON FUNCTION jobq_spawn FROM PUBLIC;
REVOKE ALL ON FUNCTION jobq_steps FROM PUBLIC;
REVOKE ALL ON FUNCTION jobq_retry_from FROM PUBLIC;
REVOKE ALL ON FUNCTION jobq_sleep FROM PUBLIC;
REVOKE ALL ON FUNCTION jobq_await FROM PUBLIC;
REVOKE ALL ON FUNCTION jobq_await_jobs FROM PUBLIC;
REVOKE ALL ON FUNCTION jobq_signal FROM PUBLIC;
REVOKE ALL ON FUNCTION jobq_signal_job FROM PUBLIC;
GRANT SELECT ON jobq.schedules TO pg_monitor;
-- Handlers: which function of the database runs the jobs of a queue. Runs once: an upgrade never re-runs this fragment.

-- Functions and roles by their names: a column of type regprocedure keeps pg_upgrade from running, one of type regrole a dump
-- from being restored where there is no such role. Whether they are there is looked up whenever it matters.
CREATE TABLE jobq.handler_settings (
    queue         text COLLATE "C" NOT NULL
                  CONSTRAINT handler_settings_queue_name CHECK (octet_length(queue) BETWEEN 1 AND 63),
    kind          text COLLATE "C" NOT NULL
                  CONSTRAINT handler_settings_kind_length CHECK (octet_length(kind) <= 255),
    handler       text NOT NULL,
    run_as        text NOT NULL,
    max_executors integer NOT NULL DEFAULT 1
                  CONSTRAINT handler_settings_max_executors_range CHECK (max_executors BETWEEN 1 AND 64),
    versions      integer[]
                  CONSTRAINT handler_settings_versions_list
                  CHECK (pg_catalog.array_position(versions, NULL) IS NULL AND pg_catalog.array_length(versions, 2) IS NULL),
    capabilities  text[]
                  CONSTRAINT handler_settings_capabilities_list
                  CHECK (pg_catalog.array_position(capabilities, NULL) IS NULL AND pg_catalog.array_length(capabilities, 2) IS NULL),
    settings      text[]
                  CONSTRAINT handler_settings_settings_list
                  CHECK (pg_catalog.array_position(settings, NULL) IS NULL AND pg_catalog.array_length(settings, 2) IS NULL),
    created_at    timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (queue, kind)
);
COMMENT ON TABLE jobq.handler_settings IS 'the functions that run jobs: jobq_set_handler and jobq_drop_handler write it, jobq.handlers shows it';
COMMENT ON COLUMN jobq.handler_settings.kind IS 'of the jobs; empty: those without a kind';
COMMENT ON COLUMN jobq.handler_settings.handler IS 'function or procedure, schema and name as SQL writes them; it takes one jsonb';
COMMENT ON COLUMN jobq.handler_settings.run_as IS 'the role that runs it';
COMMENT ON COLUMN jobq.handler_settings.max_executors IS 'so many of its jobs run at once at most';
COMMENT ON COLUMN jobq.handler_settings.versions IS 'of the jobs; NULL: any';
COMMENT ON COLUMN jobq.handler_settings.capabilities IS 'jobs that require no others; NULL: none';
COMMENT ON COLUMN jobq.handler_settings.settings IS 'name=value of each, in force while it runs';

-- pg_dump keeps the rows.
SELECT pg_catalog.pg_extension_config_dump('jobq.handler_settings', '');

CREATE TRIGGER invalidate_caches AFTER INSERT OR UPDATE OR DELETE ON jobq.handler_settings FOR EACH ROW
    EXECUTE FUNCTION jobq.invalidate_caches();
CREATE TRIGGER invalidate_caches_on_truncate AFTER TRUNCATE ON jobq.handler_settings FOR EACH STATEMENT
    EXECUTE FUNCTION jobq.invalidate_caches();
ALTER TABLE jobq.handler_settings ENABLE ALWAYS TRIGGER invalidate_caches;
ALTER TABLE jobq.handler_settings ENABLE ALWAYS TRIGGER invalidate_caches_on_truncate;
CREATE TRIGGER note_restore BEFORE INSERT ON jobq.handler_settings FOR EACH STATEMENT
    WHEN (jobq.by_hand())
    EXECUTE FUNCTION jobq.note_restore();

-- Which functions of the database run jobs.

CREATE FUNCTION jobq_set_handler(
        queue text,
        kind text,
        handler regprocedure,
        run_as regrole DEFAULT NULL,
        max_executors integer DEFAULT 1,
        versions integer[] DEFAULT NULL,
        capabilities text[] DEFAULT NULL,
        settings text[] DEFAULT NULL)
    RETURNS boolean
    AS 'MODULE_PATHNAME'
    LANGUAGE C VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION jobq_set_handler IS 'let a function or procedure that takes the job as jsonb run the jobs of a kind, as a role; true when that is new or other than before';

CREATE FUNCTION jobq_drop_handler(queue text, kind text)
    RETURNS boolean
    AS 'MODULE_PATHNAME'
    LANGUAGE C VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION jobq_drop_handler IS 'take the function from the jobs of a kind; what it has in hand it ends; false when there was none';

CREATE FUNCTION jobq.handler_state(queue text, kind text, handler text, run_as text, settings text[])
    RETURNS TABLE (state text, reason text, executors integer, running integer)
    AS 'MODULE_PATHNAME', 'jobq_handler_state'
    LANGUAGE C VOLATILE PARALLEL UNSAFE SECURITY DEFINER SET search_path = pg_catalog, pg_temp ROWS 1;
COMMENT ON FUNCTION jobq.handler_state IS 'what stands behind the view jobq.handlers: what a handler does now, and why if it does nothing';

CREATE VIEW jobq.handlers AS
SELECT h.queue, h.kind, h.handler, h.run_as, s.state, s.reason, s.running, s.executors, h.max_executors, h.versions,
       h.capabilities, h.settings, h.created_at
FROM jobq.handler_settings h, LATERAL jobq.handler_state(h.queue, h.kind, h.handler, h.run_as, h.settings) s;
COMMENT ON VIEW jobq.handlers IS 'every handler: the function, the role that runs it, what it does now, and why if it does nothing';
REVOKE ALL ON FUNCTION jobq_set_handler FROM PUBLIC;
REVOKE ALL ON FUNCTION jobq_drop_handler FROM PUBLIC;
REVOKE ALL ON FUNCTION jobq.handler_state FROM PUBLIC;
GRANT SELECT ON jobq.handlers TO pg_monitor;
GRANT EXECUTE ON FUNCTION jobq.handler_state(text, text, text, text, text[]) TO pg_monitor;

-- For monitoring systems.
CREATE FUNCTION jobq_metrics()
    RETURNS TABLE (name text, labels jsonb, value double precision)
    AS 'MODULE_PATHNAME'
    LANGUAGE C VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION jobq_metrics IS 'metrics: what stands in the queues, what has happened to jobs, histograms of their waiting and running, what runs';

CREATE FUNCTION jobq_prometheus()
    RETURNS text
    AS 'MODULE_PATHNAME'
    LANGUAGE C VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION jobq_prometheus IS 'the same as text in the exposition format of Prometheus';

CREATE FUNCTION jobq_reset_metrics()
    RETURNS timestamptz
    AS 'MODULE_PATHNAME'
    LANGUAGE C VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION jobq_reset_metrics IS 'let the totals and histograms of this database begin anew; returns when they did, NULL where there are none';

CREATE FUNCTION jobq.metric_families()
    RETURNS TABLE (name text, type text, labels text, help text)
    AS 'MODULE_PATHNAME', 'jobq_metric_families'
    LANGUAGE C VOLATILE PARALLEL SAFE;
COMMENT ON FUNCTION jobq.metric_families IS 'the catalogue of the metrics: name, type, labels, help';
REVOKE ALL ON FUNCTION jobq_metrics FROM PUBLIC;
REVOKE ALL ON FUNCTION jobq_prometheus FROM PUBLIC;
REVOKE ALL ON FUNCTION jobq_reset_metrics FROM PUBLIC;
REVOKE ALL ON FUNCTION jobq.metric_families FROM PUBLIC;
GRANT EXECUTE ON FUNCTION jobq_metrics(), jobq_prometheus(), jobq.metric_families() TO pg_monitor;

-- Which shard of several this database is. The trigger makes the sequence of the ids count as the row says, so a session can
-- give no other ids, and giving one costs what it always did. The row is what a dump keeps: of sequences of an extension it has the
-- last value only.
CREATE TABLE jobq.shard (
    only_row boolean PRIMARY KEY DEFAULT true CHECK (only_row),
    shard_id integer NOT NULL CONSTRAINT shard_shard_id_range CHECK (shard_id BETWEEN 0 AND 1023)
);
COMMENT ON TABLE jobq.shard IS 'which shard of a cluster this database is, and its ids carry: jobq_set_shard writes it; no row: none';
COMMENT ON COLUMN jobq.shard.shard_id IS 'id % 1024 of each job';

SELECT pg_catalog.pg_extension_config_dump('jobq.shard', '');

CREATE FUNCTION jobq.follow_shard() RETURNS trigger
    AS 'MODULE_PATHNAME', 'jobq_follow_shard'
    LANGUAGE C SECURITY DEFINER SET search_path = pg_catalog, pg_temp;
COMMENT ON FUNCTION jobq.follow_shard IS 'lets the ids of jobs carry from now on what jobq.shard says';
CREATE TRIGGER follow_shard AFTER INSERT OR UPDATE OR DELETE ON jobq.shard FOR EACH ROW
    EXECUTE FUNCTION jobq.follow_shard();
CREATE TRIGGER follow_shard_on_truncate AFTER TRUNCATE ON jobq.shard FOR EACH STATEMENT
    EXECUTE FUNCTION jobq.follow_shard();
ALTER TABLE jobq.shard ENABLE ALWAYS TRIGGER follow_shard;
ALTER TABLE jobq.shard ENABLE ALWAYS TRIGGER follow_shard_on_truncate;
REVOKE ALL ON FUNCTION jobq.follow_shard FROM PUBLIC;

CREATE FUNCTION jobq_set_shard(shard_id integer)
    RETURNS boolean
    AS 'MODULE_PATHNAME'
    LANGUAGE C VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION jobq_set_shard IS 'make this database a shard: the ids of its jobs carry the number; refused while it has jobs of other ids; false when it was that already';

CREATE FUNCTION jobq_shard_id()
    RETURNS integer
    AS 'MODULE_PATHNAME'
    LANGUAGE C STABLE PARALLEL UNSAFE;
COMMENT ON FUNCTION jobq_shard_id IS 'the shard that this database is, and the ids of its jobs carry (id % 1024); NULL: none';
REVOKE ALL ON FUNCTION jobq_set_shard FROM PUBLIC;
REVOKE ALL ON FUNCTION jobq_shard_id FROM PUBLIC;

CREATE FUNCTION jobq.may_use(queue text, call text)
    RETURNS boolean
    AS 'MODULE_PATHNAME', 'jobq_may_use'
    LANGUAGE C STABLE PARALLEL UNSAFE SECURITY DEFINER SET search_path = pg_catalog, pg_temp;
COMMENT ON FUNCTION jobq.may_use IS 'whether who called first, outside of SECURITY DEFINER functions, may call a function of jobq for a queue';
REVOKE ALL ON FUNCTION jobq.may_use FROM PUBLIC;
