# The duties of the background worker: rescue of 100,000 expired jobs, a tick with as many live jobs, and pruning of a million
# finished jobs under load. jobq_tick() runs the rescue and the tick while the background worker is off, and the background worker
# prunes.

import statistics
import time

from contenders import JOBQ
from load import Drained, pgbench

TITLE = 'Rescue, tick, prune'


def run(bench):
    bench.setting('jobq.enabled', 'off')
    try:
        rescue(bench)
        tick(bench)
    finally:
        bench.setting('jobq.enabled', None)
    prune(bench)


def claim_all(bench, jobs, timeout):
    JOBQ.reset(bench.conn)
    JOBQ.fill(bench.conn, jobs)
    for _ in range(0, jobs, 10_000):
        bench.conn.execute("SELECT count(*) FROM jobq_claim('bench', 'gone', batch => 10000, "
                           f"heartbeat_timeout => '{timeout}')")
    bench.conn.execute('VACUUM ANALYZE jobq.jobs')


def duty(bench, name):
    return bench.conn.execute('SELECT done FROM jobq_tick() WHERE duty = %s', (name,)).fetchone()[0]


def rescue(bench):
    jobs = bench.scale(100_000, 20_000)
    for number in range(bench.scale(3, 1)):
        claim_all(bench, jobs, '10 ms')
        time.sleep(0.1)
        rescued, started = 0, time.monotonic()
        while done := duty(bench, 'rescue'):
            rescued += done
        took = time.monotonic() - started
        pending = bench.conn.execute("SELECT count(*) FROM jobq.jobs WHERE status = 'pending'").fetchone()[0]
        if rescued != jobs or pending != jobs:
            bench.fail(f'rescue: {rescued} of {jobs} expired jobs were rescued')
        bench.add('duties', f'{jobs:,} expired jobs rescued', 'on', number, {'jobs_per_s': jobs / took, 'took_s': took})
    bench.goal('duties', f'time to rescue {jobs:,} jobs with expired leases',
               bench.median('duties', f'{jobs:,} expired jobs rescued', 'on', 'took_s'), '<=', 3, 's')


def tick(bench):
    jobs = bench.scale(100_000, 20_000)
    claim_all(bench, jobs, '10 hours')
    took = []
    for _ in range(12):
        started = time.monotonic()
        if duty(bench, 'rescue'):
            bench.fail('tick: live jobs were rescued')
        took.append((time.monotonic() - started) * 1000)
    bench.goal('duties', f'time of a tick with {jobs:,} running jobs', statistics.median(took[1:]), '<=', 20, 'ms')
    JOBQ.reset(bench.conn)


def prune(bench):
    """Runs the same load while the million finished jobs are kept, and while they are pruned."""
    finished, seconds, rounds = bench.scale((1_000_000, 5, 4), (100_000, 2, 1))
    bench.conn.execute("SELECT jobq_create_queue('old')")
    rate = 15_000
    for number in range(rounds):
        loads = None
        while loads is None:
            try:
                loads = prune_round(bench, finished, seconds, int(rate * seconds * 2 * 1.5))
                rate = max(load.tps for load, _ in loads.values())
            except Drained:
                rate *= 2
        for cell, (load, pruned) in loads.items():
            bench.add('duties', f'single jobs, 4 clients, {cell}', 'off', number,
                      {'jobs_per_s': load.tps, 'p50_ms': load.percentile_ms(0.5), 'p99_ms': load.percentile_ms(0.99),
                       'pruned_per_s': pruned / load.seconds})
        bench.say(f'duties: prune, round {number + 1}: {pruned:,} pruned under load')
    ratio, interval = bench.paired('duties', 'single jobs, 4 clients, a million finished jobs pruned',
                                   'single jobs, 4 clients, a million finished jobs kept', 'off')
    speed = bench.median('duties', 'single jobs, 4 clients, a million finished jobs pruned', 'off', 'pruned_per_s')
    bench.goal('duties', f'claims while {finished:,} finished jobs are pruned, relative to the same without pruning', ratio, '>=', 0.9,
               note=f'{speed:,.0f} jobs/s pruned in the meantime', interval=interval)
    JOBQ.reset(bench.conn)
    bench.conn.execute("SELECT jobq_drop_queue('old')")


def prune_round(bench, finished, seconds, jobs):
    """Returns, for each cell, its load and the number of jobs that were pruned during the load."""
    count = "SELECT count(*) FROM jobq.jobs WHERE queue = 'old'"
    JOBQ.reset(bench.conn)
    bench.conn.execute("SELECT jobq_alter_queue('old', keep_completed => '30 days')")
    bench.conn.execute(f"""
        INSERT INTO jobq.jobs (queue, payload, run_at, status, attempts, started_at, finished_at)
        SELECT 'old', bench_payload(n), now() - interval '3 days', 'completed', 1, now() - interval '3 days',
               now() - interval '2 days' FROM generate_series(1, {finished}) n""")
    JOBQ.fill(bench.conn, jobs)
    bench.conn.execute('VACUUM ANALYZE jobq.jobs')
    bench.conn.execute('CHECKPOINT')
    loads = {}
    for cell in ('a million finished jobs kept', 'a million finished jobs pruned'):
        if cell == 'a million finished jobs pruned':
            bench.conn.execute("SELECT jobq_alter_queue('old', keep_completed => '1 day')")
            wait_for_prune(bench, count, finished)
        left = bench.conn.execute(count).fetchone()[0]
        load = pgbench(JOBQ.lifecycle(), 4, seconds=seconds)
        loads[cell] = load, left - bench.conn.execute(count).fetchone()[0]
    with bench.conn.transaction():
        # The background worker keeps pruning.
        bench.conn.execute('SET TRANSACTION ISOLATION LEVEL REPEATABLE READ')
        rest = bench.conn.execute(count).fetchone()[0]
        done = sum(load.transactions for load, _ in loads.values())
        for problem in JOBQ.audit(bench.conn, jobs + rest).problems(done + rest):
            bench.fail(f'prune: {problem}')
    return loads


def wait_for_prune(bench, count, finished):
    for _ in range(300):
        if bench.conn.execute(count).fetchone()[0] < finished:
            return
        time.sleep(0.1)
    bench.note('duties', 'The prune had not begun after 30 s.')
