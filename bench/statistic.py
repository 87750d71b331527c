# The statistics that the report needs. Called by bench.py and the scenarios.

import math


def interval_of_median(values, confidence=0.95):
    """The narrowest pair of order statistics that holds the median with this confidence, or the range if there is none."""
    ordered = sorted(values)
    count = len(ordered)
    low = 0
    for rank in range(1, count // 2 + 1):
        # The median lies outside when at most rank - 1 values fall on one side of it.
        outside = 2 * sum(math.comb(count, k) for k in range(rank)) / 2 ** count
        if 1 - outside < confidence:
            break
        low = rank - 1
    return ordered[low], ordered[count - 1 - low]


def percentile(values, share):
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]
