"""A job in the hands of a worker, as its handler sees it: what is the same with threads and with asyncio."""

from __future__ import annotations

import contextlib
import time
from datetime import datetime
from typing import Any, Callable, Dict, Iterator, List, Mapping, Optional, Sequence, Tuple

from . import statements
from .errors import STOPS, Cancelled, Delay, Lost, Waiting, is_lost_lease, is_unanswered
from .outcome import VERIFY
from .parameters import interval, moment, whole_numbers
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
        self.ended: Optional[str] = None    # what it came to, if its handler or the server has seen to that
        self.committing = False             # a step of its is about to lock its row until the commit
        self._beaten_at = 0.0               # beat_at when that began
        self._progress: Optional[str] = None
        self._progressed: Callable[[], None] = lambda: None
        self._when_stopped: Callable[[], None] = lambda: None

    def __repr__(self) -> str:
        return f"<job {self.id} of kind {self.kind!r} in queue {self.queue!r}, attempt {self.attempt}>"

    def must_be_readable(self) -> None:
        if self._unreadable is not None:
            name, error = self._unreadable
            raise ValueError(f"the job's {name} cannot be read: {error}") from error

    def set_progress(self, value: Any) -> None:
        """Goes out with a heartbeat, within about a second; of several the last one. The next attempt finds it."""
        self._progress = as_json(value)
        self.progress_is_new = True
        self._progressed()

    def check(self) -> None:
        """Throws Cancelled, Lost or Stopping when the handler should stop."""
        reason = self.cancelled
        if reason is not None:
            raise STOPS[reason]()

    def stop(self, reason: str) -> None:
        """The first reason stays, except that "lost" replaces the others."""
        if self.cancelled is None or reason == "lost":
            self.cancelled = reason
            self._when_stopped()

    def take_progress(self) -> Optional[str]:
        """What is to be reported, once."""
        if not self.progress_is_new:
            return None
        self.progress_is_new, self.progress_under_way = False, True
        self.progress_at = time.monotonic()
        return self._progress

    # ---- what is asked of the server

    def _of_lease(self, statement: str, *values: Any) -> Call:
        return statement, [self.id, self.lease, *values]

    def _completion(self, result: Any) -> Call:
        return self._of_lease(statements.COMPLETE_HELD, _json_or_null(result))

    def _step(self, name: str) -> Call:
        return self._of_lease(statements.STEP, name)

    def _step_done(self, name: str, value: Any) -> Call:
        """The last statement before the commit, which may come late."""
        call = self._of_lease(statements.STEP_DONE, name, _json_or_null(value))
        self._beaten_at, self.committing = self.beat_at, True
        return call

    def _sleep(self, name: str, delay: Optional[Delay], until: Optional[datetime]) -> Call:
        return self._of_lease(statements.SLEEP, name, interval(delay), moment("until", until))

    def _await(self, event: str, timeout: Optional[Delay], name: Optional[str]) -> Call:
        return self._of_lease(statements.AWAIT, event, interval(timeout, "timeout"), name)

    def _await_jobs(self, ids: Sequence[int], name: str, mode: str, timeout: Optional[Delay]) -> Call:
        return self._of_lease(statements.AWAIT_JOBS, whole_numbers("ids", ids), name, mode, interval(timeout, "timeout"))

    def _spawn(self, name: str, specs: Sequence[Mapping[str, Any]]) -> Call:
        return self._of_lease(statements.SPAWN, name, specs_as_json(specs))

    # ---- what it has answered

    def _step_result(self, state: str, result: Any) -> Tuple[bool, Any]:
        """Whether the step is done, and its result."""
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
        """Around the transaction that completes the job. A commit without an answer is asked for."""
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
        """Around the statement that completes it in an open transaction: from before, so that no heartbeat waits for that. Where its
        answer is lost nobody knows whether that transaction still has the job's row."""
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
        """Around the transaction that saves a step. From its last statement on no heartbeat waits for its commit, and what has passed
        it over comes at once afterwards."""
        try:
            with self._lease_held():
                yield
        finally:
            committing, self.committing = self.committing, False
            if committing:
                if self.beat_at != self._beaten_at:
                    self.beat_at = float("-inf")
                self._progressed()   # its progress may have waited, too

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
    """What wait_for() and wait_for_jobs() return when the time was over; it is false. results: what became of the jobs."""

    def __init__(self, results: Any = None) -> None:
        self.results = results

    def __bool__(self) -> bool:
        return False

    def __repr__(self) -> str:
        return f"<timed out: {self.results!r}>"
