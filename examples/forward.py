#!/usr/bin/env python3
"""Sends the jobs of a queue to another database with jobq, or to a cluster: exactly once in effect. An outbox.

    JOBQ_TO="host=router dbname=jobs" python3 forward.py QUEUE [TO]

QUEUE is here: by PGHOST, PGPORT, PGUSER, PGDATABASE as psql has it; producers enqueue there in their own transactions. TO, the
same name unless said otherwise, is the queue there, by the connection string JOBQ_TO. Run it as often as you like.

Each job is sent under a unique key made of its origin: system, database, id and time of its enqueue. There the key is kept for
JOBQ_KEEP ('1 day') after that job has finished: so whoever sends it again, since an answer was lost or a forwarder killed, makes no second
job. A job whose first sending lies further back than that is not sent again: it fails for good, and says so; jobq_retry sends it anew.

Wants psycopg 3: apt-get install python3-psycopg, or pip install "psycopg[binary]".
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
# Seconds for which the jobs of a batch are tried one by one, where each may take some: their leases, of a minute, outlast that.
PATIENCE = 15
# What another try may mend: connections, conflicts, resources, a server that starts, stops or is a standby.
PASSING = ("08", "40", "53", "57", "58", "25006")

# Whatever they require.
CLAIM = """SELECT id, lease FROM jobq_claim(%s, %s, %s,
    capabilities => ARRAY(SELECT DISTINCT unnest(l.requires) FROM jobq.lane_directory l WHERE l.queue = %s))"""

# Before it is sent a job gets a note of when that was first: what the target remembers is counted from there. Who must not be sent
# again: sent for the first time longer ago than the target is sure to keep the key, with a tenth for clocks that differ.
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
            self.here.execute("SET jobq.async_heartbeats = off")    # the note is there before anything is sent
        if self.there is None or self.there.closed:
            self.there = psycopg.connect(self.target, autocommit=True, client_encoding="utf8", connect_timeout=5)

    def send(self, jobs):
        """The ids there, in the order of the jobs."""
        specs = ", ".join(spec for *_, spec in jobs)
        return [row[0] for row in self.there.execute("SELECT job_id FROM jobq_enqueue_jobs(%s)", (f"[{specs}]",))]

    def forward(self):
        """A batch. Returns how many jobs there were."""
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
        """All at once; when that does not work each by itself, so that none has to suffer for another. What is left when that takes too long
        comes again, before those that have just failed."""
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
                    # No attempt is used up. What a shard of a cluster has kept us waiting for makes room for the others.
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
        except psycopg.errors.UntranslatableCharacter:   # the encoding of the database here lacks a character
            self.here.execute("SELECT jobq_fail(%s, %s, %s)", (job, lease, message.encode("ascii", "replace").decode()))

    def give_up(self, job, lease, message):
        """For good. Whoever retries it has looked there: so the note goes, with the failure."""
        say(f"job {job}: {message}")
        self.here.execute("SELECT jobq_heartbeat(%s, %s, '{}'), jobq_fail(%s, %s, %s, retry => false)", (job, lease, job, lease, message))

    def run(self):
        say(f"queue {self.queue} to queue {self.to}")
        while not self.stop.is_set():
            try:
                self.connect()
                if self.forward() == 0:
                    self.here.execute("CALL jobq_wait(%s, '1 s')", (self.queue,))
            except psycopg.errors.QueryCanceled as error:   # of a wait: as any wait ends
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
