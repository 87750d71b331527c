"""Tests the laws with handwritten logs: for each law, a run that breaks it and correct runs that must not be reported."""

from collections import Counter

import handled
import laws
import statuses
import stories_handled
import stories_life
import stories_order
import stories_tables
from checker_test import try_stories
from stories import RULES, Log
from support import Results

from jobq.audit.life import FINISHED, WAITING


def found_in(write):
    log = Log()
    write(log)
    return log.found()


def try_totals(results):
    """The totals must match a life in which everything happens, and a job that is not kept."""
    log = Log()
    stories_life.long_life(log)
    log.enqueue(9)
    log.claim(9, 9)
    log.begin().delete(9).fact("complete", 9, 9).commit()
    right = Counter({"enqueued": 3, "claimed": 8, "ended": 8, "ended lost": 1, "ended failed": 1, "completed": 3, "cancelled": 1,
                     "retried": 1, "deleted": 2, "waited": 8, "ran": 7})
    for name, change in [("", 0), *((name, change) for name in right for change in (1, -1)), ("failed", 1), ("missed", 1)]:
        told = right + Counter({name: change}) if change > 0 else right - Counter({name: -change})
        found = laws.check(log.changes, RULES, told=told).violations["totals"]
        wanted = bool(name) and not (name in ("waited", "ran") and told[name] <= told["claimed"])
        results.check(bool(found) == wanted, f"totals: {name or 'right'} {change:+d}", found)


if __name__ == "__main__":
    outcome = Results("laws")
    try_totals(outcome)
    cases = {**stories_life.CASES, **stories_order.CASES, **stories_handled.CASES, **stories_tables.CASES}
    try_stories(outcome, cases, found_in)
    for phase, mine in (WAITING, statuses.WAITING), (FINISHED, statuses.FINISHED):
        outcome.equal(phase, set(mine), f"the laws and the server agree on the statuses {sorted(phase)}")
    # The other laws need data that is not in the log: everything.py compares counters, reads totals, and collects errors of
    # clients.
    missing = set(laws.KINDS) - {"counters", "totals", "error"} - set().union(*cases.values())
    outcome.equal(missing, set(), "every law is broken by at least one story")
    for name, (jobs, written, attempts, wrong) in stories_handled.ENDS.items():
        outcome.equal(bool(handled.judge(jobs, written, attempts)), wrong, f"in the end: {name}")
    outcome.finish()
