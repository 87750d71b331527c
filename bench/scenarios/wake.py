# The delay from an enqueue to the claim by an idle worker, with jobq_wait and with LISTEN, and the cost of wake-ups for 16
# clients that enqueue.

import os
import random
import select
import subprocess
import sys
import threading
import time

from bench import Skip
from cells import interleave
from contenders import JOBQ
from load import pgbench
from statistic import percentile

TITLE = 'Wake-ups'
WAITER = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), 'waiter.py')
ENQUEUE = "SELECT jobq_enqueue('bench', bench_payload(:client_id));\n"
ENQUEUE_NOTIFY = "SELECT jobq_enqueue('bench', bench_payload(:client_id)), pg_notify('bench_direct', 'bench');\n"


def run(bench):
    if not bench.has_function('jobq_wait'):
        raise Skip('this jobq has no jobq_wait')
    JOBQ.reset(bench.conn)
    jobs = bench.scale(500, 150)
    latency(bench, 'wait', jobs, [(0.5, 1), (0.99, 5)])
    latency(bench, 'listen', jobs, [(0.99, 30)])
    cost(bench)


def latency(bench, mode, jobs, targets):
    """Measures the time from just before the commit of the producer until the worker has the job, with synchronous_commit off."""
    name = {'wait': 'jobq_wait', 'listen': 'LISTEN'}[mode]
    process = subprocess.Popen([sys.executable, WAITER, mode, str(jobs)], stdout=subprocess.PIPE, text=True)
    producer = bench.connect(options='-c synchronous_commit=off')
    sent, chance = {}, random.Random(1)
    watchdog = threading.Timer(jobs * 0.2 + 30, process.kill)   # A lost wake-up must not block the benchmark.
    watchdog.start()
    try:
        process.stdout.readline()
        for number in range(jobs):
            time.sleep(0.02 + 0.03 * chance.random())
            job, committing = producer.execute("SELECT jobq_enqueue('wake', bench_payload(%s)), "
                                               "(extract(epoch FROM clock_timestamp()) * 1000000)::bigint", (number,)).fetchone()
            sent[job] = committing
        claimed = [line.split() for line in process.stdout]
        process.wait()
    finally:
        watchdog.cancel()
        if process.poll() is None:
            process.kill()
            process.wait()
        producer.close()
    took = [(int(when) - sent[int(job)]) / 1e3 for job, when in claimed]
    if len(took) != jobs or len({job for job, _ in claimed}) != jobs:
        bench.fail(f'wake, {name}: {jobs} jobs enqueued, {len(took)} claimed')
    if not took:
        return
    bench.add('wake', f'idle worker to claimed job, {name}', 'off', 0,
              {'p50_ms': percentile(took, 0.5), 'p99_ms': percentile(took, 0.99), 'jobs': len(took)})
    for share, target in targets:
        bench.goal('wake', f'time from an enqueue to the claim by an idle worker, {name}, p{share * 100:.0f}', percentile(took, share), '<=',
                   target, 'ms')


class Listeners:
    """Sessions that wait while the producers enqueue: a listener, and a sleeper for a kind that is never enqueued."""

    def __init__(self, bench, channel, sleeper):
        self.stopping = False
        self.conns = []
        self.threads = []
        listener = bench.connect()
        listener.execute(f'LISTEN {channel}')
        self.start(listener, self.listen)
        if sleeper:
            self.start(bench.connect(), self.sleep)

    def start(self, conn, target):
        self.conns.append(conn)
        thread = threading.Thread(target=target, args=(conn,), daemon=True)
        thread.start()
        self.threads.append(thread)

    def listen(self, conn):
        while not self.stopping:
            if select.select([conn.pgconn.socket], [], [], 0.2)[0]:
                conn.pgconn.consume_input()
                while conn.pgconn.notifies():
                    pass

    def sleep(self, conn):
        while not self.stopping:
            conn.execute("CALL jobq_wait('bench', '300 ms', kinds => '{never}')")

    def stop(self):
        self.stopping = True
        for thread in self.threads:
            thread.join()
        for conn in self.conns:
            conn.close()


def cost(bench):
    seconds, rounds = bench.scale((3, 17), (1, 3))

    def cell(script, channel=None, sleeper=False):
        def once():
            JOBQ.reset(bench.conn)
            listeners = Listeners(bench, channel, sleeper) if channel else None
            try:
                load = pgbench(script, 16, seconds=seconds)
            finally:
                if listeners:
                    listeners.stop()
            for problem in JOBQ.audit(bench.conn, load.transactions).problems(0):
                bench.fail(f'wake, enqueue: {problem}')
            return {'jobs_per_s': load.tps, 'p50_ms': load.percentile_ms(0.5), 'p99_ms': load.percentile_ms(0.99)}
        return once

    cells = {'enqueue, no worker waits': cell(ENQUEUE),
             'enqueue, a sleeping and a listening worker': cell(ENQUEUE, 'jobq', True),
             "enqueue, NOTIFY in the producer's transaction": cell(ENQUEUE_NOTIFY, 'bench_direct')}
    interleave(bench, 'wake', cells, rounds, 'off', quiet=True)
    nobody, waking, notifying = cells
    bench.goal_of_pairs('wake', 'enqueues of 16 clients, with a sleeping and a listening worker, relative to enqueues without them',
                        waking, nobody, 'off', '>=', 0.95)
    ratio, interval = bench.paired('wake', notifying, nobody, 'off')
    bench.note('wake', f"With NOTIFY in the producer's transaction, producers enqueue {ratio:.2f} times as many jobs per second as "
               f'without NOTIFY ({interval}). The sleeping worker waits in jobq_wait for a kind that is never enqueued, so it '
               'sleeps all the time.')
    JOBQ.reset(bench.conn)
