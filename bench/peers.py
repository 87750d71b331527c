# The contenders that are Node programs: how to fill, run, and audit them. Called by scenarios/peers.py.

import json
import os
import subprocess

import redis
from contenders import JOBQ, JOBQ_KEEP_0, Audit

HERE = os.path.join(os.path.dirname(os.path.abspath(__file__)), 'node')


class NodeError(Exception):
    pass


def node(script, action, timeout=300, **config):
    """Runs one of the programs in node/ and returns its report."""
    result = subprocess.run([os.environ['BENCH_NODE'], os.path.join(HERE, script), action, json.dumps(config)],
                            capture_output=True, text=True, timeout=timeout)
    if result.returncode != 0 or (action == 'work' and not result.stdout.strip()):
        raise NodeError(f'{script} {action}: {result.stderr[-1500:]}')
    return json.loads(result.stdout.strip().splitlines()[-1]) if action == 'work' else None


class NodePeer:
    host = None    # None: the usual server
    tables = []
    guess = 40_000   # jobs per second, until a run has measured the rate
    cut_off = 0      # number of handled jobs that may still be running when the program stops

    def __init__(self, name, script, package, **config):
        self.name, self.title, self.script, self.package, self.config = name, name, script, package, config
        if config.get('mode') == 'default':
            self.guess = 4_000

    def installed(self):
        return os.path.isdir(os.path.join(HERE, 'node_modules', self.package))

    def fill(self, conn, jobs):
        node(self.script, 'fill', jobs=jobs)

    def work(self, seconds, sync):
        return node(self.script, 'work', seconds=seconds, sync=sync, **self.config)

    def problems(self, conn, jobs, told):
        audit = self.audit(conn, jobs)
        # If a library completes jobs on its own, its stop() may leave out the last handled job.
        cut_off = min(self.cut_off, audit.running)
        return audit.problems(told['handled'] - cut_off, cut_off) + ([f"{told['twice']} jobs came twice"] if told['twice'] else [])


class Graphile(NodePeer):
    cut_off = 1
    tables = ['graphile_worker._private_jobs']

    def reset(self, conn):
        conn.execute('DROP SCHEMA IF EXISTS graphile_worker CASCADE')

    def audit(self, conn, enqueued):
        # Completed jobs are deleted.
        left, running, repeated = conn.execute("""
            SELECT count(*) FILTER (WHERE locked_at IS NULL), count(*) FILTER (WHERE locked_at IS NOT NULL),
                   count(*) FILTER (WHERE attempts > 1) FROM graphile_worker._private_jobs""").fetchone()
        return Audit(enqueued, enqueued - left - running, left, running, repeated)


class PgBoss(NodePeer):
    tables = ['pgboss.job_common']

    def reset(self, conn):
        conn.execute('DROP SCHEMA IF EXISTS pgboss CASCADE')

    def audit(self, conn, enqueued):
        row = conn.execute("""
            SELECT count(*), count(*) FILTER (WHERE state = 'completed'), count(*) FILTER (WHERE state = 'created'),
                   count(*) FILTER (WHERE state NOT IN ('completed', 'created')), count(*) FILTER (WHERE retry_count > 0)
            FROM pgboss.job WHERE name = 'bench'""").fetchone()
        return Audit(enqueued, row[1], row[2], row[3], row[4] + abs(row[0] - enqueued))


class NodeJobq(NodePeer):
    """A contender of jobq that is driven by Node."""
    tables = JOBQ.tables
    guess = 100_000

    def __init__(self, contender, name, **config):
        super().__init__(name, 'jobq.mjs', 'pg', **config)
        self.contender = contender

    def reset(self, conn):
        self.contender.reset(conn)

    def fill(self, conn, jobs):
        self.contender.fill(conn, jobs)

    def audit(self, conn, enqueued):
        return self.contender.audit(conn, enqueued)


class NodeClient(NodeJobq):
    """jobq by its own client for Node, clients/node."""

    def __init__(self, name, **config):
        super().__init__(JOBQ, name, **config)
        self.script = 'client.mjs'
        self.guess = 3_000 if config['slots'] == 1 else 30_000

    def audit(self, conn, enqueued):
        # Jobs of a claim that was still in progress at the stop have been released, and were not started.
        released = conn.execute("SELECT count(*) FROM jobq.attempts WHERE outcome = 'released'").fetchone()[0]
        audit = super().audit(conn, enqueued)
        audit.repeated -= released
        return audit


class BullMq(NodePeer):
    """The contender that needs another server. sync selects how this server writes its log."""

    def __init__(self, name, **config):
        super().__init__(name, 'bullmq.mjs', 'bullmq', **config)
        self.guess = 4_000 if config['concurrency'] == 1 else 20_000
        self.server = None

    def reset(self, conn):
        if self.server:
            self.server.flush()

    def serve(self, sync):
        self.server = redis.Server('always' if sync == 'on' else 'everysec')
        self.config['socket'] = self.server.socket

    def end(self):
        self.server.stop()
        self.server = None

    def fill(self, conn, jobs):
        node(self.script, 'fill', jobs=jobs, **self.config)

    def audit(self, conn, enqueued):
        waiting, running, completed, failed = (self.server.count(name) for name in ('wait', 'active', 'completed', 'failed'))
        return Audit(enqueued, completed, waiting, running, failed)


def one_by_one():
    """One job at a time: each job is completed before the next one starts."""
    return [NodeClient('jobq, its client, 1 slot', slots=1),
            NodeClient('jobq, its client, 1 slot, prepared', slots=1, prepare=True),
            Graphile('graphile-worker, default', 'graphile.mjs', 'graphile-worker', mode='default'),
            PgBoss('pg-boss, fetch 1 and complete', 'pgboss.mjs', 'pg-boss', mode='fetch', batch=1, workers=1),
            BullMq('BullMQ, concurrency 1', concurrency=1)]


def many_at_once():
    """One process with the concurrency that is best for the library."""
    return [NodeClient('jobq, its client, 100 slots', slots=100),
            NodeClient('jobq, its client, 500 slots', slots=500),
            Graphile('graphile-worker, best', 'graphile.mjs', 'graphile-worker', mode='best'),
            PgBoss('pg-boss, best', 'pgboss.mjs', 'pg-boss', mode='best', batch=1000),
            BullMq('BullMQ, concurrency 100', concurrency=100)]


def prefetching(slots):
    """The same number of jobs at a time. Both libraries can take up to 500 more from the server before they run them."""
    return [NodeClient(f'jobq, its client, {slots} slots', slots=slots),
            NodeClient(f'jobq, its client, {slots} slots, prefetch of 500', slots=slots, prefetch=500),
            Graphile(f'graphile-worker, best, {slots} at a time', 'graphile.mjs', 'graphile-worker', mode='best', concurrency=slots)]


def all_peers(quick):
    peers = [Graphile('graphile-worker, best', 'graphile.mjs', 'graphile-worker', mode='best'),
             PgBoss('pg-boss, best', 'pgboss.mjs', 'pg-boss', mode='best', batch=1000),
             NodeJobq(JOBQ, 'jobq, node, batches of 500', clients=4, batch=500),
             NodeJobq(JOBQ_KEEP_0, 'jobq, keep 0, node, batches of 500', clients=4, batch=500)]
    if not quick:
        peers += [PgBoss('pg-boss, default', 'pgboss.mjs', 'pg-boss', mode='default'),
                  PgBoss('pg-boss, fetch and complete', 'pgboss.mjs', 'pg-boss', mode='fetch', batch=1000)]
    return peers
