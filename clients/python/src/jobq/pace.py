"""Decides whether a worker waits in the server or polls. If a pooler has fewer connections than there are workers, waits occupy
the connections that heartbeats need: see "Small pools" in clients/CONTRACT.md of the source tree. Needs no server."""

from __future__ import annotations

import random
import time
from typing import Callable, Optional

SHORT_WAIT = 2.0     # seconds: longest wait of a worker that cannot be woken or that shares connections
LONGEST_POLL = 1.0
LEAST_LATE, MOST_LATE = 0.25, 1.0
CALM = (60.0, 120.0)   # seconds, chosen at random in this range, without a late answer until the worker waits in the server again


class Pace:
    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.clock = clock
        self.pooled = False
        self.polls_until: Optional[float] = None

    def is_late(self, seconds: float, interval: Callable[[], Optional[float]]) -> bool:
        """Returns whether an answer took so long that heartbeats are at risk. interval: returns the heartbeat interval, if known."""
        if not self.pooled or seconds <= LEAST_LATE:
            return False
        known = interval()
        return seconds > (MOST_LATE if known is None else max(LEAST_LATE, min(known / 4, MOST_LATE)))

    def late(self) -> bool:
        """Makes the worker poll for a while after a late answer. Returns whether it was waiting in the server before."""
        begins = self.polls_until is None
        self.polls_until = self.clock() + random.uniform(*CALM)
        return begins

    def calmed(self) -> bool:
        """Returns whether the polling period has just ended, so that the worker waits in the server again."""
        if self.polls_until is None or self.clock() < self.polls_until:
            return False
        self.polls_until = None
        return True

    @property
    def longest_poll(self) -> Optional[float]:
        return None if self.polls_until is None else LONGEST_POLL
