"""One client of the chaos run, as a separate process: a client of the audit that uses psycopg on a server that is restarted.

clients.py producer|worker NAME DIRECTORY

DIRECTORY contains `plan.json`, `endpoint` (the port of the current primary), and later `stop`. A statement is sometimes
cut off by a statement_timeout of a few milliseconds, unless the file `calm` exists; producers stop when the file
`enough` exists.
"""

import json
import os
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "audit"))
import client  # noqa: E402
import psycopg  # noqa: E402

# Errors that are caused by the faults of the run; the statement had no effect. Too little disk space or memory, a cancelled
# statement, a session that is being terminated, a server that starts or stops, a read-only server.
EXPLAINED = ("53", "57014", "57P", "25006", "58030")
TIMEOUT_SHARE = 0.01


class Flags:
    """Files that the run creates for its clients, which check for them from time to time."""

    def __init__(self, directory):
        self.directory = directory
        self.seen = {}

    def __call__(self, name):
        at, there = self.seen.get(name, (0, False))
        now = time.monotonic()
        if now - at > 0.05:
            there = os.path.exists(os.path.join(self.directory, name))
            self.seen[name] = (now, there)
        return there


class Chaotic:
    """Mixin for the clients of the audit."""

    placed = False      # whether the history contains the position in the log of each acknowledgement

    def reconnect(self):
        self.cut = False
        self.timeline = "?"
        # Each line is written at once, so that a client that is killed loses at most the last line.
        self.history.flush_each_line()
        if self.placed:
            self.history.place = self._place
        super().reconnect()
        if self.placed:
            self._place()    # reads the timeline, which does not change during a session

    def sql(self, text, *parameters):
        if text == "ROLLBACK":
            return self._roll_back()
        self._cut_off()
        try:
            return super().sql(text, *parameters)
        except client.SessionLost as lost:
            self.history.outcome(self.history.invoke("lost"), "lost", "fail", detail=getattr(lost.__cause__, "sqlstate", None) or "no SQLSTATE")
            raise

    def _place(self):
        """A position in the log, on this timeline, after everything that has been acknowledged to this session."""
        try:
            self.timeline, place = self.conn.execute(
                "SELECT left(pg_walfile_name(place), 8), place FROM pg_current_wal_insert_lsn() place").fetchone()
            return f"{self.timeline} {place}"
        except psycopg.Error:
            return f"{self.timeline} ?"

    def _roll_back(self):
        """Rolls back, even if the ROLLBACK is cut off several times."""
        while self.conn.info.transaction_status != psycopg.pq.TransactionStatus.IDLE:
            try:
                super().sql("ROLLBACK")
            except psycopg.errors.QueryCanceled:
                pass

    def _cut_off(self):
        """Sometimes gives the next statements very little time."""
        wanted = self.random.random() < TIMEOUT_SHARE and not self.flags("calm")
        if wanted == self.cut:
            return
        try:
            # Without sql(), so that this statement is neither counted nor cut off. It cannot be set in a failed transaction.
            if self.conn.info.transaction_status == psycopg.pq.TransactionStatus.INERROR:
                return
            limit = self.random.randint(1, 5) if wanted else 0
            self.conn.execute(f"SET statement_timeout = {limit}")
            self.cut = wanted
        except psycopg.errors.QueryCanceled:
            # In a transaction, the canceled SET has aborted the transaction, as a canceled statement of the client does.
            if self.conn.info.transaction_status == psycopg.pq.TransactionStatus.INERROR:
                raise
        except psycopg.Error as error:
            if self.conn.closed:
                raise client.SessionLost from error
            raise

    def unexplained(self, number, op, error, items=()):
        if not (error.sqlstate or "").startswith(self.explained):
            super().unexplained(number, op, error, items)
            return
        self.history.outcome(number, op, "fail", items, error.sqlstate)
        self._roll_back()


class Producer(Chaotic, client.Producer):
    """A producer that spreads its jobs over the time of the faults."""

    begun = time.monotonic()
    done = 0

    def enough(self):
        return self.flags("enough")

    def enqueue(self, keys):
        share = self.plan.jobs / self.plan.producers
        ahead = self.done / share * self.pace - (time.monotonic() - self.begun)
        if ahead > 0:
            time.sleep(ahead)
        acknowledged = super().enqueue(keys)
        self.done += acknowledged
        return acknowledged


class Worker(Chaotic, client.Worker):
    def _still_leased(self, item):
        try:
            return super()._still_leased(item)
        except psycopg.Error:
            return True     # check again


class Stop:
    def __init__(self, flags):
        self.flags = flags

    def is_set(self):
        return self.flags("stop")


def connect_to(directory):
    """Returns a function that connects to the current primary."""
    def connect(database, **options):
        with open(os.path.join(directory, "endpoint"), encoding="utf-8") as file:
            port = int(file.read())
        return psycopg.connect(autocommit=True, dbname=database, port=port, connect_timeout=10, **options)
    return connect


def main(role, name, directory):
    client.connect = connect_to(directory)
    with open(os.path.join(directory, "plan.json"), encoding="utf-8") as file:
        settings = json.load(file)
    Chaotic.explained = EXPLAINED + tuple(settings.pop("explained"))
    Producer.pace = settings.pop("pace")
    Chaotic.placed = settings.pop("placed")
    plan = client.Plan(directory=os.path.join(directory, "history"), **settings)
    kind = Producer if role == "producer" else Worker
    kind.flags = Flags(directory)
    if role == "producer":
        Producer(plan, name, 0, [0]).run()
    else:
        Worker(plan, name, 0, [0], [0]).run(Stop(kind.flags), time.monotonic() + plan.seconds)


if __name__ == "__main__":
    main(*sys.argv[1:])
