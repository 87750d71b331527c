# Up to a million waiting jobs: half of them wait for a signal each, and half for the end of a job each. Measured are the delay
# until a waiting job becomes pending, during and after a full scan by the background worker, the time of a manual tick, which
# scans all of them, and the memory of the background worker and the size of the tables. Also many jobs that wait for the same
# job.

import time

from bench import Skip
from contenders import JOBQ
from statistic import percentile

TITLE = 'Many waiting jobs'
AT_ONCE = 10_000
ONE_BY_ONE = 100


def run(bench):
    if not bench.has_function('jobq_await_jobs'):
        raise Skip('no job of this jobq awaits others')
    JOBQ.reset(bench.conn)
    conn = bench.connect(options='-c synchronous_commit=off')
    conn.execute("SELECT jobq_create_queue('waiters', heartbeat_timeout => '1 hour'), jobq_create_queue('targets', heartbeat_timeout => '1 hour')")
    for waiting in bench.scale((20_000, 200_000, 1_000_000), (20_000, 100_000)):
        fill(conn, waiting)
        measure(bench, conn, waiting)
    many = bench.scale(1_000_000, 100_000)
    for what in ('signal', 'end'):
        bench.goal('waiters', f'{TEXTS[what]}, p50 with {many:,} waiting', bench.median('waiters', title(what, many), 'off', 'p50_ms'), '<=', 2, 'ms')
    conn.close()
    JOBQ.reset(bench.conn)
    for waiting in bench.scale((10_000, 100_000), (5_000, 20_000)):
        one_for_many(bench, waiting)
    JOBQ.reset(bench.conn)


TEXTS = {'signal': 'from a signal to a pending job', 'end': 'from the end of an awaited job to a pending one'}


def title(what, waiting):
    return f'{TEXTS[what]}, {waiting:,} waiting'


def waiting_now(conn):
    return conn.execute('SELECT count(*) FROM jobq.steps WHERE _awaited IS NOT NULL').fetchone()[0]


def fill(conn, waiting):
    """Removes the jobs that were promoted before."""
    conn.execute("DELETE FROM jobq.jobs WHERE queue = 'waiters' AND status = 'pending'")
    for number in range((waiting - waiting_now(conn)) // (2 * AT_ONCE)):
        conn.execute("SELECT count(*) FROM jobq_enqueue_many('waiters', array_fill('{}'::jsonb, ARRAY[%s]))", (2 * AT_ONCE,))
        conn.execute("SELECT count(*) FROM jobq_enqueue_many('targets', array_fill('{}'::jsonb, ARRAY[%s]))", (AT_ONCE,))
        conn.execute("SELECT count(a.state) FROM jobq_claim('waiters', 'w', %s) c, jobq_await(c.id, c.lease, 'e') a", (AT_ONCE,))
        conn.execute("""
            SELECT count(a.state)
            FROM (SELECT c.id, c.lease, row_number() OVER () AS n FROM jobq_claim('waiters', 'w', %s) c) c
                 JOIN (SELECT id, row_number() OVER () AS n FROM (SELECT id FROM jobq.jobs WHERE queue = 'targets' ORDER BY id DESC LIMIT %s) t) t USING (n),
                 jobq_await_jobs(c.id, c.lease, ARRAY[t.id], 'w') a""", (AT_ONCE, AT_ONCE))
    conn.execute('ANALYZE jobq.jobs, jobq.steps, jobq.edges')


def measure(bench, conn, waiting):
    flooded = {what: set_free(bench, conn, what, ONE_BY_ONE // 2) for what in ('signal', 'end')}
    calm_down(bench, conn)
    for what in ('signal', 'end'):
        took = set_free(bench, conn, what, ONE_BY_ONE)
        bench.add('waiters', title(what, waiting), 'off', 0, {'p50_ms': percentile(took, 0.5), 'p99_ms': percentile(took, 0.99), 'jobs': len(took)})
    began = time.monotonic()
    conn.execute('SELECT count(*) FROM jobq_tick()')
    tick = time.monotonic() - began
    size = conn.execute("SELECT pg_total_relation_size('jobq.steps') + pg_total_relation_size('jobq.edges')").fetchone()[0]
    bench.note('waiters', f'Right after {waiting:,} jobs had begun to wait, a job became pending {percentile(flooded["signal"], 0.5):.1f} ms '
               f'after its signal and {percentile(flooded["end"], 0.5):.1f} ms after the end of the awaited job (p50). A call to jobq_tick() took {tick:.2f} s. '
               f'The background worker used {worker_memory(conn)} MB of private memory. The tables jobq.steps and jobq.edges used {size / waiting:.0f} bytes '
               'per job.')


def calm_down(bench, conn):
    """Waits until the background worker has scanned all waiting jobs. From then on, nearly all jobs are promoted at once."""
    until = time.monotonic() + 600
    while time.monotonic() < until:
        if percentile(set_free(bench, conn, 'signal', 20), 0.8) < 2:
            return
        time.sleep(1)
    bench.fail('waiters: the background worker does not come to the end of its search')


def set_free(bench, conn, what, count):
    """Promotes this many jobs one after the other. Returns the milliseconds until each is pending, with a check every half
    millisecond."""
    if what == 'signal':
        jobs = [(job, None) for job, in conn.execute(
            "SELECT s.job_id FROM jobq.steps s JOIN jobq.jobs j ON j.id = s.job_id"
            " WHERE s._awaited <> '' AND j.status = 'blocked' ORDER BY random() LIMIT %s", (count,)).fetchall()]
    else:
        jobs = conn.execute(
            "SELECT w.job_id, w.target FROM jobq.edges w JOIN jobq.jobs t ON t.id = w.target"
            " JOIN jobq.jobs j ON j.id = w.job_id WHERE w.kind = 'awaits' AND t.status = 'pending' AND j.status = 'blocked' ORDER BY random() LIMIT %s", (count,)).fetchall()
    if len(jobs) < count:
        bench.fail(f'waiters: {len(jobs)} of {count} that could be set free')
    took = []
    for job, target in jobs:
        if target is None:
            act, parameters = 'SELECT jobq_signal_job(%s, %s)', (job, 'e')
        else:
            # A cancellation, so that no claim has to find this job among the others.
            act, parameters = "UPDATE jobq.jobs SET status = 'cancelled' WHERE id = %s", (target,)
        conn.execute(act, parameters)
        began = time.monotonic()
        while conn.execute('SELECT status FROM jobq.jobs WHERE id = %s', (job,)).fetchone()[0] == 'blocked':
            if time.monotonic() - began > 60:
                bench.fail(f'waiters: job {job} sleeps on')
                return took or [60_000]
            time.sleep(0.0005)
        took.append((time.monotonic() - began) * 1e3)
    return took


def worker_memory(conn):
    """Returns the private memory in MB. Shared memory has the same size for any number of waiting jobs."""
    for pid, in conn.execute("SELECT pid FROM pg_stat_activity WHERE backend_type = 'jobq worker' AND datname = current_database()").fetchall():
        with open(f'/proc/{pid}/status', encoding='utf-8') as file:
            return round(int(next(line for line in file if line.startswith('RssAnon')).split()[1]) / 1024)
    return '-'


def one_for_many(bench, waiting):
    """All jobs await one job. Measures the time from its end until the last of them is pending."""
    JOBQ.reset(bench.conn)
    conn = bench.connect(options='-c synchronous_commit=off')
    one = conn.execute("SELECT jobq_enqueue('targets')").fetchone()[0]
    conn.execute("SELECT count(*) FROM jobq_enqueue_many('waiters', array_fill('{}'::jsonb, ARRAY[%s]))", (waiting,))
    for _ in range(0, waiting, 5000):
        conn.execute("SELECT count(a.state) FROM jobq_claim('waiters', 'w', 5000) c, jobq_await_jobs(c.id, c.lease, %s, 'one') a", ([one],))
    calm = time.monotonic() + 5
    while time.monotonic() < calm:
        time.sleep(0.5)
    conn.execute("SELECT jobq_cancel(%s)", (one,))
    began = time.monotonic()
    while time.monotonic() - began < 300:
        left = conn.execute("SELECT blocked FROM jobq.queue_stats WHERE queue = 'waiters'").fetchone()[0]
        if left == 0:
            break
        time.sleep(0.01)
    took = time.monotonic() - began
    if left:
        bench.fail(f'waiters: {left} of {waiting} sleep on')
    bench.add('waiters', f'{waiting:,} that await one job', 'off', 0, {'jobs_per_s': waiting / took, 'jobs': waiting})
    conn.close()
