"""Jobs whose transactions collided with others (40001, 40P01). They are given back without counting the attempt, a bounded number of
times in a row. No server."""

from __future__ import annotations

import threading
from collections import OrderedDict
from dataclasses import replace

from .outcome import FAIL, RELEASE, VERIFY, Outcome

MOST = 10          # collisions in a row
REMEMBERED = 1000  # jobs


class Collisions:
    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts: OrderedDict[int, int] = OrderedDict()   # collisions by job, the job that collided last at the end

    def decide(self, job_id: int, outcome: Outcome) -> Outcome:
        """What is reported of an attempt with this outcome."""
        if outcome.what == VERIFY:
            return outcome   # the server knows what it was
        with self._lock:
            count = self._counts.pop(job_id, 0) + 1
            if outcome.what != FAIL or not outcome.collision or count > MOST:
                return outcome
            self._counts[job_id] = count
            if len(self._counts) > REMEMBERED:
                self._counts.popitem(last=False)
        return replace(outcome, what=RELEASE)
