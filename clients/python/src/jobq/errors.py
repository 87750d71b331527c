"""Exceptions that a handler raises to decide the outcome of its job, and exceptions that are raised in a handler that should
stop."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal
from numbers import Real
from typing import Any, List, Optional, Union

Delay = Union[int, float, timedelta]
LONGEST = 1e12   # in seconds; longer than any interval a job can use


class OptionError(ValueError):
    """A worker option or an argument of an enqueue function has an invalid value."""


class Fail(Exception):
    """The attempt has failed. The job is retried after retry_in, by default after the queue's backoff; with retry=False, never."""

    def __init__(self, message: str = "", *, retry_in: Optional[Delay] = None, retry: bool = True) -> None:
        super().__init__(message)
        self.retry_in: Optional[Delay] = _checked_delay("retry_in", retry_in)
        self.retry = retry


class Snooze(Exception):
    """Gives the job back, to run again after the delay. The attempt is not counted."""

    def __init__(self, delay: Delay) -> None:
        super().__init__(f"snoozed for {delay}")
        self.delay: Delay = _checked_delay("delay", delay)


class Release(Exception):
    """Gives the job back, to run again at once, for example on another worker. The attempt is not counted."""


def _checked_delay(name: str, delay: Any) -> Any:
    """Rejects an invalid delay when the handler raises the exception, because the worker could not report it later."""
    if delay is None or isinstance(delay, (timedelta, str)):
        return delay
    seconds = seconds_of(delay)
    if seconds is None:
        raise ValueError(f"{name} must be a number of seconds; it is {delay!r}")
    return seconds


def seconds_of(delay: Any) -> Optional[float]:
    """Returns a delay in seconds, for all types of numbers including SQL numeric, or None if it is no number or too long."""
    if isinstance(delay, Decimal):
        delay = float(delay)
    if isinstance(delay, Real) and abs(delay) <= LONGEST:   # NaN fails this comparison, too
        return float(delay)
    return None


# The following exceptions are no subclasses of Exception, so that "except Exception" in a handler does not keep it from stopping.


class Stop(BaseException):
    """The handler should stop."""

    reason = ""


class Cancelled(Stop):
    """Cancellation of the job was requested."""

    reason = "cancel"


class Lost(Stop):
    """The lease is lost. Another worker may be running the job."""

    reason = "lost"


class Stopping(Stop):
    """The worker is stopping, and its grace period has ended."""

    reason = "stopping"


class Waiting(BaseException):
    """The job sleeps or waits. It has been given back, and is claimed again when it can continue."""


STOPS = {stop.reason: stop for stop in (Cancelled, Lost, Stopping)}
LEASE_LOST = "JQ001"
COLLISIONS = ("40001", "40P01")


def causes_of(error: BaseException) -> List[BaseException]:
    """Returns the error and the errors that caused it, such as a driver's error that an ORM has wrapped."""
    return [cause for cause in (error, error.__cause__, getattr(error, "orig", None)) if cause is not None]


def sqlstates_of(error: BaseException) -> List[str]:
    codes = (getattr(cause, "sqlstate", None) or getattr(cause, "pgcode", None) for cause in causes_of(error))
    return [str(code) for code in codes if code]


def is_lost_lease(error: BaseException) -> bool:
    return LEASE_LOST in sqlstates_of(error)


def is_collision(error: BaseException) -> bool:
    """Returns whether the transaction was rolled back because of another transaction."""
    return any(code in COLLISIONS for code in sqlstates_of(error))


def is_unanswered(error: BaseException) -> bool:
    """Returns whether the outcome of a statement is unknown because the server did not answer. Works with errors of any driver."""
    codes = sqlstates_of(error)
    if codes:
        return codes[0].startswith("08")
    return any(base.__name__ in ("OperationalError", "InterfaceError") for cause in causes_of(error) for base in type(cause).__mro__)
