"""Plays the part of the harness postgresql-job-queue-benchmarking: runs bench/harness/adapter.py in each mode and checks what it prints.

Uses the database to which PGDATABASE and the other variables lead.
"""

import json
import os
import pathlib
import queue
import signal
import subprocess
import sys
import threading
import time

import psycopg

ADAPTER = pathlib.Path(__file__).resolve().parents[2] / "bench" / "harness" / "adapter.py"
MANIFEST = json.loads((ADAPTER.parent / "adapter.json").read_text())
REQUIRED = {"claim_p50_ms", "claim_p95_ms", "claim_p99_ms", "enqueue_rate", "completion_rate", "queue_depth"}
PATIENCE = 60
conn = psycopg.connect(autocommit=True)
failed = 0


def check(got, wanted, text):
    global failed
    passed = got == wanted
    failed += not passed
    print(f'{"ok" if passed else "not ok"} - harness: {text}' + ("" if passed else f": {got!r} instead of {wanted!r}"), flush=True)


def value(statement):
    return conn.execute(statement).fetchone()[0]


def becomes(wanted, read):
    deadline = time.monotonic() + PATIENCE
    while (got := read()) != wanted and time.monotonic() < deadline:
        time.sleep(0.05)
    return got


def url():
    info = psycopg.conninfo.conninfo_to_dict(conn.info.dsn)
    return psycopg.conninfo.make_conninfo(**{**info, "host": conn.info.host, "port": conn.info.port, "user": conn.info.user})


class Run:
    """An adapter whose standard output a thread reads, as the harness does."""

    def __init__(self, **settings):
        env = {**os.environ, "DATABASE_URL": url(), "SAMPLE_EVERY_S": "1", "WORKER_COUNT": "4", "JOB_WORK_MS": "1", **settings}
        self.process = subprocess.Popen([sys.executable, "-B", str(ADAPTER)], env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=subprocess.PIPE, text=True)
        self.records = queue.Queue()
        threading.Thread(target=self.read, daemon=True).start()

    def read(self):
        for line in self.process.stdout:
            self.records.put(json.loads(line))

    def next(self, wanted):
        """Returns the next record for which wanted(record) is true, or None."""
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            try:
                record = self.records.get(timeout=1)
            except queue.Empty:
                continue
            if wanted(record):
                return record
        return None

    def tell(self, line):
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        try:
            return self.process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            self.process.kill()
            return "does not stop"


def is_metric(name, least):
    return lambda record: record.get("metric") == name and record["value"] >= least


def paced_by_harness():
    run = Run(PRODUCER_PACING="harness", JOB_PAYLOAD_BYTES="300")
    descriptor = run.next(lambda record: record["kind"] == "descriptor") or {}
    check([descriptor.get(key) for key in ("system", "event_tables", "extensions", "db_name")],
          [MANIFEST["system"], MANIFEST["event_tables"], MANIFEST["extensions"], conn.info.dbname], "the descriptor agrees with adapter.json")
    check([value(f"SELECT to_regclass('{name}') IS NOT NULL") for name in MANIFEST["event_tables"] + MANIFEST["event_indexes"]],
          [True] * len(MANIFEST["event_tables"] + MANIFEST["event_indexes"]), "the tables and indexes of adapter.json exist")
    for count in (1, 500, 7):
        run.tell(f"ENQUEUE {count}")
    check(becomes(508, lambda: value("SELECT count(*) FROM jobq.jobs WHERE status = 'completed'")), 508, "it runs the jobs that were requested")
    check(value("SELECT max(length(payload::text)) BETWEEN 290 AND 310 FROM jobq.jobs"), True, "payloads have the requested size")
    seen = set()
    rate = run.next(lambda record: seen.add(record.get("metric")) or is_metric("completion_rate", 0.001)(record))
    check(rate is not None and set(rate) >= {"t", "system", "kind", "subject_kind", "subject", "metric", "value", "window_s", "instance_id"}, True,
          "a sample has all keys")
    run.next(lambda record: seen.add(record.get("metric")) or seen >= REQUIRED)
    check(REQUIRED - seen, set(), "it reports all required metrics")
    check(run.next(is_metric("claim_p99_ms", 0.001)) is not None, True, "it measures latencies")
    conn.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()")
    run.tell("ENQUEUE 10")
    check(becomes(518, lambda: value("SELECT count(*) FROM jobq.jobs WHERE status = 'completed'")), 518, "it connects again")
    check(run.stop(), 0, "it exits with 0 after SIGTERM")
    check(value("SELECT count(*) FROM jobq.jobs WHERE status = 'processing'"), 0, "it has reported all jobs before it exits")


def paced_by_itself():
    run = Run(PRODUCER_RATE="200", BENCH_INSTANCE_ID="1")
    check(run.next(is_metric("completion_rate", 1)) is not None, True, "it enqueues at a fixed rate by itself")
    seen = []
    run.next(lambda record: seen.append(record) or len(seen) > 30)
    check({record.get("metric") for record in seen} & {"queue_depth", "producer_target_rate"}, set(), "only one replica reports the depth")
    check(run.stop(), 0, "it exits with 0 in this mode, too")
    run = Run(PRODUCER_MODE="depth-target", TARGET_DEPTH="300", WORKER_COUNT="0")
    check(becomes(300, lambda: value("SELECT count(*) FROM jobq.jobs WHERE status = 'pending'")), 300, "it fills the queue to a depth")
    check(run.next(is_metric("queue_depth", 300)) is not None, True, "it reports the depth")
    check(run.stop(), 0, "it exits with 0 without workers")


def rejects(message, **settings):
    run = Run(**settings)
    check((run.process.wait(PATIENCE), run.process.stderr.read().strip()), (1, f"adapter: {message}"), f"it rejects {settings}")


paced_by_harness()
conn.execute("DELETE FROM jobq.jobs")
paced_by_itself()
rejects('SCENARIO must be one of long_horizon, not "other"', SCENARIO="other")
rejects('WORKER_COUNT must be an integer that is not negative, not "many"', WORKER_COUNT="many")
rejects("DATABASE_URL must be set", DATABASE_URL="")
sys.exit(1 if failed else 0)
