# The cost of a router: each call through it is compared with the same call on the shard, in turns. Also the cost of a job on the
# router and the shards together, if its queue is spread over 1, 2, and 3 shards. The unit is processor time, because all servers
# share this machine. The results are the input of capacity.py.

import json
import os
import random
import threading
import time

import psycopg

from bench import Skip
from cells import interleave
from router_nodes import Cluster, Counted, Node, huge_pages_for

TITLE = 'Through a router'
CALLS = 100
WARM_UP = 10
MOST = {'ms': 5, 'cpu_us': 5}    # relative to direct calls
BATCH = 100
PAYLOAD = json.dumps({'to': 'ada@example.com', 'text': 'x' * 80})
PAYLOADS = [PAYLOAD] * BATCH
SINGLE = ('enqueue', 'claim', 'complete', 'complete_and_claim')
BATCHES = tuple(f'{name}, batch of {BATCH}' for name in SINGLE)


class Calls:
    """The calls of one worker on one connection. Each kind of call is repeated this often in a row."""

    def __init__(self, conn, queue):
        self.conn, self.queue, self.held = conn, queue, []
        conn.prepare_threshold = 0

    def one(self, statement, *parameters):
        return self.conn.execute(statement, parameters).fetchall()

    def enqueue(self, batch):
        if batch == 1:
            self.one('SELECT jobq_enqueue(%s, %s)', self.queue, PAYLOAD)
        else:
            self.one('SELECT count(*) FROM jobq_enqueue_many(%s, %s)', self.queue, PAYLOADS)

    def claim(self, batch):
        rows = self.one('SELECT id, lease, payload FROM jobq_claim(%s, %s, %s)', self.queue, 'bench', batch)
        if len(rows) != batch:
            raise RuntimeError(f'{len(rows)} jobs claimed, not {batch}')
        self.held.append(rows)

    def complete(self, batch):
        rows = self.held.pop()
        if batch == 1:
            done = self.one('SELECT jobq_complete(%s, %s)', *rows[0][:2])[0][0]
        else:
            done = self.one('SELECT bool_and(completed) FROM jobq_complete_many(%s, %s)', *self.columns(rows))[0][0]
        if not done:
            raise RuntimeError('a lease was lost')

    def complete_and_claim(self, batch):
        following = self.one('SELECT id, lease, payload FROM jobq_complete_and_claim(%s, %s, NULL, %s, %s, %s)',
                             *self.columns(self.held.pop()), self.queue, 'bench', batch)
        if len(following) != batch:
            raise RuntimeError(f'{len(following)} jobs claimed, not {batch}')
        self.held.insert(0, following)

    def warm_up(self, batch):
        """Opens connections, compiles functions, prepares statements, and reads the catalogs, which a worker does only once."""
        for _ in range(WARM_UP):
            self.run(1, batch, lambda name, count, function: function())

    @staticmethod
    def columns(rows):
        return [row[0] for row in rows], [row[1] for row in rows]

    def run(self, calls, batch, around):
        """Enqueues twice as many jobs as are claimed at first, because half are completed by each of the two calls. around(name,
        function) measures."""
        times = {'enqueue': 2 * calls, 'claim': calls, 'complete_and_claim': calls, 'complete': calls}
        for name, count in times.items():
            around(name, count, lambda: [getattr(self, name)(batch) for _ in range(count)])


def measured(cluster, calls):
    """Returns the function around() of a run, and the figures that it fills, by call."""
    found = {}

    def around(name, count, function):
        cpu, began = cluster.cpu(), time.perf_counter()
        function()
        took, (router, shard) = time.perf_counter() - began, cluster.used_us(cpu)
        found[name] = {'router_us': router / count, 'shard_us': shard / count, 'ms': took / count * 1000}
    return around, found


def calls_against_direct(bench, cluster, rounds):
    """Measures the same calls directly on the shard."""
    found = {}
    for number in range(rounds):
        for batch, names in ((1, SINGLE), (BATCH, BATCHES)):
            count = CALLS if batch == 1 else CALLS // 10
            for way in (('direct', 'router') if number % 2 == 0 else ('router', 'direct')):
                cluster.vacuum()
                conn = cluster.connect() if way == 'router' else cluster.shards[0].connect(cluster.name)
                around, figures = measured(cluster, count)
                calls = Calls(conn, 'bench')
                calls.warm_up(batch)
                calls.run(count, batch, around)
                conn.close()
                for name, title in zip(SINGLE, names):
                    metrics = dict(figures[name], cpu_us=figures[name]['router_us'] + figures[name]['shard_us'])
                    bench.add('router', f'{title}, {way}', 'off', number, metrics)
                    found.setdefault((title, way), []).append(metrics)
        bench.say(f'router: calls, round {number + 1}')
    for title in SINGLE + BATCHES:
        for metric, what in (('ms', 'time of a call'), ('cpu_us', 'processor time of router and shard')):
            ratio, interval = bench.paired('router', f'{title}, router', f'{title}, direct', 'off', metric)
            bench.goal('router', f'{title}: {what}, relative to a direct call', ratio, '<=', MOST[metric], interval=interval)


def enqueue_and_do(calls, count, batch):
    """Enqueues this many times, then claims and completes until no jobs are left. A claim may return fewer jobs than
    requested."""
    for _ in range(count):
        calls.enqueue(batch)
    done = 0
    while done < count * batch:
        rows = calls.one('SELECT id, lease, payload FROM jobq_claim(%s, %s, %s)', 'spread', 'bench', batch)
        if rows:
            calls.held.append(rows)
            calls.complete(len(rows))
            done += len(rows)


def jobs_over_shards(bench, clusters, rounds):
    """Returns the processor time of the router and the shards per job, for all calls of the job together."""
    def cell(cluster, batch):
        def run():
            cluster.vacuum()
            calls = Calls(cluster.connect(), 'spread')
            enqueue_and_do(calls, WARM_UP, batch)
            count = CALLS if batch == 1 else CALLS // 10
            jobs = count * batch
            cpu, wal, began = cluster.cpu(), cluster.wal(), time.perf_counter()
            enqueue_and_do(calls, count, batch)
            took = time.perf_counter() - began
            router, shards = (used / jobs for used in cluster.used_us(cpu))
            calls.conn.close()
            return {'router_us': router, 'shard_us': shards, 'cpu_us': router + shards, 'wal_per_job': (cluster.wal() - wal) / jobs,
                    'jobs_per_s': jobs / took}
        return run

    cells = {f'{name}, {len(cluster.shards)} shard{"s" if len(cluster.shards) > 1 else ""}': cell(cluster, batch)
             for name, batch in (('one by one', 1), (f'batches of {BATCH}', BATCH)) for cluster in clusters}
    interleave(bench, 'router', cells, rounds, 'off', quiet=True)
    for name in ('one by one', f'batches of {BATCH}'):
        ratio, interval = bench.paired('router', f'{name}, 3 shards', f'{name}, 1 shard', 'off', 'cpu_us')
        bench.goal('router', f'{name}: processor time per job on 3 shards, relative to 1 shard', ratio, '<=', 1.5, interval=interval)


def woken_after(waiting, enqueueing, queue):
    """Returns the milliseconds from the commit of an enqueue to the end of a wait that began earlier."""
    ended = []

    def wait():
        waiting.execute("CALL jobq_wait(%s, '60 s', worker_id => 'waiter')", (queue,))
        ended.append(time.perf_counter())

    thread = threading.Thread(target=wait)
    thread.start()
    time.sleep(random.uniform(1, 1.5))
    if ended:
        raise RuntimeError('a wait has ended without a job')
    enqueueing.execute('SELECT jobq_enqueue(%s)', (queue,))
    done = time.perf_counter()
    thread.join()
    return max(ended[0] - done, 0) * 1000


def waits(bench, cluster, rounds):
    """The cost of a wait. Through the router, a wait polls the shards. Directly, it sleeps on the shard."""
    for number in range(rounds):
        for way in (('direct', 'router') if number % 2 == 0 else ('router', 'direct')):
            cluster.vacuum()
            connect = cluster.connect if way == 'router' else lambda: cluster.shards[0].connect(cluster.name)
            with connect() as waiting, connect() as enqueueing:
                woken = woken_after(waiting, enqueueing, 'awaited')
                enqueueing.execute("SELECT count(*) FROM jobq_claim('awaited', 'waiter')")
                cpu, began = cluster.cpu(), time.perf_counter()
                waiting.execute("CALL jobq_wait('awaited', '4 s', worker_id => 'waiter')")
                took = time.perf_counter() - began
                bench.add('router', f'a wait, {way}', 'off', number,
                          {'woken_ms': woken, 'idle_us': sum(cluster.used_us(cpu)) / took})
        bench.say(f'router: waits, round {number + 1}')


def bytes_of_jobs(cluster):
    """Returns the bytes of the calls of a job between client and router and between router and shard: (one by one, in batches)
    for each."""
    in_front = Counted(cluster.router)
    found = {}
    for batch in (1, BATCH):
        conn = psycopg.connect(host=in_front.directory, port=5432, user='postgres', dbname=cluster.name, autocommit=True)
        calls, count = Calls(conn, 'bench'), 50 if batch == 1 else 5
        calls.warm_up(batch)
        before = in_front.bytes, cluster.counted.bytes
        for _ in range(count):
            calls.enqueue(batch)
        for _ in range(count):
            calls.claim(batch)
            calls.complete(batch)
        found[batch] = [(now - then) / (count * batch) for now, then in zip((in_front.bytes, cluster.counted.bytes), before)]
        conn.close()
    in_front.close()
    return found


def run(bench):
    if bench.conn.execute("SELECT count(*) FROM pg_available_extensions WHERE name = 'plproxy'").fetchone()[0] == 0:
        raise Skip('PL/Proxy is not installed')
    huge_pages = huge_pages_for(4)
    nodes = [Node(huge_pages) for _ in range(4)]
    try:
        router, *shards = nodes
        one = Cluster('calls', router, shards[:1])
        calls_against_direct(bench, one, bench.scale(15, 5))
        waits(bench, one, bench.scale(15, 5))
        clusters = [Cluster(f'spread{count}', router, shards[:count]) for count in (1, 2, 3)]
        jobs_over_shards(bench, clusters, bench.scale(9, 3))
        counted = Cluster('counted', router, shards[:1], counted=True)
        passed = bytes_of_jobs(counted)
        counted.counted.close()
        inputs = inputs_of(bench, passed)
        with open(os.path.join(os.environ['BENCH_RESULTS'], 'capacity.json'), 'w') as file:
            json.dump(inputs, file, indent=1)
        bench.note('router', 'One client sends all calls. The processor time is the time of the sessions on the router and on the shards, summed over all '
                             'shards. Jobs per second with several shards show only the cost of a router, not how the throughput grows with the number '
                             'of shards, because all servers share two cores. The four servers have memory pages of '
                             + {'on': '2 MB.', 'off': '4 kB.'}[huge_pages])
    finally:
        for node in nodes:
            node.stop()


def inputs_of(bench, passed):
    """Writes the input of capacity.py: the cost of a job from enqueue to completion in a spread queue."""
    def of(way, batch):
        cell = f'{way}, 3 shards'
        return {'router_cpu_us': round(bench.median('router', cell, 'off', 'router_us'), 1),
                'shard_cpu_us': round(bench.median('router', cell, 'off', 'shard_us'), 1),
                'wal_bytes': round(bench.median('router', cell, 'off', 'wal_per_job')),
                'client_bytes': round(passed[batch][0]), 'shard_bytes': round(passed[batch][1])}
    return {'one by one': dict(of('one by one', 1), calls=3), f'batches of {BATCH}': dict(of(f'batches of {BATCH}', BATCH), calls=3 / BATCH)}
