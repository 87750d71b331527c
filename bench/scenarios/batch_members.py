# Batches: 16 clients enqueue into one batch, relative to the same enqueues without a batch, and one batch with a million members.

import time

from psycopg.rows import namedtuple_row

from cells import interleave
from contenders import JOBQ
from load import pgbench
from statistic import percentile

TITLE = 'Batches: members and their ends'
CLIENTS = 16
JOINS = f'jobq_enqueue into one batch, {CLIENTS} clients'
ALONE = f'jobq_enqueue without a batch, {CLIENTS} clients'
# How many members the single completions end, after all other members have ended.
LAST = 200


def run(bench):
    enqueues(bench)
    many_members(bench)
    JOBQ.reset(bench.conn)


def enqueues(bench):
    transactions = bench.scale(2000, 100)
    cells = {name: lambda joins=joins: enqueue(bench, joins, transactions) for name, joins in ((ALONE, False), (JOINS, True))}
    interleave(bench, 'batch_members', cells, bench.scale(12, 3), 'off')
    bench.goal_of_pairs('batch_members', f'{JOINS}, relative to no batch', JOINS, ALONE, 'off', '>=', 0.9)


def enqueue(bench, joins, transactions):
    JOBQ.reset(bench.conn)
    batch = new_batch(bench.conn)
    options = f"""'{{"batch_id": {batch}}}'""" if joins else "'{}'"
    script = f"SELECT jobq_enqueue('bench', bench_payload(1), options => {options}) AS id \\gset\n"
    load = pgbench(script, CLIENTS, transactions=transactions)
    members = progress(bench.conn, batch).total
    if members != (load.transactions if joins else 0):
        bench.fail(f'the batch has {members} members after {load.transactions} enqueues')
    return {'jobs_per_s': load.tps, 'p50_ms': load.percentile_ms(0.5), 'p99_ms': load.percentile_ms(0.99), 'jobs': load.measured}


def many_members(bench):
    members = bench.scale(1_000_000, 20_000)
    conn = bench.conn
    JOBQ.reset(conn)
    batch = filled_batch(conn, members)
    seal = timed(conn, 'SELECT jobq_seal_batch(%s)', batch)
    look = min(timed(conn, 'SELECT * FROM jobq_get_batch(%s)', batch) for _ in range(3))
    first, last = complete_all(bench, members)
    ended = time.monotonic()
    while progress(conn, batch).finished_at is None:
        if time.monotonic() > ended + 300:
            raise TimeoutError('the batch has not finished')
        time.sleep(0.01)
    callback = time.monotonic() - ended
    if conn.execute("SELECT count(*) FROM jobq.jobs WHERE queue = 'done'").fetchone()[0] != 1:
        bench.fail('the callback was not enqueued once')
    JOBQ.reset(conn)
    batch = filled_batch(conn, members)
    conn.execute('SELECT jobq_seal_batch(%s)', (batch,))
    begun = time.monotonic()
    while conn.execute("SELECT jobq_cancel_jobs('bench', max_jobs => 10000, filter => jsonb_build_object('batch_id', %s::bigint))",
                       (batch,)).fetchone()[0] > 0:
        pass
    cancel = time.monotonic() - begun
    if progress(conn, batch).cancelled != members:
        bench.fail('not all members were canceled')

    size = f'a batch of {members:,} members'
    bench.goal('batch_members', f'jobq_seal_batch of {size}', seal, '<=', 2, ' s')
    bench.goal('batch_members', f'jobq_get_batch of {size}', look, '<=', 2, ' s')
    bench.goal('batch_members', f'time from the last completion to the callback of {size}', callback, '<=', 30, ' s')
    bench.goal('batch_members', f'completion of one of the last members of {size} (median), relative to one of the first', last / first, '<=', 1.5)
    bench.note('batch_members', f'For {size}: seal {seal:.3f} s, jobq_get_batch {look:.3f} s, completion of one of the first {LAST} members '
               f'{first * 1000:.2f} ms and of one of the last {LAST} members {last * 1000:.2f} ms (medians), from the last completion to the '
               f'callback {callback:.1f} s, and cancel of all members {cancel:.1f} s.')


def new_batch(conn):
    return conn.execute("""SELECT jobq_create_batch('bench', on_complete => '{"queue": "done"}')""").fetchone()[0]


def filled_batch(conn, members):
    batch = new_batch(conn)
    for begin in range(0, members, 10_000):
        count = min(10_000, members - begin)
        conn.execute("""SELECT count(*) FROM jobq_enqueue_many('bench', array_fill(bench_payload(1), ARRAY[%s]),
                                                               options => jsonb_build_object('batch_id', %s::bigint))""", (count, batch))
    conn.execute('VACUUM ANALYZE')
    return batch


def complete_all(bench, members):
    """Completes all members. Returns the median seconds of the completions of the first and of the last members, one by one."""
    first = complete_singly(bench.conn)
    for begin in range(0, members - 2 * LAST, 1000):
        bench.conn.execute("""WITH held AS MATERIALIZED (SELECT id, lease FROM jobq_claim('bench', batch => %s))
            SELECT count(*) FROM (SELECT array_agg(id) AS ids, array_agg(lease) AS leases FROM held) h, jobq_complete_many(h.ids, h.leases)""",
                           (min(1000, members - 2 * LAST - begin),))
    return first, complete_singly(bench.conn)


def complete_singly(conn):
    took = []
    for job, lease in conn.execute("SELECT id, lease FROM jobq_claim('bench', batch => %s)", (LAST,)).fetchall():
        took.append(timed(conn, 'SELECT jobq_complete(%s, %s)', job, lease))
    return percentile(took, 0.5)


def progress(conn, batch):
    return conn.cursor(row_factory=namedtuple_row).execute('SELECT * FROM jobq_get_batch(%s)', (batch,)).fetchone()


def timed(conn, statement, *parameters):
    begun = time.monotonic()
    conn.execute(statement, parameters).fetchall()
    return time.monotonic() - begun
