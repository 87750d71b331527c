"""Tests of trend.py with synthetic series. Needs no server."""

import os
import random
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "audit"))
from support import Results  # noqa: E402
from trend import Bound, judge, sen_slope, without_warm_up  # noqa: E402

DAYS = 40
SIZES = Bound(0.2, 256 * 1024)
TIMES = Bound(0.5, 0.0, certain=True)


def noisy(level, per_day, noise, seed=1, stalls=0, days=DAYS):
    """A series with this trend and this relative noise, in which the machine stood still on some days."""
    chance = random.Random(seed)
    values = [level + per_day * day + level * chance.uniform(-noise, noise) for day in range(days)]
    for day in chance.sample(range(days), stalls):
        values[day] *= 20
    return list(enumerate(values))


def main():
    results = Results("trend")

    def passes(series, bound, wanted, label, days=DAYS):
        segments = series if series and isinstance(series[0], list) else [series]
        verdict = judge(label, segments, bound, days)
        results.check(verdict.passed == wanted, label, str(verdict))

    slope, low = sen_slope([[(0, 1.0), (1, 3.0), (2, 5.0), (4, 9.0)]])
    results.equal((slope, low <= 2.0), (2.0, True), "the slope of a line")
    results.equal(sen_slope([[(0, 0.0), (1, 1.0)], [(2, 0.0), (3, 1.0)]])[0], 1.0, "a restart between two segments is no slope")
    results.equal(sen_slope([[(0, 1.0)], [(1, 5.0)]]), None, "single values have no slope")

    megabyte = 1024 * 1024
    passes(noisy(5 * megabyte, 0, 0.1), SIZES, True, "a table whose size varies passes")
    passes(noisy(5 * megabyte, 0, 0.1, stalls=4), SIZES, True, "a table that was large on some days passes")
    passes(noisy(5 * megabyte, -megabyte / 10, 0.1), SIZES, True, "a table that shrinks passes")
    passes(noisy(5 * megabyte, megabyte / 10, 0.1), SIZES, False, "history that is never pruned is found")
    passes(noisy(5 * megabyte, megabyte / 10, 0.1, stalls=4), SIZES, False, "the same is found if the table was large on some days")
    passes(noisy(5 * megabyte, megabyte, 0.1, days=6), SIZES, False, "the same is found in a short run", days=6)
    passes(noisy(16 * 1024, 0, 0.5), SIZES, True, "a small table whose size varies passes")
    passes(noisy(400 * 1024, 100 * 1024, 0.05, days=6), SIZES, False, "an index that is never vacuumed is found in a short run", days=6)

    memory = Bound(0.0, 16 * 1024 * DAYS)
    restarts = [[(day, 2e6 + 64 * 1024 * (day - start)) for day in range(start, start + 10)] for start in range(0, DAYS, 10)]
    passes(restarts, memory, False, "memory that a process keeps is found although restarts return it")
    passes([[(day, 2e6 + 300 * (day % 3)) for day in range(start, start + 10)] for start in range(0, DAYS, 10)], memory, True,
           "memory that varies passes")
    passes([[(day, 1e6 if day < 2 else 4e6) for day in range(10)]], memory, True, "memory that grows once passes")

    passes(noisy(2.0, 0, 0.6, stalls=8), TIMES, True, "times of a machine that stands still pass")
    passes(noisy(2.0, 0.01, 0.6, stalls=4), TIMES, True, "times without a significant trend pass")
    passes(noisy(2.0, 0.2, 0.3, stalls=4), TIMES, False, "times that grow five times as long are found")
    passes([[(0, 1.0)]], TIMES, False, "a series without enough values fails")

    results.equal(without_warm_up([[(0, 9), (1, 8), (2, 1), (3, 1)], [(4, 9), (5, 8), (6, 1)]], 2), [[(2, 1), (3, 1)], [(6, 1)]],
                  "each segment has its own warm-up")
    results.equal(without_warm_up([[(0, 9)], []], 2), [], "a segment that is shorter than the warm-up is dropped")
    results.finish()


if __name__ == "__main__":
    main()
