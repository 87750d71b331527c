"""Runs a cluster under load while its parts fail: shards and routers are killed, a standby is promoted, a shard is added, and another
is removed. The audit's checker judges all shards together, and so does cluster_laws.

JOBQ_CLUSTER_JOBS=n     number of jobs to enqueue (200000)
JOBQ_CLUSTER_SHORT=1    about 10,000 jobs and the most important faults only
JOBQ_CLUSTER_SEED=n     repeats the choices of the clients, but not their timing
JOBQ_CLUSTER_EXPECT=caught
                        for a planted defect: passes if a law is broken

Needs the server's programs in PATH, and an empty directory as its argument. See README.md.
"""

import contextlib
import json
import os
import random
import re
import signal
import subprocess
import sys
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
TEST = os.path.join(HERE, "..", "..", "..", "test")
sys.path[:0] = [os.path.join(TEST, "audit"), os.path.join(TEST, "chaos")]
import audit  # noqa: E402
import checker  # noqa: E402
import cluster_laws  # noqa: E402
import psycopg  # noqa: E402
import history  # noqa: E402
from examples import Examples  # noqa: E402
from history import Item  # noqa: E402
from run import bin_directory  # noqa: E402
from support import Results  # noqa: E402
from topology import APP, DATABASE, Topology  # noqa: E402

PYTHON = os.environ.get("PYTHON", "/usr/bin/python3")
QUEUES = {"audit": "", "line": "group_key", "single": None, "once": ""}    # how the queue is spread; "": by its only key; None: not spread
AUDITED = ["audit", "line", "single"]
SHARDS, ROUTERS = 3, 2
# The direct clients connect to the shards, and the others to a router.
CLIENTS = {"producer": ["p0", "p1"], "direct_producer": ["p2", "p3"], "worker": ["w0", "w1", "w2", "w3"], "direct_worker": ["w4", "w5"]}
PRODUCERS, WORKERS = (sum(len(names) for role, names in CLIENTS.items() if role.endswith(kind)) for kind in ("producer", "worker"))
OUTBOX_SHARE = 0.05
AHEAD = 0.1     # part of the jobs that may be enqueued and not yet finished
STUCK = 180     # seconds without a finished job after which the run gives up
PROGRESS = ("SELECT coalesce(sum(completed + failed + cancelled), 0)::bigint,"
            " coalesce(sum(scheduled + blocked + pending + processing), 0)::bigint FROM jobq.queue_stats")
# The target of each fault, and whether the fault is part of the short run, too.
FAULTS = (("kill_shard", 2, False), ("kill_router", 0, True), ("kill_client", "w0", False), ("kill_forwarder", None, True),
          ("add_shard", None, True), ("kill_shard", 3, False), ("promote", 1, True), ("kill_client", "p1", False),
          ("kill_router", 1, False), ("kill_forwarder", None, True), ("drain_shard", 3, True), ("kill_shard", 4, False),
          ("kill_shard", 3, True), ("kill_client", "w3", False), ("kill_routers", None, False), ("kill_forwarder", None, False),
          ("kill_shard", 1, False), ("kill_shard", 2, True), ("kill_router", 0, False))


class Run:
    def __init__(self, directory, jobs, seed):
        self.directory, self.jobs, self.seed, self.timeout = directory, jobs, seed, 2.0
        self.sockets = os.path.join(directory, "sockets")
        for name in ("sockets", "history", "data"):
            os.mkdir(os.path.join(directory, name))
        for name in [name for name in os.environ if re.match("PG[A-Z]", name)]:
            del os.environ[name]
        os.environ.update(PGHOST=self.sockets, PGUSER="postgres")
        self.clients, self.forwarder, self.done, self.ended = {}, None, {}, False
        self.until = 0      # the part of the jobs that must be done before the next fault
        self.topology = Topology(bin_directory(), os.path.join(directory, "data"), self.sockets)

    # ---- clients

    def prepare(self):
        self.topology.make(SHARDS, ROUTERS, QUEUES, self.timeout)
        routers = [router.port for router in self.topology.routers]
        local = int(self.jobs * OUTBOX_SHARE)
        cluster, app = {"database": DATABASE, "jobs": self.jobs - local}, {"database": APP, "jobs": local, "producers": 1, "queue": "outbox"}
        plan = dict(timeout=self.timeout, workers=WORKERS, producers=PRODUCERS, queue="audit", seed=self.seed, zombie_wait=self.timeout + 2.5,
                    silent_share=0.01, kill_share=0.0, seconds=self.jobs / 10 + 1200,
                    roles={**dict.fromkeys(CLIENTS, {"ports": routers, "plan": cluster}), "local": {"ports": routers[:1], "plan": app}})
        with open(os.path.join(self.directory, "plan.json"), "w", encoding="utf-8") as file:
            json.dump(plan, file)
        for role, names in {**CLIENTS, "local": ["l0"]}.items():
            for name in names:
                self.launch(role, name)
        self.forward()
        threading.Thread(target=self.hold_back, daemon=True).start()

    def hold_back(self):
        """Producers are never far ahead of the workers or of the next fault, so that all faults occur under load, however long one takes."""
        path = os.path.join(self.directory, "allowed")
        while not self.ended:
            try:
                allowed = min(self.progress()[0] / self.jobs, self.until) + AHEAD
                with open(path + ".new", "w", encoding="utf-8") as file:
                    file.write(str(allowed))
                os.rename(path + ".new", path)
            except psycopg.Error:
                pass        # a shard is down
            time.sleep(0.3)

    def launch(self, role, name):
        errors = open(os.path.join(self.directory, f"{name}.err"), "wb")
        self.clients[name] = role, subprocess.Popen([PYTHON, os.path.join(HERE, "routed.py"), role, name, self.directory],
                                                    stdout=errors, stderr=errors, start_new_session=True)

    def forward(self):
        """Forwards jobs from the outbox into the cluster, through both routers."""
        ports = [str(router.port) for router in self.topology.routers]
        environment = dict(os.environ, PGPORT=ports[0], PGDATABASE=APP,
                           JOBQ_TO=f"host={self.sockets},{self.sockets} port={','.join(ports)} dbname={DATABASE}")
        with open(os.path.join(self.directory, "forward.err"), "ab") as errors:
            self.forwarder = subprocess.Popen([PYTHON, os.path.join(HERE, "..", "..", "..", "examples", "forward.py"), "outbox", "audit"],
                                              stdout=errors, stderr=errors, env=environment, start_new_session=True)

    def check_clients(self):
        for name, (_, process) in self.clients.items():
            if process.poll() not in (None, 0):
                with open(os.path.join(self.directory, f"{name}.err"), encoding="utf-8", errors="replace") as file:
                    raise RuntimeError(f"client {name} ended with {process.returncode}: {file.read()[-2000:]}")

    # ---- faults

    def kill_shard(self, number):
        server = self.topology.shards[number].server
        server.kill_all()
        server.start()
        server.up()

    def kill_router(self, index):
        router = self.topology.routers[index]
        router.kill_all()
        router.start()
        router.up()

    def kill_routers(self, _):
        for router in self.topology.routers:
            router.kill_all()
        for router in self.topology.routers:
            router.start()
        for router in self.topology.routers:
            router.up()

    def kill_client(self, name):
        """The leases of the client are lost. Another client with another name replaces it, because its last line may be incomplete."""
        role, process = self.clients.pop(name)
        process.kill()
        process.wait()
        self.launch(role, name + "x")

    def kill_forwarder(self, _):
        self.forwarder.kill()
        self.forwarder.wait()
        self.forward()

    def promote(self, number):
        self.topology.shards[number].await_standby()
        self.topology.shards[number].promote_standby()

    def add_shard(self, _):
        with self.backlog():
            self.topology.add_shard()

    def drain_shard(self, number):
        with self.backlog():
            self.topology.drain_shard(number)

    @contextlib.contextmanager
    def backlog(self):
        """Stops the workers, so that many keys have unfinished jobs when the map changes, and jobs are enqueued during the change."""
        workers = [process for role, process in self.clients.values() if role.endswith("worker")]
        for process in workers:
            process.send_signal(signal.SIGSTOP)
        try:
            self.wait_while_it_moves(lambda now: now[1] > self.jobs * AHEAD / 2, "a backlog")
            yield
        finally:
            for process in workers:
                process.send_signal(signal.SIGCONT)

    # ---- the run

    def progress(self):
        """Returns how many jobs in the cluster have finished and how many have not."""
        rows = self.topology.ask_shards(PROGRESS)
        return sum(row[0] for row in rows), sum(row[1] for row in rows)

    def wait_while_it_moves(self, condition, what):
        seen, since = None, time.monotonic()
        while not condition(now := self.progress()):
            self.check_clients()
            if now != seen:
                seen, since = now, time.monotonic()
            elif time.monotonic() - since > STUCK:
                raise TimeoutError(f"{what}: nothing has moved for {STUCK} s, with {now} jobs finished and not")
            time.sleep(0.5)

    def disturb(self, results, faults):
        """Injects each fault when its part of the jobs is done, so that all faults occur under load."""
        begun = time.monotonic()
        for number, (name, about) in enumerate(faults, 1):
            self.until = number / (len(faults) + 2)
            wanted = int(self.jobs * self.until)
            self.wait_while_it_moves(lambda now: now[0] >= wanted, f"{wanted} jobs before {name}")
            at = time.monotonic()
            getattr(self, name)(about)
            self.done[name] = self.done.get(name, 0) + 1
            results.note(f"{at - begun:6.1f} s  {name} {'' if about is None else about}, {time.monotonic() - at:.1f} s")
        self.until = 1

    def drain(self):
        producers = [process for role, process in self.clients.values() if not role.endswith("worker")]
        self.wait_while_it_moves(lambda now: all(process.poll() is not None for process in producers), "the producers are done")
        self.wait_while_it_moves(lambda now: self._outbox_left() == 0, "the outbox is empty")
        self.wait_while_it_moves(lambda now: now[1] == 0, "all jobs are done")
        open(os.path.join(self.directory, "stop"), "w", encoding="utf-8").close()
        self.ended = True
        for _, process in self.clients.values():
            process.wait(60)
        self.check_clients()
        self.forwarder.terminate()
        self.forwarder.wait(60)

    def _outbox_left(self):
        with self.topology.routers[0].connect(APP) as conn:
            return conn.execute("SELECT count(*) FROM jobq.jobs WHERE status <= 'processing'").fetchone()[0]

    # ---- the judgment

    def _events(self):
        """Jobs that were acknowledged in the outbox. The result of a forwarded job contains its id in the cluster."""
        paths = [os.path.join(self.directory, "history", name) for name in os.listdir(os.path.join(self.directory, "history"))]
        for path in paths:
            with open(path, "rb+") as file:
                text = file.read()
                file.truncate(text.rfind(b"\n") + 1)
        with self.topology.routers[0].connect(APP) as conn:
            sent = dict(conn.execute("SELECT payload->>'k', (result->>'job')::bigint FROM jobq.jobs WHERE status = 'completed'").fetchall())
        return [event._replace(items=[Item(item.key, sent.get(item.key, item.id)) for item in event.items])
                if event.client.startswith("l") and event.op == "enqueue" else event for event in history.read(paths)]

    def judgement(self):
        events, ask = self._events(), self.topology.ask_shards
        final = checker.Final(
            jobs=ask("SELECT id, payload->>'k', status::text FROM jobq.jobs WHERE queue = ANY (%s)", (AUDITED,)),
            effects=[checker.Effect(*row) for row in
                     ask("SELECT e.* FROM effects e JOIN jobq.jobs j USING (id) WHERE j.queue = ANY (%s)", (AUDITED,))],
            attempts=ask("SELECT job_id, lease, outcome FROM jobq.attempts"))
        once = dict(ask("SELECT id, status::text FROM jobq.jobs WHERE queue = 'once'"))
        # Clients that claim from the queue of shared keys. The checker treats its jobs like others, but without enqueues.
        audited = [event._replace(items=[item for item in event.items if item.id not in once]) for event in events]
        report = checker.check(audited, final, self.timeout)
        groups = ask("SELECT id, payload->>'k', group_key FROM jobq.jobs WHERE queue = 'line' AND group_key IS NOT NULL")
        holders = ask("SELECT queue, unique_key, id, b.at, finished_at FROM jobq.jobs j JOIN births b USING (id)")
        laws = {"group out of order": cluster_laws.out_of_order(events, final.effects, groups),
                "key held twice": cluster_laws.held_twice(holders),
                "lost under a key": cluster_laws.lost_under_keys(events, once)}
        return report, audited, final, laws, len(groups), len(holders)

    def end(self):
        self.ended = True
        for process in [process for _, process in self.clients.values()] + [self.forwarder]:
            if process is not None and process.poll() is None:
                process.kill()
        self.topology.stop()


def caught(results, run):
    laws = run.judgement()[3]
    results.check(any(laws.values()), "the planted defect is caught: " + ", ".join(f"{kind}: {len(found)}" for kind, found in laws.items() if found))


def judge(results, run, faults):
    report, events, final, laws, in_groups, with_keys = run.judgement()
    audit.print_counts(results, report.counts)
    audit.print_violations(results, report)
    audit.print_stories(results, report, events, final)
    for kind, meaning in checker.KINDS.items():
        results.equal(len(report.violations[kind]), 0, f"no {meaning}")
    for kind, found in laws.items():
        for text in found[:5]:
            results.note(f"{kind}: {text}")
        results.equal(len(found), 0, f"no {cluster_laws.KINDS[kind]}")
    results.check(report.counts["enqueues ok"] >= run.jobs * 0.99, f"acknowledged the {run.jobs} jobs planned", str(report.counts["enqueues ok"]))
    results.equal(sum(run.done.values()), len(faults), "all faults happened")
    results.check(report.counts["attempts lost"] > 0, "leases were lost")
    for what, count in (("jobs in groups", in_groups), ("jobs with unique keys", with_keys)):
        results.check(count > run.jobs / 50, f"there were {what}: {count}", str(count))
    by_shard = dict(run.topology.ask_shards("SELECT jobq_shard_id(), count(*) FROM jobq.jobs"))
    results.check(all(by_shard.values()), f"each shard had jobs: {by_shard}")


def remove_drained(results, run):
    """The shard must be empty, except for unique keys that it keeps for a day."""
    with run.topology.shards[3].connect() as conn:
        conn.execute("DELETE FROM jobq.kept_keys")
    with run.topology.routers[0].connect(DATABASE) as conn:
        conn.execute("SELECT jobq_remove_shard(3)")
        results.equal(conn.execute("SELECT array_agg(shard_id ORDER BY shard_id) FROM jobq_router.shards").fetchone()[0], [1, 2, 4],
                      "the drained shard is removed")


def main(directory):
    short = bool(os.environ.get("JOBQ_CLUSTER_SHORT"))
    jobs = int(os.environ.get("JOBQ_CLUSTER_JOBS", "10000" if short else "200000"))
    seed = int(os.environ.get("JOBQ_CLUSTER_SEED", "0")) or random.SystemRandom().randrange(1, 10**6)
    faults = [(name, about) for name, about, tells_most in FAULTS if tells_most or not short]
    results = Results("cluster")
    results.note(f"{jobs} jobs, {len(faults)} faults, seed {seed}")
    run = Run(directory, jobs, seed)
    begun = time.monotonic()
    try:
        run.prepare()
        results.note(f"{SHARDS} shards, {ROUTERS} routers and a standby after {time.monotonic() - begun:.1f} s")
        run.disturb(results, faults)
        run.drain()
        if os.environ.get("JOBQ_CLUSTER_EXPECT") == "caught":
            caught(results, run)
        else:
            judge(results, run, faults)
            Examples(run, results).check()
            remove_drained(results, run)
        results.note(f"{time.monotonic() - begun:.1f} seconds")
    finally:
        run.end()
    results.finish()


if __name__ == "__main__":
    main(sys.argv[1])
