// The worker for the scenarios in clients/scenarios: handlers that run in the library's Worker.
import process from 'node:process';
import { createRequire } from 'node:module';
import { setTimeout as sleep } from 'node:timers/promises';
import { Cancelled, Fail, Snooze, Worker, optionsOfEnvironment, run } from './src/index.js';

const pg = createRequire(import.meta.url)('pg');

// A separate connection for the writes and checks of handlers, opened when needed and opened again until it works.
let shared = null;
async function query(text, values) {
    for (;;) {
        try {
            if (!shared) {
                const client = new pg.Client();
                client.on('error', () => { if (shared === client) shared = null; });
                await client.connect();
                shared = client;
            }
            return (await shared.query(text, values)).rows;
        } catch {
            shared?.end().catch(() => {});
            shared = null;
            await sleep(200);
        }
    }
}

const tell = (job, event) =>
    query('INSERT INTO scenario.events (job_id, attempt, event) VALUES ($1, $2, $3)', [job.id, job.attempt, event]);

async function gate(job, name, { listens = true } = {}) {
    while (name) {
        if (listens) job.check();
        if ((await query('SELECT FROM scenario.gates WHERE name = $1', [name])).length) return;
        await sleep(100);
    }
}

const effect = (job, name) => (client) =>
    client.query('INSERT INTO scenario.effects (job_id, attempt, name) VALUES ($1, $2, $3)', [job.id, job.attempt, name]);

const waits = (listens) => async (job) => {
    await tell(job, 'started');
    try {
        await gate(job, job.payload.gate, { listens });
    } catch (error) {
        if (error instanceof Cancelled) await tell(job, job.cancelled);
        throw error;
    }
    return { gate: job.payload.gate };
};

const handlers = {
    echo: (job) => job.payload,
    fail(job) {
        if (job.attempt <= (job.payload.times ?? 0)) throw new Error(job.payload.message);
        return { attempt: job.attempt };
    },
    reject(job) {
        const { message, retry_in: retryIn } = job.payload;
        throw new Fail(message, { retryIn, retry: retryIn !== undefined });
    },
    snooze(job) {
        if (job.progress !== null) return { snoozed: true };
        job.setProgress({ snoozed: true });
        throw new Snooze(job.payload.delay);
    },
    wait: waits(true),
    deaf: waits(false),
    async sleep(job) {
        await tell(job, 'started');
        await sleep(job.payload.seconds * 1000);
        return {};
    },
    async block(job) {
        await tell(job, 'started');
        Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, job.payload.seconds * 1000);
        return {};
    },
    async progress(job) {
        await tell(job, 'started');
        for (let step = 1; step <= job.payload.steps; step += 1) job.setProgress({ step });
        await gate(job, job.payload.gate);
        return { steps: job.payload.steps };
    },
    async transfer(job) {
        await tell(job, 'started');
        await gate(job, job.payload.gate, { listens: false });
        await job.completing(async (client) => {
            await effect(job, 'transfer')(client);
            if (job.payload.error && job.attempt === 1) throw new Error(job.payload.error);
            return { moved: true };
        });
    },
    async steps(job) {
        await tell(job, 'started');
        const results = [];
        for (const name of job.payload.names) {
            if (name === job.payload.before) await gate(job, job.payload.gate);
            results.push(await job.step(name, async (client) => {
                await effect(job, name)(client);
                return { name };
            }));
        }
        return results;
    },
    garbage(job) {
        if (job.payload.in === 'error') throw new Error('bad \ud800\0 bytes');
        if (job.payload.in === 'result') return '\0';
        job.setProgress('\0');
        return waits(true)(job);
    },
    async poison(job) {
        await tell(job, 'started');
        process.kill(process.pid, 'SIGKILL');
    },
};

let status = 1;
try {
    // No prepared statements through a pooler in transaction mode, because it does not support them.
    status = await run(new Worker({ ...optionsOfEnvironment(), handlers, prepare: process.env.JOBQ_WAY === 'direct' }));
} catch (error) {
    process.stderr.write(`scenario_worker: ${error.message}\n`);
}
process.exit(status);
