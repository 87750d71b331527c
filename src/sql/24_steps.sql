-- Durable steps and signals: tables, their indexes and triggers. Runs once: an upgrade never re-runs this fragment.

-- The column _steps of a job says whether it has steps, so that jobs without steps have no extra cost. A step is written while
-- the row of its job is locked, so two workers never save the same step.
--: saved steps and waits of jobs, written by jobq_step_done, jobq_spawn, jobq_sleep, jobq_await, and jobq_await_jobs
CREATE TABLE jobq.steps (
    job_id   bigint NOT NULL,
    number   bigint NOT NULL,  --: increases within the job; jobq_retry_from deletes a step and all steps with higher numbers
    name     text COLLATE "C" NOT NULL,
    kind     text NOT NULL,  --: step, spawn, sleep, event, or, for a wait for other jobs, all or any
    state    text NOT NULL,  --: done; timeout: the wait has timed out; waiting: the wait has not been decided
    saved_at timestamptz NOT NULL DEFAULT clock_timestamp(),  --: when the step was done, or when the wait began
    until    timestamptz,  --: end of the sleep, or deadline of the wait; NULL: no deadline
    event    text COLLATE "C",  --: kind event: the name of the awaited signal
    result   jsonb,  --: the result of the step, the payload of the signal, or the results of the jobs
    _awaited bigint,  --: while the state is waiting: hash of the queue and the event, or -1 for other jobs; otherwise NULL
    jobs     bigint[],  --: spawn: the children; all and any: the awaited jobs
    PRIMARY KEY (job_id, name),
    CONSTRAINT steps_name_length CHECK (octet_length(name) BETWEEN 1 AND 255),
    CONSTRAINT steps_kind_choice CHECK (kind IN ('step', 'spawn', 'sleep', 'event', 'all', 'any')),
    CONSTRAINT steps_state_choice CHECK (state IN ('done', 'timeout', 'waiting'))
) WITH (autovacuum_vacuum_scale_factor = 0.05);
-- The first index finds the jobs that wait for a signal; the second finds all waits, for the scan.
CREATE INDEX steps_awaited_idx ON jobq.steps (_awaited, job_id) WHERE _awaited IS NOT NULL;
CREATE INDEX steps_waiting_idx ON jobq.steps (job_id) WHERE _awaited IS NOT NULL;

-- Only the first signal of a name is kept, for the jobs that await it now or later.
--: signals to queues, sent by jobq_signal; the tick deletes them after jobq.keep_signals
CREATE TABLE jobq.signals (
    queue   text COLLATE "C" NOT NULL,
    event   text COLLATE "C" NOT NULL,
    payload jsonb,
    sent_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (queue, event)
);
CREATE INDEX signals_sent_idx ON jobq.signals (sent_at);

--: signals to jobs, sent by jobq_signal_job; deleted together with the job
CREATE TABLE jobq.job_signals (
    job_id  bigint NOT NULL,
    event   text COLLATE "C" NOT NULL,
    payload jsonb,
    sent_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (job_id, event)
);

-- Makes pg_dump include the rows.
SELECT pg_catalog.pg_extension_config_dump('jobq.steps', '');
SELECT pg_catalog.pg_extension_config_dump('jobq.signals', '');
SELECT pg_catalog.pg_extension_config_dump('jobq.job_signals', '');

CREATE TRIGGER note_restore BEFORE INSERT ON jobq.steps FOR EACH STATEMENT
    WHEN (jobq.by_hand())
    EXECUTE FUNCTION jobq.note_restore();
CREATE TRIGGER note_restore BEFORE INSERT ON jobq.job_signals FOR EACH STATEMENT
    WHEN (jobq.by_hand())
    EXECUTE FUNCTION jobq.note_restore();
