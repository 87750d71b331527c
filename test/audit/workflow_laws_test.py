"""Tests the laws of durable steps with handwritten runs: a correct one, and for each law a run that breaks it."""

from support import Results
from workflow_laws import KINDS, Plan, Run, effects_of, judge, sent_event

FLOW, NUMBER = 501, 13      # three parts, told alone, all of them awaited
CHILDREN = (601, 602, 603)


def proper():
    plan = Plan(NUMBER)
    run = Run()
    run.flows = [(FLOW, NUMBER, "completed", NUMBER)]
    run.effects = [(NUMBER, name) for name in effects_of(plan)]
    run.told = [(FLOW, "charge", "done 1"), (FLOW, "charge", "done 1")]
    run.children = [(FLOW, child, part) for part, child in enumerate(CHILDREN)]
    run.saved = [(FLOW, "joined", "done", [
        {"job_id": child, "status": "failed" if plan.part_fails(part) else "completed",
         "result": None if plan.part_fails(part) else plan.part_result(part)} for part, child in enumerate(CHILDREN)]),
        (FLOW, "delivered", "done", 7)]
    run.sent = [(sent_event(FLOW, NUMBER), 8, False), (sent_event(FLOW, NUMBER), 7, True)]
    run.deadlines = [(FLOW, "joined", "noon"), (FLOW, "joined", "noon")]
    return run


def results(run):
    return run.saved[0][3]


def asleep(run):
    run.flows[0] = (FLOW, NUMBER, "blocked", None)
    run.saved[0] = (FLOW, "joined", "waiting", None)


def other_result(run):
    results(run)[1]["result"] = 5


def too_early(run):
    results(run)[2].update(status="processing", result=None)


def no_timeout(run):
    run.saved[0] = (FLOW, "joined", "timeout", results(run))


CASES = {
    "nothing": lambda run: None,
    "flow lost": lambda run: run.flows.append((502, 10, "failed", None)),
    "effect doubled": lambda run: run.effects.append((NUMBER, "charge")),
    "effect missing": lambda run: run.effects.remove((NUMBER, "ship")),
    "step changed": lambda run: run.told.append((FLOW, "charge", "done 2")),
    "spawned twice": lambda run: run.children.append((FLOW, 604, 0)),
    "results differ": other_result,
    "results differ (not ended)": too_early,
    "signal not the first": lambda run: run.sent.append((sent_event(FLOW, NUMBER), 9, True)),
    "timeout invented": no_timeout,
    "deadline moved": lambda run: run.deadlines.append((FLOW, "joined", "evening")),
    "held while waiting": lambda run: run.seen.append(("held while waiting", "a slot")),
    "limit exceeded": lambda run: run.seen.append(("limit exceeded", "7")),
    "sleeps permanently": asleep,
}

if __name__ == "__main__":
    outcome = Results("workflow laws")
    for name, breaks in CASES.items():
        run = proper()
        breaks(run)
        broken = {kind for kind, entries in judge(run).items() if entries}
        wanted = name.split(" (")[0]
        outcome.check(wanted in broken if wanted in KINDS else not broken, f"found: {name}", str(broken))
    outcome.equal(set(KINDS) - {name.split(" (")[0] for name in CASES}, set(), "every law is broken by at least one case")
    outcome.finish()
