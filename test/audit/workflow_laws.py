"""The laws of durable steps for workflows.py: compares what the flows did and were told with what they had to do.

Every list shows the final contents of the database. A worker records what it was told in the transaction in which it was told.
"""

from collections import defaultdict
from dataclasses import dataclass, field

KINDS = {
    "flow lost": "flow that did not complete, or with another result",
    "effect doubled": "effect that happened twice",
    "effect missing": "effect that never happened",
    "step changed": "step whose first result was not kept",
    "spawned twice": "flow whose children are not exactly the planned ones, each once",
    "results differ": "results that are not those of the children",
    "signal not the first": "signal that was delivered although another one was first, or that was never sent",
    "timeout invented": "timeout where none was set, or no timeout where no signal could arrive",
    "deadline moved": "deadline that changed",
    "held while waiting": "lease, slot, or worker of a waiting job",
    "limit exceeded": "limit that was exceeded",
    "sleeps permanently": "job that waits although the awaited event has occurred",
}


@dataclass(frozen=True)
class Plan:
    """The plan of flow `number`."""
    number: int

    @property
    def parts(self):
        return self.number % 5

    def part_fails(self, part):
        return (self.number + part) % 7 == 0

    def part_result(self, part):
        return 1000 * self.number + part

    @property
    def mode(self):
        return "any" if self.number % 6 == 5 else "all"

    @property
    def parts_timeout(self):
        """Short enough that some flows do not see the end of their children."""
        return "5 ms" if self.number % 4 == 3 else None

    @property
    def parts_begin_late(self):
        """Long after that timeout. The signals of other flows race with their timeouts."""
        return self.number % 8 == 7

    @property
    def event(self):
        return "paid" if self.number % 2 else f"news {self.number}"

    @property
    def is_told_alone(self):
        return self.number % 2 == 1

    @property
    def is_signalled(self):
        return self.number % 13 != 6

    @property
    def event_timeout(self):
        return None if self.is_signalled else "60 ms"


@dataclass
class Run:
    flows: list = field(default_factory=list)      # (id, number, status, result)
    effects: list = field(default_factory=list)    # (number, name): "charge", "ship", "end", "part 1" ...
    told: list = field(default_factory=list)       # (id, step, answer): "done ...", "ready ...", "timeout ...", each time
    saved: list = field(default_factory=list)      # (id, step, state, result)
    children: list = field(default_factory=list)   # (parent, child, part)
    sent: list = field(default_factory=list)       # (event as returned by sent_event(), payload, whether it was new)
    deadlines: list = field(default_factory=list)  # (id, step, until), each time it was read
    seen: list = field(default_factory=list)       # (law, text): violations that the observer has seen during the run


def sent_event(flow, number):
    plan = Plan(number)
    return f"{flow} {plan.event}" if plan.is_told_alone else plan.event


def effects_of(plan):
    parts = [f"part {part}" for part in range(plan.parts) if not plan.part_fails(part)]
    return ["charge", "ship", "end", *parts]


def judge(run):
    """The violations, by law."""
    found = {kind: [] for kind in KINDS}
    numbers = {flow: number for flow, number, _, _ in run.flows}
    for law, text in run.seen:
        found[law].append(text)
    _judge_flows(run, found)
    _judge_effects(run, found)
    _judge_answers(run, numbers, found)
    _judge_children(run, numbers, found)
    _judge_waits(run, numbers, found)
    return found


def _judge_flows(run, found):
    for flow, number, status, result in run.flows:
        if status in ("blocked", "scheduled", "pending", "processing"):
            found["sleeps permanently" if status == "blocked" else "flow lost"].append(f"flow {number} (job {flow}) is {status}")
        elif (status, result) != ("completed", number):
            found["flow lost"].append(f"flow {number} (job {flow}) is {status} with {result}")
    first = {}
    for flow, step, until in run.deadlines:
        if first.setdefault((flow, step), until) != until:
            found["deadline moved"].append(f"job {flow}, {step}: from {first[flow, step]} to {until}")


def _judge_effects(run, found):
    count = defaultdict(int)
    for number, name in run.effects:
        count[number, name] += 1
        if count[number, name] == 2:
            found["effect doubled"].append(f"flow {number}: {name}")
    for _, number, status, _ in run.flows:
        if status == "completed":
            # Flows that waited for any of their parts, or only for a short time, may have ended before their children.
            found["effect missing"] += [f"flow {number}: {name}" for name in effects_of(Plan(number)) if not count[number, name]]


def _judge_answers(run, numbers, found):
    first = {}
    for flow, step, answer in run.told:
        if first.setdefault((flow, step), answer) != answer:
            found["step changed"].append(f"flow {numbers.get(flow)}, {step}: first {first[flow, step]}, then {answer}")


def _judge_children(run, numbers, found):
    parts = defaultdict(list)
    for parent, _, part in run.children:
        parts[parent].append(part)
    for flow, number, status, _ in run.flows:
        if status == "completed" and sorted(parts[flow]) != list(range(Plan(number).parts)):
            found["spawned twice"].append(f"flow {number}: {sorted(parts[flow])}")


def _judge_waits(run, numbers, found):
    new = defaultdict(list)
    for event, payload, was_new in run.sent:
        if was_new:
            new[event].append(payload)
    for event, payloads in new.items():
        if len(payloads) > 1:
            found["signal not the first"].append(f"{event}: {payloads} were new")
    part_of = {child: part for _, child, part in run.children}
    for flow, step, state, result in run.saved:
        # The flow of a child that is still waiting is reported instead.
        if flow not in numbers or state == "waiting":
            continue
        plan = Plan(numbers[flow])
        if step == "delivered":
            _judge_signal(flow, plan, state, result, new, found)
        elif step == "joined":
            _judge_results(plan, state, result, part_of, found)


def _judge_signal(flow, plan, state, result, new, found):
    event = sent_event(flow, plan.number)
    if state == "done" and new[event] != [result]:
        found["signal not the first"].append(f"flow {plan.number} was told {result}, not {new[event]}")
    if (state == "timeout") != (not plan.is_signalled):
        found["timeout invented"].append(f"flow {plan.number}: {event} is {state}")


def _judge_results(plan, state, results, part_of, found):
    def differs(text):
        found["results differ"].append(f"flow {plan.number}: {text}")

    if state == "timeout" and plan.parts_timeout is None:
        found["timeout invented"].append(f"flow {plan.number}: its parts")
    if [part_of.get(entry["job_id"]) for entry in results] != list(range(plan.parts)):
        differs(f"they are of {[part_of.get(entry['job_id']) for entry in results]}")
        return
    ended = 0
    for part, entry in enumerate(results):
        wanted = ("failed", None) if plan.part_fails(part) else ("completed", plan.part_result(part))
        ended += entry["status"] in ("completed", "failed")
        if entry["status"] in ("pending", "processing", "scheduled"):
            if entry["result"] is not None:
                differs(f"part {part} has not ended and has the result {entry['result']}")
        elif (entry["status"], entry["result"]) != wanted:
            differs(f"part {part} is {entry['status']} with {entry['result']}, not {wanted}")
    if state == "done" and ended < (min(plan.parts, 1) if plan.mode == "any" else plan.parts):
        differs(f"{ended} of {plan.parts} had ended")
