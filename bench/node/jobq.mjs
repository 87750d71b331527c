// jobq through the same driver that the other queues use: four connections claim and complete batches of 100 in a loop.
// scenarios/peers.py enqueues the jobs.

import pg from 'pg';
import { performance } from 'node:perf_hooks';
import { config, connection, Record, sleep } from './common.mjs';

const record = new Record();
let done = false;

async function worker() {
    const client = new pg.Client(connection);
    await client.connect();
    while (!done) {
        const called = performance.now();
        const { rows } = await client.query({
            name: 'claim', text: 'SELECT id, lease, payload FROM jobq_claim($1, $2, $3)', values: ['bench', 'node', config.batch],
        });
        if (!rows.length) { await sleep(5); continue; }
        for (const row of rows) record.handled(row.id);
        const completed = await client.query({
            name: 'complete', text: 'SELECT completed FROM jobq_complete_many($1, $2)',
            values: [rows.map((row) => row.id), rows.map((row) => row.lease)],
        });
        if (!completed.rows.every((row) => row.completed)) throw new Error('a lease was lost');
        record.latencies.push(performance.now() - called);
    }
    await client.end();
}

const workers = Array.from({ length: config.clients }, worker);
await record.measure(config.seconds);
done = true;
await Promise.all(workers);
record.report();
