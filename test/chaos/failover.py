"""Promotes a standby under load, alternately synchronous and asynchronous. The audit's checker judges.

JOBQ_FAILOVERS=n     number of promotions (20); at the end, the last server of the chain is promoted, too
JOBQ_CHAOS_SEED=n    repeats the choices of the clients, but not their timing
JOBQ_CHAOS_EXPECT=caught   for a library that accepts stale leases: passes if they are found

With a synchronous standby, everything that was acknowledged must be kept, except heartbeats, whose commits are asynchronous
(jobq.async_heartbeats). With an asynchronous standby, acknowledgements count only up to the position in the log at which the
new primary begins. If the same histories are judged as if each standby had been synchronous, the checker must find lost jobs,
which shows that it would notice them.

Needs the server's programs in PATH, and an empty directory as its argument. See README.md.
"""

import collections
import os
import random
import sys

from run import Run, judge
from promotions import LEVELS, Promotions, number
from support import Results
import checker

JOBS_A_SECOND = 250
CONF = """
fsync = off
wal_log_hints = on
wal_keep_size = 256MB
wal_retrieve_retry_interval = 100ms
"""


class Failover(Run):
    producers, workers, probes, placed = 2, 4, 500, True
    forks, everything, final = {}, [], None

    def judgement(self):
        judged = super().judgement()
        self.final = judged[2]
        return judged

    def counted(self, events):
        """An acknowledgement that an asynchronous standby could not know becomes an unknown outcome."""
        self.everything = events
        return [event._replace(phase="unknown") if self.cut_off_by(event) else event for event in events]

    def cut_off_by(self, event):
        """Returns the timeline that a promotion cut off before this position, unless the acknowledgement waited for the standby."""
        if event.phase != "ok" or event.op == "session":
            return None
        timeline, place = event.detail.split()
        fork, synchronous = self.forks.get(timeline, (0, True))
        waited = synchronous and (timeline not in self.forks or event.op != "heartbeat")
        return timeline if not waited and (place == "?" or number(place) > fork) else None


def kinds(count):
    for n in range(count):
        turn = n // 2
        yield dict(level=LEVELS[turn % len(LEVELS)] if n % 2 == 0 else None, old_lives_on=turn % 2 == 0)
    yield dict(end_of_chain=True)


def described(kind):
    who = "the end of the chain" if kind.get("end_of_chain") else f"synchronous ({kind['level']})" if kind["level"] else "asynchronous"
    return who + (", the old primary keeps running" if kind.get("old_lives_on") else ", the old primary is dead")


def main(directory):
    count = int(os.environ.get("JOBQ_FAILOVERS", "20"))
    seed = int(os.environ.get("JOBQ_CHAOS_SEED", "0")) or random.SystemRandom().randrange(1, 10**6)
    results = Results("failover")
    results.note(f"{count} promotions and the end of the chain, seed {seed}")
    seconds = 3600      # producers run until they are stopped
    run = Failover(directory, None, seconds * JOBS_A_SECOND, seconds, seed, conf=CONF)
    run.time_to_count = 60
    expect = ("stale lease accepted",) if os.environ.get("JOBQ_CHAOS_EXPECT") == "caught" else ()
    try:
        run.set_flag("calm", True)
        run.prepare()
        promotions = Promotions(run)
        for kind in kinds(count):
            promotions.promote(**kind)
            run.check_clients()
            results.note(f"promoted: {described(kind)}")
        run.set_flag("enough", True)
        run.drain()
        run.forks = promotions.forks
        report = judge(results, run, 50 * (count + 1), expect)
        if expect:
            results.check(any("stale" in finding for finding in promotions.findings), "caught: leases that the new primary has not handed out")
        else:
            conclude(results, run, promotions, report)
    finally:
        run.end()
    results.finish()


def conclude(results, run, promotions, report):
    results.equal(promotions.findings[:5], [], "each lease in the log of the new primary is kept, and each other lease is rejected")
    results.equal(promotions.differences(), [], "both standbys have the jobs of the primary, with all columns")
    beyond = collections.Counter(run.cut_off_by(event) for event in run.everything)
    for timeline, (_, synchronous) in promotions.forks.items():
        if not synchronous:
            results.check(beyond[timeline], f"timeline {timeline}: {beyond[timeline]} acknowledgements were lost to the lag")
    results.note("sessions ended with: " + ", ".join(f"{state} {times} times" for state, times in collections.Counter(
        event.detail for event in run.everything if event.op == "lost" and event.phase == "fail").most_common()))
    keys = {}
    for event in run.everything:
        if event.op == "enqueue" and event.phase == "ok":
            for item in event.items:
                keys.setdefault(item.id, set()).add(item.key)
    results.note(f"ids of two jobs, one of which was lost to the lag: {sum(1 for named in keys.values() if len(named) > 1)}")
    missed = len(checker.check(run.everything, run.final, run.timeout).violations["lost"])
    results.check(missed, f"judged as if each standby had been synchronous, {missed} acknowledged jobs are missing")


if __name__ == "__main__":
    main(sys.argv[1])
