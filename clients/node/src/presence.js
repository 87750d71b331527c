// The description of a worker that the server shows in the view jobq.workers. Needs no server.
import { createRequire } from 'node:module';

const { version } = createRequire(import.meta.url)('../package.json');

const MOST_BYTES = 3000;    // the server accepts 4 kB of jsonb, which needs a few more bytes than the JSON text

/**
 * Returns the argument worker_info of claims, waits, and heartbeats. now: passed to the statements as long as the worker works. last:
 * passed when the worker has stopped.
 */
export function presenceOf({ workerId, queue, queues, patterns, slots, kinds }) {
    const info = {
        worker_id: workerId, queues: queues ? [...queues.keys()] : [queue], ...(patterns?.size && { patterns: [...patterns.keys()] }), slots, client: `jobq-node ${version}`,
        started_at: new Date().toISOString(),
    };
    // A worker with very many kinds does not list them, and a worker with very many queues is not shown.
    const now = [{ ...info, kinds }, info].map((each) => JSON.stringify(each)).find((text) => Buffer.byteLength(text) <= MOST_BYTES) ?? null;
    return { now, last: now && JSON.stringify({ ...info, expires_in: '0' }) };
}
