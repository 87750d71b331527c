"""Tests of the command line program, against a server with jobq: in a database of their own, so that doctor finds no jobs of other tests."""

import argparse
import contextlib
import io
import json
import logging
import os
import pty
import re
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import unittest
import uuid
from pathlib import Path
from unittest import mock

import psycopg
from psycopg import sql

import jobq
from jobq.cli import doctor, doctor_queues, doctor_server, doctor_setup, output, tail, work
from jobq.cli.finding import OK, PROBLEM, WARNING, Facts
from jobq.cli.main import main, make_parser
from support import LIMIT, Base

DATABASE = f"cli {uuid.uuid4().hex[:12]}"
SOURCE = str(Path(jobq.__file__).parent.parent)
BEFORE = os.environ.get("PGDATABASE")
MODULE = """
import jobq

def double(job):
    return 2 * job.payload

async def treble(job):
    return 3 * job.payload

worker = jobq.Worker({queue!r})
worker.handler("double")(double)
handlers = {{"double": double}}
mixed = {{"double": double, "treble": treble}}
number = 7
"""


def setUpModule():
    interrupts = signal.signal(signal.SIGINT, signal.default_int_handler)   # programs would inherit that a shell ignores it
    unittest.addModuleCleanup(signal.signal, signal.SIGINT, interrupts)
    log = logging.getLogger("jobq")
    unittest.addModuleCleanup(log.setLevel, log.level)
    log.setLevel(logging.CRITICAL)
    with psycopg.connect(autocommit=True) as connection:
        connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(DATABASE)))
    os.environ["PGDATABASE"] = DATABASE
    with psycopg.connect(autocommit=True) as connection:
        connection.execute("CREATE EXTENSION jobq")


def tearDownModule():
    del os.environ["PGDATABASE"]
    if BEFORE is not None:
        os.environ["PGDATABASE"] = BEFORE
    with psycopg.connect(autocommit=True) as connection:
        connection.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(DATABASE)))


def environment(**more):
    return {**os.environ, "PYTHONPATH": SOURCE, "PYTHONDONTWRITEBYTECODE": "1", "PYTHONUNBUFFERED": "1", **more}


PROGRAM = [sys.executable, "-W", "ignore", "-m", "jobq"]


class CliTest(Base):
    maxDiff = None

    def setUp(self):
        super().setUp()
        self.addCleanup(self.connection.execute, "TRUNCATE jobq.jobs, jobq.queue_settings, jobq.lane_directory")

    def enqueue(self, **arguments):
        return jobq.enqueue(self.connection, self.queue, **arguments)

    def role(self, *profiles, queues=None):
        name = f"cli_{uuid.uuid4().hex[:12]}"
        identifier = sql.Identifier(name)
        self.connection.execute(sql.SQL("CREATE ROLE {} LOGIN").format(identifier))
        self.addCleanup(self.connection.execute, sql.SQL("DROP OWNED BY {0}; DROP ROLE {0}").format(identifier))
        for profile in profiles:
            self.connection.execute("SELECT jobq_grant(%s, %s, %s)", (name, profile, queues))
        return name

    def run_cli(self, *arguments):
        """Runs the program in this process and returns its exit status, standard output, and standard error."""
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            try:
                status = main([str(argument) for argument in arguments])
            except SystemExit as exit:   # of argparse
                status = exit.code
        return status, out.getvalue(), err.getvalue()

    def succeeds(self, *arguments):
        status, out, err = self.run_cli(*arguments)
        self.assertEqual((status, err), (0, ""), out)
        return out

    def rows(self, *arguments, status=0):
        got, out, err = self.run_cli(*arguments, "--json")
        self.assertEqual(got, status, err)
        return json.loads(out)

    def fails(self, status, pattern, *arguments):
        """The program prints one line that matches, and nothing else."""
        got, out, err = self.run_cli(*arguments)
        self.assertEqual((got, out), (status, ""), err)
        self.assertRegex(err, rf"\Ajobq: {pattern}\n\Z")

    def start(self, *arguments, **options):
        """Starts the program in a process of its own."""
        process = subprocess.Popen([*PROGRAM, *map(str, arguments)], env=environment(), text=True, stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, **options)

        def end():
            if process.poll() is None:
                process.kill()
            process.communicate()
        self.addCleanup(end)
        return process


class ParserTest(CliTest):
    def test_every_command_has_help(self):
        commands = next(action for action in make_parser()._actions if isinstance(action, argparse._SubParsersAction)).choices
        self.assertEqual(len(commands), 16)
        for command in commands:
            with self.subTest(command=command):
                status, out, _ = self.run_cli(command, "--help")
                self.assertEqual(status, 0)
                self.assertIn(f"usage: jobq {command}", out)

    def test_a_wrong_command_line_ends_with_status_2(self):
        for arguments in ((), ("nosuch",), ("explain",), ("explain", "1", "--queue", "q"), ("log", "x"), ("retry",), ("pause",), ("jobs", "--limit", "0"),
                          ("jobs", "--limit", "x"), ("jobs", "--status", "done"), ("top", "--interval", "0"), ("top", "--interval", "nan"),
                          ("worker",), ("worker", "a:b", "--queues", "{"), ("completion", "csh"), ("doctor", "--nosuch")):
            with self.subTest(arguments=arguments):
                status, out, err = self.run_cli(*arguments)
                self.assertEqual((status, out), (2, ""))
                self.assertRegex(err, r"\Ausage: jobq(.|\n)*: error: .*\n\Z")

    def test_dsn_can_stand_before_and_after_the_command(self):
        self.enqueue()
        name = f"dbname='{DATABASE}'"
        with mock.patch.dict(os.environ, {"PGDATABASE": "nosuch database"}):
            self.assertIn(self.queue, self.succeeds("--dsn", name, "stats"))
            self.assertIn(self.queue, self.succeeds("stats", "--dsn", name))
            self.assertIn(self.queue, self.succeeds("--dsn", "dbname=nosuch2", "stats", "--dsn", name))

    def test_the_console_script_of_the_package_exists(self):
        text = (Path(__file__).parent.parent / "pyproject.toml").read_text()
        self.assertEqual(re.search(r'^jobq = "(.*)"$', text, re.MULTILINE)[1], f"{main.__module__}:{main.__name__}")


class ErrorTest(CliTest):
    def test_failed_connections_end_with_status_2(self):
        for dsn in ("host=/nosuch", "dbname='nosuch database'", "nosuch=1", "postgresql://127.0.0.1:1/x"):
            for command in ("stats", "doctor", "tail"):
                with self.subTest(dsn=dsn, command=command):
                    self.fails(2, ".+", command, "--dsn", dsn)

    def test_errors_of_the_server_are_one_line_with_the_hint(self):
        self.enqueue()
        role = self.role("operator", queues=["other"])
        self.fails(1, r"permission denied for view queue_stats", "stats", "--dsn", f"user={role}")
        self.fails(1, rf'permission denied for queue "{self.queue}" \(hint: Grant the queue.*\)', "pause", self.queue, "--dsn", f"user={role}")
        self.fails(1, r"bigint out of range", "log", 2**64)
        self.connection.execute("CREATE SCHEMA empty")
        self.addCleanup(self.connection.execute, "DROP SCHEMA empty")
        self.fails(1, r'function jobq_log\(bigint\) does not exist \(hint: Run "jobq doctor" to check the installation.\)', "log", 1,
                   "--dsn", "options='-c search_path=empty'")

    def test_a_connection_that_breaks_ends_with_status_2(self):
        process = self.start("top", "--interval", "0.05")
        process.stdout.readline()
        self.becomes(True, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'jobq top'")
        process.stdout.read()
        self.assertEqual(process.wait(LIMIT), 2)
        self.assertRegex(process.stderr.read(), r"\Ajobq: .*\n\Z")

    def test_a_closed_pipe_is_quiet(self):
        jobq.enqueue_many(self.connection, self.queue, list(range(5000)))
        for arguments in (("jobs", "--limit", "5000"), ("top", "--interval", "0.01"), ("jobs", "--help")):
            with self.subTest(arguments=arguments):
                process = self.start(*arguments)
                if arguments[-1] != "--help":
                    process.stdout.readline()
                process.stdout.close()
                self.assertIn(process.wait(LIMIT), (141, 0) if arguments[-1] == "--help" else (141,))
                self.assertEqual(process.stderr.read(), "")
                process.stdout = None   # for communicate()

    def test_notices_of_the_server_are_shown(self):
        self.connection.execute("SELECT jobq_create_queue(%s, max_attempts => 1)", (self.queue,))
        with mock.patch("jobq.cli.change._change", side_effect=lambda connection, *_: connection.execute("DO $$ BEGIN RAISE NOTICE 'a b'; END $$")
                        and {"id": 1, "status": "x", "changed": True, "note": ""}):
            self.assertEqual(self.run_cli("retry", 1)[2], "jobq: NOTICE: a b\n")


class OutputTest(unittest.TestCase):
    def test_ages(self):
        shown = {None: "", 0: "0.0s", 59.94: "59.9s", 60: "1m 0s", 3599: "59m 59s", 3600: "1h 0m", 90061: "1d 1h"}
        self.assertEqual({seconds: output.age(seconds) for seconds in shown}, shown)

    def test_times(self):
        self.assertEqual(output.time("2026-11-23T03:25:05.142021+00:00"), "2026-11-23 03:25:05+00:00")
        self.assertEqual(output.moment("2026-11-23T03:25:05.142021+00:00"), "2026-11-23 03:25:05.142+00:00")
        self.assertEqual([output.time("infinity"), output.time(None)], ["infinity", ""])

    def test_a_terminal_gets_no_control_characters(self):
        self.assertEqual(output.plain("a\x1b[31m\nü\x9b"), "a\\x1b[31m\\nü\\x9b")
        self.assertEqual(output.short("x" * 61), "x" * 57 + "...")


class StatsTest(CliTest):
    def test_one_row_per_queue(self):
        self.enqueue()
        self.enqueue(run_at="2100-01-01")
        jobq.enqueue(self.connection, f"{self.queue} 2", {})
        header, row, other = self.succeeds("stats").splitlines()
        self.assertEqual(header.split()[:7], ["QUEUE", "PENDING", "SCHEDULED", "BLOCKED", "PROCESSING", "FAILED", "OLDEST"])
        self.assertRegex(row, rf"^{self.queue} +1 +1 +0 +0 +0 +[0-9.ms ]+.* no$")
        self.assertTrue(other.startswith(f"{self.queue} 2"))
        (row,) = self.rows("stats", self.queue)
        self.assertEqual([row[key] for key in ("queue", "pending", "scheduled", "paused")], [self.queue, 1, 1, False])
        self.assertGreaterEqual(row["oldest_pending_seconds"], 0)

    def test_an_unknown_queue_is_an_error(self):
        self.enqueue()
        status, out, err = self.run_cli("stats", "nosuch", self.queue)
        self.assertEqual((status, err), (1, 'jobq: queue "nosuch" has neither jobs nor settings\n'))
        self.assertIn(self.queue, out)


class TopTest(CliTest):
    def test_snapshots_without_a_terminal(self):
        self.enqueue()
        worker = jobq.Worker(f"{self.queue} 2", {"x": print})
        worker.start()
        self.addCleanup(lambda: (worker.stop(), worker.join(LIMIT)))
        self.becomes(1, "SELECT count(*) FROM jobq.workers WHERE worker_id = %s", worker.options.worker_id)
        out = self.succeeds("top", "--count", "2", "--interval", "0.01")
        self.assertEqual(out.count("QUEUE "), 2)
        self.assertIn(worker.options.worker_id[:20], out)
        self.assertNotIn("\x1b", out)
        lines = self.succeeds("top", "--count", "2", "--interval", "0.01", "--json").splitlines()
        self.assertEqual([row["pending"] for row in json.loads(lines[1])["queues"]], [1])
        self.assertEqual([row["worker_id"] for row in json.loads(lines[1])["workers"]], [worker.options.worker_id])
        self.assertEqual(json.loads(self.succeeds("top", "--count", "1", "--json", self.queue))["workers"], [])

    def in_a_terminal(self, keys):
        """Presses the keys when the program has drawn twice; returns its exit status and what it has drawn."""
        pid, terminal = pty.fork()
        if pid == 0:
            os.execvpe(sys.executable, [*PROGRAM, "top", "--interval", "0.1"], environment(TERM="xterm"))
        drawn, pressed, deadline = b"", False, time.monotonic() + LIMIT
        with contextlib.suppress(OSError):   # the terminal is closed
            while time.monotonic() < deadline:
                if not select.select([terminal], [], [], 1)[0]:
                    continue
                drawn += os.read(terminal, 65536)
                if not pressed and drawn.count(b"\x1b[J") >= 2:
                    pressed = os.write(terminal, keys) > 0
        if time.monotonic() >= deadline:
            os.kill(pid, signal.SIGKILL)
        os.close(terminal)
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), drawn.decode()

    def test_q_and_ctrl_c_quit_and_restore_the_screen(self):
        self.enqueue()
        for keys, expected in ((b"xq", 0), (b"\x03", 130)):
            with self.subTest(keys=keys):
                status, drawn = self.in_a_terminal(keys)
                self.assertEqual(status, expected, drawn)
                self.assertIn(self.queue, drawn)
                self.assertTrue(drawn.endswith("\x1b[?25h\x1b[?1049l"), drawn[-40:])


class JobsTest(CliTest):
    def test_jobs_are_listed_newest_first_and_filtered(self):
        first = self.enqueue(kind="a", priority=3)
        second = self.enqueue(kind="b", run_at="2100-01-01")
        third = self.enqueue()
        self.assertEqual([row["id"] for row in self.rows("jobs", "--queue", self.queue)], [third, second, first])
        self.assertEqual([row["id"] for row in self.rows("jobs", "--queue", self.queue, "--limit", 2)], [third, second])
        self.assertEqual([row["id"] for row in self.rows("jobs", "--status", "scheduled")], [second])
        self.assertEqual([row["id"] for row in self.rows("jobs", "--kind", "")], [third])
        (row,) = self.rows("jobs", "--kind", "a")
        self.assertEqual([row[key] for key in ("queue", "kind", "status", "priority", "attempts", "error")],
                         [self.queue, "a", "pending", 3, 0, None])
        self.assertEqual(self.rows("jobs", "--queue", "nosuch"), [])
        self.assertRegex(self.succeeds("jobs", "--queue", "nosuch"), r"\AID +QUEUE .*\n\Z")
        self.assertRegex(self.succeeds("jobs", "--kind", "b"), rf"\n *{second}  {self.queue}  b  +scheduled .*2100-01-01 00:00:00\+00:00\n\Z")

    def test_explain(self):
        job = self.enqueue(run_at="2100-01-01")
        self.assertRegex(self.succeeds("explain", job), r"\nscheduled +2100-01-01")
        self.assertEqual(self.rows("explain", job)[0]["reason"], "scheduled")
        self.assertEqual([row["reason"] for row in self.rows("explain", "--queue", self.queue)], ["scheduled"])
        self.fails(1, f"job {job + 999999} does not exist", "explain", job + 999999)

    def test_log(self):
        job = self.enqueue(max_attempts=1)
        self.connection.execute("SELECT jobq_fail(id, lease, 'no\nspace', details => '{\"class\": \"E\"}') FROM jobq_claim(%s, 'w')", (self.queue,))
        rows = self.rows("log", job)
        self.assertEqual([row["event"] for row in rows], ["enqueued", "claimed", "attempt failed", "failed"])
        self.assertEqual(rows[2]["details"], {"class": "E"})
        self.assertRegex(self.succeeds("log", job), r"\n\S+ \S+ +attempt failed +1  w +no\\nspace\n")
        self.fails(1, f"job {job + 999999} does not exist", "log", job + 999999)


class ChangeTest(CliTest):
    def change(self, status, *arguments):
        return [(row["id"], row["status"], row["changed"]) for row in self.rows(*arguments, status=status)]

    def test_retry(self):
        job, other = self.enqueue(), self.enqueue()
        self.connection.execute("SELECT jobq_cancel(%s)", (job,))
        self.assertEqual(self.change(0, "retry", job), [(job, "pending", True)])
        self.assertEqual(self.change(1, "retry", job, other + 999999, other),
                         [(job, "pending", False), (other + 999999, None, False), (other, "pending", False)])
        self.assertRegex(self.run_cli("retry", job)[1], rf"\AID  STATUS   NOTE\n *{job}  pending  not changed\n\Z")

    def test_an_error_of_one_job_does_not_stop_the_others(self):
        first, second = self.enqueue(unique_key="k"), self.enqueue()
        self.connection.execute("SELECT jobq_cancel(%s), jobq_cancel(%s)", (first, second))
        self.enqueue(unique_key="k")
        status, out, err = self.run_cli("retry", first, second, "--json")
        self.assertEqual([(row["status"], row["changed"]) for row in json.loads(out)], [("cancelled", False), ("pending", True)])
        self.assertEqual(status, 1)
        self.assertRegex(err, rf'\Ajobq: job {first}: unique key "k" of queue .* is taken by job [0-9]+ \(hint: .*\)\n\Z')

    def test_jobs_that_changed_before_an_error_are_shown(self):
        job = self.enqueue()
        status, out, err = self.run_cli("cancel", job, 2**64)
        self.assertEqual((status, err), (1, "jobq: bigint out of range\n"))
        self.assertRegex(out, rf"\n *{job}  cancelled  was pending\n\Z")

    def test_cancel(self):
        job, running = self.enqueue(), self.enqueue(priority=-1)
        self.connection.execute("SELECT jobq_claim(%s)", (self.queue,))
        self.assertEqual(self.change(0, "cancel", job, running), [(job, "cancelled", True), (running, "processing", True)])
        self.assertEqual(self.change(1, "cancel", job), [(job, "cancelled", False)])
        self.assertEqual(self.value("SELECT cancel_requested_at IS NOT NULL FROM jobq.jobs WHERE id = %s", running), True)

    def test_delete(self):
        job, running = self.enqueue(), self.enqueue(priority=-1)
        self.connection.execute("SELECT jobq_claim(%s)", (self.queue,))
        self.assertEqual(self.change(1, "delete", job, running), [(job, "deleted", True), (running, "processing", False)])
        self.assertEqual(self.change(1, "delete", job), [(job, None, False)])

    def test_redrive(self):
        self.connection.execute("SELECT jobq_create_queue(%s, max_attempts => 1, dead_letter_queue => %s)", (self.queue, f"{self.queue} dead"))
        jobq.enqueue_many(self.connection, self.queue, [1, 2, 3])
        self.connection.execute("SELECT jobq_fail(id, lease) FROM jobq_claim(%s, batch => 3)", (self.queue,))
        self.assertEqual(self.rows("redrive", self.queue, "--limit", 1), [{"queue": self.queue, "moved": 1}])
        self.assertRegex(self.succeeds("redrive", f"{self.queue} dead", "--per-second", "0.01"), r" 2\n\Z")
        self.assertEqual(self.value("SELECT count(*) FROM jobq.jobs WHERE queue = %s AND status = 'scheduled'", self.queue), 1)
        self.fails(1, "invalid value for argument \"per_second\".*|.*per_second.*", "redrive", self.queue, "--per-second", "0")

    def test_pause_and_resume(self):
        other = f"{self.queue} 2"
        self.assertEqual([row["result"] for row in self.rows("pause", self.queue, other)], ["paused", "paused"])
        self.assertRegex(self.succeeds("pause", self.queue), "already paused\n")
        self.assertEqual([row["result"] for row in self.rows("resume", self.queue)], ["resumed"])
        self.assertEqual(self.run_cli("resume", self.queue)[0], 0)
        self.assertEqual(self.value("SELECT paused FROM jobq.queues WHERE queue = %s", other), True)


class TailTest(CliTest):
    def tail(self, *arguments):
        """Starts the command, and returns the process after the command has begun to watch."""
        before = self.value("SELECT clock_timestamp()")
        process = self.start("tail", "--json", *arguments)
        self.becomes(1, "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'jobq tail' AND backend_start > %s "
                        "AND query LIKE '%%xmin::text%%'", before)
        return process

    def read(self, process, job, last):
        """Returns the events of the job up to the last one."""
        events = []
        timer = threading.Timer(LIMIT, process.kill)
        timer.start()
        self.addCleanup(timer.cancel)
        for line in process.stdout:
            event = json.loads(line)
            if event["id"] == job:
                events.append(event["event"])
                if events[-1] == last:
                    break
        return events

    def test_events_are_printed_live(self):
        old = self.enqueue(kind="x")
        process = self.tail()
        job = self.enqueue(kind="x", max_attempts=2)
        self.connection.execute("SELECT jobq_cancel(%s)", (old,))
        self.assertNotIn("enqueued", self.read(process, old, "cancelled"))
        self.connection.execute("SELECT jobq_fail(id, lease, 'no', retry_in => '0') FROM jobq_claim(%s, 'w-1')", (self.queue,))
        self.becomes(1, "SELECT count(*) FROM jobq_claim(%s, 'w-2')", self.queue)
        self.connection.execute("SELECT jobq_complete(id, lease) FROM jobq.jobs WHERE id = %s", (job,))
        events = self.read(process, job, "completed")
        self.assertEqual([event for event in events if event != "enqueued"], ["claimed", "attempt failed", "claimed", "completed"])
        process.send_signal(signal.SIGINT)
        self.assertEqual(process.wait(LIMIT), 130)
        self.assertEqual(process.stderr.read(), "")

    def test_filters_and_deleted_jobs(self):
        process = self.tail("--queue", self.queue, "--kind", "x")
        self.enqueue(kind="y")
        jobq.enqueue(self.connection, f"{self.queue} 2", {}, kind="x")
        job = self.enqueue(kind="x")
        first = json.loads(process.stdout.readline())
        self.assertEqual([first[key] for key in ("id", "event", "queue", "kind")], [job, "enqueued", self.queue, "x"])
        self.connection.execute("SELECT jobq_delete(%s)", (job,))
        self.assertEqual(self.read(process, job, "deleted"), ["deleted"])

    def test_jobs_that_commit_late_are_not_missed(self):
        self.enqueue()
        watch = tail.Watch(self.connection, self.queue, None)
        with psycopg.connect() as late:
            first = jobq.enqueue(late, self.queue, {})
            second = self.enqueue()
            self.assertEqual([event["id"] for event in watch.poll()], [second])
            self.assertEqual(list(watch.missing), [first])
        self.assertEqual([event["id"] for event in watch.poll()], [first])
        self.assertEqual((watch.poll(), watch.missing), ([], {}))

    def test_old_running_jobs_are_noticed(self):
        watch = tail.Watch(self.connection, None, None)
        job = self.enqueue()
        watch.last = job   # as if the job were older than the jobs that are watched
        self.connection.execute("SELECT jobq_claim(%s, 'w-1')", (self.queue,))
        self.becomes(True, "SELECT jobq_heartbeat(id, lease) = 'held' AND _rescue_indexed FROM jobq.jobs WHERE id = %s", job)
        self.assertEqual([event["event"] for event in watch.poll()], ["enqueued", "claimed"])

    def test_the_number_of_jobs_is_bounded(self):
        with mock.patch.multiple(tail, MOST_WATCHED=3, MOST_MISSING=2):
            watch = tail.Watch(self.connection, self.queue, None)
            ids = [one.job_id for one in jobq.enqueue_many(self.connection, self.queue, [1, 2, 3, 4, 5])]
            self.connection.execute("SELECT jobq_cancel(%s)", (ids[4],))
            self.assertEqual({event["id"] for event in watch.poll()}, set(ids))
            self.assertEqual(list(watch.jobs), ids[1:4])   # the finished job goes first
            self.value("SELECT setval(pg_get_serial_sequence('jobq.jobs', 'id'), %s)", ids[4] + 100)
            self.enqueue()
            watch.poll()
            self.assertEqual(list(watch.missing), [ids[4] + 99, ids[4] + 100])

    def test_lines(self):
        event = {"at": "2026-11-23T03:25:05.142021+00:00", "id": 7, "queue": "q", "kind": "k", "event": "attempt failed", "attempt": 2,
                 "worker_id": "w-1", "detail": "no\nspace"}
        self.assertEqual(tail.line_of(event), "03:25:05.142 7 q/k attempt failed attempt 2 on w-1: no\\nspace")
        event.update(kind="", event="enqueued", attempt=None, worker_id=None, detail="q")
        self.assertEqual(tail.line_of(event), "03:25:05.142 7 q enqueued")


class WorkerTest(CliTest):
    def setUp(self):
        super().setUp()
        self.directory = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.directory, True)
        self.module = f"shop_{uuid.uuid4().hex[:8]}"
        Path(self.directory, f"{self.module}.py").write_text(MODULE.format(queue=self.queue))

    def runs(self, attribute, kinds, *options):
        ids = [self.enqueue(kind=kind, payload=7) for kind in kinds]
        process = self.start("worker", f"{self.module}:{attribute}", *options, cwd=self.directory)
        for job in ids:
            self.becomes("completed", "SELECT status::text FROM jobq.jobs WHERE id = %s", job)
        process.send_signal(signal.SIGTERM)
        log = process.communicate(timeout=LIMIT)[1]
        self.assertEqual(process.returncode, 0, log)
        self.assertIn("serves queue", log)
        return [self.value("SELECT result FROM jobq.jobs WHERE id = %s", job) for job in ids]

    def test_a_worker(self):
        self.assertEqual(self.runs("worker", ["double"]), [14])

    def test_a_dict_with_options(self):
        self.assertEqual(self.runs("handlers", ["double"], "--queue", self.queue, "--slots", "2", "--prefetch", "1", "--versions", "[0]"), [14])

    def test_a_dict_with_coroutine_functions_and_several_queues(self):
        self.assertEqual(self.runs("mixed", ["double", "treble"], "--queues", json.dumps({self.queue: 2})), [14, 21])

    def test_wrong_targets(self):
        module, path = self.module, list(sys.path)
        self.addCleanup(setattr, sys, "path", path)
        sys.path.insert(0, self.directory)
        self.addCleanup(sys.modules.pop, module, None)
        for target, options, said in (
            ("nosuch_module:x", (), 'module "nosuch_module" does not exist.*'), (f"{module}:x", (), f'module "{module}" has no attribute "x"'),
            (module, (), ".* must have the form MODULE:ATTRIBUTE"), (f"{module}:number", (), '.* must be a jobq.Worker, .* of the type "int"'),
            (f"{module}:worker", ("--slots", "2"), ".* is a worker, which has its own options.*"),
            (f"{module}:worker", ("--dsn", "host=x"), ".* is a worker, which has its own options.*"),
            (f"{module}:handlers", ("--slots", "0"), 'option "slots" must be .*'),
            (f"{module}:handlers", ("--queue", "a", "--queues", '["b"]'), 'options "queue" and "queues" cannot be combined'),
            (f"{module}:handlers", ("--dsn", "host=/nosuch"), ".*"),
        ):
            with self.subTest(target=target, options=options):
                process = self.start("worker", target, *options, cwd=self.directory)
                out, err = process.communicate(timeout=LIMIT)
                self.assertEqual((process.returncode, out), (2, ""), err)
                self.assertRegex(err, rf"\A(?:[0-9-]+ .*\n)*jobq: {said}\n\Z")

    def test_every_option_of_the_library_is_an_option_of_the_command(self):
        self.assertEqual(set(work.OPTIONS), {field.name for field in jobq.options.fields(jobq.Options)})


class DoctorTest(CliTest):
    def findings(self, *checks, role=None, dsn=""):
        """Returns the findings of these checks; each is the name of a check, a level, and a message."""
        with psycopg.connect(dsn or (f"user={role}" if role else ""), autocommit=True) as connection:
            return [finding for finding in doctor.examine(Facts(connection)) if finding.check in checks]

    def finds(self, check, level, pattern, **arguments):
        found = self.findings(check, **arguments)
        self.assertTrue(any(one.level == level and re.search(pattern, one.message) for one in found), found)
        if level != OK:
            self.assertTrue(all(one.advice for one in found if one.level == level), found)

    def healthy(self):
        return [finding for finding in self.findings(*(check.name for check in doctor.CHECKS)) if finding.level != OK]

    def test_a_healthy_database(self):
        deadline = time.monotonic() + LIMIT
        while (found := self.healthy()) and time.monotonic() < deadline:   # the background worker may be starting
            time.sleep(0.1)
        self.assertEqual(found, [])
        status, out, err = self.run_cli("doctor")
        self.assertEqual((status, err), (0, ""), out)
        self.assertEqual(len(out.splitlines()), len(doctor.CHECKS), out)
        self.assertEqual({row["check"] for row in self.rows("doctor")}, {check.name for check in doctor.CHECKS})

    def test_exit_statuses(self):
        self.enqueue()
        self.assertEqual(self.run_cli("doctor")[0], 1)   # no worker
        self.connection.execute("SELECT jobq_pause_queue(%s)", (self.queue,))
        self.assertEqual(self.run_cli("doctor")[0], 0)   # a warning
        self.assertEqual(self.run_cli("doctor", "--dsn", "host=/nosuch")[0], 2)

    def test_a_database_without_the_extension(self):
        status, out, _ = self.run_cli("doctor", "--dsn", "dbname=template1")
        self.assertEqual(status, 1)
        self.assertRegex(out, r"\nproblem +extension +the extension is not installed in this database\n.*CREATE EXTENSION jobq")

    def test_schema(self):
        self.connection.execute("CREATE SCHEMA empty")
        self.addCleanup(self.connection.execute, "DROP SCHEMA empty")
        self.finds("extension", PROBLEM, 'search_path does not contain the schema "public"', dsn="options='-c search_path=empty'")
        role = self.role("worker")
        self.connection.execute("REVOKE USAGE ON SCHEMA public FROM PUBLIC")
        self.addCleanup(self.connection.execute, "GRANT USAGE ON SCHEMA public TO PUBLIC")
        self.finds("extension", PROBLEM, 'the role cannot use the schema "public"', role=role)

    def test_versions(self):
        self.finds("versions", OK, "have the version")
        with mock.patch.object(doctor_setup, "values", return_value=("1.1.0", "1.0.0")), mock.patch.object(doctor_setup.sql.SQL, "format"):
            ((level, message, _),) = doctor_setup.versions(Facts(self.connection, "public"))
        self.assertEqual((level, message), (WARNING, "the library has the version 1.1.0, but the extension has the version 1.0.0"))

    def background(self, *rows):
        """Returns the findings if jobq.background_workers has these rows: state, note, last error, and the end of the error."""
        keys = ("state", "note", "last_error", "last_error_over_at")
        facts = Facts(self.connection)
        with mock.patch.object(doctor_setup, "rows", return_value=[dict(zip(keys, row)) for row in rows]):
            found = list(doctor_setup.background(facts))
        return [(level, message) for level, message, _ in found], facts.lists_workers

    def test_background_workers(self):
        launcher = ("running", None, None, None)
        self.assertEqual(self.background(launcher, ("idle", None, None, None)), ([(OK, 'the background worker is "idle"')], True))
        self.assertEqual(self.background(launcher), ([(OK, 'the background worker is "running"')], True))
        self.assertEqual(self.background(launcher, ("running", None, "old error", "2026-01-01"))[0][0][0], OK)
        self.assertEqual(self.background(launcher, ("backing off", None, "no space", None)),
                         ([(PROBLEM, "the last round of the background worker has failed: no space")], True))
        self.assertEqual(self.background(launcher, ("running", "the versions differ", None, None))[0],
                         [(WARNING, 'the background worker is "running": the versions differ')])
        for state in ("copy", "disabled", "waiting for a worker slot", "kept out", "template"):
            self.assertEqual(self.background(launcher, (state, "why", None, None))[0], [(PROBLEM, f'the background worker is "{state}": why')])
        self.assertEqual(self.background(("disabled", "jobq.enabled is off", None, None), ("disabled", None, None, None)),
                         ([(PROBLEM, 'the background worker is "disabled": jobq.enabled is off')], False))
        self.assertEqual(self.background(("not running", "add jobq to shared_preload_libraries", None, None)),
                         ([(WARNING, "jobq is not preloaded, so no background worker runs")], False))
        self.assertEqual(self.background(("standby", "starts when promoted", None, None))[0][0][0], OK)

    def test_grants(self):
        self.finds("grants", PROBLEM, "cannot call the functions of any profile", role=self.role())
        self.finds("grants", OK, "profiles producer, worker$", role=self.role("producer", "worker"))
        self.finds("grants", OK, "profiles operator, monitor$", role=self.role("operator"))

    def test_a_role_without_privileges_gets_warnings(self):
        for profiles, queues in (((), None), (("worker",), None), (("operator",), ["q"])):
            role = self.role(*profiles, queues=queues)
            for check in ("background", "workers", "paused"):
                self.finds(check, WARNING, "could not be checked: permission denied", role=role)
            self.finds("transactions", WARNING, "can only see its own transactions", role=role)

    def test_pooler(self):
        self.finds("pooler", OK, "does not pass through a pooler")
        bouncer = shutil.which("pgbouncer", path=os.environ.get("PATH", "") + ":/usr/sbin")
        if bouncer is None or os.geteuid() == 0:
            self.skipTest("pgbouncer is missing, or refuses to run as root")
        with socket.socket() as free, tempfile.TemporaryDirectory() as directory:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
            free.close()
            info = self.connection.info
            Path(directory, "ini").write_text(
                f"[databases]\n* = host={info.host} port={info.port} user={info.user}\n[pgbouncer]\npool_mode = transaction\nlisten_port = {port}\n"
                f"listen_addr = 127.0.0.1\nunix_socket_dir =\nauth_type = any\nignore_startup_parameters = extra_float_digits, options\n")
            pooler = subprocess.Popen([bouncer, "-q", f"{directory}/ini"], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                      stderr=subprocess.DEVNULL)
            self.addCleanup(lambda: (pooler.kill(), pooler.wait()))
            deadline = time.monotonic() + LIMIT
            while True:
                with socket.socket() as probe:
                    if probe.connect_ex(("127.0.0.1", port)) == 0:
                        break
                self.assertLess(time.monotonic(), deadline)
                time.sleep(0.05)
            self.finds("pooler", WARNING, "passes through a pooler", dsn=f"host=127.0.0.1 port={port}")

    def test_autovacuum(self):
        self.connection.execute("ALTER TABLE jobq.jobs SET (autovacuum_enabled = false)")
        self.addCleanup(self.connection.execute, "ALTER TABLE jobq.jobs RESET (autovacuum_enabled)")
        self.finds("autovacuum", PROBLEM, "^autovacuum is off for the table jobq.jobs$")
        with mock.patch.object(doctor_server, "SETTINGS", "SELECT false"):
            self.finds("autovacuum", PROBLEM, "off on this server")

    def test_dead_tuples(self):
        self.finds("dead tuples", OK, "dead tuples")
        late = "SELECT 10000000 AS n_dead_tup, 7 AS n_live_tup, NULL AS at, true AS is_late WHERE %s > 0"
        with mock.patch.object(doctor_server, "DEAD", late):
            self.finds("dead tuples", WARNING, "has 10000000 dead tuples; last vacuum: never")

    def test_transactions(self):
        with mock.patch.object(doctor_server, "OLD", 0.0), psycopg.connect() as other:
            other.execute("SELECT pg_current_xact_id()")
            pid = other.info.backend_pid
            self.finds("transactions", WARNING, rf"process {pid} \(.*, idle in transaction\) has an open transaction for ")
            with mock.patch.object(doctor_server, "VERY_OLD", 0.0):
                self.finds("transactions", PROBLEM, f"process {pid}")

    def test_prepared_transactions(self):
        if self.value("SHOW max_prepared_transactions") == "0":
            planted = "SELECT 'forgotten' AS gid, 600.0 AS seconds WHERE %s >= 0"
            context = mock.patch.object(doctor_server, "PREPARED", planted)
        else:
            self.connection.execute("BEGIN; SELECT pg_current_xact_id(); PREPARE TRANSACTION 'forgotten'")
            self.addCleanup(self.connection.execute, "ROLLBACK PREPARED 'forgotten'")
            context = mock.patch.object(doctor_server, "OLD", 0.0)
        with context:
            self.finds("prepared", PROBLEM, 'the prepared transaction "forgotten" is .* old')

    def test_slots(self):
        slots = "SELECT 'left' AS name, {} AS active, 5000000 AS xids WHERE %s > 0"
        for active, level, said in ((False, PROBLEM, "not in use"), (True, WARNING, "in use")):
            with mock.patch.object(doctor_server, "SLOTS", slots.format(active)):
                self.finds("slots", level, rf'slot "left" \({said}\) holds back vacuum by 5000000')

    def test_clock(self):
        real = time.time
        for difference in (-3600, 3600):
            with mock.patch.object(doctor_server.time, "time", lambda: real() + difference):
                ((level, message, advice),) = doctor_server.clock(Facts(self.connection))
            self.assertEqual(level, WARNING)
            self.assertRegex(message, r"differ by (59m|1h)")

    def test_connections(self):
        with mock.patch.object(doctor_server, "FULL", 0.0):
            self.finds("connections", WARNING, "^[0-9]+ of [0-9]+ connections are in use$")

    def test_queues_without_a_worker(self):
        job = self.enqueue(kind="x")
        self.finds("workers", PROBLEM, rf'queue "{self.queue}" has pending jobs \(1\), but no worker of the queue is connected')
        for options in ({"queue": self.queue}, {"patterns": [f"{self.queue[:-1]}%"]}):
            with self.subTest(options=options):
                worker = jobq.Worker(handlers={"other kind": print}, **options)
                worker.start()
                self.becomes(1, "SELECT count(*) FROM jobq.workers WHERE worker_id = %s", worker.options.worker_id)
                self.finds("workers", OK, "every queue")
                worker.stop()
                self.assertTrue(worker.join(LIMIT))
                self.becomes(0, "SELECT count(*) FROM jobq.workers WHERE worker_id = %s", worker.options.worker_id)
        self.connection.execute("SELECT jobq_cancel(%s)", (job,))
        self.finds("workers", OK, "every queue")

    def test_the_workers_are_unknown_without_a_launcher(self):
        ((level, message, _),) = doctor_queues.workers(Facts(self.connection, "public", False))
        self.assertEqual((level, message.split(",")[0]), (WARNING, "the connected workers are unknown"))

    def test_paused_queues(self):
        self.connection.execute("SELECT jobq_pause_queue(%s)", (self.queue,))
        self.finds("paused", WARNING, f'queue "{self.queue}" is paused')


class CompletionTest(CliTest):
    COMPLETE = """
        eval "$("$@" completion bash)"
        while read -ra COMP_WORDS; do
            if [ "${COMP_WORDS[-1]}" = _ ]; then COMP_WORDS[-1]=; fi
            COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); _jobq; echo "${COMPREPLY[*]}"
        done"""

    def complete(self, *lines):
        """Returns what bash offers for the last word of each line; _ is an empty word."""
        done = subprocess.run(["bash", "-c", self.COMPLETE, "bash", *PROGRAM], input="\n".join(lines) + "\n", env=environment(), text=True,
                              capture_output=True, check=True)
        self.assertEqual(done.stderr, "")
        return done.stdout.splitlines()

    def test_bash(self):
        subprocess.run(["bash", "-n"], input=self.succeeds("completion", "bash"), text=True, check=True)
        self.assertEqual(self.complete("jobq st", "jobq re", "jobq jobs --q", "jobq jobs --status p", "jobq completion _", "jobq --dsn _",
                                       "jobq pause log --j", "jobq worker --liveness"),
                         ["stats", "retry redrive resume", "--queue", "pending processing", "-h --help bash zsh fish", "", "--json",
                          "--liveness-file --liveness-port"])

    def test_other_shells(self):
        for shell, probe in (("zsh", "autoload -Uz compinit; compinit -D; eval \"$(cat)\"; echo $_comps[jobq]"),
                             ("fish", "cat | source; complete -C 'jobq jobs --status p'")):
            script = self.succeeds("completion", shell)
            for command in ("redrive", "completion", "liveness-file", "processing"):
                self.assertIn(command, script)
            if shutil.which(shell):
                subprocess.run([shell, "-n"], input=script, text=True, check=True)
                said = subprocess.run([shell, "-c", probe], input=script, text=True, check=True, capture_output=True).stdout
                self.assertRegex(said, r"\A(_jobq\n|pending\t.*\nprocessing\t.*\n)\Z")


if __name__ == "__main__":
    unittest.main()
