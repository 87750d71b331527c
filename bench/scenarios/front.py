# Jobs that come before the jobs that a worker can claim: jobs that it may not claim, scheduled jobs, running jobs. Each case has
# a database of its own and is compared with a queue without such jobs, in many short turns.

from cells import SteadyQueue, against_first, fill_database
from contenders import JOBQ

TITLE = 'Other jobs before the claimed jobs, single jobs, 4 clients'
SCRIPT = JOBQ.lifecycle().replace("jobq_claim('bench')", "jobq_claim('bench', kinds => '{mine}')")


def filled(arguments):
    return lambda conn, jobs: JOBQ.fill(conn, jobs, arguments=arguments)


refill = filled(", kind => 'mine'")


def capability(conn, jobs):
    for start in range(0, jobs, 10_000):
        conn.execute(f"""
            SELECT count(*) FROM jobq_enqueue_jobs((SELECT jsonb_agg(jsonb_build_object(
                'queue', 'bench', 'kind', 'mine', 'requires', '["gpu"]'::jsonb, 'payload', bench_payload(n)))
            FROM generate_series({start + 1}, {start + 10_000}) n))""")


def running(conn, jobs):
    refill(conn, jobs)
    for _ in range(0, jobs, 10_000):
        conn.execute("SELECT count(*) FROM jobq_claim('bench', 'other', batch => 10000, heartbeat_timeout => '10 hours')")


def run(bench):
    million, many = bench.scale((1_000_000, 100_000), (100_000, 10_000))
    fronts = {
        'none': (0, lambda conn, jobs: None),
        f'{million:,} that need a capability': (million, capability),
        f'{million:,} of another kind': (million, filled(", kind => 'other'")),
        f'{million:,} of lower priority': (million, filled(", kind => 'mine', priority => 10")),
        f'{million:,} scheduled for tomorrow': (million, filled(", kind => 'mine', run_at => now() + interval '1 day'")),
        f'{many:,} processing': (many, running),
    }
    queues, own = {}, 50_000
    try:
        for number, (label, (jobs, fill)) in enumerate(fronts.items()):
            def both(conn, fill=fill, jobs=jobs):
                fill(conn, jobs)
                refill(conn, own)
            fill_database(bench, f'front_{number}', both)
            bench.say(f'front: {label} filled')
            queues[label] = SteadyQueue(bench, f'front_{number}', SCRIPT, refill)
        against_first(bench, 'front', {label: queue.run for label, queue in queues.items()}, bench.scale(13, 5),
                      '{} before the claimed jobs, relative to none', 0.95)
        for label, (jobs, fill) in fronts.items():
            queues[label].audit(jobs + own, held=jobs if fill is running else 0)
    finally:
        for queue in queues.values():
            queue.close()
