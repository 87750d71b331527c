"""What the laws know: the state of the unfinished jobs, the leases, and how jobs have ended, updated with each transaction.

The memory is bounded: finished jobs, and facts that no open transaction can contradict, are forgotten. Forgetting can hide a violation but
never causes a false report.
"""

from __future__ import annotations

from typing import Any, Callable, Dict, Iterable, List, NamedTuple, Optional, Sequence, Set

from .life import EXECUTOR, FINISHED, WAITING, Recent, Span, Step, is_before, seconds
from .rows import START, UNCHANGED, Change, Job, Place

MOST_JOBS = 200_000        # unfinished jobs
MOST_ENDED = 100_000       # finished jobs, and ended leases
MOST_REPORTED = 10_000
GRACE = 10.0               # seconds after a commit in which a statement that began before it can still be going on


class Violation(NamedTuple):
    law: str
    job: Optional[int]
    text: str
    changes: Sequence[Change]   # the rows that contradict each other


class Knowledge:
    """What the auditor cannot read from the changes. The tests of jobq know more, from what their clients have recorded."""

    def in_force(self, change: Change) -> Optional[float]:
        """Returns the time in seconds after which every new statement obeys the changed setting, or None if it is unknown."""
        return change.time + GRACE

    def asked(self, span: Span) -> Optional[float]:
        """When the statement that claimed the job had reached the server."""
        return seconds(span.start.after.started_at) if span.start.after and span.start.after.started_at else None

    def is_halted(self, job: Job) -> bool:
        """Whether the failed job halts its group."""
        return job.group_active is not None


class Transaction:
    """A committed transaction: its rows, and what they mean."""

    def __init__(self, changes: Sequence[Change]) -> None:
        self.changes = changes
        self.xid, self.commit, self.time = changes[0].xid, changes[0].commit, changes[0].time
        self.steps: List[Step] = []
        self.begun: List[Span] = []   # leases
        self.ended: List[Span] = []

    def rows(self, kind: Any) -> List[Change]:
        return [change for change in self.changes if isinstance(change.row, kind)]


class End(NamedTuple):
    status: str   # or "deleted"
    change: Change
    first: bool   # the job had certainly not ended before


class Book:
    def __init__(self, knowledge: Optional[Knowledge] = None, on_violation: Optional[Callable[[Violation], None]] = None,
                 complete: bool = False, most_jobs: int = MOST_JOBS) -> None:
        """`complete`: the changes begin with an empty table, so that a job without an earlier change did not exist."""
        self.knowledge = knowledge or Knowledge()
        self.complete = complete
        self.most_jobs = most_jobs
        self.jobs: Dict[int, Change] = {}     # the last versions of unfinished jobs, and of failed jobs that halt their groups
        self.spans: Dict[int, Span] = {}      # the current leases
        self.fresh: Set[int] = set()          # unfinished jobs that have certainly not ended before
        self.ended = Recent(MOST_ENDED)       # job: its End
        self.horizon: Place = START           # position before which no unread transaction has written anything
        self.forgotten = 0
        self.on_violation = on_violation
        self._reported = Recent(MOST_REPORTED)
        self._written: Dict[int, Change] = {}   # the last versions that the current transaction has written, also of finished jobs

    # Reading

    def begin(self, changes: Iterable[Change]) -> List[Span]:
        """Takes over the committed state at the start. Returns the leases that are held."""
        for change in changes:
            row: Job = change.row
            self.jobs[row.id] = change
            if row.status == "processing":
                self.spans[row.id] = Span(row.id, Step(None, change))
        return list(self.spans.values())

    def read(self, changes: Sequence[Change]) -> Transaction:
        """Updates the book with a committed transaction."""
        transaction = Transaction(changes)
        self._written.clear()
        for change in changes:
            if isinstance(change.row, Job):
                transaction.steps.append(self._step(change))
        self._drop_taken_back(transaction)
        for step in transaction.steps:
            self._follow(step, transaction)
        return transaction

    def _step(self, change: Change) -> Step:
        job = change.row.id
        last = self._written.get(job) or self.jobs.get(job)
        before: Optional[Job] = last.row if last and not last.deleted else None
        known = True
        if last is None:
            end: Optional[End] = self.ended.get(job)
            if end is not None and end.status != "deleted" and not change.inserted:
                before = Job(id=job, status=end.status)
            known = before is not None or change.inserted or self.complete
        if UNCHANGED in change.row:
            change = change._replace(row=_filled(change.row, before))
        self._written[job] = change
        step = Step(before, change, known)
        after = step.after
        if after is not None and (after.status not in FINISHED or after.status == "failed" and self.knowledge.is_halted(after)):
            self.jobs[job] = change
            if before is None and known:
                self.fresh.add(job)
            elif before is None or before.status in FINISHED:
                self.fresh.discard(job)
        else:
            self.jobs.pop(job, None)
        self._note_end(step)
        return step

    def _note_end(self, step: Step) -> None:
        before, after = step.before, step.after
        job = step.change.row.id
        if after is not None and after.status not in FINISHED:
            self.ended.discard(job)
        elif after is not None and (before is None or before.status not in FINISHED):
            self.ended.add(job, End(after.status, step.change, job in self.fresh))
        elif after is not None:
            end = self.ended.get(job)
            if end is not None and end.status != after.status:
                self.ended.add(job, End(after.status, end.change, False))
        elif before is not None and before.status not in FINISHED:
            status = "completed" if before.status == "processing" else "deleted"
            self.ended.add(job, End(status, step.change, job in self.fresh))
        if after is None or after.status in FINISHED:
            self.fresh.discard(job)

    def _drop_taken_back(self, transaction: Transaction) -> None:
        """A job that its own transaction inserts and deletes never existed: an enqueue found that its key was taken in the meantime."""
        steps = transaction.steps
        new = {step.change.row.id for step in steps if step.before is None and step.known}
        gone = {step.change.row.id for step in steps if step.after is None} & new
        if gone:
            last = {step.change.row.id: step for step in steps}
            gone = {job for job in gone if last[job].after is None}
            transaction.steps = [step for step in steps if step.change.row.id not in gone]

    def _follow(self, step: Step, transaction: Transaction) -> None:
        """Ends and begins leases."""
        job = step.change.row.id
        runs = step.after is not None and step.after.status == "processing"
        span = self.spans.get(job)
        if span is not None and not (runs and step.after and step.after.lease == span.lease):
            span.end = step
            transaction.ended.append(span)
            del self.spans[job]
            span = None
        if runs and span is None:
            span = self.spans[job] = Span(job, step)
            transaction.begun.append(span)

    def forget(self) -> None:
        """Keeps the number of jobs within its limit: first forgets those that have waited for longest."""
        excess = len(self.jobs) - self.most_jobs
        if excess > self.most_jobs // 20:
            for job in [job for job, change in self.jobs.items() if change.row.status in WAITING][:excess]:
                del self.jobs[job]
                self.fresh.discard(job)
                self.forgotten += 1

    # Questions of the laws

    def blocks(self, job: int, change: Change) -> Optional[Change]:
        """The version of the job that shows that it had certainly never ended when `change` was written, or None."""
        if job in self.fresh:
            return self.jobs[job]
        end: Optional[End] = self.ended.get(job)
        if end is not None and end.first and not is_before(end.change, change):
            return end.change
        return None

    def unsuccessful(self, job: int) -> Optional[Change]:
        """The end of a job that has certainly ended only once, without completing, or None."""
        end: Optional[End] = self.ended.get(job)
        return end.change if end is not None and end.first and end.status != "completed" else None

    @staticmethod
    def is_handled(span: Span) -> bool:
        """Whether the lease belongs to an executor."""
        return span.start.after is not None and span.start.after.worker_id == EXECUTOR

    def report(self, law: str, job: Optional[int], text: str, *changes: Change) -> None:
        """Reports a violation, once for the change that comes first."""
        key = law, job, changes[0].place, changes[0].xid
        if self._reported.get(key):
            return
        self._reported.add(key)
        if self.on_violation is not None:
            self.on_violation(Violation(law, job, text, changes))


def _filled(row: Job, before: Optional[Job]) -> Job:
    """Replaces values that the update has not changed with those of the previous version, or with NULL if it is not known."""
    return row._replace(**{name: getattr(before, name) if before else None
                           for name, value in zip(row._fields, row) if value is UNCHANGED})
