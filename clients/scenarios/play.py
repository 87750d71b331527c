"""Plays a scenario with a program. A step is an object; its first key names the action:

  enqueue: {as, kind, payload, count, ...}   parameters of jobq_enqueue; :as becomes the job's ID or the jobs' IDs
  sql: TEXT [as: NAME]        runs SQL; :NAME becomes the first column of the first row
  start: [environment:, database:]   starts the program
  crowd: N [database:]        starts N programs; signal and exits apply to all of them, says to the output of any of them
  starve: true                prevents the program from creating threads and processes from now on
  until: SQL                  waits until the condition is true, within the limit
  check: SQL                  checks that the condition is true now
  changes: SQL, times: N      waits until the value has changed N times, within the limit
  open: GATE                  opens a gate for which a handler waits
  signal: TERM | KILL         sends the signal to the program
  exits: STATUS | killed | failed  [says: REGEX that matches its output] [hushes: TEXT not in it]
  expire: JOB                 ends the lease, as if the worker had fallen silent
  steal: JOB                  ends the lease and claims the job for a thief, under the lease :JOB_lease
  keep_running: SQL           until the condition is true, restarts the program whenever it was killed, and ends its leases
  collide: true | false       makes jobs collide that ask for it (places.py), counted from 1 in scenario.collisions, or be rejected
  restart: pooler | server
  stop: server, begin: server   stops and starts the server
  outage: SECONDS             stops the server for this time
  lose_answer: GATE           opens the gate; the report that follows is committed, but its connection ends before the answer
"""

import json
import os
import re
import signal
import subprocess
import tempfile
import threading
import time
import uuid
from datetime import datetime, timezone
from pathlib import Path

import psycopg

from places import Starving, becomes_true

NAME = re.compile(r"""(?<![:\w"]):([a-z_]+)\b""")   # neither a cast nor a JSON key
DEATHS = 20


class Failed(Exception):
    """The program does not do what the scenario expects."""


class Play:
    def __init__(self, scenario, program, place, way, server, pooler, user, limit):
        self.scenario, self.program, self.place, self.way = scenario, program, place, way
        self.server, self.pooler, self.user, self.limit = server, pooler, user, limit
        self.token = uuid.uuid4().hex
        self.queue = f"{scenario.name} {self.token[:8]}"
        # Used to ignore connections that a pooler has left open for the user of an earlier play.
        self.names = {"queue": self.queue, "user": user, "begun": datetime.now(timezone.utc)}
        self.processes, self.starts, self.connection, self.stopped = [], 0, None, False
        self.output = tempfile.TemporaryFile()
        self.starving = Starving() if scenario.starves else None

    def run(self):
        """Plays the scenario. Returns None, or a description of the failure."""
        try:
            settings = self.scenario.queue
            named = "".join(f", {name} => %({name})s" for name in settings)
            self.ask(f"SELECT jobq_create_queue(%(queue)s{named})", {"queue": self.queue, **settings}, literal=True)
            for step in self.scenario.steps:
                try:
                    getattr(self, f"do_{next(iter(step))}")(**step)
                except (Failed, TimeoutError) as error:
                    if self.stopped:
                        self.do_begin("server")
                    return f"{self.short(step)}: {error}\n{self.state()}"
            return None
        finally:
            self.end()

    # ---- steps

    def do_enqueue(self, enqueue):
        given = dict(enqueue)
        name, count, payload = given.pop("as"), given.pop("count", None), given.pop("payload", {})
        if isinstance(payload, dict) and "gate" in payload:
            payload = {**payload, "gate": self.gate(payload["gate"])}
        named = "".join(f", {key} => %({key})s" for key in given)
        ids = [self.ask(f"SELECT jobq_enqueue(%(queue)s, %(payload)s{named})",
                        {"queue": self.queue, "payload": json.dumps(payload), **given}, literal=True)
               for _ in range(count or 1)]
        self.names[name] = ids[0] if count is None else ids

    def do_sql(self, sql, **given):
        value = self.ask(sql)
        if "as" in given:
            self.names[given["as"]] = value

    @property
    def process(self):
        """Returns the program that was started last."""
        return self.processes[-1]

    def do_start(self, start=None, environment=None, database="work"):
        self.processes = [self.started(environment, database)]

    def do_crowd(self, crowd, database="work"):
        self.processes = [self.started(None, database) for _ in range(crowd)]

    def started(self, environment, database):
        self.starts += 1
        usual = dict(self.scenario.environment)
        if "SLOTS" in usual:
            usual["SLOTS"] = min(usual["SLOTS"], self.program.most_slots)
        own = {"QUEUE": self.queue, "WORKER_ID": f"{self.scenario.name}-{self.token[:8]}-{self.starts}",
               **usual, **(environment or {})}
        variables = {**{name: value for name, value in os.environ.items() if not name.startswith(("PG", "JOBQ_"))},
                     **{f"JOBQ_{name}": str(value) for name, value in own.items()},
                     **self.place.environment(self.user, database), "JOBQ_WAY": self.way, "JOBQ_SCENARIO_RUN": self.token,
                     **self.program.environment, **(self.starving.environment() if self.scenario.starves else {})}
        return subprocess.Popen(self.program.command, cwd=self.program.directory, env=variables, start_new_session=True,
                                stdin=subprocess.DEVNULL, stdout=self.output, stderr=subprocess.STDOUT)

    def do_until(self, until):
        self.becomes(until, lambda value: value is True)

    def do_check(self, check):
        value = self.ask(check)
        if value is not True:
            raise Failed(f"it is {value}")

    def do_changes(self, changes, times):
        seen = [self.ask(changes)]

        def changed(value):
            if value is not None and value != seen[-1]:
                seen.append(value)
            return len([one for one in seen if one is not None]) > times

        self.becomes(changes, changed, lambda: f"{len(seen) - 1} changes")

    def do_open(self, open):   # noqa: A002: the name of the step
        self.ask("INSERT INTO scenario.gates VALUES (%(gate)s) RETURNING true", {"gate": self.gate(open)}, literal=True)

    def do_signal(self, **given):
        for process in self.processes:
            if process.poll() is not None:
                raise Failed(f"the program has ended before, with {process.returncode}")
            process.send_signal(getattr(signal, f"SIG{given['signal']}"))

    def do_exits(self, exits, says="", hushes=None):
        for process in self.processes:
            try:
                status = process.wait(self.limit)
            except subprocess.TimeoutExpired:
                raise Failed("it keeps running") from None
            if not (status == -signal.SIGKILL if exits == "killed" else status > 0 if exits == "failed" else status == exits):
                raise Failed(f"its status is {status}")
        if not re.search(says, self.text()):
            raise Failed(f"it does not say {says!r}")
        if hushes is not None and hushes in self.text():
            raise Failed(f"it says {hushes!r}")

    def do_expire(self, expire):
        self.expire([self.names[expire]])

    def do_steal(self, steal):
        job = self.names[steal]
        with psycopg.connect(dbname="work") as connection:
            with connection.transaction():
                connection.execute("UPDATE jobq.jobs SET status = 'pending' WHERE id = %s", (job,))
                taken = connection.execute("SELECT id, lease FROM jobq_claim(%s, 'thief', heartbeat_timeout => '1 day')",
                                           (self.queue,)).fetchone()
                if taken is None or taken[0] != job:
                    raise RuntimeError(f"the thief has got {taken} instead of job {job}")
        self.names[f"{steal}_lease"] = taken[1]

    def do_keep_running(self, keep_running):
        deaths = 0
        self.do_start()

        def ended(value):
            nonlocal deaths
            status = self.process.poll()
            if value is not True and status is not None:
                deaths += 1
                if status != -signal.SIGKILL:
                    raise Failed(f"it has ended with status {status}")
                if deaths > DEATHS:
                    raise Failed(f"it has died {deaths} times")
                self.expire(self.held())
                self.do_start()
            return value is True

        self.becomes(keep_running, ended)
        if self.process.poll() is not None:
            self.expire(self.held())
            self.do_start()

    def do_collide(self, collide):
        self.ask("DROP TRIGGER IF EXISTS collides ON jobq.jobs", command=True)
        if collide:
            self.ask("SELECT setval('scenario.collisions', 1)")
            self.ask("CREATE TRIGGER collides BEFORE UPDATE ON jobq.jobs FOR EACH ROW EXECUTE FUNCTION scenario.collides()", command=True)

    def do_starve(self, starve):
        self.starving.begin()

    def do_restart(self, restart):
        if restart == "pooler":
            self.pooler.restart()
        else:
            self.forget()
            self.server.restart()

    def do_stop(self, stop):
        """Stops the server until the step "begin"."""
        self.forget()
        self.server.stop()
        self.stopped = True

    def do_begin(self, begin):
        self.server.start()
        self.stopped = False

    def do_outage(self, outage):
        self.do_stop("server")
        time.sleep(outage)
        self.do_begin("server")

    def do_lose_answer(self, lose_answer):
        """Requires a synchronous standby that does not exist, so that the report commits locally but gets no answer."""
        waiting = "SELECT count(*) FROM pg_stat_activity WHERE usename = :user AND wait_event = 'SyncRep'"
        try:
            self.ask("SET synchronous_commit = local", command=True)
            self.ask("ALTER SYSTEM SET synchronous_standby_names = 'nobody'", command=True)
            self.ask("SELECT pg_reload_conf()")
            becomes_true(self.commits_wait, "commits wait for a standby")
            self.do_open(lose_answer)
            self.becomes(waiting, lambda count: count > 0)
            self.ask(waiting.replace("count(*)", "count(pg_terminate_backend(pid))"))
            self.becomes(waiting, lambda count: count == 0)
        finally:
            self.ask("ALTER SYSTEM RESET synchronous_standby_names", command=True)
            self.ask("SELECT pg_reload_conf()")
            self.forget()

    # ---- implementation

    def commits_wait(self):
        """Returns whether a commit is waiting for the standby and ends its session."""
        with psycopg.connect(dbname="work", autocommit=True) as probe:
            pid = probe.info.backend_pid

            def commit():
                try:
                    probe.execute("INSERT INTO scenario.gates VALUES (%s)", (uuid.uuid4().hex,))
                except psycopg.Error:
                    pass

            thread = threading.Thread(target=commit)
            thread.start()
            try:
                while thread.is_alive():
                    if self.ask(f"SELECT count(*) = 1 FROM pg_stat_activity WHERE pid = {pid} AND wait_event = 'SyncRep'"):
                        self.ask(f"SELECT pg_terminate_backend({pid})")
                        return True
                return False
            finally:
                thread.join()

    def gate(self, name):
        return f"{self.token} {name}"

    def held(self):
        return self.ask("SELECT coalesce(array_agg(id), '{}') FROM jobq.jobs WHERE queue = :queue AND status = 'processing'")

    def expire(self, jobs):
        """Expires the leases whether or not the jobs are running, because a killed worker may have completed more jobs than it
        knew."""
        leases = self.ask("SELECT coalesce(array_agg(lease), '{}') FROM jobq.jobs WHERE id = ANY (%(jobs)s) AND status = 'processing'",
                          {"jobs": jobs}, literal=True)

        def ended():
            self.ask("""WITH silent AS (UPDATE jobq.jobs SET last_heartbeat = now() - interval '400 days'
                        WHERE lease = ANY (%(leases)s) AND status = 'processing' RETURNING id) SELECT count(*) FROM silent""",
                     {"leases": leases}, literal=True)
            self.ask("SELECT count(*) FROM jobq_tick()")
            return self.ask("SELECT count(*) = 0 FROM jobq.jobs WHERE lease = ANY (%(leases)s) AND status = 'processing'",
                            {"leases": leases}, literal=True)

        becomes_true(ended, "leases end")

    def becomes(self, statement, condition, describe=None):
        deadline, value = time.monotonic() + self.limit, None
        while True:
            value = self.ask(statement)
            if condition(value):
                return
            if time.monotonic() > deadline:
                raise Failed(f"not within {self.limit} s: {describe() if describe else value}")
            time.sleep(0.05)

    def ask(self, statement, parameters=None, literal=False, command=False):
        """Returns the first column of the first row, unless the statement is a command."""
        if command:
            parameters = None
        elif not literal:
            parameters = self.names
            statement = NAME.sub(r"%(\1)s", statement.replace("%", "%%"))
        if self.connection is None:
            self.connection = psycopg.connect(dbname="work", autocommit=True)
        cursor = self.connection.execute(statement, parameters)
        row = None if command else cursor.fetchone()
        return None if row is None else row[0]

    def forget(self):
        if self.connection is not None:
            self.connection.close()
            self.connection = None

    # ---- end

    def end(self):
        """Ends all processes of the program and removes jobs that could disturb another run."""
        for directory in Path("/proc").glob("[0-9]*"):
            try:
                if f"JOBQ_SCENARIO_RUN={self.token}".encode() in (directory / "environ").read_bytes():
                    os.kill(int(directory.name), signal.SIGKILL)
            except (OSError, ValueError):
                continue
        for process in self.processes:
            process.wait()
        try:
            self.ask("SELECT count(jobq_release(id, lease)) FROM jobq.jobs WHERE queue = :queue AND status = 'processing'")
            self.ask("SELECT jobq_drop_queue(:queue, force => true)")
        finally:
            self.forget()
            self.output.close()
            if self.starving is not None:
                self.starving.end()

    def text(self):
        self.output.seek(0)
        return self.output.read().decode(errors="replace")

    def state(self):
        """Returns the state of the play, for the analysis of a failure."""
        with psycopg.connect(dbname="work", autocommit=True) as connection:
            jobs = connection.execute("""SELECT id, kind, status::text, attempts, lost_attempts, left(error, 100), left(result::text, 60), left(progress::text, 60),
                                         worker_id FROM jobq.jobs WHERE queue = %s ORDER BY id""", (self.queue,)).fetchall()
            events = connection.execute("""SELECT job_id, attempt, event FROM scenario.events WHERE job_id = ANY (%s) ORDER BY at""",
                                        ([job[0] for job in jobs],)).fetchall()
        lines = [f"job {job}" for job in jobs[:12]] + [f"event {event}" for event in events[:12]]
        return "\n".join(f"# {line}" for line in [*lines, *self.text().splitlines()[-25:]])

    @staticmethod
    def short(step):
        text = json.dumps(step)
        return text if len(text) < 300 else text[:300] + "..."
