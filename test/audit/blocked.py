"""The laws about blocked jobs: jobs that wait for the head of their group, and jobs that wait for their dependencies."""

import json
from collections import defaultdict

from world import COMPLETES, FINISHED, SERVER

from jobq.audit.life import is_before


def is_head(job, rules):
    """In a queue whose groups halt, a failed job stays the head until a skip moves it to the dead letter queue."""
    if job is None or job.group_key is None:
        return False
    return job.status not in FINISHED | {"blocked"} or (job.status == "failed" and job.queue in rules.halting)


# Groups

def groups(world, rules, report):
    active = defaultdict(list)
    for span in world.spans(lambda step: is_head(step.after, rules), lambda span, step: is_head(step.after, rules)):
        # A job that was the head only inside one transaction was never visible. For example, jobq_redrive moves and then retries a job.
        if span.end is not None and span.end.change.commit == span.start.change.commit:
            continue
        row = span.start.after
        active[row.queue, row.group_key].append(span)
    waiting = defaultdict(list)
    for span in world.spans(lambda step: step.after and step.after.group_key is not None and step.after.status == "blocked",
                            lambda span, step: step.after and step.after.status == "blocked"):
        row = span.start.after
        waiting[row.queue, row.group_key].append(span)
    for group, spans in active.items():
        _in_order(world, group, spans, waiting[group], rules, report)
    report.counts["jobs in groups"] = sum(len(spans) for spans in active.values())


def _in_order(world, group, active, waiting, rules, report):
    """A transaction that unblocks a job has seen the end of its predecessor, and so all jobs that were visible before that."""
    was_blocked = {span.end: span for span in waiting if span.end is not None}
    ended = None        # the latest end of an active job of the group
    for number, span in enumerate(active):
        start = span.start.change
        own = was_blocked.get(span.start)
        if own is None:
            continue
        ends = [other.end for other in active[:number] if other.end is not None and not other.covers(start)]
        ended = max(ends, key=lambda end: end.change.place, default=None)
        last_thing = max([own.start.change.place] + [end.change.place for end in (ended,) if end])
        waits = [own.start.change.time] + [end.change.time for end in (ended,) if end]
        if not _depends(world, span.job):
            delay = start.time - max(waits)
            _left_waiting(delay, "group", span.job, rules, report)
        for other in waiting:
            if other.job >= span.job or _depends(world, other.job) or not other.covers(start):
                continue
            seen = world.seen_from(other.start.change)
            if seen is not None and seen[0] <= last_thing:
                report.add("group order", f"job {span.job} of {group} was let go before job {other.job}")


def _left_waiting(delay, what, job, rules, report, named=None):
    name = f"longest wait after the last of the {what} (ms)"
    report.counts[name] = max(report.counts[name], round(delay * 1000))
    if delay > rules.promised + rules.busy:
        report.add("left waiting", f"job {job} was let go {delay:.2f} s after the last of its {named or what}")


# Dependencies

def _detail(fact):
    return json.loads(fact.row.detail)


def _depends(world, job):
    fact = world.enqueued.get(job)
    return _detail(fact).get("depends_on", ()) if fact else ()


def _outcomes(world, job, change):
    """How a job had ended by the time `change` was written, if it had: completed, failed, cancelled, or deleted."""
    found = {}
    for step in world.history.get(job, ()):
        at = step.change
        if not is_before(at, change):
            continue
        before, after = step.statuses()
        if after is None and COMPLETES & world.ops.get(at.xid, set()) and before == "processing":
            found.setdefault("completed", at)
        elif after is None:
            found.setdefault("deleted", at)
        elif after in FINISHED:
            found.setdefault(after, at)
    return found


def _periods_behind(world, need, change, anyway):
    """The periods before `change` in which a job did not block its dependents. A retried job blocks them again."""
    periods, since = [], None
    for step in world.history.get(need, ()):
        at = step.change
        if not is_before(at, change):
            continue
        before, after = step.statuses()
        completed = after == "completed" or after is None and (
            since is not None or before == "processing" and COMPLETES & world.ops.get(at.xid, set()))
        behind = completed or anyway and (after is None or after in FINISHED)
        if behind and since is None:
            since = at.time
        elif not behind and since is not None:
            periods.append((since, at.time))
            since = None
    return periods + ([(since, change.time)] if since is not None else [])


def _overlaps(some, others):
    found = [(max(a, c), min(b, d)) for a, b in some for c, d in others]
    return [(begin, end) for begin, end in found if begin < end]


def dependencies(world, rules, report):
    for job, fact in world.enqueued.items():
        needs = _depends(world, job)
        if not needs:
            continue
        anyway = _detail(fact).get("on_dependency_failure") == "run"
        for step in world.history[job]:
            before, after = step.statuses()
            if before in FINISHED:
                break   # a manual retry overrides the dependencies
            if before != "blocked" or after == "blocked" or after is None:
                continue
            outcomes = {need: _outcomes(world, need, step.change) for need in needs}
            if step.expires():
                continue
            if after == "cancelled":
                if SERVER in (world.ops.get(step.change.xid) or {SERVER}):
                    bad = [need for need, found in outcomes.items() if found.keys() - {"completed"}]
                    if anyway or not bad:
                        report.add("dependency ignored", f"job {job} was cancelled, its dependencies: {_words(outcomes)}")
                    report.counts["cancelled with a dependency"] += 1
                continue
            for need, found in outcomes.items():
                if not ("completed" in found or (anyway and found)):
                    report.add("dependency ignored", f"job {job} became {after} before job {need}: {_words(outcomes)}")
            report.counts["let go after their dependencies"] += 1
            if step.after.group_key is None:
                free = [(fact.time, step.change.time)]
                for need in needs:
                    free = _overlaps(free, _periods_behind(world, need, step.change, anyway))
                delay = max((end - begin for begin, end in free), default=0)
                what = f"dependencies {', '.join(f'(job {need})' for need in needs)}"
                _left_waiting(delay, "dependencies", job, rules, report, what)


def _words(outcomes):
    return {need: sorted(found) for need, found in outcomes.items()}
