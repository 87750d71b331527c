"""A cluster of shards behind a router: reads the map from the router, and connects to the shards directly."""

from __future__ import annotations

import threading
import time
from typing import Any, Dict, List, Mapping, Optional, Sequence

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.rows import tuple_row

from . import connect
from .shard_map import ANY, ShardMap

READ_EVERY = 5.0   # seconds between two looks at the router's map
_MAP = """SELECT m.version, (SELECT coalesce(json_agg(s), '[]') FROM jobq_router.shards s),
    (SELECT coalesce(json_agg(b), '[]') FROM jobq_router.buckets b), (SELECT coalesce(json_agg(q), '[]') FROM jobq_router.queues q)
    FROM jobq_router.map m"""
# A change of the map that another router has made arrives with this call.
_REFRESH = "SELECT jobq_router.refresh()"
_STALE = ("JQR01", "JQR02", "JQR03")   # the map of the caller and the map of the shard differ
# Parameters of the router's connection that do not apply to shards.
_OF_ROUTER = ("host", "hostaddr", "port", "dbname", "options", "target_session_attrs")
_READ_COMMITTED = r"-c default_transaction_isolation=read\ committed"


class Cluster:
    """A connection to a cluster for enqueue(), enqueue_many(), and enqueue_jobs(), which threads can share. Jobs are sent to their
    shards directly if the map says where they go, and otherwise to the router. Each call is a transaction of its own."""

    def __init__(self, conninfo: connect.Conninfo = "", connect_options: Optional[Mapping[str, Any]] = None) -> None:
        """conninfo: of a database with jobq_router."""
        self._conninfo, self._options = conninfo, dict(connect_options or {})
        self._lock = threading.RLock()
        self._pools: Dict[Optional[int], connect.Connections] = {}   # by shard; None: the router
        self._map: Optional[ShardMap] = None
        self._read_at = float("-inf")

    def map(self) -> ShardMap:
        """Returns the map of the cluster, which it reads again after a few seconds."""
        with self._lock:
            if self._map is None or time.monotonic() >= self._read_at + READ_EVERY:
                self._read_at = time.monotonic()
                try:
                    self._map = ShardMap(*self.run(_MAP, ())[0])
                except psycopg.Error as error:
                    if self._map is None or not connect.is_broken(error):   # without the router, the last map is the best
                        raise
            return self._map

    def refresh(self) -> ShardMap:
        """Lets the router ask the shards for a newer map, and returns it."""
        self.run(_REFRESH, ())
        self._read_at = float("-inf")
        return self.map()

    def run(self, statement: str, parameters: Sequence[Any]) -> List[Any]:
        """Executes a statement on the router and returns the rows as tuples."""
        router = self._connections(None)
        return _execute(router, router.take(), statement, parameters)

    def enqueue(self, jobs: Sequence[Mapping[str, Any]], statement: str, parameters: Sequence[Any]) -> List[Any]:
        """Executes a statement that enqueues these jobs, whose keys are those of jobq_enqueue_jobs, on their shard, or on the router
        if the map does not assign all jobs to one shard. The statement must end with a FROM clause, or with a SELECT list."""
        found = self.map()
        shards = {found.shard_of(job) for job in jobs}
        shard = shards.pop() if len(shards) == 1 else None
        shard = found.any_shard() if shard == ANY else shard
        if not isinstance(shard, int):
            return self.run(statement, parameters)
        checks = f"{',' if ' FROM ' in statement else ' FROM'} jobq_shard.require_shard({shard}), jobq_shard.require_map({found.version})"
        connections = self._connections(shard)
        try:
            connection = connections.take()
        except psycopg.OperationalError:   # the router knows whether another shard can have the jobs
            return self._routed(shard, statement, parameters)
        try:
            return _execute(connections, connection, statement + checks, parameters)
        except psycopg.Error as error:
            if error.sqlstate not in _STALE:
                raise
        return self._routed(shard, statement, parameters)

    def _routed(self, shard: int, statement: str, parameters: Sequence[Any]) -> List[Any]:
        """Executes a statement on the router. The next one reads the map, and opens new connections to the shard."""
        with self._lock:
            self._read_at = float("-inf")
            connections = self._pools.pop(shard, None)
        if connections is not None:
            connections.close()
        return self.run(statement, parameters)

    def conninfo_of(self, shard: int) -> str:
        """Returns the connection string of a shard. The role, the password, and the TLS settings are those of the router's."""
        router = self._conninfo() if callable(self._conninfo) else self._conninfo
        common = {name: value for name, value in conninfo_to_dict(router).items() if name not in _OF_ROUTER}
        found = self.map().shards.get(shard)
        own = {"options": _READ_COMMITTED, "target_session_attrs": "read-write", **conninfo_to_dict(found["connection"] if found else "")}
        return make_conninfo(**{**common, **own})

    def close(self) -> None:
        """Closes the idle connections."""
        with self._lock:
            pools = list(self._pools.values())
            self._pools.clear()
        for pool in pools:
            pool.close()

    def _connections(self, shard: Optional[int]) -> connect.Connections:
        with self._lock:
            if shard not in self._pools:
                conninfo = self._conninfo if shard is None else self.conninfo_of(shard)
                self._pools[shard] = connect.Connections(conninfo, self._options, "jobq")
            return self._pools[shard]


def _execute(connections: connect.Connections, connection: psycopg.Connection[Any], statement: str, parameters: Sequence[Any]) -> List[Any]:
    try:
        with connection.cursor(row_factory=tuple_row) as cursor:
            return cursor.execute(statement, list(parameters)).fetchall()
    finally:
        connections.give(connection)
