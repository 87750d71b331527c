"""Tests middleware around enqueues and handlers, including the recipes of README.md."""

import asyncio
import contextlib
import re
import unittest
from pathlib import Path
from types import SimpleNamespace

import psycopg

import jobq
from jobq.testing import drain, run_inline
from support import LIMIT, Base

try:
    import sentry_sdk
except ImportError:
    sentry_sdk = None

README = (Path(__file__).parent.parent / "README.md").read_text()


def recipe(name, **known):
    """Runs the example in README.md that defines the function, and returns its variables."""
    [text] = [block for block in re.findall(r"```python\n(.*?)```", README, re.DOTALL) if f"def {name}(" in block]
    variables = {"contextlib": contextlib, **known}
    exec(text, variables)
    return variables


class MiddlewareTest(Base):
    def use(self, **functions):
        remove = jobq.use(**functions)
        self.addCleanup(remove)
        return remove

    def metadata(self, job):
        return self.value("SELECT metadata FROM jobq.jobs WHERE id = %s", job)


class EnqueueTest(MiddlewareTest):
    def mark(self, enqueuing):
        for spec in enqueuing.specs:
            spec["metadata"] = {**(spec.get("metadata") or {}), "mark": len(enqueuing.specs)}

    def test_it_changes_the_jobs_of_all_functions(self):
        async def enqueue():
            combined = jobq.AsyncCombinedEnqueue(connect)
            async with connect() as connection:
                return [await jobq.aenqueue(connection, self.queue), *await jobq.aenqueue_many(connection, self.queue, [1]),
                        *await jobq.aenqueue_jobs(connection, [{"queue": self.queue}]), await combined(self.queue)]

        @contextlib.asynccontextmanager
        async def connect():
            async with await psycopg.AsyncConnection.connect(autocommit=True) as connection:
                yield connection

        self.use(enqueue=self.mark)
        metadata = {"own": 1}
        jobs = [jobq.enqueue(self.connection, self.queue, metadata=metadata), *jobq.enqueue_many(self.connection, self.queue, [1, 2], metadata=metadata),
                *jobq.enqueue_jobs(self.connection, [{"queue": self.queue, "metadata": metadata}] * 2),
                jobq.CombinedEnqueue(lambda: psycopg.connect(autocommit=True))(self.queue, metadata=metadata)]
        self.assertEqual([self.metadata(getattr(job, "job_id", job)) for job in jobs], [{"own": 1, "mark": mark} for mark in (1, 1, 1, 2, 2, 1)])
        self.assertEqual(metadata, {"own": 1})
        self.assertEqual([self.metadata(getattr(job, "job_id", job)) for job in asyncio.run(enqueue())], [{"mark": 1}] * 4)

    def test_it_changes_payloads_and_other_attributes(self):
        def change(enqueuing):
            for spec in enqueuing.specs:
                spec.update(priority=7, **({"payloads": [[one] for one in spec["payloads"]]} if "payloads" in spec else {"payload": [spec["payload"]]}))

        self.use(enqueue=change)
        jobs = [jobq.enqueue(self.connection, self.queue, 1), jobq.enqueue_many(self.connection, self.queue, [1])[0].job_id]
        for job in jobs:
            self.assertEqual(self.connection.execute("SELECT payload, priority FROM jobq.jobs WHERE id = %s", [job]).fetchone(), ([1], 7))

    def test_jobs_that_a_handler_spawns(self):
        self.use(enqueue=self.mark)
        jobq.enqueue(self.connection, self.queue, kind="x")
        handlers = {"x": lambda job: job.spawn("children", [{"queue": f"{self.queue} children"}] * 2)}
        [ended] = drain(self.connection, handlers, self.queue)
        self.assertEqual([self.metadata(job) for job in ended.result], [{"mark": 2}] * 2)

        async def spawn(job):
            worker.stop()
            return await job.spawn("children", [{"queue": f"{self.queue} children"}])

        async def work():
            await worker.start()
            return await worker.join(LIMIT)

        job = jobq.enqueue(self.connection, self.queue, kind="x")
        worker = jobq.AsyncWorker(self.queue, {"x": spawn}, grace=LIMIT)
        self.assertTrue(asyncio.run(work()))
        self.assertEqual([self.metadata(child) for child in self.value("SELECT jobq_result(%s)", job)], [{"mark": 1}])

    def test_the_order_and_the_ids(self):
        seen = []

        def around(name):
            @contextlib.contextmanager
            def enqueue(enqueuing):
                seen.append(f"{name} before")
                try:
                    yield
                    seen.append((name, enqueuing.ids))
                except psycopg.Error as error:
                    seen.append((name, error.sqlstate))
                    raise
            return enqueue

        for name in ("a", "b"):
            remove = self.use(enqueue=around(name))
        job = jobq.enqueue(self.connection, self.queue)
        self.assertEqual(seen, ["a before", "b before", ("b", [job]), ("a", [job])])
        remove()
        seen.clear()
        with self.assertRaises(psycopg.Error):
            jobq.enqueue(self.connection, self.queue, priority=40000)
        self.assertEqual(seen, ["a before", ("a", "22003")])

    def test_wrong_middleware(self):
        with self.assertRaisesRegex(jobq.OptionError, 'argument "handle" must be a function; it is 7'):
            jobq.use(handle=7)
        self.use(enqueue=lambda enqueuing: enqueuing.specs[0].update(prio=7))
        with self.assertRaisesRegex(jobq.OptionError, 'argument "prio" does not exist; the arguments are queue, payload, kind, priority,'):
            jobq.enqueue(self.connection, self.queue)


class HandlerTest(MiddlewareTest):
    def enqueue(self):
        return jobq.enqueue(self.connection, self.queue, kind="x", max_attempts=1)

    def work(self, handler, job=None):
        """Runs one job in a Worker, or in an AsyncWorker if the handler is a coroutine function."""
        async def work_async():
            worker = jobq.AsyncWorker(self.queue, {"x": handler}, slots=1)
            await worker.start()
            await asyncio.get_running_loop().run_in_executor(None, self.ended, job)
            worker.stop()
            return await worker.join(LIMIT)

        def work_threads():
            worker = jobq.Worker(self.queue, {"x": handler}, slots=1)
            worker.start()
            self.ended(job)
            worker.stop()
            return worker.join(LIMIT)

        job = self.enqueue() if job is None else job
        self.assertTrue(asyncio.run(work_async()) if asyncio.iscoroutinefunction(handler) else work_threads())
        return job

    def ended(self, job):
        self.becomes(True, "SELECT status IN ('completed', 'failed') FROM jobq.jobs WHERE id = %s", job)

    def handlers(self, do):
        async def coroutine(job):
            await asyncio.sleep(0)
            return do(job)

        return lambda job: do(job), coroutine

    def test_it_runs_around_the_handler_in_order(self):
        seen = []

        def around(name):
            @contextlib.contextmanager
            def handle(job):
                seen.append((name, job.kind))
                yield
                seen.append(name)
            return handle

        @contextlib.asynccontextmanager
        async def async_handle(job):
            seen.append(("async", job.kind))
            yield
            seen.append("async")

        for handler in self.handlers(lambda job: seen.append("handler")):
            removes = [self.use(handle=around("a")), self.use(handle=around("b")), self.use(handle=lambda job: None)]
            expected = [("a", "x"), ("b", "x"), "handler", "b", "a"]
            if asyncio.iscoroutinefunction(handler):
                removes.append(self.use(handle=async_handle))
                expected[2:3] = [("async", "x"), "handler", "async"]
            self.work(handler)
            self.assertEqual(seen, expected)
            seen.clear()
            for remove in removes:
                remove()

    def test_its_errors_and_those_of_the_handler(self):
        seen = []

        @contextlib.contextmanager
        def handle(job):
            try:
                yield
            except ZeroDivisionError as error:
                seen.append(error)
                raise KeyError("another") from error

        self.use(handle=handle)
        for handler in self.handlers(lambda job: 1 / 0):
            self.assertEqual(self.value("SELECT error FROM jobq.attempts WHERE job_id = %s", self.work(handler)), "KeyError: 'another'")
        self.assertEqual(len(seen), 2)

    def test_in_the_test_kit(self):
        seen = []
        self.use(handle=lambda job: seen.append(job.kind))
        jobq.enqueue(self.connection, self.queue, kind="x")
        drain(self.connection, {"x": lambda job: None}, self.queue)
        run_inline(lambda job: None, kind="y")
        self.assertEqual(seen, ["x", "y"])


class RecipesTest(HandlerTest):
    def recipe(self, name, **known):
        return recipe(name, jobq=SimpleNamespace(use=self.use), **known)

    def test_tenant(self):
        tenant = self.recipe("restore_tenant")["tenant"]
        for handler in self.handlers(lambda job: tenant.get()):
            token = tenant.set("acme")
            job = self.enqueue()
            tenant.reset(token)
            self.work(handler, job)
            self.assertEqual((self.metadata(job), self.value("SELECT jobq_result(%s)", job), tenant.get()), ({"tenant": "acme"}, "acme", None))

    @unittest.skipIf(sentry_sdk is None, "there is no sentry_sdk: apt-get install python3-sentry-sdk")
    def test_sentry(self):
        events = []
        sentry_sdk.init("https://key@127.0.0.1/1", transport=events.append, default_integrations=False)
        self.addCleanup(sentry_sdk.init)
        version_1 = SimpleNamespace(isolation_scope=sentry_sdk.push_scope)
        self.recipe("add_job_to_sentry", sentry_sdk=sentry_sdk if hasattr(sentry_sdk, "isolation_scope") else version_1)
        for handler in self.handlers(lambda job: sentry_sdk.capture_message("sent")):
            job = self.work(handler)
            event = events.pop()
            self.assertEqual((event["message"], event["tags"]["jobq.queue"], event["contexts"]["job"]["id"]), ("sent", self.queue, job))
            sentry_sdk.capture_message("outside")
            self.assertNotIn("tags", events.pop())


if __name__ == "__main__":
    unittest.main()
