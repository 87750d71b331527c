"""Combines concurrent enqueues into one statement, similar to the server's group commit."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from typing import Any, AsyncContextManager, AsyncIterator, Callable, ContextManager, Dict, Iterable, Iterator, List, Optional, Tuple, Union

import psycopg

from .cluster import Cluster
from .connect import is_broken
from .enqueue import Call as SqlCall
from .enqueue import arun_enqueue, check_names, enqueue, run_enqueue
from .errors import OptionError
from .middleware import enqueuing
from .statements import specs_as_json

MOST = 1000                # jobs in one statement
MOST_LENGTH = 16_000_000   # characters of JSON in one statement, unless it has only one job
_STATEMENT = "SELECT job_id FROM jobq_enqueue_jobs(%s::jsonb)"


class _Call:
    """A call that waits for its job to be enqueued. job: its parameters. json: the job as JSON."""

    def __init__(self, job: Dict[str, Any]) -> None:
        self.job, self.json = job, specs_as_json([job])[1:-1]
        self.answer: Optional[Union[int, BaseException]] = None

    def result(self) -> int:
        if isinstance(self.answer, int):
            return self.answer
        raise self.answer or RuntimeError("the call has no answer")


class _Waiting:
    """The calls that wait. most: the maximum number of jobs in a statement."""

    def __init__(self, most: int) -> None:
        if not isinstance(most, int) or isinstance(most, bool) or most < 1:
            raise OptionError(f'option "most" must be an integer from 1; it is {most!r}')
        self.most = most
        self.calls: List[_Call] = []

    def take(self) -> List[_Call]:
        """Returns the calls whose jobs go into the next statement."""
        count = length = 0
        for call in self.calls[:self.most]:
            length += len(call.json)
            if count > 0 and length > MOST_LENGTH:
                break
            count += 1
        taken = self.calls[:count]
        del self.calls[:count]
        return taken


class _Attempts:
    """The statements that enqueue the jobs of these calls. If the server rejects one job, it enqueues none of the statement. The
    jobs are then enqueued again in two halves, so that only the call for the rejected job fails. If the connection breaks, it is
    unknown whether the jobs have been enqueued, so they are not enqueued again."""

    def __init__(self, calls: List[_Call]) -> None:
        self.left = [calls]
        self.current: List[_Call] = []

    def __iter__(self) -> Iterator[Tuple[SqlCall, List[Dict[str, Any]]]]:
        """Iterates over the statements and their jobs."""
        while self.left:
            self.current = self.left.pop()
            yield (_STATEMENT, [f"[{','.join(call.json for call in self.current)}]"]), [call.job for call in self.current]

    def succeeded(self, rows: Iterable[Any]) -> None:
        for call, row in zip(self.current, rows):
            call.answer = int(row[0])

    def failed(self, error: BaseException) -> None:
        if len(self.current) > 1 and isinstance(error, psycopg.Error) and not is_broken(error):
            middle = (len(self.current) + 1) // 2
            self.left += [self.current[middle:], self.current[:middle]]
            return
        for call in self.current:
            call.answer = error


def _answer_all(calls: List[_Call]) -> None:
    """Lets the calls fail that have no answer because the insertion was interrupted, for example by KeyboardInterrupt."""
    for call in calls:
        if call.answer is None:
            call.answer = RuntimeError("the enqueue was interrupted, so it is unknown whether the job has been enqueued")


class CombinedEnqueue:
    """Enqueues jobs like enqueue(), but not in a transaction of the caller. While a thread enqueues jobs, the calls of other
    threads wait, and the next statement enqueues all of their jobs. Therefore, concurrent calls share a few commits, and a single
    call does not wait."""

    def __init__(self, connection: Union[Callable[[], ContextManager[Any]], Cluster], most: int = MOST) -> None:
        """connection: returns a context manager that provides a connection and commits at its end, such as the method connection
        of psycopg_pool.ConnectionPool. Or a Cluster."""
        self._connection = (lambda: contextlib.nullcontext(connection)) if isinstance(connection, Cluster) else connection
        self._waiting = _Waiting(most)
        self._changed = threading.Condition()
        self._busy = False

    def __call__(self, queue: str = "default", payload: Any = None, **given: Any) -> int:
        """Returns the ID of the job. The parameters are those of enqueue()."""
        check_names(type(self).__name__, given, enqueue)
        with enqueuing([{**given, "queue": queue, "payload": {} if payload is None else payload}]) as enqueued:
            call = _Call(enqueued.specs[0])
            self._enqueue(call)
            enqueued.ids = [call.result()]
        return call.result()

    def _enqueue(self, call: _Call) -> None:
        with self._changed:
            self._waiting.calls.append(call)
        while True:
            with self._changed:
                self._changed.wait_for(lambda: call.answer is not None or not self._busy)
                if call.answer is not None:
                    return
                self._busy = True
                calls = self._waiting.take()
            try:
                self._insert(calls)
            finally:
                with self._changed:
                    _answer_all(calls)
                    self._busy = False
                    self._changed.notify_all()

    def _insert(self, calls: List[_Call]) -> None:
        attempts = _Attempts(calls)
        for statement, jobs in attempts:
            try:
                with self._connection() as connection:
                    rows = run_enqueue(connection, statement, jobs)
            except Exception as error:
                attempts.failed(error)
            else:
                attempts.succeeded(rows)


@contextlib.asynccontextmanager
async def _same(cluster: Cluster) -> AsyncIterator[Cluster]:
    yield cluster   # contextlib.nullcontext() works with asyncio only since Python 3.10


class AsyncCombinedEnqueue:
    """Enqueues jobs like aenqueue(), but not in a transaction of the caller. See CombinedEnqueue."""

    def __init__(self, connection: Union[Callable[[], AsyncContextManager[Any]], Cluster], most: int = MOST) -> None:
        """connection: returns an asynchronous context manager, such as the method connection of
        psycopg_pool.AsyncConnectionPool. Or a Cluster."""
        self._connection = (lambda: _same(connection)) if isinstance(connection, Cluster) else connection
        self._waiting = _Waiting(most)
        self._inserts: Optional[asyncio.Task[None]] = None

    async def __call__(self, queue: str = "default", payload: Any = None, **given: Any) -> int:
        """Returns the ID of the job. The parameters are those of enqueue()."""
        check_names(type(self).__name__, given, enqueue)
        with enqueuing([{**given, "queue": queue, "payload": {} if payload is None else payload}]) as enqueued:
            call = _Call(enqueued.specs[0])
            await self._enqueue(call)
            enqueued.ids = [call.result()]
        return call.result()

    async def _enqueue(self, call: _Call) -> None:
        self._waiting.calls.append(call)
        while call.answer is None:
            if self._inserts is None or self._inserts.done():
                self._inserts = asyncio.ensure_future(self._insert())   # starts after the other calls that are ready now
            await asyncio.wait({self._inserts})   # if this call is canceled, the insertion continues

    async def _insert(self) -> None:
        calls = self._waiting.take()
        try:
            attempts = _Attempts(calls)
            for statement, jobs in attempts:
                try:
                    async with self._connection() as connection:
                        rows = await arun_enqueue(connection, statement, jobs)
                except Exception as error:
                    attempts.failed(error)
                else:
                    attempts.succeeded(rows)
        finally:
            _answer_all(calls)
