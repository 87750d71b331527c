# The other job queues that are made for PostgreSQL, each in its defaults and in its best documented settings, against
# jobq in its own best mode, and against jobq by the same driver. The textbook stands beside for the ratios.

import os

from bench import Skip
from cells import interleave, run_cell
from contenders import JOBQ, JOBQ_KEEP_0, TEXTBOOK
from measure import Probe
from peers import all_peers

TITLE = 'Other job queues'
SIZES = (100, 500)   # 500 is what graphile-worker fetches at a time in its best settings
# jobq as installed, and with a queue that deletes what is completed, as graphile-worker does.
BATCHES = {f'{contender.title}, batches of {size}, 2 clients': (contender, size)
           for contender in (JOBQ, JOBQ_KEEP_0) for size in SIZES}


def run_peer(bench, peer, seconds, sync):
    """As cells.run_cell, for a program that handles jobs by itself and says what it handled."""
    rate = bench.rates.get(peer.name, peer.guess)
    for _ in range(5):
        jobs = int(rate * (seconds + 0.5) * 1.4 / 1000 + 2) * 1000
        peer.reset(bench.conn)
        bench.conn.execute('CHECKPOINT')
        peer.fill(bench.conn, jobs)
        for table in peer.tables:
            bench.conn.execute(f'VACUUM ANALYZE {table}')
        probe = Probe(bench.conn, peer.tables)
        told = peer.work(seconds, sync)
        if told['handled'] >= jobs:
            rate *= 2.5
            bench.rates[peer.name] = rate
            continue
        cost = probe.done(told['handled'])
        speed = told['measured'] / told['seconds']
        bench.rates[peer.name] = max(speed * 1.1, bench.rates.get(peer.name, 0))
        for problem in peer.problems(bench.conn, jobs, told):
            bench.fail(f'{peer.title}, synchronous_commit {sync}: {problem}')
        peer.reset(bench.conn)
        return dict(cost, jobs_per_s=speed, p50_ms=told['p50_ms'], p99_ms=told['p99_ms'], jobs=told['handled'])
    raise RuntimeError(f'{peer.title}: the queue drained at every attempt')


def run(bench):
    if not os.environ.get('BENCH_NODE'):
        raise Skip('no node: bench/node/install.sh says why')
    peers = [peer for peer in all_peers(bench.quick) if peer.installed()]
    seconds = bench.scale(5, 2)
    for sync in bench.scale(('off', 'on'), ('off',)):
        cells = {
            'textbook': lambda sync=sync: run_cell(bench, TEXTBOOK, TEXTBOOK.lifecycle(), 16, sync, seconds, 12_000),
            'jobq, complete_and_claim, 16 clients': lambda sync=sync: run_cell(
                bench, JOBQ, JOBQ.fused(), 16, sync, seconds, 12_000, held=16, variables=JOBQ.fused_variables),
        }
        for name, (contender, size) in BATCHES.items():
            cells[name] = lambda contender=contender, size=size, sync=sync: run_cell(
                bench, contender, contender.batch(size), 2, sync, seconds, 120_000, per_transaction=size)
        for peer in peers:
            cells[peer.name] = lambda peer=peer, sync=sync: run_peer(bench, peer, seconds, sync)
        if bench.quick:
            del cells['textbook'], cells['jobq, complete_and_claim, 16 clients']
        interleave(bench, 'peers', cells, bench.scale(5, 1), sync)
        goals(bench, peers, sync)
    bench.note('peers', 'Each peer is one node process that records ids and does nothing else, and each works in batches '
               'in its best settings. So the goals compare with the best of jobq\'s batches by pgbench, and say which; the same driver as '
               'the peers\' stands beside (jobq, node). keep 0: the queue deletes what is completed, as graphile-worker does; '
               'pg-boss keeps it, as jobq does by default. p50 and p99: a batch of the loops that call by themselves.')


def goals(bench, peers, sync):
    def best(names):
        speeds = [(bench.median('peers', name, sync), name) for name in names]
        return max((s for s in speeds if s[0]), default=(None, None))

    batches, mode = best(BATCHES)
    kept, _ = best(name for name in BATCHES if BATCHES[name][0] is JOBQ)
    by_node, _ = best(p.name for p in peers if p.name.startswith('jobq, node'))
    for package, target in (('graphile-worker', 3), ('pg-boss', 5)):
        speed, name = best(p.name for p in peers if p.name.startswith(package))
        if not speed:
            continue
        note = f'{name}; keeping finished jobs {kept / speed:.2f}' if kept else name
        if by_node:
            note += f'; by the same driver {by_node / speed:.2f}'
        bench.goal('peers', f'{mode}, times the best {package}, synchronous_commit {sync}',
                   batches / speed if batches else None, '>=', target, note=note)
