# Claims from an empty queue by 16 clients, which is the cost of polling workers. Compared with the textbook and a prepared SELECT
# 1.

from cells import interleave
from contenders import JOBQ, TEXTBOOK, TUNED
from load import pgbench
from measure import Probe

TITLE = 'Claims from an empty queue, 16 clients'
CLIENTS = 16


def run(bench):
    seconds = bench.scale(4, 2)

    def cell(script, contender=None):
        def once():
            if contender:
                # The queue has been used, so its lane is known.
                contender.reset(bench.conn)
                contender.fill(bench.conn, 1000)
                pgbench(contender.batch(100), 1, transactions=10)
                for table in contender.tables:
                    bench.conn.execute(f'VACUUM ANALYZE {table}')
            probe = Probe(bench.conn)
            load = pgbench(script, CLIENTS, seconds=seconds)
            return dict(probe.done(load.transactions), jobs_per_s=load.tps, p50_ms=load.percentile_ms(0.5),
                        p99_ms=load.percentile_ms(0.99))
        return once

    cells = {'prepared SELECT 1': cell('SELECT 1;\n'), 'textbook': cell(TEXTBOOK.empty(), TEXTBOOK),
             'tuned textbook': cell(TUNED.empty(), TUNED), 'jobq': cell(JOBQ.empty(), JOBQ)}
    if bench.quick:
        del cells['tuned textbook']
    interleave(bench, 'empty', cells, bench.scale(5, 2), 'off')
    bench.goal_of_pairs('empty', 'an empty claim, relative to an empty claim of the textbook', 'jobq', 'textbook', 'off', '>=', 0.8)
    bench.goal_of_pairs('empty', 'an empty claim, relative to a prepared SELECT 1', 'jobq', 'prepared SELECT 1', 'off', '>=', 0.4)
    bench.note('empty', 'In this group, the column jobs/s contains calls per second, because the calls claim no job.')
