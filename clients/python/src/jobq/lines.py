"""The log lines of a job that have not been sent yet. Handlers add lines from any thread, and the heartbeat thread sends them."""

from __future__ import annotations

import threading
import time
from typing import Callable, List, NamedTuple

from .statements import as_text

LEVELS = ("debug", "info", "warning", "error")
MOST_LINES = 500     # lines that wait; fewer than the server stores per attempt, so that the line that counts the others fits
MOST_BYTES = 8192   # of a line; the server truncates longer lines


class Line(NamedTuple):
    level: str
    text: str
    at: float


class Lines:
    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.clock = clock
        self.wanted = False   # whether a handler waits until the lines have been sent
        self._lock = threading.Lock()
        self._waiting: List[Line] = []
        self._dropped = 0
        self._under_way = False

    def add(self, text: str, level: str) -> None:
        line = checked(text, level, self.clock())
        with self._lock:
            if len(self._waiting) < MOST_LINES:
                self._waiting.append(line)
            else:
                self._dropped += 1

    @property
    def pending(self) -> bool:
        """Whether lines are waiting or are being sent."""
        return bool(self._waiting) or self._under_way

    def take(self) -> List[Line]:
        """Returns the lines to send. The caller must then call sent()."""
        with self._lock:
            taken, self._waiting = self._waiting, []
            if self._dropped:
                taken.append(Line("warning", f"lines dropped before this point: {self._dropped} (at most {MOST_LINES} lines can wait "
                                             "for a heartbeat)", self.clock()))
            self._dropped = 0
            self._under_way = bool(taken)
        return taken

    def sent(self, again: List[Line]) -> None:
        """again: lines that could not be sent, and are sent next time."""
        with self._lock:
            self._waiting[:0] = again
            self._dropped += len(self._waiting[MOST_LINES:])
            del self._waiting[MOST_LINES:]
            self._under_way = False
            self.wanted = bool(again) and self.wanted


def checked(text: str, level: str, at: float) -> Line:
    """Raises ValueError if the level is unknown."""
    if level not in LEVELS:
        raise ValueError(f"the level of a log line must be one of {', '.join(LEVELS)}, not {level!r}")
    encoded = as_text(str(text)[:MOST_BYTES]).encode()   # a character has at least one byte
    return Line(level, encoded[:MOST_BYTES].decode(errors="ignore"), at)
