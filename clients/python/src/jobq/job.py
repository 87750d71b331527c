"""The handler's view of a claimed job: the parts that are the same with threads and with asyncio."""

from __future__ import annotations

import contextlib
import time
from datetime import datetime
from typing import Any, Callable, Dict, Iterator, List, Mapping, Optional, Sequence, Tuple

from . import statements
from .errors import STOPS, Cancelled, Delay, Lost, Waiting, is_lost_lease, is_unanswered
from .lines import Lines
from .outcome import VERIFY
from .parameters import ids_of, interval, moment
from .statements import Row, as_json, specs_as_json, time_of

Call = Tuple[str, List[Any]]


class BaseJob:
    id: int
    lease: int
    queue: str
    kind: str
    payload: Any
    attempt: int
    max_attempts: int
    priority: int
    version: int
    run_at: datetime
    created_at: datetime
    progress: Any
    """What an earlier attempt reported last."""
    metadata: Optional[Dict[str, Any]]

    def __init__(self, row: Row, heartbeat_timeout: Optional[float] = None) -> None:
        for name in ("id", "lease", "queue", "kind", "payload", "attempt", "max_attempts", "priority", "version", "progress", "metadata"):
            setattr(self, name, row[name])
        self.run_at, self.created_at = time_of(row["run_at"]), time_of(row["created_at"])
        self._unreadable = next(((name, row[name].error) for name in ("payload", "progress", "metadata")
                                 if isinstance(row[name], statements.Unreadable)), None)
        self.result: Any = None
        """What completing() completes it with."""
        self.cancelled: Optional[str] = None
        """Why the handler should stop: None, "cancel", "lost" or "stopping"."""
        self.heartbeat_every = float(row["heartbeat_seconds"])
        if heartbeat_timeout is not None:
            self.heartbeat_every = min(self.heartbeat_every, heartbeat_timeout / 3)
        self.beat_at = 0.0
        self.progress_is_new = False
        self.progress_under_way = False
        self.progress_at = float("-inf")
        self.abandoned = False
        self.loss_is_logged = False
        self.ended: Optional[str] = None    # outcome, if the handler or the server has already ended the job
        self.committing = False             # whether a step is about to lock the job's row until its commit
        self._beaten_at = 0.0               # value of beat_at when the commit started
        self._progress: Optional[str] = None
        self._progressed: Callable[[], None] = lambda: None
        self._dump_result: Callable[[Any], Any] = lambda value: value   # converts a result of the handler to what JSON represents
        self.lines = Lines()
        self._flush: Callable[[], None] = lambda: None    # called before a statement that ends the attempt; sends the log lines
        self._settle: Callable[[], None] = lambda: None   # called before a statement that locks the job's row until a commit
        self._is_settled: Callable[[], bool] = lambda: True
        self._when_stopped: Callable[[], None] = lambda: None

    def __repr__(self) -> str:
        return f"<job {self.id} of kind {self.kind!r} in queue {self.queue!r}, attempt {self.attempt}>"

    def must_be_readable(self) -> None:
        if self._unreadable is not None:
            name, error = self._unreadable
            raise ValueError(f"the job's {name} cannot be read: {error}") from error

    def set_progress(self, value: Any) -> None:
        """Reports progress with the next heartbeat, within about a second; only the last value is sent. The next attempt can read
        it."""
        self._progress = as_json(value)
        self.progress_is_new = True
        self._progressed()

    def log(self, text: str, level: str = "info") -> None:
        """Writes a line to the log of the job, which jobq_log() and the dashboard show. level: debug, info, warning, or error.
        The lines are sent with the next heartbeat, or before the report of the job."""
        self.lines.add(text, level)

    def check(self) -> None:
        """Raises Cancelled, Lost, or Stopping if the handler should stop."""
        reason = self.cancelled
        if reason is not None:
            raise STOPS[reason]()

    def stop(self, reason: str) -> None:
        """Asks the handler to stop. The first reason is kept, except that "lost" replaces any other."""
        if self.cancelled is None or reason == "lost":
            self.cancelled = reason
            self._when_stopped()

    def returned(self, value: Any) -> Any:
        """Returns the handler's return value, converted to what JSON represents, unless the job has already ended."""
        return value if self.ended is not None else self._dump_result(value)

    def take_progress(self) -> Optional[str]:
        """Returns progress that has not been reported, at most once."""
        if not self.progress_is_new:
            return None
        self.progress_is_new, self.progress_under_way = False, True
        self.progress_at = time.monotonic()
        return self._progress

    # ---- statements for the server

    def _of_lease(self, statement: str, *values: Any) -> Call:
        return statement, [self.id, self.lease, *values]

    def _completion(self, result: Any) -> Call:
        return self._of_lease(statements.COMPLETE_HELD, _json_or_null(self._dump_result(result)))

    def _step(self, name: str) -> Call:
        return self._of_lease(statements.STEP, name)

    def _step_done(self, name: str, value: Any) -> Call:
        """Returns the last statement of a step before its commit, which may come much later."""
        call = self._of_lease(statements.STEP_DONE, name, _json_or_null(value))
        self._beaten_at, self.committing = self.beat_at, True
        return call

    def _sleep(self, name: str, delay: Optional[Delay], until: Optional[datetime]) -> Call:
        return self._of_lease(statements.SLEEP, name, interval(delay), moment("until", until))

    def _await(self, event: str, timeout: Optional[Delay], name: Optional[str]) -> Call:
        return self._of_lease(statements.AWAIT, event, interval(timeout, "timeout"), name)

    def _await_jobs(self, ids: Sequence[int], name: str, mode: str, timeout: Optional[Delay]) -> Call:
        return self._of_lease(statements.AWAIT_JOBS, ids_of("ids", ids), name, mode, interval(timeout, "timeout"))

    def _spawn(self, name: str, specs: Sequence[Mapping[str, Any]]) -> Call:
        return self._of_lease(statements.SPAWN, name, specs_as_json(specs))

    # ---- answers of the server

    def _step_result(self, state: str, result: Any) -> Tuple[bool, Any]:
        """Returns whether the step is done, and its result."""
        if state == "cancel":
            self.stop("cancel")
            raise Cancelled()
        if state == "lost":
            self.stop("lost")
            raise Lost()
        return state != "run", result

    def _ready(self, state: str, result: Any) -> Any:
        if state == "waiting":
            self.ended = "waiting"
            raise Waiting()
        if state == "timeout":
            return TimedOut(result)
        self._step_result("cancel" if state == "cancelled" else state, result)
        return result

    @contextlib.contextmanager
    def _completed_with(self, result: Any) -> Iterator[None]:
        """Surrounds the transaction that completes the job. If the commit gets no answer, asks the server whether it happened."""
        self.result = result
        try:
            yield
        except BaseException as error:
            if self.ended != VERIFY or not is_unanswered(error):
                self.ended = None
            raise
        self.ended = "completed"

    @contextlib.contextmanager
    def _completed_in(self) -> Iterator[None]:
        """Surrounds _settle() and the statement that completes the job in an open transaction. Heartbeats stop before the
        statement, because they would wait for its row lock. If the statement gets no answer, the transaction may still hold that lock."""
        before, self.ended = self.ended, VERIFY
        try:
            with self._lease_held():
                yield
        except BaseException as error:
            if not is_unanswered(error):
                self.ended = before
            raise

    @contextlib.contextmanager
    def _saved_with(self) -> Iterator[None]:
        """Surrounds the transaction that saves a step. From its last statement until the commit, heartbeats skip this job. A
        heartbeat that was skipped is sent right after the commit."""
        try:
            with self._lease_held():
                yield
        finally:
            committing, self.committing = self.committing, False
            if committing:
                if self.beat_at != self._beaten_at:
                    self.beat_at = float("-inf")
                self._progressed()   # progress may have been delayed, too

    @contextlib.contextmanager
    def _lease_held(self) -> Iterator[None]:
        try:
            yield
        except Exception as error:
            if not is_lost_lease(error):
                raise
            self.stop("lost")
            raise Lost() from error


def _json_or_null(value: Any) -> Optional[str]:
    return None if value is None else as_json(value)


class TimedOut:
    """The return value of wait_for() and wait_for_jobs() after a timeout; it is false in a condition. results: statuses of the
    jobs."""

    def __init__(self, results: Any = None) -> None:
        self.results = results

    def __bool__(self) -> bool:
        return False

    def __repr__(self) -> str:
        return f"<timed out: {self.results!r}>"
