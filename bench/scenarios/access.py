# The cost of jobq.access = sql. Rows are accessed with SQL, as if a trigger or a constraint were attached to jobq.jobs, and
# compared with direct access. Single jobs, batches, and enqueues.

from cells import interleave, run_cell
from contenders import JOBQ
from scenarios.enqueue import enqueue

TITLE = 'Row access by SQL and directly'
BATCH = 100
WAYS = ('direct', 'sql')


def run(bench):
    seconds = bench.scale(4, 2)
    rounds = bench.scale(5, 3)

    def lifecycle(way):
        return lambda: run_cell(bench, JOBQ, JOBQ.lifecycle(), 4, 'off', seconds, 6_000, options=f'-c jobq.access={way}')

    def batches(way):
        return lambda: run_cell(bench, JOBQ, JOBQ.batch(BATCH), 1, 'off', seconds, 30_000, per_transaction=BATCH,
                                options=f'-c jobq.access={way}')

    def enqueues(way):
        return lambda: enqueue(bench, JOBQ, seconds, 'off', f'-c jobq.access={way}')

    for what, cell, least in (('single jobs, 4 clients', lifecycle, 0.35), (f'batches of {BATCH}, 1 client', batches, 0.15),
                              ('enqueue of 1,000', enqueues, 0.45)):
        interleave(bench, 'access', {f'{what}, {way}': cell(way) for way in WAYS}, rounds, 'off')
        bench.goal_of_pairs('access', f'{what}: access by SQL, relative to direct access', f'{what}, sql', f'{what}, direct', 'off', '>=', least)
