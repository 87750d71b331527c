"""Arranges the samples of a run as series, and judges each of them."""

import re

from samples import BOUNDS, LONG_ONLY
from trend import judge as judge_series
from trend import without_warm_up

WARM_UP = 3     # days after a restart
LEAST = 4       # judged days of a process; a process that ends earlier has no series


def series(days):
    """Returns {name: segments}, without the warm-up."""
    found = {}
    for number, day in enumerate(days):
        for name, value in day["values"].items():
            segments = found.setdefault(name, [])
            if not segments or (day["restarted"] and begins_again(name)):
                segments.append([])
            segments[-1].append((number, value))
    return {name: without_warm_up(segments, WARM_UP) for name, segments in found.items()}


def begins_again(name):
    """Whether a restart or a REINDEX resets the value."""
    group = name.partition(":")[0]
    return group in ("entries", "evictions", "dead") or (group == "size" and re.search("_(idx|pkey|key)$", name) is not None)


def processes(days):
    """Returns {name: segments} of the memory of the server's processes. A process with another pid begins a segment."""
    found, pids = {}, {}
    for number, day in enumerate(days):
        for process, (pid, size, used) in day["processes"].items():
            for group, value in (("memory", size), ("used", used)):
                if value is None:
                    continue
                name = f"{group}: {process}"
                segments = found.setdefault(name, [])
                if pids.get(name) != pid:
                    segments.append([])
                    pids[name] = pid
                segments[-1].append((number, value))
    kept = {name: [segment for segment in without_warm_up(segments, WARM_UP) if len(segment) >= LEAST] for name, segments in found.items()}
    return {name: segments for name, segments in kept.items() if segments}


def judge(days, short):
    """Returns the verdicts on all series that have a bound."""
    judged = []
    for name, segments in {**series(days), **processes(days)}.items():
        group = name.partition(":")[0]
        bound = BOUNDS.get(group)
        if bound is None or (short and group in LONG_ONLY):
            continue
        # The growth between two restarts, or in the whole run if a restart does not end it.
        length = max((segment[-1][0] - segment[0][0] for segment in segments if segment), default=0)
        judged.append(judge_series(name, segments, bound, length))
    return judged
