"""A worker whose handlers are plain functions, each in a thread."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import threading
import time
from datetime import datetime
from queue import SimpleQueue
from typing import Any, Callable, Dict, Iterator, List, Mapping, Optional, Sequence, Tuple

import psycopg

from . import connect, outcome, statements
from .base import Attempt, BaseWorker, RunsEnd, is_coroutine_function, plain_result
from .core import Core
from .enqueue import run_on
from .errors import Delay, OptionError
from .job import BaseJob

Handler = Callable[["Job"], Any]


class Job(BaseJob):
    """What a handler is given. The columns of the claim are its properties: id, kind, payload, attempt, metadata ..."""

    def __init__(self, row: statements.Row, connections: "Connections", heartbeat_timeout: Optional[float] = None) -> None:
        super().__init__(row, heartbeat_timeout)
        self._connections = connections
        self._stopped = threading.Event()
        self._when_stopped = self._stopped.set

    def pause(self, seconds: float) -> None:
        """Sleeps, and throws as check() does when the handler should stop meanwhile."""
        self._stopped.wait(seconds)
        self.check()

    @contextlib.contextmanager
    def connection(self) -> Iterator[psycopg.Connection[Any]]:
        """A connection of its own, in autocommit mode. Those of ended handlers are used again."""
        connection = self._connections.take()
        try:
            yield connection
        finally:
            self._connections.give(connection)

    @contextlib.contextmanager
    def completing(self, result: Any = None) -> Iterator[psycopg.Connection[Any]]:
        """A transaction in which the block's SQL and the completion of the job commit together, or neither. The result of
        the job is the argument, or what the block assigns to job.result."""
        with self._completed_with(result), self.connection() as connection, connection.transaction():
            yield connection
            self.complete_in(connection, self.result)

    def complete_in(self, connection: Any, result: Any = None) -> None:
        """Completes the job in a transaction of the caller's, such as Django's or SQLAlchemy's, which throws when the lease is
        lost. Whether that transaction has committed is asked when the handler has returned: until then nothing is certain."""
        call = self._completion(result)
        with self._completed_in():
            run_on(connection, *call)

    def step(self, name: str, function: Callable[[psycopg.Connection[Any]], Any]) -> Any:
        """Calls the function once, however often the job is tried: what it writes on the connection that it is given is
        committed with its result. Later attempts get the result."""
        with self.connection() as connection:
            done, result = self._step_result(*self._ask(connection, *self._step(name)))
            if done:
                return result
            with self._saved_with(), connection.transaction():
                return self._ask(connection, *self._step_done(name, function(connection)))[1]

    def sleep(self, name: str, delay: Optional[Delay] = None, until: Optional[datetime] = None) -> None:
        """Ends the handler, and the job goes on then, from its start, past what is saved of it."""
        with self.connection() as connection:
            self._ready(*self._ask(connection, *self._sleep(name, delay, until)))

    def wait_for(self, event: str, timeout: Optional[Delay] = None, name: Optional[str] = None) -> Any:
        """The payload of a signal, for which no worker waits; or TimedOut, which is false."""
        with self.connection() as connection:
            return self._ready(*self._ask(connection, *self._await(event, timeout, name)))

    def wait_for_jobs(self, ids: Sequence[int], name: str, mode: str = "all", timeout: Optional[Delay] = None) -> Any:
        """What became of other jobs, a list of {"job_id": ..., "status": ..., "result": ...}; or TimedOut, which is false."""
        with self.connection() as connection:
            return self._ready(*self._ask(connection, *self._await_jobs(ids, name, mode, timeout)))

    def spawn(self, name: str, specs: Sequence[Mapping[str, Any]]) -> List[int]:
        """Enqueues jobs once, however often the job is tried; their ids."""
        with self._lease_held(), self.connection() as connection:
            return list(self._ask(connection, *self._spawn(name, specs))[1])

    @staticmethod
    def _ask(connection: psycopg.Connection[Any], statement: str, parameters: List[Any]) -> Any:
        with connection.cursor(row_factory=psycopg.rows.tuple_row) as cursor:
            return cursor.execute(statement, parameters).fetchone()


class Connections:
    """Those of the handlers."""

    def __init__(self, conninfo: connect.Conninfo, options: Mapping[str, Any], name: str) -> None:
        self.conninfo, self.options, self.name = conninfo, options, name
        self.idle: connect.Idle[psycopg.Connection[Any]] = connect.Idle()

    def take(self) -> psycopg.Connection[Any]:
        while (idle := self.idle.take()) is not None:
            unseen, connection = idle
            try:
                if unseen:
                    connection.execute("SELECT")
                return connection
            except psycopg.Error:
                connection.close()
        return psycopg.connect(**connect.arguments(self.conninfo, self.options, self.name))

    def give(self, connection: psycopg.Connection[Any]) -> None:
        if connect.is_reusable(connection):
            self.idle.give(connection)
        else:
            connection.close()

    def close(self) -> None:
        while (idle := self.idle.take()) is not None:
            idle[1].close()


class Worker(BaseWorker[Handler]):
    """Serves one queue. handlers: a function for each kind; or register them with @worker.handler("kind")."""

    def _set_up(self, name: str) -> None:
        self._work: SimpleQueue[Tuple[Job, Core]] = SimpleQueue()
        self._threads: List[threading.Thread] = []
        self._connections = Connections(self.conninfo, self.connect_options, name)

    def start(self) -> None:
        """Connects, and works in threads until stop(). Signals are the caller's."""
        core = self._new_core()
        self._core = core   # its threads use it at once
        try:
            core.start()
        except BaseException:
            self._core = None
            raise
        self._started()

    def join(self, timeout: Optional[float] = None) -> bool:
        """Until it has stopped; whether it has. An error that ended it is thrown."""
        if self._core is None:
            return True
        if not self._core.over.wait(timeout):
            return False
        self._connections.close()
        if self._core.error is not None:
            raise self._core.error
        return True

    def run(self, signals: Sequence[int] = (signal.SIGTERM, signal.SIGINT)) -> int:
        """Works until one of the signals; for sys.exit(). To be called in the main thread. 0: everything has been reported."""
        return run_all([self], signals)

    def _register(self, kind: str, function: Handler) -> None:
        if is_coroutine_function(function):
            raise OptionError(f"the handler of kind {kind!r} must be a plain function, since coroutines are for AsyncWorker; it is {function!r}")
        super()._register(kind, function)

    # ---- called by the thread that claims

    def _make_job(self, row: statements.Row, heartbeat_timeout: Optional[float]) -> Job:
        return Job(row, self._connections, heartbeat_timeout)

    def _run(self, job: BaseJob, core: Core) -> None:
        assert isinstance(job, Job)
        if len(self._threads) < self.options.slots:
            thread = threading.Thread(target=self._handle_all, name=f"jobq slot {len(self._threads) + 1}", daemon=True)
            thread.start()
            self._threads.append(thread)
        self._work.put((job, core))

    # ---- a slot

    def _handle_all(self) -> None:
        while True:
            self._handle(*self._work.get())

    def _handle(self, job: Job, core: Core) -> None:
        try:
            with self.tracer.process(job, self.options) as span:
                with Attempt(job, span, core.collisions) as attempt:
                    attempt.value = plain_result(job.kind, self._handler_of(job)(job))
                ended = attempt.outcome
        except BaseException as error:   # noqa: B902: of the tracer; the job must not hang
            ended = outcome.of_error(error, job.cancelled, job.ended)
        core.job_ended(job, ended)


def run_all(workers: Sequence[Worker], signals: Sequence[int] = (signal.SIGTERM, signal.SIGINT)) -> int:
    """As Worker.run(). A worker that cannot start, or that ends with an error, stops the others, which have their grace; then its error
    is thrown."""
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
    """Signals and threads wake the main thread by a pipe: a lock must not be taken in a signal's handler."""

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
        # The pipe stays: threads that end late may still ring.

    def _signalled(self, number: int, _: Any) -> None:
        self.pending.append(number)
        self.ring()

    def ring(self) -> None:
        with contextlib.suppress(BlockingIOError):
            os.write(self.writer, b".")

    def wait(self, timeout: Optional[float]) -> bool:
        """Whether a signal has come."""
        if not self.pending:
            select.select([self.reader], [], [], timeout)
            with contextlib.suppress(BlockingIOError):
                os.read(self.reader, 1000)
        if self.pending:
            self.pending.pop(0)
            return True
        return False
