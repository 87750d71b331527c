// What the job of a handler can do: transactions, steps, waits without a worker, connections.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { Cancelled, OptionError, Suspended, enqueue } from '../src/index.js';
import { becomesTrue, gate, newDatabase, reaches, working } from './server.mjs';

const database = await newDatabase('job');
const { pool } = database;
await pool.query('CREATE TABLE effects (job_id bigint, name text)');
await pool.query("SELECT jobq_create_queue('jobs', backoff_base => '10 ms')");

const effect = (client, job, name) => client.query('INSERT INTO effects VALUES ($1, $2)', [job.id, name]);
const effects = (id) => database.value("SELECT coalesce(string_agg(name, ' ' ORDER BY name), '') FROM effects WHERE job_id = $1", [id]);
const run = (handlers, body, options = {}) => working({ queue: 'jobs', handlers, ...options }, body);

test('completing: the return value and errors of the handler after it are ignored', async () => {
    const id = await enqueue(pool, 'jobs', {}, { kind: 'a' });
    let refused;
    await run({ a: async (job) => {
        const returned = await job.completing(async (client) => { await effect(client, job, 'a'); return { moved: true }; });
        assert.deepEqual(returned, { moved: true });
        refused = await job.completing(() => 'again').catch((error) => error);
        throw new Error('too late');
    } }, async (worker) => {
        assert.deepEqual((await reaches(database, id, 'completed')).result, { moved: true });
        await becomesTrue(() => worker.hand.size === 0);
    });
    assert.match(refused.message, /has already been completed/);
    assert.deepEqual([await effects(id), (await database.job(id)).attempts], ['a', 1]);
});

test('completing: if the handler catches the error of a statement, the job is not completed', async () => {
    const id = await enqueue(pool, 'jobs', {}, { kind: 'a', maxAttempts: 1 });
    await run({ a: (job) => job.completing(async (client) => {
        await effect(client, job, 'a');
        await client.query('SELECT 1 / 0').catch(() => {});
    }) }, () => reaches(database, id, 'failed'));
    assert.equal(await effects(id), '');
});

test('completing: a result that is not valid JSON rolls back', async () => {
    const id = await enqueue(pool, 'jobs', {}, { kind: 'a', maxAttempts: 1 });
    await run({ a: (job) => job.completing(async (client) => { await effect(client, job, 'a'); return 1n; }) },
        async () => assert.match((await reaches(database, id, 'failed')).error, /BigInt/));
    assert.equal(await effects(id), '');
});

test('completing: if the lease is lost, the handler is told, and its effect is rolled back', async () => {
    const id = await enqueue(pool, 'jobs', {}, { kind: 'a' });
    const { open, opened } = gate();
    let told;
    await run({ a: async (job) => {
        await opened;
        told = await job.completing((client) => effect(client, job, 'a')).catch((error) => error);
        throw told;
    } }, async (worker) => {
        await reaches(database, id, 'processing');
        await pool.query("UPDATE jobq.jobs SET status = 'cancelled' WHERE id = $1", [id]);
        open();
        await becomesTrue(() => worker.hand.size === 0);
    });
    assert.ok(told instanceof Cancelled && told.reason === 'lost');
    assert.equal(await effects(id), '');
});

for (const what of ['completing', 'step']) {
    test(`${what}: a slow commit does not delay heartbeats of other jobs`, async () => {
        const { open, opened } = gate();
        const held = gate();
        const heard = async (id) => (await database.job(id)).last_heartbeat;
        const beatsOn = async (id) => {
            const before = await heard(id);
            await becomesTrue(async () => await heard(id) > before);
        };
        const late = (client) => {
            const query = client.query.bind(client);
            client.query = (text, ...values) => {
                if (text !== 'COMMIT') return query(text, ...values);
                held.open();
                delete client.query;
                return opened.then(() => query(text));
            };
        };
        const jobs = await Promise.all(['commits', 'waits'].map((kind) => enqueue(pool, 'jobs', {}, { kind })));
        const handlers = {
            commits: async (job) => {
                await beatsOn(job.id);  // the next one is not due yet
                await (what === 'step' ? job.step('late', late) : job.completing(late));
            },
            waits: () => opened,
        };
        await run(handlers, async () => {
            await held.opened;
            for (let n = 0; n < 3; n += 1) await beatsOn(jobs[1]);
            open();
            for (const id of jobs) assert.equal((await reaches(database, id, 'completed')).attempts, 1);
        }, { slots: 2, heartbeatInterval: 1 });
    });
}

test('steps run once, also concurrently, and return their results', async () => {
    const id = await enqueue(pool, 'jobs', {}, { kind: 'a' });
    await run({ a: async (job) => {
        const step = (name) => job.step(name, async (client) => { await effect(client, job, name); return { name }; });
        const results = await Promise.all([step('x'), step('y'), step('z')]);
        if (job.attempt === 1) throw new Error('after the steps');
        return results;
    } }, async () => {
        const job = await reaches(database, id, 'completed');
        assert.deepEqual([job.result, job.attempts], [[{ name: 'x' }, { name: 'y' }, { name: 'z' }], 2]);
    });
    assert.equal(await effects(id), 'x y z');
});

test('a step within a step is an error, not a deadlock', async () => {
    const id = await enqueue(pool, 'jobs', {}, { kind: 'a', maxAttempts: 1 });
    await run({ a: (job) => job.step('outer', () => job.step('inner', () => 1)) },
        async () => assert.match((await reaches(database, id, 'failed')).error, /within the transaction of another one/));
});

test('a step whose function throws has written nothing', async () => {
    const id = await enqueue(pool, 'jobs', {}, { kind: 'a', maxAttempts: 1 });
    await run({ a: (job) => job.step('x', async (client) => { await effect(client, job, 'x'); throw new Error('no'); }) },
        () => reaches(database, id, 'failed'));
    assert.equal(await effects(id), '');
});

test('sleep: the job is released even if the handler catches the error that ends it', async () => {
    const id = await enqueue(pool, 'jobs', {}, { kind: 'a' });
    const seen = [];
    await run({ a: async (job) => {
        if (job.progress === null) job.setProgress('before the sleep');
        try {
            await job.sleep('a moment', 0.3);
        } catch (error) {
            seen.push(error instanceof Suspended, await job.step('s', () => 1).catch((again) => again instanceof Suspended));
            return 'swallowed';
        }
        return 'slept';
    } }, async (_worker, log) => {
        assert.deepEqual([(await reaches(database, id, 'completed')).result, (await database.job(id)).attempts], ['slept', 1]);
        assert.equal((await database.job(id)).progress, 'before the sleep');
        assert.deepEqual(log.filter((line) => /^warn/.test(line)), []);
    });
    assert.deepEqual(seen, [true, true]);
});

test('sleep, spawn: an invalid time is an OptionError, and nothing is sent', async () => {
    const id = await enqueue(pool, 'jobs', {}, { kind: 'a', maxAttempts: 1 });
    const invalid = new Date(NaN);
    const messageOf = async (call) => {
        try {
            return await call();
        } catch (error) {
            return error instanceof OptionError ? error.message : `not an OptionError: ${error}`;
        }
    };
    await run({ a: async (job) => [
        await messageOf(() => job.sleep('until', invalid)),
        await messageOf(() => job.sleep('delay', NaN)),
        await messageOf(() => job.spawn('children', [{ queue: 'jobs', kind: 'child', runAt: invalid }])),
    ] }, async () => {
        const { result, attempts } = await reaches(database, id, 'completed');
        assert.deepEqual(result, [
            "option time must be a valid Date or a timestamp's text, but is Invalid Date",
            "option time must be a number of seconds or an interval's text, but is NaN",
            "option runAt must be a valid Date or a timestamp's text, but is Invalid Date",
        ]);
        assert.equal(attempts, 1);
    });
    assert.equal(await database.value('SELECT count(*)::int FROM jobq.steps WHERE job_id = $1', [id]), 0);
    assert.equal(await database.value("SELECT count(*)::int FROM jobq.jobs WHERE kind = 'child'"), 0);
});

test('signals: a job waits for them without a worker, and with a timeout', async () => {
    const paid = await enqueue(pool, 'jobs', { event: 'paid 1' }, { kind: 'a' });
    const unpaid = await enqueue(pool, 'jobs', { event: 'paid 2', timeout: 0.2 }, { kind: 'a' });
    await run({ a: (job) => job.waitFor(job.payload.event, { timeout: job.payload.timeout }) }, async (worker) => {
        await reaches(database, paid, 'blocked');
        await becomesTrue(() => worker.claims.away);
        await pool.query("SELECT jobq_signal('jobs', 'paid 1', '{\"cents\": 7}')");
        assert.deepEqual((await reaches(database, paid, 'completed')).result, { state: 'ready', payload: { cents: 7 } });
        assert.deepEqual((await reaches(database, unpaid, 'completed')).result, { state: 'timeout', payload: null });
    });
});

test('children are spawned once, and a job can wait for them', async () => {
    const id = await enqueue(pool, 'jobs', {}, { kind: 'parent' });
    await run({
        parent: async (job) => {
            const ids = await job.spawn('parts', [1, 2].map((n) => ({ queue: 'jobs', kind: 'child', payload: n, maxAttempts: 3 })));
            return (await job.waitForJobs(ids, 'all of them', { timeout: '1 hour' })).results.map(({ jobId, status, result }) => [ids.includes(jobId), status, result]);
        },
        child: (job) => job.payload * 10,
    }, async () => assert.deepEqual((await reaches(database, id, 'completed')).result, [[true, 'completed', 10], [true, 'completed', 20]]));
    assert.equal(await database.value("SELECT count(*)::int FROM jobq.jobs WHERE kind = 'child'"), 2);
});

test('a canceled job is stopped at its next step', async () => {
    const id = await enqueue(pool, 'jobs', {}, { kind: 'a' });
    const { open, opened } = gate();
    await run({ a: async (job) => { await opened; await job.step('x', () => 1); } }, async () => {
        await reaches(database, id, 'processing');
        await pool.query('SELECT jobq_cancel($1)', [id]);
        open();
        assert.equal((await reaches(database, id, 'cancelled')).error, 'cancelled');
    }, { heartbeatTimeout: 3600 });
});

test('a connection is reused for the next job unless a transaction was left open on it', async () => {
    const pid = async (job) => {
        const client = await job.client();
        if (job.payload.leave) await client.query('BEGIN');
        return (await client.query('SELECT pg_backend_pid() AS pid')).rows[0].pid;
    };
    await run({ pid }, async (_worker, log) => {
        const result = async (payload) => (await reaches(database, await enqueue(pool, 'jobs', payload, { kind: 'pid' }), 'completed')).result;
        const first = await result({});
        assert.equal(await result({ leave: true }), first);
        const other = await result({});
        assert.notEqual(other, first);
        assert.ok(log.some((line) => /left a transaction open/.test(line)));
    });
});

test('the progress of an earlier attempt is available, and the last progress is reported before the attempt ends', async () => {
    const id = await enqueue(pool, 'jobs', {}, { kind: 'a' });
    await run({ a: (job) => {
        if (job.attempt === 2) return job.progress;
        for (let n = 1; n <= 100; n += 1) job.setProgress({ n });
        throw new Error('again');
    } }, async () => assert.deepEqual((await reaches(database, id, 'completed')).result, { n: 100 }));
});

test('log lines arrive in order and before the end of the attempt, and rejected lines do not fail the job', async () => {
    const log = async (id) => (await database.query(
        "SELECT event || coalesce(': ' || detail, '') AS line FROM jobq_log($1) WHERE event !~ '^(enqueued|claimed)'", [id])).map(({ line }) => line);
    const id = {};
    for (const kind of ['fails', 'completes', 'waits']) id[kind] = await enqueue(pool, 'jobs', {}, { kind, maxAttempts: 1 });
    const seen = async (job) => {
        while (await database.value('SELECT count(*)::int FROM jobq.log_lines WHERE job_id = $1', [job.id]) === 0) await sleep(20);
    };
    await run({
        async fails(job) {
            job.log('one');
            await seen(job);
            job.log('two \0 \u{1F4A5}', 'warning');
            throw new Error('no');
        },
        completes: (job) => job.completing(() => { job.log('last'); }),
        async waits(job) {
            job.log('waits');
            if ((await job.waitFor('never', { timeout: 0.01 })).state === 'timeout') job.log('timed out', 'error');
        },
    }, async () => {
        await reaches(database, id.fails, 'failed');
        await reaches(database, id.completes, 'completed');
        await reaches(database, id.waits, 'completed');
    }, { heartbeatInterval: 0.2 });
    assert.deepEqual(await log(id.fails), ['log info: one', 'log warning: two \uFFFD \u{1F4A5}', 'attempt failed: Error: no', 'failed: Error: no']);
    assert.deepEqual(await log(id.completes), ['log info: last', 'completed']);
    assert.deepEqual((await log(id.waits)).filter((line) => line.startsWith('log')), ['log info: waits', 'log info: waits', 'log error: timed out']);
    const rejected = await enqueue(pool, 'jobs', {}, { kind: 'a' });
    await database.query('ALTER TABLE jobq.log_lines ADD CONSTRAINT nothing CHECK (false) NOT VALID');
    await run({ a(job) { job.log('rejected'); return 7; } }, () => reaches(database, rejected, 'completed'));
    await database.query('ALTER TABLE jobq.log_lines DROP CONSTRAINT nothing');
    assert.deepEqual([(await database.job(rejected)).result, await log(rejected)], [7, ['completed']]);
});
