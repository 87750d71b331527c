"""Runs producers and workers with two drivers while anything that can fail does: sessions, background workers, servers, executors, and
clients are killed, clients stall, statements are cancelled, the disk is full, and standbys are promoted. The audit's checker judges.

JOBQ_CHAOS_SECONDS=n   duration of the faults (120)
JOBQ_CHAOS_JOBS=n      number of jobs to enqueue (400 per second)
JOBQ_CHAOS_FAULTS=n    minimum number of faults (one in 7 s)
JOBQ_CHAOS_SEED=n      repeats the choice of faults, but not their timing
JOBQ_CHAOS_EXPECT=caught   for a library that accepts stale leases: passes if the checker finds them
JOBQ_CHAOS_DISK=dir    a small separate file system that may be filled; without it, the disk is not filled

Needs the server's programs in PATH, and an empty directory as its argument. See README.md.
"""

import os
import random
import statistics
import sys

from run import Run, judge  # imported first, because it adds the directory of the audit to the path
import handled_jobs
from faults import Faults
from support import Results

ALLOWED_TO_CLAIM = 1.0      # seconds from the first SELECT after a restart to the first claim


def report_faults(results, run, faults, done, wanted):
    results.note("faults: " + ", ".join(f"{name} {count}" for name, count in sorted(done.items())))
    results.check(sum(done.values()) >= wanted, f"at least {wanted} faults", str(sum(done.values())))
    if run.can_fill:
        results.check(run.full_errors > 0, "the disk was full for the server", f"{run.full_errors} messages")
    claims = [claimed for claimed, _ in faults.ready]
    selects = [selected for _, selected in faults.ready]
    results.note(f"from ready to the first claim: {len(claims)} times, median {statistics.median(claims):.2f} s, longest {max(claims):.2f} s;"
                 f" to the first SELECT: median {statistics.median(selects):.2f} s, longest {max(selects):.2f} s")
    # The time for a session depends on the server and the machine; only the additional time is due to jobq.
    late = [claimed - selected for claimed, selected in faults.ready]
    results.check(max(late) <= ALLOWED_TO_CLAIM, f"the first claim never more than {ALLOWED_TO_CLAIM} s after a SELECT could be answered", f"{max(late):.2f}")


def main(directory):
    seconds = float(os.environ.get("JOBQ_CHAOS_SECONDS", "120"))
    jobs = int(os.environ.get("JOBQ_CHAOS_JOBS", str(int(seconds * 400))))
    wanted = int(os.environ.get("JOBQ_CHAOS_FAULTS", str(max(10, int(seconds / 7)))))
    seed = int(os.environ.get("JOBQ_CHAOS_SEED", "0")) or random.SystemRandom().randrange(1, 10**6)
    results = Results("chaos")
    results.note(f"{jobs} jobs, {seconds:.0f} s, seed {seed}")
    run = Run(directory, os.environ.get("JOBQ_CHAOS_DISK"), jobs, seconds, seed)
    try:
        run.prepare()
        with run.primary.connect(run.database) as conn:
            handled_jobs.set_up(conn, seconds)
        faults = Faults(run)
        done = run.disturb(results, faults, wanted)
        run.drain()
        run.wait_while_it_moves(lambda now: now is not None and now[0] == now[1], "handlers have done their jobs", handled_jobs.QUEUE)
        if os.environ.get("JOBQ_CHAOS_EXPECT") == "caught":
            judge(results, run, jobs, ("stale lease accepted", "doubled effect"))
        else:
            report_faults(results, run, faults, done, wanted)
            report = judge(results, run, jobs)
            results.check(report.counts["attempts lost"] > 0, "leases were lost")
            with run.primary.connect(run.database) as conn:
                handled_jobs.judge(results, conn)
    finally:
        run.end()
    results.finish()


if __name__ == "__main__":
    main(sys.argv[1])
