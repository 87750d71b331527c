"""Tests what probes of Kubernetes and systemd are told. Only WorkerTest needs a server."""

import asyncio
import contextlib
import logging
import os
import random
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import unittest
import urllib.error
import urllib.request
import uuid
from pathlib import Path
from types import SimpleNamespace
from unittest import mock

import psycopg

import jobq
from jobq import Options, core, liveness
from jobq.hand import CLAIMS, HEARTBEATS, PATIENCE, Hand
from jobq.job import BaseJob

LIMIT = 60


def make_job(lease):
    return BaseJob(dict(id=lease, lease=lease, queue="q", kind="k", payload=None, attempt=1, max_attempts=20, priority=0, version=0,
                        run_at=0, created_at=0, progress=None, metadata=None, heartbeat_seconds=20))


def until(condition):
    deadline = time.monotonic() + LIMIT
    while not (found := condition()):
        if time.monotonic() > deadline:
            raise AssertionError("the condition has not become true")
        time.sleep(0.02)
    return found


def free_port():
    """Returns a port below those that systems assign to clients, so that no other process takes it in the meantime."""
    while True:
        port = random.randrange(20000, 30000)
        with contextlib.suppress(OSError), socket.create_server(("", port)):
            return port


def probe(port, path="/"):
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=LIMIT) as answer:
            return answer.status, answer.read().decode().strip()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode().strip()


class StuckTest(unittest.TestCase):
    def setUp(self):
        self.now = 100.0
        self.hand = Hand(2, 2, None, 10.0, lambda: self.now)

    def test_claims_without_an_answer(self):
        self.hand.next_claim()
        self.now += PATIENCE
        self.assertIsNone(self.hand.stuck())
        self.now += 1
        self.assertEqual(self.hand.stuck(), CLAIMS)
        self.hand.next_claim()
        self.assertIsNone(self.hand.stuck())

    def test_a_wait_and_a_pause_may_take_their_time(self):
        line = core._Line(SimpleNamespace(hand=self.hand, wait_timeout=3600.0), CLAIMS)
        line.connection = mock.MagicMock()
        line.connection.cursor.side_effect = lambda **_: self.fail_after(3600.0 + PATIENCE)
        with self.assertRaises(ZeroDivisionError):
            line.all(core.statements.WAIT, ())
        self.assertIsNone(self.hand.stuck())
        self.now += 1
        self.assertEqual(self.hand.stuck(), CLAIMS)
        with mock.patch.object(self.hand.changed, "wait", self.pass_time):
            self.hand.rest(3600.0)
        self.now += PATIENCE
        self.assertIsNone(self.hand.stuck())

    def fail_after(self, seconds):
        self.now += seconds
        raise ZeroDivisionError

    def pass_time(self, seconds):
        self.now += seconds

    def test_without_a_free_slot_no_claims_are_expected(self):
        for lease in (1, 2):
            self.hand.claimed(make_job(lease))
        waits = threading.Event()
        with mock.patch.object(self.hand.changed, "wait", side_effect=lambda: waits.set() or self.fail_after(86400)), \
                self.assertRaises(ZeroDivisionError):
            self.hand.next_claim()
        self.assertIsNone(self.hand.stuck())

    def test_heartbeats_that_are_due_but_not_sent(self):
        self.hand.claimed(make_job(1))
        with mock.patch.object(self.hand.changed, "wait", self.pass_time):
            self.assertTrue(self.hand.next_beat().jobs)
        self.assertEqual(self.now, 120.0)
        self.now += PATIENCE + 1
        self.assertEqual(self.hand.stuck(), HEARTBEATS)

    def test_heartbeats_that_the_thread_does_not_wake_up_for(self):
        self.hand.claimed(make_job(1))
        with mock.patch.object(self.hand.changed, "wait", side_effect=ZeroDivisionError), self.assertRaises(ZeroDivisionError):
            self.hand.next_beat()
        self.now += 20 + PATIENCE
        self.assertIsNone(self.hand.stuck())
        self.now += 1
        self.assertEqual(self.hand.stuck(), HEARTBEATS)

    def test_a_worker_that_stops_needs_no_claims(self):
        self.hand.next_claim()
        self.now += PATIENCE + 1
        self.hand.stop()
        self.assertIsNone(self.hand.stuck())

    def test_a_worker_whose_database_is_down_is_alive(self):
        """Each try to connect takes 10 s."""
        made = core.Core(Options(), ["x"], "", {}, lambda row: None, lambda job: None)
        made.hand = self.hand
        self.hand.claimed(make_job(1))
        tries = []

        def connect(**_):
            self.now += 10
            tries.append(self.hand.stuck())
            if len(tries) % 100 == 0:
                self.hand.stop()
                self.hand.stop()
                self.hand.jobs.clear()
            raise psycopg.OperationalError("down")

        made._claims.opened = made._beats.opened = 1
        with mock.patch.object(psycopg, "connect", connect), mock.patch.object(self.hand.changed, "wait", self.pass_time), \
                mock.patch("time.monotonic", lambda: self.now), self.assertLogs("jobq", "WARNING"):
            made._claims.reconnect()
            self.hand.stop_at = None
            self.hand.claimed(make_job(1))
            self.hand.no_more_claims()
            made._beat_until_over()
        self.assertEqual(tries, [None] * 200)


class LivenessTest(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.path = Path(directory.name)
        self.liveness = liveness.Liveness()
        self.hands = []
        patch = mock.patch.object(liveness, "EVERY", 0.02)
        patch.start()
        self.addCleanup(patch.stop)

    def watch(self, **options):
        hand = mock.Mock(stuck=mock.Mock(return_value=None))
        self.liveness.watch(Options(worker_id=f"worker {len(self.hands) + 1}", **options), hand)
        self.addCleanup(self.liveness.leave, hand)
        self.hands.append(hand)
        return hand

    def test_the_file_and_the_port_cover_all_workers(self):
        port, file = free_port(), self.path / "alive"
        for _ in range(2):
            self.watch(liveness_file=file, liveness_port=port)
        self.assertTrue(file.exists())
        file.unlink()
        until(file.exists)
        self.assertEqual(probe(port, "/any/path"), (200, "ok"))
        with self.assertLogs("jobq", "ERROR") as logs:
            self.hands[1].stuck.return_value = CLAIMS
            self.assertEqual(probe(port), (503, "worker 2: claims are stuck"))
            until(lambda: logs.output)
        file.unlink()
        time.sleep(0.2)
        self.assertFalse(file.exists())
        self.hands[1].stuck.return_value = None
        until(file.exists)
        self.assertEqual(probe(port)[0], 200)
        self.liveness.leave(self.hands[0])
        self.assertEqual(probe(port)[0], 200)
        self.liveness.leave(self.hands[1])
        with self.assertRaises(OSError):
            probe(port)
        until(lambda: self.liveness._thread is None)

    def test_errors_of_the_options_are_raised(self):
        with socket.create_server(("127.0.0.1", 0)) as taken:
            for name, value in (("liveness_port", f"127.0.0.1:{taken.getsockname()[1]}"), ("liveness_file", self.path / "no" / "file")):
                with self.assertRaisesRegex(jobq.OptionError, f'option "{name}" cannot be used: '):
                    self.watch(**{name: value})
        self.assertIsNone(self.liveness.reason())

    def test_systemd(self):
        for name in (str(self.path / "notify"), f"@jobq {uuid.uuid4().hex}"):
            with self.subTest(name=name), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as systemd, \
                    mock.patch.dict(os.environ, {"NOTIFY_SOCKET": name, "WATCHDOG_USEC": "1000000", "WATCHDOG_PID": str(os.getpid())}):
                systemd.bind(name.replace("@", "\0"))
                systemd.settimeout(LIMIT)
                hand = self.watch()
                self.liveness.ready()
                self.assertEqual([systemd.recv(100) for _ in range(3)], [b"READY=1", b"WATCHDOG=1", b"WATCHDOG=1"])
                with self.assertLogs("jobq", "ERROR") as logs:
                    hand.stuck.return_value = HEARTBEATS
                    until(lambda: logs.output)
                systemd.setblocking(False)
                with contextlib.suppress(BlockingIOError):
                    while systemd.recv(100):
                        pass
                time.sleep(0.2)
                self.assertRaises(BlockingIOError, systemd.recv, 100)
                self.liveness.leave(hand)

    def test_the_watchdog_of_another_process(self):
        for environment, seconds in (({}, None), ({"WATCHDOG_USEC": "0"}, None), ({"WATCHDOG_USEC": "2500000"}, 2.5),
                                     ({"WATCHDOG_USEC": "2500000", "WATCHDOG_PID": "1"}, None)):
            with mock.patch.dict(os.environ, environment, clear=True):
                self.assertEqual(liveness.watchdog(), seconds)


class WorkerTest(unittest.TestCase):
    """A worker that works, one whose claims are stuck, and one under systemd."""

    def setUp(self):
        logging.getLogger("jobq").setLevel(logging.CRITICAL)
        self.queue = f"test {uuid.uuid4().hex[:12]}"
        self.connection = psycopg.connect(autocommit=True)
        self.addCleanup(self.connection.close)
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.path = Path(directory.name)
        self.file, self.port = self.path / "alive", free_port()
        self.begun, self.gate = threading.Event(), threading.Event()
        self.addCleanup(self.gate.set)

    def block(self, _):
        self.begun.set()
        self.gate.wait(2 * LIMIT)

    async def block_the_event_loop(self, job):
        self.block(job)

    def probe_while_it_works(self, worker):
        jobq.enqueue(self.connection, self.queue, kind="x")
        self.assertTrue(self.begun.wait(LIMIT))
        for _ in range(2):
            self.assertEqual(probe(self.port), (200, "ok"))
            self.file.unlink()
            until(self.file.exists)
        hand, line, hangs = worker._core.hand, worker._core._claims, threading.Event()
        send = line.all

        def hang(statement, parameters):
            if not self.gate.is_set():
                hand.expect(CLAIMS, -PATIENCE - 1)   # as if it had hung for so long already
                hangs.set()
                self.gate.wait(2 * LIMIT)
            return send(statement, parameters)

        line.all = hang
        self.assertTrue(hangs.wait(LIMIT))
        self.assertEqual(probe(self.port), (503, f"{worker.options.worker_id}: claims are stuck"))
        self.gate.set()
        until(lambda: probe(self.port)[0] == 200)

    def options(self):
        return dict(slots=2, wait_timeout=0.1, grace=LIMIT, liveness_file=self.file, liveness_port=f"127.0.0.1:{self.port}")

    def test_a_worker_with_threads(self):
        worker = jobq.Worker(self.queue, {"x": self.block}, **self.options())
        worker.start()
        try:
            self.probe_while_it_works(worker)
        finally:
            self.gate.set()
            worker.stop()
            self.assertTrue(worker.join(LIMIT))

    def test_an_async_worker_whose_handler_blocks_the_event_loop(self):
        worker = jobq.AsyncWorker(self.queue, {"x": self.block_the_event_loop}, **self.options())

        async def work():
            await worker.start()
            self.assertTrue(await worker.join(3 * LIMIT))

        thread = threading.Thread(target=lambda: asyncio.run(work()), daemon=True)
        thread.start()
        try:
            self.probe_while_it_works(worker)
        finally:
            self.gate.set()
            worker.stop()
            thread.join(LIMIT)
        self.assertFalse(thread.is_alive())

    def test_systemd(self):
        program = f"import sys, jobq; jobq.serve(getattr(jobq, sys.argv[1])({self.queue!r}, dict(x=lambda job: None)))"
        for kind in ("Worker", "AsyncWorker"):
            with self.subTest(kind=kind), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as systemd:
                name = str(self.path / kind)
                systemd.bind(name)
                systemd.settimeout(LIMIT)
                process = subprocess.Popen([sys.executable, "-c", program, kind],
                                           env={**os.environ, "NOTIFY_SOCKET": name, "WATCHDOG_USEC": "1000000"})
                try:
                    self.assertEqual([systemd.recv(100) for _ in range(3)], [b"READY=1", b"WATCHDOG=1", b"WATCHDOG=1"])
                    process.send_signal(signal.SIGTERM)
                    while (state := systemd.recv(100)) == b"WATCHDOG=1":
                        pass
                    self.assertEqual(state, b"STOPPING=1")
                    self.assertEqual(process.wait(LIMIT), 0)
                finally:
                    process.kill()
                    process.wait()


if __name__ == "__main__":
    unittest.main()
