"""The changes that the witness saw, arranged for the laws: lives of jobs, leases, and settings in force.

Nothing is judged here. All comparisons are comparisons of positions in the server's log.
"""

from bisect import bisect_left
from collections import defaultdict

from witness import Attempt, Fact, Job, KindSetting, Limit, NamedLimit, seconds

from jobq.audit.life import COMPLETES, EXECUTOR, FINISHED, SERVER, WAITING, Settings, Span, Step, array, is_before

__all__ = ["COMPLETES", "EXECUTOR", "FINISHED", "SERVER", "WAITING", "Settings", "Span", "Step", "World"]


class World:
    """The changes, arranged for the laws."""

    def __init__(self, changes):
        self.facts, self.attempts, self.steps = [], [], []
        self.kinds, self.limits, self.named_limits = [], [], []
        self.ops = defaultdict(set)             # xid: the operations in its facts
        self.told = defaultdict(list)           # xid: its facts
        self.history = defaultdict(list)        # job: its steps
        self.clients = defaultdict(list)        # client: its facts
        self.begun = {}                         # xid: the position of its first change
        last = {}
        for change in changes:
            row = change.row
            self.begun.setdefault(change.xid, change.place)
            if isinstance(row, Job):
                step = Step(last.get(row.id), change)
                last[row.id] = step.after
                self.steps.append(step)
                self.history[row.id].append(step)
            elif isinstance(row, Fact):
                self.facts.append(change)
                self.ops[change.xid].add(row.op)
                self.told[change.xid].append(change)
                self.clients[row.client].append(change)
            elif isinstance(row, Attempt):
                self.attempts.append(change)
            elif isinstance(row, KindSetting):
                self.kinds.append(change)
            elif isinstance(row, Limit):
                self.limits.append(change)
            elif isinstance(row, NamedLimit):
                self.named_limits.append(change)
        for job, steps in list(self.history.items()):
            # Deleted before another session could see it: an enqueue found that its key had been freed and kept in the meantime.
            if steps[0].change.xid == steps[-1].change.xid and steps[-1].after is None:
                del self.history[job], last[job]
                self.steps = [step for step in self.steps if step.change.row.id != job]
        self.last = last
        # How each job was created. Later calls may have found it by its unique key and recorded the same.
        self.enqueued = {}
        for fact in self.facts:
            job = fact.row.job
            if fact.row.op == "enqueue" and job in self.history and self.history[job][0].change.xid == fact.xid:
                self.enqueued.setdefault(job, fact)

    def named_limits_of(self, row):
        """The names of the limits that apply to a job. The queues that share a limit do not change during a run."""
        names = array(row.limits)
        return sorted({limit.row.name for limit in self.named_limits
                       if limit.row.name in names and row.queue in array(limit.row.queues)})

    def spans(self, begins, goes_on):
        """The spans of each job, from a step for which begins() holds until a step after which goes_on() does not."""
        found = []
        for job, steps in self.history.items():
            span = None
            for step in steps:
                if span is not None and not goes_on(span, step):
                    span.end, span = step, None
                if span is None and begins(step):
                    span = Span(job, step)
                    found.append(span)
        found.sort(key=lambda span: span.start.change.place)
        return found

    def leases(self):
        """The spans from each claim until the end of its lease."""
        return self.spans(lambda step: step.after and step.after.status == "processing",
                          lambda span, step: step.after and step.after.status == "processing"
                          and step.after.lease == span.start.after.lease)

    def is_handled(self, span):
        """Whether the lease belongs to an executor, which has no clock and whose facts are written only by handlers."""
        return span.start.after.worker_id == EXECUTOR

    def claims(self):
        """Each lease with the time at which the statement that claimed it reached the server, if that is known."""
        asked = {(fact.xid, fact.row.job): seconds(fact.row.asked) for fact in self.facts if fact.row.op == "claim"}
        for span in self.leases():
            yield span, asked.get((span.start.change.xid, span.job))

    def state_at(self, job, change):
        """The version of a job that is committed, or that its own transaction has written, when `change` is written."""
        state = None
        for step in self.history.get(job, ()):
            if is_before(step.change, change):
                state = step.after
        return state

    def seen_from(self, change):
        """When the transaction of `change` was visible to all: position and time of the next transaction of its client."""
        for fact in self.told.get(change.xid, ())[:1]:
            facts = self.clients[fact.row.client]
            for later in facts[bisect_left(facts, change.commit, key=lambda fact: fact.place):]:
                if later.xid != change.xid:
                    return self.begun[later.xid], seconds(later.row.at)
        return None

    def known_to(self, change, xid):
        """Whether the transaction of `change` had certainly ended when a client sent the request for what `xid` did."""
        asking, telling = self.told.get(xid, ())[:1], self.told.get(change.xid, ())[:1]
        if asking and telling and asking[0].row.client == telling[0].row.client:
            return change.commit < self.begun[xid]
        seen = self.seen_from(change)
        return bool(seen and asking) and seen[1] < min(seconds(fact.row.asked) for fact in self.told[xid])
