# What a run cost the server: WAL, processor time, dead tuples, HOT updates, size. Called by cells.py and by the
# scenarios, before and after a run, on the control connection.

import os
import time

TICK_US = 1_000_000 / os.sysconf('SC_CLK_TCK')


def postmaster_pid(data):
    with open(os.path.join(data, 'postmaster.pid')) as file:
        return int(file.readline())


def stat_fields(pid):
    with open(f'/proc/{pid}/stat') as file:
        return file.read().rpartition(')')[2].split()


def server_use(data=None):
    """Processor time, in microseconds, and page faults without a read from disk, of the postmaster, of its children that have
    ended, and of those that live."""
    parent = postmaster_pid(data or os.environ['BENCH_DATA'])
    fields = stat_fields(parent)
    ticks = sum(int(fields[i]) for i in (11, 12, 13, 14))   # utime, stime, cutime, cstime
    faults = int(fields[7]) + int(fields[8])                # minflt, cminflt
    for name in os.listdir('/proc'):
        if name.isdigit():
            try:
                fields = stat_fields(name)
            except (FileNotFoundError, ProcessLookupError):
                continue
            if int(fields[1]) == parent:
                ticks += int(fields[11]) + int(fields[12])
                faults += int(fields[7])
    return ticks * TICK_US, faults


def wait_for_quiet(conn):
    """Until the sessions of the last load have ended: they report their statistics at their end."""
    for _ in range(200):
        busy = conn.execute("SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend' "
                            "AND application_name <> 'bench'").fetchone()[0]
        if busy == 0:
            break
        time.sleep(0.02)
    time.sleep(0.02)


class Probe:
    """The cost of what happens between its creation and done()."""

    def __init__(self, conn, tables=(), data=None):
        self.conn = conn
        self.data = data   # directory of another server than the usual one
        self.tables = [str(table) for table in tables]
        self.started = self.read()

    def read(self):
        stats = self.conn.execute("""
            SELECT coalesce(sum(n_tup_upd), 0), coalesce(sum(n_tup_hot_upd), 0), coalesce(sum(n_dead_tup), 0),
                   coalesce(sum(pg_total_relation_size(relid)), 0)
            FROM pg_stat_user_tables WHERE relid = ANY (%s::regclass[])""", (self.tables,)).fetchone()
        wal, fpi = self.conn.execute(
            "SELECT pg_current_wal_insert_lsn() - '0/0', (SELECT wal_fpi FROM pg_stat_wal)").fetchone()
        cpu, faults = server_use(self.data)
        return {'wal': int(wal), 'fpi': int(fpi), 'cpu': cpu, 'faults': faults, 'updates': int(stats[0]), 'hot': int(stats[1]),
                'dead': int(stats[2]), 'size': int(stats[3])}

    def done(self, jobs):
        wait_for_quiet(self.conn)
        now = self.read()
        delta = {name: now[name] - self.started[name] for name in now}
        jobs = max(jobs, 1)
        return {'wal_per_job': delta['wal'] / jobs, 'fpi': delta['fpi'], 'cpu_us_per_job': delta['cpu'] / jobs,
                'faults_per_job': delta['faults'] / jobs,
                'updates': delta['updates'], 'hot_updates': delta['hot'], 'dead_tuples': now['dead'],
                'size_mb': now['size'] / 1e6}


class DiskWrites:
    """Bytes written to the disk that a directory is on, by whomever, from its creation to done(), what the kernel still holds back
    included. (Those of a process in /proc are not it: a kernel with large folios counts a whole one where a WAL page in it is written.)"""

    def __init__(self, directory):
        device = os.stat(directory).st_dev
        self.path = f'/sys/dev/block/{os.major(device)}:{os.minor(device)}/stat'
        self.started = self.read()

    def read(self):
        os.sync()
        try:
            with open(self.path) as file:
                return int(file.read().split()[6]) * 512
        except FileNotFoundError:
            return None

    def done(self):
        """None: the directory is on no disk of its own, such as a container's."""
        now = self.read()
        return None if now is None or self.started is None else now - self.started


class ServerCost:
    """Processor time of a server's processes, and what is written to the disk under its directory, from its creation to done(). pids():
    all processes now, the one that started the others first: one that ends meanwhile leaves its time to that."""

    def __init__(self, pids, directory):
        self.pids = pids
        self.disk = DiskWrites(directory)
        self.started = self.read()

    def read(self):
        ticks = 0
        for number, pid in enumerate(self.pids()):
            try:
                fields = stat_fields(pid)
                ticks += sum(int(fields[i]) for i in ((11, 12, 13, 14) if number == 0 else (11, 12)))
            except (FileNotFoundError, ProcessLookupError):
                # A process at its end gives nothing away.
                if number == 0:
                    raise
        return ticks * TICK_US

    def done(self):
        """(microseconds, bytes or None)"""
        return self.read() - self.started, self.disk.done()
