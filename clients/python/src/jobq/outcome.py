"""What becomes of a job: from what its handler returned or threw to the report. No server, no clock."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace
from typing import Any, Optional

from .errors import Cancelled, Delay, Fail, Lost, Release, Snooze, Stop, Stopping, Waiting, is_lost_lease
from .statements import as_json, as_text

COMPLETE, FAIL, SNOOZE, RELEASE, VERIFY, NOTHING = "complete", "fail", "snooze", "release", "verify", "nothing"


@dataclass(frozen=True)
class Outcome:
    """The report of an attempt. verify: the handler has completed the job in a transaction of its caller's, which may not
    have committed: the server knows. nothing: there is nothing to report, text says why."""

    what: str
    text: str = ""
    result: Optional[str] = None
    retry_in: Optional[Delay] = None
    retry: bool = True
    alone: bool = False       # a batch with it was refused, or collided
    uncertain: bool = False   # was sent before, and the answer is unknown
    collisions: int = 0       # so often somebody's transaction was in its way
    not_before: float = float("-inf")   # by the worker's clock: hence


def of_return(value: Any, ended: Optional[str]) -> Outcome:
    if ended == VERIFY:
        return Outcome(VERIFY)
    if ended is not None:
        return Outcome(NOTHING, ended)
    if value is None:
        return Outcome(COMPLETE)
    try:
        return Outcome(COMPLETE, result=as_json(value))
    except (TypeError, ValueError, RecursionError) as error:
        return Outcome(FAIL, as_text(f"the result is no JSON: {error}"))


def of_error(error: BaseException, reason: Optional[str], ended: Optional[str]) -> Outcome:
    """reason: why the handler was asked to stop, if it was."""
    if ended == VERIFY:
        return replace(Outcome(VERIFY), text=describe(error))
    if ended is not None:
        return Outcome(NOTHING, ended)
    if isinstance(error, Waiting):
        return Outcome(NOTHING, "waiting")
    if isinstance(error, Lost) or reason == "lost" or is_lost_lease(error):
        return Outcome(NOTHING, "lost")
    if isinstance(error, Stopping):
        return Outcome(RELEASE)
    if isinstance(error, Cancelled):
        return Outcome(FAIL, "cancelled")
    if isinstance(error, asyncio.CancelledError):
        return Outcome(FAIL, "cancelled") if reason == "cancel" else Outcome(RELEASE)
    if isinstance(error, Fail):
        return Outcome(FAIL, as_text(str(error)), retry_in=error.retry_in, retry=error.retry)
    if isinstance(error, Snooze):
        return Outcome(SNOOZE, retry_in=error.delay)
    if isinstance(error, Release):
        return Outcome(RELEASE)
    return Outcome(FAIL, describe(error))


def describe(error: BaseException) -> str:
    text = str(error)
    return as_text(f"{type(error).__name__}: {text}" if text else type(error).__name__)


def is_finished(state: str) -> bool:
    """What a heartbeat answers behind a report of ours that has arrived. gone: where the queue keeps nothing."""
    return state in ("finished", "gone")


def is_failure(error: BaseException) -> bool:
    """Whether it says that the attempt has failed, rather than what else shall become of the job."""
    return not isinstance(error, (Stop, Waiting, Snooze, Release, asyncio.CancelledError)) and not is_lost_lease(error)
