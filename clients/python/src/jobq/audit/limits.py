"""The law of limits: no claim was written while as many leases were held as the limit allows.

A lease counts as held from the record of its claim to the commit that ended it.
"""

from __future__ import annotations

from collections import Counter
from typing import Any, Dict, Iterable, List, Optional, Sequence, Set, Tuple

from .book import Book, Transaction
from .life import REMEMBERED, Held, Settings, Span, array
from .rows import Change, Job, Limit, NamedLimit, Place

# The parts of a queue to which a limit can apply
WHOLE, KEY, KIND, NAMED = "", " by key", " by kind", " by name"
Scope = Tuple[str, str, str]


class Limits:
    def __init__(self, book: Book) -> None:
        self.book = book
        self.settings: Dict[Scope, Settings] = {}
        self.queues: Set[str] = set()            # queues with limits
        self.members: Dict[str, Settings] = {}   # name: the queues that share the limit
        self.held: Dict[Scope, Held] = {}
        self.most: Counter[str] = Counter()      # queue and part: the largest number of jobs that ran at the same time

    def begin(self, changes: Sequence[Change], spans: Sequence[Span]) -> None:
        for change in changes:
            self._set(change, float("-inf"))
        for span in spans:
            for scope in self.scopes(span):
                self._hold(scope, span)

    def judge(self, transaction: Transaction) -> None:
        for change in transaction.changes:
            if isinstance(change.row, (Limit, NamedLimit)):
                self._set(change, self.book.knowledge.in_force(change))
        for span in transaction.ended:
            for scope in self.scopes(span):
                if scope in self.held:
                    self.held[scope].end(span.job)
        fresh = []
        for span in transaction.begun:
            for scope in self.scopes(span):
                fresh.append((scope, span))
                self._hold(scope, span)
        for scope, span in fresh:
            self._judge(scope, span)
            if self.held[scope].newest > span.start.change.place:
                # Claims that were written later but were committed earlier, so that they were judged without this lease
                for other in self.held[scope].others(span, span.start.change.place):
                    if other.start.change.place > span.start.change.place:
                        self._judge(scope, other)
            self.held[scope].newest = max(self.held[scope].newest, span.start.change.place)

    def _set(self, change: Change, in_force: Optional[float]) -> None:
        row = change.row
        if isinstance(row, Limit):
            scope = row.queue, KIND if row.by_kind else KEY if row.key else WHOLE, row.key
            self._add(scope, change, None if change.deleted else row.max_running, in_force)
            if row.queue not in self.queues:
                self.queues.add(row.queue)
                self._catch_up(change)
        elif isinstance(row, NamedLimit):
            self._add(("several queues", NAMED, row.name), change, None if change.deleted else row.max_running, in_force)
            if row.name not in self.members:
                self.members[row.name] = Settings(frozenset())
                self.members[row.name].add(change, frozenset(array(row.queues)), in_force)
                self._catch_up(change)
            elif not change.deleted:
                self.members[row.name].add(change, frozenset(array(row.queues)), in_force)

    def _add(self, scope: Scope, change: Change, value: Any, in_force: Optional[float]) -> None:
        settings = self.settings.setdefault(scope, Settings(None))
        settings.add(change, value, in_force)
        settings.forget(change.time - REMEMBERED)

    def _catch_up(self, change: Change) -> None:
        """The first limit of a queue also counts the jobs that were already running."""
        for span in self.book.spans.values():
            if span.start.change.xid != change.xid or span.start.change.commit != change.commit:
                for scope in self.scopes(span):
                    self._hold(scope, span)

    def scopes(self, span: Span) -> Iterable[Scope]:
        """The limits that may apply to the job."""
        row = span.start.after
        assert row is not None
        if row.queue in self.queues:
            yield row.queue, WHOLE, ""
            yield row.queue, KIND, row.kind
            if row.concurrency_key is not None:
                yield row.queue, KEY, row.concurrency_key
        if row.limits:
            for name in sorted(array(row.limits)):
                if name in self.members and row.queue in self.members[name].values[-1][1]:
                    yield "several queues", NAMED, name

    def _hold(self, scope: Scope, span: Span) -> None:
        self.held.setdefault(scope, Held()).begin(span)

    def values(self, scope: Scope, row: Job, place: Place, asked: Optional[float]) -> List[Any]:
        """The limits that the claim may have seen; None: no limit."""
        queue, part, _ = scope
        if part == NAMED and not all(row.queue in queues for queues in self.members[scope[2]].possible(place, asked)):
            return [None]
        values = self.settings[scope].possible(place, asked) if scope in self.settings else [None]
        if None in values and part in (KEY, KIND):
            # A key or kind without a limit of its own has the limit for all keys or kinds.
            general = self.settings.get((queue, part, "*"))
            values = [value for value in values if value is not None] + (general.possible(place, asked) if general else [None])
        return values

    def _judge(self, scope: Scope, span: Span) -> None:
        change, row = span.start.change, span.start.after
        assert row is not None
        values = self.values(scope, row, change.place, self.book.knowledge.asked(span))
        held = self.held[scope]
        if None in values:
            return
        if len(held.current) + len(held.ended) <= max(values) and self.most[scope[0] + scope[1]] >= len(held.current):
            return
        going = [other for other in held.others(span, change.place) if other.covers(change)]
        count = 1 + most(going, change)
        self.most[scope[0] + scope[1]] = max(self.most[scope[0] + scope[1]], count)
        if count > max(values):
            self.book.report("limit exceeded", span.job, f"job {span.job} was claimed while jobs {sorted(other.job for other in going)} of {scope}"
                             f" were running, limit {max(values)}", change, *(other.start.change for other in going[:20]))

    def forget(self) -> None:
        for scope, held in list(self.held.items()):
            if held.forget(self.book.horizon):
                del self.held[scope]


def most(spans: Sequence[Span], change: Change) -> int:
    """The maximum number of these leases, whatever becomes of the transactions that are open when `change` is written."""
    firm = 0
    given_back: Counter[int] = Counter()
    taken: Counter[int] = Counter()
    for span in spans:
        begun, end = span.start.change, span.end and span.end.change
        ending = end is not None and end.place < change.place
        if begun.commit > change.place and not ending:
            taken[begun.xid] += 1
        elif begun.commit < change.place and ending and end is not None:
            given_back[end.xid] += 1    # the lease may still count for others, because its end may be rolled back
        elif not ending:
            firm += 1
    return firm + sum(max(given_back[xid], taken[xid]) for xid in given_back.keys() | taken.keys())
