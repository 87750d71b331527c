# Schedules: how late their jobs are if one is due after the other, and if 10,000 are due in one second, and the cost of having
# schedules. The background worker runs them.

import time

from bench import Skip
from contenders import JOBQ
from statistic import percentile

TITLE = 'Schedules'


def run(bench):
    if not bench.has_function('jobq_schedule'):
        raise Skip('this jobq has no schedules')
    spread(bench)
    burst(bench)


def late_ms(bench, name):
    """Returns how late the jobs of these schedules were enqueued, in order."""
    return [row[0] for row in bench.conn.execute(
        "SELECT 1000 * extract(epoch FROM j.created_at - (j.metadata->>'scheduled_for')::timestamptz)::float8 AS late FROM jobq.jobs j "
        "WHERE j.metadata->>'schedule' LIKE %s ORDER BY late", (name + ' %',)).fetchall()]


def finish(bench, name, wanted, seconds):
    """Waits until this many schedules have run, checks that each ran once, and removes them."""
    until = time.monotonic() + seconds
    count = 0
    while count < wanted and time.monotonic() < until:
        time.sleep(0.2)
        count = bench.conn.execute("SELECT count(*) FROM jobq.jobs WHERE metadata->>'schedule' LIKE %s", (name + ' %',)).fetchone()[0]
    bench.conn.execute('SELECT count(jobq_unschedule(name)) FROM jobq.schedules')
    twice = bench.conn.execute("SELECT count(*) - count(DISTINCT (metadata->>'schedule', metadata->>'scheduled_for')) FROM jobq.jobs "
                               "WHERE metadata->>'schedule' LIKE %s", (name + ' %',)).fetchone()[0]
    if count < wanted or twice:
        bench.fail(f'schedules, {name}: {count} of {wanted} runs, {twice} of them twice')


def spread(bench):
    """1,000 schedules, each every 20 seconds, one every 20 ms."""
    schedules, seconds = bench.scale((1000, 40), (200, 10))
    JOBQ.reset(bench.conn)
    bench.conn.execute("SELECT count(jobq_schedule('spread ' || n, '@every 20s', 'bench', "
                       "starts_at => now() + interval '2 s' + n * interval '20 ms')) FROM generate_series(1, %s) n", (schedules,))
    wanted = min(int(seconds / 0.02), 2 * schedules) if not bench.quick else schedules
    finish(bench, 'spread', wanted, seconds + 60)
    late = late_ms(bench, 'spread')
    if not late:
        return
    bench.add('schedules', 'one schedule every 20 ms', 'on', 0, {'p50_ms': percentile(late, 0.5), 'p99_ms': percentile(late, 0.99), 'runs': len(late)})
    bench.goal('schedules', 'lateness of one schedule every 20 ms, p99', percentile(late, 0.99), '<=', 50, 'ms', note=f'{len(late):,} runs, p50 {percentile(late, 0.5):.1f} ms')


def burst(bench):
    """10,000 schedules that are due in the same second."""
    schedules = bench.scale(10_000, 2_000)
    for number in range(bench.scale(3, 1)):
        JOBQ.reset(bench.conn)
        bench.conn.execute("SELECT count(jobq_schedule('burst ' || n, '@every 1d', 'bench', "
                           "starts_at => date_trunc('second', now()) + interval '20 s' + n * interval '1 s' / %s)) "
                           "FROM generate_series(0, %s - 1) n", (schedules, schedules))
        bench.conn.execute('VACUUM ANALYZE jobq.schedule_settings')
        finish(bench, 'burst', schedules, 120)
        late = late_ms(bench, 'burst')
        if late:
            bench.add('schedules', f'{schedules:,} schedules in one second', 'on', number,
                      {'p50_ms': percentile(late, 0.5), 'p99_ms': percentile(late, 0.99), 'max_ms': late[-1], 'runs': len(late)})
    bench.goal('schedules', f'{schedules:,} schedules due in one second: lateness of the last',
               bench.median('schedules', f'{schedules:,} schedules in one second', 'on', 'max_ms'), '<=', 1000, 'ms')
    JOBQ.reset(bench.conn)
