// Middleware around enqueues and handlers, including the recipes of README.md.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { AsyncLocalStorage } from 'node:async_hooks';
import { afterEach, test } from 'node:test';
import * as Sentry from '@sentry/node';
import { OptionError, combinedEnqueue, enqueue, enqueueJobs, enqueueMany, use } from '../src/index.js';
import { drain, runInline } from '../src/testing.js';
import { newDatabase, reaches, working } from './server.mjs';

const database = await newDatabase('middleware');
const { pool } = database;
const removes = [];
const using = (functions) => {
    const remove = use(functions);
    removes.push(remove);
    return remove;
};
afterEach(() => { for (const remove of removes.splice(0)) remove(); });
const metadata = async (id) => (await database.job(id)).metadata;
const mark = (specs, next) => {
    for (const spec of specs) spec.metadata = { ...spec.metadata, mark: specs.length };
    return next();
};

// Runs the example in README.md that contains this text.
function recipe(text, known) {
    const blocks = readFileSync(new URL('../README.md', import.meta.url), 'utf8').matchAll(/```js\n(.*?)```/gs);
    const [[, code]] = [...blocks].filter(([block]) => block.includes(text));
    new Function(...Object.keys(known), code.replaceAll(/^import .*$/gm, ''))(...Object.values(known));
}

test('it changes the jobs of all functions that enqueue jobs', async () => {
    using({ enqueue: mark });
    const own = { own: 1 };
    const ids = [
        await enqueue(pool, 'marked', {}, { metadata: own }), ...(await enqueueMany(pool, 'marked', [1, 2], { metadata: own })).map(({ id }) => id),
        ...(await enqueueJobs(pool, [{ queue: 'marked', metadata: own }, { queue: 'marked', metadata: own }])).map(({ id }) => id),
        await combinedEnqueue(pool)('marked', {}, { metadata: own }),
    ];
    const found = [];
    for (const id of ids) found.push(await metadata(id));
    assert.deepEqual(found, [1, 1, 1, 2, 2, 1].map((n) => ({ own: 1, mark: n })));
    assert.deepEqual(own, { own: 1 });
});

test('it changes payloads and other attributes', async () => {
    using({
        enqueue(specs, next) {
            for (const spec of specs) {
                spec.priority = 7;
                if (spec.payloads) spec.payloads = spec.payloads.map((payload) => [payload]);
                else spec.payload = [spec.payload];
            }
            return next();
        },
    });
    for (const id of [await enqueue(pool, 'changed', 1), (await enqueueMany(pool, 'changed', [1]))[0].id]) {
        const { payload, priority } = await database.job(id);
        assert.deepEqual([payload, priority], [[1], 7]);
    }
});

test('it changes the jobs that a handler spawns', async () => {
    using({ enqueue: mark });
    await enqueue(pool, 'parents', {}, { kind: 'a' });
    const [{ result }] = await drain(await database.client(), { a: (job) => job.spawn('children', [{ queue: 'children' }]) }, { queue: 'parents' });
    assert.deepEqual(await metadata(result[0]), { mark: 1 });
});

test('middleware runs in order, and sees the ids and errors of an enqueue', async () => {
    const seen = [];
    const around = (name) => async (specs, next) => {
        seen.push(`${name} before`);
        try {
            seen.push([name, await next()]);
        } catch (error) {
            seen.push([name, error.code]);
            throw error;
        }
    };
    using({ enqueue: around('a') });
    const remove = using({ enqueue: around('b') });
    const id = await enqueue(pool, 'order');
    assert.deepEqual(seen.splice(0), ['a before', 'b before', ['b', [id]], ['a', [id]]]);
    remove();
    await assert.rejects(enqueue(pool, 'order', {}, { priority: 40000 }), { code: '22003' });
    assert.deepEqual(seen, ['a before', ['a', '22003']]);
});

test('wrong middleware', async () => {
    assert.throws(() => use({ handle: 7 }), /option handle must be a function, but is 7/);
    assert.throws(() => use({ handler() {} }), /unknown option handler of use\(\); the options are enqueue, handle/);
    const remove = using({ enqueue() {} });
    await assert.rejects(enqueue(pool, 'wrong'), /the middleware of an enqueue must call next\(\) and await it/);
    remove();
    using({ enqueue(specs, next) { specs[0].prio = 7; return next(); } });
    for (const call of [() => enqueue(pool, 'wrong'), () => enqueueMany(pool, 'wrong', [1]), () => enqueueJobs(pool, [{ queue: 'wrong' }]), () => combinedEnqueue(pool)('wrong')]) {
        await assert.rejects(call, (error) => error instanceof OptionError && /unknown option prio of an enqueue/.test(error.message));
    }
    assert.equal(await database.value("SELECT count(*)::int FROM jobq.jobs WHERE queue = 'wrong'"), 0);
});

test('it runs around the handler, in the worker and in the test kit', async () => {
    const seen = [];
    const around = (name) => async (job, next) => {
        seen.push(`${name} ${job.kind}`);
        try {
            return [name, await next()];
        } catch (error) {
            throw new RangeError(name, { cause: error });
        }
    };
    using({ handle: around('a') });
    using({ handle: around('b') });
    const handlers = { works: () => 7, fails() { throw new Error('it fails'); } };
    await working({ queue: 'handled', handlers }, async () => {
        const [works, fails] = [await enqueue(pool, 'handled', {}, { kind: 'works' }), await enqueue(pool, 'handled', {}, { kind: 'fails', maxAttempts: 1 })];
        assert.deepEqual((await reaches(database, works, 'completed')).result, ['a', ['b', 7]]);
        await reaches(database, fails, 'failed');
        assert.equal(await database.value('SELECT error FROM jobq.attempts WHERE job_id = $1', [fails]), 'RangeError: a');
    });
    assert.deepEqual(seen.splice(0), ['a works', 'b works', 'a fails', 'b fails']);
    assert.deepEqual((await runInline(handlers.works)).result, ['a', ['b', 7]]);
    assert.deepEqual(seen, ['a ', 'b ']);
});

test('the recipe for tenants', async () => {
    let tenants;
    recipe('tenants.run', { use: using, AsyncLocalStorage: class extends AsyncLocalStorage { constructor() { super(); tenants = this; } } });
    await working({ queue: 'tenants', handlers: { a: () => tenants.getStore() } }, async () => {
        const id = await tenants.run('acme', () => enqueue(pool, 'tenants', {}, { kind: 'a' }));
        assert.deepEqual(await metadata(id), { tenant: 'acme' });
        assert.equal((await reaches(database, id, 'completed')).result, 'acme');
    });
});

test('the recipe for Sentry', async () => {
    const events = [];
    Sentry.init({ dsn: 'https://key@127.0.0.1/1', defaultIntegrations: false, beforeSend(event) { events.push(event); return null; } });
    recipe('withIsolationScope', { use: using, Sentry });
    await working({ queue: 'sentry', handlers: { a() { Sentry.captureMessage('sent'); } } }, async () => {
        const id = await enqueue(pool, 'sentry', {}, { kind: 'a' });
        await reaches(database, id, 'completed');
        const [{ message, tags, contexts: { job } }] = events.splice(0);
        assert.deepEqual([message, tags, job.id], ['sent', { 'jobq.queue': 'sentry', 'jobq.kind': 'a' }, id]);
    });
    Sentry.captureMessage('outside');
    assert.equal(events[0]?.tags, undefined);
    await Sentry.close();
});
