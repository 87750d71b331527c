"""The SQL that workers and steps use, and how values become its parameters."""

from __future__ import annotations

import json
from datetime import datetime, timedelta, timezone
from decimal import Decimal
from fractions import Fraction
from typing import Any, Iterable, Mapping, Union

from .options import Options
from .parameters import TYPES, interval, queue_of, specs_of, value_of

_CLAIM_ARGUMENTS = """%(queue)s::text, %(worker_id)s::text, %(batch)s::int, %(kinds)s::text[], %(versions)s::int[],
    %(capabilities)s::text[], %(heartbeat_timeout)s::interval"""

COLUMNS = ("id", "lease", "queue", "kind", "payload", "attempt", "max_attempts", "priority", "version", "run_at", "created_at",
           "progress", "metadata", "heartbeat_seconds")
# Times as seconds since 1970: a driver may not read what the DateStyle of the database makes of them, nor the year 44 BC.
_CLAIMED = ", ".join(f"extract(epoch FROM {name}) AS {name}" if name in ("run_at", "created_at") else name for name in COLUMNS)
CLAIM = f"SELECT {_CLAIMED} FROM jobq_claim({_CLAIM_ARGUMENTS})"
COMPLETE_AND_CLAIM = f"""SELECT {_CLAIMED} FROM jobq_complete_and_claim(%(ids)s::bigint[], %(leases)s::bigint[], %(results)s::jsonb[],
    {_CLAIM_ARGUMENTS})"""
WAIT = """CALL jobq_wait(%(queue)s::text, %(wait_timeout)s::interval, %(kinds)s::text[], %(versions)s::int[],
    %(capabilities)s::text[], %(worker_id)s::text, %(batch)s::int)"""
WAKE = "SELECT jobq_wake(%s::text)"

# Asked first, so that a role that may not read the tables leaves no error in the log of the server.
MAY_LOOK = """SELECT count(*) = 2 AS may_look FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
    WHERE n.nspname = 'jobq' AND c.relname IN ('jobs', 'lane_directory') AND pg_catalog.has_schema_privilege(n.oid, 'USAGE')
    AND pg_catalog.has_table_privilege(c.oid, 'SELECT')"""
OTHER_KINDS = """SELECT DISTINCT d.kind FROM jobq.lane_directory d WHERE d.queue = %s::text AND d.kind <> ALL (%s::text[])
    AND EXISTS (SELECT FROM jobq.jobs j WHERE j._ready AND j._lane = d.lane AND j.queue = d.queue AND j.kind = d.kind)
    ORDER BY d.kind LIMIT 20"""

HEARTBEAT = "SELECT jobq_heartbeat(%s::bigint, %s::bigint, %s::jsonb)"
_BRIEFLY = "WITH briefly AS MATERIALIZED (SELECT set_config('lock_timeout', '50ms', true))"   # of this statement alone
HEARTBEAT_BRIEFLY = f"{_BRIEFLY} SELECT jobq_heartbeat(%s::bigint, %s::bigint, NULL) FROM briefly"
HEARTBEAT_MANY = "SELECT job_id, state FROM jobq_heartbeat_many(%s::bigint[], %s::bigint[])"
COMPLETE_MANY = "SELECT job_id, completed FROM jobq_complete_many(%s::bigint[], %s::bigint[], %s::jsonb[])"
COMPLETE_HELD = "SELECT jobq_complete(%s::bigint, %s::bigint, %s::jsonb, must_hold => true)"
FAIL = "SELECT jobq_fail(%s::bigint, %s::bigint, %s::text, %s::interval, %s::boolean)::text"
RELEASE_MANY = "SELECT job_id, released FROM jobq_release_many(%s::bigint[], %s::bigint[])"
RELEASE_BRIEFLY = f"{_BRIEFLY} SELECT (jobq_release_many(%s::bigint[], %s::bigint[])).released FROM briefly"
SNOOZE = "SELECT jobq_snooze(%s::bigint, %s::interval, %s::bigint)"

STEP = "SELECT state, result FROM jobq_step(%s::bigint, %s::bigint, %s::text)"
STEP_DONE = "SELECT state, result FROM jobq_step_done(%s::bigint, %s::bigint, %s::text, %s::jsonb)"
SLEEP = "SELECT jobq_sleep(%s::bigint, %s::bigint, %s::text, %s::interval, %s::timestamptz), NULL"
AWAIT = "SELECT state, payload FROM jobq_await(%s::bigint, %s::bigint, %s::text, %s::interval, %s::text)"
AWAIT_JOBS = "SELECT state, results FROM jobq_await_jobs(%s::bigint, %s::bigint, %s::bigint[], %s::text, %s::text, %s::interval)"
SPAWN = "SELECT state, job_ids FROM jobq_spawn(%s::bigint, %s::bigint, %s::text, %s::jsonb)"

# jobq_tick(now) gives jobs back to workers when what they wait for is due by then, but they ask by the server's clock.
SLEEPERS = "SELECT EXISTS (SELECT FROM jobq.jobs WHERE _due AND run_at <= %s::timestamptz AND _steps IS NOT NULL)"
WAKE_SLEEPERS = """UPDATE jobq.steps SET until = clock_timestamp()
    WHERE state = 'waiting' AND until > clock_timestamp() AND until <= %s::timestamptz RETURNING job_id"""
TICK = "SELECT count(*) FROM jobq_tick(%s::timestamptz)"


def claim_parameters(options: Options, kinds: list[str], batch: int) -> dict[str, Any]:
    return {
        "queue": options.queue, "worker_id": options.worker_id, "batch": batch, "kinds": kinds,
        "versions": None if options.versions is None else list(options.versions),
        "capabilities": None if options.capabilities is None else list(options.capabilities),
        "heartbeat_timeout": interval(options.heartbeat_timeout), "wait_timeout": interval(options.wait_timeout),
    }


_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)


def time_of(seconds: Union[Decimal, float]) -> datetime:
    """In UTC. What lies beyond the years 1 to 9999, which a datetime cannot say, is the first or the last one."""
    try:
        return _EPOCH + timedelta(microseconds=int(Fraction(seconds) * 1000000))   # whatever the precision of decimals here
    except OverflowError:
        return (datetime.min if seconds < 0 else datetime.max).replace(tzinfo=timezone.utc)


def as_json(value: Any) -> str:
    """Raises TypeError or ValueError for what is no JSON, half of a surrogate pair included."""
    text = json.dumps(value, allow_nan=False, ensure_ascii=False, separators=(",", ":"))
    text.encode()
    return text


def specs_as_json(specs: Iterable[Mapping[str, Any]]) -> str:
    """As jobq_enqueue_jobs and jobq_spawn take them. What is None is left out, so the default; but not a payload."""
    return as_json([{name: in_json(name, value) for name, value in spec.items() if value is not None or name == "payload"}
                    for spec in specs_of(specs)])


def in_json(name: str, value: Any) -> Any:
    """The parameter of that name as a member of an object."""
    if name == "queue":
        return queue_of(value)
    if name in TYPES:
        value = value_of(name, value)
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, timedelta):
        return f"{value.total_seconds()} seconds"
    return value


class Unreadable:
    """In the place of a value that its parser refuses: nested too deep, a number with thousands of digits."""

    def __init__(self, error: Exception) -> None:
        self.error = error


def read_json(text: Union[str, bytes]) -> Any:
    """Never throws: the rows beside it are read, too."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        return Unreadable(error)


def as_text(message: str) -> str:
    """What PostgreSQL takes as a text: valid UTF-8 without NUL."""
    return message.encode("utf-8", "replace").decode().replace("\0", "\\0")


Row = Mapping[str, Any]
