# Queues with many lanes: the cost of a new lane, and the cost of other lanes for a claim that finds nothing, in the same queue
# and in another queue. No job is claimable, so only the search is measured.

import time

from cells import interleave
from contenders import JOBQ
from load import pgbench
from measure import Probe

TITLE = 'Queues with many lanes, empty claims, 1 client'
FEW = 10
NAMED = ", kinds => '{k1}'"


def create(conn, queue, first, last):
    """Enqueues a job that is scheduled for tomorrow for each of the kinds first..last, 1,000 jobs per call. Returns the seconds
    that it took."""
    begin = time.monotonic()
    for start in range(first, last + 1, 1000):
        conn.execute(f"""
            SELECT count(*) FROM jobq_enqueue_jobs((SELECT jsonb_agg(jsonb_build_object(
                'queue', '{queue}', 'kind', 'k' || n, 'run_at', now() + interval '1 day'))
            FROM generate_series({start}, {min(start + 999, last)}) n))""")
    return time.monotonic() - begin


def run(bench):
    sizes = bench.scale((FEW, 10_000, 100_000), (FEW, 1000, 10_000))
    seconds = bench.scale(3, 1)
    JOBQ.reset(bench.conn)
    took = {}
    for size in sizes:
        took[size] = create(bench.conn, f'lanes_{size}', 1, size)
        bench.say(f'lanes: {size:,} kinds entered in {took[size]:.1f} s')
    known = create(bench.conn, f'lanes_{sizes[1]}', 1, sizes[1])
    bench.conn.execute('VACUUM ANALYZE')

    def cell(queue, arguments=''):
        script = f"SELECT count(*) FROM jobq_claim('{queue}'{arguments});\n"

        def once():
            # Each session reads the lanes once.
            pgbench(script, 1, transactions=10)
            probe = Probe(bench.conn)
            load = pgbench(script, 1, seconds=seconds)
            return dict(probe.done(load.transactions), jobs_per_s=load.tps, p50_ms=load.percentile_ms(0.5),
                        p99_ms=load.percentile_ms(0.99))
        return once

    cells = {}
    for size in sizes:
        cells[f'{size:,} lanes, claim names a kind'] = cell(f'lanes_{size}', NAMED)
        cells[f'{size:,} lanes, claim names no kind'] = cell(f'lanes_{size}')
    cells['another queue, no lane'] = cell('beside')
    interleave(bench, 'lanes', cells, bench.scale(5, 2), 'off')
    for size in sizes[1:]:
        bench.goal_of_pairs('lanes', f'a claim that names its kind, among {size:,} lanes, relative to {FEW} lanes',
                            f'{size:,} lanes, claim names a kind', f'{FEW} lanes, claim names a kind', 'off', '>=', 0.5)
    bench.goal_of_pairs('lanes', f'a claim from a queue without lanes, relative to a queue with {FEW} lanes',
                        'another queue, no lane', f'{FEW} lanes, claim names no kind', 'off', '>=', 0.95)
    bench.goal('lanes', f'time to enqueue {sizes[1]:,} jobs of new kinds, relative to jobs of known kinds', took[sizes[1]] / known, '<=', 5)
    per_lane = ' and '.join(f'{took[size] * 1e6 / size:.0f} us with {size:,} lanes' for size in sizes[1:])
    bench.note('lanes', 'In this group, the column jobs/s contains calls per second, because the calls claim no job. Enqueues in '
               f'batches of 1,000 jobs take, per job, {per_lane} if each job has a new kind, and {known * 1e6 / sizes[1]:.0f} us if jobs of '
               'the same kinds were enqueued before.')
    # A tick scans all lanes, and each kind has a series of totals, so they are removed before other groups run.
    for size in sizes:
        bench.conn.execute('SELECT jobq_drop_queue(%s, force => true)', (f'lanes_{size}',))
    bench.conn.execute('VACUUM ANALYZE')
