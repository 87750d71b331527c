"""The laws that every run of all features together must obey. Judges what the witness saw; it has no connection.

Every law is about the order of facts in the server's log, which is exact: a transaction that has seen the outcome of
another one writes after its commit. Clocks, all of them those of the server, only measure how long something took.

A violation is an entry in the list of its kind; with a correct library all lists are empty.
"""

import sys
from collections import Counter, defaultdict
from dataclasses import dataclass, field

import batched
import blocked
import handled
import order
import totals
from checker import Report
from witness import seconds
from world import COMPLETES, EXECUTOR, FINISHED, SERVER, WAITING, Settings, World

from jobq.audit.book import Knowledge
from jobq.audit.laws import LAWS, Auditor
from jobq.audit.life import TRANSITIONS, interval

KINDS = {
    **LAWS,
    "lost": "jobs of a committed enqueue that do not exist, or that were deleted without a request",
    "phantom": "jobs that no client enqueued",
    "stuck": "jobs that are unfinished although nothing blocks them anymore",
    "stale lease accepted": "reports accepted from a lease that was not the current one",
    "false answer": "reports that were rejected although the lease was current, or accepted without an effect",
    "effects": "completions by a handler without exactly one effect, or effects of attempts that did not complete",
    "expiry": "jobs that were claimed after their expires_at, or that expired before it or after a claim",
    "batch": "sealed batches without exactly one callback of each sort, or callbacks that were enqueued before all jobs had ended",
    "overdue": "leases that outlived their heartbeat timeout, max_runtime or cancellation",
    "kind ignored": "claims with another heartbeat timeout than that of the job's kind",
    "rate exceeded": "claims beyond a rate",
    "group order": "jobs that were unblocked before an earlier job of their group",
    "dependency ignored": "jobs that ran before their dependencies, or were cancelled without a reason",
    "left waiting": "jobs that were unblocked long after the last event that they waited for",
    "too deep": "enqueues that were accepted by a full queue",
    "stray letter": "dead letters in the wrong queue",
    "passed over": "jobs that waited for long while later jobs of the same queue were claimed",
    "turns skipped": "queues whose keys did not take turns",
    "counters": "counters or ages that differ from the rows",
    "totals": "totals of jobq_metrics that differ from the changes",
    "error": "errors that the run does not explain",
}

OUTCOMES = {"fail": {"failed", "cancelled"}, "release": {"released", "cancelled"}, "snooze": {"snoozed", "cancelled"}}


@dataclass
class Rules:
    """The settings of the run, and how long things may take."""

    dead_letters: dict = field(default_factory=dict)    # queue: its dead letter queue
    depths: dict = field(default_factory=dict)          # queue: its max_depth
    max_runtimes: dict = field(default_factory=dict)    # queue: seconds, for jobs without their own
    ageing: dict = field(default_factory=dict)          # queue: seconds of waiting that are worth one step of priority
    in_turn: tuple = ()                                 # queues whose concurrency keys take turns
    halting: tuple = ()                                 # queues whose groups halt on a failure
    rates: dict = field(default_factory=dict)           # queue: (jobs, seconds)
    heartbeat_timeout: float = 1.0                      # seconds, for jobs without their own whose kind has none either
    cancel_grace: float = 60.0
    promised: float = 2.0       # seconds after a deadline within which jobq promises to act
    busy: float = 4.0           # additional seconds on a busy machine whose background worker is terminated
    sessions_lost: int = 0
    executors_lost: int = 0


def check(changes, rules, errors=(), told=None):
    """`told`: the final totals of jobq_metrics, summed up over all queues and kinds; if None, they are not judged."""
    report = Report(violations={kind: [] for kind in KINDS})
    world = World(changes)
    _audit(world, changes, rules, report)
    for law in (_steps, _enqueues, _leases, _reports, _attempts, _deadlines, _expiry, _kinds, _rates,
                blocked.groups, blocked.dependencies, _depths, _dead_letters, order.overtaken, order.turns, handled.effects, handled.losses,
                batched.batches, _ends):
        law(world, rules, report)
    if told is not None:
        totals.compare(world, told, report)
    for text in errors:
        report.add("error", text)
    report.counts.update(f"{fact.row.op}" for fact in world.facts)
    report.counts["versions"] = len(world.steps)
    return report


class _Recorded(Knowledge):
    """What the clients have recorded about the moments of their requests and the answers."""

    def __init__(self, world, rules):
        self.world, self.rules = world, rules
        self.claims = {(span.start.change.xid, span.job): asked for span, asked in world.claims()}

    def in_force(self, change):
        seen = self.world.seen_from(change)
        return seen[1] if seen else None

    def asked(self, span):
        return self.claims.get((span.start.change.xid, span.job))

    def is_halted(self, job):
        return job.queue in self.rules.halting


def _audit(world, changes, rules, report):
    """The laws of `jobq audit`, which reads the same changes, but in the order of the commits."""
    transactions = defaultdict(list)
    for change in changes:
        transactions[change.commit].append(change)
    in_order = [transactions[commit] for commit in sorted(transactions)]
    horizons, horizon = [], (sys.maxsize, 0)
    for written in reversed(in_order):
        horizons.append(horizon)
        horizon = min(horizon, written[0].place)
    auditor = Auditor(_Recorded(world, rules), lambda found: report.add(found.law, found.text), complete=True)
    for written, horizon in zip(in_order, reversed(horizons)):
        auditor.read(written)
        auditor.forget(horizon)
    report.counts.update({f"most at once in {scope}": count for scope, count in auditor.limits.most.items()})


def _name(change):
    fact = change.row
    return f"{fact.client} #{fact.number} {fact.op} job {fact.job}"


# The life of a job

def _steps(world, rules, report):
    freed = set()       # groups, and the transactions that have ended their heads and so unblock the next job
    for step in world.steps:
        change, (before, after) = step.change, step.statuses()
        causes = world.ops.get(change.xid) or {SERVER}
        if blocked.is_head(step.before, rules) and not blocked.is_head(step.after, rules):
            freed.add((change.xid, step.before.queue, step.before.group_key))
        if before == "blocked" and blocked.is_head(step.after, rules):
            heir = (change.xid, step.after.queue, step.after.group_key)
            report.counts[f"heads made {'by the end of the one before' if heir in freed else 'by the server'}"] += 1
            if heir in freed:
                freed.remove(heir)
                causes = {SERVER}
        if (before, after) == ("pending", "processing") and step.after.worker_id == EXECUTOR:
            causes = {SERVER}   # possibly in the transaction of the previous job, whose handler has written facts
        if not step.expires() and not batched.event_of(step) and not causes & TRANSITIONS.get((before, after), set()):
            report.add("lost" if after is None else "impossible step",
                       f"job {change.row.id}: {before} became {after} by {sorted(causes)}")
        if step.after and (step.after.lease is not None) != (after == "processing"):
            report.add("impossible step", f"job {change.row.id}: {after} with lease {step.after.lease}")


def _enqueues(world, rules, report):
    made = {steps[0].change.row.id: steps[0].change for steps in world.history.values() if steps[0].before is None}
    for job, change in made.items():
        if job not in world.enqueued and not batched.event_of(world.history[job][0]):
            report.add("phantom", f"job {job}, {change.row.status} in {change.row.queue}")
    for fact in world.facts:
        if fact.row.op in {"enqueue", "met"} and fact.row.job not in made:
            report.add("lost", f"job {fact.row.job} of {_name(fact)}")


def _ends(world, rules, report):
    for job, state in world.last.items():
        if state is not None and state.status not in FINISHED:
            report.add("stuck", f"job {job} is {state.status} in {state.queue}, group {state.group_key}, error {state.error}")


# Leases

def _leases(world, rules, report):
    claims = defaultdict(list)
    for fact in world.facts:
        if fact.row.op in ("claim", "claimed"):
            claims[fact.row.job, fact.row.lease].append(fact)
    given, silent = set(), set()
    for span in world.leases():
        step = span.start
        lease = span.job, step.after.lease
        given.add(step.after.lease)
        facts = claims.pop(lease, ())
        if len(facts) > 1:
            report.add("lease issued twice", f"job {span.job} lease {lease[1]} to {[_name(fact) for fact in facts]}")
        if not facts and not world.is_handled(span):
            silent.add(step.change.xid)
    for (job, lease), facts in claims.items():
        report.add("unexplained lease", f"job {job} lease {lease}: {_name(facts[0])}, and the job never had it")
    # A client that claims in a transaction of its own may lose its session before it has recorded the claim.
    if len(silent) > rules.sessions_lost:
        report.add("unexplained lease", f"{len(silent)} claims of nobody, and {rules.sessions_lost} sessions were lost")
    report.counts["leases"] = len(given)
    report.counts["claims of lost sessions"] = len(silent)


def _reports(world, rules, report):
    """Every accepted report ended or extended the current lease; every rejected report named another lease."""
    ends = {}
    for span in world.leases():
        if span.end:
            ends[span.end.change.xid, span.job, span.start.after.lease] = span.end
    for fact in world.facts:
        row = fact.row
        if row.op in ("complete", "fail", "release", "snooze"):
            end = ends.get((fact.xid, row.job, row.lease))
            if end is None:
                report.add("stale lease accepted", f"{_name(fact)} lease {row.lease} did not end that lease")
            elif (row.op == "complete") != (end.after is None or end.after.status == "completed"):
                report.add("false answer", f"{_name(fact)}: the job is {end.after and end.after.status}")
        elif row.op in ("heartbeat", "asked", "refused"):
            state = world.state_at(row.job, fact)
            holds = state is not None and state.status == "processing" and state.lease == row.lease
            if holds == (row.op == "refused"):
                report.add("false answer" if holds else "stale lease accepted",
                           f"{_name(fact)} lease {row.lease}, and the job is {state and (state.status, state.lease)}")
    # Conversely, no lease ends by a report of which its client does not know.
    for (xid, job, lease), end in ends.items():
        told = [fact.row for fact in world.told.get(xid, ()) if fact.row.job == job and fact.row.lease == lease]
        if end.after is not None and end.after.status == "completed" and not any(row.op in COMPLETES for row in told):
            report.add("stale lease accepted", f"job {job} was completed, and nobody who held lease {lease} did that")


def _attempts(world, rules, report):
    """The row in jobq.attempts says what the client reported."""
    rows = defaultdict(list)
    for change in world.attempts:
        rows[change.xid, change.row.job_id, change.row.lease].append(change.row.outcome)
    for span in world.leases():
        if span.end is None:
            continue
        end, lease = span.end, span.start.after.lease
        outcomes = rows.get((end.change.xid, span.job, lease), [])
        if end.after is None or end.after.status == "completed" or len(outcomes) != 1:
            continue
        wanted = {SERVER}
        for fact in world.told.get(end.change.xid, ()):
            if (fact.row.job, fact.row.lease) == (span.job, lease):
                wanted = OUTCOMES.get(fact.row.op, wanted)
        if wanted != {SERVER} and outcomes[0] not in wanted:
            report.add("unexplained lease", f"job {span.job} lease {lease}: {outcomes[0]}, reported as one of {wanted}")
        report.counts[f"attempts {outcomes[0]}"] += 1
        report.counts["cancelled while they ran"] += end.after.status == "cancelled"


def _deadlines(world, rules, report):
    """No lease lasts long after its heartbeat timeout, its max_runtime, or the grace period of a cancellation."""
    allowed = rules.promised + rules.busy
    now = max((step.change.time for step in world.steps), default=0)
    for span in world.leases():
        end = span.end.change.time if span.end else now
        row = span.end.before if span.end else world.last[span.job]
        if row.status != "processing":
            continue
        limits = []
        if not world.is_handled(span):
            limits.append(("heartbeat", seconds(row.last_heartbeat) + interval(row.lease_timeout)))
        longest = interval(row.max_runtime) if row.max_runtime else rules.max_runtimes.get(row.queue)
        if longest is not None:
            limits.append(("max_runtime", seconds(row.started_at) + longest))
        if row.cancel_requested_at:
            limits.append(("cancellation", seconds(row.cancel_requested_at) + rules.cancel_grace))
        for name, limit in limits:
            late = end - limit
            report.counts[f"longest over {name} (ms)"] = max(report.counts[f"longest over {name} (ms)"], round(late * 1000))
            if late > allowed:
                report.add("overdue", f"job {span.job} lease {row.lease} {late:.2f} s after its {name}")


def _expiry(world, rules, report):
    """No job expires that has been claimed."""
    claimed = set()
    for step in sorted(world.steps, key=lambda step: (step.change.commit, step.change.place)):
        before, after = step.before, step.after
        if after is None:
            continue
        if after.status == "processing" and before and before.status in WAITING:
            claimed.add(after.id)
        elif step.expires():
            report.counts["expired"] += 1
            if after.id in claimed:
                report.add("expiry", f"job {after.id} expired although it had been claimed")
        elif "met" in world.ops.get(step.change.xid, ()) or "enqueue" in world.ops.get(step.change.xid, ()):
            claimed.discard(after.id)   # a replacement may set a new expires_at


# Settings

def _settings(world, initial, entries):
    """The settings by subject: entries of (change, subject, value)."""
    found = defaultdict(lambda: Settings(initial))
    for change, about, value in entries:
        seen = world.seen_from(change)
        found[about].add(change, value, seen[1] if seen else None)
    return found


def _kinds(world, rules, report):
    """A claim gives a job without its own heartbeat_timeout the timeout of its kind or, if the kind has none, of its queue."""
    timeouts = _settings(world, None, ((change, (change.row.queue, change.row.kind),
                                        None if change.deleted else change.row.heartbeat_timeout) for change in world.kinds))
    for span, asked in world.claims():
        change, row = span.start.change, span.start.after
        if (row.queue, row.kind) not in timeouts or row.heartbeat_timeout is not None or world.is_handled(span):
            continue
        values = [rules.heartbeat_timeout if value is None else interval(value)
                  for value in timeouts[row.queue, row.kind].possible(change.place, asked)]
        report.counts["claims under a setting of their kind"] += rules.heartbeat_timeout not in values
        if interval(row.lease_timeout) not in values:
            report.add("kind ignored", f"job {span.job} of {row.queue} {row.kind!r} got the timeout {row.lease_timeout}, not {values}")


def _rates(world, rules, report):
    for queue, (jobs, per) in rules.rates.items():
        times = sorted(seconds(span.start.after.started_at) for span, _ in world.claims()
                       if span.start.after.queue == queue)
        # Computes by how much a bucket that holds `jobs` tokens and is refilled evenly would be overdrawn.
        level, last = float(jobs), None
        for number, time in enumerate(times):
            if last is not None:
                level = min(jobs, level + (time - last) * jobs / per)
            level, last = level - 1, time
            if level < -1 - 0.1 * jobs / per:
                report.add("rate exceeded", f"claim {number} of {len(times)} from {queue}: {-level:.1f} too many")
        report.counts[f"claims at a rate in {queue}"] = len(times)


# Queues

def _depths(world, rules, report):
    """A transaction that enqueues has counted at least the jobs that were visible to all before it began."""
    entered = defaultdict(lambda: defaultdict(list))    # queue: transaction: the steps that created its new jobs
    for steps in world.history.values():
        step = steps[0]
        if step.after is not None and step.after.queue in rules.depths:
            entered[step.after.queue][step.change.xid].append(step)
    waiting = defaultdict(list)
    for span in world.spans(lambda step: step.after and step.after.status in WAITING and step.after.queue in rules.depths,
                            lambda span, step: step.after and step.after.status in WAITING
                            and step.after.queue == span.start.after.queue):
        waiting[span.start.after.queue].append(span)
    dropped = Counter()     # (transaction, queue): jobs that were cancelled to make room; it need not have counted them all
    for step in world.steps:
        if step.expires():
            dropped[step.change.xid, step.before.queue] += 1    # possibly by an enqueue that wants its unique key
        elif step.statuses() == ("pending", "cancelled") and "cancel" not in world.ops[step.change.xid]:
            dropped[step.change.xid, step.before.queue] += 1
            report.counts["dropped for others"] += 1
    for queue, calls in entered.items():
        going, following = [], iter(waiting[queue])
        upcoming = next(following, None)
        for xid, steps in sorted(calls.items(), key=lambda call: world.begun[call[0]]):
            begun, commit = world.begun[xid], steps[0].change.commit
            while upcoming is not None and upcoming.start.change.place < begun:
                going.append(upcoming)
                upcoming = next(following, None)
            going = [span for span in going if span.end is None or span.end.change.place > begun]
            there = -dropped[xid, queue]
            for span in going:
                end = span.end and span.end.change
                left = end is not None and end.xid != xid and end.place < commit
                there += not left and world.known_to(span.start.change, xid)
            # The rows of one plain INSERT are judged by the depth before the first of them.
            room = rules.depths[queue] - there + (len(steps) - 1 if "by hand" in world.ops[xid] else 0)
            # A queue may already be deeper because jobs have returned to it; then at least as many jobs must be dropped as are
            # enqueued.
            if len(steps) > room and len(steps) > dropped[xid, queue]:
                report.add("too deep", f"{len(steps)} jobs, the first job {steps[0].change.row.id}, beside {there} in {queue}")
            report.counts[f"deepest {queue}"] = max(report.counts[f"deepest {queue}"], there + len(steps))


def _dead_letters(world, rules, report):
    letters = set(rules.dead_letters.values())
    for step in world.steps:
        before, after = step.before, step.after
        if after is None:
            continue
        if (after.dead_from is not None or after.queue in letters) and after.status != "failed":
            # On its way back, a job may stay in the dead letter queue for one version within the transaction.
            final = [other for other in world.history[after.id] if other.change.xid == step.change.xid][-1].after
            if final is not None and final.queue in letters:
                report.add("stray letter", f"job {after.id} is {after.status} in {after.queue}")
        if after.status == "failed" and before and before.status == "processing" and before.queue in rules.dead_letters:
            final = [other for other in world.history[after.id] if other.change.xid == step.change.xid][-1].after
            halts = before.queue in rules.halting and before.group_key is not None
            home = (before.queue, None) if halts else (rules.dead_letters[before.queue], before.queue)
            report.counts["groups halted"] += halts
            if final is None or (final.queue, final.dead_from) != home:
                report.add("stray letter", f"job {after.id} failed in {before.queue} and is in {final and final.queue}")
            report.counts["dead letters"] += 1
        if before and before.dead_from is not None and after.status in WAITING:
            final = [other for other in world.history[after.id] if other.change.xid == step.change.xid][-1].after
            if final is not None and final.queue != before.dead_from:
                report.add("stray letter", f"job {after.id} of {before.dead_from} went home to {final.queue}")
