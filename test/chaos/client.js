// One client of the chaos run with node-postgres, as a separate process. It writes the same history (test/audit/history.py) and
// the same effects as clients.py, and they are judged together.
//
//     node client.js producer|worker NAME DIRECTORY
'use strict';
const fs = require('fs');
const path = require('path');
const { Client } = require('pg');

const [role, name, directory] = process.argv.slice(2);
const plan = JSON.parse(fs.readFileSync(path.join(directory, 'plan.json')));
const history = fs.openSync(path.join(directory, 'history', `${name}.tsv`), 'a');
const explained = new RegExp(`^(${['53', '57014', '57P', '25006', '58030', ...plan.explained].join('|')})`);

const seconds = () => Number(process.hrtime.bigint()) / 1e9;   // CLOCK_MONOTONIC, as Python's
const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
const flag = (file) => fs.existsSync(path.join(directory, file));
const chance = (share) => Math.random() < share;

let number = 0;
const text = (value) => (value === undefined || value === null ? '-' : String(value));

function write(of, op, phase, items = [], detail = '') {
  const fields = items.map((i) => `${text(i.key)}@${text(i.id)}:${text(i.lease)}:${text(i.attempt)}`).join(',');
  fs.writeSync(history, `${seconds().toFixed(6)}\t${name}\t${of}\t${op}\t${phase}\t${fields}\t${detail.replace(/\s+/g, ' ').trim()}\n`);
}

function invoke(op, items = [], detail = '') {
  number += 1;
  write(number, op, 'invoke', items, detail);
  return number;
}

// The connection broke, so the answer to the current statement will never arrive.
class SessionLost extends Error {}

let client = null;
let broken = true;

async function reconnect() {
  if (client) client.end().catch(() => {});
  for (;;) {
    const of = invoke('session');
    const port = Number(fs.readFileSync(path.join(directory, 'endpoint'), 'utf8'));
    client = new Client({ host: process.env.PGHOST, port, user: process.env.PGUSER, database: plan.database,
                          application_name: `jobq audit ${name}`, connectionTimeoutMillis: 10000 });
    const mine = client;
    client.on('error', () => { if (client === mine) broken = true; });
    client.on('end', () => { if (client === mine) broken = true; });
    try {
      await client.connect();
      broken = false;
      write(of, 'session', 'ok');
      return;
    } catch (error) {
      write(of, 'session', 'fail', [], error.message);
      client.end().catch(() => {});
      await sleep(50);
    }
  }
}

async function sql(statement, parameters) {
  try {
    return (await client.query(statement, parameters)).rows;
  } catch (error) {
    // After an error without a SQLSTATE, or with one that ends the session, this connection is unusable.
    if (!error.code || !/^[0-9A-Z]{5}$/.test(error.code) || /^57P/.test(error.code) || broken) {
      broken = true;
      throw new SessionLost(error.message);
    }
    throw error;
  }
}

// Runs body in a transaction; returns 'ok', 'fail' (rolled back), or 'unknown'.
async function transaction(op, of, items, body) {
  let committing = false;
  try {
    await sql('BEGIN');
    if (chance(0.01) && !flag('calm')) await sql(`SET LOCAL statement_timeout = ${1 + Math.floor(Math.random() * 5)}`);
    await body();
    committing = true;
    await sql('COMMIT');
    write(of, op, 'ok', items());
    return 'ok';
  } catch (error) {
    if (error instanceof SessionLost) {
      write(of, op, committing ? 'unknown' : 'fail', items());
      throw error;
    }
    await sql('ROLLBACK');
    if (error.code === 'JQ001' || explained.test(error.code)) write(of, op, 'fail', items(), error.code);
    else write(of, op, 'error', items(), `${error.code} ${error.message}`);
    return 'fail';
  }
}

async function produce() {
  let sequence = 0;
  let acknowledged = 0;
  const share = Math.ceil(plan.jobs / plan.producers);
  const begun = seconds();
  while (acknowledged < share) {
    // The producer spreads its jobs over the time of the faults.
    const ahead = acknowledged / share * plan.pace - (seconds() - begun);
    if (ahead > 0) await sleep(ahead * 1000);
    const count = Math.min(chance(0.5) ? 100 : 5, share - acknowledged);
    const items = Array.from({ length: count }, () => ({ key: `${name}.${sequence++}` }));
    const of = invoke('enqueue', items);
    try {
      const outcome = await transaction('enqueue', of, () => items, async () => {
        const rows = await sql('SELECT job_id FROM jobq_enqueue_many($1, $2::jsonb[])',
                               [plan.queue, items.map((item) => JSON.stringify({ k: item.key }))]);
        rows.forEach((row, i) => { items[i].id = row.job_id; });
      });
      if (outcome === 'ok') acknowledged += count;
    } catch (error) {
      if (!(error instanceof SessionLost)) throw error;
      await reconnect();
    }
  }
}

async function claim() {
  const of = invoke('claim');
  let items = [];
  const outcome = await transaction('claim', of, () => items, async () => {
    const rows = await sql(`SELECT payload->>'k' AS key, id, lease, attempt FROM jobq_claim($1, $2, $3)`,
                           [plan.queue, name, chance(0.7) ? 1 : 20]);
    items = rows.map((row) => ({ key: row.key, id: row.id, lease: row.lease, attempt: row.attempt }));
  });
  return outcome === 'ok' ? items : [];
}

const columns = (items) => [items.map((i) => i.id), items.map((i) => i.lease), items.map((i) => i.key)];

async function complete(items) {
  const of = invoke('complete', items, 'must_hold');
  await transaction('complete', of, () => items, async () => {
    const [ids, leases, keys] = columns(items);
    await sql(`INSERT INTO effects (id, lease, key, client, number)
               SELECT e.id, e.lease, e.key, $1, $2 FROM unnest($3::bigint[], $4::bigint[], $5::text[]) AS e (id, lease, key)`,
              [name, of, ids, leases, keys]);
    for (const item of [...items].sort((a, b) => Number(BigInt(a.id) - BigInt(b.id))))
      await sql('SELECT jobq_complete($1, $2, NULL, true)', [item.id, item.lease]);
  });
}

async function fail(items) {
  const of = invoke('fail', items, 'many');
  let held = [];
  await transaction('fail', of, () => held, async () => {
    const [ids, leases] = columns(items);
    const rows = await sql(`SELECT job_id FROM jobq_fail_many($1, $2, NULL, '30 ms') WHERE status IS NOT NULL`, [ids, leases]);
    held = items.filter((item) => rows.some((row) => row.job_id === item.id));
  });
}

async function work() {
  const end = seconds() + plan.seconds;
  while (seconds() < end && !flag('stop')) {
    try {
      const items = await claim();
      if (items.length === 0) {
        await sleep(20);
        continue;
      }
      if (chance(0.3)) await sleep(Math.random() * 20);
      const failing = items.filter(() => chance(0.05));
      const working = items.filter((item) => !failing.includes(item));
      if (failing.length > 0) await fail(failing);
      if (working.length > 0) await complete(working);
    } catch (error) {
      if (!(error instanceof SessionLost)) throw error;
      await reconnect();
    }
  }
}

(async () => {
  await reconnect();
  await (role === 'producer' ? produce() : work());
  process.exit(0);
})().catch((error) => {
  write(number, role === 'producer' ? 'enqueue' : 'claim', 'error', [], `${error.code} ${error.stack}`);
  process.exit(1);
});
