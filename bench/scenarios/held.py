# A transaction held open under full load, 4 clients, single jobs: once REPEATABLE READ with a snapshot, once idle with a
# transaction id. Against the same without, second by second; the textbook for comparison.

from cells import prepare
from contenders import JOBQ, TEXTBOOK
from load import Drained, Running, pgbench

TITLE = 'A transaction held open under full load, 4 clients'
CLIENTS = 4
HOLDERS = {
    'nothing held': [],
    'REPEATABLE READ held': ['BEGIN ISOLATION LEVEL REPEATABLE READ', 'SELECT count(*) FROM pg_class'],
    'idle with an xid': ['BEGIN', 'SELECT pg_current_xact_id()'],
}


def run_held(bench, contender, statements, seconds, rate):
    for _ in range(3):
        jobs = int(rate * seconds * 1.3 / 1000 + 1) * 1000
        prepare(bench, contender, jobs)
        holder = bench.connect()
        try:
            load = Running(contender.lifecycle(), CLIENTS, seconds=seconds)
            for statement in statements:
                holder.execute(statement)
            done = load.finish()
        except Drained:
            rate *= 1.6
            continue
        finally:
            holder.close()
        for problem in contender.audit(bench.conn, jobs).problems(done.transactions):
            bench.fail(f'held, {contender.title}: {problem}')
        contender.reset(bench.conn)
        return done
    raise RuntimeError('the queue drained at every attempt')


def calibrate(bench, contender):
    prepare(bench, contender, 60_000)
    speed = pgbench(contender.lifecycle(), CLIENTS, transactions=10_000).tps
    contender.reset(bench.conn)
    return speed


def run(bench):
    seconds = bench.scale(60, 12)
    edge = min(10, seconds // 3)
    series = {}
    for contender in (JOBQ, TEXTBOOK):
        rate = calibrate(bench, contender)
        for holder, statements in HOLDERS.items():
            if contender is TEXTBOOK and holder == 'idle with an xid':
                continue
            load = run_held(bench, contender, statements, seconds, rate)
            rate = max(rate, load.tps) if not statements else rate
            whole = load.per_second[:seconds]
            first, last = sum(whole[:edge]) / edge, sum(whole[-edge:]) / edge
            cell = f'{contender.title}, {holder}'
            series[cell] = [[second, count] for second, count in enumerate(whole)]
            bench.add('held', cell, 'off', 0, {'jobs_per_s': load.tps, 'p50_ms': load.percentile_ms(0.5),
                                             'p99_ms': load.percentile_ms(0.99), 'first': first, 'last': last,
                                             'flatness': last / first})
            bench.say(f'held: {cell}: {load.tps:,.0f}/s, first {edge} s {first:,.0f}, last {edge} s {last:,.0f}')
    bench.series['held'] = series
    for holder in list(HOLDERS)[1:]:
        bench.goal('held', f'{holder} for {seconds} s, 4 clients: times the same without',
                   bench.ratio('held', f'jobq, {holder}', 'jobq, nothing held', 'off'), '>=', 0.95)
        bench.goal('held', f'{holder}: last {edge} s by first {edge} s',
                   bench.median('held', f'jobq, {holder}', 'off', 'flatness'), '>=', 0.95)
    base = bench.ratio('held', 'textbook, REPEATABLE READ held', 'textbook, nothing held', 'off')
    bench.note('held', f'The textbook keeps {base:.2f} of its speed on average over the {seconds} s.')
