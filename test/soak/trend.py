"""Judges whether a series of measurements has a trend. Each series has one value per day of the load, so the load's shape is no trend.

A series consists of segments, because a restart of the server resets some values. The slope is that of Theil and Sen: the median of
the slopes between all pairs of days within a segment. A day during which the machine stood still does not change the median.
"""

import statistics
from dataclasses import dataclass

NORMAL_95 = 1.96


@dataclass(frozen=True)
class Bound:
    """The growth that is allowed during the judged days: a share of the median value or an absolute value, whichever is larger. If
    `certain` is set, the slope counts only as far as it is significant, because times vary a lot."""
    share: float
    absolute: float
    certain: bool = False


@dataclass(frozen=True)
class Verdict:
    name: str
    slope: float | None     # per day; None if there are too few values
    growth: float           # during the judged days
    allowed: float
    passed: bool

    def __str__(self):
        if self.slope is None:
            return f"{self.name}: too few values"
        return f"{self.name}: grows by {self.growth:,.4g} in the judged days, allowed {self.allowed:,.4g}"


def pair_slopes(segment):
    return [(later - earlier) / (day - before)
            for number, (before, earlier) in enumerate(segment) for day, later in segment[number + 1:] if day > before]


def sen_slope(segments):
    """Returns the slope and the lower end of its 95 % confidence interval (Sen 1968), or None if no segment has two values."""
    slopes = sorted(slope for segment in segments for slope in pair_slopes(segment))
    if not slopes:
        return None
    variance = sum(len(s) * (len(s) - 1) * (2 * len(s) + 5) / 18 for s in segments if len(s) > 1)
    rank = int((len(slopes) - NORMAL_95 * variance ** 0.5) / 2)
    return statistics.median(slopes), slopes[max(rank, 0)]


def without_warm_up(segments, days):
    """Drops the first days of each segment, in which caches fill and tables reach their size."""
    kept = [[point for point in segment if point[0] >= segment[0][0] + days] for segment in segments if segment]
    return [segment for segment in kept if segment]


def judge(name, segments, bound, days):
    """`segments`: lists of (day, value) without the warm-up; `days`: how many days are judged."""
    slope = sen_slope(segments)
    if slope is None:
        return Verdict(name, None, 0.0, 0.0, False)
    estimate, low = slope
    counted = max(low, 0.0) if bound.certain else estimate
    level = statistics.median(value for segment in segments for _, value in segment)
    allowed = max(bound.share * abs(level), bound.absolute)
    growth = counted * days
    return Verdict(name, estimate, growth, allowed, growth <= allowed)
