#!/usr/bin/env python3
"""A jobq worker in Python that uses psycopg 3. You can run any number of copies, on any number of machines.

    python3 worker.py [QUEUE]         connects with PGHOST, PGPORT, PGUSER, and PGDATABASE, as psql does

Needs psycopg 3: apt-get install python3-psycopg, or pip install "psycopg[binary]".

The worker claims one job at a time and sends heartbeats from a thread while the job runs. It stops the job if the job is
canceled or its lease is lost. It completes the job in the transaction that stores the job's effect, so the effect happens exactly
once in this database. After SIGTERM or SIGINT it finishes the current job and exits; while it waits for a job, it exits at once.
Replace KINDS with your own work. The worker claims only jobs of these kinds, leaves other jobs to other workers, and logs when it
finds some. The kind '' stands for jobs without a kind.

Work that does not release the GIL, such as a regular expression that backtracks, stops the heartbeat thread. Run such work in a
separate process, or use the library in clients/python.
"""
import collections
import hashlib
import os
import random
import signal
import socket
import sys
import threading
import time

try:
    import psycopg
    from psycopg.rows import dict_row
    from psycopg.types.json import Jsonb
except ImportError as error:
    sys.exit(f"worker.py: {error}. It needs psycopg 3: apt-get install python3-psycopg, or pip install 'psycopg[binary]'")

WORKER_ID = f"{socket.gethostname()}-{os.getpid()}"
COLLIDED = ("40001", "40P01")
MOST_COLLISIONS = 10


class Cancelled(Exception):
    """Cancellation of the job was requested."""


class Lost(Exception):
    """The lease is lost. Another worker may be running the job."""


# ---- the work: slow parts run outside a transaction, and the result is stored in the transaction that completes the job

def hash_text(job):
    time.sleep(job.payload.get("seconds", 0))
    return hashlib.sha256(job.payload["text"].encode()).hexdigest()


def store_hash(conn, job, digest):
    conn.execute("INSERT INTO hashes (text, digest) VALUES (%s, %s)", (job.payload["text"], digest))


def count_slowly(job):
    for step in range(1, job.payload["steps"] + 1):
        time.sleep(1)
        job.progress = {"step": step}  # sent with the next heartbeat
        job.check()                    # raises if the job was canceled or lost
    return step


KINDS = {"hash": (hash_text, store_hash), "count": (count_slowly, None)}


# ---- the worker

class Pace:
    """Decides whether the worker waits in the server or polls. If a pooler has fewer connections than there are workers, waits
    occupy the connections that heartbeats need. Then answers take longer than a second, and the worker polls for a minute or two."""

    def __init__(self):
        self.pooled = self.warned = False
        self.polls_until = 0.0

    def look(self, conn):
        """Detects a pooler, which tells the client a process ID other than the server's."""
        self.pooled = conn.execute("SELECT pg_backend_pid()").fetchone()[0] != conn.info.backend_pid

    def ask(self, cursor, statement, parameters):
        begun = time.monotonic()
        row = cursor.execute(statement, parameters).fetchone()
        took = time.monotonic() - begun
        if self.pooled and took > 1:
            self.polls_until = time.monotonic() + random.uniform(60, 120)
            if not self.warned:
                print(f"answers take {took:.1f} s behind the connection pooler, whose pool may have fewer connections than there are workers: "
                      "polling instead of waiting", file=sys.stderr)
            self.warned = True
        return row

    def polls(self):
        return time.monotonic() < self.polls_until


PACE = Pace()
COLLISIONS = collections.Counter()


class Job:
    def __init__(self, row):
        self.id, self.lease, self.kind = row["id"], row["lease"], row["kind"]
        self.payload, self.heartbeat_seconds = row["payload"], row["heartbeat_seconds"]
        self.progress = None
        self.state = "held"
        self.done = threading.Event()

    def check(self):
        if self.state == "cancel":
            raise Cancelled
        if self.state in ("lost", "gone"):
            raise Lost


def heartbeat(job):
    """Sends heartbeats in a thread with its own connection, until the job is done or its lease is lost."""
    conn = None
    while not job.done.wait(job.heartbeat_seconds):
        try:
            if conn is None:
                conn = psycopg.connect(autocommit=True, client_encoding="utf8", connect_timeout=5)
            progress = None if job.progress is None else Jsonb(job.progress)
            job.state = PACE.ask(conn, "SELECT jobq_heartbeat(%s, %s, %s)", (job.id, job.lease, progress))[0]
        except psycopg.Error as error:
            print(f"job {job.id}: heartbeat failed, trying again: {error}", file=sys.stderr)
            conn = None
        if job.state not in ("held", "cancel"):
            break
    if conn is not None:
        conn.close()


def run(conn, job):
    beats = threading.Thread(target=heartbeat, args=(job,), daemon=True)
    beats.start()
    try:
        work, store = KINDS[job.kind]
        result = work(job)
        with conn.transaction():
            if store is not None:
                store(conn, job, result)
            # must_hold raises an error if the lease is lost, which rolls back the writes of store()
            conn.execute("SELECT jobq_complete(%s, %s, %s, must_hold => true)", (job.id, job.lease, Jsonb(result)))
        COLLISIONS.pop(job.id, None)
        return "completed"
    except Lost:
        return "lost"
    except Cancelled:
        status = conn.execute("SELECT jobq_fail(%s, %s, 'stopped on request')", (job.id, job.lease)).fetchone()[0]
        return status or "lost"
    except Exception as error:
        if conn.closed:  # the job is claimable again one heartbeat timeout after its last heartbeat
            raise psycopg.OperationalError(str(error)) from error
        if getattr(error, "sqlstate", None) == "JQ001":
            return "lost"
        if getattr(error, "sqlstate", None) in COLLIDED and COLLISIONS[job.id] < MOST_COLLISIONS:
            COLLISIONS[job.id] += 1   # a collision without a fault of the handler: the attempt is not counted
            return "collided" if conn.execute("SELECT jobq_release(%s, %s)", (job.id, job.lease)).fetchone()[0] else "lost"
        return fail(conn, job, f"{type(error).__name__}: {error}")
    finally:
        job.done.set()
        beats.join(5)


def fail(conn, job, message):
    COLLISIONS.pop(job.id, None)
    message = message.encode("utf-8", "replace").decode().replace("\0", "?")
    try:
        status = conn.execute("SELECT jobq_fail(%s, %s, %s)", (job.id, job.lease, message)).fetchone()[0]
    except psycopg.errors.UntranslatableCharacter:   # a character does not exist in the encoding of the database
        message = message.encode("ascii", "replace").decode()
        status = conn.execute("SELECT jobq_fail(%s, %s, %s)", (job.id, job.lease, message)).fetchone()[0]
    return status or "lost"


def wake(stop):
    """Runs in a thread. When the worker should stop, ends its wait in the server, even a wait that is just about to begin."""
    stop.wait()
    while True:
        try:
            with psycopg.connect(autocommit=True, connect_timeout=5) as conn:
                conn.execute("SELECT jobq_wake(%s)", (WORKER_ID,))
            return
        except psycopg.errors.ObjectNotInPrerequisiteState:
            return  # jobq is not preloaded: the wait is short
        except psycopg.Error:
            time.sleep(1)


def longest_wait(conn):
    """Returns the longest wait: long if it can be ended early and no other worker needs the connection."""
    if PACE.pooled:
        return "2 s"
    try:
        conn.execute("SELECT jobq_wake(%s)", (WORKER_ID,))  # no wait is running yet, so this ends the first wait at once
        return "1 min"
    except psycopg.errors.ObjectNotInPrerequisiteState:
        return "2 s"


def others(conn, queue):
    """Returns the kinds of waiting jobs that this worker does not claim, if its role may read the table."""
    try:
        rows = conn.execute("""SELECT kind, count(*) FROM (SELECT kind FROM jobq.jobs WHERE _ready AND queue = %s
                               AND kind <> ALL (%s) LIMIT 10000) j GROUP BY kind ORDER BY kind""",
                            (queue, list(KINDS))).fetchall()
    except psycopg.errors.InsufficientPrivilege:
        return ""
    return ", ".join(f"{count} {'of kind ' + repr(kind) if kind else 'without a kind'}" for kind, count in rows)


def main():
    queue = sys.argv[1] if len(sys.argv) > 1 else "default"
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    threading.Thread(target=wake, args=(stop,), daemon=True).start()
    print(f"queue {queue}: kinds {', '.join(KINDS)}; other jobs are left to other workers", file=sys.stderr)
    while not stop.is_set():
        try:
            with psycopg.connect(autocommit=True, client_encoding="utf8") as conn:
                serve(conn, queue, stop)
        except psycopg.OperationalError as error:
            print(f"no connection, trying again: {error}", file=sys.stderr)
            stop.wait(2)


def serve(conn, queue, stop):
    PACE.look(conn)
    wait, left, pause = longest_wait(conn), "", 0.05
    while not stop.is_set():
        with conn.cursor(row_factory=dict_row) as cursor:
            # autocommit, so the claim is committed before the work begins. Only needed columns are selected, because psycopg
            # cannot read times in a DateStyle other than ISO, or outside the years 1 to 9999.
            row = PACE.ask(cursor, "SELECT id, lease, kind, payload, attempt, heartbeat_seconds FROM jobq_claim(%s, %s, kinds => %s)",
                           (queue, WORKER_ID, list(KINDS)))
        if row is None:
            before, left = left, others(conn, queue)
            if left not in ("", before):
                print(f"queue {queue}: jobs that this worker does not claim are waiting: {left}", file=sys.stderr)
            if PACE.polls():
                stop.wait(pause)
                pause = min(2 * pause, 1)
                continue
            try:
                # Waits in the server until there may be a job, or wake() ends the wait.
                conn.execute("CALL jobq_wait(%s, %s, %s, worker_id => %s)", (queue, wait, list(KINDS), WORKER_ID))
            except psycopg.errors.QueryCanceled as error:   # canceled by statement_timeout: treated as the end of the wait
                print(f"a wait was ended by the server (see the setting statement_timeout): {error}", file=sys.stderr)
            continue
        pause = 0.05
        job = Job(row)
        print(f"job {job.id}: {job.kind}, attempt {row['attempt']}", flush=True)
        print(f"job {job.id}: {run(conn, job)}", flush=True)


if __name__ == "__main__":
    main()
