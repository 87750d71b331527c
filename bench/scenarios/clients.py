# jobq's client for Node and other Node libraries, in one process each, with a handler that only records the ID. The two classes
# of durability are not compared with each other.

import os
import shutil

from bench import Skip
from cells import interleave
from peers import BullMq, many_at_once, one_by_one, prefetching
from scenarios.peers import run_peer

TITLE = 'Workers in Node'


def run_on_own_server(bench, peer, seconds, sync):
    if not isinstance(peer, BullMq):
        return run_peer(bench, peer, seconds, sync)
    peer.serve(sync)
    try:
        return run_peer(bench, peer, seconds, sync)
    finally:
        peer.end()


def run(bench):
    if not os.environ.get('BENCH_NODE'):
        raise Skip('no node: bench/node/install.sh says why')
    seconds = bench.scale(5, 2)
    for sync in ('off', 'on'):
        for peers in (one_by_one(), many_at_once(), prefetching(16), prefetching(50)):
            there = [peer for peer in peers if peer.installed() and (not isinstance(peer, BullMq) or shutil.which('redis-server'))]
            cells = {peer.name: lambda peer=peer, sync=sync: run_on_own_server(bench, peer, seconds, sync) for peer in there}
            interleave(bench, 'clients', cells, bench.scale(3, 1), sync)
    for slots in (16, 50):
        _, prefetch, graphile = (peer.name for peer in prefetching(slots))
        bench.goal_of_pairs('clients', f'{prefetch}, relative to {graphile}', prefetch, graphile, 'off', '>=', 1.2)
    bench.note('clients', 'Each cell is one worker, which is a Node process with the library of its queue. The handler of the worker only '
               'records the id of each job. BullMQ keeps its jobs in a Redis server. Its results in the table for '
               'synchronous_commit off were measured with the Redis setting appendfsync everysec, and its results in the table '
               'for synchronous_commit on with appendfsync always. An enqueue with BullMQ is not part of a database '
               'transaction. The columns for WAL and processor time describe the PostgreSQL server only, so they say nothing '
               'about BullMQ.')
