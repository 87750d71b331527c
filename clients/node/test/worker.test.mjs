// Tests workers on a server, for behavior that the scenarios for all languages do not cover.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import process from 'node:process';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { Cancelled, Fail, Release, Snooze, Worker, enqueue, enqueueMany, run } from '../src/index.js';
import { becomesTrue, countedGate, gate, lines, newDatabase, reaches, working } from './server.mjs';

const database = await newDatabase('worker');
const { pool } = database;

test('heartbeats continue while a handler blocks the event loop', async () => {
    const id = await enqueue(pool, 'blocked', {}, { kind: 'block' });
    const ask = (sql) => execFileSync('psql', ['-XAtc', sql, '-d', database.name], { encoding: 'utf8' }).trim();
    const seen = new Set();
    const block = () => {
        // Synchronous, so that no other code of this thread runs before the third heartbeat.
        for (const until = Date.now() + 120_000; seen.size < 3 && Date.now() < until;) {
            seen.add(ask(`SELECT last_heartbeat FROM jobq.jobs WHERE id = ${id}`));
        }
        return seen.size;
    };
    await working({ queue: 'blocked', handlers: { block }, heartbeatTimeout: 1 }, () => reaches(database, id, 'completed'));
    assert.deepEqual([(await database.job(id)).result, (await database.job(id)).attempts], [3, 1]);
});

test('a worker serves several queues within their slots', async () => {
    const queues = { 'several emails': 2, 'several reports': 1 };
    for (const queueOrder of ['listed', 'random', 'oldest']) {
        let goOn;
        const held = new Promise((resolve) => { goOn = resolve; });
        const running = {}, most = {};
        const x = async ({ queue }) => {
            running[queue] = (running[queue] ?? 0) + 1;
            most[queue] = Math.max(most[queue] ?? 0, running[queue]);
            await held;
            running[queue] -= 1;
        };
        const count = (status) => database.value("SELECT count(*)::int FROM jobq.jobs WHERE queue LIKE 'several %' AND status::text = $1", [status]);
        await working({ queues, queueOrder, handlers: { x } }, async () => {
            for (const queue of Object.keys(queues)) await enqueueMany(pool, queue, [1, 2, 3, 4], { kind: 'x' });
            await becomesTrue(async () => await count('processing') === 3 && running['several emails'] === 2 && running['several reports'] === 1);
            goOn();
            await becomesTrue(async () => await count('pending') + await count('processing') === 0);
        });
        assert.deepEqual(most, queues);
    }
});

test('a worker serves queues that match a pattern', async () => {
    let goOn;
    const held = new Promise((resolve) => { goOn = resolve; });
    const patterns = { 'pattern customer%': 1, 'pattern %': 2 };
    const count = (queue, status) => database.value('SELECT count(*)::int FROM jobq.jobs WHERE queue LIKE $1 AND status::text = $2', [queue, status]);
    await working({ patterns, slots: 4, handlers: { x: () => held } }, async () => {
        await becomesTrue(() => database.value("SELECT count(*) > 0 FROM jobq_workers() WHERE info->'patterns' = $1", [JSON.stringify(Object.keys(patterns))]));
        // The queues do not exist before the worker has started.
        for (const [name, most] of [['customer a', 1], ['customer b', 1], ['mail', 2]]) {
            await enqueueMany(pool, `pattern ${name}`, [1, 2, 3], { kind: 'x' });
            await becomesTrue(async () => await count(`pattern ${name}`, 'processing') === most);
        }
        for (const name of ['a', 'b']) assert.equal(await count(`pattern customer ${name}`, 'processing'), 1);
        goOn();
        await becomesTrue(async () => await count('pattern %', 'completed') === 9);
    });
});

test('a slot that becomes free ends the wait of a worker', async () => {
    const gates = { x: null };
    const held = new Promise((resolve) => { gates.x = resolve; });
    await working({ queues: { 'slot a': 1, 'slot b': 1 }, handlers: { x: () => held, y() {} }, waitTimeout: 3600 }, async () => {
        const first = await enqueue(pool, 'slot a', {}, { kind: 'x' });
        await reaches(database, first, 'processing');
        const second = await enqueue(pool, 'slot a', {}, { kind: 'y' });
        await becomesTrue(() => database.value(
            "SELECT count(*) > 0 FROM pg_stat_activity WHERE query ~ 'CALL jobq_wait_any' AND state = 'active' AND application_name LIKE 'jobq slot a,%'"));
        assert.equal((await database.job(second)).status, 'pending');
        gates.x();
        await reaches(database, second, 'completed');
    });
});

test('a worker without slots claims no jobs until it has slots again', async () => {
    const jobs = countedGate();
    const count = (status) => database.value("SELECT count(*)::int FROM jobq.jobs WHERE queue = 'no slots' AND status::text = $1", [status]);
    const waits = () => database.value(
        "SELECT count(*) FROM pg_stat_activity WHERE query ~ 'CALL jobq_wait' AND state = 'active' AND application_name LIKE 'jobq no slots %'");
    await working({ queue: 'no slots', slots: 3, prefetch: 2, waitTimeout: 3600, handlers: { x: jobs.handler } }, async (worker) => {
        for (const wrong of [-1, 4, 1.5, '1']) assert.throws(() => worker.setSlots(wrong), /setSlots\(\) needs a whole number from 0 to 3, but got/);
        await becomesTrue(async () => Number(await waits()) === 1);
        worker.setSlots(0);
        await becomesTrue(async () => Number(await waits()) === 0);
        await enqueueMany(pool, 'no slots', Array(9).fill({}), { kind: 'x' });
        // A second worker gets a job, and the first has claimed nothing by then.
        await working({ queue: 'no slots', slots: 1, handlers: { x: () => {} } }, () => becomesTrue(async () => await count('completed') === 9));
        assert.equal(jobs.most, 0);
        await enqueueMany(pool, 'no slots', Array(9).fill({}), { kind: 'x' });
        worker.setSlots(1);
        await becomesTrue(async () => jobs.running === 1 && await count('processing') === 3);      // two are prefetched
        worker.setSlots(0);
        await becomesTrue(async () => await count('processing') === 1);
        assert.equal(await database.value("SELECT sum(attempts)::int FROM jobq.jobs WHERE queue = 'no slots' AND status = 'pending'"), 0);
        worker.setSlots(3);
        await becomesTrue(() => jobs.running === 3);
        jobs.open();
        await becomesTrue(async () => await count('completed') === 18);
    });
    assert.equal(jobs.most, 3);
});

test('a worker prefetches jobs, and gives those back whose handlers have not started', async () => {
    const jobs = countedGate();
    const count = (status) => database.value("SELECT count(*)::int FROM jobq.jobs WHERE queue = 'prefetch' AND status::text = $1", [status]);
    const ids = await enqueueMany(pool, 'prefetch', Array(12).fill({}), { kind: 'x' });
    await working({ queue: 'prefetch', slots: 2, prefetch: 5, grace: 60, handlers: { x: jobs.handler } }, async (worker) => {
        await becomesTrue(async () => await count('processing') === 7);
        await pool.query('SELECT jobq_cancel(id) FROM jobq.jobs WHERE id = $1', [ids[6].id]);
        const stopped = worker.stop();
        await becomesTrue(async () => await count('processing') === 2);
        jobs.open();
        assert.equal(await stopped, true);
    });
    assert.equal(await count('completed'), 2);
    assert.equal(await database.value("SELECT sum(attempts)::int FROM jobq.jobs WHERE queue = 'prefetch' AND status = 'pending'"), 0);
    await working({ queue: 'prefetch', slots: 2, prefetch: 5, handlers: { x: jobs.handler } }, () => becomesTrue(async () => await count('completed') === 11));
    assert.deepEqual([jobs.most, await count('cancelled')], [2, 1]);
});

test('a collision of the job\'s own transaction does not count as an attempt', async () => {
    const id = await enqueue(pool, 'collision', {}, { kind: 'x', maxAttempts: 1 });
    let calls = 0;
    const x = (job) => job.completing(async (client) => {
        calls += 1;
        if (calls <= 4) await client.query(`DO $$ BEGIN RAISE 'in the way' USING ERRCODE = '${calls % 2 ? '40001' : '40P01'}'; END $$`);
    });
    await working({ queue: 'collision', handlers: { x } }, () => reaches(database, id, 'completed'));
    assert.deepEqual([(await database.job(id)).attempts, calls], [1, 5]);
});

test('details of an error are stored, and left out if the server rejects them', async () => {
    const seen = [];
    const x = () => { throw new RangeError('no address'); };
    for (const [queue, errorDetails, wanted] of [
        ['details', (details) => ({ ...details, host: 'web-1' }), { class: 'RangeError', host: 'web-1' }],
        ['rejected', () => ({ a: ['\0'] }), null],
    ]) {
        const id = await enqueue(pool, queue, {}, { kind: 'x', maxAttempts: 1 });
        await working({ queue, handlers: { x }, errorDetails, onError: (error, job) => seen.push([error.message, job.id === id]) },
            () => reaches(database, id, 'failed'));
        const { details, error } = (await database.query('SELECT details, error FROM jobq.attempts WHERE job_id = $1', [id]))[0];
        assert.equal(error, 'RangeError: no address');
        assert.deepEqual(details && { class: details.class, host: details.host }, wanted);
        if (details) assert.match(details.stack, /^RangeError: no address\n +at x /);
    }
    assert.deepEqual(seen, [['no address', true], ['no address', true]]);
});

test('the server shows the worker until it stops', async () => {
    const shown = (id) => database.value(`SELECT (SELECT concat_ws(' ', queues, kinds, slots, state, running) FROM jobq_workers()
        WHERE worker_id = '${id}' AND client ~ '^jobq-node [0-9.]+$')`);
    const { opened, open } = gate();
    let id;
    await working({ queue: 'shown', slots: 2, handlers: { y: () => opened, x() {} } }, async (worker) => {
        id = worker.id;
        await becomesTrue(async () => await shown(id) === '{shown} {x,y} 2 waiting 0');
        for (const said of ['waiting 1', 'busy 2']) {
            await enqueue(pool, 'shown', {}, { kind: 'y' });
            await becomesTrue(async () => await shown(id) === `{shown} {x,y} 2 ${said}`);
        }
        open();
        await becomesTrue(async () => await shown(id) === '{shown} {x,y} 2 waiting 0');
    });
    await becomesTrue(async () => await shown(id) === null);
});

test('statement_timeout ends waits and is logged once', async () => {
    const connection = { database: database.name, options: '-c statement_timeout=200' };
    await working({ queue: 'timeout', handlers: { x() {} }, connection }, async (worker, all) => {
        const waits = "SELECT max(query_start)::text FROM pg_stat_activity WHERE query ~* '^\\s*call jobq_wait' AND application_name LIKE 'jobq timeout %'";
        for (let round = 0; round < 3; round += 1) {
            const before = await becomesTrue(() => database.value(waits));
            await becomesTrue(async () => await database.value(waits) > before);
        }
        await reaches(database, await enqueue(pool, 'timeout', {}, { kind: 'x' }), 'completed');
        assert.equal(all.filter((line) => line.includes('statement_timeout, which is 200ms')).length, 1, all.join('\n'));
        assert.ok(!all.some((line) => line.includes('broken')), all.join('\n'));
    });
});

test('a cancellation is not logged as a failure', async () => {
    const id = await enqueue(pool, 'cancelled', {}, { kind: 'x' });
    const x = (job) => sleep(3600_000, null, { signal: job.signal });
    await working({ queue: 'cancelled', handlers: { x }, heartbeatInterval: 0.1 }, async (worker, all) => {
        await reaches(database, id, 'processing');
        await database.query('SELECT jobq_cancel($1)', [id]);
        await reaches(database, id, 'cancelled');
        assert.ok(all.some((line) => /^info .*: cancelled$/.test(line)), all.join('\n'));
        assert.ok(!all.some((line) => line.includes('failed')), all.join('\n'));
    });
});

test('a thrown Proxy whose traps throw is a failed attempt', async () => {
    const throws = () => { throw new Error('trap'); };
    const id = await enqueue(pool, 'proxy', {}, { kind: 'x', maxAttempts: 1 });
    const x = () => { throw new Proxy({}, { get: throws, getPrototypeOf: throws }); };
    await working({ queue: 'proxy', handlers: { x } }, () => reaches(database, id, 'failed'));
    assert.match((await database.job(id)).error, /cannot be converted to text/);
});

test('jobs of other kinds are logged', async () => {
    await enqueueMany(pool, 'others', [1, 2], { kind: 'mispelled' });
    await enqueue(pool, 'others');
    await working({ queue: 'others', handlers: { misspelled() {} } }, async (worker, all) => {
        await becomesTrue(() => all.some((line) => line.startsWith('warn') && line.endsWith('does not claim: without a kind, of kind "mispelled"')));
        assert.match(all[0], /kinds misspelled; leaves jobs of other kinds, and jobs without a kind, to other workers$/);
    });
});

test('an error of one worker stops the other gracefully, and run() ends', async () => {
    await database.query("CREATE ROLE half LOGIN; SELECT jobq_grant('half', 'worker', '{whole,broken}')");
    const id = await enqueue(pool, 'whole', {}, { kind: 'x' });
    const connection = { database: database.name, user: 'half' };
    const options = { connection, waitTimeout: 0.1, grace: 100, logger: lines() };
    const broken = new Worker({ ...options, queue: 'broken', handlers: { x() {} } });
    const whole = new Worker({ ...options, queue: 'whole', handlers: {
        async x() {
            await database.query("SELECT jobq_revoke('half', 'worker', '{broken}')");
            await broken.stopped.catch(() => {});
            return 'done';
        },
    } });
    assert.equal(await run(whole, broken), 1);
    assert.deepEqual([(await database.job(id)).result, (await database.job(id)).attempts], ['done', 1]);
    await assert.rejects(broken.stopped, { code: '42501' });
    await database.query('DROP OWNED BY half; DROP ROLE half');
});

test('without the thread, the same connection sends heartbeats and reports', async () => {
    const { open, opened } = gate();
    const id = await enqueue(pool, 'loop', {}, { kind: 'wait' });
    await working({ queue: 'loop', handlers: { wait: () => opened }, heartbeatThread: false, heartbeatInterval: 0.1 }, async () => {
        const first = (await reaches(database, id, 'processing')).last_heartbeat;
        await becomesTrue(async () => (await database.job(id)).last_heartbeat > first);
        open();
        await reaches(database, id, 'completed');
    });
});

test('an error about an option that cannot be passed to a thread names the option', async () => {
    const worker = new Worker({ handlers: { a() {} }, connection: { password: () => 'x' }, logger: lines() });
    await assert.rejects(worker.start(), { name: 'OptionError', message: /option connection .*heartbeatThread/ });
    await assert.rejects(worker.stopped);
});

test('a function provides the configuration of each connection, also in the thread', async () => {
    let calls = 0;
    const connection = async () => {
        calls += 1;
        return { database: database.name, application_name: 'mine' };
    };
    const id = await enqueue(pool, 'function', {}, { kind: 'sql' });
    const sql = async (job) => (await (await job.client()).query("SELECT count(*)::int AS n FROM pg_stat_activity WHERE application_name = 'mine'")).rows[0].n;
    await working({ queue: 'function', handlers: { sql }, connection }, () => reaches(database, id, 'completed'));
    assert.deepEqual([(await database.job(id)).result, calls], [3, 3]);
});

test('the AbortSignal of a job stops operations that accept it', async () => {
    const id = await enqueue(pool, 'signal', {}, { kind: 'nap' });
    let reason;
    const nap = async (job) => {
        job.signal.addEventListener('abort', () => { reason = job.signal.reason; });
        await sleep(3_600_000, undefined, { signal: job.signal });
    };
    await working({ queue: 'signal', handlers: { nap }, heartbeatInterval: 0.1 }, async () => {
        await reaches(database, id, 'processing');
        await pool.query('SELECT jobq_cancel($1)', [id]);
        assert.equal((await reaches(database, id, 'cancelled')).error, 'cancelled');
    });
    assert.ok(reason instanceof Cancelled && reason.reason === 'cancel');
});

test('lost replaces cancel, and nothing is reported', async () => {
    const id = await enqueue(pool, 'replaced', {}, { kind: 'look' });
    const reasons = [];
    const look = async (job) => {
        await becomesTrue(() => {
            if (reasons.at(-1) !== job.cancelled) reasons.push(job.cancelled);
            return job.cancelled === 'lost';
        });
        throw new Error('late');
    };
    await working({ queue: 'replaced', handlers: { look }, heartbeatInterval: 0.1 }, async (worker, log) => {
        await reaches(database, id, 'processing');
        await pool.query('SELECT jobq_cancel($1)', [id]);
        await becomesTrue(() => reasons.includes('cancel'));
        await pool.query("UPDATE jobq.jobs SET status = 'cancelled' WHERE id = $1", [id]);
        await becomesTrue(() => worker.hand.size === 0);
        assert.equal(log.filter((line) => /lease is lost/.test(line)).length, 1);
    });
    assert.deepEqual(reasons, ['cancel', 'lost']);
    assert.notEqual((await database.job(id)).error, 'Error: late');
});

test('one rejected result of a batch fails its own job, and the others complete', async () => {
    const ids = (await enqueueMany(pool, 'refused', [1, '\u0000', 3], { kind: 'echo', maxAttempts: 1 }).catch(() => null));
    assert.equal(ids, null);    // such a payload is rejected, too
    const jobs = await enqueueMany(pool, 'refused', [1, 2, 3], { kind: 'echo', maxAttempts: 1 });
    const echo = (job) => (job.payload === 2 ? 'a\u0000b' : job.payload);
    await working({ queue: 'refused', handlers: { echo }, slots: 3 }, async () => {
        await reaches(database, jobs[0].id, 'completed');
        await reaches(database, jobs[2].id, 'completed');
        assert.match((await reaches(database, jobs[1].id, 'failed')).error, /unsupported Unicode escape sequence/);
    });
});

test('the same if the results are reported while the worker waits for jobs', async () => {
    const jobs = await enqueueMany(pool, 'refused later', [1, 2, 3], { kind: 'echo', maxAttempts: 1 });
    const { open, opened } = gate();
    const echo = (job) => opened.then(() => (job.payload === 2 ? 'a\u0000b' : job.payload));
    await working({ queue: 'refused later', handlers: { echo }, slots: 4 }, async (worker) => {
        await becomesTrue(() => worker.hand.size === 3 && worker.claims.away);
        open();
        for (const place of [0, 2]) assert.equal((await reaches(database, jobs[place].id, 'completed')).attempts, 1);
        assert.match((await reaches(database, jobs[1].id, 'failed')).error, /unsupported Unicode escape sequence/);
    });
});

test('a report that collides does not delay other reports', async () => {
    const jobs = await enqueueMany(pool, 'collides', [1, 2], { kind: 'wait' });
    const { open, opened } = gate();
    const options = { queue: 'collides', slots: 3, handlers: { wait: (job) => opened.then(() => job.payload) }, heartbeatTimeout: 600 };
    const locker = await database.client();
    await working({ ...options, connection: { options: '-c lock_timeout=100ms' } }, async (worker, log) => {
        await becomesTrue(() => worker.hand.size === 2 && worker.claims.away);
        await locker.query('BEGIN');
        await locker.query('SELECT FROM jobq.jobs WHERE id = $1 FOR UPDATE', [jobs[0].id]);
        open();
        assert.equal((await reaches(database, jobs[1].id, 'completed')).result, 2);
        await becomesTrue(() => log.some((line) => /^warn .*reports are sent again/.test(line)));
        assert.equal((await database.job(jobs[0].id)).status, 'processing');
        await locker.query('ROLLBACK');
        const job = await reaches(database, jobs[0].id, 'completed');
        assert.deepEqual([job.result, job.attempts], [1, 1]);
    });
});

test('errors and results that cannot be stored unchanged', async () => {
    const made = (kind) => enqueue(pool, 'odd', {}, { kind, maxAttempts: 1 });
    const ids = { nul: await made('nul'), half: await made('half'), circle: await made('circle'), later: await made('later'), bad: await made('bad'),
        promise: await made('promise'), thread: await made('thread') };
    const handlers = {
        nul() { throw new Error('a\0b'); },
        half() { throw new Error('a\ud800b'); },
        circle() { const circle = {}; circle.me = circle; return circle; },
        later() { throw new Fail('no', { retryIn: 3 }); },
        bad() { throw new Fail('no', { retryIn: 'soon' }); },
        promise() { throw new Snooze(Promise.resolve(3)); },
        thread() { throw Object.assign(new Snooze(3), { delay: () => 3 }); },   // a function cannot be passed to a thread
    };
    await working({ queue: 'odd', handlers, slots: 7 }, async () => {
        assert.equal((await reaches(database, ids.nul, 'failed')).error, 'Error: a\uFFFDb');
        assert.equal((await reaches(database, ids.half, 'failed')).error, 'Error: a\uFFFDb');
        assert.match((await reaches(database, ids.circle, 'failed')).error, /^TypeError: .*circular/);
        assert.equal((await reaches(database, ids.later, 'failed')).error, 'no');
        assert.match((await reaches(database, ids.bad, 'failed')).error, /interval.*"soon"/);
        assert.match((await reaches(database, ids.promise, 'failed')).error, /^TypeError: delay must be a number/);
        assert.match((await reaches(database, ids.thread, 'failed')).error, /^the snooze was refused: TypeError: .*could not be cloned/);
    });
});

test('progress that is not valid JSON is an error of the handler, and rejected progress is logged', async () => {
    const bad = await enqueue(pool, 'progress', {}, { kind: 'bad', maxAttempts: 1 });
    const nul = await enqueue(pool, 'progress', {}, { kind: 'nul' });
    const handlers = { bad: (job) => job.setProgress(1n), nul: (job) => { job.setProgress('\u0000'); return 7; } };
    await working({ queue: 'progress', handlers }, async (_worker, log) => {
        assert.match((await reaches(database, bad, 'failed')).error, /BigInt/);
        assert.equal((await reaches(database, nul, 'completed')).result, 7);
        assert.ok(log.some((line) => /ERROR|error/.test(line) && line.includes(`job ${nul} `) && /progress was refused/.test(line)));
    });
});

test('a released job returns, and its attempt is not counted', async () => {
    const id = await enqueue(pool, 'released', {}, { kind: 'once' });
    let calls = 0;
    const once = () => {
        calls += 1;
        if (calls === 1) throw new Release();
    };
    await working({ queue: 'released', handlers: { once } }, async () => {
        assert.deepEqual([(await reaches(database, id, 'completed')).attempts, calls], [1, 2]);
    });
});

test('a worker can poll instead of waiting', async () => {
    await working({ queue: 'polled', handlers: { a: () => 7 }, pollInterval: 0.2 }, async (worker) => {
        await becomesTrue(() => worker.claims.away);
        const id = await enqueue(pool, 'polled', {}, { kind: 'a' });
        await reaches(database, id, 'completed');
        const waits = await database.value("SELECT count(*)::int FROM pg_stat_activity WHERE query LIKE 'CALL jobq_wait%' AND state = 'active'");
        assert.equal(waits, 0);
    });
});

test('a worker never holds more jobs than slots, and the next claim takes a job for each free slot', async () => {
    const jobs = await enqueueMany(pool, 'slots', Array.from({ length: 30 }, (_, n) => n), { kind: 'a' });
    let [running, most] = [0, 0];
    const a = async (job) => {
        running += 1;
        most = Math.max(most, running);
        await sleep(job.payload % 3);
        running -= 1;
    };
    await working({ queue: 'slots', handlers: { a }, slots: 4 }, async () => {
        await becomesTrue(async () => await database.value("SELECT count(*)::int FROM jobq.jobs WHERE queue = 'slots' AND status = 'completed'") === 30);
    });
    assert.deepEqual([most, jobs.length], [4, 30]);
});

test('a claim without the privilege ends the worker with its error', async () => {
    const role = `jobq_node_${process.pid}`;
    await pool.query(`CREATE ROLE ${role} LOGIN`);
    try {
        await pool.query("SELECT jobq_grant($1, 'worker', '{mine}')", [role]);
        const log = lines();
        const worker = new Worker({ queue: 'theirs', handlers: { a() {} }, connection: { user: role }, logger: log });
        await worker.start();
        await assert.rejects(worker.stopped, { code: '42501' });
        assert.ok(log.all.some((line) => /^error .*permission denied for queue "theirs"/.test(line)), log.all.join('\n'));
    } finally {
        await pool.query(`DROP OWNED BY ${role}`);
        await pool.query(`DROP ROLE ${role}`);
    }
});

test('the first connection must succeed', async () => {
    const worker = new Worker({ handlers: { a() {} }, connection: { database: 'nowhere_to_be_found' }, logger: lines() });
    await assert.rejects(worker.start(), { code: '3D000' });
    await assert.rejects(worker.stopped, { code: '3D000' });
});

test('stop() releases the jobs of handlers that do not stop after the grace period and reports nothing else for them', async () => {
    const { open, opened } = gate();
    const id = await enqueue(pool, 'deaf', {}, { kind: 'deaf' });
    const worker = new Worker({ queue: 'deaf', handlers: { deaf: () => opened }, grace: 0.1, logger: lines() });
    await worker.start();
    await reaches(database, id, 'processing');
    assert.equal(await worker.stop(), true);
    const job = await database.job(id);
    assert.deepEqual([job.status, job.attempts], ['pending', 0]);
    open();
    await opened;
    assert.equal((await database.job(id)).status, 'pending');
});

test('two workers of one process serve two queues', async () => {
    const one = await enqueue(pool, 'one', {}, { kind: 'a' });
    const two = await enqueue(pool, 'two', {}, { kind: 'a' });
    await working({ queue: 'one', handlers: { a: () => 1 } }, () => working({ queue: 'two', handlers: { a: () => 2 } }, async () => {
        assert.equal((await reaches(database, one, 'completed')).result, 1);
        assert.equal((await reaches(database, two, 'completed')).result, 2);
    }));
});

test('the type parsers of pg for bigint and JSON do not matter', async () => {
    const { pg } = await import('../src/driver.js');
    const before = pg.types.getTypeParser(20);
    pg.types.setTypeParser(20, Number);
    pg.types.setTypeParser(3802, String);
    try {
        const id = await enqueue(pool, 'types', { a: 1 }, { kind: 'a' });
        assert.equal(typeof id, 'string');
        await working({ queue: 'types', handlers: { a: (job) => [typeof job.id, typeof job.lease, job.payload.a, job.runAt instanceof Date] } },
            () => becomesTrue(async () => await database.value('SELECT status FROM jobq.jobs WHERE id = $1', [id]) === 'completed'));
        assert.equal(await database.value('SELECT result::text FROM jobq.jobs WHERE id = $1', [id]), '["string", "string", 1, true]');
    } finally {
        pg.types.setTypeParser(20, before);
        pg.types.setTypeParser(3802, JSON.parse);
    }
});

test('the DateStyle of the session does not matter', async () => {
    const handlers = { a: (job) => [job.runAt.toISOString(), Date.now() - job.createdAt < 3600_000] };
    const connection = { options: '-c datestyle=SQL,DMY -c timezone=Asia/Kolkata' };
    const ids = [];
    for (const at of ['2020-12-05 10:00:00.123999+00', '0044-03-15 00:00+00 BC'])
        ids.push(await database.value("SELECT jobq_enqueue('times', kind => 'a', run_at => $1::timestamptz)", [at]));
    await working({ queue: 'times', handlers, connection },
        () => Promise.all(ids.map((id) => reaches(database, id, 'completed'))));
    assert.deepEqual(await database.query("SELECT result FROM jobq.jobs WHERE queue = 'times' ORDER BY id"),
        [{ result: ['2020-12-05T10:00:00.123Z', true] }, { result: ['-000043-03-15T00:00:00.000Z', true] }]);
});
