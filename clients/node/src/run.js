// A process that is nothing but workers: signals, and the status that it ends with.
import process from 'node:process';
import { stderrLogger } from './logger.js';

const SIGNALS = ['SIGTERM', 'SIGINT'];

/** Starts workers, stops them at a signal, and at once at the second one. The status: process.exit(await run(worker)). */
export async function run(...workers) {
    const stop = () => workers.forEach((worker) => worker.stop());
    for (const signal of SIGNALS) process.on(signal, stop);
    try {
        const started = await Promise.allSettled(workers.map((worker) => worker.start()));
        const failed = started.filter(({ status }) => status === 'rejected');
        for (const { reason } of failed) stderrLogger.error(`jobq: ${reason.message || reason.code}`);
        if (failed.length) stop();
        const ends = await Promise.allSettled(workers.map((worker) => worker.stopped));
        return failed.length || ends.some(({ value }) => value !== true) ? 1 : 0;
    } finally {
        for (const signal of SIGNALS) process.off(signal, stop);
    }
}
