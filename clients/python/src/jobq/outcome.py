"""Derives the report of a job from the value that its handler returned or the exception that it raised. Needs no server and no
clock."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace
from typing import Any, Optional

from .errors import Cancelled, Delay, Fail, Lost, Release, Snooze, Stop, Stopping, Waiting, is_collision, is_lost_lease
from .statements import as_json, as_text

COMPLETE, FAIL, SNOOZE, RELEASE, VERIFY, NOTHING = "complete", "fail", "snooze", "release", "verify", "nothing"
REPORTS = {COMPLETE: "result", FAIL: "failure", SNOOZE: "snooze", RELEASE: "release"}
CANCELLED = "cancelled"
UNTRANSLATABLE = "22P05"   # a character does not exist in the encoding of the database


@dataclass(frozen=True)
class Outcome:
    """The report of an attempt. what == VERIFY: the handler has completed the job in a transaction of its caller, which may not
    have committed, so the worker asks the server. what == NOTHING: no report is needed, and text says why."""

    what: str
    text: str = ""
    result: Optional[str] = None
    retry_in: Optional[Delay] = None
    retry: bool = True
    alone: bool = False       # send without other reports, because a batch with it was rejected or collided
    uncertain: bool = False   # sent before, but the answer is unknown
    collisions: int = 0       # number of times the report collided with another transaction
    collision: bool = False   # the handler's transaction was rolled back because of another transaction
    refused: bool = False     # the server rejected another report, and text says why
    not_before: float = float("-inf")   # earliest time to send, by the worker's clock
    details: Optional[str] = None       # details of the error, as JSON


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
    """Returns the outcome for an exception. reason: why the handler was asked to stop, if it was."""
    if ended == VERIFY:
        return Outcome(VERIFY, describe(error), collision=is_collision(error))
    if ended is not None:
        return Outcome(NOTHING, ended)
    if isinstance(error, Waiting):
        return Outcome(NOTHING, "waiting")
    if isinstance(error, Lost) or reason == "lost" or is_lost_lease(error):
        return Outcome(NOTHING, "lost")
    if isinstance(error, Stopping):
        return Outcome(RELEASE)
    if isinstance(error, Cancelled):
        return Outcome(FAIL, CANCELLED)
    if isinstance(error, asyncio.CancelledError):
        return Outcome(FAIL, CANCELLED) if reason == "cancel" else Outcome(RELEASE)
    if isinstance(error, Fail):
        return Outcome(FAIL, as_text(_text_of(error)), retry_in=error.retry_in, retry=error.retry)
    if isinstance(error, Snooze):
        return Outcome(SNOOZE, retry_in=error.delay)
    if isinstance(error, Release):
        return Outcome(RELEASE)
    return Outcome(FAIL, describe(error), collision=is_collision(error))


def in_ascii(text: str) -> str:
    return text.encode("ascii", "replace").decode()


def after_refusal(refused: Outcome, error: Exception) -> Optional[Outcome]:
    """Returns the outcome to report instead of a rejected one, or None if there is nothing to report."""
    if getattr(error, "sqlstate", None) == UNTRANSLATABLE and refused.what in (FAIL, VERIFY) and \
            not (refused.text + (refused.details or "")).isascii():
        return replace(refused, text=in_ascii(refused.text), details=in_ascii(refused.details or "") or None)
    if refused.details is not None:   # perhaps the server rejects only the details
        return replace(refused, details=None)
    if not refused.refused:
        text = f"the {REPORTS.get(refused.what, 'report')} was refused: {describe(error)}"
        return Outcome(FAIL, text, retry_in=refused.retry_in if refused.what == FAIL else None, retry=refused.retry, alone=True,
                       uncertain=refused.uncertain, refused=True)
    if refused.retry_in is not None:
        return replace(refused, retry_in=None)
    return None


def _text_of(error: BaseException) -> str:
    """Returns the error's text, or an empty string if converting it raises an exception."""
    try:
        return str(error)
    except Exception:
        return ""


def describe(error: BaseException) -> str:
    text = _text_of(error)
    return as_text(f"{type(error).__name__}: {text}" if text else type(error).__name__)


def is_finished(state: str) -> bool:
    """Returns whether a heartbeat's answer confirms that an earlier report of this worker has arrived. "gone": the queue keeps no
    finished jobs."""
    return state in ("finished", "gone")


def is_failure(error: BaseException) -> bool:
    """Returns whether the exception means that the attempt failed, in contrast to one that decides another outcome, such as
    Snooze."""
    return not isinstance(error, (Stop, Waiting, Snooze, Release, asyncio.CancelledError)) and not is_lost_lease(error)
