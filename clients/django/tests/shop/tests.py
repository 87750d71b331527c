"""Run with Django's own test runner: tests/manage.py test."""

import itertools
import json
import os
import signal
import subprocess
import sys
import time
import uuid
from datetime import datetime, timedelta, timezone
from pathlib import Path

from django.db import connection, transaction
from django.test import TestCase, TransactionTestCase

import jobq
from jobq_django import task
from jobq_django.testing import drain
from jobq_django.worker import make_worker

from . import tasks
from .models import Order

LIMIT = 120


def ask(statement, *parameters, on=connection):
    with on.cursor() as cursor:
        cursor.execute(statement, parameters)
        return cursor.fetchone()[0]


class EnqueueTest(TestCase):
    """Enqueues inside the transaction of a TestCase."""

    def setUp(self):
        self.queue = uuid.uuid4().hex

    def row(self, job_id, columns):
        with connection.cursor() as cursor:
            cursor.execute(f"SELECT {columns} FROM jobq.jobs WHERE id = %s", [job_id])
            return cursor.fetchone()

    def test_a_call_is_a_job(self):
        at = datetime(2040, 1, 2, 3, 4, 5, tzinfo=timezone.utc)
        job_id = tasks.charge.using(queue=self.queue, priority=-3, run_at=at).enqueue(7, amount=3)
        self.assertEqual(self.row(job_id, "queue, kind, payload::text, priority, run_at, status::text"),
                         (self.queue, "shop.tasks.charge", '{"args": [7], "kwargs": {"amount": 3}}', -3, at, "scheduled"))

    def test_options_of_the_task_and_of_the_call(self):
        job_id = tasks.index.using(queue=self.queue, max_attempts=2, limits=[]).enqueue("tea")
        self.assertEqual(self.row(job_id, "unique_key, max_attempts, metadata->>'team'"), ("product tea", 2, "red"))
        self.assertEqual(tasks.index.using(queue=self.queue).enqueue("tea"), job_id)
        self.assertEqual(tasks.index.options["max_attempts"], 7)

    def test_a_time_without_a_time_zone_is_rejected(self):
        naive = datetime(2040, 1, 2, 3, 4, 5)
        says = "must be a datetime with a time zone (tzinfo), or a timestamp's text; it is datetime.datetime(2040, 1, 2, 3, 4, 5)"
        later = tasks.charge.using(queue=self.queue, run_at=naive)
        for use_tz in (True, False):   # with USE_TZ = False, django.utils.timezone.now() has no time zone
            with self.settings(USE_TZ=use_tz):
                for call in (lambda: later.enqueue(7), lambda: later.using(run_at=lambda order_id: naive).enqueue(7),
                             lambda: jobq.enqueue_jobs(connection, [later.spec(7)])):
                    with self.assertRaisesMessage(jobq.OptionError, f'argument "run_at" {says}'):
                        call()
                with self.assertRaisesMessage(jobq.OptionError, f'argument "now" {says}'):
                    drain(self.queue, now=naive)
        self.assertEqual(ask("SELECT count(*) FROM jobq.jobs WHERE queue = %s", self.queue), 0)

    def test_many_in_one_statement(self):
        with self.assertNumQueries(1):
            rows = jobq.enqueue_jobs(connection, [tasks.charge.using(queue=self.queue).spec(n) for n in range(3)])
        self.assertEqual([self.row(row.job_id, "payload->'args'->>0")[0] for row in rows], ["0", "1", "2"])

    def test_a_task_is_still_a_function(self):
        order = Order.objects.create(name="a")
        self.assertEqual(tasks.charge(order.pk, amount=4), {"amount": 4})
        self.assertEqual(tasks.charge.__name__, "charge")

    def test_wrong_use_is_told(self):
        with self.assertRaisesMessage(TypeError, "unknown option colour of a task; the options are batch_id, concurrency_key, "):
            tasks.charge.using(colour=1)
        with self.assertRaisesMessage(ValueError, "duplicate task name 'flaky'"):
            task(lambda: None, name="flaky")
        with self.assertRaises(TypeError):
            tasks.charge.using(queue=self.queue).enqueue(object())
        with self.assertRaisesMessage(jobq.OptionError, """argument "requires" must be a list of texts; it is 'gpu'"""):
            tasks.charge.using(queue=self.queue, requires="gpu").enqueue(1)

        async def coroutine():
            pass

        with self.assertRaisesMessage(TypeError, "a task must be a plain function"):
            task(coroutine)

    def test_drain_runs_tasks_in_the_transaction_of_the_test(self):
        order = Order.objects.create(name="a")
        tasks.charge.using(queue=self.queue).enqueue(order.pk, amount=5)
        tasks.fail_first.using(queue=self.queue).enqueue(1)
        tasks.exact.using(queue=self.queue).enqueue("caught")
        ended = drain(self.queue)
        self.assertEqual([(one.job.kind, one.status) for one in ended],
                         [("shop.tasks.charge", "completed"), ("flaky", "scheduled"), ("shop.tasks.exact", "completed")])
        self.assertEqual(ended[0].result, {"amount": 5})
        order.refresh_from_db()
        self.assertEqual(order.charged, 5)
        self.assertEqual([one.status for one in drain(self.queue, now=datetime.now(timezone.utc) + timedelta(hours=2))], ["completed"])
        self.assertEqual(sorted(Order.objects.values_list("name", flat=True)), ["a", "attempt 2", "caught 1", "inner"])

    def test_nothing_of_other_tests_is_left(self):
        self.assertEqual(ask("SELECT count(*) FROM jobq.jobs WHERE kind = 'shop.tasks.charge' AND queue <> 'committed'"), 0)


class CommittedTest(TransactionTestCase):
    """Tests with transactions that commit, and with workers."""

    def setUp(self):
        self.queue = f"committed {uuid.uuid4().hex[:8]}"
        self.other = connection.copy()
        self.worker = None

    def tearDown(self):
        if self.worker is not None:
            self.worker.stop()
            self.worker.stop()
            self.assertTrue(self.worker.join(LIMIT))
        ask("SELECT jobq_drop_queue(%s, force => true)::text", self.queue)
        self.other.close()

    def work(self, **options):
        self.worker = make_worker(queue=self.queue, **options)
        self.worker.start()

    def becomes(self, expected, statement, *parameters):
        deadline = time.monotonic() + LIMIT
        while (value := ask(statement, *parameters, on=self.other)) != expected:
            self.assertLess(time.monotonic(), deadline, f"{statement} {parameters}: {value!r} instead of {expected!r}")
            time.sleep(0.02)

    def finish(self, job_id, status="completed"):
        self.becomes(status, "SELECT status::text FROM jobq.jobs WHERE id = %s", job_id)

    def count(self):
        return ask("SELECT count(*) FROM jobq.jobs WHERE queue = %s", self.queue, on=self.other)

    def enqueue(self, which, *args, **options):
        return which.using(queue=self.queue, **options).enqueue(*args)

    def test_a_job_commits_with_the_transaction(self):
        with transaction.atomic():
            self.enqueue(tasks.charge, 1)
            self.assertEqual(self.count(), 0)
        self.assertEqual(self.count(), 1)

    def test_a_job_rolls_back_with_the_transaction(self):
        with self.assertRaises(ZeroDivisionError), transaction.atomic():
            Order.objects.create(name="none")
            self.enqueue(tasks.charge, 1 / 0)
        with transaction.atomic():
            self.enqueue(tasks.charge, 1)
            transaction.set_rollback(True)
        self.assertEqual((self.count(), Order.objects.count()), (0, 0))

    def test_a_savepoint_takes_its_own_along(self):
        with transaction.atomic():
            self.enqueue(tasks.charge, 1)
            with self.assertRaises(ValueError), transaction.atomic():
                self.enqueue(tasks.charge, 2)
                raise ValueError
        self.assertEqual(self.count(), 1)

    def test_a_worker_calls_it(self):
        order = Order.objects.create(name="a")
        self.work()
        with transaction.atomic():
            job_id = self.enqueue(tasks.charge, order.pk)
        self.finish(job_id)
        order.refresh_from_db()
        self.assertEqual(order.charged, 1)
        self.assertEqual(ask("SELECT result::text FROM jobq.jobs WHERE id = %s", job_id), '{"amount": 1}')

    def test_an_error_is_a_failed_attempt_that_is_retried(self):
        seen = []
        with self.settings(JOBQ_ERROR_DETAILS=lambda details: {"class": details["class"]}, JOBQ_ON_ERROR=lambda error, job: seen.append(job.id)):
            self.work()
        job_id = self.enqueue(tasks.fail_first, 1)
        self.finish(job_id, "scheduled")
        self.assertEqual(ask("SELECT error || details::text FROM jobq.attempts WHERE job_id = %s", job_id), 'not yet{"class": "Fail"}')
        self.assertEqual(seen, [job_id])
        ask("SELECT jobq_reschedule(%s, now())::text", job_id)
        self.finish(job_id)
        self.assertEqual(list(Order.objects.order_by("name").values_list("name", flat=True)), ["attempt 1", "attempt 2"])

    def test_effect_and_completion_are_one_transaction(self):
        self.work()
        job_id = self.enqueue(tasks.exact, "go")
        self.finish(job_id)
        self.assertTrue(ask("SELECT o.xmin = j.xmin FROM shop_order o, jobq.jobs j WHERE j.id = %s", job_id))
        self.assertEqual(ask("SELECT result::text FROM jobq.jobs WHERE id = %s", job_id), '"go"')

    def test_an_error_rolls_the_effect_back(self):
        ask("SELECT jobq_create_queue(%s, backoff_base => '10 ms')::text", self.queue)
        self.work()
        job_id = self.enqueue(tasks.exact, "error")
        self.finish(job_id)
        self.assertEqual([order.name for order in Order.objects.all()], ["error 2"])
        self.assertEqual(ask("SELECT error FROM jobq.attempts WHERE job_id = %s", job_id), "ValueError: no")

    def test_a_task_whose_transaction_collides_is_released_without_counting_the_attempt(self):
        with connection.cursor() as cursor:
            cursor.execute("""CREATE FUNCTION collide() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
                                  RAISE 'in the way' USING ERRCODE = CASE NEW.charged % 2 WHEN 0 THEN '40P01' ELSE '40001' END;
                              END $$;
                              CREATE CONSTRAINT TRIGGER collide AFTER INSERT ON shop_order DEFERRABLE INITIALLY DEFERRED
                              FOR EACH ROW WHEN (NEW.charged > 0) EXECUTE FUNCTION collide()""")
            self.addCleanup(self.drop_collisions)
        self.work()
        for which, when in itertools.product((tasks.colliding, tasks.colliding_atomic), ("statement", "commit")):
            for times, status, calls, orders in ((4, "completed", 5, ["call 5"]), (1000, "failed", 11, [])):
                with self.subTest(task=which.name, when=when, status=status):
                    tasks.calls = 0
                    Order.objects.all().delete()
                    job_id = self.enqueue(which, times, when, max_attempts=1)
                    self.finish(job_id, status)
                    self.assertEqual(ask("SELECT attempts FROM jobq.jobs WHERE id = %s", job_id), 1)
                    self.assertEqual((tasks.calls, [order.name for order in Order.objects.all()]), (calls, orders))

    def drop_collisions(self):
        with connection.cursor() as cursor:
            cursor.execute("DROP FUNCTION collide CASCADE")

    def test_a_lost_lease_rolls_the_effect_back(self):
        self.work()
        job_id = self.enqueue(tasks.exact, "steal")
        self.finish(self.enqueue(tasks.exact, "after"))
        self.assertEqual([order.name for order in Order.objects.all()], ["after 1"])
        self.assertEqual(ask("SELECT worker_id FROM jobq.jobs WHERE id = %s", job_id), "thief")
        self.assertEqual(ask("SELECT count(*) FROM jobq.attempts WHERE job_id = %s AND outcome = 'failed'", job_id), 0)

    def test_a_broken_connection_is_replaced(self):
        self.work()
        broken = self.enqueue(tasks.break_connection, max_attempts=1)
        self.finish(broken, "failed")
        order = Order.objects.create(name="a")
        self.finish(self.enqueue(tasks.charge, order.pk))

    def test_a_cancelled_task_hears_of_it(self):
        self.work(heartbeat_interval=0.2)
        job_id = self.enqueue(tasks.patient)
        self.becomes('{"percent": 50}', "SELECT progress::text FROM jobq.jobs WHERE id = %s", job_id)
        ask("SELECT jobq_cancel(%s)::text", job_id)
        self.finish(job_id, "cancelled")

    def command(self, *arguments, queue=None):
        manage = str(Path(__file__).parent.parent / "manage.py")
        environment = {**os.environ, "TEST_DATABASE": connection.settings_dict["NAME"], "JOBQ_QUEUE": "of the environment"}
        return subprocess.Popen([sys.executable, "-W", "ignore", manage, "jobq_worker", *(queue or ("--queue", self.queue)), *arguments],
                                env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)

    def serve(self, process):
        """Waits until the command has completed a new job, ends it, and returns what it has printed."""
        try:
            self.finish(self.enqueue(tasks.charge, Order.objects.create(name="a").pk))
        finally:
            process.send_signal(signal.SIGTERM)
            said = process.communicate(timeout=LIMIT)[0].decode()
        self.assertEqual(process.returncode, 0, said)
        return said

    def test_the_command_works_until_term(self):
        self.assertIn("shop.tasks.charge", self.serve(self.command("--slots", "2", "--database", "default")))

    def test_the_command_serves_queues_and_patterns(self):
        for name, value in (("queues", [self.queue]), ("patterns", {self.queue[:-1] + "_": 2})):
            self.serve(self.command("--queue-order", "oldest", queue=(f"--{name}", json.dumps(value))))

    def test_killed_between_effect_and_commit(self):
        job_id = self.enqueue(tasks.killed, "before commit")
        process = self.command()
        process.communicate(timeout=LIMIT)
        self.assertEqual(process.returncode, -signal.SIGKILL)
        self.assertEqual(Order.objects.count(), 0)
        self.assertEqual(ask("SELECT status::text FROM jobq.jobs WHERE id = %s", job_id), "processing")
        self.becomes(0, """WITH silent AS (UPDATE jobq.jobs SET last_heartbeat = now() - interval '400 days'
                           WHERE queue = %s AND status = 'processing' RETURNING id), ticked AS (SELECT count(*) FROM jobq_tick())
                           SELECT count(*) FROM silent""", self.queue)
        self.work()
        self.finish(job_id)
        self.assertEqual([order.name for order in Order.objects.all()], ["killed 2"])

    def test_wrong_options_are_told(self):
        for arguments, says in ((["--slots", "0"], "slots"), (["--grace", "-1"], "grace"), (["--worker-id", "backend:1"], "worker_id"),
                                (["--database", "nope"], "'nope' doesn't exist"), (["--database", "lite"], "'lite' is not a PostgreSQL database"),
                                (["--queues", "[mails"], "--queues: must be JSON"), (["--patterns", '{"a": 0}'], "patterns")):
            process = self.command(*arguments)
            said = process.communicate(timeout=LIMIT)[0].decode()
            self.assertNotEqual(process.returncode, 0)
            self.assertIn(says, said)
            self.assertNotIn("Traceback", said)
