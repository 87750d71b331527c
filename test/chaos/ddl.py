"""Runs producers and workers with two drivers while a DBA rebuilds, alters, and moves jobq's tables. The audit's checker judges.

JOBQ_DDL_SECONDS=n   minimum duration of the changes (60)
JOBQ_DDL_JOBS=n      number of jobs to enqueue (300 per second)
JOBQ_DDL_SEED=n      repeats the choice of changes, but not their timing
JOBQ_CHAOS_EXPECT=caught   for a library with a planted defect: passes if anything is wrong

Needs the server's programs in PATH, and an empty directory as its argument. See README.md.
"""

import os
import random
import sys

from run import Run, judge
from changes import Changes
from support import Results
import psycopg

CONF = """
wal_level = logical
max_prepared_transactions = 20
# What comes by replication or with triggers switched off is counted then.
jobq.reconcile_interval = 1s
"""
# Errors that a client may get. A deadlock with DDL, like any deadlock, means that the statement must be repeated. While the claim
# index is missing or invalid, calls say so. While triggers are disabled, no trigger fills the columns that a plain INSERT leaves
# out.
EXPLAINED = ("40P01", "55000", "23502")


class Suspicious(Results):
    """For a library with a planted defect: passes if anything is wrong, even if the run could not continue."""

    def check(self, passed, label, detail=""):
        self.failed += not passed
        print(f"# {self.name}: {'' if passed else 'FOUND: not '}{label}{detail and not passed and ': ' + detail or ''}", flush=True)
        return bool(passed)

    def finish(self):
        found = self.failed > 0
        print("ok - ddl: the planted defect is caught\n1 passed, 0 failed" if found else "not ok - ddl: the planted defect is caught\n0 passed, 1 failed", flush=True)
        sys.exit(not found)


def main(directory):
    seconds = float(os.environ.get("JOBQ_DDL_SECONDS", "60"))
    jobs = int(os.environ.get("JOBQ_DDL_JOBS", str(int(seconds * 300))))
    seed = int(os.environ.get("JOBQ_DDL_SEED", "0")) or random.SystemRandom().randrange(1, 10**6)
    results = Suspicious("ddl") if os.environ.get("JOBQ_CHAOS_EXPECT") == "caught" else Results("ddl")
    results.note(f"{jobs} jobs, {seconds:.0f} s, seed {seed}")
    run = Run(directory, os.environ.get("JOBQ_CHAOS_DISK"), jobs, seconds, seed, EXPLAINED, CONF)
    run.time_to_count = 60
    try:
        run.prepare()
        changes = Changes(run)
        done = run.disturb(results, changes, len(changes.names()))
        run.drain()
        for name in changes.names():
            results.check(done.get(name, 0) > 0, f"done under load: {name}", "")
        results.equal(changes.findings[:5], [], "each index has an entry for each row")
        judge(results, run, jobs)
    except (RuntimeError, TimeoutError, psycopg.Error) as error:
        results.check(False, "the run completes", str(error))
    finally:
        run.end()
    results.finish()


if __name__ == "__main__":
    main(sys.argv[1])
