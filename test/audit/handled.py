"""The laws of handlers: a job that a handler has completed has exactly one effect, and an attempt that did not complete has none.

The effect is a fact that the handler writes, as `effect`, in its transaction. `effects` and `losses` judge each change that the
witness saw; `judge` judges the rows at the end of a run in which servers were killed and no witness was running.
"""

from collections import Counter

LEASES_OF_EXECUTOR = 2      # the lease of its job, and the lease of the next job, which it claims in the same transaction


def _completed(step):
    return step.after is None or step.after.status == "completed"


def effects(world, rules, report):
    written = Counter((fact.xid, fact.row.job, fact.row.lease) for fact in world.facts if fact.row.op == "effect")
    for span in world.leases():
        if not world.is_handled(span) or span.end is None:
            continue
        lease = span.start.after.lease
        count = written.pop((span.end.change.xid, span.job, lease), 0)
        if _completed(span.end) and count != 1:
            report.add("effects", f"job {span.job} lease {lease} was completed with {count} effects")
        elif not _completed(span.end) and count:
            report.add("effects", f"job {span.job} lease {lease} ended {span.end.after.status} with {count} effects")
        report.counts["completed by handlers"] += _completed(span.end)
        report.counts["handlers that did not complete"] += not _completed(span.end)
    for (_, job, lease), count in written.items():
        report.add("effects", f"job {job} lease {lease}: {count} effects in a transaction that did not end it")


def losses(world, rules, report):
    """A lease of an executor is lost only with the process of the executor."""
    handled = {(span.job, span.start.after.lease) for span in world.leases() if world.is_handled(span)}
    lost = [change.row.job_id for change in world.attempts
            if change.row.outcome == "lost" and (change.row.job_id, change.row.lease) in handled]
    if len(lost) > LEASES_OF_EXECUTOR * rules.executors_lost:
        report.add("robbed", f"{len(lost)} leases of executors were lost, and {rules.executors_lost} of these ended, the first of job {lost[0]}")
    report.counts["lost with executors"] = len(lost)


def judge(jobs, written, attempts):
    """What is wrong at the end of a run, as texts. jobs: (id, status); written: (job, lease) of each effect; attempts: (job, lease) of
    each attempt that did not complete."""
    found = []
    count = Counter(job for job, _ in written)
    for job, status in jobs:
        if status != "completed":
            found.append(f"job {job} is {status}")
        elif count[job] != 1:
            found.append(f"job {job} is completed with {count[job]} effects")
    found += [f"an effect of job {job}, which there is not" for job in count.keys() - {job for job, _ in jobs}]
    found += [f"an effect of lease {lease} of job {job}, which did not complete it" for job, lease in set(written) & set(attempts)]
    return found
