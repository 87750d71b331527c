// Runs a process that consists of workers only: handles signals and returns the exit status.
import process from 'node:process';
import { stderrLogger } from './logger.js';
import { ready } from './probes.js';
import { notify } from './systemd.js';
import { messageOf } from './values.js';

const SIGNALS = ['SIGTERM', 'SIGINT'];

/**
 * Starts workers. The first signal stops them, and the second ends the grace period. If a worker cannot start or ends with an
 * error, the others stop gracefully. Returns the exit status: process.exit(await run(worker)).
 */
export async function run(...workers) {
    const asked = new Set();    // workers that have been asked to stop
    let signalled = false;
    let stopping = false;
    // Workers that are stopping already keep their grace period.
    const stopTheOthers = () => {
        if (!stopping) notify('STOPPING=1', stderrLogger);
        stopping = true;
        const others = workers.filter((worker) => !asked.has(worker));
        for (const worker of others) asked.add(worker);
        for (const worker of others) worker.stop();
    };
    const signal = () => {
        if (signalled) workers.forEach((worker) => worker.stop());
        else stopTheOthers();
        signalled = true;
    };
    for (const worker of workers) {
        worker.failed.then(() => {
            asked.add(worker);
            stopTheOthers();
        });
    }
    for (const name of SIGNALS) process.on(name, signal);
    try {
        const started = await Promise.allSettled(workers.map((worker) => worker.start()));
        const failed = started.filter(({ status }) => status === 'rejected');
        for (const { reason } of failed) stderrLogger.error(`jobq: ${messageOf(reason)}`);
        if (failed.length) stopTheOthers();
        else ready(stderrLogger);
        const ends = await Promise.allSettled(workers.map((worker) => worker.stopped));
        return failed.length || ends.some(({ value }) => value !== true) ? 1 : 0;
    } finally {
        for (const name of SIGNALS) process.off(name, signal);
    }
}
