// pg-boss. Modes: "default" (work() with its defaults: one job every two seconds), "best" (batches, four workers, no pause while
// batches are full), "fetch" (fetch and complete in a loop, batches, four at a time).

import { PgBoss } from 'pg-boss';
import { performance } from 'node:perf_hooks';
import { action, config, connectionString, payload, Record, sleep } from './common.mjs';

const WORKERS = config.workers ?? 4;

async function start() {
    const boss = new PgBoss({ connectionString, supervise: false, schedule: false, max: WORKERS + 2 });
    boss.on('error', (error) => console.error(error.message));
    await boss.start();
    if (!(await boss.getQueue('bench'))) await boss.createQueue('bench');
    return boss;
}

async function fill() {
    const boss = await start();
    for (let begin = 0; begin < config.jobs; begin += 5000) {
        const jobs = [];
        for (let n = begin; n < Math.min(begin + 5000, config.jobs); n++) jobs.push({ data: payload(n) });
        await boss.insert('bench', jobs);
    }
    await boss.stop({ graceful: true });
}

async function work() {
    const boss = await start();
    const record = new Record();
    let done = false;
    const handle = async (jobs) => { for (const job of jobs) record.handled(job.id); };
    const loops = [];
    if (config.mode === 'fetch') {
        for (let i = 0; i < WORKERS; i++) {
            loops.push((async () => {
                while (!done) {
                    const called = performance.now();
                    const jobs = await boss.fetch('bench', { batchSize: config.batch });
                    if (!jobs.length) { await sleep(5); continue; }
                    await handle(jobs);
                    await boss.complete('bench', jobs.map((job) => job.id));
                    record.latencies.push(performance.now() - called);
                }
            })());
        }
    } else {
        const best = { batchSize: config.batch, localConcurrency: WORKERS, burstWhenBatchFull: true };
        await boss.work('bench', config.mode === 'best' ? best : {}, handle);
    }
    await record.measure(config.seconds);
    done = true;
    await Promise.all(loops);
    await boss.stop({ graceful: true, timeout: 10_000 });
    record.report();
}

await (action === 'fill' ? fill() : work());
