"""Jobs whose transactions collided with other transactions (SQLSTATE 40001, 40P01). They are given back without counting the
attempt, but only a limited number of times in a row. Needs no server."""

from __future__ import annotations

import threading
from collections import OrderedDict
from dataclasses import replace

from .outcome import FAIL, RELEASE, VERIFY, Outcome

MOST = 10          # maximum number of collisions in a row
REMEMBERED = 1000  # maximum number of jobs that are remembered


class Collisions:
    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts: OrderedDict[int, int] = OrderedDict()   # number of collisions of each job, the latest job last

    def decide(self, job_id: int, outcome: Outcome) -> Outcome:
        """Returns the outcome to report for an attempt that had this outcome."""
        if outcome.what == VERIFY:
            return outcome   # the server knows the outcome
        with self._lock:
            count = self._counts.pop(job_id, 0) + 1
            if outcome.what != FAIL or not outcome.collision or count > MOST:
                return outcome
            self._counts[job_id] = count
            if len(self._counts) > REMEMBERED:
                self._counts.popitem(last=False)
        return replace(outcome, what=RELEASE)
