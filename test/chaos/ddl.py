"""Producers and workers over two drivers, while a DBA rebuilds, alters and moves jobq's tables. Judged by the audit's checker.

    JOBQ_DDL_SECONDS=n   how long changes come, at least (60)
    JOBQ_DDL_JOBS=n      jobs to enqueue (300 a second)
    JOBQ_DDL_SEED=n      repeats the choice of changes, not their timing

Wants PATH with the server's programs and an empty directory as its argument. See README.md.
"""

import os
import random
import sys

from changes import Changes
from run import Run, judge
from support import Results

CONF = """
wal_level = logical
max_prepared_transactions = 20
"""
# A client may be the victim of a deadlock with DDL, which then is to be repeated, as any statement.
EXPLAINED = ("40P01",)


def main(directory):
    seconds = float(os.environ.get("JOBQ_DDL_SECONDS", "60"))
    jobs = int(os.environ.get("JOBQ_DDL_JOBS", str(int(seconds * 300))))
    seed = int(os.environ.get("JOBQ_DDL_SEED", "0")) or random.SystemRandom().randrange(1, 10**6)
    results = Results("ddl")
    results.note(f"{jobs} jobs, {seconds:.0f} s, seed {seed}")
    run = Run(directory, os.environ.get("JOBQ_CHAOS_DISK"), jobs, seconds, seed, EXPLAINED, CONF)
    try:
        run.prepare()
        changes = Changes(run)
        done = run.disturb(results, changes, len(changes.names()))
        run.drain()
        for name in changes.names():
            results.check(done.get(name, 0) > 0, f"done under load: {name}", "")
        judge(results, run, jobs)
    finally:
        run.end()
    results.finish()


if __name__ == "__main__":
    main(sys.argv[1])
