-- Durable steps and signals: tables, their indexes and triggers. Runs once: an upgrade never re-runs this fragment.

-- The job's row says that there are some (_steps): jobs without any pay nothing. Under the lock of that row they are
-- written, so two workers never save the same one.
--: what jobs have done, and what they await: jobq_step_done, jobq_spawn, jobq_sleep, jobq_await, jobq_await_jobs
CREATE TABLE jobq.steps (
    job_id   bigint NOT NULL,
    number   bigint NOT NULL,  --: rises within the job; jobq_retry_from drops a step and those with higher numbers
    name     text COLLATE "C" NOT NULL,
    kind     text NOT NULL,  --: step, spawn, sleep, event, or all and any: a wait for other jobs
    state    text NOT NULL,  --: done; timeout: what it awaits had not come in time; waiting: it is not decided yet
    saved_at timestamptz NOT NULL DEFAULT clock_timestamp(),  --: when it was done, or first waited for
    until    timestamptz,  --: sleep: when it is over; other waits: when it stops to wait; NULL: never
    event    text COLLATE "C",  --: kind event: the signal that it awaits
    result   jsonb,  --: of a step, what came with the signal, or what became of the jobs
    _awaited bigint,  --: while the state is waiting: hash of the queue and the event, -1: other jobs; else NULL
    jobs     bigint[],  --: spawn: the children; all and any: the jobs that it awaits
    PRIMARY KEY (job_id, name),
    CONSTRAINT steps_name_length CHECK (octet_length(name) BETWEEN 1 AND 255),
    CONSTRAINT steps_kind_choice CHECK (kind IN ('step', 'spawn', 'sleep', 'event', 'all', 'any')),
    CONSTRAINT steps_state_choice CHECK (state IN ('done', 'timeout', 'waiting'))
) WITH (autovacuum_vacuum_scale_factor = 0.05);
-- Whom a signal concerns; the search for all that wait.
CREATE INDEX steps_awaited_idx ON jobq.steps (_awaited, job_id) WHERE _awaited IS NOT NULL;
CREATE INDEX steps_waiting_idx ON jobq.steps (job_id) WHERE _awaited IS NOT NULL;

-- A signal is a fact: the first one stays, for whoever awaits it now or later.
--: signals to a queue, jobq_signal; the tick deletes them after jobq.keep_signals
CREATE TABLE jobq.signals (
    queue   text COLLATE "C" NOT NULL,
    event   text COLLATE "C" NOT NULL,
    payload jsonb,
    sent_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (queue, event)
);
CREATE INDEX signals_sent_idx ON jobq.signals (sent_at);

--: signals to a job, jobq_signal_job; they go with it
CREATE TABLE jobq.job_signals (
    job_id  bigint NOT NULL,
    event   text COLLATE "C" NOT NULL,
    payload jsonb,
    sent_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (job_id, event)
);

-- pg_dump keeps the rows of these.
SELECT pg_catalog.pg_extension_config_dump('jobq.steps', '');
SELECT pg_catalog.pg_extension_config_dump('jobq.signals', '');
SELECT pg_catalog.pg_extension_config_dump('jobq.job_signals', '');

CREATE TRIGGER note_restore BEFORE INSERT ON jobq.steps FOR EACH STATEMENT
    WHEN (jobq.by_hand())
    EXECUTE FUNCTION jobq.note_restore();
CREATE TRIGGER note_restore BEFORE INSERT ON jobq.job_signals FOR EACH STATEMENT
    WHEN (jobq.by_hand())
    EXECUTE FUNCTION jobq.note_restore();
