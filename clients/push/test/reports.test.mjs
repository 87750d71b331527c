// Receivers that answer 202 and report the result of the job later, on a server.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { enqueue } from 'jobq-client';
import pg from 'pg';
import { becomesTrue, gate, newDatabase, reaches } from '../../node/test/server.mjs';
import { configurationFor, freePort, json, newSecret, pushing, receiver, report } from './harness.mjs';

const database = await newDatabase('reports');
const { pool } = database;
const attemptsOf = (id) => database.query('SELECT outcome::text AS outcome, error FROM jobq.attempts WHERE job_id = $1 ORDER BY attempt', [id]);
const blocked = (id) => reaches(database, id, 'blocked');
const port = await freePort();
const reports = { listen: `127.0.0.1:${port}`, url: `http://127.0.0.1:${port}/jobq` };
const otherSecret = newSecret();
await database.query("SELECT jobq_create_queue('reports', max_attempts => 2, backoff_base => '0', backoff_max => '0')");

/** Enqueues a job for a receiver that answers 202, after before(request), and runs body(id, request) while the job waits. */
async function accepted(body, { before = () => {}, endpoint = {}, waits = true } = {}) {
    const found = await receiver(async (request, response) => {
        await before(request);
        json(response, 202, {});
    });
    const endpoints = [{ name: 'reports', queues: ['reports'], url: found.url, ...endpoint },
        { name: 'other', queues: ['other'], url: found.url, secrets: [otherSecret] }];
    return pushing(configurationFor(endpoints, { reports }), async (running) => {
        const id = await enqueue(pool, 'reports', { x: 1 }, { kind: 'k' });
        if (waits) await blocked(id);
        else await becomesTrue(() => found.of(id).length);
        return body(id, found.of(id)[0], found, running);
    });
}

test('a report completes a job that waits, and later reports change nothing', async () => {
    await accepted(async (id, request, found) => {
        assert.equal(request.report.url, `${reports.url}/reports`);
        assert.equal((await database.job(id)).attempts, 0);
        assert.deepEqual(await report(request, { status: 'completed', result: { n: 1 } }), { status: 200, state: 'accepted' });
        assert.deepEqual((await reaches(database, id, 'completed')).result, { n: 1 });
        assert.deepEqual(await report(request, { status: 'completed', result: { n: 2 } }), { status: 200, state: 'finished' });
        assert.deepEqual([(await database.job(id)).result, found.of(id).length], [{ n: 1 }, 1]);
    });
});

test('a report can arrive before the answer, and twice', async () => {
    const answers = [];
    const before = async (request) => {
        answers.push(await report(request, { status: 'completed', result: 'early' }), await report(request, { status: 'failed', error: 'second' }));
    };
    await accepted(async (id, request, found) => {
        assert.equal((await reaches(database, id, 'completed')).result, 'early');
        assert.deepEqual(answers, [{ status: 200, state: 'accepted' }, { status: 200, state: 'duplicate' }]);
        assert.equal(found.of(id).length, 1);
    }, { before, waits: false });
});

test('a report can arrive while jobq-push is down, after it is started again', async () => {
    const [id, request] = await accepted(async (id, request) => [id, request]);
    await assert.rejects(report(request, { status: 'completed', result: 'later' }));
    await accepted(async (other, another) => {
        assert.equal((await report(request, { status: 'completed', result: 'later' })).state, 'accepted');
        assert.equal((await reaches(database, id, 'completed')).result, 'later');
        await report(another, { status: 'completed' });
        assert.equal((await reaches(database, other, 'completed')).result, null);
    });
});

test('forged reports change nothing', async () => {
    const done = { status: 'completed', result: 'forged' };
    await accepted(async (id, request) => {
        const unsigned = await fetch(request.report.url, { method: 'POST', body: JSON.stringify({ report_id: request.report.id, ...done }) });
        assert.equal(unsigned.status, 401);
        const refused = [
            { signer: newSecret() },
            { signer: otherSecret },
            { at: Date.now() / 1000 - 3600 },
            { change: (body) => body.toString().replace('forged', 'changed') },
            { headers: { 'webhook-id': 'report_1' } },
        ];
        for (const how of refused) assert.equal((await report(request, done, how)).status, 401, JSON.stringify(how));
        // Another endpoint's receiver has a valid secret, but not for this job.
        const elsewhere = { signer: otherSecret, url: `${reports.url}/other` };
        assert.deepEqual(await report(request, done, elsewhere), { status: 404, error: `endpoint "other" has no job ${id}` });
        assert.equal((await report({ report: { ...request.report, id: `999999${request.report.id}` } }, done)).status, 404);
        assert.equal((await report(request, done, { url: `${reports.url}/none` })).status, 404);
        assert.equal((await report(request, { status: 'done' })).status, 400);
        assert.equal((await report(request, { status: 'completed', result: 'a\0b' })).status, 400);
        assert.equal((await report(request, { status: 'completed', result: 'x'.repeat(1_000_001) })).status, 413);
        assert.equal((await fetch(request.report.url)).status, 405);
        // A report for another delivery of the job.
        const other = { report: { ...request.report, id: request.report.id.replace(/.$/, (last) => (last === '0' ? '1' : '0')) } };
        assert.equal((await report(other, done)).state, 'accepted');
        assert.equal((await database.job(id)).status, 'blocked');
        await report(request, { status: 'completed', result: 'genuine' });
        assert.equal((await reaches(database, id, 'completed')).result, 'genuine');
    });
});

test('a reported failure is retried with a new report, or is final', async () => {
    await accepted(async (id, request, found) => {
        await report(request, { status: 'failed', error: 'out of paper' });
        await becomesTrue(() => found.of(id).length === 2);
        const second = found.of(id)[1];
        assert.deepEqual([second.headers['idempotency-key'], second.headers['webhook-id']], [`${id}-2`, request.headers['webhook-id']]);
        await blocked(id);
        assert.match((await attemptsOf(id)).find(({ error }) => error).error, /^endpoint "reports" reported a failure: out of paper$/);
        await report(second, { status: 'completed', result: 2 });
        assert.equal((await reaches(database, id, 'completed')).result, 2);
    });
    await accepted(async (id, request) => {
        await report(request, { status: 'failed', error: 'never', retry: false });
        await reaches(database, id, 'failed');
        assert.equal((await attemptsOf(id)).filter(({ outcome }) => outcome === 'failed').length, 1);
    });
});

test('a report that never arrives fails the attempt', async () => {
    await accepted(async (id, request, found) => {
        await reaches(database, id, 'failed');
        assert.deepEqual((await attemptsOf(id)).filter(({ error }) => error).map(({ error }) => error), Array(2).fill('endpoint "reports" did not report the result within 1 s'));
        assert.deepEqual(found.of(id).map(({ headers }) => headers['idempotency-key']), [`${id}-1`, `${id}-2`]);
        assert.equal((await report(request, { status: 'completed' })).state, 'finished');
        await database.query('SELECT jobq_retry($1)', [id]);
        await becomesTrue(() => found.of(id).length === 3);
        await report(found.of(id)[2], { status: 'completed', result: 'third' });
        assert.equal((await reaches(database, id, 'completed')).result, 'third');
    }, { endpoint: { reportTimeout: 1 }, waits: false });
});

test('a redrive posts the job again, and old reports do not count', async () => {
    await database.query("SELECT jobq_alter_queue('reports', dead_letter_queue => 'reports dead')");
    await accepted(async (id, request, found) => {
        await report(request, { status: 'failed', error: 'no', retry: false });
        await becomesTrue(async () => (await database.job(id)).queue === 'reports dead');
        await database.query("SELECT jobq_redrive('reports dead')");
        await becomesTrue(() => found.of(id).length === 2);
        const second = found.of(id)[1];
        assert.equal(second.headers['idempotency-key'], request.headers['idempotency-key']);
        await blocked(id);
        await report(second, { status: 'completed', result: 'redriven' });
        assert.equal((await reaches(database, id, 'completed')).result, 'redriven');
    });
});

test('a job that waited and gets a new payload is posted again', async () => {
    await accepted(async (id, request, found) => {
        await database.query('SELECT jobq_cancel($1)', [id]);
        await reaches(database, id, 'cancelled');
        await database.query(`SELECT jobq_retry($1, payload => '{"x": 2}')`, [id]);
        await becomesTrue(() => found.of(id).length === 2);
        await blocked(id);
        await report(found.of(id)[1], { status: 'completed', result: found.of(id)[1].data });
        assert.deepEqual((await reaches(database, id, 'completed')).result, { x: 2 });
    });
});

test('the database is down when a report arrives', async () => {
    await accepted(async (id, request) => {
        const connections = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE application_name = 'jobq-push reports'";
        const allow = (allowed) => other.query(`ALTER DATABASE ${database.name} ALLOW_CONNECTIONS ${allowed}`);
        const other = new pg.Client({ database: 'postgres' });
        await other.connect();
        await allow(false);
        try {
            await database.query(connections);
            await becomesTrue(async () => (await report(request, { status: 'completed', result: 'no' })).status === 503);
        } finally {
            await allow(true);
            await other.end();
        }
        await becomesTrue(async () => (await report(request, { status: 'completed', result: 'yes' })).status === 200);
        assert.equal((await reaches(database, id, 'completed')).result, 'yes');
    });
});

test('202 without the option reports fails the attempt', async () => {
    const { opened, open } = gate();
    const found = await receiver(async (request, response) => {
        await opened;
        json(response, 202, {});
    });
    await pushing(configurationFor([{ name: 'none', queues: ['none'], url: found.url }]), async () => {
        const id = await enqueue(pool, 'none', {}, { kind: 'k', maxAttempts: 1 });
        await becomesTrue(() => found.requests.length === 1);
        assert.equal(found.requests[0].report, undefined);
        open();
        await reaches(database, id, 'failed');
        assert.match((await attemptsOf(id))[0].error, /answered 202, but the configuration has no option "reports"/);
    });
});
