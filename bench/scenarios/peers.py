# The other job queues that are made for PostgreSQL, each in its defaults and in its best documented settings, against
# jobq in its own best mode, and against jobq by the same driver. The textbook stands beside for the ratios.

import os

from bench import Skip
from cells import interleave, run_cell
from contenders import JOBQ, TEXTBOOK
from measure import Probe
from peers import all_peers

TITLE = 'Other job queues'
SIZES = (100, 500)   # 500 is what graphile-worker fetches at a time in its best settings


def run_peer(bench, peer, seconds, sync):
    """As cells.run_cell, for a program that handles jobs by itself and says what it handled."""
    rate = bench.rates.get((peer.name, sync), peer.guess)
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
            bench.rates[(peer.name, sync)] = rate
            continue
        cost = probe.done(told['handled'])
        speed = told['measured'] / told['seconds']
        bench.rates[(peer.name, sync)] = speed * 1.1
        audit = peer.audit(bench.conn, jobs)
        for problem in audit.problems(told['handled']) + ([f"{told['twice']} jobs came twice"] if told['twice'] else []):
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
        for size in SIZES:
            cells[f'jobq, batches of {size}, 2 clients'] = lambda size=size, sync=sync: run_cell(
                bench, JOBQ, JOBQ.batch(size), 2, sync, seconds, 50_000, per_transaction=size)
        for peer in peers:
            cells[peer.name] = lambda peer=peer, sync=sync: run_peer(bench, peer, seconds, sync)
        if bench.quick:
            del cells['textbook'], cells['jobq, complete_and_claim, 16 clients']
        interleave(bench, 'peers', cells, bench.scale(3 if sync == 'off' else 2, 1), sync)
        goals(bench, peers, sync)
    bench.note('peers', 'Each peer is one node process that records ids and does nothing else, and each works in batches '
               'in its best settings. So the goals compare with the best of jobq\'s batches by pgbench; the same driver as the '
               'peers\' stands beside (jobq, node). p50 and p99: a batch of the loops that call by themselves.')


def goals(bench, peers, sync):
    def best(prefix):
        speeds = [(bench.median('peers', p.name, sync), p.name) for p in peers if p.name.startswith(prefix)]
        return max((s for s in speeds if s[0]), default=(None, None))

    size, batches = max(((size, bench.median('peers', f'jobq, batches of {size}, 2 clients', sync)) for size in SIZES),
                        key=lambda pair: pair[1])
    by_node, _ = best('jobq, node')
    for package, target in (('graphile-worker', 3), ('pg-boss', 5)):
        speed, name = best(package)
        ratio = batches / speed if speed and batches else None
        note = f'{name}; by the same driver {by_node / speed:.2f}' if speed and by_node else ''
        bench.goal('peers', f'jobq in batches of {size}, times the best {package}, synchronous_commit {sync}', ratio, '>=',
                   target, note=note)
