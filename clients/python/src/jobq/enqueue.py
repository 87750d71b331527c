"""Enqueues jobs on the caller's connection. The jobs are part of the caller's transaction; the functions neither begin nor end a
transaction.

The connection may be psycopg's, Django's (django.db.connection), SQLAlchemy's (a Connection or a Session), or any DB-API
connection that uses %s placeholders. With a Cluster, each call is a transaction of its own. The functions
whose names begin with "a" take psycopg's AsyncConnection, SQLAlchemy's AsyncConnection or AsyncSession, or a Cluster."""

from __future__ import annotations

import asyncio
from datetime import datetime
from typing import AbstractSet, Any, Dict, Iterable, List, Mapping, NamedTuple, Optional, Sequence, Tuple, Union

import psycopg
from psycopg.rows import tuple_row

from . import tracing
from .cluster import Cluster
from .errors import Delay
from .parameters import OPTIONS, OPTIONS_OF_MANY, TYPES, payloads_of, queue_of, specs_of, value_of
from .statements import as_json, in_json, specs_as_json

Interval = Union[Delay, str]


class Enqueued(NamedTuple):
    job_id: int
    is_new: bool
    """False: a job with this unique key was there already."""


Call = Tuple[str, List[Any]]
_MANY = "SELECT job_id, is_new FROM jobq_enqueue_many(%s::text, %s::jsonb[]"
_JOBS = "SELECT job_id, is_new FROM jobq_enqueue_jobs(%s::jsonb)"


def enqueue(connection: Any, queue: str = "default", payload: Any = None, *, kind: Optional[str] = None,
            priority: Optional[int] = None, run_at: Optional[datetime] = None, max_attempts: Optional[int] = None,
            unique_key: Optional[str] = None, on_conflict: Optional[str] = None, unique_for: Optional[Interval] = None,
            group_key: Optional[str] = None, concurrency_key: Optional[str] = None, depends_on: Optional[Sequence[int]] = None,
            on_dependency_failure: Optional[str] = None, version: Optional[int] = None, requires: Optional[Sequence[str]] = None,
            heartbeat_timeout: Optional[Interval] = None, max_runtime: Optional[Interval] = None,
            expires_at: Optional[datetime] = None, expires_in: Optional[Interval] = None, batch_id: Optional[int] = None,
            limits: Optional[Sequence[str]] = None, metadata: Optional[Mapping[str, Any]] = None) -> int:
    """Enqueues one job and returns its ID. The default payload is {}. Parameters that are None get jobq_enqueue's defaults."""
    given = {name: value for name, value in locals().items() if name not in ("connection", "queue", "payload")}
    with tracing.sending(queue) as sending:
        call = _one(queue, payload, given, sending)
        job_id = int(run_enqueue(connection, call, [{**given, "queue": queue}])[0][0])
        sending.enqueued(job_id)
    return job_id


async def aenqueue(connection: Any, queue: str = "default", payload: Any = None, **given: Any) -> int:
    """Enqueues one job on an async connection. See enqueue()."""
    check_names("aenqueue", given, enqueue)
    with tracing.sending(queue) as sending:
        call = _one(queue, payload, given, sending)
        job_id = int((await arun_enqueue(connection, call, [{**given, "queue": queue}]))[0][0])
        sending.enqueued(job_id)
    return job_id


def enqueue_many(connection: Any, queue: str, payloads: Iterable[Any], *, kind: Optional[str] = None,
                 priority: Optional[int] = None, run_at: Optional[datetime] = None, max_attempts: Optional[int] = None,
                 unique_keys: Optional[Sequence[Optional[str]]] = None, group_keys: Optional[Sequence[Optional[str]]] = None,
                 concurrency_keys: Optional[Sequence[Optional[str]]] = None, run_ats: Optional[Sequence[datetime]] = None,
                 priorities: Optional[Sequence[int]] = None, on_conflict: Optional[str] = None,
                 unique_for: Optional[Interval] = None, version: Optional[int] = None, requires: Optional[Sequence[str]] = None,
                 heartbeat_timeout: Optional[Interval] = None, max_runtime: Optional[Interval] = None,
                 expires_at: Optional[datetime] = None, expires_in: Optional[Interval] = None, batch_id: Optional[int] = None,
                 limits: Optional[Sequence[str]] = None, metadata: Optional[Mapping[str, Any]] = None) -> List[Enqueued]:
    """Enqueues one job per payload, in one statement. Parameters that are None get jobq_enqueue_many's defaults."""
    given = {name: value for name, value in locals().items() if name not in ("connection", "queue", "payloads")}
    texts = [as_json(payload) for payload in payloads_of(payloads)]
    with tracing.sending(queue, len(texts)) as sending:
        return _enqueued(run_enqueue(connection, _many(queue, texts, given, sending), _jobs_of_many(queue, len(texts), given)))


async def aenqueue_many(connection: Any, queue: str, payloads: Iterable[Any], **given: Any) -> List[Enqueued]:
    """Enqueues one job per payload on an async connection. See enqueue_many()."""
    check_names("aenqueue_many", given, enqueue_many)
    texts = [as_json(payload) for payload in payloads_of(payloads)]
    with tracing.sending(queue, len(texts)) as sending:
        return _enqueued(await arun_enqueue(connection, _many(queue, texts, given, sending), _jobs_of_many(queue, len(texts), given)))


def enqueue_jobs(connection: Any, specs: Iterable[Mapping[str, Any]]) -> List[Enqueued]:
    """Enqueues one job per object. The keys of an object are the parameters of enqueue(), and "ref", a name to which the
    depends_on of other objects in the call may refer."""
    found = specs_of(specs)
    with tracing.sending(_one_queue(found), len(found)) as sending:
        return _enqueued(run_enqueue(connection, _jobs(found, sending), found))


async def aenqueue_jobs(connection: Any, specs: Iterable[Mapping[str, Any]]) -> List[Enqueued]:
    """Enqueues one job per object on an async connection. See enqueue_jobs()."""
    found = specs_of(specs)
    with tracing.sending(_one_queue(found), len(found)) as sending:
        return _enqueued(await arun_enqueue(connection, _jobs(found, sending), found))


# ---- the SQL calls

def _one(queue: str, payload: Any, given: Dict[str, Any], sending: tracing.Sending) -> Call:
    names, values = _arguments(given, sending, OPTIONS)
    return (f"SELECT jobq_enqueue(%s::text, %s::jsonb{names})", [queue_of(queue), "{}" if payload is None else as_json(payload), *values])


def _many(queue: str, payloads: List[str], given: Dict[str, Any], sending: tracing.Sending) -> Call:
    names, values = _arguments(given, sending, OPTIONS_OF_MANY)
    return f"{_MANY}{names})", [queue_of(queue), payloads, *values]


def _jobs(specs: List[Mapping[str, Any]], sending: tracing.Sending) -> Call:
    return _JOBS, [specs_as_json([{**spec, "metadata": tracing.with_context(spec.get("metadata"), sending.carrier)} for spec in specs])]


def _jobs_of_many(queue: str, count: int, given: Mapping[str, Any]) -> List[Dict[str, Any]]:
    """Returns what decides the shard of each job."""
    keys = {name: list(given[f"{name}s"]) for name in ("unique_key", "group_key", "concurrency_key") if given.get(f"{name}s") is not None}
    common = {"queue": queue, "batch_id": given.get("batch_id"), "limits": given.get("limits")}
    return [{**common, **{name: values[number] if number < len(values) else None for name, values in keys.items()}} for number in range(count)]


def _arguments(given: Mapping[str, Any], sending: tracing.Sending, keys: AbstractSet[str]) -> Tuple[str, List[Any]]:
    """Returns the arguments as SQL, and their values. keys: the arguments that are keys of the parameter options."""
    names, values = "", []
    given = {**given, "metadata": tracing.with_context(given.get("metadata"), sending.carrier)}
    for name, value in given.items():
        if value is None or name in keys:
            continue
        names += f", {name} => %s::{TYPES[name]}"
        values.append(as_json(value) if name == "metadata" else value_of(name, value))
    options = {name: in_json(name, value) for name, value in given.items() if value is not None and name in keys}
    if options:
        names += ", options => %s::jsonb"
        values.append(as_json(options))
    return names, values


def check_names(function: str, given: Mapping[str, Any], like: Any) -> None:
    """Raises TypeError for a keyword argument of the function that `like` does not have."""
    for name in given:
        if name not in like.__kwdefaults__:
            raise TypeError(f"{function}() got an unexpected keyword argument {name!r}")


def _one_queue(specs: Sequence[Mapping[str, Any]]) -> Optional[str]:
    queues = {str(spec.get("queue", "default")) for spec in specs}
    return queues.pop() if len(queues) == 1 else None


def _enqueued(rows: Iterable[Any]) -> List[Enqueued]:
    return [Enqueued(int(row[0]), bool(row[1])) for row in rows]


# ---- kinds of connections

def run_enqueue(connection: Any, call: Call, jobs: Sequence[Mapping[str, Any]]) -> List[Any]:
    """Executes a call that enqueues these jobs, and returns the rows as tuples."""
    return connection.enqueue(jobs, *call) if isinstance(connection, Cluster) else run_on(connection, *call)


async def arun_enqueue(connection: Any, call: Call, jobs: Sequence[Mapping[str, Any]]) -> List[Any]:
    if isinstance(connection, Cluster):
        return await asyncio.to_thread(connection.enqueue, jobs, *call)
    return await arun_on(connection, *call)


def run_on(connection: Any, statement: str, parameters: Sequence[Any]) -> List[Any]:
    """Executes the statement and returns the rows as tuples."""
    if isinstance(connection, Cluster):
        return connection.run(statement, parameters)
    if hasattr(connection, "get_bind") and hasattr(connection, "connection"):   # a SQLAlchemy Session
        connection = connection.connection()
    if hasattr(connection, "exec_driver_sql"):
        return [tuple(row) for row in connection.exec_driver_sql(statement, tuple(parameters))]
    with _plain_cursor(connection) as cursor:
        cursor.execute(statement, list(parameters))
        return list(cursor.fetchall())


async def arun_on(connection: Any, statement: str, parameters: Sequence[Any]) -> List[Any]:
    if isinstance(connection, Cluster):
        return await asyncio.to_thread(connection.run, statement, parameters)
    if hasattr(connection, "get_bind") and hasattr(connection, "connection"):   # a SQLAlchemy AsyncSession
        connection = await connection.connection()
    if hasattr(connection, "exec_driver_sql"):
        return [tuple(row) for row in await connection.exec_driver_sql(statement, tuple(parameters))]
    async with _plain_cursor(connection) as cursor:
        await cursor.execute(statement, list(parameters))
        return list(await cursor.fetchall())


def _plain_cursor(connection: Any) -> Any:
    """Returns a cursor whose rows are tuples, regardless of the connection's row factory."""
    if isinstance(connection, (psycopg.Connection, psycopg.AsyncConnection)):
        return connection.cursor(row_factory=tuple_row)
    return connection.cursor()
