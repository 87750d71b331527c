// Tests of the module with a real application. They need a database with jobq, selected by PGHOST and so on.
import 'reflect-metadata';
import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import common from '@nestjs/common';
import core from '@nestjs/core';
import pg from 'pg';
import nest from '../src/index.js';

const { InjectQueue, JobHandler, JobqModule, Processor, Queue } = nest;
const db = new pg.Pool();
after(() => db.end());

const decorate = (target, decorators, method) => {
    const descriptor = method && Object.getOwnPropertyDescriptor(target.prototype, method);
    for (const decorator of decorators) method ? decorator(target.prototype, method, descriptor) : decorator(target);
};

/** Waits until the query returns true. */
async function until(text, values) {
    for (const end = Date.now() + 60_000; Date.now() < end; await sleep(20)) {
        const { rows: [row] } = await db.query(text, values);
        if (Object.values(row)[0]) return;
    }
    assert.fail(`not after a minute: ${text}`);
}

class Letters {
    greeting = 'Hello';
    welcome(job) { return { text: `${this.greeting} ${job.payload.name}` }; }
    plain(job) { return job.attempt; }
}
decorate(Letters, [JobHandler('welcome')], 'welcome');
decorate(Letters, [JobHandler()], 'plain');
decorate(Letters, [Processor('letters', { slots: 2 })]);

class Signup {
    constructor(queue) { this.queue = queue; }
}
InjectQueue('letters')(Signup, undefined, 0);
decorate(Signup, [common.Injectable()]);

async function application(options, providers) {
    class App {}
    common.Module({ imports: [JobqModule.forRoot(options), JobqModule.registerQueue('letters')], providers })(App);
    const app = await core.NestFactory.createApplicationContext(App, { logger: false, abortOnError: false });
    try {
        return await app.init();
    } catch (error) {
        await app.close();
        throw error;
    }
}

test('an application enqueues and handles jobs', async () => {
    const app = await application({}, [Letters, Signup]);
    try {
        const { queue } = app.get(Signup);
        assert.ok(queue instanceof Queue);
        const id = await queue.add('welcome', { name: 'Ada' }, { maxAttempts: 2 });
        await until(`SELECT status = 'completed' AND result = '{"text": "Hello Ada"}' FROM jobq.jobs WHERE id = $1`, [id]);
        const [one, two] = await queue.addMany('', [1, 2]);
        await until(`SELECT count(*) = 2 FROM jobq.jobs WHERE id IN ($1, $2) AND status = 'completed'`, [one.id, two.id]);
        await until(`SELECT count(*) = 1 FROM jobq.workers WHERE queues = '{letters}' AND slots = 2`);
    } finally {
        await app.close();
    }
    await until(`SELECT count(*) = 0 FROM jobq.workers WHERE queues = '{letters}'`);
});

test('a job joins the transaction of the caller', async () => {
    const app = await application({ workers: false }, [Signup]);
    try {
        const { queue } = app.get(Signup);
        const client = await db.connect();
        await client.query('BEGIN');
        const id = await queue.add('welcome', {}, { client });
        await client.query('ROLLBACK');
        client.release();
        await until('SELECT count(*) = 0 FROM jobq.jobs WHERE id = $1', [id]);
    } finally {
        await app.close();
    }
});

test('an application without a database does not start', async () => {
    await assert.rejects(application({ connection: { host: '/nowhere' } }, [Letters]), /ENOENT|nowhere/);
});

test('a processor without handlers is an error', async () => {
    class Empty {}
    decorate(Empty, [Processor('empty')]);
    await assert.rejects(application({}, [Empty]), /Empty has no method with @JobHandler/);
    assert.throws(() => Processor(''), /name of a queue/);
});

test('a worker that ends with an error is reported', async () => {
    let ended;
    const error = new Promise((resolve) => { ended = resolve; });
    const app = await application({ onWorkerError: ended }, [Letters]);
    try {
        await db.query('ALTER EXTENSION jobq DROP FUNCTION jobq_claim_json(text[], text, integer, text[], integer[], text[], interval, jsonb, bigint[], bigint[], jsonb[], text[], integer[], boolean, integer[])');
        await db.query('ALTER FUNCTION jobq_claim_json RENAME TO jobq_claim_json_away');
        await db.query(`SELECT jobq_enqueue('letters', kind => 'welcome')`);
        assert.match((await error).message, /jobq_claim_json/);
    } finally {
        await db.query('ALTER FUNCTION jobq_claim_json_away RENAME TO jobq_claim_json');
        await app.close();
    }
});
