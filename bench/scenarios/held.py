# A transaction is held open under full load, with 4 clients and single jobs: either REPEATABLE READ with a snapshot, or idle with
# a transaction ID. Each is compared with the same load without the transaction, second by second, in rounds that begin with a
# different cell each. The textbook runs for comparison. Also, for each of these transactions, how late delayed jobs, retries, and
# schedules are, and how many index entries the server reads for each of them.

import time

from cells import interleave, prepare
from contenders import BASE, JOBQ, TEXTBOOK, TUNED
from load import Drained, Running, pgbench
from statistic import median_and_interval, percentile

TITLE = 'A transaction held open under full load, 4 clients'
CLIENTS = 4
HOLDERS = {
    'nothing held': [],
    'REPEATABLE READ held': ['BEGIN ISOLATION LEVEL REPEATABLE READ', 'SELECT count(*) FROM pg_class'],
    'idle with an xid': ['BEGIN', 'SELECT pg_current_xact_id()'],
}


class Held:
    """Runs a contender under load while the transaction of the statements stays open."""

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


# The indexes whose oldest entries the duties of the background worker could scan.
DUTY_INDEXES = ['jobs_due_idx', 'jobs_running_idx', 'jobs_rescue_idx', 'schedule_settings_due_idx', 'jobs_pkey']
DELAYED_A_SECOND = 150
SCHEDULES = 50


def entries_read(conn):
    time.sleep(2)  # The background worker reports its reads once per second.
    return conn.execute('SELECT sum(idx_tup_read) FROM pg_stat_user_indexes WHERE indexrelname = ANY (%s)', (DUTY_INDEXES,)).fetchone()[0]


def put_delayed(conn):
    """Enqueues the delayed jobs of a tenth of a second."""
    count = DELAYED_A_SECOND // 10
    conn.execute("SELECT count(*) FROM jobq_enqueue_many('bench', array_fill('{}'::jsonb, ARRAY[%s::int]), kind => 'delayed', run_ats => "
                 "ARRAY(SELECT clock_timestamp() + interval '200 ms' + n * interval '100 ms' / %s FROM generate_series(1, %s) n))",
                 (count, count, count))


def work_off(conn):
    """Claims all claimable jobs, fails a fifth of the first attempts, and completes the rest. Records how late each job was
    claimed, in ms."""
    jobs = conn.execute("SELECT id, lease, attempt, 1000 * extract(epoch FROM clock_timestamp() - run_at)::float8 "
                        "FROM jobq_claim('bench', batch => 100)").fetchall()
    if not jobs:
        time.sleep(0.002)
    failed = [job for job in jobs if job[2] == 1 and job[0] % 5 == 0]
    done = [job for job in jobs if job not in failed]
    for job in failed:
        conn.execute("SELECT jobq_fail(%s, %s, 'again', retry_in => '100 ms')", job[:2])
    conn.execute('SELECT count(*) FROM jobq_complete_many(%s, %s)', ([job[0] for job in done], [job[1] for job in done]))
    return [job[3] for job in jobs]


def duties_cell(bench, statements, seconds):
    JOBQ.reset(bench.conn)
    conn, holder = bench.connect(), bench.connect()
    conn.execute("SELECT count(jobq_schedule('held ' || n, '@every 1s', 'bench', kind => 'scheduled')) FROM generate_series(1, %s) n",
                 (SCHEDULES,))
    for statement in statements:
        holder.execute(statement)
    before, late, started, puts = entries_read(bench.conn), [], time.monotonic(), 0
    while (elapsed := time.monotonic() - started) < seconds:
        if elapsed >= puts / 10:
            put_delayed(conn)
            puts += 1
        late += [(elapsed, ms) for ms in work_off(conn)]
    conn.execute('SELECT count(jobq_unschedule(name)) FROM jobq.schedules')
    read = (entries_read(bench.conn) - before) / max(len(late), 1)
    holder.close()
    conn.close()
    edge = min(10, seconds // 3)
    first, last = ([ms for at, ms in late if begin <= at < begin + edge] for begin in (0, seconds - edge))
    return {'jobs_per_s': len(late) / seconds, 'entries_a_job': float(read), 'late_p99_ms': percentile([ms for _, ms in late], 0.99),
            'first_p99_ms': percentile(first, 0.99), 'last_p99_ms': percentile(last, 0.99)}


def delayed(bench):
    seconds = bench.scale(120, 12)
    cells = {f'delayed jobs, retries, and schedules, {holder}': lambda statements=statements: duties_cell(bench, statements, seconds)
             for holder, statements in HOLDERS.items()}
    interleave(bench, 'held', cells, bench.scale(3, 1), 'off')
    without = f'delayed jobs, retries, and schedules, {list(HOLDERS)[0]}'
    for holder in list(HOLDERS)[1:]:
        cell = f'delayed jobs, retries, and schedules, {holder}'
        ratio, interval = bench.paired('held', cell, without, 'off', 'entries_a_job')
        bench.goal('held', f'{cell}: index entries read for each, times those without', ratio, '<=', 2, interval=interval)
        late = [last / first for first, last in zip(bench.values('held', cell, 'off', 'first_p99_ms'),
                                                    bench.values('held', cell, 'off', 'last_p99_ms'))]
        value, interval = median_and_interval(late, 'rounds')
        bench.goal('held', f'{cell}: p99 of their lateness, last seconds, times the first', value, '<=', 2, interval=interval)


def judge(bench, contender, holder, seconds, edge):
    cell = f'{contender.title}, {holder}'
    ratio, interval = bench.paired('held', cell, f'{contender.title}, nothing held', 'off')
    flatness, rounds = median_and_interval(bench.values('held', cell, 'off', 'flatness'), 'rounds')
    if contender is BASE:
        bench.note('held', f'jobq before, {holder}: {ratio:.2f} of its speed without ({interval}), last {edge} s '
                           f'{flatness:.2f} of the first ({rounds}).')
        return
    bench.goal('held', f'{holder} for {seconds} s, 4 clients, relative to the same without it', ratio, '>=', 0.95, interval=interval)
    bench.goal('held', f'{holder}: last {edge} s, relative to the first {edge} s', flatness, '>=', 0.95, interval=rounds)


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
        bench.note('held', f'While REPEATABLE READ is held, the {contender.title} keeps {kept:.2f} of its speed on average over the '
                   f'{seconds} s.')
    delayed(bench)
