# Claims and completes batches of 100 with 1 and 2 clients. PgQ, which keeps no state per job, is a reference point.

from cells import interleave, run_cell
from contenders import BASE, JOBQ, PGQ, TEXTBOOK, TUNED

TITLE = 'Batches of 100: claim, complete'
SIZE = 100


def have_pgq(bench):
    available = bench.conn.execute("SELECT count(*) FROM pg_available_extensions WHERE name = 'pgq'").fetchone()[0]
    if not available:
        bench.note('batches', 'PgQ is not installed here.')
    return available > 0


def run(bench):
    seconds = bench.scale(3, 2)
    pgq = not bench.quick and have_pgq(bench)
    for sync in bench.scale(('off', 'on'), ('off',)):
        for clients in (1, 2):
            def cell(contender, guess, clients=clients, sync=sync):
                size = getattr(contender, 'size', SIZE)
                return lambda: run_cell(bench, contender, contender.batch(size), clients, sync, seconds, guess, per_transaction=size)
            by = '1 client' if clients == 1 else f'{clients} clients'
            group = {f'textbook, {by}': cell(TEXTBOOK, 50_000), f'jobq, {by}': cell(JOBQ, 100_000)}
            if BASE:
                group[f'jobq before, {by}'] = cell(BASE, 100_000)
            if not bench.quick:
                group[f'tuned textbook, {by}'] = cell(TUNED, 75_000)
            if pgq and clients == 1:
                for contender in PGQ.values():
                    contender.setup(bench.conn)
                    group[f'{contender.title}, ranked apart, 1 consumer'] = cell(contender, 60_000)
            interleave(bench, 'batches', group, bench.scale(4, 2) if sync == 'off' else 3, sync)
            bench.goal_of_pairs('batches', f'batches of {SIZE}, {by}, synchronous_commit {sync}, relative to the textbook',
                                f'jobq, {by}', f'textbook, {by}', sync, '>=', 1.6)
    bench.note('batches', f'p50 and p99 are the times to claim and complete {SIZE} jobs or, for PgQ, to process a batch. PgQ is ranked '
               'apart because it writes something only for each batch, not for each job. The batches of PgQ become larger as '
               'more jobs wait.')
