# Job control: the cost of limits, fairness, and groups per job, the delay until a successor runs, and a fan-out and fan-in.

import copy
import threading
import time

from cells import SteadyQueue, fill_database, interleave
from contenders import BASE, JOBQ, Jobq
from load import pgbench
from statistic import percentile

TITLE = 'Limits, fairness, groups, dependencies'
CLIENTS = 16
# Relative to the speed without them.
GOALS = {'jobq, limit of 1,000 for the queue': 0.85, 'jobq, ageing of 10 priorities': 0.85, 'jobq, complete_and_claim, 100 groups': 0.7}
# For workers that may find no job for a moment, because the next job of a group becomes claimable only after its predecessor has
# been completed.
PATIENT = ("SELECT coalesce(array_agg(id), '{}') AS ids, coalesce(array_agg(lease), '{}') AS leases "
           "FROM jobq_complete_and_claim(:ids::bigint[], :leases::bigint[], queue => 'bench') \\gset\n")


class Controlled(Jobq):
    """jobq with limits or settings of the queue, or with jobs that differ in one parameter of jobq_enqueue_many. The parameter is
    given by its name and an expression of n, the number of the job."""

    def __init__(self, title, limits=(), settings=None, each=None):
        self.name = self.title = title
        self.limits, self.settings, self.each = limits, settings, each

    def before(self):
        """Returns this contender for the server that is built from the commit BASE."""
        base = copy.copy(self)
        base.title = f'{self.title}, before'
        base.host, base.data = BASE.host, BASE.data
        return base

    def begin(self, conn, jobs):
        if self.settings:
            conn.execute(f"SELECT jobq_create_queue('bench', {self.settings})")
        for limit in self.limits:
            conn.execute(f"SELECT jobq_set_limit('bench', {limit})")
        self.fill(conn, jobs)
        settle_limits(conn)

    def fill(self, conn, jobs, queue='bench', arguments=''):
        if not self.each:
            super().fill(conn, jobs, queue, arguments)
        else:
            self.fill_each(conn, jobs, queue)

    def fill_each(self, conn, jobs, queue):
        parameter, expression = self.each
        for first in range(0, jobs, 10_000):
            count = min(10_000, jobs - first)
            values = f'SELECT array_agg({expression}) FROM generate_series({first}, {first + count - 1}) n'
            super().fill(conn, count, queue, f', {parameter} => ({values})')


def settle_limits(conn):
    """After a limit has changed, claims count the running jobs until the background worker has scanned the jobs, which takes a
    second or two."""
    last = time.monotonic() + 60
    while conn.execute('SELECT EXISTS (SELECT FROM jobq.limit_settings WHERE highest_slot > max_running)').fetchone()[0]:
        if time.monotonic() > last:
            raise TimeoutError('the worker has not looked through the jobs after a change of a limit')
        time.sleep(0.1)


def run(bench):
    limits(bench)
    groups(bench)
    latency(bench)
    fan(bench)


class PatientQueue(SteadyQueue):
    """Some calls of the script find nothing, so a run takes a fixed time and counts completed jobs. `held`: a transaction that is
    older than the whole run stays open."""

    seconds = 2

    def __init__(self, bench, database, contender, held):
        super().__init__(bench, database, PATIENT, contender.fill, CLIENTS, contender=contender)
        if held:
            self.holder = bench.connect(database, host=contender.host)
            self.holder.execute('BEGIN ISOLATION LEVEL REPEATABLE READ')
            self.holder.execute('SELECT 1')

    def completed(self):
        return self.conn.execute("SELECT count(*) FROM jobq.jobs WHERE status = 'completed'").fetchone()[0]

    def run(self, options=''):
        before = self.completed()
        load = pgbench(self.script, self.clients, seconds=self.seconds, variables=JOBQ.fused_variables, database=self.database,
                       options=options, host=self.contender.host)
        done = self.completed() - before
        # At the end, each client holds one job, and this job blocks its group.
        held = self.conn.execute("SELECT count(jobq_complete(id, lease)) FROM jobq.jobs WHERE status = 'processing'").fetchone()[0]
        self.refill(self.conn, done + held)
        self.added += done + held
        return {'jobs_per_s': done / load.seconds, 'jobs': done}

    def audit(self, enqueued, held=0):
        # The background worker is still promoting blocked jobs.
        with self.conn.transaction():
            self.conn.execute('SET TRANSACTION ISOLATION LEVEL REPEATABLE READ')
            audit = JOBQ.audit(self.conn, enqueued + self.added)
            audit.left += self.conn.execute("SELECT count(*) FROM jobq.jobs WHERE status = 'blocked'").fetchone()[0]
        for problem in audit.problems(self.added, 0):
            self.bench.fail(f'{self.database}: {problem}')


def limits(bench):
    """Limits that the load does not reach, so only their cost is measured. Also queues with another order."""
    compare(bench, 50_000, lambda name, contender: SteadyQueue(bench, name, contender.lifecycle(), contender.fill, CLIENTS, 1_500,
                                                               contender=contender), [
        Controlled('jobq'),
        Controlled('jobq, limit of 1,000 for the queue', ['max_running => 1000']),
        Controlled('jobq, limit of 1,000 for each of 100 keys', ["key => '*', max_running => 1000"],
                   each=('concurrency_keys', "'key ' || n % 100")),
        Controlled('jobq, rate of a million per second for the queue', ["rate => 1000000, per => '1 s'"]),
        Controlled('jobq, round-robin over 100 keys', settings='round_robin => true',
                   each=('concurrency_keys', "'key ' || n % 100")),
        Controlled('jobq, ageing of 10 priorities', settings="priority_ageing => '1 min'",
                   each=('priorities', '(n % 10)::int'))])


def groups(bench):
    each = ('group_keys', "'key ' || n % 100")
    few = Controlled('jobq, complete_and_claim, 100 groups', each=each)
    held = Controlled(f'{few.title}, a transaction held open', each=each)
    compare(bench, 100_000, lambda name, contender: PatientQueue(bench, name, contender, held.title in contender.title), [
        Controlled('jobq, complete_and_claim'),
        Controlled('jobq, complete_and_claim, 10,000 groups', each=('group_keys', "'key ' || n % 10000")),
        few, held])
    ratio, interval = bench.paired('control', held.title, few.title, 'off')
    bench.goal('control', f'{held.title}, relative to the same without it', ratio, '>=', 0.9, interval=interval)


def compare(bench, jobs, queue_of, contenders):
    """Measures each in a database of its own with this backlog, in many short turns, relative to the first. With BASE=, also measures
    each contender on the server that is built from the commit BASE."""
    titles = [contender.title for contender in contenders]
    if BASE:
        contenders = [each for contender in contenders for each in (contender, contender.before())]
    queues = {}
    try:
        for number, contender in enumerate(contenders):
            name = f'control_{number}'
            fill_database(bench, name, lambda conn, contender=contender: contender.begin(conn, jobs), contender)
            queues[contender.title] = queue_of(name, contender)
        bench.conn.execute('CHECKPOINT')
        interleave(bench, 'control', {title: queue.run for title, queue in queues.items()}, bench.scale(17, 5), 'off', quiet=True)
        judge(bench, titles)
        for queue in queues.values():
            queue.audit(jobs)
    finally:
        for queue in queues.values():
            queue.close()


def judge(bench, titles):
    plain = titles[0]
    for title in titles[1:]:
        ratio, interval = bench.paired('control', title, plain, 'off')
        if title in GOALS:
            bench.goal('control', f'{title}, relative to "{plain}"', ratio, '>=', GOALS[title], interval=interval)
        else:
            bench.note('control', f'"{title}" processes {ratio:.2f} times as many jobs per second as "{plain}" ({interval}).')
    if BASE:
        for title in titles:
            ratio, interval = bench.paired('control', title, f'{title}, before', 'off')
            bench.note('control', f'"{title}" processes {ratio:.2f} times as many jobs per second as before ({interval}).')


def latency(bench):
    """One group, one worker: the time from just before a completion until the worker has the next job."""
    jobs = bench.scale(1_000, 300)
    JOBQ.reset(bench.conn)
    JOBQ.fill(bench.conn, jobs, 'chain', f", group_keys => array_fill('chain'::text, ARRAY[{jobs}])")
    conn = bench.connect(options='-c synchronous_commit=off')
    took, completing, empty_since = [], None, time.monotonic()
    while len(took) < jobs - 1:
        row = conn.execute("SELECT id, lease FROM jobq_claim('chain', 'worker')").fetchone()
        now = time.monotonic()
        if row is None:
            if now - empty_since > 30:
                bench.fail(f'groups: no successor after {len(took) + 1} jobs')
                break
            conn.execute("CALL jobq_wait('chain', '10 s')")
            continue
        if completing is not None:
            took.append((now - completing) * 1e3)
        completing = empty_since = time.monotonic()
        conn.execute('SELECT jobq_complete(%s, %s)', row)
    conn.close()
    JOBQ.reset(bench.conn)
    if took:
        bench.add('control', "completion to the successor's claim, one group", 'off', 0,
                  {'p50_ms': percentile(took, 0.5), 'p99_ms': percentile(took, 0.99), 'jobs': len(took)})
        bench.goal('control', 'time from the completion of a job to the claim of the next job of its group, p50', percentile(took, 0.5), '<=', 5, 'ms')


def fan(bench):
    """One job, 10,000 jobs that depend on it, and one job that depends on all of these. Four workers."""
    wide = bench.scale(10_000, 2_000)
    for number in range(bench.scale(3, 1)):
        JOBQ.reset(bench.conn)
        started = time.monotonic()
        conn = bench.conn
        conn.execute('SET synchronous_commit = off')
        first = conn.execute("SELECT jobq_enqueue('fan')").fetchone()[0]
        last = conn.execute("""
            SELECT jobq_enqueue('fan', depends_on => (
                SELECT array_agg(job_id) FROM jobq_enqueue_jobs((
                    SELECT jsonb_agg(jsonb_build_object('queue', 'fan', 'depends_on', jsonb_build_array(%s::bigint)))
                    FROM generate_series(1, %s)))))""", (first, wide)).fetchone()[0]
        enqueued = time.monotonic() - started
        workers = [threading.Thread(target=work, args=(bench, 'fan', last)) for _ in range(4)]
        for worker in workers:
            worker.start()
        conn.execute("CALL jobq_wait_job(%s, '60 s')", (last,))
        took = time.monotonic() - started
        for worker in workers:
            worker.join()
        conn.execute('RESET synchronous_commit')
        done = conn.execute("SELECT count(*) FROM jobq.jobs WHERE queue = 'fan' AND status = 'completed'").fetchone()[0]
        if done != wide + 2:
            bench.fail(f'fan: {done} of {wide + 2} jobs were completed')
        bench.add('control', f'fan-out of 1 to {wide:,} to 1, 4 workers, batches of 100', 'off', number,
                  {'jobs_per_s': (wide + 2) / took, 'took_s': took, 'enqueued_s': enqueued})
    JOBQ.reset(bench.conn)
    bench.goal('control', f'time to enqueue and run a job, {wide:,} jobs that depend on it, and a job that depends on all of them',
               bench.median('control', f'fan-out of 1 to {wide:,} to 1, 4 workers, batches of 100', 'off', 'took_s'), '<=', 5, 's')


def work(bench, queue, last):
    """Waits until the job `last` has finished, or until no job has been completed for a while."""
    conn = bench.connect(options='-c synchronous_commit=off')
    ids, leases, idle = [], [], 0
    while idle < 3:
        rows = conn.execute('SELECT id, lease FROM jobq_complete_and_claim(%s::bigint[], %s::bigint[], queue => %s, '
                            'batch => 100)', (ids, leases, queue)).fetchall()
        ids, leases = [row[0] for row in rows], [row[1] for row in rows]
        if rows:
            idle = 0
            continue
        if conn.execute('SELECT finished_at IS NOT NULL FROM jobq.jobs WHERE id = %s', (last,)).fetchone()[0]:
            break
        conn.execute("CALL jobq_wait(%s, '5 s')", (queue,))
        idle += 1
    conn.close()
