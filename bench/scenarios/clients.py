# jobq's client for Node beside what others have for Node: one process each, a handler that only records the id. In two classes
# of durability, which are not compared with one another.

import os
import shutil

from bench import Skip
from cells import interleave
from peers import BullMq, many_at_once, one_by_one
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
        for peers in (one_by_one(), many_at_once()):
            there = [peer for peer in peers if peer.installed() and (not isinstance(peer, BullMq) or shutil.which('redis-server'))]
            cells = {peer.name: lambda peer=peer, sync=sync: run_on_own_server(bench, peer, seconds, sync) for peer in there}
            interleave(bench, 'clients', cells, bench.scale(3, 1), sync)
    bench.note('clients', 'One node process each, which records ids and does nothing else. synchronous_commit off stands for: the last '
               'moment before a crash may be lost; BullMQ has appendfsync everysec there. on: what was answered survives; appendfsync '
               'always. BullMQ writes a Redis of its own beside the database, so its enqueue is part of no transaction. WAL and processor '
               'time are those of PostgreSQL, and say nothing of Redis.')
