# The benefit of the mechanisms of src/core/ablation.h. A build without the mechanism is compared with the full build, in the
# scenario that the mechanism is meant for, in many short turns. Runs only if it is named: make bench ONLY=ablation, with
# WITHOUT="PlaceCache SlotBounds" for some mechanisms. run.sh has started a server for each of these builds.

import os
import threading
import time

from bench import Skip
from cells import SteadyQueue, fill_database, interleave
from contenders import JOBQ, JOBQ_KEEP_0, Jobq

TITLE = 'Ablation: what each mechanism buys'
DATABASE = 'ablation'
MISCOUNTED = """
    SELECT coalesce(sum(abs(s.pending - j.pending) + abs(s.processing - j.processing)), 0)
    FROM jobq.queue_stats s, (SELECT count(*) FILTER (WHERE status = 'pending') AS pending,
                                     count(*) FILTER (WHERE status = 'processing') AS processing FROM jobq.jobs) j
    WHERE s.queue = 'bench'"""


class Without(Jobq):
    """jobq without one mechanism, on a server of its own."""

    def __init__(self, mechanism):
        self.title = f'without {mechanism}'
        self.host = os.path.join(os.path.dirname(os.environ['PGHOST']), f'without-{mechanism}')
        self.data = os.path.join(os.path.dirname(os.environ['BENCH_DATA']), f'without-{mechanism}')


class Single:
    """Claims and completes single jobs, with a constant backlog in a database of its own."""
    title = 'single jobs, 4 clients'
    clients, transactions, per_transaction, backlog = 4, 2000, 1, 50_000
    script, auditor, held = JOBQ.lifecycle(), JOBQ, 0

    def __init__(self, bench, contender):
        self.bench, self.contender = bench, contender
        fill_database(bench, DATABASE, self.fill, contender)
        self.queue = SteadyQueue(bench, DATABASE, self.script, self.refill, self.clients, self.transactions,
                                 self.per_transaction, contender, self.auditor)

    def refill(self, conn, jobs):
        JOBQ.fill(conn, jobs)

    def fill(self, conn):
        self.refill(conn, self.backlog)

    def run(self):
        return self.queue.run()

    def end(self):
        self.queue.audit(self.backlog, self.held)
        self.queue.close()


class Crowd(Single):
    title = 'single jobs, 128 clients'
    clients, transactions = 128, 150


class Batches(Single):
    title = 'batches of 100, 1 client'
    clients, transactions, per_transaction = 1, 100, 100
    script = JOBQ.batch(100)


class Unkept(Single):
    title = 'single jobs of a queue that keeps none, 4 clients'
    auditor = JOBQ_KEEP_0

    def fill(self, conn):
        conn.execute("SELECT jobq_create_queue('bench', keep_completed => '0')")
        super().fill(conn)


class OneSlot(Single):
    title = 'a limit of 1, 1 client'
    clients = 1

    def fill(self, conn):
        conn.execute("SELECT jobq_set_limit('bench', max_running => 1)")
        super().fill(conn)


class Held:
    """A transaction is open during the run."""
    transactions = 1000

    def run(self):
        with self.bench.connect(DATABASE, host=self.contender.host) as holder:
            holder.execute('BEGIN ISOLATION LEVEL REPEATABLE READ')
            holder.execute('SELECT count(*) FROM pg_class')
            return super().run()


class OneGroup(Single):
    title = 'one group, 1 client'
    clients, backlog = 1, 10_000

    def refill(self, conn, jobs):
        JOBQ.fill(conn, jobs, arguments=f", group_keys => array_fill('all'::text, ARRAY[{jobs}])")


class OneSlotHeld(Held, OneSlot):
    title = 'a limit of 1, 1 client, a transaction held open'


class OneGroupHeld(Held, OneGroup):
    title = 'one group, 1 client, a transaction held open'


class InFront(Single):
    title = '2,000 jobs of a key without room in front, 4 clients'
    blocked, transactions = 2000, 250
    held = 1

    def fill(self, conn):
        conn.execute("SELECT jobq_set_limit('bench', '*', max_running => 1)")
        JOBQ.fill(conn, self.blocked, arguments=f", concurrency_keys => array_fill('blocked'::text, ARRAY[{self.blocked}])")
        conn.execute("SELECT count(*) FROM jobq_claim('bench', 'holder', heartbeat_timeout => '10 hours')")
        JOBQ.fill(conn, self.backlog - self.blocked)


class Recounted(Unkept):
    """The table is recounted continuously during the load. Afterward, the counters are compared with the rows."""
    title = 'recounts beside single jobs of a queue that keeps none, 4 clients'
    # jobq_tick() runs a short recount again at once, but pauses after a long one.
    transactions, backlog = 1000, 6000

    def run(self):
        with self.bench.connect(DATABASE, host=self.contender.host) as conn:
            ticker = threading.Thread(target=self.recount, args=(conn,))
            ticker.start()
            try:
                metrics = super().run()
            finally:
                ticker.join()
            return dict(metrics, miscounted=float(conn.execute(MISCOUNTED).fetchone()[0]))

    def recount(self, conn):
        # The recounts end before the load, so that transactions commit during the last recount.
        end = time.monotonic() + 0.3
        while time.monotonic() < end:
            conn.execute('SELECT count(*) FROM jobq_tick()')


# The scenario of each mechanism.
SCENES = {
    'RecentClaims': (Crowd, Single), 'YoungLeases': (Single, Batches), 'ReadAhead': (Single,), 'PlaceCache': (Single,),
    'DirectDeletion': (Unkept,), 'SlotBounds': (OneSlotHeld, OneSlot), 'ThrottledRanges': (InFront,),
    'ExactRecounts': (Recounted,), 'LineStarts': (OneGroupHeld, OneGroup),
}


def compare(bench, mechanism, scene):
    """Measures one scenario on both builds. Returns a row of the table."""
    contenders = {'with': JOBQ, 'without': Without(mechanism)}
    scenes = {}
    try:
        for name, contender in contenders.items():
            scenes[name] = scene(bench, contender)
            scenes[name].queue.conn.execute('CHECKPOINT')
        names = {name: f'{name} {mechanism}: {scene.title}' for name in scenes}
        interleave(bench, 'ablation', {names[name]: scenes[name].run for name in scenes}, bench.scale(21, 7), 'off', quiet=True)
    finally:
        for one in scenes.values():
            one.end()
    speed, speed_interval = bench.paired('ablation', names['with'], names['without'], 'off')
    cpu, cpu_interval = bench.paired('ablation', names['without'], names['with'], 'off', 'cpu_us_per_job')
    bench.say(f'ablation: {mechanism}: {scene.title}: speed {speed:.3f} ({speed_interval}), processor time without it {cpu:.3f} '
              f'({cpu_interval})')
    row = f'| {mechanism} | {scene.title} | {speed:.3f} | {speed_interval} | {cpu:.3f} | {cpu_interval} |'
    wrong = [bench.values('ablation', names[name], 'off', 'miscounted') for name in ('with', 'without')]
    if wrong[0]:
        with_it, without_it = (f'after {sum(count > 0 for count in counts)} of {len(counts)} turns ({sum(counts):.0f} jobs)'
                               for counts in wrong)
        bench.note('ablation', f'{mechanism}: the counters were wrong {with_it} with it, {without_it} without.')
        if sum(wrong[0]) > 0:
            bench.fail(f'{mechanism}: the counters differ from the rows')
    return row


def run(bench):
    mechanisms = os.environ.get('BENCH_WITHOUT', '').split()
    if not mechanisms:
        raise Skip('no build without a mechanism')
    rows = [compare(bench, mechanism, scene) for mechanism in mechanisms for scene in SCENES[mechanism]]
    bench.note('ablation', '\n'.join(['| mechanism | scenario | times the speed without it | | processor time of the server a job '
                                      'without it, times with it | |', '|---|---|--:|---|--:|---|'] + rows))
