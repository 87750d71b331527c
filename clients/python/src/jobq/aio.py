"""A worker whose handlers are coroutines in the event loop of the caller. Claims and heartbeats run in threads, as in Worker, so
a handler that blocks the event loop does not lose its lease."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import signal
import time
from datetime import datetime
from typing import Any, AsyncIterator, Awaitable, Callable, Generic, List, Mapping, Optional, Sequence, overload

import psycopg

from . import connect, outcome, statements
from .base import Attempt, BaseWorker, RunsEnd
from .core import Core
from .enqueue import arun_on
from .errors import Delay
from .job import BaseJob, Call
from .kinds import Kind, Payload, Result
from .middleware import ahandling, enqueuing
from .parameters import specs_of

AsyncHandler = Callable[["AsyncJob[Any]"], Awaitable[Any]]


class AsyncJob(BaseJob, Generic[Payload]):
    """The job that a handler receives. If the job is canceled, its lease is lost, or the worker's grace period ends, the
    handler's task is canceled: await raises asyncio.CancelledError, and job.cancelled contains the reason."""

    payload: Payload

    def __init__(self, row: statements.Row, connections: "AsyncConnections", heartbeat_timeout: Optional[float] = None) -> None:
        super().__init__(row, heartbeat_timeout)
        self._connections = connections

    @contextlib.asynccontextmanager
    async def connection(self) -> AsyncIterator[psycopg.AsyncConnection[Any]]:
        """Provides the handler with its own connection in autocommit mode, reusing the connection of a finished handler if
        possible."""
        connection = await self._connections.take()
        try:
            yield connection
        finally:
            await self._connections.give(connection)

    @contextlib.asynccontextmanager
    async def completing(self, result: Any = None) -> AsyncIterator[psycopg.AsyncConnection[Any]]:
        """Completes the job together with the block's SQL. See Job.completing()."""
        with self._completed_with(result):
            async with self.connection() as connection, connection.transaction():
                yield connection
                await self.complete_in(connection, self.result)

    async def complete_in(self, connection: Any, result: Any = None) -> None:
        """Completes the job in the caller's transaction. See Job.complete_in()."""
        call = self._completion(result)
        await self._send_lines()
        with self._completed_in():
            await self._settled()
            await arun_on(connection, *call)

    async def step(self, name: str, function: Callable[[psycopg.AsyncConnection[Any]], Awaitable[Any]]) -> Any:
        """Runs a step once and saves its result. See Job.step()."""
        async with self.connection() as connection:
            done, result = self._step_result(*await self._ask(connection, *self._step(name)))
            if done:
                return result
            with self._saved_with():
                async with connection.transaction():
                    call = self._step_done(name, await function(connection))
                    await self._settled()
                    return (await self._ask(connection, *call))[1]

    async def sleep(self, name: str, delay: Optional[Delay] = None, until: Optional[datetime] = None) -> None:
        """Suspends the job until a time. See Job.sleep()."""
        await self._suspend(self._sleep(name, delay, until))

    async def wait_for(self, event: str, timeout: Optional[Delay] = None, name: Optional[str] = None) -> Any:
        """Suspends the job until a signal arrives. See Job.wait_for()."""
        return await self._suspend(self._await(event, timeout, name))

    async def wait_for_jobs(self, ids: Sequence[int], name: str, mode: str = "all", timeout: Optional[Delay] = None) -> Any:
        """Suspends the job until other jobs finish. See Job.wait_for_jobs()."""
        return await self._suspend(self._await_jobs(ids, name, mode, timeout))

    async def spawn(self, name: str, specs: Sequence[Mapping[str, Any]]) -> List[int]:
        """Enqueues jobs once, even if the job is retried. See Job.spawn()."""
        with self._lease_held():
            async with self.connection() as connection:
                with enqueuing([dict(spec) for spec in specs_of(specs)]) as call:
                    call.ids = list((await self._ask(connection, *self._spawn(name, call.specs)))[1])
                    return call.ids

    async def _suspend(self, call: Call) -> Any:
        """Makes a call that may end the attempt."""
        await self._send_lines()
        async with self.connection() as connection:
            return self._ready(*await self._ask(connection, *call))

    async def _settled(self) -> None:
        """Does the same as Hand.settle(). Does not wait in a thread, because handlers may occupy all threads of the event loop's
        executor, and the job gets no heartbeats in the meantime."""
        end = time.monotonic() + self.heartbeat_every
        while not self._is_settled() and time.monotonic() < end:
            await asyncio.sleep(0.01)

    async def _send_lines(self) -> None:
        if self.lines.pending:
            await asyncio.to_thread(self._flush)

    @staticmethod
    async def _ask(connection: psycopg.AsyncConnection[Any], statement: str, parameters: List[Any]) -> Any:
        async with connection.cursor(row_factory=psycopg.rows.tuple_row) as cursor:
            await cursor.execute(statement, parameters)
            return await cursor.fetchone()


class AsyncConnections:
    """The connections of the handlers."""

    def __init__(self, conninfo: connect.Conninfo, options: Mapping[str, Any], name: str) -> None:
        self.conninfo, self.options, self.name = conninfo, options, name
        self.idle: connect.Idle[psycopg.AsyncConnection[Any]] = connect.Idle()

    async def take(self) -> psycopg.AsyncConnection[Any]:
        while (idle := self.idle.take()) is not None:
            unseen, connection = idle
            try:
                if unseen:
                    await connection.execute("SELECT")
                return connection
            except psycopg.Error:
                await connection.close()
        opened: psycopg.AsyncConnection[Any] = await psycopg.AsyncConnection.connect(
            **connect.arguments(self.conninfo, self.options, self.name))
        return opened

    async def give(self, connection: psycopg.AsyncConnection[Any]) -> None:
        if connect.is_reusable(connection):
            self.idle.give(connection)
        else:
            await connection.close()

    async def close(self) -> None:
        while (idle := self.idle.take()) is not None:
            await idle[1].close()


class AsyncWorker(BaseWorker[AsyncHandler]):
    """Serves one queue or several queues. handlers maps each kind to a coroutine function; @worker.handler("kind") registers a
    handler, too. Plain functions also work: an awaitable that they return is awaited, and any other return value is the result. A
    plain function blocks the event loop while it runs."""

    def _set_up(self) -> None:
        self._loop: Optional[asyncio.AbstractEventLoop] = None
        self._over: Optional[asyncio.Event] = None
        self._tasks: set[asyncio.Task[None]] = set()

    async def start(self) -> None:
        """Connects and starts working in the running event loop, until stop() is called. Installs no signal handlers."""
        core = self._new_core()
        over = asyncio.Event()   # per start: an earlier start that was canceled may set its own event later
        self._loop, self._over = asyncio.get_running_loop(), over
        core.when_over = lambda: self._call(over.set)
        self._core = core   # before start(), because the threads use it at once
        try:
            await self._loop.run_in_executor(None, core.start)
        except BaseException:
            self._core = None
            core.stop()   # start() was canceled, but its threads may still start
            raise
        self._started()

    async def join(self, timeout: Optional[float] = None) -> bool:
        """Waits until the worker has stopped, at most timeout seconds. Returns whether it has stopped, and raises the error that
        ended it."""
        if self._core is None or self._over is None:
            return True
        try:
            if not self._over.is_set():   # asyncio.wait_for() does not check the event if the timeout is 0
                await asyncio.wait_for(self._over.wait(), timeout)
        except asyncio.TimeoutError:
            return False
        for connections in self._connections.values():
            await connections.close()
        if self._core.error is not None:
            raise self._core.error
        return True

    async def run(self, signals: Sequence[int] = (signal.SIGTERM, signal.SIGINT)) -> int:
        """Works until one of the signals arrives and returns the exit status: 0 if everything has been reported. A cancellation
        stops the worker like a signal; CancelledError is raised after the worker has stopped."""
        return await run_all([self], signals)

    @overload
    def handler(self, kind: str) -> Callable[[AsyncHandler], AsyncHandler]: ...
    @overload
    def handler(self, kind: Kind[Payload, Result]
                ) -> Callable[[Callable[[AsyncJob[Payload]], Awaitable[Result]]], Callable[[AsyncJob[Payload]], Awaitable[Result]]]: ...
    def handler(self, kind: Any) -> Any:
        """Registers the decorated function as the handler of a kind."""
        return self._decorator(kind)

    # ---- called by the claiming thread

    def _connect_to(self, conninfo: connect.Conninfo) -> AsyncConnections:
        return AsyncConnections(conninfo, self._server_options, self._connections_name)

    def _make_job(self, row: statements.Row, connections: AsyncConnections, heartbeat_timeout: Optional[float]) -> AsyncJob[Any]:
        return AsyncJob(row, connections, heartbeat_timeout)

    def _run(self, job: BaseJob, core: Core) -> None:
        self._call(self._create_task, job, core)

    def _call(self, function: Callable[..., None], *arguments: Any) -> None:
        assert self._loop is not None
        with contextlib.suppress(RuntimeError):   # if the loop has been closed
            self._loop.call_soon_threadsafe(function, *arguments)

    # ---- in the event loop

    def _create_task(self, job: AsyncJob[Any], core: Core) -> None:
        task = asyncio.ensure_future(self._handle(job, core))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

        def cancel() -> None:
            if not task.done():
                task.cancel()

        job._when_stopped = lambda: self._call(cancel)
        if job.cancelled is not None:   # after the task's first step, because a task that is canceled before it never runs
            asyncio.get_running_loop().call_soon(cancel)

    async def _handle(self, job: AsyncJob[Any], core: Core) -> None:
        try:
            with self.tracer.process(job, self.options) as span:
                with Attempt(job, span, core.collisions, self.failures) as attempt:
                    job.must_be_readable()
                    async with ahandling(job):
                        value: Any = self.handlers[job.kind](job)
                        attempt.value = job.returned(await value if inspect.isawaitable(value) else value)
                ended = attempt.outcome
        except BaseException as error:   # noqa: B902: from the tracer, or a cancellation before the handler has started
            ended = outcome.of_error(error, job.cancelled, job.ended)
        core.job_ended(job, ended)


async def run_all(workers: Sequence[AsyncWorker], signals: Sequence[int] = (signal.SIGTERM, signal.SIGINT)) -> int:
    """Runs several workers as AsyncWorker.run() does. If a worker cannot start or ends with an error, the others stop gracefully,
    and then the error is raised."""
    loop = asyncio.get_running_loop()
    end = RunsEnd(workers)
    started: List[AsyncWorker] = []

    async def until_over() -> int:
        left, statuses = list(started), []
        while left:
            end.look()
            try:
                if await left[0].join(1.0):
                    statuses.append(left.pop(0)._has_ended())
            except Exception as error:
                end.error = end.error or error
                left.pop(0)
            if left and end.deadline is not None and time.monotonic() > end.deadline:
                return max(worker._gives_up() for worker in left)
        if end.error is not None:
            raise end.error
        return max(statuses, default=0)

    for worker in workers:
        try:
            await worker.start()
        except BaseException as error:   # noqa: B902
            end.error = error
            break
        started.append(worker)
    end.started()
    for number in signals:
        loop.add_signal_handler(number, end.signalled)
    try:
        return await until_over()
    except asyncio.CancelledError:
        end.signalled()
        try:
            await until_over()
        except asyncio.CancelledError:
            end.signalled()
        raise
    finally:
        for number in signals:
            loop.remove_signal_handler(number)
