"""The command top: statistics of the queues and the connected workers, redrawn until the user quits."""

from __future__ import annotations

import argparse
import contextlib
import os
import select
import shutil
import sys
import time
from typing import Callable, Iterator, List, Tuple

from .command import Commands, positive_int, positive_seconds
from .database import Connection, Row, connected, rows, values
from .output import Column, age, json_line, short, table
from .stats import COLUMNS, queue_stats

WORKERS = """
SELECT worker_id, queues, kinds, slots, running, state, extract(epoch FROM clock_timestamp() - last_claim)::float8 AS last_claim_seconds, client
FROM jobq.workers WHERE cardinality(%(queues)s::text[]) = 0 OR queues && %(queues)s::text[] ORDER BY worker_id"""
WORKER_COLUMNS = (Column("worker_id", "worker", short), Column("state"), Column("running"), Column("slots"),
                  Column("last_claim_seconds", "last claim", age), Column("queues", show=short), Column("kinds", show=short), Column("client"))
# Sequences that terminals understand: the other screen without a cursor, back; top left, the rest of the line, the rest of the screen.
BEGIN, END = "\x1b[?1049h\x1b[?25l", "\x1b[?25h\x1b[?1049l"
HOME, LINE_END, SCREEN_END = "\x1b[H", "\x1b[K", "\x1b[J"

Wait = Callable[[float], bool]
Shot = Tuple[List[Row], List[Row], str]   # queues, workers, and the time on the server


def add(commands: Commands) -> None:
    command = commands.add("top", run, "show the queues and the connected workers, and refresh them", (
        "The busiest queues come first. In a terminal, press q or Ctrl-C to quit. If the output is not a terminal, the command prints one snapshot "
        "per interval. A worker is only shown if it describes itself to the server, as the libraries do. The role needs the profile monitor or "
        "operator."), json="print one JSON object per snapshot and line")
    command.add_argument("--interval", type=positive_seconds, default=2.0, metavar="SECONDS", help="time between two snapshots; the default is 2")
    command.add_argument("--count", type=positive_int, metavar="N", help="end after this many snapshots")
    command.add_argument("queues", nargs="*", metavar="QUEUE", help="queue to show; by default, all queues")


def run(args: argparse.Namespace) -> int:
    drawn = sys.stdout.isatty() and not args.json
    with connected(args.dsn, "top") as connection, _screen(drawn) as wait:
        count = 0
        while True:
            shot = _shot(connection, args.queues)
            if args.json:
                print(json_line({"at": shot[2], "queues": shot[0], "workers": shot[1]}), flush=True)
            elif drawn:
                _draw(shot, args.interval)
            else:
                print("\n".join(_lines(shot)) + "\n", flush=True)
            count += 1
            if count == args.count or wait(args.interval):
                return 0


def _shot(connection: Connection, queues: List[str]) -> Shot:
    found = queue_stats(connection, queues)
    found.sort(key=lambda row: (-row["processing"] - row["pending"], row["queue"]))
    return found, rows(connection, WORKERS, {"queues": queues}), values(connection, "SELECT clock_timestamp()::timestamptz(0)::text")[0]


def _lines(shot: Shot) -> List[str]:
    queues, workers, at = shot
    return [at, "", *table(COLUMNS, queues), "", *table(WORKER_COLUMNS, workers)]


def _draw(shot: Shot, interval: float) -> None:
    """Draws as many lines as the terminal has. The workers get up to a third of the lines, or more if the queues leave more."""
    width, height = shutil.get_terminal_size()
    queues, workers = table(COLUMNS, shot[0]), table(WORKER_COLUMNS, shot[1])
    room = max(height - 3, 4)
    for_workers = min(len(workers), max(room // 3, room - len(queues)))
    lines = [f"{shot[2]}   every {interval:g} s   q quits", "", *_cut(queues, room - for_workers), "", *_cut(workers, for_workers)]
    sys.stdout.write(HOME + "\n".join(line[:width] + LINE_END for line in lines[:height]) + SCREEN_END)
    sys.stdout.flush()


def _cut(lines: List[str], most: int) -> List[str]:
    return lines if len(lines) <= most else [*lines[:most - 1], f"... {len(lines) - most + 1} more"]


@contextlib.contextmanager
def _screen(drawn: bool) -> Iterator[Wait]:
    """Provides a function that waits for the interval and returns whether the user wants to quit."""
    if not drawn:
        yield _sleeps
        return
    with _keys() as wait:
        sys.stdout.write(BEGIN)
        try:
            yield wait
        finally:
            sys.stdout.write(END)
            sys.stdout.flush()


@contextlib.contextmanager
def _keys() -> Iterator[Wait]:
    """Makes the terminal pass each key on at once, without showing it."""
    if not sys.stdin.isatty():
        yield _sleeps
        return
    import termios   # does not exist on Windows
    import tty
    before = termios.tcgetattr(sys.stdin)
    tty.setcbreak(sys.stdin)
    try:
        yield _quits
    finally:
        termios.tcsetattr(sys.stdin, termios.TCSADRAIN, before)


def _sleeps(seconds: float) -> bool:
    time.sleep(seconds)
    return False


def _quits(seconds: float) -> bool:
    until = time.monotonic() + seconds
    while select.select([sys.stdin], [], [], max(until - time.monotonic(), 0))[0]:
        keys = os.read(sys.stdin.fileno(), 64)
        if not keys or b"q" in keys.lower():
            return True
    return False
