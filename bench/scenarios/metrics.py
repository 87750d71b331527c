# The cost of the totals of jobq_metrics: jobs are claimed and completed, one by one and in batches, with jobq.track_metrics on
# and off, in many short turns in one database. Also a scrape with the maximum number of series.

import statistics
import time

from cells import SteadyQueue, against_first, fill_database
from contenders import JOBQ

TITLE = 'Totals and histograms, 4 clients'
BATCH = 100
LOADS = (('single jobs', JOBQ.lifecycle(), 4, 2000, 1), (f'batches of {BATCH}', JOBQ.batch(BATCH), 1, 500, BATCH))
OFF = '-c jobq.track_metrics=off'


def run(bench):
    for what, script, clients, transactions, each in LOADS:
        fill_database(bench, 'metrics', lambda conn: JOBQ.fill(conn, 100_000))
        queue = SteadyQueue(bench, 'metrics', script, JOBQ.fill, clients, transactions, each)
        try:
            cells = {f'{what}, totals off': lambda: queue.run(OFF), f'{what}, totals on': queue.run}
            against_first(bench, 'metrics', cells, bench.scale(41, 15), '{}, relative to totals off', 0.98)
            # Processor time is less affected by other work on the machine than elapsed time.
            bench.goal_of_pairs('metrics', f'{what}, processor time of the server with totals on, relative to totals off',
                                f'{what}, totals on', f'{what}, totals off', 'off',
                                '<=', 1.02, 'cpu_us_per_job')
            queue.audit(100_000)
        finally:
            queue.close()
    scrape(bench)


def scrape(bench):
    """One queue and 500 kinds. The reset frees places, including those of the database of the other groups."""
    conn = bench.fresh_database('metrics_scrape')
    for used in (bench.conn, conn):
        used.execute('SELECT jobq_reset_metrics()')
    for number in range(500):
        conn.execute("SELECT jobq_enqueue('bench', kind => %s)", (f'kind {number}',))
    series = conn.execute("SELECT count(*) FROM jobq_metrics() WHERE name = 'jobq_jobs_enqueued_total'").fetchone()[0]
    took = []
    for _ in range(9):
        started = time.monotonic()
        size = conn.execute('SELECT octet_length(jobq_prometheus())').fetchone()[0]
        took.append((time.monotonic() - started) * 1000)
    bench.note('metrics', f'With {series} combinations of queue and kind, jobq_prometheus() returns {size / 1e6:.1f} MB of text.')
    bench.goal('metrics', f'jobq_prometheus() with {series} queues and kinds', statistics.median(took), '<=', 250, 'ms')
    conn.close()
    bench.drop_database('metrics_scrape')
