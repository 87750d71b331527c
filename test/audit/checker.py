"""Finds violations in the histories of the clients and the final state of the database. It has no connection.

Every violation is an entry in the list of its kind; with a correct library all lists are empty.
"""

from collections import Counter, defaultdict
from dataclasses import dataclass, field
from typing import NamedTuple

KINDS = {
    "lost": "acknowledged enqueues that are neither completed nor failed",
    "failed": "jobs that failed permanently, which no job of this run may do",
    "phantom": "jobs or effects of enqueues that were rolled back",
    "unexpected": "jobs or effects that no client enqueued, or that have another id, or that exist twice",
    "torn": "enqueues with unknown outcome of which only a part exists",
    "doubled effect": "jobs whose effect happened more than once",
    "missing effect": "completed jobs without an effect, or effects of jobs that are not completed",
    "lease issued twice": "one lease in two answers, or a job claimed while its lease was held",
    "lease accepted twice": "one lease that completed its job more than once",
    "stale lease accepted": "completions with a lease that was not the current one",
    "false answer": "completions that were accepted without an effect, or rejected with one",
    "unexplained lease": "leases that ended without a completion or a row in jobq.attempts, or were never issued",
    "error": "errors that the run does not explain",
}


class Effect(NamedTuple):
    id: int
    lease: int
    key: str
    client: str
    number: int


@dataclass
class Final:
    """The final contents of the database."""

    jobs: list       # (id, key, status)
    effects: list    # Effect
    attempts: list   # (job_id, lease, outcome)


@dataclass
class Report:
    counts: Counter = field(default_factory=Counter)
    violations: dict = field(default_factory=lambda: {kind: [] for kind in KINDS})

    def add(self, kind, text):
        self.violations[kind].append(text)

    def found(self):
        return {kind: len(entries) for kind, entries in self.violations.items() if entries}


class Claim(NamedTuple):
    attempt: int
    asked: float    # when the claim was sent; the lease cannot have begun earlier
    given: float    # when the answer arrived; the lease cannot have begun later
    lease: int
    certain: bool   # whether its commit was acknowledged


def check(events, final, timeout):
    report = Report()
    asked = {(e.client, e.number): e.time for e in events if e.phase == "invoke"}
    _count(report, events, final)
    _check_enqueues(report, events, final)
    _check_effects(report, final)
    _check_leases(report, events, asked, final, timeout)
    _check_answers(report, events, final)
    for event in events:
        if event.phase == "error":
            report.add("error", f"{event.client} #{event.number} {event.op}: {event.detail}")
    return report


def _count(report, events, final):
    counts = report.counts
    for event in events:
        if event.phase == "invoke":
            continue
        if event.op == "session":
            counts[f"sessions {event.phase}"] += 1
            continue
        counts[f"{event.op}s {event.phase}"] += max(1, len(event.items)) if event.op != "claim" else len(event.items)
        if event.op == "claim" and event.items and event.phase == "ok":
            counts["claims with jobs"] += 1
            counts["claims of one job" if len(event.items) == 1 else "claims of many jobs"] += 1
    details = {(e.client, e.number): e.detail for e in events if e.op == "complete" and e.phase == "invoke"}
    for event in events:
        if event.op == "complete" and event.phase in ("ok", "fail"):
            detail = details[event.client, event.number]
            if detail in ("zombie", "late"):
                counts[f"{detail} completions {'accepted' if event.phase == 'ok' else 'refused'}"] += 1
    counts["jobs completed"] = sum(1 for _, _, status in final.jobs if status == "completed")
    counts["effects"] = len(final.effects)
    for _, _, outcome in final.attempts:
        counts[f"attempts {outcome}"] += 1


def _check_enqueues(report, events, final):
    attempted, acknowledged, rolled_back, unknown = set(), {}, set(), []
    for event in events:
        if event.op != "enqueue":
            continue
        keys = {item.key for item in event.items}
        if event.phase == "invoke":
            attempted |= keys
        elif event.phase == "ok":
            acknowledged.update((item.key, item.id) for item in event.items)
        elif event.phase == "fail":
            rolled_back |= keys
        elif event.phase == "unknown":
            unknown.append(keys)

    by_key = defaultdict(list)
    for job, key, status in final.jobs:
        by_key[key].append((job, status))
    for key, job in acknowledged.items():
        statuses = dict(by_key.get(key, ()))
        status = statuses.get(job)
        if status == "failed":
            report.add("failed", f"{key}: job {job}")
        elif status != "completed":
            report.add("lost", f"{key}: job {job} is {status or 'gone'}")
    for key, rows in by_key.items():
        if key in rolled_back:
            report.add("phantom", f"{key}: {rows}")
        elif key not in attempted or len(rows) > 1:
            report.add("unexpected", f"{key}: {rows}")
        elif key in acknowledged and rows[0][0] != acknowledged[key]:
            report.add("unexpected", f"{key}: {rows}, acknowledged as {acknowledged[key]}")
    for keys in unknown:
        there = sum(1 for key in keys if key in by_key)
        if there not in (0, len(keys)):
            report.add("torn", f"{there} of {len(keys)}: {min(keys)}")
        for key in keys & by_key.keys():
            for job, status in by_key[key]:
                if status != "completed":
                    report.add("failed" if status == "failed" else "lost", f"{key}: job {job} of an enqueue of unknown outcome is {status}")
    for effect in final.effects:
        if effect.key in rolled_back:
            report.add("phantom", f"effect of {effect.key}")
        elif effect.key not in attempted:
            report.add("unexpected", f"effect of {effect.key}")


def _check_effects(report, final):
    effects = Counter(effect.id for effect in final.effects)
    for job, count in effects.items():
        if count > 1:
            report.add("doubled effect", f"job {job}: {count} effects")
    status = {job: status for job, _, status in final.jobs}
    for job, key, state in final.jobs:
        if state == "completed" and job not in effects:
            report.add("missing effect", f"{key}: job {job} is completed without effect")
    for job in effects:
        if status.get(job) != "completed":
            report.add("missing effect", f"job {job} has an effect and is {status.get(job, 'gone')}")
    for (job, lease), count in Counter((e.id, e.lease) for e in final.effects).items():
        if count > 1:
            report.add("lease accepted twice", f"job {job} lease {lease}: {count} effects")


def _check_leases(report, events, asked, final, timeout):
    claims, signs, given_up = defaultdict(list), defaultdict(float), {}
    # Requested and not rejected: a client that was killed before it could record the answer may have succeeded.
    refused = {(e.client, e.number, item.id) for e in events if e.op == "fail" and e.phase in ("fail", "error") for item in e.items}
    for event in events:
        sent = asked[event.client, event.number]
        if event.op == "claim" and event.phase in ("ok", "unknown"):
            for item in event.items:
                claims[item.id].append(Claim(item.attempt, sent, event.time, item.lease, event.phase == "ok"))
        elif event.op == "heartbeat" and event.phase == "ok":
            for item in event.items:
                lease = item.id, item.lease
                signs[lease] = max(signs[lease], sent)
        elif event.op == "fail" and event.phase == "invoke":
            for item in event.items:
                if (event.client, event.number, item.id) in refused:
                    continue
                given_up.setdefault((item.id, item.lease), sent)

    ended = defaultdict(list)
    for job, lease, outcome in final.attempts:
        ended[job, lease].append(outcome)
    effects = defaultdict(list)
    for effect in final.effects:
        effects[effect.id].append(effect.lease)

    for job, given in claims.items():
        given.sort()
        certain = [claim for claim in given if claim.certain]
        for lease, count in Counter(claim.lease for claim in given).items():
            if count > 1:
                report.add("lease issued twice", f"job {job} lease {lease}: in {count} answers")
        for before, after in zip(certain, certain[1:]):
            held = job, before.lease
            over = max(before.asked, signs.get(held, 0)) + timeout * 0.98
            if after.given < min(over, given_up.get(held, over)):
                report.add("lease issued twice",
                           f"job {job} claimed under {after.lease} while {before.lease} was held")
        completed = set(effects.get(job, ()))
        for claim in given:
            ends = ended.get((job, claim.lease), [])
            if claim.lease in completed:
                newer = [c.lease for c in certain if c.attempt > claim.attempt]
                if newer or ends:
                    report.add("stale lease accepted",
                               f"job {job} lease {claim.lease} completed although "
                               + (f"{newer[0]} was given later" if newer else f"the attempt was {ends[0]}"))
            elif claim.certain and len(ends) != 1:
                report.add("unexplained lease", f"job {job} lease {claim.lease} ended {ends or 'nowhere'}")
        for lease in completed - {claim.lease for claim in given}:
            report.add("unexplained lease", f"job {job} was completed with lease {lease}, which was never issued")
    for job in effects.keys() - claims.keys():
        report.add("unexplained lease", f"job {job} was completed but never claimed")


def _check_answers(report, events, final):
    effects = {(e.client, e.number, e.id) for e in final.effects}
    accepted = Counter()
    for event in events:
        if event.op != "complete" or event.phase not in ("ok", "fail"):
            continue
        for item in event.items:
            there = (event.client, event.number, item.id) in effects
            if event.phase == "ok":
                accepted[item.id, item.lease] += 1
            if there != (event.phase == "ok"):
                report.add("false answer", f"job {item.id} lease {item.lease}: "
                           + ("refused, with effect" if there else "accepted, without effect"))
    for (job, lease), count in accepted.items():
        if count > 1:
            report.add("lease accepted twice", f"job {job} lease {lease}: accepted {count} times")
