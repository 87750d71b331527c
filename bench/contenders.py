# The contenders that pgbench drives: the schema, fill, scripts, and audit of each. Called by cells.py and the scenarios. Every
# script ends with an error when it gets no job, so that a cell never measures an empty queue by mistake.

import os

PAYLOAD_BYTES = 100

# All contenders use the same payload: 100 bytes of JSON text, different for each job.
COMMON = """
CREATE FUNCTION bench_payload(n bigint) RETURNS jsonb IMMUTABLE PARALLEL SAFE LANGUAGE sql AS
$$ SELECT ('{"n": "' || lpad(n::text, 12, '0') || '", "text": "' || repeat('x', 67) || '"}')::jsonb $$;
CREATE FUNCTION bench_noise(n bigint, bytes int) RETURNS jsonb IMMUTABLE PARALLEL SAFE LANGUAGE sql AS
$$ SELECT to_jsonb(left(string_agg(md5(n || ' ' || i), ''), bytes)) FROM generate_series(1, bytes / 32 + 1) i $$;
"""

# A client that works in batches reads the payloads, too. pgbench accepts only one row, so the payloads are one string.
PAYLOADS = "string_agg(payload::text, ' ') AS payloads"


def payloads_once(size, payload):
    """Each client reads the array of payloads in its first transaction and sends it in every transaction."""
    return (f'\\if :ready\n\\else\nSELECT array_agg({payload}) AS payloads FROM generate_series(1, {size}) n '
            '\\gset\n\\set ready 1\n\\endif\n')


class Audit:
    """What the table contains after a run. problems() compares it with the answers that the clients got."""

    def __init__(self, enqueued, completed, left, running, repeated):
        self.enqueued, self.completed, self.left = enqueued, completed, left
        self.running, self.repeated = running, repeated

    def problems(self, acknowledged, held=0):
        found = []
        if self.completed + self.left + self.running != self.enqueued:
            found.append(f'enqueued {self.enqueued}, but completed {self.completed} + left {self.left} + running '
                         f'{self.running}')
        if self.completed != acknowledged:
            found.append(f'clients were told of {acknowledged} completions, the table has {self.completed}')
        if self.running != held:
            found.append(f'{self.running} jobs are running, the clients hold {held}')
        if self.repeated:
            found.append(f'{self.repeated} jobs were started more than once')
        return found


class Contender:
    """Where a contender runs. The subclass defines the schema, fill, scripts, and audit. statements(): the statements for
    bench/brokers/postgres.cpp."""
    host = data = None     # None: the usual server


class Textbook(Contender):
    """The pattern of many blog posts: one table, a status, an index on it, and FOR UPDATE SKIP LOCKED."""
    name = 'textbook'
    title = 'textbook'
    table = 'textbook_jobs'
    tables = ['textbook_jobs']
    schema = """
CREATE TABLE textbook_jobs (
    id           bigserial PRIMARY KEY,
    queue        text NOT NULL,
    status       text NOT NULL DEFAULT 'pending',
    priority     integer NOT NULL DEFAULT 0,
    run_at       timestamptz NOT NULL DEFAULT now(),
    attempts     integer NOT NULL DEFAULT 0,
    max_attempts integer NOT NULL DEFAULT 20,
    payload      jsonb NOT NULL DEFAULT '{}',
    created_at   timestamptz NOT NULL DEFAULT now(),
    locked_by    text,
    locked_at    timestamptz,
    finished_at  timestamptz,
    error        text
);
CREATE INDEX ON textbook_jobs (queue, status, priority, run_at, id);
"""
    returning = 'j.id, j.payload'
    complete_one = "UPDATE {table} SET status = 'completed', finished_at = now() WHERE id = :id;\n"
    complete_many = "UPDATE {table} SET status = 'completed', finished_at = now() WHERE id = ANY (:ids::bigint[]);\n"

    def setup(self, conn):
        conn.execute(self.schema)

    def reset(self, conn):
        conn.execute(f'TRUNCATE {self.table}')

    def fill(self, conn, jobs, payload='bench_payload(n)'):
        conn.execute(f"INSERT INTO {self.table} (queue, payload) SELECT 'bench', {payload} "
                     f"FROM generate_series(1, {jobs}) n")

    def claim(self, batch, returning):
        return (f"WITH next AS (SELECT id FROM {self.table} WHERE queue = 'bench' AND status = 'pending' "
                f"AND run_at <= now() ORDER BY priority, run_at, id LIMIT {batch} FOR UPDATE SKIP LOCKED) "
                f"UPDATE {self.table} j SET status = 'processing', attempts = j.attempts + 1, "
                f"locked_by = 'bench', locked_at = now() FROM next WHERE j.id = next.id RETURNING {returning}")

    def lifecycle(self):
        return self.claim(1, self.returning) + ' \\gset\n' + self.complete_one.format(table=self.table)

    # Both statements in one: it completes the jobs that the client holds and claims the next ones. The count forces it to
    # complete first. Otherwise, a claim would keep locks on jobs that it has lost to other clients, and two clients could wait
    # for each other.
    fused_variables = {'ids': '{}'}

    def both(self, batch, ids, returning):
        # A single row has a generic plan. For an array, the server would make a new plan each time.
        which = f'id = ({ids})[1]' if batch == 1 else f'id = ANY ({ids})'
        return (f"WITH done AS (UPDATE {self.table} SET status = 'completed', finished_at = now() WHERE {which} RETURNING 1), "
                + self.claim(batch, returning).removeprefix('WITH ').replace('WHERE', 'WHERE (SELECT count(*) FROM done) >= 0 AND', 1))

    def fused(self):
        return self.both(1, ':ids::bigint[]', 'ARRAY[j.id] AS ids, j.payload') + ' \\gset\n'

    def statements(self, batch):
        complete = self.complete_one if batch == 1 else self.complete_many
        complete = complete.format(table=self.table).replace(':ids', '$1').replace(':id', '$1').rstrip(';\n')
        return {'claim': self.claim(batch, 'j.id, 0 AS lease, j.payload'),
                'complete': complete + (' AND $2::bigint = 0' if batch == 1 else ' AND $2::bigint[] IS NOT NULL'),
                'both': self.both(batch, '$1::bigint[]', 'j.id, 0, j.payload').replace(' RETURNING 1', ' AND $2::bigint[] IS NOT NULL RETURNING 1', 1),
                'left': f"SELECT payload FROM {self.table} WHERE status <> 'completed'"}

    def batch(self, size):
        return (f"WITH claimed AS ({self.claim(size, self.returning)}) "
                f"SELECT array_agg(id) AS ids, {PAYLOADS} FROM claimed \\gset\n" + self.complete_many.format(table=self.table))

    def empty(self):
        return self.claim(1, self.returning) + ';\n'

    def enqueue_many(self, size, payload='bench_payload(n)'):
        return payloads_once(size, payload) + (f"INSERT INTO {self.table} (queue, payload) "
                                      "SELECT 'bench', p FROM unnest(:payloads::jsonb[]) p;\n")

    def audit(self, conn, enqueued):
        row = conn.execute(f"""
            SELECT count(*), count(*) FILTER (WHERE status = 'completed'), count(*) FILTER (WHERE status = 'pending'),
                   count(*) FILTER (WHERE status = 'processing'), count(*) FILTER (WHERE attempts > 1)
            FROM {self.table}""").fetchone()
        return Audit(enqueued, row[1], row[2], row[3], row[4] + abs(row[0] - enqueued))


class Tuned(Textbook):
    """The textbook table, tuned as the best descriptions advise: a partial index, room for HOT updates, vacuum without a cost
    limit, DELETE."""
    name = 'tuned'
    title = 'tuned textbook'
    table = 'tuned_jobs'
    tables = ['tuned_jobs']
    schema = Textbook.schema.replace('textbook_jobs', 'tuned_jobs').replace(
        'CREATE INDEX ON tuned_jobs (queue, status, priority, run_at, id);',
        "CREATE INDEX ON tuned_jobs (queue, priority, run_at, id) WHERE status = 'pending';\n"
        'ALTER TABLE tuned_jobs SET (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.01, '
        'autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_cost_delay = 0);')
    complete_one = 'DELETE FROM {table} WHERE id = :id RETURNING id AS done \\gset\n'
    complete_many = 'DELETE FROM {table} WHERE id = ANY (:ids::bigint[]);\n'

    def audit(self, conn, enqueued):
        # If two clients had the same job, one of them would delete it, and the DELETE of the other would return no row.
        row = conn.execute(f"""
            SELECT count(*), count(*) FILTER (WHERE status = 'pending'), count(*) FILTER (WHERE status = 'processing'),
                   count(*) FILTER (WHERE attempts > 1) FROM {self.table}""").fetchone()
        return Audit(enqueued, enqueued - row[0], row[1], row[2], row[3])


class Bare(Contender):
    """Not a queue, but a table with only a key. A client updates each row twice and takes the keys from a sequence. It does not
    order jobs by time or priority, skips no rows, and checks no leases: the minimum work of an SQL queue that uses one
    statement per job."""
    name = title = 'bare rows'
    table = 'bare_rows'
    tables = ['bare_rows']

    def setup(self, conn):
        conn.execute('CREATE TABLE bare_rows (id bigint PRIMARY KEY, status int NOT NULL, payload jsonb) WITH (fillfactor = 50); '
                     'CREATE SEQUENCE bare_next')

    def reset(self, conn):
        conn.execute('TRUNCATE bare_rows; ALTER SEQUENCE bare_next RESTART')

    def fill(self, conn, jobs):
        conn.execute(f'INSERT INTO bare_rows SELECT n, 0, bench_payload(n) FROM generate_series(1, {jobs}) n')

    def statements(self, batch):
        rows = 'id = last' if batch == 1 else f'id > last - {batch} AND id <= last'
        claim = (f"UPDATE bare_rows SET status = 1 FROM (SELECT {batch} * nextval('bare_next') AS last) next "
                 f'WHERE {rows} RETURNING id, 0, payload')
        # A single row has a generic plan. For an array, the server would make a new plan each time.
        which = 'id = ($1::bigint[])[1]' if batch == 1 else 'id = ANY ($1::bigint[])'
        done = f'UPDATE bare_rows SET status = 2 WHERE {which} AND $2::bigint[] IS NOT NULL'
        one = 'UPDATE bare_rows SET status = 2 WHERE id = $1 AND $2::bigint = 0'
        return {'claim': claim, 'complete': one if batch == 1 else done, 'both': f'WITH done AS ({done}) {claim}',
                'left': 'SELECT payload FROM bare_rows WHERE status < 2'}

    def audit(self, conn, enqueued):
        row = conn.execute("""SELECT count(*), count(*) FILTER (WHERE status = 2), count(*) FILTER (WHERE status = 0),
                                       count(*) FILTER (WHERE status = 1) FROM bare_rows""").fetchone()
        return Audit(enqueued, row[1], row[2], row[3], abs(row[0] - enqueued))


class Jobq(Contender):
    name = 'jobq'
    title = 'jobq'
    table = 'jobq.jobs'
    tables = ['jobq.jobs', 'jobq.attempts']

    def setup(self, conn):
        conn.execute('CREATE EXTENSION IF NOT EXISTS jobq')

    def reset(self, conn):
        conn.execute('TRUNCATE jobq.jobs, jobq.attempts')
        conn.execute("DELETE FROM jobq.queue_settings WHERE queue = 'bench'")

    def fill(self, conn, jobs, queue='bench', arguments='', payload='bench_payload(n)', arrays=()):
        """arrays: pairs of the name of an array argument and an expression of n for its elements."""
        chunk = 10_000
        for start in range(0, jobs, chunk):
            numbers = f'generate_series({start + 1}, {min(start + chunk, jobs)}) n'
            more = ''.join(f', {name} => (SELECT array_agg({element}) FROM {numbers})' for name, element in arrays)
            conn.execute(f"SELECT count(*) FROM jobq_enqueue_many('{queue}', (SELECT array_agg({payload}) "
                         f"FROM {numbers}){arguments}{more})")

    def lifecycle(self):
        return ("SELECT id, lease, payload FROM jobq_claim('bench') \\gset\n"
                'SELECT jobq_complete(:id, :lease) AS done \\gset\n')

    # Each client keeps the jobs that it holds in variables between its transactions. Its first call only claims.
    fused_variables = {'ids': '{}', 'leases': '{}'}

    def fused(self):
        return ("SELECT ARRAY[id] AS ids, ARRAY[lease] AS leases, payload "
                "FROM jobq_complete_and_claim(:ids::bigint[], :leases::bigint[], queue => 'bench') \\gset\n")

    def batch(self, size):
        return (f'SELECT array_agg(id) AS ids, array_agg(lease) AS leases, {PAYLOADS} '
                f"FROM jobq_claim('bench', batch => {size}) \\gset\n"
                'SELECT count(*) AS done FROM jobq_complete_many(:ids::bigint[], :leases::bigint[]) \\gset\n')

    def statements(self, batch):
        more = f', batch => {batch}' if batch > 1 else ''
        return {'claim': f"SELECT id, lease, payload FROM jobq_claim('bench'{more})",
                'complete': 'SELECT jobq_complete($1, $2)::int' if batch == 1
                else 'SELECT count(*) FILTER (WHERE completed) FROM jobq_complete_many($1, $2)',
                'both': f"SELECT id, lease, payload FROM jobq_complete_and_claim($1::bigint[], $2::bigint[], queue => 'bench'{more})",
                'left': "SELECT payload FROM jobq.jobs WHERE status IN ('pending', 'scheduled', 'processing')",
                'enqueue': "SELECT jobq_enqueue('bench', $1::jsonb)"}

    def empty(self):
        return "SELECT id, lease, payload FROM jobq_claim('bench');\n"

    def enqueue_many(self, size, payload='bench_payload(n)'):
        return payloads_once(size, payload) + "SELECT count(*) FROM jobq_enqueue_many('bench', :payloads::jsonb[]);\n"

    def audit(self, conn, enqueued):
        row = conn.execute("""
            SELECT count(*), count(*) FILTER (WHERE status = 'completed'),
                   count(*) FILTER (WHERE status IN ('pending', 'scheduled')),
                   count(*) FILTER (WHERE status = 'processing'),
                   count(*) FILTER (WHERE attempts > 1) + (SELECT count(*) FROM jobq.attempts)
            FROM jobq.jobs""").fetchone()
        return Audit(enqueued, row[1], row[2], row[3], row[4] + abs(row[0] - enqueued))


class UnkeptJobq(Jobq):
    """A queue that deletes a job when it is completed, as graphile-worker and the tuned textbook do."""
    name = 'jobq_keep_0'
    title = 'jobq, keep 0'

    def reset(self, conn):
        super().reset(conn)
        conn.execute("SELECT jobq_create_queue('bench', keep_completed => '0')")

    def audit(self, conn, enqueued):
        # If two clients had the same job, one of them would complete it, and jobq would tell the other that its lease is lost.
        row = conn.execute("""
            SELECT count(*), count(*) FILTER (WHERE status IN ('pending', 'scheduled')),
                   count(*) FILTER (WHERE status = 'processing'),
                   count(*) FILTER (WHERE attempts > 1) + (SELECT count(*) FROM jobq.attempts),
                   count(*) FILTER (WHERE status NOT IN ('pending', 'scheduled', 'processing'))
            FROM jobq.jobs""").fetchone()
        return Audit(enqueued, enqueued - row[0], row[1], row[2], row[3] + row[4])


class BaseJobq(Jobq):
    """jobq at the commit that BASE= names, on a server of its own."""
    name = 'base'
    title = 'jobq before'
    host = os.environ.get('BENCH_BASE_HOST')
    data = os.environ.get('BENCH_BASE_DATA')


class SmallPagesJobq(Jobq):
    """jobq on a server with memory pages of 4 kB, if the usual server uses huge pages."""
    name = 'small_pages'
    title = 'jobq, pages of 4 kB'
    host = os.environ.get('BENCH_SMALL_HOST')
    data = os.environ.get('BENCH_SMALL_DATA')


class Pgmq(Contender):
    """Messages become invisible for a time and are archived when they are done. Runs if the server has the extension."""
    name = 'pgmq'
    title = 'pgmq'
    tables = ['pgmq.q_bench', 'pgmq.a_bench']

    def installed(self, conn):
        return conn.execute("SELECT count(*) FROM pg_available_extensions WHERE name = 'pgmq'").fetchone()[0] > 0

    def reset(self, conn):
        conn.execute('CREATE EXTENSION IF NOT EXISTS pgmq')
        conn.execute("SELECT pgmq.drop_queue('bench') FROM pgmq.list_queues() WHERE queue_name = 'bench'")
        conn.execute("SELECT pgmq.create('bench')")

    def fill(self, conn, jobs):
        for start in range(0, jobs, 10_000):
            conn.execute(f"SELECT count(*) FROM pgmq.send_batch('bench', (SELECT array_agg(bench_payload(n)) "
                         f"FROM generate_series({start + 1}, {min(start + 10_000, jobs)}) n))")

    def statements(self, batch):
        archive = ("SELECT pgmq.archive('bench', $1::bigint)::int WHERE $2::bigint = 0" if batch == 1
                   else "SELECT count(*) FROM pgmq.archive('bench', $1::bigint[]) WHERE $2::bigint[] IS NOT NULL")
        return {'claim': f"SELECT msg_id, 0, message FROM pgmq.read('bench', 600, {batch})", 'complete': archive,
                'left': "SELECT message FROM pgmq.q_bench"}

    def audit(self, conn, enqueued):
        left, running, repeated, done = conn.execute("""
            SELECT count(*) FILTER (WHERE read_ct = 0), count(*) FILTER (WHERE read_ct > 0), count(*) FILTER (WHERE read_ct > 1),
                   (SELECT count(*) FROM pgmq.a_bench) FROM pgmq.q_bench""").fetchone()
        return Audit(enqueued, done, left, running, repeated)


class PgQ(Contender):
    """Acknowledges whole batches in order and keeps no state per job. It is a reference point, not a competitor."""
    tables = ['pgq.event_template']

    def __init__(self, size):
        self.size = size
        self.name, self.title = f'pgq_{size}', f'PgQ (whole batches of {size:,})'

    def setup(self, conn):
        conn.execute('CREATE EXTENSION IF NOT EXISTS pgq')

    def reset(self, conn):
        if conn.execute("SELECT count(*) FROM pgq.queue WHERE queue_name = 'bench'").fetchone()[0]:
            conn.execute("SELECT pgq.drop_queue('bench', true)")
        conn.execute("SELECT pgq.create_queue('bench')")
        # For the first batch, the ticker counts one event too few, because it starts at 1 instead of 0.
        conn.execute(f"SELECT pgq.set_queue_config('bench', 'ticker_max_count', '{self.size - 1}')")
        conn.execute("SELECT pgq.ticker('bench')")
        conn.execute("SELECT pgq.register_consumer('bench', 'worker')")

    def fill(self, conn, jobs):
        # A batch contains the events between two ticks, and a tick sees only committed events.
        conn.execute('SET synchronous_commit = off')
        for start in range(0, jobs, self.size):
            conn.execute(f"SELECT count(pgq.insert_event('bench', 'job', bench_payload(n)::text)) "
                         f"FROM generate_series({start + 1}, {start + self.size}) n")
            conn.execute("SELECT pgq.ticker('bench')")
        conn.execute('RESET synchronous_commit')

    def batch(self, size):
        return ("SELECT pgq.next_batch('bench', 'worker') AS batch \\gset\n"
                "SELECT count(*) AS events, string_agg(ev_data, ' ') AS payloads FROM pgq.get_batch_events(:batch::bigint) \\gset\n"
                'SELECT pgq.finish_batch(:batch::bigint) AS done \\gset\n')

    def audit(self, conn, enqueued):
        # The events of a fresh queue are numbered from 1, so the last finished tick contains the number of events.
        done = conn.execute("""
            SELECT CASE s.sub_last_tick WHEN 1 THEN 0 ELSE t.tick_event_seq END
            FROM pgq.queue q JOIN pgq.subscription s ON s.sub_queue = q.queue_id
            JOIN pgq.tick t ON t.tick_queue = q.queue_id AND t.tick_id = s.sub_last_tick
            WHERE q.queue_name = 'bench'""").fetchone()[0]
        return Audit(enqueued, done, enqueued - done, 0, 0)


TEXTBOOK, TUNED, BARE, JOBQ, JOBQ_KEEP_0, PGMQ = Textbook(), Tuned(), Bare(), Jobq(), UnkeptJobq(), Pgmq()
# Two batch sizes: a typical setting of an operator, and the number of jobs that arrive between two ticks under load.
PGQ = {size: PgQ(size) for size in (100, 5000)}
BASE = BaseJobq() if BaseJobq.host else None
SMALL_PAGES = SmallPagesJobq() if SmallPagesJobq.host else None
