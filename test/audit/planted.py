"""Shows that the audit catches planted defects: the same clients call functions that have a defect.

The library is not changed. The schema `broken` of a scratch database contains a replacement for one function, and
the clients call the replacement.
"""

import tempfile
import time

import psycopg

import audit
from client import Plan
from support import Results, connect, scratch_database

JOBS = 2500

# Completion by id only, as in graphile-worker 0.18.0 and as reported for Oban in oban#1496.
NO_LEASE_CHECK = """
CREATE SCHEMA broken;
CREATE FUNCTION broken.complete(job_id bigint, lease bigint DEFAULT NULL, result jsonb DEFAULT NULL,
                                must_hold boolean DEFAULT false)
RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
    UPDATE jobq.jobs SET status = 'completed', lease = NULL, _rescue_indexed = NULL, finished_at = clock_timestamp()
    WHERE id = job_id;
    RETURN FOUND;
END $$;
"""

# Selects without a lock and then claims the selected jobs.
CLAIMS_TWICE = """
CREATE SCHEMA broken;
CREATE FUNCTION broken.claim(from_queue text, worker text, batch integer)
RETURNS TABLE (id bigint, lease bigint, payload jsonb, attempt integer) LANGUAGE plpgsql AS $$
DECLARE
    seen bigint[];
BEGIN
    SELECT array_agg(s.id ORDER BY s.id) INTO seen
    FROM (SELECT j.id FROM jobq.jobs j WHERE j.queue = from_queue AND j.status = 'pending'
          ORDER BY j.priority, j.run_at, j.id LIMIT batch) s;
    PERFORM pg_sleep(0.002);
    RETURN QUERY
    UPDATE jobq.jobs j
    SET status = 'processing', lease = 1 + floor(random() * 9e15)::bigint, worker_id = worker,
        attempts = j.attempts + 1, started_at = clock_timestamp(), last_heartbeat = clock_timestamp(),
        _lease_timeout = '0.5 s', _rescue_indexed = true
    WHERE j.id = ANY (seen)
    RETURNING j.id, j.lease, j.payload, j.attempts;
END $$;
"""

# A rescue that selects jobs and a moment later overwrites them, even if they have finished in the meantime: river#1302.
RESCUE_OVERWRITES = """
CREATE SCHEMA broken;
CREATE FUNCTION broken.rescue(timeout interval) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    silent bigint[];
BEGIN
    SELECT array_agg(id) INTO silent FROM jobq.jobs
    WHERE status = 'processing' AND last_heartbeat < clock_timestamp() - timeout;
    PERFORM pg_sleep(0.2);
    INSERT INTO jobq.attempts (job_id, lease, attempt, outcome)
    SELECT id, lease, attempts, 'lost' FROM jobq.jobs WHERE id = ANY (silent) AND lease IS NOT NULL;
    UPDATE jobq.jobs SET status = 'pending', lease = NULL, _rescue_indexed = NULL, finished_at = NULL
    WHERE id = ANY (silent);
END $$;
"""

# A rescue that drops the jobs that it should hand out again.
RESCUE_DROPS = """
CREATE SCHEMA broken;
CREATE FUNCTION broken.rescue(timeout interval) RETURNS void LANGUAGE sql AS $$
    DELETE FROM jobq.jobs
    WHERE status = 'processing' AND last_heartbeat < clock_timestamp() - timeout;
$$;
"""


def rescue(plan, stop):
    """Replaces the background worker, which has nothing to do because of a heartbeat timeout of one hour."""
    with connect(plan.database) as conn:
        while not stop.is_set():
            try:
                conn.execute("SELECT broken.rescue(%s)", (f"{plan.timeout} s",))
            except psycopg.errors.DeadlockDetected:
                pass  # it locks rows in no particular order, which is not the defect under test
            time.sleep(0.02)


def run(results, name, defect, expected, helper=None, **changes):
    started = time.monotonic()
    with scratch_database("planted") as database, tempfile.TemporaryDirectory() as directory:
        plan = Plan(database, directory, JOBS, timeout=0.5, zombie_wait=1.0, silent_share=0.15, seconds=60,
                    **changes)
        report, _, _ = audit.run(plan, lambda conn: conn.execute(defect), helper)
    found = report.found()
    for kind in expected:
        results.check(kind in found, f"{name} is caught: {kind} ({found.get(kind, 0)})", str(found))
    results.note(f"{name}: {time.monotonic() - started:.1f} seconds, all found: {found}")


if __name__ == "__main__":
    outcome = Results("planted defects")
    run(outcome, "no lease check", NO_LEASE_CHECK, ("stale lease accepted", "doubled effect"),
        replaced={"jobq_complete": "broken.complete"})
    run(outcome, "claims twice", CLAIMS_TWICE, ("lease issued twice",),
        replaced={"jobq_claim": "broken.claim"}, only_plain_claims=True)
    run(outcome, "rescue overwrites", RESCUE_OVERWRITES, ("stale lease accepted", "doubled effect"),
        helper=rescue, lease_timeout="1 hour")
    run(outcome, "rescue drops", RESCUE_DROPS, ("lost",), helper=rescue, lease_timeout="1 hour")
    outcome.finish()
