"""Durable steps under faults: jobs step, sleep, and spawn and await children and signals, while workers and the server are killed.

Six workers run flows, three run their children, and two signallers race to send each signal. All of them die at random: they kill
themselves between any two statements, they are killed with SIGKILL, and their sessions are terminated. Some fall silent and continue
with a lost lease. Sometimes a backend is killed with SIGKILL, so that the server crashes and recovers. An observer checks whether a
waiting job holds anything. Then `jobq audit` joins, in the middle of all flows, and must find nothing. Finally, the faults end, and all
flows must complete. workflow_laws.py judges the result.

JOBQ_AUDIT_SECONDS=n is the duration of the faults (default 30). JOBQ_AUDIT_SEED=n repeats the random choices, but not their timing. With
JOBQ_AUDIT_EXPECT=law, for a library with a planted defect, it passes only if that law is broken.
"""

import json
import multiprocessing
import os
import random
import time
from datetime import datetime, timedelta, timezone

import psycopg

import auditor
from support import Results, connect, scratch_database
from workflow_laws import KINDS, Plan, Run, judge, sent_event

processes = multiprocessing.get_context("fork")

FLOW_WORKERS, PART_WORKERS, SIGNALLERS = 6, 3, 2
LIMIT = 4               # of concurrent flows; fewer than workers
UNFINISHED = 60         # flows in progress
CRASHES = 3
AUDITED = 10            # seconds in which `jobq audit` follows the flows, after the last crash, which would end its connection
PATIENCE = 90           # seconds without progress before a flow counts as asleep
IMPATIENCE = 15         # the same if a sleeping flow is expected
SILENCE = 1.5           # longer than the heartbeat timeout
LATE = 2                # seconds

SET_UP = f"""
    CREATE TABLE effects (number int, name text);
    CREATE TABLE told (id bigint, step text, answer text);
    CREATE TABLE sent (event text, payload bigint, was_new boolean);
    SELECT jobq_create_queue('flows', max_attempts => 1000000, max_lost => 1000000, heartbeat_timeout => '1 s', backoff_base => '0'),
           jobq_create_queue('parts', max_attempts => 1000000, max_lost => 1000000, heartbeat_timeout => '1 s', backoff_base => '0',
                             keep_completed => '0', keep_failed => '0'),
           jobq_set_limit('flows', max_running => {LIMIT});
"""


class Stop:
    """A flag without a lock. An Event has a lock, and a process that is killed while it holds the lock would block all others."""

    def __init__(self):
        self.flag = processes.RawValue("b", 0)

    def is_set(self):
        return self.flag.value != 0

    def set(self):
        self.flag.value = 1


class Lost(Exception):
    """The worker has lost the job, or the job waits; the worker is done with it."""


class Client:
    """A process that runs until it is killed. It replaces sessions that end."""

    def __init__(self, database, name, seed, stop, begun):
        self.database, self.name, self.stop, self.begun = database, name, stop, begun
        self.chance = random.Random(f"{seed} {name} {os.getpid()}")
        self.conn = None

    def run(self):
        while not self.stop.is_set():
            try:
                if self.conn is None:
                    self.conn = connect(self.database, application_name="jobq workflows " + self.name.rstrip("0123456789"))
                self.turn()
            except Lost:
                pass
            except psycopg.Error as error:
                # A crash or a terminated session. JQ001: the lease was lost, and what was written is rolled back.
                if error.sqlstate not in ("JQ001", "40001"):
                    self.conn = None
                    time.sleep(0.05)

    def misfortune(self):
        drawn = self.chance.random()
        if drawn < 0.004:
            os.kill(os.getpid(), 9)
        if drawn < 0.008:
            time.sleep(SILENCE)

    def row(self, statement, *values):
        self.misfortune()
        return self.conn.execute(statement, values).fetchone()

    def tell(self, job, step, answer):
        self.conn.execute("INSERT INTO told VALUES (%s, %s, %s)", (job, step, answer))


class FlowWorker(Client):
    def turn(self):
        claimed = self.row("SELECT id, lease, payload FROM jobq_claim('flows', %s)", self.name)
        if claimed is None:
            time.sleep(0.005)
            return
        job, lease, payload = claimed
        plan = Plan(payload["flow"])
        self.step(job, lease, plan, "charge")
        self.nap(job, lease)
        ids = self.spawn(job, lease, plan)
        if ids or plan.mode == "all":
            self.wait(job, "joined", "SELECT state, results FROM jobq_await_jobs(%s, %s, %s, 'joined', %s, %s::interval)",
                      job, lease, ids, plan.mode, plan.parts_timeout)
        self.wait(job, "delivered", "SELECT state, payload FROM jobq_await(%s, %s, %s, %s::interval, 'delivered')",
                  job, lease, plan.event, plan.event_timeout)
        self.step(job, lease, plan, "ship")
        with self.conn.transaction():
            self.row("INSERT INTO effects VALUES (%s, 'end') RETURNING 1", plan.number)
            self.row("SELECT jobq_complete(%s, %s, to_jsonb(%s), must_hold => true)", job, lease, plan.number)

    def step(self, job, lease, plan, name):
        with self.conn.transaction():
            state, result = self.row("SELECT * FROM jobq_step(%s, %s, %s)", job, lease, name)
            if state == "done":
                self.tell(job, name, f"done {json.dumps(result)}")
        if state == "lost":
            raise Lost
        if state != "run":
            return
        with self.conn.transaction():
            self.row("INSERT INTO effects VALUES (%s, %s) RETURNING 1", plan.number, name)
            state, result = self.row("SELECT * FROM jobq_step_done(%s, %s, %s, to_jsonb(%s))", job, lease, name,
                                     self.chance.randrange(10**9))
            self.tell(job, name, f"done {json.dumps(result)}")
            if state == "kept":
                raise psycopg.Rollback

    def nap(self, job, lease):
        with self.conn.transaction():
            state = self.row("SELECT jobq_sleep(%s, %s, 'nap', '40 ms')", job, lease)[0]
        if state != "ready":
            raise Lost

    def spawn(self, job, lease, plan):
        # On a slow machine the run takes long, and so does the next turn of the flow.
        late = max(LATE, (time.monotonic() - self.begun) / 5)
        when = {"run_at": (datetime.now(timezone.utc) + timedelta(seconds=late)).isoformat()} if plan.parts_begin_late else {}
        specs = [{"queue": "parts", "payload": {"flow": plan.number, "part": part}} | when for part in range(plan.parts)]
        with self.conn.transaction():
            _, ids = self.row("SELECT * FROM jobq_spawn(%s, %s, 'split', %s)", job, lease, json.dumps(specs))
            self.tell(job, "split", json.dumps(ids))
        return ids

    def wait(self, job, step, statement, *values):
        with self.conn.transaction():
            state, come = self.row(statement, *values)
            if state in ("ready", "timeout"):
                self.tell(job, step, f"{state} {json.dumps(come, sort_keys=True)}")
        if state not in ("ready", "timeout"):
            raise Lost


class PartWorker(Client):
    def turn(self):
        claimed = self.row("SELECT id, lease, payload FROM jobq_claim('parts', %s)", self.name)
        if claimed is None:
            time.sleep(0.005)
            return
        job, lease, payload = claimed
        plan, part = Plan(payload["flow"]), payload["part"]
        if plan.part_fails(part):
            self.row("SELECT jobq_fail(%s, %s, 'no', retry => false)", job, lease)
            return
        with self.conn.transaction():
            self.row("INSERT INTO effects VALUES (%s, %s) RETURNING 1", plan.number, f"part {part}")
            self.row("SELECT jobq_complete(%s, %s, to_jsonb(%s), must_hold => true)", job, lease, plan.part_result(part))


class Signaller(Client):
    """Before a flow waits, while it waits, and at the same moment; each signal is sent by the first signaller that gets to it."""

    def turn(self):
        flows = self.conn.execute("SELECT id, (payload->>'flow')::int FROM jobq.jobs"
                                  " WHERE queue = 'flows' AND status <= 'processing' ORDER BY random() LIMIT 5").fetchall()
        for flow, number in flows:
            plan, payload = Plan(number), self.chance.randrange(10**9)
            if not plan.is_signalled:
                continue
            with self.conn.transaction():
                if plan.is_told_alone:
                    was_new = self.row("SELECT jobq_signal_job(%s, %s, to_jsonb(%s))", flow, plan.event, payload)[0]
                else:
                    was_new = self.row("SELECT jobq_signal('flows', %s, to_jsonb(%s))", plan.event, payload)[0]
                if was_new is not None:
                    self.conn.execute("INSERT INTO sent VALUES (%s, %s, %s)", (sent_event(flow, number), payload, was_new))
        time.sleep(0.02)


HELD = """SELECT string_agg(format('job %s is %s: lease %s, slot %s, attempt %s', id, status, lease, _queue_slot, attempts), ', ')
          FROM jobq.jobs WHERE queue = 'flows' AND status < 'processing' AND (lease IS NOT NULL OR _queue_slot IS NOT NULL OR _rescue_indexed)"""


class Observer:
    def __init__(self, database, run):
        self.database, self.run, self.conn = database, run, None
        self.deadlines = {}
        self.looks = 0

    def ask(self, statement):
        """None while the server recovers."""
        try:
            if self.conn is None:
                self.conn = connect(self.database, application_name="jobq workflows observer")
            return self.conn.execute(statement).fetchall()
        except psycopg.Error:
            self.conn = None
            time.sleep(0.05)
            return None

    def look(self):
        held = self.ask(HELD)
        if held and held[0][0]:
            self.run.seen.append(("held while waiting", held[0][0]))
        running = self.ask("SELECT count(*) FROM jobq.jobs WHERE queue = 'flows' AND status = 'processing'")
        if running and running[0][0] > LIMIT:
            self.run.seen.append(("limit exceeded", f"{running[0][0]} flows run"))
        for flow, step, until in self.ask("SELECT job_id, name, until::text FROM jobq.steps WHERE until IS NOT NULL") or ():
            if self.deadlines.get((flow, step)) != until:
                self.deadlines[flow, step] = until
                self.run.deadlines.append((flow, step, until))
        self.looks += 1


class Stage:
    def __init__(self, database, seed):
        self.database, self.seed = database, seed
        self.stop = Stop()
        self.clients = {}
        self.chance = random.Random(seed)
        self.begun = time.monotonic()
        self.flows = self.killed = self.terminated = self.crashed = 0
        kinds = ((FlowWorker, "flow", FLOW_WORKERS), (PartWorker, "part", PART_WORKERS), (Signaller, "signal", SIGNALLERS))
        self.roles = {f"{label}{number}": kind for kind, label, count in kinds for number in range(count)}

    def keep_alive(self):
        for name, kind in self.roles.items():
            client = self.clients.get(name)
            if client is None or not client.is_alive():
                self.killed += client is not None
                client = processes.Process(target=kind(self.database, name, self.seed, self.stop, self.begun).run)
                client.start()
                self.clients[name] = client

    def keep_busy(self, observer):
        waiting = observer.ask("SELECT count(*) FROM jobq.jobs WHERE queue = 'flows' AND status <= 'processing'")
        missing = UNFINISHED - waiting[0][0] if waiting else 0
        if missing > 0 and observer.ask("SELECT count(jobq_enqueue('flows', jsonb_build_object('flow', n)))"
                                        f" FROM generate_series({self.flows}, {self.flows + missing - 1}) n"):
            self.flows += missing

    def disturb(self, observer):
        drawn = self.chance.random()
        if drawn < 0.1:
            self.chance.choice(list(self.clients.values())).kill()
        elif drawn < 0.25:
            ended = observer.ask("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name LIKE 'jobq workflows %'"
                                 " AND application_name NOT LIKE '%observer' ORDER BY random() LIMIT 1")
            self.terminated += len(ended or ())

    def crash(self, observer):
        """A backend that is killed makes the whole server restart."""
        pids = observer.ask("SELECT pid FROM pg_stat_activity WHERE application_name LIKE 'jobq workflows %' AND pid <> pg_backend_pid() LIMIT 1")
        if pids:
            observer.ask(f"COPY (SELECT 1) TO PROGRAM 'kill -9 {pids[0][0]}'")
            self.crashed += 1

    def end(self):
        self.stop.set()
        for client in self.clients.values():
            client.join(20)
            if client.is_alive():
                client.kill()
                client.join()


LEFT = """SELECT count(*) FILTER (WHERE status <= 'processing'), count(*) FILTER (WHERE status > 'processing')
          FROM jobq.jobs WHERE queue IN ('flows', 'parts')"""


def drain(stage, observer, patience):
    """Without external faults; the clients still cause faults themselves."""
    done, progress = None, time.monotonic()
    while time.monotonic() - progress < patience:
        stage.keep_alive()
        left = observer.ask(LEFT)
        if left and left[0][0] == 0:
            return
        if left and left[0] != done:
            done, progress = left[0], time.monotonic()
        observer.look()
        time.sleep(0.1)


def final_state(conn, run):
    run.flows = conn.execute("SELECT id, (payload->>'flow')::int, status::text, result FROM jobq.jobs WHERE queue = 'flows' ORDER BY id").fetchall()
    run.effects = conn.execute("SELECT number, name FROM effects").fetchall()
    run.told = conn.execute("SELECT id, step, answer FROM told").fetchall()
    run.saved = conn.execute("SELECT job_id, name, state, result FROM jobq.steps ORDER BY job_id, number").fetchall()
    run.told += [(flow, step, f"done {json.dumps(result)}") for flow, step, state, result in run.saved if step in ("charge", "ship")]
    run.children = conn.execute("SELECT c.job_id, c.target, coalesce(array_position(s.jobs, c.target) - 1, -1) FROM jobq.edges c"
                                " LEFT JOIN jobq.steps s ON s.job_id = c.job_id AND s.kind = 'spawn' WHERE c.kind = 'child'").fetchall()
    run.sent = conn.execute("SELECT event, payload, was_new FROM sent").fetchall()


# Answers that some flows must have got for the run to be meaningful.
ANSWERS = tuple((wait, state) for wait in ("joined", "delivered") for state in ("ready", "timeout"))


def all_happened(observer):
    told = observer.ask("SELECT DISTINCT step, split_part(answer, ' ', 1) FROM told WHERE step IN ('joined', 'delivered')")
    return told is not None and set(ANSWERS) <= set(told)


def play(results, seconds, longest, seed, patience):
    """Injects faults for a number of seconds, or longer until each kind of answer has occurred, because a slow machine takes longer."""
    run = Run()
    with scratch_database("workflows") as database:
        with connect(database) as conn:
            conn.execute(SET_UP)
        stage, observer = Stage(database, seed), Observer(database, run)
        begun = stage.begun
        try:
            while time.monotonic() - begun < seconds or time.monotonic() - begun < longest and not all_happened(observer):
                stage.keep_alive()
                stage.keep_busy(observer)
                stage.disturb(observer)
                if stage.crashed < CRASHES and time.monotonic() - begun > seconds * (stage.crashed + 1) / (CRASHES + 1):
                    stage.crash(observer)
                observer.look()
                time.sleep(0.02)
            with auditor.beside(database) as audit:
                joined = time.monotonic()
                while time.monotonic() - joined < AUDITED:
                    stage.keep_alive()
                    stage.keep_busy(observer)
                    stage.disturb(observer)
                    observer.look()
                    time.sleep(0.02)
                drain(stage, observer, patience)
        finally:
            stage.end()
        with connect(database) as conn:
            final_state(conn, run)
            lost = conn.execute("SELECT count(*) FROM jobq.attempts WHERE outcome = 'lost'").fetchone()[0]
    results.note(f"seed {seed}: {len(run.flows)} flows, {len(run.effects)} effects, {len(run.told)} answers, {len(run.children)} children,"
                 f" {len(run.sent)} signals; {stage.killed} clients killed, {stage.terminated} sessions terminated, {stage.crashed} crashes,"
                 f" {lost} attempts lost, {observer.looks} looks")
    results.note(f"jobq audit, status {audit.status}: {audit.said.strip()}")
    return run, stage, lost, audit


def main():
    results = Results("workflows")
    expected = os.environ.get("JOBQ_AUDIT_EXPECT")
    seconds = float(os.environ.get("JOBQ_AUDIT_SECONDS", "30"))
    seed = int(os.environ.get("JOBQ_AUDIT_SEED", "0")) or random.SystemRandom().randrange(1, 10**6)
    run, stage, lost, audit = play(results, seconds, seconds if expected else 10 * seconds, seed, IMPATIENCE if expected else PATIENCE)
    found = judge(run)
    for kind, entries in found.items():
        for entry in entries[:5]:
            results.note(f"{kind}: {entry}")
    if expected:
        results.check(found[expected], f"caught: {KINDS[expected]}")
        results.finish()
    for kind, meaning in KINDS.items():
        results.equal(len(found[kind]), 0, f"no {meaning}")
    # The run is meaningless if its faults did not happen or if nothing waited.
    results.check(len(run.flows) == stage.flows and stage.flows > UNFINISHED, "flows came and went", f"{len(run.flows)} of {stage.flows}")
    results.check(stage.killed > 0 and lost > 0, "clients were killed, and attempts lost with them", f"{stage.killed}, {lost}")
    results.check(stage.crashed > 0, "the server crashed")
    results.equal((audit.status, audit.reports[:3]), (0, []), "jobq audit, which joined after the last crash, has found nothing")
    for wait, state in ANSWERS:
        results.check(any(step == wait and answer.startswith(state) for _, step, answer in run.told), f"some flows were told: {wait}, {state}")
    results.finish()


if __name__ == "__main__":
    main()
