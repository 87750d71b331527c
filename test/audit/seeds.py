"""The first requirements of the design as tests: each promise of jobq in its smallest form.

Needs a server that preloads jobq, with its background worker.
"""

import multiprocessing
import os
import signal
import time
from collections import Counter

import psycopg

from support import Results, connect, scratch_database, wait_until

WORKERS = 3
BATCH = 5
JOBS = 100
CLAIM = "SELECT id, lease, attempt FROM jobq_claim(%s, %s, %s)"

processes = multiprocessing.get_context("fork")


# 3 workers, batches of 5, 100 jobs

def _claim_all(database, name, barrier, taken):
    with connect(database) as conn:
        barrier.wait()
        while True:
            rows = conn.execute(CLAIM, ("seeds", name, BATCH)).fetchall()
            if not rows:
                return
            for job, lease, _ in rows:
                taken.put((name, job, lease))


def _look_then_take(database, name, barrier, taken):
    """The textbook mistake: a SELECT and then an UPDATE of the selected rows, without a lock in between."""
    with connect(database) as conn:
        first = True
        while True:
            seen = [row[0] for row in conn.execute(
                "SELECT id FROM plain_jobs WHERE status = 'pending' ORDER BY id LIMIT %s", (BATCH,))]
            if first:
                # All workers have selected before the first one updates. Under load that happens by itself.
                barrier.wait()
                first = False
            else:
                time.sleep(0.002)
            if not seen:
                return
            conn.execute("UPDATE plain_jobs SET status = 'processing', worker = %s WHERE id = ANY (%s)", (name, seen))
            for job in seen:
                taken.put((name, job, None))


def _run_workers(target, database):
    barrier, taken = processes.Barrier(WORKERS), processes.SimpleQueue()
    workers = [processes.Process(target=target, args=(database, f"w{n}", barrier, taken)) for n in range(WORKERS)]
    for worker in workers:
        worker.start()
    rows = []
    while any(worker.is_alive() for worker in workers) or not taken.empty():
        while not taken.empty():
            rows.append(taken.get())
        time.sleep(0.01)
    return rows, [worker.exitcode for worker in workers]


def each_claimed_once(results, database):
    with connect(database) as conn:
        conn.execute("SELECT count(*) FROM jobq_enqueue_many('seeds', array_fill('{}'::jsonb, ARRAY[%s]))", (JOBS,))
    rows, codes = _run_workers(_claim_all, database)
    results.equal(codes, [0] * WORKERS, f"{WORKERS} workers ended normally")
    results.equal(len(rows), JOBS, f"{WORKERS} workers in batches of {BATCH} made {JOBS} claims of {JOBS} jobs")
    results.equal(len({job for _, job, _ in rows}), JOBS, "each job was claimed once")
    results.equal(len({lease for _, _, lease in rows}), JOBS, "each claim has a lease of its own")
    with connect(database) as conn:
        agree = conn.execute("SELECT count(*) FROM jobq.jobs j JOIN unnest(%s::bigint[], %s::bigint[], %s::text[])"
                             " AS t (id, lease, worker) ON j.id = t.id AND j.lease = t.lease AND j.worker_id = t.worker"
                             " WHERE j.status = 'processing' AND j.attempts = 1",
                             ([r[1] for r in rows], [r[2] for r in rows], [r[0] for r in rows])).fetchone()[0]
    results.equal(agree, JOBS, "the table agrees with every worker about job, lease and worker")


def two_statements_duplicate(results, database):
    with connect(database) as conn:
        conn.execute("CREATE TABLE plain_jobs (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,"
                     " status text NOT NULL DEFAULT 'pending', worker text)")
        conn.execute("INSERT INTO plain_jobs SELECT FROM generate_series(1, %s)", (JOBS,))
    rows, _ = _run_workers(_look_then_take, database)
    twice = sum(1 for count in Counter(job for _, job, _ in rows).values() if count > 1)
    results.check(twice > 0, "SELECT, then UPDATE without lock gives jobs out twice under the same load")
    results.note(f"SELECT, then UPDATE without lock: {len(rows)} claims of {JOBS} jobs, {twice} jobs given out twice or more")


# A zombie

def _whole_row(conn, job):
    return conn.execute("SELECT to_jsonb(j), j.xmin::text, j.ctid::text FROM jobq.jobs j WHERE id = %s", (job,)).fetchone()


def _zombie_tries_everything(results, conn, job, lease, when):
    before = _whole_row(conn, job)
    traces = conn.execute("SELECT count(*) FROM jobq.attempts WHERE job_id = %s", (job,)).fetchone()
    calls = (
        ("jobq_complete", "SELECT jobq_complete(%s, %s, '{\"by\": \"zombie\"}')", False),
        ("jobq_complete_many", "SELECT completed FROM jobq_complete_many(ARRAY[%s], ARRAY[%s])", False),
        ("jobq_heartbeat", "SELECT jobq_heartbeat(%s, %s, '{\"by\": \"zombie\"}')", "lost"),
        ("jobq_heartbeat_many", "SELECT state FROM jobq_heartbeat_many(ARRAY[%s], ARRAY[%s])", "lost"),
        ("jobq_fail", "SELECT jobq_fail(%s, %s, 'by the zombie')", None),
        ("jobq_fail_many", "SELECT status FROM jobq_fail_many(ARRAY[%s], ARRAY[%s])", None),
        ("jobq_release", "SELECT jobq_release(%s, %s)", False),
        ("jobq_release_many", "SELECT released FROM jobq_release_many(ARRAY[%s], ARRAY[%s])", False),
        ("jobq_snooze", "SELECT jobq_snooze(%s, '1 hour', %s)", False))
    for name, text, answer in calls:
        results.equal(conn.execute(text, (job, lease)).fetchall(), [(answer,)], f"{when}, the zombie's {name} is refused")
    try:
        conn.execute("SELECT jobq_complete(%s, %s, must_hold => true)", (job, lease))
        results.check(False, f"{when}, the zombie's jobq_complete with must_hold is an error")
    except psycopg.Error as error:
        results.equal(error.sqlstate, "JQ001", f"{when}, the zombie's jobq_complete with must_hold is an error")
    results.equal(_whole_row(conn, job), before, f"{when}, the zombie changed nothing in the row")
    results.equal(conn.execute("SELECT count(*) FROM jobq.attempts WHERE job_id = %s", (job,)).fetchone(), traces,
                  f"{when}, the zombie recorded no attempt")


def zombie(results, database):
    with connect(database) as conn:
        conn.execute("SELECT jobq_create_queue('zombie', heartbeat_timeout => '1 s')")
        job = conn.execute("SELECT jobq_enqueue('zombie', '{\"n\": 1}')").fetchone()[0]
        _, lease, _ = conn.execute(CLAIM, ("zombie", "zombie", 1)).fetchone()
        rescued = wait_until(lambda: conn.execute("SELECT status = 'pending' FROM jobq.jobs WHERE id = %s",
                                                  (job,)).fetchone()[0], 5)
        if not results.check(rescued, "the job of a silent worker was rescued"):
            return
        _zombie_tries_everything(results, conn, job, lease, "after the rescue")
        conn.execute("SELECT jobq_alter_queue('zombie', heartbeat_timeout => '1 hour')")
        claim = conn.execute(CLAIM, ("zombie", "successor", 1)).fetchone()
        if not results.check(claim, "another worker, the successor, claims the job"):
            return
        _, successor, attempt = claim
        results.equal(attempt, 2, "the claim of the successor is the second attempt")
        results.check(successor != lease, "the successor has a different lease")
        _zombie_tries_everything(results, conn, job, lease, "while the successor works")
        done = conn.execute("SELECT jobq_complete(%s, %s, '{\"by\": \"successor\"}')", (job, successor)).fetchone()[0]
        results.equal(done, True, "the successor completes")
        _zombie_tries_everything(results, conn, job, lease, "after the successor completed")
        results.equal(conn.execute("SELECT result->>'by' FROM jobq.jobs WHERE id = %s", (job,)).fetchone()[0],
                      "successor", "the result is that of the successor")


# 25 minutes of work with a timeout of 60 seconds, without waiting

def long_job(results, database):
    """Simulates the last half hour, because simulated times must not be ahead of the clock. Everything happens in one transaction,
    so that the background worker, which uses the real clock, cannot change the row."""
    with connect(database) as conn, conn.transaction(force_rollback=True):
        job = conn.execute("SELECT jobq_enqueue('long')").fetchone()[0]
        _, lease, _ = conn.execute(CLAIM, ("long", "diligent", 1)).fetchone()
        results.equal(conn.execute("SELECT _lease_timeout IS NULL FROM jobq.jobs WHERE id = %s", (job,)).fetchone()[0],
                      True, "the timeout is the default, 60 seconds")
        start = conn.execute("SELECT last_heartbeat - interval '30 minutes' FROM jobq.jobs WHERE id = %s",
                             (job,)).fetchone()[0]

        def heartbeat(second):
            conn.execute("UPDATE jobq.jobs SET last_heartbeat = %s::timestamptz + %s * interval '1 s' WHERE id = %s",
                         (start, second, job))

        def tick(second):
            conn.execute("SELECT * FROM jobq_tick(%s::timestamptz + %s * interval '1 s')", (start, second))
            return conn.execute("SELECT status::text, lease, attempts, lost_attempts FROM jobq.jobs WHERE id = %s",
                                (job,)).fetchone()

        held, last, seen = ("processing", lease, 1, 0), 25 * 60, set()
        # A heartbeat every 20 seconds, as heartbeat_seconds recommends, and a tick every 5 seconds.
        for second in range(0, last + 1, 5):
            if second % 20 == 0:
                heartbeat(second)
            seen.add(tick(second))
        results.equal(seen, {held}, "25 minutes with heartbeats: the job was not rescued")
        results.equal(tick(last + 59), held, "59 seconds after the last heartbeat the job still has its lease")
        results.equal(tick(last + 61), ("pending", None, 1, 1), "61 seconds after the last heartbeat the job is rescued")
        results.equal(conn.execute("SELECT outcome FROM jobq.attempts WHERE job_id = %s AND lease = %s",
                                   (job, lease)).fetchall(), [("lost",)], "the attempt is recorded as lost")


# The time until the job of a dead worker runs again

def _claim_and_hang(database, pipe):
    with connect(database) as conn:
        conn.execute(CLAIM, ("fast", "doomed", 1))
        row = conn.execute("SELECT id, lease, extract(epoch FROM last_heartbeat)::float8 FROM jobq.jobs"
                           " WHERE queue = 'fast' AND status = 'processing'").fetchone()
        pipe.send(row)
        time.sleep(600)


def rescue_time(results, database):
    timeout, rounds, measured = 1.0, 3, []
    with connect(database) as conn:
        conn.execute("SELECT jobq_create_queue('fast', heartbeat_timeout => %s, max_lost => 100)", (f"{timeout} s",))
        for _ in range(rounds):
            conn.execute("SELECT jobq_enqueue('fast')")
            ours, theirs = processes.Pipe()
            worker = processes.Process(target=_claim_and_hang, args=(database, theirs))
            worker.start()
            job, lease, beat = ours.recv()
            os.kill(worker.pid, signal.SIGKILL)
            worker.join()
            again = []
            wait_until(lambda: again or again.extend(conn.execute(
                "SELECT id, lease, extract(epoch FROM clock_timestamp())::float8 FROM jobq_claim('fast', 'heir')")
                .fetchall()), timeout + 10, pause=0.01)
            if results.check(again and again[0][0] == job, "the job of a killed worker was claimed again"):
                measured.append(again[0][2] - beat)
                conn.execute("SELECT jobq_complete(%s, %s)", again[0][:2])
    results.note("the job of a killed worker was claimed again after "
                 + ", ".join(f"{seconds:.3f}" for seconds in measured)
                 + f" s; heartbeat timeout {timeout} s, promised within {timeout + 2} s")
    results.check(measured and max(measured) <= timeout + 2,
                  "within the heartbeat timeout + 2 s", str(measured))
    results.check(measured and min(measured) >= timeout, "and not before the timeout", str(measured))


if __name__ == "__main__":
    outcome = Results("seeds")
    with scratch_database("seeds") as name:
        each_claimed_once(outcome, name)
        two_statements_duplicate(outcome, name)
        zombie(outcome, name)
        long_job(outcome, name)
        rescue_time(outcome, name)
    outcome.finish()
