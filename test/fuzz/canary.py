"""Canaries: one job for each duty of the background worker. As long as each canary reaches its expected status, no
duty has stopped."""

import json

import psycopg

from support import wait_until

MOMENT = 60

# The status of each canary, by duty, after the duty has processed it; None: the job is deleted.
STATUS = {"rescue": "pending", "max_runtime": "failed", "cancel": "cancelled", "expire": "cancelled", "promote": "pending", "unblock": "pending",
          "groups": "pending", "prune": None}


# Queries that show the state of the duties if a canary has not been processed.
TICK = """SELECT to_jsonb(t), (SELECT count(*) FROM jobq.jobs), (SELECT jsonb_agg(w) FROM jobq.background_workers w
          WHERE w.database = current_database()) FROM jobq.tick_state t"""


def _claim(conn, queue, kind, **options):
    """Returns (id, lease) of a running job of its own kind, so that the rescued canary is not claimed by mistake."""
    conn.execute("SELECT count(*) FROM jobq_enqueue_jobs(%s)", (json.dumps([{"queue": queue, "kind": kind, **options}]),))
    return conn.execute(f"SELECT id, lease FROM jobq_claim('{queue}', kinds => '{{{kind}}}')").fetchone()


class Canaries:
    """A set of canaries in queues of their own, which are not attacked."""

    count = 0

    def __init__(self, conn):
        Canaries.count += 1
        self.conn = conn
        self.queue = f"canary {Canaries.count}"
        self.brief = f"{self.queue} brief"
        self.jobs = {}

    def release(self):
        """Releases the canaries. Fails only if a function fails."""
        conn, queue = self.conn, self.queue
        conn.execute(f"SELECT jobq_create_queue('{queue}', heartbeat_timeout => '1 hour')")
        conn.execute(f"SELECT jobq_create_queue('{self.brief}', keep_completed => '1 ms')")
        self.jobs["rescue"] = _claim(conn, queue, "rescue", heartbeat_timeout="10 ms")[0]
        self.jobs["max_runtime"] = _claim(conn, queue, "max_runtime", max_runtime="10 ms", max_attempts=1)[0]
        self.jobs["cancel"] = _claim(conn, queue, "cancel")[0]
        conn.execute(f"SELECT jobq_cancel({self.jobs['cancel']})")
        self.jobs["expire"] = self._enqueue("options => '{\"expires_in\": \"10 ms\"}'")
        self.jobs["promote"] = self._enqueue("run_at => clock_timestamp() + interval '50 ms'")
        first, lease = _claim(conn, queue, "first")
        self.jobs["unblock"] = self._enqueue(f"depends_on => ARRAY[{first}]")
        self.jobs["groups"] = self._enqueue(f"group_key => '{queue}'")
        done, done_lease = _claim(conn, self.brief, "done")
        self.jobs["prune"] = done
        conn.execute(f"SELECT jobq_complete({first}, {lease}), jobq_complete({done}, {done_lease})")
        return self

    def _enqueue(self, arguments):
        return self.conn.execute(f"SELECT jobq_enqueue('{self.queue}', {arguments})").fetchone()[0]

    def missing(self):
        """The duties that have not processed their canary."""
        ids = list(self.jobs.values())
        there = dict(self.conn.execute("SELECT id, status::text FROM jobq.jobs WHERE id = ANY (%s)", (ids,)).fetchall())
        return {duty: there.get(job) for duty, job in self.jobs.items() if there.get(job) != STATUS[duty]}

    def wait(self, by_hand=False):
        """Returns the duties that are missing after a minute. by_hand: jobq_tick() performs the duties and must not fail."""
        def done():
            if by_hand:
                try:
                    self.conn.execute("SELECT count(*) FROM jobq_tick()")
                except psycopg.errors.DeadlockDetected:
                    pass    # a user whose trigger locks jobs in another order must retry the call
            return not self.missing()
        wait_until(done, MOMENT, pause=0.05)
        missing = self.missing()
        if missing:
            missing["the tick"] = self.conn.execute(TICK).fetchone()
        return missing

    def claimable(self):
        """Returns whether the jobs that have become pending can be claimed and are not hidden by an empty range."""
        wanted = sorted(job for duty, job in self.jobs.items() if STATUS[duty] == "pending")
        # Each job is claimed by a separate worker with a unique name: a job that has been lost is handed out alone, and a worker
        # that still holds such a job because of an attack gets no other. The rescued job must not be lost again.
        got = []
        while rows := self.conn.execute(f"SELECT id, lease FROM jobq_claim('{self.queue}', '{self.queue} {len(got)}',"
                                        " heartbeat_timeout => '1 hour')").fetchall():
            got += rows
        for job, lease in got:
            self.conn.execute("SELECT jobq_complete(%s, %s)", (job, lease))
        return sorted(job for job, _ in got) == wanted
