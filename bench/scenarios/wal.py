# WAL of a lifecycle in batches of 100, and the share of completions that are HOT updates. full_page_writes is off in this group
# only, because the first change of a page after a checkpoint depends on the run and not on the job.

from cells import interleave, run_cell
from contenders import BASE, JOBQ, TEXTBOOK

TITLE = 'WAL per lifecycle in batches of 100, HOT completions (full_page_writes off)'
SIZE = 100


def run(bench):
    seconds = bench.scale(3, 1)
    bench.setting('full_page_writes', 'off')
    try:
        def cell(contender):
            def once():
                metrics = run_cell(bench, contender, contender.batch(SIZE), 2, 'off', seconds, 50_000,
                                   per_transaction=SIZE, key=(contender.name, 'wal'))
                # A claim changes an indexed column and is never HOT, so every HOT update is a completion.
                metrics['hot_completions'] = 100.0 * metrics['hot_updates'] / max(metrics['jobs'], 1)
                return metrics
            return once
        cells = {'textbook': cell(TEXTBOOK), 'jobq': cell(JOBQ)}
        if BASE:
            cells['jobq before'] = cell(BASE)
        interleave(bench, 'wal', cells, bench.scale(3, 1), 'off')
    finally:
        bench.setting('full_page_writes', None)
    bench.goal_of_pairs('wal', 'WAL per lifecycle, batches of 100, relative to the textbook', 'jobq', 'textbook', 'off', '<=', 0.58, 'wal_per_job')
