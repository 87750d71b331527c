"""The clients of the audit: a producer, and workers that claim, work, fail, fall silent, and lose their sessions.

Each client is a process with one connection. It records its requests and the answers, and does not judge them.
The effect of a job is a row in the table `effects`, inserted in the transaction that completes the job; the table
has no unique constraint, so that a doubled effect can be found.
"""

import heapq
import json
import random
import time
from dataclasses import dataclass, field

import psycopg

from history import Item, Recorder
from support import connect

LEASE_LOST = "JQ001"


@dataclass(frozen=True)
class Plan:
    """The parameters of a run. `replaced` maps function names to other functions, so that it can test a planted defect."""

    database: str
    directory: str
    jobs: int
    timeout: float                  # seconds without a heartbeat after which a worker counts as dead
    workers: int = 16
    producers: int = 2
    queue: str = "audit"
    seed: int = 1
    fail_share: float = 0.05        # of the attempts
    kill_share: float = 0.02        # terminated sessions per claim that returned jobs
    silent_share: float = 0.02      # of the jobs claimed one at a time: held past the timeout
    zombie_wait: float = 3.5        # seconds of silence of a zombie
    lease_timeout: str = ""       # heartbeat timeout passed to the library; empty: the timeout above
    only_plain_claims: bool = False  # every claim goes through jobq_claim
    replaced: dict = field(default_factory=dict)
    seconds: float = 300            # give up after this time


class SessionLost(Exception):
    """The connection broke, so the answer to the current statement will never arrive."""


class Client:
    def __init__(self, plan, name, slot, pids):
        self.plan = plan
        self.name = name
        self.slot = slot
        self.pids = pids
        self.random = random.Random(f"{plan.seed}/{name}")
        self.history = Recorder(f"{plan.directory}/{name}.tsv", name)
        self.conn = None
        self.warned = False
        self._cache = {}
        self.reconnect()

    def reconnect(self):
        self.pids[self.slot] = 0
        if self.conn is not None:
            self.conn.close()
        while True:
            number = self.history.invoke("session")
            try:
                self.conn = connect(self.plan.database, application_name=f"jobq audit {self.name}")
                self.conn.prepare_threshold = 0
                self.conn.add_notice_handler(self._notice)
                self.history.outcome(number, "session", "ok", detail=str(self.conn.info.backend_pid))
                self.pids[self.slot] = self.conn.info.backend_pid
                return
            except psycopg.OperationalError as error:
                self.history.outcome(number, "session", "fail", detail=str(error))
                time.sleep(0.05)

    def _notice(self, diagnostic):
        self.warned = self.warned or diagnostic.severity_nonlocalized == "WARNING"

    def sql(self, text, *parameters):
        """Executes one statement; jobq_xyz!(...) calls the function that the plan substitutes for jobq_xyz."""
        if "!" in text:
            text = self._resolved(text)
        self.warned = False
        try:
            cursor = self.conn.execute(text, parameters or None)
            return cursor.fetchall() if cursor.description else None
        except psycopg.Error as error:
            if self.conn.closed:
                raise SessionLost from error
            raise

    def _resolved(self, text):
        if text not in self._cache:
            words = text
            while "!" in words:
                head, rest = words.split("!", 1)
                start = head.rindex("jobq_")
                words = head[:start] + self.plan.replaced.get(head[start:], head[start:]) + rest
            self._cache[text] = words
        return self._cache[text]

    def unexplained(self, number, op, error, items=()):
        """An error that the run does not cause; the checker reports it."""
        self.history.outcome(number, op, "error", items, f"{error.sqlstate} {error}")
        if self.conn.info.transaction_status != psycopg.pq.TransactionStatus.IDLE:
            self.sql("ROLLBACK")

    def close(self):
        self.pids[self.slot] = 0
        self.conn.close()
        self.history.close()


class Producer(Client):
    """Enqueues in every possible way until the server has acknowledged this producer's share of the planned jobs."""

    def run(self):
        acknowledged = sequence = 0
        share = -(-self.plan.jobs // self.plan.producers)
        while acknowledged < share and not self.enough():
            count = min(self.random.choice((1, 3, 200, 200)), share - acknowledged)
            keys = [f"{self.name}.{n}" for n in range(sequence, sequence + count)]
            sequence += count
            try:
                acknowledged += self.enqueue(keys)
            except SessionLost:
                self.reconnect()
        self.close()

    def enough(self):
        return False

    def enqueue(self, keys):
        give_up = self.random.random() < 0.02
        number = self.history.invoke("enqueue", [Item(key) for key in keys])
        committing = False
        try:
            self.sql("BEGIN")
            items = self._insert(keys)
            if give_up:
                self.sql("ROLLBACK")
                self.history.outcome(number, "enqueue", "fail", items)
                return 0
            committing = True
            self.sql("COMMIT")
            self.history.outcome(number, "enqueue", "ok", items)
            return len(items)
        except SessionLost:
            self.history.outcome(number, "enqueue", "unknown" if committing else "fail",
                                 [Item(key) for key in keys])
            raise
        except psycopg.Error as error:
            self.unexplained(number, "enqueue", error)
            return 0

    def _insert(self, keys):
        queue = self.plan.queue
        payloads = [json.dumps({"k": key}) for key in keys]
        if len(keys) < 10:
            ids = [self.sql("SELECT jobq_enqueue!(%s, %s)", queue, p)[0][0] for p in payloads]
            return [Item(key, job) for key, job in zip(keys, ids)]
        form = self.random.random()
        if form < 0.6:
            rows = self.sql("SELECT job_id FROM jobq_enqueue_many!(%s, %s)", queue, payloads)
        elif form < 0.95:
            specs = []
            for key in keys:
                spec = {"queue": queue, "payload": {"k": key}, "kind": self.random.choice(("", "a", "b"))}
                if self.random.random() < 0.1:
                    spec["priority"] = self.random.randint(-5, 5)
                if self.random.random() < 0.1:
                    spec["run_at"] = time.strftime("%Y-%m-%d %H:%M:%SZ", time.gmtime(time.time() + 2))
                specs.append(spec)
            rows = self.sql("SELECT job_id FROM jobq_enqueue_jobs!(%s)", json.dumps(specs))
        else:
            pairs = self.sql("INSERT INTO jobq.jobs (queue, payload)"
                             " SELECT %s, unnest(%s::jsonb[]) RETURNING payload->>'k', id", queue, payloads)
            return [Item(key, job) for key, job in pairs]
        return [Item(key, row[0]) for key, row in zip(keys, rows)]


EFFECTS = ("INSERT INTO effects (id, lease, key, client, number)"
           " SELECT e.id, e.lease, e.key, %s, %s FROM unnest(%s::bigint[], %s::bigint[], %s::text[]) AS e (id, lease, key)")


class Worker(Client):
    def __init__(self, plan, name, slot, pids, claims):
        self.claims = claims
        self.held = []          # jobs that this worker is silent about: (due, tie, action, item)
        self.ties = 0
        super().__init__(plan, name, slot, pids)

    def run(self, stop, deadline):
        single = (self.single_in_transaction, self.single_in_statement, self.single_claimed_in_transaction)
        batch = (self.batch_in_statement, self.batch_fused, self.batch_in_transaction)
        while time.monotonic() < deadline and (self.held or not stop.is_set()):
            try:
                self.do_due()
                if stop.is_set():
                    busy = False
                elif self.random.random() < 0.92:
                    busy = self.random.choices(single, (3, 5, 1))[0]()
                else:
                    busy = self.random.choices(batch, (2, 0 if self.plan.only_plain_claims else 2, 1))[0]()
                if not busy:
                    time.sleep(0.02)
            except SessionLost:
                self.reconnect()
        self.close()

    # Claims

    def claim(self, batch):
        number = self.history.invoke("claim", detail=str(batch))
        try:
            items = self._claim(batch)
        except SessionLost:
            self.history.outcome(number, "claim", "unknown")
            raise
        except psycopg.Error as error:
            self.unexplained(number, "claim", error)
            return []
        self.history.outcome(number, "claim", "ok", items)
        self._count(items)
        return items

    def _claim(self, batch):
        if not self.plan.only_plain_claims and self.random.random() < 0.1:
            rows = self.sql("SELECT payload->>'k', id, lease, attempt FROM jobq_claim_any!(%s, %s, %s)",
                            ["nothing here", self.plan.queue], self.name, batch)
        else:
            rows = self.sql("SELECT payload->>'k', id, lease, attempt FROM jobq_claim!(%s, %s, %s)",
                            self.plan.queue, self.name, batch)
        return [Item(*row) for row in rows]

    def _count(self, items):
        if items:
            self.claims[self.slot] += 1

    def split(self, items):
        """Returns the jobs that fail this time and the jobs that do not."""
        failing = [item for item in items if self.random.random() < self.plan.fail_share]
        return failing, [item for item in items if item not in failing]

    # One job at a time

    def single_in_statement(self):
        return self._single(self.complete_in_statement)

    def single_in_transaction(self):
        return self._single(self.complete_in_transaction)

    def _single(self, complete):
        items = self.claim(1)
        if not items:
            return False
        item = items[0]
        if self.random.random() < self.plan.silent_share:
            self.fall_silent(item)
            return True
        failing, _ = self.split(items)
        self.persist(self.fail_one if failing else complete, item)
        return True

    def single_claimed_in_transaction(self):
        """Claim, effect, and completion in one transaction, in which the lease may be omitted."""
        claim = self.history.invoke("claim", detail="1")
        items, complete, committing = [], None, False
        try:
            self.sql("BEGIN")
            items = self._claim(1)
            if not items:
                self.sql("COMMIT")
                self.history.outcome(claim, "claim", "ok")
                return False
            item = items[0]
            complete = self.history.invoke("complete", items, "claimed in the same transaction")
            self._effects(complete, items)
            if self.plan.replaced:
                held = self.sql("SELECT jobq_complete!(%s, %s)", item.id, item.lease)[0][0]
            else:
                held = self.sql("SELECT jobq_complete(%s)", item.id)[0][0]
            if not held:
                self.history.outcome(complete, "complete", "error", items, "refused to the claiming transaction")
            if not held or self.random.random() < 0.2:
                self.sql("ROLLBACK")
                self.history.outcome(complete, "complete", "fail", items)
                self.history.outcome(claim, "claim", "fail", items)
                return True
            committing = True
            self.sql("COMMIT")
            self.history.outcome(claim, "claim", "ok", items)
            self.history.outcome(complete, "complete", "ok", items)
            self._count(items)
            return True
        except SessionLost:
            phase = "unknown" if committing else "fail"
            self.history.outcome(claim, "claim", phase, items)
            if complete:
                self.history.outcome(complete, "complete", phase, items)
            raise
        except psycopg.Error as error:
            self.unexplained(claim, "claim", error)
            return True

    # Batches of jobs

    def batch_in_statement(self):
        return self._batch(self.complete_many)

    def batch_in_transaction(self):
        return self._batch(lambda items: self.complete_in_transaction(*items))

    def _batch(self, complete):
        items = self.claim(self.random.randint(10, 50))
        if not items:
            return False
        failing, working = self.split(items)
        if failing:
            self.persist(self.fail_many, failing)
        if self.random.random() < 0.2:
            self.persist(self.heartbeat_many, working)
        if working:
            self.persist(complete, working)
        return True

    def batch_fused(self):
        """Completes jobs and claims the next ones in one call, with the effects in the same transaction."""
        items = self.claim(self.random.randint(10, 50))
        if not items:
            return False
        for _ in range(4):
            failing, working = self.split(items)
            if failing:
                self.persist(self.fail_many, failing)
            following = self._complete_and_claim(working) if working else []
            if following is None:
                self.persist(self.complete_many, working)
                return True
            items = following
            if not items:
                return True
        self.persist(self.complete_many, items)
        return True

    def _complete_and_claim(self, items):
        """Returns the next jobs, or None if a lease was lost and everything is rolled back."""
        complete = self.history.invoke("complete", items, "fused")
        claim = self.history.invoke("claim", detail="fused")
        following, committing = [], False
        try:
            self.sql("BEGIN")
            self._effects(complete, items)
            rows = self.sql("SELECT payload->>'k', id, lease, attempt"
                            " FROM jobq_complete_and_claim!(%s, %s, NULL, %s, %s, %s)",
                            [i.id for i in items], [i.lease for i in items],
                            self.plan.queue, self.name, len(items))
            following = [Item(*row) for row in rows]
            if self.warned:
                self.sql("ROLLBACK")
                self.history.outcome(complete, "complete", "fail", items)
                self.history.outcome(claim, "claim", "fail", following)
                return None
            committing = True
            self.sql("COMMIT")
            self.history.outcome(complete, "complete", "ok", items)
            self.history.outcome(claim, "claim", "ok", following)
            self._count(following)
            return following
        except SessionLost:
            phase = "unknown" if committing else "fail"
            self.history.outcome(complete, "complete", phase, items)
            self.history.outcome(claim, "claim", phase, following)
            raise
        except psycopg.Error as error:
            self.unexplained(complete, "complete", error, items)
            return []

    # Reports

    def persist(self, report, items):
        """Reports on jobs. After a lost session, half of the workers continue with the leases that they hold."""
        while True:
            try:
                return report(items)
            except SessionLost:
                self.reconnect()
                if self.random.random() < 0.5:
                    return None

    def _effects(self, number, items):
        self.sql(EFFECTS, self.name, number, [i.id for i in items], [i.lease for i in items],
                 [i.key for i in items])

    def _answers(self, number, op, items, accepted):
        """Records which jobs the server accepted and which it rejected."""
        yes = [item for item in items if item.id in accepted]
        no = [item for item in items if item.id not in accepted]
        if yes:
            self.history.outcome(number, op, "ok", yes)
        if no:
            self.history.outcome(number, op, "fail", no)

    def _one_statement(self, op, items, detail, text, *parameters):
        """A statement that is its own transaction and returns the ids that were accepted."""
        number = self.history.invoke(op, items, detail)
        try:
            rows = self.sql(text, *(number if p is Worker else p for p in parameters))
            self._answers(number, op, items, {row[0] for row in rows})
        except SessionLost:
            self.history.outcome(number, op, "unknown", items)
            raise
        except psycopg.Error as error:
            self.unexplained(number, op, error, items)

    def complete_in_statement(self, item, detail=""):
        self._one_statement(
            "complete", [item], detail,
            "WITH answer AS MATERIALIZED (SELECT jobq_complete!(%s, %s) AS held)"
            " INSERT INTO effects (id, lease, key, client, number)"
            " SELECT %s, %s, %s, %s, %s FROM answer WHERE held RETURNING id",
            item.id, item.lease, item.id, item.lease, item.key, self.name, Worker)

    def complete_many(self, items):
        self._one_statement(
            "complete", items, "many",
            "WITH answer AS MATERIALIZED (SELECT * FROM jobq_complete_many!(%s, %s))"
            " INSERT INTO effects (id, lease, key, client, number)"
            " SELECT e.id, e.lease, e.key, %s, %s"
            " FROM unnest(%s::bigint[], %s::bigint[], %s::text[]) AS e (id, lease, key)"
            " JOIN answer ON answer.job_id = e.id WHERE answer.completed RETURNING id",
            [i.id for i in items], [i.lease for i in items], self.name, Worker,
            [i.id for i in items], [i.lease for i in items], [i.key for i in items])

    def complete_in_transaction(self, *items):
        """Writes the effects first, then completes each job with must_hold, so that all or none are completed."""
        number = self.history.invoke("complete", items, "must_hold")
        committing = False
        try:
            self.sql("BEGIN")
            self._effects(number, items)
            for item in sorted(items, key=lambda i: i.id):
                self.sql("SELECT jobq_complete!(%s, %s, NULL, true)", item.id, item.lease)
            committing = True
            self.sql("COMMIT")
            self.history.outcome(number, "complete", "ok", items)
        except SessionLost:
            self.history.outcome(number, "complete", "unknown" if committing else "fail", items)
            raise
        except psycopg.Error as error:
            if error.sqlstate != LEASE_LOST:
                self.unexplained(number, "complete", error, items)
                return
            self.history.outcome(number, "complete", "fail", items)
            self.sql("ROLLBACK")
            if len(items) > 1:
                self.complete_many(list(items))

    def fail_one(self, item):
        self._one_statement("fail", [item], "",
                            "SELECT %s FROM jobq_fail!(%s, %s, 'failed at random') AS status"
                            " WHERE status IS NOT NULL", item.id, item.id, item.lease)

    def fail_many(self, items):
        self._one_statement("fail", items, "many",
                            "SELECT job_id FROM jobq_fail_many!(%s, %s, NULL, '30 ms')"
                            " WHERE status IS NOT NULL", [i.id for i in items], [i.lease for i in items])

    def heartbeat_many(self, items):
        self._one_statement("heartbeat", items, "many",
                            "SELECT job_id FROM jobq_heartbeat_many!(%s, %s) WHERE state IN ('held', 'cancel')",
                            [i.id for i in items], [i.lease for i in items])

    def heartbeat(self, item):
        self._one_statement("heartbeat", [item], "",
                            "SELECT %s FROM jobq_heartbeat!(%s, %s) AS state WHERE state IN ('held', 'cancel')",
                            item.id, item.id, item.lease)

    # Silent workers

    def fall_silent(self, item):
        """A zombie returns long after its job was rescued, and a late worker at about the time of the rescue."""
        now = time.monotonic()
        if self.random.random() < 0.5:
            self._later(now + self.plan.zombie_wait + self.random.random(), "zombie", item)
            return
        if self.random.random() < 0.3:
            self._later(now + self.plan.timeout * 0.6, "heartbeat", item)
        self._later(now + self.plan.timeout * self.random.uniform(0.9, 1.4), "late", item)

    def _later(self, due, action, item):
        self.ties += 1
        heapq.heappush(self.held, (due, self.ties, action, item))

    def do_due(self):
        now = time.monotonic()
        while self.held and self.held[0][0] <= now:
            _, _, action, item = heapq.heappop(self.held)
            if action == "heartbeat":
                self.heartbeat(item)
            elif action == "late":
                self.complete_in_statement(item, "late")
            elif self._still_leased(item):
                # The rescue is late. The checker reports how often this happens; the zombie waits for the rescue.
                self.history.outcome(self.history.invoke("zombie", [item]), "zombie", "fail", [item])
                self._later(now + 0.5, "zombie", item)
            else:
                self.complete_in_statement(item, "zombie")

    def _still_leased(self, item):
        return bool(self.sql("SELECT 1 FROM jobq.jobs WHERE id = %s AND lease = %s", item.id, item.lease))
