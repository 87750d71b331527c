"""The base class of all clients of everything.py, and the producers.

A client records what it has done in the table `facts`, in the same transaction, so that the fact exists exactly if the change does.
The laws compare the facts with the changes that the witness saw. Clients judge nothing, except that an error is unexpected if the
documentation does not mention it for the call.
"""

import json
import time
from contextlib import contextmanager

import psycopg

from client import Client, SessionLost
from statuses import WAITING

HANDLED = "handled"     # the kind that handlers run; workers run any kind
KINDS = ("", "a", "b", HANDLED)
# Attributes of a job that jobq_enqueue accepts as keys of its argument options.
OPTIONS = ("version", "requires", "heartbeat_timeout", "max_runtime", "expires_in", "batch_id")
# Errors that every call may raise: a documented deadlock (unique keys in several calls of one transaction).
ANY = {"40P01"}


class Actor(Client):
    """Executes one action after another; each begins and ends outside a transaction."""

    def __init__(self, plan, name, slot, pids):
        self.number = 0         # of the current transaction
        self.allowed = set()    # SQLSTATEs that the current call may raise
        super().__init__(plan, name, slot, pids)

    def actions(self):
        raise NotImplementedError

    def run(self, stop, deadline):
        calls, weights = zip(*self.actions())
        while time.monotonic() < deadline and not stop.is_set():
            try:
                self.between()
                self.attempt(self.random.choices(calls, weights)[0])
            except SessionLost:
                self.reconnect()
        self.leave(deadline)
        self.close()

    def between(self):
        pass

    def leave(self, deadline):
        pass

    def attempt(self, action, *parameters):
        self.allowed = set()
        try:
            action(*parameters)
        except SessionLost:
            raise
        except psycopg.Error as error:
            if self.conn.closed:
                raise SessionLost from error
            if error.sqlstate in self.allowed | ANY:
                self.history.outcome(self.history.invoke(action.__name__), action.__name__, "fail", detail=error.sqlstate)
                if self.conn.info.transaction_status != psycopg.pq.TransactionStatus.IDLE:
                    self.sql("ROLLBACK")
            else:
                self.unexplained(self.history.invoke(action.__name__), action.__name__, error)

    def pick(self, *choices):
        return self.random.choice(choices)

    def any_queue(self):
        """Chooses from few queues, because limits matter only if many clients use the same queue."""
        return self.pick(*self.plan.crowded) if self.plan.crowded and self.chance(0.3) else self.pick(*self.plan.queues)

    def chance(self, share):
        return self.random.random() < share

    def pause(self, longest=0.03):
        time.sleep(self.random.random() * longest)

    def note(self, op, job=None, lease=None, **detail):
        self.sql("INSERT INTO facts (client, number, op, job, lease, detail) VALUES (%s, %s, %s, %s, %s, %s)",
                 self.name, self.number, op, job, lease, json.dumps(detail))

    def noting(self, text, *parameters):
        """Executes one statement, as its own transaction unless one is open; its rows (op, job, lease, detail) become facts."""
        self.begin_number()
        return self.sql("INSERT INTO facts (client, number, op, job, lease, detail)"
                        f" SELECT %s, %s, t.op, t.job, t.lease, t.detail FROM ({text}) t RETURNING op, job, lease",
                        self.name, self.number, *parameters)

    def begin_number(self):
        if self.conn.info.transaction_status == psycopg.pq.TransactionStatus.IDLE:
            self.number += 1

    @contextmanager
    def transaction(self, keep=0.95):
        """Commits in most cases, after a pause in which other sessions can meet the uncommitted changes."""
        self.begin_number()
        self.sql("BEGIN")
        yield
        if self.chance(0.4):
            self.pause(self.pick(0.005, 0.02, 0.15))
        self.sql("COMMIT" if self.chance(keep) else "ROLLBACK")


class Producer(Actor):
    long = frozenset()      # queues that have enough jobs for now

    def actions(self):
        return ((self.enqueue, 8), (self.enqueue_in_transaction, 6), (self.enqueue_many, 3), (self.enqueue_specs, 3),
                (self.fan, 2), (self.batch, 2), (self.insert, 2), (self.copy, 1), (self.enqueue_prepared, 1))

    def between(self):
        """Keeps backlogs that are never empty and never long."""
        self.pause(self.plan.producer_pause)
        self.long = {queue for queue, waiting in self.sql(
            f"SELECT queue, {' + '.join(WAITING)} FROM jobq.queue_stats") if waiting > self.plan.backlog}

    def any_queue(self):
        """Prefers a queue that can be full."""
        queues = self.plan.bounded if self.chance(0.2) else self.plan.queues
        return self.pick(*(set(queues) - self.long or queues))

    # Jobs

    def spec(self, depends_on=()):
        """The arguments of a call to jobq_enqueue: every feature sometimes, in any combination."""
        chance, random = self.chance, self.random
        spec = {"queue": self.any_queue(), "kind": self.pick(*KINDS)}
        if chance(0.3):
            spec["priority"] = random.randint(-3, 3)
        if chance(0.25):
            spec["unique_key"] = f"u{random.randrange(12)}"
            spec["on_conflict"] = self.pick("ignore", "ignore", "replace", "error")
            if chance(0.15):
                spec["unique_for"] = self.pick("0 s", "200 ms", "1 s")
        if chance(0.1):
            spec["heartbeat_timeout"] = self.pick("600 ms", "1.5 s")
        if chance(0.05):
            spec["max_attempts"] = random.randint(1, 3)
        if chance(0.2):
            spec["run_in"] = self.pick(-60, 0.05, 0.2, 0.8)
        if chance(0.9 if spec["queue"] in self.plan.halting else 0.35):
            spec["group_key"] = f"g{random.randrange(4)}"
        if chance(0.5):
            spec["concurrency_key"] = f"c{random.randrange(5)}"
        if chance(0.08):
            spec["max_runtime"] = self.pick("150 ms", "500 ms")
        if chance(0.08):
            spec["expires_in"] = self.pick("50 ms", "300 ms", "2 s")
        if not depends_on and chance(0.2):
            depends_on = self.recent(random.randint(1, 4))
        if depends_on:
            spec["depends_on"] = list(depends_on)
            spec["on_dependency_failure"] = self.pick("cancel", "cancel", "run")
        return spec

    def recent(self, count):
        rows = self.sql("SELECT id FROM jobq.jobs WHERE id > (SELECT max(id) - 200 FROM jobq.jobs)"
                        " ORDER BY random() LIMIT %s", count)
        return [row[0] for row in rows]

    def allow_enqueue(self, *specs):
        """The errors that enqueuing these jobs may raise."""
        if any(spec["queue"] in self.plan.bounded for spec in specs):
            self.allowed |= {"53400"}
        if any(spec.get("on_conflict") == "error" for spec in specs):
            self.allowed |= {"23505"}
        if any("depends_on" in spec for spec in specs):
            self.allowed |= {"22023"}   # another client has deleted the job or its dependency

    def new(self, spec):
        """An enqueue as a statement that records what it did: text and parameters."""
        options = {name: spec[name] for name in OPTIONS if name in spec}
        arguments, values = [], []
        if options:
            arguments.append("options => %s::jsonb")
            values.append(json.dumps(options))
        for name, value in spec.items():
            if name in options:
                continue
            if name == "run_in":
                arguments.append("run_at => clock_timestamp() + %s * interval '1 s'")
            else:
                kind = {"depends_on": "::bigint[]"}.get(name, "")
                arguments.append(f"{name} => %s{kind}")
            values.append(value)
        return (f"SELECT 'enqueue' AS op, jobq_enqueue!({', '.join(arguments)}) AS job, NULL::bigint AS lease,"
                " %s::jsonb AS detail", *values, json.dumps(spec))

    def enqueue(self):
        spec = self.spec()
        self.allow_enqueue(spec)
        self.noting(*self.new(spec))

    def enqueue_in_transaction(self):
        with self.transaction():
            for _ in range(self.random.randint(1, 4)):
                savepoint = self.chance(0.3)
                if savepoint:
                    self.sql("SAVEPOINT s")
                spec = self.spec()
                self.allow_enqueue(spec)
                self.noting(*self.new(spec))
                if savepoint:
                    self.sql(self.pick("ROLLBACK TO s", "RELEASE s"))

    def enqueue_prepared(self):
        """Enqueues in a prepared transaction. everything.py rolls back those of lost sessions."""
        spec = self.spec()
        self.allow_enqueue(spec)
        self.begin_number()
        self.sql("BEGIN")
        self.noting(*self.new(spec))
        self.sql(f"PREPARE TRANSACTION '{self.name} {self.number}'")
        self.pause()
        self.allowed = {"42704"}    # everything.py has rolled it back as one of a lost session
        self.sql(f"{self.pick('COMMIT', 'COMMIT', 'ROLLBACK')} PREPARED '{self.name} {self.number}'")

    def enqueue_many(self):
        count = self.random.choice((2, 5, self.plan.batch))
        one = {"queue": self.any_queue(), "kind": self.pick(*KINDS)}
        keys = {}
        for name, share in (("unique", 0.4), ("group", 0.4), ("concurrency", 0.4)):
            if self.chance(share):
                keys[name] = [self.pick(None, f"{name[0]}{self.random.randrange(5)}") for _ in range(count)]
        self.allow_enqueue(one)
        named = "".join(f", {name}_keys => %s::text[]" for name in keys)
        self.noting("SELECT CASE WHEN is_new THEN 'enqueue' ELSE 'met' END AS op, job_id AS job, NULL::bigint AS lease,"
                    " %s::jsonb AS detail"
                    " FROM jobq_enqueue_many!(%s, array_fill('{}'::jsonb, ARRAY[%s::int]), kind => %s" + named + ")",
                    json.dumps(one), one["queue"], count, one["kind"], *keys.values())

    def enqueue_specs(self):
        specs = [self.spec() for _ in range(self.random.choice((2, 5, self.plan.batch)))]
        self.allow_enqueue(*specs)
        now = time.time()
        for spec in specs:
            if "run_in" in spec:
                at = now + spec.pop("run_in")
                spec["run_at"] = time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(at)) + f".{int(at * 1000) % 1000:03d}Z"
        self.noting("SELECT CASE WHEN is_new THEN 'enqueue' ELSE 'met' END AS op, job_id AS job, NULL::bigint AS lease,"
                    " %s::jsonb -> (place - 1)::int AS detail"
                    " FROM jobq_enqueue_jobs!(%s) WITH ORDINALITY AS made (job_id, is_new, place)",
                    json.dumps(specs), json.dumps(specs))

    def fan(self):
        """Enqueues some jobs and a job that depends on all of them, in one transaction."""
        with self.transaction():
            jobs = []
            for _ in range(self.random.randint(2, 6)):
                spec = self.spec()
                spec.pop("on_conflict", None)
                self.allow_enqueue(spec)
                jobs += [job for _, job, _ in self.noting(*self.new(spec))]
            last = self.spec(depends_on=jobs)
            self.allow_enqueue(last)
            self.noting(*self.new(last))

    def batch(self):
        """Creates a batch, adds jobs to it in several transactions, and seals it. Some of the transactions are rolled back."""
        callbacks = [json.dumps({"queue": self.pick(*sorted(set(self.plan.queues) - set(self.plan.bounded))), "kind": self.pick("", "a", "b")})
                     for _ in range(3)]
        with self.transaction():
            ((_, batch, _),) = self.noting("SELECT 'batch' AS op, jobq_create_batch!('', %s::jsonb, %s::jsonb, %s::jsonb) AS job,"
                                           " NULL::bigint AS lease, '{}'::jsonb AS detail", *callbacks)
            self.add_to_batch(batch)
            if self.chance(0.2):
                self.seal(batch)
                return
        self.allowed |= {"22023"}   # the batch was rolled back
        for _ in range(self.random.randrange(3)):
            with self.transaction():
                self.add_to_batch(batch)
        with self.transaction():
            self.seal(batch)

    def add_to_batch(self, batch):
        for _ in range(self.random.randrange(4)):
            savepoint = self.chance(0.3)
            if savepoint:
                self.sql("SAVEPOINT s")
            spec = {**self.spec(), "batch_id": batch}
            self.allow_enqueue(spec)
            self.noting(*self.new(spec))
            if savepoint:
                self.sql(self.pick("ROLLBACK TO s", "RELEASE s"))

    def seal(self, batch):
        self.noting("SELECT CASE WHEN jobq_seal_batch!(%s) THEN 'seal' ELSE 'not sealed' END AS op, %s::bigint AS job, NULL::bigint AS lease,"
                    " '{}'::jsonb AS detail", batch, batch)

    # Plain SQL

    def insert(self):
        spec = {key: value for key, value in self.spec().items()
                if key in ("queue", "kind", "priority", "unique_key", "group_key", "concurrency_key")}
        spec["priority"] = spec.get("priority", 0)
        self.allow_enqueue(spec)
        if "unique_key" in spec:
            self.allowed |= {"23505"}   # a kept key of a finished job is a conflict that DO NOTHING cannot skip
        columns, values = ", ".join(spec), list(spec.values())
        with self.transaction():
            self.note("by hand")
            rows = self.sql(f"INSERT INTO jobq.jobs ({columns}) VALUES ({', '.join(['%s'] * len(values))})"
                            " ON CONFLICT DO NOTHING RETURNING id", *values)
            for (job,) in rows:
                self.note("enqueue", job, **spec)

    def copy(self):
        queue = self.any_queue()
        self.allow_enqueue({"queue": queue})
        kind = f"copied by {self.name} {self.number}"
        with self.transaction():
            self.note("by hand")
            with self.conn.cursor().copy("COPY jobq.jobs (queue, kind) FROM STDIN") as out:
                for _ in range(self.random.choice((1, 5))):
                    out.write_row((queue, kind))
            self.noting("SELECT 'enqueue' AS op, id AS job, NULL::bigint AS lease, '{}'::jsonb AS detail"
                        " FROM jobq.jobs WHERE queue = %s AND kind = %s", queue, kind)
