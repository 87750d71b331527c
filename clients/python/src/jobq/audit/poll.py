"""Reads the changes by polling the tables, for servers without wal_level = logical.

Two polls show only the difference between two states, and not what happened in between. So this source suits only the laws about committed
states (LAWS). Each poll is one snapshot. Its jobs become one transaction, in which the jobs that have stopped running come first.
"""

from __future__ import annotations

import time
from typing import Any, Dict, Iterable, Iterator, List, Tuple

import psycopg

from .life import FINISHED
from .rows import START, Change, Job, Limit, NamedLimit, Place, Setting
from .slot import SNAPSHOT, prepare, read_rows

LAWS = ("key doubled", "paused", "limit exceeded", "group crowded", "halt ignored", "batch", "schedule fired twice")
# What a setting may have been between two polls in which its row has changed
PERMISSIVE: Dict[Any, Dict[str, Any]] = {Setting: {"paused": False}, Limit: {"max_running": None}, NamedLimit: {"max_running": None}}
SETTINGS = ("queue_settings", "limit_settings", "named_limit_settings")
NO_COMMIT = 1 << 62   # the second part of the position of each commit, which is after all rows of the poll
Versions = Dict[Any, Tuple[str, Any]]   # key: the transaction that wrote the row, and the row


class Poll:
    retained = 0
    exhausted = True

    def __init__(self, connection: psycopg.Connection[Any]) -> None:
        self.connection = connection
        self.tables: Dict[str, Versions] = {}
        self.number = 0
        self.horizon: Place = START

    def open(self) -> None:
        prepare(self.connection)

    def end(self) -> None:
        """Each poll reads the current state."""

    def close(self, connection: psycopg.Connection[Any]) -> None:
        """There is nothing to drop."""

    def snapshot(self) -> List[Change]:
        now = time.time()
        self.tables = self._look()
        return [Change(START, START, now, 0, row) for versions in self.tables.values() for _, row in versions.values()]

    def read(self) -> Iterator[List[Change]]:
        before, self.tables = self.tables, self._look()
        settings = [pair for table in SETTINGS for pair in _settings(before[table], self.tables[table])]
        jobs = list(_jobs(before["jobs"], self.tables["jobs"]))
        others = [(row, False, key not in before[table]) for table in ("batch_settings", "schedule_settings")
                  for key, (version, row) in self.tables[table].items() if before[table].get(key, ("", None))[0] != version]
        for rows in ([(row, deleted, False) for row, deleted in settings], [*jobs, *others]):
            if rows:
                yield self._transaction(rows)
        self.horizon = (self.number + 1, 0)
        for table, versions in self.tables.items():   # what has ended will not be read again
            self.tables[table] = {key: entry for key, entry in versions.items() if not _is_over(entry[1])}

    def _transaction(self, rows: Iterable[Tuple[Any, bool, bool]]) -> List[Change]:
        self.number += 1
        now = time.time()
        commit = (self.number, NO_COMMIT)
        return [Change((self.number, place), commit, now, self.number, row, deleted, inserted)
                for place, (row, deleted, inserted) in enumerate(rows, 1)]

    def _look(self) -> Dict[str, Versions]:
        """Reads the current rows, and the rows that have ended since the last poll."""
        found: Dict[str, Versions] = {}
        with self.connection.transaction():
            self.connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
            for table, condition in SNAPSHOT.items():
                found[table] = {_key(row): (version, row) for version, row in read_rows(self.connection, table, condition)}
                missing = [key for key in self.tables.get(table, ()) if key not in found[table]] if table in ("jobs", "batch_settings") else []
                if missing:
                    found[table].update((_key(row), (version, row)) for version, row in
                                        read_rows(self.connection, table, "id = ANY (%s)", (missing,)))
        return found


def _key(row: Any) -> Any:
    return (row.queue, row.key, row.by_kind) if isinstance(row, Limit) else row[0]


def _is_over(row: Any) -> bool:
    return isinstance(row, Job) and row.status in FINISHED and row.group_active is None or getattr(row, "finished_at", None) is not None


def _settings(before: Versions, after: Versions) -> Iterator[Tuple[Any, bool]]:
    for key, (version, row) in after.items():
        if before.get(key, ("", None))[0] != version:
            yield row._replace(**PERMISSIVE[type(row)]), False
            yield row, False
    for key, (_, row) in before.items():
        if key not in after:
            yield row, True


def _jobs(before: Versions, after: Versions) -> Iterator[Tuple[Job, bool, bool]]:
    """First the jobs that have stopped running, because the order of the events between two polls is not known."""
    later = []
    for job, (version, row) in after.items():
        last = before.get(job)
        if last is not None and last[0] == version:
            continue
        if row.status != "processing":
            yield row, False, last is None
        else:
            later.append((row, False, last is None))
            if last is not None and last[1].status == "processing" and last[1].lease != row.lease:
                yield last[1]._replace(status="pending", lease=None), False, False
    for job, (_, row) in before.items():
        if job not in after:
            yield row, True, False
    yield from later
