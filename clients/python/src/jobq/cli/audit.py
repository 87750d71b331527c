"""The command audit: follows the changes of jobq's tables for a while and reports changes that break a law."""

from __future__ import annotations

import argparse
import contextlib
import re
import signal
import threading
import time
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, Dict, Iterator, Optional, Union

import psycopg

from ..audit import metrics, poll, slot
from ..audit.book import MOST_JOBS, Violation
from ..audit.laws import Auditor
from ..audit.rows import LEFT_OUT, ROWS, START, Change
from ..options import address_of
from ..port import Address, Port
from .command import Commands, positive_int, positive_seconds
from .database import Connection, connected, message_of, values
from .output import json_line, plain
from .problem import Problem, complain

INTERVAL = 5.0
SIZES = {"MB": 1 << 20, "GB": 1 << 30}
PATIENCE = 1.0   # seconds between two looks at the WAL that the server retains
Source = Union[slot.Slot, poll.Poll]


def add(commands: Commands) -> None:
    command = commands.add("audit", run, "follow the changes of all jobs, and report changes that break a law of jobq", (
        "Reads each committed change from the WAL through a temporary logical replication slot, for --seconds or until Ctrl-C. The server needs "
        "wal_level = logical, and the role needs REPLICATION and must own the tables of jobq, unless their owner has created the publications. "
        "On a server with another wal_level, or with --poll, the command polls the tables instead, and can judge fewer laws. "
        "The exit status is 0 if no law was broken, 1 if a law was broken, and 2 if the audit could not run until its end."),
        json="print one JSON object per violation and line")
    command.add_argument("--seconds", metavar="SECONDS", type=positive_seconds, help="how long to follow the changes; the default is until Ctrl-C")
    command.add_argument("--interval", metavar="SECONDS", type=positive_seconds, default=INTERVAL, help=(
        f"time between two reads of the slot or the tables (default: {INTERVAL:g})"))
    command.add_argument("--max-wal", metavar="SIZE", type=_size, default=1 << 30, help=(
        "stop before the server retains more WAL than this for the audit, for example 500MB (default: 1GB)"))
    command.add_argument("--max-jobs", metavar="JOBS", type=positive_int, default=MOST_JOBS, help=(
        f"maximum number of unfinished jobs to remember; the audit forgets jobs that wait for longest (default: {MOST_JOBS})"))
    command.add_argument("--poll", action="store_true", help="poll the tables even if the server has wal_level = logical")
    command.add_argument("--metrics-file", metavar="FILE", type=Path, help=(
        "write the results to this file after each read, for the textfile collector of node_exporter; its name must end with .prom"))
    command.add_argument("--metrics-port", metavar="[HOST:]PORT", type=_address, help="answer requests of Prometheus on this port")


def run(args: argparse.Namespace) -> int:
    if args.metrics_file is not None and args.metrics_file.suffix != ".prom":
        raise Problem(f"argument --metrics-file: the name must end with .prom, because node_exporter ignores other files: {str(args.metrics_file)!r}", 2)
    with connected(args.dsn, "audit") as connection, connected(args.dsn, "audit watch") as watcher:
        audit = Audit(args, connection, watcher)
        try:
            audit.follow()
        except slot.NotPossible as problem:
            raise Problem(str(problem), 2) from problem
        except psycopg.Error as error:
            audit.cut_short = f"stopped: {message_of(error)}"
        return audit.finish()


class Audit:
    """`watcher`: a second connection, which looks at the slot while the first one waits for the server."""

    def __init__(self, args: argparse.Namespace, connection: Connection, watcher: Connection) -> None:
        self.args = args
        self.connection, self.watcher = connection, watcher
        self.database, level = values(connection, "SELECT current_database(), current_setting('wal_level')")
        self.polls = args.poll or level != "logical"
        if self.polls and not args.poll:
            complain(f"wal_level is {level}, so the audit polls the tables and judges only these laws: {', '.join(poll.LAWS)}")
        self.source: Source = poll.Poll(connection) if self.polls else slot.Slot(connection)
        self.auditor = Auditor(on_violation=self.tell, laws=poll.LAWS if self.polls else None, most_jobs=args.max_jobs)
        self.begun = time.monotonic()
        self.until = self.begun + (args.seconds or float("inf"))
        self.stop = threading.Event()           # a signal has arrived
        self.ended = threading.Event()          # no more reads
        self.opening = True                     # the server may be waiting for the end of old transactions
        self.cut_short: Optional[str] = None    # why the audit ends too early
        self.transactions = self.changes = 0
        self.last_read = time.time()

    def follow(self) -> None:
        """Reads and judges changes until the end. Drops the slot and, if a connection still works, the publications."""
        thread = threading.Thread(target=self._watch, name="jobq audit watch", daemon=True)
        with _signals(self.stop), self._port():
            thread.start()
            try:
                self._read()
            except psycopg.errors.QueryCanceled:
                if not self._is_over():   # not by the watcher
                    raise
            finally:
                self.ended.set()
                thread.join()
                self._close()
                self._export()

    def _read(self) -> None:
        self.source.open()
        self.opening = False
        self.auditor.begin(self.source.snapshot())
        self._export()
        complain("the audit has begun")
        is_last = False
        while not is_last or not self.source.exhausted:
            is_last = is_last or self._is_over()
            if is_last:
                self.source.end()
            began = time.monotonic()
            for changes in self.source.read():
                self.auditor.read(changes)
                self.transactions += 1
                self.changes += len(changes)
            self.auditor.forget(self.source.horizon)
            self.last_read = time.time()
            self._export()
            if self.cut_short is not None:
                return
            if self.source.exhausted and not is_last:
                # A read decodes the WAL since the beginning of the oldest open transaction, which takes long if that was long ago.
                pause = max(self.args.interval, 2 * (time.monotonic() - began))
                self.stop.wait(max(min(pause, self.until - time.monotonic()), 0))

    def _close(self) -> None:
        error: Optional[psycopg.Error] = None
        for connection in (self.connection, self.connection, self.watcher):   # twice, because a cancellation by the watcher may arrive late
            if not connection.closed:
                try:
                    self.source.close(connection)
                    return
                except psycopg.Error as failure:
                    error = failure
        if error is not None:
            complain(f"the publications remain until the next audit: {message_of(error)}")

    def tell(self, violation: Violation) -> None:
        rows = [_shown(change) for change in violation.changes]
        if self.args.json:
            print(json_line({"law": violation.law, "job": violation.job, "text": violation.text, "changes": rows}), flush=True)
            return
        print(plain(f"{violation.law}: {violation.text}"), flush=True)
        for row in rows:
            print(plain("    " + ", ".join(f"{name} {value}" for name, value in row.items())), flush=True)

    def finish(self) -> int:
        """Prints the summary and returns the exit status."""
        broken = {law: count for law, count in self.auditor.counts.items() if count}
        result = ", ".join(f"{count} x {law}" for law, count in broken.items()) or "no law was broken"
        took = time.monotonic() - self.begun
        complain(f"read {self.changes} changes of {self.transactions} transactions in {took:.0f} s: {result}")
        if self.auditor.book.forgotten:
            complain(f"forgot {self.auditor.book.forgotten} waiting jobs, because there were more than {self.args.max_jobs} (hint: Increase --max-jobs.)")
        if self.cut_short is not None:
            complain(self.cut_short)
        return 1 if broken else 2 if self.cut_short is not None else 0

    def _watch(self) -> None:
        """Stops the audit before the server retains too much WAL, and stops the wait for old transactions when the time is over."""
        while not self.ended.wait(PATIENCE):
            if isinstance(self.source, slot.Slot) and self.cut_short is None:
                try:
                    row = self.watcher.execute(slot.RETAINED, (self.source.name,)).fetchone()
                except psycopg.Error as error:
                    self.cut_short = f"stopped because the second connection failed: {message_of(error)}"
                    continue
                if row is not None and row[0] > self.args.max_wal:
                    self.cut_short = (f"stopped because the server retained {row[0] >> 20} MB of WAL for the audit (hint: End old transactions, "
                                      "or increase --max-wal.)")
            if self.opening and self._is_over() and self.cut_short is None:
                self.cut_short = ("stopped before the audit began, because the server waits for the end of older transactions before it creates a "
                                  "slot (hint: End the oldest transactions in pg_stat_activity.)")
            if self.cut_short is not None:
                self.connection.cancel()

    def _is_over(self) -> bool:
        return self.stop.is_set() or self.cut_short is not None or time.monotonic() >= self.until

    def _metrics(self) -> str:
        return metrics.text(self.database, self.auditor.counts, {
            "jobq_audit_transactions_total": self.transactions, "jobq_audit_changes_total": self.changes,
            "jobq_audit_jobs": len(self.auditor.book.jobs), "jobq_audit_wal_retained_bytes": self.source.retained,
            "jobq_audit_running": 0 if self.ended.is_set() else 1, "jobq_audit_last_read_timestamp_seconds": self.last_read})

    def _export(self) -> None:
        if self.args.metrics_file is not None:
            try:
                metrics.write(self.args.metrics_file, self._metrics())
            except OSError as error:
                raise Problem(f"argument --metrics-file: {error}", 2) from error

    @contextlib.contextmanager
    def _port(self) -> Iterator[None]:
        if self.args.metrics_port is None:
            yield
            return
        try:
            port = Port(self.args.metrics_port, lambda: (200, self._metrics()), metrics.CONTENT_TYPE)
        except OSError as error:
            raise Problem(f"argument --metrics-port: {error}", 2) from error
        with contextlib.closing(port):
            yield


@contextlib.contextmanager
def _signals(stop: threading.Event) -> Iterator[None]:
    """Ends the audit, with its summary, at SIGINT and SIGTERM. A second signal ends it at once."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def handle(*_: object) -> None:
        if stop.is_set():   # the second signal
            raise KeyboardInterrupt
        stop.set()

    before = {number: signal.signal(number, handle) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _shown(change: Change) -> Dict[str, Any]:
    """Returns what is known about a row, for people."""
    row = {name: value for name, value in change.row._asdict().items() if value not in (None, "", "{}")}
    time = datetime.fromtimestamp(change.time, timezone.utc).isoformat(timespec="milliseconds")
    if change.place == START or change.commit[1] == poll.NO_COMMIT:
        seen = {"read at": time}
    else:
        seen = {"xid": str(change.xid), "lsn": f"{change.place[0] >> 32:X}/{change.place[0] & 0xffffffff:X}", "committed": time}
    name = next(table for table, make in ROWS.items() if isinstance(change.row, make))
    fields = {name: value for name, value in row.items() if name not in LEFT_OUT}
    return {"row": name, **({"deleted": True} if change.deleted else {}), **fields, **seen}


def _size(text: str) -> int:
    match = re.fullmatch(r"([0-9]{1,6})(MB|GB)", text, re.ASCII)
    if match is None or int(match[1]) < 1:
        raise argparse.ArgumentTypeError(f"must be a size such as 500MB or 2GB: {text!r}")
    return int(match[1]) * SIZES[match[2]]


def _address(text: str) -> Address:
    if re.fullmatch(r"(.+:)?[0-9]{1,5}", text, re.ASCII):
        address = address_of(text)
        if 1 <= address[1] <= 65535:
            return address
    raise argparse.ArgumentTypeError(f"must be a port from 1 to 65535, or HOST:PORT: {text!r}")
