# The depth of the backlog: 10,000, 1 million, and 10 million pending jobs, each in a database of its own, in many short turns.
# Also the time to read jobq.queue_stats with 10 million jobs.

import statistics
import time

from cells import SteadyQueue, against_first, fill_database
from contenders import JOBQ

TITLE = 'Depth of the backlog, single jobs, 4 clients'


def queue_stats(bench, conn, label, times):
    took = []
    for _ in range(times):
        started = time.monotonic()
        conn.execute('SELECT * FROM jobq.queue_stats').fetchall()
        took.append((time.monotonic() - started) * 1000)
    bench.goal('backlog', f'time to read jobq.queue_stats with {label} jobs', statistics.median(took), '<=', 10, 'ms')


def run(bench):
    depths = bench.scale({'10 thousand': 10_000, '1 million': 1_000_000, '10 million': 10_000_000},
                         {'10 thousand': 10_000, '1 million': 1_000_000})
    queues = {}
    try:
        for label, depth in depths.items():
            name = f"backlog_{label.replace(' ', '_')}"
            fill_database(bench, name, lambda conn, depth=depth: JOBQ.fill(conn, depth))
            bench.say(f'backlog: {label} filled')
            queues[label] = SteadyQueue(bench, name, JOBQ.lifecycle(), JOBQ.fill)
        against_first(bench, 'backlog', {label: queue.run for label, queue in queues.items()}, bench.scale(17, 7),
                      '{} pending jobs, relative to 10 thousand', 0.95)
        deepest = list(depths)[-1]
        queue_stats(bench, queues[deepest].conn, deepest, 3)
        for label, depth in depths.items():
            queues[label].audit(depth)
    finally:
        for queue in queues.values():
            queue.close()
