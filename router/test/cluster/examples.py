"""examples/worker.py and examples/worker.sh through a router; only their connection is different."""

import hashlib
import os
import signal
import subprocess

import psycopg

from servers import wait_for
from topology import DATABASE

HERE = os.path.dirname(os.path.abspath(__file__))
EXAMPLES = os.path.join(HERE, "..", "..", "..", "examples")
JOBS = 10


class Examples:
    def __init__(self, run, results):
        self.run, self.results = run, results
        self.router = run.topology.routers[-1]
        self.environment = dict(os.environ, PGPORT=str(self.router.port), PGDATABASE=DATABASE)

    def check(self):
        with self.router.connect(DATABASE) as conn:
            conn.execute("SELECT jobq_route_queue('work', spread => true), jobq_route_queue('digest', spread => true)")
            texts = [f"text {n}" for n in range(JOBS)]
            conn.execute("SELECT jobq_enqueue('work', jsonb_build_object('text', t), kind => 'hash') FROM unnest(%s::text[]) t", (texts,))
            conn.execute("SELECT jobq_enqueue('work', '{}', kind => 'hash', max_attempts => 1)")
            self._work(conn, [os.environ.get("PYTHON", "/usr/bin/python3"), "worker.py", "work"], "work", JOBS + 1)
            wanted = sorted((text, hashlib.sha256(text.encode()).hexdigest()) for text in texts)
            self.results.equal(sorted(conn.execute("SELECT text, digest FROM hashes").fetchall()), wanted, "worker.py has done its jobs")
            self.results.equal(self._finished("work"), {"completed": JOBS, "failed": 1}, "worker.py has reported on each job, one of which fails")
            conn.execute("SELECT jobq_enqueue('digest', jsonb_build_object('n', n)) FROM generate_series(1, %s) n", (JOBS,))
            self._work(conn, ["bash", "worker.sh", "digest", "sha256sum"], "digest", JOBS)
            self.results.equal(self._finished("digest"), {"completed": JOBS}, "worker.sh has done its jobs")
            shards = {job % 1024 for job, in self.run.topology.ask_shards("SELECT id FROM jobq.jobs WHERE queue = 'work'")}
            self.results.check(len(shards) > 1, f"on shards {sorted(shards)}")

    def _finished(self, queue):
        counts = {}
        for status, count in self.run.topology.ask_shards("SELECT status::text, count(*) FROM jobq.jobs WHERE queue = %s GROUP BY 1", (queue,)):
            counts[status] = counts.get(status, 0) + count
        return counts

    def _all_finished(self, queue, jobs):
        try:
            return sum(self._finished(queue).get(status, 0) for status in ("completed", "failed")) == jobs
        except psycopg.OperationalError:    # a busy machine
            return False

    def _work(self, conn, program, queue, jobs):
        """Waits until all jobs are finished, then asks the worker to stop and waits for it."""
        program[1] = os.path.join(EXAMPLES, program[1])
        with open(os.path.join(self.run.directory, f"{queue}.log"), "wb") as log:
            worker = subprocess.Popen(program, env=self.environment, stdout=log, stderr=log, start_new_session=True)
        try:
            wait_for(lambda: self._all_finished(queue, jobs), f"{program[1]} has done its jobs", 300)
            worker.send_signal(signal.SIGTERM)
            self.results.equal(worker.wait(60), 0, f"{os.path.basename(program[1])} ends when it is asked to")
        finally:
            if worker.poll() is None:
                os.killpg(worker.pid, signal.SIGKILL)
