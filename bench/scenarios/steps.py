# Durable steps: a program with three steps, compared with the same program without steps, the delay until the job of a signal is
# claimed, and the cost for jobs without steps if other jobs have many.

import threading
import time

from cells import interleave, run_cell
from contenders import JOBQ, Jobq
from statistic import percentile

TITLE = 'Steps and signals'
CLIENTS = 16
STEPS = ('charge', 'ship', 'mail')


class Beside(Jobq):
    """jobq, in a database in which other jobs have steps, waits, and signals."""

    name = title = 'jobq, with 100,000 steps, waits, and signals of other jobs'

    def reset(self, conn):
        super().reset(conn)
        conn.execute("""
            INSERT INTO jobq.steps (job_id, number, name, kind, state)
            SELECT -n, 1, 'a', 'step', 'done' FROM generate_series(1, 100000) n ON CONFLICT DO NOTHING""")
        conn.execute("INSERT INTO jobq.job_signals (job_id, event) SELECT -n, 'e' FROM generate_series(1, 100000) n ON CONFLICT DO NOTHING")


def run(bench):
    program(bench)
    latency(bench, ASignal())
    latency(bench, AChild())
    others(bench)


def others(bench):
    seconds = bench.scale(6, 3)
    contenders = [JOBQ, Beside()]
    cells = {contender.title: lambda contender=contender: run_cell(bench, contender, contender.lifecycle(), CLIENTS, 'off', seconds, guess=10_000)
             for contender in contenders}
    interleave(bench, 'steps', cells, bench.scale(5, 2), 'off')
    bench.conn.execute('DELETE FROM jobq.steps; DELETE FROM jobq.job_signals')
    bench.goal_of_pairs('steps', 'jobs without steps while other jobs have many steps, relative to the same without the other jobs',
                        contenders[1].title, JOBQ.title, 'off',
                        '>=', 0.97)


def program(bench):
    """Each step is a transaction that adds a row. With durable steps, the program also checks whether the step is saved, and
    saves it."""
    jobs = bench.scale(3_000, 500)
    bench.conn.execute('CREATE TABLE IF NOT EXISTS step_effects (job bigint, step text)')
    for number in range(bench.scale(3, 1)):
        for title, saves in (('3 steps per job, one worker, not saved', False), ('3 steps per job, one worker, saved', True)):
            JOBQ.reset(bench.conn)
            JOBQ.fill(bench.conn, jobs, 'program')
            took = work_through(bench, jobs, saves)
            bench.add('steps', title, 'off', number, {'jobs_per_s': jobs / took})
    ratio, interval = bench.paired('steps', '3 steps per job, one worker, saved', '3 steps per job, one worker, not saved', 'off')
    bench.note('steps', f'A program that saves 3 steps per job processes {ratio:.2f} times as many jobs per second as the same program without '
               f'saved steps ({interval}).')
    bench.conn.execute('DROP TABLE step_effects')


def work_through(bench, jobs, saves):
    conn = bench.connect(options='-c synchronous_commit=off')
    started = time.monotonic()
    for _ in range(jobs):
        job, lease = conn.execute("SELECT id, lease FROM jobq_claim('program')").fetchone()
        for step in STEPS:
            if saves and conn.execute('SELECT state FROM jobq_step(%s, %s, %s)', (job, lease, step)).fetchone()[0] != 'run':
                bench.fail('a step is not to be run')
            with conn.transaction():
                conn.execute('INSERT INTO step_effects VALUES (%s, %s)', (job, step))
                if saves:
                    conn.execute('SELECT jobq_step_done(%s, %s, %s)', (job, lease, step))
        conn.execute('SELECT jobq_complete(%s, %s)', (job, lease))
    took = time.monotonic() - started
    done = conn.execute('SELECT count(*) FROM step_effects').fetchone()[0]
    if done != jobs * len(STEPS):
        bench.fail(f'{done} of {jobs * len(STEPS)} steps were done')
    conn.execute('TRUNCATE step_effects')
    conn.close()
    return took


class ASignal:
    """The event that a job awaits, and how it happens."""

    title = "a signal's commit"

    def await_it(self, worker, other, job, lease, number):
        return worker.execute('SELECT state FROM jobq_await(%s, %s, %s)', (job, lease, f'e{number}')).fetchone()[0]

    def come(self, other, job, number):
        other.execute('SELECT jobq_signal_job(%s, %s)', (job, f'e{number}'))


class AChild:
    title = "a child's end"

    def await_it(self, worker, other, job, lease, number):
        ids = worker.execute("SELECT job_ids FROM jobq_spawn(%s, %s, %s, '[{\"queue\": \"children\"}]')", (job, lease, f'c{number}')).fetchone()[0]
        self.child = other.execute("SELECT id, lease FROM jobq_claim('children')").fetchone()
        return worker.execute('SELECT state FROM jobq_await_jobs(%s, %s, %s, %s)', (job, lease, ids, f'w{number}')).fetchone()[0]

    def come(self, other, job, number):
        other.execute('SELECT jobq_complete(%s, %s)', self.child)


def latency(bench, awaited):
    """Measures the time from the commit of the awaited event until a waiting worker has claimed the job, while 10,000 other jobs
    wait."""
    rounds = bench.scale(1_000, 300)
    JOBQ.reset(bench.conn)
    JOBQ.fill(bench.conn, 10_000, 'sleepers')
    bench.conn.execute("SELECT count(a.state) FROM jobq_claim('sleepers', 'w', 10000) c, jobq_await(c.id, c.lease, 'never', '1 day') a")
    JOBQ.fill(bench.conn, 1, 'awaiting')
    worker, other = (bench.connect(options='-c synchronous_commit=off') for _ in range(2))
    took = []
    for number in range(rounds):
        job, lease = wait_and_claim(bench, worker, number)
        if job is None:
            break
        state = awaited.await_it(worker, other, job, lease, number)
        if state != 'waiting':
            bench.fail(f'{awaited.title}: {state}, not waiting')
        # Gives the background worker time to process the start of the wait.
        time.sleep(0.002)
        claimed = []
        thread = threading.Thread(target=lambda: claimed.append((*wait_and_claim(bench, worker, number), time.monotonic())))
        thread.start()
        time.sleep(0.003)
        awaited.come(other, job, number)
        sent = time.monotonic()
        thread.join()
        took.append((claimed[0][2] - sent) * 1e3)
        worker.execute('SELECT jobq_release(%s, %s)', (job, claimed[0][1]))
    worker.close()
    other.close()
    JOBQ.reset(bench.conn)
    if took:
        bench.add('steps', f'{awaited.title} to the claim', 'off', 0, {'p50_ms': percentile(took, 0.5), 'p99_ms': percentile(took, 0.99), 'jobs': len(took)})
        bench.goal('steps', f'time from {awaited.title} to the claim, p50', percentile(took, 0.5), '<=', 2, 'ms')


def wait_and_claim(bench, conn, number):
    give_up = time.monotonic() + 30
    while time.monotonic() < give_up:
        row = conn.execute("SELECT id, lease FROM jobq_claim('awaiting', 'worker')").fetchone()
        if row is not None:
            return row
        conn.execute("CALL jobq_wait('awaiting', '10 s')")
    bench.fail(f'waits: nobody wakes up in round {number}')
    return None, None
