"""The jobs that a worker has in hand: claimed, but not yet reported. All data that threads share is here, under one lock. Needs
no server: this class tells the claiming thread and the heartbeat thread what to do next."""

from __future__ import annotations

import contextlib
import functools
import threading
import time
from collections import deque
from dataclasses import dataclass, field, replace
from typing import Callable, Deque, Dict, Iterator, List, Optional, Tuple

from .connect import pause_after
from .cover import Cover
from .job import BaseJob
from .outcome import CANCELLED, COMPLETE, FAIL, NOTHING, RELEASE, Outcome
from .patterns import Patterns

Report = Tuple[BaseJob, Outcome]
CLAIMS, HEARTBEATS = "claims", "heartbeats"   # the two threads
LAST_LOOK = 1.0       # seconds in which handlers may notice that the worker stops
LONGEST_PAUSE = 1.0   # seconds between two tries of a report that collides; short, because LAST_REPORTS limits the last tries
LAST_REPORTS = 5.0    # seconds in which the last reports must be sent
PROGRESS_EVERY = 1.0
PATIENCE = 120.0      # seconds after which a thread that shows no sign of life is stuck. A connection to a vanished server breaks
                      # earlier, and a worker that reconnects is alive


@dataclass
class Beat:
    """The next task of the heartbeat thread. A beat that is None ends the thread."""

    wake: bool = False
    reports: List[Report] = field(default_factory=list)
    jobs: List[BaseJob] = field(default_factory=list)       # jobs whose heartbeats are due, sent together
    progress: List[BaseJob] = field(default_factory=list)   # jobs whose heartbeat is sent with new progress
    lines: List[BaseJob] = field(default_factory=list)      # jobs whose log lines are sent, in one statement

    def __bool__(self) -> bool:
        return bool(self.wake or self.reports or self.jobs or self.progress or self.lines)


class Load:
    """The slots and the lock, which the Hands of all shards of a cluster share."""

    def __init__(self) -> None:
        self.changed = threading.Condition()
        self.hands: List["Hand"] = []

    # ---- called under the lock

    def has_room(self, queue: str) -> None:
        for hand in self.hands:
            hand._has_room(queue)

    def start_prefetched(self) -> Callable[[], None]:
        """Returns a function that starts the handler of a prefetched job, if there is one. The hands take turns."""
        for hand in self.hands:
            start = hand._start_prefetched()
            if start is not None:
                self.hands.remove(hand)
                self.hands.append(hand)
                return start
        return lambda: None


class Hand:
    def __init__(self, slots: int, most: int, interval: Optional[float], grace: float,
                 clock: Callable[[], float] = time.monotonic, queues: Optional[Dict[str, int]] = None,
                 patterns: Optional[Dict[str, int]] = None, prefetch: int = 0, load: Optional[Load] = None) -> None:
        self.queues = queues   # slots of each queue of a worker that serves several queues
        self.patterns = Patterns(patterns) if patterns else None
        self.slots, self.prefetch, self.most, self.longest, self.grace, self.clock = slots, prefetch, most, interval, grace, clock
        self.load = Load() if load is None else load
        self.changed = self.load.changed
        self.start: Callable[[BaseJob], None] = lambda job: None   # starts the handler of a prefetched job
        self.cover: Optional[Cover] = None          # sends heartbeats while this process is blocked
        self.jobs: Dict[int, BaseJob] = {}          # keyed by lease, because a job may come a second time before its first
                                                    # handler has ended
        self.running: Dict[int, str] = {}           # leases whose handlers have not ended, and the queues of their jobs
        self.prefetched: Dict[int, BaseJob] = {}    # jobs that wait for a slot, keyed by lease
        self.completions: Deque[Report] = deque()   # completions to send with the next claim, unless the claiming thread is away
        self.reports: Deque[Report] = deque()
        self.in_flight: set[int] = set()            # leases that are being reported
        self.beating: set[int] = set()              # leases whose heartbeats are being sent
        self.claiming = True                        # whether the claiming thread is still running
        self.away = False                           # whether the claiming thread waits for jobs or for a connection
        self.must_wake = False
        self.left_out: set[str] = set()             # queues for which the claiming thread does not wait, because their slots are taken
        self.stopped_at: Optional[float] = None
        self.stop_at: Optional[float] = None        # end of the grace period
        self.released_at: Optional[float] = None
        self.abandoned = False
        self.gave_up = self.has_left = False
        self.load.hands.append(self)
        # When each thread will show its next sign of life, if its statement is answered at once. Never, while the thread waits for
        # the other threads.
        self.due: Dict[str, float] = {CLAIMS: float("inf"), HEARTBEATS: float("inf")}

    def expect(self, thread: str, seconds: float) -> None:
        """Called by a thread before it sends a statement or sleeps: its next sign of life follows after this time."""
        self.due[thread] = self.clock() + seconds

    def stuck(self) -> Optional[str]:
        """Returns which thread is stuck, or None. Claims are not needed while the worker stops. Takes no lock, because the thread
        may be stuck with the lock."""
        for thread, due in self.due.items():
            if self.clock() > due + PATIENCE and (thread != CLAIMS or self.stop_at is None):
                return thread
        return None

    # ---- the claiming thread

    def next_claim(self) -> Optional[Tuple[List[Report], int]]:
        """Waits until a job can be claimed, that is, until fewer jobs run or wait for a slot than slots and prefetch allow, and
        until there are no more outstanding reports than that. Returns the jobs to complete with the claim and the number of jobs to
        claim, or None if nothing may be claimed anymore."""
        with self.changed:
            self.away = False
            self.left_out.clear()
            while True:
                if self.stop_at is not None:
                    self.away = True
                    self.changed.notify_all()
                    return None
                most = self.slots + self.prefetch
                held = sum(len(hand.running) + len(hand.prefetched) for hand in self.load.hands)
                room = min(most - held, most - len(self.reports) - len(self.in_flight), self.most)
                if self.queues is not None and self.patterns is None:
                    room = min(room, sum(self._rooms().values()))
                if room > 0:
                    self.expect(CLAIMS, 0.0)
                    return self._take_completions(), room
                # The other shards of a cluster may have all slots, and then no claim completes the jobs.
                self.away = bool(self.completions)
                if self.away:
                    self.changed.notify_all()
                self.expect(CLAIMS, float("inf"))
                self.changed.wait()
                self.away = False

    def rooms(self, waits: bool = False) -> Dict[str, int]:
        """Returns how many jobs of each queue a claim may take, in the order of the queues. If the worker has patterns, includes
        queues without free slots and queues of patterns that have running jobs, because the patterns would select all of these
        queues. waits: the claiming thread is about to wait for jobs of these queues, so its wait must end when a slot of another
        queue becomes free."""
        with self.changed:
            rooms = self._rooms()
            if waits and self.queues is not None:
                self.left_out = {queue for queue in {*self.queues, *rooms} if not rooms.get(queue)}
            return rooms

    def claimed(self, job: BaseJob) -> bool:
        """Adds a claimed job. Returns whether its handler starts now. Otherwise, the job waits for a slot, or it is given back
        because the worker is stopping."""
        with self.changed:
            job.beat_at = self.clock()
            self.jobs[job.lease] = job
            if self.cover is not None:
                self.cover.hold(job.id, job.lease, job.heartbeat_every, job.beat_at)
            if self.stop_at is not None:
                self.reports.append((job, Outcome(RELEASE)))
            elif self._has_slot(job):
                self.running[job.lease] = job.queue
            else:
                self.prefetched[job.lease] = job
            self.changed.notify_all()
            return job.lease in self.running

    def go_away(self) -> bool:
        """Called before the claiming thread waits. Returns False if there is something to do instead."""
        with self.changed:
            self.away = not self.completions and self.stop_at is None
            return self.away

    def disconnected(self) -> None:
        """Called when the claiming thread has no connection, so that the heartbeat thread sends the completions."""
        with self.changed:
            self.away = True
            self.changed.notify_all()

    def rest(self, seconds: float) -> None:
        """Sleeps, but returns early if the worker stops."""
        until = self.clock() + seconds
        self.expect(CLAIMS, seconds)
        with self.changed:
            while self.stop_at is None and (left := until - self.clock()) > 0:
                self.changed.wait(left)

    def no_more_claims(self) -> None:
        with self.changed:
            self.claiming, self.away = False, True
            self.expect(CLAIMS, float("inf"))
            self.changed.notify_all()

    # ---- handlers

    def ended(self, job: BaseJob, outcome: Outcome) -> Callable[[], None]:
        """Called when the job's handler has ended. Returns a function that starts the handler of a prefetched job in the free slot,
        if there is one."""
        with self.changed:
            self.running.pop(job.lease, None)
            self.load.has_room(job.queue)
            if self.has_left and not self.running:
                self.load.hands.remove(self)
            held = job.lease in self.jobs
            if job.abandoned:
                pass
            elif outcome.what == NOTHING or not held:
                if job.lines.pending:   # for example because the lease is lost: the server keeps the lines as late
                    self.reports.append((job, Outcome(NOTHING)))
                elif held:
                    self._drop(job)
            elif outcome.what == COMPLETE and not (job.progress_is_new or job.progress_under_way or job.lines.pending):
                self.completions.append((job, outcome))
            else:
                self.reports.append((job, outcome))
            self.changed.notify_all()
            return self.load.start_prefetched()

    def progressed(self) -> None:
        with self.changed:
            self.changed.notify_all()

    def flush(self, job: BaseJob) -> None:
        """Waits until the log lines of the job have been sent, for at most 5 seconds. The caller is about to end the attempt, and
        lines that arrive afterward count as late."""
        with self.changed:
            if not job.lines.pending:
                return
            job.lines.wanted = True
            self.changed.notify_all()
            self.changed.wait_for(lambda: not job.lines.pending or job.lease not in self.jobs or self.gave_up,
                                  min(job.heartbeat_every, LAST_REPORTS))

    def settle(self, job: BaseJob) -> None:
        """Waits until no heartbeat of the job is being sent, for at most one interval. The caller is about to lock the job's row
        until a commit that may come much later. A heartbeat that is already on its way would wait for this lock, and the
        heartbeats of all other jobs would wait with it."""
        with self.changed:
            self.changed.wait_for(lambda: job.lease not in self.beating, job.heartbeat_every)

    def is_settled(self, job: BaseJob) -> bool:
        with self.changed:
            return job.lease not in self.beating

    # ---- reports

    def reported(self, jobs: List[BaseJob]) -> None:
        with self.changed:
            for job in jobs:
                self._drop(job)
                self.in_flight.discard(job.lease)
            self.changed.notify_all()

    def not_reported(self, reports: List[Report], *, uncertain: bool = False, alone: bool = False) -> None:
        """Schedules the reports to be sent again by the heartbeat thread."""
        with self.changed:
            for job, outcome in reports:
                self.in_flight.discard(job.lease)
                self.reports.append((job, replace(outcome, uncertain=outcome.uncertain or uncertain,
                                                  alone=outcome.alone or alone)))
            self.changed.notify_all()

    def collided(self, reports: List[Report]) -> None:
        """Schedules the reports to be sent again, each alone and after a pause of its own. Other reports do not wait for them."""
        now = self.clock()
        self.not_reported([(job, replace(outcome, collisions=outcome.collisions + 1,
                                         not_before=now + pause_after(outcome.collisions + 1, LONGEST_PAUSE))) for job, outcome in reports],
                          alone=True)

    def lost(self, job: BaseJob, state: str) -> None:
        """Called when a heartbeat finds the lease lost. If a report of the job is in flight, the answer to the report decides
        instead."""
        with self.changed:
            if not self._take_prefetched(job) and job.lease not in self.running:
                return
            self._drop(job)
            self.changed.notify_all()
        if state != "finished":
            job.stop("lost")

    def cancel_prefetched(self, job: BaseJob) -> bool:
        """Called when a heartbeat finds the job canceled. If it still waits for a slot, reports it without starting its handler
        and returns True."""
        with self.changed:
            if not self._take_prefetched(job):
                return False
            self.reports.append((job, Outcome(FAIL, CANCELLED)))
            self.changed.notify_all()
            return True

    def is_running(self, job: BaseJob) -> bool:
        with self.changed:
            return job.lease in self.running

    def interval(self) -> Optional[float]:
        """Returns the shortest heartbeat interval in seconds of the jobs in hand, or None if there are no jobs."""
        with self.changed:
            return self._interval() if self.jobs else None

    # ---- the thread that heartbeats

    def next_beat(self, retry_at: Optional[float] = None) -> Beat:
        """Waits until the heartbeat thread has something to do. Before retry_at, only the end of the grace period counts."""
        with self.changed:
            while True:
                now = self.clock()
                self._end_of_grace(now)
                if self._over(now):
                    return Beat()
                if retry_at is None or now >= retry_at:
                    beat = Beat(self._take_wake(), self._take_reports(now), *self._take_due(now))
                    if beat:
                        self.expect(HEARTBEATS, 0.0)
                        return beat
                until = self._until(now, retry_at)
                self.expect(HEARTBEATS, float("inf") if until is None else until)
                self.changed.wait(until)

    @contextlib.contextmanager
    def sending(self, jobs: List[BaseJob]) -> Iterator[List[BaseJob]]:
        """Provides those jobs that still need a heartbeat, because some may have ended after their beat was taken. The block
        sends their heartbeats."""
        with self.changed:
            due = [job for job in jobs if job.lease in self.jobs and not self._is_told(job)]
            self.beating = {job.lease for job in due}
        try:
            yield due
        finally:
            with self.changed:
                self.beating = set()
                self.changed.notify_all()

    def wake_failed(self) -> None:
        with self.changed:
            self.must_wake = self.claiming

    def beat_failed(self, jobs: List[BaseJob]) -> None:
        with self.changed:
            for job in jobs:
                job.beat_at = float("-inf")

    # ---- the end

    def stop(self) -> bool:
        """Starts the grace period at the first call and ends it at the second. Returns False if it had already ended."""
        with self.changed:
            now = self.clock()
            first = self.stop_at is None
            if first:
                self.stopped_at, self.stop_at, self.must_wake = now, now + self.grace, True
                self.reports += [(job, Outcome(RELEASE)) for job in self.prefetched.values()]
                self.prefetched.clear()
            else:
                self.stop_at = min(self.stop_at or now, now)
            self.changed.notify_all()
            return first or self.released_at is None

    def leave(self) -> None:
        """Called when the worker, or the worker of a shard, has ended."""
        with self.changed:
            self.has_left = True
            if not self.running and self in self.load.hands:   # otherwise when the last handler has ended
                self.load.hands.remove(self)
            self.changed.notify_all()

    def stopping(self) -> bool:
        with self.changed:
            return self.stop_at is not None

    # ---- called under the lock

    def _rooms(self) -> Dict[str, int]:
        rooms = {queue: slots + self.prefetch for queue, slots in (self.queues or {}).items()}
        for queue in [queue for hand in self.load.hands for queue in (*hand.running.values(), *(job.queue for job in hand.prefetched.values()))]:
            slots = self.patterns.slots_of(queue) if self.patterns is not None else None
            if queue in rooms or slots is not None:
                rooms[queue] = rooms.get(queue, (slots or 0) + self.prefetch) - 1
        return {queue: max(room, 0) for queue, room in rooms.items() if room > 0 or self.patterns is not None}

    def _has_slot(self, job: BaseJob) -> bool:
        if sum(len(hand.running) for hand in self.load.hands) >= self.slots:
            return False
        if self.queues is None:
            return True
        slots = self.queues.get(job.queue)
        if slots is None and self.patterns is not None:
            slots = self.patterns.slots_of(job.queue)
        return slots is None or sum(queue == job.queue for hand in self.load.hands for queue in hand.running.values()) < slots

    def _start_prefetched(self) -> Optional[Callable[[], None]]:
        job = next(filter(self._has_slot, self.prefetched.values()), None)
        if job is None:
            return None
        del self.prefetched[job.lease]
        self.running[job.lease] = job.queue
        return functools.partial(self.start, job)

    def _take_prefetched(self, job: BaseJob) -> bool:
        taken = self.prefetched.pop(job.lease, None) is not None
        if taken:
            self.load.has_room(job.queue)
        return taken

    def _has_room(self, queue: str) -> None:
        """Ends the wait of the claiming thread if it does not wait for jobs of the queue."""
        if queue in self.left_out:
            self.left_out.clear()
            self.must_wake = True

    def _drop(self, job: BaseJob) -> None:
        self.jobs.pop(job.lease, None)
        if self.cover is not None:
            self.cover.drop(job.lease)

    def _take_completions(self) -> List[Report]:
        taken = list(self.completions)
        self.completions.clear()
        self.in_flight.update(job.lease for job, _ in taken)
        return taken

    def _take_reports(self, now: float) -> List[Report]:
        taken = self._take_completions() if self.away else []
        taken += [report for report in self.reports if report[1].not_before <= now]
        self.reports = deque(report for report in self.reports if report[1].not_before > now)
        self.in_flight.update(job.lease for job, _ in taken)
        return taken

    def _take_wake(self) -> bool:
        wake, self.must_wake = self.must_wake, False
        return wake

    def _interval(self) -> float:
        shortest = min(job.heartbeat_every for job in self.jobs.values())
        return shortest if self.longest is None else min(shortest, self.longest)

    def _due_at(self) -> Optional[float]:
        if not self.jobs:
            return None
        return min([self._all_due_at()] + [job.progress_at + PROGRESS_EVERY for job in self._with_progress()])

    def _all_due_at(self) -> float:
        return min(job.beat_at for job in self.jobs.values()) + self._interval()

    def _with_progress(self) -> List[BaseJob]:
        return [job for job in self.jobs.values() if job.progress_is_new and job.lease in self.running and not self._is_told(job)]

    def _is_told(self, job: BaseJob) -> bool:
        """Returns whether the outcome has been sent to the server, in a report or in the handler's transaction. A heartbeat of
        such a job could wait for a row lock, and delay the heartbeats of all other jobs."""
        return job.lease in self.in_flight or job.ended is not None or job.committing

    def _take_due(self, now: float) -> Tuple[List[BaseJob], List[BaseJob], List[BaseJob]]:
        """Returns the jobs, the progress, and the log lines for the next Beat."""
        progress = self._with_progress()
        lines = [job for job in self.jobs.values() if job.lines.pending]
        if not self.jobs or self._all_due_at() > now:
            return [], [job for job in progress if job.progress_at + PROGRESS_EVERY <= now], [job for job in lines if job.lines.wanted]
        jobs = [job for job in self.jobs.values() if not self._is_told(job)]
        for job in self.jobs.values():
            job.beat_at = now
        if self.cover is not None:
            self.cover.beaten(self.jobs, now)
        return jobs, progress, lines

    def _until(self, now: float, retry_at: Optional[float]) -> Optional[float]:
        times: List[Optional[float]] = [retry_at] if retry_at is not None and now < retry_at else \
            [self._due_at(), *(outcome.not_before for _, outcome in self.reports)]
        if self.stop_at is not None and self.stopped_at is not None:
            if now < self.stopped_at + LAST_REPORTS:
                times.append(self.stopped_at + LAST_REPORTS)
            if self.released_at is None:
                times += [self.stop_at if now < self.stop_at else None, self.stop_at + LAST_LOOK + LAST_REPORTS]
            else:
                times += [self.released_at + LAST_LOOK if not self.abandoned else None, self.released_at + LAST_LOOK + LAST_REPORTS]
        known = [at for at in times if at is not None]
        return max(0.0, min(known) - now) if known else None

    def _end_of_grace(self, now: float) -> None:
        if self.stop_at is None or now < self.stop_at or not self.jobs:
            return
        if self.released_at is None:
            self.released_at = now
            for job in list(self.jobs.values()):
                job.stop("stopping")
        if not self.abandoned and (now >= self.released_at + LAST_LOOK or not self.running):
            self.abandoned = True
            for job in [job for lease, job in self.jobs.items() if lease in self.running]:
                job.abandoned = True
                told = job.ended is not None
                # The job's row may be locked by an open transaction, so this report is sent alone and other reports do not wait
                # for it.
                self.reports.append((job, Outcome(RELEASE, alone=told or job.committing, uncertain=told)))

    def _over(self, now: float) -> bool:
        if self.stop_at is None or self.stopped_at is None:
            return False
        # If the server cannot be reached to end the wait, or to send the last log lines of jobs whose lease is lost, the worker can
        # still stop, because it has no jobs in hand.
        late = now >= self.stopped_at + LAST_REPORTS
        if not self.jobs and (not self.claiming or self.away and late) and (not self.reports or late):
            return True
        released_at = self.released_at if self.released_at is not None else self.stop_at
        self.gave_up = now >= released_at + LAST_LOOK + LAST_REPORTS
        return self.gave_up
