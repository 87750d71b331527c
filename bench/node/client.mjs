// jobq by its own client, clients/node, which run.sh has copied beside this file. {slots, prepare}: as many handlers at once, which is
// also how many jobs a claim takes. The jobs are enqueued by scenarios/peers.py.

import { Worker } from './client/index.js';
import { config, connection, Record } from './common.mjs';

const record = new Record();
const quiet = { info() {}, warn: console.error, error: console.error };
const worker = new Worker({
    queue: 'bench', slots: config.slots, prepare: config.prepare ?? false, connection, logger: quiet,
    handlers: { '': (job) => record.handled(job.id) },
});
await worker.start();
await record.measure(config.seconds);
if (!(await worker.stop())) throw new Error('not everything was reported');
record.report();
