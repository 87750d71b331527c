// Runs the tests of the dashboard against a server that scripts/web.sh has started. PGHOST and so on select it. WEB_SERVER is its
// data directory, WEB_PLAIN the socket of a server that does not preload jobq, WEB_CHROMIUM the browser, WEB_SCREENSHOTS an
// optional directory for screenshots, and WEB_PARTS an optional list of parts to run.
import http from 'node:http';
import { inBrowser } from './browser.mjs';
import { charts } from './charts.mjs';
import { exports, log, looks, many, refusals, single } from './changes.mjs';
import { connect, count, dashboard, endAll, part } from './harness.mjs';
import { login } from './login.mjs';
import { manyQueues } from './many_queues.mjs';
import { rights } from './rights.mjs';
import { searching } from './searching.mjs';
import { seed } from './seed.mjs';
import { top } from './top.mjs';
import { ends, troubles } from './troubles.mjs';
import { units } from './units.mjs';

process.on('exit', endAll);
for (const signal of ['SIGTERM', 'SIGINT', 'SIGHUP']) process.on(signal, () => process.exit(130));

const wanted = process.env.WEB_PARTS?.split(' ');
const does = (name) => wanted === undefined || wanted.includes(name);

// Pages of another site.
const foreign = [];
function server(content) {
  return new Promise((resolve) => {
    const one = http.createServer((_, response) => { response.setHeader('content-type', 'text/html'); response.end(content); });
    one.listen(0, 'localhost', () => resolve(`http://localhost:${one.address().port}/`));
    foreign.push(one);
  });
}

const ofRole = (role) => ({ PGUSER: role });
await part('units', units);
const db = await connect();
const ids = await seed(db);
const env = ofRole('dash_operator');
const readOnly = await dashboard({ args: ['--sample-interval', '500ms'], env });
const writable = await dashboard({ args: ['--allow-changes', '--sample-interval', '500ms'], env });
const given = { readOnly: readOnly.address, writable: writable.address, board: writable, readOnlyBoard: readOnly, db, ids, env, ofRole, server, directory: process.env.WEB_SCREENSHOTS };

if (does('searching')) await part('searching', () => searching(db));
if (does('browser')) await part('browser', () => inBrowser(given));
if (does('top')) await part('jobq top', () => top(db));
if (does('queues')) await part('many queues', () => manyQueues(db));
if (does('rights')) await part('rights', () => rights(given));
if (does('charts')) await part('charts', () => charts(given));
if (does('login')) await part('login', () => login(given));
if (does('changes')) {
  await part('refusals', () => refusals(given));
  await part('single changes', () => single(given));
  await part('bulk changes', () => many(given));
  await part('failures', () => looks(given));
  await part('exports', () => exports(given));
  await part('log', () => log(given));
}
// Last, because it restarts the server.
if (does('troubles')) await part('troubles', () => troubles({ ...given, server: process.env.WEB_SERVER, plain: process.env.WEB_PLAIN }));
await db.end().catch(() => {});
await part('end', () => ends({ board: readOnly }));
await part('end', () => ends({ board: writable }));
for (const one of foreign) one.close();
console.log(`${count.passed} passed, ${count.failed} failed`);
process.exit(count.failed === 0 && count.passed > 0 ? 0 : 1);
