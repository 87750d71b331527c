"""The command tail: prints what happens to jobs, by polling."""

from __future__ import annotations

import argparse
import time
from typing import Dict, Iterable, List, Optional

from .command import Commands
from .database import Connection, Row, connected, rows, values
from .output import json_line, plain

INTERVAL = 1.0
MOST_READ = 1000      # new or running jobs per poll
MOST_WATCHED = 2000
MOST_MISSING, MISSING_FOR = 1000, 60.0
EVER = "-infinity"
FINISHED = ("completed", "failed", "cancelled")
COLUMNS = "id, queue, kind, status, xmin::text AS version"
NEWEST = f"SELECT {COLUMNS} FROM (SELECT *, xmin FROM jobq.jobs ORDER BY id DESC LIMIT {MOST_WATCHED}) j ORDER BY id"
NEW = f"SELECT {COLUMNS} FROM jobq.jobs WHERE id > %s ORDER BY id LIMIT {MOST_READ}"
THESE = f"SELECT {COLUMNS} FROM jobq.jobs WHERE id = ANY (%s::bigint[])"
RUNNING = f"SELECT {COLUMNS} FROM jobq.jobs WHERE _rescue_indexed ORDER BY id LIMIT {MOST_READ}"   # the predicate of an index
EVENTS = """
SELECT l.at, w.id, l.event, l.attempt, l.worker_id, l.detail
FROM unnest(%s::bigint[], %s::text[]::timestamptz[]) WITH ORDINALITY AS w(id, since, n), jobq_log(w.id) WITH ORDINALITY AS l
WHERE l.at > w.since AND l.event NOT IN ('heartbeat', 'due', 'expires') ORDER BY l.at, w.n, l.ordinality"""


def add(commands: Commands) -> None:
    command = commands.add("tail", run, "print what happens to jobs, live", (
        f"Prints one event per line until Ctrl-C, with the same events as the command log. The command polls every {INTERVAL:g} s and can miss "
        f"events, so its output is not an audit log. It watches the newest {MOST_WATCHED} jobs, and each poll reads at most {MOST_READ} new and "
        f"{MOST_READ} running jobs; if more jobs are enqueued, the output lags. The command does not show (1) jobs that are deleted before the next "
        "poll, for example completed jobs of a queue with keep_completed 0; (2) events of older jobs, unless a poll sees the job running, which "
        f"takes a run time of at least a second; (3) jobs whose enqueue commits more than {MISSING_FOR:g} s later than the enqueue of a job with a "
        "higher id. If a completed job is retried between two polls, its previous end is not shown. The role needs the profile operator."),
        json="print one JSON object per event and line")
    command.add_argument("--queue", metavar="QUEUE", help="only jobs of this queue")
    command.add_argument("--kind", metavar="KIND", help='only jobs of this kind; "" means jobs without a kind')


def run(args: argparse.Namespace) -> int:
    with connected(args.dsn, "tail") as connection:
        watch = Watch(connection, args.queue, args.kind)
        while True:
            begun = time.monotonic()
            for event in watch.poll():
                print(json_line(event) if args.json else line_of(event), flush=True)
            time.sleep(time.monotonic() - begun if watch.behind else INTERVAL)   # uses at most half of a core of the server


def line_of(event: Row) -> str:
    worker = "" if event["attempt"] is None else f" attempt {event['attempt']}"
    worker += "" if event["worker_id"] is None else f" on {event['worker_id']}"
    detail = "" if event["detail"] in (None, event["queue"]) else f": {event['detail']}"
    name = event["queue"] + (f"/{event['kind']}" if event["kind"] else "")
    return plain(f"{event['at'][11:23]} {event['id']} {name} {event['event']}{worker}{detail}")


class Watch:
    """Remembers which jobs the last poll has read, and the last event of each."""

    def __init__(self, connection: Connection, queue: Optional[str], kind: Optional[str]) -> None:
        self.connection, self.queue, self.kind = connection, queue, kind
        self.jobs: Dict[int, Row] = {}   # in the order in which they were noticed; with "since", the time of the last event
        # Ids that no poll has seen although higher ids exist, because their transactions may still be open. The values are the times at
        # which tail stops looking for these jobs.
        self.missing: Dict[int, float] = {}
        self.behind = False
        self.begun: str = values(connection, "SELECT clock_timestamp()::text")[0]
        newest = rows(connection, NEWEST)
        self.last = max((row["id"] for row in newest), default=0)
        for row in newest:
            self._notice(row, self.begun)

    def poll(self) -> List[Row]:
        watched = list(self.jobs)
        changed = [*self._new(), *self._running()]
        found = {row["id"]: row for row in rows(self.connection, THESE, (watched,))}
        changed += [job for job in watched if job in found and self._update(found[job])]
        events = self._events(dict.fromkeys(changed))
        events += self._deleted([job for job in watched if job not in found])
        self._forget()
        return events

    def _new(self) -> List[int]:
        new = rows(self.connection, NEW, (self.last,))
        self.behind = len(new) == MOST_READ
        late = rows(self.connection, THESE, (list(self.missing),)) if self.missing else []
        self._note_missing([row["id"] for row in new], [row["id"] for row in late])
        return [row["id"] for row in (*late, *new) if self._notice(row, EVER)]

    def _note_missing(self, new: List[int], late: List[int]) -> None:
        """Notes the gaps between the new ids, because ids become visible in the order in which transactions commit."""
        now = time.monotonic()
        for job in late:
            del self.missing[job]
        if new:
            gaps = set(range(max(self.last + 1, new[-1] - MOST_MISSING), new[-1])).difference(new)
            self.missing.update(dict.fromkeys(sorted(gaps), now + MISSING_FOR))
            self.last = new[-1]
        kept = [(job, until) for job, until in self.missing.items() if until > now]
        self.missing = dict(kept[-MOST_MISSING:])

    def _running(self) -> List[int]:
        return [row["id"] for row in rows(self.connection, RUNNING) if row["id"] not in self.jobs and self._notice(row, self.begun)]

    def _notice(self, row: Row, since: str) -> bool:
        """Watches the job if it matches the filter."""
        if self.queue not in (None, row["queue"]) or self.kind not in (None, row["kind"]):
            return False
        self.jobs[row["id"]] = {**row, "since": since}
        return True

    def _update(self, row: Row) -> bool:
        """Returns whether another transaction has written the job since the last poll."""
        job = self.jobs[row["id"]]
        before = job["version"]
        job.update(row)
        return bool(before != row["version"])

    def _events(self, jobs: Iterable[int]) -> List[Row]:
        ids = list(jobs)
        if not ids:
            return []
        found = rows(self.connection, EVENTS, (ids, [self.jobs[job]["since"] for job in ids]))
        for event in found:
            self.jobs[event["id"]]["since"] = event["at"]
        return [self._named(event) for event in found]

    def _named(self, event: Row) -> Row:
        job = self.jobs[event["id"]]
        return {"at": event["at"], "id": event["id"], "queue": job["queue"], "kind": job["kind"],
                **{key: event[key] for key in ("event", "attempt", "worker_id", "detail")}}

    def _deleted(self, jobs: List[int]) -> List[Row]:
        if not jobs:
            return []
        at = rows(self.connection, "SELECT clock_timestamp() AS at")[0]["at"]
        found = [self._named({"at": at, "id": job, "event": "deleted", "attempt": None, "worker_id": None,
                              "detail": f"was last seen {self.jobs[job]['status']}"}) for job in jobs]
        for job in jobs:
            del self.jobs[job]
        return found

    def _forget(self) -> None:
        """Stops watching the oldest jobs, finished jobs first."""
        excess = len(self.jobs) - MOST_WATCHED
        if excess > 0:
            finished = [job for job, row in self.jobs.items() if row["status"] in FINISHED]
            for job in [*finished, *(job for job, row in self.jobs.items() if row["status"] not in FINISHED)][:excess]:
                del self.jobs[job]
