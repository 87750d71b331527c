# Workers that serve many queues: each of 50 workers claims from, and waits for, all of 100 queues. For comparison, each of 50 workers
# serves a queue of its own, of 50 queues.
#
# The jobs circulate: a worker that has completed a job enqueues a job into a random queue. There are half as many jobs as workers, so
# that some workers always sleep. The wake-ups per job are the waits that have ended, whatever has ended them, per completed job.

import time

from cells import interleave, prepare
from contenders import JOBQ
from load import Running
from measure import server_use

TITLE = 'Workers of several queues'
WORKERS = 50
QUEUES = 100

# pgbench logs one iteration per line. An iteration without a job ends with a wait, so iterations - jobs = waits.
WORKER = """SELECT coalesce(max(c.id), 0) AS id, coalesce(max(c.lease), 0) AS lease FROM {claim} c \\gset
\\if :id > 0
\\sleep 1 ms
SELECT jobq_complete(:id, :lease) AS done \\gset
\\set queue random(0, {last})
SELECT jobq_enqueue('several ' || (:queue)::text, bench_payload(1)) AS job \\gset
\\else
{wait}
\\endif
"""


def run(bench):
    cells = {name: lambda name=name, queues=queues, take=take: once(bench, queues, take) for name, queues, take in (
        (ONE, WORKERS, ("queue => 'several ' || (:client_id)::text",) * 2),
        (NAMED, QUEUES, (f"queues => '{{{','.join(f'several {n}' for n in range(QUEUES))}}}'",) * 2),
        (RANDOM, QUEUES, (f"queues => '{{{','.join(f'several {n}' for n in range(QUEUES))}}}', weights => array_fill(1, ARRAY[{QUEUES}])",
                          f"queues => '{{{','.join(f'several {n}' for n in range(QUEUES))}}}'")),
        (PATTERN, QUEUES, ("patterns => '{several %}'",) * 2))}
    interleave(bench, 'several', cells, bench.scale(5, 3), 'off')
    for name in (NAMED, RANDOM, PATTERN):
        bench.goal_of_pairs('several', f'{name}, relative to "{ONE}"', name, ONE, 'off', '>=', 0.5)
    JOBQ.reset(bench.conn)


ONE = f'{WORKERS} workers, one queue each'
NAMED = f'{WORKERS} workers, {QUEUES} queues each'
RANDOM = f'{WORKERS} workers, {QUEUES} queues each, equal weights'
PATTERN = f'{WORKERS} workers, {QUEUES} queues that match a pattern'


def once(bench, queues, take):
    prepare(bench, JOBQ, 0)
    conn = bench.conn_of(JOBQ)
    conn.execute(f"SELECT count(jobq_enqueue('several ' || n % {queues}, bench_payload(1))) FROM generate_series(1, {WORKERS // 2}) n")
    any_queue = '' if 'queue =>' in take[0] else '_any'
    script = WORKER.format(claim=f"jobq_claim{any_queue}({take[0]})", wait=f"CALL jobq_wait{any_queue}({take[1]}, timeout => '2 s');", last=queues - 1)
    seconds = bench.scale(5, 3)
    running = Running(script, WORKERS, seconds=seconds + 2, host=JOBQ.host)
    running.warm_up(conn, 1)
    began, used = time.monotonic(), server_use(JOBQ.data)[0]
    before = completed(conn)
    time.sleep(seconds)
    done, took = completed(conn) - before, time.monotonic() - began
    used = server_use(JOBQ.data)[0] - used
    load = running.finish()
    all_done = completed(conn)
    wrong = conn.execute('SELECT count(*) FROM jobq.jobs WHERE attempts > 1').fetchone()[0]
    if wrong:
        bench.fail(f'{wrong} jobs were started twice')
    waits = max(load.transactions - all_done, 0)
    return {'jobs_per_s': done / took, 'wakes_per_job': waits / max(all_done, 1), 'cpu_us_per_job': used / max(done, 1), 'jobs': done, 'audited': True}


def completed(conn):
    return conn.execute("SELECT count(*) FROM jobq.jobs WHERE status = 'completed'").fetchone()[0]
