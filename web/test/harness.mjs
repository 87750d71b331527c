// Shared by the tests: counting, a superuser's connection, dashboards in separate processes, and plain HTTP.
import { spawn } from 'node:child_process';
import http from 'node:http';
import { fileURLToPath } from 'node:url';
import pg from 'pg';

const PATIENCE = 120000;   // ms; a busy machine may stall for a while
const program = fileURLToPath(new URL('../bin/jobq-web.js', import.meta.url));

export const count = { passed: 0, failed: 0 };

export function ok(condition, name, ...details) {
  if (condition) count.passed += 1;
  else count.failed += 1;
  console.log(`${condition ? 'ok' : 'not ok'} ${count.passed + count.failed} - ${name}`);
  if (!condition) for (const detail of details) console.log(`#   ${typeof detail === 'string' ? detail : JSON.stringify(detail)}`.slice(0, 4000));
  return Boolean(condition);
}

export function is(found, wanted, name) {
  const [a, b] = [JSON.stringify(found), JSON.stringify(wanted)];
  return ok(a === b, name, `found  ${a}`, `wanted ${b}`);
}

export function like(text, pattern, name) {
  return ok(pattern.test(text), name, `${pattern} is not in:`, String(text).slice(0, 2000));
}

// Runs a part of the tests. An error in it counts as a failed test, and the other parts continue.
export async function part(name, work) {
  console.log(`# ${name}`);
  try {
    await work();
  } catch (error) {
    ok(false, `${name}: came to its end`, error.stack ?? String(error));
  }
}

export async function becomesTrue(what, condition, patience = PATIENCE) {
  const until = Date.now() + patience;
  let last;
  for (;;) {
    try {
      last = await condition();
      if (last) return last;
    } catch (error) {
      last = error;
    }
    if (Date.now() > until) throw new Error(`it never came to: ${what} (${last})`);
    await new Promise((resolve) => { setTimeout(resolve, 100); });
  }
}

// ---- the database, as a superuser

export async function connect(config = {}) {
  const client = new pg.Client(config);
  client.on('error', () => {});
  await client.connect();
  const sql = async (text, values) => (await client.query(text, values)).rows;
  return {
    sql,
    value: async (text, values) => { const [row] = await sql(text, values); return row === undefined ? undefined : Object.values(row)[0]; },
    end: () => client.end(),
  };
}

// ---- a dashboard

const running = new Set();

// Starts a dashboard, which ends together with the tests in any case.
export async function dashboard({ args = [], env = {} } = {}) {
  const child = spawn(process.execPath, [program, '--port', '0', ...args], { env: { ...process.env, ...env }, stdio: ['ignore', 'pipe', 'pipe'] });
  running.add(child);
  const output = { text: '', errors: '' };
  child.stdout.on('data', (data) => { output.text += data; });
  child.stderr.on('data', (data) => { output.errors += data; });
  const ended = new Promise((resolve) => { child.on('exit', (code) => { running.delete(child); resolve(code); }); });
  await becomesTrue('the dashboard listens', () => {
    if (child.exitCode !== null) throw new Error(`it ended: ${output.errors}`);
    return output.text.includes('jobq-web: http');
  });
  const address = /jobq-web: (http\S+?)\/? \(/.exec(output.text)[1];
  const port = /listening on \S+:(\d+)/.exec(output.text)[1];
  return {
    address,
    local: `http://127.0.0.1:${port}`,
    output,
    child,
    ended,
    stop: async () => { child.kill('SIGTERM'); return ended; },
  };
}

export function endAll() {
  for (const child of running) child.kill('SIGKILL');
}

// ---- HTTP without a browser, which allows requests that a browser would not send

export function request(address, { method = 'GET', headers = {}, body, path = '' } = {}) {
  const url = new URL(address + path);
  return new Promise((resolve, reject) => {
    const sent = http.request({ agent: false, host: url.hostname, port: url.port, path: url.pathname + url.search, method, headers: { ...(body !== undefined && {
      'content-type': 'application/x-www-form-urlencoded', 'content-length': Buffer.byteLength(body) }), ...headers } }, (response) => {
      let text = '';
      response.setEncoding('utf8');
      response.on('data', (data) => { text += data; });
      response.on('end', () => resolve({ status: response.statusCode, headers: response.headers, text }));
    });
    sent.setTimeout(PATIENCE, () => sent.destroy(new Error(`${method} ${url}: no answer`)));
    sent.on('error', reject);
    sent.end(body);
  });
}

// Returns a session like a browser's: its cookie, and the token in a page.
export async function session(address, path = '/queues') {
  const page = await request(address, { path });
  const cookie = (page.headers['set-cookie'] ?? [])[0]?.split(';')[0];
  const token = /name="token" value="([^"]+)"/.exec(page.text)?.[1];
  return { cookie, token, page };
}

export async function post(address, path, fields, { cookie, token, origin = new URL(address).origin, headers = {} } = {}) {
  const body = new URLSearchParams({ ...(token !== undefined && { token }), ...fields }).toString();
  return request(address, { method: 'POST', path, body, headers: { ...(cookie && { cookie }), ...(origin && { origin }), ...headers } });
}

// Returns the text of a page, without tags.
export function textOf(page) {
  return page.replace(/<[^>]*>/g, ' ').replace(/&lt;/g, '<').replace(/&gt;/g, '>').replace(/&quot;/g, '"').replace(/&#39;/g, "'").replace(/&amp;/g, '&').replace(/\s+/g, ' ');
}
