"""The commands that change jobs and queues."""

from __future__ import annotations

import argparse
import contextlib
from typing import Iterator, List, Optional

import psycopg

from .command import Commands, positive_int
from .database import Connection, Row, connected, message_of, values
from .output import Column, Columns, show
from .problem import complain

CHANGED = (Column("id"), Column("status"), Column("note"))
QUEUES = (Column("queue"), Column("result"))
MOVED = (Column("queue"), Column("moved"))
CONCERNS_ONE_JOB = ("23", "55")   # classes of errors that do not concern the other jobs, such as a unique key that is taken


def add(commands: Commands) -> None:
    for name, summary, details in (
        ("retry", "run finished or scheduled jobs again, now", ""),
        ("cancel", "cancel jobs that have not finished",
         "The worker of a running job learns about the cancellation with its next heartbeat; until then, the status is processing."),
        ("delete", "delete jobs that are not running", ""),
    ):
        command = commands.add(name, change_jobs, summary, f"{details} Prints the new status of each job. The exit status is 1 if a job does not "
                               "exist or was not changed. The role needs the profile operator.".strip())
        command.set_defaults(command=name)
        command.add_argument("ids", nargs="+", type=int, metavar="ID", help="id of a job")
    _add_redrive(commands)
    for name, summary in (("pause", "pause queues, so that none of their jobs are claimed"), ("resume", "resume paused queues")):
        command = commands.add(name, change_queues, summary, "The role needs the profile operator.")
        command.set_defaults(command=name)
        command.add_argument("queues", nargs="+", metavar="QUEUE", help="name of a queue")


def _add_redrive(commands: Commands) -> None:
    command = commands.add("redrive", redrive, "move dead letters back to the queues in which they failed",
                           "Prints the number of jobs that were moved. The role needs the profile operator.")
    command.add_argument("queue", metavar="QUEUE", help="the dead letter queue, or an original queue")
    command.add_argument("--limit", type=positive_int, default=1000, metavar="N", help="move at most this many jobs; the default is 1000")
    command.add_argument("--per-second", type=float, metavar="N",
                         help="let at most this many of the jobs become claimable per second; by default, all are claimable at once")


def change_jobs(args: argparse.Namespace) -> int:
    done: List[Row] = []
    with connected(args.dsn, args.command) as connection, _shown(CHANGED, done, args.json):
        for job in args.ids:
            done.append(_change(connection, args.command, job))
    return 0 if all(row["changed"] for row in done) else 1


@contextlib.contextmanager
def _shown(columns: Columns, done: List[Row], as_json: bool) -> Iterator[None]:
    """Prints the rows at the end, also if an error ends the command, so that the user learns what has changed."""
    try:
        yield
    finally:
        if done:
            show(columns, done, as_json)


def _change(connection: Connection, command: str, job: int) -> Row:
    """Changes a job. The job has changed if its status differs, or if a running job was canceled."""
    before: Optional[str] = values(connection, "SELECT (SELECT status::text FROM jobq_get(%s::bigint))", (job,))[0]
    try:
        after: Optional[str] = values(connection, f"SELECT jobq_{command}(%s::bigint)::text", (job,))[0]
    except psycopg.Error as error:
        if (error.sqlstate or "")[:2] not in CONCERNS_ONE_JOB:
            raise
        complain(f"job {job}: {message_of(error)}")
        return {"id": job, "status": before, "changed": False, "note": "not changed"}
    if before is None or after is None:
        return {"id": job, "status": None, "changed": False, "note": "does not exist"}
    if command == "delete" and after != "processing":
        return {"id": job, "status": "deleted", "changed": True, "note": f"was {after}"}
    if command == "cancel" and after == "processing":
        return {"id": job, "status": after, "changed": True, "note": "cancellation requested"}
    return {"id": job, "status": after, "changed": after != before, "note": f"was {before}" if after != before else "not changed"}


def redrive(args: argparse.Namespace) -> int:
    with connected(args.dsn, "redrive") as connection:
        moved = values(connection, "SELECT jobq_redrive(%s, %s::int, %s::float8)", (args.queue, args.limit, args.per_second))[0]
    show(MOVED, [{"queue": args.queue, "moved": moved}], args.json)
    return 0


def change_queues(args: argparse.Namespace) -> int:
    """Pauses or resumes queues. A queue that is already in this state is not an error."""
    results = {"pause": ("already paused", "paused"), "resume": ("not paused", "resumed")}[args.command]
    done: List[Row] = []
    with connected(args.dsn, args.command) as connection, _shown(QUEUES, done, args.json):
        for queue in args.queues:
            changed = values(connection, f"SELECT jobq_{args.command}_queue(%s)", (queue,))[0]
            done.append({"queue": queue, "result": results[changed]})
    return 0
