# 10,000 running jobs of 100 workers that send heartbeats every 10 s: the effect on other work, and the share of HOT updates.

from cells import interleave
from contenders import JOBQ
from load import Running, pgbench
from measure import Probe

TITLE = 'Heartbeats of 10,000 running jobs, other work by 4 clients'
WORKERS, EACH = 100, 100
BEAT = f"\\set w random(0, {WORKERS - 1})\nSELECT count(*) FROM jobq_heartbeat_worker('w' || :w::int);\n"


def run(bench):
    seconds, rounds = bench.scale(5, 3), bench.scale(9, 3)
    JOBQ.reset(bench.conn)
    JOBQ.fill(bench.conn, WORKERS * EACH, queue='running')
    for worker in range(WORKERS):
        bench.conn.execute(f"SELECT count(*) FROM jobq_claim('running', 'w{worker}', batch => {EACH}, "
                           "heartbeat_timeout => '10 hours')")
    bench.conn.execute('VACUUM ANALYZE jobq.jobs')
    enqueued, done = WORKERS * EACH, 0

    def work(beating):
        def once():
            nonlocal enqueued, done
            jobs = int(bench.rates.get('heartbeat', 50_000) * seconds * 1.5)
            JOBQ.fill(bench.conn, jobs)
            enqueued += jobs
            beats = Running(BEAT, 1, seconds=seconds + 60, rate=WORKERS / 10, log=False) if beating else None
            try:
                load = pgbench(JOBQ.lifecycle(), 4, seconds=seconds)
            finally:
                if beats:
                    beats.stop()
            bench.rates['heartbeat'] = load.tps
            done += load.transactions
            return {'jobs_per_s': load.tps, 'p50_ms': load.percentile_ms(0.5), 'p99_ms': load.percentile_ms(0.99)}
        return once

    interleave(bench, 'heartbeat', {'without': work(False), 'with heartbeats': work(True)}, rounds, 'off')
    bench.goal_of_pairs('heartbeat', 'other work while 10,000 jobs send heartbeats every 10 s, relative to the same without heartbeats',
                        'with heartbeats', 'without',
                        'off', '>=', 0.95)
    for problem in JOBQ.audit(bench.conn, enqueued).problems(done, held=WORKERS * EACH):
        bench.fail(f'heartbeat: {problem}')

    # At a higher rate than in production, so that it does not take minutes: ten heartbeats per job.
    probe = Probe(bench.conn, ['jobq.jobs'])
    load = pgbench(BEAT, 2, transactions=WORKERS * 5)
    cost = probe.done(load.transactions)
    bench.goal('heartbeat', 'heartbeats that are HOT updates', 100.0 * cost['hot_updates'] / max(cost['updates'], 1), '>=',
               97, '%', note=f"{cost['updates']:,} updates")
    JOBQ.reset(bench.conn)
