// Tests decisions that need no server: options, escaping, filters, cursors, layouts.
import { readFileSync } from 'node:fs';
import net from 'node:net';
import { Database } from '../lib/database.js';
import { csvCell } from '../lib/pages/export.js';
import { roundUp } from '../lib/chart.js';
import { fragmentOf } from '../lib/pages/failures.js';
import { layout, parseDot } from '../lib/graph.js';
import { escape, html, plural, span, table } from '../lib/html.js';
import { decodeCursor, encodeCursor, parseFilter, searchResult, walkOf } from '../lib/jobs_search.js';
import { History, RANGES } from '../lib/history.js';
import { percentilesOf } from '../lib/percentiles.js';
import { OPTIONS, OptionError, addressOf, parseOptions, usage } from '../lib/options.js';
import { MAX_QUEUES, POINTS, Sampler } from '../lib/sampler.js';
import { polylines } from '../lib/sparkline.js';
import { axisOf, barsOf } from '../lib/timeline.js';
import { is, like, ok } from './harness.mjs';

function refused(args) {
  try {
    parseOptions(args);
    return undefined;
  } catch (error) {
    if (!(error instanceof OptionError)) throw error;
    return error.message;
  }
}

function options() {
  const standard = parseOptions([]);
  is([standard.host, standard.local, standard.allowChanges, standard.statementTimeout], ['127.0.0.1', true, false, 2000], 'options: by default, localhost and read-only');
  like(refused(['--host', '0.0.0.0']), /--origin/, 'options: another address requires an origin');
  ok(!parseOptions(['--host', '0.0.0.0', '--origin', 'https://jobs.example.com']).local, 'options: another address is allowed with an origin');
  for (const [args, pattern] of [[['--nonsense'], /nonsense/], [['extra'], /extra/], [['--port', '99999'], /port/], [['--origin', 'jobs.example.com'], /origin/],
    [['--origin', 'https://a/b'], /base-path/], [['--statement-timeout', 'soon'], /statement-timeout/], [['--base-path', '/a b'], /base-path/],
    [['--scan', '1'], /scan/], [['--user-header', 'a b'], /user-header/], [['--trusted-proxy', '127.0.0.1'], /requires --user-header/],
    [['--history', 'a.b; DROP'], /history/], [['--user-header', 'X', '--trusted-proxy', 'proxy'], /IP address/]]) {
    like(String(refused(args)), pattern, `options: ${args.join(' ')} is rejected`);
  }
  is(addressOf(parseOptions(['--origin', 'https://jobs.example.com', '--base-path', '/jobq/']), 1), 'https://jobs.example.com/jobq', 'options: the address behind a proxy');
}

// The documentation must list every option with its default.
function documented() {
  const docs = readFileSync(process.env.WEB_DOCS ?? new URL('../../docs/guides/dashboard.md', import.meta.url), 'utf8');
  for (const [name, { default: standard, value }] of Object.entries(OPTIONS)) {
    if (name === 'help') continue;
    const shown = typeof standard === 'string' ? standard : standard === false ? 'off' : '';
    ok(docs.includes(`| \`--${name}${value ? ` ${value}` : ''}\` | ${shown}${shown ? ' ' : ''}|`), `docs: --${name}, ${shown || 'no default'}`);
    ok(usage().includes(`--${name}`), `help: --${name}`);
  }
  is([...docs.matchAll(/^\| `--([\w-]+)/gm)].map((match) => match[1]).sort(), Object.keys(OPTIONS).filter((name) => name !== 'help').sort(), 'docs: all documented options exist');
}

function pieces() {
  is(escape('<a href="x">\'&'), '&lt;a href=&quot;x&quot;&gt;&#39;&amp;', 'html: special characters are escaped');
  is(String(html`<b title="${'"'}">${['<', html`<i>`, null, false, 0]}</b>`), '<b title="&quot;">&lt;<i>0</b>', 'html: text is escaped, HTML is not, and null is empty');
  is([0, 1, '1', 2].map((count) => plural(count, 'job')), ['0 jobs', '1 job', '1 job', '2 jobs'], 'html: the singular and plural of a word');
  const classes = (column, text) => /<td role="cell" data-label="l"(?: class="([a-z ]*)")?>/.exec(String(table('c', [{ label: 'l', cell: () => html`<b title="${'x'.repeat(40)}">${text}</b>`, ...column }], [{}])))[1];
  is([classes({ cell: () => `<${'x'.repeat(25)}>` }), classes({ cell: () => html`<span class="hidden">${'x'.repeat(25)}</span>` })], ['long', undefined], 'html: markup in a name is text, and hidden text uses no space');
  is([classes({}, 'resize thumbnail'), classes({}, 'x'.repeat(25)), classes({ wide: true }, 'x'.repeat(25)), classes({ number: true }, '1')], [undefined, 'long', 'wide long', 'number'],
    'html: a word in a table is broken only if it is long');
  like(String(table('c', [{ label: '<l>', cell: () => '<x>' }], [{}])), /data-label="&lt;l&gt;">&lt;x&gt;</, 'html: labels and cells of a table are escaped');
  is([0, 0.25, 59, 60, 3661, 90000, 864000].map(span), ['0 s', '250 ms', '59 s', '1 min', '1 h 1 min', '1 d 1 h', '10 d'], 'html: durations are formatted');
  is(['=1+1', '+1', '-1', '@x', ' =1', '\t1', '\uff1d1', -1, 'a"b,c', 'a\nb', null, new Date(0)].map(csvCell),
    ["'=1+1", "'+1", "'-1", "'@x", "' =1", "'\t1", "'\uff1d1", '-1', '"a""b,c"', '"a\nb"', '', '1970-01-01T00:00:00.000Z'], 'export: a cell is no formula, and is quoted');
  is(fragmentOf('row #: timeout after # ms'), ': timeout after ', 'failures: the common part of a group is found');
  is(polylines([null, 1, 2, null, 3], 3).length, 2, 'sparkline: a gap has no line');
}

function search() {
  is(parseFilter({ status: 'failed', queue: '', nonsense: 'x' }).filter, { status: 'failed' }, 'filter: empty and unknown fields are absent');
  is(parseFilter({ status: 'x', metadata: '{', older: 'toString', from: 'soon', to: '2026-13-01' }).problems.length, 5, 'filter: invalid values are reported');
  is(parseFilter({ kind: 'a', nokind: '1' }).filter, { nokind: '1' }, 'filter: an empty kind means jobs without a kind');
  is(['pending', 'scheduled', 'processing', 'blocked', 'failed', 'completed', undefined].map((status) => walkOf({ status })),
    ['ready', 'due', 'running', 'blocked', 'attempts', 'newest', 'newest'], 'filter: each status has its index');
  const cursor = encodeCursor('running', ['a worker', '12']);
  is(decodeCursor('running', cursor), ['a worker', '12'], 'cursor: it can be encoded and decoded');
  is(decodeCursor('running', encodeCursor('running', ['\0', '12'])), ['\0', '12'], 'cursor: after a job without a worker');
  is(decodeCursor('running', encodeCursor('running', ['a\0', '12'])), undefined, 'cursor: no worker has such a name');
  for (const [name, text] of [['another walk', encodeCursor('newest', ['12'])], ['no number', encodeCursor('running', ['a', '1 OR true'])],
    ['rubbish', '%%%'], ['nothing', ''], ['too much', encodeCursor('running', ['a', '1', '2'])], ['long', 'A'.repeat(3000)]]) {
    is(decodeCursor('running', text), undefined, `cursor: ${name} is rejected`);
  }
  const statement = { walk: 'newest', most: 100, limit: 2 };
  const row = (id, n, matches = true) => ({ id, n, matches, k0: String(id) });
  is(searchResult(statement, [row(9, 1), row(8, 2), row(7, 3)]), { jobs: [row(9, 1), row(8, 2)], next: encodeCursor('newest', ['8']), cut: false }, 'search: a full page has a next page');
  is(searchResult(statement, [row(9, 1), row(8, 100, false)]), { jobs: [row(9, 1)], next: encodeCursor('newest', ['8']), cut: true }, 'search: it stops at its limit');
  is(searchResult(statement, [row(9, 1)]), { jobs: [row(9, 1)], next: undefined, cut: false }, 'search: it reaches the end');
}

function drawing() {
  const dot = 'digraph jobs {\n  node [shape=box];\n  1 [label="1\\na \\"q\\" ]; x\\ncompleted"];\n  2 [label="2\\n\\nblocked"];\n  3 [label="3\\nblocked"];\n  1 -> 2;\n  2 -> 3;\n  1 -> 3;\n  9 -> 1;\n  label="cut: 3 jobs";\n}\n';
  const parsed = parseDot(dot);
  is([...parsed.nodes], [['1', ['1', 'a "q" ]; x', 'completed']], ['2', ['2', '', 'blocked']], ['3', ['3', 'blocked']]], 'graph: labels are unescaped');
  is([parsed.edges, parsed.cut], [[['1', '2'], ['2', '3'], ['1', '3']], 'cut: 3 jobs'], 'graph: edges are found, and a truncated graph is recognized');
  const { places } = layout(parsed);
  ok(places.get('1').x < places.get('2').x && places.get('2').x < places.get('3').x, 'graph: dependents are to the right of their dependencies');
}

// Imitates a clock and a table.
async function charts() {
  is([0, 0.03, 1, 1.1, 3, 7, 99, 101].map(roundUp), [1, 0.05, 1, 2, 5, 10, 100, 200], 'chart: the axis ends at a round number');
  is(percentilesOf([1, 2, 4, Infinity], [50, 94, 98, 100]), { count: 100, values: [1, 4, Infinity] }, 'percentiles: the bounds of their buckets');
  is(percentilesOf([1, Infinity], [0, 0]), undefined, 'percentiles: without values');
  let at = 3600 * 1000 * 500000;
  const rows = [];
  const query = async (text, [span, bucket, stats]) => {
    if (text.startsWith('INSERT')) rows.push({ span, bucket, stats: JSON.parse(stats) });
    return rows.filter((row) => row.span === span && row.bucket > bucket);
  };
  const database = { options: {}, transaction: async (mode, timeout, work) => work(query) };
  const options = { database, table: '"a"."b"', now: () => at };
  const history = new History(['pending', 'rate'], options);
  for (let i = 0; i < 121; i += 1, at += 30000) {
    history.add(new Map(i < 100 ? [['q', [i, null]]] : []), [i * 2, 1]);
    await history.save();
  }
  at -= 30000;
  const hour = history.points('1h', 'pending', 'q');
  is([hour.length, hour[0].value, hour[98].value, hour[99].value, hour.at(-1).at.getTime()], [120, 1, 99, null, at], 'history: the points of the last hour');
  is(history.points('24h', 'pending').filter(({ value }) => value !== null).map(({ value }) => value), [19, 59, 99, 139, 179, 219, 240], 'history: the means of ten minutes');
  is(history.points('24h', 'rate', 'q').some(({ value }) => value !== null), false, 'history: unknown values stay unknown');
  is(history.points('7d', 'pending', 'unknown').filter(({ value }) => value !== null), [], 'history: an unknown queue has no points');
  const again = new History(['pending', 'rate'], options);
  await again.load();
  is(again.points('24h', 'pending').filter(({ value }) => value !== null).map(({ value }) => value), [19, 59, 99, 139, 179, 219], 'history: a table keeps what has ended');
  at += 8 * 86400 * 1000;
  history.add(new Map([['r', [1, 1]]]), [1, 1]);
  is([...history.queues.keys()].sort(), ['', 'r'], 'history: a queue without points is forgotten');
  is(Object.values(RANGES).map(({ step, points }) => (step * points) / 3600), [1, 24, 168], 'history: the ranges');
  const said = [];
  await new History(['pending'], { ...options, database: { options: {}, transaction: async () => { throw new Error('no table'); } }, report: (text) => said.push(text) }).load();
  is(said, ['jobq-web: --history: no table'], 'history: a problem with the table is reported');
}

// The times are seconds after an arbitrary moment.
function waterfall() {
  const at = (seconds) => new Date(1e12 + seconds * 1000);
  const job = { status: 'processing', attempts: 2, created_at: at(0), started_at: at(30), finished_at: null };
  const given = { job, attempts: [{ attempt: 1, outcome: 'failed', started_at: at(10), finished_at: at(20) }], children: [{ id: '9', kind: 'part', status: 'pending', created_at: at(35), started_at: null, finished_at: null }],
    steps: [{ name: 'count', kind: 'step', state: 'done', saved_at: at(15) }, { name: 'split', kind: 'spawn', state: 'done', saved_at: at(35) }, { name: 'nap', kind: 'sleep', state: 'waiting', saved_at: at(36), until: at(99) }],
    lines: [at(31), at(32)] };
  const short = barsOf(given, at(40)).map(({ what, state, from, to }) => [what, state, (from - at(0)) / 1000, (to - at(0)) / 1000]);
  is(short, [['Wait for the first claim', undefined, 0, 10], ['Attempt 1', 'failed', 10, 20], ['Attempt 2', 'processing', 30, 40], ['count', 'done', 10, 15], ['split', 'done', 30, 35],
    ['nap', 'waiting', 36, 40], ['Child 9', 'pending', 35, 40], ['2 log lines', undefined, 31, 32]].map((row) => row.map((cell) => cell ?? null)), 'timeline: the bars of a job');
  is(axisOf(barsOf(given, at(40))), { start: Number(at(0)), end: Number(at(40)) }, 'timeline: the axis contains all bars');
  const late = { ...given, job: { ...job, created_at: at(-86400) } };
  is(axisOf(barsOf(late, at(40))), { start: Number(at(7)), end: Number(at(40)) }, 'timeline: a long wait does not hide the other bars');
  const quick = { job: { ...job, status: 'failed' }, attempts: [{ attempt: 1, outcome: 'failed', started_at: at(10), finished_at: at(10) }], steps: [], children: [], lines: [] };
  ok(axisOf(barsOf(quick, at(40))).start < Number(at(10)), 'timeline: an attempt that took no time');
  const fresh = barsOf({ job: { ...job, status: 'pending', started_at: null }, attempts: [], steps: [], children: [], lines: [] }, at(5));
  is([fresh.length, axisOf(fresh)], [1, { start: Number(at(0)), end: Number(at(5)) }], 'timeline: a job that has not been claimed');
}

async function samples() {
  const numbers = { processing: 0, failed: 0, enqueued: 1, claimed: 1, completions: 1, failures: 1, losses: 1, source: 'counters' };
  // Imitates an answer of the server: the queues from `first` on, and the totals.
  const answer = (first, n, more = {}) => [...Array.from({ length: n }, (_, i) => ({ queue: `q${first + i}`, queues: null, pending: i, ...numbers, ...more })),
    { queue: null, queues: 30000, pending: 7, ...numbers, ...more }];
  let given = answer(0, MAX_QUEUES);
  const sampler = new Sampler({ rights: async () => ({ reads: () => true, calls: () => false }), transaction: async (mode, timeout, work) => work(async () => given) }, { sampleInterval: 1000, statementTimeout: 10, actionTimeout: 20 });
  for (let i = 0; i < POINTS + 5; i += 1) await sampler.sample();
  is(sampler.series('pending')[0], 7, 'sampler: the totals are those of the server');
  is([sampler.queues.size, sampler.series('pending').length, sampler.series('pending', 'q3').length], [MAX_QUEUES, POINTS, POINTS], 'sampler: the numbers of queues and points are limited');
  is(sampler.series('errors', 'q3')[0], 2, 'sampler: failed and lost attempts are added');
  given = answer(10, MAX_QUEUES);
  await sampler.sample();
  is([sampler.queues.size, sampler.series('pending', 'q3').length, sampler.series('pending', `q${MAX_QUEUES}`).length], [MAX_QUEUES, 0, 1], 'sampler: a queue that becomes busy replaces one that no longer is');
  given = answer(0, 1, { source: 'rows', enqueued: null, claimed: null, completions: null, failures: null, losses: null });
  await sampler.sample();
  is(sampler.queues.size, 1, 'sampler: a queue that is gone is removed');
  const stats = await sampler.stats(async () => { throw new Error('a page must not count rows'); });
  is([stats.counts, stats.rows.length, sampler.series('enqueued').at(-1)], [true, 1, null], 'sampler: a page does not count rows, but shows the last count');
  const of = await sampler.statsOf(async () => { throw new Error('a page must not count rows'); }, ['q0', 'q9']);
  is([of.rows.length, of.some], [1, true], 'sampler: a queue that is not among the busiest has unknown numbers');
}

// Imitates a database in which reading the numbers takes a given time.
async function slowSamples() {
  let takes = 15;
  const numbers = { queues: 1, pending: 7, source: 'counters' };
  const timeouts = [];
  const transaction = async (mode, timeout) => {
    timeouts.push(timeout);
    if (takes > timeout) throw Object.assign(new Error('canceling statement'), { kind: 'timeout' });
    return { rows: [], total: numbers, at: new Date(), counts: false };
  };
  const sampler = new Sampler({ rights: async () => ({ reads: () => true, calls: () => false }), transaction }, { sampleInterval: 1000, statementTimeout: 10, actionTimeout: 20 });
  const reads = [];
  const page = async () => {
    reads.length = 0;
    const query = async (text) => { reads.push(text); return [{ ...numbers, queue: null }]; };
    const [stats, of] = [await sampler.stats(query), await sampler.statsOf(query, ['q'])];
    return [reads.length, stats.total.pending, stats.slow ?? false, of.some];
  };
  is(await page(), [0, null, true, true], 'sampler: before the first sample, a page reads no numbers and shows none');
  await sampler.sample();
  is([timeouts, sampler.last.total.pending], [[20], 7], 'sampler: the first sample may take longer than a query of a page');
  is(await page(), [2, 7, false, false], 'sampler: a page reads the numbers if that is fast');
  await sampler.sample();
  is([timeouts.at(-1), sampler.rest], [10, 1000], 'sampler: if a sample takes too long, the next one follows soon');
  is(await page(), [0, 7, true, true], 'sampler: otherwise, a page shows the last sample');
  takes = 25;
  await sampler.sample();
  is([timeouts.at(-1), sampler.slow], [20, true], 'sampler: the next sample has more time');
  takes = 5;
  await sampler.sample();
  is(await page(), [2, 7, false, false], 'sampler: a page reads the numbers again when that is fast again');
}

// A server that accepts a connection and ends it in the same packet.
async function endingConnection() {
  const message = (type, body) => {
    const head = Buffer.alloc(5);
    head.write(type);
    head.writeInt32BE(body.length + 4, 1);
    return Buffer.concat([head, Buffer.from(body)]);
  };
  const [authenticated, ready] = [message('R', '\0\0\0\0'), message('Z', 'I')];
  const terminated = message('E', 'SFATAL\0C57P01\0Mterminating connection due to administrator command\0\0');
  const server = net.createServer((socket) => {
    socket.on('error', () => {});
    socket.once('data', () => socket.end(Buffer.concat([authenticated, ready, terminated])));
  });
  await new Promise((resolve) => { server.listen(0, '127.0.0.1', resolve); });
  const database = new Database({ database: `postgres://nobody@127.0.0.1:${server.address().port}/nothing`, statementTimeout: 2000 });
  const unheard = [];
  const hear = (error) => unheard.push(error.message);
  process.on('uncaughtException', hear);
  const problem = await database.read((query) => query('SELECT 1')).catch((error) => error);
  process.off('uncaughtException', hear);
  is([problem.kind, problem.status, unheard], ['lost', 503, []], 'database: a connection that ends as soon as it is ready counts as lost');
  await database.end();
  server.close();
}

export async function units() {
  options();
  documented();
  pieces();
  search();
  drawing();
  waterfall();
  await charts();
  await samples();
  await slowSamples();
  await endingConnection();
}
