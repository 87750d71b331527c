# Runs pgbench and parses its output: transactions, throughput, percentiles of the latency, and a count per second. Called by the
# scenarios through cells.py, or directly if something else must happen during the run. A client that gets no row where the script
# needs one ends with an error, so the run is Drained or failed.

import glob
import os
import re
import subprocess
import tempfile
import time
from dataclasses import dataclass, field

CORES = os.cpu_count() or 1


# The error of a client whose claim returned nothing: no row, or an empty string instead of an array.
EMPTY_QUEUE = ('expected one row, got 0', 'malformed array literal: ""', 'invalid input syntax for type bigint: ""')


class Drained(Exception):
    """The queue was empty before the time was up, so the cell must be repeated with more jobs."""


class LoadError(Exception):
    pass


@dataclass
class Load:
    transactions: int
    measured: int    # transactions after the warm-up, if any; tps and the latencies also count only these
    tps: float
    seconds: float
    latencies_us: list = field(default_factory=list)  # sorted
    per_second: list = field(default_factory=list)    # number of transactions that ended in each second of the run

    def percentile_ms(self, share):
        if not self.latencies_us:
            return None
        return self.latencies_us[min(len(self.latencies_us) - 1, int(share * len(self.latencies_us)))] / 1000.0


class Running:
    """A pgbench process that has been started. finish() waits for it."""

    def __init__(self, script, clients, seconds=None, transactions=None, sync='off', log=True, database=None, rate=None,
                 prepared=True, options='', variables=None, host=None):
        self.directory = tempfile.TemporaryDirectory(prefix='bench-load-')
        path = os.path.join(self.directory.name, 'script.sql')
        with open(path, 'w') as file:
            file.write(script)
        self.log = log
        self.clients = clients
        self.since = None    # transactions count from this time on
        command = ['pgbench', '-n', '-M', 'prepared' if prepared else 'simple', '-f', path, '-c', str(clients), '-j',
                   str(min(clients, CORES))]
        if seconds is not None:
            command += ['-T', str(seconds)]
        else:
            command += ['-t', str(transactions)]
        if rate is not None:
            command += ['-R', str(rate)]
        for name, value in (variables or {}).items():
            command += ['-D', f'{name}={value}']
        if log:
            command += ['-l', '--log-prefix', os.path.join(self.directory.name, 'log')]
        environment = dict(os.environ, PGOPTIONS=f'-c synchronous_commit={sync} {options}')
        if database:
            environment['PGDATABASE'] = database
        if host:
            environment['PGHOST'] = host
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                        env=environment, cwd=self.directory.name)

    def warm_up(self, conn, seconds):
        """Waits until all sessions have connected, and then for this number of seconds, which do not count, because sessions are
        still reading catalogs then."""
        while self.process.poll() is None and conn.execute(
                "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'pgbench'").fetchone()[0] < self.clients:
            time.sleep(0.05)
        time.sleep(seconds)
        self.since = time.time()

    def finish(self):
        try:
            out, errors = self.process.communicate()
            if self.process.returncode != 0:
                if any(sign in errors for sign in EMPTY_QUEUE):
                    raise Drained(errors[-300:])
                raise LoadError(errors[-2000:])
            return self.parse(out)
        finally:
            self.directory.cleanup()

    def stop(self):
        self.process.terminate()
        self.process.communicate()
        self.directory.cleanup()

    def parse(self, out):
        transactions = int(re.search(r'transactions actually processed: (\d+)', out).group(1))
        failed = re.search(r'number of failed transactions: (\d+)', out)
        if failed and int(failed.group(1)) > 0:
            raise LoadError(out)
        tps = float(re.search(r'tps = ([0-9.]+) \(without initial', out).group(1))
        load = Load(transactions, transactions, tps, transactions / tps if tps else 0.0)
        if self.log:
            read_logs(os.path.join(self.directory.name, 'log.*'), load, self.since)
        return load


def read_logs(pattern, load, since):
    latencies, ends = [], []
    for name in glob.glob(pattern):
        with open(name) as file:
            for line in file:
                parts = line.split(' ')
                latencies.append(int(parts[2]))
                ends.append(int(parts[4]) + int(parts[5]) / 1e6)
    if not ends:
        return
    start = min(ends)
    if since:
        latencies = [latency for latency, end in zip(latencies, ends) if end >= since]
        load.measured = len(latencies)
        if not latencies:
            raise LoadError('no transaction after the warm-up')
        load.tps = load.measured / (max(ends) - since)
    load.latencies_us = sorted(latencies)
    counts = [0] * (int(max(ends) - start) + 1)
    for end in ends:
        counts[int(end - start)] += 1
    load.per_second = counts


def pgbench(script, clients, **options):
    return Running(script, clients, **options).finish()
