"""The real changes of jobs, from the server's own log of all changes.

A logical replication slot contains every committed version of every row: the transaction that wrote it, its position in the log,
and the position of the commit of its transaction. A transaction that has seen the outcome of another one writes after its commit.
Therefore, comparing two positions gives the order of two facts, without a clock, the word of a client, or a trigger that would
change the behavior of jobq.

Needs wal_level = logical. A position is (LSN, number), where the number distinguishes the rows of one record.
"""

import struct
from datetime import datetime
from functools import lru_cache
from typing import NamedTuple

SLOT = "witness"
PUBLICATION = "witness"
POSTGRES_EPOCH = 946684800
CHUNK = 20000

# The tables that the laws use.
JOB_COLUMNS = (
    "id", "queue", "kind", "priority", "status", "run_at", "attempts", "max_attempts", "lease", "started_at",
    "worker_id", "last_heartbeat", "_lease_timeout", "max_runtime", "cancel_requested_at", "unique_key", "_holds_key", "group_key",
    "concurrency_key", "dead_from", "error", "expires_at", "batch_id", "metadata", "heartbeat_timeout", "limits")
NUMBERS = {"id", "priority", "attempts", "max_attempts", "lease", "job", "job_id", "number", "max_running", "batch_id"}
FLAGS = {"paused", "holds_key", "by_kind"}


class Job(NamedTuple):
    """A version of a row of jobq.jobs."""

    id: int
    queue: str = "q"
    kind: str = ""
    priority: int = 0
    status: str = "pending"
    run_at: str = None
    attempts: int = 0
    max_attempts: int = 20
    lease: int = None
    started_at: str = None
    worker_id: str = None
    last_heartbeat: str = None
    lease_timeout: str = None
    max_runtime: str = None
    cancel_requested_at: str = None
    unique_key: str = None
    holds_key: bool = None
    group_key: str = None
    concurrency_key: str = None
    dead_from: str = None
    error: str = None
    expires_at: str = None
    batch_id: int = None
    metadata: str = None
    heartbeat_timeout: str = None
    limits: str = None          # as PostgreSQL writes an array, for example {a,b}


class Attempt(NamedTuple):
    """A row of jobq.attempts: an attempt that did not complete."""

    job_id: int
    lease: int
    outcome: str


class Setting(NamedTuple):
    """A version of a row of jobq.queue_settings."""

    queue: str
    paused: bool = False


class KindSetting(NamedTuple):
    """A version of a row of jobq.kind_settings."""

    queue: str
    kind: str
    heartbeat_timeout: str = None


class Limit(NamedTuple):
    """A version of a row of jobq.limit_settings."""

    queue: str
    key: str = ""               # empty: the whole queue, *: each key or kind without a limit of its own
    max_running: int = None
    by_kind: bool = False       # the key is the name of a kind


class NamedLimit(NamedTuple):
    """A version of a row of jobq.named_limit_settings."""

    name: str
    queues: str = "{}"
    max_running: int = None


class Fact(NamedTuple):
    """A row that a client wrote in the transaction that it describes."""

    client: str
    number: int         # number of the client's transaction
    op: str
    job: int = None
    lease: int = None
    detail: str = "{}"
    asked: str = None   # when the statement had reached the server
    at: str = None      # when the row was made


class Change(NamedTuple):
    place: tuple        # position of the row's record
    commit: tuple       # position of its transaction's commit
    time: float         # of the commit, on the server's clock
    xid: int
    row: object         # Job, Attempt, Setting, KindSetting, Limit, NamedLimit, or Fact; for a deletion only the key is set
    deleted: bool = False


ROWS = {"jobs": Job, "attempts": Attempt, "queue_settings": Setting, "kind_settings": KindSetting, "limit_settings": Limit,
        "named_limit_settings": NamedLimit, "facts": Fact}

FACTS = """
CREATE TABLE facts (client text, number int, op text, job bigint, lease bigint, detail jsonb NOT NULL DEFAULT '{}',
                    asked timestamptz NOT NULL DEFAULT statement_timestamp(),
                    at timestamptz NOT NULL DEFAULT clock_timestamp());
"""


def watch(conn):
    """Starts recording all changes."""
    conn.execute(FACTS)
    conn.execute(f"CREATE PUBLICATION {PUBLICATION} FOR TABLE jobq.jobs ({', '.join(JOB_COLUMNS)}),"
                 " jobq.queue_settings (queue, paused), jobq.kind_settings (queue, kind, heartbeat_timeout),"
                 " jobq.limit_settings (queue, key, max_running, by_kind),"
                 " jobq.named_limit_settings (name, queues, max_running), facts")
    # An attempt is only inserted, or deleted with its job, so it needs no replica identity.
    conn.execute("CREATE PUBLICATION witness_attempts FOR TABLE jobq.attempts (job_id, lease, outcome)"
                 " WITH (publish = 'insert')")
    conn.execute("SELECT pg_create_logical_replication_slot(%s, 'pgoutput')", (SLOT,))


def forget(conn):
    conn.execute("SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots"
                 " WHERE slot_name = %s AND database = current_database()", (SLOT,))


def changes(conn):
    """All changes since watch(), in the order in which they were written."""
    end = conn.execute("SELECT pg_current_wal_insert_lsn()").fetchone()[0]
    reader, found = Reader(), []
    while True:
        rows = conn.execute(
            "SELECT lsn - '0/0'::pg_lsn, data FROM pg_logical_slot_get_binary_changes(%s, %s, %s, 'proto_version', '1',"
            " 'publication_names', %s)", (SLOT, end, CHUNK, f"{PUBLICATION},witness_attempts"), binary=True).fetchall()
        for lsn, message in rows:
            found.extend(reader.read(int(lsn), bytes(message)))
        if not rows:
            found.sort(key=lambda change: change.place)
            return found


class Reader:
    """Parses the messages of the server's output plugin pgoutput (protocol version 1)."""

    def __init__(self):
        self.tables = {}        # number: (type of its rows, names of its columns)
        self.number = 0
        self.open = []          # changes of the transaction that is being parsed
        self.xid = None

    def read(self, lsn, message):
        """Returns the changes of the transaction that this message ends; otherwise nothing."""
        kind = message[:1]
        if kind == b"B":
            _, _, self.xid = struct.unpack_from("!qqi", message, 1)
            self.open = []
        elif kind == b"C":
            _, at, _, micros = struct.unpack_from("!bqqq", message, 1)
            time = micros / 1e6 + POSTGRES_EPOCH
            return [Change(place, (at, 0), time, self.xid, row, deleted) for place, row, deleted in self.open]
        elif kind == b"R":
            self._table(message)
        elif kind in b"IUD":
            self._row(lsn, message, kind == b"D")
        return ()

    def _table(self, message):
        number, = struct.unpack_from("!i", message, 1)
        _, rest = message[5:].split(b"\0", 1)
        name, rest = rest.split(b"\0", 1)
        count, = struct.unpack_from("!h", rest, 1)
        rest, names = rest[3:], []
        for _ in range(count):
            column, rest = rest[1:].split(b"\0", 1)
            names.append(column.decode().lstrip("_"))
            rest = rest[8:]
        self.tables[number] = ROWS[name.decode()], names

    def _row(self, lsn, message, deleted):
        number, = struct.unpack_from("!i", message, 1)
        make, names = self.tables[number]
        at = 5
        if message[at:at + 1] in b"KO":
            values, end = self._tuple(message, at + 1)
            if not deleted:
                values, _ = self._tuple(message, end + 1)
        else:
            values, _ = self._tuple(message, at + 1)
        fields = {name: self._value(name, value) for name, value in zip(names, values)}
        self.number += 1
        self.open.append(((lsn, self.number), make(**fields), deleted))

    @staticmethod
    def _tuple(message, at):
        count, = struct.unpack_from("!h", message, at)
        at += 2
        values = []
        for _ in range(count):
            kind = message[at:at + 1]
            at += 1
            if kind == b"t":
                length, = struct.unpack_from("!i", message, at)
                values.append(message[at + 4:at + 4 + length].decode())
                at += 4 + length
            elif kind == b"n":
                values.append(None)
            else:
                raise ValueError("a value that is stored out of line: the laws should not look at such a column")
        return values, at

    @staticmethod
    def _value(name, text):
        if text is None:
            return None
        return int(text) if name in NUMBERS else text == "t" if name in FLAGS else text


@lru_cache(1 << 18)
def seconds(timestamp):
    """Converts the server's text of a timestamptz, with TimeZone = UTC, to seconds."""
    return datetime.fromisoformat(timestamp).timestamp()
