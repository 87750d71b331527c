// Measures how long pages take with many kept jobs: BENCH_JOBS (default: ten million), most of them completed, some failed, and
// an active queue. Prints a Markdown table. Exits with an error if the median of a page exceeds 100 ms.
import { loadavg, cpus } from 'node:os';
import { encodeCursor } from '../lib/jobs_search.js';
import { connect, dashboard, endAll, request } from './harness.mjs';

const JOBS = Number(process.env.BENCH_JOBS ?? 10_000_000);
const ROUNDS = Number(process.env.BENCH_ROUNDS ?? 30);
const GOAL = 100;
const CHUNK = 500_000;
process.on('exit', endAll);

async function fill({ sql, value }) {
  await sql('CREATE EXTENSION jobq');
  for (const queue of ['emails', 'thumbs', 'imports', 'orders']) {
    await sql('SELECT jobq_create_queue($1, keep_completed => \'365 days\', keep_failed => \'365 days\')', [queue]);
  }
  const began = Date.now();
  // In each of four queues with twelve kinds, 1 of 101 jobs has failed, with two attempts.
  for (let first = 1; first <= JOBS; first += CHUNK) {
    const last = Math.min(JOBS, first + CHUNK - 1);
    await sql(`INSERT INTO jobq.jobs (queue, kind, payload, run_at, created_at, status, attempts, started_at, finished_at, worker_id, error, max_attempts)
      SELECT (ARRAY['emails', 'thumbs', 'imports', 'orders'])[1 + n % 4], 'kind ' || n % 12, jsonb_build_object('n', n, 'text', md5(n::text)),
             now() - interval '2 hours', now() - interval '2 hours', CASE WHEN n % 101 = 0 THEN 'failed' ELSE 'completed' END::jobq.job_status, 2,
             now() - interval '1 hour', now() - interval '59 minutes', 'worker-' || n % 50, CASE WHEN n % 101 = 0 THEN 'row ' || n || ': timeout' END, 2
      FROM generate_series(${first}, ${last}) n`);
    await sql(`INSERT INTO jobq.attempts (job_id, lease, attempt, outcome, worker_id, started_at, finished_at, error, reported)
      SELECT j.id, j.id * 10 + a, a, 'failed', j.worker_id, j.started_at, j.finished_at, j.error, true
      FROM jobq.jobs j, generate_series(1, 2) a WHERE j.status = 'failed' AND j.id > (SELECT max(id) FROM jobq.jobs) - ${last - first + 1}`);
    console.log(`# ${last} jobs after ${Math.round((Date.now() - began) / 1000)} s`);
  }
  // Active jobs: some in each status, in a queue with limits, a graph, and a queue that stands still.
  await sql("SELECT count(*) FROM jobq_enqueue_many('busy', (SELECT array_agg(to_jsonb(n)) FROM generate_series(1, 50000) n), kind => 'work')");
  await sql("SELECT count(*) FROM jobq_enqueue_many('busy', (SELECT array_agg(to_jsonb(n)) FROM generate_series(1, 20000) n), kind => 'later', run_at => now() + interval '1 day')");
  for (let worker = 0; worker < 40; worker += 1) await sql("SELECT count(*) FROM jobq_claim('busy', $1, batch => 25, heartbeat_timeout => '1 hour')", [`worker-${worker}`]);
  await sql("SELECT jobq_set_limit('busy', max_running => 2000), jobq_set_limit('busy', '*', max_running => 2)");
  await sql("SELECT count(*) FROM (SELECT jobq_schedule('schedule ' || n, '0 3 * * *', 'reports') FROM generate_series(1, 200) n) s");
  const root = await value("SELECT jobq_enqueue('orders', kind => 'charge')");
  for (let i = 0; i < 20; i += 1) await sql('SELECT jobq_enqueue($1, depends_on => ARRAY[$2::bigint])', ['orders', root]);
  await sql('VACUUM ANALYZE');
  await sql('CHECKPOINT');
  return { root, failed: await value("SELECT job_id FROM jobq.attempts ORDER BY job_id DESC LIMIT 1") };
}

function pages({ root, failed }) {
  return [['Overview', '/'], ['Queues', '/queues'], ['A queue with a quarter of the finished jobs, idle', '/queue?name=emails'], ['A busy queue', '/queue?name=busy'],
    ['Jobs, newest first', '/jobs'], ['Jobs: failed', '/jobs?status=failed'], ['Jobs: failed, by an error', '/jobs?status=failed&error=timeout'],
    ['Jobs: pending, of a queue', '/jobs?status=pending&queue=busy'], ['Jobs: scheduled', '/jobs?status=scheduled'], ['Jobs: running', '/jobs?status=processing'],
    ['Jobs: blocked', '/jobs?status=blocked'], ['Jobs: completed, of a queue and kind that none of the newest 20,000 has', '/jobs?status=completed&queue=orders&kind=kind+3'],
    ['Jobs: completed, of a worker that does not exist', '/jobs?status=completed&worker=nobody'], ['Jobs: failed, by an error that no job has', '/jobs?status=failed&error=nonsense'],
    ['Jobs: failed, a page in the middle', `/jobs?status=failed&after=${encodeCursor('attempts', [String(JOBS / 2)])}`],
    ['Jobs: completed, of a queue, a page in the middle', `/jobs?status=completed&queue=emails&after=${encodeCursor('newest', [String(JOBS / 2)])}`],
    ['Jobs: by metadata that no job has', '/jobs?metadata=%7B%22a%22%3A1%7D'], ['Jobs: by a payload that no job has', '/jobs?payload=nonsense'],
    ['Jobs: of a time range', '/jobs?from=2020-01-01&to=2020-02-01'], ['Halted groups', '/groups'],
    ['A job that twenty other jobs wait for', `/job/${root}`], ['A failed job', `/job/${failed}`], ['Failures', '/failures'], ['Schedules, two hundred', '/schedules'],
    ['Workers', '/workers'], ['Handlers', '/handlers'], ['Preview of a bulk retry', '/bulk?action=retry&status=failed&queue=imports']];
}

const middle = (sorted, part) => sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * part))];

async function measure(board, list) {
  const rows = [];
  for (const [name, path] of list) {
    const times = [];
    let lines = 0;
    for (let i = 0; i < ROUNDS + 3; i += 1) {
      const began = process.hrtime.bigint();
      const { status, text } = await request(board.address, { path });
      if (status !== 200) throw new Error(`${path}: ${status}`);
      lines = text.split('<tr role="row"><td').length - 1;
      if (i >= 3) times.push(Number(process.hrtime.bigint() - began) / 1e6);
    }
    times.sort((a, b) => a - b);
    rows.push([name, middle(times, 0.5), middle(times, 0.95), lines]);
  }
  return rows;
}

const db = await connect();
const made = await fill(db);
const size = await db.value("SELECT pg_size_pretty(pg_total_relation_size('jobq.jobs'))");
const board = await dashboard({ args: ['--allow-changes'] });
const load = loadavg()[0].toFixed(1);
const rows = await measure(board, pages(made));
console.log(`\n${JOBS.toLocaleString('en-US')} kept jobs, ${size} with indexes; ${cpus().length} cores, load ${load} before and ${loadavg()[0].toFixed(1)} behind; ${ROUNDS} requests each; node ${process.version}\n`);
console.log('| page | rows | median, ms | 95 %, ms |\n|---|---:|---:|---:|');
for (const [name, median, most, lines] of rows) console.log(`| ${name} | ${lines} | ${median.toFixed(0)} | ${most.toFixed(0)} |`);
const slow = rows.filter(([, median]) => median > GOAL);
console.log(`\n${rows.length - slow.length} passed, ${slow.length} failed`);
await board.stop();
await db.end();
process.exit(slow.length === 0 ? 0 : 1);
