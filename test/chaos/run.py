"""The clients of a run, their server, and the final judgment; used by chaos.py, ddl.py, and failover.py."""

import json
import os
import re
import signal
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "audit"))
import audit  # noqa: E402
import checker  # noqa: E402
import history  # noqa: E402
import psycopg  # noqa: E402
from client import Plan  # noqa: E402
from servers import Server  # noqa: E402

STUCK = 90     # seconds without a new or finished job after which the run gives up
# What no server may log. Messages of the server itself are permitted after a full disk or a killed process.
ALARMS = re.compile(r"^.*(?:TRAP:|XX000|could not find (?:tuple|block)|invalid memory alloc|cache lookup failed|right sibling|"
                    r"jobq (?:worker|launcher).*(?:ERROR|FATAL):(?!.*(?:No space left|terminating|starting up|shutting down|recovery|could not write|"
                    r"could not extend|out of|index jobq\.jobs_ready_idx is))).*$", re.M)    # ddl.py drops this index for a moment


class Run:
    producers = workers = 8
    probes = 20000      # jobs in a queue of their own, with which faults check whether a server works
    placed = False      # whether histories contain the position in the log of each acknowledgement

    def __init__(self, directory, disk, jobs, seconds, seed, explained=(), conf=""):
        self.directory, self.disk = directory, disk or directory
        self.can_fill = bool(disk)
        self.jobs, self.seconds, self.seed = jobs, seconds, seed
        self.explained, self.conf = list(explained), conf
        self.timeout = 2.0
        self.database = "jobq_chaos"
        self.full_errors = 0
        self.time_to_count = 0    # seconds within which the counters must be right at the end
        self.clients, self.names, self.alarms = {}, {}, []
        self.recorder = None
        # If this run is interrupted, its servers and clients end, too.
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
        sockets = os.path.join(directory, "sockets")
        os.mkdir(sockets)
        os.mkdir(os.path.join(directory, "history"))
        for name in [name for name in os.environ if re.match("PG[A-Z]", name)]:
            del os.environ[name]    # otherwise a standby would use PGAPPNAME as its name
        os.environ.update(PGHOST=sockets, PGUSER="postgres")
        self.primary = Server(bin_directory(), self.disk, sockets, "server1", 5501)
        self.servers = [self.primary]

    # ---- the files that clients read

    def set_endpoint(self, port):
        path = os.path.join(self.directory, "endpoint")
        with open(path + ".new", "w", encoding="utf-8") as file:
            file.write(str(port))
        os.rename(path + ".new", path)
        self.servers.append(self.primary)

    def set_flag(self, name, there):
        path = os.path.join(self.directory, name)
        if there:
            open(path, "w", encoding="utf-8").close()
        elif os.path.exists(path):
            os.remove(path)

    def add_by_hand(self, conn, statement, parameters=None, prepare=None):
        """Enqueues jobs with a statement that returns keys and ids, in its own transaction, and records them in a history."""
        if self.recorder is None:
            self.recorder = history.Recorder(os.path.join(self.directory, "history", "hand.tsv"), "hand")
            self.recorder.flush_each_line()
        if prepare is None:
            conn.execute("BEGIN")
        items = [history.Item(*row) for row in conn.execute(statement, parameters).fetchall()]
        number = self.recorder.invoke("enqueue", items)
        conn.execute(f"PREPARE TRANSACTION '{prepare}'" if prepare else "COMMIT")
        self.recorder.outcome(number, "enqueue", "ok", items)

    # ---- the run

    def prepare(self):
        self.primary.create(self.conf)
        self.primary.start()
        self.primary.up()
        self.set_endpoint(self.primary.port)
        with self.primary.connect() as conn:
            conn.execute(f"CREATE DATABASE {self.database}")
        plan = dict(database=self.database, jobs=self.jobs, timeout=self.timeout, workers=self.workers, producers=self.producers, queue="audit",
                    seed=self.seed, zombie_wait=self.timeout + 2.5, kill_share=0.0, seconds=self.seconds * 4 + 600)
        with open(os.path.join(self.directory, "plan.json"), "w", encoding="utf-8") as file:
            json.dump(dict(plan, explained=self.explained, pace=self.seconds, placed=self.placed), file)
        with self.primary.connect(self.database) as conn:
            conn.execute("CREATE EXTENSION jobq")
            audit.set_up(conn, Plan(directory="", **plan))
            conn.execute("SELECT count(*) FROM jobq_enqueue_many('probe', array_fill('{}'::jsonb, ARRAY[%s]))", (self.probes,))
        for number in range(self.producers):
            self.launch(f"p{number}")
        for number in range(self.workers):
            self.launch(f"w{number}")

    def launch(self, name):
        role = "producer" if name.startswith("p") else "worker"
        number = int(re.match(r"\D+(\d+)", name).group(1))
        program = ([os.environ.get("PYTHON", "/usr/bin/python3"), os.path.join(HERE, "clients.py")] if number % 2 == 0 or self.placed
                   else ["node", os.path.join(HERE, "client.js")])
        errors = open(os.path.join(self.directory, f"{name}.err"), "wb")
        self.clients[name] = subprocess.Popen([*program, role, name, self.directory], stdout=errors, stderr=errors, start_new_session=True)

    def replace(self, name):
        """Replaces a client that was killed, which may have left an incomplete line, by one with another name."""
        del self.clients[name]
        base = name.split("x")[0]
        self.names[base] = self.names.get(base, 0) + 1
        self.launch(f"{base}x{self.names[base]}")

    def jobs_now(self, queue="audit"):
        """Returns the number of jobs and of finished jobs, or None if the server does not answer."""
        try:
            with self.primary.connect(self.database, connect_timeout=10) as conn:
                return conn.execute("SELECT count(*), count(finished_at) FROM jobq.jobs WHERE queue = %s", (queue,)).fetchone()
        except psycopg.Error:
            return None

    def wait_while_it_moves(self, condition, what, queue="audit"):
        """Waits until the jobs satisfy a condition, however long that takes, unless nothing changes anymore."""
        seen, since = None, time.monotonic()
        while not condition(now := self.jobs_now(queue)):
            if now != seen:
                seen, since = now, time.monotonic()
            elif time.monotonic() - since > STUCK:
                raise TimeoutError(f"{what}: nothing has moved for {STUCK} s, with {now} jobs there and finished")
            time.sleep(1)

    def disturb(self, results, attacker, wanted):
        """Executes the attacker's actions until the time is over and each has been done; returns how often each was done."""
        done = {}
        begun = time.monotonic()
        pause = self.seconds / wanted
        while time.monotonic() - begun < self.seconds or sum(done.values()) < wanted:
            name = attacker.choose(done)
            at = time.monotonic()
            attacker.do(name)
            done[name] = done.get(name, 0) + 1
            results.note(f"{at - begun:6.1f} s  {name}, {time.monotonic() - at:.1f} s")
            rest = pause * sum(done.values()) - (time.monotonic() - begun)
            time.sleep(max(0.3, min(rest, pause) * attacker.random.uniform(0.5, 1.5)))
            self.check_clients()
        return done

    def check_clients(self):
        for client, process in self.clients.items():
            if process.poll() not in (None, 0):
                raise RuntimeError(f"client {client} ended with {process.returncode}")

    def drain(self):
        """Waits without faults until all jobs have been enqueued and finished."""
        producers = [process for name, process in self.clients.items() if name.startswith("p")]
        self.wait_while_it_moves(lambda now: all(process.poll() is not None for process in producers), "the producers are done")
        self.wait_while_it_moves(lambda now: now is not None and now[0] == now[1], "the queue drains")
        self.set_flag("stop", True)
        for process in self.clients.values():
            process.wait(60)
        self.check_log(self.primary)

    def check_log(self, server, position=0):
        self.alarms += ALARMS.findall(server.log_since(position))

    def counted(self, events):
        """The events that count."""
        return events

    def judgement(self):
        # An incomplete last line of a client that was killed is ignored.
        paths = [os.path.join(self.directory, "history", name) for name in os.listdir(os.path.join(self.directory, "history"))]
        for path in paths:
            with open(path, "rb+") as file:
                text = file.read()
                file.truncate(text.rfind(b"\n") + 1)
        events = self.counted(history.read(paths))
        with self.primary.connect(self.database) as conn:
            final = audit._final_state(conn, Plan(self.database, "", self.jobs, self.timeout))
            rows = conn.execute("SELECT count(*) FILTER (WHERE status = 'completed'), count(*) FILTER (WHERE status = 'failed'),"
                                " count(*) FILTER (WHERE status = 'pending'), count(*) FILTER (WHERE status = 'processing')"
                                " FROM jobq.jobs WHERE queue = 'audit'").fetchone()
            def counters():
                return conn.execute("SELECT completed, failed, pending, processing FROM jobq.queue_stats WHERE queue = 'audit'").fetchone()
            end = time.monotonic() + self.time_to_count
            while counters() != rows and time.monotonic() < end:
                time.sleep(0.1)
            found = counters()
        return checker.check(events, final, self.timeout), events, final, found, rows

    def end(self):
        for process in self.clients.values():
            if process.poll() is None:
                process.kill()
        for server in self.servers:
            server.stop()


def bin_directory():
    return subprocess.run(["pg_config", "--bindir"], check=True, capture_output=True, text=True).stdout.strip()


def judge(results, run, jobs, expect=()):
    """Prints and checks the results; `expect`: the kinds of violations that must have been found, instead of none."""
    report, events, final, counters, rows = run.judgement()
    audit.print_counts(results, report.counts)
    audit.print_violations(results, report)
    audit.print_stories(results, report, events, final)
    if expect:
        for kind in expect:
            results.check(report.violations[kind], f"caught: {checker.KINDS[kind]}")
        return report
    for kind, meaning in checker.KINDS.items():
        results.equal(len(report.violations[kind]), 0, f"no {meaning}")
    results.check(report.counts["enqueues ok"] >= jobs, f"acknowledged at least the {jobs} jobs planned", str(report.counts["enqueues ok"]))
    results.equal(counters, rows, "the counters agree with the rows")
    results.equal(run.alarms[:5], [], "no alarm in the server's log")
    return report
