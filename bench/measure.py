# What a run costs the server: WAL, processor time, dead tuples, HOT updates, size. Called by cells.py and the scenarios on the
# control connection, before and after a run.

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
    """Returns the processor time in microseconds, and the number of page faults without a disk read, of the postmaster and all
    its children, including those that have ended."""
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
    """Waits until the sessions of the last load have ended, because sessions report their statistics when they end."""
    for _ in range(200):
        busy = conn.execute("SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend' "
                            "AND application_name <> 'bench'").fetchone()[0]
        if busy == 0:
            break
        time.sleep(0.02)
    time.sleep(0.02)


class Probe:
    """The cost of everything between the creation of this object and done()."""

    def __init__(self, conn, tables=(), data=None):
        self.conn = conn
        self.data = data   # data directory of a server other than the usual one
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
    """Bytes written to the disk of a directory by all processes, from the creation of this object to done(), including data that
    the kernel has not flushed yet. (The counters of a process in /proc are too high: a kernel with large folios counts a whole
    folio for one changed WAL page.)"""

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
        """Returns None if the directory has no block device of its own, as in a container."""
        now = self.read()
        return None if now is None or self.started is None else now - self.started


class ServerCost:
    """Processor time of the processes of a server, and the bytes written to the disk of its directory, from the creation of this
    object to done(). pids(): all current processes, beginning with the parent of the others. If a process ends in the
    meantime, its time is added to that of the parent."""

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
                # An exiting process cannot be read.
                if number == 0:
                    raise
        return ticks * TICK_US

    def done(self):
        """(microseconds, bytes or None)"""
        return self.read() - self.started, self.disk.done()
