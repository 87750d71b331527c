"""The laws about which job is next: among all jobs of a queue, and among its keys if they take turns.

Claims skip locked jobs, and a key counts as served even if its claim is rolled back. Neither is recorded in the log. Therefore
these laws tolerate single cases; a violation is something that happens repeatedly.
"""

from collections import Counter, defaultdict

from witness import seconds
from world import EXECUTOR

MANY = 20       # claims


def _pending(world, same):
    """Returns spans from the moment at which a job becomes pending until it is not, or is not the same() anymore."""
    return world.spans(lambda step: step.after and step.after.status == "pending",
                       lambda span, step: step.after and step.after.status == "pending"
                       and same(step.after) == same(span.start.after))


def _claimed_from(world):
    """The claims of each queue, as the steps that made them."""
    found = defaultdict(list)
    for span in world.leases():
        found[(span.start.before or span.start.after).queue].append(span.start)
    return found


def _beside(claims, spans):
    """Each claim with the spans that had been committed when it was written and have not been changed."""
    going, upcoming = [], 0
    for claim in claims:
        place = claim.change.place
        while upcoming < len(spans) and spans[upcoming].start.change.place < place:
            going.append(spans[upcoming])
            upcoming += 1
        going = [span for span in going if span.end is None or span.end.change.place > place]
        yield claim, [span for span in going if span.start.change.commit < place]


def _asked_for(claim, spans):
    """The jobs that the claim could also have taken: those that have not expired; an executor claims only the kind of its handler."""
    spans = [span for span in spans if not span.start.after.expires_at or seconds(span.start.after.expires_at) > claim.change.time]
    if claim.after.worker_id != EXECUTOR:
        return spans
    return [span for span in spans if span.start.after.kind == claim.after.kind]


def overtaken(world, rules, report):
    """A job may have to wait for the limit of its key or kind, or for a named limit. If keys take turns, each key has an order of its own."""
    limited = {change.row.queue for change in world.limits if change.row.key and not change.row.by_kind}
    by_kind = {(change.row.queue, change.row.key) for change in world.limits if change.row.by_kind}
    pending = _pending(world, lambda row: place(row, rules))
    passed = defaultdict(list)
    for queue, claims in _claimed_from(world).items():
        waiting = [span for span in pending if span.start.after.queue == queue
                   and not {(queue, span.start.after.kind), (queue, "*")} & by_kind
                   and not world.named_limits_of(span.start.after)
                   and (span.start.after.concurrency_key is None or queue not in limited)]
        for claim, waits in _beside(claims, waiting):
            beside = _asked_for(claim, waits)
            job, own = claim.before, place(claim.before, rules)
            if own is None:
                continue    # a job that could not be claimed, which another law reports
            for span in beside:
                other = span.start.after
                if queue in rules.in_turn and other.concurrency_key != job.concurrency_key:
                    continue
                if place(other, rules) < own:
                    passed[span].append(claim.change.time)
            if queue in rules.ageing:
                report.counts["claims that ageing decided"] += any(span.start.after.priority < job.priority for span in beside)
    for span, times in passed.items():
        report.counts["claims past one job at most"] = max(report.counts["claims past one job at most"], len(times))
        if len(times) > MANY and times[-1] - times[0] > rules.busy:
            report.add("passed over", f"job {span.job} of {span.start.after.queue} by {len(times)} claims in"
                       f" {times[-1] - times[0]:.1f} s")


def place(row, rules):
    """The position of a pending job in the order of claims. All jobs age equally fast, so the order of two jobs never changes."""
    if row is None or row.status != "pending":
        return None
    ready = seconds(row.run_at)
    if row.queue in rules.ageing:
        return ready + row.priority * rules.ageing[row.queue], row.priority, row.id
    return row.priority, ready, row.id


def turns(world, rules, report):
    """Between two jobs of a key, every other key that has jobs gets one. Jobs without a key count together as one key.

    Sometimes a key waits for a second job of another key for reasons that are not recorded, so single claims cannot be judged.
    But third jobs are rare; if keys do not take turns at all, every third claim is one.
    """
    pending = _pending(world, lambda row: (row.queue, row.concurrency_key))
    claimed = _claimed_from(world)
    for queue in rules.in_turn:
        waiting = [span for span in pending if span.start.after.queue == queue]
        since = defaultdict(Counter)    # waiting key: jobs that the other keys have had since its last one
        contested, thirds = 0, []
        for claim, beside in _beside(claimed[queue], waiting):
            served = (claim.before or claim.after).concurrency_key
            for key in set(since) - {span.start.after.concurrency_key for span in beside} | {served} & set(since):
                del since[key]
            keys = {span.start.after.concurrency_key for span in _asked_for(claim, beside)} - {served}
            for key in keys:
                since[key][served] += 1
            contested += bool(keys)
            if any(since[key][served] > 2 for key in keys):
                thirds.append(claim.change.row.id)
        report.counts["claims while another key waited"] += contested
        report.counts["third jobs of a key while another waited"] += len(thirds)
        if len(thirds) > 10 and len(thirds) > contested / 10:
            report.add("turns skipped", f"{len(thirds)} of {contested} claims from {queue} were a key's third one or later"
                       f" while another key waited, the first job {thirds[0]}")
