// Tests a dashboard while the database is slow, restarts, is unreachable, has no jobq, or does not preload it.
import { execFile, spawn } from 'node:child_process';
import { appendFileSync, existsSync, mkdtempSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { promisify } from 'node:util';
import { becomesTrue, connect, dashboard, is, like, ok, post, request, session, textOf } from './harness.mjs';

const run = promisify(execFile);

async function slow({ env, readOnly }) {
  const quick = await dashboard({ args: ['--statement-timeout', '300ms'], env });
  const holder = await connect();
  await holder.sql('BEGIN');
  await holder.sql('LOCK TABLE jobq.jobs IN ACCESS EXCLUSIVE MODE');
  const began = Date.now();
  const page = await request(quick.address, { path: '/jobs?status=failed' });
  is(page.status, 504, `a query that takes too long is canceled: after ${Date.now() - began} ms`);
  like(textOf(page.text), /The database took too long.*statement timeout/, 'the page says that a query took too long');
  is((await request(quick.address, { path: '/schedules' })).status, 200, 'pages that do not need the table are shown');
  await holder.sql('ROLLBACK');
  await holder.end();
  is((await request(quick.address, { path: '/jobs?status=failed' })).status, 200, 'the page is shown again afterward');
  await quick.stop();
  is((await request(readOnly, { path: '/health' })).status, 200, 'health: the database is reachable');
}

async function restart({ readOnly, writable, board, server }) {
  is((await request(readOnly, { path: '/' })).status, 200, 'restart: a page is shown before');
  const control = (...args) => run('pg_ctl', ['-D', server, '-w', '-s', ...args]);
  // Under load, so that connections break during pages, between their queries, and while they are opened.
  let loaded = true;
  const load = Promise.all(Array.from({ length: 8 }, async (_, i) => {
    const seen = new Set();
    while (loaded) seen.add(await request(i % 2 ? readOnly : writable, { path: i % 3 ? '/queue?name=emails' : '/' }).then((answer) => answer.status, (error) => error.message));
    return [...seen];
  }));
  for (let round = 0; round < 4; round += 1) {
    await new Promise((resolve) => { setTimeout(resolve, 300 + 100 * round); });
    await control('-m', round % 2 ? 'fast' : 'immediate', 'stop');
    if (round < 3) await control('-l', `${server}.log`, 'start');
  }
  loaded = false;
  const statuses = [...new Set((await load).flat())].sort();
  ok(statuses.every((status) => status === 200 || status === 503), 'restart: under load, each page is shown or says that the database is not available', statuses);
  is(board.child.exitCode, null, 'restart: the dashboard keeps running');
  const down = await request(readOnly, { path: '/' });
  is(down.status, 503, 'restart: without a server, the status says so');
  like(textOf(down.text), /The database does not answer/, 'restart: without a server, the page says so');
  is((await request(readOnly, { path: '/health' })).status, 503, 'restart: without a server, the health check says so');
  is((await request(readOnly, { path: '/app.css' })).status, 200, 'restart: without a server, the page has its style');
  await control('-l', `${server}.log`, 'start');
  await becomesTrue('the page is shown again', async () => (await request(readOnly, { path: '/' })).status === 200);
  ok(true, 'restart: the same process shows the page again');
  const admin = await connect();
  await becomesTrue('the counters exist again', () => admin.value("SELECT bool_and(source = 'counters') FROM jobq.queue_stats"));
  // The sampler may have read the rows after the restart, and then rests 100 times as long as that took.
  await becomesTrue('the page counts no rows', async () => !/reading all jobs/.test((await request(readOnly, { path: '/queues' })).text), 900000);
  ok(true, 'restart: the numbers come from the counters');
  // Ends all connections at once.
  await admin.sql("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'jobq-web'");
  await becomesTrue('the dashboard has new connections', async () => (await request(readOnly, { path: '/queues' })).status === 200);
  ok(true, 'restart: terminated connections are replaced');
  await admin.end();
}

async function elsewhere({ plain, env }) {
  const nowhere = await dashboard({ env: { ...env, PGHOST: '/nonexistent' } });
  like(textOf((await request(nowhere.address)).text), /The database does not answer/, 'no server: the page says so');
  await nowhere.stop();
  const unknown = await dashboard({ env: { ...env, PGDATABASE: 'nonsense' } });
  like(textOf((await request(unknown.address)).text), /rejects the connection/, 'no such database: the page says so');
  await unknown.stop();
  const admin = await connect();
  await admin.sql('CREATE DATABASE without_jobq');
  const without = await dashboard({ env: { ...env, PGDATABASE: 'without_jobq' } });
  like(textOf((await request(without.address)).text), /CREATE EXTENSION jobq/, 'no jobq: the page says so');
  await without.stop();
  await admin.sql('CREATE DATABASE in_a_schema');
  await admin.end();
  const schema = await connect({ database: 'in_a_schema' });
  await schema.sql('CREATE SCHEMA "my Queue"');
  await schema.sql('CREATE EXTENSION jobq SCHEMA "my Queue"');
  await schema.sql(`SELECT "my Queue".jobq_grant('dash_operator', 'operator')`);
  const job = await schema.value(`SELECT "my Queue".jobq_enqueue('q')`);
  const there = await dashboard({ env: { ...env, PGDATABASE: 'in_a_schema' } });
  for (const path of ['/', '/queue?name=q', `/job/${job}`, '/schedules']) is((await request(there.address, { path })).status, 200, `another schema: ${path}`);
  await there.stop();
  await schema.end();

  // A server that does not preload jobq counts rows, and the page says so.
  const other = await connect({ host: plain, database: 'postgres' });
  await other.sql('CREATE EXTENSION jobq');
  await other.sql("SELECT jobq_enqueue('q')");
  const counting = await dashboard({ env: { ...env, PGHOST: plain, PGUSER: 'postgres', PGDATABASE: 'postgres' } });
  await becomesTrue('the dashboard has counted the rows', async () => /1\s*pending/.test(textOf((await request(counting.address)).text)));
  like(textOf((await request(counting.address)).text), /jobq is not preloaded, or still counts/, 'not preloaded: the page says that it counts rows');
  await other.sql("SELECT jobq_enqueue('q')");
  for (const path of ['/queues', '/queue?name=q', '/workers', '/jobs']) is((await request(counting.address, { path })).status, 200, `not preloaded: ${path}`);
  await counting.stop();
  await other.end();
}

// A standby has no counters, and allows no changes.
async function standby({ env, ids }) {
  const directory = mkdtempSync(`${tmpdir()}/standby-`);
  const data = `${directory}/data`;
  await run('pg_basebackup', ['-U', 'postgres', '-D', data, '-R', '-X', 'stream', '-c', 'fast']);
  appendFileSync(`${data}/postgresql.conf`, `unix_socket_directories = '${directory}'\n`);
  await run('pg_ctl', ['-D', data, '-w', '-s', '-l', `${directory}/log`, 'start']);
  const board = await dashboard({ args: ['--allow-changes'], env: { ...env, PGHOST: directory } });
  try {
    await becomesTrue('the dashboard has counted the rows', async () => /failed/.test((await request(board.address)).text) && /href="\/queue\?name=emails"/.test((await request(board.address, { path: '/queues' })).text));
    for (const path of ['/', '/queues', '/queue?name=emails', '/jobs?status=failed', `/job/${ids.ship}`, `/job/${ids.failed}`, '/failures', '/schedules', '/workers', '/handlers']) {
      const { status, text } = await request(board.address, { path });
      is([status, /a standby/.test(text), /method="post"/.test(text)], [200, true, false], `standby: ${path} has no buttons`);
    }
  } finally {
    await board.stop();
    await run('pg_ctl', ['-D', data, '-w', '-s', '-m', 'immediate', 'stop']);
  }
}

// With a proxy that terminates TLS, authenticates users, and forwards the host name.
async function proxy({ env, db }) {
  const board = await dashboard({ args: ['--base-path', '/jobq', '--origin', 'https://jobs.example.com', '--user-header', 'X-User', '--allow-changes'], env });
  is(board.address, 'https://jobs.example.com/jobq', 'proxy: the dashboard prints the address that browsers use');
  const headers = { host: 'jobs.example.com', 'x-user': 'ada' };
  const page = await request(board.local, { path: '/jobq/queues', headers });
  is(page.status, 200, 'proxy: the dashboard accepts this host name');
  const links = [...page.text.matchAll(/(?:href|action|src)="([^"]*)"/g)].map((match) => match[1]).filter((link) => !link.startsWith('#'));
  is(links.filter((link) => !link.startsWith('/jobq/')), [], 'proxy: all links are below the path');
  const cookie = page.headers['set-cookie'][0];
  like(cookie, /Path=\/jobq\/.*Secure|Secure.*Path=\/jobq\//, 'proxy: the cookie is limited to the path and to TLS');
  const who = { cookie: cookie.split(';')[0], token: /name="token" value="([^"]+)"/.exec(page.text)[1], headers };
  const fields = { queue: 'emails', back: '/jobq/queues' };
  is((await post(board.local, '/jobq/do/pause_queue', fields, { ...who, origin: 'https://jobs.example.com' })).status, 303, 'proxy: a change from this address is accepted');
  is((await post(board.local, '/jobq/do/pause_queue', fields, { ...who, origin: 'http://jobs.example.com' })).status, 403, 'proxy: a change without TLS is rejected');
  await db.sql("SELECT jobq_resume_queue('emails')");
  await becomesTrue('the log contains the user', () => board.output.text.includes('"user":"ada"'));
  ok(true, 'proxy: the log contains the user that the proxy has authenticated');
  is((await request(board.local, { path: '/queues', headers })).status, 404, 'proxy: there are no pages outside of the path');
  await board.stop();
}

// Through PgBouncer in transaction mode with a pool of two, so that each page may use another connection.
async function pooled({ ids }) {
  const directory = mkdtempSync(`${tmpdir()}/pool-`);
  writeFileSync(`${directory}/pgbouncer.ini`, `[databases]
${process.env.PGDATABASE} = host=${process.env.PGHOST} port=${process.env.PGPORT} user=dash_operator
[pgbouncer]
pool_mode = transaction
default_pool_size = 2
listen_addr =
listen_port = 6432
unix_socket_dir = ${directory}
auth_type = any
logfile = ${directory}/log
`);
  const pooler = spawn(process.env.WEB_PGBOUNCER, ['-q', `${directory}/pgbouncer.ini`], { stdio: 'ignore' });
  try {
    await becomesTrue('the pooler listens', () => existsSync(`${directory}/.s.PGSQL.6432`));
    const board = await dashboard({ args: ['--allow-changes'], env: { PGHOST: directory, PGPORT: '6432', PGUSER: 'whoever' } });
    const paths = ['/', '/queues', '/jobs?status=failed', `/job/${ids.failed}`, '/failures', '/schedules', '/workers', '/handlers'];
    const answers = await Promise.all([...paths, ...paths, ...paths].map((path) => request(board.address, { path })));
    is(answers.map((answer) => answer.status), answers.map(() => 200), 'pooler: all pages load concurrently over two connections');
    const who = await session(board.address);
    is((await post(board.address, '/do/pause_queue', { queue: 'emails' }, who)).status, 303, 'pooler: a queue can be paused');
    is((await post(board.address, '/do/resume_queue', { queue: 'emails' }, who)).status, 303, 'pooler: a queue can be resumed');
    const client = await connect({ host: directory, port: 6432, user: 'whoever' });
    is([await client.value('SHOW search_path'), await client.value('SHOW statement_timeout')], ['"$user", public', '0'], 'pooler: its connections keep no settings');
    await client.end();
    await board.stop();
  } finally {
    pooler.kill('SIGTERM');
  }
}

export async function troubles(given) {
  await slow(given);
  await pooled(given);
  await standby(given);
  await elsewhere(given);
  await proxy(given);
  await restart(given);
}

export async function ends({ board }) {
  const code = await board.stop();
  ok(code === 0, 'SIGTERM ends it', code, board.output.errors);
}
