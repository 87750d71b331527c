"""The law of groups: a group never has two active jobs, and no job of a halted group runs while its head is failed."""

from __future__ import annotations

from typing import Dict, Optional, Sequence, Tuple

from .book import Book, Transaction
from .life import FINISHED, Held, Span, Step
from .rows import Change, Job

Group = Tuple[str, Optional[str]]


class Groups:
    def __init__(self, book: Book) -> None:
        self.book = book
        self.heads: Dict[int, Tuple[Group, Span]] = {}   # job: its group, and the time since it is the head
        self.groups: Dict[Group, Held] = {}

    def is_head(self, job: Optional[Job]) -> bool:
        """In a queue whose groups halt, a failed job stays the head until a skip moves it to the dead letter queue."""
        if job is None or job.group_key is None:
            return False
        return job.status not in FINISHED and job.status != "blocked" or job.status == "failed" and self.book.knowledge.is_halted(job)

    def begin(self, changes: Sequence[Change], spans: Sequence[Span]) -> None:
        for change in changes:
            if isinstance(change.row, Job) and self.is_head(change.row):
                self._start(change.row, Span(change.row.id, Step(None, change)))

    def judge(self, transaction: Transaction) -> None:
        begun = []
        for step in transaction.steps:
            job = step.change.row.id
            goes_on = self.is_head(step.after)
            if job in self.heads and not goes_on:
                group, span = self.heads.pop(job)
                span.end = step
                self.groups[group].end(job)
            elif job not in self.heads and goes_on and step.after is not None:
                span = Span(job, step)
                begun.append((self._start(step.after, span), span))
        for group, span in begun:
            # A job that was the head only inside one transaction was never visible. For example, jobq_redrive moves and then retries it.
            if span.end is None or span.end.change.commit != span.start.change.commit:
                self._judge(group, span)
            else:
                self.groups[group].ended.remove(span)

    def _start(self, job: Job, span: Span) -> Group:
        group = job.queue, job.group_key
        self.heads[job.id] = group, span
        self.groups.setdefault(group, Held()).begin(span)
        return group

    def _judge(self, group: Group, span: Span) -> None:
        for other in self.groups[group].others(span, span.start.change.place):
            first, second = sorted((other, span), key=lambda one: one.start.change.place)
            if not first.covers(second.start.change):
                continue
            assert second.start.after is not None
            halted = self.book.jobs.get(first.job)
            halts = halted is not None and halted.row.status == "failed" and halted.commit < second.start.change.place
            self.book.report(
                "halt ignored" if halts else "group crowded", second.job,
                f"job {second.job} of {group} became {second.start.after.status} while job {first.job} was"
                f" {'failed and halted the group' if halts else 'active'}", second.start.change, first.start.change)

    def forget(self) -> None:
        for group, held in list(self.groups.items()):
            if held.forget(self.book.horizon):
                del self.groups[group]
