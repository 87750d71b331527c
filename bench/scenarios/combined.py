# combinedEnqueue() of the client for Node, relative to enqueue(), with callers that each enqueue one job after the other.

import os

from bench import Skip
from cells import interleave
from contenders import JOBQ
from peers import node

TITLE = 'Combined enqueues in Node'
CALLERS = (1, 16, 50)


def run(bench):
    if not os.environ.get('BENCH_NODE'):
        raise Skip('no node: bench/node/install.sh says why')
    for sync in ('off', 'on'):
        cells = {name(callers, combined): lambda callers=callers, combined=combined, sync=sync: once(bench, callers, combined, sync)
                 for callers in CALLERS for combined in (False, True)}
        interleave(bench, 'combined', cells, bench.scale(5, 2), sync)
        bench.goal_of_pairs('combined', f'{name(16, True)}, relative to single enqueues, synchronous_commit {sync}',
                            name(16, True), name(16, False), sync, '>=', 2)
    JOBQ.reset(bench.conn)


def name(callers, combined):
    return f'{"combinedEnqueue" if combined else "enqueue"}, {callers} {"caller" if callers == 1 else "callers"}'


def once(bench, callers, combined, sync):
    JOBQ.reset(bench.conn)
    told = node('enqueue.mjs', 'work', callers=callers, combined=combined, seconds=bench.scale(4, 2), sync=sync)
    found = bench.conn.execute("SELECT count(*) FROM jobq.jobs WHERE queue = 'bench'").fetchone()[0]
    if found != told['enqueued']:
        bench.fail(f'{name(callers, combined)}: {told["enqueued"]} jobs were enqueued, but the table has {found}')
    return {'jobs_per_s': told['enqueued'] / told['seconds'], 'jobs': told['enqueued']}
