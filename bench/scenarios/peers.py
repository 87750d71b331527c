# Other job queues for PostgreSQL, each with its defaults and with its best documented settings, compared with jobq in its best
# mode and with jobq through the same driver. The textbook is included for the ratios.

import os

from bench import Skip
from cells import interleave, run_cell
from contenders import JOBQ, JOBQ_KEEP_0, TEXTBOOK
from measure import Probe
from peers import all_peers

TITLE = 'Other job queues'
SIZE = 500   # batch size of graphile-worker with its best settings
# jobq as installed, and with a queue that deletes completed jobs, as graphile-worker does.
KEPT, UNKEPT = (f'{contender.title}, batches of {SIZE}, 2 clients' for contender in (JOBQ, JOBQ_KEEP_0))
NODE_KEPT, NODE_UNKEPT = (f'{contender.title}, node, batches of {SIZE}' for contender in (JOBQ, JOBQ_KEEP_0))
TEXTBOOK_BATCHES = f'textbook, batches of {SIZE}, 2 clients'


def run_peer(bench, peer, seconds, sync):
    """Like cells.run_cell, for a program that handles jobs on its own and reports the jobs that it handled."""
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
        cells = {name: lambda contender=contender, sync=sync: run_cell(
                     bench, contender, contender.batch(SIZE), 2, sync, seconds, 120_000, per_transaction=SIZE)
                 for name, contender in ((TEXTBOOK_BATCHES, TEXTBOOK), (KEPT, JOBQ), (UNKEPT, JOBQ_KEEP_0))}
        for peer in peers:
            cells[peer.name] = lambda peer=peer, sync=sync: run_peer(bench, peer, seconds, sync)
        if bench.quick:
            del cells[TEXTBOOK_BATCHES]
        interleave(bench, 'peers', cells, bench.scale(4, 1), sync)
        goals(bench, peers, sync)
    bench.note('peers', 'graphile-worker, pg-boss, and "jobq, node" each run in one Node process; "jobq, node" calls the functions of '
               'jobq with node-postgres over four connections. The handlers of jobs only record the id of the job. pgbench '
               'runs the other cells. The goals compare cells of jobq in pgbench with graphile-worker and pg-boss: "jobq, keep '
               '0" with graphile-worker, because both delete finished jobs, and "jobq" with pg-boss, because both keep them. '
               'p50 and p99 are the times of a batch.')


def goals(bench, peers, sync):
    for package, own, own_by_node, target in (('graphile-worker', UNKEPT, NODE_UNKEPT, 3), ('pg-boss', KEPT, NODE_KEPT, 5)):
        speeds = [(bench.median('peers', peer.name, sync), peer.name) for peer in peers if peer.name.startswith(package)]
        if not speeds:
            continue
        _, best = max(speeds)
        by_node, interval = bench.paired('peers', own_by_node, best, sync)
        bench.goal_of_pairs('peers', f'{own}, relative to {best}, synchronous_commit {sync}', own, best, sync, '>=', target,
                            note=f'if jobq also runs in Node: {by_node:.2f} ({interval})' if by_node else '')
