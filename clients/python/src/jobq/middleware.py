"""Middleware: functions of the application that run around each enqueue and around each call of a handler, in all producers and workers
of the process."""

from __future__ import annotations

import contextlib
from typing import Any, AsyncContextManager, AsyncIterator, Callable, ContextManager, Dict, Iterator, List, Optional, Union

from . import tracing
from .errors import OptionError


class Enqueuing:
    """An enqueue that is under way. specs: the jobs, as arguments of enqueue(), which middleware can change. The jobs of enqueue_many()
    are one element with its arguments. ids: the IDs of the jobs, after they have been enqueued."""

    def __init__(self, specs: List[Dict[str, Any]]) -> None:
        self.specs = specs
        self.ids: List[int] = []


AroundEnqueue = Callable[[Enqueuing], Optional[ContextManager[Any]]]
AroundHandler = Callable[[Any], Union[ContextManager[Any], AsyncContextManager[Any], None]]
_around_enqueue: List[AroundEnqueue] = [tracing.sending]
_around_handler: List[AroundHandler] = []


def use(*, enqueue: Optional[AroundEnqueue] = None, handle: Optional[AroundHandler] = None) -> Callable[[], None]:
    """Adds middleware after the middleware that has been added before. enqueue is called with an Enqueuing, and handle with the job.
    Each can return a context manager, in which the jobs are then enqueued or the handler is called; with an AsyncWorker, handle can also
    return an asynchronous one. Returns a function that removes the middleware."""
    for name, function in (("enqueue", enqueue), ("handle", handle)):
        if function is not None and not callable(function):
            raise OptionError(f'argument "{name}" must be a function; it is {function!r}')
    if enqueue is not None:
        _around_enqueue.append(enqueue)
    if handle is not None:
        _around_handler.append(handle)

    def remove() -> None:
        if enqueue in _around_enqueue:
            _around_enqueue.remove(enqueue)
        if handle in _around_handler:
            _around_handler.remove(handle)

    return remove


@contextlib.contextmanager
def enqueuing(specs: List[Dict[str, Any]]) -> Iterator[Enqueuing]:
    """Runs the block, which enqueues the specs, in the middleware."""
    call = Enqueuing(specs)
    with contextlib.ExitStack() as stack:
        for function in list(_around_enqueue):
            context = function(call)
            if context is not None:
                stack.enter_context(context)
        yield call


@contextlib.contextmanager
def handling(job: Any) -> Iterator[None]:
    """Runs the block, which calls the handler, in the middleware."""
    with contextlib.ExitStack() as stack:
        for function in list(_around_handler):
            context: Any = function(job)
            if context is not None:
                stack.enter_context(context)
        yield


@contextlib.asynccontextmanager
async def ahandling(job: Any) -> AsyncIterator[None]:
    async with contextlib.AsyncExitStack() as stack:
        for function in list(_around_handler):
            context: Any = function(job)
            if hasattr(context, "__aenter__"):
                await stack.enter_async_context(context)
            elif context is not None:
                stack.enter_context(context)
        yield
