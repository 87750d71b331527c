// Tests that the dashboard's reading for a page does not depend on the number of queues, with 3,000 queues.
import { MAX_QUEUES, Sampler } from '../lib/sampler.js';
import { becomesTrue, connect, dashboard, is, like, ok, request, textOf } from './harness.mjs';

const QUEUES = 3000;

export async function manyQueues(admin) {
  await admin.sql('CREATE DATABASE many_queues');
  const db = await connect({ database: 'many_queues' });
  await db.sql('CREATE EXTENSION jobq');
  await db.sql("INSERT INTO jobq.jobs (queue) SELECT 'q' || i FROM generate_series(1, $1::int) i", [QUEUES]);
  await db.sql("INSERT INTO jobq.jobs (queue) SELECT 'q2999' FROM generate_series(1, 5)");

  const reads = [];
  const query = async (text, values) => {
    const rows = await db.sql(text, values);
    reads.push(rows.length);
    return rows;
  };
  const sampler = new Sampler({ rights: async () => ({ reads: () => true, calls: () => false }), transaction: async (mode, timeout, work) => work(query) },
    { sampleInterval: 1000, statementTimeout: 2000, actionTimeout: 60000 });
  await sampler.sample();
  is(reads, [MAX_QUEUES + 1], 'many queues: a sample is one statement that returns the busiest queues and the totals');
  is([sampler.last.total.queues, sampler.last.total.pending, sampler.last.rows[0].queue, sampler.last.rows[0].pending], [QUEUES, QUEUES + 5, 'q2999', 6],
    'many queues: the totals are those of all queues, and the busiest queue comes first');

  // The behavior of a page if a sample takes long.
  sampler.slow = true;
  reads.length = 0;
  const [unknown, known] = [await sampler.statsOf(query, ['q2998']), await sampler.statsOf(query, ['q2999'])];
  is([reads, unknown.rows.length, unknown.some, known.rows[0].pending], [[], 0, true, 6], 'many queues: a page reads nothing if reading takes long');

  const board = await dashboard({ args: ['--statement-timeout', '60s'], env: { PGDATABASE: 'many_queues' } });
  const page = async (path) => textOf((await request(board.address, { path })).text);
  await becomesTrue('the overview has the queues', async () => /busiest of 3,000 queues/.test(await page('/')));
  const overview = await page('/');
  like(overview, /shows the 500 busiest of 3,000 queues/, 'many queues: the overview says how many queues it includes');
  ok(/3,005 pending/.test(overview) && /q2999/.test(overview), 'many queues: the overview has the totals', overview.slice(0, 400));
  like(await page('/queues?search=q299'), /q2999/, 'many queues: a search finds a queue');
  for (const queue of ['q2999', 'q2998']) is((await request(board.address, { path: `/queue?name=${queue}` })).status, 200, `many queues: the page of ${queue}`);
  await board.stop();
  await db.end();
  // After a restart of the server, its queues could take all counters, and later tests would wait for theirs in vain.
  await admin.sql('DROP DATABASE many_queues WITH (FORCE)');
}
