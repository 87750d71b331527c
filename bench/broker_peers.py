# The contenders of the group "brokers": how to start, fill, run and kill each. Called by scenarios/brokers.py. sync says in which
# class of durability: 'on' what was answered is on the disk, 'off' the last moment may be lost.

import json
import os
import shutil
import subprocess
import tempfile

import psycopg

import contenders
import redis
import servers
from cells import prepare
from contenders import JOBQ
from measure import ProcessCost, postmaster_pid
from peers import BullMq, node

LOAD = os.path.join(os.path.dirname(os.path.abspath(__file__)), 'broker_load')
CLIENTS, PRODUCERS = 16, 4


class Absent(Exception):
    """The broker, or its client, is not here or does not offer this class of durability; with the reason."""


def need(*programs):
    for program in programs:
        if not (shutil.which(program) or os.access(program, os.X_OK)):
            raise Absent(f'{os.path.basename(program)} is not installed')


def need_load():
    need(LOAD)


class Log:
    """What the clients were told: sets of job numbers, and how many were delivered more than once."""

    def __init__(self, path):
        self.told = {kind: [] for kind in 'edal'}
        with open(path) as file:
            for line in file:
                self.told[line[0]].append(int(line[2:]))
        self.enqueued, self.delivered, self.acknowledged, self.left = (set(self.told[kind]) for kind in 'edal')

    def twice(self, kind):
        return len(self.told[kind]) - len(set(self.told[kind]))


class Peer:
    """One broker in one way of using it. options: what its client is told; fused: the acknowledgement goes with the next claim."""
    lasting = False    # a server that takes long to start is paused between its turns

    def __init__(self, title, guess, clients=CLIENTS, batch=1, **options):
        self.title, self.guess, self.clients, self.batch = title, guess, clients, batch
        self.options = options
        self.server = None

    def check(self, sync):
        """Raises Absent."""

    def serve(self, sync):
        if self.server is None:
            self.server = self.new_server(sync)
        else:
            self.server.resume()

    def rest(self):
        if self.lasting:
            self.server.pause()
        else:
            self.end()

    def end(self):
        if self.server is not None:
            server, self.server = self.server, None
            server.stop()

    def path(self, name):
        return os.path.join(self.server.directory, name)

    def cost(self):
        return ProcessCost(self.server.pids)

    def audit(self, jobs, acknowledged, left):
        """Problems, after a run without a kill."""
        found = []
        if acknowledged.twice('a'):
            found.append(f"{acknowledged.twice('a')} jobs were acknowledged twice")
        if acknowledged.acknowledged & left.left:
            found.append(f'{len(acknowledged.acknowledged & left.left)} acknowledged jobs are still there')
        missing = jobs - len(acknowledged.acknowledged | left.left)
        if missing:
            found.append(f'{missing} of {jobs} jobs are gone')
        return found


class Loaded(Peer):
    """One that bench/brokers has a client for."""
    broker = None

    def check(self, sync):
        need_load()

    def address(self):
        return {'socket': self.server.socket}

    def command(self, action, **options):
        given = dict(self.address(), clients=self.clients, batch=self.batch, **self.options, **options)
        return [LOAD, self.broker, action] + [f'{name}={value}' for name, value in given.items()]

    def call(self, action, **options):
        done = subprocess.run(self.command(action, **options), capture_output=True, text=True, timeout=600)
        if done.returncode != 0:
            raise RuntimeError(f'{self.title}, {action}: {done.stderr.strip()}')
        return json.loads(done.stdout.splitlines()[-1])

    def fill(self, bench, jobs):
        self.call('fill', jobs=jobs)

    def start(self, action, **options):
        process = subprocess.Popen(self.command(action, **options), stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, text=True)
        if process.stdout.readline().strip() != 'ready':
            raise RuntimeError(f'{self.title}, {action}: {process.communicate()[1].strip()}')
        return process

    def work(self, seconds):
        """(what the client says, microseconds of the server, bytes it wrote)"""
        process = self.start('work', milliseconds=int(seconds * 1000), log=self.path('work.log'))
        cost = self.cost()
        process.stdin.write('go\n')
        process.stdin.flush()
        line = process.stdout.readline()
        used = cost.done()
        _, errors = process.communicate()
        if process.returncode != 0:
            raise RuntimeError(f'{self.title}: {errors.strip()}')
        return json.loads(line), *used

    def worked(self):
        return Log(self.path('work.log'))

    def left(self):
        self.call('left', log=self.path('left.log'))
        return Log(self.path('left.log'))

    def crash(self, first, kill):
        """Clients that claim and clients that enqueue, from `first` on, until kill() has been called. What they were told."""
        process = self.start('crash', producers=PRODUCERS, enqueue=1, first=first, log=self.path('crash.log'))
        process.stdin.write('go\n')
        process.stdin.flush()
        kill()
        out, errors = process.communicate()
        if process.returncode != 0 or not json.loads(out.splitlines()[-1])['gone']:
            raise RuntimeError(f'{self.title}, crash: {out} {errors.strip()}')
        return Log(self.path('crash.log'))


class RedisPeer(Loaded):
    def check(self, sync):
        need_load()
        need('redis-server', 'redis-cli')

    def new_server(self, sync):
        return redis.Server('always' if sync == 'on' else 'everysec')


class Lists(RedisPeer):
    broker = 'redis_lists'


class Streams(RedisPeer):
    broker = 'redis_streams'


class Beanstalk(Loaded):
    broker = 'beanstalkd'

    def check(self, sync):
        need_load()
        need('beanstalkd')

    def new_server(self, sync):
        return servers.Beanstalkd(0 if sync == 'on' else 1000)


class Nats(Loaded):
    broker = 'nats'

    def check(self, sync):
        need_load()
        need('nats-server')
        if sync == 'on' and not servers.nats_knows_sync_interval():
            raise Absent('this nats-server does not know sync_interval: it calls fsync every two minutes')

    def new_server(self, sync):
        return servers.Nats('always' if sync == 'on' else None)

    def address(self):
        return {'port': self.server.port}


class Rabbit(Peer):
    """By node and amqplib. Its channels are the clients; an acknowledgement always lets the next job come."""
    lasting = True

    def check(self, sync):
        need(servers.RabbitMq.SCRIPT, 'epmd')
        if not os.environ.get('BENCH_NODE') or not os.path.isdir(os.path.join(os.path.dirname(LOAD), 'node/node_modules/amqplib')):
            raise Absent('amqplib is not installed')

    def serve(self, sync):
        super().serve(sync)
        self.type = 'quorum' if sync == 'on' else 'classic'

    def new_server(self, sync):
        return servers.RabbitMq()

    def config(self, **more):
        return dict(port=self.server.port, type=self.type, channels=self.clients, batch=self.batch, **more)

    def fill(self, bench, jobs):
        node('rabbitmq.mjs', 'fill', **self.config(jobs=jobs))

    def work(self, seconds):
        cost = self.cost()
        told = node('rabbitmq.mjs', 'work', **self.config(seconds=seconds, log=self.path('work.log')))
        used = cost.done()
        # What came after the measurement has a cost, too.
        share = told['measured'] / max(told['handled'], 1)
        return dict(told, acknowledged=told['measured'], drained=False), *(value * share for value in used)

    def worked(self):
        return Log(self.path('work.log'))

    def left(self):
        node('rabbitmq.mjs', 'left', **self.config(log=self.path('left.log')))
        return Log(self.path('left.log'))

    def crash(self, first, kill):
        config = self.config(first=first, producers=PRODUCERS, log=self.path('crash.log'))
        process = subprocess.Popen([os.environ['BENCH_NODE'], os.path.join(os.path.dirname(LOAD), 'node/rabbitmq.mjs'), 'crash',
                                    json.dumps(config)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        if process.stdout.readline().strip() != 'ready':
            raise RuntimeError(f'{self.title}, crash: {process.communicate()[1].strip()}')
        kill()
        _, errors = process.communicate(timeout=120)
        if process.returncode != 0:
            raise RuntimeError(f'{self.title}, crash: {errors.strip()}')
        return Log(self.path('crash.log'))


class Bull(Peer):
    """BullMQ, which keeps what is completed. It asks for the next job with each completion. The log of ids is its own."""

    def __init__(self, concurrency):
        super().__init__(f'BullMQ, {concurrency} at a time', 8_000, clients=concurrency)
        self.peer = BullMq(self.title, concurrency=concurrency)

    def check(self, sync):
        need('redis-server', 'redis-cli')
        if not os.environ.get('BENCH_NODE') or not self.peer.installed():
            raise Absent('BullMQ is not installed')

    def new_server(self, sync):
        self.peer.serve(sync)
        return self.peer.server

    def fill(self, bench, jobs):
        self.peer.reset(None)
        self.peer.fill(None, jobs)

    def work(self, seconds):
        cost = self.cost()
        self.told = self.peer.work(seconds, None)
        used = cost.done()
        share = self.told['measured'] / max(self.told['handled'], 1)
        return dict(self.told, acknowledged=self.told['measured'], drained=False), *(value * share for value in used)

    def worked(self):
        return None

    def left(self):
        return None

    def audit(self, jobs, acknowledged, left):
        audit = self.peer.audit(None, jobs)
        return audit.problems(self.told['handled'], 0) + ([f"{self.told['twice']} jobs came twice"] if self.told['twice'] else [])


class JobqPeer(Loaded):
    """jobq by libpq, on the server of the benchmark. The runs with a kill have one of their own: new_server()."""
    broker = 'jobq'

    def __init__(self, title, guess, contender=JOBQ, **options):
        super().__init__(title, guess, **options)
        self.contender = contender

    def serve(self, sync):
        self.directory = tempfile.gettempdir()
        self.conninfo = (f"host={os.environ['PGHOST']} port={os.environ['PGPORT']} user=postgres dbname=bench "
                         f"options='-c synchronous_commit={sync}'")

    def serve_own(self, sync):
        self.server = servers.Postgres(sync)
        self.directory = self.server.directory
        self.conninfo = f'host={self.server.directory} port=5432 user=postgres dbname=postgres'

    def rest(self):
        """The server of the benchmark goes on."""

    def path(self, name):
        return os.path.join(self.directory, name)

    def address(self):
        return {'conninfo': self.conninfo}

    def cost(self):
        postmaster = postmaster_pid(os.environ['BENCH_DATA'])
        return ProcessCost(lambda: [postmaster] + servers.children_of(postmaster))

    def fill(self, bench, jobs):
        if self.server is None:
            prepare(bench, self.contender, jobs)
            return
        with psycopg.connect(self.conninfo, autocommit=True) as conn:
            conn.execute(contenders.COMMON)
            self.contender.setup(conn)
            self.contender.fill(conn, jobs)


def single_jobs():
    """16 clients, a job at a time: claim, then acknowledge; or the acknowledgement with the next claim, in one round trip."""
    return [JobqPeer('jobq', 8_000), JobqPeer('jobq, one call', 10_000, fused=1),
            Lists('Redis lists', 30_000), Lists('Redis lists, one round trip', 40_000, fused=1),
            Streams('Redis streams', 20_000), Streams('Redis streams, one round trip', 30_000, fused=1),
            Streams('Redis streams, XDEL, one round trip', 30_000, fused=1, delete=1),
            Beanstalk('beanstalkd', 20_000), Beanstalk('beanstalkd, one round trip', 30_000, fused=1),
            Nats('NATS JetStream, one round trip', 10_000, fused=1),
            RABBIT, Bull(16), Bull(50)]


def batches():
    """100 at a time by as many clients as are good for it."""
    two = {'clients': 2, 'batch': 100}
    return [JobqPeer('jobq, batches', 80_000, **two), JobqPeer('jobq, batches, one call', 80_000, fused=1, **two),
            JobqPeer('jobq, keep 0, batches, one call', 90_000, contender=contenders.JOBQ_KEEP_0, fused=1, **two),
            Lists('Redis lists, batches by pipeline', 80_000, fused=1, **two),
            Streams('Redis streams, batches', 120_000, **two),
            Streams('Redis streams, batches, one round trip', 130_000, fused=1, **two),
            Streams('Redis streams, XDEL, batches, one round trip', 100_000, fused=1, delete=1, **two),
            Nats('NATS JetStream, batches', 30_000, fused=1, **two), RABBIT_BATCHES]


def killed():
    """One of each kind."""
    return [JobqPeer('jobq', 10_000, fused=1), Lists('Redis lists', 40_000, fused=1), Streams('Redis streams', 30_000, fused=1),
            Beanstalk('beanstalkd', 30_000, fused=1), Nats('NATS JetStream', 10_000, fused=1), Rabbit('RabbitMQ', 10_000)]


RABBIT = Rabbit('RabbitMQ', 10_000)
RABBIT_BATCHES = Rabbit('RabbitMQ, batches', 15_000, clients=2, batch=100)
