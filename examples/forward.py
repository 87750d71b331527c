#!/usr/bin/env python3
"""Forwards the jobs of a queue to another database with jobq, or to a cluster, with the effect of exactly-once delivery (an outbox).

    JOBQ_TO="host=router dbname=jobs" python3 forward.py QUEUE [TO]

QUEUE is the source queue in the database that PGHOST, PGPORT, PGUSER, and PGDATABASE select. Producers enqueue there in their own
transactions. TO is the target queue in the database of the connection string JOBQ_TO; by default, it has the same name. You can run several
forwarders at the same time.

Each job is sent with a unique key that consists of the system, the database, the id, and the enqueue time of the job. The target keeps the
key for JOBQ_KEEP ('1 day') after the sent job has finished. So if the job is sent again, because an answer was lost or a forwarder was
killed, no second job is created. If a job was first sent longer ago than that, it is not sent again but fails permanently, and its error
says why; jobq_retry sends it again.

Requires psycopg 3: apt-get install python3-psycopg, or pip install "psycopg[binary]".
"""
import os
import signal
import socket
import sys
import threading
import time

try:
    import psycopg
except ImportError as error:
    sys.exit(f"forward.py: {error}. It needs psycopg 3: apt-get install python3-psycopg, or pip install 'psycopg[binary]'")

WORKER_ID = f"forward-{socket.gethostname()}-{os.getpid()}"
KEEP = os.environ.get("JOBQ_KEEP", "1 day")
BATCH = 500
# Maximum number of seconds in which the jobs of a batch are tried one by one, less than their leases of a minute.
PATIENCE = 15
# SQLSTATE classes of errors that another try may fix: connections, conflicts, resources, a server that starts, stops, or is a
# standby.
PASSING = ("08", "40", "53", "57", "58", "25006")

# Claims jobs with any required capabilities.
CLAIM = """SELECT id, lease FROM jobq_claim(%s, %s, %s,
    capabilities => ARRAY(SELECT DISTINCT unnest(l.requires) FROM jobq.lane_directory l WHERE l.queue = %s))"""

# Notes in each job when it was first sent, before it is sent, because the target keeps the unique key for a limited time. A job
# must not be sent again if it was first sent longer ago than the target surely keeps the key, with a tenth as reserve for clocks
# that differ.
NOTE = """SELECT count(*) FROM jobq.jobs j,
    jobq_heartbeat(j.id, j.lease, jsonb_build_object('first_sent', clock_timestamp()))
    WHERE j.id = ANY (%(ids)s) AND j.lease = ANY (%(leases)s) AND NOT coalesce(j.progress ? 'first_sent', false)"""

SPECS = """SELECT j.id, j.lease, j.progress->>'first_sent',
    (j.progress->>'first_sent')::timestamptz < clock_timestamp() - %(keep)s::interval * 0.9,
    jsonb_build_object('queue', %(to)s::text, 'payload', j.payload, 'kind', j.kind, 'priority', j.priority, 'version', j.version,
                       'requires', j.requires, 'metadata', j.metadata, 'group_key', j.group_key, 'concurrency_key', j.concurrency_key,
                       'heartbeat_timeout', j.heartbeat_timeout, 'max_runtime', j.max_runtime, 'unique_for', %(keep)s::text,
                       'unique_key', concat_ws('/', c.system_identifier, d.oid, j.id, extract(epoch FROM j.created_at)))::text
    FROM jobq.jobs j, pg_control_system() c, pg_database d
    WHERE j.id = ANY (%(ids)s) AND j.lease = ANY (%(leases)s) AND d.datname = current_database()
    ORDER BY j.priority, j.run_at, j.id"""

COMPLETE = """SELECT count(*) FILTER (WHERE completed) FROM jobq_complete_many(%s, %s,
    ARRAY(SELECT jsonb_build_object('job', job) FROM unnest(%s::bigint[]) WITH ORDINALITY AS r (job, n) ORDER BY n))"""


def say(*words):
    print("forward.py:", *words, file=sys.stderr, flush=True)


class Forwarder:
    def __init__(self, queue, to, target):
        self.queue, self.to, self.target = queue, to, target
        self.here = self.there = None
        self.stop = threading.Event()

    def connect(self):
        if self.here is None or self.here.closed:
            self.here = psycopg.connect(autocommit=True, client_encoding="utf8")
            self.here.execute("SET jobq.async_heartbeats = off")    # so that the note is durable before anything is sent
        if self.there is None or self.there.closed:
            self.there = psycopg.connect(self.target, autocommit=True, client_encoding="utf8", connect_timeout=5)

    def send(self, jobs):
        """Enqueues the jobs in the target and returns their IDs there in the same order."""
        specs = ", ".join(spec for *_, spec in jobs)
        return [row[0] for row in self.there.execute("SELECT job_id FROM jobq_enqueue_jobs(%s)", (f"[{specs}]",))]

    def forward(self):
        """Forwards a batch and returns the number of jobs."""
        claimed = self.here.execute(CLAIM, (self.queue, WORKER_ID, BATCH, self.queue)).fetchall()
        if not claimed:
            return 0
        these = {"ids": [job for job, _ in claimed], "leases": [lease for _, lease in claimed], "to": self.to, "keep": KEEP}
        self.here.execute(NOTE, these)
        jobs = self.here.execute(SPECS, these).fetchall()
        for job, lease, first, _, _ in [row for row in jobs if row[3]]:
            self.give_up(job, lease, f"first sent at {first}, and its key is kept there for {KEEP}: it may be there, and it may not")
        self.deliver([row for row in jobs if not row[3]])
        return len(claimed)

    def deliver(self, jobs):
        """Sends all jobs together. If that fails, sends each alone, so that an error affects only its own job. If that takes too
        long, releases the rest, which are claimed again before the jobs that have just failed."""
        try:
            self.complete(jobs, self.send(jobs) if jobs else [])
            return
        except psycopg.Error as error:
            if self.here.closed:
                raise
            say(f"{len(jobs)} jobs, trying one by one: {error}")
        begun = time.monotonic()
        for n, row in enumerate(jobs):
            if time.monotonic() - begun > PATIENCE:
                rest = jobs[n:]
                self.here.execute("SELECT count(*) FROM jobq_release_many(%s, %s)", ([row[0] for row in rest], [row[1] for row in rest]))
                return
            try:
                self.complete([row], self.send([row]))
            except psycopg.Error as error:
                if self.here.closed:
                    raise
                state = error.sqlstate or "08"
                if self.there.closed or state.startswith(PASSING):
                    # The attempt is not counted. A shard that did not answer has delayed the batch, so its jobs wait longer than
                    # others.
                    delay = "30 s" if state.startswith("08") and not self.there.closed else "1 s"
                    self.here.execute("SELECT jobq_snooze(%s, %s, %s)", (row[0], delay, row[1]))
                else:
                    self.fail(*row[:2], str(error))

    def complete(self, jobs, sent):
        if jobs:
            self.here.execute(COMPLETE, ([row[0] for row in jobs], [row[1] for row in jobs], sent))

    def fail(self, job, lease, message):
        say(f"job {job}: {message}")
        try:
            self.here.execute("SELECT jobq_fail(%s, %s, %s)", (job, lease, message))
        except psycopg.errors.UntranslatableCharacter:   # a character does not exist in the encoding of this database
            self.here.execute("SELECT jobq_fail(%s, %s, %s)", (job, lease, message.encode("ascii", "replace").decode()))

    def give_up(self, job, lease, message):
        """Fails the job permanently and removes the note, because an operator who retries the job has checked the target."""
        say(f"job {job}: {message}")
        self.here.execute("SELECT jobq_heartbeat(%s, %s, '{}'), jobq_fail(%s, %s, %s, retry => false)", (job, lease, job, lease, message))

    def run(self):
        say(f"queue {self.queue} to queue {self.to}")
        while not self.stop.is_set():
            try:
                self.connect()
                if self.forward() == 0:
                    self.here.execute("CALL jobq_wait(%s, '1 s')", (self.queue,))
            except psycopg.errors.QueryCanceled as error:   # canceled by statement_timeout: treated as the end of the wait
                say(f"the server ended a statement (see the setting statement_timeout): {error}")
            except psycopg.OperationalError as error:
                say(f"trying again: {error}")
                self.stop.wait(1)


def main():
    if len(sys.argv) not in (2, 3) or "JOBQ_TO" not in os.environ:
        sys.exit(__doc__)
    forwarder = Forwarder(sys.argv[1], sys.argv[-1], os.environ["JOBQ_TO"])
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: forwarder.stop.set())
    forwarder.run()


if __name__ == "__main__":
    main()
