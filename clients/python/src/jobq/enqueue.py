"""Enqueues jobs on the caller's connection. The jobs are part of the caller's transaction; the functions neither begin nor end a
transaction.

The connection may be psycopg's, Django's (django.db.connection), SQLAlchemy's (a Connection or a Session), or any DB-API
connection that uses %s placeholders. With a Cluster, each call is a transaction of its own. The functions
whose names begin with "a" take psycopg's AsyncConnection, SQLAlchemy's AsyncConnection or AsyncSession, or a Cluster."""

from __future__ import annotations

import asyncio
import itertools
import re
from datetime import datetime
from typing import AbstractSet, Any, Dict, Iterable, List, Mapping, NamedTuple, Optional, Sequence, Tuple, Union

import psycopg
from psycopg.rows import tuple_row

from .cluster import Cluster
from .errors import Delay, OptionError
from .middleware import Enqueuing, enqueuing
from .parameters import OPTIONS, OPTIONS_OF_MANY, TYPES, payloads_of, queue_of, specs_of, value_of
from .statements import as_json, in_json, specs_as_json

Interval = Union[Delay, str]


class Enqueued(NamedTuple):
    job_id: int
    is_new: bool
    """False: a job with this unique key was there already."""


Call = Tuple[str, List[Any]]
Spec = Dict[str, Any]
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
    given = {name: value for name, value in locals().items() if name != "connection"}
    with enqueuing([given]) as call:
        return _enqueued(call, run_enqueue(connection, *_one(call.specs[0])))[0].job_id


async def aenqueue(connection: Any, queue: str = "default", payload: Any = None, **given: Any) -> int:
    """Enqueues one job on an async connection. See enqueue()."""
    check_names("aenqueue", given, enqueue)
    with enqueuing([{"queue": queue, "payload": payload, **given}]) as call:
        return _enqueued(call, await arun_enqueue(connection, *_one(call.specs[0])))[0].job_id


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
    given = {name: value for name, value in locals().items() if name != "connection"}
    with enqueuing([{**given, "payloads": payloads_of(payloads)}]) as call:
        return _enqueued(call, run_enqueue(connection, *_many(call.specs[0])))


async def aenqueue_many(connection: Any, queue: str, payloads: Iterable[Any], **given: Any) -> List[Enqueued]:
    """Enqueues one job per payload on an async connection. See enqueue_many()."""
    check_names("aenqueue_many", given, enqueue_many)
    with enqueuing([{"queue": queue, "payloads": payloads_of(payloads), **given}]) as call:
        return _enqueued(call, await arun_enqueue(connection, *_many(call.specs[0])))


def enqueue_jobs(connection: Any, specs: Iterable[Mapping[str, Any]]) -> List[Enqueued]:
    """Enqueues one job per object. The keys of an object are the parameters of enqueue(), and "ref", a name to which the
    depends_on of other objects in the call may refer."""
    with enqueuing([dict(spec) for spec in specs_of(specs)]) as call:
        return _enqueued(call, run_enqueue(connection, *_jobs(call.specs)))


async def aenqueue_jobs(connection: Any, specs: Iterable[Mapping[str, Any]]) -> List[Enqueued]:
    """Enqueues one job per object on an async connection. See enqueue_jobs()."""
    with enqueuing([dict(spec) for spec in specs_of(specs)]) as call:
        return _enqueued(call, await arun_enqueue(connection, *_jobs(call.specs)))


# ---- the SQL calls, and what decides the shards of their jobs

def _one(spec: Spec) -> Tuple[Call, List[Spec]]:
    names, values = _arguments(spec, OPTIONS)
    payload = spec.get("payload")
    return (f"SELECT jobq_enqueue(%s::text, %s::jsonb{names})",
            [queue_of(spec.get("queue", "default")), "{}" if payload is None else as_json(payload), *values]), [spec]


def _many(spec: Spec) -> Tuple[Call, List[Spec]]:
    queue, payloads = queue_of(spec.get("queue", "default")), [as_json(payload) for payload in spec["payloads"]]
    names, values = _arguments(spec, OPTIONS_OF_MANY)
    keys = {name: list(spec[f"{name}s"]) for name in ("unique_key", "group_key", "concurrency_key") if spec.get(f"{name}s") is not None}
    common = {"queue": queue, "batch_id": spec.get("batch_id"), "limits": spec.get("limits")}
    return (f"{_MANY}{names})", [queue, payloads, *values]), [
        {**common, **{name: values[number] if number < len(values) else None for name, values in keys.items()}} for number in range(len(payloads))]


def _jobs(specs: List[Spec]) -> Tuple[Call, List[Spec]]:
    return (_JOBS, [specs_as_json(specs)]), specs


def _arguments(spec: Spec, keys: AbstractSet[str]) -> Tuple[str, List[Any]]:
    """Returns the arguments as SQL, and their values. keys: the arguments that are keys of the parameter options."""
    names, values = "", []
    given = {name: value for name, value in spec.items() if value is not None and name not in ("queue", "payload", "payloads")}
    for name, value in given.items():
        if name in keys:
            continue
        if name not in TYPES:
            raise OptionError(f'argument "{name}" does not exist; the arguments are queue, payload, {", ".join(TYPES)}')
        names += f", {name} => %s::{TYPES[name]}"
        values.append(as_json(value) if name == "metadata" else value_of(name, value))
    options = {name: in_json(name, value) for name, value in given.items() if name in keys}
    if options:
        names += ", options => %s::jsonb"
        values.append(as_json(options))
    return names, values


def check_names(function: str, given: Mapping[str, Any], like: Any) -> None:
    """Raises TypeError for a keyword argument of the function that `like` does not have."""
    for name in given:
        if name not in like.__kwdefaults__:
            raise TypeError(f"{function}() got an unexpected keyword argument {name!r}")


def _enqueued(call: Enqueuing, rows: Iterable[Any]) -> List[Enqueued]:
    """Returns the jobs of these rows, and tells the middleware about them."""
    found = [Enqueued(int(row[0]), len(row) == 1 or bool(row[1])) for row in rows]
    call.ids = [one.job_id for one in found]
    return found


# ---- kinds of connections

def run_enqueue(connection: Any, call: Call, jobs: Sequence[Spec]) -> List[Any]:
    """Executes a call that enqueues these jobs, and returns the rows as tuples."""
    return connection.enqueue(jobs, *call) if isinstance(connection, Cluster) else run_on(connection, *call)


async def arun_enqueue(connection: Any, call: Call, jobs: Sequence[Spec]) -> List[Any]:
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
        return [tuple(row) for row in connection.exec_driver_sql(_of_driver(connection, statement), tuple(parameters))]
    with _plain_cursor(connection) as cursor:
        cursor.execute(statement, list(parameters))
        return list(cursor.fetchall())


async def arun_on(connection: Any, statement: str, parameters: Sequence[Any]) -> List[Any]:
    if isinstance(connection, Cluster):
        return await asyncio.to_thread(connection.run, statement, parameters)
    if hasattr(connection, "get_bind") and hasattr(connection, "connection"):   # a SQLAlchemy AsyncSession
        connection = await connection.connection()
    if hasattr(connection, "exec_driver_sql"):
        return [tuple(row) for row in await connection.exec_driver_sql(_of_driver(connection, statement), tuple(parameters))]
    async with _plain_cursor(connection) as cursor:
        await cursor.execute(statement, list(parameters))
        return list(await cursor.fetchall())


def _of_driver(connection: Any, statement: str) -> str:
    """Returns the statement with the placeholders of SQLAlchemy's driver, which for asyncpg are $1, $2, ... since SQLAlchemy 2."""
    if connection.dialect.paramstyle != "numeric_dollar":
        return statement
    numbers = itertools.count(1)
    return re.sub("%s", lambda _: f"${next(numbers)}", statement)


def _plain_cursor(connection: Any) -> Any:
    """Returns a cursor whose rows are tuples, regardless of the connection's row factory."""
    if isinstance(connection, (psycopg.Connection, psycopg.AsyncConnection)):
        return connection.cursor(row_factory=tuple_row)
    return connection.cursor()
