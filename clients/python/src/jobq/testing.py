"""Tools to test handlers and code that enqueues jobs. They do not sleep and start no threads."""

from __future__ import annotations

import contextlib
import json
import time
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Callable, Dict, Iterator, List, Mapping, Optional, Sequence, Tuple, Union

import psycopg

from . import outcome, statements
from .base import plain_result
from .enqueue import run_on
from .errors import Delay, Waiting
from .job import BaseJob
from .kinds import Kind
from .lines import Line, checked
from .middleware import handling
from .options import Options
from .parameters import interval, moment, specs_of
from .worker import Handler, Job

_COMPLETE = "SELECT jobq_complete(%s::bigint, %s::bigint, %s::jsonb)"
_RELEASE = "SELECT jobq_release(%s::bigint, %s::bigint)"
MOST_JOBS = 10000


@dataclass(frozen=True)
class Ended:
    """The outcome of an attempt."""

    job: BaseJob
    status: str
    """One of: completed, failed (permanently), scheduled or pending (the job will run again), cancelled, waiting, lost."""
    result: Any = None
    error: str = ""
    logged: Sequence[Tuple[str, str]] = ()
    """The log lines of the attempt, as (level, text)."""


class _GivenConnection:
    """Replaces the connections of a worker: always returns the connection of the test and never closes it."""

    def __init__(self, connection: psycopg.Connection[Any]) -> None:
        self.connection = connection

    def take(self) -> psycopg.Connection[Any]:
        return self.connection

    def give(self, connection: psycopg.Connection[Any]) -> None:
        pass


def drain(connection: Any, handlers: Mapping[str, Handler], queue: str = "default", *, now: Optional[datetime] = None,
          most: int = MOST_JOBS, **options: Any) -> List[Ended]:
    """Claims and runs the queue's jobs one by one in the calling thread, until no job of these kinds is claimable, including jobs
    that handlers enqueue. Works inside the caller's transaction, also on jobs that the transaction enqueued and has not
    committed.

    now sets the clock: jobs, retries, sleeps, and timeouts of waits that are due by then also run. If the connection is not
    psycopg's own (Django's, SQLAlchemy's), handlers cannot ask the job for a connection; they use the ORM's."""
    worker = Options(queue=queue, **options)
    moment("now", now)
    raw = connection if isinstance(connection, psycopg.Connection) else None
    ended: List[Ended] = []
    while len(ended) < most:
        row = _claim(connection, worker, sorted(handlers))
        if row is None and now is not None:
            _set_clock(connection, now)
            row = _claim(connection, worker, sorted(handlers))
        if row is None:
            return ended
        job = _DrainedJob(row, _GivenConnection(raw) if raw is not None else _NoConnection(), connection)
        came = _run(handlers[job.kind], job, raw)
        job.write_lines()
        ended.append(replace(_finish(connection, job, came), logged=tuple(job.logged)))
    raise RuntimeError(f"there are still jobs after {most} jobs: do they enqueue each other?")


def run_inline(handler: Callable[[Job[Any]], Any], payload: Any = None, *, connection: Optional[psycopg.Connection[Any]] = None,
               kind: Union[str, Kind[Any, Any]] = "", attempt: int = 1, progress: Any = None, metadata: Optional[Mapping[str, Any]] = None,
               steps: Optional[Mapping[str, Any]] = None, signals: Optional[Mapping[str, Any]] = None) -> "InlineJob":
    """Calls a handler with a job that is in no table and returns the job. Exceptions of the handler are not caught. The job's
    .result, .reported, .logged, and .done_steps contain its result, progress, log lines, and finished steps. kind: a name, or a Kind,
    which then checks the payload and the result. steps: results that earlier attempts have saved."""
    name = kind
    if isinstance(kind, Kind):
        payload = kind.spec(payload)["payload"]
        [(name, handler)] = kind.handler(handler).items()
    job = InlineJob(payload, connection, str(name), attempt, progress, metadata, dict(steps or {}), dict(signals or {}))
    with handling(job):
        returned = plain_result(job.kind, handler(job))
    if not job.completed:
        job.result = json.loads(statements.as_json(job.returned(returned)))
    return job


class InlineJob(Job[Any]):
    """A job that is in no table."""

    def __init__(self, payload: Any, connection: Optional[psycopg.Connection[Any]], kind: str, attempt: int, progress: Any,
                 metadata: Optional[Mapping[str, Any]], steps: Dict[str, Any], signals: Dict[str, Any]) -> None:
        now = time.time()
        row = dict(id=1, lease=1, queue="inline", kind=kind, payload={} if payload is None else payload, attempt=attempt,
                   max_attempts=20, priority=0, version=0, run_at=now, created_at=now, progress=progress, metadata=metadata,
                   heartbeat_seconds=20)
        super().__init__(row, _GivenConnection(connection) if connection is not None else _NoConnection())  # type: ignore[arg-type]
        self.reported: Any = None
        self._logged: List[Line] = []
        self.completed = False
        self.done_steps, self.signals = steps, signals

    @property
    def logged(self) -> List[Tuple[str, str]]:
        """The log lines of the handler, as (level, text)."""
        return [(line.level, line.text) for line in self._logged]

    def log(self, text: str, level: str = "info") -> None:
        self._logged.append(checked(text, level, 0.0))

    def set_progress(self, value: Any) -> None:
        self.reported = json.loads(statements.as_json(value))

    def pause(self, seconds: float) -> None:
        self.check()

    @contextlib.contextmanager
    def completing(self, result: Any = None) -> Iterator[psycopg.Connection[Any]]:
        self.result = result
        with self.connection() as connection, connection.transaction():
            yield connection
        self.completed = True

    def complete_in(self, connection: Any, result: Any = None) -> None:
        self.result, self.completed = result, True

    def step(self, name: str, function: Callable[[psycopg.Connection[Any]], Any]) -> Any:
        if name not in self.done_steps:
            with self.connection() as connection, connection.transaction():
                self.done_steps[name] = json.loads(statements.as_json(function(connection)))
        return self.done_steps[name]

    def sleep(self, name: str, delay: Optional[Delay] = None, until: Optional[datetime] = None) -> None:
        """Continues if the step is already among the finished steps; otherwise suspends the job."""
        moment("until", until)
        if name not in self.done_steps:
            self.done_steps[name] = None
            raise Waiting()

    def wait_for(self, event: str, timeout: Optional[Delay] = None, name: Optional[str] = None) -> Any:
        if event not in self.signals:
            raise Waiting()
        return self.signals[event]

    def wait_for_jobs(self, ids: Sequence[int], name: str, mode: str = "all", timeout: Optional[Delay] = None) -> Any:
        return self.wait_for(name)

    def spawn(self, name: str, specs: Sequence[Mapping[str, Any]]) -> List[int]:
        """Enqueues nothing; stores the specs in done_steps."""
        self.done_steps.setdefault(name, [dict(spec) for spec in specs_of(specs)])
        return list(range(2, 2 + len(self.done_steps[name])))


class _NoConnection:
    def take(self) -> psycopg.Connection[Any]:
        raise RuntimeError("this handler wants a connection: pass the psycopg connection of the test, or let the handler use the connection of its ORM")

    def give(self, connection: psycopg.Connection[Any]) -> None:
        pass


# ---- for drain()

class _DrainedJob(Job[Any]):
    def __init__(self, row: statements.Row, connections: Any, connection: Any) -> None:
        super().__init__(row, connections)
        self._given, self.logged = connection, []   # type: Any, List[Tuple[str, str]]
        self._flush = self.write_lines

    def write_lines(self) -> None:
        lines = self.lines.take()
        self.lines.sent([])
        self.logged += [(line.level, line.text) for line in lines]
        if lines:
            run_on(self._given, statements.WRITE_LOG, statements.log_parameters([(self, line) for line in lines]))

    def pause(self, seconds: float) -> None:
        self.check()


def _claim(connection: Any, worker: Options, kinds: List[str]) -> Optional[statements.Row]:
    parameters = statements.claim_parameters(worker, kinds, 1)
    statement, values = statements.CLAIM, []
    for name in ("queue", "worker_id", "batch", "kinds", "versions", "capabilities", "heartbeat_timeout", "worker_info"):
        statement = statement.replace(f"%({name})s", "%s")
        values.append(parameters[name])
    rows = statements.claimed_rows(json.loads(run_on(connection, statement, values)[0][0]))
    return rows[0] if rows else None


def _set_clock(connection: Any, now: datetime) -> None:
    if run_on(connection, statements.SLEEPERS, [now])[0][0]:
        run_on(connection, statements.WAKE_SLEEPERS, [now])
    run_on(connection, statements.TICK, [now])


def _run(handler: Handler, job: Job[Any], raw: Optional[psycopg.Connection[Any]]) -> "tuple[outcome.Outcome, Any]":
    """Runs the handler in a savepoint if the test has a transaction, so that a failed statement does not abort that transaction.
    As with a worker, writes, saved steps, and waits of the handler persist even if the handler raises."""
    within = raw is not None and raw.info.transaction_status == psycopg.pq.TransactionStatus.INTRANS
    came: "tuple[outcome.Outcome, Any]"
    with raw.transaction() if raw is not None and within else contextlib.nullcontext():
        try:
            with handling(job):
                value = job.returned(plain_result(job.kind, handler(job)))
            came = outcome.of_return(value, job.ended), value
        except BaseException as error:   # noqa: B902: a handler's exception is its job's outcome
            if isinstance(error, (KeyboardInterrupt, AssertionError)):
                raise
            came = outcome.of_error(error, job.cancelled, job.ended), None
        if within and raw is not None and raw.info.transaction_status == psycopg.pq.TransactionStatus.INERROR:
            raise psycopg.Rollback()
    return came


def _finish(connection: Any, job: Job[Any], came: "tuple[outcome.Outcome, Any]") -> Ended:
    what, value = came
    lease = [job.id, job.lease]

    def ask(statement: str, *values: Any) -> Any:
        return run_on(connection, statement, list(values))[0][0]

    progress = job.take_progress()
    if progress is not None:
        ask(statements.HEARTBEAT, *lease, progress)
    if what.what == outcome.NOTHING:
        return Ended(job, what.text, job.result if what.text == "completed" else None)
    if what.what == outcome.VERIFY:
        return Ended(job, "completed" if outcome.is_finished(ask(statements.HEARTBEAT, *lease, None)) else "lost", value)
    if what.what == outcome.COMPLETE:
        return Ended(job, "completed" if ask(_COMPLETE, *lease, what.result) else "lost", value)
    if what.what == outcome.SNOOZE:
        return Ended(job, "scheduled" if ask(statements.SNOOZE, job.id, interval(what.retry_in), job.lease) else "lost")
    if what.what == outcome.RELEASE:
        return Ended(job, "pending" if ask(_RELEASE, *lease) else "lost")
    status = ask(statements.FAIL, *lease, what.text, interval(what.retry_in), what.retry, what.details)
    return Ended(job, status or "lost", error=what.text)

