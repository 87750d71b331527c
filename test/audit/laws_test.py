"""The laws against logs written by hand: for each law a run that breaks it, and proper ones beside it that must not."""

import handled
import laws
import stories_handled
import stories_life
import stories_order
from checker_test import try_stories
from stories import Log
from support import Results


def found_in(write):
    log = Log()
    write(log)
    return log.found()


if __name__ == "__main__":
    outcome = Results("laws")
    cases = {**stories_life.CASES, **stories_order.CASES, **stories_handled.CASES}
    try_stories(outcome, cases, found_in)
    # What the log does not tell is passed in: everything.py compares the counters, clients write down their errors.
    missing = set(laws.KINDS) - {"counters", "error"} - set().union(*cases.values())
    outcome.equal(missing, set(), "every law is broken by one of them")
    for name, (jobs, written, attempts, wrong) in stories_handled.ENDS.items():
        outcome.equal(bool(handled.judge(jobs, written, attempts)), wrong, f"in the end: {name}")
    outcome.finish()
