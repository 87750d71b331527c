"""A worker whose handlers are coroutines, in the event loop of its caller. What claims and heartbeats runs in threads, as for
plain functions: a handler that blocks the loop loses no lease."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
from datetime import datetime
from typing import Any, AsyncIterator, Awaitable, Callable, Dict, List, Mapping, Optional, Sequence

import psycopg

from . import connect, outcome, statements, tracing
from .core import Core
from .enqueue import arun_on
from .errors import Delay, Lost, OptionError, is_lost_lease
from .hand import LAST_LOOK, LAST_REPORTS
from .job import BaseJob
from .options import Options

AsyncHandler = Callable[["AsyncJob"], Awaitable[Any]]
log = logging.getLogger("jobq")


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
        """A transaction in which the block's SQL and the completion of the job commit together, or neither. The result of
        the job is the argument, or what the block assigns to job.result."""
        self.result = result
        try:
            async with self.connection() as connection:
                async with connection.transaction():
                    yield connection
                    await self.complete_in(connection, self.result)
        except BaseException:
            self.ended = None
            raise
        self.ended = "completed"

    async def complete_in(self, connection: Any, result: Any = None) -> None:
        """Completes the job in a transaction of the caller's, which throws when the lease is lost. Whether that transaction has
        committed is asked when the handler has returned: until then nothing is certain."""
        text = None if result is None else statements.as_json(result)
        try:
            await arun_on(connection, statements.COMPLETE_HELD, [self.id, self.lease, text])
        except Exception as error:
            if not is_lost_lease(error):
                raise
            self.stop("lost")
            raise Lost() from error
        self.ended = outcome.VERIFY

    async def step(self, name: str, function: Callable[[psycopg.AsyncConnection[Any]], Awaitable[Any]]) -> Any:
        """Calls the function once, however often the job is tried: what it writes on the connection that it is given is
        committed with its result. Later attempts get the result."""
        async with self.connection() as connection:
            done, result = self._step_result(*await self._ask(connection, statements.STEP, [self.id, self.lease, name]))
            if done:
                return result
            with self._lease_held():
                async with connection.transaction():
                    value = await function(connection)
                    text = None if value is None else statements.as_json(value)
                    return (await self._ask(connection, statements.STEP_DONE, [self.id, self.lease, name, text]))[1]

    async def sleep(self, name: str, delay: Optional[Delay] = None, until: Optional[datetime] = None) -> None:
        """Ends the handler, and the job goes on then, from its start, past what is saved of it."""
        async with self.connection() as connection:
            self._ready(*await self._ask(connection, statements.SLEEP, self._sleep_parameters(name, delay, until)))

    async def wait_for(self, event: str, timeout: Optional[Delay] = None, name: Optional[str] = None) -> Any:
        """The payload of a signal, for which no worker waits; or TimedOut, which is false."""
        async with self.connection() as connection:
            return self._ready(*await self._ask(connection, statements.AWAIT, [
                self.id, self.lease, event, statements.interval(timeout), name]))

    async def wait_for_jobs(self, ids: Sequence[int], name: str, mode: str = "all", timeout: Optional[Delay] = None) -> Any:
        """What became of other jobs, a list of {"job_id": ..., "status": ..., "result": ...}; or TimedOut, which is false."""
        async with self.connection() as connection:
            return self._ready(*await self._ask(connection, statements.AWAIT_JOBS, [
                self.id, self.lease, list(ids), name, mode, statements.interval(timeout)]))

    async def spawn(self, name: str, specs: Sequence[Mapping[str, Any]]) -> List[int]:
        """Enqueues jobs once, however often the job is tried; their ids."""
        with self._lease_held():
            async with self.connection() as connection:
                parameters = [self.id, self.lease, name, statements.as_json(list(specs))]
                return list((await self._ask(connection, statements.SPAWN, parameters))[1])

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


class AsyncWorker:
    """Serves one queue. handlers: a coroutine function for each kind; or register them with @worker.handler("kind")."""

    def __init__(self, queue: str = "default", handlers: Optional[Mapping[str, AsyncHandler]] = None, *,
                 conninfo: connect.Conninfo = "", connect_options: Optional[Mapping[str, Any]] = None,
                 trace_as_child: bool = False, **options: Any) -> None:
        self.options = Options(queue=queue, **options)
        self.handlers: Dict[str, AsyncHandler] = dict(handlers or {})
        self.conninfo, self.connect_options = conninfo, dict(connect_options or {})
        self.tracer = tracing.Tracer(trace_as_child)
        self._core: Optional[Core] = None
        self._loop: Optional[asyncio.AbstractEventLoop] = None
        self._over: Optional[asyncio.Event] = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._connections = AsyncConnections(conninfo, self.connect_options, f"jobq {queue} {self.options.worker_id} handler")

    def handler(self, kind: str) -> Callable[[AsyncHandler], AsyncHandler]:
        def register(function: AsyncHandler) -> AsyncHandler:
            self.handlers[kind] = function
            return function
        return register

    async def start(self) -> None:
        """Connects, and works in the running loop until stop(). Signals are the caller's."""
        if self._core is not None:
            raise RuntimeError("this worker has been started before")
        if not self.handlers:
            raise OptionError('option "handlers" must name at least one kind')
        self._loop, self._over = asyncio.get_running_loop(), asyncio.Event()
        core = Core(self.options, list(self.handlers), self.conninfo, self.connect_options, self._begin, self._run)
        core.when_over = lambda: self._call(self._set_over)
        self._core = core   # its threads use it at once
        try:
            await self._loop.run_in_executor(None, core.start)
        except BaseException:
            self._core = None
            raise
        log.info("%s: serves queue %r, kinds %s, %d slots", self.options.worker_id, self.options.queue,
                 ", ".join(sorted(self.handlers)), self.options.slots)

    def stop(self) -> None:
        """No claims any more; handlers have their grace. Called again: the grace is over."""
        if self._core is not None:
            self._core.stop()

    async def join(self, timeout: Optional[float] = None) -> bool:
        """Until it has stopped; whether it has. An error that ended it is thrown."""
        if self._core is None or self._over is None:
            return True
        try:
            await asyncio.wait_for(self._over.wait(), timeout)
        except asyncio.TimeoutError:
            return False
        await self._connections.close()
        if self._core.error is not None:
            raise self._core.error
        return True

    async def run(self, signals: Sequence[int] = (signal.SIGTERM, signal.SIGINT)) -> int:
        """Works until one of the signals; for sys.exit(). 0: everything has been reported."""
        loop = asyncio.get_running_loop()
        deadline: Optional[float] = None

        def signalled() -> None:
            nonlocal deadline
            grace = float(self.options.grace) if deadline is None else 0.0  # type: ignore[arg-type]
            deadline = loop.time() + grace + LAST_LOOK + 2 * LAST_REPORTS
            self.stop()

        await self.start()
        for number in signals:
            loop.add_signal_handler(number, signalled)
        try:
            while not await self.join(1.0):
                if deadline is not None and loop.time() > deadline:
                    log.error("%s: gives up: the server does not answer", self.options.worker_id)
                    return 1
        finally:
            for number in signals:
                loop.remove_signal_handler(number)
        log.info("%s: stopped", self.options.worker_id)
        assert self._core is not None
        return 0 if self._core.clean else 1

    @property
    def left_handlers(self) -> bool:
        """Whether some were given up when the grace was over, and still run."""
        return self._core is not None and bool(self._core.hand.running)

    # ---- called by the thread that claims

    def _begin(self, row: statements.Row) -> AsyncJob:
        assert self._core is not None
        job = AsyncJob(row, self._connections, self.options.heartbeat_timeout)  # type: ignore[arg-type]
        job._progressed = self._core.hand.progressed
        return job

    def _run(self, job: BaseJob) -> None:
        self._call(self._create_task, job)

    def _call(self, function: Callable[..., None], *arguments: Any) -> None:
        assert self._loop is not None
        with contextlib.suppress(RuntimeError):   # a loop that has been closed
            self._loop.call_soon_threadsafe(function, *arguments)

    # ---- in the loop

    def _set_over(self) -> None:
        assert self._over is not None
        self._over.set()

    def _create_task(self, job: AsyncJob) -> None:
        task = asyncio.ensure_future(self._handle(job))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

        def cancel() -> None:
            if not task.done():
                task.cancel()

        job._when_stopped = lambda: self._call(cancel)
        if job.cancelled is not None:   # behind its first step: a task that is cancelled before that never runs
            asyncio.get_running_loop().call_soon(cancel)

    async def _handle(self, job: AsyncJob) -> None:
        assert self._core is not None
        try:
            with self.tracer.process(job, self.options) as span:
                ended = await _outcome(self.handlers[job.kind], job, span)
        except BaseException as error:   # noqa: B902: of the tracer, or a cancellation before the handler has begun
            ended = outcome.of_error(error, job.cancelled, job.ended)
        self._core.job_ended(job, ended)


async def _outcome(handler: AsyncHandler, job: AsyncJob, span: tracing.Span) -> outcome.Outcome:
    try:
        ended = outcome.of_return(await handler(job), job.ended)
    except BaseException as error:   # noqa: B902: what a handler throws is its job's
        ended = outcome.of_error(error, job.cancelled, job.ended)
        span.failed(error, ended)
    span.ended(ended)
    return ended
