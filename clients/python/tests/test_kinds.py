"""Tests kinds with typed payloads: their jobs on a server, their handlers, and their types."""

import asyncio
import os
import shutil
import subprocess
import unittest
from dataclasses import dataclass
from pathlib import Path

import psycopg

import jobq
from jobq.testing import drain, run_inline
from support import LIMIT, Base

ROOT = Path(__file__).parent.parent


@dataclass
class SendMail:
    to: str
    lines: int = 1


@dataclass
class Receipt:
    number: int


class NotUsed:
    """A connection that nothing is sent to."""

    def __getattr__(self, name):
        raise AssertionError(f"{name} is used")


class KindTest(Base):
    def setUp(self):
        super().setUp()
        self.kind = jobq.Kind("send mail", SendMail, result=Receipt, queue=self.queue, priority=7)

    def job(self, job_id):
        return self.connection.execute("SELECT queue, kind, payload, priority FROM jobq.jobs WHERE id = %s", [job_id]).fetchone()

    def enqueue_untyped(self, payload):
        return jobq.enqueue(self.connection, self.queue, payload, kind="send mail", max_attempts=2)

    def test_a_job_has_the_payload_and_the_attributes_of_its_kind(self):
        job = self.kind.enqueue(self.connection, SendMail("ada"))
        self.assertEqual(self.job(job), (self.queue, "send mail", {"to": "ada", "lines": 1}, 7))
        job = self.kind.enqueue(self.connection, SendMail("ada"), priority=8, queue=f"{self.queue} 2")
        self.assertEqual(self.job(job), (f"{self.queue} 2", "send mail", {"to": "ada", "lines": 1}, 8))

    def test_many_jobs(self):
        many = self.kind.enqueue_many(self.connection, [SendMail("ada"), SendMail("bob", 2)], unique_keys=["a", None])
        self.assertEqual([self.job(one.job_id)[2:] for one in many], [({"to": "ada", "lines": 1}, 7), ({"to": "bob", "lines": 2}, 7)])
        graph = jobq.enqueue_jobs(self.connection, [self.kind.spec(SendMail("ada"), ref="a"), self.kind.spec(SendMail("bob"), depends_on=["@a"])])
        self.assertEqual(self.job(graph[1].job_id), (self.queue, "send mail", {"to": "bob", "lines": 1}, 7))
        combined = jobq.CombinedEnqueue(lambda: psycopg.connect(autocommit=True))
        self.assertEqual(self.job(combined(**self.kind.spec(SendMail("eve"))))[2], {"to": "eve", "lines": 1})

    def test_async(self):
        async def enqueue():
            async with await psycopg.AsyncConnection.connect(autocommit=True) as connection:
                [many] = await self.kind.aenqueue_many(connection, [SendMail("bob")])
                return await self.kind.aenqueue(connection, SendMail("ada"), priority=8), many.job_id

        self.assertEqual([self.job(job)[2:] for job in asyncio.run(enqueue())], [({"to": "ada", "lines": 1}, 8), ({"to": "bob", "lines": 1}, 7)])

    def test_an_invalid_payload_is_not_sent(self):
        message = "the payload of kind 'send mail' is invalid: \"to\" must be a text; it is of type int"
        for call in (lambda: self.kind.enqueue(NotUsed(), SendMail(5)), lambda: self.kind.enqueue_many(NotUsed(), [SendMail("ada"), SendMail(5)]),
                     lambda: asyncio.run(self.kind.aenqueue(NotUsed(), SendMail(5))), lambda: self.kind.spec(SendMail(5))):
            with self.assertRaises(jobq.OptionError) as caught:
                call()
            self.assertEqual(str(caught.exception), message)
        with self.assertRaisesRegex(jobq.OptionError, "is invalid: the value must not be null"):
            jobq.Kind("null", type(None)).enqueue(NotUsed(), None)

    def test_unknown_attributes_are_rejected(self):
        with self.assertRaisesRegex(TypeError, "unexpected keyword argument 'prio'"):
            jobq.Kind("send mail", SendMail, prio=7)
        with self.assertRaisesRegex(TypeError, "unexpected keyword argument 'prio'"):
            self.kind.enqueue(NotUsed(), SendMail("ada"), prio=7)
        with self.assertRaisesRegex(TypeError, "'kind'"):
            self.kind.enqueue(NotUsed(), SendMail("ada"), kind="another")

    def test_handlers_get_the_payload_and_return_the_result(self):
        def returns(job):
            return Receipt(job.payload.lines)

        def completes(job):
            with job.completing():
                job.result = Receipt(job.payload.lines)

        for handler in (returns, completes):
            self.kind.enqueue(self.connection, SendMail("ada", 3))
            [ended] = drain(self.connection, self.kind.handler(handler), self.queue)
            self.assertEqual((ended.status, self.value("SELECT jobq_result(%s)", ended.job.id)), ("completed", {"number": 3}))
        self.assertEqual(run_inline(returns, SendMail("ada", 3), kind=self.kind).result, {"number": 3})

    def test_an_invalid_payload_fails_the_attempt(self):
        permanent = jobq.Kind("send mail", SendMail, queue=self.queue, retry_invalid=False)
        error = "the payload of kind 'send mail' is invalid: the value must have the key \"to\""
        for kind, status in ((self.kind, "scheduled"), (permanent, "failed")):
            self.enqueue_untyped({"lines": 2})
            [ended] = drain(self.connection, kind.handler(lambda job: self.fail("it runs")), self.queue)
            self.assertEqual((ended.status, ended.error), (status, error))

    def test_an_invalid_result_fails_the_attempt(self):
        self.kind.enqueue(self.connection, SendMail("ada"))
        [ended] = drain(self.connection, self.kind.handler(lambda job: 7), self.queue)
        self.assertEqual((ended.status, ended.error),
                         ("scheduled", "ValueError: the result of kind 'send mail' is invalid: the value must be a Receipt; it is of type int"))

    def test_workers(self):
        async def run_async():
            worker = jobq.AsyncWorker(self.queue, grace=LIMIT)

            @worker.handler(self.kind)
            async def send(job):
                worker.stop()
                return Receipt(job.payload.lines)

            await worker.start()
            return await worker.join(LIMIT)

        def run_threads():
            worker = jobq.Worker(self.queue, grace=LIMIT)

            @worker.handler(self.kind)
            def send(job):
                worker.stop()
                return Receipt(job.payload.lines)

            worker.start()
            return worker.join(LIMIT)

        for run in (run_threads, lambda: asyncio.run(run_async())):
            job = self.kind.enqueue(self.connection, SendMail("ada", 3))
            self.assertTrue(run())
            self.assertEqual(self.value("SELECT jobq_result(%s)", job), {"number": 3})

    def test_handlers_must_be_functions_that_the_worker_runs(self):
        async def send(job):
            pass

        with self.assertRaisesRegex(jobq.OptionError, "must be a plain function"):
            jobq.Worker().handler(self.kind)(send)
        with self.assertRaisesRegex(jobq.OptionError, "must be a function; it is 7"):
            self.kind.handler(7)


@unittest.skipIf(shutil.which("mypy") is None, "there is no mypy: apt-get install mypy")
class TypesTest(unittest.TestCase):
    def test_mypy(self):
        """The comments "type: ignore" in typed.py are expected errors, because mypy also reports those that are not necessary."""
        found = subprocess.run(["mypy", "--cache-dir", os.devnull, "--config-file", "pyproject.toml", "--strict", "tests/typed.py", "src/jobq"], cwd=ROOT, text=True,
                               capture_output=True, env={**os.environ, "MYPYPATH": str(ROOT / "src"), "PYTHONPATH": ""})
        self.assertEqual(found.returncode, 0, found.stdout + found.stderr)


if __name__ == "__main__":
    unittest.main()
