"""Enqueues on a connection of the caller's: the jobs are part of his transaction, and neither begin nor end one.

The connection may be psycopg's, Django's (django.db.connection), SQLAlchemy's (a Connection or a Session), or any of DB-API
that takes %s. The functions whose names begin with "a" take psycopg's AsyncConnection, or SQLAlchemy's AsyncConnection or
AsyncSession."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Dict, Iterable, List, Mapping, NamedTuple, Optional, Sequence, Tuple, Union

import psycopg
from psycopg.rows import tuple_row

from . import tracing
from .errors import Delay
from .parameters import OPTIONS, TYPES, payloads_of, queue_of, specs_of, value_of
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
            metadata: Optional[Mapping[str, Any]] = None) -> int:
    """One job; its id. Without a payload {}. What is None is jobq_enqueue's default."""
    given = {name: value for name, value in locals().items() if name not in ("connection", "queue", "payload")}
    with tracing.sending(queue) as sending:
        call = _one(queue, payload, given, sending)
        job_id = int(run_on(connection, *call)[0][0])
        sending.enqueued(job_id)
    return job_id


async def aenqueue(connection: Any, queue: str = "default", payload: Any = None, **given: Any) -> int:
    """As enqueue()."""
    _check_names(given, enqueue)
    with tracing.sending(queue) as sending:
        call = _one(queue, payload, given, sending)
        job_id = int((await arun_on(connection, *call))[0][0])
        sending.enqueued(job_id)
    return job_id


def enqueue_many(connection: Any, queue: str, payloads: Iterable[Any], *, kind: Optional[str] = None,
                 priority: Optional[int] = None, run_at: Optional[datetime] = None, max_attempts: Optional[int] = None,
                 unique_keys: Optional[Sequence[Optional[str]]] = None, group_keys: Optional[Sequence[Optional[str]]] = None,
                 concurrency_keys: Optional[Sequence[Optional[str]]] = None, run_ats: Optional[Sequence[datetime]] = None,
                 priorities: Optional[Sequence[int]] = None) -> List[Enqueued]:
    """A job for each payload, in one statement. It takes no metadata, hence no context of a trace either: enqueue_jobs() does."""
    given = {name: value for name, value in locals().items() if name not in ("connection", "queue", "payloads")}
    texts = [as_json(payload) for payload in payloads_of(payloads)]
    with tracing.sending(queue, len(texts)):
        return _enqueued(run_on(connection, *_many(queue, texts, given)))


async def aenqueue_many(connection: Any, queue: str, payloads: Iterable[Any], **given: Any) -> List[Enqueued]:
    """As enqueue_many()."""
    _check_names(given, enqueue_many)
    texts = [as_json(payload) for payload in payloads_of(payloads)]
    with tracing.sending(queue, len(texts)):
        return _enqueued(await arun_on(connection, *_many(queue, texts, given)))


def enqueue_jobs(connection: Any, specs: Iterable[Mapping[str, Any]]) -> List[Enqueued]:
    """A job for each object: its keys are the parameters of enqueue(), and "ref" for others of the call to depend on."""
    found = specs_of(specs)
    with tracing.sending(_one_queue(found), len(found)) as sending:
        return _enqueued(run_on(connection, *_jobs(found, sending)))


async def aenqueue_jobs(connection: Any, specs: Iterable[Mapping[str, Any]]) -> List[Enqueued]:
    """As enqueue_jobs()."""
    found = specs_of(specs)
    with tracing.sending(_one_queue(found), len(found)) as sending:
        return _enqueued(await arun_on(connection, *_jobs(found, sending)))


# ---- the calls

def _one(queue: str, payload: Any, given: Dict[str, Any], sending: tracing.Sending) -> Call:
    given = {**given, "metadata": tracing.with_context(given.get("metadata"), sending.carrier)}
    names, values = _arguments(given)
    return (f"SELECT jobq_enqueue(%s::text, %s::jsonb{names})", [queue_of(queue), "{}" if payload is None else as_json(payload), *values])


def _many(queue: str, payloads: List[str], given: Dict[str, Any]) -> Call:
    names, values = _arguments(given)
    return f"{_MANY}{names})", [queue_of(queue), payloads, *values]


def _jobs(specs: List[Mapping[str, Any]], sending: tracing.Sending) -> Call:
    return _JOBS, [specs_as_json([{**spec, "metadata": tracing.with_context(spec.get("metadata"), sending.carrier)} for spec in specs])]


def _arguments(given: Mapping[str, Any]) -> Tuple[str, List[Any]]:
    names, values = "", []
    for name, value in given.items():
        if value is None or name in OPTIONS:
            continue
        names += f", {name} => %s::{TYPES[name]}"
        values.append(as_json(value) if name == "metadata" else value_of(name, value))
    options = {name: in_json(name, value) for name, value in given.items() if value is not None and name in OPTIONS}
    if options:
        names += ", options => %s::jsonb"
        values.append(as_json(options))
    return names, values


def _check_names(given: Mapping[str, Any], like: Any) -> None:
    for name in given:
        if name not in like.__kwdefaults__:
            raise TypeError(f"a{like.__name__}() got an unexpected keyword argument {name!r}")


def _one_queue(specs: Sequence[Mapping[str, Any]]) -> Optional[str]:
    queues = {str(spec.get("queue", "default")) for spec in specs}
    return queues.pop() if len(queues) == 1 else None


def _enqueued(rows: Iterable[Any]) -> List[Enqueued]:
    return [Enqueued(int(row[0]), bool(row[1])) for row in rows]


# ---- whose connection it is

def run_on(connection: Any, statement: str, parameters: Sequence[Any]) -> List[Any]:
    """The rows, as tuples."""
    if hasattr(connection, "get_bind") and hasattr(connection, "connection"):   # SQLAlchemy's Session
        connection = connection.connection()
    if hasattr(connection, "exec_driver_sql"):
        return [tuple(row) for row in connection.exec_driver_sql(statement, tuple(parameters))]
    with _plain_cursor(connection) as cursor:
        cursor.execute(statement, list(parameters))
        return list(cursor.fetchall())


async def arun_on(connection: Any, statement: str, parameters: Sequence[Any]) -> List[Any]:
    if hasattr(connection, "get_bind") and hasattr(connection, "connection"):   # SQLAlchemy's AsyncSession
        connection = await connection.connection()
    if hasattr(connection, "exec_driver_sql"):
        return [tuple(row) for row in await connection.exec_driver_sql(statement, tuple(parameters))]
    async with _plain_cursor(connection) as cursor:
        await cursor.execute(statement, list(parameters))
        return list(await cursor.fetchall())


def _plain_cursor(connection: Any) -> Any:
    """Rows as tuples, whatever the caller's connection makes of them."""
    if isinstance(connection, (psycopg.Connection, psycopg.AsyncConnection)):
        return connection.cursor(row_factory=tuple_row)
    return connection.cursor()
