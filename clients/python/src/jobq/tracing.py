"""Spans by OpenTelemetry's conventions for messaging, where its API can be imported; else nothing. The context of the
enqueue travels in the job's metadata, as traceparent and tracestate (W3C)."""

from __future__ import annotations

import contextlib
from typing import Any, Dict, Iterator, Mapping, Optional

from .job import BaseJob
from .options import Options
from .outcome import COMPLETE, FAIL, NOTHING, Outcome, is_failure

try:
    from opentelemetry import trace
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
except ImportError:
    trace = None

SYSTEM = "jobq"
KEYS = ("traceparent", "tracestate")


def context_of(metadata: Optional[Mapping[str, Any]]) -> Dict[str, str]:
    """What of a trace a job's metadata has."""
    if not isinstance(metadata, Mapping):
        return {}
    return {key: metadata[key] for key in KEYS if isinstance(metadata.get(key), str)}


def with_context(metadata: Optional[Mapping[str, Any]], carrier: Mapping[str, str]) -> Optional[Mapping[str, Any]]:
    """The caller's own keys win."""
    if not carrier or metadata is not None and "traceparent" in metadata:
        return metadata
    return {**carrier, **(metadata or {})}


@contextlib.contextmanager
def sending(queue: str, count: Optional[int] = None) -> Iterator["Sending"]:
    """A span of an enqueue, within another one only: nobody wants a trace of a lonely INSERT."""
    if trace is None or not trace.get_current_span().get_span_context().is_valid:
        yield Sending({}, None)
        return
    attributes: Dict[str, Any] = {"messaging.system": SYSTEM, "messaging.destination.name": queue,
                                  "messaging.operation.type": "send", "messaging.operation.name": "send"}
    if count is not None:
        attributes["messaging.batch.message_count"] = count
    with trace.get_tracer("jobq").start_as_current_span(f"send {queue}", kind=trace.SpanKind.PRODUCER, attributes=attributes) as span:
        carrier: Dict[str, str] = {}
        TraceContextTextMapPropagator().inject(carrier)
        yield Sending(carrier, span)


class Sending:
    def __init__(self, carrier: Dict[str, str], span: Any) -> None:
        self.carrier, self.span = carrier, span

    def enqueued(self, job_id: int) -> None:
        if self.span is not None:
            self.span.set_attribute("messaging.message.id", str(job_id))


class Span:
    """Of an attempt."""

    def __init__(self, span: Any = None) -> None:
        self.span = span

    def failed(self, error: BaseException, ended: Outcome) -> None:
        if self.span is not None and is_failure(error) and ended.what == FAIL:
            self.span.record_exception(error)
            self.span.set_attribute("error.type", type(error).__qualname__)

    def ended(self, ended: Outcome) -> None:
        if self.span is None:
            return
        name = {COMPLETE: "completed", FAIL: "failed"}.get(ended.what, ended.what)
        self.span.set_attribute("jobq.outcome", ended.text if ended.what == NOTHING else name)
        if ended.what == FAIL:
            self.span.set_status(trace.StatusCode.ERROR, ended.text)


class Tracer:
    def __init__(self, as_child: bool) -> None:
        self.as_child = as_child

    @contextlib.contextmanager
    def process(self, job: BaseJob, options: Options) -> Iterator[Span]:
        if trace is None:
            yield Span()
            return
        links, parent = [], None
        carrier = context_of(job.metadata)
        if carrier:
            parent = TraceContextTextMapPropagator().extract(carrier)
            producer = trace.get_current_span(parent).get_span_context()
            if producer.is_valid:
                links = [trace.Link(producer)]
        attributes = {
            "messaging.system": SYSTEM, "messaging.destination.name": job.queue, "messaging.operation.type": "process",
            "messaging.operation.name": "process", "messaging.message.id": str(job.id), "messaging.client.id": options.worker_id,
            "jobq.kind": job.kind, "jobq.attempt": job.attempt,
        }
        with trace.get_tracer("jobq").start_as_current_span(
                f"process {job.queue}", context=parent if self.as_child else None, kind=trace.SpanKind.CONSUMER, links=links,
                attributes=attributes, record_exception=False, set_status_on_exception=False) as span:
            yield Span(span)
