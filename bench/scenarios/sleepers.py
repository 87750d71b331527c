# Many workers that sleep in jobq_wait while jobs are enqueued in bursts: a commit must not wake up more workers than it has jobs.
# For comparison, the same workers with a poll every 50 ms, and the textbook table with the same poll.
#
# The jobs circulate: a worker that has completed as many jobs as a burst has enqueues a burst, in one transaction. There are
# fewer jobs than the workers could run at once, so that some workers always sleep.

import time

from cells import interleave, prepare
from contenders import BASE, JOBQ, TEXTBOOK
from load import Running
from measure import server_use

TITLE = 'Sleeping workers'
POLL = '\\sleep 50 ms\n'

WORKER = """WITH c AS ({claim})
SELECT count(*) AS n, coalesce(array_agg(id), '{{}}') AS ids, coalesce(array_agg(lease), '{{}}') AS leases FROM c \\gset
\\if :n > 0
\\set work 1000 * :n
\\sleep :work us
{complete}
\\set owed :owed + :n
\\if :owed >= {burst}
{enqueue}
\\set owed :owed - {burst}
\\endif
\\else
{idle}
\\endif
"""


def run(bench):
    for workers in bench.scale((16, 64, 256), (16, 64)):
        for batch in bench.scale((1, 16, 64), (1, 64)):
            for burst in bench.scale((1, 128), (128,)):
                cell = Cell(bench, workers, batch, burst)
                cells = {cell.name('jobq_wait'): lambda: cell.once(JOBQ, cell.waits(JOBQ)),
                         cell.name('jobq, poll'): lambda: cell.once(JOBQ, POLL),
                         cell.name('textbook, poll'): lambda: cell.once(TEXTBOOK, POLL)}
                if BASE:
                    cells[cell.name('jobq_wait before')] = lambda: cell.once(BASE, cell.waits(BASE))
                interleave(bench, 'sleepers', cells, bench.scale(5, 3), 'off')
                for other, text in (('jobq, poll', 'times a poll every 50 ms'), ('textbook, poll', 'times the textbook')):
                    bench.goal_of_pairs('sleepers', f'{cell.name("jobq_wait")}, {text}', cell.name('jobq_wait'), cell.name(other), 'off', '>=', 1.0)
    JOBQ.reset(bench.conn)
    TEXTBOOK.reset(bench.conn)


class Cell:
    """Workers with a batch size, and jobs in bursts. The workers hold the jobs of an incomplete burst."""

    def __init__(self, bench, workers, batch, burst):
        self.bench, self.workers, self.batch, self.burst = bench, workers, batch, burst
        self.jobs = workers * (burst - 1) + max(workers * batch // 2, burst)
        self.seconds = bench.scale(5, 3)

    def name(self, contender):
        return f'{contender}, {self.workers} workers, batch {self.batch}, bursts of {self.burst}'

    def waits(self, contender):
        knows_batch = self.bench.conn_of(contender).execute(
            "SELECT 'batch' = ANY (proargnames) FROM pg_proc WHERE proname = 'jobq_wait'").fetchone()[0]
        return f"CALL jobq_wait('bench', '1 s'{f', batch => {self.batch}' if knows_batch else ''});\n"

    def once(self, contender, idle):
        prepare(self.bench, contender, self.jobs)
        conn = self.bench.conn_of(contender)
        if contender is TEXTBOOK:
            claim = contender.claim(self.batch, 'j.id, 0 AS lease')
            complete = contender.complete_many.format(table=contender.table)
            enqueue = f"INSERT INTO {contender.table} (queue, payload) SELECT 'bench', bench_payload(n) FROM generate_series(1, {self.burst}) n;"
        else:
            claim = f"SELECT id, lease FROM jobq_claim('bench', batch => {self.batch})"
            complete = 'SELECT count(*) FROM jobq_complete_many(:ids::bigint[], :leases::bigint[]);'
            enqueue = f"SELECT count(*) FROM jobq_enqueue_many('bench', (SELECT array_agg(bench_payload(n)) FROM generate_series(1, {self.burst}) n));"
        script = WORKER.format(claim=claim, complete=complete, enqueue=enqueue, idle=idle, burst=self.burst)
        running = Running(script, self.workers, seconds=self.seconds + 2, variables={'owed': 0}, host=contender.host)
        running.warm_up(conn, 1)
        before, began, used = self.completed(conn, contender), time.monotonic(), server_use(contender.data)[0]
        time.sleep(self.seconds)
        used = server_use(contender.data)[0] - used
        done, took = self.completed(conn, contender) - before, time.monotonic() - began
        running.finish()
        self.audit(conn, contender)
        return {'jobs_per_s': done / took, 'cpu_us_per_job': used / max(done, 1), 'jobs': done, 'audited': True}

    @staticmethod
    def completed(conn, contender):
        return conn.execute(f"SELECT count(*) FROM {contender.table} WHERE status = 'completed'").fetchone()[0]

    def audit(self, conn, contender):
        """Checks that every job was started once, and that the workers completed all claimed jobs."""
        wrong, running = conn.execute(f"SELECT count(*) FILTER (WHERE attempts > 1), count(*) FILTER (WHERE status = 'processing')"
                                      f' FROM {contender.table}').fetchone()
        if wrong or running:
            self.bench.fail(f'{contender.title}, {self.workers} workers: {wrong} jobs were started twice, {running} were not completed')
