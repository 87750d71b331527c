"""Tests against a server with jobq, in the database that PGDATABASE and so on select: enqueue on the caller's connections, the
test kit, and worker behavior that no scenario covers. Django and SQLAlchemy are tested if they are installed."""

import asyncio
import datetime as dt
import logging
import subprocess
import sys
import threading
import time
import unittest
import uuid
from unittest import mock

import psycopg

import jobq
import jobq.core
from jobq.statements import COMPLETE_AND_CLAIM
from jobq.testing import drain, run_inline
from support import LIMIT, Base

try:
    import django
except ImportError:
    django = None
try:
    import sqlalchemy
    import sqlalchemy.orm
except ImportError:
    sqlalchemy = None


def setUpModule():
    logging.getLogger("jobq").setLevel(logging.CRITICAL)
    with psycopg.connect(autocommit=True) as connection:
        connection.execute("CREATE TABLE IF NOT EXISTS notes (job_id bigint, note text)")
LAST_HEARTBEAT = "SELECT last_heartbeat FROM jobq.jobs WHERE id = %s"


def after_a_heartbeat(job):
    """Waits for a heartbeat, so that the next one is not due yet."""
    with job.connection() as connection:
        before = connection.execute(LAST_HEARTBEAT, (job.id,)).fetchone()
        while connection.execute(LAST_HEARTBEAT, (job.id,)).fetchone() == before:
            job.pause(0.02)


class ServerTest(Base):
    def beats_on(self, job):
        self.becomes("processing", "SELECT status::text FROM jobq.jobs WHERE id = %s", job)
        for _ in range(3):
            self.becomes(True, "SELECT last_heartbeat > %s FROM jobq.jobs WHERE id = %s", self.value(LAST_HEARTBEAT, job), job)

    def status(self, job):
        return self.value("SELECT status::text FROM jobq.jobs WHERE id = %s", job)

    def count(self):
        return self.value("SELECT count(*) FROM jobq.jobs WHERE queue = %s", self.queue)


class SeveralQueuesTest(ServerTest):
    def test_a_worker_serves_several_queues_within_their_slots(self):
        queues = {f"{self.queue} emails": 2, f"{self.queue} reports": 1}
        running, most, go_on = {queue: 0 for queue in queues}, {queue: 0 for queue in queues}, threading.Event()
        lock = threading.Lock()

        def handler(job):
            with lock:
                running[job.queue] += 1
                most[job.queue] = max(most[job.queue], running[job.queue])
            go_on.wait(LIMIT)
            with lock:
                running[job.queue] -= 1

        for order in ("listed", "random", "oldest"):
            with self.subTest(order=order):
                go_on.clear()
                worker = jobq.Worker(queues=queues, queue_order=order, handlers={"x": handler})
                worker.start()
                for queue in queues:
                    jobq.enqueue_many(self.connection, queue, [1, 2, 3, 4], kind="x")
                unfinished = "SELECT count(*) FROM jobq.jobs WHERE queue = ANY (%s) AND status = %s"
                self.becomes(3, unfinished, list(queues), "processing")
                deadline = time.monotonic() + LIMIT
                while running != queues and time.monotonic() < deadline:   # the handlers begin a moment after the claim
                    time.sleep(0.02)
                self.assertEqual(running, queues)
                go_on.set()
                self.becomes(0, unfinished, list(queues), "pending")
                self.becomes(0, unfinished, list(queues), "processing")
                worker.stop()
                self.assertTrue(worker.join(LIMIT))
                self.assertEqual(most, dict(queues))

    def test_a_worker_prefetches_jobs_and_gives_back_those_that_have_not_started(self):
        lock, go_on, running, most = threading.Lock(), threading.Event(), 0, 0

        def handler(job):
            nonlocal running, most
            with lock:
                running += 1
                most = max(most, running)
            go_on.wait(LIMIT)
            with lock:
                running -= 1

        async def async_handler(job):
            nonlocal most
            most = max(most, 1)

        ids = jobq.enqueue_many(self.connection, self.queue, [1] * 12, kind="x")
        count = "SELECT count(*) FROM jobq.jobs WHERE queue = %s AND status::text = %s"
        worker = jobq.Worker(self.queue, {"x": handler}, slots=2, prefetch=5, grace=60)
        worker.start()
        self.becomes(7, count, self.queue, "processing")
        self.value("SELECT jobq_cancel(%s)", ids[6].job_id)
        worker.stop()
        self.becomes(2, count, self.queue, "processing")
        go_on.set()
        self.assertTrue(worker.join(LIMIT))
        self.assertEqual([self.value(count, self.queue, status) for status in ("completed", "cancelled")], [2, 1])
        self.assertEqual(self.value("SELECT sum(attempts) FROM jobq.jobs WHERE queue = %s AND status = 'pending'", self.queue), 0)
        self.assertEqual(most, 2)

        async def work():
            worker = jobq.AsyncWorker(self.queue, {"x": async_handler}, slots=2, prefetch=5)
            await worker.start()
            await asyncio.get_running_loop().run_in_executor(None, self.becomes, 11, count, self.queue, "completed")
            worker.stop()
            await worker.join()

        asyncio.run(work())

    def test_a_worker_serves_queues_that_match_a_pattern(self):
        go_on, prefix = threading.Event(), self.queue.replace("_", r"\_")
        worker = jobq.Worker(patterns={f"{prefix} customer%": 1, f"{prefix} %": 2}, slots=4, handlers={"x": lambda job: go_on.wait(LIMIT)})
        worker.start()
        self.becomes([f"{prefix} customer%", f"{prefix} %"], "SELECT (SELECT info->'patterns' FROM jobq_workers() WHERE worker_id = %s)",
                     worker.options.worker_id)
        running = "SELECT count(*) FROM jobq.jobs WHERE queue = %s AND status = 'processing'"
        # The queues do not exist before the worker has started.
        for name, most in (("customer a", 1), ("customer b", 1), ("mail", 2)):
            jobq.enqueue_many(self.connection, f"{self.queue} {name}", [1, 2, 3], kind="x")
            self.becomes(most, running, f"{self.queue} {name}")
        self.assertEqual([self.value(running, f"{self.queue} customer {name}") for name in "ab"], [1, 1])
        go_on.set()
        self.becomes(9, "SELECT count(*) FROM jobq.jobs WHERE queue LIKE %s AND status = 'completed'", f"{prefix} %")
        worker.stop()
        self.assertTrue(worker.join(LIMIT))

    def test_a_slot_that_becomes_free_ends_the_wait_of_a_worker(self):
        queues = {f"{self.queue} a": 1, f"{self.queue} b": 1}
        first, second = queues
        go_on = threading.Event()
        worker = jobq.Worker(queues=queues, handlers={"x": lambda job: go_on.wait(LIMIT), "y": lambda job: None}, wait_timeout=3600)
        worker.start()
        held = jobq.enqueue(self.connection, first, kind="x")
        self.becomes("processing", "SELECT status::text FROM jobq.jobs WHERE id = %s", held)
        waiting = jobq.enqueue(self.connection, first, kind="y")
        self.becomes(True, "SELECT count(*) > 0 FROM pg_stat_activity WHERE query ~ 'CALL jobq_wait_any' AND state = 'active' AND application_name LIKE %s",
                     f"jobq {first},%")
        self.assertEqual(self.status(waiting), "pending")
        go_on.set()
        self.becomes("completed", "SELECT status::text FROM jobq.jobs WHERE id = %s", waiting)
        worker.stop()
        self.assertTrue(worker.join(LIMIT))


class EnqueueTest(ServerTest):
    def test_every_parameter(self):
        first = jobq.enqueue(self.connection, self.queue)
        when = dt.datetime(2035, 1, 2, tzinfo=dt.timezone.utc)
        job = jobq.enqueue(self.connection, self.queue, {"to": "\u00e4'\"\\"}, kind="mail", priority=-5, run_at=when, max_attempts=3,
                           unique_key="k", on_conflict="ignore", unique_for=dt.timedelta(hours=1), group_key=None, concurrency_key="c",
                           depends_on=[first], on_dependency_failure="run", version=2, requires=["gpu", "x"], heartbeat_timeout=90,
                           max_runtime="2 h", metadata={"order": 17})
        row = self.connection.execute("""SELECT payload, kind, priority, run_at, max_attempts, unique_key, concurrency_key, version,
            requires, heartbeat_timeout, max_runtime, metadata FROM jobq.jobs WHERE id = %s""", (job,)).fetchone()
        self.assertEqual(row, ({"to": "\u00e4'\"\\"}, "mail", -5, when, 3, "k", "c", 2, ["gpu", "x"], dt.timedelta(seconds=90),
                               dt.timedelta(hours=2), {"order": 17}))
        self.assertEqual(jobq.enqueue(self.connection, self.queue, unique_key="k"), job)

    def test_expiry(self):
        when = dt.datetime(2035, 1, 2, tzinfo=dt.timezone.utc)
        jobs = [jobq.enqueue(self.connection, self.queue, run_at=when, expires_in=90),
                jobq.enqueue(self.connection, self.queue, expires_at=when + dt.timedelta(seconds=90))]
        for job, in self.connection.execute("SELECT expires_at FROM jobq.jobs WHERE id = ANY (%s)", (jobs,)).fetchall():
            self.assertEqual(job, when + dt.timedelta(seconds=90))

    def test_a_batch(self):
        batch = jobq.create_batch(self.connection, "import", on_success={"queue": self.queue + " done", "kind": "ok", "max_attempts": 3},
                                  metadata={"file": "a"})
        jobq.enqueue(self.connection, self.queue, batch_id=batch)
        jobq.enqueue_many(self.connection, self.queue, [1, 2], batch_id=batch)
        jobq.enqueue_jobs(self.connection, [{"queue": self.queue, "batch_id": batch}])
        self.connection.execute("SELECT jobq_complete(id, lease) FROM jobq_claim(%s, batch => 4)", (self.queue,))
        found = jobq.get_batch(self.connection, batch)
        self.assertEqual((found["name"], found["total"], found["completed"], found["sealed"], found["metadata"]),
                         ("import", 4, 4, False, {"file": "a"}))
        self.assertEqual([jobq.seal_batch(self.connection, batch), jobq.seal_batch(self.connection, batch), jobq.seal_batch(self.connection, 10**9)],
                         [True, False, None])
        (callback,) = jobq.get_batch(self.connection, batch)["callbacks"]
        self.assertEqual(self.connection.execute("SELECT kind, max_attempts FROM jobq.jobs WHERE id = %s", (callback,)).fetchone(), ("ok", 3))
        self.assertIsNone(jobq.get_batch(self.connection, 10**9))
        with self.assertRaises(jobq.OptionError):
            jobq.enqueue(self.connection, self.queue, batch_id=1.5)

    def test_an_enqueue_is_part_of_the_callers_transaction(self):
        with psycopg.connect() as connection:
            jobq.enqueue(connection, self.queue)
            self.assertEqual(self.count(), 0)
            connection.rollback()
        self.assertEqual(self.count(), 0)
        with psycopg.connect(row_factory=psycopg.rows.dict_row) as connection:
            jobq.enqueue(connection, self.queue)
        self.assertEqual(self.count(), 1)

    def test_many(self):
        rows = jobq.enqueue_many(self.connection, self.queue, [{"n": 1}, "two", None], kind="x", unique_keys=["a", None, "a"],
                                 priorities=[1, 2, 3])
        self.assertEqual([row.is_new for row in rows], [True, True, False])
        self.assertEqual(rows[0].job_id, rows[2].job_id)

    def test_many_accept_every_option(self):
        when = dt.datetime(2035, 1, 2, tzinfo=dt.timezone.utc)
        self.connection.execute("SELECT jobq_set_named_limit('all', %s, max_running => 2)", ([self.queue],))
        given = dict(run_at=when, max_attempts=3, version=2, requires=["gpu"], heartbeat_timeout=90, max_runtime="2 h", limits=["all"],
                     metadata={"order": 17}, unique_for=dt.timedelta(hours=1), on_conflict="replace")
        first = jobq.enqueue_many(self.connection, self.queue, [1, 2], unique_keys=["a", None], expires_in=90, **given)
        again = jobq.enqueue_many(self.connection, self.queue, [3], unique_keys=["a"], expires_at=when + dt.timedelta(seconds=90), **given)
        self.assertEqual(again, [(first[0].job_id, False)])
        rows = self.connection.execute("""SELECT payload, run_at, max_attempts, version, requires, heartbeat_timeout, max_runtime, limits,
            metadata, expires_at, unique_key, unique_for FROM jobq.jobs WHERE queue = %s ORDER BY id""", (self.queue,)).fetchall()
        same = (when, 3, 2, ["gpu"], dt.timedelta(seconds=90), dt.timedelta(hours=2), ["all"], {"order": 17}, when + dt.timedelta(seconds=90))
        self.assertEqual(rows, [(3, *same, "a", dt.timedelta(hours=1)), (2, *same, None, None)])

    def test_jobs(self):
        rows = jobq.enqueue_jobs(self.connection, [
            {"queue": self.queue, "ref": "charge", "payload": None},
            {"queue": self.queue, "depends_on": ["@charge"], "run_at": dt.datetime(2035, 1, 2, tzinfo=dt.timezone.utc),
             "max_runtime": dt.timedelta(minutes=1), "heartbeat_timeout": 90, "unique_for": 0.5, "unique_key": "k", "kind": None}])
        self.assertEqual(self.status(rows[1].job_id), "blocked")
        row = self.connection.execute("SELECT max_runtime, heartbeat_timeout FROM jobq.jobs WHERE id = %s", (rows[1].job_id,)).fetchone()
        self.assertEqual(row, (dt.timedelta(minutes=1), dt.timedelta(seconds=90)))

    def test_errors_of_the_server_are_raised(self):
        with self.assertRaises(psycopg.errors.NumericValueOutOfRange):
            jobq.enqueue(self.connection, self.queue, priority=40000)
        with self.assertRaises(TypeError):
            jobq.enqueue(self.connection, self.queue, prio=1)
        with self.assertRaises(TypeError):
            asyncio.run(jobq.aenqueue(None, self.queue, prio=1))

    def test_an_invalid_list_or_integer_enqueues_nothing(self):
        for options in ({"requires": "gpu"}, {"depends_on": "12"}, {"depends_on": [25.7]}, {"priority": 1.5}, {"max_attempts": 2.5},
                        {"max_runtime": float("inf")}):
            with self.subTest(options=options), self.assertRaisesRegex(jobq.OptionError, f'argument "{list(options)[0]}"'):
                jobq.enqueue(self.connection, self.queue, **options)
        for payloads, keys in (("abc", None), ({"a": 1}, None), ([1, 2], "ab")):
            with self.subTest(payloads=payloads), self.assertRaises(jobq.OptionError):
                jobq.enqueue_many(self.connection, self.queue, payloads, unique_keys=keys)
        self.assertEqual(self.count(), 0)

    def test_async(self):
        async def enqueue():
            async with await psycopg.AsyncConnection.connect() as connection:
                job = await jobq.aenqueue(connection, self.queue, {"n": 1}, kind="x")
                many = await jobq.aenqueue_many(connection, self.queue, [1, 2])
                jobs = await jobq.aenqueue_jobs(connection, [{"queue": self.queue}])
                self.assertEqual(self.count(), 0)
                return [job] + [row.job_id for row in many + jobs]
        self.assertEqual(len(set(asyncio.run(enqueue()))), 4)
        self.assertEqual(self.count(), 4)


@unittest.skipIf(django is None, "there is no Django: apt-get install python3-django")
class DjangoTest(ServerTest):
    @classmethod
    def setUpClass(cls):
        from django.conf import settings
        if not settings.configured:
            with psycopg.connect() as connection:
                info = connection.info
                settings.configure(USE_TZ=True, DATABASES={"default": {
                    "ENGINE": "django.db.backends.postgresql", "NAME": info.dbname, "USER": info.user, "HOST": info.host,
                    "PORT": str(info.port), "PASSWORD": info.password or ""}})
            django.setup()

    def tearDown(self):
        from django.db import connection
        connection.close()

    def test_part_of_atomic(self):
        from django.db import connection, transaction
        with self.assertRaises(ZeroDivisionError), transaction.atomic():
            jobq.enqueue(connection, self.queue, {"n": 1})
            raise ZeroDivisionError
        self.assertEqual(self.count(), 0)
        with transaction.atomic():
            job = jobq.enqueue(connection, self.queue, {"n": 1}, requires=["gpu"], max_runtime=60)
            self.assertEqual(self.count(), 0)
        self.assertEqual(self.status(job), "pending")

    def test_effect_and_completion_in_atomic(self):
        from django.db import connection, transaction

        def handler(job):
            with transaction.atomic():
                with connection.cursor() as cursor:
                    cursor.execute("INSERT INTO notes VALUES (%s, 'django')", [job.id])
                job.complete_in(connection, {"by": "django"})

        job = jobq.enqueue(self.connection, self.queue, kind="x")
        worker = jobq.Worker(self.queue, {"x": handler}, grace=LIMIT)
        worker.start()
        self.becomes("completed", "SELECT status::text FROM jobq.jobs WHERE id = %s", job)
        worker.stop()
        self.assertTrue(worker.join(LIMIT))
        self.assertEqual(self.value("SELECT jobq_result(%s)", job), {"by": "django"})
        self.assertEqual(self.value("SELECT count(*) FROM notes WHERE job_id = %s", job), 1)

    def test_drain_in_a_transaction_of_the_test(self):
        from django.db import connection, transaction
        with transaction.atomic():
            jobq.enqueue(connection, self.queue, {"n": [1, "two"]}, kind="x")
            ended = drain(connection, {"x": lambda job: job.payload}, self.queue)
            transaction.set_rollback(True)
        self.assertEqual([(one.status, one.result) for one in ended], [("completed", {"n": [1, "two"]})])
        self.assertEqual(self.count(), 0)


@unittest.skipIf(sqlalchemy is None, "there is no SQLAlchemy: apt-get install python3-sqlalchemy")
class SqlAlchemyTest(ServerTest):
    def setUp(self):
        super().setUp()
        info = self.connection.info
        self.engine = sqlalchemy.create_engine("postgresql+psycopg2://", connect_args={
            "host": info.host, "port": info.port, "user": info.user, "password": info.password or None, "dbname": info.dbname})
        self.addCleanup(self.engine.dispose)

    def test_part_of_the_sessions_transaction(self):
        with sqlalchemy.orm.Session(self.engine) as session:
            job = jobq.enqueue(session, self.queue, {"percent": "100%"}, kind="x")
            self.assertEqual(self.count(), 0)
            session.commit()
            self.assertEqual(self.status(job), "pending")
            jobq.enqueue_many(session, self.queue, [1, 2])
            session.rollback()
        self.assertEqual(self.count(), 1)

    def test_part_of_the_connections_transaction(self):
        with self.assertRaises(ZeroDivisionError), self.engine.begin() as connection:
            jobq.enqueue(connection, self.queue)
            raise ZeroDivisionError
        self.assertEqual(self.count(), 0)
        with self.engine.begin() as connection:
            jobq.enqueue_jobs(connection, [{"queue": self.queue}])
        self.assertEqual(self.count(), 1)

    def test_a_completion_that_is_rolled_back_is_a_failure(self):
        def handler(job):
            with sqlalchemy.orm.Session(self.engine) as session:
                session.execute(sqlalchemy.text("INSERT INTO notes VALUES (:job, 'alchemy')"), {"job": job.id})
                job.complete_in(session)
                if job.attempt > 1:
                    session.commit()

        self.value("SELECT count(*) FROM jobq_create_queue(%s, backoff_base => '10 ms')", self.queue)
        job = jobq.enqueue(self.connection, self.queue, kind="x")
        worker = jobq.Worker(self.queue, {"x": handler}, grace=LIMIT)
        worker.start()
        self.becomes("completed", "SELECT status::text FROM jobq.jobs WHERE id = %s", job)
        worker.stop()
        self.assertTrue(worker.join(LIMIT))
        self.assertEqual(self.value("SELECT attempts FROM jobq.jobs WHERE id = %s", job), 2)
        self.assertEqual(self.value("SELECT count(*) FROM notes WHERE job_id = %s", job), 1)
        self.assertRegex(self.value("SELECT error FROM jobq.attempts WHERE job_id = %s", job), "has not committed")

    def test_a_lost_lease(self):
        raised = []

        def handler(job):
            self.value("SELECT count(*) FROM jobq_release(%s, %s)", job.id, job.lease)
            with sqlalchemy.orm.Session(self.engine) as session:
                try:
                    job.complete_in(session)
                except jobq.Lost as error:
                    raised.append(error)
                    raise

        job = jobq.enqueue(self.connection, self.queue, kind="x")
        worker = jobq.Worker(self.queue, {"x": handler})
        worker.start()
        self.becomes(True, "SELECT count(*) > 0 FROM jobq.jobs WHERE id = %s AND worker_id IS NOT NULL", job)
        deadline = time.monotonic() + LIMIT
        while not raised and time.monotonic() < deadline:
            time.sleep(0.02)
        worker.stop()
        self.assertTrue(worker.join(LIMIT))
        self.assertTrue(raised)

    def test_a_lease_that_the_handler_finds_lost_is_logged(self):
        def handler(job):
            with psycopg.connect(autocommit=True) as other:
                other.execute("SELECT jobq_release(%s, %s)", (job.id, job.lease))
                other.execute("SELECT jobq_cancel(%s)", (job.id,))
            with job.completing():
                pass

        with self.assertLogs("jobq", logging.WARNING) as logged:
            job = jobq.enqueue(self.connection, self.queue, kind="x")
            worker = jobq.Worker(self.queue, {"x": handler})
            worker.start()
            self.becomes("cancelled", "SELECT status::text FROM jobq.jobs WHERE id = %s", job)
            worker.stop()
            self.assertTrue(worker.join(LIMIT))
        self.assertEqual([line for line in logged.output if f"job {job} " in line and "the lease is lost" in line], logged.output)
        self.assertEqual(len(logged.output), 1)


class HandlerTest(ServerTest):
    def done(self, job):
        self.becomes(True, "SELECT status IN ('completed', 'failed', 'scheduled') FROM jobq.jobs WHERE id = %s", job)
        return self.connection.execute("SELECT status::text, attempts, error FROM jobq_get(%s)", (job,)).fetchone()

    def test_an_async_worker_takes_what_plain_functions_return(self):
        async def awaited(job):
            await asyncio.sleep(0)
            return {"by": "a coroutine"}

        handlers = {"plain": lambda job: {"by": "a function"}, "makes": lambda job: awaited(job),
                    "future": lambda job: asyncio.ensure_future(awaited(job)), "nothing": lambda job: None}
        jobs = {kind: jobq.enqueue(self.connection, self.queue, kind=kind) for kind in handlers}

        async def work():
            worker = jobq.AsyncWorker(self.queue, handlers, grace=LIMIT)
            await worker.start()
            ended = [await asyncio.get_running_loop().run_in_executor(None, self.done, job) for job in jobs.values()]
            worker.stop()
            await worker.join(LIMIT)
            return ended

        self.assertEqual(asyncio.run(work()), [("completed", 1, None)] * 4)
        self.assertEqual([self.value("SELECT jobq_result(%s)", job) for job in jobs.values()],
                         [{"by": "a function"}, {"by": "a coroutine"}, {"by": "a coroutine"}, None])

    def test_a_worker_with_threads_fails_what_returns_a_coroutine(self):
        ran = []

        async def coroutine(job):
            ran.append(job)

        job = jobq.enqueue(self.connection, self.queue, kind="x", max_attempts=1)
        worker = jobq.Worker(self.queue, {"x": lambda job: coroutine(job)}, grace=LIMIT)
        worker.start()
        status, attempts, error = self.done(job)
        worker.stop()
        self.assertTrue(worker.join(LIMIT))
        self.assertEqual((status, attempts, ran), ("failed", 1, []))
        self.assertIn("the handler of kind 'x' has returned a coroutine, which only an AsyncWorker awaits", error)
        jobq.enqueue(self.connection, self.queue, kind="x", max_attempts=1)
        ended = drain(self.connection, {"x": coroutine}, self.queue)
        self.assertEqual([(one.status, "coroutine" in one.error) for one in ended], [("failed", True)])


class DrainTest(ServerTest):
    def test_the_outcome_of_each_kind_of_job(self):
        def handler(job):
            if job.payload == "fail":
                raise ValueError("no")
            if job.payload == "reject":
                raise jobq.Fail("never", retry=False)
            if job.payload == "snooze":
                raise jobq.Snooze(60)
            if job.payload == "more":
                with job.connection() as connection:
                    jobq.enqueue(connection, self.queue, "last", kind="x")
            return job.payload

        for payload in ("fail", "reject", "snooze", "more"):
            jobq.enqueue(self.connection, self.queue, payload, kind="x")
        jobq.enqueue(self.connection, self.queue, kind="unheard")
        ended = drain(self.connection, {"x": handler}, self.queue)
        self.assertEqual([(one.job.payload, one.status) for one in ended], [
            ("fail", "scheduled"), ("reject", "failed"), ("snooze", "scheduled"), ("more", "completed"), ("last", "completed")])
        self.assertEqual(ended[0].error, "ValueError: no")

    def test_log_lines(self):
        def handler(job):
            job.log("one")
            with job.completing():
                job.log("two", "error")

        job = jobq.enqueue(self.connection, self.queue, kind="x")
        [ended] = drain(self.connection, {"x": handler}, self.queue)
        self.assertEqual(ended.logged, (("info", "one"), ("error", "two")))
        self.assertEqual(self.value("SELECT array_agg(line || late ORDER BY number) FROM jobq.log_lines WHERE job_id = %s", job),
                         ["onefalse", "twofalse"])

    def test_inside_a_transaction(self):
        with psycopg.connect() as connection:
            jobq.enqueue(connection, self.queue, kind="x")
            jobq.enqueue(connection, self.queue, kind="y")

            def writes(job):
                with job.completing({"n": 1}) as own:
                    own.execute("INSERT INTO notes VALUES (%s, 'drain')", (job.id,))

            def breaks(job):
                with job.connection() as own:
                    own.execute("SELECT 1 / 0")

            ended = drain(connection, {"x": writes, "y": breaks}, self.queue)
            self.assertEqual([one.status for one in ended], ["completed", "scheduled"])
            self.assertEqual(ended[0].result, {"n": 1})
            connection.rollback()
        self.assertEqual(self.count(), 0)

    def test_steps_and_waits_inside_a_transaction(self):
        done = []

        def handler(job):
            job.step("charge", lambda own: done.append("charge"))
            if job.attempt == 1 and job.payload == "fail":
                raise ValueError("no")
            if job.payload == "sleep":
                job.sleep("a day", 86400)
            job.pause(3600)   # does not actually sleep
            return job.payload

        with psycopg.connect() as connection:
            slept, failed = [jobq.enqueue(connection, self.queue, payload, kind="x") for payload in ("sleep", "fail")]
            self.assertEqual([one.status for one in drain(connection, {"x": handler}, self.queue)], ["waiting", "scheduled"])
            row = connection.execute("SELECT status::text, run_at > now() + interval '1 hour' FROM jobq.jobs WHERE id = %s", (slept,))
            self.assertEqual(row.fetchone(), ("scheduled", True))
            ended = drain(connection, {"x": handler}, self.queue, now=dt.datetime.now(dt.timezone.utc) + dt.timedelta(hours=1))
            self.assertEqual([(one.job.id, one.status, one.result) for one in ended], [(failed, "completed", "fail")])
            self.assertEqual(done, ["charge", "charge"])   # once per job
            connection.rollback()

    def test_the_fake_clock(self):
        now = dt.datetime.now(dt.timezone.utc)
        with psycopg.connect() as connection:   # ticks in its own transaction, because a concurrent tick would find nothing
            jobq.enqueue(connection, self.queue, "tomorrow", kind="x", run_at=now + dt.timedelta(days=1))
            jobq.enqueue(connection, self.queue, "next year", kind="x", run_at=now + dt.timedelta(days=365))
            handlers = {"x": lambda job: job.payload}
            self.assertEqual(drain(connection, handlers, self.queue), [])
            ended = drain(connection, handlers, self.queue, now=now + dt.timedelta(days=2))
            self.assertEqual([one.result for one in ended], ["tomorrow"])
            connection.rollback()
        with self.assertRaisesRegex(jobq.OptionError, "now"):
            drain(self.connection, handlers, self.queue, now=dt.datetime.now())

    def test_the_fake_clock_ends_sleeps_and_timeouts(self):
        now = dt.datetime.now(dt.timezone.utc)

        def handler(job):
            if job.payload == "until":
                job.sleep("tomorrow", until=now + dt.timedelta(days=1))
            elif job.payload == "delay":
                job.sleep("a day", 86400)
            elif job.payload == "signal":
                self.assertFalse(job.wait_for("delivered", timeout=86400))
            elif job.payload == "jobs":
                self.assertFalse(job.wait_for_jobs([never], "all", timeout=86400))
            else:
                job.sleep("a month", 30 * 86400)
            return job.payload

        payloads = ["until", "delay", "signal", "jobs", "month"]
        with psycopg.connect() as connection:
            never = jobq.enqueue(connection, f"{self.queue} never")
            jobq.enqueue_many(connection, self.queue, payloads, kind="x")
            drained = drain(connection, {"x": handler}, self.queue, now=now + dt.timedelta(hours=23))
            self.assertEqual([one.status for one in drained], ["waiting"] * 5)
            drained = drain(connection, {"x": handler}, self.queue, now=now + dt.timedelta(days=2))
            self.assertEqual(sorted((one.status, one.result) for one in drained), sorted(("completed", one) for one in payloads[:4]))
            drained = drain(connection, {"x": handler}, self.queue, now=now + dt.timedelta(days=60))
            self.assertEqual([(one.status, one.result) for one in drained], [("completed", "month")])
            connection.rollback()

    def test_steps(self):
        done = []

        def handler(job):
            done.append(job.step("charge", lambda connection: {"receipt": 17}))
            payload = job.wait_for("delivered", timeout=3600)
            return {"to": payload}

        job = jobq.enqueue(self.connection, self.queue, kind="x")
        self.assertEqual([one.status for one in drain(self.connection, {"x": handler}, self.queue)], ["waiting"])
        self.value("SELECT jobq_signal_job(%s, 'delivered', '\"the door\"')", job)
        self.becomes("pending", "SELECT status::text FROM jobq.jobs, (SELECT count(*) FROM jobq_tick()) t WHERE id = %s", job)
        ended = drain(self.connection, {"x": handler}, self.queue)
        self.assertEqual([(one.status, one.result) for one in ended], [("completed", {"to": "the door"})])
        self.assertEqual(done, [{"receipt": 17}, {"receipt": 17}])

    def test_spawn_accepts_the_options_of_enqueue(self):
        when = dt.datetime(2035, 1, 2, tzinfo=dt.timezone.utc)
        jobq.enqueue(self.connection, self.queue, kind="x")
        spec = {"queue": self.queue, "run_at": when, "max_runtime": 60, "heartbeat_timeout": dt.timedelta(minutes=1), "kind": None}
        ended = drain(self.connection, {"x": lambda job: job.spawn("cut", [spec])}, self.queue)
        row = self.connection.execute("SELECT run_at, max_runtime, heartbeat_timeout, kind FROM jobq.jobs WHERE id = %s",
                                      ended[0].result).fetchone()
        self.assertEqual(row, (when, dt.timedelta(minutes=1), dt.timedelta(minutes=1), ""))


class InlineTest(unittest.TestCase):
    def test_result_progress_and_steps(self):
        def handler(job):
            job.set_progress({"n": 1})
            job.log("line", "debug")
            job.sleep("a day", 86400)
            return [job.payload["n"], job.spawn("cut", [{"queue": "x"}])]

        with self.assertRaises(jobq.Waiting):
            run_inline(handler, {"n": 1})
        job = run_inline(handler, {"n": 1}, steps={"a day": None})
        self.assertEqual((job.result, job.reported, job.logged), ([1, [2]], {"n": 1}, [("debug", "line")]))

    def test_errors_of_the_handler_are_raised(self):
        def handler(job):
            raise jobq.Fail("no", retry=False)

        with self.assertRaises(jobq.Fail):
            run_inline(handler)
        with self.assertRaisesRegex(RuntimeError, "wants a connection"):
            run_inline(lambda job: job.step("x", lambda connection: None))

    def test_completing(self):
        def handler(job):
            with job.completing() as connection:
                connection.execute("INSERT INTO notes VALUES (0, 'inline')")
                job.result = {"n": 1}

        with psycopg.connect() as connection:
            self.assertEqual(run_inline(handler, connection=connection).result, {"n": 1})
            self.assertEqual(connection.execute("SELECT count(*) FROM notes WHERE job_id = 0").fetchone()[0], 1)
            connection.rollback()


class WorkerTest(ServerTest):
    """Worker behavior that no scenario covers."""

    def start(self, handlers, **options):
        worker = jobq.Worker(self.queue, handlers, **{"grace": LIMIT, **options})
        worker.start()

        def stop():
            worker.stop()
            worker.stop()
            worker.join(LIMIT)
        self.addCleanup(stop)
        return worker

    def test_results_that_the_server_rejects_fail_only_their_own_job(self):
        gate = threading.Event()

        def handler(job):
            gate.wait(LIMIT)
            return job.payload.replace("nul", "\0")

        jobs = [row.job_id for row in jobq.enqueue_many(self.connection, self.queue, ["a", "nul", "b"], kind="x", max_attempts=1)]
        self.start({"x": handler}, slots=3)
        self.becomes(3, "SELECT count(*) FROM jobq.jobs WHERE queue = %s AND status = 'processing'", self.queue)
        gate.set()
        self.becomes(3, "SELECT count(*) FROM jobq.jobs WHERE queue = %s AND finished_at IS NOT NULL", self.queue)
        self.assertEqual([self.status(job) for job in jobs], ["completed", "failed", "completed"])
        self.assertRegex(self.value("SELECT error FROM jobq.jobs WHERE id = %s", jobs[1]), "u0000")

    def test_the_server_shows_the_worker_until_it_stops(self):
        shown = "SELECT (SELECT concat_ws(' ', queues, kinds, slots, client, state, running) FROM jobq_workers() WHERE worker_id = %s)"
        gate = threading.Event()
        worker = self.start({"y": lambda job: gate.wait(LIMIT), "x": print}, slots=2)
        told = f'{{"{self.queue}"}} {{x,y}} 2 jobq-python {jobq.__version__}'
        self.becomes(f"{told} waiting 0", shown, worker.options.worker_id)
        for running, state in ((1, "waiting"), (2, "busy")):
            jobq.enqueue(self.connection, self.queue, kind="y")
            self.becomes(f"{told} {state} {running}", shown, worker.options.worker_id)
        gate.set()
        self.becomes(f"{told} waiting 0", shown, worker.options.worker_id)
        worker.stop()
        self.becomes(None, shown, worker.options.worker_id)

    def test_times_in_any_datestyle_and_year(self):
        wanted = [dt.datetime.min, dt.datetime(2020, 12, 5, 10, 0, 0, 1)]
        for at in ("0044-03-15 BC", "2020-12-05 10:00:00.000001+00"):
            self.connection.execute("SELECT jobq_enqueue(%s, kind => 'x', run_at => %s::timestamptz)", (self.queue, at))
        session = psycopg.conninfo.make_conninfo(options="-c datestyle=SQL,DMY -c timezone=Asia/Kolkata")
        seen = []
        with psycopg.connect(session) as connection:
            drain(connection, {"x": lambda job: seen.append(job.run_at)}, self.queue)
            connection.rollback()
        self.start({"x": lambda job: seen.append(job.run_at)}, conninfo=session)
        self.becomes(2, "SELECT count(*) FROM jobq.jobs WHERE queue = %s AND status = 'completed'", self.queue)
        self.assertEqual(seen, 2 * [at.replace(tzinfo=dt.timezone.utc) for at in wanted])

    def test_log_lines_arrive_in_order_and_before_the_end(self):
        def fails(job):
            job.log("one")
            after_a_heartbeat(job)
            job.log("two \0", "warning")
            raise ValueError("no")

        def completes(job):
            job.log("last")
            with job.completing():
                pass

        async def suspends(job):
            job.log(f"attempt {job.attempt}")
            if not await job.wait_for("never", timeout=0.01):
                job.log("timed out")

        failed, completed = (jobq.enqueue(self.connection, self.queue, kind=kind, max_attempts=1) for kind in ("fails", "completes"))
        self.start({"fails": fails, "completes": completes}, heartbeat_interval=0.2)
        for job, status in ((failed, "failed"), (completed, "completed")):
            self.becomes(status, "SELECT status::text FROM jobq.jobs WHERE id = %s", job)
        log = "SELECT array_agg(event || coalesce(': ' || detail, '')) FROM jobq_log(%s) WHERE event !~ '^(enqueued|claimed)'"
        self.assertEqual(self.value(log, failed), ["log info: one", r"log warning: two \0", "attempt failed: ValueError: no",
                                                   "failed: ValueError: no"])
        self.assertEqual(self.value(log, completed), ["log info: last", "completed"])

        async def serve():
            worker = jobq.AsyncWorker(self.queue, {"suspends": suspends}, grace=LIMIT)
            await worker.start()
            await asyncio.to_thread(self.becomes, "completed", "SELECT status::text FROM jobq.jobs WHERE id = %s", waited)
            worker.stop()
            await worker.join(LIMIT)

        waited = jobq.enqueue(self.connection, self.queue, kind="suspends")
        asyncio.run(serve())
        lines = "SELECT array_agg(line ORDER BY written_at, number) FROM jobq.log_lines WHERE job_id = %s AND NOT late"
        self.assertEqual(self.value(lines, waited), ["attempt 1", "attempt 1", "timed out"])

    def test_a_rejected_line_does_not_fail_the_job(self):
        def handler(job):
            job.log("line")
            return 7

        job = jobq.enqueue(self.connection, self.queue, kind="x")
        with mock.patch.object(jobq.core.statements, "WRITE_LOG", "SELECT 1/0"), \
                mock.patch.object(jobq.core.statements, "log_parameters", lambda lines: []):
            self.start({"x": handler})
            self.becomes("completed", "SELECT status::text FROM jobq.jobs WHERE id = %s", job)

    def test_polls_without_jobq_wait(self):
        self.start({"x": lambda job: job.payload}, poll_interval=0.2)
        job = jobq.enqueue(self.connection, self.queue, kind="x")
        self.becomes("completed", "SELECT status::text FROM jobq.jobs WHERE id = %s", job)

    def outcome_of(self, job):
        self.becomes(True, "SELECT status IN ('completed', 'failed') FROM jobq.jobs WHERE id = %s", job)
        return self.connection.execute("SELECT status::text, attempts, error FROM jobq.jobs WHERE id = %s", (job,)).fetchone()

    def test_a_collision_of_the_jobs_own_transaction_does_not_count_as_an_attempt(self):
        calls = []

        def handler(job):
            calls.append(job.id)
            with job.completing() as connection:
                if len(calls) <= 4:
                    code = "40001" if len(calls) % 2 else "40P01"
                    connection.execute(f"DO $$ BEGIN RAISE 'in the way' USING ERRCODE = '{code}'; END $$")
        job = jobq.enqueue(self.connection, self.queue, kind="x", max_attempts=1)
        self.start({"x": handler})
        self.assertEqual(self.outcome_of(job), ("completed", 1, None))
        self.assertEqual(len(calls), 5)

    def test_a_collision_at_the_commit_does_not_count_as_an_attempt(self):
        self.connection.execute(f"""CREATE TABLE "{self.queue}" (n int);
            CREATE FUNCTION public.collide() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE serialization_failure; END $$;
            CREATE CONSTRAINT TRIGGER late AFTER INSERT ON "{self.queue}" DEFERRABLE INITIALLY DEFERRED
                FOR EACH ROW EXECUTE FUNCTION public.collide()""")
        self.addCleanup(self.connection.execute, f'DROP TABLE "{self.queue}"; DROP FUNCTION public.collide()')
        calls = []

        def handler(job):
            calls.append(job.id)
            with psycopg.connect() as own:
                if len(calls) <= 3:
                    own.execute(f'INSERT INTO "{self.queue}" VALUES (1)')
                job.complete_in(own)
        job = jobq.enqueue(self.connection, self.queue, kind="x", max_attempts=1)
        with self.assertLogs("jobq", logging.INFO) as logs:
            self.start({"x": handler})
            self.assertEqual(self.outcome_of(job), ("completed", 1, None))
        self.assertEqual(len(calls), 4)
        self.assertEqual(sum("collided with another transaction" in line for line in logs.output), 3, logs.output)

    def test_a_handler_that_always_collides_fails(self):
        calls = []

        def handler(job):
            calls.append(job.id)
            with job.connection() as connection:
                connection.execute("DO $$ BEGIN RAISE serialization_failure; END $$")
        job = jobq.enqueue(self.connection, self.queue, kind="x", max_attempts=1)
        self.start({"x": handler})
        self.assertEqual(self.outcome_of(job)[:2], ("failed", 1))
        self.assertEqual(len(calls), 11)

    def test_a_statement_timeout_ends_waits_and_is_logged_once(self):
        with self.assertLogs("jobq", logging.INFO) as logs:
            worker = self.start({"x": lambda job: None}, connect_options={"options": "-c statement_timeout=200"})
            waits = "SELECT query_start FROM pg_stat_activity WHERE query ~* '^\s*call jobq_wait' AND application_name LIKE %s"
            name = f"jobq {self.queue}%"
            for _ in range(3):
                self.becomes(True, f"SELECT EXISTS ({waits})", name)
                before = self.value(f"SELECT coalesce(({waits}), clock_timestamp())", name)   # the wait may have ended
                self.becomes(True, f"SELECT EXISTS ({waits} AND query_start > %s)", name, before)
            self.assertEqual(self.outcome_of(jobq.enqueue(self.connection, self.queue, kind="x"))[:2], ("completed", 1))
            worker.stop()
            worker.join(LIMIT)
        self.assertEqual(len([line for line in logs.output if "statement_timeout" in line]), 1, logs.output)
        self.assertIn("200ms", "".join(logs.output))
        self.assertNotIn("broken", "".join(logs.output))

    def test_a_cancellation_is_not_logged_as_a_failure(self):
        job = jobq.enqueue(self.connection, self.queue, kind="x")
        with self.assertLogs("jobq", logging.INFO) as logs:
            self.start({"x": lambda job: job.pause(3600)}, heartbeat_interval=0.1)
            self.becomes("processing", "SELECT status::text FROM jobq.jobs WHERE id = %s", job)
            self.connection.execute("SELECT jobq_cancel(%s)", (job,))
            self.becomes("cancelled", "SELECT status::text FROM jobq.jobs WHERE id = %s", job)
        self.assertTrue([line for line in logs.output if line.startswith("INFO") and "was cancelled" in line], logs.output)
        self.assertNotIn("has failed", "".join(logs.output))

    def test_an_error_that_cannot_be_stored_keeps_its_delay(self):
        name = f"latin1_{uuid.uuid4().hex[:12]}"
        self.connection.execute(f"CREATE DATABASE {name} ENCODING 'LATIN1' TEMPLATE template0 LC_COLLATE 'C' LC_CTYPE 'C'")
        self.addCleanup(self.connection.execute, f"DROP DATABASE {name} WITH (FORCE)")

        def handler(job):
            if job.payload == "result":
                return "3 \u20ac"
            raise jobq.Fail("no \u20ac", retry_in=3600)
        latin1 = psycopg.connect(dbname=name, autocommit=True)
        self.addCleanup(latin1.close)
        latin1.execute("CREATE EXTENSION jobq")
        failure, result = [jobq.enqueue(latin1, self.queue, payload, kind="x", max_attempts=most) for payload, most in (("failure", 2), ("result", 1))]
        self.start({"x": handler}, connect_options={"dbname": name})
        self.connection, before = latin1, self.connection
        try:
            self.becomes(True, "SELECT count(*) = 2 FROM jobq.jobs WHERE status IN ('scheduled', 'failed')")
            self.assertEqual(self.value("SELECT error FROM jobq.jobs WHERE id = %s AND run_at > now() + interval '30 min'", failure), "no ?")
            self.assertIn("the result was refused: UntranslatableCharacter", self.value("SELECT error FROM jobq.jobs WHERE id = %s", result))
        finally:
            self.connection = before

    def test_details_of_an_error(self):
        DETAILS = "SELECT details FROM jobq.attempts WHERE job_id = %s"
        seen = []
        job = jobq.enqueue(self.connection, self.queue, kind="x", max_attempts=1)

        def handler(job):
            raise LookupError("no address")
        self.start({"x": handler, "y": handler}, error_details=lambda details: {**details, "host": "web-1"},
                   on_error=lambda error, job: seen.append((job.id, str(error))))
        self.assertEqual(self.outcome_of(job), ("failed", 1, "LookupError: no address"))
        details = self.value(DETAILS, job)
        self.assertEqual((details["class"], details["host"]), ("LookupError", "web-1"))
        self.assertIn("in handler", details["stack"])
        self.assertEqual(seen, [(job, "no address")])

    def test_details_that_the_server_rejects_are_left_out(self):
        job = jobq.enqueue(self.connection, self.queue, kind="x", max_attempts=1)

        async def handler(job):
            raise LookupError("no address")
        worker = jobq.AsyncWorker(self.queue, {"x": handler}, error_details=lambda details: {"a": ["\0"]})

        async def run():
            await worker.start()
            while self.status(job) != "failed":
                await asyncio.sleep(0.02)
            worker.stop()
            await worker.join()
        asyncio.run(run())
        self.assertEqual(self.outcome_of(job), ("failed", 1, "LookupError: no address"))
        self.assertIsNone(self.value("SELECT details FROM jobq.attempts WHERE job_id = %s", job))

    def test_a_rejected_delay_does_not_prevent_the_failure(self):
        def handler(job):
            raise jobq.Fail("not now", retry_in="no interval")
        job = jobq.enqueue(self.connection, self.queue, kind="x", max_attempts=1)
        self.start({"x": handler})
        self.assertIn("the failure was refused: InvalidDatetimeFormat", self.outcome_of(job)[2])

    def test_an_error_that_cannot_be_converted_to_text_fails_only_its_own_job(self):
        class Evil(Exception):
            def __str__(self):
                raise Evil()
        job = jobq.enqueue(self.connection, self.queue, kind="x", max_attempts=1)

        def handler(job):
            raise Evil()
        self.start({"x": handler})
        self.assertEqual(self.outcome_of(job), ("failed", 1, "Evil"))

    def test_an_error_of_one_worker_stops_the_others_gracefully_and_ends_the_process(self):
        role = f"half_{uuid.uuid4().hex[:12]}"
        self.connection.execute(f"""CREATE ROLE {role} LOGIN; SELECT jobq_grant('{role}', 'worker', '{{{self.queue},{role}}}')""")
        self.addCleanup(self.connection.execute, f"DROP OWNED BY {role}; DROP ROLE {role}")
        program = f"""
import sys, time, psycopg, jobq
ended = []
def handler(job):
    psycopg.connect(autocommit=True).execute("SELECT jobq_revoke('{role}', 'worker', '{{{role}}}')")
    while second._core.error is None:
        time.sleep(0.02)
    return "done"
async def coroutine(job):
    import asyncio
    return await asyncio.get_running_loop().run_in_executor(None, handler, job)
kind = getattr(jobq, sys.argv[1])
options = dict(connect_options=dict(user="{role}"), wait_timeout=0.1, grace=100)
first = kind("{self.queue}", dict(x=coroutine if kind is jobq.AsyncWorker else handler), **options)
second = kind("{role}", dict(x=handler), **options)
jobq.serve(first, second)
"""
        for kind in ("Worker", "AsyncWorker"):
            with self.subTest(kind=kind):
                self.connection.execute(f"SELECT jobq_grant('{role}', 'worker', '{{{self.queue},{role}}}')")
                job = jobq.enqueue(self.connection, self.queue, kind="x")
                done = subprocess.run([sys.executable, "-c", program, kind], stderr=subprocess.PIPE, timeout=LIMIT, check=False)
                self.assertEqual(done.returncode, 1, done.stderr.decode())
                self.assertIn(b"InsufficientPrivilege", done.stderr)
                self.assertEqual(self.connection.execute("SELECT status::text, attempts, result FROM jobq.jobs WHERE id = %s", (job,)).fetchone(),
                                 ("completed", 1, "done"))

    def test_jobs_of_other_kinds_are_logged(self):
        jobq.enqueue(self.connection, self.queue, kind="mispelled")
        nameless = jobq.enqueue(self.connection, self.queue)
        with self.assertLogs("jobq", logging.INFO) as logs, mock.patch.object(jobq.core, "LOOK_EVERY", 0.0):
            worker = self.start({"misspelled": lambda job: None}, wait_timeout=0.05)
            for _ in range(3):
                self.assertEqual(self.outcome_of(jobq.enqueue(self.connection, self.queue, kind="misspelled"))[0], "completed")
            self.connection.execute("DELETE FROM jobq.jobs WHERE id = %s", (nameless,))
            deadline = time.monotonic() + LIMIT
            while not any("claim: of kind 'mispelled'" in line for line in logs.output):
                self.assertLess(time.monotonic(), deadline)
                time.sleep(0.02)
            worker.stop()
            worker.join(LIMIT)
        self.assertEqual([line.split("does not claim: ")[1] for line in logs.output if "does not claim" in line],
                         ["without a kind, of kind 'mispelled'", "of kind 'mispelled'"])
        self.assertTrue(any("kinds misspelled; leaves jobs of other kinds, and jobs without a kind, to other workers" in line for line in logs.output))

    def test_a_role_that_may_not_read_the_tables_does_not_search_for_other_kinds(self):
        role = f"plain_{uuid.uuid4().hex[:12]}"
        self.connection.execute(f"CREATE ROLE {role} LOGIN; SELECT jobq_grant('{role}', 'worker')")
        self.addCleanup(self.connection.execute, f"DROP OWNED BY {role}; DROP ROLE {role}")
        jobq.enqueue(self.connection, self.queue, kind="other")
        worker = self.start({"x": lambda job: None, "": lambda job: None}, connect_options={"user": role})
        nameless = jobq.enqueue(self.connection, self.queue)
        self.assertEqual(self.outcome_of(nameless)[0], "completed")
        self.becomes(True, "SELECT EXISTS (SELECT FROM pg_stat_activity WHERE usename = %s AND query ~* '^\\s*call jobq_wait')", role)
        self.assertEqual(worker._core.look_at, float("inf"))

    def test_a_rejected_claim_ends_the_worker(self):
        role = f"nobody_{uuid.uuid4().hex[:8]}"
        self.connection.execute(f"CREATE ROLE {role} LOGIN PASSWORD 'x'; SELECT jobq_grant('{role}', 'worker', queues => '{{other}}')")
        self.addCleanup(self.connection.execute, f"SELECT jobq_revoke('{role}', 'worker', queues => '{{other}}'); DROP ROLE {role}")
        worker = jobq.Worker(self.queue, {"x": lambda job: 1}, conninfo=f"user={role} password=x")
        worker.start()
        with self.assertRaises(psycopg.errors.InsufficientPrivilege):
            worker.join(LIMIT)

    def test_an_uncommitted_completion_does_not_delay_other_heartbeats(self):
        completed, gate = threading.Event(), threading.Event()

        def completes(job):
            after_a_heartbeat(job)
            with job.connection() as connection, connection.transaction():
                job.complete_in(connection)
                completed.set()
                gate.wait(LIMIT)

        self.start({"completes": completes, "waits": lambda job: gate.wait(LIMIT)}, slots=2, heartbeat_interval=1)
        jobs = [jobq.enqueue(self.connection, self.queue, kind=kind) for kind in ("completes", "waits")]
        self.assertTrue(completed.wait(LIMIT))
        self.beats_on(jobs[1])
        gate.set()
        for job in jobs:
            self.becomes("completed", "SELECT status::text FROM jobq.jobs WHERE id = %s", job)

    def test_a_slow_commit_of_a_step_does_not_delay_other_heartbeats(self):
        self.connection.execute("""CREATE TABLE late (job_id bigint); SELECT pg_advisory_lock(4711);
            CREATE FUNCTION be_late() RETURNS trigger LANGUAGE plpgsql AS
                'BEGIN PERFORM pg_advisory_xact_lock(4711); RETURN NULL; END';
            CREATE CONSTRAINT TRIGGER be_late AFTER INSERT ON late DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION be_late()""")
        self.addCleanup(self.connection.execute, "DROP TABLE late; DROP FUNCTION be_late()")
        gate = threading.Event()

        def late(job):
            after_a_heartbeat(job)
            return job.step("late", lambda own: own.execute("INSERT INTO late VALUES (1)").rowcount)

        self.start({"late": late, "waits": lambda job: gate.wait(LIMIT)}, slots=2, heartbeat_interval=1)
        jobs = [jobq.enqueue(self.connection, self.queue, kind=kind) for kind in ("late", "waits")]
        self.becomes(1, "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND objid = 4711 AND NOT granted")
        self.beats_on(jobs[1])
        self.connection.execute("SELECT pg_advisory_unlock(4711)")
        gate.set()
        for job in jobs:
            self.becomes("completed", "SELECT status::text FROM jobq.jobs WHERE id = %s", job)

    def test_a_transaction_that_the_handler_leaves_open_does_not_delay_other_heartbeats(self):
        left, gate = [], threading.Event()

        def leaves(job):
            connection = psycopg.connect()
            connection.execute("INSERT INTO notes VALUES (%s, 'left open')", (job.id,))
            job.complete_in(connection, {"n": 1})
            left.append(connection)

        self.start({"leaves": leaves, "waits": lambda job: gate.wait(LIMIT), "quick": lambda job: 1}, slots=3, heartbeat_interval=0.1)
        self.addCleanup(lambda: [connection.close() for connection in left])
        jobs = [jobq.enqueue(self.connection, self.queue, kind=kind) for kind in ("leaves", "waits")]
        with self.assertLogs("jobq", "WARNING") as logs:
            deadline = time.monotonic() + LIMIT
            while sum("are sent again" in line for line in logs.output) < 2:
                self.assertLess(time.monotonic(), deadline)
                time.sleep(0.02)
        self.beats_on(jobs[1])
        quick = jobq.enqueue(self.connection, self.queue, kind="quick")   # the blocked event loop must not delay a report either
        self.becomes("completed", "SELECT status::text FROM jobq.jobs WHERE id = %s", quick)
        self.assertEqual(self.status(jobs[0]), "processing")
        left[0].commit()
        gate.set()
        for job in jobs:
            self.becomes("completed", "SELECT status::text FROM jobq.jobs WHERE id = %s", job)

    def test_a_transaction_that_is_open_at_the_end_of_the_grace_period_does_not_block_the_worker(self):
        left, completed = [], threading.Event()

        def leaves(job):
            left.append(psycopg.connect())
            job.complete_in(left[0])
            completed.set()
            ended.wait(LIMIT)

        ended = threading.Event()
        self.addCleanup(lambda: [connection.close() for connection in left])
        self.addCleanup(ended.set)
        worker = self.start({"x": leaves}, grace=0)
        jobq.enqueue(self.connection, self.queue, kind="x")
        self.assertTrue(completed.wait(LIMIT))
        worker.stop()
        self.assertTrue(worker.join(LIMIT))
        self.assertFalse(worker._core.clean)

    def test_a_cancelled_run_stops_the_worker(self):
        async def main():
            started, gate = asyncio.Event(), asyncio.Event()

            async def handler(job):
                started.set()
                await gate.wait()
                return job.payload

            worker = jobq.AsyncWorker(self.queue, {"x": handler}, slots=2, grace=LIMIT)
            running = asyncio.Event()   # the handler may start before start() returns
            worker._started = running.set
            task = asyncio.ensure_future(worker.run(signals=()))
            await asyncio.wait_for(asyncio.gather(started.wait(), running.wait()), LIMIT)
            task.cancel()
            while not worker._core.hand.stopping():
                await asyncio.sleep(0.02)
            jobq.enqueue(self.connection, self.queue, "later", kind="x")
            gate.set()
            with self.assertRaises(asyncio.CancelledError):
                await task
            self.assertTrue(await worker.join(0))

        job = jobq.enqueue(self.connection, self.queue, kind="x")
        asyncio.run(asyncio.wait_for(main(), LIMIT))
        self.assertEqual(self.status(job), "completed")
        self.assertEqual(self.value("SELECT status::text FROM jobq.jobs WHERE queue = %s AND id <> %s", self.queue, job), "pending")

    def test_a_canceled_start_lets_a_handler_finish(self):
        """The caller that waits for start() is canceled after claims have begun. The end of this start must not end the next one."""
        release = threading.Event()
        begin, begun = jobq.core.Core.start, []

        def slow_start(core):
            begin(core)
            begun.append(core)
            if len(begun) == 1:
                release.wait(LIMIT)

        async def main():
            started, gate = asyncio.Event(), asyncio.Event()

            async def handler(job):
                started.set()
                await gate.wait()
                return 1

            worker = jobq.AsyncWorker(self.queue, {"x": handler}, grace=LIMIT)
            task = asyncio.ensure_future(worker.start())
            await asyncio.wait_for(started.wait(), LIMIT)
            core = worker._core
            task.cancel()
            with self.assertRaises(asyncio.CancelledError):
                await task
            await worker.start()
            release.set()
            gate.set()
            await asyncio.get_running_loop().run_in_executor(None, core.over.wait, LIMIT)
            self.assertFalse(await worker.join(0.2))
            worker.stop()
            self.assertTrue(await worker.join(LIMIT))

        job = jobq.enqueue(self.connection, self.queue, kind="x")
        with mock.patch.object(jobq.core.Core, "start", slow_start):
            asyncio.run(asyncio.wait_for(main(), LIMIT))
        self.assertEqual(self.status(job), "completed")

    def test_starts_once_and_with_handlers(self):
        with self.assertRaisesRegex(jobq.OptionError, "handlers"):
            jobq.Worker(self.queue).start()
        worker = self.start({"x": lambda job: 1})
        with self.assertRaises(RuntimeError):
            worker.start()

    def test_a_finished_job_whose_answer_was_lost(self):
        """The claim connection breaks after a completion has arrived. The job must not be reported as lost."""
        first = threading.Event()

        def handler(job):
            first.set()
            return 1

        worker = self.start({"x": handler})
        line = worker._core._claims
        send, broken = line.all, []

        def all_but_the_answer(statement, parameters):
            rows = send(statement, parameters)
            if statement == COMPLETE_AND_CLAIM and not broken:
                broken.append(rows)
                line.close()
                from jobq.core import Broken
                raise Broken()
            return rows

        line.all = all_but_the_answer
        with self.assertLogs("jobq", "DEBUG") as logs:
            job = jobq.enqueue(self.connection, self.queue, kind="x")
            self.becomes("completed", "SELECT status::text FROM jobq.jobs WHERE id = %s", job)
            later = jobq.enqueue(self.connection, self.queue, kind="x")
            self.becomes("completed", "SELECT status::text FROM jobq.jobs WHERE id = %s", later)
            worker.stop()
            self.assertTrue(worker.join(LIMIT))
        self.assertTrue(broken)
        self.assertNotIn("is lost", "\n".join(logs.output))


if __name__ == "__main__":
    unittest.main()
