"""What a handler throws to say what shall become of its job, and what it is thrown when it shall stop."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal
from numbers import Real
from typing import Any, List, Optional, Union

Delay = Union[int, float, timedelta]
LONGEST = 1e12   # seconds: more than any interval of a job's


class OptionError(ValueError):
    """An option of a worker, or an argument of an enqueue, has a value that it cannot have."""


class Fail(Exception):
    """The attempt has failed: retried after retry_in, or the queue's backoff; with retry=False for good."""

    def __init__(self, message: str = "", *, retry_in: Optional[Delay] = None, retry: bool = True) -> None:
        super().__init__(message)
        self.retry_in: Optional[Delay] = _checked_delay("retry_in", retry_in)
        self.retry = retry


class Snooze(Exception):
    """Not now: the job is given back for later, and the attempt is not counted."""

    def __init__(self, delay: Delay) -> None:
        super().__init__(f"snoozed for {delay}")
        self.delay: Delay = _checked_delay("delay", delay)


class Release(Exception):
    """Not here: the job is given back at once, and the attempt is not counted."""


def _checked_delay(name: str, delay: Any) -> Any:
    """Where the handler throws it: a report with anything else could not be sent."""
    if delay is None or isinstance(delay, (timedelta, str)):
        return delay
    seconds = seconds_of(delay)
    if seconds is None:
        raise ValueError(f"{name} must be a number of seconds; it is {delay!r}")
    return seconds


def seconds_of(delay: Any) -> Optional[float]:
    """Of all kinds of numbers, also numeric of SQL. None: it is none of them, or none that is short enough."""
    if isinstance(delay, Decimal):
        delay = float(delay)
    if isinstance(delay, Real) and abs(delay) <= LONGEST:   # which is not a number is neither
        return float(delay)
    return None


# Those below are no Exception, so that an "except Exception" of a handler does not keep it from stopping.


class Stop(BaseException):
    """The handler shall stop."""

    reason = ""


class Cancelled(Stop):
    """Somebody asked to cancel the job."""

    reason = "cancel"


class Lost(Stop):
    """The lease is gone: another worker may have the job by now."""

    reason = "lost"


class Stopping(Stop):
    """The worker stops, and its grace is over."""

    reason = "stopping"


class Waiting(BaseException):
    """The job sleeps or awaits something: it has been given back, and is claimed anew when it goes on."""


STOPS = {stop.reason: stop for stop in (Cancelled, Lost, Stopping)}
LEASE_LOST = "JQ001"
COLLISIONS = ("40001", "40P01")


def causes_of(error: BaseException) -> List[BaseException]:
    """Itself, and what an ORM has wrapped in it."""
    return [cause for cause in (error, error.__cause__, getattr(error, "orig", None)) if cause is not None]


def sqlstates_of(error: BaseException) -> List[str]:
    codes = (getattr(cause, "sqlstate", None) or getattr(cause, "pgcode", None) for cause in causes_of(error))
    return [str(code) for code in codes if code]


def is_lost_lease(error: BaseException) -> bool:
    return LEASE_LOST in sqlstates_of(error)


def is_collision(error: BaseException) -> bool:
    """Whether its transaction was rolled back because of another one."""
    return any(code in COLLISIONS for code in sqlstates_of(error))


def is_unanswered(error: BaseException) -> bool:
    """Whether nobody knows what has become of a statement: of what the server answers it has done, or undone, one does. Of any driver."""
    codes = sqlstates_of(error)
    if codes:
        return codes[0].startswith("08")
    return any(base.__name__ in ("OperationalError", "InterfaceError") for cause in causes_of(error) for base in type(cause).__mro__)
