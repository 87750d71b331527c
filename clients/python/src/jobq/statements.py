"""SQL statements of workers and steps, and the conversion of values to their parameters."""

from __future__ import annotations

import json
import time
from datetime import datetime, timedelta, timezone
from decimal import Decimal
from fractions import Fraction
from typing import Any, Iterable, Mapping, Optional, Sequence, Union

from .options import Options
from .parameters import TYPES, interval, queue_of, specs_of, value_of
from .patterns import Patterns

# Claims return text, because some drivers parse JSON and others do not.
_FILTER = """%(worker_id)s::text, %(batch)s::int, %(kinds)s::text[], %(versions)s::int[], %(capabilities)s::text[],
    %(heartbeat_timeout)s::interval, %(worker_info)s::jsonb"""
_COMPLETED = "job_ids => %(ids)s::bigint[], leases => %(leases)s::bigint[], results => %(results)s::jsonb[]"
CLAIM = f"SELECT jobq_claim_json(ARRAY[%(queue)s::text], {_FILTER})::text AS jobs"
COMPLETE_AND_CLAIM = f"SELECT jobq_claim_json(ARRAY[%(queue)s::text], {_FILTER}, {_COMPLETED})::text AS jobs"
WAIT = """CALL jobq_wait(%(queue)s::text, %(wait_timeout)s::interval, %(kinds)s::text[], %(versions)s::int[],
    %(capabilities)s::text[], %(worker_id)s::text, %(batch)s::int, %(worker_info)s::jsonb)"""
# For a worker that serves several queues.
_SEVERAL = f"""%(queues)s::text[], {_FILTER}, patterns => %(patterns)s::text[], weights => %(weights)s::int[],
    oldest_first => %(oldest_first)s::boolean, batches => %(batches)s::int[]"""
CLAIM_ANY = f"SELECT jobq_claim_json({_SEVERAL})::text AS jobs"
COMPLETE_AND_CLAIM_ANY = f"SELECT jobq_claim_json({_SEVERAL}, {_COMPLETED})::text AS jobs"
# Reads the result of a claim if the JSON parser rejects one of the payloads.
READ_CLAIMED = """SELECT * FROM json_to_recordset(%s::json) AS j (id bigint, lease bigint, queue text, kind text, payload jsonb, attempt int,
    max_attempts int, priority int, version int, run_at numeric, created_at numeric, progress jsonb, metadata jsonb, heartbeat_seconds int)"""
WAIT_ANY = """CALL jobq_wait_any(%(queues)s::text[], %(wait_timeout)s::interval, %(kinds)s::text[], %(versions)s::int[],
    %(capabilities)s::text[], %(worker_id)s::text, %(batch)s::int,
    patterns => %(patterns)s::text[], batches => %(batches)s::int[], worker_info => %(worker_info)s::jsonb)"""
WAITS = (WAIT, WAIT_ANY)
WAKE = "SELECT jobq_wake(%s::text)"

# Checked first, so that a role that cannot read the tables causes no error in the server log.
MAY_LOOK = """SELECT count(*) = 2 AS may_look FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
    WHERE n.nspname = 'jobq' AND c.relname IN ('jobs', 'lane_directory') AND pg_catalog.has_schema_privilege(n.oid, 'USAGE')
    AND pg_catalog.has_table_privilege(c.oid, 'SELECT')"""
OTHER_KINDS = """SELECT DISTINCT d.kind FROM jobq.lane_directory d
    WHERE (d.queue = ANY (%s::text[]) OR d.queue LIKE ANY (%s::text[])) AND d.kind <> ALL (%s::text[])
    AND EXISTS (SELECT FROM jobq.jobs j WHERE j._ready AND j._lane = d.lane AND j.queue = d.queue AND j.kind = d.kind)
    ORDER BY d.kind LIMIT 20"""

HEARTBEAT = "SELECT jobq_heartbeat(%s::bigint, %s::bigint, %s::jsonb)"
_BRIEFLY = "WITH briefly AS MATERIALIZED (SELECT set_config('lock_timeout', '50ms', true))"   # applies to this statement only
HEARTBEAT_BRIEFLY = f"{_BRIEFLY} SELECT jobq_heartbeat(%s::bigint, %s::bigint, NULL) FROM briefly"
HEARTBEAT_MANY = "SELECT job_id, state FROM jobq_heartbeat_many(%s::bigint[], %s::bigint[], %s::jsonb)"
# A short lock_timeout, because heartbeats and reports must not wait for a DBA who has locked the table of the log lines.
WRITE_LOG = """WITH briefly AS MATERIALIZED (SELECT set_config('lock_timeout', '1s', true))
    SELECT (jobq_write_log(%s::bigint[], %s::bigint[], %s::text[], %s::text[], %s::double precision[])).stored FROM briefly"""
COMPLETE_MANY = "SELECT job_id, completed FROM jobq_complete_many(%s::bigint[], %s::bigint[], %s::jsonb[])"
COMPLETE_HELD = "SELECT jobq_complete(%s::bigint, %s::bigint, %s::jsonb, must_hold => true)"
FAIL = "SELECT jobq_fail(%s::bigint, %s::bigint, %s::text, %s::interval, %s::boolean, %s::jsonb)::text"
FAIL_WITHOUT_DETAILS = "SELECT jobq_fail(%s::bigint, %s::bigint, %s::text, %s::interval, %s::boolean)::text"   # an older server
RELEASE_MANY = "SELECT job_id, released FROM jobq_release_many(%s::bigint[], %s::bigint[])"
RELEASE_BRIEFLY = f"{_BRIEFLY} SELECT (jobq_release_many(%s::bigint[], %s::bigint[])).released FROM briefly"
SNOOZE = "SELECT jobq_snooze(%s::bigint, %s::interval, %s::bigint)"

STEP = "SELECT state, result FROM jobq_step(%s::bigint, %s::bigint, %s::text)"
STEP_DONE = "SELECT state, result FROM jobq_step_done(%s::bigint, %s::bigint, %s::text, %s::jsonb)"
SLEEP = "SELECT jobq_sleep(%s::bigint, %s::bigint, %s::text, %s::interval, %s::timestamptz), NULL"
AWAIT = "SELECT state, payload FROM jobq_await(%s::bigint, %s::bigint, %s::text, %s::interval, %s::text)"
AWAIT_JOBS = "SELECT state, results FROM jobq_await_jobs(%s::bigint, %s::bigint, %s::bigint[], %s::text, %s::text, %s::interval)"
SPAWN = "SELECT state, job_ids FROM jobq_spawn(%s::bigint, %s::bigint, %s::text, %s::jsonb)"

# jobq_tick(now) gives jobs back to workers if the event they wait for is due by then, but the jobs use the server's clock.
SLEEPERS = "SELECT EXISTS (SELECT FROM jobq.jobs WHERE _due AND run_at <= %s::timestamptz AND _steps IS NOT NULL)"
WAKE_SLEEPERS = """UPDATE jobq.steps SET until = clock_timestamp()
    WHERE state = 'waiting' AND until > clock_timestamp() AND until <= %s::timestamptz RETURNING job_id"""
TICK = "SELECT count(*) FROM jobq_tick(%s::timestamptz)"


def claim_parameters(options: Options, kinds: list[str], batch: int, worker_info: Optional[str] = None) -> dict[str, Any]:
    return {
        "queue": options.queue, "worker_id": options.worker_id, "batch": batch, "kinds": kinds,
        "versions": None if options.versions is None else list(options.versions),
        "capabilities": None if options.capabilities is None else list(options.capabilities),
        "heartbeat_timeout": interval(options.heartbeat_timeout), "wait_timeout": interval(options.wait_timeout),
        "worker_info": worker_info,
    }


def queue_parameters(options: Options, rooms: Mapping[str, int]) -> dict[str, Any]:
    """Returns the additional parameters for a worker that serves several queues. rooms: the free slots of the queues."""
    assert isinstance(options.queues, Mapping) and isinstance(options.patterns, Mapping)
    slots = [*options.patterns.values()]
    found = Patterns(options.patterns)
    weights = [options.queues.get(queue) or found.slots_of(queue) for queue in rooms] + slots if options.queue_order == "random" else None
    return {
        "queues": list(rooms), "batches": [*rooms.values(), *slots], "oldest_first": options.queue_order == "oldest", "weights": weights,
        "patterns": options.given_patterns or None,
    }


def log_parameters(lines: Sequence[tuple[Any, Any]]) -> list[Any]:
    """Returns the parameters of WRITE_LOG. lines: pairs of a job and a line."""
    now = time.monotonic()
    return [[job.id for job, _ in lines], [job.lease for job, _ in lines], [line.text for _, line in lines],
            [line.level for _, line in lines], [now - line.at for _, line in lines]]


_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)


def time_of(seconds: Union[Decimal, float]) -> datetime:
    """Returns the time in UTC. Times outside the years 1 to 9999, the range of datetime, become the first or last datetime."""
    try:
        return _EPOCH + timedelta(microseconds=round(Fraction(seconds) * 1000000))   # exact for Decimal; floats are rounded
    except OverflowError:
        return (datetime.min if seconds < 0 else datetime.max).replace(tzinfo=timezone.utc)


def as_json(value: Any) -> str:
    """Returns the value as JSON. Raises TypeError or ValueError if JSON cannot represent it, for example half of a surrogate
    pair."""
    text = json.dumps(value, allow_nan=False, ensure_ascii=False, separators=(",", ":"))
    text.encode()
    return text


def specs_as_json(specs: Iterable[Mapping[str, Any]]) -> str:
    """Returns the specs in the format of jobq_enqueue_jobs and jobq_spawn. Omits parameters that are None, but not a payload of
    None."""
    return as_json([{name: in_json(name, value) for name, value in spec.items() if value is not None or name == "payload"}
                    for spec in specs_of(specs)])


def in_json(name: str, value: Any) -> Any:
    """Returns the value of the named parameter as a member of a JSON object."""
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
    """Replaces a value that the JSON parser rejects, such as one that is nested too deeply or has numbers with thousands of
    digits."""

    def __init__(self, error: Exception) -> None:
        self.error = error


def read_json(text: Union[str, bytes]) -> Any:
    """Returns the parsed value. Never raises, so that the other rows of a claim can still be read."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        return Unreadable(error)


def claimed_rows(jobs: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Returns the jobs with their ids and leases as numbers, which are strings in the result of a claim."""
    return [{**job, "id": int(job["id"]), "lease": int(job["lease"])} for job in jobs]


def as_text(message: str) -> str:
    """Returns the message as text that PostgreSQL accepts: valid UTF-8 without NUL."""
    return message.encode("utf-8", "replace").decode().replace("\0", "\\0")


Row = Mapping[str, Any]
