#!/usr/bin/env node
// The order of order.py in Node: charge, ship, wait for the carrier, and refund if the carrier does not deliver in time. See
// order.py for its tables and its guarantees.
//
//     node order.mjs [QUEUE]          connects with PGHOST, PGPORT, PGUSER, and PGDATABASE, as psql does
//
// Needs node-postgres: npm install pg.
import os from 'node:os';
import process from 'node:process';
import { pathToFileURL } from 'node:url';
import { createRequire } from 'node:module';

const pg = createRequire(import.meta.url)('pg');
const collided = ['40001', '40P01'];    // collided with another transaction, without a fault of the handler
const mostCollisions = 10;
const collisions = new Map();
const workerId = `${os.hostname()}-${process.pid}`;

// Thrown when this worker is done with the job: it waits, was canceled, or belongs to another worker.
class Stop extends Error {}

class Workflow {
  constructor(client, job) {
    this.client = client;
    this.held = [job.id, job.lease];
  }

  // Runs effect(client), which writes and returns the result, once, even if the job is claimed again.
  async step(name, effect) {
    const { client, held } = this;
    const { rows: [asked] } = await client.query('SELECT * FROM jobq_step($1, $2, $3)', [...held, name]);
    if (asked.state === 'done') return asked.result;
    if (asked.state !== 'run') throw new Stop(asked.state);
    await client.query('BEGIN');
    try {
      const result = await effect(client);
      // The last statement of the transaction. If the lease is lost, it fails, and the writes of effect() are rolled back.
      await client.query('SELECT jobq_step_done($1, $2, $3, $4)', [...held, name, result]);
      await client.query('COMMIT');
      return result;
    } catch (error) {
      await client.query('ROLLBACK');
      throw error;
    }
  }

  // Returns { state: ready or timeout, payload }, or throws Stop while neither has happened.
  async wait(event, timeout) {
    const { rows: [answer] } = await this.client.query('SELECT * FROM jobq_await($1, $2, $3, $4)', [...this.held, event, timeout]);
    if (!['ready', 'timeout'].includes(answer.state)) throw new Stop(answer.state);
    return answer;
  }

  async complete(result) {
    await this.client.query('SELECT jobq_complete($1, $2, $3, must_hold => true)', [...this.held, result]);
  }
}

const insert = (table, ...values) => async (client) => {
  await client.query(`INSERT INTO ${table} VALUES (${values.map((_, i) => `$${i + 1}`)})`, values);
  return { at: Date.now() };
};

async function order(workflow, { order: number, cents }, patience) {
  await workflow.step('charge', insert('charges', number, cents));
  await workflow.step('ship', insert('shipments', number));
  const { state } = await workflow.wait('delivered', patience);
  if (state === 'timeout') await workflow.step('refund', insert('refunds', number, cents));
  await workflow.complete({ delivered: state === 'ready' });
  return state === 'ready' ? 'delivered' : 'refunded';
}

async function fail(client, { id, lease }, message) {
  try {
    await client.query('SELECT jobq_fail($1, $2, $3)', [id, lease, message]);
  } catch (error) {
    if (error.code !== '22P05') throw error;   // a character does not exist in the encoding of the database
    await client.query('SELECT jobq_fail($1, $2, $3)', [id, lease, message.replace(/[^\x20-\x7e\n]/gu, '?')]);
  }
}

// Returns false if there is no job.
export async function serveOne(client, queue, patience = '3 days') {
  const { rows: [job] } = await client.query('SELECT * FROM jobq_claim($1, $2)', [queue, workerId]);
  if (!job) return false;
  let outcome;
  try {
    outcome = await order(new Workflow(client, job), job.payload, patience);
  } catch (error) {
    if (error instanceof Stop) {
      outcome = error.message;
      if (outcome.startsWith('cancel')) await client.query('SELECT jobq_release($1, $2)', [job.id, job.lease]);
    } else {
      // Any error fails only this order. If the connection is broken, the error ends the worker.
      const count = collisions.get(job.id) ?? 0;
      if (collided.includes(error.code) && count < mostCollisions) {
        outcome = 'collided';
        collisions.set(job.id, count + 1);
        await client.query('SELECT jobq_release($1, $2)', [job.id, job.lease]);
      } else {
        outcome = error.code === 'JQ001' ? 'lost' : `failed: ${error.message}`;
        await fail(client, job, error.message.replaceAll('\0', '?'));
      }
    }
  }
  if (outcome !== 'collided') collisions.delete(job.id);
  console.log(`job ${job.id}: ${outcome}`);
  return true;
}

if (process.argv[1] && import.meta.url === pathToFileURL(process.argv[1]).href) {
  const queue = process.argv[2] ?? 'orders';
  const client = new pg.Client();
  await client.connect();
  for (;;) {
    if (await serveOne(client, queue)) continue;
    await client.query("CALL jobq_wait($1, '2 s', worker_id => $2)", [queue, workerId]).catch((error) => {
      if (error.code !== '57014') throw error;   // canceled by statement_timeout: treated as the end of the wait
      console.error(`a wait was ended by the server (see the setting statement_timeout): ${error.message}`);
    });
  }
}
