"""The command stats, and the queries and columns that it shares with top."""

from __future__ import annotations

import argparse
from typing import List, Sequence

from .command import Commands
from .database import Connection, Row, connected, rows
from .output import Column, age, rate, show
from .problem import complain

QUERY = """
SELECT queue, pending, scheduled, blocked, processing, failed, extract(epoch FROM oldest_pending_age)::float8 AS oldest_pending_seconds,
       enqueued_per_second, claimed_per_second, completed_per_second, failed_per_second, lost_per_second, paused
FROM jobq.queue_stats WHERE cardinality(%(queues)s::text[]) = 0 OR queue = ANY (%(queues)s::text[]) ORDER BY queue"""
COLUMNS = (
    Column("queue"), Column("pending"), Column("scheduled"), Column("blocked"), Column("processing"), Column("failed"),
    Column("oldest_pending_seconds", "oldest", age), Column("enqueued_per_second", "in/s", rate), Column("claimed_per_second", "claimed/s", rate),
    Column("completed_per_second", "done/s", rate), Column("failed_per_second", "failed/s", rate), Column("lost_per_second", "lost/s", rate),
    Column("paused"),
)


def add(commands: Commands) -> None:
    command = commands.add("stats", run, "show the number of jobs and the rates of each queue", (
        "OLDEST is how long the oldest claimable job has waited. The rates are averages over about the last minute. FAILED/S and LOST/S count "
        "attempts. The role needs the profile monitor or operator."))
    command.add_argument("queues", nargs="*", metavar="QUEUE", help="queue to show; by default, all queues")


def queue_stats(connection: Connection, queues: Sequence[str]) -> List[Row]:
    return rows(connection, QUERY, {"queues": list(queues)})


def run(args: argparse.Namespace) -> int:
    with connected(args.dsn, "stats") as connection:
        found = queue_stats(connection, args.queues)
    show(COLUMNS, found, args.json)
    unknown = set(args.queues) - {row["queue"] for row in found}
    for queue in sorted(unknown):
        complain(f'queue "{queue}" has neither jobs nor settings')
    return 1 if unknown else 0
