# A cell is a fresh table, a fill, a load, its cost, and its audit. A round interleaves the cells of a group. Called by the
# scenarios. If a job is lost or run twice, the whole benchmark fails.

from contenders import JOBQ
from load import Drained, Running, pgbench
from measure import Probe


def prepare(bench, contender, jobs):
    """Creates a fresh, vacuumed table with this number of jobs. The first change of each page after a checkpoint happens in the
    fill, not in the run."""
    conn = bench.conn_of(contender)
    contender.reset(conn)
    conn.execute('CHECKPOINT')
    contender.fill(conn, jobs)
    for table in contender.tables:
        conn.execute(f'VACUUM ANALYZE {table}')


def run_cell(bench, contender, script, clients, sync, seconds, guess, per_transaction=1, held=0, variables=None,
             key=None, warmup=0, options=''):
    """Runs script until the time is up. guess: expected jobs per second, until a run has measured the rate. warmup: number of
    seconds after all sessions have connected that count only for the audit."""
    key = key or (contender.name, script, clients, options)
    rate = bench.rates.get(key, guess)
    for _ in range(6):
        jobs = int(max(rate * seconds * 1.5, 2 * clients * per_transaction) / 100 + 1) * 100
        prepare(bench, contender, jobs)
        conn = bench.conn_of(contender)
        probe = Probe(conn, contender.tables, contender.data)
        try:
            running = Running(script, clients, seconds=seconds, sync=sync, variables=variables, host=contender.host, options=options)
            if warmup:
                running.warm_up(conn, warmup)
                probe = Probe(conn, contender.tables, contender.data)
            load = running.finish()
        except Drained:
            rate *= 2.5
            bench.rates[key] = rate
            continue
        done = load.transactions * per_transaction
        cost = probe.done(load.measured * per_transaction)
        bench.rates[key] = max(load.tps * per_transaction * 1.15, bench.rates.get(key, 0))
        audit = contender.audit(conn, jobs)
        for problem in audit.problems(done - held, held):
            bench.fail(f'{contender.title}, {clients} clients, synchronous_commit {sync}: {problem}')
        contender.reset(conn)
        return dict(cost, jobs_per_s=load.tps * per_transaction, p50_ms=load.percentile_ms(0.5),
                    p99_ms=load.percentile_ms(0.99), jobs=done, audited=True)
    raise RuntimeError(f'{contender.title}: the queue drained at every attempt')


def interleave(bench, group, cells, rounds, sync, quiet=False):
    """cells: name -> function that runs the cell once. Each round begins with a different cell."""
    names = list(cells)
    for number in range(rounds):
        turn = number % len(names)
        for name in names[turn:] + names[:turn]:
            metrics = cells[name]()
            bench.add(group, name, sync, number, metrics)
            if not quiet:
                bench.say(f'{group}: {name}, synchronous_commit {sync}, round {number + 1}: {describe(metrics)}')


def against_first(bench, group, cells, rounds, goal, least):
    """Interleaves the cells and compares each with the first cell. goal: a format string for the name of a cell. least: the
    lowest acceptable ratio."""
    bench.conn.execute('CHECKPOINT')
    interleave(bench, group, cells, rounds, 'off', quiet=True)
    first, *others = cells
    for name in others:
        bench.goal_of_pairs(group, goal.format(name), name, first, 'off', '>=', least)


def fill_database(bench, name, fill, contender=JOBQ):
    """Creates a database with jobq. fill(conn) adds millions of jobs while autovacuum is off."""
    conn = bench.fresh_database(name, contender.host)
    conn.execute('SET synchronous_commit = off')
    conn.execute('ALTER TABLE jobq.jobs SET (autovacuum_enabled = off)')
    fill(conn)
    conn.execute('VACUUM (FREEZE, ANALYZE) jobq.jobs')
    conn.execute('ALTER TABLE jobq.jobs RESET (autovacuum_enabled)')
    conn.close()


class SteadyQueue:
    """A database of its own with a constant backlog: the jobs that a short run takes are replaced before the next run."""

    def __init__(self, bench, database, script, refill, clients=4, transactions=2000, per_transaction=1, contender=JOBQ,
                 auditor=JOBQ):
        self.bench, self.database, self.script, self.refill = bench, database, script, refill
        self.clients, self.transactions, self.runs, self.added = clients, transactions, 0, 0
        self.per_transaction, self.contender, self.auditor = per_transaction, contender, auditor
        self.conn = bench.connect(database, host=contender.host)

    def run(self, options=''):
        jobs = self.clients * self.transactions * self.per_transaction
        if self.runs > 0:
            self.refill(self.conn, jobs)
            self.added += jobs
        probe = Probe(self.conn, data=self.contender.data)
        load = pgbench(self.script, self.clients, transactions=self.transactions, database=self.database, options=options,
                       host=self.contender.host)
        self.runs += 1
        return {'cpu_us_per_job': probe.done(jobs)['cpu_us_per_job'], 'jobs_per_s': load.tps * self.per_transaction, 'p50_ms': load.percentile_ms(0.5), 'p99_ms': load.percentile_ms(0.99)}

    def audit(self, enqueued, held=0):
        done = self.runs * self.clients * self.transactions * self.per_transaction
        for problem in self.auditor.audit(self.conn, enqueued + self.added).problems(done, held):
            self.bench.fail(f'{self.database}: {problem}')

    def close(self):
        self.conn.close()
        self.bench.drop_database(self.database, self.contender.host)


def describe(metrics):
    rate = metrics.get('jobs_per_s')
    return f'{rate:,.0f}/s' if rate is not None else ', '.join(f'{k} {v}' for k, v in list(metrics.items())[:3])
