"""Everything a worker does except running handlers. One thread claims and waits; another thread sends heartbeats and reports.
Both Worker and AsyncWorker pass the outcomes of their jobs to this class."""

from __future__ import annotations

import contextlib
import functools
import json
import logging
import os
import threading
import time
from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence, Tuple

import psycopg
from psycopg.rows import dict_row, tuple_row
from psycopg.types.json import set_json_loads

from . import connect, liveness, statements
from .collisions import Collisions
from .cover import Cover
from .errors import LEASE_LOST
from .hand import CLAIMS, HEARTBEATS, Beat, Hand, Load, Report
from .job import BaseJob
from .lines import Line
from .options import Options
from .outcome import CANCELLED, COMPLETE, FAIL, NOTHING, RELEASE, SNOOZE, Outcome, after_refusal, in_ascii, is_finished
from .pace import SHORT_WAIT, Pace
from .parameters import interval
from .presence import Presence

FIRST_POLL = 0.05
LOOK_EVERY = 600.0   # seconds between checks for jobs of other kinds
LINES_AT_ONCE = 5000   # log lines in one statement
MOST_STARTS = 5   # maximum number of starts of the heartbeat process
NOT_PRELOADED = "55000"
log = logging.getLogger("jobq")


class Broken(Exception):
    """The connection is broken and has been closed."""


class Core:
    def __init__(self, options: Options, kinds: Sequence[str], conninfo: connect.Conninfo, connect_options: Mapping[str, Any],
                 begin: Callable[[statements.Row, connect.Conninfo], BaseJob], run: Callable[[BaseJob, "Core"], None],
                 heartbeat_process: bool = True, load: Optional[Load] = None) -> None:
        """begin makes a job from a row and the connection string of its server, and run starts the job's handler. load: what the
        shards of a cluster share."""
        self.heartbeat_process = heartbeat_process and os.name == "posix"
        self.options, self.kinds = options, sorted(kinds)
        self.conninfo, self.connect_options = conninfo, connect_options
        self.begin, self.run = begin, run
        self.hand = Hand(options.slots, options.most_claimed, options.heartbeat_interval, options.grace,  # type: ignore[arg-type]
                         queues=options.queues, patterns=options.patterns, prefetch=options.prefetch, load=load)  # type: ignore[arg-type]
        self.hand.start = self._run
        self.presence = Presence(options, self.kinds)
        self.wait_timeout = float(options.wait_timeout)  # type: ignore[arg-type]
        self.pace, self.has_warned, self.has_told_of_timeout = Pace(), False, False
        self.collisions = Collisions()
        self.server_takes_details = True
        self.look_at = float("-inf")
        self.other_kinds: List[str] = []
        self.error: Optional[BaseException] = None
        self.over = threading.Event()
        self.when_over: Callable[[], None] = lambda: None
        self.when_failed: Callable[[], None] = lambda: None
        self._claims = _Line(self, CLAIMS)
        self._beats = _Line(self, HEARTBEATS)
        self._threads = [threading.Thread(target=target, name=f"jobq {name}", daemon=True)
                         for name, target in (("claims", self._claim_all), ("beats", self._beat_all))]

    def start(self) -> None:
        """Connects and starts the threads. Raises an error if the first connections fail."""
        liveness.PROCESS.watch(self.options, self.hand)
        try:
            self._start()
        except BaseException:
            liveness.PROCESS.leave(self.hand)
            raise

    def _start(self) -> None:
        try:
            self._claims.open()
            beats = self._beats.open()
            if self.options.poll_interval is None and self._is_pooled(beats):
                self.pace.pooled = True
                self.wait_timeout = min(self.wait_timeout, SHORT_WAIT)
            try:
                beats.execute(statements.WAKE, (self.options.worker_id,))
            except psycopg.errors.ObjectNotInPrerequisiteState as error:
                log.info("%s: waits are short because they cannot be woken up: %s", self.options.worker_id, error)
                self.wait_timeout = min(self.wait_timeout, SHORT_WAIT)
            except psycopg.errors.UndefinedFunction as error:
                raise RuntimeError(f'jobq is not installed: there is no jobq_wake() in database "{beats.info.dbname}" along its search_path. '
                                   "Run CREATE EXTENSION jobq in that database.") from error
        except BaseException:
            self._claims.close()
            self._beats.close()
            raise
        claims, beats_thread = self._threads
        try:
            if self.heartbeat_process:
                self.hand.cover = Cover(4 * (self.options.slots + self.options.prefetch), self.arguments())
                self._keep_covered(self.hand.cover)
            beats_thread.start()   # started first, so that no job is claimed without heartbeats
            claims.start()
        except BaseException:   # the thread could not be started
            self.hand.stop()
            self.hand.no_more_claims()
            self._claims.close()
            if beats_thread.ident is None:
                self._beats.close()
                self._uncover()
            raise

    def arguments(self) -> Dict[str, Any]:
        """Returns the parameters of the connections for claims and heartbeats."""
        return connect.arguments(self.conninfo, self.connect_options, f"jobq {','.join(self.options.named_queues + self.options.given_patterns)} "
                                 f"{self.options.worker_id}")

    def _keep_covered(self, cover: Cover) -> None:
        sent = cover.sent()
        if sent:
            log.warning("%s: the heartbeat process has sent %d heartbeats, because this process was blocked or its own heartbeats were; does a "
                        "handler hold the GIL?", self.options.worker_id, sent)
        if cover.runs() or cover.starts == MOST_STARTS:
            return
        if cover.starts > 0:
            log.warning("%s: the heartbeat process has ended: a handler that holds the GIL may lose its job%s", self.options.worker_id,
                        "" if cover.starts == MOST_STARTS - 1 else "; starting the process again")
        try:
            cover.start()
        except OSError as error:
            log.warning("%s: could not start the heartbeat process: %s", self.options.worker_id, error)

    def _uncover(self) -> None:
        if self.hand.cover is not None:
            self.hand.cover.stop()

    @staticmethod
    def _is_pooled(connection: psycopg.Connection[Any]) -> bool:
        """Returns whether the connection passes through a pooler, which tells the client a process ID other than the server's."""
        with connection.cursor(row_factory=tuple_row) as cursor:
            row = cursor.execute("SELECT pg_backend_pid()").fetchone()
        return row is not None and row[0] != connection.info.backend_pid

    def answered(self, seconds: float) -> None:
        """Notes how long the server took for an answer. Called after every statement except waits."""
        if not self.pace.is_late(seconds, self._heartbeat_interval) or not self.pace.late():
            return
        log.log(logging.INFO if self.has_warned else logging.WARNING,
                "%s: answers take %.1f s behind the connection pooler, whose pool may have fewer connections than there are workers: "
                "polling instead of waiting", self.options.worker_id, seconds)
        self.has_warned = True

    def _heartbeat_interval(self) -> Optional[float]:
        timeout = self.options.heartbeat_timeout
        known = [self.hand.interval(), self.options.heartbeat_interval, None if timeout is None else float(timeout) / 3]  # type: ignore[arg-type]
        return min((float(one) for one in known if one is not None), default=None)  # type: ignore[arg-type]

    def stop(self) -> None:
        first = not self.hand.stopping()
        if self.hand.stop():
            with self.hand.changed:
                count = len(self.hand.jobs)
            log.info("%s: %s, %d jobs in hand", self.options.worker_id,
                     f"stopping, no more claims, {self.options.grace:g} s for handlers" if first else "stopping at once", count)

    @property
    def has_running(self) -> bool:
        """Whether handlers are still running."""
        return bool(self.hand.running)

    @property
    def clean(self) -> bool:
        return self.error is None and not self.hand.gave_up

    def job_ended(self, job: BaseJob, outcome: Outcome) -> None:
        self._log_outcome(job, outcome)
        start_next = self.hand.ended(job, outcome)
        start_next()

    def _log_outcome(self, job: BaseJob, outcome: Outcome) -> None:
        if outcome.what == FAIL and outcome.text == CANCELLED:
            log.info("%s: job %d of kind %r, attempt %d, was cancelled", self.options.worker_id, job.id, job.kind, job.attempt)
        elif outcome.what == FAIL:
            log.warning("%s: job %d of kind %r, attempt %d, has failed: %s", self.options.worker_id, job.id, job.kind, job.attempt,
                        outcome.text)
        elif outcome.what == RELEASE and outcome.collision:
            log.info("%s: job %d of kind %r, attempt %d, collided with another transaction and is given back: %s", self.options.worker_id,
                     job.id, job.kind, job.attempt, outcome.text)
        elif outcome.what == NOTHING and outcome.text == "lost":
            self._log_lost(job)

    def _log_lost(self, job: BaseJob) -> None:
        """Logs a lost lease once, whether a heartbeat, a report, or the handler's own transaction found it."""
        if job.loss_is_logged:
            return
        job.loss_is_logged = True
        log.warning("%s: job %d of kind %r, attempt %d: the lease is lost", self.options.worker_id, job.id, job.kind, job.attempt)

    def _fail(self, error: BaseException, hurry: bool = True) -> None:
        """Ends the worker with an error. hurry: also ends a grace period that has begun."""
        self.error = error
        if hurry or not self.hand.stopping():
            self.hand.stop()
        self.when_failed()

    # ---- the claiming thread

    def _claim_all(self) -> None:
        try:
            self._claim_until_stopped()
        except BaseException as error:   # noqa: B902: the worker must not continue without claims, whatever the error
            log.error("%s: claims have ended: %s", self.options.worker_id, error)
            self._fail(error)
        finally:
            self.hand.no_more_claims()
            self._claims.close()

    def _claim_until_stopped(self) -> None:
        polls = 0
        while (claim := self.hand.next_claim()) is not None:
            completions, room = claim
            try:
                rows = self._claim(completions, room)
                if rows:
                    polls = 0
                elif self.hand.go_away():
                    self._wait(polls, room)
                    polls += 1
            except Broken:
                self.hand.disconnected()
                self._claims.reconnect()
            except psycopg.Error as error:
                if not connect.is_again(error):
                    raise
                log.warning("%s: a claim is tried again: %s", self.options.worker_id, error)
                self.hand.disconnected()   # jobs that ended in the meantime are reported by the other thread
                self.hand.rest(self._claims.pause.take())

    def _claim(self, completions: List[Report], room: int) -> bool:
        parameters = self._parameters(room)
        parameters.update(ids=[job.id for job, _ in completions], leases=[job.lease for job, _ in completions],
                          results=[outcome.result for _, outcome in completions])
        try:
            text = self._claims.all(self._claim_statement(bool(completions)), parameters)[0]["jobs"]
        except Broken:
            self.hand.not_reported(completions, uncertain=True)
            raise
        except psycopg.Error as error:
            again = connect.is_again(error)
            # Report each completion alone to find out whether the server rejects one of them or the claim itself.
            self.hand.not_reported(completions, alone=not again)
            if again or not completions:
                raise
            return True
        self.hand.reported([job for job, _ in completions])
        rows = self._rows_of(text)
        for row in rows:
            job = self.begin(row, self.conninfo)
            job._progressed = self.hand.progressed
            job._settle = functools.partial(self.hand.settle, job)
            job._is_settled = functools.partial(self.hand.is_settled, job)
            job._flush = functools.partial(self.hand.flush, job)
            if self.hand.claimed(job):
                self._run(job)
        return bool(rows)

    def _rows_of(self, text: str) -> List[Dict[str, Any]]:
        try:
            return statements.claimed_rows(json.loads(text))
        except (ValueError, RecursionError):
            return statements.claimed_rows(self._claims.all(statements.READ_CLAIMED, [text]))

    def _claim_statement(self, completes: bool) -> str:
        if self.options.queues is None:
            return statements.COMPLETE_AND_CLAIM if completes else statements.CLAIM
        return statements.COMPLETE_AND_CLAIM_ANY if completes else statements.CLAIM_ANY

    def _parameters(self, room: int, waits: bool = False) -> Dict[str, Any]:
        """Returns the parameters of a claim, or of a wait. room: the number of free slots."""
        parameters = statements.claim_parameters(self.options, self.kinds, room, self.presence.now)
        if self.options.queues is not None:
            parameters.update(statements.queue_parameters(self.options, self.hand.rooms(waits)))
        return parameters

    def _run(self, job: BaseJob) -> None:
        """Starts the handler. If no thread can be started, this job and the other claimed jobs are given back, and the worker
        stops."""
        try:
            self.run(job, self)
        except RuntimeError as error:
            log.error("%s: job %d of kind %r could not be started, and is given back: %s", self.options.worker_id, job.id, job.kind, error)
            self._fail(error, hurry=False)
            self.hand.ended(job, Outcome(RELEASE))()

    def _look_for_other_kinds(self) -> None:
        """Logs which kinds of waiting jobs this worker leaves to others, if that has changed."""
        now = time.monotonic()
        if now < self.look_at:
            return
        self.look_at = now + LOOK_EVERY
        try:
            if not self._claims.all(statements.MAY_LOOK, ())[0]["may_look"]:
                self.look_at = float("inf")
                return
            kinds = [row["kind"] for row in self._claims.all(statements.OTHER_KINDS, (self.options.named_queues, self.options.given_patterns, self.kinds))]
        except psycopg.Error as error:   # a router has other tables
            log.debug("%s: could not look for jobs of other kinds: %s", self.options.worker_id, error)
            self.look_at = float("inf")
            return
        if kinds and kinds != self.other_kinds:
            log.warning("%s: queue %s has waiting jobs that this worker does not claim: %s", self.options.worker_id, self.options.queue_names,
                        ", ".join(f"of kind {kind!r}" if kind else "without a kind" for kind in kinds))
        self.other_kinds = kinds

    def _wait(self, polls: int, room: int) -> None:
        self._look_for_other_kinds()
        if self.pace.calmed():
            log.info("%s: answers are fast again: waiting instead of polling", self.options.worker_id)
        longest: Any = self.options.poll_interval or self.pace.longest_poll
        if longest is not None:
            self.hand.rest(min(FIRST_POLL * 2 ** min(polls, 20), longest))
            return
        parameters = self._parameters(room, waits=True)
        parameters["wait_timeout"] = interval(self.wait_timeout)
        try:
            self._claims.all(statements.WAIT if self.options.queues is None else statements.WAIT_ANY, parameters)
        except psycopg.errors.QueryCanceled as error:
            self._wait_was_ended(error)

    def _wait_was_ended(self, error: psycopg.Error) -> None:
        """Handles a canceled wait in the same way as a wait that has ended and logs the reason once."""
        if self.has_told_of_timeout:
            return
        self.has_told_of_timeout = True
        value = self._claims.all("SELECT current_setting('statement_timeout') AS value", ())[0]["value"]
        log.warning("%s: the server canceled a wait because it cancels each statement after statement_timeout, which is %s for this role and database: %s",
                    self.options.worker_id, value, error)

    # ---- the heartbeat thread

    def _beat_all(self) -> None:
        try:
            self._beat_until_over()
        except BaseException as error:   # noqa: B902
            self._fail(error)   # without this thread, newly claimed jobs would get no heartbeats
            log.exception("%s: heartbeats have ended", self.options.worker_id)
        finally:
            self._say_goodbye()
            self._beats.close()
            self._uncover()
            if self.hand.gave_up:
                log.error("%s: jobs that could not be reported: %s", self.options.worker_id,
                          ", ".join(str(job.id) for job in self.hand.jobs.values()))
            self.hand.leave()
            self.over.set()
            self.when_over()
            liveness.PROCESS.leave(self.hand)

    def _say_goodbye(self) -> None:
        """Tells the server that the worker has stopped, unless the server might not answer."""
        if self._beats.connection is None or self.hand.claiming or self.hand.gave_up:
            return
        with contextlib.suppress(psycopg.Error, Broken):
            self._beats.all(statements.HEARTBEAT_MANY, ([], [], self.presence.last))

    def _beat_until_over(self) -> None:
        pause, retry_at = connect.Pause(), None
        while True:
            beat = self.hand.next_beat(retry_at)
            if not beat:
                return
            retry_at = None
            try:
                self._beats.open()
                self._do(beat)
                pause.reset()
            except Broken:
                if beat.wake:
                    self.hand.wake_failed()
                self.hand.not_reported(beat.reports, uncertain=True)
                self.hand.beat_failed(beat.jobs)
                retry_at = time.monotonic() + pause.take()

    def _do(self, beat: Beat) -> None:
        try:
            if beat.wake:
                self._wake()
            self._report_all(beat.reports)
        finally:
            self._heartbeat(beat)   # even if a report broke the connection, because perhaps only that report's shard is down

    def _wake(self) -> None:
        try:
            self._beats.all(statements.WAKE, (self.options.worker_id,))
        except psycopg.Error as error:
            if error.sqlstate != NOT_PRELOADED:
                log.warning("%s: the wait could not be woken: %s", self.options.worker_id, error)

    def _heartbeat(self, beat: Beat) -> None:
        """Sends the heartbeats of all jobs together, and then progress job by job. If a shard is down, progress for it may fail,
        which must not delay the heartbeats of other jobs."""
        try:
            if beat.jobs:
                if self.hand.cover is not None:
                    self._keep_covered(self.hand.cover)
                with self.hand.sending(beat.jobs) as due:
                    self._heartbeat_together(due)
        finally:   # even if the heartbeats failed, perhaps because one shard is down: other shards can accept progress
            for job in filter(self.hand.is_running, beat.progress):
                with self.hand.sending([job]) as due:
                    if due:
                        self._heartbeat_with_progress(job)
        self._write_lines(beat.lines)

    def _heartbeat_together(self, jobs: List[BaseJob]) -> None:
        if not jobs:
            return
        try:
            rows = self._beats.all(statements.HEARTBEAT_MANY, ([job.id for job in jobs], [job.lease for job in jobs], self.presence.now))
        except psycopg.Error as error:
            log.error("%s: heartbeats were refused: %s", self.options.worker_id, error)
            return
        for job, row in zip(jobs, rows):
            self._heard(job, row["state"])

    def _heartbeat_with_progress(self, job: BaseJob) -> None:
        progress = job.take_progress()
        try:
            rows = self._beats.all(statements.HEARTBEAT, (job.id, job.lease, progress))
        except Broken:
            job.progress_is_new = True
            raise
        except psycopg.Error as error:
            log.error("%s: progress of job %d was refused: %s", self.options.worker_id, job.id, error)
            return
        finally:
            job.progress_under_way = False
        self._heard(job, rows[0]["jobq_heartbeat"])

    def _write_lines(self, jobs: List[BaseJob]) -> None:
        """Sends the log lines of these jobs. If the server rejects lines, they are dropped, because they must not affect the
        jobs."""
        lines = [(job, line) for job in jobs for line in job.lines.take()]
        again = []
        try:
            for first in range(0, len(lines), LINES_AT_ONCE):
                self._send_lines(lines[first:first + LINES_AT_ONCE])
        except Broken:
            again = lines
            raise
        except (psycopg.Error, ValueError) as error:   # psycopg cannot encode each text
            log.error("%s: log lines of jobs %s were refused: %s", self.options.worker_id, ", ".join(str(job.id) for job in jobs), error)
        finally:
            for job in jobs:
                job.lines.sent([line for of, line in again if of is job])
            if lines:
                self.hand.progressed()   # wakes handlers that wait for this

    def _write_last_lines(self, jobs: List[BaseJob]) -> None:
        """Sends the log lines of jobs that are about to be reported. If that breaks the connection, the reports are sent
        nevertheless, because perhaps only the shard of one of these jobs is down."""
        with contextlib.suppress(Broken):
            self._write_lines(jobs)

    def _send_lines(self, lines: List[Tuple[BaseJob, Line]]) -> None:
        try:
            self._beats.all(statements.WRITE_LOG, statements.log_parameters(lines))
        except (psycopg.errors.UntranslatableCharacter, UnicodeEncodeError):   # the encoding of the database or of the client lacks a
                                                                               # character
            in_ascii_only = [(job, line._replace(text=in_ascii(line.text))) for job, line in lines]
            self._beats.all(statements.WRITE_LOG, statements.log_parameters(in_ascii_only))

    def _heard(self, job: BaseJob, state: str) -> None:
        if state == "cancel":
            if self.hand.cancel_prefetched(job):
                self._log_outcome(job, Outcome(FAIL, CANCELLED))
            else:
                job.stop("cancel")
        elif state != "held":
            if state != "finished":
                self._log_lost(job)
            self.hand.lost(job, state)

    # ---- reports

    def _report_all(self, reports: List[Report]) -> None:
        """Sends the reports and removes each from the list when it is done."""
        for what in (COMPLETE, RELEASE):
            together = [report for report in reports if report[1].what == what and not report[1].alone]
            if together:
                self._report_together(what, together)
                reports[:] = [report for report in reports if report[1].what != what or report[1].alone]
        while reports:
            self._report_alone(*reports[0])
            del reports[0]

    def _report_together(self, what: str, reports: List[Report]) -> None:
        jobs = [job for job, _ in reports]
        parameters: List[Any] = [[job.id for job in jobs], [job.lease for job in jobs]]
        self._write_last_lines(jobs)
        for job in jobs:
            if job.progress_is_new:
                self._heartbeat_with_progress(job)
        try:
            if what == COMPLETE:
                rows = self._beats.all(statements.COMPLETE_MANY, [*parameters, [outcome.result for _, outcome in reports]])
            else:
                rows = self._beats.all(statements.RELEASE_MANY, parameters)
        except psycopg.Error as error:
            if connect.is_again(error):
                self._collided(reports, error)
            else:
                self.hand.not_reported(reports, alone=True)
            return
        for (job, outcome), row in zip(reports, rows):
            if not (row["completed"] if what == COMPLETE else row["released"]):
                self._find_out(job, outcome)
            elif what == RELEASE:
                log.info("%s: job %d of kind %r has been released", self.options.worker_id, job.id, job.kind)
        self.hand.reported(jobs)

    def _report_alone(self, job: BaseJob, outcome: Outcome) -> None:
        self._write_last_lines([job])
        if outcome.what == NOTHING:   # only lines were left to send
            self.hand.reported([job])
            return
        if job.progress_is_new and job.ended is None and not job.committing:   # otherwise an open transaction may have locked its
                                                                               # row
            self._heartbeat_with_progress(job)
        next_try: Optional[Outcome] = outcome
        while next_try is not None:
            outcome = next_try
            try:
                if not self._report(job, outcome):
                    self._find_out(job, outcome)
                break
            except (psycopg.Error, TypeError, ValueError, OverflowError) as error:   # the others: a value that cannot be a parameter
                if connect.is_again(error):
                    self._collided([(job, outcome)], error)
                    return
                log.error("%s: the report of job %d was refused: %s", self.options.worker_id, job.id, error)
                next_try = after_refusal(outcome, error)
        self.hand.reported([job])

    def _collided(self, reports: List[Report], error: Exception) -> None:
        """Schedules the reports for another try, because a transaction of another session collided with them. Heartbeats
        continue."""
        log.warning("%s: reports of jobs %s are sent again: %s", self.options.worker_id,
                    ", ".join(str(job.id) for job, _ in reports), error)
        self.hand.collided(reports)

    def _report(self, job: BaseJob, outcome: Outcome) -> bool:
        lease = (job.id, job.lease)
        if outcome.what == COMPLETE:
            return bool(self._beats.all(statements.COMPLETE_MANY, ([job.id], [job.lease], [outcome.result]))[0]["completed"])
        if outcome.what == FAIL:
            rows = self._report_failure((*lease, outcome.text, interval(outcome.retry_in), outcome.retry), outcome.details)
            return rows[0]["jobq_fail"] is not None
        if outcome.what == SNOOZE:
            return bool(self._beats.all(statements.SNOOZE, (job.id, interval(outcome.retry_in), job.lease))[0]["jobq_snooze"])
        if outcome.what == RELEASE:
            return bool(self._beats.all(statements.RELEASE_BRIEFLY, ([job.id], [job.lease]))[0]["released"])
        return self._verify(job, outcome)

    def _report_failure(self, values: Tuple[Any, ...], details: Optional[str]) -> List[Any]:
        """Reports a failure. An older server has no jobq_fail() with details, so the failure is then reported without them."""
        if self.server_takes_details:
            try:
                return self._beats.all(statements.FAIL, (*values, details))
            except psycopg.errors.UndefinedFunction as error:
                undefined = error
        rows = self._beats.all(statements.FAIL_WITHOUT_DETAILS, values)
        if self.server_takes_details:
            log.warning("%s: failures are reported without details, because jobq is older on the server than here: %s",
                        self.options.worker_id, undefined)
            self.server_takes_details = False
        return rows

    def _verify(self, job: BaseJob, outcome: Outcome) -> bool:
        """Finds out whether the transaction in which the handler completed the job has committed. If that transaction is still
        open, the statement waits only briefly (55P03) and is repeated, so that no other job misses a heartbeat."""
        state = self._beats.all(statements.HEARTBEAT_BRIEFLY, (job.id, job.lease))[0]["jobq_heartbeat"]
        if state in ("held", "cancel"):
            text = outcome.text or "the transaction that completed the job has not committed"
            decided = self.collisions.decide(job.id, Outcome(FAIL, text, collision=outcome.collision, details=outcome.details))
            self._log_outcome(job, decided)
            return self._report(job, decided)
        return is_finished(state)

    def _find_out(self, job: BaseJob, outcome: Outcome) -> None:
        """Marks the lease as lost, unless an earlier report of this worker ended the job and only its answer was lost."""
        try:
            state = self._beats.all(statements.HEARTBEAT_BRIEFLY, (job.id, job.lease))[0]["jobq_heartbeat"]
        except psycopg.Error as error:
            log.error("%s: job %d: it is unknown whether its report arrived: %s", self.options.worker_id, job.id, error)
            return
        if state != "finished" and not (outcome.uncertain and is_finished(state)):
            self._log_lost(job)


class _Line:
    """A connection that is opened again after it breaks."""

    def __init__(self, core: Core, name: str) -> None:
        self.core, self.name = core, name
        self.connection: Optional[psycopg.Connection[Any]] = None
        self.opened = 0
        self.pause = connect.Pause()   # until a statement succeeds, because a server such as a standby may accept the connection
                                       # but reject statements

    def open(self) -> psycopg.Connection[Any]:
        if self.connection is not None:
            return self.connection
        core = self.core
        try:
            self.connection = psycopg.connect(**core.arguments())
        except Exception as error:   # includes errors from a conninfo function
            if self.opened == 0:
                raise
            log.warning("%s: no connection for %s, trying again: %s", core.options.worker_id, self.name, error)
            raise Broken() from error
        self.connection.add_notice_handler(self._notice)
        set_json_loads(statements.read_json, self.connection)
        self.opened += 1
        if self.opened > 1:
            log.info("%s: connected again for %s", core.options.worker_id, self.name)
        return self.connection

    def all(self, statement: str, parameters: Any) -> List[Any]:
        connection = self.open()
        try:
            begun = time.monotonic()
            self.core.hand.expect(self.name, self.core.wait_timeout if statement in statements.WAITS else 0.0)
            with connection.cursor(row_factory=dict_row) as cursor:
                cursor.execute(statement, parameters)
                rows = cursor.fetchall() if cursor.description is not None else []
            self.pause.reset()
            if statement not in statements.WAITS:
                self.core.answered(time.monotonic() - begun)
            return rows
        except psycopg.Error as error:
            if not connect.is_broken(error, connection):
                raise
            log.warning("%s: the connection for %s is broken: %s", self.core.options.worker_id, self.name, error)
            self.close()
            raise Broken() from error

    def reconnect(self) -> None:
        while not self.core.hand.stopping():
            self.core.hand.rest(self.pause.take())
            try:
                self.open()
                return
            except Broken:
                continue

    def close(self) -> None:
        connection, self.connection = self.connection, None
        if connection is not None:
            try:
                connection.close()
            except psycopg.Error:
                pass

    def _notice(self, diagnostic: psycopg.errors.Diagnostic) -> None:
        if diagnostic.sqlstate == LEASE_LOST:
            log.warning("%s: %s. %s", self.core.options.worker_id, diagnostic.message_primary, diagnostic.message_detail)
