"""Clients of a cluster: the clients of the audit, which connect through a router or directly to the shards. Each is a separate process.

routed.py producer|direct_producer|worker|direct_worker|local NAME DIRECTORY

The direct clients use the library for Python.

DIRECTORY contains `plan.json`, `allowed` (the part of their jobs that producers may have enqueued by now), and at the end `stop`. `local`
is a producer in the application's own database, which enqueues into an outbox.

A call through a router is not part of the caller's transaction, and each shard executes its part of a call by itself: if the call fails
or is not answered, its effects are unknown. Therefore there are no transactions here, and such an answer counts as unknown for each job.
"""

import json
import os
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
TEST = os.path.join(HERE, "..", "..", "..", "test")
sys.path[:0] = [os.path.join(TEST, "audit"), os.path.join(TEST, "chaos"), os.path.join(TEST, "..", "clients", "python", "src")]
import client  # noqa: E402
import jobq  # noqa: E402
import psycopg  # noqa: E402
from clients import Flags, Stop  # noqa: E402  (test/chaos)
from history import Item  # noqa: E402

# Errors that are caused by killed servers and routers, and by promotions.
EXPLAINED = ("08", "57", "53", "25006", "40001", "55P03")
NOTHING_DONE = "08001"      # the router reports that the shard was not reached
GROUPS, SHARED_KEYS = 20, 40
QUEUES = ("audit", "line", "single", "once")


class Pace:
    """The part of its jobs that a producer may have enqueued by now."""

    def __init__(self, directory):
        self.path, self.done = os.path.join(directory, "allowed"), 0

    def allowed(self):
        try:
            with open(self.path, encoding="utf-8") as file:
                return float(file.read())
        except FileNotFoundError:
            return 0

    def wait(self, producer):
        while self.done / (producer.plan.jobs / producer.plan.producers) > self.allowed():
            time.sleep(0.1)


class Routed:
    """Mixin for the clients of the audit."""

    def reconnect(self):
        self.history.flush_each_line()      # a client that is killed loses at most the last line
        super().reconnect()

    def unexplained(self, number, op, error, items=()):
        if not (error.sqlstate or "").startswith(EXPLAINED):
            super().unexplained(number, op, error, items)
            return
        self.history.outcome(number, op, "unknown", items, error.sqlstate)
        time.sleep(0.02)


class Producer(Routed, client.Producer):
    """Uses groups of its own, so that it knows their order, and unique keys that all producers share in queue `once`."""

    def enqueue(self, keys):
        self.pace.wait(self)
        for _ in range(self.random.randrange(10)):
            self.enqueue_shared()
        done = self.enqueue_somehow(keys)
        self.pace.done += done
        return done

    def enqueue_somehow(self, keys):
        if len(keys) < 10:
            return sum(self.enqueue_one(key) for key in keys)
        way = self.random.random()
        if way < 0.6:
            return self.until_known(keys)
        return self.call(keys, self.many if way < 0.8 else self.line)

    def enqueue_one(self, key):
        queue = self.random.choice(("audit", "line", "single"))
        group = f"{self.name}/{self.random.randrange(GROUPS)}" if queue == "line" else None
        number = self.history.invoke("enqueue", [Item(key)], group or "")
        try:
            job = self.insert([{"queue": queue, "group_key": group}], "SELECT jobq_enqueue(%s, %s, group_key => %s)", queue,
                              json.dumps({"k": key, "g": group}), group)[0][0]
            self.history.outcome(number, "enqueue", "ok", [Item(key, job)])
            return 1
        except client.SessionLost:
            self.history.outcome(number, "enqueue", "unknown", [Item(key)])
            raise
        except psycopg.Error as error:
            if error.sqlstate == NOTHING_DONE:      # trusted: if the job exists anyway, it is a phantom
                self.history.outcome(number, "enqueue", "fail", [Item(key)])
                time.sleep(0.02)
            else:
                self.unexplained(number, "enqueue", error, [Item(key)])
            return 0

    def until_known(self, keys):
        """Enqueues with unique keys that outlive their jobs, and repeats the call until it is answered."""
        while True:
            try:
                done = self.call(keys, self.specs)
                if done:
                    return done
            except client.SessionLost:
                self.reconnect()

    def call(self, keys, way):
        number = self.history.invoke("enqueue", [Item(key) for key in keys])
        try:
            rows = way(keys)
            self.history.outcome(number, "enqueue", "ok", [Item(key, row[0]) for key, row in zip(keys, rows)])
            return len(rows)
        except client.SessionLost:
            self.unknown(number, keys)
            raise
        except psycopg.Error as error:
            if (error.sqlstate or "").startswith(EXPLAINED):
                self.unknown(number, keys)
                time.sleep(0.05)
            else:
                self.unexplained(number, "enqueue", error, [Item(key) for key in keys])
            return 0

    def unknown(self, number, keys):
        for key in keys:    # some shards may have enqueued their jobs, and others not
            self.history.outcome(number, "enqueue", "unknown", [Item(key)])

    def many(self, keys):
        return self.insert([{"queue": "audit"} for _ in keys], "SELECT job_id FROM jobq_enqueue_many('audit', %s::jsonb[])",
                           [json.dumps({"k": key}) for key in keys])

    def specs(self, keys):
        specs = [{"queue": ("audit", "audit", "single")[number % 3], "payload": {"k": key}, "kind": ("", "a")[number % 2], "unique_key": key,
                  "unique_for": "1 day"} for number, key in enumerate(keys)]
        return self.insert(specs, "SELECT job_id FROM jobq_enqueue_jobs(%s::jsonb)", json.dumps(specs))

    def line(self, keys):
        groups = [f"{self.name}/{self.random.randrange(GROUPS)}" for _ in keys]
        return self.insert([{"queue": "line", "group_key": group} for group in groups],
                           "SELECT job_id FROM jobq_enqueue_many('line', %s::jsonb[], group_keys => %s::text[])",
                           [json.dumps({"k": key, "g": group}) for key, group in zip(keys, groups)], groups)

    def insert(self, _jobs, statement, *parameters):
        """Executes a statement that enqueues these jobs."""
        return self.sql(statement, *parameters)

    def enqueue_shared(self):
        key = f"u{self.random.randrange(SHARED_KEYS)}"
        number = self.history.invoke("once", [Item(key)])
        try:
            job = self.insert([{"queue": "once", "unique_key": key}], "SELECT jobq_enqueue('once', %s, unique_key => %s)",
                              json.dumps({"k": key}), key)[0][0]
            self.history.outcome(number, "once", "ok", [Item(key, job)])
        except client.SessionLost:
            self.history.outcome(number, "once", "unknown")
            raise
        except psycopg.Error as error:
            self.unexplained(number, "once", error)


class DirectProducer(Producer):
    cluster: jobq.Cluster

    def insert(self, jobs, statement, *parameters):
        try:
            return self.cluster.enqueue(jobs, statement, parameters)
        except psycopg.OperationalError as error:
            if error.sqlstate is None:      # the connection is lost
                raise client.SessionLost from error
            raise


class Worker(Routed, client.Worker):
    def _claim(self, batch):
        queue = self.random.choices(QUEUES, (5, 3, 2, 1))[0]
        if self.random.random() < 0.1:
            rows = self.sql("SELECT payload->>'k', id, lease, attempt FROM jobq_claim_any(%s, %s, %s)", ["nothing here", queue], self.name, batch)
        else:
            rows = self.sql("SELECT payload->>'k', id, lease, attempt FROM jobq_claim(%s, %s, %s)", queue, self.name, batch)
        return [Item(*row) for row in rows]

    def results(self, number, items):
        """The records that triggers on the shard write."""
        return [json.dumps({"c": self.name, "n": number, "l": item.lease}) for item in items]

    def complete_in_statement(self, item, detail=""):
        self.report([item], detail, lambda result: self.sql("SELECT %s WHERE jobq_complete(%s, %s, %s)", item.id, item.id, item.lease, result[0]))

    def complete_many(self, items):
        self.report(items, "many", lambda results: self.sql("SELECT job_id FROM jobq_complete_many(%s, %s, %s) WHERE completed",
                                                            [i.id for i in items], [i.lease for i in items], results))

    def report(self, items, detail, call):
        """call returns the jobs that were completed."""
        number = self.history.invoke("complete", items, detail)
        try:
            self._answers(number, "complete", items, {row[0] for row in call(self.results(number, items))})
        except client.SessionLost:
            self.history.outcome(number, "complete", "unknown", items)
            raise
        except psycopg.Error as error:
            self.unexplained(number, "complete", error, items)

    def complete_in_transaction(self, *items):
        self.complete_many(list(items))

    def single_claimed_in_transaction(self):
        return self.single_in_statement()

    def _complete_and_claim(self, items):
        """The answer does not say which leases were held."""
        complete = self.history.invoke("complete", items, "fused")
        claim = self.history.invoke("claim", detail="fused")
        queue = self.random.choice(QUEUES)
        try:
            rows = self.sql("SELECT payload->>'k', id, lease, attempt FROM jobq_complete_and_claim(%s, %s, %s, %s, %s, %s)",
                            [i.id for i in items], [i.lease for i in items], self.results(complete, items), queue, self.name, len(items))
        except client.SessionLost:
            self.history.outcome(complete, "complete", "unknown", items)
            self.history.outcome(claim, "claim", "unknown")
            raise
        except psycopg.Error as error:
            self.unexplained(complete, "complete", error, items)
            self.history.outcome(claim, "claim", "unknown")
            return None
        following = [Item(*row) for row in rows]
        self.history.outcome(complete, "complete", "unknown", items)
        self.history.outcome(claim, "claim", "ok", following)
        self._count(following)
        return following

    def _still_leased(self, item):
        try:
            rows = self.sql("SELECT 1 FROM jobq_get(%s) WHERE status = 'processing' AND attempts = %s", item.id, item.attempt)
            return bool(rows)
        except psycopg.Error:
            return True     # check again


class DirectWorker(Worker):
    """Claims from one shard at a time, directly. Reports go through a router."""

    cluster: jobq.Cluster

    def _claim(self, batch):
        queue, shard = self.random.choices(QUEUES, (5, 3, 2, 1))[0], self.random.choice(sorted(self.cluster.map().shards))
        try:
            with psycopg.connect(self.cluster.conninfo_of(shard), autocommit=True) as connection:
                rows = connection.execute("SELECT payload->>'k', id, lease, attempt FROM jobq_claim(%s, %s, %s)", (queue, self.name, batch))
                return [Item(*row) for row in rows.fetchall()]
        except psycopg.OperationalError as error:
            if error.sqlstate is None:
                raise client.SessionLost from error
            raise


class Local(client.Producer):
    """An application whose enqueues are part of its transactions, some of which it rolls back."""

    def reconnect(self):
        self.history.flush_each_line()
        super().reconnect()

    def enqueue(self, keys):
        self.pace.wait(self)
        done = super().enqueue(keys[:20])
        self.pace.done += done
        return done

    def _insert(self, keys):
        rows = self.sql("SELECT job_id FROM jobq_enqueue_many('outbox', %s)", [json.dumps({"k": key}) for key in keys])
        return [Item(key, row[0]) for key, row in zip(keys, rows)]

    def unexplained(self, number, op, error, items=()):
        if not (error.sqlstate or "").startswith(EXPLAINED):
            super().unexplained(number, op, error, items)
            return
        self.history.outcome(number, op, "fail", items, error.sqlstate)
        if self.conn.info.transaction_status != psycopg.pq.TransactionStatus.IDLE:
            self.sql("ROLLBACK")


def connect_to(ports, random):
    """Connects to any router that answers, starting with a different one each time."""
    def connect(database, **options):
        order = random.sample(ports, len(ports))
        return psycopg.connect(autocommit=True, dbname=database, port=",".join(map(str, order)),
                               host=",".join([os.environ["PGHOST"]] * len(order)), connect_timeout=10, **options)
    return connect


def main(role, name, directory):
    with open(os.path.join(directory, "plan.json"), encoding="utf-8") as file:
        settings = json.load(file)
    roles = settings.pop("roles")[role]
    plan = client.Plan(directory=os.path.join(directory, "history"), **dict(settings, **roles["plan"]))
    client.connect = connect_to(roles["ports"], client.random)
    ports = ",".join(map(str, roles["ports"]))
    DirectProducer.cluster = DirectWorker.cluster = jobq.Cluster(
        f"host={','.join([os.environ['PGHOST']] * len(roles['ports']))} port={ports} dbname={plan.database}")
    if role.endswith("worker"):
        {"worker": Worker, "direct_worker": DirectWorker}[role](plan, name, 0, [0], [0]).run(Stop(Flags(directory)), time.monotonic() + plan.seconds)
    else:
        kind = {"producer": Producer, "direct_producer": DirectProducer, "local": Local}[role]
        kind.pace = Pace(directory)
        kind(plan, name, 0, [0]).run()


if __name__ == "__main__":
    main(*sys.argv[1:])
