// jobq-push with a receiver that answers in all ways, on a server.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import https from 'node:https';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import process from 'node:process';
import { test } from 'node:test';
import { enqueue, enqueueMany } from 'jobq-client';
import { becomesTrue, gate, newDatabase, reaches } from '../../node/test/server.mjs';
import { keyOf } from '../src/signature.js';
import { configurationFor, freePort, json, newSecret, pushing, receiver, secret, start } from './harness.mjs';

const database = await newDatabase('push');
const { pool } = database;
const attemptsOf = (id) => database.query('SELECT outcome::text AS outcome, error, details FROM jobq.attempts WHERE job_id = $1 ORDER BY attempt', [id]);
const linesOf = (id) => database.value('SELECT string_agg(line, E\'\\n\') FROM jobq.log_lines WHERE job_id = $1', [id]);
const endpointOf = (queue, url, rest) => ({ name: queue.replaceAll(/[^a-z]/g, '-'), queues: [queue], url, ...rest });
const quick = (queue) => database.query("SELECT jobq_create_queue($1, max_attempts => 3, backoff_base => '0', backoff_max => '0')", [queue]);

test('a job is posted with its headers, and completed with the answer', async () => {
    const found = await receiver(({ data }, response) => json(response, 200, { got: data }));
    const traceparent = '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01';
    await pushing(configurationFor([endpointOf('basic', found.url, { kinds: ['k', ''] })]), async () => {
        const id = await enqueue(pool, 'basic', { to: 'Ada' }, { kind: 'k', metadata: { traceparent } });
        assert.deepEqual((await reaches(database, id, 'completed')).result, { got: { to: 'Ada' } });
        const [{ headers, job, type }] = found.of(id);
        assert.deepEqual([headers['idempotency-key'], headers['webhook-id'], headers['jobq-job-id'], headers['jobq-kind'], headers['jobq-attempt'],
            headers['jobq-queue'], headers.traceparent, type, job.max_attempts], [`${id}-1`, `job_${id}`, id, 'k', '1', 'basic', traceparent, 'k', 20]);
        assert.equal(found.forged, 0);
        const other = await enqueue(pool, 'basic', null);
        assert.deepEqual((await reaches(database, other, 'completed')).result, { got: null });
    });
});

test('an answer without a usable result completes the job without a result', async () => {
    const answers = [(response) => response.writeHead(204).end(), (response) => response.end('OK'), (response) => json(response, 200, 'x'.repeat(200)),
        (response) => response.writeHead(201, { 'content-type': 'application/problem+json' }).end('{'),
        (response) => json(response, 200, { text: 'a\\\u0000' }), (response) => response.writeHead(200, { 'content-type': 'application/json' }).end('"\\ud800"')];
    const found = await receiver(({ data }, response) => answers[data](response));
    await pushing(configurationFor([endpointOf('results', found.url, { maxResponseBytes: 100 })]), async () => {
        const ids = await Promise.all(answers.map((_, place) => enqueue(pool, 'results', place, { kind: 'k' })));
        for (const id of ids) assert.equal((await reaches(database, id, 'completed')).result, null);
        const lines = await Promise.all(ids.map(linesOf));
        assert.deepEqual(lines.slice(0, 2), [null, null]);
        assert.match(lines[2], /larger than maxResponseBytes/);
        assert.match(lines[3], /not valid JSON/);
        for (const line of lines.slice(4)) assert.match(line, /cannot store/);
        assert.equal(found.requests.length, answers.length);
    });
});

test('an attempt fails with the status and the body, the job is retried, and 410 is final', async () => {
    const { opened, open } = gate();
    const answers = {
        error: (response) => response.writeHead(500).end(`broken ${'x'.repeat(9000)}`),
        missing: (response) => json(response, 404, { no: 'such thing' }),
        redirect: (response) => response.writeHead(302, { location: found.url }).end(),
        busy: (response) => response.writeHead(429, { 'retry-after': 'soon' }).end(),
        gone: (response) => response.writeHead(410).end('never again'),
        killed: (response) => response.socket.destroy(),
        cut: (response) => { response.writeHead(200, { 'content-length': 100 }).write('{'); response.socket.end(); },
        late: (response) => opened.then(() => json(response, 200, 'late')),
    };
    const found = await receiver(({ data }, response) => answers[data](response));
    await quick('failing');
    const endpoints = [endpointOf('failing', found.url), { ...endpointOf('failing', found.url, { timeout: 0.3 }), name: 'slow', kinds: ['slow'] }];
    await pushing(configurationFor(endpoints), async () => {
        const ids = {};
        for (const name of Object.keys(answers)) ids[name] = await enqueue(pool, 'failing', name, { kind: name === 'late' ? 'slow' : 'k' });
        const wanted = {
            error: /^endpoint "failing" answered 500: broken x{493}$/, missing: /answered 404: \{"no":"such thing"\}$/,
            redirect: /answered 302 \(redirects are not followed\)$/, busy: /answered 429$/, gone: /answered 410: never again$/,
            killed: /^the request to endpoint "failing" failed: socket hang up$/, cut: /failed: aborted$/, late: /failed: no complete answer within 0.3 s$/,
        };
        for (const [name, pattern] of Object.entries(wanted)) {
            await reaches(database, ids[name], 'failed');
            const attempts = await attemptsOf(ids[name]);
            const { length } = attempts;
            assert.equal(length, name === 'gone' ? 1 : 3, name);
            for (const { error } of attempts) assert.match(error, pattern);
            // A request may time out before the receiver has read it, and is sent again if a connection that was used before is closed.
            const keys = new Set(found.of(ids[name]).map(({ headers }) => headers['idempotency-key']));
            if (name !== 'late') assert.deepEqual([...keys], [1, 2, 3].slice(0, length).map((n) => `${ids[name]}-${n}`));
        }
        const [{ details }] = await attemptsOf(ids.error);
        assert.deepEqual([details.class, details.status, details.body.length], ['Fail', 500, 4096]);
        open();
    });
});

test('Retry-After runs the job again later, with the same key, and the attempt is not counted', async () => {
    const found = await receiver(({ data, job }, response) => {
        if (found.of(job.id).length === 3) return json(response, 200, 'done');
        return json(response, data, {}, { 'retry-after': data === 429 ? '0' : new Date(Date.now() + 3_600_000).toUTCString() });
    });
    await pushing(configurationFor([endpointOf('later', found.url, { maxRetryAfter: 1 })]), async () => {
        for (const status of [429, 503]) {
            const id = await enqueue(pool, 'later', status, { kind: 'k', maxAttempts: 1 });
            const job = await reaches(database, id, 'completed');
            assert.deepEqual([job.result, job.attempts], ['done', 1]);
            assert.deepEqual(found.of(id).map(({ headers }) => headers['idempotency-key']), Array(3).fill(`${id}-1`));
            assert.deepEqual((await attemptsOf(id)).filter(({ outcome }) => outcome === 'failed'), []);
        }
    });
});

test('canceling a job aborts its request', async () => {
    const found = await receiver(() => {});
    await pushing(configurationFor([endpointOf('cancel', found.url, { timeout: 3600 })], { worker: { heartbeatInterval: 0.1 } }), async () => {
        const id = await enqueue(pool, 'cancel', {}, { kind: 'k' });
        await becomesTrue(() => found.running === 1);
        await database.query('SELECT jobq_cancel($1)', [id]);
        await reaches(database, id, 'cancelled');
        await becomesTrue(() => found.running === 0);
    });
});

test('a stop waits for requests, and gives jobs back after the grace period', async () => {
    const { opened, open } = gate();
    const found = await receiver(async ({ job }, response) => {
        if (job.queue === 'stop' || found.of(job.id).length > 1) {
            await opened;
            json(response, 200, 'done');
        }
    });
    const id = await pushing(configurationFor([endpointOf('stop', found.url)]), async (running) => {
        const first = await enqueue(pool, 'stop', {}, { kind: 'k' });
        await becomesTrue(() => found.running === 1);
        const stopped = running.stop();
        await becomesTrue(() => /stopping: no more claims/.test(running.output));
        const second = await enqueue(pool, 'stop', {}, { kind: 'k' });
        open();
        assert.equal(await stopped, 0);
        assert.deepEqual([(await database.job(first)).result, (await database.job(second)).status], ['done', 'pending']);
        return enqueue(pool, 'given back', {}, { kind: 'k', maxAttempts: 1 });
    });
    const configuration = configurationFor([endpointOf('given back', found.url)], { worker: { grace: 0 } });
    await pushing(configuration, async (running) => {
        await becomesTrue(() => found.of(id).length === 1);
        assert.equal(await running.stop(), 0);
        assert.deepEqual([(await database.job(id)).status, (await database.job(id)).attempts], ['pending', 0]);
    });
    await pushing(configuration, () => reaches(database, id, 'completed'));
    assert.deepEqual(found.of(id).map(({ headers }) => headers['idempotency-key']), [`${id}-1`, `${id}-1`]);
});

test('an open circuit claims no jobs, one delivery tries the endpoint, and other endpoints continue', async () => {
    let broken = true;
    const found = await receiver(({ job }, response) => json(response, broken && job.queue === 'circuit' ? 500 : 200, {}));
    const ids = (await enqueueMany(pool, 'circuit', Array(30).fill({}), { kind: 'k', maxAttempts: 1 })).map(({ id }) => id);
    const endpoints = [endpointOf('circuit', found.url, { concurrency: 2, circuit: { failures: 4, openFor: 1 } }), endpointOf('well', found.url)];
    await pushing(configurationFor(endpoints), async (running) => {
        const states = () => running.output.match(/the circuit is [a-z-]+/g)?.map((state) => state.slice(15)) ?? [];
        const sent = () => found.requests.filter(({ job }) => job.queue === 'circuit').length;
        await becomesTrue(() => states().filter((state) => state === 'open').length === 2);
        // At most 4 failures and one request that had begun, and one request when the circuit was half open.
        assert.ok(sent() <= 6, `${sent()} requests`);
        assert.deepEqual(states().slice(0, 3), ['open', 'half-open', 'open']);
        await reaches(database, await enqueue(pool, 'well', {}, { kind: 'k' }), 'completed');
        broken = false;
        await becomesTrue(() => states().at(-1) === 'closed');
        await becomesTrue(async () => await database.value("SELECT count(*) FROM jobq.jobs WHERE queue = 'circuit' AND status < 'completed'") === '0');
    });
    assert.equal(ids.length, new Set(found.requests.filter(({ job }) => job.queue === 'circuit').map(({ job }) => job.id)).size);
});

test('no more requests than the concurrency of the endpoint run at the same time', async () => {
    const { opened, open } = gate();
    const found = await receiver(async (request, response) => {
        await opened;
        json(response, 200, {});
    });
    await pushing(configurationFor([endpointOf('many', found.url, { queues: ['many a', 'many b'], concurrency: 3 })]), async () => {
        const ids = [];
        for (const queue of ['many a', 'many b']) ids.push(...await enqueueMany(pool, queue, Array(10).fill({}), { kind: 'k' }));
        await becomesTrue(() => found.running === 3);
        open();
        for (const { id } of ids) await reaches(database, id, 'completed');
        assert.equal(found.most, 3);
    });
});

test('a host whose address is not allowed gets no request', async () => {
    const found = await receiver((request, response) => json(response, 200, {}));
    const configuration = configurationFor([endpointOf('private', `http://localhost:${found.port}/`)],
        { allowedHosts: ['localhost'], allowedHttpHosts: ['localhost'], allowedAddresses: [] });
    await pushing(configuration, async () => {
        const id = await enqueue(pool, 'private', {}, { kind: 'k', maxAttempts: 1 });
        await reaches(database, id, 'failed');
        assert.match((await attemptsOf(id))[0].error, /the host "localhost" has the address \S+, which is not public and not in allowedAddresses$/);
        assert.equal(found.requests.length, 0);
    });
});

test('https needs a certificate that is valid', async (t) => {
    const directory = mkdtempSync(join(tmpdir(), 'jobq-push-'));
    t.after(() => rmSync(directory, { recursive: true }));
    const [key, cert] = ['key', 'cert'].map((name) => join(directory, name));
    execFileSync('openssl', ['req', '-x509', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-nodes', '-subj', '/CN=localhost', '-addext',
        'subjectAltName=DNS:localhost', '-days', '30', '-keyout', key, '-out', cert], { stdio: 'pipe' });
    const found = await receiver((request, response) => json(response, 200, 'encrypted'),
        { create: (listener) => https.createServer({ key: readFileSync(key), cert: readFileSync(cert) }, listener) });
    const configuration = configurationFor([endpointOf('tls', `https://localhost:${found.port}/`)], { allowedHosts: ['localhost'], allowedHttpHosts: [], allowedAddresses: ['127.0.0.1', '::1'] });
    await pushing(configuration, async () => {
        const id = await enqueue(pool, 'tls', {}, { kind: 'k', maxAttempts: 1 });
        await reaches(database, id, 'failed');
        assert.match((await attemptsOf(id))[0].error, /self.signed certificate/);
    });
    await pushing(configuration, async () => {
        const id = await enqueue(pool, 'tls', {}, { kind: 'k', maxAttempts: 1 });
        assert.equal((await reaches(database, id, 'completed')).result, 'encrypted');
    }, { NODE_EXTRA_CA_CERTS: cert });
});

test('a request has a signature of each secret', async () => {
    const [old, other] = [newSecret(), newSecret()];
    const answers = [];
    for (const key of [old, secret, other]) answers.push(await receiver((request, response) => json(response, 200, {}), { keys: [keyOf(key)] }));
    const kinds = ['old', 'new', 'other'];
    const endpoints = answers.map(({ url }, place) => ({ name: kinds[place], queues: ['keys'], kinds: [kinds[place]], url, secrets: [secret, { env: 'JOBQ_PUSH_OLD' }] }));
    await pushing(configurationFor(endpoints), async () => {
        for (const kind of kinds) await reaches(database, await enqueue(pool, 'keys', {}, { kind }), 'completed');
        assert.deepEqual(answers.map(({ forged }) => forged), [0, 0, 1]);
    }, { JOBQ_PUSH_OLD: old });
});

test('an answer that arrives after the lease was lost changes nothing', async () => {
    const gates = [gate(), gate()];
    const found = await receiver(async ({ job }, response) => {
        await gates[job.attempt - 1].opened;
        json(response, 200, `from attempt ${job.attempt}`);
    });
    const configuration = configurationFor([endpointOf('lost', found.url, { timeout: 3600 })], { worker: { heartbeatTimeout: 1 } });
    await pushing(configuration, async (first) => {
        const id = await enqueue(pool, 'lost', {}, { kind: 'k' });
        await becomesTrue(() => found.of(id).length === 1);
        first.child.kill('SIGSTOP');
        await pushing(configuration, async () => {
            await becomesTrue(() => found.of(id).length === 2);
            gates[0].open();
            first.child.kill('SIGCONT');
            await becomesTrue(() => /the lease is lost/.test(first.output));
            assert.equal(await first.stop(), 0);
            assert.equal((await database.job(id)).status, 'processing');
            gates[1].open();
            const job = await reaches(database, id, 'completed');
            assert.deepEqual([job.result, job.attempts], ['from attempt 2', 2]);
        });
    });
});

test('a role with the profile worker is enough, and the worker can be watched', async () => {
    const role = `jobq_push_${process.pid}`;
    const livenessPort = await freePort();
    const found = await receiver((request, response) => json(response, 200, {}));
    await database.query(`CREATE ROLE ${role} LOGIN`);
    try {
        await database.query(`SELECT jobq_grant('${role}', 'worker', queues => '{role}')`);
        const configuration = configurationFor([endpointOf('role', found.url)], { worker: { livenessPort: `127.0.0.1:${livenessPort}` } });
        await pushing(configuration, async () => {
            await reaches(database, await enqueue(pool, 'role', {}, { kind: 'k' }), 'completed');
            assert.equal((await fetch(`http://127.0.0.1:${livenessPort}/`)).status, 200);
            assert.deepEqual(await database.query("SELECT queues, slots FROM jobq.workers WHERE 'role' = ANY (queues)"), [{ queues: ['role'], slots: 10 }]);
        }, { PGUSER: role });
    } finally {
        await database.query(`SELECT jobq_revoke('${role}', 'worker')`);
        await database.query(`DROP ROLE ${role}`);
    }
});

test('a program that cannot work says why, and ends', async () => {
    const configuration = configurationFor([endpointOf('ends', 'http://127.0.0.1:1/')]);
    const blocked = await receiver(() => {});
    const used = start({ ...configuration, reports: { listen: `127.0.0.1:${blocked.port}`, url: 'https://push.example.com' } });
    assert.equal(await used.ended, 1);
    assert.match(used.output, /option "reports.listen" cannot be used: listen EADDRINUSE/);
    const denied = start({ ...configuration, connection: { env: 'JOBQ_PUSH_DATABASE' } }, { JOBQ_PUSH_DATABASE: 'postgres:///no_such_database' });
    assert.equal(await denied.ended, 1);
    assert.match(denied.output, /no_such_database/);
});
