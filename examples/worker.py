#!/usr/bin/env python3
"""A jobq worker in Python, with psycopg 3. Run it as often as you like, on as many machines as you like.

    python3 worker.py [QUEUE]         connects by PGHOST, PGPORT, PGUSER, PGDATABASE as psql does

It claims one job at a time, heartbeats from a thread while the job runs, stops when the job is cancelled or its lease
is lost, and completes the job in the transaction that stores its effect: exactly once in this database. SIGTERM and
SIGINT end it after the job in hand. Replace KINDS by your own work.
"""
import hashlib
import os
import signal
import socket
import sys
import threading
import time

import psycopg
from psycopg.rows import dict_row
from psycopg.types.json import Jsonb

WORKER_ID = f"{socket.gethostname()}-{os.getpid()}"


class Cancelled(Exception):
    """Somebody asked to cancel the job."""


class Lost(Exception):
    """The lease is gone: another worker may have the job by now."""


# ---- the work: what takes long runs outside a transaction, what is stored runs in the one that completes the job

def hash_text(job):
    time.sleep(job.payload.get("seconds", 0))
    return hashlib.sha256(job.payload["text"].encode()).hexdigest()


def store_hash(conn, job, digest):
    conn.execute("INSERT INTO hashes (text, digest) VALUES (%s, %s)", (job.payload["text"], digest))


def count_slowly(job):
    for step in range(1, job.payload["steps"] + 1):
        time.sleep(1)
        job.progress = {"step": step}  # goes out with the next heartbeat
        job.check()                    # raises when the job was cancelled or lost
    return step


KINDS = {"hash": (hash_text, store_hash), "count": (count_slowly, None)}


# ---- the worker

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
    """Runs in a thread, with a connection of its own, until the job is done or its lease is lost."""
    conn = None
    while not job.done.wait(job.heartbeat_seconds):
        try:
            if conn is None:
                conn = psycopg.connect(autocommit=True, client_encoding="utf8", connect_timeout=5)
            progress = None if job.progress is None else Jsonb(job.progress)
            job.state = conn.execute("SELECT jobq_heartbeat(%s, %s, %s)", (job.id, job.lease, progress)).fetchone()[0]
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
            # must_hold: an error when the lease is lost, which rolls back what store() wrote
            conn.execute("SELECT jobq_complete(%s, %s, %s, must_hold => true)", (job.id, job.lease, Jsonb(result)))
        return "completed"
    except Lost:
        return "lost"
    except Cancelled:
        status = conn.execute("SELECT jobq_fail(%s, %s, 'stopped on request')", (job.id, job.lease)).fetchone()[0]
        return status or "lost"
    except psycopg.OperationalError:
        raise  # no connection: the job is claimable again one heartbeat timeout after its last heartbeat
    except Exception as error:
        if getattr(error, "sqlstate", None) == "JQ001":
            return "lost"
        message = f"{type(error).__name__}: {error}"
        status = conn.execute("SELECT jobq_fail(%s, %s, %s)", (job.id, job.lease, message)).fetchone()[0]
        return status or "lost"
    finally:
        job.done.set()
        beats.join(5)


def main():
    queue = sys.argv[1] if len(sys.argv) > 1 else "default"
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    while not stop.is_set():
        try:
            with psycopg.connect(autocommit=True, client_encoding="utf8") as conn:
                serve(conn, queue, stop)
        except psycopg.OperationalError as error:
            print(f"no connection, trying again: {error}", file=sys.stderr)
            stop.wait(2)


def serve(conn, queue, stop):
    while not stop.is_set():
        with conn.cursor(row_factory=dict_row) as cursor:
            # autocommit: the claim is committed before the work begins
            row = cursor.execute("SELECT * FROM jobq_claim(%s, %s, kinds => %s)",
                                 (queue, WORKER_ID, list(KINDS))).fetchone()
        if row is None:
            # Sleeps in the server until there may be a job. Not for long, so that a signal does not have to wait.
            conn.execute("CALL jobq_wait(%s, '2 s', %s)", (queue, list(KINDS)))
            continue
        job = Job(row)
        print(f"job {job.id}: {job.kind}, attempt {row['attempt']}", flush=True)
        print(f"job {job.id}: {run(conn, job)}", flush=True)


if __name__ == "__main__":
    main()
