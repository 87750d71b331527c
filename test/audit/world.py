"""The changes that the witness saw, arranged for the laws: lives of jobs, leases, and settings in force.

Nothing is judged here. All comparisons are comparisons of positions in the server's log.
"""

from bisect import bisect_left
from collections import defaultdict

import statuses
from witness import Attempt, Fact, Job, KindSetting, Limit, NamedLimit, Setting, seconds

FINISHED = set(statuses.FINISHED)
WAITING = set(statuses.WAITING)
COMPLETES = {"complete", "effect"}   # facts of a client and of a handler in the transaction that completes a job
EXECUTOR = "backend:executor"   # the worker id of all executors
SERVER = "the server"   # a transaction without facts: the background worker or jobq_tick()


class Step:
    """A change of a job from one version to the next."""

    __slots__ = ("before", "after", "change")

    def __init__(self, before, change):
        self.before = before                                    # Job or None
        self.after = None if change.deleted else change.row     # Job or None
        self.change = change

    def statuses(self):
        return (self.before.status if self.before else None), (self.after.status if self.after else None)

    def expires(self):
        """Whether jobq cancels the job because no worker has claimed it before its expires_at."""
        before, after = self.statuses()
        return before in WAITING and self.before.expires_at is not None and after == "cancelled" and self.after.error == "expired"


class Span:
    """A period from one step to another: it begins when the first is written and ends when the second has been committed."""

    __slots__ = ("job", "start", "end")

    def __init__(self, job, start):
        self.job = job
        self.start = start      # Step
        self.end = None         # Step or None

    def covers(self, change):
        """Whether the span includes the moment at which `change` is written. For the transaction that ends it, it ends at once."""
        if self.start.change.place >= change.place:
            return False
        if self.end is None:
            return True
        end = self.end.change
        return not (end.commit < change.place or (end.xid == change.xid and end.place < change.place))


class World:
    """The changes, arranged for the laws."""

    def __init__(self, changes):
        self.facts, self.attempts, self.steps, self.settings = [], [], [], []
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
            elif isinstance(row, Setting):
                self.settings.append(change)
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
        names = (row.limits or "{}")[1:-1].split(",")
        return sorted({limit.row.name for limit in self.named_limits
                       if limit.row.name in names and row.queue in limit.row.queues[1:-1].split(",")})

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
            if step.change.commit < change.place or (step.change.xid == change.xid and step.change.place < change.place):
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


class Settings:
    """The values that something had, and which of them a statement may have seen."""

    def __init__(self, initial):
        self.values = [((0, 0), initial, None)]    # (commit, value, when it was certainly in force, in seconds, or None)

    def add(self, change, value, in_force):
        self.values.append((change.commit, value, in_force))
        self.values.sort(key=lambda entry: entry[0])

    def possible(self, place, asked):
        """The values that may have applied to a statement that reached the server at `asked` and wrote at position `place`."""
        found = []
        for commit, value, in_force in reversed(self.values):
            if commit < place:
                found.append(value)
                if in_force is not None and asked is not None and in_force < asked:
                    break
        return found
