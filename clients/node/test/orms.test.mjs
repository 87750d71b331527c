// Enqueues in transactions of other libraries, of their real packages: a commit keeps the jobs, and a rollback removes them.
import 'reflect-metadata';
import assert from 'node:assert/strict';
import process from 'node:process';
import { after, test } from 'node:test';
import { PrismaPg } from '@prisma/adapter-pg';
import { drizzle } from 'drizzle-orm/node-postgres';
import knex from 'knex';
import { CamelCasePlugin, Kysely, PostgresDialect } from 'kysely';
import { DataSource } from 'typeorm';
import { createBatch, enqueue, enqueueJobs, enqueueMany, getBatch, sealBatch } from '../src/index.js';
import { PrismaClient } from '../node_modules/.prisma/tests/index.js';
import { newDatabase } from './server.mjs';

const database = await newDatabase('orms');
const { pool } = database;
const connection = { host: process.env.PGHOST, port: Number(process.env.PGPORT), user: process.env.PGUSER, database: database.name };
// Like the mappers of Objection, which rename the columns of all results.
const camel = (row) => Object.fromEntries(Object.entries(row).map(([name, value]) => [name.replaceAll(/_(.)/g, (_, letter) => letter.toUpperCase()), value]));
const knexes = knex({ client: 'pg', connection, postProcessResponse: (result) => (result?.rows ? { ...result, rows: result.rows.map(camel) } : result) });
const kysely = new Kysely({ dialect: new PostgresDialect({ pool }), plugins: [new CamelCasePlugin()] });
const orm = new DataSource({ type: 'postgres', ...connection, username: connection.user });
const prisma = new PrismaClient({ adapter: new PrismaPg({ ...connection }) });
const drizzles = drizzle(pool);
await orm.initialize();
after(() => Promise.all([knexes.destroy(), orm.destroy(), prisma.$disconnect()]));

const transactions = {
    knex: (work) => knexes.transaction(work),
    kysely: (work) => kysely.transaction().execute(work),
    drizzle: (work) => drizzles.transaction(work),
    typeorm: (work) => orm.transaction(work),
    'typeorm with a query runner': async (work) => {
        const runner = orm.createQueryRunner();
        await runner.startTransaction();
        try {
            await work(runner);
            await runner.commitTransaction();
        } catch (error) {
            await runner.rollbackTransaction();
            throw error;
        } finally {
            await runner.release();
        }
    },
    prisma: (work) => prisma.$transaction(work),
};
const count = (queue) => database.value('SELECT count(*)::int FROM jobq.jobs WHERE queue = $1', [queue]);

for (const [name, transaction] of Object.entries(transactions)) {
    test(`${name}: a commit keeps the jobs, and a rollback removes them`, async () => {
        class Stop extends Error {}
        const runAt = new Date('2100-01-02T03:04:05Z');
        const jobs = {};
        const work = async (connection) => {
            jobs.batch = await createBatch(connection, 'import', { metadata: { file: 'a' } });
            jobs.one = await enqueue(connection, name, { text: 'a "text"' }, {
                kind: 'k', priority: -3, runAt, uniqueKey: 'u', uniqueFor: 60, requires: ['gpu', 'a "b", c'], maxRuntime: 7200.5, metadata: { a: 1 },
                batchId: jobs.batch,
            });
            jobs.many = await enqueueMany(connection, name, [1, null, ['x']], { uniqueKeys: ['u', null, 'v'], runAts: [runAt, runAt, runAt] });
            jobs.specs = await enqueueJobs(connection, [{ queue: name, ref: 'a' }, { queue: name, dependsOn: ['@a', jobs.one] }]);
            await sealBatch(connection, jobs.batch);
            jobs.progress = (await getBatch(connection, jobs.batch)).total;
            assert.equal(await count(name), 0);
        };
        await assert.rejects(transaction(async (connection) => { await work(connection); throw new Stop(); }), Stop);
        assert.equal(await count(name), 0);
        await transaction(work);
        assert.equal(await count(name), 5);
        const { payload, run_at: at, requires, metadata } = await database.job(jobs.one);
        assert.deepEqual({ payload, at, requires, metadata }, { payload: { text: 'a "text"' }, at: runAt, requires: ['gpu', 'a "b", c'], metadata: { a: 1 } });
        assert.deepEqual(jobs.many.map(({ id, isNew }) => [typeof id, isNew]), [['string', false], ['string', true], ['string', true]]);
        assert.deepEqual((await database.job(jobs.many[2].id)).payload, ['x']);
        assert.equal(jobs.specs.length, 2);
        assert.equal(jobs.progress, 1);
    });
}

test('without a transaction, the job is committed at once', async () => {
    for (const connection of [knexes, kysely, drizzles, orm, orm.manager, prisma]) await enqueue(connection, 'alone');
    assert.equal(await count('alone'), 6);
});
