# The cost of a payload: bytes in the table and in the WAL, and speed, with payloads that do not compress. Every cell has the same
# 40,000 jobs, which are pending and then completed in batches of 100 by two clients, without vacuum in the meantime. One cell has
# jobs with keys, which must stay in the main row when the payload moves to TOAST.

from cells import interleave
from contenders import BASE, JOBQ, TEXTBOOK
from load import pgbench
from measure import Probe

TITLE = 'Payloads of 100, 500 and 1,500 bytes'
JOBS, BATCH, CLIENTS = 40_000, 100, 2
# Bytes of a pending and of a completed job in the table, relative to the textbook.
SIZES = {100: (1.6, 1.0), 500: (1.2, 1.0), 1500: (1.15, 1.0)}
KEYED = 400
KEYS = dict(arguments=", kind => 'invoice-rendering'",
            arrays=(('unique_keys', "'invoice-' || md5(n::text)"), ('concurrency_keys', "'customer-' || md5((n % 1000)::text)")))


def size_of(conn, contender):
    return conn.execute('SELECT pg_total_relation_size(%s::regclass)', (contender.table,)).fetchone()[0] / JOBS


def live(bench, contender, payload, images, keys):
    """Fills the table and empties the queue. images: full-page images are logged at the first change of a page."""
    conn = bench.conn_of(contender)
    contender.reset(conn)
    conn.execute(f'ALTER TABLE {contender.table} SET (autovacuum_enabled = off)')
    contender.fill(conn, JOBS, payload=payload, **keys)
    waiting = size_of(conn, contender)
    bench.setting('full_page_writes', 'on' if images else 'off', conn)
    conn.execute('CHECKPOINT')
    probe = Probe(conn, contender.tables, contender.data)
    load = pgbench(contender.batch(BATCH), CLIENTS, transactions=JOBS // BATCH // CLIENTS, host=contender.host)
    cost = probe.done(JOBS)
    found = contender.audit(conn, JOBS).problems(JOBS)
    for problem in found:
        bench.fail(f'payload, {contender.title}: {problem}')
    completed = size_of(conn, contender)
    contender.reset(conn)
    bench.setting('full_page_writes', None, conn)
    return dict(jobs_per_s=load.tps * BATCH, waiting_bytes=waiting, completed_bytes=completed,
                wal_per_job=cost['wal_per_job'], hot_updates=cost['hot_updates'],
                hot_completions=100.0 * cost['hot_updates'] / JOBS, audited=not found)


def cell(bench, contender, payload, keys=None):
    def once():
        metrics = live(bench, contender, payload, images=False, keys=keys or {})
        metrics['wal_after_checkpoint'] = live(bench, contender, payload, images=True, keys=keys or {})['wal_per_job']
        # The same keys could not be enqueued more than once.
        if keys:
            return metrics
        conn = bench.conn_of(contender)
        contender.reset(conn)
        load = pgbench(contender.enqueue_many(1000, payload), 1, seconds=bench.scale(2, 1), variables={'ready': 0}, host=contender.host)
        contender.reset(conn)
        conn.execute(f'ALTER TABLE {contender.table} RESET (autovacuum_enabled)')
        metrics['enqueued_per_s'] = load.tps * 1000
        return metrics
    return once


def run(bench):
    contenders = [TEXTBOOK, JOBQ] + ([BASE] if BASE else [])
    cells = {f'{contender.title}, {size:,} bytes': cell(bench, contender, f'bench_noise(n, {size})')
             for size in SIZES for contender in contenders}
    for contender in contenders[1:]:
        cells[f'{contender.title}, {KEYED:,} bytes and keys'] = cell(bench, contender, f'bench_noise(n, {KEYED})', KEYS)
    interleave(bench, 'payload', cells, bench.scale(3, 1), 'off')
    for size, (waiting, completed) in SIZES.items():
        own = f'jobq, {size:,} bytes'
        textbook = f'textbook, {size:,} bytes'
        bench.goal_of_pairs('payload', f'{size:,} bytes, disk space of a waiting job, relative to the textbook',
                            own, textbook, 'off', '<=', waiting, 'waiting_bytes')
        bench.goal_of_pairs('payload', f'{size:,} bytes, disk space of a completed job, relative to the textbook',
                            own, textbook, 'off', '<=', completed, 'completed_bytes')
        bench.goal('payload', f'{size:,} bytes, WAL of claim and completion',
                   bench.median('payload', own, 'off', 'wal_per_job'), '<=', 700, 'bytes')
        bench.goal('payload', f'{size:,} bytes, WAL of claim and completion right after a checkpoint',
                   bench.median('payload', own, 'off', 'wal_after_checkpoint'), '<=', 800, 'bytes')
        if BASE:
            before = f'jobq before, {size:,} bytes'
            bench.goal_of_pairs('payload', f'{size:,} bytes, batches, relative to before', own, before, 'off', '>=', 1.0)
    bench.goal('payload', f'{KEYED:,} bytes and keys, WAL of claim and completion',
               bench.median('payload', f'jobq, {KEYED:,} bytes and keys', 'off', 'wal_per_job'), '<=', 900, 'bytes')
    bench.goal_of_pairs('payload', 'batches with 1,500 bytes, relative to batches with 100 bytes',
                        'jobq, 1,500 bytes', 'jobq, 100 bytes', 'off', '>=', 0.85)
    if BASE:
        bench.goal_of_pairs('payload', '100 bytes, jobq_enqueue_many, relative to before',
                            'jobq, 100 bytes', 'jobq before, 100 bytes', 'off', '>=', 0.8,
                            'enqueued_per_s')
    bench.note('payload', 'The columns for waiting and completed jobs contain the disk space of a job: its row, its TOAST data, and its '
               'index entries. The WAL bytes per job were measured with full_page_writes off, so they exclude full-page '
               'images. The column with the WAL after a checkpoint includes them.')
