# The statistics for the report. Called by bench.py and the scenarios.

import math
import statistics
from dataclasses import dataclass


@dataclass(frozen=True)
class Interval:
    """The 95 % confidence interval of the median of this many values. With fewer than six values, no such interval exists, so it
    is their range."""
    low: float
    high: float
    count: int
    what: str = 'pairs'

    def __str__(self):
        return f"{'range of ' if self.count < 6 else ''}{self.count} {self.what}, {self.low:.3f} to {self.high:.3f}"

    def leaves_open(self, target):
        return self.low < target < self.high


def median_and_interval(values, what='pairs'):
    return statistics.median(values), Interval(*interval_of_median(values), len(values), what)


def interval_of_median(values, confidence=0.95):
    """Returns the narrowest pair of order statistics that contains the median with this confidence, or the range if no pair
    does."""
    ordered = sorted(values)
    count = len(ordered)
    low = 0
    for rank in range(1, count // 2 + 1):
        # The median lies outside if at most rank - 1 values are on one side of it.
        outside = 2 * sum(math.comb(count, k) for k in range(rank)) / 2 ** count
        if 1 - outside < confidence:
            break
        low = rank - 1
    return ordered[low], ordered[count - 1 - low]


def percentile(values, share):
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]
