# The upper limits of this machine: round trips, rows changed in bulk, flushes. They are printed next to all other results.

import re
import subprocess
import time

from load import pgbench

TITLE = 'Ceilings'


def run(bench):
    for clients in (1, 16):
        for number in range(bench.scale(3, 1)):
            load = pgbench('SELECT 1;\n', clients, seconds=bench.scale(4, 2))
            bench.add('ceilings', f'prepared SELECT 1, {clients} client' + ('s' if clients > 1 else ''), 'off', number,
                      {'jobs_per_s': load.tps, 'p50_ms': load.percentile_ms(0.5), 'p99_ms': load.percentile_ms(0.99)})
    bulk(bench)
    fsync(bench)


def bulk(bench):
    """Changes the rows of 100 lifecycles with one statement, in a table with only a key. No queue can be faster."""
    jobs = bench.scale(300_000, 100_000)
    conn = bench.connect()
    conn.execute('SET synchronous_commit = off')
    for number in range(bench.scale(3, 1)):
        conn.execute('DROP TABLE IF EXISTS bare')
        conn.execute('CREATE TABLE bare (id bigint PRIMARY KEY, status int NOT NULL, payload jsonb) WITH (fillfactor = 50)')
        started = time.monotonic()
        conn.execute(f'INSERT INTO bare SELECT n, 0, bench_payload(n) FROM generate_series(1, {jobs}) n')
        inserted = time.monotonic()
        conn.execute('UPDATE bare SET status = 1')
        conn.execute('UPDATE bare SET status = 2')
        updated = time.monotonic()
        for cell, took in (('one INSERT of all rows, bare table', inserted - started),
                           ('two UPDATEs of all rows, bare table', updated - inserted)):
            bench.add('ceilings', cell, 'off', number, {'jobs_per_s': jobs / took})
    conn.execute('DROP TABLE bare')
    conn.close()


def fsync(bench):
    """The first section of pg_test_fsync, which measures the same flushes that commits do."""
    process = subprocess.Popen(['pg_test_fsync', '-s', '1', '-f', 'fsync.test'], stdout=subprocess.PIPE, text=True)
    found = {}
    try:
        for line in process.stdout:
            if 'using two' in line:
                break
            match = re.match(r'\s+(\w+)\s+([0-9.]+) ops/sec', line)
            if match:
                found[match.group(1)] = float(match.group(2))
    finally:
        process.terminate()
        process.wait()
    for method, rate in found.items():
        bench.add('ceilings', f'pg_test_fsync, {method}', 'on', 0, {'jobs_per_s': rate, 'p50_ms': 1000 / rate})
