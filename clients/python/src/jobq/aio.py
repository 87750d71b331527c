"""A worker whose handlers are coroutines, in the event loop of its caller. What claims and heartbeats runs in threads, as for
plain functions: a handler that blocks the loop loses no lease."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import signal
import time
from datetime import datetime
from typing import Any, AsyncIterator, Awaitable, Callable, List, Mapping, Optional, Sequence

import psycopg

from . import connect, outcome, statements
from .base import Attempt, BaseWorker, RunsEnd
from .core import Core
from .enqueue import arun_on
from .errors import Delay
from .job import BaseJob

AsyncHandler = Callable[["AsyncJob"], Awaitable[Any]]


class AsyncJob(BaseJob):
    """What a handler is given. A cancellation, a lost lease and the end of the grace cancel its task: await raises
    asyncio.CancelledError, and job.cancelled says why."""

    def __init__(self, row: statements.Row, connections: "AsyncConnections", heartbeat_timeout: Optional[float] = None) -> None:
        super().__init__(row, heartbeat_timeout)
        self._connections = connections

    @contextlib.asynccontextmanager
    async def connection(self) -> AsyncIterator[psycopg.AsyncConnection[Any]]:
        """A connection of its own, in autocommit mode. Those of ended handlers are used again."""
        connection = await self._connections.take()
        try:
            yield connection
        finally:
            await self._connections.give(connection)

    @contextlib.asynccontextmanager
    async def completing(self, result: Any = None) -> AsyncIterator[psycopg.AsyncConnection[Any]]:
        """As Job.completing()."""
        with self._completed_with(result):
            async with self.connection() as connection, connection.transaction():
                yield connection
                await self.complete_in(connection, self.result)

    async def complete_in(self, connection: Any, result: Any = None) -> None:
        """As Job.complete_in()."""
        call = self._completion(result)
        with self._completed_in():
            await arun_on(connection, *call)

    async def step(self, name: str, function: Callable[[psycopg.AsyncConnection[Any]], Awaitable[Any]]) -> Any:
        """As Job.step()."""
        async with self.connection() as connection:
            done, result = self._step_result(*await self._ask(connection, *self._step(name)))
            if done:
                return result
            with self._saved_with():
                async with connection.transaction():
                    return (await self._ask(connection, *self._step_done(name, await function(connection))))[1]

    async def sleep(self, name: str, delay: Optional[Delay] = None, until: Optional[datetime] = None) -> None:
        """As Job.sleep()."""
        async with self.connection() as connection:
            self._ready(*await self._ask(connection, *self._sleep(name, delay, until)))

    async def wait_for(self, event: str, timeout: Optional[Delay] = None, name: Optional[str] = None) -> Any:
        """As Job.wait_for()."""
        async with self.connection() as connection:
            return self._ready(*await self._ask(connection, *self._await(event, timeout, name)))

    async def wait_for_jobs(self, ids: Sequence[int], name: str, mode: str = "all", timeout: Optional[Delay] = None) -> Any:
        """As Job.wait_for_jobs()."""
        async with self.connection() as connection:
            return self._ready(*await self._ask(connection, *self._await_jobs(ids, name, mode, timeout)))

    async def spawn(self, name: str, specs: Sequence[Mapping[str, Any]]) -> List[int]:
        """As Job.spawn()."""
        with self._lease_held():
            async with self.connection() as connection:
                return list((await self._ask(connection, *self._spawn(name, specs)))[1])

    @staticmethod
    async def _ask(connection: psycopg.AsyncConnection[Any], statement: str, parameters: List[Any]) -> Any:
        async with connection.cursor(row_factory=psycopg.rows.tuple_row) as cursor:
            await cursor.execute(statement, parameters)
            return await cursor.fetchone()


class AsyncConnections:
    """Those of the handlers."""

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
    """Serves one queue. handlers: a coroutine function for each kind; or register them with @worker.handler("kind"). A plain function
    will do, too: what it returns is awaited where it can be, and else the result; meanwhile it blocks the loop."""

    def _set_up(self, name: str) -> None:
        self._loop: Optional[asyncio.AbstractEventLoop] = None
        self._over: Optional[asyncio.Event] = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._connections = AsyncConnections(self.conninfo, self.connect_options, name)

    async def start(self) -> None:
        """Connects, and works in the running loop until stop(). Signals are the caller's."""
        core = self._new_core()
        over = asyncio.Event()   # of this start: one that was cancelled may still be about to end
        self._loop, self._over = asyncio.get_running_loop(), over
        core.when_over = lambda: self._call(over.set)
        self._core = core   # its threads use it at once
        try:
            await self._loop.run_in_executor(None, core.start)
        except BaseException:
            self._core = None
            core.hand.stop()   # where it was cancelled, its threads begin nevertheless
            raise
        self._started()

    async def join(self, timeout: Optional[float] = None) -> bool:
        """Until it has stopped; whether it has. An error that ended it is thrown."""
        if self._core is None or self._over is None:
            return True
        try:
            if not self._over.is_set():   # wait_for() looks at nothing when there is no time
                await asyncio.wait_for(self._over.wait(), timeout)
        except asyncio.TimeoutError:
            return False
        await self._connections.close()
        if self._core.error is not None:
            raise self._core.error
        return True

    async def run(self, signals: Sequence[int] = (signal.SIGTERM, signal.SIGINT)) -> int:
        """Works until one of the signals; for sys.exit(). 0: everything has been reported. A cancellation stops it as a signal does, and
        is thrown when all has ended."""
        return await run_all([self], signals)

    # ---- called by the thread that claims

    def _make_job(self, row: statements.Row, heartbeat_timeout: Optional[float]) -> AsyncJob:
        return AsyncJob(row, self._connections, heartbeat_timeout)

    def _run(self, job: BaseJob, core: Core) -> None:
        self._call(self._create_task, job, core)

    def _call(self, function: Callable[..., None], *arguments: Any) -> None:
        assert self._loop is not None
        with contextlib.suppress(RuntimeError):   # a loop that has been closed
            self._loop.call_soon_threadsafe(function, *arguments)

    # ---- in the loop

    def _create_task(self, job: AsyncJob, core: Core) -> None:
        task = asyncio.ensure_future(self._handle(job, core))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

        def cancel() -> None:
            if not task.done():
                task.cancel()

        job._when_stopped = lambda: self._call(cancel)
        if job.cancelled is not None:   # behind its first step: a task that is cancelled before that never runs
            asyncio.get_running_loop().call_soon(cancel)

    async def _handle(self, job: AsyncJob, core: Core) -> None:
        try:
            with self.tracer.process(job, self.options) as span:
                with Attempt(job, span, core.collisions) as attempt:
                    value: Any = self._handler_of(job)(job)
                    attempt.value = await value if inspect.isawaitable(value) else value
                ended = attempt.outcome
        except BaseException as error:   # noqa: B902: of the tracer, or a cancellation before the handler has begun
            ended = outcome.of_error(error, job.cancelled, job.ended)
        core.job_ended(job, ended)


async def run_all(workers: Sequence[AsyncWorker], signals: Sequence[int] = (signal.SIGTERM, signal.SIGINT)) -> int:
    """As AsyncWorker.run(). A worker that cannot start, or that ends with an error, stops the others, which have their grace; then its
    error is thrown."""
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
