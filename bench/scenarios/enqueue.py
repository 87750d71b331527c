# Enqueue of 1,000 jobs per call by one client, compared with INSERT ... SELECT unnest into the textbook table.

from cells import interleave
from contenders import BASE, JOBQ, TEXTBOOK
from load import pgbench
from measure import Probe

TITLE = 'Enqueue: 1,000 jobs in one call'
SIZE = 1000


def enqueue(bench, contender, seconds, sync, options=''):
    conn = bench.conn_of(contender)
    contender.reset(conn)
    conn.execute('CHECKPOINT')
    probe = Probe(conn, contender.tables, contender.data)
    load = pgbench(contender.enqueue_many(SIZE), 1, seconds=seconds, sync=sync, variables={'ready': 0},
                   host=contender.host, options=options)
    jobs = load.transactions * SIZE
    cost = probe.done(jobs)
    audit = contender.audit(conn, jobs)
    for problem in audit.problems(0):
        bench.fail(f'enqueue, {contender.title}: {problem}')
    contender.reset(conn)
    return dict(cost, jobs_per_s=load.tps * SIZE, p50_ms=load.percentile_ms(0.5),
                p99_ms=load.percentile_ms(0.99), jobs=jobs)


def run(bench):
    seconds = bench.scale(4, 2)
    for sync in bench.scale(('off', 'on'), ('off',)):
        def cell(contender, sync=sync):
            return lambda: enqueue(bench, contender, seconds, sync)
        cells = {'textbook': cell(TEXTBOOK), 'jobq': cell(JOBQ)}
        if BASE:
            cells['jobq before'] = cell(BASE)
        interleave(bench, 'enqueue', cells, bench.scale(5, 3), sync)
        bench.goal_of_pairs('enqueue', f'jobq_enqueue_many of {SIZE:,}, synchronous_commit {sync}, relative to INSERT ... SELECT unnest',
                            'jobq', 'textbook', sync, '>=', 0.9)
    bench.note('enqueue', f'p50 and p99 are the times of a call that enqueues {SIZE:,} jobs, including the time to send the {SIZE:,} '
               'payloads from the client.')
