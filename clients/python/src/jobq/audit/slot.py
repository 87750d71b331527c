"""Reads the changes from a temporary logical replication slot, through an ordinary connection.

The plugin is pgoutput, because every server has it, and because it sends only the columns that a publication lists, so that payloads and
the tables of the application stay on the server. SQL functions read the slot, because psycopg does not support the replication protocol.
The slot ends with the connection.
"""

from __future__ import annotations

import contextlib
import time
from typing import Any, Dict, Iterator, List, Optional, Sequence, Tuple

import psycopg
from psycopg import sql

from .pgoutput import Reader, value_of
from .rows import LEFT_OUT, ROWS, START, Change, Place, columns

PUBLICATION = "jobq_audit"
ATTEMPTS = "_attempts"       # suffix of a second publication, for the table of attempts, from which only inserts are published
CHUNK = 50_000               # changes per call
SETTINGS = ("timezone = 'UTC'", "datestyle = 'ISO'", "intervalstyle = 'postgres'", "search_path = pg_catalog", "statement_timeout = 0",
            "idle_in_transaction_session_timeout = 0", "idle_session_timeout = 0", "lock_timeout = 0")
PATIENCE = "SET lock_timeout = '10s'"   # for DDL, for which other sessions may have to wait, too
NEEDED = {table: columns(table, LEFT_OUT) for table in ROWS}
IDENTITIES = """
SELECT c.relname, c.relreplident::text FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
WHERE n.nspname = 'jobq' AND c.relname = ANY (%s)"""
PUBLISHED = """
SELECT t.tablename, t.attnames::text[] FROM pg_catalog.pg_publication_tables t
WHERE t.pubname = ANY (%s) AND t.schemaname = 'jobq' AND t.rowfilter IS NULL"""
LEFTOVERS = """
SELECT p.pubname FROM pg_catalog.pg_publication p
WHERE p.pubname ~ %s AND pg_catalog.obj_description(p.oid, 'pg_publication') = 'temporary publication of jobq audit'
AND NOT EXISTS (SELECT FROM pg_catalog.pg_stat_activity a WHERE a.pid::text = substring(p.pubname FROM '[0-9]+'))"""
RETAINED = """
SELECT pg_catalog.pg_wal_lsn_diff(pg_catalog.pg_current_wal_lsn(), s.restart_lsn)::bigint, (s.restart_lsn - '0/0')::bigint
FROM pg_catalog.pg_replication_slots s WHERE s.slot_name = %s AND s.restart_lsn IS NOT NULL"""
CHANGES = """
SELECT (lsn - '0/0')::bigint, data
FROM pg_catalog.pg_logical_slot_get_binary_changes(%s, %s, %s, 'proto_version', '1', 'publication_names', %s)"""
SNAPSHOT = {
    "jobs": "status <= 'processing' OR _group_active IS NOT NULL", "queue_settings": "true", "limit_settings": "true",
    "named_limit_settings": "true", "batch_settings": "finished_at IS NULL", "schedule_settings": "true"}


class NotPossible(Exception):
    """The audit cannot start. The message says why, and what to do."""


class Slot:
    """`connection`: in autocommit mode. The slot needs it for itself."""

    def __init__(self, connection: psycopg.Connection[Any]) -> None:
        self.connection = connection
        # A pooler gives its clients other numbers than the server's process ids.
        pid, = connection.execute("SELECT pg_catalog.pg_backend_pid()").fetchone() or (0,)
        self.name = f"{PUBLICATION}_{pid}"
        self.publications: List[str] = []
        self.created: List[str] = []
        self.reader = Reader()
        self.retained = 0
        self.horizon: Place = START
        self.exhausted = False   # the last call has read all changes that were committed
        self._upto: Optional[str] = None   # LSN at which the audit ends
        self._seen = _Snapshot("1:1:")

    # The beginning

    def open(self) -> None:
        """Creates the publications, unless the owner of jobq has created them, and then the slot."""
        prepare(self.connection)
        self._publish()
        try:
            self.connection.execute("SELECT pg_catalog.pg_create_logical_replication_slot(%s, 'pgoutput', true)", (self.name,))
        except psycopg.errors.InsufficientPrivilege as error:
            raise NotPossible(f"{_primary(error)} (hint: Run ALTER ROLE ... REPLICATION for the role of the audit, or use a superuser.)") from error
        except psycopg.errors.ObjectNotInPrerequisiteState as error:
            raise NotPossible(f"{_primary(error)} (hint: Set wal_level = logical and restart the server, or use --poll.)") from error
        except psycopg.errors.ConfigurationLimitExceeded as error:
            raise NotPossible(f"{_primary(error)} (hint: Increase max_replication_slots, or drop a slot that is not used.)") from error

    def _publish(self) -> None:
        fixed = [PUBLICATION, PUBLICATION + ATTEMPTS]
        there = self._names("SELECT pubname FROM pg_catalog.pg_publication WHERE pubname = ANY (%s)", fixed)
        if there:
            self.publications = fixed
            self._check_published()
            return
        self.connection.execute(PATIENCE)
        for name in self._names(LEFTOVERS, f"^{PUBLICATION}_[0-9]+({ATTEMPTS})?$"):
            with contextlib.suppress(psycopg.errors.InsufficientPrivilege):   # another role has created it
                _drop(self.connection, name)
        self.publications = [self.name, self.name + ATTEMPTS]
        try:
            for name, statement in zip(self.publications, statements(*self.publications, self._identities())):
                self.connection.execute(statement)
                self.created.append(name)
                self.connection.execute(sql.SQL("COMMENT ON PUBLICATION {} IS 'temporary publication of jobq audit'").format(sql.Identifier(name)))
            self.connection.execute("SET lock_timeout = 0")   # the creation of a slot waits for locks, too
        except psycopg.errors.LockNotAvailable as error:
            raise NotPossible(f"{_primary(error)} (hint: Try again when no VACUUM, DDL, or other maintenance of jobq's tables is running.)") from error
        except psycopg.errors.InsufficientPrivilege as error:
            raise NotPossible(f"{_primary(error)} (hint: The owner of the tables of jobq can create the publications for you, once:"
                              f" {self.setup()})") from error

    def setup(self) -> str:
        """The statements with which the owner of jobq creates the publications permanently."""
        texts = [statement.as_string(self.connection) for statement in statements(PUBLICATION, PUBLICATION + ATTEMPTS, self._identities())]
        return "; ".join(texts) + ";"

    def _identities(self) -> Dict[str, str]:
        found = dict(self.connection.execute(IDENTITIES, (list(ROWS),)).fetchall())
        missing = sorted(set(ROWS) - set(found))
        if missing:
            raise NotPossible(f"table jobq.{missing[0]} does not exist (hint: Run \"jobq doctor\" to check the installation.)")
        for table, identity in found.items():
            if identity == "n":   # if the table were published, all its updates would fail
                raise NotPossible(f"table jobq.{table} has REPLICA IDENTITY NOTHING (hint: Run ALTER TABLE jobq.{table} REPLICA IDENTITY DEFAULT.)")
        return found

    def _check_published(self) -> None:
        found: Dict[str, List[str]] = dict(self.connection.execute(PUBLISHED, (self.publications,)).fetchall())
        for table, names in NEEDED.items():
            missing = [name for name in names if name not in found.get(table, ())]
            if missing:
                raise NotPossible(f"publication \"{PUBLICATION}\" lacks column {missing[0]} of jobq.{table} (hint: Drop the publications"
                                  f" {' and '.join(self.publications)}, and create them again: {self.setup()})")

    def snapshot(self) -> List[Change]:
        """Returns the rows that the laws need to know at the start. Changes of transactions that it has seen are not returned again."""
        now, found = time.time(), []
        with self.connection.transaction():
            self.connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
            row = self.connection.execute("SELECT pg_catalog.pg_current_snapshot()::text").fetchone()
            assert row is not None
            self._seen = _Snapshot(row[0])
            for table, condition in SNAPSHOT.items():
                found += [Change(START, START, now, 0, row) for _, row in read_rows(self.connection, table, condition)]
        return found

    # Reading

    def read(self) -> Iterator[List[Change]]:
        """Returns the transactions that were committed since the last call, in the order of their commits."""
        rows = self.connection.execute(CHANGES, (self.name, self._upto, CHUNK, ",".join(self.publications)), binary=True).fetchall()
        self.exhausted = len(rows) < CHUNK
        for lsn, message in rows:
            changes = self.reader.read(lsn, message)
            if changes and not self._seen.shows(changes[0].xid):
                yield changes
        self._measure()

    def end(self) -> None:
        """Later calls of read() return only what has been committed until now, so that the audit ends also if it cannot keep up."""
        if self._upto is None:
            self._upto = self.connection.execute("SELECT pg_catalog.pg_current_wal_lsn()::text").fetchone()[0]  # type: ignore[index]

    def _measure(self) -> None:
        row = self.connection.execute(RETAINED, (self.name,)).fetchone()
        if row is not None:
            self.retained, self.horizon = row[0], (row[1], 0)

    def close(self, connection: psycopg.Connection[Any]) -> None:
        """Drops what open() has created. If the connection of the slot is broken, the server has already dropped
        the slot, and another connection can drop the publications."""
        if connection is self.connection:
            connection.execute("SELECT pg_catalog.pg_drop_replication_slot(slot_name) FROM pg_catalog.pg_replication_slots"
                               " WHERE slot_name = %s AND active_pid = pg_catalog.pg_backend_pid()", (self.name,))
        connection.execute(PATIENCE)
        while self.created:
            _drop(connection, self.created[-1])
            self.created.pop()

    def _names(self, statement: str, parameter: Any) -> List[str]:
        return [row[0] for row in self.connection.execute(statement.encode(), (parameter,)).fetchall()]


def _drop(connection: psycopg.Connection[Any], name: str) -> None:
    connection.execute(sql.SQL("DROP PUBLICATION IF EXISTS {}").format(sql.Identifier(name)))


def prepare(connection: psycopg.Connection[Any]) -> None:
    """Makes the server write values as the laws read them, and does not let it end the session."""
    for setting in SETTINGS:
        connection.execute(f"SET {setting}".encode())


class _Snapshot:
    """Which transactions a snapshot shows."""

    def __init__(self, text: str) -> None:
        _, xmax, running = text.split(":")
        self.next = int(xmax)
        self.running = {int(xid) for xid in running.split(",") if xid}

    def shows(self, xid: int) -> bool:
        """xid: the lower 32 bits of the id of a transaction of about that time."""
        full = (self.next & ~0xffffffff) | xid
        if full - self.next > 1 << 31:
            full -= 1 << 32
        elif self.next - full > 1 << 31:
            full += 1 << 32
        return full < self.next and full not in self.running


def statements(name: str, attempts: str, identities: Dict[str, str]) -> Sequence[sql.Composed]:
    """Returns the statements that create the two publications.

    A list of columns must contain the replica identity. Otherwise, updates of the table fail, so a table with another replica identity than
    its primary key is published with all columns. Attempts are only inserted, or deleted with their job, so their inserts are enough."""
    tables = []
    for table in ROWS:
        if table != "attempts":
            tables.append(_table(table, NEEDED[table] if identities[table] == "d" else None))
    return (sql.SQL("CREATE PUBLICATION {} FOR TABLE {}").format(sql.Identifier(name), sql.SQL(", ").join(tables)),
            sql.SQL("CREATE PUBLICATION {} FOR TABLE {} WITH (publish = 'insert')").format(
                sql.Identifier(attempts), _table("attempts", NEEDED["attempts"])))


def _table(table: str, names: Any) -> sql.Composed:
    listed = sql.SQL(" ({})").format(sql.SQL(", ").join(map(sql.Identifier, names))) if names else sql.SQL("")
    return sql.SQL("{}{}").format(sql.Identifier("jobq", table), listed)


def read_rows(connection: psycopg.Connection[Any], table: str, condition: str, parameters: Sequence[Any] = ()) -> Iterator[Tuple[str, Any]]:
    """Returns the rows of a table as the laws read them, with the transaction that wrote each, a few thousand at a time."""
    make = ROWS[table]
    fields = [name.lstrip("_") for name in NEEDED[table]]
    texts = ", ".join(f"{name}::text" for name in ("xmin", *NEEDED[table]))
    with connection.cursor("jobq_audit") as cursor:
        cursor.itersize = 5000
        cursor.execute(f"SELECT {texts} FROM jobq.{table} WHERE {condition}".encode(), parameters)
        for version, *values in cursor:
            yield version, make(**{name: value_of(name, value) for name, value in zip(fields, values)})


def _primary(error: psycopg.Error) -> str:
    return error.diag.message_primary or str(error)
