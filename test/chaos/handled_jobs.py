"""Jobs for handlers during the chaos. Their effects are rows written in the transactions of the handlers, and only executors claim
them. They are enqueued before the first fault and become due one after the other during the faults."""

import handled
import psycopg

QUEUE = "handled"
A_SECOND = 30

SET_UP = """
CREATE ROLE handler LOGIN;
CREATE TABLE handled (job bigint, lease bigint);
GRANT INSERT ON handled TO handler;
CREATE FUNCTION handle(job jsonb) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO handled VALUES ((job->>'id')::bigint, (job->>'lease')::bigint);
    PERFORM pg_sleep(random() * CASE WHEN random() < 0.02 THEN 1.0 ELSE 0.03 END);
    IF random() < 0.1 THEN RAISE 'at random'; END IF;
END $$;
SELECT jobq_create_queue('handled', max_attempts => 1000, max_lost => 1000, backoff_base => '20 ms', backoff_max => '200 ms'),
       jobq_set_handler('handled', '', 'handle(jsonb)', 'handler', max_executors => 2);
"""


def set_up(conn, seconds):
    conn.execute(SET_UP)
    conn.execute("SELECT count(jobq_enqueue(%s, run_at => clock_timestamp() + n * interval '1 s' / %s)) FROM generate_series(1, %s) n",
                 (QUEUE, A_SECOND, int(seconds * A_SECOND)))


def add_one(connect):
    """Waits until there is an executor."""
    try:
        with connect() as conn:
            conn.execute("SELECT jobq_enqueue(%s)", (QUEUE,))
    except psycopg.Error:
        pass


def judge(results, conn):
    jobs = conn.execute("SELECT id, status::text FROM jobq.jobs WHERE queue = %s", (QUEUE,)).fetchall()
    written = conn.execute("SELECT job, lease FROM handled").fetchall()
    attempts = conn.execute("SELECT a.job_id, a.lease, a.outcome FROM jobq.attempts a JOIN jobq.jobs j ON j.id = a.job_id WHERE j.queue = %s", (QUEUE,)).fetchall()
    found = handled.judge(jobs, written, [(job, lease) for job, lease, _ in attempts])
    outcomes = {outcome: sum(1 for _, _, other in attempts if other == outcome) for _, _, outcome in attempts}
    results.note(f"handlers: {len(jobs)} jobs, {len(written)} effects, attempts {outcomes}")
    for text in found[:5]:
        results.note(f"handlers: {text}")
    results.equal(len(found), 0, "each completed job has one effect, and no attempt that did not complete has one")
    results.check(outcomes.get("failed", 0) > 0 and outcomes.get("lost", 0) > 0, "handlers failed and were lost", str(outcomes))
