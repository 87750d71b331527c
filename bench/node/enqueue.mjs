// Callers that enqueue one job after the other through jobq's client, clients/node, which run.sh has copied next to this file. {callers,
// combined, seconds}: with combined, the calls share statements. Prints one line of JSON: the number of enqueued jobs and the time.

import { performance } from 'node:perf_hooks';
import pg from 'pg';
import { combinedEnqueue, enqueue } from './client/src/index.js';
import { config, connection, payload } from './common.mjs';

const pool = new pg.Pool({ ...connection, max: config.callers });
const send = config.combined ? combinedEnqueue(pool) : (...job) => enqueue(pool, ...job);
const callers = Array.from({ length: config.callers });
await Promise.all(callers.map(() => pool.query('SELECT pg_sleep(0.1)')));     // opens all connections
let enqueued = 0;
const begun = performance.now();
const until = begun + config.seconds * 1000;
await Promise.all(callers.map(async () => {
    while (performance.now() < until) {
        await send('bench', payload(enqueued));
        enqueued += 1;
    }
}));
console.log(JSON.stringify({ enqueued, seconds: (performance.now() - begun) / 1000 }));
await pool.end();
