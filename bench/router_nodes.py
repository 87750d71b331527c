# Clusters for the scenario "router": servers for shards and a router, and the cost of a call for each of them. Called by
# scenarios/router.py.

import os
import socket
import threading

import psycopg

from servers import Postgres


PAGES_OF_NODE = 160    # huge pages of 2 MB, slightly more than a node needs


def huge_pages_for(nodes):
    """Returns 'on' if the machine has enough huge pages for this number of nodes, else 'off', so that nodes that are compared
    have pages of the same size."""
    with open('/proc/meminfo') as file:
        pages = {line.split(':')[0]: int(line.split()[1]) for line in file}
    return 'on' if pages.get('HugePages_Free', 0) - pages.get('HugePages_Rsvd', 0) >= nodes * PAGES_OF_NODE else 'off'


class Node(Postgres):
    """A server for one part of a cluster."""

    def __init__(self, huge_pages):
        self.OURS = Postgres.OURS + (f'huge_pages = {huge_pages}',)
        super().__init__('off')

    @property
    def data(self):
        return os.path.join(self.directory, 'data')

    def connect(self, database):
        return psycopg.connect(host=self.directory, port=5432, user='postgres', dbname=database, autocommit=True, application_name='bench')

    def cpu(self):
        """Returns the processor time of each session in nanoseconds. Background processes are left out, because their work
        depends on the clock and not on the calls. The ticks of the usual statistics would be too coarse for a few calls."""
        found = {}
        for pid in self.pids():
            try:
                with open(f'/proc/{pid}/cmdline') as title, open(f'/proc/{pid}/schedstat') as file:
                    if '[local]' in title.read():
                        found[pid] = int(file.read().split()[0])
            except (FileNotFoundError, ProcessLookupError):
                pass
        return found

    def create(self, database, *extensions):
        with self.connect('postgres') as conn:
            conn.execute(f'CREATE DATABASE {database}')
        with self.connect(database) as conn:
            for extension in extensions:
                conn.execute(f'CREATE EXTENSION {extension}')


def spent(before, now):
    """Returns the microseconds that the processes that still exist have spent."""
    return sum(time - before.get(pid, 0) for pid, time in now.items()) / 1000


class Counted:
    """A proxy on a socket in front of a server, which counts the bytes of the connections."""

    def __init__(self, node):
        self.directory = os.path.join(node.directory, 'counted')
        os.makedirs(self.directory, exist_ok=True)
        self.target = os.path.join(node.directory, '.s.PGSQL.5432')
        self.bytes = 0
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(os.path.join(self.directory, '.s.PGSQL.5432'))
        self.listener.listen()
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            try:
                here, _ = self.listener.accept()
            except OSError:
                return
            there = socket.socket(socket.AF_UNIX)
            there.connect(self.target)
            for ends in ((here, there), (there, here)):
                threading.Thread(target=self.pump, args=ends, daemon=True).start()

    def pump(self, source, sink):
        try:
            while data := source.recv(65536):
                self.bytes += len(data)
                sink.sendall(data)
        except OSError:
            pass
        finally:
            for end in (source, sink):
                try:
                    end.shutdown(socket.SHUT_RDWR)
                except OSError:
                    pass

    def close(self):
        self.listener.close()


class Cluster:
    """A router with shards in databases of these servers. counted: whether the bytes to and from the first shard are counted."""

    def __init__(self, name, router, shards, counted=False):
        self.name, self.router, self.shards = name, router, shards
        self.counted = Counted(shards[0]) if counted else None
        router.create(name, 'plproxy', 'jobq_router')
        with router.connect(name) as conn:
            for number, shard in enumerate(shards, 1):
                shard.create(name, 'jobq', 'jobq_shard')
                directory = self.counted.directory if self.counted else shard.directory
                conn.execute('SELECT jobq_add_shard(%s, %s)', (number, f'host={directory} port=5432 user=postgres dbname={name}'))
            conn.execute("SELECT jobq_route_queue('spread', spread => true)")

    def connect(self):
        return self.router.connect(self.name)

    def vacuum(self):
        """Removes finished jobs, so that they do not affect the next measurement."""
        for shard in self.shards:
            with shard.connect(self.name) as conn:
                conn.execute('TRUNCATE jobq.jobs, jobq.attempts')

    def cpu(self):
        """What the router and the shards have used so far, for used_us()."""
        return self.router.cpu(), [shard.cpu() for shard in self.shards]

    def used_us(self, before):
        """Processor time of the router and the shards since `before`, in microseconds."""
        router, shards = self.cpu()
        return spent(before[0], router), sum(spent(then, now) for then, now in zip(before[1], shards))

    def wal(self):
        """Bytes of WAL that the shards have written so far."""
        written = 0
        for shard in self.shards:
            with shard.connect('postgres') as conn:
                written += int(conn.execute("SELECT pg_current_wal_insert_lsn() - '0/0'").fetchone()[0])
        return written
