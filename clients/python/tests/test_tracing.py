"""Tests spans with the OpenTelemetry SDK. Runs in a process of its own, because other tests check that everything works without
it."""

import asyncio
import time
import unittest

import psycopg

import jobq
from test_server import LIMIT, Base

try:
    from opentelemetry import trace
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
    from opentelemetry.trace import SpanKind, StatusCode
except ImportError:
    raise unittest.SkipTest("there is no OpenTelemetry") from None

EXPORTER = InMemorySpanExporter()
TRACER = trace.get_tracer("test")


def setUpModule():
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(EXPORTER))
    trace.set_tracer_provider(provider)


def named(name):
    return [span for span in EXPORTER.get_finished_spans() if span.name == name]


def parent_of(span):
    return None if span.parent is None else span.parent.span_id


class TracingTest(Base):
    def setUp(self):
        super().setUp()
        EXPORTER.clear()

    def metadata(self, job):
        return self.value("SELECT metadata FROM jobq.jobs WHERE id = %s", job)

    def sent(self, operation="send"):
        [span] = named(f"{operation} {self.queue}")
        return span


class SendTest(TracingTest):
    def test_the_context_of_its_span_is_in_the_metadata(self):
        with TRACER.start_as_current_span("request") as request:
            job = jobq.enqueue(self.connection, self.queue, kind="x", metadata={"order": 7})
        span = self.sent()
        self.assertEqual((span.kind, parent_of(span)), (SpanKind.PRODUCER, request.get_span_context().span_id))
        self.assertEqual(dict(span.attributes), {
            "messaging.system": "jobq", "messaging.destination.name": self.queue, "messaging.operation.type": "send",
            "messaging.operation.name": "send", "messaging.message.id": str(job)})
        context = span.get_span_context()
        self.assertEqual(self.metadata(job), {
            "order": 7, "traceparent": f"00-{context.trace_id:032x}-{context.span_id:016x}-{context.trace_flags:02x}"})

    def test_without_an_active_span_there_is_no_span(self):
        self.assertIsNone(self.metadata(jobq.enqueue(self.connection, self.queue)))
        self.assertEqual(EXPORTER.get_finished_spans(), ())

    def test_the_callers_own_traceparent_takes_precedence(self):
        with TRACER.start_as_current_span("request"):
            job = jobq.enqueue(self.connection, self.queue, metadata={"traceparent": "mine"})
            no_place = jobq.enqueue(self.connection, self.queue, metadata=["no", "keys"])
        self.assertEqual((self.metadata(job), self.metadata(no_place)), ({"traceparent": "mine"}, ["no", "keys"]))

    def test_the_span_of_a_rejected_enqueue_has_the_error(self):
        with TRACER.start_as_current_span("request"):
            with self.assertRaises(psycopg.errors.NumericValueOutOfRange):
                jobq.enqueue(self.connection, self.queue, priority=40000)
        refused = self.sent()
        self.assertEqual((refused.status.status_code, refused.attributes["error.type"], [event.name for event in refused.events]),
                         (StatusCode.ERROR, "NumericValueOutOfRange", ["exception"]))

    def test_many_at_once(self):
        with TRACER.start_as_current_span("request"):
            _, job, _ = jobq.enqueue_many(self.connection, self.queue, [1, 2, 3], metadata={"order": 7})
            self.assertEqual(self.sent().attributes["messaging.batch.message_count"], 3)
            self.assertIn(f"{self.sent().get_span_context().span_id:016x}", self.metadata(job.job_id)["traceparent"])
            self.assertEqual(self.metadata(job.job_id)["order"], 7)
            EXPORTER.clear()
            jobs = jobq.enqueue_jobs(self.connection, [{"queue": self.queue}, {"queue": self.queue, "metadata": {"order": 7}}])
            span_id = f"{self.sent().get_span_context().span_id:016x}"
            for job in jobs:
                self.assertIn(span_id, self.metadata(job.job_id)["traceparent"])
            jobq.enqueue_jobs(self.connection, [{"queue": self.queue}, {"queue": f"{self.queue} too"}])
        self.assertNotIn("messaging.destination.name", named("send")[0].attributes)

    def test_async(self):
        async def enqueue():
            async with await psycopg.AsyncConnection.connect(autocommit=True) as connection:
                with TRACER.start_as_current_span("request"):
                    return await jobq.aenqueue(connection, self.queue)
        job = asyncio.run(enqueue())
        self.assertEqual(self.sent().attributes["messaging.message.id"], str(job))
        self.assertIn("traceparent", self.metadata(job))


class ProcessTest(TracingTest):
    def work(self, handlers, jobs, end="completed", **options):
        worker = jobq.Worker(self.queue, handlers, slots=4, grace=LIMIT, **options)
        worker.start()
        self.wait_for(jobs, end)
        worker.stop()
        self.assertTrue(worker.join(LIMIT))
        return worker.options.worker_id

    def work_async(self, handlers, jobs, **options):
        async def work():
            worker = jobq.AsyncWorker(self.queue, handlers, slots=4, grace=LIMIT, **options)
            await worker.start()
            await asyncio.get_running_loop().run_in_executor(None, self.wait_for, jobs, "completed")
            worker.stop()
            self.assertTrue(await worker.join(LIMIT))
            return worker.options.worker_id
        return asyncio.run(work())

    def wait_for(self, jobs, end):
        self.becomes(len(jobs), "SELECT count(*) FROM jobq.jobs WHERE id = ANY (%s::bigint[]) AND status::text = %s", jobs, end)

    def enqueue_traced(self):
        with TRACER.start_as_current_span("request"):
            return jobq.enqueue(self.connection, self.queue, kind="x")

    def check_attempt(self, job, worker_id, as_child):
        sent, span = self.sent(), self.sent("process")
        context = sent.get_span_context()
        self.assertEqual(span.kind, SpanKind.CONSUMER)
        self.assertEqual([(link.context.trace_id, link.context.span_id) for link in span.links], [(context.trace_id, context.span_id)])
        self.assertEqual(parent_of(span), context.span_id if as_child else None)
        self.assertEqual(span.get_span_context().trace_id == context.trace_id, as_child)
        self.assertEqual(dict(span.attributes), {
            "messaging.system": "jobq", "messaging.destination.name": self.queue, "messaging.operation.type": "process",
            "messaging.operation.name": "process", "messaging.message.id": str(job), "messaging.client.id": worker_id,
            "jobq.kind": "x", "jobq.attempt": 1, "jobq.outcome": "completed"})
        [inner] = named("inner")
        self.assertEqual(parent_of(inner), span.get_span_context().span_id)

    def test_an_attempt_is_linked_with_its_enqueue(self):
        def handler(job):
            TRACER.start_span("inner").end()

        for as_child in (False, True):
            with self.subTest(as_child=as_child):
                EXPORTER.clear()
                job = self.enqueue_traced()
                self.check_attempt(job, self.work({"x": handler}, [job], trace_as_child=as_child), as_child)

    def test_of_a_coroutine(self):
        async def handler(job):
            await asyncio.sleep(0)
            TRACER.start_span("inner").end()

        for as_child in (False, True):
            with self.subTest(as_child=as_child):
                EXPORTER.clear()
                job = self.enqueue_traced()
                # The span that is current when the worker starts must not be the parent of its attempts.
                with TRACER.start_as_current_span("main"):
                    worker_id = self.work_async({"x": handler}, [job], trace_as_child=as_child)
                self.check_attempt(job, worker_id, as_child)

    def test_an_invalid_context_is_ignored(self):
        job = jobq.enqueue(self.connection, self.queue, kind="x", metadata={"traceparent": "00-nothing", "tracestate": 7})
        self.work({"x": lambda job: 1}, [job])
        self.assertEqual((self.sent("process").links, parent_of(self.sent("process"))), ((), None))

    def test_the_span_of_an_attempt_has_its_outcome(self):
        self.value("SELECT count(*) FROM jobq_create_queue(%s, backoff_base => '10 ms')", self.queue)

        def fails(job):
            if job.attempt == 1:
                raise OverflowError("too far")

        def snoozes(job):
            if job.progress is None:
                job.set_progress(1)
                raise jobq.Snooze(0)

        def completing(job):
            with job.completing():
                pass

        def completes_in(job):
            with psycopg.connect() as connection:
                job.complete_in(connection)

        def uncertain(job):
            with psycopg.connect() as connection:
                job.complete_in(connection)
                if job.attempt == 1:
                    raise OverflowError("behind it")

        handlers = {"fails": fails, "snoozes": snoozes, "completing": completing, "completes_in": completes_in, "uncertain": uncertain}
        self.work(handlers, [jobq.enqueue(self.connection, self.queue, kind=kind) for kind in handlers])
        self.assertEqual(self.outcomes(), [
            "completes_in 1 completed", "completing 1 completed", "fails 1 failed", "fails 2 completed", "snoozes 1 completed",
            "snoozes 1 snoozed", "uncertain 1 uncertain", "uncertain 2 completed"])
        [failed] = [span for span in named(f"process {self.queue}") if span.attributes["jobq.outcome"] == "failed"]
        self.assertEqual((failed.status.status_code, failed.status.description, failed.attributes["error.type"],
                          [event.attributes["exception.message"] for event in failed.events]),
                         (StatusCode.ERROR, "OverflowError: too far", "OverflowError", ["too far"]))

    def test_a_result_that_is_not_valid_json_is_a_failure(self):
        job = jobq.enqueue(self.connection, self.queue, kind="x", max_attempts=1)
        self.work({"x": lambda job: object()}, [job], "failed")
        span = self.sent("process")
        self.assertEqual((span.status.status_code, span.attributes["jobq.outcome"], len(span.events)), (StatusCode.ERROR, "failed", 1))

    def test_a_stopped_handler_is_not_a_failure(self):
        def waits(job):
            if job.kind == "lost":
                with psycopg.connect(autocommit=True) as other:
                    other.execute("SELECT jobq_release(%s, %s), jobq_cancel(%s)", (job.id, job.lease, job.id))
                with job.completing():
                    pass
            while True:
                job.pause(1)

        jobs = [jobq.enqueue(self.connection, self.queue, kind=kind) for kind in ("cancelled", "lost")]
        cancelled = "SELECT count(jobq_cancel(id)) FROM jobq.jobs WHERE id = %s AND status = 'processing'"
        worker = jobq.Worker(self.queue, {"cancelled": waits, "lost": waits}, slots=2, grace=LIMIT, heartbeat_interval=0.1)
        worker.start()
        self.becomes(1, cancelled, jobs[0])
        self.wait_for(jobs, "cancelled")
        deadline = time.monotonic() + LIMIT   # the worker does not wait for the handler of a lost job
        while len(self.outcomes()) < len(jobs) and time.monotonic() < deadline:
            time.sleep(0.02)
        worker.stop()
        self.assertTrue(worker.join(LIMIT))
        self.assertEqual(self.outcomes(), ["cancelled 1 cancelled", "lost 1 lost"])
        self.assertEqual([span.status.status_code for span in named(f"process {self.queue}")], [StatusCode.UNSET] * 2)

    def outcomes(self):
        return sorted(" ".join(str(span.attributes[f"jobq.{name}"]) for name in ("kind", "attempt", "outcome"))
                      for span in named(f"process {self.queue}"))


if __name__ == "__main__":
    unittest.main()
