// Many jobs for a receiver that misbehaves, while jobq-push is killed at random. JOBQ_PUSH_JOBS: the number of jobs, for example 100000.
import assert from 'node:assert/strict';
import process from 'node:process';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { enqueueMany } from 'jobq-client';
import { newDatabase } from '../../node/test/server.mjs';
import { configurationFor, freePort, json, newSecret, receiver, report, start } from './harness.mjs';

const JOBS = Number(process.env.JOBQ_PUSH_JOBS ?? 1000);
const KILLS = Math.max(5, JOBS / 500);     // after them, the remaining jobs complete
const STILL = 300_000;      // ms without a completed job after which the test fails
const database = await newDatabase('load');
const port = await freePort();
const reports = { listen: `127.0.0.1:${port}`, url: `http://127.0.0.1:${port}` };
const chance = (share) => Math.random() < share;
const between = (least, most) => least + Math.random() * (most - least);

// What the receiver has given for each job: results of answers with 200, and of reports with a valid signature.
const given = new Map();
let results = 0;
const resultFor = ({ job }) => {
    const result = { job: job.id, number: results += 1 };
    if (!given.has(job.id)) given.set(job.id, new Set());
    given.get(job.id).add(result.number);
    return result;
};

let over = false;

// Sends until jobq-push has taken the report or the test is over. Returns the state.
async function reliably(request, rest, how) {
    while (!over) {
        const { status, state } = await report(request, rest, how).catch(() => ({}));
        if (status === 200 || status === 404 || status === 401) return state ?? status;
        await sleep(200);
    }
    return undefined;
}

const forged = { accepted: 0 };
async function forge(request) {
    const state = await reliably(request, { status: 'completed', result: { job: request.job.id, number: 'forged' } }, { signer: newSecret() });
    if (state !== 401 && !over) forged.accepted += 1;
}

async function answer(request, response, incoming) {
    const { job } = request;
    if (chance(0.03)) return incoming.socket.destroy();
    if (chance(0.03)) return json(response, 500, { sorry: true });
    if (chance(0.03)) return json(response, chance(0.5) ? 429 : 503, {}, { 'retry-after': '1' });
    if (chance(0.01)) return undefined;         // never: the request times out
    if (chance(0.02)) await sleep(between(0, 2000));
    if (job.queue === 'now') {
        const result = resultFor(request);
        if (!chance(0.02)) return json(response, 200, result);
        response.writeHead(200, { 'content-type': 'application/json', 'content-length': 1000 }).write('{');
        return incoming.socket.destroy();
    }
    if (chance(0.1)) forge(request);
    const done = { status: 'completed', result: resultFor(request) };
    const early = chance(0.2);
    const send = () => reliably(request, done);
    if (early) await Promise.race([send(), sleep(5000)]);
    json(response, 202, {});
    if (!early && !chance(0.02)) sleep(between(0, 1000)).then(send);
    if (chance(0.1)) send();            // twice
    return undefined;
}

test(`${JOBS} jobs arrive and complete while jobq-push is killed`, async (t) => {
    const found = await receiver(answer);
    const settings = "max_attempts => 1000, max_lost => 1000, backoff_base => '10 ms', backoff_max => '1 s', keep_completed => '1 day'";
    for (const queue of ['now', 'later']) {
        await database.query(`SELECT jobq_create_queue('${queue}', ${settings})`);
        for (let left = JOBS / 2; left > 0; left -= 1000) await enqueueMany(database.pool, queue, Array(Math.min(left, 1000)).fill({}), { kind: 'k' });
    }
    const ids = (await database.query('SELECT id FROM jobq.jobs')).map(({ id }) => id);
    const configuration = configurationFor(['now', 'later'].map((queue) => ({
        name: queue, queues: [queue], url: found.url, timeout: 2, concurrency: 20, ...(queue === 'later' && { reportTimeout: 10 }),
        circuit: { failures: 20, openFor: 1 },
    })), { reports, worker: { heartbeatTimeout: 2 } });

    let running = start(configuration), kills = 0;
    const completed = async () => Number(await database.value("SELECT count(*) FROM jobq.jobs WHERE status = 'completed'"));
    for (let before = 0, since = Date.now(); ;) {
        await sleep(between(500, 4000));
        const count = await completed();
        if (count > before) [before, since] = [count, Date.now()];
        if (count === ids.length) break;
        assert.ok(Date.now() - since < STILL, `${count} of ${ids.length} jobs are completed, and no more. ${running.output.slice(-4000)}`);
        assert.equal(running.child.exitCode, null, running.output);
        // Only a program that has started to work is killed, so that the test makes progress on a slow machine.
        if (kills >= KILLS || !running.output.includes('serves queue later')) continue;
        running.child.kill('SIGKILL');
        await running.ended;
        kills += 1;
        running = start(configuration);
    }
    assert.equal(await running.stop(), 0, running.output);
    over = true;
    const rows = await database.query("SELECT id, queue, result FROM jobq.jobs WHERE status = 'completed'");
    const arrived = new Set(found.requests.map(({ job }) => job.id));
    const never = ids.filter((id) => !arrived.has(id));
    const invented = rows.filter(({ id, result }) => result?.job !== id || !given.get(id)?.has(result.number));
    assert.deepEqual({ rows: rows.length, never, invented, forged: forged.accepted, signatures: found.forged },
        { rows: ids.length, never: [], invented: [], forged: 0, signatures: 0 });
    assert.ok(kills > 0);
    // All requests of an attempt have the same key, and keys are never those of another attempt.
    for (const { job, headers } of found.requests) assert.equal(headers['idempotency-key'], `${job.id}-${job.attempt}`);
    t.diagnostic(`${found.requests.length} requests, ${kills} kills`);
});
