// Tests when a worker is stuck, and what the probes are told then. Needs no server.
import assert from 'node:assert/strict';
import { existsSync, mkdtempSync, rmSync, unlinkSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import process from 'node:process';
import { after, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { Claims } from '../src/claims.js';
import { CLAIMS, HEARTBEATS, newDue, stuckOf } from '../src/due.js';
import { Heartbeats } from '../src/heartbeats.js';
import { Liveness } from '../src/liveness.js';
import { addressOf, checkedOptions, optionsOfEnvironment } from '../src/options.js';
import { Pace } from '../src/pace.js';
import { CLAIM, WAIT } from '../src/statements.js';
import { watchdog } from '../src/systemd.js';
import { now } from '../src/timing.js';
import { freePort, probe } from './probe.mjs';

const directory = mkdtempSync(join(tmpdir(), 'jobq-liveness-'));
after(() => rmSync(directory, { recursive: true }));
const until = async (condition) => { while (!await condition()) await sleep(5); };
const timeout = 60_000;
const silent = { info() {}, warn() {}, error() {} };

// Starts claims whose connection sends statements to answer(statement, hangs), which returns rows, or the promise hangs to give no
// answer until end().
function claiming({ answer, room = () => 1, ...options }) {
    const due = newDue();
    let open;
    const hangs = new Promise((resolve) => { open = resolve; });
    const hand = { room, rooms() {}, done: 0, takeDone: () => [], goAway() {}, wake() {}, claimed() {}, report() {}, changed: () => hangs };
    const claims = new Claims({
        options: checkedOptions({ handlers: { x() {} }, ...options }), hand, configuration: () => ({}), log: silent, pace: new Pace({ log: silent }), due,
    });
    const client = { query: async ({ text }) => ({ rows: await answer(text, hangs) ?? [{ jobs: [] }] }), connection: { stream: { destroy() {} } } };
    claims.connection.open = async () => client;
    const over = claims.start();
    const end = async () => {
        claims.stop();
        open();
        await over;
    };
    return { claims, due, end };
}

test('claims without an answer are stuck after 120 s, but not if the worker stops', { timeout }, async () => {
    const asked = [];
    const { claims, due, end } = claiming({ answer: (text, hangs) => { asked.push(text); return hangs; } });
    await until(() => asked.includes(CLAIM));
    assert.ok(due[CLAIMS] <= now());
    assert.equal(stuckOf(due, due[CLAIMS] + 120), undefined);
    assert.equal(stuckOf(due, due[CLAIMS] + 121), 'claims');
    claims.stop();
    assert.equal(stuckOf(due, Number.MAX_VALUE), undefined);
    await end();
});

test('a wait may take wait_timeout longer', { timeout }, async () => {
    let waits;
    const { due, end } = claiming({ waitTimeout: 3600, answer: (text, hangs) => {
        if (text !== WAIT) return text === CLAIM ? [{ jobs: [] }] : [{ may_look: false }];
        waits = now();
        return hangs;
    } });
    await until(() => waits);
    assert.ok(due[CLAIMS] > waits + 3000, `${due[CLAIMS] - waits}`);
    await end();
});

test('a pause between polls is not stuck', { timeout }, async () => {
    let claimed = 0;
    const { due, end } = claiming({ pollInterval: 3600, answer: (text) => (text === CLAIM ? (claimed += 1, [{ jobs: [] }]) : [{ may_look: false }]) });
    await until(() => claimed > 3 && due[CLAIMS] > now());
    await end();
});

test('no claims are expected while all slots are busy, or while handlers block the thread', { timeout }, async () => {
    const full = claiming({ room: () => 0, answer: () => [{ jobs: [] }] });
    await until(() => full.due[CLAIMS] === Infinity);
    await full.end();
    let seen;
    const { claims, due } = claiming({ answer: () => [{ jobs: [{}] }] });
    claims.hand.claimed = () => {
        seen = due[CLAIMS];
        claims.stop();
    };
    await until(() => seen);
    assert.equal(seen, Infinity);
});

test('a worker whose database is down is alive', { timeout }, async () => {
    const { claims, due, end } = claiming({ answer: () => [{ jobs: [] }] });
    const heartbeats = new Heartbeats({ configuration: () => ({}), log: silent, heard() {}, progressed() {}, due });
    const tries = [[], []];
    for (const [place, { connection }] of [claims, heartbeats].entries()) {
        connection.open = async () => {
            tries[place].push(due[place]);
            throw new Error('down');
        };
    }
    heartbeats.change([], [{ id: '1', lease: '1', every: 0.01 }]);
    await until(() => tries.every((found) => found.length >= 4));
    await end();
    await heartbeats.close();
    for (const found of tries) {
        const last = found.slice(-3);
        assert.ok(last.every((at, place) => place === 0 || at > last[place - 1]), `${found}`);
    }
});

test('heartbeats that are due but not sent, or not answered, are stuck after 120 s', { timeout }, async () => {
    const heartbeats = new Heartbeats({ configuration: () => ({}), log: silent, heard() {}, progressed() {} });
    const { due } = heartbeats;
    heartbeats.connection.reopen = async () => {};
    assert.equal(due[HEARTBEATS], Infinity);
    heartbeats.change([], [{ id: '1', lease: '1', every: 3600 }]);
    assert.ok(due[HEARTBEATS] > now() + 3000);
    let asked = 0;
    heartbeats.query = () => {
        asked += 1;
        return new Promise(() => {});
    };
    heartbeats.change([], [{ id: '2', lease: '2', every: 0.01 }]);
    await until(() => asked);
    assert.ok(due[HEARTBEATS] <= now());
    assert.equal(stuckOf(due, due[HEARTBEATS] + 120), undefined);
    assert.equal(stuckOf(due, due[HEARTBEATS] + 121), 'heartbeats');
    await heartbeats.close();
    const idle = new Heartbeats({ configuration: () => ({}), log: silent, heard() {}, progressed() {} });
    idle.change([], [{ id: '1', lease: '1', every: 3600 }]);
    idle.change(['1'], []);
    assert.equal(idle.due[HEARTBEATS], Infinity);
    await idle.close();
});

test('the file, the port, and the watchdog cover all workers of the process', { timeout }, async () => {
    const [logs, states, port, file, dues] = [[], [], await freePort(), join(directory, 'alive'), [newDue(), newDue()]];
    const liveness = new Liveness({ log: (text) => logs.push(text), notify: (state) => states.push(state), every: 0.01 });
    await Promise.all(dues.map((due, number) => liveness.watch(number, { id: `worker ${number}`, due, livenessFile: file, livenessPort: port })));
    unlinkSync(file);
    await until(() => existsSync(file));
    assert.deepEqual(await probe(port, '/any/path'), [200, 'ok']);
    liveness.ready(0.02);
    await until(() => states.length > 2);
    assert.deepEqual([...new Set(states)], ['WATCHDOG=1']);
    dues[1][HEARTBEATS] = now() - 121;
    assert.deepEqual(await probe(port), [503, 'worker 1: heartbeats are stuck']);
    await until(() => logs.length);
    assert.match(logs[0], /liveness probes fail: worker 1: heartbeats are stuck/);
    unlinkSync(file);
    states.length = 0;
    await sleep(200);
    assert.deepEqual([existsSync(file), states], [false, []]);
    dues[1][HEARTBEATS] = Infinity;
    await until(() => existsSync(file) && states.length);
    assert.equal((await probe(port))[0], 200);
    liveness.leave(0);
    assert.equal((await probe(port))[0], 200);
    liveness.leave(1);
    await assert.rejects(probe(port));
});

test('a file or a port that cannot be used is an error', { timeout }, async () => {
    const taken = createServer();
    await new Promise((resolve) => taken.listen(0, '127.0.0.1', resolve));
    const liveness = new Liveness({ log() {}, notify() {} });
    const watch = (options) => liveness.watch(1, { id: 'worker', due: newDue(), ...options });
    await assert.rejects(watch({ livenessPort: `127.0.0.1:${taken.address().port}` }), /option livenessPort cannot be used: .*EADDRINUSE/);
    await assert.rejects(watch({ livenessFile: join(directory, 'no', 'file') }), /option livenessFile cannot be used: ENOENT/);
    taken.close();
});

test('the options of liveness', () => {
    assert.deepEqual(optionsOfEnvironment({ JOBQ_LIVENESS_FILE: '/tmp/alive', JOBQ_LIVENESS_PORT: '8080' }),
        { livenessFile: '/tmp/alive', livenessPort: '8080' });
    assert.deepEqual([8080, '8080', '127.0.0.1:80', '[::1]:80'].map(addressOf),
        [[undefined, 8080], [undefined, 8080], ['127.0.0.1', 80], ['::1', 80]].map(([host, port]) => ({ host, port })));
    for (const [environment, seconds] of [[{}, undefined], [{ WATCHDOG_USEC: '0' }, undefined], [{ WATCHDOG_USEC: '2500000' }, 2.5],
        [{ WATCHDOG_USEC: '2500000', WATCHDOG_PID: String(process.pid) }, 2.5], [{ WATCHDOG_USEC: '2500000', WATCHDOG_PID: '1' }, undefined]]) {
        assert.equal(watchdog(environment), seconds);
    }
});
