"""The load of the soak: a day that always consists of the same calls, however long the machine takes for them.

`PHASES` is the shape of the day. Producers take the calls of a phase from a queue, and workers run the jobs. Each call that enqueues
jobs which must complete records them in the table `work`, in the same transaction, and each completion records its job in `effects`.
"""

import json
import multiprocessing
import os
import queue
import random
import time

import psycopg

processes = multiprocessing.get_context("fork")

PRODUCERS, WORKERS = 2, 4
KEEP = "2 s"                # how long finished jobs are kept
HEARTBEAT = "1500 ms"
COMMON = f"backoff_base => '20 ms', backoff_max => '100 ms', heartbeat_timeout => '{HEARTBEAT}', keep_completed => '{KEEP}', keep_failed => '{KEEP}'"
QUEUES = {
    "bulk": "", "orders": ", max_lost => 1000, max_attempts => 1000", "limited": ", limits => '{shared}'", "rated": "", "fair": ", round_robin => true, priority_ageing => '1 s'",
    "doomed": ", dead_letter_queue => 'dead'", "dead": "", "flows": ", max_lost => 1000, max_attempts => 1000", "steps": "", "batches": "", "chores": "",
    "short": ", expires_in => '1 s'",
}
# Errors after which a client continues: a lost lease and, as documented, a deadlock of enqueues with unique keys.
EXPECTED = ("JQ001", "40P01")
HANDLED = "handled"         # a queue from which only executors claim
GROUPS, KEYS = 20, 15

SET_UP = """
    CREATE ROLE runner LOGIN;
    CREATE TABLE work (job bigint, tag text);
    CREATE TABLE effects (job bigint, lease bigint);
    CREATE FUNCTION handle(job jsonb) RETURNS void LANGUAGE plpgsql AS $$
    BEGIN
        INSERT INTO effects VALUES ((job->>'id')::bigint, (job->>'lease')::bigint);
        IF (job->>'attempt')::int = 1 AND (job->>'id')::bigint % 10 = 0 THEN RAISE 'at random'; END IF;
    END $$;
    GRANT INSERT ON effects TO runner;
"""


def set_up(conn, keep):
    conn.execute(SET_UP)
    # The driver sends small and large numbers as different types, each with its own prepared statements.
    conn.execute("SELECT setval('jobq.jobs_id_seq', 3000000000)")
    conn.execute("SELECT jobq_set_named_limit('shared', ARRAY['limited'], max_running => 3)")
    for queue, more in {**QUEUES, HANDLED: ""}.items():
        conn.execute(f"SELECT jobq_create_queue('{queue}', {COMMON.replace(KEEP, keep)}{more})")
    conn.execute("SELECT jobq_set_handler('handled', '', 'handle(jsonb)', 'runner', max_executors => 2)")
    conn.execute("SELECT jobq_set_limit('limited', '*', max_running => 2), jobq_set_limit('rated', rate => 200, per => '1 s')")
    conn.execute("SELECT jobq_schedule('chore', '@every 2s', 'chores', kind => 'plain', overlap => 'skip'),"
                 " jobq_schedule('sweep', '0 6 * * mon-fri', 'chores', kind => 'plain', timezone => 'Europe/Berlin')")


class Session:
    """A client that lives as long as the run and replaces its session when the server restarts."""

    def __init__(self, connect, name, stop, numbers):
        self.connect, self.name, self.stop, self.numbers = connect, name, stop, numbers
        self.chance = random.Random(name)
        self.conn = None

    def run(self):
        while not self.stop.is_set():
            try:
                if self.conn is None:
                    self.conn = self.connect(application_name=f"soak {self.name}")
                self.turn()
            except psycopg.Error as error:
                if self.conn is None or self.conn.closed:
                    self.conn = None    # the server restarts
                    time.sleep(0.05)
                elif error.sqlstate not in EXPECTED:
                    raise

    def rows(self, statement, *values):
        return self.conn.execute(statement, values).fetchall()


class Producer(Session):
    call = None         # the current call, which is repeated if its outcome is unknown and it was not committed

    def __init__(self, calls, done, *rest):
        self.calls, self.done = calls, done
        super().__init__(*rest)

    def turn(self):
        if self.call is None:
            try:
                self.call = self.calls.get(timeout=0.2)
            except queue.Empty:
                return
        tag, name, values = self.call
        if not self.rows("SELECT 1 FROM work WHERE tag = %s LIMIT 1", tag):
            with self.conn.transaction():
                self.note(tag, [0])     # the call may enqueue nothing that must complete
                getattr(self, name)(tag, **values)
        self.call = None
        with self.done.get_lock():
            self.done.value += 1

    def note(self, tag, jobs):
        self.conn.execute("INSERT INTO work SELECT unnest(%s::bigint[]), %s", (jobs, tag))

    def enqueue(self, tag, count=1, **arguments):
        names = ", ".join(f"{name} => %s" + ("::timestamptz" if name == "run_at" else "") for name in arguments)
        values = [json.dumps(value) if isinstance(value, dict) else value for value in arguments.values()]
        jobs = [self.rows(f"SELECT jobq_enqueue({names})", *values)[0][0] for _ in range(count)]
        if arguments["queue"] not in ("doomed", "short"):
            self.note(tag, jobs)
        return jobs

    def timed(self, tag):
        time.sleep(0.01)
        self.enqueue(tag, queue="orders", kind="timed", payload={"at": time.time()})

    def later(self, tag, delay):
        jobs = self.rows("SELECT jobq_enqueue('orders', kind => 'plain', run_at => clock_timestamp() + %s * interval '1 s')", delay)
        self.note(tag, [jobs[0][0]])

    def many(self, tag, queue, count, keyed):
        keys = {"group_keys": GROUPS, "concurrency_keys": KEYS} if keyed else {}
        named = "".join(f", {name} => %s::text[]" for name in keys)
        rows = self.rows(f"SELECT job_id FROM jobq_enqueue_many(%s, array_fill('{{}}'::jsonb, ARRAY[%s::int]), kind => 'plain'{named})",
                         queue, count, *[[f"k{number % among}" for number in range(count)] for among in keys.values()])
        self.note(tag, [job for job, in rows])

    def fan(self, tag, count):
        jobs = self.enqueue(tag, count, queue="orders", kind="plain")
        self.enqueue(tag, queue="orders", kind="plain", depends_on=jobs)

    def batch(self, tag, count):
        callback = json.dumps({"queue": "batches", "kind": "plain"})
        batch = self.rows("SELECT jobq_create_batch('', %s::jsonb, %s::jsonb)", callback, callback)[0][0]
        self.enqueue(tag, count, queue="batches", kind="plain", options={"batch_id": batch})
        self.rows("SELECT jobq_seal_batch(%s)", batch)

    def undone(self, tag, count):
        """Enqueues jobs and rolls them back."""
        with self.conn.transaction() as inner:
            self.enqueue(tag, count, queue="orders", kind="plain", unique_key=f"u{tag}")
            raise psycopg.Rollback(inner)

    def operate(self, tag):
        """What operators and monitoring do."""
        jobs = [self.rows("SELECT jobq_enqueue('short', run_at => now() + interval '1 hour')")[0][0] for _ in range(20)]
        self.rows("SELECT jobq_reschedule(%s, now() + interval '2 hours')", jobs[0])
        self.rows("SELECT jobq_cancel(%s)", jobs[1])
        self.rows("SELECT jobq_delete(%s)", jobs[2])
        self.rows("SELECT * FROM jobq_explain(%s)", jobs[3])
        self.rows("SELECT * FROM jobq_log(%s)", jobs[3])
        self.rows("SELECT jobq_cancel_jobs('short', max_jobs => 100)")
        self.rows("SELECT jobq_pause_queue('short'), jobq_resume_queue('short'), jobq_alter_queue('short', backoff_base => '10 ms')")
        self.rows("SELECT jobq_set_limit('limited', 'k1', max_running => 2)")
        self.rows("SELECT jobq_run_schedule('chore')")
        for view in ("queue_stats", "queues", "lanes", "workers", "background_workers", "batches"):
            self.rows(f"SELECT count(*) FROM jobq.{view}")
        self.rows("SELECT count(*) FROM jobq_metrics()")
        self.rows("SELECT length(string_agg(line, '')) FROM jobq_prometheus() AS line")
        self.rows("SELECT count(*) FROM jobq_explain_queue('limited')")


class Worker(Session):
    """Claims with every function. Finishes all jobs, but some only in a later attempt."""

    turns = 0

    def turn(self):
        self.turns += 1
        way = self.turns % 5
        queues = list(QUEUES)
        began = time.perf_counter()
        if way == 0:
            held = self.rows("SELECT id, lease, kind, attempt, payload FROM jobq_claim(%s, %s, 10)", self.chance.choice(queues), self.name)
        elif way == 1:
            held = self.rows("SELECT id, lease, kind, attempt, payload FROM jobq_claim_any(%s, %s, 20)", queues, self.name)
        else:
            held = self.rows("SELECT id, lease, kind, attempt, payload FROM jobq_claim_any(%s, %s, 1)", queues, self.name)
            if held:
                self.numbers.put(("claim", time.perf_counter() - began))
        if not held:
            if way:
                self.conn.execute("CALL jobq_wait_any(%s, '100 ms')", (queues,))
            return
        now = time.time()
        if held[0][2] == "timed":
            began = time.perf_counter()
            self.rows("SELECT 1")
            self.numbers.put(("statement", time.perf_counter() - began))
            self.numbers.put(("wait", now - held[0][4]["at"]))
        plain = [(job, lease) for job, lease, kind, *_ in held if kind in ("plain", "timed")]
        for job, lease, kind, attempt, _ in held:
            if kind not in ("plain", "timed"):
                getattr(self, kind or "waste")(job, lease, attempt)
        if way == 1 and plain:
            self.complete_many(plain)
        elif way == 2 and plain:
            self.complete_and_claim(plain)
        else:
            for job, lease in plain:
                self.complete(job, lease)

    def complete(self, job, lease):
        with self.conn.transaction() as block:
            if self.rows("SELECT jobq_complete(%s, %s, '{}')", job, lease)[0][0]:
                self.rows("INSERT INTO effects VALUES (%s, %s) RETURNING 1", job, lease)
            else:
                raise psycopg.Rollback(block)

    def complete_many(self, held):
        jobs, leases = zip(*held)
        self.rows("INSERT INTO effects SELECT c.job_id, 0 FROM jobq_complete_many(%s, %s) c WHERE c.completed RETURNING 1", list(jobs), list(leases))

    def complete_and_claim(self, held):
        """Checks each lease first, because a lost lease causes only a warning."""
        jobs, leases = zip(*held)
        with self.conn.transaction():
            states = self.rows("SELECT state FROM jobq_heartbeat_many(%s, %s)", list(jobs), list(leases))
            if any(state != "held" for state, in states):
                return
            self.rows("INSERT INTO effects SELECT unnest(%s::bigint[]), 0 RETURNING 1", list(jobs))
            more = self.rows("SELECT id, lease FROM jobq_complete_and_claim(%s, %s, NULL, 'bulk', %s, 1)", list(jobs), list(leases), self.name)
        for job, lease in more:
            self.complete(job, lease)

    def waste(self, job, lease, attempt):
        self.rows("SELECT jobq_release(%s, %s)", job, lease)

    def flaky(self, job, lease, attempt):
        if attempt < 3:
            self.rows("SELECT jobq_fail(%s, %s, 'at random')", job, lease)
        else:
            self.complete(job, lease)

    def doomed(self, job, lease, attempt):
        """Fails permanently, first in its queue, and then in the dead letter queue, which has no dead letter queue of its own."""
        self.rows("SELECT jobq_fail(%s, %s, 'doomed', retry => false)", job, lease)

    def silent(self, job, lease, attempt):
        if attempt > 1:
            self.complete(job, lease)

    def snoozed(self, job, lease, attempt):
        if self.chance.random() < 0.5:
            self.rows("SELECT jobq_snooze(%s, '20 ms', %s)", job, lease)
        else:
            self.complete(job, lease)

    def logged(self, job, lease, attempt):
        self.rows("SELECT jobq_heartbeat(%s, %s, '{\"done\": 1}')", job, lease)
        self.rows("SELECT * FROM jobq_write_log(ARRAY[%s::bigint], ARRAY[%s::bigint], ARRAY['a line of text'])", job, lease)
        self.complete(job, lease)

    def flow(self, job, lease, attempt):
        if self.rows("SELECT state FROM jobq_step(%s, %s, 'first')", job, lease)[0][0] == "run":
            self.rows("SELECT * FROM jobq_step_done(%s, %s, 'first', '1')", job, lease)
        if self.rows("SELECT jobq_sleep(%s, %s, 'nap', '20 ms')", job, lease)[0][0] != "ready":
            return
        specs = [{"queue": "steps", "kind": "plain"}] * 2
        state, children = self.rows("SELECT state, job_ids FROM jobq_spawn(%s, %s, 'split', %s)", job, lease, json.dumps(specs))[0]
        if state == "lost" or self.rows("SELECT state FROM jobq_await_jobs(%s, %s, %s, 'joined')", job, lease, children)[0][0] != "ready":
            return
        if self.rows("SELECT state FROM jobq_await(%s, %s, 'never', '10 ms', 'signal')", job, lease)[0][0] == "timeout":
            self.complete(job, lease)


def repeated(times, name, /, **values):
    return [(name, values)] * times


def morning():
    calls = []
    for number in range(600):
        queue = ("orders", "limited", "fair")[number % 3]
        arguments = {"queue": queue, "kind": "plain"}
        if queue == "limited" or number % 4 == 0:
            arguments["concurrency_key"] = f"k{number % KEYS}"
        if number % 5 == 0:
            arguments["group_key"] = f"g{number % GROUPS}"
        if number % 7 == 0:
            arguments |= {"unique_key": f"u{number % 40}", "on_conflict": ("ignore", "replace")[number % 2]}
        if number % 11 == 0:
            arguments["priority"] = number % 3 - 1
        calls.append(("enqueue", arguments))
    return calls + repeated(20, "undone", count=3)


def trouble():
    kinds = ("flaky", 100), ("silent", 12), ("snoozed", 50), ("logged", 50)
    calls = [call for kind, count in kinds for call in repeated(count, "enqueue", queue="orders", kind=kind)]
    calls += repeated(30, "enqueue", queue="doomed", kind="doomed")
    return calls + [("later", {"delay": 0.01 * number}) for number in range(100)]


def afternoon():
    return (repeated(8, "batch", count=15) + repeated(15, "fan", count=5) + repeated(20, "enqueue", queue="flows", kind="flow")
            + repeated(60, "enqueue", queue=HANDLED) + repeated(100, "enqueue", queue="rated", kind="plain") + repeated(2, "operate"))


# name, calls
PHASES = (
    ("night", lambda: repeated(3, "many", queue="bulk", count=500, keyed=False) + repeated(2, "many", queue="limited", count=100, keyed=True)),
    ("morning", morning),
    ("trouble", trouble),
    ("afternoon", afternoon),
    ("quiet", lambda: repeated(150, "timed")),
)


class Load:
    """The clients, which run until stop() is called."""

    def __init__(self, connect):
        self.stop_flag = processes.Event()
        self.calls, self.numbers = processes.Queue(), processes.SimpleQueue()
        self.done, self.given, self.taken = processes.Value("q", 0), 0, []
        rest = (self.stop_flag, self.numbers)
        clients = ([Producer(self.calls, self.done, connect, f"producer {number}", *rest) for number in range(PRODUCERS)]
                   + [Worker(connect, f"worker {number}", *rest) for number in range(WORKERS)])
        self.processes = [processes.Process(target=client.run, name=client.name) for client in clients]
        for process in self.processes:
            process.start()

    def begin_phase(self, day, number):
        """Gives the calls of a phase to the producers."""
        random.seed(number)
        calls = PHASES[number][1]()
        random.shuffle(calls)
        for place, (name, values) in enumerate(calls):
            self.calls.put((f"{day} {number} {place}", name, values))
        self.given += len(calls)

    def check(self):
        for process in self.processes:
            if process.exitcode is not None:
                raise RuntimeError(f"client {process.name} ended with {process.exitcode}")

    def wait(self):
        """Waits until the producers have made all calls."""
        while self.done.value < self.given:
            self.check()
            self.take_numbers()
            time.sleep(0.02)

    def take_numbers(self):
        """Moves the numbers out of the pipe, which would block the clients if it were full."""
        while not self.numbers.empty():
            self.taken.append(self.numbers.get())

    def times(self):
        """Returns the times of the day in milliseconds by their name, and forgets them."""
        self.take_numbers()
        found = {name: sorted(1000 * value for kind, value in self.taken if kind == name) for name in ("claim", "statement", "wait")}
        self.taken.clear()
        return found

    def stop(self):
        self.stop_flag.set()
        for process in self.processes:
            process.join(20)
            if process.is_alive():
                os.kill(process.pid, 9)
