"""Tests whether a claimable job is ever skipped permanently.

Claims skip what shared memory says is empty. Clients do at random and concurrently everything that could make this information
wrong. From time to time all of them stop, and a plain worker claims until a claim finds nothing. Every job that was pending before
must have been claimed by then, also if it was inserted with triggers disabled.

With JOBQ_AUDIT_EXPECT=stranded, for a library with the planted defect jobs_not_published, it passes only if
stranded jobs are found.
"""

import json
import multiprocessing
import os
import random
import time

import psycopg

from support import Results, connect, scratch_database, wait_until

CLIENTS = 8
PHASES = 14
SECONDS = 1.3                   # of each phase
MOMENT = 8.0                    # how long the repair may take on a busy machine
QUEUE = "stranded"
KINDS = ("", "a", "b")
APPLICATION = "jobq stranded"
# Errors of clients that interfere: serialization, deadlock, lock timeout, prepared transaction that does not exist.
EXPECTED = {"40001", "40P01", "55P03", "42704", "55000"}

JOBS = ("(SELECT id, lease FROM jobq.jobs WHERE queue = 'stranded' AND status = ANY (%s::jobq.job_status[])"
        " AND id > (SELECT max(id) - 400 FROM jobq.jobs) ORDER BY random() LIMIT 1)")
SILENT = """
INSERT INTO jobq.jobs (queue, kind, metadata, priority, run_at, status, _ready, max_attempts, _lane)
SELECT 'stranded', %s, '{"silent": true}', %s, r.at, 'pending', true, 1000, jobq.lane_of('stranded', %s, 0, NULL)
FROM (SELECT clock_timestamp() - random() * interval '1 hour' AS at FROM generate_series(1, %s)) r
"""

processes = multiprocessing.get_context("fork")


class Client:
    """Executes one action after another; each begins and ends outside a transaction."""

    def __init__(self, database, number, seed, two_phases, unexpected):
        self.database = database
        self.two_phases = two_phases
        self.random = random.Random(f"{seed}/{number}")
        self.name = f"c{number}"
        self.unexpected = unexpected
        self.prepared = 0
        self.done = {}
        self.conn = None

    def sql(self, text, *parameters):
        cursor = self.conn.execute(text, parameters or None)
        return cursor.fetchall() if cursor.description else []

    def run(self, until, done):
        actions = (
            (8, self.enqueue), (1, self.enqueue_many), (3, self.enqueue_in_transaction), (10, self.claim),
            (25, self.claim_until_empty),
            (4, self.claim_in_transaction), (2, self.claim_in_savepoint), (3, self.claim_in_older_snapshot),
            (2, self.claim_and_keep), (3, self.prepare), (3, self.decide), (4, self.hold), (3, self.insert),
            (2, self.copy), (5, self.update), (4, self.operate), (3, self.give_back), (1, self.silent),
            (1, self.switch_triggers), (1, self.rebuild))
        if not self.two_phases:
            actions = [entry for entry in actions if entry[1] not in (self.prepare, self.decide)]
        weights = [weight for weight, _ in actions]
        calls = [call for _, call in actions]
        while time.monotonic() < until:
            action = self.random.choices(calls, weights)[0]
            try:
                if self.conn is None:
                    self.conn = connect(self.database, application_name=APPLICATION)
                    self.sql("SET lock_timeout = '300 ms'")
                action()
                self.done[action.__name__] = self.done.get(action.__name__, 0) + 1
            except psycopg.Error as error:
                self.recover(action.__name__, error)
        if self.conn is not None:
            self.conn.close()
        done.put(self.done)

    def recover(self, action, error):
        if self.conn is None or self.conn.closed:
            self.conn = None
            return
        if error.sqlstate not in EXPECTED:
            self.unexpected.put(f"{action}: {error.sqlstate} {error}")
        try:
            self.sql("ROLLBACK")
            self.sql("RESET session_replication_role")
        except psycopg.Error:
            self.conn.close()
            self.conn = None

    # Functions that several actions use

    def kind(self):
        return self.random.choice(KINDS)

    def priority(self):
        return self.random.randint(-2, 2)

    def end(self, share=0.5):
        self.sql("COMMIT" if self.random.random() < share else "ROLLBACK")

    def pause(self):
        time.sleep(self.random.random() * 0.02)

    def enqueue_one(self):
        at = self.random.choice(("NULL", "NULL", "clock_timestamp() - interval '1 hour' * random()",
                                 "clock_timestamp() + interval '300 ms' * random()"))
        self.sql(f"SELECT jobq_enqueue('stranded', kind => %s, priority => %s, run_at => {at})",
                 self.kind(), self.priority())

    def take(self, batch):
        kinds = self.random.choice((None, None, [self.kind()]))
        return self.sql("SELECT id, lease FROM jobq_claim('stranded', %s, %s, kinds => %s)", self.name, batch, kinds)

    def some(self, *statuses):
        rows = self.sql("SELECT * FROM " + JOBS + " j", list(statuses))
        return rows[0] if rows else (None, None)

    # Producers

    def enqueue(self):
        self.enqueue_one()

    def enqueue_many(self):
        count = self.random.choice((2, 10, 40))
        if self.random.random() < 0.5:
            self.sql("SELECT count(*) FROM jobq_enqueue_many('stranded', array_fill('{}'::jsonb, ARRAY[%s::int]),"
                     " kind => %s, priority => %s)", count, self.kind(), self.priority())
        else:
            specs = [{"queue": QUEUE, "kind": self.kind(), "priority": self.priority()} for _ in range(count)]
            self.sql("SELECT count(*) FROM jobq_enqueue_jobs(%s)", json.dumps(specs))

    def enqueue_in_transaction(self):
        self.sql("BEGIN")
        for _ in range(self.random.randint(1, 4)):
            savepoint = self.random.random() < 0.5
            if savepoint:
                self.sql("SAVEPOINT s")
            self.enqueue_one()
            if savepoint:
                self.sql("ROLLBACK TO s" if self.random.random() < 0.5 else "RELEASE s")
            if self.random.random() < 0.3:
                self.take(1)
            self.pause()
        self.end(0.7)

    # Workers

    def claim(self):
        for job, lease in self.take(self.random.choice((1, 1, 1, 10))):
            if self.random.random() < 0.9:
                self.sql("SELECT jobq_complete(%s, %s)", job, lease)

    def claim_until_empty(self):
        """Keeps the queue short, so that the other sessions learn that lanes are empty."""
        for _ in range(20):
            taken = self.take(100)
            if not taken:
                return
            jobs, leases = zip(*taken)
            self.sql("SELECT count(*) FROM jobq_complete_many(%s, %s)", list(jobs), list(leases))

    def claim_in_transaction(self):
        self.sql("BEGIN")
        for job, lease in self.take(self.random.choice((1, 5, 50))):
            if self.random.random() < 0.7:
                self.sql("SELECT jobq_complete(%s, %s)", job, lease)
        self.take(1)
        self.pause()
        self.end()

    def claim_in_savepoint(self):
        self.sql("BEGIN")
        self.take(1)
        self.sql("SAVEPOINT s")
        self.take(self.random.choice((1, 10, 50)))
        self.take(1)
        self.pause()
        self.sql("ROLLBACK TO s")
        self.pause()
        self.take(1)
        self.end()

    def claim_in_older_snapshot(self):
        self.sql("BEGIN ISOLATION LEVEL " + self.random.choice(("REPEATABLE READ", "SERIALIZABLE")))
        if self.random.random() < 0.5:
            self.sql("SELECT count(*) FROM jobq.jobs WHERE id < 0")
            self.pause()
        self.take(self.random.choice((1, 5)))
        self.take(1)
        self.end()

    def claim_and_keep(self):
        """The job is left to the rescue."""
        self.take(1)

    def give_back(self):
        for job, lease in self.take(self.random.choice((1, 3))):
            call = self.random.choice(("jobq_release(%s, %s)", "jobq_fail(%s, %s, 'again', '0 s')",
                                       "jobq_fail(%s, %s, 'soon', '100 ms')", "jobq_complete(%s, %s)"))
            self.sql("SELECT " + call, job, lease)

    # Prepared transactions

    def prepare(self):
        if self.sql("SHOW max_prepared_transactions")[0][0] == "0":
            return
        self.sql("BEGIN")
        for _ in range(self.random.randint(1, 3)):
            self.random.choice((self.enqueue_one, self.enqueue_one, lambda: self.take(2)))()
        self.prepared += 1
        self.sql(f"PREPARE TRANSACTION '{self.name} {self.prepared} {time.monotonic()}'")

    def decide(self):
        rows = self.sql("SELECT gid FROM pg_prepared_xacts WHERE database = current_database()"
                        " ORDER BY random() LIMIT 1")
        for (gid,) in rows:
            self.sql(f"{self.random.choice(('COMMIT', 'COMMIT', 'ROLLBACK'))} PREPARED '{gid}'")

    # Database administrators

    def hold(self):
        strength = self.random.choice(("FOR UPDATE", "FOR NO KEY UPDATE", "FOR SHARE", "FOR KEY SHARE"))
        self.sql("BEGIN")
        self.sql("SELECT count(*) FROM (SELECT id FROM jobq.jobs WHERE queue = 'stranded' AND status = 'pending'"
                 f" ORDER BY random() LIMIT %s {strength} SKIP LOCKED) h", self.random.choice((1, 5, 30)))
        time.sleep(self.random.random() * 0.1)
        if self.random.random() < 0.5:
            self.take(1)
        self.end()

    def insert(self):
        self.sql("BEGIN")
        self.sql("INSERT INTO jobq.jobs (queue, kind, priority, run_at)"
                 " SELECT 'stranded', %s, %s, clock_timestamp() + random() * %s::interval FROM generate_series(1, %s)",
                 self.kind(), self.priority(), self.random.choice(("-1 hour", "200 ms", "0 s")),
                 self.random.choice((1, 10)))
        self.pause()
        self.end(0.8)

    def copy(self):
        with self.conn.cursor().copy("COPY jobq.jobs (queue, kind, priority) FROM STDIN") as out:
            for _ in range(self.random.choice((1, 20))):
                out.write_row((QUEUE, self.kind(), self.priority()))

    def update(self):
        change = self.random.choice((
            "priority = (random() * 4 - 2)::int", "run_at = clock_timestamp() - random() * interval '1 hour'",
            "run_at = clock_timestamp() + random() * interval '300 ms'", "kind = 'b'", "payload = '[]'",
            "status = 'pending'", "status = 'pending', run_at = clock_timestamp() - interval '1 hour'"))
        statuses = ["pending", "scheduled"]
        if change.startswith("status"):
            statuses += ["completed", "processing"]
        self.sql("BEGIN")
        self.sql(f"UPDATE jobq.jobs SET {change} WHERE id IN (SELECT id FROM {JOBS} j)", statuses)
        if self.random.random() < 0.3:
            self.take(1)
        self.pause()
        self.end(0.8)

    def operate(self):
        call, statuses = self.random.choice((
            ("jobq_retry(%s)", ("completed", "scheduled", "cancelled")),
            ("jobq_reschedule(%s, clock_timestamp() - interval '2 hours')", ("pending", "scheduled")),
            ("jobq_reschedule(%s, clock_timestamp() + interval '200 ms')", ("pending", "scheduled")),
            ("jobq_cancel(%s)", ("pending", "processing"))))
        job, _ = self.some(*statuses)
        if job is not None:
            self.sql("BEGIN")
            self.sql("SELECT " + call, job)
            self.pause()
            self.end(0.8)

    def silent(self):
        """Like logical replication: no trigger fills columns or follows the change."""
        self.sql("SET session_replication_role = replica")
        kind = self.kind()
        self.sql(SILENT, kind, self.priority(), kind, self.random.choice((1, 30)))
        self.sql("RESET session_replication_role")

    def switch_triggers(self):
        kind = self.kind()
        trigger = self.random.choice(("fill_job", "count_job"))
        self.sql("BEGIN")
        self.sql("SET LOCAL lock_timeout = '60 ms'")
        self.sql(f"ALTER TABLE jobq.jobs DISABLE TRIGGER {trigger}")
        self.sql(SILENT, kind, self.priority(), kind, 1)
        self.sql(f"ALTER TABLE jobq.jobs ENABLE TRIGGER {trigger}")
        self.end(0.8)

    def rebuild(self):
        """The table and its indexes get new files, in a transaction that is committed or rolled back."""
        self.sql("BEGIN")
        self.sql("SET LOCAL lock_timeout = '60 ms'")
        self.sql(self.random.choice((
            "TRUNCATE jobq.jobs", "ALTER TABLE jobq.jobs ALTER COLUMN progress TYPE jsonb USING progress::text::jsonb",
            "REINDEX INDEX jobq.jobs_ready_idx", "CLUSTER jobq.jobs USING jobs_pkey")))
        self.sql("SAVEPOINT s")
        self.take(5)
        self.take(5)
        self.sql("ROLLBACK")


def _run_client(database, number, seed, two_phases, until, done, unexpected):
    Client(database, number, seed, two_phases, unexpected).run(until, done)


def terminate_some(conn, until, choose):
    """Terminates sessions at random moments; returns their number."""
    count = 0
    while time.monotonic() < until:
        time.sleep(choose.random() * 0.4)
        pids = [row[0] for row in conn.execute(
            "SELECT pid FROM pg_stat_activity WHERE application_name = %s AND state <> 'idle'", (APPLICATION,))]
        if pids:
            conn.execute("SELECT pg_terminate_backend(%s)", (choose.choice(pids),))
            count += 1
    return count


def decide_all(conn):
    gids = conn.execute("SELECT gid FROM pg_prepared_xacts WHERE database = current_database() ORDER BY gid").fetchall()
    for number, (gid,) in enumerate(gids):
        conn.execute(f"{'ROLLBACK' if number % 3 == 0 else 'COMMIT'} PREPARED '{gid}'")


def all_gone(conn):
    return not conn.execute("SELECT FROM pg_stat_activity WHERE application_name = %s", (APPLICATION,)).fetchall()


def claim_all(conn):
    """A plain worker claims until a claim finds nothing."""
    claimed = 0
    while True:
        got = conn.execute("SELECT count(jobq_complete(id, lease)) FROM jobq_claim('stranded', 'plain', 100)").fetchone()[0]
        claimed += got
        if got == 0:
            return claimed


def claimable(conn):
    """The ids of the jobs that can be claimed now. Locked jobs, for example those of a prepared transaction, cannot be claimed."""
    return {row[0] for row in conn.execute(
        "SELECT id FROM jobq.jobs WHERE queue = 'stranded' AND status = 'pending'"
        " FOR NO KEY UPDATE SKIP LOCKED")}


def drain(conn):
    """Returns the number of claimed jobs, and the jobs that were pending before and have not been claimed."""
    before = claimable(conn)
    claimed = claim_all(conn)
    passed_over = before & claimable(conn)
    return claimed, passed_over


def drain_for_good(conn):
    """The same until no job is unfinished, including delayed and lost jobs. Returns the jobs that are left."""
    passed_over = set()
    end = time.monotonic() + MOMENT
    while True:
        passed_over |= drain(conn)[1]
        left = conn.execute("SELECT id, status::text, kind, priority, run_at, metadata FROM jobq.jobs"
                            " WHERE queue = 'stranded' AND status <= 'processing'").fetchall()
        if not left or time.monotonic() > end:
            return passed_over, left
        time.sleep(0.05)


def phase(results, database, number, seed, totals):
    done, unexpected = processes.Queue(), processes.Queue()
    until = time.monotonic() + SECONDS
    # Each COMMIT PREPARED makes all sessions forget what they know, so it is not used in every phase.
    two_phases = number % 4 == 1
    clients = [processes.Process(target=_run_client,
                                 args=(database, f"{number}.{n}", seed, two_phases, until, done, unexpected))
               for n in range(CLIENTS)]
    # Keeps the entries of finished jobs in the index.
    with connect(database) as holder:
        if number % 2 == 0:
            holder.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
            holder.execute("SELECT 1")
        for client in clients:
            client.start()
        with connect(database) as conn:
            terminated = terminate_some(conn, until, random.Random(f"{seed}/{number}"))
            counts = {}
            for _ in clients:
                for action, count in done.get(timeout=60).items():
                    counts[action] = counts.get(action, 0) + count
            for client in clients:
                client.join(30)
            errors = []
            while not unexpected.empty():
                errors.append(unexpected.get())
            if errors:
                results.check(False, f"phase {number}: no unexpected error", "; ".join(errors[:3]))
            wait_until(lambda: all_gone(conn), 30)
            claimed, passed_over = drain(conn)
            decide_all(conn)
            more, passed_over_then = drain(conn)
            claimed += more
            passed_over |= passed_over_then
            total = conn.execute("SELECT count(*) FROM jobq.jobs").fetchone()[0]
            results.note(f"phase {number}: {sum(counts.values())} actions, {terminated} sessions terminated,"
                         f" {total} jobs so far, {claimed} claimed at the end")
    for action, count in counts.items():
        totals[action] = totals.get(action, 0) + count
    return passed_over


def main():
    results = Results("stranded")
    seed = int(os.environ.get("JOBQ_AUDIT_SEED") or random.SystemRandom().randrange(10**6))
    planted = os.environ.get("JOBQ_AUDIT_EXPECT") == "stranded"
    results.note(f"seed {seed}")
    with scratch_database("stranded") as database:
        with connect(database) as conn:
            conn.execute("SELECT jobq_create_queue('stranded', max_attempts => 1000, max_lost => 1000,"
                         " heartbeat_timeout => '1 s')")
            for kind in KINDS:
                conn.execute("SELECT jobq_enqueue('stranded', kind => %s)", (kind,))
            came = wait_until(lambda: conn.execute("SELECT bool_or(rounds > 0) FROM jobq.background_workers"
                                                   " WHERE database = current_database()").fetchone()[0], 30)
            results.check(came, "a background worker runs, and there are empty ranges")
        totals, stranded = {}, {}
        for number in range(PHASES):
            passed_over = phase(results, database, number, seed, totals)
            if passed_over:
                stranded[number] = sorted(passed_over)
                if planted:
                    break
        results.note(f"actions: {totals}")
        if planted:
            results.check(stranded, f"jobs are found stranded: { {n: len(ids) for n, ids in stranded.items()} }")
        else:
            results.equal(stranded, {}, "no claim that found nothing has skipped a job")
            with connect(database) as conn:
                passed_over, left = drain_for_good(conn)
            results.equal(sorted(passed_over), [], "nor later")
            results.equal(left, [], "no job is left")
    results.finish()


if __name__ == "__main__":
    main()
