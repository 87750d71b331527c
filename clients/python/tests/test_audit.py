"""Tests of `jobq audit`: that it reads what the server writes, judges without knowing the past, and leaves nothing on the server.

test/audit/laws_test.py in the source tree tests each law. The tests need a server with jobq and wal_level = logical."""

import json
import os
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time
import unittest
import urllib.request
import uuid
from pathlib import Path

import psycopg
from psycopg import sql

import jobq
from jobq.audit import metrics, slot
from jobq.audit.laws import LAWS, Auditor
from jobq.audit.life import array, interval, seconds
from jobq.audit.pgoutput import Reader
from jobq.audit.rows import START, UNCHANGED, Attempt, Change, Edge, Job, Limit, Setting
from support import LIMIT, Base

SOURCE = str(Path(jobq.__file__).parent.parent)
ENVIRONMENT = {**os.environ, "PYTHONPATH": SOURCE, "PYTHONDONTWRITEBYTECODE": "1", "PYTHONUNBUFFERED": "1"}
BEGUN = "jobq: the audit has begun\n"
NOW = 1e9


def stamp(time):
    return f"2001-09-09 01:46:{40 + time - NOW:09.6f}+00"


class History:
    """Writes the changes that an audit reads after it has begun in the middle of things."""

    def __init__(self, *there, **options):
        self.found = []
        self.auditor = Auditor(on_violation=self.found.append, **options)
        self.auditor.begin([Change(START, START, NOW, 0, row) for row in there])
        self.place, self.xid, self.time = 1, 1, NOW

    def commit(self, *rows, new=(), gone=()):
        self.xid += 1
        self.place += 1
        written = [(row, False, False) for row in rows] + [(row, False, True) for row in new] + [(row, True, False) for row in gone]
        changes = []
        for number, (row, deleted, inserted) in enumerate(written):
            changes.append(Change((self.place, number), (self.place + 1, 0), self.time, self.xid, row, deleted, inserted))
        self.place += 1
        self.auditor.read(changes)
        return self

    def claim(self, job, lease, **fields):
        return self.commit(Job(job, status="processing", lease=lease, started_at=stamp(self.time), **fields))

    def laws(self):
        return {violation.law for violation in self.found}


class UnknownPastTest(unittest.TestCase):
    """The audit begins in the middle of things, and must neither invent a violation nor overlook one."""

    def test_changes_of_jobs_that_it_has_never_seen(self):
        history = History()
        history.claim(1, 11).commit(Job(1, status="completed", completed_lease=11))
        history.commit(Job(2, status="pending", unique_key="k"))   # retried: replaced while it ran, so it lacks its key
        history.commit(Job(3, status="completed")).commit(gone=[Job(3)])
        history.commit(gone=[Job(4)])
        history.commit(Job(5, status="pending")).commit(Job(6, "q", status="failed"))
        self.assertEqual(history.found, [])

    def test_jobs_that_were_running_at_the_start(self):
        running = Job(1, status="processing", lease=11, started_at=stamp(NOW - 5))
        self.assertEqual(History(running).commit(Job(1, status="completed", completed_lease=11)).laws(), set())
        self.assertEqual(History(running).claim(1, 12).laws(), {"lease issued twice"})
        self.assertEqual(History(running).claim(2, 11).laws(), {"lease issued twice"})
        self.assertEqual(History(running).commit(Job(1, status="pending")).laws(), {"unexplained lease"})
        self.assertEqual(History(running).commit(Job(1, status="pending"), Attempt(1, 11, "released")).laws(), set())
        self.assertEqual(History(running).commit(Job(1, status="completed", completed_lease=12)).laws(), {"stale lease accepted"})

    def test_they_count_toward_limits_and_groups(self):
        running = Job(1, status="processing", lease=11, started_at=stamp(NOW - 5), group_key="g")
        self.assertEqual(History(running, Limit("q", "", 1)).claim(2, 12).laws(), {"limit exceeded"})
        self.assertEqual(History(running, Limit("q", "", 2)).claim(2, 12).laws(), set())
        self.assertEqual(History(running).commit(Job(2, status="pending", group_key="g")).laws(), {"group crowded"})
        self.assertEqual(History(running).commit(Job(2, status="pending", group_key="h")).laws(), set())

    def test_a_new_limit_counts_them_too(self):
        running = Job(1, status="processing", lease=11, started_at=stamp(NOW - 5))
        history = History(running).commit(Limit("q", "", 1))
        history.time += 5
        self.assertEqual(history.claim(2, 12).laws(), set(), "the claim may have begun before the limit was set")
        history.commit(Job(2, status="completed", completed_lease=12))
        history.time += 15
        self.assertEqual(history.claim(3, 13).laws(), {"limit exceeded"})

    def test_pauses_are_judged_after_a_while(self):
        history = History().commit(Setting("q", True))
        self.assertEqual(history.claim(1, 11).laws(), set())
        history.time += 15
        self.assertEqual(history.claim(2, 12).laws(), {"paused"})
        history.commit(Setting("q", False))
        self.assertEqual(len(history.claim(3, 13).found), 1)

    def test_dependencies_count_only_if_their_job_has_been_seen_from_its_enqueue(self):
        for history, law in ((History().commit(new=[Job(1)]), {"dependency ignored"}), (History(Job(1)), set())):
            history.commit(new=[Job(2, status="blocked"), Edge(2, "depends", 1, "cancel")])
            self.assertEqual(history.commit(Job(2, status="pending")).laws(), law)

    def test_unchanged_values_come_from_the_previous_version(self):
        history = History(Job(1, unique_key="k", holds_key=True))
        history.commit(Job(1, unique_key=UNCHANGED, holds_key=True)).commit(new=[Job(2, unique_key="k", holds_key=True)])
        self.assertEqual(history.laws(), {"key doubled"})

    def test_the_memory_is_bounded(self):
        history = History(most_jobs=100)
        for job in range(1, 1001):
            history.commit(new=[Job(job, status="processing" if job <= 10 else "pending", lease=job if job <= 10 else None, batch_id=5)])
            history.auditor.forget((history.place, 0))
        self.assertLessEqual(len(history.auditor.book.jobs), 110)
        self.assertEqual(sum(job in history.auditor.book.jobs for job in range(1, 11)), 10, "running jobs are not forgotten")
        found = len(history.found)
        for job in range(11, 1001):
            history.claim(job, job, batch_id=5).commit(Job(job, status="completed", completed_lease=job, batch_id=5))
            history.auditor.forget((history.place, 0))
        self.assertEqual(len(history.found), found, "a forgotten job is no violation")
        self.assertLessEqual(sum(map(len, history.auditor.batches.members.values())), 110)


class ValuesTest(unittest.TestCase):
    def test_times(self):
        self.assertEqual(seconds("2001-09-09 01:46:40+00"), 1e9)
        self.assertAlmostEqual(seconds("2001-09-09 01:46:40.25+00"), 1e9 + 0.25)
        self.assertEqual((seconds("infinity"), seconds("-infinity"), seconds("294276-12-31 23:59:59+00")), (float("inf"), -float("inf"), float("inf")))
        self.assertEqual((interval(None), interval("00:01:30.5"), interval("1 day"), interval("3 mons")), (60, 90.5, 86400, float("inf")))

    def test_arrays(self):
        for text, names in ((None, set()), ("{}", set()), ("{a,b}", {"a", "b"}), (r'{"a,\"b\\",c}', {'a,"b\\', "c"})):
            self.assertEqual(array(text), names)

    def test_a_snapshot_shows_transactions_also_after_the_counter_has_wrapped(self):
        shown = slot._Snapshot(f"{(3 << 32) + 2}:{(3 << 32) + 10}:{(3 << 32) + 2},{(3 << 32) + 7}")
        for xid, is_shown in ((1, True), (2, False), (3, True), (7, False), (9, True), (10, False), (0xffffffff, True)):
            self.assertEqual(shown.shows(xid), is_shown, xid)
        self.assertFalse(slot._Snapshot(f"{(3 << 32) - 9}:{(3 << 32) - 5}:").shows(3), "a transaction of the next epoch")

    def test_a_change_of_a_key_is_a_deletion_and_a_new_row(self):
        def row(*values):
            return struct.pack("!h", len(values)) + b"".join(b"n" if value is None else b"t" + struct.pack("!i", len(value)) + value for value in values)

        reader = Reader()
        names = b"".join(b"\1" + name + b"\0" + bytes(8) for name in (b"job_id", b"kind", b"target", b"on_failure"))
        for message in (b"R" + struct.pack("!I", 7) + b"jobq\0edges\0d" + struct.pack("!h", 4) + names, b"B" + struct.pack("!qqI", 9, 0, 5),
                        b"U" + struct.pack("!I", 7) + b"K" + row(b"2", b"depends", b"1", None) + b"N" + row(b"2", b"depends", b"8", b"run")):
            self.assertEqual(reader.read(1, message), [])
        changes = reader.read(1, b"C" + struct.pack("!bqqq", 0, 9, 9, 0))
        self.assertEqual([(change.row, change.deleted) for change in changes], [(Edge(2, "depends", 1), True), (Edge(2, "depends", 8, "run"), False)])

    def test_metrics(self):
        text = metrics.text('a"\\b', dict.fromkeys(LAWS, 0), dict.fromkeys(metrics.FAMILIES, 1.5))
        self.assertIn('jobq_audit_violations_total{database="a\\"\\\\b",law="limit_exceeded"} 0\n', text)
        self.assertIn('jobq_audit_running{database="a\\"\\\\b"} 1.5\n', text)
        self.assertEqual(text.count("# TYPE"), len(metrics.FAMILIES))


class ProgramTest(Base):
    """In a database of its own, because an audit reads the jobs of the whole database."""

    def setUp(self):
        super().setUp()
        self.database = f"audit_{uuid.uuid4().hex[:12]}"
        self.connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(self.database)))
        self.addCleanup(self.drop)
        self.shop = psycopg.connect(dbname=self.database, autocommit=True)
        self.addCleanup(self.shop.close)
        self.shop.execute("CREATE EXTENSION jobq")

    def drop(self):
        self.connection.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(self.database)))

    def start(self, *arguments, begins=True, **dsn):
        dsn = psycopg.conninfo.make_conninfo(dbname=self.database, **dsn)
        errors = tempfile.NamedTemporaryFile("w+")
        self.addCleanup(errors.close)
        process = subprocess.Popen([sys.executable, "-W", "ignore", "-m", "jobq", "audit", "--interval", "0.1", "--dsn", dsn, *arguments],
                                   env=ENVIRONMENT, text=True, stdout=subprocess.PIPE, stderr=errors)
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        process.errors = Path(errors.name)
        if begins:
            self.wait(lambda: BEGUN in process.errors.read_text() or process.poll() is not None)
            self.assertIn(BEGUN, process.errors.read_text())
        return process

    def wait(self, condition):
        deadline = time.monotonic() + LIMIT
        while not condition():
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.02)

    def end(self, process, status, number=signal.SIGINT):
        """Ends the program with a signal, and returns its output and its messages."""
        if number is not None:
            process.send_signal(number)
        out = process.stdout.read()
        self.assertEqual((process.wait(LIMIT), self.left()), (status, 0), process.errors.read_text() + out)
        return out, process.errors.read_text()

    def left(self):
        """What audits have left on the server."""
        return self.shop.execute("SELECT (SELECT count(*) FROM pg_replication_slots WHERE database = current_database())"
                                 " + (SELECT count(*) FROM pg_publication WHERE pubname LIKE 'jobq_audit_%%')").fetchone()[0]

    def run_some(self):
        """Everything that the laws are about, as it should be."""
        [[batch]] = self.shop.execute("SELECT jobq_create_batch(on_complete => '{\"queue\": \"other\"}')")
        self.shop.execute("SELECT jobq_set_limit('q', max_running => 1)")
        self.shop.execute("SELECT jobq_enqueue('q', unique_key => 'k' || n, group_key => 'g', options => jsonb_build_object('batch_id', %s::bigint))"
                          " FROM generate_series(1, 3) n", (batch,))
        self.shop.execute("SELECT jobq_enqueue('q', depends_on => ARRAY(SELECT id FROM jobq.jobs WHERE queue = 'q'), on_dependency_failure => 'run')")
        self.shop.execute("SELECT jobq_seal_batch(%s)", (batch,))
        self.shop.execute("SELECT jobq_schedule('nightly', '0 3 * * *', 'other'), jobq_run_schedule('nightly')")
        for outcome in ("jobq_release(id, lease)", "jobq_step_done(id, lease, 'a')", "jobq_complete(id, lease)", "jobq_fail(id, lease, 'x', retry => false)",
                        "jobq_complete(id, lease)", "jobq_complete(id, lease)"):
            self.wait(lambda: self.shop.execute(f"SELECT {outcome} FROM jobq_claim('q', 'w', heartbeat_timeout => '1 h')").fetchall()
                      or outcome.startswith("jobq_complete") and self.shop.execute(
                          "SELECT jobq_complete(id, lease) FROM jobq.jobs WHERE status = 'processing'").fetchall())
        self.wait(lambda: self.shop.execute("SELECT finished_at IS NOT NULL FROM jobq.batches").fetchone()[0])
        self.assertEqual(self.shop.execute("SELECT count(*) FROM jobq.jobs WHERE queue = 'q' AND status IN ('completed', 'failed')").fetchone()[0], 4)

    def break_a_limit(self):
        """Three jobs run, although the limit allows two. Triggers, which would count them, do not fire."""
        with self.shop.transaction():
            self.shop.execute("SELECT jobq_set_limit('full', max_running => 2)")
        with self.shop.transaction():
            self.shop.execute("SET LOCAL session_replication_role = replica")
            self.shop.execute("INSERT INTO jobq.jobs (id, run_at, _lane, max_attempts, queue, status, lease, started_at)"
                              " SELECT 1000 + n, now(), 1, 5, 'full', 'processing', 70 + n, now() + interval '1 min' FROM generate_series(1, 3) n")

    def test_nothing_to_report(self):
        process = self.start()
        self.run_some()
        out, err = self.end(process, 0)
        self.assertEqual(out, "")
        self.assertRegex(err, r"jobq: read [1-9]\d* changes of [1-9]\d* transactions in \d+ s: no law was broken\n\Z")

    def test_a_violation(self):
        process = self.start("--json")
        self.break_a_limit()
        out, err = self.end(process, 1, signal.SIGTERM)
        found = [json.loads(line) for line in out.splitlines()]
        [limit] = [report for report in found if report["law"] == "limit exceeded"]
        self.assertEqual((limit["job"], limit["text"]), (1003, "job 1003 was claimed while jobs [1001, 1002] of ('full', '', '') were running, limit 2"))
        self.assertEqual([(row["row"], row["id"], row["lease"]) for row in limit["changes"]], [("jobs", 1003, 73), ("jobs", 1001, 71), ("jobs", 1002, 72)])
        self.assertRegex(limit["changes"][0]["lsn"], r"\A[0-9A-F]+/[0-9A-F]+\Z")
        self.assertIn("1 x limit exceeded", err)

    def test_a_truncated_table(self):
        process = self.start()
        for _ in range(2):
            self.shop.execute("SELECT jobq_enqueue('q', unique_key => 'k')")
            self.shop.execute("TRUNCATE jobq.jobs, jobq.attempts, jobq.edges, jobq.steps")
        self.end(process, 0)

    def test_a_server_error(self):
        process = self.start("--interval", "0.2")
        self.shop.execute("SELECT pg_terminate_backend(active_pid) FROM pg_replication_slots WHERE slot_name ~ '^jobq_audit'")
        out, err = self.end(process, 2, None)
        self.assertIn("jobq: stopped: ", err)

    def test_a_limited_time(self):
        out, err = self.end(self.start("--seconds", "0.5"), 0, None)
        self.assertIn("no law was broken", err)

    def test_polling(self):
        process = self.start("--poll", "--json")
        self.run_some()
        self.break_a_limit()
        self.wait(lambda: self.shop.execute("SELECT count(*) FROM pg_stat_activity WHERE application_name = 'jobq audit'").fetchone()[0])
        out, err = self.end(process, 1)
        self.assertEqual({json.loads(line)["law"] for line in out.splitlines()}, {"limit exceeded"}, err)

    def test_the_limit_of_wal(self):
        process = self.start("--max-wal", "1MB", "--interval", "0.5")
        with psycopg.connect(dbname=self.database, autocommit=True) as old:
            old.execute("BEGIN")
            old.execute("SELECT pg_current_xact_id()")
            self.shop.execute("CREATE TABLE filler (f text)")
            while process.poll() is None:
                self.shop.execute("INSERT INTO filler SELECT repeat('x', 1000) FROM generate_series(1, 1000)")
        out, err = self.end(process, 2, None)
        self.assertRegex(err, r"jobq: stopped because the server retained \d+ MB of WAL for the audit \(hint: .*\)\n\Z")

    def test_a_start_that_waits_for_an_old_transaction(self):
        self.shop.execute("BEGIN")
        self.shop.execute("SELECT pg_current_xact_id()")
        process = self.start("--seconds", "1", begins=False)
        self.assertEqual(process.wait(LIMIT), 2)
        self.assertRegex(process.errors.read_text(), r"jobq: stopped before the audit began, because the server waits for the end of older")
        self.shop.execute("ROLLBACK")
        self.assertEqual(self.left(), 0)

    def test_what_a_killed_audit_leaves(self):
        process = self.start()
        process.kill()
        process.wait()
        self.wait(lambda: self.left() == 2)
        self.end(self.start(), 0)

    def test_a_terminated_session(self):
        process = self.start()
        self.shop.execute("SELECT pg_terminate_backend(active_pid) FROM pg_replication_slots WHERE database = current_database()")
        self.end(process, 2, None)

    def test_a_role_without_privileges(self):
        role = f"audit_{uuid.uuid4().hex[:12]}"
        identifier = sql.Identifier(role)
        self.shop.execute(sql.SQL("CREATE ROLE {} LOGIN").format(identifier))
        self.addCleanup(self.connection.execute, sql.SQL("DROP ROLE {}").format(identifier))
        self.addCleanup(lambda: psycopg.connect(dbname=self.database, autocommit=True).execute(sql.SQL("DROP OWNED BY {}").format(identifier)))
        process = self.start(begins=False, user=role)
        self.assertEqual(process.wait(LIMIT), 2)
        text = process.errors.read_text()
        setup = text[text.index("CREATE PUBLICATION"):text.rindex(")")]
        self.assertRegex(text, r"\Ajobq: .*\(hint: The owner of the tables of jobq can create the publications for you, once: ")
        self.shop.execute(setup)   # what the hint says
        self.shop.execute(sql.SQL("SELECT jobq_grant({}, 'operator')").format(sql.Literal(role)))
        process = self.start(begins=False, user=role)
        self.assertEqual(process.wait(LIMIT), 2)
        self.assertIn("REPLICATION", process.errors.read_text())
        self.shop.execute(sql.SQL("ALTER ROLE {} REPLICATION").format(identifier))
        process = self.start(user=role)
        self.break_a_limit()
        process.send_signal(signal.SIGINT)
        self.assertEqual(process.wait(LIMIT), 1, process.errors.read_text())
        self.assertEqual(self.shop.execute("SELECT count(*) FROM pg_publication").fetchone()[0], 2, "the publications of the owner are kept")
        self.shop.execute("ALTER PUBLICATION jobq_audit DROP TABLE jobq.edges")
        process = self.start(begins=False, user=role)
        self.assertEqual(process.wait(LIMIT), 2)
        self.assertIn('publication "jobq_audit" lacks column job_id of jobq.edges', process.errors.read_text())

    def test_tables_with_another_replica_identity(self):
        """If a publication had a list of columns, all updates of such a table would fail."""
        self.shop.execute("ALTER TABLE jobq.jobs REPLICA IDENTITY FULL")
        process = self.start()
        self.run_some()
        self.end(process, 0)
        self.shop.execute("ALTER TABLE jobq.jobs REPLICA IDENTITY NOTHING")
        process = self.start(begins=False)
        self.assertEqual(process.wait(LIMIT), 2)
        self.assertIn("table jobq.jobs has REPLICA IDENTITY NOTHING", process.errors.read_text())

    def test_metrics(self):
        with tempfile.TemporaryDirectory() as directory:
            file = Path(directory) / "jobq.prom"
            with socket.create_server(("127.0.0.1", 0)) as free:
                port = free.getsockname()[1]
            process = self.start("--metrics-file", str(file), "--metrics-port", f"127.0.0.1:{port}")
            self.break_a_limit()
            self.wait(lambda: 'law="limit_exceeded"} 1\n' in file.read_text())
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics") as answer:
                self.assertIn(f'jobq_audit_violations_total{{database="{self.database}",law="limit_exceeded"}} 1', answer.read().decode())
            self.end(process, 1)
            self.assertIn(f'jobq_audit_running{{database="{self.database}"}} 0', file.read_text())
            self.assertEqual(os.listdir(directory), ["jobq.prom"])

    def test_wrong_arguments(self):
        for arguments, message in ((("--max-wal", "5"), "must be a size such as 500MB or 2GB"), (("--metrics-port", "x"), "must be a port from 1"),
                                   (("--metrics-file", "x.txt"), "must end with .prom"), (("--metrics-file", "/no/such/x.prom"), "No such file"),
                                   (("--seconds", "-1"), "must be a number of seconds"), (("--max-jobs", "0"), "must be an integer from 1")):
            process = self.start(*arguments, begins=False)
            self.assertEqual((process.wait(LIMIT), self.left()), (2, 0), arguments)
            self.assertIn(message, process.errors.read_text())


if __name__ == "__main__":
    unittest.main()
