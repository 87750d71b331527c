# A transaction held open under full load, 4 clients, single jobs: once REPEATABLE READ with a snapshot, once idle with a
# transaction id. Against the same without, in rounds that begin with another of them each, second by second; the textbook
# for comparison.

from cells import interleave, prepare
from contenders import BASE, JOBQ, TEXTBOOK, TUNED
from load import Drained, Running, pgbench
from statistic import median_and_interval

TITLE = 'A transaction held open under full load, 4 clients'
CLIENTS = 4
HOLDERS = {
    'nothing held': [],
    'REPEATABLE READ held': ['BEGIN ISOLATION LEVEL REPEATABLE READ', 'SELECT count(*) FROM pg_class'],
    'idle with an xid': ['BEGIN', 'SELECT pg_current_xact_id()'],
}


class Held:
    """A contender under load while the statements' transaction stays open."""

    def __init__(self, bench, contender, seconds):
        self.bench, self.contender, self.seconds = bench, contender, seconds
        self.edge = min(10, seconds // 3)
        prepare(bench, contender, 60_000)
        self.rate = pgbench(contender.lifecycle(), CLIENTS, transactions=10_000, host=contender.host).tps
        contender.reset(bench.conn_of(contender))

    def run(self, statements):
        for _ in range(4):
            jobs = int(self.rate * self.seconds * 1.3 / 1000 + 1) * 1000
            prepare(self.bench, self.contender, jobs)
            holder = self.bench.connect(**({'host': self.contender.host} if self.contender.host else {}))
            try:
                load = Running(self.contender.lifecycle(), CLIENTS, seconds=self.seconds, host=self.contender.host)
                for statement in statements:
                    holder.execute(statement)
                done = load.finish()
            except Drained:
                self.rate *= 1.6
                continue
            finally:
                holder.close()
            for problem in self.contender.audit(self.bench.conn_of(self.contender), jobs).problems(done.transactions):
                self.bench.fail(f'held, {self.contender.title}: {problem}')
            self.contender.reset(self.bench.conn_of(self.contender))
            self.rate = max(self.rate, done.tps)
            return done
        raise RuntimeError('the queue drained at every attempt')

    def cell(self, name, statements, series):
        load = self.run(statements)
        whole = load.per_second[:self.seconds]
        first, last = sum(whole[:self.edge]) / self.edge, sum(whole[-self.edge:]) / self.edge
        series.setdefault(name, [[second, count] for second, count in enumerate(whole)])
        self.bench.say(f'held: {name}: first {self.edge} s {first:,.0f}, last {self.edge} s {last:,.0f}')
        return {'jobs_per_s': load.tps, 'p50_ms': load.percentile_ms(0.5), 'p99_ms': load.percentile_ms(0.99),
                'first': first, 'last': last, 'flatness': last / first}


def judge(bench, contender, holder, seconds, edge):
    cell = f'{contender.title}, {holder}'
    ratio, interval = bench.paired('held', cell, f'{contender.title}, nothing held', 'off')
    flatness, rounds = median_and_interval(bench.values('held', cell, 'off', 'flatness'), 'rounds')
    if contender is BASE:
        bench.note('held', f'The state before, {holder}: {ratio:.2f} of its speed without ({interval}), its last {edge} s '
                           f'{flatness:.2f} of its first ({rounds}).')
        return
    bench.goal('held', f'{holder} for {seconds} s, 4 clients: times the same without', ratio, '>=', 0.95, interval=interval)
    bench.goal('held', f'{holder}: last {edge} s by first {edge} s', flatness, '>=', 0.95, interval=rounds)


def run(bench):
    seconds = bench.scale(60, 12)
    series = {}
    textbooks = (TEXTBOOK,) if bench.quick else (TEXTBOOK, TUNED)
    for contender in filter(None, (JOBQ, BASE, *textbooks)):
        held = Held(bench, contender, seconds)
        cells = {f'{contender.title}, {holder}': lambda name=f'{contender.title}, {holder}', statements=statements:
                 held.cell(name, statements, series) for holder, statements in HOLDERS.items()
                 if contender not in textbooks or holder != 'idle with an xid'}
        interleave(bench, 'held', cells, 1 if contender in textbooks else bench.scale(3, 1), 'off')
    bench.series['held'] = series
    for holder in list(HOLDERS)[1:]:
        for contender in filter(None, (JOBQ, BASE)):
            judge(bench, contender, holder, seconds, held.edge)
    for contender in textbooks:
        kept = bench.ratio('held', f'{contender.title}, REPEATABLE READ held', f'{contender.title}, nothing held', 'off')
        bench.note('held', f'The {contender.title} keeps {kept:.2f} of its speed on average over the {seconds} s.')
