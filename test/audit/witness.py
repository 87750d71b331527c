"""The real changes of jobs, from the server's own log of all changes.

A logical replication slot contains every committed version of every row: the transaction that wrote it, its position in the log,
and the position of the commit of its transaction. A transaction that has seen the outcome of another one writes after its commit.
Therefore, comparing two positions gives the order of two facts, without a clock, the word of a client, or a trigger that would
change the behavior of jobq.

Needs wal_level = logical. A position is (LSN, number), where the number distinguishes the rows of one record.
"""

import library  # noqa: F401
from typing import NamedTuple

from jobq.audit import rows
from jobq.audit.life import seconds
from jobq.audit.pgoutput import Reader
from jobq.audit.rows import Attempt, Change, Job, Limit, NamedLimit, Setting

__all__ = ["Attempt", "Change", "Fact", "Job", "KindSetting", "Limit", "NamedLimit", "Setting", "seconds"]
SLOT = "witness"
PUBLICATION = "witness"
CHUNK = 20000


class KindSetting(NamedTuple):
    """A version of a row of jobq.kind_settings."""

    queue: str
    kind: str
    heartbeat_timeout: str = None


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


ROWS = {**rows.ROWS, "kind_settings": KindSetting, "facts": Fact}

FACTS = """
CREATE TABLE facts (client text, number int, op text, job bigint, lease bigint, detail jsonb NOT NULL DEFAULT '{}',
                    asked timestamptz NOT NULL DEFAULT statement_timestamp(),
                    at timestamptz NOT NULL DEFAULT clock_timestamp());
"""


def watch(conn):
    """Starts recording all changes."""
    conn.execute(FACTS)
    conn.execute(f"CREATE PUBLICATION {PUBLICATION} FOR TABLE jobq.jobs ({', '.join(rows.columns('jobs'))}),"
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
    reader, found = Reader(ROWS), []
    while True:
        messages = conn.execute(
            "SELECT lsn - '0/0'::pg_lsn, data FROM pg_logical_slot_get_binary_changes(%s, %s, %s, 'proto_version', '1',"
            " 'publication_names', %s)", (SLOT, end, CHUNK, f"{PUBLICATION},witness_attempts"), binary=True).fetchall()
        for lsn, message in messages:
            found.extend(reader.read(int(lsn), bytes(message)))
        if not messages:
            stored_elsewhere = [change for change in found if rows.UNCHANGED in change.row]
            if stored_elsewhere:
                raise ValueError(f"a value that is stored out of line: {stored_elsewhere[0]}")
            found.sort(key=lambda change: change.place)
            return found
