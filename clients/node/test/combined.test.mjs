// Combined enqueues: how many statements they need, and what fails if one job is rejected or the connection breaks.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { OptionError, combinedEnqueue } from '../src/index.js';
import { newDatabase } from './server.mjs';

const database = await newDatabase('combined');
const { pool } = database;
const rowsOf = (queue) => database.query('SELECT id, kind, payload FROM jobq.jobs WHERE queue = $1 ORDER BY id', [queue]);

// Counts the statements, and lets `answer` replace the answers of the server.
function counting(answer = (statement) => pool.query(statement)) {
    const counted = { statements: 0, connectionParameters: {}, query: (statement) => { counted.statements += 1; return answer(statement); } };
    return counted;
}

test('concurrent calls share statements, and each gets the id of its job', async () => {
    const counted = counting();
    const enqueue = combinedEnqueue(counted, { most: 40 });
    const ids = await Promise.all(Array.from({ length: 100 }, (_, n) => enqueue('shared', { n }, { kind: `kind ${n % 3}`, metadata: { n } })));
    assert.equal(counted.statements, 3);
    const byId = new Map((await rowsOf('shared')).map((row) => [row.id, row]));
    ids.forEach((id, n) => assert.deepEqual([byId.get(id).payload, byId.get(id).kind], [{ n }, `kind ${n % 3}`]));
    assert.equal(byId.size, 100);
    assert.equal(typeof await enqueue(), 'string');     // a single call, with the defaults
    assert.equal(counted.statements, 4);
});

test('calls that arrive during a statement share the next statement', async () => {
    let open;
    const opened = new Promise((resolve) => { open = resolve; });
    const counted = counting(async (statement) => { if (counted.statements === 1) await opened; return pool.query(statement); });
    const enqueue = combinedEnqueue(counted);
    const first = enqueue('late', 1);
    while (counted.statements === 0) await new Promise(setImmediate);
    const others = [2, 3, 4].map((n) => enqueue('late', n));
    await new Promise(setImmediate);
    assert.equal(counted.statements, 1);
    open();
    await Promise.all([first, ...others]);
    assert.equal(counted.statements, 2);
    assert.deepEqual((await rowsOf('late')).map(({ payload }) => payload), [1, 2, 3, 4]);
});

test('large payloads are split into several statements', async () => {
    const counted = counting();
    const enqueue = combinedEnqueue(counted);
    await Promise.all(Array.from({ length: 5 }, (_, n) => enqueue('large', 'x'.repeat(7_000_000), { kind: `kind ${n}` })));
    assert.equal(counted.statements, 3);
    assert.equal((await rowsOf('large')).length, 5);
});

test('a rejected job fails alone', async () => {
    const enqueue = combinedEnqueue(pool);
    const ended = await Promise.allSettled([enqueue('rejects', 1), enqueue('rejects', 2, { priority: 99999 }), enqueue('rejects', 3)]);
    assert.deepEqual(ended.map(({ status }) => status), ['fulfilled', 'rejected', 'fulfilled']);
    assert.match(ended[1].reason.code, /^22/);
    assert.deepEqual((await rowsOf('rejects')).map(({ payload }) => payload), [1, 3]);
    // The same unique key twice is one job, as in two statements.
    const [one, other] = await Promise.all([enqueue('rejects', 4, { uniqueKey: 'u' }), enqueue('rejects', 5, { uniqueKey: 'u' })]);
    assert.equal(one, other);
});

test('if the connection breaks, nothing is sent again', async () => {
    const counted = counting(async (statement) => { await pool.query(statement); throw new Error('Connection terminated'); });
    const enqueue = combinedEnqueue(counted);
    const ended = await Promise.allSettled([enqueue('breaks', 1), enqueue('breaks', 2)]);
    assert.deepEqual(ended.map(({ reason }) => reason?.message), ['Connection terminated', 'Connection terminated']);
    assert.equal(counted.statements, 1);
    assert.equal((await rowsOf('breaks')).length, 2);
});

test('wrong options send nothing', async () => {
    const counted = counting();
    const enqueue = combinedEnqueue(counted);
    for (const options of [{ knid: 'x' }, { ref: 'a' }, { runAt: 5 }]) await assert.rejects(enqueue('wrong', 1, options), OptionError);
    await assert.rejects(enqueue('wrong', () => 1), TypeError);
    await assert.rejects(enqueue(7), OptionError);
    assert.throws(() => combinedEnqueue(pool, { most: 0 }), OptionError);
    assert.throws(() => combinedEnqueue(pool, { more: 1 }), OptionError);
    assert.equal(counted.statements, 0);
});
