"""The commands that show jobs: jobs, explain, and log."""

from __future__ import annotations

import argparse
from typing import Any, List

from .command import Commands, positive_int
from .database import connected, rows
from .output import Column, moment, show, short, time
from .problem import Problem

STATUSES = ("scheduled", "blocked", "pending", "processing", "completed", "failed", "cancelled")
JOBS = (Column("id"), Column("queue"), Column("kind"), Column("status"), Column("priority"), Column("attempts"),
        Column("run_at", show=time), Column("error", show=short))
REASONS = (Column("reason"), Column("until", show=time), Column("jobs", show=short), Column("pids", show=short), Column("detail"))
EVENTS = (Column("at", show=moment), Column("event"), Column("attempt"), Column("worker_id", "worker"), Column("detail"))


def add(commands: Commands) -> None:
    _add_jobs(commands)
    command = commands.add("explain", explain, "explain why a job does not run, or why no job of a queue starts",
                           "Prints one reason per row. The role needs the profile monitor or operator.")
    one = command.add_mutually_exclusive_group(required=True)
    one.add_argument("id", nargs="?", type=int, metavar="ID", help="id of the job")
    one.add_argument("--queue", metavar="QUEUE", help="explain why no job of this queue starts")
    command = commands.add("log", log, "show the history of a job",
                           "Prints one event per row; --json also prints the details of errors. The role needs the profile monitor or operator.")
    command.add_argument("id", type=int, metavar="ID", help="id of the job")


def _add_jobs(commands: Commands) -> None:
    command = commands.add("jobs", list_jobs, "list jobs, newest first", (
        "Reads the jobs in the order of their ids, beginning with the highest, until it has found enough jobs. If few jobs match the filter, this "
        "can be the whole table. The role needs the profile operator."))
    command.add_argument("--queue", metavar="QUEUE", help="only jobs of this queue")
    command.add_argument("--status", choices=STATUSES, help="only jobs with this status")
    command.add_argument("--kind", metavar="KIND", help='only jobs of this kind; "" means jobs without a kind')
    command.add_argument("--limit", type=positive_int, default=20, metavar="N", help="print at most this many jobs; the default is 20")


def list_jobs(args: argparse.Namespace) -> int:
    conditions: List[str] = ["true"]
    parameters: List[Any] = []
    for column, value in (("queue", args.queue), ("status::text", args.status), ("kind", args.kind)):
        if value is not None:
            conditions.append(f"{column} = %s")
            parameters.append(value)
    query = ("SELECT id, queue, kind, status, priority, attempts, run_at, error FROM jobq.jobs WHERE "
             + " AND ".join(conditions) + " ORDER BY id DESC LIMIT %s")
    with connected(args.dsn, "jobs") as connection:
        show(JOBS, rows(connection, query, (*parameters, args.limit)), args.json)
    return 0


def explain(args: argparse.Namespace) -> int:
    with connected(args.dsn, "explain") as connection:
        if args.queue is None:
            found = rows(connection, "SELECT * FROM jobq_explain(%s::bigint)", (args.id,))
        else:
            found = rows(connection, "SELECT * FROM jobq_explain_queue(%s)", (args.queue,))
    if not found:
        raise Problem(f"job {args.id} does not exist")
    show(REASONS, found, args.json)
    return 0


def log(args: argparse.Namespace) -> int:
    with connected(args.dsn, "log") as connection:
        found = rows(connection, "SELECT * FROM jobq_log(%s::bigint)", (args.id,))
    if not found:
        raise Problem(f"job {args.id} does not exist")
    show(EVENTS, found, args.json)
    return 0
