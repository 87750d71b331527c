"""A worker whose handlers are plain functions that run in threads."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import threading
import time
from datetime import datetime
from queue import SimpleQueue
from typing import Any, Callable, Dict, Generic, Iterator, List, Mapping, Optional, Sequence, Tuple, overload

import psycopg

from . import connect, outcome, statements
from .base import Attempt, BaseWorker, RunsEnd, plain_result
from .core import Core
from .enqueue import run_on
from .errors import Delay, OptionError
from .handlers import is_coroutine_function
from .job import BaseJob, Call
from .kinds import Kind, Payload, Result
from .middleware import enqueuing, handling
from .parameters import specs_of

Handler = Callable[["Job[Any]"], Any]


class Job(BaseJob, Generic[Payload]):
    """The job that a handler receives. Its properties are the columns of the claim: id, kind, payload, attempt, metadata, and so
    on."""

    payload: Payload

    def __init__(self, row: statements.Row, connections: connect.Connections, heartbeat_timeout: Optional[float] = None) -> None:
        super().__init__(row, heartbeat_timeout)
        self._connections = connections
        self._stopped = threading.Event()
        self._when_stopped = self._stopped.set

    def pause(self, seconds: float) -> None:
        """Sleeps. Raises the same exceptions as check() if the handler should stop while it sleeps."""
        self._stopped.wait(seconds)
        self.check()

    @contextlib.contextmanager
    def connection(self) -> Iterator[psycopg.Connection[Any]]:
        """Provides the handler with its own connection in autocommit mode, reusing the connection of a finished handler if
        possible."""
        connection = self._connections.take()
        try:
            yield connection
        finally:
            self._connections.give(connection)

    @contextlib.contextmanager
    def completing(self, result: Any = None) -> Iterator[psycopg.Connection[Any]]:
        """Opens a transaction in which the block's SQL and the completion of the job commit together, or not at all. The result
        of the job is the argument, or the value that the block assigns to job.result."""
        with self._completed_with(result), self.connection() as connection, connection.transaction():
            yield connection
            self.complete_in(connection, self.result)

    def complete_in(self, connection: Any, result: Any = None) -> None:
        """Completes the job in the caller's transaction, such as Django's or SQLAlchemy's. Raises Lost if the lease is lost. When
        the handler has returned, the worker asks the server whether that transaction has committed; until then the outcome is
        unknown."""
        call = self._completion(result)
        self._flush()
        with self._completed_in():
            self._settle()
            run_on(connection, *call)

    def step(self, name: str, function: Callable[[psycopg.Connection[Any]], Any]) -> Any:
        """Calls the function once, even if the job is retried. The function's writes on the given connection commit together with
        its result. Later attempts return the saved result without calling the function."""
        with self.connection() as connection:
            done, result = self._step_result(*self._ask(connection, *self._step(name)))
            if done:
                return result
            with self._saved_with(), connection.transaction():
                call = self._step_done(name, function(connection))
                self._settle()
                return self._ask(connection, *call)[1]

    def sleep(self, name: str, delay: Optional[Delay] = None, until: Optional[datetime] = None) -> None:
        """Suspends the job until the time and ends this call of the handler. Then the handler starts again from the beginning;
        finished steps and sleeps are skipped."""
        self._suspend(self._sleep(name, delay, until))

    def wait_for(self, event: str, timeout: Optional[Delay] = None, name: Optional[str] = None) -> Any:
        """Returns the payload of a signal, or TimedOut, which is false in a condition. The job occupies no worker while it waits."""
        return self._suspend(self._await(event, timeout, name))

    def wait_for_jobs(self, ids: Sequence[int], name: str, mode: str = "all", timeout: Optional[Delay] = None) -> Any:
        """Returns the outcomes of other jobs, a list of {"job_id": ..., "status": ..., "result": ...}, or TimedOut, which is
        false in a condition. The job occupies no worker while it waits."""
        return self._suspend(self._await_jobs(ids, name, mode, timeout))

    def spawn(self, name: str, specs: Sequence[Mapping[str, Any]]) -> List[int]:
        """Enqueues jobs once, even if this job is retried, and returns their IDs."""
        with self._lease_held(), self.connection() as connection, enqueuing([dict(spec) for spec in specs_of(specs)]) as call:
            call.ids = list(self._ask(connection, *self._spawn(name, call.specs))[1])
            return call.ids

    def _suspend(self, call: Call) -> Any:
        """Makes a call that may end the attempt."""
        self._flush()
        with self.connection() as connection:
            return self._ready(*self._ask(connection, *call))

    @staticmethod
    def _ask(connection: psycopg.Connection[Any], statement: str, parameters: List[Any]) -> Any:
        with connection.cursor(row_factory=psycopg.rows.tuple_row) as cursor:
            return cursor.execute(statement, parameters).fetchone()


class Worker(BaseWorker[Handler]):
    """Serves one queue or several queues. handlers maps each kind to a function; @worker.handler("kind") registers a handler, too."""

    def _set_up(self) -> None:
        self._work: SimpleQueue[Tuple[Job[Any], Core]] = SimpleQueue()
        self._threads: List[threading.Thread] = []

    def start(self) -> None:
        """Connects and starts working in threads, until stop() is called. Installs no signal handlers."""
        core = self._new_core()
        self._core = core   # before start(), because the threads use it at once
        try:
            core.start()
        except BaseException:
            self._core = None
            raise
        self._started()

    def join(self, timeout: Optional[float] = None) -> bool:
        """Waits until the worker has stopped, at most timeout seconds. Returns whether it has stopped, and raises the error that
        ended it."""
        if self._core is None:
            return True
        if not self._core.over.wait(timeout):
            return False
        for connections in self._connections.values():
            connections.close()
        if self._core.error is not None:
            raise self._core.error
        return True

    def run(self, signals: Sequence[int] = (signal.SIGTERM, signal.SIGINT)) -> int:
        """Works until one of the signals arrives and returns the exit status: 0 if everything has been reported. Must be called
        in the main thread."""
        return run_all([self], signals)

    @overload
    def handler(self, kind: str) -> Callable[[Handler], Handler]: ...
    @overload
    def handler(self, kind: Kind[Payload, Result]) -> Callable[[Callable[[Job[Payload]], Result]], Callable[[Job[Payload]], Result]]: ...
    def handler(self, kind: Any) -> Any:
        """Registers the decorated function as the handler of a kind."""
        return self._decorator(kind)

    def _register(self, kind: str, function: Handler) -> None:
        if is_coroutine_function(function):
            raise OptionError(f"the handler of kind {kind!r} must be a plain function, since coroutines are for AsyncWorker; it is {function!r}")
        super()._register(kind, function)

    # ---- called by the claiming thread

    def _connect_to(self, conninfo: connect.Conninfo) -> connect.Connections:
        return connect.Connections(conninfo, self._server_options, self._connections_name)

    def _make_job(self, row: statements.Row, connections: connect.Connections, heartbeat_timeout: Optional[float]) -> Job[Any]:
        return Job(row, connections, heartbeat_timeout)

    def _run(self, job: BaseJob, core: Core) -> None:
        assert isinstance(job, Job)
        if len(self._threads) < self.options.slots:
            thread = threading.Thread(target=self._handle_all, name=f"jobq slot {len(self._threads) + 1}", daemon=True)
            thread.start()
            self._threads.append(thread)
        self._work.put((job, core))

    # ---- in the thread of a slot

    def _handle_all(self) -> None:
        while True:
            self._handle(*self._work.get())

    def _handle(self, job: Job[Any], core: Core) -> None:
        try:
            with self.tracer.process(job, self.options) as span:
                with Attempt(job, span, core.collisions, self.failures) as attempt:
                    job.must_be_readable()
                    with handling(job):
                        attempt.value = job.returned(plain_result(job.kind, self.handlers[job.kind](job)))
                ended = attempt.outcome
        except BaseException as error:   # noqa: B902: includes errors of the tracer, because the job must not hang
            ended = outcome.of_error(error, job.cancelled, job.ended)
        core.job_ended(job, ended)


def run_all(workers: Sequence[Worker], signals: Sequence[int] = (signal.SIGTERM, signal.SIGINT)) -> int:
    """Runs several workers as Worker.run() does. If a worker cannot start or ends with an error, the others stop gracefully, and
    then the error is raised."""
    with _Bell(signals) as bell:
        end = RunsEnd(workers)
        started: List[Worker] = []
        for worker in workers:
            try:
                worker.start()
            except BaseException as error:   # noqa: B902
                end.error = error
                break
            assert worker._core is not None
            worker._core.when_over = worker._core.when_failed = bell.ring
            started.append(worker)
        end.started()
        while any(worker._core is not None and not worker._core.over.is_set() for worker in started):
            end.look()
            left = None if end.deadline is None else end.deadline - time.monotonic()
            if left is not None and left <= 0:
                return max(worker._gives_up() for worker in started)
            if bell.wait(left):
                end.signalled()
        for worker in started:
            try:
                worker.join()
            except BaseException as error:   # noqa: B902
                end.error = end.error or error
        statuses = [worker._has_ended() for worker in started]
        if end.error is not None:
            raise end.error
        return max(statuses, default=0)


class _Bell:
    """Wakes the main thread with a pipe after signals and from other threads, because a signal handler must not take a lock."""

    def __init__(self, signals: Sequence[int]) -> None:
        self.signals = signals
        self.pending: List[int] = []
        self.before: Dict[int, Any] = {}

    def __enter__(self) -> "_Bell":
        self.reader, self.writer = os.pipe()
        os.set_blocking(self.reader, False)
        os.set_blocking(self.writer, False)
        for number in self.signals:
            self.before[number] = signal.signal(number, self._signalled)
        return self

    def __exit__(self, *_: Any) -> None:
        for number, before in self.before.items():
            signal.signal(number, before)
        # The pipe stays open, because threads that end late may still write to it.

    def _signalled(self, number: int, _: Any) -> None:
        self.pending.append(number)
        self.ring()

    def ring(self) -> None:
        with contextlib.suppress(BlockingIOError):
            os.write(self.writer, b".")

    def wait(self, timeout: Optional[float]) -> bool:
        """Waits up to timeout seconds and returns whether a signal has arrived."""
        if not self.pending:
            select.select([self.reader], [], [], timeout)
            with contextlib.suppress(BlockingIOError):
                os.read(self.reader, 1000)
        if self.pending:
            self.pending.pop(0)
            return True
        return False
