"""The rows of jobq's tables that the laws read, and the changes of these rows."""

from __future__ import annotations

from typing import Any, Dict, List, NamedTuple, Optional, Tuple

Place = Tuple[int, int]   # position in the WAL: LSN, and a number that distinguishes the rows of one record
START: Place = (0, 0)
UNCHANGED: Any = "(unchanged)"   # stands for a value in the TOAST table that an update has not changed and that the WAL does not contain


class Job(NamedTuple):
    """A version of a row of jobq.jobs."""

    id: int
    queue: str = "q"
    kind: str = ""
    priority: int = 0
    status: str = "pending"
    run_at: Any = None
    attempts: int = 0
    max_attempts: int = 20
    lease: Optional[int] = None
    completed_lease: Optional[int] = None
    started_at: Any = None
    worker_id: Optional[str] = None
    last_heartbeat: Any = None
    lease_timeout: Optional[str] = None
    max_runtime: Optional[str] = None
    cancel_requested_at: Any = None
    unique_key: Optional[str] = None
    holds_key: Optional[bool] = None
    group_key: Optional[str] = None
    group_active: Optional[int] = None
    concurrency_key: Optional[str] = None
    dead_from: Optional[str] = None
    error: Optional[str] = None
    expires_at: Any = None
    batch_id: Optional[int] = None
    metadata: Optional[str] = None
    heartbeat_timeout: Optional[str] = None
    limits: Optional[str] = None   # as PostgreSQL writes an array, for example {a,b}


class Attempt(NamedTuple):
    """A row of jobq.attempts: an attempt that did not complete."""

    job_id: int
    lease: int
    outcome: str


class Setting(NamedTuple):
    """A version of a row of jobq.queue_settings."""

    queue: str
    paused: bool = False


class Limit(NamedTuple):
    """A version of a row of jobq.limit_settings."""

    queue: str
    key: str = ""   # empty: the whole queue, *: each key or kind without a limit of its own
    max_running: Optional[int] = None
    by_kind: bool = False   # the key is the name of a kind


class NamedLimit(NamedTuple):
    """A version of a row of jobq.named_limit_settings."""

    name: str
    queues: str = "{}"
    max_running: Optional[int] = None


class Edge(NamedTuple):
    """A row of jobq.edges."""

    job_id: int
    kind: str
    target: int
    on_failure: Optional[str] = None


class SavedStep(NamedTuple):
    """A version of a row of jobq.steps."""

    job_id: int
    name: str
    state: str = "done"


class Batch(NamedTuple):
    """A version of a row of jobq.batch_settings."""

    id: int
    sealed_at: Any = None
    finished_at: Any = None


class Schedule(NamedTuple):
    """A version of a row of jobq.schedule_settings."""

    name: str
    last_run: Any = None
    last_job: Optional[int] = None


class Truncation(NamedTuple):
    """Stands for all rows of the tables that a TRUNCATE has emptied."""


class Change(NamedTuple):
    place: Place      # position of the row's record
    commit: Place     # position of its transaction's commit
    time: float       # of the commit, on the server's clock
    xid: int
    row: Any          # for a deletion, only the key is set
    deleted: bool = False
    inserted: bool = False


ROWS: Dict[str, Any] = {
    "jobs": Job, "attempts": Attempt, "queue_settings": Setting, "limit_settings": Limit,
    "named_limit_settings": NamedLimit, "edges": Edge, "steps": SavedStep, "batch_settings": Batch, "schedule_settings": Schedule}
NUMBERS = {"id", "priority", "attempts", "max_attempts", "lease", "completed_lease", "job", "job_id", "number", "max_running", "batch_id",
           "group_active", "target", "last_job"}
FLAGS = {"paused", "holds_key", "by_kind"}
INTERNAL = {"lease_timeout", "holds_key", "completed_lease", "group_active"}   # the names of these columns begin with an underscore
# What the laws of the auditor do not need: values that can be long or private, and columns that often change.
LEFT_OUT = {"priority", "run_at", "attempts", "max_attempts", "max_runtime", "cancel_requested_at", "dead_from", "error", "metadata"}


def columns(table: str, left_out: Any = ()) -> List[str]:
    return ["_" + name if name in INTERNAL and table == "jobs" else name for name in ROWS[table]._fields if name not in left_out]
