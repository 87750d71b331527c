"""Tests decisions that need no server: options, the outcome of an attempt, and the next tasks of each thread."""

import asyncio
import functools
import json
import threading
import time
import unittest
import unittest.mock
from datetime import datetime, timedelta, timezone
from decimal import Decimal, localcontext
from fractions import Fraction
from pathlib import Path
from types import SimpleNamespace

import jobq
from jobq import Cancelled, Fail, Lost, OptionError, Options, Release, Snooze, Stopping, Waiting, options_of_environment
from jobq import connect, core, outcome, statements, tracing
from jobq.cover import Cover, _Covering
from jobq.errors import is_lost_lease
from jobq.failures import MOST_BYTES, Failures, bounded
from jobq.hand import LAST_LOOK, LAST_REPORTS, Beat, Hand, Load
from jobq.job import BaseJob
from jobq.lines import MOST_LINES, Lines
from jobq.outcome import CANCELLED, COMPLETE, FAIL, NOTHING, RELEASE, SNOOZE, VERIFY, Outcome
from jobq.pace import Pace
from jobq.parameters import value_of
from jobq.testing import run_inline

import psycopg


class OptionsTest(unittest.TestCase):
    def test_wrong_values_name_their_option(self):
        for name, value in (("queue", ""), ("queue", "x" * 64), ("queue", 7), ("slots", 0), ("slots", 1001), ("slots", True), ("slots", "3"), ("prefetch", -1), ("prefetch", 1001),
                            ("batch", 0), ("worker_id", ""), ("worker_id", "backend:7"), ("heartbeat_timeout", 0), ("grace", -1),
                            ("grace", float("nan")), ("grace", None), ("wait_timeout", "soon"), ("versions", "1"), ("versions", [1, "2"]),
                            ("capabilities", "gpu"), ("poll_interval", 0), ("liveness_file", ""), ("liveness_port", 0),
                            ("liveness_port", True), ("liveness_port", "host"), ("liveness_port", "::1:80"), ("liveness_port", "h:65536"),
                            ("queues", "q"), ("queues", {"q": 0}), ("patterns", "%"), ("patterns", []), ("patterns", ["p" * 127]),
                            ("patterns", {"%": 0})):
            with self.subTest(name=name, value=value), self.assertRaisesRegex(OptionError, f'"{name}"'):
                Options(**{name: value})

    def test_errors_about_slots_name_the_queue(self):
        for name in ("queues", "patterns"):
            for slots in (0, 1001, 0.5, "3", True, None):
                with self.subTest(name=name, slots=slots), self.assertRaises(OptionError) as caught:
                    Options(**{name: {"a": 1, "b": slots}})
                self.assertEqual(str(caught.exception), f'''option "{name}" must have an integer from 1 to 1000 as the slots of 'b'; it has {slots!r}''')
            with self.assertRaisesRegex(OptionError, f'option "{name}" must have {name} that are texts of 1 to [0-9]+ bytes; it has 7'):
                Options(**{name: ["a", 7]})

    def test_a_pattern_that_ends_with_a_single_backslash_is_rejected(self):
        for pattern in ("x\\", "\\", "a\\\\\\"):
            for patterns in (["a%", pattern], {pattern: 1}):
                with self.subTest(patterns=patterns), self.assertRaises(OptionError) as caught:
                    Options(patterns=patterns)
                self.assertEqual(str(caught.exception),
                                 f'option "patterns" must not have a pattern that ends with a single backslash; it has {pattern!r}')
        Options(patterns=["a\\\\", "\\%\n"], queues=["x\\"])

    def test_environment(self):
        found = options_of_environment({"JOBQ_QUEUE": "q", "JOBQ_SLOTS": "3", "JOBQ_GRACE": "1.5", "JOBQ_BATCH": "", "SLOTS": "9"})
        self.assertEqual(found, {"queue": "q", "slots": 3, "grace": 1.5})
        for name, text in (("SLOTS", "many"), ("SLOTS", "1e3"), ("SLOTS", "0"), ("GRACE", "soon"), ("GRACE", "-1"), ("GRACE", "nan"),
                           ("GRACE", "31536001"), ("HEARTBEAT_TIMEOUT", "0.009"), ("HEARTBEAT_INTERVAL", "0"),
                           ("POLL_INTERVAL", "0.0099"), ("QUEUE", "x" * 64), ("WORKER_ID", "backend:7")):
            with self.subTest(name=name, text=text), self.assertRaisesRegex(OptionError, rf'"{name.lower()}" \(JOBQ_{name}\)'):
                options_of_environment({f"JOBQ_{name}": text})
        self.assertEqual(options_of_environment({"JOBQ_HEARTBEAT_TIMEOUT": "0.01"}), {"heartbeat_timeout": 0.01})

    def test_batch_is_never_more_than_slots(self):
        self.assertEqual(Options(slots=4, batch=9).most_claimed, 4)
        self.assertEqual(Options(slots=4, batch=2).most_claimed, 2)

    def test_names_of_workers_differ(self):
        self.assertNotEqual(Options().worker_id, Options().worker_id)

    def test_liveness(self):
        self.assertEqual(options_of_environment({"JOBQ_LIVENESS_FILE": "/tmp/alive", "JOBQ_LIVENESS_PORT": "8080"}),
                         {"liveness_file": "/tmp/alive", "liveness_port": "8080"})
        self.assertEqual(Options(liveness_file=Path("/tmp/alive")).liveness_file, "/tmp/alive")
        for port, address in ((8080, ("", 8080)), ("8080", ("", 8080)), ("127.0.0.1:80", ("127.0.0.1", 80)), ("[::1]:80", ("::1", 80))):
            self.assertEqual(Options(liveness_port=port).liveness_address, address)

    def test_timedelta(self):
        self.assertEqual(Options(grace=timedelta(minutes=1)).grace, 60.0)


class CoverTest(unittest.TestCase):
    def setUp(self):
        self.cover = Cover(2, {"dbname": "test", "row_factory": object})
        self.covering = _Covering(self.cover._file.fileno(), {})

    def test_it_sends_heartbeats_that_are_half_an_interval_late(self):
        self.cover.hold(7, 70, 10.0, 100.0)
        self.assertEqual(self.covering.late(114.9), [])
        self.assertEqual(self.covering.late(115.0), [(7, 70)])
        self.cover.beaten([70, 71], 110.0)
        self.assertEqual(self.covering.late(115.0), [])

    def test_it_sends_one_per_interval_until_the_worker_sends_them_again(self):
        self.cover.hold(7, 70, 10.0, 100.0)
        self.covering.last[70] = 115.0
        self.assertEqual(self.covering.late(124.9), [])
        self.assertEqual(self.covering.late(125.0), [(7, 70)])
        self.cover.beaten([70], 126.0)
        self.assertEqual(self.covering.late(140.0), [])
        self.assertEqual(self.covering.late(141.0), [(7, 70)])

    def test_a_reported_job_gets_no_heartbeats_and_frees_its_entry(self):
        for lease in (70, 80, 90):   # only two free slots
            self.cover.hold(lease // 10, lease, 10.0, 100.0)
        self.assertCountEqual(self.covering.late(200.0), [(7, 70), (8, 80)])
        self.cover.drop(70)
        self.cover.drop(90)
        self.assertEqual(self.covering.late(200.0), [(8, 80)])
        self.cover.hold(10, 100, 10.0, 100.0)
        self.assertCountEqual(self.covering.late(200.0), [(10, 100), (8, 80)])


class PaceTest(unittest.TestCase):
    def setUp(self):
        self.now = 0.0
        self.pace = Pace(lambda: self.now)
        self.pace.pooled = True

    def test_an_answer_is_late_after_a_quarter_of_the_heartbeat_interval(self):
        for interval, limit in ((None, 1.0), (100.0, 1.0), (2.0, 0.5), (0.1, 0.25)):
            self.assertFalse(self.pace.is_late(limit, lambda: interval))
            self.assertTrue(self.pace.is_late(limit + 0.01, lambda: interval))

    def test_without_a_pooler_no_answer_is_late(self):
        self.pace.pooled = False
        self.assertFalse(self.pace.is_late(60.0, lambda: 1.0))

    def test_it_polls_until_no_answer_has_been_late_for_a_minute(self):
        self.assertIsNone(self.pace.longest_poll)
        self.assertTrue(self.pace.late())
        self.assertEqual(self.pace.longest_poll, 1.0)
        self.now = 59.0
        self.assertFalse(self.pace.calmed())
        self.assertFalse(self.pace.late())
        self.now = 118.0
        self.assertFalse(self.pace.calmed())
        self.now = 180.0
        self.assertTrue(self.pace.calmed())
        self.assertIsNone(self.pace.longest_poll)
        self.assertFalse(self.pace.calmed())


class Index:
    """Behaves like an integer type of another library."""

    def __init__(self, value):
        self.value = value

    def __index__(self):
        return self.value


class ProducerTest(unittest.TestCase):
    """Checks arguments before anything is sent: there is no connection."""

    def refused(self, name, value, shown, call, *arguments, **options):
        with self.subTest(name=name, value=value):
            with self.assertRaisesRegex(OptionError, f'argument "{name}" must be .*') as caught:
                made = call(None, *arguments, **options)
                if asyncio.iscoroutine(made):
                    asyncio.run(made)
            self.assertIn(shown, str(caught.exception))
            self.assertNotIn("secret", str(caught.exception))

    def test_values_that_are_not_lists_are_rejected(self):
        for value in ("12", b"12", bytearray(b"12"), {"12": 1}, 12):
            for name in ("requires", "depends_on"):
                for call in (jobq.enqueue, jobq.aenqueue):
                    self.refused(name, value, repr(value), call, "q", **{name: value})
                for call in (jobq.enqueue_jobs, jobq.aenqueue_jobs):
                    self.refused(name, value, repr(value), call, [{"queue": "q", name: value}])
            for name in ("unique_keys", "group_keys", "concurrency_keys", "run_ats", "priorities"):
                for call in (jobq.enqueue_many, jobq.aenqueue_many):
                    self.refused(name, value, repr(value), call, "q", [1, 2], **{name: value})

    def test_errors_about_payloads_and_specs_do_not_show_them(self):
        for value in ("secret", b"secret", {"secret": 1}, None):
            for call in (jobq.enqueue_many, jobq.aenqueue_many):
                self.refused("payloads", value, f"is of type {type(value).__name__}", call, "q", value)
            for call in (jobq.enqueue_jobs, jobq.aenqueue_jobs):
                self.refused("specs", value, f"is of type {type(value).__name__}", call, value)
                if not isinstance(value, dict):
                    self.refused("specs", [value], f"has one of type {type(value).__name__}", call, [{}, value])
        with self.assertRaisesRegex(OptionError, "specs"):
            make_job(1)._spawn("parts", {"queue": "q"})
        with self.assertRaisesRegex(OptionError, "specs"):
            run_inline(lambda job: job.spawn("parts", {"queue": "q"}))

    def test_values_that_are_not_integers_are_rejected(self):
        for value in (1.5, 2.0, float("nan"), True, Decimal("1.5"), Fraction(3, 2), b"1", [1]):
            for name in ("priority", "max_attempts", "version"):
                for call in (jobq.enqueue, jobq.aenqueue):
                    self.refused(name, value, repr(value), call, "q", **{name: value})
                self.refused(name, value, repr(value), jobq.enqueue_jobs, [{name: value}])
            self.refused("depends_on", value, repr(value), jobq.enqueue, "q", depends_on=[25, value])
            self.refused("depends_on", value, repr(value), jobq.enqueue_jobs, [{"depends_on": [25, value]}])
            self.refused("priorities", value, repr(value), jobq.enqueue_many, "q", [1, 2], priorities=[1, value])
        for ids in ("12", [1.5], {1: 2}, 12):
            with self.subTest(ids=ids), self.assertRaisesRegex(OptionError, "ids"):
                make_job(1)._await_jobs(ids, "parts", "all", None)

    def test_values_that_are_not_ids_are_rejected(self):
        for value in ("x", "", "1.5", "-1", 1.5, -1, 2**63, True, [1], {}, b"1", None):
            for call in (jobq.seal_batch, jobq.aseal_batch, jobq.get_batch, jobq.aget_batch):
                self.refused("batch_id", value, f"must be an ID; it is {value!r}", call, value)
            if value is not None:   # None means no batch
                for call in (jobq.enqueue, jobq.aenqueue):
                    self.refused("batch_id", value, f"must be an ID; it is {value!r}", call, "q", batch_id=value)
            self.refused("depends_on", value, f"must be a list of IDs; it has {value!r}", jobq.enqueue, "q", depends_on=[25, value])
            with self.subTest(value=value), self.assertRaisesRegex(OptionError, 'argument "ids" must be a list of IDs; it has '):
                make_job(1)._await_jobs([25, value], "parts", "all", None)

    def test_callbacks_that_are_not_dicts_are_rejected(self):
        for value in ("secret", ["secret"], [{"queue": "secret"}], 5):
            shown = f"is of type {type(value).__name__}"
            for call in (jobq.create_batch, jobq.acreate_batch):
                for name in ("on_complete", "on_success", "on_failure"):
                    self.refused(name, value, f"must be a dict; it {shown}", call, "b", **{name: value})
                if value != "secret":
                    self.refused("name", value, shown, call, value)

    def test_values_that_are_not_times_are_rejected(self):
        for value in (float("inf"), float("nan"), 1e300, True, b"5", [5]):
            for name in ("max_runtime", "heartbeat_timeout", "unique_for"):
                self.refused(name, value, repr(value), jobq.enqueue, "q", **{name: value})
                self.refused(name, value, repr(value), jobq.enqueue_jobs, [{name: value}])
        with self.assertRaisesRegex(OptionError, "timeout"):
            make_job(1)._await("delivered", float("inf"), None)

    def test_a_time_without_a_zone_is_rejected(self):
        for value in (datetime(2035, 1, 2), datetime(2035, 1, 2).date(), 2051222400, 0, True):
            for call in (jobq.enqueue, jobq.aenqueue):
                self.refused("run_at", value, repr(value), call, "q", run_at=value)
            self.refused("run_at", value, repr(value), jobq.enqueue_jobs, [{"run_at": value}])
            self.refused("run_ats", value, repr(value), jobq.enqueue_many, "q", [1, 2], run_ats=[None, value])
            with self.subTest(value=value), self.assertRaisesRegex(OptionError, "until"):
                make_job(1)._sleep("night", None, value)

    def test_an_object_instead_of_the_queue_is_rejected(self):
        for value in ({"queue": "q", "payload": "secret"}, None, 5, ["secret"]):
            shown = f"is of type {type(value).__name__}"
            for call in (jobq.enqueue, jobq.aenqueue):
                self.refused("queue", value, shown, call, value)
            for call in (jobq.enqueue_many, jobq.aenqueue_many):
                self.refused("queue", value, shown, call, value, [1])
            if value is not None:   # a spec without a queue uses the default queue
                self.refused("queue", value, shown, jobq.enqueue_jobs, [{"queue": value}])

    def test_valid_values_are_accepted(self):
        when = datetime(2035, 1, 2, tzinfo=timezone.utc)
        for name, value, expected in (
                ("depends_on", (1, "12", Index(7)), [1, "12", 7]), ("depends_on", {1: 2}.keys(), [1]), ("depends_on", iter([1]), [1]),
                ("priority", Index(-3), -3), ("priority", "5", "5"), ("priorities", range(2), [0, 1]), ("priorities", [None], [None]),
                ("requires", {"gpu"}, ["gpu"]), ("unique_keys", ("a", None), ["a", None]), ("run_ats", (when,), [when]), ("run_at", when, when),
                ("max_runtime", "2 h", "2 h"), ("max_runtime", Decimal("1.5"), timedelta(seconds=1.5)), ("kind", "x", "x")):
            with self.subTest(name=name, value=value):
                self.assertEqual(value_of(name, value), expected)
        self.assertEqual(type(value_of("priority", Index(3))), int)
        self.assertEqual(statements.specs_as_json([{"queue": "q", "depends_on": ["@a", Index(3)], "priority": None, "payload": 1.5}]),
                         '[{"queue":"q","depends_on":["@a",3],"payload":1.5}]')


class HandlerTest(unittest.TestCase):
    def test_a_worker_with_threads_rejects_coroutine_functions(self):
        async def handler(job):
            pass

        async def other(job, more):
            pass

        class Callable:
            async def __call__(self, job):
                pass

            async def method(self, job):
                pass

        for wrong in (handler, functools.partial(other, more=1), functools.partial(Callable()), Callable(), Callable().method, None, "handler"):
            with self.subTest(wrong=wrong):
                with self.assertRaisesRegex(OptionError, "the handler of kind 'x' must be "):
                    jobq.Worker("q", {"x": wrong})
                with self.assertRaisesRegex(OptionError, "the handler of kind 'x' must be "):
                    jobq.Worker("q").handler("x")(wrong)
        for right in (handler, functools.partial(other, more=1), Callable(), Callable().method, print, lambda job: handler(job)):
            with self.subTest(right=right):
                self.assertIs(jobq.AsyncWorker("q").handler("x")(right), right)
        self.assertEqual(list(jobq.Worker("q", {"a": print, "b": lambda job: handler(job)}).handlers), ["a", "b"])
        with self.assertRaisesRegex(OptionError, "the handler of kind 'x' must be a function"):
            jobq.AsyncWorker("q", {"x": 7})

    def test_a_returned_coroutine_that_is_not_awaited_is_a_failure(self):
        async def handler(job):
            pass

        made = []
        with self.assertRaisesRegex(Fail, "the handler of kind 'x' has returned a coroutine, which only an AsyncWorker awaits") as caught:
            run_inline(lambda job: made.append(handler(job)) or made[0], kind="x")
        self.assertTrue(caught.exception.retry)   # because the next deployment may fix the handler
        self.assertRaises(RuntimeError, made[0].send, None)   # the coroutine has been closed


class OutcomeTest(unittest.TestCase):
    def test_results(self):
        self.assertEqual(outcome.of_return(None, None), Outcome(COMPLETE))
        self.assertEqual(outcome.of_return({"a": "\u00e9"}, None), Outcome(COMPLETE, result='{"a":"\u00e9"}'))
        self.assertEqual(outcome.of_return(1, "completed"), Outcome(NOTHING, "completed"))
        self.assertEqual(outcome.of_return(1, VERIFY).what, VERIFY)

    def test_a_result_that_is_not_valid_json_fails(self):
        circle = []
        circle.append(circle)
        for value in (object(), float("nan"), {1, 2}, circle, "\ud800", {"\udcff": 1}):
            self.assertEqual(outcome.of_return(value, None).what, FAIL)
        with self.assertRaises(ValueError):
            make_job(1).set_progress("\ud800")

    def test_delays_that_cannot_be_sent_are_errors_of_the_handler(self):
        for delay in (float("nan"), float("inf"), -float("inf"), 1e300, 10 ** 400, Decimal("nan"), Decimal("1e300"), 1j, b"5", [5], object()):
            with self.subTest(delay=delay):
                with self.assertRaisesRegex(ValueError, "delay"):
                    Snooze(delay)
                with self.assertRaisesRegex(ValueError, "retry_in"):
                    Fail("no", retry_in=delay)
        self.assertEqual([Snooze(delay).delay for delay in (0, 1.5, timedelta(days=1), "1 h")], [0, 1.5, timedelta(days=1), "1 h"])
        for delay in (Decimal("1.5"), Fraction(3, 2)):   # SQL numeric, and number types of other libraries
            self.assertEqual(statements.interval(Snooze(delay).delay), timedelta(seconds=1.5))
            self.assertEqual(statements.interval(Fail("no", retry_in=delay).retry_in), timedelta(seconds=1.5))

    def test_an_unreadable_payload_fails_only_its_own_job(self):
        for text in ("[" * 100000 + "]" * 100000, "7" * 100000, '"'):
            with self.subTest(text=text[:10]), self.assertRaisesRegex(ValueError, "the job's payload cannot be read: "):
                make_job(1, payload=statements.read_json(text)).must_be_readable()
        make_job(1, payload=statements.read_json('{"a": [1]}')).must_be_readable()

    def test_errors(self):
        for error, reason, expected in (
                (ValueError("no"), None, Outcome(FAIL, "ValueError: no")),
                (ValueError("a\0b\udcff"), None, Outcome(FAIL, "ValueError: a\\0b?")),
                (KeyError(), None, Outcome(FAIL, "KeyError")),
                (ValueError("no"), "lost", Outcome(NOTHING, "lost")),
                (Fail("x", retry_in=3, retry=False), None, Outcome(FAIL, "x", retry_in=3, retry=False)),
                (Snooze(5), None, Outcome(SNOOZE, retry_in=5)),
                (Release(), None, Outcome(RELEASE)),
                (Cancelled(), "cancel", Outcome(FAIL, "cancelled")),
                (Lost(), "lost", Outcome(NOTHING, "lost")),
                (Stopping(), "stopping", Outcome(RELEASE)),
                (asyncio.CancelledError(), "cancel", Outcome(FAIL, "cancelled")),
                (asyncio.CancelledError(), "stopping", Outcome(RELEASE)),
                (asyncio.CancelledError(), None, Outcome(RELEASE)),
                (Waiting(), None, Outcome(NOTHING, "waiting"))):
            with self.subTest(error=repr(error), reason=reason):
                self.assertEqual(outcome.of_error(error, reason, None), expected)

    def test_a_completion_in_its_own_transaction_is_checked(self):
        self.assertEqual(outcome.of_error(ValueError("later"), None, VERIFY), Outcome(VERIFY, "ValueError: later"))

    def test_a_completion_whose_answer_is_lost_is_checked(self):
        lost, wrapped = psycopg.OperationalError("server closed the connection"), Exception("of an ORM")
        wrapped.__cause__ = lost
        for error, expected in ((lost, VERIFY), (wrapped, VERIFY), (psycopg.errors.UniqueViolation("twice"), None),
                                (psycopg.errors.QueryCanceled("late"), None), (ValueError("no"), None)):
            with self.subTest(error=repr(error)):
                job = make_job(1)
                with self.assertRaises(type(error)), job._completed_in():
                    raise error
                self.assertEqual(job.ended, expected)
                job = make_job(1)
                with self.assertRaises(type(error)), job._completed_with(None):
                    with job._completed_in():
                        pass
                    raise error   # raised by the commit
                self.assertEqual(job.ended, expected)
        job = make_job(1)
        with self.assertRaises(psycopg.OperationalError), job._completed_with(None):
            raise lost   # raised before a statement was sent
        self.assertIsNone(job.ended)

    def test_lost_lease_of_an_orm(self):
        class Wrapped(Exception):
            pass

        inner = type("E", (Exception,), {"sqlstate": "JQ001"})()
        outer = Wrapped()
        outer.__cause__ = inner
        self.assertTrue(is_lost_lease(inner))
        self.assertTrue(is_lost_lease(outer))
        self.assertFalse(is_lost_lease(Wrapped()))


class ConnectTest(unittest.TestCase):
    def test_which_errors_require_a_new_connection(self):
        self.assertTrue(connect.is_broken(psycopg.OperationalError("server closed the connection")))
        self.assertTrue(connect.is_broken(psycopg.errors.AdminShutdown()))
        self.assertTrue(connect.is_broken(psycopg.errors.ReadOnlySqlTransaction()))
        self.assertFalse(connect.is_broken(psycopg.errors.InsufficientPrivilege()))
        self.assertFalse(connect.is_broken(psycopg.DataError("cannot adapt")))
        self.assertFalse(connect.is_broken(ValueError()))
        self.assertTrue(connect.is_again(psycopg.errors.SerializationFailure()))

    def test_parameters_of_the_caller_take_precedence(self):
        made = connect.arguments("host=here connect_timeout=3", {"prepare_threshold": 5}, "x" * 100)
        self.assertNotIn("connect_timeout", made)
        self.assertEqual(made["prepare_threshold"], 5)
        self.assertEqual(len(made["fallback_application_name"]), 63)

    def test_pauses_double(self):
        pause = connect.Pause()
        taken = [pause.take() for _ in range(10)]
        self.assertLessEqual(taken[0], 0.1)
        self.assertTrue(2.5 <= taken[-1] <= 5)


class LineTest(unittest.TestCase):
    def setUp(self):
        self.rests = []
        hand = SimpleNamespace(stopping=lambda: False, rest=self.rests.append, expect=lambda thread, seconds: None)
        self.core = SimpleNamespace(options=Options(), conninfo="", connect_options={}, hand=hand, answered=lambda seconds: None)
        self.core.arguments = lambda: core.Core.arguments(self.core)
        self.line = core._Line(self.core, "claims")

    def test_pauses_double_until_a_statement_succeeds(self):
        with unittest.mock.patch.object(psycopg, "connect"):
            for _ in range(8):   # like a standby, which accepts connections but rejects the statements
                self.line.reconnect()
                self.line.close()
            self.assertTrue(2.5 <= self.rests[-1] <= 5, self.rests)
            self.line.all("SELECT", ())
            self.line.reconnect()
            self.assertLessEqual(self.rests[-1], 0.1)

    def test_a_conninfo_function_that_fails_is_called_again(self):
        self.core.conninfo = unittest.mock.Mock(side_effect=OSError("the keeper of passwords is away"))
        with self.assertRaises(OSError):   # the first connection must work, so this is an error
            self.line.open()
        self.line.opened = 1
        with self.assertLogs("jobq", "WARNING") as logs, self.assertRaises(core.Broken):
            self.line.open()
        self.assertIn("keeper of passwords", logs.output[0])


class ClaimTest(unittest.TestCase):
    def test_it_pauses_while_it_collides_and_continues(self):
        """The same for a claim, a claim with completions, and a wait."""
        made = core.Core(Options(slots=2), ["x"], "", {}, lambda row: None, lambda job: None)
        rests, sent = [], []
        made.hand.rest = rests.append

        def refuse(statement, parameters):
            sent.append(statement)
            if statement == statements.CLAIM and len(sent) > 8:
                if len(sent) > 12:
                    made.hand.stop()
                return [{"jobs": "[]"}]
            raise psycopg.errors.SerializationFailure() if len(sent) < 12 else psycopg.errors.DeadlockDetected()

        serialization, deadlock = psycopg.errors.SerializationFailure, psycopg.errors.DeadlockDetected
        with unittest.mock.patch.object(serialization, "sqlstate", "40001"), unittest.mock.patch.object(deadlock, "sqlstate", "40P01"), \
                unittest.mock.patch.object(made._claims, "all", refuse), self.assertLogs("jobq", "WARNING"):
            made._claim_until_stopped()
        self.assertIn(statements.WAIT, sent)
        self.assertEqual(len(rests), sum(statement == statements.WAIT for statement in sent) + 8)
        self.assertLessEqual(rests[0], 0.1)
        self.assertTrue(2.5 <= rests[7] <= 5, rests)


class FailuresTest(unittest.TestCase):
    FAILED = Outcome(FAIL, "ValueError: no")

    def ended(self, error, failures, ended=FAILED):
        return failures.ended(make_job(7), ended, error)

    def raised(self, text="no"):
        try:
            raise ValueError(text)
        except ValueError as error:
            return error

    def test_details_are_the_class_and_the_stack_trace(self):
        details = json.loads(self.ended(self.raised(), Failures()).details)
        self.assertEqual(details["class"], "ValueError")
        self.assertRegex(details["stack"], r"(?s)^Traceback.*in raised.*ValueError: no\n$")
        self.assertIsNone(self.ended(self.raised(), Failures(error_details=False)).details)

    def test_only_failed_attempts_have_details_and_call_the_hook(self):
        seen = []
        failures = Failures(on_error=lambda error, job: seen.append((job.id, error)))
        for error, came in ((Cancelled(), Outcome(FAIL, "cancelled")), (asyncio.CancelledError(), Outcome(FAIL, "cancelled")),
                            (Snooze(1), Outcome(SNOOZE, retry_in=1)), (Lost(), Outcome(NOTHING, "lost")), (None, Outcome(COMPLETE)),
                            (None, Outcome(VERIFY)), (self.raised(), Outcome(RELEASE, collision=True))):
            self.assertEqual(self.ended(error, failures, came), came)
        self.assertEqual(seen, [])
        error = self.raised()
        for came in (self.FAILED, Outcome(VERIFY, "ValueError: no")):
            self.assertIn("Traceback", self.ended(error, failures, came).details)
        self.assertEqual(seen, [(7, error), (7, error)])
        self.assertEqual(json.loads(self.ended(None, failures, outcome.of_return(object(), None)).details)["class"], "ValueError")

    def test_a_filter_changes_or_removes_the_details(self):
        def without_secrets(details):
            return {**details, "stack": details["stack"].replace("hunter2", "***"), "host": "web-1"}
        details = json.loads(self.ended(self.raised("hunter2"), Failures(error_details=without_secrets)).details)
        self.assertNotIn("hunter2", details["stack"])
        self.assertEqual(details["host"], "web-1")
        self.assertIsNone(self.ended(self.raised(), Failures(error_details=lambda details: None)).details)

    def test_an_error_in_the_filter_or_the_hook_does_not_change_the_report(self):
        def fails(*_):
            raise SystemExit("broken")
        for given, name in ((fails, "error_details"), (lambda details: "text", "error_details"), (lambda details: {"a": {1}}, "error_details"),
                            (lambda details: {"a": [0] * MOST_BYTES}, "error_details")):
            with self.subTest(given), self.assertLogs("jobq", "ERROR") as logs:
                self.assertEqual(self.ended(self.raised(), Failures(error_details=given)), self.FAILED)
            self.assertIn(f"job 7 of kind 'k': {name} has failed: ", logs.output[0])
        with self.assertLogs("jobq", "ERROR") as logs:
            self.assertIsNotNone(self.ended(self.raised(), Failures(on_error=fails)).details)
        self.assertIn("on_error has failed: SystemExit: broken", logs.output[0])

    def test_details_are_bounded(self):
        for character in "x", "\n", "\x01", "\u20ac", "\U0001f600", "\0", "\ud800", '"':
            with self.subTest(character):
                text = bounded({"class": character * 100000, "stack": "begins" + character * 100000 + "ends"})
                self.assertLessEqual(len(text.encode()), MOST_BYTES)
                stack = json.loads(text)["stack"]
                self.assertTrue(stack.startswith("begins") and stack.endswith("ends"), stack)
                self.assertRegex(stack, r"\n\.\.\. \d+ characters left out \.\.\.\n")
        self.assertEqual(json.loads(bounded({"stack": "x" * 12288}))["stack"], "x" * 12288)

    def test_wrong_options_are_rejected(self):
        async def coroutine(error, job):
            pass
        for options in ({"error_details": "yes"}, {"error_details": None}, {"on_error": 1}, {"on_error": coroutine}):
            with self.subTest(options), self.assertRaisesRegex(OptionError, f'"{next(iter(options))}"'):
                jobq.Worker(**options)

    def test_rejected_details_do_not_prevent_the_failure(self):
        failed = Outcome(FAIL, "no \u20ac", retry_in=3, details='{"class":"\u20ac"}')
        untranslatable = type("E", (Exception,), {"sqlstate": "22P05"})()
        in_ascii = outcome.after_refusal(failed, untranslatable)
        self.assertEqual((in_ascii.text, in_ascii.details), ("no ?", '{"class":"?"}'))
        self.assertEqual(outcome.after_refusal(in_ascii, untranslatable), Outcome(FAIL, "no ?", retry_in=3))
        self.assertEqual(outcome.after_refusal(failed, ValueError()), Outcome(FAIL, "no \u20ac", retry_in=3))


class BeatTest(unittest.TestCase):
    def setUp(self):
        self.core = core.Core(Options(), ["x"], "", {}, lambda row: None, lambda job: None)

    def test_a_report_that_cannot_be_sent_is_a_failed_attempt(self):
        job, sent = make_job(1), []

        def send(statement, parameters):
            sent.append((statement, parameters))
            return [{"jobq_fail": "scheduled"}]

        with unittest.mock.patch.object(self.core._beats, "all", send), self.assertLogs("jobq", "ERROR") as logs:
            self.core._report_alone(job, Outcome(SNOOZE, retry_in=object()))
        self.assertIn("the report of job 1 was refused", logs.output[0])
        [(statement, parameters)] = sent
        self.assertEqual(statement, statements.FAIL)
        self.assertRegex(parameters[2], "^the snooze was refused: OptionError: ")

    def broken_by(self, call, *statements_that_break):
        """Returns the statements that are sent until one of these breaks the connection."""
        sent = []

        def send(statement, parameters):
            sent.append((statement, parameters))
            if statement in statements_that_break:
                raise core.Broken()
            return [{"state": "held"} for _ in parameters[0]]

        with unittest.mock.patch.object(self.core._beats, "all", send), self.assertRaises(core.Broken):
            call()
        return sent

    def test_progress_that_cannot_be_sent_does_not_delay_other_heartbeats(self):
        first, second = make_job(1), make_job(2)
        for job in (first, second):
            self.core.hand.claimed(job)
        first.set_progress(1)
        sent = self.broken_by(lambda: self.core._heartbeat(Beat(jobs=[first, second], progress=[first])), statements.HEARTBEAT)
        self.assertEqual(sent, [(statements.HEARTBEAT_MANY, ([1, 2], [1, 2], self.core.presence.now)), (statements.HEARTBEAT, (1, 1, "1"))])
        self.assertTrue(first.progress_is_new)

    def test_a_report_that_cannot_be_sent_does_not_delay_other_heartbeats(self):
        ended, running = make_job(1), make_job(2)
        self.core.hand.claimed(running)
        beat = Beat(reports=[(ended, Outcome(FAIL, "no"))], jobs=[running])
        sent = self.broken_by(lambda: self.core._do(beat), statements.FAIL)
        self.assertEqual([statement for statement, _ in sent], [statements.FAIL, statements.HEARTBEAT_MANY])
        self.assertEqual(beat.reports, [(ended, Outcome(FAIL, "no"))])

    def test_progress_does_not_wait_for_a_slow_commit_of_a_step(self):
        job, sent = make_job(1), []
        job.set_progress(1)
        job._step_done("late", 1)

        def send(statement, parameters):
            sent.append(statement)
            return [{"released": True, "jobq_heartbeat": "held"}]

        with unittest.mock.patch.object(self.core._beats, "all", send):
            self.core._report_alone(job, Outcome(RELEASE, alone=True))
        self.assertEqual(sent, [statements.RELEASE_BRIEFLY])

    def test_rejected_log_lines_do_not_affect_the_report(self):
        job, sent = make_job(1), []
        job.log("line")

        def send(statement, parameters):
            sent.append(statement)
            if statement == statements.WRITE_LOG:
                raise psycopg.errors.InsufficientPrivilege("no")
            return [{"jobq_fail": "failed"}]

        with unittest.mock.patch.object(self.core._beats, "all", send), self.assertLogs("jobq", "ERROR"):
            self.core._report_alone(job, Outcome(FAIL, "no"))
        self.assertEqual(sent, [statements.WRITE_LOG, statements.FAIL])
        self.assertFalse(job.lines.pending)

    def test_an_older_server_gets_failures_without_details(self):
        sent = []

        def send(statement, parameters):
            sent.append((statement, len(parameters)))
            if statement == statements.FAIL:
                raise psycopg.errors.UndefinedFunction("function jobq_fail(...) does not exist")
            return [{"jobq_fail": "failed"}]

        with unittest.mock.patch.object(self.core._beats, "all", send), self.assertLogs("jobq", "WARNING") as logs:
            for number in (1, 2):
                self.core._report_alone(make_job(number), Outcome(FAIL, "no", details="{}"))
        self.assertEqual(sent, [(statements.FAIL, 6), (statements.FAIL_WITHOUT_DETAILS, 5), (statements.FAIL_WITHOUT_DETAILS, 5)])
        self.assertEqual(len(logs.output), 1)
        self.assertIn("failures are reported without details", logs.output[0])

    def test_log_lines_are_sent_again_after_the_connection_broke(self):
        job = make_job(1)
        self.core.hand.claimed(job)
        job.log("line")
        self.broken_by(lambda: self.core._heartbeat(Beat(lines=[job])), statements.WRITE_LOG)
        self.assertEqual([line.text for line in job.lines.take()], ["line"])

    def test_no_claims_without_heartbeats(self):
        error = RuntimeError("of whatever kind")
        with unittest.mock.patch.object(self.core.hand, "next_beat", side_effect=error), self.assertLogs("jobq", "ERROR"):
            self.core._beat_all()
        self.assertIs(self.core.error, error)
        self.assertTrue(self.core.over.is_set())
        self.assertIsNone(self.core.hand.next_claim())


class TracingTest(unittest.TestCase):
    def test_keys_of_the_caller_take_precedence(self):
        carrier = {"traceparent": "00-1-1-01"}
        self.assertEqual(tracing.with_context(None, carrier), carrier)
        self.assertEqual(tracing.with_context({"order": 1}, carrier), {"order": 1, **carrier})
        self.assertEqual(tracing.with_context({"traceparent": "mine"}, carrier), {"traceparent": "mine"})
        self.assertIsNone(tracing.with_context(None, {}))
        self.assertEqual(tracing.with_context([1], carrier), [1])

    def test_an_invalid_context_is_ignored(self):
        self.assertEqual(tracing.context_of({"traceparent": 7, "tracestate": "a=b", "order": 1}), {"tracestate": "a=b"})
        self.assertEqual(tracing.context_of(["traceparent"]), {})


class TimeTest(unittest.TestCase):
    def test_seconds_since_1970(self):
        for seconds, expected in (("0", "1970-01-01T00:00:00+00:00"), ("1922778296.000001", "2030-12-06T09:04:56.000001+00:00"),
                                  ("-0.5", "1969-12-31T23:59:59.500000+00:00"), ("-63537091200.000000", "0001-01-01T00:00:00+00:00"),
                                  ("9224318015999.999999", "9999-12-31T23:59:59.999999+00:00")):
            self.assertEqual(statements.time_of(Decimal(seconds)).isoformat(), expected)
            with localcontext() as context:
                context.prec = 6
                self.assertEqual(statements.time_of(Decimal(seconds)).isoformat(), expected)


def make_job(lease, heartbeat_seconds=20, payload=None, queue="q"):
    now = time.time()
    return BaseJob(dict(id=lease, lease=lease, queue=queue, kind="k", payload=payload, attempt=1, max_attempts=20, priority=0, version=0,
                        run_at=now, created_at=now, progress=None, metadata=None, heartbeat_seconds=heartbeat_seconds))


class LinesTest(unittest.TestCase):
    def test_lines_are_text_that_the_server_accepts(self):
        lines = Lines()
        lines.add("a\0b \ud800", "error")
        lines.add("x" * 10000, "debug")
        lines.add(7, "info")
        lines.add("x" + "\u20ac" * 10000, "info")   # a character of three bytes; the limit counts bytes
        taken = lines.take()
        self.assertEqual([line.text for line in taken], ["a\\0b ?", "x" * 8192, "7", "x" + "\u20ac" * 2730])
        with self.assertRaisesRegex(ValueError, "one of debug, info, warning, error, not 'fatal'"):
            lines.add("no", "fatal")

    def test_lines_that_do_not_fit_are_counted(self):
        lines = Lines()
        for number in range(MOST_LINES + 3):
            lines.add(str(number), "info")
        taken = lines.take()
        self.assertEqual(len(taken), MOST_LINES + 1)
        self.assertRegex(taken[-1].text, "^lines dropped before this point: 3 ")
        self.assertTrue(lines.pending)
        lines.sent([])
        self.assertFalse(lines.pending)

    def test_lines_that_were_not_sent_keep_their_order(self):
        lines = Lines()
        lines.add("one", "info")
        taken = lines.take()
        lines.add("two", "info")
        lines.sent(taken)
        self.assertEqual([line.text for line in lines.take()], ["one", "two"])


class HandTest(unittest.TestCase):
    def setUp(self):
        self.now = 100.0
        self.hand = Hand(2, 2, None, 10.0, lambda: self.now)

    def claimed(self, *leases, **given):
        jobs = [make_job(lease, **given) for lease in leases]
        self.assertTrue(all(self.hand.claimed(job) for job in jobs))
        return jobs

    def pass_time(self, seconds):
        self.now += seconds

    def blocks(self, call):
        """Returns the value of the call, which must return only after this thread has acted."""
        result = []
        thread = threading.Thread(target=lambda: result.append(call()), daemon=True)
        thread.start()
        thread.join(0.05)
        self.assertTrue(thread.is_alive())

        def returned():
            thread.join(60)
            self.assertFalse(thread.is_alive())
            return result[0]
        return returned

    def test_only_slots_without_a_handler_are_free(self):
        self.assertEqual(self.hand.next_claim(), ([], 2))
        first, second = self.claimed(1, 2)
        returned = self.blocks(self.hand.next_claim)
        self.hand.ended(first, Outcome(COMPLETE))
        self.assertEqual(returned(), ([(first, Outcome(COMPLETE))], 1))

    def test_each_queue_has_its_own_slots(self):
        self.hand = Hand(3, 3, None, 10.0, lambda: self.now, queues={"q": 2, "b": 1})
        self.assertEqual((self.hand.next_claim(), self.hand.rooms()), (([], 3), {"q": 2, "b": 1}))
        first, second = self.claimed(1, 2)
        self.assertEqual((self.hand.next_claim(), self.hand.rooms(waits=True)), (([], 1), {"b": 1}))
        # The wait does not include the queue of the job that ends.
        self.hand.ended(first, Outcome(FAIL, "no"))
        self.assertTrue(self.hand.next_beat().wake)
        self.assertEqual(self.hand.rooms(waits=True), {"q": 1, "b": 1})
        self.hand.ended(second, Outcome(FAIL, "no"))
        self.assertFalse(self.hand.next_beat().wake)

    def test_each_queue_of_a_pattern_has_its_own_slots(self):
        self.hand = Hand(3, 3, None, 10.0, lambda: self.now, queues={"other": 1}, patterns={"q%": 1, "%": 2})
        self.assertEqual((self.hand.next_claim(), self.hand.rooms()), (([], 3), {"other": 1}))
        first, = self.claimed(1)
        # The full queue is passed without slots, because the pattern would select it.
        self.assertEqual((self.hand.next_claim(), self.hand.rooms(waits=True)), (([], 2), {"other": 1, "q": 0}))
        self.hand.ended(first, Outcome(FAIL, "no"))
        self.assertTrue(self.hand.next_beat().wake)
        self.assertEqual(self.hand.rooms(waits=True), {"other": 1})

    def test_prefetched_jobs_start_when_a_slot_is_free(self):
        started = []
        self.hand = Hand(1, 5, None, 10.0, lambda: self.now, prefetch=4)
        self.hand.start = started.append
        self.assertEqual(self.hand.next_claim(), ([], 5))
        jobs = [make_job(lease) for lease in range(5)]
        self.assertEqual([self.hand.claimed(job) for job in jobs], [True, False, False, False, False])
        self.hand.ended(jobs[0], Outcome(COMPLETE))()
        self.assertEqual(started, [jobs[1]])
        self.assertEqual(self.hand.next_claim(), ([(jobs[0], Outcome(COMPLETE))], 1))
        self.hand.lost(jobs[2], "lost")
        self.assertTrue(self.hand.cancel_prefetched(jobs[3]))
        self.assertFalse(self.hand.cancel_prefetched(jobs[1]))
        self.hand.stop()
        self.assertEqual(self.hand.next_beat().reports, [(jobs[3], Outcome(FAIL, CANCELLED)), (jobs[4], Outcome(RELEASE))])
        self.hand.ended(jobs[1], Outcome(COMPLETE))()
        self.assertEqual(started, [jobs[1]])

    def test_prefetched_jobs_start_within_the_slots_of_their_queues(self):
        started = []
        self.hand = Hand(2, 4, None, 10.0, lambda: self.now, queues={"q": 1, "b": 2}, prefetch=2)
        self.hand.start = started.append
        self.assertEqual((self.hand.next_claim(), self.hand.rooms()), (([], 4), {"q": 3, "b": 4}))
        first, second, third, other = jobs = [make_job(lease, queue=queue) for lease, queue in enumerate("qqqb")]
        self.assertEqual([self.hand.claimed(job) for job in jobs], [True, False, False, True])
        self.assertEqual(self.hand.rooms(), {"b": 3})
        self.hand.ended(other, Outcome(COMPLETE))()
        self.assertEqual(started, [])
        self.hand.ended(first, Outcome(COMPLETE))()
        self.assertEqual(started, [second])

    def test_hands_that_share_the_slots_report_and_start_for_each_other(self):
        load, started = Load(), []
        first, second = hands = [Hand(1, 1, None, 10.0, lambda: self.now, load=load) for _ in range(2)]
        for hand in hands:
            hand.start = started.append
        jobs = [make_job(lease) for lease in range(3)]
        self.assertEqual([hand.claimed(job) for hand, job in zip((first, second, second), jobs)], [True, False, False])
        first.ended(jobs[0], Outcome(COMPLETE))()
        self.assertEqual(started, [jobs[1]])
        # There is no slot for a claim that would complete the job.
        self.blocks(first.next_claim)
        self.assertEqual(first.next_beat().reports, [(jobs[0], Outcome(COMPLETE))])
        second.ended(jobs[1], Outcome(COMPLETE))()
        self.assertEqual(started, [jobs[1], jobs[2]])
        second.leave()
        self.assertIn(second, load.hands)   # its handler still uses a slot
        second.ended(jobs[2], Outcome(COMPLETE))()
        self.assertEqual(load.hands, [first])

    def test_nothing_is_claimed_while_as_many_reports_as_slots_are_outstanding(self):
        failed = Outcome(FAIL, "no")
        for job in self.claimed(1, 2):
            self.hand.ended(job, failed)
        returned = self.blocks(self.hand.next_claim)
        beat = self.hand.next_beat()
        self.assertEqual(len(beat.reports), 2)
        self.hand.reported([beat.reports[0][0]])
        self.assertEqual(returned(), ([], 1))

    def test_completions_go_with_the_other_thread_while_one_waits(self):
        first, _ = self.claimed(1, 2)
        self.assertTrue(self.hand.go_away())
        self.hand.ended(first, Outcome(COMPLETE))
        self.assertEqual(self.hand.next_beat().reports, [(first, Outcome(COMPLETE))])

    def test_it_does_not_wait_while_reports_are_outstanding(self):
        first, _ = self.claimed(1, 2)
        self.hand.ended(first, Outcome(COMPLETE))
        self.assertFalse(self.hand.go_away())

    def test_heartbeats_are_due_by_the_shortest_lease(self):
        slow, = self.claimed(1, heartbeat_seconds=20)
        quick, = self.claimed(2, heartbeat_seconds=3)
        returned = self.blocks(self.hand.next_beat)
        self.pass_time(3)
        self.hand.progressed()   # wakes the thread, which checks again
        self.assertEqual(returned().jobs, [slow, quick])

    def test_progress_is_sent_at_once_and_then_once_per_second(self):
        job, other = self.claimed(1, 2)
        job.set_progress({"n": 1})
        beat = self.hand.next_beat()
        self.assertEqual((beat.jobs, beat.progress), ([], [job]))
        self.assertEqual(job.take_progress(), '{"n":1}')
        self.assertIsNone(job.take_progress())

    def test_progress_is_reported_before_the_job(self):
        job, _ = self.claimed(1, 2)
        job.set_progress(1)
        self.hand.ended(job, Outcome(COMPLETE))
        self.assertEqual(self.hand.next_claim(), ([], 1))
        self.assertEqual(self.hand.next_beat().reports, [(job, Outcome(COMPLETE))])

    def test_log_lines_are_sent_with_the_next_heartbeat(self):
        job, other = self.claimed(1, 2)
        job.log("one")
        job.log("two", "warning")
        self.now += 20
        beat = self.hand.next_beat()
        self.assertEqual((beat.jobs, beat.lines), ([job, other], [job]))
        self.assertEqual([(line.level, line.text) for line in job.lines.take()], [("info", "one"), ("warning", "two")])

    def test_log_lines_are_sent_before_the_report(self):
        job, _ = self.claimed(1, 2)
        job.log("last")
        self.hand.ended(job, Outcome(COMPLETE))
        self.assertEqual(self.hand.next_claim(), ([], 1))
        self.assertEqual(self.hand.next_beat().reports, [(job, Outcome(COMPLETE))])

    def test_log_lines_of_a_lost_job_are_sent(self):
        job, _ = self.claimed(1, 2)
        self.hand.lost(job, "lost")
        job.log("last")
        self.hand.ended(job, Outcome(NOTHING, "lost"))
        self.assertEqual(self.hand.next_beat().reports, [(job, Outcome(NOTHING))])

    def test_a_worker_that_stops_sends_the_last_log_lines_of_a_lost_job(self):
        job, other = self.claimed(1, 2)
        self.hand.ended(other, Outcome(COMPLETE))
        self.hand.reported([other])
        self.hand.next_claim()
        self.hand.lost(job, "lost")
        job.log("last")
        self.hand.stop()
        self.hand.no_more_claims()
        self.hand.next_beat()   # wakes the wait
        self.hand.ended(job, Outcome(NOTHING, "lost"))
        self.assertEqual(self.hand.next_beat().reports, [(job, Outcome(NOTHING))])
        self.hand.not_reported([(job, Outcome(NOTHING))])   # the server cannot be reached
        self.now += 5
        self.assertFalse(self.hand.next_beat())

    def test_an_attempt_that_ends_itself_waits_until_its_log_lines_are_sent(self):
        job, _ = self.claimed(1, 2)
        job.log("last")
        flush = threading.Thread(target=self.hand.flush, args=(job,))
        flush.start()
        beat = self.hand.next_beat()
        self.assertEqual((beat.jobs, beat.lines), ([], [job]))
        self.assertTrue(flush.is_alive())
        job.lines.take()
        job.lines.sent([])
        self.hand.progressed()
        flush.join()

    def test_a_report_waits_for_progress_that_is_being_sent(self):
        job, _ = self.claimed(1, 2)
        job.set_progress(1)
        self.assertEqual(job.take_progress(), "1")   # a heartbeat with progress is still waiting for an answer
        self.hand.ended(job, Outcome(COMPLETE))
        self.assertEqual(self.hand.next_claim(), ([], 1))
        self.assertEqual(self.hand.next_beat().reports, [(job, Outcome(COMPLETE))])

    def test_a_lost_job_keeps_its_slot_until_its_handler_has_ended(self):
        job, other = self.claimed(1, 2)
        self.hand.lost(job, "lost")
        self.assertEqual(job.cancelled, "lost")
        returned = self.blocks(self.hand.next_claim)
        self.hand.ended(job, Outcome(COMPLETE))
        self.assertEqual(returned(), ([], 1))

    def test_a_job_that_ends_after_its_beat_was_taken_gets_no_heartbeat(self):
        first, second = self.claimed(1, 2)
        self.pass_time(20)
        beat = self.hand.next_beat()
        first.ended = VERIFY
        with self.hand.sending(beat.jobs) as due:
            self.assertEqual((beat.jobs, due), ([first, second], [second]))

    def test_a_job_settles_only_after_its_heartbeat_was_answered(self):
        first, second = self.claimed(1, 2)
        self.pass_time(20)
        with self.hand.sending([first]):
            self.hand.settle(second)
            returned = self.blocks(lambda: self.hand.settle(first))
        self.assertIsNone(returned())

    def test_answers_to_heartbeats_of_reported_jobs_are_ignored(self):
        job, _ = self.claimed(1, 2)
        self.hand.ended(job, Outcome(COMPLETE))
        self.hand.next_claim()
        self.hand.lost(job, "gone")
        self.assertIsNone(job.cancelled)
        self.hand.not_reported([(job, Outcome(COMPLETE))], uncertain=True)
        self.assertEqual(self.hand.next_beat().reports, [(job, Outcome(COMPLETE, uncertain=True))])

    def test_a_job_whose_report_is_being_sent_gets_no_heartbeat(self):
        first, second = self.claimed(1, 2)
        first.ended = VERIFY
        for job in (first, second):
            job.set_progress(1)
        self.pass_time(20)
        beat = self.hand.next_beat()
        self.assertEqual((beat.jobs, beat.progress), ([second], [second]))

    def test_a_committing_step_gets_no_heartbeat_until_the_commit_and_an_overdue_one_after_it(self):
        first, second = self.claimed(1, 2)
        first.set_progress(1)
        with first._saved_with():
            first._step_done("charge", 17)
            self.pass_time(20)
            beat = self.hand.next_beat()
            self.assertEqual((beat.jobs, beat.progress), ([second], []))
        self.assertEqual(self.hand.next_beat().jobs, [first, second])
        with first._saved_with():
            first._step_done("ship", 18)
        beat = self.hand.next_beat()
        self.assertEqual((beat.jobs, beat.progress), ([], [first]))

    def test_a_report_that_has_collided_is_repeated_after_a_pause_that_delays_nothing_else(self):
        first, second = self.claimed(1, 2)
        failed, paused = Outcome(FAIL, "no"), []
        self.hand.ended(first, failed)
        for collisions in range(1, 9):
            [(job, outcome)] = self.hand.next_beat().reports
            self.assertIs(job, first)
            self.assertEqual(outcome.alone, collisions > 1)
            self.hand.collided([(job, outcome)])
            paused.append(self.hand._until(self.now, None))
            self.assertLessEqual(0.05, paused[-1])
            if collisions == 8:
                break
            self.pass_time(paused[-1])
        self.assertLessEqual(paused[0], 0.1)
        self.assertTrue(0.5 <= paused[-1] <= 1, paused)
        self.hand.ended(second, failed)
        self.assertEqual([job for job, _ in self.hand.next_beat().reports], [second])

    def test_a_job_may_be_claimed_twice(self):
        first, = self.claimed(1)
        self.hand.lost(first, "lost")
        second = make_job(2)
        second.id = first.id
        self.assertTrue(self.hand.claimed(second))
        self.hand.ended(first, Outcome(COMPLETE))
        self.assertEqual(self.hand.next_claim(), ([], 1))

    def test_grace(self):
        job, = self.claimed(1)
        self.hand.stop()
        self.assertIsNone(self.hand.next_claim())
        self.assertFalse(self.hand.claimed(make_job(9)))   # from a claim that was in flight
        beat = self.hand.next_beat()
        self.assertTrue(beat.wake)
        self.assertEqual([(one.lease, what.what) for one, what in beat.reports], [(9, RELEASE)])
        self.hand.reported([one for one, _ in beat.reports])
        self.hand.no_more_claims()
        self.assertIsNone(job.cancelled)
        self.pass_time(10)
        returned = self.blocks(self.hand.next_beat)
        self.assertEqual(job.cancelled, "stopping")
        self.pass_time(LAST_LOOK)
        self.hand.progressed()
        beat = returned()
        self.assertEqual([(one.lease, what.what) for one, what in beat.reports], [(1, RELEASE)])
        self.hand.ended(job, Outcome(COMPLETE))   # too late to count
        self.hand.reported([job])
        beat = self.hand.next_beat()
        self.assertFalse(beat)
        self.assertFalse(self.hand.gave_up)

    def test_released_jobs_send_no_progress(self):
        job, = self.claimed(1)
        self.hand.stop()
        self.hand.no_more_claims()
        self.assertTrue(self.hand.next_beat().wake)
        self.pass_time(10)
        returned = self.blocks(self.hand.next_beat)
        job.set_progress({"stopping": True})
        self.pass_time(LAST_LOOK)
        self.hand.progressed()
        beat = returned()
        self.assertEqual([(one.lease, what.what) for one, what in beat.reports], [(1, RELEASE)])
        self.assertEqual((beat.jobs, beat.progress), ([], []))

    def test_the_second_stop_ends_the_grace_period(self):
        job, = self.claimed(1)
        self.hand.stop()
        self.hand.next_beat()
        self.hand.stop()
        self.hand.ended(job, Outcome(COMPLETE))
        self.hand.no_more_claims()
        self.assertEqual(self.hand.next_beat().reports, [(job, Outcome(COMPLETE))])

    def test_it_gives_up_jobs_that_cannot_be_reported(self):
        job, = self.claimed(1)
        self.hand.stop()
        self.hand.no_more_claims()
        self.hand.next_beat()
        self.pass_time(10)
        self.hand.ended(job, Outcome(COMPLETE))
        self.pass_time(LAST_LOOK + LAST_REPORTS + 1)
        self.hand._end_of_grace(self.now - LAST_LOOK - LAST_REPORTS - 1)
        self.assertFalse(self.hand.next_beat(self.now + 5).reports)
        self.assertTrue(self.hand.gave_up)


if __name__ == "__main__":
    unittest.main()
