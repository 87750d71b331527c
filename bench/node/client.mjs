// jobq through its own client, clients/node, which run.sh has copied next to this file. {slots, prefetch, prepare}: slots is the number
// of handlers that run at once. scenarios/peers.py enqueues the jobs.

import { Worker } from './client/src/index.js';
import { config, connection, Record } from './common.mjs';

const record = new Record();
const quiet = { info() {}, warn: console.error, error: console.error };
const worker = new Worker({
    queue: 'bench', slots: config.slots, prefetch: config.prefetch ?? 0, prepare: config.prepare ?? false, connection, logger: quiet,
    handlers: { '': (job) => record.handled(job.id) },
});
await worker.start();
await record.measure(config.seconds);
if (!(await worker.stop())) throw new Error('not everything was reported');
record.report();
