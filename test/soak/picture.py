"""Draws the series of a run as SVG, with the helper of the benchmark. Needs matplotlib."""

import os
import sys

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "bench"))    # after test/chaos, which also has servers.py

PANELS = (
    ("sizes of the ten largest tables and indexes, MB", "size: ", 1024 * 1024),
    ("private memory of processes, MB", "memory: ", 1024 * 1024),
    ("memory in use in contexts, MB", "used: ", 1024 * 1024),
    ("WAL per job, bytes", "wal: ", 1),
    ("dead tuples", "dead: ", 1),
    ("entries in shared memory", "entries: ", 1),
    ("median and 99th percentile, ms", ("ms: claim p50", "ms: claim p99", "ms: wait p50"), 1),
    ("claim and wait, in plain statements", "time: ", 1),
)
MOST = 10


def values(days):
    """Returns {name: [(day, value)]}."""
    found = {}
    for number, day in enumerate(days, 1):
        for name, value in day["values"].items():
            found.setdefault(name, []).append((number, value))
        for process, (_, size, used) in day["processes"].items():
            found.setdefault(f"memory: {process}", []).append((number, size))
            if used is not None:
                found.setdefault(f"used: {process}", []).append((number, used))
    return found


def draw(days, variant, path):
    try:
        from plots import plt, save
    except ImportError:
        print("# soak: no picture, because matplotlib is not installed", flush=True)
        return
    found = values(days)
    figure, axes = plt.subplots(len(PANELS) // 2, 2, figsize=(13, 11))
    for axis, (title, wanted, unit) in zip(axes.flat, PANELS):
        names = [name for name in found if name.startswith(wanted)]
        names.sort(key=lambda name: -max(value for _, value in found[name]))
        for name in names[:MOST]:
            axis.plot([day for day, _ in found[name]], [value / unit for _, value in found[name]], linewidth=1, label=name.partition(": ")[2])
        axis.set_ylim(bottom=0)
        axis.set_title(title, fontsize=9)
        axis.legend(fontsize=6, loc="center left", bbox_to_anchor=(1, 0.5))
        for number, day in enumerate(days, 1):
            if day["restarted"] and number > 1:
                axis.axvline(number, color="#c0c0c0", linewidth=0.5)
    figure.suptitle(f"soak, autovacuum settings: {variant}; one point per day of the load; vertical lines: restart and REINDEX", fontsize=10)
    save(figure, os.path.dirname(path), os.path.basename(path))
