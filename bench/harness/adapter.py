#!/usr/bin/env python3
"""Runs producers and workers of jobq for the harness postgresql-job-queue-benchmarking. README.md describes how to use it.

Reads its settings from environment variables, prints one JSON object per line, and runs until SIGTERM. With PRODUCER_PACING=harness,
it enqueues what the lines "ENQUEUE n" on standard input request. Logs go to standard error.
"""

import asyncio
import collections
import datetime
import json
import math
import os
import pathlib
import signal
import sys
import time

import psycopg

MANIFEST = json.loads((pathlib.Path(__file__).parent / "adapter.json").read_text())
QUEUE = "long_horizon"
WINDOW = 30         # seconds that percentiles cover
DEPTH_EVERY = 0.25  # seconds
WAIT = "1 s"        # timeout of a wait for jobs, so that a worker notices SIGTERM
DIGITS = math.log(1.001)   # values in a histogram differ by 0.1 %


def setting(name, default, choices=None):
    value = os.environ.get(name, default)
    if choices is not None:
        if value not in choices:
            sys.exit(f'adapter: {name} must be one of {", ".join(choices)}, not "{value}"')
        return value
    try:
        number = int(value)
    except ValueError:
        number = -1
    if number < 0:
        sys.exit(f'adapter: {name} must be an integer that is not negative, not "{value}"')
    return number


def payload(padding):
    return {"enqueued_at_ms": int(time.time() * 1000), "padding": padding}


class Settings:
    def __init__(self):
        setting("SCENARIO", "long_horizon", ["long_horizon"])
        self.mode = setting("PRODUCER_MODE", "fixed", ["fixed", "depth-target"])
        self.pacing = setting("PRODUCER_PACING", "adapter", ["adapter", "harness"])
        self.rate = setting("PRODUCER_RATE", "800")
        self.rate_file = os.environ.get("PRODUCER_RATE_CONTROL_FILE")
        self.batch_max = max(setting("PRODUCER_BATCH_MAX", "128"), 1)
        self.batch_ms = max(setting("PRODUCER_BATCH_MS", "10"), 1)
        self.depth = setting("TARGET_DEPTH", "1000")
        self.workers = setting("WORKER_COUNT", "32")
        self.claim = max(setting("CONSUMER_BATCH_SIZE", "8"), 1)
        self.work_ms = setting("JOB_WORK_MS", "1")
        self.padding = "x" * max(setting("JOB_PAYLOAD_BYTES", "256") - len(json.dumps(payload(""))), 0)
        self.sample_every = max(setting("SAMPLE_EVERY_S", "5"), 1)
        self.instance = setting("BENCH_INSTANCE_ID", "0")
        self.url = os.environ.get("DATABASE_URL") or sys.exit("adapter: DATABASE_URL must be set")

    def target_rate(self):
        """Returns the rate that the harness wants now. It changes during a run only if there is a control file."""
        try:
            return float(pathlib.Path(self.rate_file).read_text()) if self.rate_file else float(self.rate)
        except (OSError, ValueError):
            return float(self.rate)


class Latencies:
    """A histogram per second, for the last WINDOW seconds, so that its size does not depend on the number of values."""

    def __init__(self):
        self.seconds = collections.deque()

    def add(self, ms, count=1):
        now = int(time.monotonic())
        if not self.seconds or self.seconds[-1][0] != now:
            self.seconds.append((now, collections.Counter()))
            while self.seconds[0][0] <= now - WINDOW:
                self.seconds.popleft()
        self.seconds[-1][1][round(math.log(max(ms, 0.001)) / DIGITS)] += count

    def percentiles(self, shares):
        since = time.monotonic() - WINDOW
        total = sum((counts for second, counts in self.seconds if second >= since), collections.Counter())
        left = [share * total.total() for share in shares]
        values, passed = [0.0] * len(shares), 0
        for bucket in sorted(total):
            for i, rank in enumerate(left):
                if passed < rank:
                    values[i] = math.exp(bucket * DIGITS)
            passed += total[bucket]
        return values


class Adapter:
    def __init__(self, settings):
        self.settings = settings
        self.stopping = asyncio.Event()
        self.latencies = {name: Latencies() for name in ("producer", "claim", "end_to_end")}
        self.enqueued = self.completed = self.depth = self.requested = 0

    def emit(self, record):
        print(json.dumps({**record, "instance_id": self.settings.instance}), flush=True)

    async def pause(self, seconds):
        try:
            await asyncio.wait_for(self.stopping.wait(), max(seconds, 0))
        except asyncio.TimeoutError:
            pass

    async def with_connection(self, body):
        """Calls body(connection) until it returns. Connects again after an error, because the harness restarts servers."""
        while not self.stopping.is_set():
            try:
                async with await psycopg.AsyncConnection.connect(self.settings.url, autocommit=True) as connection:
                    return await body(connection)
            except psycopg.OperationalError as error:
                print(f"adapter: {error}", file=sys.stderr, flush=True)
                await self.pause(0.2)

    # ---- producers

    async def enqueue(self, connection, count):
        begun = time.monotonic()
        await connection.execute("SELECT FROM jobq_enqueue_many(%s, array_fill(%s::jsonb, ARRAY[%s::int]))",
                                 (QUEUE, json.dumps(payload(self.settings.padding)), count))
        self.latencies["producer"].add((time.monotonic() - begun) * 1000 / count, count)
        self.enqueued += count

    async def produce_as_told(self, connection):
        while not self.stopping.is_set():
            while self.requested == 0 and not self.stopping.is_set():
                await self.pause(0.002)
            count = min(self.requested, self.settings.batch_max)
            if count > 0:
                await self.enqueue(connection, count)
                self.requested -= count

    async def read_requests(self):
        reader = asyncio.StreamReader()
        await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
        while line := await reader.readline():
            words = line.split()
            if len(words) == 2 and words[0] == b"ENQUEUE" and words[1].isdigit():
                self.requested += int(words[1])
            else:
                print(f"adapter: unknown request {line!r}", file=sys.stderr, flush=True)

    async def produce(self, connection):
        """Enqueues at a fixed rate, which counts from the time that has really passed, or up to a depth."""
        credit, last = 0.0, time.monotonic()
        while not self.stopping.is_set():
            if self.settings.mode == "fixed":
                now = time.monotonic()
                credit += self.settings.target_rate() * (now - last)
                last = now
            else:
                credit = self.settings.depth - await self.read_depth(connection)
            count = min(int(credit), self.settings.batch_max)
            if count > 0:
                await self.enqueue(connection, count)
                credit -= count
            if credit < 1 or self.settings.mode != "fixed":
                await self.pause(self.settings.batch_ms / 1000)

    # ---- workers

    async def work(self, number, connection):
        worker, ids, leases, since = f"bench-{self.settings.instance}-{number}", [], [], []
        while True:
            claim = 0 if self.stopping.is_set() else self.settings.claim
            rows = await (await connection.execute(
                "SELECT id, lease, (payload->>'enqueued_at_ms')::float FROM jobq_complete_and_claim(%s::bigint[], %s::bigint[], "
                "queue => %s, worker_id => %s, batch => %s)", (ids, leases, QUEUE, worker, claim))).fetchall()
            now = time.time() * 1000
            for enqueued_at in since:
                self.latencies["end_to_end"].add(now - enqueued_at)
            self.completed += len(ids)
            ids, leases, since = ([row[i] for row in rows] for i in range(3))
            for enqueued_at in since:
                self.latencies["claim"].add(now - enqueued_at)
            if rows:
                await asyncio.sleep(self.settings.work_ms * len(rows) / 1000)   # the jobs of a worker run one after the other
            elif self.stopping.is_set():
                return
            else:
                await connection.execute("CALL jobq_wait(%s, %s::interval, worker_id => %s)", (QUEUE, WAIT, worker))

    # ---- measurements

    async def read_depth(self, connection):
        row = await (await connection.execute("SELECT pending FROM jobq.queue_stats WHERE queue = %s", (QUEUE,))).fetchone()
        self.depth = row[0] if row else 0
        return self.depth

    async def watch_depth(self, connection):
        while not self.stopping.is_set():
            await self.read_depth(connection)
            await self.pause(DEPTH_EVERY)

    async def sample(self):
        every, last, enqueued, completed = self.settings.sample_every, time.monotonic(), 0, 0
        while not self.stopping.is_set():
            await self.pause(every - time.time() % every)   # the harness expects samples at multiples of the interval
            now = time.monotonic()
            passed, last = max(now - last, 0.001), now
            metrics = [("enqueue_rate", (self.enqueued - enqueued) / passed, every),
                       ("completion_rate", (self.completed - completed) / passed, every)]
            enqueued, completed = self.enqueued, self.completed
            for name, latencies in self.latencies.items():
                values = latencies.percentiles((0.5, 0.95, 0.99))
                for prefix in {"claim": ("claim", "subscriber")}.get(name, (name,)):
                    metrics += [(f"{prefix}_{p}_ms", value, WINDOW) for p, value in zip(("p50", "p95", "p99"), values)]
            if self.settings.instance == 0:   # of several replicas, one reports what concerns all
                metrics += [("queue_depth", self.depth, 0), ("producer_target_rate", self.settings.target_rate(), 0)]
            at = utc_now()
            for metric, value, window in metrics:
                self.emit({"t": at, "system": MANIFEST["system"], "kind": "adapter", "subject_kind": "adapter", "subject": "",
                           "metric": metric, "value": round(value, 4), "window_s": window})

    async def describe(self, connection):
        await connection.execute("CREATE EXTENSION IF NOT EXISTS jobq")
        name, version, server = await (await connection.execute(
            "SELECT current_database(), (SELECT extversion FROM pg_extension WHERE extname = 'jobq'), current_setting('server_version')")
        ).fetchone()
        self.emit({"kind": "descriptor", "system": MANIFEST["system"], "event_tables": MANIFEST["event_tables"],
                   "event_indexes": MANIFEST["event_indexes"], "extensions": MANIFEST["extensions"],
                   "version": f"jobq {version} on PostgreSQL {server}", "schema_version": version, "db_name": name,
                   "started_at": utc_now()})

    async def run(self):
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, self.stopping.set)
        await self.with_connection(self.describe)
        told = self.settings.pacing == "harness" and self.settings.mode == "fixed"
        reader = asyncio.create_task(self.read_requests()) if told else None
        tasks = [self.sample(), self.with_connection(self.watch_depth),
                 self.with_connection(self.produce_as_told if told else self.produce)]
        tasks += [self.with_connection(lambda connection, n=n: self.work(n, connection)) for n in range(self.settings.workers)]
        await asyncio.gather(*tasks)
        if reader is not None:
            reader.cancel()


def utc_now():
    return datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="milliseconds").replace("+00:00", "Z")


if __name__ == "__main__":
    asyncio.run(Adapter(Settings()).run())
