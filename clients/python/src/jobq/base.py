"""Parts of a worker that are the same with threads and with asyncio: options, handlers, start, and the time limits at its end."""

from __future__ import annotations

import inspect
import logging
import time
from typing import Any, Callable, Dict, Generic, List, Mapping, Optional, Sequence, TypeVar, Union

from . import connect, liveness, tracing
from .cluster import Cluster
from .cluster_core import ClusterCore
from .collisions import Collisions
from .core import Core
from .errors import Fail, OptionError
from .failures import Failures, Filter
from .hand import LAST_LOOK, LAST_REPORTS, Load
from .handlers import must_be_function
from .job import BaseJob
from .kinds import Kind
from .options import Options
from .outcome import NOTHING, Outcome, of_error, of_return

Handler = TypeVar("Handler", bound=Callable[..., Any])
log = logging.getLogger("jobq")


class BaseWorker(Generic[Handler]):
    _core: Union[Core, ClusterCore, None]

    def __init__(self, queue: str = "default", handlers: Optional[Mapping[str, Handler]] = None, *,
                 conninfo: connect.Conninfo = "", connect_options: Optional[Mapping[str, Any]] = None,
                 trace_as_child: bool = False, heartbeat_process: bool = True, error_details: Union[bool, Filter] = True,
                 on_error: Optional[Callable[[BaseException, Any], Any]] = None, cluster: bool = False, **options: Any) -> None:
        """heartbeat_process: a separate process sends the heartbeats while a handler blocks this process by holding the GIL.
        cluster: conninfo is that of a router, and the worker connects to all shards directly.
        error_details, on_error: see Failures."""
        self.options = Options(queue=queue, **options)
        self.handlers: Dict[str, Handler] = {}
        for kind, function in dict(handlers or {}).items():
            self._register(kind, function)
        self.conninfo, self.connect_options = conninfo, dict(connect_options or {})
        self._server_options = self.connect_options   # for connections to the servers that have the jobs
        self.tracer = tracing.Tracer(trace_as_child)
        self.failures = Failures(error_details, on_error)
        self.heartbeat_process = heartbeat_process
        self.cluster = cluster
        self._core = None
        self._connections: Dict[connect.Conninfo, Any] = {}   # of the handlers, by server
        self._connections_name = f"jobq {queue} {self.options.worker_id} handler"
        self._set_up()

    def _set_up(self) -> None:
        """Prepares the worker."""
        raise NotImplementedError

    def _decorator(self, kind: Union[str, Kind[Any, Any]]) -> Callable[[Any], Any]:
        def register(function: Any) -> Any:
            for name, handler in (kind.handler(function) if isinstance(kind, Kind) else {kind: function}).items():
                self._register(name, handler)
            return function
        return register

    def _register(self, kind: str, function: Handler) -> None:
        must_be_function(kind, function)
        self.handlers[kind] = function

    def stop(self) -> None:
        """Stops claiming. Handlers may continue for the grace period. A second call ends the grace period."""
        if self._core is not None:
            self._core.stop()

    @property
    def left_handlers(self) -> bool:
        """Returns whether handlers that were given up when the grace period ended are still running."""
        return self._core is not None and self._core.has_running

    # ---- start and end

    def _new_core(self) -> Union[Core, ClusterCore]:
        if self._core is not None:
            raise RuntimeError("the worker has already been started")
        if not self.handlers:
            raise OptionError('option "handlers" must name at least one kind')

        def new_core(conninfo: connect.Conninfo, load: Optional[Load] = None) -> Core:
            return Core(self.options, list(self.handlers), conninfo, self._server_options, self._begin, self._run,
                        self.heartbeat_process, load)

        if not self.cluster:
            return new_core(self.conninfo)
        cluster = Cluster(self.conninfo, self.connect_options)
        self._server_options = cluster.shard_options
        return ClusterCore(cluster, new_core)

    def _started(self) -> None:
        log.info("%s: serves queue %s with %d slots, kinds %s; leaves jobs of other kinds%s to other workers", self.options.worker_id,
                 self.options.queue_names, self.options.slots, ", ".join(kind or "'' (jobs without a kind)" for kind in sorted(self.handlers)),
                 "" if "" in self.handlers else ", and jobs without a kind,")

    def _time_to_end(self, first: bool) -> float:
        """Returns the maximum number of seconds from a signal until the worker stops waiting for the server. first: whether it is
        the first signal."""
        grace = float(self.options.grace) if first else 0.0  # type: ignore[arg-type]
        return grace + LAST_LOOK + 2 * LAST_REPORTS

    def _gives_up(self) -> int:
        log.error("%s: giving up: the server does not answer", self.options.worker_id)
        return 1

    def _has_ended(self) -> int:
        assert self._core is not None
        log.info("%s: stopped", self.options.worker_id)
        return 0 if self._core.clean else 1

    # ---- called by the claiming thread

    def _begin(self, row: Mapping[str, Any], conninfo: connect.Conninfo) -> BaseJob:
        if conninfo not in self._connections:
            self._connections[conninfo] = self._connect_to(conninfo)
        return self._make_job(row, self._connections[conninfo], self.options.heartbeat_timeout)  # type: ignore[arg-type]

    def _connect_to(self, conninfo: connect.Conninfo) -> Any:
        raise NotImplementedError

    def _make_job(self, row: Mapping[str, Any], connections: Any, heartbeat_timeout: Optional[float]) -> BaseJob:
        raise NotImplementedError

    def _run(self, job: BaseJob, core: Core) -> None:
        """Runs the job's handler. core: receives the outcome, even if this worker has been given up and started again in the
        meantime."""
        raise NotImplementedError


class RunsEnd:
    """Ends the workers of a process together: after signals, of which the second ends the grace period, or after an error of one
    worker."""

    def __init__(self, workers: Sequence["BaseWorker[Any]"]) -> None:
        self.workers = workers
        self.error: Optional[BaseException] = None   # error of a worker that could not start
        self.deadline: Optional[float] = None        # time at which the process ends even if the server has not answered
        self._asked: List["BaseWorker[Any]"] = []    # workers that have been asked to stop
        self._has_signal = False

    def started(self) -> None:
        """Called when no more workers are started."""
        if self.error is None:
            liveness.PROCESS.ready()

    def look(self) -> None:
        """Stops the other workers if one has failed."""
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
        """Stops the other workers. Workers that are stopping already keep their grace period."""
        if not self._asked:
            liveness.notify("STOPPING=1")
        for worker in self.workers:
            if worker not in self._asked:
                self._asked.append(worker)
                if worker._core is None or worker._core.error is None:
                    worker.stop()
                self._wait_for(first=True)

    def _wait_for(self, first: bool) -> None:
        self.deadline = time.monotonic() + max(worker._time_to_end(first) for worker in self.workers)


def plain_result(kind: str, value: Any) -> Any:
    """Returns the handler's return value, or raises if the value must be awaited, because this worker awaits nothing."""
    if not inspect.isawaitable(value):
        return value
    if inspect.iscoroutine(value):
        value.close()
    raise Fail(f"the handler of kind {kind!r} has returned a {type(value).__name__}, which only an AsyncWorker awaits")


class Attempt:
    """Context manager around a handler's call that determines the outcome. The caller assigns the handler's return value to
    value."""

    def __init__(self, job: BaseJob, span: tracing.Span, collisions: Collisions, failures: Failures) -> None:
        self.job, self.span, self.collisions, self.failures = job, span, collisions, failures
        self.value: Any = None
        self.outcome = Outcome(NOTHING)

    def __enter__(self) -> "Attempt":
        return self

    def __exit__(self, _: Any, error: Optional[BaseException], __: Any) -> bool:
        if error is None:
            self.outcome = of_return(self.value, self.job.ended)
        else:
            self.outcome = of_error(error, self.job.cancelled, self.job.ended)
        self.outcome = self.failures.ended(self.job, self.collisions.decide(self.job.id, self.outcome), error)
        self.span.ended(self.outcome, error)
        return True   # the handler's exception becomes the job's outcome
