# The contenders of the group "brokers": how to start, fill, run, and kill each of them. Called by scenarios/brokers.py. sync is
# the class of durability. 'on': a confirmed change is on disk. 'off': a crash may lose the last changes.

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
from contenders import JOBQ, PGMQ
from measure import ServerCost, postmaster_pid
from peers import BullMq, Graphile, NodeClient, PgBoss, node

LOAD = os.path.join(os.path.dirname(os.path.abspath(__file__)), 'broker_load')
CLIENTS, PRODUCERS = 16, 4


class Absent(Exception):
    """The broker or its client is not installed, or it does not offer this class of durability. The text is the reason."""


def need(*programs):
    for program in programs:
        if not (shutil.which(program) or os.access(program, os.X_OK)):
            raise Absent(f'{os.path.basename(program)} is not installed')


def need_load():
    need(LOAD)


class Log:
    """The answers that the clients got: sets of job numbers, and the number of jobs that were delivered more than once."""

    def __init__(self, path):
        self.told = {kind: [] for kind in 'edal'}
        with open(path) as file:
            for line in file:
                self.told[line[0]].append(int(line[2:]))
        self.enqueued, self.delivered, self.acknowledged, self.left = (set(self.told[kind]) for kind in 'edal')

    def twice(self, kind):
        return len(self.told[kind]) - len(set(self.told[kind]))


class Peer:
    """A broker that is used in one particular way. options: passed to its client. fused: a client sends each acknowledgement
    together with the next claim."""
    lasting = False    # The server takes long to start, so it is paused between its turns.

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

    def data_directory(self):
        return self.server.directory

    def cost(self):
        return ServerCost(self.server.pids, self.data_directory())

    def audit(self, jobs, acknowledged, left):
        """Returns the problems after a run without a kill."""
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
    """A broker with a client in bench/brokers."""
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
        """Returns (output of the client, microseconds of processor time of the server, bytes written to disk or None)."""
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
        """Runs clients that claim and clients that enqueue jobs from number `first` on, until kill() is called. Returns the
        answers that they got."""
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
            raise Absent('this nats-server does not know sync_interval and calls fsync every two minutes')

    def new_server(self, sync):
        return servers.Nats('always' if sync == 'on' else None)

    def address(self):
        return {'port': self.server.port}


def measured(told, server_us, written):
    """What a Node program reports about a run. The work after the measurement is part of the cost, too."""
    share = told['measured'] / max(told['handled'], 1)
    return dict(told, acknowledged=told['measured'], drained=False), server_us * share, None if written is None else written * share


class Rabbit(Peer):
    """RabbitMQ, used by a Node program with amqplib. Its channels are the clients. The server sends the next job after each
    acknowledgement."""
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
        return dict(port=self.server.port, type=self.type, channels=self.clients, batch=self.batch, **self.options, **more)

    def fill(self, bench, jobs):
        node('rabbitmq.mjs', 'fill', **self.config(jobs=jobs))

    def work(self, seconds):
        cost = self.cost()
        self.told = node('rabbitmq.mjs', 'work', **self.config(seconds=seconds, log=self.path('work.log')))
        return measured(self.told, *cost.done())

    def audit(self, jobs, acknowledged, left):
        twice = self.told['twice']
        return super().audit(jobs, acknowledged, left) + ([f'{twice} jobs came twice'] if twice else [])

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


class ByNode(Peer):
    """A queue that is used through its own library in one Node process, which writes the log of ids. peer: a contender from
    peers.py."""

    def __init__(self, peer, guess, clients):
        super().__init__(peer.title, guess, clients=clients)
        self.peer = peer

    def check(self, sync):
        if not os.environ.get('BENCH_NODE') or not self.peer.installed():
            raise Absent(f'{self.peer.package} is not installed')

    def work(self, seconds):
        cost = self.cost()
        self.told = self.peer.work(seconds, self.sync)
        return measured(self.told, *cost.done())


class Bull(ByNode):
    """BullMQ, which keeps completed jobs. It fetches the next job with each completion."""

    def __init__(self, concurrency):
        title = f'BullMQ, {concurrency} at a time'
        super().__init__(BullMq(title, concurrency=concurrency), 8_000, concurrency)

    def check(self, sync):
        need('redis-server', 'redis-cli')
        super().check(sync)

    def serve(self, sync):
        self.sync = sync
        super().serve(sync)

    def new_server(self, sync):
        self.peer.serve(sync)
        return self.peer.server

    def fill(self, bench, jobs):
        self.peer.reset(None)
        self.peer.fill(None, jobs)


class Postgres:
    """A queue in the server of the benchmark."""

    def rest(self):
        """The server keeps running."""

    def data_directory(self):
        return os.environ['BENCH_DATA']

    def cost(self):
        data = self.data_directory()
        postmaster = postmaster_pid(data)
        return ServerCost(lambda: [postmaster] + servers.children_of(postmaster), data)


class SqlPeer(Postgres, Loaded):
    """A queue in SQL, used through libpq. The runs with a kill have their own server: see serve_own()."""
    broker = 'postgres'

    def __init__(self, title, guess, contender=JOBQ, batch=1, **options):
        statements = {f'{name}_sql': text for name, text in contender.statements(batch).items()}
        super().__init__(title, guess, batch=batch, **options, **statements)
        self.contender = contender

    def check(self, sync):
        super().check(sync)
        if self.contender is PGMQ:
            with psycopg.connect(dbname='bench') as conn:
                if not PGMQ.installed(conn):
                    raise Absent('the server has no extension pgmq')

    def serve(self, sync):
        self.directory = tempfile.gettempdir()
        self.conninfo = (f"host={os.environ['PGHOST']} port={os.environ['PGPORT']} user=postgres dbname=bench "
                         f"options='-c synchronous_commit={sync}'")

    def serve_own(self, sync):
        self.server = servers.Postgres(sync)
        self.directory = self.server.directory
        self.conninfo = f'host={self.server.directory} port=5432 user=postgres dbname=postgres'

    def path(self, name):
        return os.path.join(self.directory, name)

    def address(self):
        return {'conninfo': self.conninfo}

    def fill(self, bench, jobs):
        if self.server is None:
            prepare(bench, self.contender, jobs)
            return
        with psycopg.connect(self.conninfo, autocommit=True) as conn:
            conn.execute(contenders.COMMON)
            self.contender.setup(conn)
            self.contender.fill(conn, jobs)


class NodeOnPostgres(Postgres, ByNode):
    def __init__(self, peer):
        super().__init__(peer, 5_000, CLIENTS)
        self.contender = peer

    def serve(self, sync):
        self.sync = sync

    def fill(self, bench, jobs):
        prepare(bench, self.peer, jobs)


def single_jobs():
    """16 clients, one job at a time: claim, then acknowledge, or acknowledge and claim the next job in one round trip."""
    return [SqlPeer('jobq', 8_000), SqlPeer('jobq, one call', 10_000, fused=1),
            Lists('Redis lists', 30_000), Lists('Redis lists, one round trip', 40_000, fused=1),
            Streams('Redis streams, one round trip', 30_000, fused=1),
            Streams('Redis streams, XDEL, one round trip', 30_000, fused=1, delete=1),
            Beanstalk('beanstalkd', 20_000), Beanstalk('beanstalkd, one round trip', 30_000, fused=1),
            Nats('NATS JetStream, one round trip', 10_000, fused=1),
            RABBIT, Bull(16), Bull(50),
            SqlPeer('bare rows, one call', 20_000, contender=contenders.BARE, fused=1),
            SqlPeer('textbook', 3_000, contender=contenders.TEXTBOOK), SqlPeer('textbook, one statement', 4_000, contender=contenders.TEXTBOOK, fused=1),
            SqlPeer('pgmq', 3_000, contender=PGMQ),
            NodeOnPostgres(NodeClient("Node: jobq's client, 16 slots", slots=CLIENTS)),
            NodeOnPostgres(Graphile('graphile-worker, 16 at a time', 'graphile.mjs', 'graphile-worker', mode='concurrent', concurrency=16)),
            NodeOnPostgres(PgBoss('pg-boss, 16 at a time', 'pgboss.mjs', 'pg-boss', mode='fetch', batch=1, workers=16))]


def ahead():
    """The handler still gets one job at a time, but the library fetches jobs ahead, so that no other worker can get them."""
    return [NodeOnPostgres(NodeClient("Node: jobq's client, 500 slots", slots=500)),
            NodeOnPostgres(Graphile('graphile-worker, 500 ahead', 'graphile.mjs', 'graphile-worker', mode='best')), RABBIT_AHEAD]


def batches():
    """Batches of 100, with the number of clients that is best for each contender."""
    two = {'clients': 2, 'batch': 100}
    return [SqlPeer('jobq, batches', 80_000, **two), SqlPeer('jobq, batches, one call', 80_000, fused=1, **two),
            SqlPeer('jobq, keep 0, batches, one call', 90_000, contender=contenders.JOBQ_KEEP_0, fused=1, **two),
            SqlPeer('bare rows, batches, one call', 200_000, contender=contenders.BARE, fused=1, **two),
            SqlPeer('textbook, batches', 40_000, contender=contenders.TEXTBOOK, **two), SqlPeer('pgmq, batches', 20_000, contender=PGMQ, **two),
            Lists('Redis lists, batches by pipeline', 80_000, fused=1, **two),
            Streams('Redis streams, batches, one round trip', 130_000, fused=1, **two),
            Nats('NATS JetStream, batches', 30_000, fused=1, **two), RABBIT_BATCHES]


def killed():
    """One contender of each kind."""
    return [SqlPeer('jobq', 10_000, fused=1), Lists('Redis lists', 40_000, fused=1), Streams('Redis streams', 30_000, fused=1),
            Beanstalk('beanstalkd', 30_000, fused=1), Nats('NATS JetStream', 10_000, fused=1), Rabbit('RabbitMQ', 10_000)]


RABBIT = Rabbit('RabbitMQ', 10_000)
# The channels prefetch jobs, as the guide of RabbitMQ recommends, and acknowledge each job separately.
RABBIT_AHEAD = Rabbit('RabbitMQ, 20 ahead', 12_000, ahead=20)
RABBIT_BATCHES = Rabbit('RabbitMQ, batches', 15_000, clients=2, batch=100)
