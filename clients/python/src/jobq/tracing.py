"""Spans that follow OpenTelemetry's conventions for messaging, if its API is installed. The trace context of the enqueue is
stored in the job's metadata as traceparent and tracestate (W3C)."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any, Dict, Iterator, Mapping, Optional

from .job import BaseJob
from .options import Options
from .outcome import COMPLETE, FAIL, RELEASE, SNOOZE, VERIFY, Outcome, is_failure

if TYPE_CHECKING:
    from .middleware import Enqueuing

try:
    from opentelemetry import trace
    from opentelemetry.context import Context
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
except ImportError:
    trace = None

SYSTEM = "jobq"
KEYS = ("traceparent", "tracestate")
OUTCOMES = {COMPLETE: "completed", FAIL: "failed", SNOOZE: "snoozed", RELEASE: "released"}


def context_of(metadata: Optional[Mapping[str, Any]]) -> Dict[str, str]:
    """Returns the trace context in a job's metadata."""
    if not isinstance(metadata, Mapping):
        return {}
    return {key: metadata[key] for key in KEYS if isinstance(metadata.get(key), str)}


def with_context(metadata: Optional[Mapping[str, Any]], carrier: Mapping[str, str]) -> Optional[Mapping[str, Any]]:
    """Returns the metadata with the context added. The caller's own keys win. Metadata that is no object stays unchanged."""
    if not carrier or metadata is not None and (not isinstance(metadata, Mapping) or "traceparent" in metadata):
        return metadata
    return {**carrier, **(metadata or {})}


@contextlib.contextmanager
def sending(call: "Enqueuing") -> Iterator[None]:
    """Middleware that opens a span for an enqueue, but only inside another span, because a trace of a single INSERT is useless."""
    if trace is None or not trace.get_current_span().get_span_context().is_valid:
        yield
        return
    queues = {str(spec.get("queue", "default")) for spec in call.specs}
    queue = queues.pop() if len(queues) == 1 else None
    attributes = _attributes("send", queue)
    count = sum(len(spec["payloads"]) if "payloads" in spec else 1 for spec in call.specs)
    if count != 1:
        attributes["messaging.batch.message_count"] = count
    name = "send" if queue is None else f"send {queue}"
    with trace.get_tracer("jobq").start_as_current_span(name, kind=trace.SpanKind.PRODUCER, attributes=attributes) as span:
        carrier: Dict[str, str] = {}
        TraceContextTextMapPropagator().inject(carrier)
        for spec in call.specs:
            spec["metadata"] = with_context(spec.get("metadata"), carrier)
        try:
            yield
        except BaseException as error:   # recorded by the API, then raised again
            _set_error_type(span, error)
            raise
        if count == 1 and call.ids:
            span.set_attribute("messaging.message.id", str(call.ids[0]))


class Span:
    """The span of an attempt."""

    def __init__(self, span: Any = None) -> None:
        self.span = span

    def ended(self, outcome: Outcome, error: Optional[BaseException]) -> None:
        """Ends the span. error: the exception that the handler raised."""
        if self.span is None:
            return
        failed = outcome.what == FAIL and (error is None or is_failure(error))
        self.span.set_attribute("jobq.outcome", _name(outcome, failed))
        if failed:
            cause = ValueError(outcome.text) if error is None else error
            self.span.record_exception(cause)
            _set_error_type(self.span, cause)
            self.span.set_status(trace.StatusCode.ERROR, outcome.text)


def _name(outcome: Outcome, failed: bool) -> str:
    if outcome.what == FAIL and not failed:
        return "cancelled"
    if outcome.what == VERIFY:   # the handler has finished, and the job is completed in a transaction of the caller
        return "uncertain" if outcome.text else "completed"
    return OUTCOMES.get(outcome.what, outcome.text)


def _set_error_type(span: Any, error: BaseException) -> None:
    span.set_attribute("error.type", type(error).__qualname__)


def _attributes(operation: str, queue: Optional[str]) -> Dict[str, Any]:
    destination = {} if queue is None else {"messaging.destination.name": queue}
    return {"messaging.system": SYSTEM, **destination, "messaging.operation.type": operation, "messaging.operation.name": operation}


class Tracer:
    def __init__(self, as_child: bool) -> None:
        self.as_child = as_child

    @contextlib.contextmanager
    def process(self, job: BaseJob, options: Options) -> Iterator[Span]:
        if trace is None:
            yield Span()
            return
        links, parent = [], Context()   # its own trace, instead of the context that the thread or task has inherited
        carrier = context_of(job.metadata)
        if carrier:
            sent = TraceContextTextMapPropagator().extract(carrier, Context())
            producer = trace.get_current_span(sent).get_span_context()
            if producer.is_valid:
                links = [trace.Link(producer)]
                parent = sent if self.as_child else parent
        attributes = {**_attributes("process", job.queue), "messaging.message.id": str(job.id),
                      "messaging.client.id": options.worker_id, "jobq.kind": job.kind, "jobq.attempt": job.attempt}
        with trace.get_tracer("jobq").start_as_current_span(
                f"process {job.queue}", context=parent, kind=trace.SpanKind.CONSUMER, links=links,
                attributes=attributes, record_exception=False, set_status_on_exception=False) as span:
            yield Span(span)
