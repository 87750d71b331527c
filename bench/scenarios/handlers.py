# SQL handlers that do nothing, compared with a client loop that does nothing: the same jobs and the same number of processes in
# one run. A job is a claim, the call, and a completion, with a transaction per job.

import time

from bench import Skip
from cells import interleave, prepare, run_cell
from contenders import JOBQ

TITLE = 'Handlers in the database and clients'
PROCESSES = 2

# The correct pattern of a client: the claim commits first, then the work and the completion are one transaction.
CLIENT = '''SELECT id AS job, lease FROM jobq_claim('bench', 'client') \\gset
BEGIN;
SELECT noop('{}');
SELECT jobq_complete(:job, :lease, must_hold => true);
COMMIT;
'''


def by_handlers(bench, sync):
    """Two executors run all jobs."""
    jobs = bench.scale(40_000, 10_000) if sync == 'off' else bench.scale(5_000, 1_000)
    prepare(bench, JOBQ, jobs)
    bench.conn.execute("SELECT jobq_set_handler('bench', '', 'noop(jsonb)', 'bench_runner', max_executors => %s)", (PROCESSES,))
    until = time.monotonic() + 120
    while time.monotonic() < until:
        time.sleep(0.2)
        if bench.conn.execute("SELECT coalesce(sum(pending + processing), 0) FROM jobq.queue_stats WHERE queue = 'bench'").fetchone()[0] == 0:
            break
    seconds = bench.conn.execute("SELECT extract(epoch FROM max(finished_at) - min(started_at))::float8 FROM jobq.jobs").fetchone()[0]
    for problem in JOBQ.audit(bench.conn, jobs).problems(jobs):
        bench.fail(f'handlers: {problem}')
    bench.conn.execute("SELECT jobq_drop_handler('bench', '')")
    JOBQ.reset(bench.conn)
    return {'jobs_per_s': jobs / seconds, 'jobs': jobs, 'audited': True}


def run(bench):
    if not bench.has_function('jobq_set_handler'):
        raise Skip('this jobq has no handlers')
    JOBQ.reset(bench.conn)
    bench.conn.execute('CREATE ROLE bench_runner LOGIN')
    bench.conn.execute("CREATE FUNCTION noop(job jsonb) RETURNS void LANGUAGE plpgsql AS 'BEGIN END'")
    try:
        for sync in ('off', 'on'):
            bench.conn.execute(f'ALTER ROLE bench_runner SET synchronous_commit = {sync}')
            interleave(bench, 'handlers', {
                'handlers': lambda sync=sync: by_handlers(bench, sync),
                'clients': lambda sync=sync: run_cell(bench, JOBQ, CLIENT, PROCESSES, sync, bench.scale(5, 3), guess=8_000),
            }, bench.scale(7, 3), sync)
        bench.goal('handlers', 'handlers that do nothing, per second, synchronous_commit off',
                   bench.median('handlers', 'handlers', 'off', 'jobs_per_s'), '>=', 5000, '/s')
        bench.goal_of_pairs('handlers', 'handlers, relative to clients that claim and complete, synchronous_commit off',
                            'handlers', 'clients', 'off', '>=', 1)
    finally:
        JOBQ.reset(bench.conn)
        bench.conn.execute("SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity WHERE backend_type = 'jobq executor'")
        bench.conn.execute('DROP FUNCTION noop(jsonb)')
        bench.conn.execute('DROP ROLE bench_runner')
