// Enqueues on the caller's connection: pg, Knex, and objects with a query() that returns rows.
import assert from 'node:assert/strict';
import process from 'node:process';
import { after, test } from 'node:test';
import knex from 'knex';
import { createBatch, enqueue, enqueueJobs, enqueueMany, getBatch, OptionError, sealBatch } from '../src/index.js';
import { newDatabase } from './server.mjs';

const database = await newDatabase('producers');
const { pool } = database;
const knexes = knex({ client: 'pg', connection: { host: process.env.PGHOST, port: Number(process.env.PGPORT), user: process.env.PGUSER, database: database.name } });
after(() => knexes.destroy());

const count = (queue) => database.value('SELECT count(*)::int FROM jobq.jobs WHERE queue = $1', [queue]);

test('a job with all options', async () => {
    const first = await enqueue(pool);
    assert.deepEqual((({ queue, payload, kind }) => ({ queue, payload, kind }))(await database.job(first)), { queue: 'default', payload: {}, kind: '' });
    const id = await enqueue(pool, 'every', [1, 'zwei', null], {
        kind: 'k', priority: -3, runAt: new Date('2100-01-02T03:04:05Z'), maxAttempts: 4, uniqueKey: 'u', onConflict: 'replace', uniqueFor: 3600,
        groupKey: 'g', concurrencyKey: 'c', dependsOn: [first], onDependencyFailure: 'run', version: 7, requires: ['gpu', 'a "b", c'],
        heartbeatTimeout: '90 s', maxRuntime: 7200.5, metadata: { who: 'me' },
    });
    const [job] = await database.query(`SELECT queue, kind, payload, priority, run_at, max_attempts, unique_key, unique_for::text, group_key,
        concurrency_key, version, requires, heartbeat_timeout::text, max_runtime::text, metadata FROM jobq.jobs WHERE id = $1`, [id]);
    assert.deepEqual(job, {
        queue: 'every', kind: 'k', payload: [1, 'zwei', null], priority: -3, run_at: new Date('2100-01-02T03:04:05Z'), max_attempts: 4,
        unique_key: 'u', unique_for: '01:00:00', group_key: 'g', concurrency_key: 'c', version: 7, requires: ['gpu', 'a "b", c'],
        heartbeat_timeout: '00:01:30', max_runtime: '02:00:00.5', metadata: { who: 'me' },
    });
    assert.equal(await enqueue(pool, 'every', {}, { uniqueKey: 'u', runAt: '2100-01-01 00:00+00' }), id);
});

test('a batch: jobs join it, and its end enqueues the callbacks', async () => {
    const id = await createBatch(pool, 'import', { onSuccess: { queue: 'batch done', kind: 'ok', maxAttempts: 3 }, metadata: { file: 'a' } });
    await enqueue(pool, 'batch', 1, { batchId: id });
    await enqueueMany(pool, 'batch', [2, 3], { batchId: BigInt(id) });
    await enqueueJobs(pool, [{ queue: 'batch', batchId: Number(id) }]);
    await database.query("SELECT jobq_complete(id, lease) FROM jobq_claim('batch', batch => 4)");
    const { name, total, completed, progress, sealed, metadata } = await getBatch(pool, id);
    assert.deepEqual({ name, total, completed, progress, sealed, metadata }, { name: 'import', total: 4, completed: 4, progress: 1, sealed: false, metadata: { file: 'a' } });
    assert.deepEqual([await sealBatch(pool, id), await sealBatch(pool, id), await sealBatch(pool, '999999999')], [true, false, null]);
    const { finishedAt, callbacks } = await getBatch(pool, id);
    assert.ok(finishedAt instanceof Date);
    assert.equal(callbacks.length, 1);
    assert.equal((await database.job(callbacks[0])).kind, 'ok');
    assert.equal(await getBatch(pool, '999999999'), undefined);
    await assert.rejects(enqueue(pool, 'batch', 1, { batchId: {} }), OptionError);
});

test('a job expires at expiresAt, or expiresIn after runAt', async () => {
    const runAt = new Date('2100-01-02T03:04:05Z');
    const expiresAt = new Date('2100-01-02T03:05:05Z');
    for (const options of [{ runAt, expiresIn: 60 }, { expiresAt }]) {
        const id = await enqueue(pool, 'expiry', {}, options);
        assert.deepEqual(await database.value('SELECT expires_at FROM jobq.jobs WHERE id = $1', [id]), expiresAt);
    }
});

test('payloads: null is null, undefined is {}, and a value that is not valid JSON is an error', async () => {
    const payload = async (value) => (await database.job(await enqueue(pool, 'payloads', value))).payload;
    assert.equal(await payload(null), null);
    assert.deepEqual(await payload(undefined), {});
    assert.equal(await payload('a "text"'), 'a "text"');
    await assert.rejects(enqueue(pool, 'payloads', 1n), TypeError);
    await assert.rejects(enqueue(pool, 'payloads', () => 1), /the payload cannot be written as JSON/);
    assert.equal(await count('payloads'), 3);
});

test('an unknown option, a missing connection, and a rejected call are errors', async () => {
    await assert.rejects(enqueue(pool, 'wrong', {}, { prio: 1 }), /unknown option prio of an enqueue; the options are kind, priority,/);
    await assert.rejects(enqueue({}, 'wrong'), /the connection must be a client/);
    await assert.rejects(enqueue(pool, 'wrong', {}, { priority: 40000 }), { code: '22003' });
    await assert.rejects(enqueueMany(pool, 'wrong', [1], { dependsOn: [1] }), /unknown option dependsOn/);
    await assert.rejects(enqueueJobs(pool, [{ queue: 'wrong', prio: 1 }]), /unknown option prio/);
    assert.equal(await count('wrong'), 0);
});

test('an error about an argument that is not an array names it and its value, and nothing is sent', async () => {
    const nobody = { query() { throw new Error('it was sent'); } };
    const refused = (promise, message) => assert.rejects(promise, (error) => error instanceof OptionError && error.message === message);
    const circle = {};
    circle.circle = circle;
    for (const [value, shown] of [['gpu', '"gpu"'], [26, '26'], [26n, '26n'], [new Set([25]), 'Set(1) { 25 }'], [{ a: 1 }, '{ a: 1 }'],
        [circle, '<ref *1> { circle: [Circular *1] }']]) {
        for (const option of ['requires', 'dependsOn']) {
            await refused(enqueue(nobody, 'wrong', {}, { [option]: value }), `option ${option} must be an array, but is ${shown}`);
            await refused(enqueueJobs(nobody, [{ [option]: value }]), `option ${option} must be an array, but is ${shown}`);
        }
        for (const option of ['uniqueKeys', 'groupKeys', 'concurrencyKeys', 'runAts', 'priorities']) {
            await refused(enqueueMany(nobody, 'wrong', [1, 2], { [option]: value }), `option ${option} must be an array, but is ${shown}`);
        }
    }
    for (const [value, type] of [['secret', 'string'], [{ secret: 1 }, 'object'], [undefined, 'undefined'], [null, 'object']]) {
        await refused(enqueueMany(nobody, 'wrong', value), `option payloads must be an array, but is of type ${type}`);
        await refused(enqueueJobs(nobody, value), `option specs must be an array, but is of type ${type}`);
    }
    for (const [value, type] of [['secret', 'string'], [null, 'object'], [[], 'array']]) {
        await refused(enqueueJobs(nobody, [{}, value]), `option specs must be an array of objects, but has one of type ${type}`);
    }
    await refused(enqueueMany(nobody, 'wrong', [1], { uniqueKeys: [{ a: 1 }] }), 'option uniqueKeys must be an array of texts or numbers, but has { a: 1 }');
    const many = await enqueueMany(pool, 'undefined keys', [1, 2], { uniqueKeys: [undefined, undefined] });
    assert.deepEqual(many.map(({ isNew }) => isNew), [true, true]);
});

test('an error about an invalid time, interval, or queue names the option, and nothing is sent', async () => {
    const nobody = { query() { throw new Error('it was sent'); } };
    const refused = (promise, message) => assert.rejects(promise, (error) => error instanceof OptionError && error.message === message);
    for (const [value, shown] of [[20301231, '20301231'], [0, '0'], [new Date(NaN), 'Invalid Date'], [{ year: 2030 }, '{ year: 2030 }'], [true, 'true']]) {
        const says = (option) => `option ${option} must be a valid Date or a timestamp's text, but is ${shown}`;
        await refused(enqueue(nobody, 'wrong', {}, { runAt: value }), says('runAt'));
        await refused(enqueueJobs(nobody, [{ runAt: value }]), says('runAt'));
        await refused(enqueueMany(nobody, 'wrong', [1], { runAts: [value] }), says('runAts'));
    }
    for (const [value, shown] of [[NaN, 'NaN'], [Infinity, 'Infinity'], [true, 'true'], [{ days: 1 }, '{ days: 1 }']]) {
        await refused(enqueue(nobody, 'wrong', {}, { maxRuntime: value }),
            `option maxRuntime must be a number of seconds or an interval's text, but is ${shown}`);
    }
    for (const value of [{ queue: 'wrong', kind: 'k', payload: 'secret' }, 5, null]) {
        const says = `option queue must be a text, but is of type ${typeof value}`;
        await refused(enqueue(nobody, value), says);
        await refused(enqueueMany(nobody, value, [1]), says);
        await refused(enqueueJobs(nobody, [{ queue: value }]), says);
    }
});

test('the job is part of the transaction of a pg client', async () => {
    const client = await pool.connect();
    try {
        for (const end of ['ROLLBACK', 'COMMIT']) {
            await client.query('BEGIN');
            await enqueue(client, 'pg');
            assert.equal(await count('pg'), 0);
            await client.query(end);
        }
    } finally {
        client.release();
    }
    assert.equal(await count('pg'), 1);
});

test('the job is part of the transaction of Knex', async () => {
    await assert.rejects(knexes.transaction(async (trx) => {
        await enqueue(trx, 'knex', { n: 1 }, { kind: 'a', requires: ['b', 'c'] });
        throw new Error('no');
    }), /no/);
    assert.equal(await count('knex'), 0);
    const id = await knexes.transaction(async (trx) => {
        await trx.raw('CREATE TABLE orders (id int)');
        await trx('orders').insert({ id: 1 });
        await enqueueMany(trx, 'knex', [{ q: 'a ? b' }, [2]], { uniqueKeys: ['k', null] });
        await enqueueJobs(trx, [{ queue: 'knex', payload: '?', metadata: { a: '?' } }]);
        return enqueue(trx, 'knex', { n: 'what?' }, { kind: 'a', requires: ['b', 'c'] });
    });
    assert.deepEqual([(await database.job(id)).payload, (await database.job(id)).requires, await count('knex')], [{ n: 'what?' }, ['b', 'c'], 4]);
    assert.deepEqual((await database.query("SELECT payload FROM jobq.jobs WHERE queue = 'knex' ORDER BY id LIMIT 3")).map(({ payload }) => payload),
        [{ q: 'a ? b' }, [2], '?']);
});

test('query() may return the rows themselves, as in TypeORM', async () => {
    const manager = { query: async (text, values) => (await pool.query(text, values)).rows };
    const id = await enqueue(manager, 'rows', { n: 1 });
    assert.deepEqual([typeof id, (await database.job(id)).queue], ['string', 'rows']);
    assert.equal((await enqueueMany(manager, 'rows', [1, 2])).length, 2);
});

test('many jobs: the answers have the order of the payloads and say which jobs are new', async () => {
    const first = await enqueueMany(pool, 'many', [{ n: 1 }, null, 'c'], {
        kind: 'k', uniqueKeys: ['a', null, 'c'], priorities: [1, 2, 3], runAts: [new Date(0), '2001-01-01 00:00+00', new Date(1)],
        groupKeys: [null, 'g', null], concurrencyKeys: ['x', null, null],
    });
    assert.deepEqual(first.map(({ isNew }) => isNew), [true, true, true]);
    const [again] = await enqueueMany(pool, 'many', [7], { uniqueKeys: ['a'] });
    assert.deepEqual(again, { id: first[0].id, isNew: false });
    assert.deepEqual(await database.query("SELECT payload, priority, group_key, concurrency_key FROM jobq.jobs WHERE queue = 'many' ORDER BY id"), [
        { payload: { n: 1 }, priority: 1, group_key: null, concurrency_key: 'x' }, { payload: null, priority: 2, group_key: 'g', concurrency_key: null },
        { payload: 'c', priority: 3, group_key: null, concurrency_key: null },
    ]);
    assert.deepEqual(await enqueueMany(pool, 'many', []), []);
});

test('many jobs accept all options of jobq_enqueue_many', async () => {
    await database.query("SELECT jobq_set_named_limit('all', ARRAY['all options'], max_running => 2)");
    const runAt = new Date('2100-01-02T03:04:05Z');
    const given = {
        runAt, maxAttempts: 4, version: 7, requires: ['gpu'], heartbeatTimeout: '90 s', maxRuntime: 7200.5, expiresIn: 60, limits: ['all'],
        metadata: { who: 'me' }, uniqueKeys: ['u', null], uniqueFor: 3600, onConflict: 'replace',
    };
    const [first, second] = await enqueueMany(pool, 'all options', [1, 2], given);
    assert.deepEqual((await enqueueMany(pool, 'all options', [3], { ...given, uniqueKeys: ['u'] })), [{ id: first.id, isNew: false }]);
    const { expiresIn, ...others } = given;
    await enqueueMany(pool, 'all options', [2], { ...others, uniqueKeys: ['x'], expiresAt: new Date(runAt.getTime() + expiresIn * 1000) });
    const jobs = await database.query(`SELECT payload, max_attempts, version, requires, heartbeat_timeout::text, max_runtime::text, expires_at, limits,
        metadata, unique_key, unique_for::text FROM jobq.jobs WHERE queue = 'all options' ORDER BY id`);
    const same = {
        max_attempts: 4, version: 7, requires: ['gpu'], heartbeat_timeout: '00:01:30', max_runtime: '02:00:00.5',
        expires_at: new Date('2100-01-02T03:05:05Z'), limits: ['all'], metadata: { who: 'me' },
    };
    assert.deepEqual(jobs, [
        { ...same, payload: 3, unique_key: 'u', unique_for: '01:00:00' }, { ...same, payload: 2, unique_key: null, unique_for: null },
        { ...same, payload: 2, unique_key: 'x', unique_for: '01:00:00' },
    ]);
    assert.notEqual(first.id, second.id);
});

test('a graph of jobs is enqueued in one call', async () => {
    const jobs = await enqueueJobs(pool, [
        { queue: 'graph', kind: 'charge', ref: 'charge', payload: null, uniqueFor: '1 day', uniqueKey: 'u' },
        { queue: 'graph', kind: 'ship', dependsOn: ['@charge'], runAt: new Date('2100-01-01'), metadata: { a: 1 } },
    ]);
    assert.deepEqual(await database.query('SELECT depends_on FROM jobq.dependencies WHERE job_id = $1', [jobs[1].id]), [{ depends_on: jobs[0].id }]);
    assert.deepEqual([(await database.job(jobs[0].id)).payload, (await database.job(jobs[1].id)).metadata], [null, { a: 1 }]);
});
