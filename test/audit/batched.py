"""The laws of batches: each sealed batch has exactly one callback of each sort that is due, and no callback comes early."""

import json
from collections import defaultdict

from world import FINISHED

from jobq.audit.life import is_before


def event_of(step):
    """(batch, event) if the step enqueues a callback of a batch, else None."""
    if step.before is not None or step.after is None or not step.after.metadata:
        return None
    metadata = json.loads(step.after.metadata)
    if not isinstance(metadata, dict) or "batch_event" not in metadata:
        return None
    return metadata["batch"], metadata["batch_event"]


def _ends(steps, change):
    """The statuses in which the member had ended before `change` was written; "cancelled" if it was deleted before it had ended."""
    ends = set()
    for step in steps:
        if not is_before(step.change, change):
            continue
        if step.after is None:
            ends.add(step.before.status if step.before and step.before.status in FINISHED else "cancelled")
        elif step.after.status in FINISHED:
            ends.add(step.after.status)
    return ends


def batches(world, rules, report):
    members, callbacks = defaultdict(list), defaultdict(list)
    for steps in world.history.values():
        if steps[0].after is not None and steps[0].after.batch_id is not None:
            members[steps[0].after.batch_id].append(steps)
        event = event_of(steps[0])
        if event:
            callbacks[event].append(steps[0].change)
    sealed = {fact.row.job: fact for fact in world.facts if fact.row.op == "seal"}
    for batch, fact in sealed.items():
        events = sorted(event for of, event in callbacks for _ in callbacks[of, event] if of == batch)
        if events not in (["complete", "success"], ["complete", "failure"]):
            report.add("batch", f"batch {batch} has the callbacks {events}")
    for (batch, event), changes in callbacks.items():
        report.counts[f"batch {event}"] += len(changes)
        if batch not in sealed:
            report.add("batch", f"job {changes[0].row.id}: callback {event} of batch {batch}, which was not sealed")
            continue
        ends = {steps[0].change.row.id: _ends(steps, changes[0]) for steps in members[batch]}
        early = [job for job, found in ends.items() if not found]
        if early:
            report.add("batch", f"job {changes[0].row.id}: callback {event} of batch {batch}, whose jobs {early} had not ended")
        elif event == "success" and any("completed" not in found for found in ends.values()):
            report.add("batch", f"job {changes[0].row.id}: batch {batch} succeeded, but its jobs ended {ends}")
        elif event == "failure" and not any(found - {"completed"} for found in ends.values()):
            report.add("batch", f"job {changes[0].row.id}: batch {batch} failed, but all of its jobs have completed")
