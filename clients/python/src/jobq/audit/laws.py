"""The laws that every history of jobq's tables must obey, judged one committed transaction after another.

A law is a statement about the order of changes in the server's WAL, so it depends on no clock except where a time is part of the promise.
`docs/guides/audit.md` describes each law.
"""

from __future__ import annotations

from typing import Callable, Dict, Iterable, List, Optional, Sequence, Tuple

from .book import Book, Knowledge, Transaction, Violation
from .groups import Groups
from .life import FINISHED, OTHER_TRANSITIONS, REMEMBERED, TRANSITIONS, WAITING, Recent, Settings, Span, interval, seconds
from .limits import Limits
from .rows import Attempt, Batch, Change, Edge, Job, Place, SavedStep, Schedule, Setting, Truncation

LAWS = {
    "impossible step": "changes of status that no function and no duty makes",
    "lease issued twice": "one lease in two claims, or a job claimed while its lease was held",
    "stale lease accepted": "completions with a lease that was not the current one",
    "unexplained lease": "leases that ended without a row in jobq.attempts, or rows there about leases that did not end",
    "robbed": "leases that were lost before they expired",
    "expiry": "jobs that were claimed after their expires_at",
    "key doubled": "two unfinished jobs with one unique key, or unfinished jobs that lack their key",
    "paused": "claims from a paused queue",
    "limit exceeded": "claims beyond a limit",
    "group crowded": "two jobs of one group that were active at the same time",
    "halt ignored": "jobs of a halted group that were unblocked while its head was failed",
    "dependency ignored": "jobs that were unblocked before their dependencies had ended",
    "batch": "batches that ended twice, before all their jobs had ended, or before they were sealed, or that jobs joined after that",
    "step repeated": "saved steps that were changed, or that were saved by a job without a lease",
    "schedule fired twice": "two jobs of a schedule for one time",
}


class Auditor:
    """Reads transactions in the order of their commits."""

    def __init__(self, knowledge: Optional[Knowledge] = None, on_violation: Optional[Callable[[Violation], None]] = None,
                 complete: bool = False, laws: Optional[Iterable[str]] = None, most_jobs: Optional[int] = None) -> None:
        self.counts: Dict[str, int] = dict.fromkeys(LAWS, 0)
        self._on_violation = on_violation
        self._wanted = frozenset(LAWS if laws is None else laws)
        self._start(Book(knowledge, self._note, complete, **({} if most_jobs is None else {"most_jobs": most_jobs})))

    def _start(self, book: Book) -> None:
        self.book = book
        self.pauses = _Pauses(self.book)
        self.groups, self.limits, self.leases = Groups(self.book), Limits(self.book), _Leases(self.book)
        self.keys, self.edges, self.batches = _Keys(self.book), _Edges(self.book), _Batches(self.book)
        self.steps, self.schedules = _SavedSteps(self.book), _Schedules(self.book)
        self.laws: Tuple[Callable[[Transaction], None], ...] = (
            self.pauses.judge, self._transitions, self._expiry, self.leases.judge, self.limits.judge, self.groups.judge,
            self.keys.judge, self.edges.judge, self.batches.judge, self.steps.judge, self.schedules.judge)

    def begin(self, changes: Sequence[Change]) -> None:
        """Takes over the rows that were committed at the start."""
        spans = self.book.begin(change for change in changes if isinstance(change.row, Job))
        for law in (self.pauses, self.groups, self.limits, self.leases, self.keys, self.batches, self.schedules):
            law.begin(changes, spans)

    def read(self, changes: Sequence[Change]) -> Transaction:
        """Judges the changes of one transaction, in the order in which they were written. After a TRUNCATE of one of jobq's tables, begins
        again without knowing any row."""
        last = max((number for number, change in enumerate(changes) if isinstance(change.row, Truncation)), default=None)
        if last is not None:
            self._start(Book(self.book.knowledge, self._note, most_jobs=self.book.most_jobs))
            changes = changes[last:]
        transaction = self.book.read(changes)
        for law in self.laws:
            law(transaction)
        return transaction

    def forget(self, horizon: Place) -> None:
        """Forgets facts that matter only before `horizon`. Every unread transaction has written all of its changes at or after `horizon`."""
        self.book.horizon = horizon
        self.book.forget()
        for law in (self.groups, self.limits, self.keys, self.edges, self.steps):
            law.forget()

    def _note(self, violation: Violation) -> None:
        if violation.law in self._wanted:
            self.counts[violation.law] += 1
            if self._on_violation is not None:
                self._on_violation(violation)

    def _transitions(self, transaction: Transaction) -> None:
        for step in transaction.steps:
            before, after = step.statuses()
            job = step.change.row.id
            # Plain SQL may insert a job with any status.
            if before is not None and (before, after) not in TRANSITIONS and (before, after) not in OTHER_TRANSITIONS and not step.expires():
                self.book.report("impossible step", job, f"job {job}: {before} became {after}", step.change)
            if step.after and (step.after.lease is not None) != (after == "processing"):
                self.book.report("impossible step", job, f"job {job}: {after} with lease {step.after.lease}", step.change)

    def _expiry(self, transaction: Transaction) -> None:
        """No claim takes a job after its expires_at, and no job expires earlier."""
        for step in transaction.steps:
            before, after = step.before, step.after
            if before is None or after is None or before.expires_at is None or before.status not in WAITING:
                continue
            due = seconds(before.expires_at)
            if after.status == "processing" and after.started_at is not None and seconds(after.started_at) >= due:
                late = seconds(after.started_at) - due
                self.book.report("expiry", after.id, f"job {after.id} was claimed {late:.3f} s after its expires_at", step.change)
            elif step.expires() and step.change.time < due:
                early = due - step.change.time
                self.book.report("expiry", after.id, f"job {after.id} expired {early:.3f} s before its expires_at", step.change)


class _Leases:
    """A job has one lease at a time, no lease is issued twice, and every lease that ends without a completion leaves one attempt."""

    def __init__(self, book: Book) -> None:
        self.book = book
        self.issued = Recent(100_000)   # lease: the claim

    def begin(self, changes: Sequence[Change], spans: Sequence[Span]) -> None:
        for span in spans:
            self.issued.add(span.lease, span.start.change)

    def judge(self, transaction: Transaction) -> None:
        report = self.book.report
        for span in transaction.begun:
            step, lease = span.start, span.lease
            if step.before and step.before.status == "processing":
                report("lease issued twice", span.job, f"job {span.job} went from lease {step.before.lease} to {lease}", step.change)
            elif self.issued.get(lease) is not None:
                report("lease issued twice", span.job, f"job {span.job} got lease {lease}, which had been issued before",
                       self.issued.get(lease), step.change)
            self.issued.add(lease, step.change)
        rows: Dict[Tuple[int, int], List[Change]] = {}
        for change in transaction.rows(Attempt):
            rows.setdefault((change.row.job_id, change.row.lease), []).append(change)
        for span in transaction.ended:
            if span.end is not None:
                self._judge_end(span, rows.pop((span.job, span.lease or 0), []))
        for (job, lease), attempts in rows.items():
            outcomes = [change.row.outcome for change in attempts]
            report("unexplained lease", job, f"job {job}: jobq.attempts has rows {outcomes} for lease {lease}, but this transaction did not end the lease", *attempts)

    def _judge_end(self, span: Span, attempts: List[Change]) -> None:
        assert span.end is not None and span.end.before is not None
        end, before, after = span.end, span.end.before, span.end.after
        outcomes = [change.row.outcome for change in attempts]
        name, changes = f"job {span.job} lease {span.lease}", (span.start.change, end.change, *attempts)
        completed = after is None or after.status == "completed"
        if after is not None and after.status == "processing":
            return   # the next lease is the violation
        if len(outcomes) != (0 if completed else 1):
            self.book.report("unexplained lease", span.job, f"{name} ended with status {end.statuses()[1]} and the attempts {outcomes}", *changes)
        elif completed:
            if after is not None and after.completed_lease not in (None, span.lease):
                self.book.report("stale lease accepted", span.job, f"{name} was completed with lease {after.completed_lease}", *changes)
        elif after is not None:
            if (outcomes[0], after.status) in {("failed", "cancelled"), ("cancelled", "failed")}:
                self.book.report("unexplained lease", span.job, f"{name}: {outcomes[0]}, and the job is {after.status}", *changes)
            if outcomes[0] == "lost" and not self.book.is_handled(span) and before.last_heartbeat is not None:
                silent = end.change.time - seconds(before.last_heartbeat)
                if silent < interval(before.lease_timeout):
                    self.book.report("robbed", span.job, f"{name} was taken away {silent:.3f} s after the last heartbeat", *changes)


class _Keys:
    """No committed state contains two unfinished jobs with the same key."""

    def __init__(self, book: Book) -> None:
        self.book = book
        self.holders: Dict[Tuple[str, Optional[str]], Dict[int, Change]] = {}
        self.keys: Dict[int, Tuple[str, Optional[str]]] = {}   # job: the key that it holds

    def begin(self, changes: Sequence[Change], spans: Sequence[Span]) -> None:
        for change in changes:
            if isinstance(change.row, Job) and change.row.holds_key:
                self._take(change)

    def judge(self, transaction: Transaction) -> None:
        for step in transaction.steps:
            job, before, after = step.change.row.id, step.before, step.after
            self._release(job)
            if after and after.holds_key:
                self._take(step.change)
            elif after and after.unique_key and after.status not in FINISHED and step.known and (
                    before is None or before.holds_key and after.status != "processing"):
                self.book.report("key doubled", job, f"job {job} is {after.status} without its key {after.unique_key}", step.change)
        for job in {step.change.row.id for step in transaction.steps}:   # at the end, when an earlier holder may have given up its key
            key = self.keys.get(job)
            others = [other for other in self.holders.get(key, {}) if other != job] if key else []
            if key and others:
                held = self.holders[key]
                self.book.report("key doubled", job, f"job {job} has the key {key}, which jobs {others} also have", held[job], *(held[other] for other in others))

    def forget(self) -> None:
        if len(self.keys) > len(self.book.jobs):
            for job in [job for job in self.keys if job not in self.book.jobs]:
                self._release(job)

    def _take(self, change: Change) -> None:
        key = change.row.queue, change.row.unique_key
        self.keys[change.row.id] = key
        self.holders.setdefault(key, {})[change.row.id] = change

    def _release(self, job: int) -> None:
        key = self.keys.pop(job, None)
        if key is not None:
            del self.holders[key][job]
            if not self.holders[key]:
                del self.holders[key]


class _Pauses:
    """A claim obeys the pauses of its queue."""

    def __init__(self, book: Book) -> None:
        self.book = book
        self.paused: Dict[str, Settings] = {}

    def begin(self, changes: Sequence[Change], spans: Sequence[Span]) -> None:
        for change in changes:
            if isinstance(change.row, Setting):
                self._add(change, float("-inf"))

    def judge(self, transaction: Transaction) -> None:
        for change in transaction.rows(Setting):
            self._add(change, self.book.knowledge.in_force(change))
        for span in transaction.begun:
            change, row = span.start.change, span.start.after
            paused = self.paused.get(row.queue) if row else None
            if paused is not None and row is not None and all(paused.possible(change.place, self.book.knowledge.asked(span))):
                self.book.report("paused", span.job, f"job {span.job} was claimed from {row.queue}", change)

    def _add(self, change: Change, in_force: Optional[float]) -> None:
        paused = self.paused.setdefault(change.row.queue, Settings(False))
        paused.add(change, change.row.paused and not change.deleted, in_force)
        paused.forget(change.time - REMEMBERED)


class _Edges:
    """No job is unblocked before its dependencies have ended, or although one of them has not completed."""

    def __init__(self, book: Book) -> None:
        self.book = book
        self.needs: Dict[int, Dict[int, Change]] = {}   # job: its dependencies

    def judge(self, transaction: Transaction) -> None:
        edges = [change for change in transaction.rows(Edge) if change.row.kind == "depends"]
        for change in edges:
            row = change.row
            if change.deleted:
                self.needs.get(row.job_id, {}).pop(row.target, None)
            else:
                self.needs.setdefault(row.job_id, {})[row.target] = change
        for step in transaction.steps:
            before, after = step.before, step.after
            if before and before.status == "blocked" and after and after.status in WAITING and after.status != "blocked":
                self._judge(after, step.change)
            if after is None or after.status in FINISHED:
                self.needs.pop(step.change.row.id, None)
        for change in edges:
            job = self.book.jobs.get(change.row.job_id)
            if not change.deleted and job is not None and job.row.status in ("pending", "scheduled"):
                self._judge(job.row, change)

    def _judge(self, job: Job, change: Change) -> None:
        for target, edge in self.needs.get(job.id, {}).items():
            unfinished = self.book.blocks(target, change)
            if unfinished is not None:
                self.book.report("dependency ignored", job.id, f"job {job.id} became {job.status} before job {target} had ended",
                                 change, unfinished, edge)
                continue
            unsuccessful = self.book.unsuccessful(target)
            if unsuccessful is not None and edge.row.on_failure == "cancel":
                self.book.report("dependency ignored", job.id, f"job {job.id} became {job.status} although job {target} did not complete",
                                 change, unsuccessful, edge)

    def forget(self) -> None:
        for job in [job for job in self.needs if job not in self.book.jobs] if len(self.needs) > len(self.book.jobs) else ():
            del self.needs[job]


class _Batches:
    """A batch ends once, after it was sealed and all its members have ended; no job joins a sealed batch."""

    def __init__(self, book: Book) -> None:
        self.book = book
        self.members: Dict[int, set[int]] = {}   # batch: its unfinished jobs
        self.rows: Dict[int, Change] = {}
        self.finished = Recent(100_000)

    def begin(self, changes: Sequence[Change], spans: Sequence[Span]) -> None:
        for change in changes:
            if isinstance(change.row, Batch):
                self.rows[change.row.id] = change
            elif isinstance(change.row, Job) and change.row.batch_id is not None:
                self.members.setdefault(change.row.batch_id, set()).add(change.row.id)

    def judge(self, transaction: Transaction) -> None:
        for step in transaction.steps:
            row = step.after or step.before
            if row is not None and row.batch_id is not None:
                self._note(row.batch_id, step.change, step.before is None and step.known and step.after is not None)
        for change in transaction.rows(Batch):
            if change.deleted:
                self.rows.pop(change.row.id, None)
                self.members.pop(change.row.id, None)
            else:
                self._judge(change)

    def _note(self, batch: int, change: Change, joins: bool) -> None:
        job = change.row.id
        there = self.rows.get(batch) or self.finished.get(batch)
        if joins and there is not None and there.row.sealed_at is not None:
            self.book.report("batch", job, f"job {job} joined batch {batch} after it was sealed", change, there)
        if job in self.book.jobs and self.book.jobs[job].row.status not in FINISHED or self.book.blocks(job, change):
            self.members.setdefault(batch, set()).add(job)
        elif batch in self.members:
            self.members[batch].discard(job)

    def _judge(self, change: Change) -> None:
        batch, before = change.row, self.rows.get(change.row.id) or self.finished.get(change.row.id)
        self.rows[batch.id] = change
        if batch.finished_at is None:
            if before is not None and before.row.finished_at is not None:
                self.book.report("batch", None, f"batch {batch.id} had ended and is open again", before, change)
            return
        if before is not None and before.row.finished_at is not None:
            if before.row.finished_at != batch.finished_at:
                self.book.report("batch", None, f"batch {batch.id} ended twice", before, change)
        else:
            if batch.sealed_at is None:
                self.book.report("batch", None, f"batch {batch.id} ended, but was not sealed", change)
            early = {job: last for job in self.members.get(batch.id, ()) if (last := self.book.blocks(job, change)) is not None}
            if early:
                self.book.report("batch", min(early), f"batch {batch.id} ended before its jobs {sorted(early)[:20]}", change, *list(early.values())[:20])
        self.rows.pop(batch.id, None)
        self.members.pop(batch.id, None)
        self.finished.add(batch.id, change)


class _SavedSteps:
    """A step is saved once, under the lease of its job."""

    def __init__(self, book: Book) -> None:
        self.book = book
        self.saved: Dict[int, Dict[str, Change]] = {}   # job: its steps

    def judge(self, transaction: Transaction) -> None:
        for change in transaction.rows(SavedStep):
            row: SavedStep = change.row
            known = self.saved.get(row.job_id, {})
            if change.deleted:
                known.pop(row.name, None)
                continue
            last = known.get(row.name)
            if last is not None and (change.inserted or last.row.state != "waiting"):
                self.book.report("step repeated", row.job_id, f"job {row.job_id}: step {row.name!r} was saved as {last.row.state},"
                                 f" and again as {row.state}", last, change)
            if change.inserted and not self._ran(row.job_id, transaction):
                self.book.report("step repeated", row.job_id, f"job {row.job_id}: step {row.name!r} was saved while no worker held the job",
                                 change, *([self.book.jobs[row.job_id]] if row.job_id in self.book.jobs else []))
            self.saved.setdefault(row.job_id, {})[row.name] = change

    def _ran(self, job: int, transaction: Transaction) -> bool:
        """Whether a worker held the job in this transaction, or may have: a job that is not known, or is new."""
        steps = [step for step in transaction.steps if step.change.row.id == job]
        if not steps:
            last = self.book.jobs.get(job)
            return last is None or last.row.status == "processing"
        return any(step.before is None or step.before.status == "processing" or step.statuses()[1] == "processing" for step in steps)

    def forget(self) -> None:
        for job in [job for job in self.saved if job not in self.book.jobs]:
            del self.saved[job]


class _Schedules:
    """A schedule fires once for each time."""

    def __init__(self, book: Book) -> None:
        self.book = book
        self.last: Dict[str, Change] = {}

    def begin(self, changes: Sequence[Change], spans: Sequence[Span]) -> None:
        for change in changes:
            if isinstance(change.row, Schedule):
                self.last[change.row.name] = change

    def judge(self, transaction: Transaction) -> None:
        for change in transaction.rows(Schedule):
            row: Schedule = change.row
            before = self.last.pop(row.name, None)
            if change.deleted:
                continue
            if before is not None and row.last_run is not None and (before.row.last_run == row.last_run) and before.row.last_job != row.last_job:
                self.book.report("schedule fired twice", row.last_job, f"schedule {row.name!r} fired twice for {row.last_run}: jobs"
                                 f" {before.row.last_job} and {row.last_job}", before, change)
            self.last[row.name] = change
