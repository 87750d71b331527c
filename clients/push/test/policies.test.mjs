// Signatures, addresses, the circuit, and what is decided about requests and reports. Needs no database.
import assert from 'node:assert/strict';
import { lookup } from 'node:dns';
import { readFileSync, readdirSync } from 'node:fs';
import { test } from 'node:test';
import { promisify } from 'node:util';
import { Addresses, rangeOf } from '../src/addresses.js';
import { Circuit } from '../src/circuit.js';
import { bodyOf, headersOf, retryAfter } from '../src/delivery.js';
import { Post } from '../src/post.js';
import { reportOf } from '../src/reports.js';
import { forgery, keyOf, signed } from '../src/signature.js';
import { json, newSecret, receiver } from './harness.mjs';

const keys = [keyOf(newSecret()), keyOf(newSecret())];

test('signatures are those of Standard Webhooks', () => {
    // The example of the libraries of Standard Webhooks.
    const key = keyOf('whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw');
    assert.equal(signed([key], 'msg_p5jXN8AQM9LWM0D4loKWxJek', Buffer.from('{"test": 2432232314}'), 1614265330)['webhook-signature'],
        'v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=');
});

test('a signature is accepted if one of the keys made it, and not for another body, id, or time', () => {
    const body = Buffer.from('{}');
    const headers = signed(keys, 'job_1', body, 1000);
    assert.equal(headers['webhook-signature'].split(' ').length, 2);
    for (const key of keys) {
        assert.equal(forgery([key], headers, body, 1000), undefined);
        assert.equal(forgery(keys, signed([key], 'job_1', body, 1000), body, 1299), undefined);
    }
    assert.match(forgery([keyOf(newSecret())], headers, body, 1000), /no signature/);
    assert.match(forgery(keys, headers, Buffer.from('[]'), 1000), /no signature/);
    assert.match(forgery(keys, { ...headers, 'webhook-id': 'job_2' }, body, 1000), /no signature/);
    assert.match(forgery(keys, { ...headers, 'webhook-timestamp': '1001' }, body, 1000), /no signature/);
    assert.match(forgery(keys, { ...headers, 'webhook-signature': headers['webhook-signature'].replaceAll('v1,', 'v2,') }, body, 1000), /no signature/);
    for (const now of [699, 1301]) assert.match(forgery(keys, headers, body, now), /differs from the time here by more than 300 s/);
    assert.match(forgery(keys, { ...headers, 'webhook-timestamp': 'x' }, body, 1000), /not a number/);
    for (const name of Object.keys(headers)) assert.match(forgery(keys, { ...headers, [name]: undefined }, body, 1000), /are required/);
});

test('special addresses are forbidden unless they are allowed', () => {
    const some = new Addresses(['10.1.0.0/16', '::1'].map(rangeOf));
    const wrong = ['127.0.0.1', '127.9.9.9', '10.0.0.1', '10.2.0.1', '172.31.0.1', '192.168.1.1', '169.254.169.254', '100.64.0.1', '0.0.0.0',
        '224.0.0.1', '255.255.255.255', '::', 'fe80::1', 'fd00::1', 'ff02::1', '::ffff:127.0.0.1', '::ffff:8.8.8.8', '64:ff9b::7f00:1',
        '2002:7f00:1::', '2001:db8::1'];
    for (const address of wrong) assert.equal(some.isAllowed(address), false, address);
    for (const address of ['8.8.8.8', '10.1.2.3', '172.32.0.1', '2606:4700::1111', '::1']) assert.equal(some.isAllowed(address), true, address);
    for (const text of ['10.0.0.0/33', '10.0.0', 'localhost', '::/129', '']) assert.equal(rangeOf(text), undefined, text);
});

// A resolver that gives the first answer once, and then the second: DNS rebinding.
const rebinding = (...answers) => (host, options, callback) => callback(null, answers.length > 1 ? answers.shift() : answers[0]);
const [open, local] = [[{ address: '192.0.2.7', family: 4 }], [{ address: '127.0.0.1', family: 4 }]];

test('a name whose address is forbidden is not connected to', async () => {
    const found = await receiver((request, response) => json(response, 200, {}));
    const post = (host, allowed, resolve) => new Post({
        url: new URL(`http://${host}:${found.port}/`), timeout: 5, maxBytes: 100, resolve, addresses: new Addresses(allowed.map(rangeOf)),
    });
    const sends = async (host, allowed, resolve) => {
        const one = post(host, allowed, resolve);
        try {
            return await one.send({}, Buffer.from('{}'), new AbortController().signal);
        } finally {
            one.end();
        }
    };
    const refused = { code: 'ERR_ADDRESS_NOT_ALLOWED' };
    const { address } = await promisify(lookup)('localhost', { all: false });
    await assert.rejects(sends('localhost', []), { ...refused, message: /^the host "localhost" has the address/ });
    assert.equal(found.connections, 0);
    assert.equal((await sends('localhost', ['127.0.0.0/8', '::1'])).status, 200, address);
    // A URL with an address needs no lookup.
    await assert.rejects(sends('127.0.0.1', []), refused);
    const { connections } = found;
    // One of several addresses is forbidden.
    await assert.rejects(sends('one.example', ['192.0.2.0/24'], rebinding([...open, ...local])), refused);
    // Each new connection resolves the name again, and the answer is checked again.
    const one = post('one.example', ['192.0.2.0/24'], rebinding(open, local));
    one.timeout = 0.2;
    await assert.rejects(one.send({}, Buffer.from('{}'), new AbortController().signal), (error) => error.code !== refused.code);
    one.timeout = 60;
    await assert.rejects(one.send({}, Buffer.from('{}'), new AbortController().signal), refused);
    one.end();
    assert.deepEqual([found.requests.length, found.connections], [1, connections]);
});

test('a request is sent again on a new connection if the old one was closed', async () => {
    let count = 0;
    const found = await receiver((request, response, incoming) => {
        count += 1;
        if (count === 2) incoming.socket.destroy();
        else json(response, 200, count);
    });
    const post = new Post({ url: new URL(found.url), timeout: 60, maxBytes: 100, addresses: new Addresses([rangeOf('127.0.0.1')]) });
    const send = async (key) => (await post.send({ 'idempotency-key': key }, Buffer.from('{}'), new AbortController().signal)).body.toString();
    assert.deepEqual([await send('a'), await send('b')], ['1', '3']);
    assert.deepEqual(found.requests.map(({ headers }) => headers['idempotency-key']), ['a', 'b', 'b']);
    post.end();
});

test('the circuit opens after failures in a row, lets one delivery through, and closes', () => {
    const slots = [], lines = [];
    let elapse;
    const circuit = new Circuit({
        failures: 3, openFor: 5, slots: 9, setSlots: (number) => slots.push(number), log: (line) => lines.push(line),
        timer: (work, time) => { assert.equal(time, 5000); elapse = work; },
    });
    const deliver = (succeeded) => circuit.begin()(succeeded);
    deliver(false); deliver(false); deliver(true); deliver(false); deliver(false);
    assert.deepEqual([circuit.state, slots], ['closed', []]);
    const early = circuit.begin();
    deliver(false);
    assert.deepEqual([circuit.state, slots], ['open', [0]]);
    elapse();
    assert.deepEqual([circuit.state, slots], ['half-open', [0, 1]]);
    early(true);        // began before the circuit opened
    assert.equal(circuit.state, 'half-open');
    deliver(false);
    assert.deepEqual([circuit.state, slots], ['open', [0, 1, 0]]);
    elapse();
    deliver(true);
    assert.deepEqual([circuit.state, slots], ['closed', [0, 1, 0, 1, 9]]);
    deliver(false); deliver(false);
    assert.equal(circuit.state, 'closed');
    assert.match(lines[0], /open for 5 s after 3 failures in a row/);
});

test('times of Retry-After', () => {
    const time = Date.parse('Tue, 01 Dec 2026 12:00:00 GMT') / 1000;
    const cases = [['120', 120], ['0', 0], ['Tue, 01 Dec 2026 12:00:30 GMT', 30], ['Tue, 01 Dec 2026 11:00:00 GMT', 0], [undefined, undefined],
        ['', undefined], ['-1', undefined], ['1.5', undefined], ['soon', undefined]];
    for (const [value, wanted] of cases) assert.equal(retryAfter(value, time), wanted, value);
});

test('the body and the headers of a request', () => {
    const job = {
        id: '17', queue: 'Zürich 100%', kind: 'a\nb', attempt: 2, maxAttempts: 20, payload: { x: 'é' }, createdAt: new Date(0),
        metadata: { traceparent: '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01', tracestate: 'a=1' },
    };
    const body = bodyOf(job, { url: 'https://push/a', id: '17-2-x' });
    assert.deepEqual(JSON.parse(body.toString()), {
        type: 'a\nb', timestamp: '1970-01-01T00:00:00.000Z', data: { x: 'é' }, report: { url: 'https://push/a', id: '17-2-x' },
        job: { id: '17', queue: 'Zürich 100%', kind: 'a\nb', attempt: 2, max_attempts: 20, idempotency_key: '17-2' },
    });
    const headers = headersOf(job, keys, body, 1000);
    assert.deepEqual([headers['jobq-queue'], headers['jobq-kind'], headers['idempotency-key'], headers['webhook-id'], headers.tracestate],
        ['Z%C3%BCrich%20100%25', 'a%0Ab', '17-2', 'job_17', 'a=1']);
    assert.equal(headers.traceparent, job.metadata.traceparent);
    assert.equal(forgery([keys[1]], headers, body, 1000), undefined);
    assert.equal('traceparent' in headersOf({ ...job, metadata: { traceparent: 7 } }, keys, body, 1000), false);
    assert.equal('tracestate' in headersOf({ ...job, metadata: { tracestate: 'a\r\nb: c' } }, keys, body, 1000), false);
    assert.equal('report' in JSON.parse(bodyOf({ ...job, payload: null }).toString()), false);
});

test('an error about a report names the wrong key', () => {
    const id = '17-2-0123456789abcdef';
    const cases = [['{', /not valid JSON/], ['[]', /must be an object/], [{}, /"report_id"/], [{ report_id: '17', status: 'completed' }, /"report_id"/],
        [{ report_id: id, status: 'done' }, /"status"/], [{ report_id: id, status: 'completed', error: 'x' }, /must not have the key "error"/],
        [{ report_id: id, status: 'failed' }, /"error" must be/], [{ report_id: id, status: 'failed', error: 'x', retry: 1 }, /"retry" must be/]];
    for (const [body, message] of cases) {
        assert.throws(() => reportOf(Buffer.from(typeof body === 'string' ? body : JSON.stringify(body))), { status: 400, message });
    }
    assert.deepEqual(reportOf(Buffer.from(JSON.stringify({ report_id: id, status: 'failed', error: 'x', retry: false }))),
        { id, jobId: '17', signal: { status: 'failed', error: 'x', retry: false } });
});

test('no file is much longer than 600 lines', () => {
    for (const directory of ['src', 'test', 'bin']) {
        const path = new URL(`../${directory}/`, import.meta.url);
        for (const file of readdirSync(path)) assert.ok(readFileSync(new URL(file, path), 'utf8').split('\n').length < 620, file);
    }
});
