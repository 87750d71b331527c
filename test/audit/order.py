"""The laws about who is next: of all jobs of a queue, and of its keys where they take turns.

Claims pass over a job that somebody holds, and the key of one that is rolled back has been served. Neither is on record. So these
laws allow for moments: a violation is what happens again and again.
"""

from collections import Counter, defaultdict

from witness import seconds
from world import EXECUTOR

MANY = 20       # claims


def _pending(world, same):
    """From each job's becoming pending until it is not, or is not the same() any more."""
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
    """Each claim with those of the spans that had been committed when it was written, and had not been touched."""
    going, upcoming = [], 0
    for claim in claims:
        place = claim.change.place
        while upcoming < len(spans) and spans[upcoming].start.change.place < place:
            going.append(spans[upcoming])
            upcoming += 1
        going = [span for span in going if span.end is None or span.end.change.place > place]
        yield claim, [span for span in going if span.start.change.commit < place]


def _asked_for(claim, spans):
    """Those that the claim would have taken, too: an executor asks for the kind of its handler only."""
    if claim.after.worker_id != EXECUTOR:
        return spans
    return [span for span in spans if span.start.after.kind == claim.after.kind]


def overtaken(world, rules, report):
    """A job with a key may have to wait for its limit. Where keys take turns, each has an order of its own."""
    limited = {change.row.queue for change in world.limits if change.row.key}
    pending = _pending(world, lambda row: place(row, rules))
    passed = defaultdict(list)
    for queue, claims in _claimed_from(world).items():
        waiting = [span for span in pending if span.start.after.queue == queue
                   and (span.start.after.concurrency_key is None or queue not in limited)]
        for claim, waits in _beside(claims, waiting):
            beside = _asked_for(claim, waits)
            job, own = claim.before, place(claim.before, rules)
            if own is None:
                continue    # no job that could be claimed: that is for another law
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
    """Where a pending job stands in the order of claims. Two jobs grow older equally fast: so ageing only moves them once."""
    if row is None or row.status != "pending":
        return None
    ready = seconds(row.run_at)
    if row.queue in rules.ageing:
        return ready + row.priority * rules.ageing[row.queue], row.priority, row.id
    return row.priority, ready, row.id


def turns(world, rules, report):
    """Between two jobs of a key every other key that has jobs gets one. Jobs without a key are one party among the keys.

    What is not on record makes a key wait for a second job of another one now and then, so single claims cannot be judged.
    But third ones are rare; where keys do not take turns at all, every third claim is one.
    """
    pending = _pending(world, lambda row: (row.queue, row.concurrency_key))
    claimed = _claimed_from(world)
    for queue in rules.in_turn:
        waiting = [span for span in pending if span.start.after.queue == queue]
        since = defaultdict(Counter)    # key that waits: jobs that the others have had since its last one
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
