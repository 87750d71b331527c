"""The history of one client: its requests and the answers, append-only.

A line has seven fields, separated by tabs:

time      seconds on the clock that all processes of the machine share (CLOCK_MONOTONIC)
client    w0, w1, ... a worker; p0, ... a producer
number    of the operation; the lines of one operation share it
op        enqueue, claim, complete, fail, heartbeat, session (a connection was made), lost (a connection broke; the detail is its
          SQLSTATE), zombie (the job still has its lease, because the rescue is late)
phase     invoke   the request was sent
          ok       the server answered that the operation was done
          fail     the server answered that it was not done, or it was rolled back
          unknown  the connection broke before the answer, so the outcome is unknown
          error    the server answered with an error that the run does not explain
items     key@id:lease:attempt, ... ("-" for unknown parts)
detail    free text; for acknowledged operations of runs that need it: timeline and position in the log, or "?"
"""

import time
from typing import NamedTuple, Optional


class Item(NamedTuple):
    """A job as a client knows it. `key` names the job in its payload and is chosen by the producer."""

    key: Optional[str] = None
    id: Optional[int] = None
    lease: Optional[int] = None
    attempt: Optional[int] = None


class Event(NamedTuple):
    time: float
    client: str
    number: int
    op: str
    phase: str
    items: list
    detail: str


def _text(value):
    return "-" if value is None else str(value)


def _number(text):
    return None if text == "-" else int(text)


class Recorder:
    place = None    # a function that returns a position in the server's log after everything acknowledged so far

    def __init__(self, path, client):
        self.client = client
        self._file = open(path, "a", encoding="utf-8")
        self._number = 0

    def invoke(self, op, items=(), detail=""):
        self._number += 1
        self._write(self._number, op, "invoke", items, detail)
        return self._number

    def outcome(self, number, op, phase, items=(), detail=""):
        if phase == "ok" and op != "session" and self.place is not None:
            detail = self.place()
        self._write(number, op, phase, items, detail)

    def flush_each_line(self):
        self._file.reconfigure(line_buffering=True)

    def close(self):
        self._file.close()

    def _write(self, number, op, phase, items, detail):
        fields = ",".join(
            f"{_text(i.key)}@{_text(i.id)}:{_text(i.lease)}:{_text(i.attempt)}" for i in items)
        detail = " ".join(detail.split())
        self._file.write(
            f"{time.monotonic():.6f}\t{self.client}\t{number}\t{op}\t{phase}\t{fields}\t{detail}\n")


def read(paths):
    """All events of these files, ordered by time."""
    events = []
    for path in paths:
        with open(path, encoding="utf-8") as file:
            for line in file:
                stamp, client, number, op, phase, fields, detail = line.rstrip("\n").split("\t")
                items = []
                for field in fields.split(",") if fields else ():
                    key, rest = field.split("@")
                    job, lease, attempt = rest.split(":")
                    items.append(Item(None if key == "-" else key,
                                      _number(job), _number(lease), _number(attempt)))
                events.append(Event(float(stamp), client, int(number), op, phase, items, detail))
    events.sort(key=lambda event: event.time)
    return events
