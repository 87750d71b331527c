"""Combined enqueues: how many statements they need, and which calls fail if a job is rejected or the connection breaks. Needs a server
with jobq."""

import asyncio
import contextlib
import threading
import time
import unittest
from concurrent.futures import ThreadPoolExecutor
from unittest import mock

import psycopg

import jobq
import jobq.combined
from support import LIMIT, Base


class CombinedTest(Base):
    def setUp(self):
        super().setUp()
        self.statements = 0
        self.before_first = lambda: None   # called before the first statement

    @contextlib.contextmanager
    def connected(self):
        self.statements += 1
        if self.statements == 1:
            self.before_first()
        yield self.connection

    @contextlib.asynccontextmanager
    async def async_connected(self):
        self.statements += 1
        async with await psycopg.AsyncConnection.connect(autocommit=True) as connection:
            yield connection

    def rows(self):
        return dict(self.connection.execute("SELECT id, payload FROM jobq.jobs WHERE queue = %s ORDER BY id", (self.queue,)).fetchall())

    def together(self, enqueue, *calls):
        """Makes a call, and the given calls while its statement is under way. Returns the futures of the latter."""
        waiting = enqueue._waiting.calls

        def until_all_wait():
            deadline = time.monotonic() + LIMIT
            while len(waiting) < len(calls) and time.monotonic() < deadline:
                time.sleep(0.01)

        started = threading.Event()
        self.before_first = lambda: (started.set(), until_all_wait())
        with ThreadPoolExecutor(len(calls) + 1) as threads:
            first = threads.submit(enqueue, self.queue, "first")
            self.assertTrue(started.wait(LIMIT))
            futures = []
            for payload, given in calls:   # one after the other, so that the order is known
                futures.append(threads.submit(enqueue, self.queue, payload, **given))
                deadline = time.monotonic() + LIMIT
                while len(waiting) < len(futures) < len(calls) and time.monotonic() < deadline:
                    time.sleep(0.01)
        self.assertEqual(self.rows().get(first.result()), "first")
        return futures

    def test_calls_during_a_statement_share_the_next_one(self):
        futures = self.together(jobq.CombinedEnqueue(self.connected), *((n, {"kind": "x", "metadata": {"n": n}}) for n in range(20)))
        self.assertEqual(self.statements, 2)
        rows = self.rows()
        self.assertEqual([rows[future.result()] for future in futures], list(range(20)))
        self.assertEqual(len(rows), 21)

    def test_statements_are_bounded(self):
        futures = self.together(jobq.CombinedEnqueue(self.connected, most=8), *((n, {}) for n in range(20)))
        self.assertEqual(self.statements, 4)
        self.statements = 0
        with mock.patch.object(jobq.combined, "MOST_LENGTH", 100):
            futures += self.together(jobq.CombinedEnqueue(self.connected), *(("x" * 80, {}) for _ in range(3)))
        self.assertEqual(self.statements, 4)
        self.assertEqual(len({future.result() for future in futures}), 23)

    def test_a_rejected_job_fails_alone(self):
        calls = [(n, {"priority": 99999} if n == 3 else {}) for n in range(8)]
        futures = self.together(jobq.CombinedEnqueue(self.connected), *calls)
        self.assertIsInstance(futures[3].exception(), psycopg.errors.NumericValueOutOfRange)
        self.assertEqual([self.rows()[future.result()] for n, future in enumerate(futures) if n != 3], [0, 1, 2, 4, 5, 6, 7])

    def test_nothing_is_enqueued_again_after_the_connection_has_broken(self):
        @contextlib.contextmanager
        def breaks():
            with self.connected() as connection:
                yield connection
            if self.statements == 2:
                raise psycopg.OperationalError("the connection is lost")

        futures = self.together(jobq.CombinedEnqueue(breaks), (1, {}), (2, {}))
        self.assertEqual([str(future.exception()) for future in futures], ["the connection is lost"] * 2)
        self.assertEqual((self.statements, len(self.rows())), (2, 3))

    def test_an_interrupted_call_does_not_leave_others_waiting(self):
        @contextlib.contextmanager
        def interrupted():
            with self.connected() as connection:
                if self.statements == 2:
                    raise KeyboardInterrupt
                yield connection

        enqueue = jobq.CombinedEnqueue(interrupted)
        futures = self.together(enqueue, (1, {}), (2, {}))
        self.assertEqual(sorted(type(future.exception()).__name__ for future in futures), ["KeyboardInterrupt", "RuntimeError"])
        self.assertIsInstance(enqueue(self.queue), int)

    def test_a_wrong_argument_sends_nothing(self):
        enqueue = jobq.CombinedEnqueue(self.connected)
        with self.assertRaisesRegex(TypeError, r"CombinedEnqueue\(\) got an unexpected keyword argument 'knid'"):
            enqueue(self.queue, knid="x")
        with self.assertRaises(jobq.OptionError):
            enqueue(7)
        with self.assertRaises(jobq.OptionError):
            jobq.CombinedEnqueue(self.connected, most=0)
        self.assertEqual(self.statements, 0)

    def test_async(self):
        async def work():
            enqueue = jobq.AsyncCombinedEnqueue(self.async_connected)
            ids = await asyncio.gather(*(enqueue(self.queue, n) for n in range(50)))
            self.assertEqual(self.statements, 1)
            rows = self.rows()
            self.assertEqual([rows[job] for job in ids], list(range(50)))
            ended = await asyncio.gather(*(enqueue(self.queue, n, priority=99999 * (n == 1)) for n in range(3)), return_exceptions=True)
            self.assertEqual([type(one) for one in ended], [int, psycopg.errors.NumericValueOutOfRange, int])
            # A call that is canceled does not cancel the statement, which enqueues the jobs of the other calls, too.
            calls = [asyncio.ensure_future(enqueue(self.queue, "canceled")) for _ in range(2)]
            await asyncio.sleep(0)
            calls[0].cancel()
            self.assertIsInstance(await calls[1], int)
            with self.assertRaises(asyncio.CancelledError):
                await calls[0]

        asyncio.run(work())


if __name__ == "__main__":
    unittest.main()
