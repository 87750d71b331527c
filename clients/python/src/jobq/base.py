"""A worker, as far as it is the same with threads and with asyncio: its options and handlers, what it starts with and how long its
end may take."""

from __future__ import annotations

import functools
import inspect
import logging
import time
from typing import Any, Callable, Dict, Generic, List, Mapping, Optional, Sequence, TypeVar

from . import connect, tracing
from .collisions import Collisions
from .core import Core
from .errors import Fail, OptionError
from .hand import LAST_LOOK, LAST_REPORTS
from .job import BaseJob
from .options import Options
from .outcome import NOTHING, Outcome, of_error, of_return

Handler = TypeVar("Handler", bound=Callable[..., Any])
log = logging.getLogger("jobq")


class BaseWorker(Generic[Handler]):
    def __init__(self, queue: str = "default", handlers: Optional[Mapping[str, Handler]] = None, *,
                 conninfo: connect.Conninfo = "", connect_options: Optional[Mapping[str, Any]] = None,
                 trace_as_child: bool = False, heartbeat_process: bool = True, **options: Any) -> None:
        """heartbeat_process: another process sends the heartbeats of jobs when a handler blocks this one by holding the GIL."""
        self.options = Options(queue=queue, **options)
        self.handlers: Dict[str, Handler] = {}
        for kind, function in dict(handlers or {}).items():
            self._register(kind, function)
        self.conninfo, self.connect_options = conninfo, dict(connect_options or {})
        self.tracer = tracing.Tracer(trace_as_child)
        self.heartbeat_process = heartbeat_process
        self._core: Optional[Core] = None
        self._set_up(f"jobq {queue} {self.options.worker_id} handler")

    def _set_up(self, name: str) -> None:
        """name: of the connections of its handlers."""
        raise NotImplementedError

    def handler(self, kind: str) -> Callable[[Handler], Handler]:
        def register(function: Handler) -> Handler:
            self._register(kind, function)
            return function
        return register

    def _register(self, kind: str, function: Handler) -> None:
        if not callable(function):
            raise OptionError(f"the handler of kind {kind!r} must be a function; it is {function!r}")
        self.handlers[kind] = function

    def stop(self) -> None:
        """No claims any more; handlers have their grace. Called again: the grace is over."""
        if self._core is not None:
            self._core.stop()

    @property
    def left_handlers(self) -> bool:
        """Whether some were given up when the grace was over, and still run."""
        return self._core is not None and bool(self._core.hand.running)

    # ---- the beginning and the end

    def _new_core(self) -> Core:
        if self._core is not None:
            raise RuntimeError("the worker has already been started")
        if not self.handlers:
            raise OptionError('option "handlers" must name at least one kind')
        return Core(self.options, list(self.handlers), self.conninfo, self.connect_options, self._begin, self._run,
                    self.heartbeat_process)

    def _started(self) -> None:
        log.info("%s: serves queue %r with %d slots, kinds %s; leaves jobs of other kinds%s to other workers", self.options.worker_id,
                 self.options.queue, self.options.slots, ", ".join(kind or "'' (jobs without a kind)" for kind in sorted(self.handlers)),
                 "" if "" in self.handlers else ", and jobs without a kind,")

    def _time_to_end(self, first: bool) -> float:
        """From a signal on, in seconds, the first one or another, until nobody waits for the server any more."""
        grace = float(self.options.grace) if first else 0.0  # type: ignore[arg-type]
        return grace + LAST_LOOK + 2 * LAST_REPORTS

    def _gives_up(self) -> int:
        log.error("%s: giving up: the server does not answer", self.options.worker_id)
        return 1

    def _has_ended(self) -> int:
        assert self._core is not None
        log.info("%s: stopped", self.options.worker_id)
        return 0 if self._core.clean else 1

    # ---- a slot

    def _handler_of(self, job: BaseJob) -> Handler:
        job.must_be_readable()
        return self.handlers[job.kind]

    # ---- called by the thread that claims

    def _begin(self, row: Mapping[str, Any]) -> BaseJob:
        return self._make_job(row, self.options.heartbeat_timeout)  # type: ignore[arg-type]

    def _make_job(self, row: Mapping[str, Any], heartbeat_timeout: Optional[float]) -> BaseJob:
        raise NotImplementedError

    def _run(self, job: BaseJob, core: Core) -> None:
        """core: the job's, which is told of its end, though this worker may have been given up meanwhile."""
        raise NotImplementedError


class RunsEnd:
    """How workers of one process end together: by signals, the second of which ends the grace, or by the error of one of them."""

    def __init__(self, workers: Sequence["BaseWorker[Any]"]) -> None:
        self.workers = workers
        self.error: Optional[BaseException] = None   # the error of a worker that could not start
        self.deadline: Optional[float] = None        # when the process ends even if the server has not answered
        self._asked: List["BaseWorker[Any]"] = []    # those that stop
        self._has_signal = False

    def look(self) -> None:
        """Stops the others if one has failed."""
        if self.error is not None or any(worker._core is not None and worker._core.error is not None for worker in self.workers):
            self._stop_the_others()

    def signalled(self) -> None:
        if self._has_signal:
            for worker in self.workers:
                worker.stop()
            self._wait_for(first=False)
        else:
            self._has_signal = True
            self._stop_the_others()

    def _stop_the_others(self) -> None:
        """Those that stop already keep their grace."""
        for worker in self.workers:
            if worker not in self._asked:
                self._asked.append(worker)
                if worker._core is None or worker._core.error is None:
                    worker.stop()
                self._wait_for(first=True)

    def _wait_for(self, first: bool) -> None:
        self.deadline = time.monotonic() + max(worker._time_to_end(first) for worker in self.workers)


def is_coroutine_function(function: Callable[..., Any]) -> bool:
    """Whether a call of it certainly does nothing but make a coroutine. Other functions may return one, too."""
    while isinstance(function, functools.partial):
        function = function.func
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(getattr(type(function), "__call__", None))


def plain_result(kind: str, value: Any) -> Any:
    """What a handler has returned where nobody awaits it."""
    if not inspect.isawaitable(value):
        return value
    if inspect.iscoroutine(value):
        value.close()
    raise Fail(f"the handler of kind {kind!r} has returned a {type(value).__name__}, which only an AsyncWorker awaits")


class Attempt:
    """What comes of a handler's call, which is made within it, and what it returns assigned to value."""

    def __init__(self, job: BaseJob, span: tracing.Span, collisions: Collisions) -> None:
        self.job, self.span, self.collisions = job, span, collisions
        self.value: Any = None
        self.outcome = Outcome(NOTHING)

    def __enter__(self) -> "Attempt":
        return self

    def __exit__(self, _: Any, error: Optional[BaseException], __: Any) -> bool:
        if error is None:
            self.outcome = of_return(self.value, self.job.ended)
        else:
            self.outcome = of_error(error, self.job.cancelled, self.job.ended)
        self.outcome = self.collisions.decide(self.job.id, self.outcome)
        self.span.ended(self.outcome, error)
        return True   # what a handler throws is its job's
