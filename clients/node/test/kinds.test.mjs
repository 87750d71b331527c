// Typed kinds with schemas of real libraries.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as v from 'valibot';
import { z } from 'zod';
import { OptionError, defineKind, enqueue, enqueueJobs } from '../src/index.js';
import { drain, runInline } from '../src/testing.js';
import { newDatabase, reaches, working } from './server.mjs';

const database = await newDatabase('kinds');
const { pool } = database;
const schema = z.object({ to: z.string(), at: z.coerce.date().optional(), copies: z.number().default(1) });
const sendMail = defineKind('send mail', { schema, result: z.object({ id: z.string() }), queue: 'emails', priority: 7 });
const notUsed = { query() { throw new Error('it was sent'); } };
const rejects = (promise, message) => assert.rejects(promise, (error) => error instanceof OptionError && message.test(error.message));
const found = async (id) => (({ queue, kind, payload, priority }) => ({ queue, kind, payload, priority }))(await database.job(id));

test('a job has the payload and the attributes of its kind', async () => {
    const mail = { kind: 'send mail', payload: { to: 'ada' }, priority: 7 };
    assert.deepEqual(await found(await sendMail.enqueue(pool, { to: 'ada' })), { ...mail, queue: 'emails' });
    assert.deepEqual(await found(await sendMail.enqueue(pool, { to: 'ada' }, { priority: 8, queue: 'bulk' })), { ...mail, queue: 'bulk', priority: 8 });
    const many = await sendMail.enqueueMany(pool, [{ to: 'ada' }, { to: 'bob' }], { queue: 'bulk', uniqueKeys: ['a', null] });
    assert.deepEqual(await found(many[1].id), { ...mail, queue: 'bulk', payload: { to: 'bob' } });
    const graph = await enqueueJobs(pool, [await sendMail.spec({ to: 'ada' }, { ref: 'a' }), await sendMail.spec({ to: 'bob' }, { dependsOn: ['@a'] })]);
    assert.deepEqual(await found(graph[1].id), { ...mail, queue: 'emails', payload: { to: 'bob' } });
});

test('an invalid payload is not sent', async () => {
    const message = /^the payload of kind "send mail" is invalid: "to": .*expected string/;
    await rejects(sendMail.enqueue(notUsed, { to: 5 }), message);
    await rejects(sendMail.enqueueMany(notUsed, [{ to: 'ada' }, { to: 5 }]), message);
    await rejects(sendMail.spec({ to: 5 }), message);
    await assert.rejects(sendMail.enqueue(notUsed), /the payload cannot be written as JSON/);
    // The worker would read a text instead of a Date.
    await rejects(defineKind('dates', { schema: z.object({ at: z.date() }) }).enqueue(notUsed, { at: new Date() }), /"at": .*expected date/);
    await rejects(defineKind('valibot', { schema: v.object({ n: v.array(v.number()) }) }).enqueue(notUsed, { n: [1, '2'] }), /"n.1": /);
});

test('unknown options and schemas that are none are errors', async () => {
    assert.throws(() => defineKind('wrong', { prio: 7 }), /unknown option prio of a kind; the options are schema, result, retryInvalid, queue, priority,/);
    assert.throws(() => defineKind('wrong', { schema: z }), /option schema must be a schema of zod, valibot, arktype, or another library/);
    assert.throws(() => defineKind('wrong', { result: 7 }), /option result must be a schema .*, but is 7/);
    assert.throws(() => defineKind('wrong', { retryInvalid: 7 }), /option retryInvalid must be true or false, but is 7/);
    assert.throws(() => defineKind(7), /option name must be a text/);
    assert.throws(() => sendMail.handler(7), /the handler of kind "send mail" must be a function, but is 7/);
    await rejects(sendMail.enqueue(notUsed, { to: 'ada' }, { kind: 'other' }), /unknown option kind/);
    await rejects(sendMail.enqueueMany(notUsed, [], { kind: 'other' }), /unknown option kind/);
});

test('a handler gets what the schema makes of the payload, and returns the result', async () => {
    const at = new Date('2030-01-02T03:04:05Z');
    const seen = [];
    const returns = sendMail.handler(({ payload }) => { seen.push(payload); return { id: payload.to }; });
    const completes = sendMail.handler((job) => job.completing(() => ({ id: job.payload.to })));
    await working({ queue: 'typed', handlers: returns }, async () => {
        const id = await sendMail.enqueue(pool, { to: 'ada', at }, { queue: 'typed' });
        assert.deepEqual((await reaches(database, id, 'completed')).result, { id: 'ada' });
    });
    assert.deepEqual(seen[0], { to: 'ada', at, copies: 1 });
    await sendMail.enqueue(pool, { to: 'bob' }, { queue: 'kit' });
    const client = await database.client();
    const [ran] = await drain(client, completes, { queue: 'kit' });
    assert.deepEqual([ran.outcome, (await database.job(ran.id)).result], ['completed', { id: 'bob' }]);
    assert.deepEqual((await runInline(returns['send mail'], { to: 'eve' })).result, { id: 'eve' });
});

test('an invalid payload or result fails the attempt', async () => {
    const client = await database.client();
    const permanent = defineKind('send mail', { schema, retryInvalid: false });
    for (const [kind, outcome] of [[sendMail, 'retried'], [permanent, 'failed']]) {
        await enqueue(pool, 'invalid', { to: 5 }, { kind: 'send mail' });
        const [ran] = await drain(client, kind.handler(() => assert.fail('it runs')), { queue: 'invalid' });
        assert.equal(ran.outcome, outcome);
        assert.match((await database.value('SELECT error FROM jobq.attempts WHERE job_id = $1', [ran.id])), /^the payload of kind "send mail" is invalid: "to": /);
    }
    for (const handler of [() => ({ id: 5 }), (job) => job.completing(() => ({ id: 5 }))]) {
        await sendMail.enqueue(pool, { to: 'ada' }, { queue: 'invalid' });
        const [ran] = await drain(client, sendMail.handler(handler), { queue: 'invalid' });
        assert.equal(ran.outcome, 'retried');
        assert.match(ran.error.message, /^the result of kind "send mail" is invalid: "id": /);
    }
});

test('without a schema, every payload is accepted', async () => {
    const kind = defineKind('free', { queue: 'free' });
    await kind.enqueue(pool, [1]);
    const [ran] = await drain(await database.client(), kind.handler(({ payload }) => payload), { queue: 'free' });
    assert.deepEqual(ran.result, [1]);
});
