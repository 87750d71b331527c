// A proxy breaks connections after the server has committed, so that answers are lost.
import assert from 'node:assert/strict';
import process from 'node:process';
import { test } from 'node:test';
import { enqueue, enqueueMany } from '../src/index.js';
import { becomesTrue, gate, newDatabase, reaches, working } from './server.mjs';
import { losingProxy } from './proxy.mjs';

const database = await newDatabase('broken');
const { pool } = database;

let theProxy;

async function through(options, body) {
    const proxy = await losingProxy();
    try {
        await working({ connection: { host: '127.0.0.1', port: proxy.port }, ...options }, (worker, log) => body(proxy, worker, log));
    } finally {
        proxy.close();
    }
}

/** A worker of a role of its own; shut(sql): what is done to the role, and its connections are terminated. made: when connections were. */
async function asRole(options, body) {
    const role = `jobq_node_${process.pid}`;
    const made = [];
    const connection = () => {
        made.push(performance.now());
        return { user: role };
    };
    const shut = async (sql) => {
        await pool.query(`ALTER ROLE ${role} ${sql}`);
        await pool.query('SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = $1', [role]);
        made.length = 0;
    };
    const open = (sql) => pool.query(`ALTER ROLE ${role} ${sql}`);
    await pool.query(`CREATE ROLE ${role} LOGIN; SELECT jobq_grant('${role}', 'worker')`);
    try {
        await working({ connection, ...options }, (worker, log) => body({ shut, open, made }, worker, log));
    } finally {
        await pool.query(`SELECT jobq_revoke('${role}', 'worker'); DROP ROLE ${role}`);
    }
}

test('a job that ends while the server rejects connections is reported afterward', async () => {
    const { open, opened } = gate();
    const id = await enqueue(pool, 'shut', {}, { kind: 'wait' });
    await asRole({ queue: 'shut', handlers: { wait: () => opened.then(() => 7) }, heartbeatTimeout: 600 }, async (role, worker, log) => {
        await reaches(database, id, 'processing');
        await role.shut('NOLOGIN');
        open();
        await becomesTrue(() => role.made.length >= 6);
        assert.deepEqual([worker.hand.size, log.filter((line) => /refused|failed|lost/.test(line))], [1, []]);
        await role.open('LOGIN');
        const job = await reaches(database, id, 'completed');
        assert.deepEqual([job.result, job.attempts], [7, 1]);
    });
});

test('pauses double until a statement succeeds, not only until a connection is made', async () => {
    await asRole({ queue: 'read only', handlers: { echo: (job) => job.payload } }, async (role, worker) => {
        await becomesTrue(() => worker.claims.away);
        await role.shut('SET default_transaction_read_only = on');
        const id = await enqueue(pool, 'read only', 7, { kind: 'echo' });
        await becomesTrue(() => role.made.at(-1) - role.made.at(-2) >= 800, 'connections are made less often');
        await role.open('RESET default_transaction_read_only');
        assert.equal((await reaches(database, id, 'completed')).result, 7);
    });
});

test('a completion whose answer was lost is sent again and not treated as a lost lease', async () => {
    const { open, opened } = gate();
    const id = await enqueue(pool, 'complete', {}, { kind: 'wait' });
    await through({ queue: 'complete', slots: 2, handlers: { wait: () => opened.then(() => 7) } }, async (proxy, worker, log) => {
        await reaches(database, id, 'processing');
        await becomesTrue(() => worker.claims.away);
        proxy.lose('jobq_complete_many');
        open();
        await becomesTrue(() => proxy.lost === 1 && worker.hand.size === 0);
        assert.deepEqual(log.filter((line) => /lost/.test(line)), []);
        assert.ok(log.some((line) => /^warn .*heartbeats and reports is broken/.test(line)), log.join('\n'));
    });
    const job = await database.job(id);
    assert.deepEqual([job.status, job.result, job.attempts], ['completed', 7, 1]);
});

test('a completion that was sent with a claim is sent again, and the claimed jobs are rescued', async () => {
    const { open, opened } = gate();
    const [first, second] = await enqueueMany(pool, 'along', [1, 2], { kind: 'wait' });
    const handlers = { wait: async (job) => { if (job.payload === 1) await opened; return job.attempt; } };
    await through({ queue: 'along', handlers, heartbeatTimeout: 3 }, async (proxy, worker, log) => {
        await reaches(database, first.id, 'processing');
        proxy.lose('job_ids => ');
        open();
        await becomesTrue(() => proxy.lost === 1);
        await reaches(database, first.id, 'completed');
        // No heartbeat extends its lease, so it is rescued and claimed again.
        assert.deepEqual((await reaches(database, second.id, 'completed')).result, 2);
        assert.deepEqual(log.filter((line) => /lost/.test(line)), []);
        assert.ok(log.some((line) => /^warn .*claims is broken/.test(line)), log.join('\n'));
        assert.equal(worker.hand.size, 0);
    });
    assert.equal((await database.job(first.id)).attempts, 1);
});

test('a failure whose answer was lost counts once', async () => {
    const id = await enqueue(pool, 'fail', {}, { kind: 'throw', maxAttempts: 2 });
    const handlers = { throw: (job) => { if (job.attempt === 1) throw new Error('once'); return job.attempt; } };
    await pool.query("SELECT jobq_create_queue('fail', backoff_base => '10 ms')");
    const proxyReady = gate();
    await through({ queue: 'fail', handlers: { throw: async (job) => { await proxyReady.opened; return handlers.throw(job); } } }, async (proxy, _worker, log) => {
        proxy.lose('jobq_fail');
        proxyReady.open();
        assert.equal((await reaches(database, id, 'completed')).result, 2);
        assert.deepEqual([proxy.lost, log.filter((line) => /lost/.test(line))], [1, []]);
    });
    assert.equal(await database.value('SELECT count(*)::int FROM jobq.attempts WHERE job_id = $1', [id]), 1);
});

test('completing: a commit whose answer was lost counts', async () => {
    await pool.query('CREATE TABLE effects (job_id bigint, attempt int)');
    const id = await enqueue(pool, 'commit', {}, { kind: 'effect' });
    const started = gate();
    await through({ queue: 'commit', handlers: { effect: (job) => job.completing(async (client) => {
        await started.opened;
        await client.query('INSERT INTO effects VALUES ($1, $2)', [job.id, job.attempt]);
        theProxy.lose('COMMIT');
        return 'done';
    }) } }, async (proxy, worker, log) => {
        theProxy = proxy;
        started.open();
        await becomesTrue(async () => proxy.lost === 1 && worker.hand.size === 0);
        assert.deepEqual(log.filter((line) => /failed|lease/.test(line)), []);
    });
    assert.deepEqual([(await database.job(id)).status, (await database.job(id)).attempts], ['completed', 1]);
    assert.equal(await database.value('SELECT count(*)::int FROM effects WHERE job_id = $1', [id]), 1);
});

test('completing: a commit whose answer was lost counts in a queue that keeps no jobs', async () => {
    await pool.query("SELECT jobq_create_queue('unkept', keep_completed => '0')");
    const { open, opened } = gate();
    const started = gate();
    const plain = await enqueue(pool, 'unkept', {}, { kind: 'wait' });
    const effect = await enqueue(pool, 'unkept', {}, { kind: 'effect' });
    const handlers = {
        wait: () => opened,
        effect: (job) => job.completing(async (client) => {
            await client.query('INSERT INTO effects VALUES ($1, $2)', [job.id, job.attempt]);
            await started.opened;
            theProxy.lose('COMMIT');
        }),
    };
    await through({ queue: 'unkept', slots: 3, handlers }, async (proxy, worker, log) => {
        theProxy = proxy;
        started.open();
        await becomesTrue(async () => proxy.lost === 1 && worker.hand.size === 1 && worker.claims.away);
        proxy.lose('jobq_complete_many');
        open();
        await becomesTrue(() => proxy.lost === 2 && worker.hand.size === 0);
        assert.deepEqual(log.filter((line) => /lost|failed/.test(line)), []);
    });
    assert.equal(await database.value('SELECT count(*)::int FROM effects WHERE job_id = $1', [effect]), 1);
    assert.deepEqual([await database.job(plain), await database.job(effect)], [undefined, undefined]);
});


test('completing: if the commit has not happened, the attempt has failed', async () => {
    await pool.query("SELECT jobq_create_queue('uncommitted', backoff_base => '10 ms')");
    await pool.query(`CREATE FUNCTION die() RETURNS trigger LANGUAGE plpgsql AS $$
        BEGIN PERFORM pg_terminate_backend(pg_backend_pid()); RETURN NULL; END $$`);
    await pool.query('CREATE TABLE fatal (attempt int)');
    await pool.query(`CREATE CONSTRAINT TRIGGER die AFTER INSERT ON fatal DEFERRABLE INITIALLY DEFERRED
        FOR EACH ROW WHEN (NEW.attempt = 1) EXECUTE FUNCTION die()`);
    const id = await enqueue(pool, 'uncommitted', {}, { kind: 'effect' });
    const effect = (job) => job.completing(async (client) => { await client.query('INSERT INTO fatal VALUES ($1)', [job.attempt]); });
    await working({ queue: 'uncommitted', handlers: { effect } }, () => reaches(database, id, 'completed'));
    assert.deepEqual(await database.query('SELECT attempt FROM fatal'), [{ attempt: 2 }]);
    assert.equal(await database.value("SELECT count(*)::int FROM jobq.attempts WHERE job_id = $1 AND outcome = 'failed'", [id]), 1);
});

test('completing: if the answer to the completion is lost, the attempt has failed', async () => {
    await pool.query("SELECT jobq_create_queue('unanswered', backoff_base => '10 ms')");
    await pool.query('CREATE TABLE unanswered (attempt int)');
    const id = await enqueue(pool, 'unanswered', {}, { kind: 'effect' });
    const started = gate();
    const effect = async (job) => {
        await started.opened;
        return job.completing(async (client) => {
            await client.query('INSERT INTO unanswered VALUES ($1)', [job.attempt]);
            if (job.attempt === 1) theProxy.lose('must_hold');
            return 'done';
        });
    };
    await through({ queue: 'unanswered', handlers: { effect } }, async (proxy, _worker, log) => {
        theProxy = proxy;
        started.open();
        assert.equal((await reaches(database, id, 'completed')).result, 'done');
        assert.deepEqual([proxy.lost, log.filter((line) => /lease/.test(line))], [1, []]);
    });
    assert.deepEqual(await database.query('SELECT attempt FROM unanswered'), [{ attempt: 2 }]);
    assert.equal(await database.value("SELECT count(*)::int FROM jobq.attempts WHERE job_id = $1 AND outcome = 'failed'", [id]), 1);
});

test('a connection that breaks between two steps is replaced', async () => {
    const { open, opened } = gate();
    const id = await enqueue(pool, 'between', {}, { kind: 'two' });
    const two = async (job) => {
        const first = await job.step('one', () => 1);
        await opened;
        return [first, await job.step('two', () => 2)];
    };
    await working({ queue: 'between', handlers: { two }, heartbeatTimeout: 600 }, async (worker) => {
        await becomesTrue(async () => (await database.query('SELECT FROM jobq.steps WHERE job_id = $1', [id])).length === 1);
        await pool.query("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name LIKE 'jobq between%'");
        await becomesTrue(() => worker.slotConnections.size === 0);
        open();
        const job = await reaches(database, id, 'completed');
        assert.deepEqual([job.result, job.attempts], [[1, 2], 1]);
    });
});

test('heartbeats and handlers get new connections after all were terminated', async () => {
    const { open, opened } = gate();
    const { open: answer, opened: answered } = gate();
    const id = await enqueue(pool, 'terminated', {}, { kind: 'sql' });
    const sql = async (job) => {
        const before = (await (await job.client()).query('SELECT 1 AS one')).rows[0].one;
        answer();
        await opened;
        return before;
    };
    const after = await enqueue(pool, 'terminated', {}, { kind: 'after' });
    const handlers = { sql, after: async (job) => (await (await job.client()).query('SELECT 2 AS two')).rows[0].two };
    await working({ queue: 'terminated', handlers, heartbeatInterval: 0.1, heartbeatTimeout: 600 }, async (worker) => {
        await answered;   // a handler whose statement is interrupted fails
        await becomesTrue(async () => await database.value(`SELECT count(*)::int FROM pg_stat_activity WHERE application_name LIKE 'jobq terminated%'`) === 3);
        await pool.query("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name LIKE 'jobq terminated%'");
        const { last_heartbeat: heard } = await database.job(id);
        await becomesTrue(async () => (await database.job(id)).last_heartbeat > heard);
        open();
        assert.equal((await reaches(database, id, 'completed')).attempts, 1);
        assert.equal((await reaches(database, after, 'completed')).result, 2);
        await becomesTrue(() => worker.hand.size === 0);
    });
});
