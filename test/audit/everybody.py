"""The workers and operators of everything.py, and clients that call jobq_tick(). They use all features at random."""

import heapq
import time

from client import SessionLost
from producers import KINDS, Actor
from statuses import FINISHED, WAITING


class Held:
    """A lease as its worker knows it."""

    def __init__(self, job, lease):
        self.job = job
        self.lease = lease


CLAIMED = "c.id AS job, c.lease AS lease, jsonb_build_object('queue', c.queue, 'batch', %s::int) AS detail"


class Worker(Actor):
    def __init__(self, plan, name, slot, pids):
        self.later = []         # leases to which this worker returns: (due, tie, action, lease)
        self.ties = 0
        self.draining = False
        super().__init__(plan, name, slot, pids)

    def actions(self):
        return ((self.work, 10), (self.work_in_transaction, 3), (self.work_on_any, 2), (self.work_on_batch, 3),
                (self.work_fused, 2), (self.wait, 1))

    def between(self):
        self.do_due()
        self.pause(0.01)

    def leave(self, deadline):
        """Completes the jobs that the load has left, without faults, so that jobs which cannot be completed are noticed."""
        self.draining = True
        while time.monotonic() < deadline and not self.plan.drained.is_set():
            try:
                self.do_due()
                if self.plan.drain.is_set():
                    self.attempt(self.drain)
                else:
                    time.sleep(0.02)
            except SessionLost:
                self.reconnect()

    # Claims

    def claim(self, queue, batch):
        """Claims in one statement together with the facts, or without them, like a worker in a hurry; then the facts follow."""
        if self.chance(0.75):
            rows = self.noting("SELECT 'claim' AS op, " + CLAIMED + " FROM jobq_claim!(%s, %s, %s) c",
                               batch, queue, self.name, batch)
            return [Held(job, lease) for _, job, lease in rows]
        rows = self.sql("SELECT id, lease FROM jobq_claim!(%s, %s, %s)", queue, self.name, batch)
        self.begin_number()
        for job, lease in rows:
            self.note("claimed", job, lease)
        return [Held(*row) for row in rows]

    def work(self):
        for held in self.claim(self.any_queue(), 1):
            self.treat(held)

    def work_on_batch(self):
        held = self.claim(self.any_queue(), self.random.randint(2, 12))
        self.random.shuffle(held)
        cut = self.random.randint(0, len(held))
        for one in held[:cut]:
            self.treat(one)
        if held[cut:]:
            self.attempt(self.pick(self.complete_many, self.complete_many, self.fail_many, self.release_many), held[cut:])

    def work_on_any(self):
        queues = self.random.sample(self.plan.queues, 3)
        rows = self.noting("SELECT 'claim' AS op, " + CLAIMED + " FROM jobq_claim_any!(%s::text[], %s, %s) c",
                           1, queues, self.name, 1)
        for _, job, lease in rows:
            self.treat(Held(job, lease))

    def work_in_transaction(self):
        """Claim and completion in one transaction, in which the lease may be omitted; a savepoint may be rolled back."""
        with self.transaction(keep=0.8):
            if self.chance(0.3):
                self.sql("SAVEPOINT s")
                self.claim_here(self.any_queue(), self.random.randint(1, 3))
                self.sql("ROLLBACK TO s")
            for held in self.claim_here(self.any_queue(), self.random.randint(1, 3)):
                if self.chance(0.8):
                    self.pause(0.01)
                    self.noting("SELECT CASE WHEN jobq_complete!(%s) THEN 'complete' ELSE 'refused' END AS op,"
                                " %s::bigint AS job, %s::bigint AS lease, '{}'::jsonb AS detail",
                                held.job, held.job, held.lease)

    def claim_here(self, queue, batch):
        rows = self.noting("SELECT 'claim' AS op, " + CLAIMED + " FROM jobq_claim!(%s, %s, %s) c",
                           batch, queue, self.name, batch)
        return [Held(job, lease) for _, job, lease in rows]

    def work_fused(self):
        """Completes jobs and claims the next ones in one call; a lost lease is a warning, and everything is rolled back."""
        queue = self.any_queue()
        held = self.claim(queue, self.random.randint(1, 5))
        for _ in range(3):
            if not held:
                return
            self.begin_number()
            self.sql("BEGIN")
            self.pause(0.01)
            rows = self.noting("SELECT 'claim' AS op, " + CLAIMED
                               + " FROM jobq_complete_and_claim!(%s::bigint[], %s::bigint[], NULL, %s, %s, %s) c",
                               len(held), [h.job for h in held], [h.lease for h in held], queue, self.name, len(held))
            if self.warned:
                self.sql("ROLLBACK")
                self.complete_many(held)
                return
            for one in held:
                self.note("complete", one.job, one.lease)
            self.sql("COMMIT")
            held = [Held(job, lease) for _, job, lease in rows]
        for one in held:
            self.treat(one)

    def wait(self):
        self.sql("CALL jobq_wait(%s, %s)", self.any_queue(), f"{self.random.randint(10, 300)} ms")

    # Reports and other ends of a job

    def treat(self, held):
        fate = self.random.random()
        if fate < 0.55:
            self.attempt(self.pick(self.complete, self.complete, self.complete_in_transaction), held)
        elif fate < 0.70:
            self.attempt(self.fail, held)
        elif fate < 0.75:
            self.attempt(self.release, held)
        elif fate < 0.79:
            self.attempt(self.snooze, held)
        elif fate < 0.90:
            self.come_back(self.random.uniform(0.01, 0.25), self.complete, held)
        elif fate < 0.96:
            for step in range(1, self.random.randint(2, 6)):
                self.come_back(step * 0.25, self.heartbeat, held)
            self.come_back(step * 0.25 + 0.2, self.complete, held)
        elif fate < 0.98:
            # Silent until about the time of the rescue, or for long after it.
            self.come_back(self.random.uniform(0.5, 2.5), self.pick(self.complete, self.fail, self.release), held)
        # otherwise the job is forgotten

    def come_back(self, seconds, action, held):
        self.ties += 1
        heapq.heappush(self.later, (time.monotonic() + seconds, self.ties, action, held))

    def do_due(self):
        while self.later and self.later[0][0] <= time.monotonic():
            _, _, action, held = heapq.heappop(self.later)
            self.attempt(action, held)

    def report(self, call, held, *parameters):
        """A call whose answer is the name of a fact; a lost lease becomes the fact `refused`."""
        return self.noting(f"SELECT {call} AS op, %s::bigint AS job, %s::bigint AS lease, '{{}}'::jsonb AS detail",
                           held.job, held.lease, *parameters, held.job, held.lease)

    def complete(self, held):
        self.report("CASE WHEN jobq_complete!(%s, %s) THEN 'complete' ELSE 'refused' END", held)

    def complete_in_transaction(self, held):
        self.allowed = {"JQ001"}
        with self.transaction():
            self.sql("SELECT jobq_complete!(%s, %s, NULL, true)", held.job, held.lease)
            self.note("complete", held.job, held.lease)

    def fail(self, held):
        self.report("CASE WHEN jobq_fail!(%s, %s, 'at random', %s::interval, %s) IS NULL THEN 'refused' ELSE 'fail' END",
                    held, self.pick(None, "0 s", "100 ms"), self.chance(0.85))

    def release(self, held):
        self.report("CASE WHEN jobq_release!(%s, %s) THEN 'release' ELSE 'refused' END", held)

    def snooze(self, held):
        self.report("CASE WHEN jobq_snooze!(job_id => %s, lease => %s, delay => %s::interval) THEN 'snooze' ELSE 'refused' END",
                    held, self.pick("0 s", "50 ms", "400 ms"))

    def heartbeat(self, held):
        """A worker that is requested to cancel stops in one of the possible ways, or does not stop."""
        state = self.report("CASE jobq_heartbeat!(%s, %s) WHEN 'held' THEN 'heartbeat' WHEN 'cancel' THEN 'asked'"
                            " ELSE 'refused' END", held)[0][0]
        if state == "asked" and self.chance(0.7):
            self.attempt(self.pick(self.complete, self.fail, self.release, self.snooze), held)

    def many(self, call, answer, held, *parameters):
        self.noting(f"SELECT {answer} AS op, a.job_id AS job, h.lease AS lease, '{{}}'::jsonb AS detail"
                    f" FROM {call} a JOIN unnest(%s::bigint[], %s::bigint[]) AS h (job, lease) ON h.job = a.job_id",
                    [h.job for h in held], [h.lease for h in held], *parameters,
                    [h.job for h in held], [h.lease for h in held])

    def complete_many(self, held):
        self.many("jobq_complete_many!(%s::bigint[], %s::bigint[])",
                  "CASE WHEN a.completed THEN 'complete' ELSE 'refused' END", held)

    def fail_many(self, held):
        self.many("jobq_fail_many!(%s::bigint[], %s::bigint[], NULL, %s::interval)",
                  "CASE WHEN a.status IS NULL THEN 'refused' ELSE 'fail' END", held, self.pick(None, "20 ms"))

    def release_many(self, held):
        self.many("jobq_release_many!(%s::bigint[], %s::bigint[])",
                  "CASE WHEN a.released THEN 'release' ELSE 'refused' END", held)

    def drain(self):
        taken = 0
        for queue in self.random.sample(self.plan.queues, len(self.plan.queues)):
            held = self.claim(queue, 10)
            taken += len(held)
            if held:
                self.complete_many(held)
        if not taken:
            time.sleep(0.02)


class Operator(Actor):
    def actions(self):
        return ((self.one, 10), (self.ask, 4), (self.several, 4), (self.hold_up, 2), (self.redrive, 2), (self.by_hand, 4),
                (self.hold, 4), (self.alter, 1), (self.look, 2), (self.limit, 4), (self.alter_kind, 4),
                (self.end_halt, 5))

    def between(self):
        self.pause(0.1)

    def some(self, *statuses):
        rows = self.sql("SELECT id FROM jobq.jobs WHERE status = ANY (%s::jobq.job_status[])"
                        " AND id > (SELECT max(id) - 1000 FROM jobq.jobs) ORDER BY random() LIMIT 1", list(statuses))
        return rows[0][0] if rows else 0

    def one(self):
        op, call, statuses = self.pick(
            ("cancel", "jobq_cancel!(%s)", WAITING),
            ("retry", "jobq_retry!(%s)", (*FINISHED, "scheduled")),
            ("reschedule", "jobq_reschedule!(%s, clock_timestamp() + interval '300 ms')", WAITING),
            ("reschedule", "jobq_reschedule!(%s, clock_timestamp() - interval '1 s')", WAITING),
            ("delete", "jobq_delete!(%s)", (*WAITING, *FINISHED)))
        job = self.some(*statuses)
        if op == "retry":
            self.allowed = {"23505"}
        with self.transaction(keep=0.85):
            self.sql("SELECT " + call, job)
            self.note(op, job)

    def ask(self):
        """Requests the cancellation of the job that has been running for longest."""
        with self.transaction(keep=0.9):
            rows = self.sql("SELECT id FROM jobq.jobs WHERE status = 'processing' AND cancel_requested_at IS NULL"
                            " AND id > (SELECT max(id) - 1000 FROM jobq.jobs) ORDER BY started_at LIMIT 1")
            for (job,) in rows:
                self.sql("SELECT jobq_cancel!(%s)", job)
                self.note("cancel", job)

    def several(self):
        op, call = self.pick(
            ("cancel", "jobq_cancel_jobs!(%s, max_jobs => 3)"),
            ("retry", "jobq_retry_jobs!(%s, statuses => '{failed,cancelled}', max_jobs => 5)"),
            ("reschedule", "jobq_reschedule_jobs!(%s, clock_timestamp() + interval '100 ms', max_jobs => 5)"),
            ("delete", "jobq_delete_jobs!(%s, max_jobs => 5)"),
            ("delete", f"jobq_delete_jobs!(%s, statuses => '{{{','.join(WAITING)}}}', max_jobs => 2)"))
        with self.transaction(keep=0.85):
            self.sql("SELECT " + call, self.random.choice(self.plan.queues))
            self.note(op)

    def end_halt(self):
        """Lets a halted group continue in each of the possible ways."""
        op, call = self.pick(("skip", "jobq_skip!(%s)"), ("retry", "jobq_retry!(%s)"), ("cancel", "jobq_cancel!(%s)"),
                             ("delete", "jobq_delete!(%s)"))
        rows = self.sql("SELECT job_id FROM jobq.halted_groups ORDER BY random() LIMIT 1")
        if op == "retry":
            self.allowed = {"23505"}
        for (job,) in rows:
            with self.transaction(keep=0.85):
                self.sql("SELECT " + call, job)
                self.note(op, job)

    def hold_up(self):
        """Pauses a queue for a moment. The resume is retried even if the session is lost."""
        queue = self.random.choice(self.plan.queues)
        try:
            self.begin_number()
            self.sql("BEGIN")
            self.sql("SELECT jobq_pause_queue(%s)", queue)
            self.note("pause", queue=queue)
            self.sql("COMMIT")
            self.number += 1
            self.note("answered")
            self.pause(0.4)
        except SessionLost:
            self.reconnect()
            self.resume(queue)
            raise
        self.resume(queue)

    def resume(self, queue):
        while True:
            try:
                self.number += 1
                self.sql("BEGIN")
                self.sql("SELECT jobq_resume_queue(%s)", queue)
                self.note("resume", queue=queue)
                self.sql("COMMIT")
                return
            except SessionLost:
                self.reconnect()

    def redrive(self):
        with self.transaction(keep=0.85):
            self.sql("SELECT jobq_redrive!('dead', 5, %s)", self.pick(None, 50.0))
            self.note("redrive")

    def by_hand(self):
        """Plain SQL on the table, to which the same rules apply."""
        op, statement, statuses = self.pick(
            ("cancel", "UPDATE jobq.jobs SET status = 'cancelled' WHERE id = %s AND status < 'processing'", WAITING),
            ("reschedule", "UPDATE jobq.jobs SET run_at = clock_timestamp() - interval '1 s' WHERE id = %s"
             " AND status IN ('pending', 'scheduled')", ("pending", "scheduled")),
            ("change", "UPDATE jobq.jobs SET priority = 1 WHERE id = %s", WAITING),
            ("delete", "DELETE FROM jobq.jobs WHERE id = %s AND status <> 'processing'", (*WAITING, *FINISHED)))
        job = self.some(*statuses)
        with self.transaction(keep=0.85):
            self.sql(statement, job)
            self.note(op, job)

    def hold(self):
        """Locks pending jobs without changing them: other sessions must skip these jobs and find them later."""
        with self.transaction():
            self.sql("SELECT id FROM jobq.jobs WHERE id = ANY (ARRAY(SELECT id FROM jobq.jobs WHERE status = %s"
                     " ORDER BY id LIMIT 20)) AND random() < 0.3 ORDER BY id FOR UPDATE SKIP LOCKED",
                     self.pick(*WAITING))
            self.pause(0.2)

    def alter(self):
        """Changes settings on which no law depends, so that every session rereads the settings."""
        queue, delay = self.random.choice(self.plan.queues), self.pick("10 ms", "30 ms")
        self.sql(*self.pick(("SELECT jobq_alter_queue(%s, backoff_base => %s)", queue, delay),
                            ("SELECT jobq_alter_kind(%s, '', backoff => %s)", queue, f"{{{delay},20 ms}}"),
                            ("SELECT jobq_drop_kind(%s, '')", queue)))

    def alter_kind(self):
        """Sets or removes the heartbeat timeout of a kind."""
        queue, kind = self.random.choice(self.plan.crowded), self.pick(*KINDS)
        with self.transaction(keep=0.9):
            self.sql(*self.pick(("SELECT jobq_alter_kind!(%s, %s, heartbeat_timeout => %s)", queue, kind, self.pick("900 ms", "1.2 s")),
                                ("SELECT jobq_drop_kind!(%s, %s, '{heartbeat_timeout}')", queue, kind)))
            self.note("kind", queue=queue, kind=kind)

    def limit(self):
        if self.plan.named_limits and self.random.random() < 0.2:
            return self.named_limit()
        queue, key, largest, kind = self.random.choice(self.plan.limits)
        with self.transaction(keep=0.9):
            value = self.random.randint(1, largest)
            self.sql("SELECT jobq_set_limit!(%s, %s, kind => %s, max_running => %s)", queue, key, kind, value)
            self.note("limit", queue=queue, key=key, kind=kind, max_running=value)

    def named_limit(self):
        name, queues, largest = self.random.choice(self.plan.named_limits)
        with self.transaction(keep=0.9):
            value = self.random.randint(1, largest)
            self.sql("SELECT jobq_set_named_limit!(%s, %s, max_running => %s)", name, queues, value)
            self.note("limit", name=name, max_running=value)

    def look(self):
        """The queries of monitoring, all the time."""
        for view in ("queue_stats", "queues", "kinds", "lanes"):
            self.sql(f"SELECT count(*) FROM jobq.{view}")


class Ticker(Actor):
    """Calls jobq_tick() while the background worker runs; not all the time, because that would hide its omissions."""

    def actions(self):
        return ((self.tick, 4), (self.tick_in_transaction, 1))

    def between(self):
        self.pause(0.3)
        if self.chance(0.1):
            time.sleep(min(4, max(0, self.plan.until - time.monotonic())))

    def tick(self):
        self.sql("SELECT * FROM jobq_tick()")

    def tick_in_transaction(self):
        with self.transaction(keep=0.7):
            self.sql("SELECT * FROM jobq_tick()")
