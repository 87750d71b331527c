// BullMQ with the Redis server that redis.py has started: {socket, concurrency}. It keeps completed jobs, which is its default.

import { Queue, Worker } from 'bullmq';
import { action, config, payload, Record } from './common.mjs';

const connection = { path: config.socket, maxRetriesPerRequest: null };

async function fill() {
    const queue = new Queue('bench', { connection });
    for (let begin = 0; begin < config.jobs; begin += 5000) {
        const jobs = [];
        for (let n = begin; n < Math.min(begin + 5000, config.jobs); n++) jobs.push({ name: 'bench', data: payload(n) });
        await queue.addBulk(jobs);
    }
    await queue.close();
}

async function work() {
    const record = new Record();
    const worker = new Worker('bench', async (job) => record.handled(job.id), { connection, concurrency: config.concurrency });
    worker.on('error', (error) => console.error(error.message));
    await record.measure(config.seconds);
    await worker.close();
    record.report();
}

await (action === 'fill' ? fill() : work());
