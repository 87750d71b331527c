"""The vocabulary of the laws: statuses, steps of jobs from one version to the next, spans of time, and settings in force.

All comparisons of moments are comparisons of positions in the server's WAL. A transaction that has seen the outcome of another
transaction writes after its commit, so this order is exact.
"""

from __future__ import annotations

import math
import re
from collections import OrderedDict
from datetime import datetime
from functools import lru_cache
from typing import Any, Dict, FrozenSet, List, Optional, Set, Tuple

from .rows import START, Change, Job, Place

WAITING = frozenset({"scheduled", "pending", "blocked"})
FINISHED = frozenset({"completed", "failed", "cancelled"})
COMPLETES = frozenset({"complete", "effect"})   # operations: a completion by a worker, and by a handler
EXECUTOR = "backend:executor"   # the worker id of all executors, which have no heartbeat timeout
SERVER = "the server"   # the operations of the background worker, and of jobq_tick()
REMEMBERED = 3600.0   # seconds for which replaced settings are remembered, which is longer than any claim takes
DEFAULT_TIMEOUT = 60.0   # seconds, for a job without heartbeat_timeout whose kind and queue have none

# The operations that can make each transition from one status to the next. None: the job does not exist.
ENQUEUE = frozenset({"enqueue", "met"})
TRANSITIONS: Dict[Tuple[Optional[str], Optional[str]], FrozenSet[str]] = {
    (None, "scheduled"): frozenset({"enqueue"}), (None, "pending"): frozenset({"enqueue"}), (None, "blocked"): frozenset({"enqueue"}),
    ("scheduled", "pending"): ENQUEUE | {SERVER, "retry", "reschedule", "change"},
    ("scheduled", "scheduled"): ENQUEUE | {SERVER, "reschedule", "change", "redrive"},
    ("scheduled", "cancelled"): frozenset({"cancel"}),
    ("scheduled", "blocked"): frozenset({"retry"}),            # it has not run yet, and has dependencies
    ("pending", "processing"): frozenset({"claim", SERVER}),   # a claim that is a transaction of its own is recorded afterward
    ("pending", "scheduled"): ENQUEUE | {"reschedule"},
    ("pending", "pending"): ENQUEUE | {"reschedule", "change"},
    # An enqueue drops the oldest job of a full queue; INSERT ON CONFLICT DO NOTHING does so even if it then inserts no job.
    ("pending", "cancelled"): ENQUEUE | {"cancel", "by hand"},
    ("blocked", "blocked"): ENQUEUE | {SERVER, "reschedule", "change", "retry", "redrive"},
    ("blocked", "pending"): frozenset({SERVER}), ("blocked", "scheduled"): frozenset({SERVER}),
    ("blocked", "cancelled"): frozenset({SERVER, "cancel"}),
    ("processing", "processing"): ENQUEUE | {SERVER, "heartbeat", "asked", "cancel", "change"},
    ("processing", "completed"): COMPLETES,
    ("processing", "scheduled"): frozenset({"fail", "snooze", SERVER}),
    ("processing", "pending"): frozenset({"fail", "snooze", "release", SERVER}),
    ("processing", "failed"): frozenset({"fail", SERVER}),
    ("processing", "cancelled"): frozenset({"fail", "snooze", "release", SERVER}),
    ("processing", None): COMPLETES,
}
for _end in FINISHED:
    for _again in WAITING:
        TRANSITIONS[_end, _again] = frozenset({"retry", "redrive"})
    TRANSITIONS[_end, _end] = COMPLETES | {"fail", "change", "cancel", "retry", "redrive", "skip", SERVER}
    TRANSITIONS[_end, None] = COMPLETES | {"delete", "fail", SERVER}
for _waits in WAITING:
    TRANSITIONS[_waits, None] = frozenset({"delete"})
TRANSITIONS["failed", "cancelled"] = frozenset({"cancel"})    # the head of a halted group
# What else jobq does, but not in the random runs of the tests: jobs wait in durable steps, and plain SQL adds dependencies to waiting jobs.
OTHER_TRANSITIONS = {("processing", "blocked"), ("pending", "blocked"), ("scheduled", "blocked")}


class Step:
    """A change of a job from one version to the next."""

    __slots__ = ("before", "after", "change", "known")

    def __init__(self, before: Optional[Job], change: Change, known: bool = True) -> None:
        self.before = before   # None: there was no earlier version, or it is unknown
        self.known = known     # False: the job may have existed although the book does not know it; it was not running then
        self.after: Optional[Job] = None if change.deleted else change.row
        self.change = change

    def statuses(self) -> Tuple[Optional[str], Optional[str]]:
        return (self.before.status if self.before else None), (self.after.status if self.after else None)

    def expires(self) -> bool:
        """Whether jobq cancels the job because no worker has claimed it before its expires_at."""
        return (self.before is not None and self.before.status in WAITING and self.before.expires_at is not None
                and self.after is not None and self.after.status == "cancelled" and self.after.error == "expired")


class Span:
    """A period from one step to another: it begins when the first is written and ends when the second has been committed."""

    __slots__ = ("job", "start", "end")

    def __init__(self, job: int, start: Step) -> None:
        self.job = job
        self.start = start
        self.end: Optional[Step] = None

    def covers(self, change: Change) -> bool:
        """Whether the span includes the moment at which `change` is written. Within the transaction that ends the span, the span
        ends at the moment of the write instead of at the commit."""
        if self.start.change.place >= change.place:
            return False
        if self.end is None:
            return True
        return not is_before(self.end.change, change)

    @property
    def lease(self) -> Optional[int]:
        return self.start.after.lease if self.start.after else None


class Held:
    """The spans of one limit or group: the current spans, and ended spans that an unread transaction may still have seen as current."""

    def __init__(self) -> None:
        self.current: Dict[int, Span] = {}
        self.ended: List[Span] = []   # in the order of the commits that ended them
        self.newest: Place = START

    def begin(self, span: Span) -> None:
        if span.end is None:
            self.current[span.job] = span
        else:
            self.ended.append(span)

    def end(self, job: int) -> None:
        span = self.current.pop(job, None)
        if span is not None:
            self.ended.append(span)

    def others(self, span: Span, place: Place) -> List[Span]:
        """The other spans that may include a moment at or after `place`."""
        found = [other for other in self.current.values() if other is not span]
        for other in reversed(self.ended):
            if other.end is not None and other.end.change.commit < place:
                break
            if other is not span:
                found.append(other)
        return found

    def forget(self, horizon: Place) -> bool:
        """Returns whether nothing is left."""
        if self.ended and self.ended[0].end and self.ended[0].end.change.commit < horizon:
            self.ended = [span for span in self.ended if span.end and span.end.change.commit >= horizon]
        return not self.current and not self.ended


def is_before(at: Change, change: Change) -> bool:
    """Whether the transaction that wrote `change` could see the change `at` when it wrote."""
    return at.commit < change.place or (at.xid == change.xid and at.place < change.place)


class Settings:
    """The values that something had, and which of them a statement may have seen."""

    def __init__(self, initial: Any) -> None:
        # (commit, value, when it was certainly in force, in seconds, or None if that is not known)
        self.values: List[Tuple[Place, Any, Optional[float]]] = [(START, initial, -math.inf)]

    def add(self, change: Change, value: Any, in_force: Optional[float]) -> None:
        self.values.append((change.commit, value, in_force))
        if len(self.values) > 1 and self.values[-2][0] > change.commit:
            self.values.sort(key=lambda entry: entry[0])

    def forget(self, time: float) -> None:
        """Forgets values that were replaced so long ago that no statement that began after `time` can have seen them."""
        latest = max((number for number, (_, _, in_force) in enumerate(self.values) if in_force is not None and in_force < time), default=0)
        del self.values[:latest]

    def possible(self, place: Place, asked: Optional[float]) -> List[Any]:
        """The values that may have applied to a statement that reached the server at `asked` and wrote at position `place`."""
        found = []
        for commit, value, in_force in reversed(self.values):
            if commit < place:
                found.append(value)
                if in_force is not None and asked is not None and in_force < asked:
                    break
        return found


class Recent:
    """A set of the newest keys that were added to it, with a value for each."""

    def __init__(self, most: int) -> None:
        self.most = most
        self.values: OrderedDict[Any, Any] = OrderedDict()   # finds its oldest key faster than a dict whose oldest keys have been deleted

    def add(self, key: Any, value: Any = True) -> None:
        self.values.pop(key, None)
        self.values[key] = value
        if len(self.values) > self.most:
            self.values.popitem(last=False)

    def discard(self, key: Any) -> None:
        self.values.pop(key, None)

    def get(self, key: Any) -> Any:
        return self.values.get(key)


@lru_cache(1 << 16)
def seconds(timestamp: str) -> float:
    """Converts PostgreSQL's text of a timestamptz, with TimeZone = UTC, to seconds."""
    if timestamp.endswith("infinity"):
        return -math.inf if timestamp.startswith("-") else math.inf
    text = timestamp[:-3] + timestamp[-3:].replace("+00", "+00:00")
    if "." in text:   # Python 3.9 reads only 3 or 6 digits
        head, rest = text.split(".", 1)
        digits = rest.split("+")[0]
        text = f"{head}.{digits:0<6}+{rest.split('+')[1]}"
    try:
        return datetime.fromisoformat(text).timestamp()
    except ValueError:   # a year that Python cannot represent
        return math.inf


def interval(text: Optional[str]) -> float:
    """Converts PostgreSQL's text of an interval of days and a time to seconds. None: the usual timeout; months: a lease without end."""
    if text is None:
        return DEFAULT_TIMEOUT
    match = re.fullmatch(r"(?:(\d+) days?)? ?(?:(\d+):(\d\d):(\d\d(?:\.\d+)?))?", text)
    if match is None:
        return math.inf
    days, hours, minutes, rest = (float(number or 0) for number in match.groups())
    return days * 86400 + hours * 3600 + minutes * 60 + rest


def array(text: Optional[str]) -> Set[str]:
    """The elements of an array of names, as PostgreSQL writes it."""
    if not text or text == "{}":
        return set()
    found, name, quoted, escaped = set(), "", False, False
    for one in text[1:-1]:
        if escaped:
            name, escaped = name + one, False
        elif one == "\\":
            escaped = True
        elif one == '"':
            quoted = not quoted
        elif one == "," and not quoted:
            found.add(name)
            name = ""
        else:
            name += one
    return found | {name}
