// Compares the search with the table: for each filter, the pages together must contain each matching job once, and no page may
// examine more jobs than allowed.
import { Database } from '../lib/database.js';
import { decodeCursor, rangeOf, searchResult, searchStatement, walkOf } from '../lib/jobs_search.js';
import { parseOptions } from '../lib/options.js';
import { becomesTrue, is, ok } from './harness.mjs';

const FILTERS = [{}, { status: 'pending' }, { status: 'pending', queue: 'backlog' }, { status: 'pending', kind: 'thumb' }, { status: 'pending', queue: 'emails', kind: 'news' },
  { status: 'scheduled' }, { status: 'scheduled', queue: 'emails', error: 'mailbox' }, { status: 'processing' }, { status: 'processing', worker: 'mailer-3' }, { status: 'processing', queue: 'by hand' },
  { status: 'blocked' }, { status: 'blocked', queue: 'lines' }, { status: 'completed' }, { status: 'failed' }, { status: 'failed', error: 'no such product' },
  { status: 'failed', dead: '1' }, { status: 'failed', dead: '1', queue: 'payments' }, { status: 'cancelled' }, { queue: 'imports' }, { kind: 'welcome' },
  { nokind: '1' }, { metadata: '{"tenant": 7}' }, { worker: 'importer' }, { older: '1d' }, { key: 'fay' }, { queue: 'no such queue' }, { status: 'unfinished' }, { status: 'unfinished', queue: 'lines' },
  { payload: 'example.com' }, { payload: '{"to": "bob@example.com"}' }, { payload: '17' }, { status: 'failed', payload: '{}' }];

// Returns a plain SQL condition for the filter.
function plain(filter) {
  const all = { status: filter.status === 'unfinished' ? "status IN ('scheduled', 'blocked', 'pending', 'processing')" : 'status::text = %', queue: filter.dead ? '(queue = % OR dead_from = %)' : 'queue = %', kind: 'kind = %', nokind: "kind = ''", worker: 'worker_id = %', error: "error LIKE '%%' || % || '%%'",
    key: "unique_key = %", batch: 'batch_id = %', dead: 'dead_from IS NOT NULL', metadata: 'metadata @> %::jsonb', older: "created_at < now() - interval '1 day'", from: 'created_at >= %::timestamptz', to: 'created_at < %::timestamptz',
    payload: filter.payload?.startsWith('{') ? 'payload @> %::jsonb' : "payload::text LIKE '%%' || % || '%%'" };
  const values = [];
  const where = Object.entries(filter).map(([field, value]) => all[field].replaceAll('%%', '\u0001').replaceAll('%', () => `$${values.indexOf(value) + 1 || values.push(value)}`).replaceAll('\u0001', '%'));
  return { text: `SELECT id FROM jobq.jobs WHERE ${where.join(' AND ') || 'true'} ORDER BY id`, values };
}

async function pagesOf(database, filter, { limit, scan }) {
  const range = await database.read((query) => rangeOf(query, filter));
  const found = [];
  let before;
  for (let page = 0; page < 2000; page += 1) {
    const statement = searchStatement(filter, { before, columns: 'j.id', limit, scan, range });
    const rows = await database.read((query) => query(statement.text, statement.values));
    const { jobs, next } = searchResult(statement, rows);
    found.push(...jobs.map((job) => job.id));
    if (jobs.length > limit) return { found, wrong: 'a page is too long' };
    if (next === undefined) return { found, pages: page + 1 };
    before = decodeCursor(walkOf(filter), next);
    if (before === undefined) return { found, wrong: `the cursor ${next} is not understood` };
  }
  return { found, wrong: 'it does not end' };
}

export async function searching({ sql, value }) {
  const database = new Database(parseOptions([]));
  try {
    // Jobs that were made to run manually have no worker.
    await sql("SELECT jobq_create_queue('by hand', heartbeat_timeout => '1 hour'), count(*) FROM jobq_enqueue_many('by hand', array_fill('{}'::jsonb, ARRAY[9]))");
    await sql("UPDATE jobq.jobs SET status = 'processing' WHERE queue = 'by hand'");
    is(await value("SELECT count(*)::int FROM jobq.jobs WHERE queue = 'by hand' AND status = 'processing' AND worker_id IS NULL"), 9, 'search: running jobs without a worker');
    // Jobs that were claimed within the last second are not yet in the index for running jobs.
    await becomesTrue('each running job is in the index', () => value("SELECT count(*) = 0 FROM jobq.jobs WHERE status = 'processing' AND _rescue_indexed IS NULL"));
    for (const filter of [...FILTERS, { batch: String(await value('SELECT max(batch_id) FROM jobq.jobs')) }]) {
      const { text, values } = plain(filter);
      const wanted = (await sql(text, values)).map((row) => row.id);
      for (const [limit, scan] of [[50, 20000], [7, 40], [3, 3]]) {
        const { found, wrong } = await pagesOf(database, filter, { limit, scan });
        const sorted = [...found].sort((a, b) => (BigInt(a) < BigInt(b) ? -1 : 1));
        ok(wrong === undefined && JSON.stringify(sorted) === JSON.stringify(wanted), `search ${JSON.stringify(filter)}, ${limit} of ${scan}: ${wanted.length} jobs`, wrong ?? '', { found: sorted, wanted });
      }
    }
    const order = (await pagesOf(database, { status: 'pending', queue: 'backlog' }, { limit: 50, scan: 20000 })).found;
    is(order, (await sql("SELECT id FROM jobq.jobs WHERE queue = 'backlog' ORDER BY priority, run_at, id")).map((row) => row.id), 'search: pending jobs have the order of claims');
    // No search may read or sort the whole table.
    await sql('ANALYZE jobq.jobs, jobq.attempts');
    for (const filter of [{}, { status: 'pending', queue: 'backlog' }, { status: 'scheduled' }, { status: 'processing' }, { status: 'failed' }, { key: 'fay' }, { status: 'completed', queue: 'emails' }, { from: '2100-01-01' }]) {
      const statement = searchStatement(filter, { before: undefined, columns: 'j.id', limit: 50, scan: 100 });
      const plan = await database.read(async (query) => {
        await query('SET LOCAL enable_seqscan = off');
        return (await query(`EXPLAIN ${statement.text}`, statement.values)).map((row) => row['QUERY PLAN']).join('\n');
      });
      ok(/Index (Only )?Scan/.test(plan) && !/Seq Scan on jobs|Sort Key.*jobs/.test(plan), `plan of ${JSON.stringify(filter)}: uses an index`, plan);
    }
    // A later page of running jobs must not read the jobs of earlier pages.
    for (const [before, conditions] of [[['mailer-3', '7'], [/Index Cond: \(ROW\(worker_id, id\) > ROW/, /Index Cond: \(worker_id IS NULL\)/]],
      [['\0', '7'], [/Index Cond: \(\(worker_id IS NULL\) AND \(id > /]]]) {
      const statement = searchStatement({ status: 'processing' }, { before, columns: 'j.id', limit: 50, scan: 100 });
      const plan = await database.read(async (query) => {
        await query('SET LOCAL enable_seqscan = off');
        await query('SET LOCAL enable_bitmapscan = off');
        return (await query(`EXPLAIN ${statement.text}`, statement.values)).map((row) => row['QUERY PLAN']).join('\n');
      });
      ok(conditions.every((condition) => condition.test(plan)) && !/Filter: .*(worker_id|r\.id)/.test(plan), `plan of running jobs after ${JSON.stringify(before)}: ranges of their index`, plan);
    }
    // Jobs of ten hours of the year 2100, in the order of their IDs. A search begins near the time, although it may examine only few jobs.
    await sql(`INSERT INTO jobq.jobs (queue, payload, run_at, created_at, status, finished_at) SELECT 'by hand', to_jsonb(n), now(), '2100-01-01 00:00+00'::timestamptz + n * interval '1 minute', 'completed', now()
      FROM generate_series(0, 599) n`);
    for (const [filter, most] of [[{ from: '2100-01-01 05:00', to: '2100-01-01 05:30' }, 5], [{ from: '2100-01-01 09:50:00' }, 3], [{ to: '2100-01-01T00:10', from: '2100-01-01' }, 4], [{ from: '2101-01-01' }, 3],
      [{ status: 'completed', from: '2100-01-01 03:00', to: '2100-01-01 03:01' }, 4]]) {
      const { text, values } = plain(filter);
      const wanted = (await sql(text.replaceAll('timestamptz', "timestamp AT TIME ZONE 'UTC'"), values)).map((row) => row.id);
      const { found, pages, wrong } = await pagesOf(database, filter, { limit: 50, scan: 60 });
      const sorted = [...found].sort((a, b) => (BigInt(a) < BigInt(b) ? -1 : 1));
      ok(wrong === undefined && JSON.stringify(sorted) === JSON.stringify(wanted) && pages <= most, `search ${JSON.stringify(filter)}: ${wanted.length} jobs on ${pages} pages`, wrong ?? '', { found: sorted, wanted });
    }
    await sql("DELETE FROM jobq.jobs WHERE queue = 'by hand' AND created_at > '2100-01-01'");
    // In a read-only transaction, a page cannot change anything.
    const refused = await database.read((query) => query("SELECT public.jobq_pause_queue('emails')")).then(() => 'done', (problem) => problem.cause?.code);
    is(refused, '25006', 'the server would reject a change by a page that only reads');
    is(await database.change((query) => query("SELECT 1")).then(() => 'done', (problem) => problem.kind), 'read-only', 'a read-only dashboard has no transactions that can change anything');
  } finally {
    await sql("SELECT jobq_drop_queue('by hand', force => true)");
    await database.end();
  }
}
