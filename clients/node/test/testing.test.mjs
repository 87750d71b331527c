// Tests the test kit in the way in which the tests of a user call it.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Fail, Release, Snooze, enqueue } from '../src/index.js';
import { drain, runInline } from '../src/testing.js';
import { newDatabase } from './server.mjs';

const database = await newDatabase('testing');
const { pool } = database;
await pool.query('CREATE TABLE sent (job_id bigint, address text)');
const client = await database.client();

const mail = (job) => job.completing(async (sql) => {
    await sql.query('INSERT INTO sent VALUES ($1, $2)', [job.id, job.payload.to]);
    return { sent: true };
});
const short = (ran) => ran.map(({ kind, attempt, outcome }) => `${kind} ${attempt} ${outcome}`);

test('drain returns the outcome of each job', async () => {
    const handlers = {
        echo: (job) => job.payload, mail, throws() { throw new TypeError('ups'); }, gives() { throw new Snooze(60); },
        rejects() { throw new Fail('never', { retry: false }); }, nul: () => '\u0000',
        sleeps(job) { job.setProgress(7); return job.sleep('a day', 86400); },
    };
    for (const kind of [...Object.keys(handlers), 'unheard']) await enqueue(pool, 'drain', { to: 'ada' }, { kind });
    const ran = await drain(client, handlers, { queue: 'drain' });
    assert.deepEqual(short(ran), ['echo 1 completed', 'mail 1 completed', 'throws 1 retried', 'gives 1 snoozed', 'rejects 1 failed',
        'nul 1 retried', 'sleeps 1 waiting']);
    assert.deepEqual([ran[0].result, ran[2].error.message, ran[3].error.delay], [{ to: 'ada' }, 'ups', 60]);
    assert.deepEqual(await database.query("SELECT kind, status FROM jobq.jobs WHERE queue = 'drain' ORDER BY id"), [
        ['echo', 'completed'], ['mail', 'completed'], ['throws', 'scheduled'], ['gives', 'scheduled'], ['rejects', 'failed'],
        ['nul', 'scheduled'], ['sleeps', 'scheduled'], ['unheard', 'pending']].map(([kind, status]) => ({ kind, status })));
    assert.equal(await database.value('SELECT count(*)::int FROM sent'), 1);
    assert.equal(await database.value("SELECT progress FROM jobq.jobs WHERE kind = 'sleeps'"), 7);
});

test('drain: after a rollback of the caller\'s transaction nothing is left, whatever handlers do', async () => {
    await client.query('BEGIN');
    await enqueue(client, 'within', { to: 'bob' }, { kind: 'mail' });
    await enqueue(client, 'within', {}, { kind: 'wrong' });
    await enqueue(client, 'within', {}, { kind: 'nul' });
    await enqueue(client, 'within', { to: 'cy' }, { kind: 'closed' });
    await enqueue(client, 'within', { names: ['a', 'b'] }, { kind: 'steps' });
    const ran = await drain(client, {
        mail, nul: () => '\u0000',
        wrong: async (job) => { await (await job.client()).query('SELECT 1 / 0'); },
        closed: (job) => job.completing(async (sql) => { await sql.query('INSERT INTO sent VALUES ($1)', [job.id]); throw new Error('closed'); }),
        steps: async (job) => { for (const name of job.payload.names) await job.step(name, () => name); return 'both'; },
    }, { queue: 'within' });
    assert.deepEqual(short(ran), ['mail 1 completed', 'wrong 1 retried', 'nul 1 retried', 'closed 1 retried', 'steps 1 completed']);
    assert.match(ran[1].error.message, /division by zero/);
    const { rows: [{ n }] } = await client.query("SELECT count(*)::int AS n FROM sent WHERE address = 'bob' OR address IS NULL");
    assert.equal(n, 1);
    await client.query('ROLLBACK');
    assert.equal(await database.value("SELECT count(*)::int FROM jobq.jobs WHERE queue = 'within'"), 0);
    assert.equal(await database.value("SELECT count(*)::int FROM sent WHERE address = 'bob'"), 0);
});

test('drain: the fake clock runs jobs that are due by then, including retries, and no later jobs', async () => {
    await client.query('BEGIN');
    await enqueue(client, 'clock', {}, { kind: 'tomorrow', runAt: new Date(Date.now() + 23 * 3600_000) });
    await enqueue(client, 'clock', {}, { kind: 'later', runAt: new Date(Date.now() + 25 * 3600_000) });
    await enqueue(client, 'clock', {}, { kind: 'fails', maxAttempts: 3 });
    await enqueue(client, 'clock', {}, { kind: 'snoozes' });
    let snoozes = 0;
    const handlers = {
        tomorrow() {}, later() {}, fails() { throw new Error('no'); },
        snoozes() { snoozes += 1; if (snoozes < 3) throw new Snooze('1 hour'); },
    };
    const ran = await drain(client, handlers, { queue: 'clock', now: new Date(Date.now() + 24 * 3600_000) });
    assert.deepEqual(short(ran).sort(), ['fails 1 retried', 'fails 2 retried', 'fails 3 failed', 'snoozes 1 completed', 'snoozes 1 snoozed',
        'snoozes 1 snoozed', 'tomorrow 1 completed']);
    await client.query('ROLLBACK');
});

test('drain: an invalid time is an OptionError, and no job runs', async () => {
    await client.query('BEGIN');
    await enqueue(client, 'clock', {}, { kind: 'now' });
    const ran = [];
    await assert.rejects(drain(client, { now: () => { ran.push('now'); } }, { queue: 'clock', now: new Date(NaN) }),
        { name: 'OptionError', message: "option now must be a valid Date or a timestamp's text, but is Invalid Date" });
    assert.deepEqual(ran, []);
    await client.query('ROLLBACK');
});

test('drain: the fake clock ends sleeps and the timeouts of waits', async () => {
    await client.query('BEGIN');
    const never = await enqueue(client, 'nobody serves it');
    for (const kind of ['until', 'delay', 'signal', 'jobs', 'month']) await enqueue(client, 'sleepers', {}, { kind });
    const hours = (count) => new Date(Date.now() + count * 3600_000);
    const tomorrow = hours(24);
    const handlers = {
        until: (job) => job.sleep('tomorrow', tomorrow),
        delay: (job) => job.sleep('a day', '1 day'),
        async signal(job) { return (await job.waitFor('delivered', { timeout: '1 day' })).state; },
        async jobs(job) { return (await job.waitForJobs([never], 'all', { timeout: '1 day' })).state; },
        month: (job) => job.sleep('a month', '30 days'),
    };
    const names = (ran) => ran.map(({ kind, outcome, result }) => `${kind} ${outcome} ${result}`).sort();
    const waiting = ['delay waiting undefined', 'jobs waiting undefined', 'month waiting undefined', 'signal waiting undefined',
        'until waiting undefined'];
    assert.deepEqual(names(await drain(client, handlers, { queue: 'sleepers', now: hours(23) })), waiting);
    assert.deepEqual(names(await drain(client, handlers, { queue: 'sleepers', now: hours(48) })),
        ['delay completed undefined', 'jobs completed timeout', 'signal completed timeout', 'until completed undefined']);
    assert.deepEqual(names(await drain(client, handlers, { queue: 'sleepers', now: hours(24 * 60) })), ['month completed undefined']);
    await client.query('ROLLBACK');
});

test('drain: a job that never ends is an error', async () => {
    await client.query('BEGIN');
    await enqueue(client, 'endless', {}, { kind: 'again' });
    await assert.rejects(drain(client, { again() { throw new Release(); } }, { queue: 'endless', limit: 5 }), /after 5 attempts/);
    await client.query('ROLLBACK');
});

test('log lines are collected', async () => {
    const handlers = { x: (job) => { job.log('one'); return job.completing(() => job.log('two', 'error')); } };
    const logged = [{ level: 'info', text: 'one' }, { level: 'error', text: 'two' }];
    const id = await enqueue(pool, 'logged', {}, { kind: 'x' });
    const [ran] = await drain(client, handlers, { queue: 'logged' });
    assert.deepEqual(ran.logged, logged);
    assert.deepEqual(await database.query('SELECT level, line AS text FROM jobq.log_lines WHERE job_id = $1 AND NOT late ORDER BY number', [id]), logged);
    assert.deepEqual((await runInline(handlers.x, {}, { client })).logged, logged);
});

test('runInline returns the result and the progress, or throws the error', async () => {
    const good = await runInline((job) => { job.setProgress({ n: job.payload.n }); return job.payload.n + 1; }, { n: 1 });
    assert.deepEqual([good.outcome, good.result, good.progress, good.error], ['completed', 2, { n: 1 }, undefined]);
    const bad = await runInline((job) => { throw new Fail(`attempt ${job.attempt}`); }, {}, { attempt: 3 });
    assert.deepEqual([bad.outcome, bad.error.message], ['failed', 'attempt 3']);
    assert.equal((await runInline(() => 1n)).outcome, 'failed');
    assert.equal((await runInline(() => { throw new Snooze(1); })).outcome, 'snoozed');
});

test('runInline: a handler that needs a connection gets a new one or the caller\'s', async () => {
    await client.query('BEGIN');
    const within = await runInline(mail, { to: 'dee' }, { client });
    assert.deepEqual([within.outcome, within.result], ['completed', { sent: true }]);
    await client.query('ROLLBACK');
    const own = await runInline(mail, { to: 'eve' });
    assert.deepEqual([own.outcome, own.result], ['completed', { sent: true }]);
    assert.deepEqual((await database.query("SELECT address FROM sent WHERE address IN ('dee', 'eve')")), [{ address: 'eve' }]);
});

test('runInline: an error about an argument that is not an array names it', async () => {
    const ids = await runInline((job) => job.waitForJobs('12', 'all parts'));
    assert.equal(String(ids.error), 'OptionError: option ids must be an array, but is "12"');
    const specs = await runInline((job) => job.spawn('parts', { queue: 'parts' }));
    assert.equal(String(specs.error), 'OptionError: option specs must be an array, but is of type object');
});

test('runInline runs a workflow', async () => {
    const workflow = async (job) => {
        const charged = await job.step('charge', () => ({ receipt: 17 }));
        await job.sleep('a day', '1 day');
        const ids = await job.spawn('parts', [{ queue: 'parts', payload: 1 }, { queue: 'parts', payload: 2 }]);
        const { results } = await job.waitForJobs(ids, 'all parts');
        const { payload } = await job.waitFor('paid');
        return [charged, ids, results.map(({ result }) => result), payload];
    };
    const waiting = await runInline(workflow, {}, { client, jobs: { 'all parts': ['a', 'b'] } });
    assert.deepEqual([waiting.outcome, waiting.steps, waiting.spawned.length], ['waiting', { charge: { receipt: 17 } }, 2]);
    const done = await runInline(workflow, {}, { client, jobs: { 'all parts': ['a', 'b'] }, signals: { paid: 7 }, steps: { charge: 'before' } });
    assert.deepEqual([done.outcome, done.result], ['completed', ['before', ['2', '3'], ['a', 'b'], 7]]);
});
