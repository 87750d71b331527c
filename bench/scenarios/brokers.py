# jobq and brokers that teams run only for their queue: claim and acknowledge, single jobs and batches, and kill -9 under load.
# The two classes of durability are never compared with each other. on: each answer is durable. off: a crash may lose the last
# answers.

import os
import time

from bench import Skip
from broker_peers import CLIENTS, Absent, ByNode, Postgres, SqlPeer, ahead, batches, killed, single_jobs
from cells import interleave
from measure import DiskWrites

TITLE = 'Brokers: claim and acknowledge'
# Factor for the guess if each change is flushed to disk. A surplus of jobs is costly there, because some contenders enqueue jobs
# one at a time.
SYNCED = 0.15
DURABILITY = {'on': 'durable', 'off': 'asynchronous'}


def run(bench):
    try:
        SqlPeer('jobq', 0).check('on')
    except Absent as reason:
        raise Skip(f'{reason}: build/bench/broker_load.log')
    for sync in ('on', 'off'):
        single = measure(bench, single_jobs(), sync, bench.scale(2.5, 1))
        measure(bench, ahead(), sync, bench.scale(2.5, 1))
        batch = measure(bench, batches(), sync, bench.scale(2, 1))
        judge(bench, sync, single, batch)
        for peer in there(bench, killed(), sync):
            kill(bench, peer, sync)
    notes(bench)


def there(bench, peers, sync):
    """Returns the contenders that can run here. Each reason why others cannot run is printed once."""
    found = []
    for peer in peers:
        try:
            peer.check(sync)
            found.append(peer)
        except Absent as reason:
            broker = peer.title.split(',')[0]
            text = f"{broker} was not measured with {DURABILITY[sync]} writes, because {reason}."
            if text not in bench.notes.get('brokers', []):
                bench.note('brokers', text)
                bench.say(text)
    return found


def measure(bench, peers, sync, seconds):
    """Interleaves the contenders. Returns the titles of those that ran."""
    peers = there(bench, peers, sync)
    cells = {peer.title: lambda peer=peer: cell(bench, peer, sync, seconds) for peer in peers}
    try:
        interleave(bench, 'brokers', cells, bench.scale(3, 1), sync)
    finally:
        for peer in peers:
            peer.end()
    return list(cells)


def cell(bench, peer, sync, seconds):
    key = ('brokers', peer.title, sync)
    guess = peer.guess * (SYNCED if sync == 'on' else 1)
    for _ in range(6):
        jobs = int(max(bench.rates.get(key, guess) * seconds * 1.4, 4 * peer.clients * peer.batch) / 1000 + 1) * 1000
        peer.serve(sync)
        try:
            bench.conn.execute('CHECKPOINT')
            disk = DiskWrites(peer.data_directory())
            peer.fill(bench, jobs)
            enqueue_written = disk.done()
            lsn = wal_position(bench)
            told, server_us, written = peer.work(seconds)
            done = told['acknowledged']
            if told['drained'] or done >= jobs - peer.clients * peer.batch:
                bench.rates[key] = 2.5 * bench.rates.get(key, guess)
                continue
            metrics = {'jobs_per_s': done / told['seconds'], 'cpu_us_per_job': server_us / done,
                       'client_cpu_us_per_job': told['client_cpu_s'] * 1e6 / done, 'disk_per_job': per_job(written, done), 'enqueue_disk_per_job': per_job(enqueue_written, jobs),
                       'p50_ms': told['p50_ms'], 'p99_ms': told['p99_ms'], 'jobs': done}
            if isinstance(peer, Postgres):
                metrics['wal_per_job'] = (wal_position(bench) - lsn) / done
                metrics['checkpoint_per_job'] = per_job(pages_of_a_checkpoint(bench), jobs)
            for problem in audit(bench, peer, jobs):
                bench.fail(f'{peer.title}, synchronous_commit {sync}: {problem}')
            bench.rates[key] = max(metrics['jobs_per_s'] * 1.15, bench.rates.get(key, 0))
            return metrics
        finally:
            peer.rest()
    raise RuntimeError(f'{peer.title}: the queue drained at every attempt')


def wal_position(bench):
    return int(bench.conn.execute("SELECT pg_current_wal_insert_lsn() - '0/0'").fetchone()[0])


def per_job(bytes_, jobs):
    return None if bytes_ is None else bytes_ / jobs


def pages_of_a_checkpoint(bench):
    disk = DiskWrites(os.environ['BENCH_DATA'])
    bench.conn.execute('CHECKPOINT')
    return disk.done()


def audit(bench, peer, jobs):
    if isinstance(peer, ByNode):
        problems = peer.peer.problems(bench.conn, jobs, peer.told)
    else:
        worked = peer.worked()
        problems = peer.audit(jobs, worked, peer.left())
        if isinstance(peer, SqlPeer):
            problems += peer.contender.audit(bench.conn, jobs).problems(len(worked.acknowledged))
    if isinstance(peer, Postgres):
        peer.contender.reset(bench.conn)
    return problems


def kill(bench, peer, sync):
    """Kills the server during a run, starts it again, and compares the answers that the clients got with the jobs that are
    left."""
    backlog = int(peer.guess * (SYNCED if sync == 'on' else 1) * 6 / 1000 + 10) * 1000
    for _ in range(4):
        told, left = strike(bench, peer, sync, backlog)
        if len(told.delivered) < backlog:
            break
        backlog *= 3    # the queue was empty before the kill
    else:
        raise RuntimeError(f'{peer.title}: the queue drained before each kill')
    enqueued = told.enqueued | set(range(1, backlog + 1))
    lost = len(enqueued - told.delivered - left.left)
    # Each client had at most one acknowledgement in progress. The server may have executed it without an answer.
    unanswered = len(told.delivered - told.acknowledged - left.left)
    lost += max(0, unanswered - CLIENTS)
    doubled = len(told.acknowledged & left.left) + told.twice('d') + left.twice('l')
    bench.add('brokers', f'{peer.title}, after kill -9', sync, 0,
              {'answered_enqueues': len(told.enqueued), 'answered_acknowledgements': len(told.acknowledged), 'lost': lost, 'doubled': doubled})
    bench.say(f'brokers: {peer.title}, synchronous_commit {sync}, kill -9: {len(told.enqueued)} enqueued, '
              f'{len(told.acknowledged)} acknowledged, {lost} lost, {doubled} doubled')
    if sync == 'on' and isinstance(peer, SqlPeer) and (lost or doubled):
        bench.fail(f'kill -9 with synchronous_commit on: {lost} jobs lost, {doubled} doubled')


def strike(bench, peer, sync, backlog):
    getattr(peer, 'serve_own', peer.serve)(sync)
    try:
        peer.fill(bench, backlog)

        def kill_server():
            time.sleep(bench.scale(2, 1))
            peer.server.kill()

        told = peer.crash(backlog + 1, kill_server)
        peer.server.start()
        return told, peer.left()
    finally:
        peer.end()


def judge(bench, sync, single, batch):
    def best(titles, *brokers):
        speeds = [(bench.median('brokers', title, sync), title) for title in titles if title.startswith(brokers)]
        return max(speeds, default=(None, None))[1]

    def goal(text, own, other, target):
        if own and other:
            ratio, interval = bench.paired('brokers', own, other, sync)
            bench.goal('brokers', text, ratio, '>=', target, note=f'{own}; {other}', interval=interval)

    others = ('Redis', 'beanstalkd', 'NATS', 'RabbitMQ', 'BullMQ')
    own, own_batch = 'jobq, one call', best(batch, 'jobq')
    if sync == 'on':
        goal('durable, one call, relative to the fastest broker', own, best(single, *others), 1.5)
        goal('durable, batches of 100, relative to the fastest broker', own_batch, best(batch, *others), 1.2)
    else:
        goal('asynchronous, one call, relative to Redis streams', own, best(single, 'Redis streams'), 1)
        goal('asynchronous, one call, relative to BullMQ', own, best(single, 'BullMQ'), 2)
        goal('asynchronous, batches of 100, relative to Redis streams', own_batch, best(batch, 'Redis streams'), 0.8)
    durability = DURABILITY[sync]
    for titles, of_jobq in ((single, own), (batch, own_batch)):
        winner, bare = best(titles, *others), best(titles, 'bare rows')
        if not winner:
            continue
        if of_jobq:
            ratio, interval = bench.paired('brokers', winner, of_jobq, sync)
            if ratio > 1:
                bench.note('brokers', f'With {durability} writes, the fastest broker ("{winner}") processes {ratio:.2f} times as many '
                           f'jobs per second as "{of_jobq}" ({interval}).')
        if bare:
            ratio, interval = bench.paired('brokers', bare, winner, sync)
            bench.note('brokers', f'With {durability} writes, "{bare}" (not a queue) processes {ratio:.2f} times as many jobs per second '
                       f'as "{winner}" ({interval}).')


def notes(bench):
    bench.note('brokers', 'Settings. *Durable* means that each change is on disk before the server confirms it: synchronous_commit is on '
               'in PostgreSQL, appendfsync is always in Redis, beanstalkd runs with -f 0, and RabbitMQ uses a quorum queue. '
               '*Asynchronous* means that a crash may lose the last changes: synchronous_commit is off, appendfsync is '
               'everysec, beanstalkd runs with -f 1000, RabbitMQ uses a durable classic queue, and NATS uses its defaults, '
               'which call fsync every two minutes. Enqueues into RabbitMQ use publisher confirms. The clients of RabbitMQ, '
               "BullMQ, graphile-worker, and pg-boss run in one Node process, as does \"jobq's client\". The other clients run "
               'in one C++ program (bench/brokers). The clients of NATS and RabbitMQ connect with TCP. jobq, the textbook, '
               'pgmq, pg-boss, BullMQ, and Redis streams without XDEL keep finished jobs, and the others delete them.')
    bench.note('brokers', 'Names of the cells. *One call* and *one round trip* mean that the client sends each acknowledgement together '
               'with the next claim, which the libraries of RabbitMQ and BullMQ always do. *Slots* is the number of handlers '
               "that jobq's client runs in parallel. *Ahead* is the number of jobs that the client fetches in advance, so that "
               'other workers cannot claim these jobs. *Bare rows* are not a queue, but a table with only a key. The client '
               'updates each row twice and takes the keys from a sequence.')
    bench.note('brokers', 'Columns. p50 and p99 are the times of a lifecycle or, in batches, of a batch. "Enqueue, disk bytes/job" '
               'contains the bytes that were written to disk during the enqueues, and "disk bytes/job" contains the bytes that '
               'were written during the run. Each measurement ends with a sync, and includes the journal of the file system. '
               '"Pages at a checkpoint" are the bytes per enqueued job that a checkpoint after the run wrote. The picture shows '
               'the sum of these three columns. The runs are too short for Redis to rewrite its log and for vacuum to start.')
    bench.note('brokers', 'After kill -9. These cells are from one run each, in which kill -9 ended all processes of the server while 16 '
               'clients claimed and acknowledged jobs and 4 clients enqueued jobs. *Lost* is the number of jobs whose enqueue '
               'the server had confirmed, but which were not delivered and do not exist after the restart. *Doubled* is the '
               'number of jobs whose acknowledgement the server had confirmed, but which it would deliver again. RabbitMQ does '
               'not confirm acknowledgements, so a job counts as acknowledged when the next job has arrived. The machine keeps '
               'running during this test, so data that the server has passed to the kernel survives. In a power failure, this '
               'data would also be lost. So Redis, beanstalkd, and NATS would lose more jobs than in this test, but jobq would '
               'not.')
