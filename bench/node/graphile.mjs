// graphile-worker. Modes: "default" (its defaults: one job at a time), "best" (the settings of its page on performance:
// 24 or `concurrency` at a time, a local queue of 500, completions in batches), "concurrent" (its defaults, `concurrency` jobs at a time).

import { Logger, makeWorkerUtils, run } from 'graphile-worker';
import { action, config, connectionString, payload, Record } from './common.mjs';

const quiet = new Logger(() => (level, message) => {
    if (level === 'error' && !/shutdown|SIGTERM/.test(message)) console.error(message);
});
const atOnce = config.concurrency ?? 24;
const best = {
    concurrentJobs: atOnce, maxPoolSize: atOnce + 1, localQueue: { size: 500 }, completeJobBatchDelay: 0, failJobBatchDelay: 0,
};

async function fill() {
    const utils = await makeWorkerUtils({ connectionString, logger: quiet });
    await utils.migrate();
    for (let start = 0; start < config.jobs; start += 5000) {
        const jobs = [];
        for (let n = start; n < Math.min(start + 5000, config.jobs); n++) jobs.push({ identifier: 'bench', payload: payload(n) });
        await utils.addJobs(jobs);
    }
    await utils.release();
}

async function work() {
    const record = new Record();
    const taskList = { bench: (_payload, helpers) => record.handled(helpers.job.id) };
    const concurrent = { concurrentJobs: atOnce, maxPoolSize: atOnce + 1 };
    const worker = { connectionString, ...({ best, concurrent }[config.mode] ?? {}) };
    const runner = await run({ preset: { worker }, logger: quiet, noHandleSignals: true, taskList, crontab: '' });
    await record.measure(config.seconds);
    await runner.stop();
    record.report();
}

await (action === 'fill' ? fill() : work());
