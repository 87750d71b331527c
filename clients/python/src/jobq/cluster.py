"""A cluster of shards behind a router: reads the map from the router, and connects to the shards directly."""

from __future__ import annotations

import logging
import threading
import time
from typing import Any, Dict, List, Mapping, Optional, Sequence

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.rows import tuple_row

from . import connect
from .shard_map import ANY, ShardMap

READ_EVERY = 5.0   # seconds between two reads of the map
_MAP = """SELECT m.version, (SELECT coalesce(json_agg(s), '[]') FROM jobq_router.shards s),
    (SELECT coalesce(json_agg(b), '[]') FROM jobq_router.buckets b), (SELECT coalesce(json_agg(q), '[]') FROM jobq_router.queues q)
    FROM jobq_router.map m"""
# A change of the map that another router has made arrives with this call.
_REFRESH = "SELECT jobq_router.refresh()"
_WRONG_SHARD = "JQR03"
_STALE = ("JQR01", "JQR02", _WRONG_SHARD)   # the map of the caller and the map of the shard differ
# Parameters of the router's connection that do not apply to shards.
_OF_ROUTER = ("host", "hostaddr", "port", "dbname", "options", "target_session_attrs", "service", "servicefile", "conninfo")
log = logging.getLogger("jobq")
_READ_COMMITTED = r"-c default_transaction_isolation=read\ committed"


class Cluster:
    """A connection to a cluster for enqueue(), enqueue_many(), and enqueue_jobs(), which threads can share. Jobs are sent to their
    shards directly if the map says where they go, and otherwise to the router. Each call is a transaction of its own."""

    def __init__(self, conninfo: connect.Conninfo = "", connect_options: Optional[Mapping[str, Any]] = None) -> None:
        """conninfo: of a database with jobq_router."""
        self._conninfo, self._options = conninfo, dict(connect_options or {})
        self._lock = threading.Lock()
        self._pools: Dict[Optional[int], connect.Connections] = {}   # by shard; None: the router
        self._map: Optional[ShardMap] = None
        self._read_at = float("-inf")
        self._reading = threading.Lock()   # held by the thread that reads the map

    def map(self) -> ShardMap:
        """Returns the map of the cluster. If the last read was more than 5 seconds ago, or if a shard has rejected the map, a thread
        reads the map again."""
        if self._map is None:
            with self._reading:
                if self._map is None:
                    self._read()
        elif time.monotonic() >= self._read_at + READ_EVERY and self._reading.acquire(blocking=False):
            threading.Thread(target=self._read_in_background, name="jobq map", daemon=True).start()
        assert self._map is not None
        return self._map

    def _read(self) -> None:
        try:
            self._map = ShardMap(*self.run(_MAP, ())[0])
        finally:
            self._read_at = time.monotonic()

    def _read_in_background(self) -> None:
        try:
            self._read()
        except psycopg.Error as error:   # without the router, the last map is the best
            log.debug("the map of the cluster could not be read: %s", error)
        finally:
            self._reading.release()

    def refresh(self) -> ShardMap:
        """Lets the router ask the shards for a newer map, and returns it."""
        self.run(_REFRESH, ())
        with self._reading:
            self._read()
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
        if len(shards) == 2:
            shards.discard(ANY)
        shard = shards.pop() if len(shards) == 1 else None
        shard = found.any_shard() if shard == ANY else shard
        if not isinstance(shard, int):
            return self.run(statement, parameters)
        checks = f"jobq_shard.require_shard({shard}), jobq_shard.require_map({found.version})"
        checked = f"{statement}, (SELECT {checks}) checks" if " FROM " in statement else f"{statement}, {checks}"
        connections = self._connections(shard)
        try:
            connection = connections.take()
        except psycopg.OperationalError:   # the router knows whether another shard can have the jobs
            self._forget(shard, connections)
            return self.run(statement, parameters)
        try:
            return _execute(connections, connection, checked, parameters)
        except psycopg.Error as error:
            if error.sqlstate == _WRONG_SHARD:
                self._forget(shard, connections)
            if error.sqlstate not in _STALE:
                raise
        self._read_at = float("-inf")
        return self.run(statement, parameters)

    def _forget(self, shard: int, connections: connect.Connections) -> None:
        """The next statement opens new connections to the shard, perhaps to another address."""
        self._read_at = float("-inf")
        with self._lock:
            if self._pools.get(shard) is connections:
                del self._pools[shard]
        connections.close()

    def conninfo_of(self, shard: int) -> str:
        """Returns the connection string of a shard, with the role, the password, and the TLS settings of the router's connection."""
        router = self._conninfo() if callable(self._conninfo) else self._conninfo
        common = {name: value for name, value in conninfo_to_dict(router).items() if name not in _OF_ROUTER}
        found = self.map().shards.get(shard)
        if found is None:
            raise psycopg.OperationalError(f"shard {shard} is not in the map of the cluster")
        own = {"port": "5432", "options": _READ_COMMITTED, "target_session_attrs": "read-write", **conninfo_to_dict(found["connection"])}
        return make_conninfo(**{**common, **own})

    @property
    def shard_options(self) -> Dict[str, Any]:
        """Returns the connect_options that also apply to shards."""
        return {name: value for name, value in self._options.items() if name not in _OF_ROUTER}

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
                self._pools[shard] = connect.Connections(self._conninfo, self._options, "jobq") if shard is None else \
                    connect.Connections(self.conninfo_of(shard), self.shard_options, "jobq")
            return self._pools[shard]


def _execute(connections: connect.Connections, connection: psycopg.Connection[Any], statement: str, parameters: Sequence[Any]) -> List[Any]:
    try:
        with connection.cursor(row_factory=tuple_row) as cursor:
            return cursor.execute(statement, list(parameters)).fetchall()
    finally:
        connections.give(connection)
