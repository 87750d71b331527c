// Decisions that need no server: options, outcomes, intervals, values, trace contexts.
import assert from 'node:assert/strict';
import { readFileSync, readdirSync } from 'node:fs';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { Claims } from '../src/claims.js';
import { Collisions } from '../src/collisions.js';
import { isAgain, isBroken } from '../src/connection.js';
import { Cancelled, Fail, OptionError, Release, Snooze, Suspended } from '../src/errors.js';
import { bounded, failuresOf } from '../src/failures.js';
import { Hand } from '../src/hand.js';
import { Heartbeats, dueAt } from '../src/heartbeats.js';
import { toLine } from '../src/lines.js';
import { createBatch, getBatch, sealBatch } from '../src/batches.js';
import { Job } from '../src/job.js';
import { checkedOptions, optionsOfEnvironment } from '../src/options.js';
import { enqueue, enqueueJobs, enqueueMany } from '../src/producers.js';
import { drain, runInline } from '../src/testing.js';
import { afterRefusal, failed, ofError, ofReturn } from '../src/outcome.js';
import { Pace } from '../src/pace.js';
import { Reports } from '../src/reports.js';
import { FAIL, FAIL_WITHOUT_DETAILS, WRITE_LOG } from '../src/statements.js';
import { pauseAfter } from '../src/timing.js';
import { contextOf, withContext } from '../src/tracing.js';
import { describe, messageOf, toInterval, toJson, toText } from '../src/values.js';

const handlers = { mail() {} };
const server = (code) => Object.assign(new Error(code), { code, severity: 'ERROR' });

test('options have their defaults', () => {
    const options = checkedOptions({ handlers, slots: 7 });
    assert.deepEqual(
        [options.queue, options.slots, options.batch, options.waitTimeout, options.grace, options.kinds, options.pollInterval],
        ['default', 7, 7, 30, 25, ['mail'], undefined]);
    assert.equal(checkedOptions({ handlers, slots: 7, prefetch: 20 }).batch, 27);
    assert.notEqual(options.workerId, checkedOptions({ handlers }).workerId);
});

test('an error about a wrong option names it, its value, and the allowed values', () => {
    const wrong = {
        slots: [0, 1001, 1.5, '3', NaN], batch: [0, 1001], prefetch: [-1, 1001, 0.5], queue: ['', 'q'.repeat(64), 7], grace: [-1, 'soon', Infinity],
        workerId: ['', 'backend:1', 'w'.repeat(256)], heartbeatTimeout: [0.009], waitTimeout: [-1], pollInterval: [0],
        heartbeatInterval: [0], versions: ['1', [1.5]], capabilities: [[7]], connection: [7], logger: [{}], heartbeatThread: [1],
        errorDetails: ['yes', 1], onError: [1], livenessFile: ['', 7], livenessPort: [0, 65536, true, 'host', '::1:80', '1.5'],
        handlers: [{}, { mail: 7 }, 'mail'], queues: ['q', [], {}, [7]], patterns: ['%', [], ['p'.repeat(127)]],
    };
    for (const [option, values] of Object.entries(wrong)) {
        for (const value of values) {
            assert.throws(() => checkedOptions({ handlers, [option]: value }), (error) => error instanceof OptionError
                && error.message.startsWith(`option ${option} `) && / must be .*, but is /.test(error.message), `${option}: ${value}`);
        }
    }
    assert.throws(() => checkedOptions({ handlers, slot: 1 }), /unknown option slot of a worker; the options are queue, queues, patterns,/);
    for (const option of ['queues', 'patterns']) {
        assert.throws(() => checkedOptions({ handlers, queue: 'q', [option]: ['a'] }), new RegExp(`options queue and ${option} cannot be combined`));
    }
    const refused = (options, message) => assert.throws(() => checkedOptions({ handlers, ...options }), { name: 'OptionError', message });
    for (const option of ['queues', 'patterns']) {
        for (const [slots, shown] of [[0, '0'], [1001, '1001'], [0.5, '0.5'], ['3', '"3"'], [undefined, 'undefined']]) {
            refused({ [option]: { a: 1, b: slots } }, `option ${option} must have a whole number of slots from 1 to 1000 for "b", but has ${shown}`);
        }
    }
    for (const pattern of ['x\\', '\\', 'a\\\\\\']) {
        const message = `option patterns must not have a pattern that ends with a single backslash, but has ${JSON.stringify(pattern)}`;
        for (const patterns of [['a%', pattern], { [pattern]: 1 }]) refused({ patterns }, message);
    }
    assert.ok(checkedOptions({ handlers, patterns: ['a\\\\', '\\%\n', '\\\u{1F600}'], queues: ['x\\'] }));
    assert.equal(checkedOptions({ handlers, queues: { a: 2 }, patterns: { 'b%': 3 } }).slots, 5);
    assert.throws(() => checkedOptions({}), /option handlers must be/);
    assert.throws(() => checkedOptions({ handlers, workerId: '' }), /workerId \(worker_id, JOBQ_WORKER_ID\)/);
    assert.doesNotMatch(String(catching(() => checkedOptions({ handlers, connection: Symbol('secret') }))), /secret/);
});

test('every function rejects unknown options, and options that are not an object, before it sends anything', async () => {
    const nobody = { query() { throw new Error('it was sent'); } };
    const job = new Job({ row: {} });
    const functions = {
        'a worker': (options) => checkedOptions(options),
        'an enqueue': (options) => enqueue(nobody, 'q', {}, options),
        'createBatch()': (options) => createBatch(nobody, 'b', options),
        'drain()': (options) => drain(nobody, handlers, options),
        'runInline()': (options) => runInline(handlers.mail, {}, options),
        'waitFor()': (options) => job.waitFor('paid', options),
        'waitForJobs()': (options) => job.waitForJobs([1], 'all', options),
        Fail: (options) => new Fail('m', options),
    };
    const refused = (call, message) => assert.rejects(async () => call(), (error) => error instanceof OptionError && error.message.startsWith(message));
    for (const [what, call] of Object.entries(functions)) {
        for (const option of ['onSucess', 'on_success', 'constructor']) {
            await refused(() => call({ [option]: { queue: 'm' } }), `unknown option ${option} of ${what}; the options are `);
        }
        for (const [value, type] of [['secret', 'string'], [null, 'object'], [['secret'], 'array']]) {
            await refused(() => call(value), `the options of ${what} must be an object, but are of type ${type}`);
        }
    }
    await refused(() => enqueueMany(nobody, 'q', [1], { prio: 1 }), 'unknown option prio of an enqueue; the options are kind, ');
    await refused(() => enqueueJobs(nobody, [{ prio: 1 }]), 'unknown option prio of an enqueue; the options are queue, payload, ref, metadata, kind, ');
    await refused(() => createBatch(nobody, { onSuccess: { queue: 'm' } }), 'option name must be a text, but is of type object');
});

test('an error about a wrong callback or ID names the option, and nothing is sent', async () => {
    const nobody = { query() { throw new Error('it was sent'); } };
    const refused = (promise, message) => assert.rejects(promise, (error) => error instanceof OptionError && error.message === message);
    for (const option of ['onComplete', 'onSuccess', 'onFailure']) {
        for (const [value, type] of [['secret', 'string'], [[{ queue: 'secret' }], 'array'], [1, 'number']]) {
            await refused(createBatch(nobody, 'b', { [option]: value }), `option ${option} must be an object, but is of type ${type}`);
        }
    }
    const wrong = [['x', '"x"'], ['', '""'], [1.5, '1.5'], [-1, '-1'], [2 ** 60, '1152921504606847000'], [2n ** 63n, '9223372036854775808n'],
        ['@ref', '"@ref"'], [{}, '{}'], [true, 'true'], [[1], '[ 1 ]'], [null, 'null'], [undefined, 'undefined']];
    for (const [value, shown] of wrong) {
        for (const call of [sealBatch, getBatch]) await refused(call(nobody, value), `option batchId must be an ID, but is ${shown}`);
        if (value ?? false) await refused(enqueue(nobody, 'q', {}, { batchId: value }), `option batchId must be an ID, but is ${shown}`);
        const { error } = await runInline((job) => job.waitForJobs([1, value], 'all'), {}, { client: { query() { throw server('25P01'); } } });
        assert.equal(error.message, `option ids must be an array of IDs, but has ${shown}`);
        if (value === '@ref') continue;
        await refused(enqueueJobs(nobody, [{ dependsOn: ['@ref', value] }]), `option dependsOn must be an array of IDs, but has ${shown}`);
    }
});

test('options can be set in the environment', () => {
    assert.deepEqual(optionsOfEnvironment({ JOBQ_QUEUE: '7', JOBQ_SLOTS: '3', JOBQ_GRACE: '0.5', JOBQ_WORKER_ID: '9', JOBQ_BATCH: '' }),
        { queue: '7', slots: 3, grace: 0.5, workerId: '9' });
    const wrong = {
        JOBQ_GRACE: ['soon', ' ', '0x10', '-1', '31536001'], JOBQ_HEARTBEAT_TIMEOUT: ['0.009'], JOBQ_HEARTBEAT_INTERVAL: ['0.009'],
        JOBQ_POLL_INTERVAL: ['0.009'], JOBQ_WAIT_TIMEOUT: ['1e9'],
    };
    for (const [variable, texts] of Object.entries(wrong)) {
        for (const text of texts) {
            assert.throws(() => checkedOptions({ handlers, ...optionsOfEnvironment({ [variable]: text }) }),
                (error) => error instanceof OptionError && error.message.includes(variable), `${variable}: ${text}`);
        }
    }
    assert.equal(checkedOptions({ handlers, ...optionsOfEnvironment({ JOBQ_HEARTBEAT_TIMEOUT: '0.01' }) }).heartbeatTimeout, 0.01);
});

test('the outcome of each kind of return value', () => {
    assert.deepEqual(pick(ofReturn(undefined)), { what: 'complete', result: null });
    assert.deepEqual(pick(ofReturn(null)), { what: 'complete', result: 'null' });
    assert.deepEqual(pick(ofReturn({ a: [1] })), { what: 'complete', result: '{"a":[1]}' });
    for (const value of [1n, () => 1, Symbol('s')]) assert.equal(ofReturn(value).what, 'fail');
    for (const state of ['completed', 'waiting', 'lost']) assert.deepEqual(pick(ofReturn(7, state)), { what: 'nothing', text: state });
});

test('the outcome of each kind of error', () => {
    const abort = Object.assign(new Error('The operation was aborted'), { name: 'AbortError' });
    const axios = Object.assign(new Error('canceled'), { name: 'CanceledError', code: 'ERR_CANCELED' });
    const wrapped = new Error('no answer', { cause: new Error('request failed', { cause: abort }) });
    const circle = new Error('circle');
    circle.cause = circle;
    const cases = [
        [[new TypeError('ups')], { what: 'fail', text: 'TypeError: ups' }],
        [['ups'], { what: 'fail', text: 'string: ups' }],
        [[new Fail('no', { retryIn: 3, retry: false })], { what: 'fail', text: 'no', retryIn: 3, retry: false }],
        [[new Snooze('1 h')], { what: 'snooze', delay: '1 h' }],
        [[new Release()], { what: 'release' }],
        [[new Suspended('x')], { what: 'nothing', text: 'waiting' }],
        [[new Cancelled('cancel'), 'cancel'], { what: 'fail', text: 'cancelled', cancelled: true }],
        [[abort, 'cancel'], { what: 'fail', text: 'cancelled', cancelled: true }],
        [[abort, 'stopping'], { what: 'release' }],
        [[new Cancelled('stopping'), 'stopping'], { what: 'release' }],
        [[new Cancelled('cancel'), 'lost'], { what: 'nothing', text: 'lost' }],
        [[new TypeError('ups'), 'lost'], { what: 'nothing', text: 'lost' }],
        [[abort], { what: 'fail', text: 'AbortError: The operation was aborted' }],
        [[new TypeError('ups'), 'stopping'], { what: 'fail', text: 'TypeError: ups' }],
        [[axios, 'stopping'], { what: 'release' }],
        [[axios, 'cancel'], { what: 'fail', text: 'cancelled', cancelled: true }],
        [[wrapped, 'stopping'], { what: 'release' }],
        [[wrapped], { what: 'fail', text: 'Error: no answer' }],
        [[new Error('mine', { cause: new Cancelled('stopping') }), 'stopping'], { what: 'release' }],
        [[circle, 'stopping'], { what: 'fail', text: 'Error: circle' }],
        [[new Fail('no', { cause: abort }), 'stopping'], { what: 'fail', text: 'no', retryIn: undefined, retry: true }],
        [[server('JQ001')], { what: 'nothing', text: 'lost' }],
        [[new TypeError('ups'), undefined, 'completed'], { what: 'nothing', text: 'completed' }],
        [[new TypeError('ups'), 'cancel', 'waiting'], { what: 'nothing', text: 'waiting' }],
    ];
    for (const [given, wanted] of cases) assert.deepEqual(pick(ofError(...given)), wanted, String(given));
});

// Returns the outcome of a failed attempt with these options, and the log.
function ended(options, outcome = failed(new TypeError('ups'))) {
    const log = [];
    const failures = failuresOf({ errorDetails: true, log: { error: (text) => log.push(text) }, ...options });
    return { ...failures({ id: '7', kind: 'k', attempt: 1 }, outcome, () => 'the job'), log };
}

test('the details of an error are its class and its stack trace', () => {
    const details = JSON.parse(ended({}, failed(new TypeError('ups', { cause: new Error('network') }))).details);
    assert.equal(details.class, 'TypeError');
    assert.match(details.stack, /^TypeError: ups\n +at .*\nCaused by: Error: network\n +at /s);
    assert.deepEqual(JSON.parse(ended({}, failed('text')).details), { class: 'string' });
    assert.equal(ended({ errorDetails: false }).details, undefined);
});

test('only failed attempts have details and call the hook', () => {
    const seen = [];
    const onError = (error, job) => seen.push([error, job]);
    const others = [ofReturn(7), ofError(new Release()), ofError(new Cancelled('cancel'), 'cancel'), ofError(server('JQ001'))];
    for (const outcome of others) assert.equal(ended({ onError }, outcome).details, undefined);
    assert.deepEqual(seen, []);
    const error = new Fail('no');
    ended({ onError, errorDetails: false }, ofError(error));
    assert.deepEqual(seen, [[error, 'the job']]);
    assert.equal(JSON.parse(ended({}, ofReturn(1n)).details).class, 'TypeError');
});

test('a filter changes or removes the details', () => {
    const errorDetails = ({ stack, ...others }, { message }) => ({ ...others, stack: stack.replace(message, '***'), host: 'web-1' });
    const details = JSON.parse(ended({ errorDetails }, failed(new Error('hunter2'))).details);
    assert.match(details.stack, /^Error: \*\*\*\n/);
    assert.equal(details.host, 'web-1');
    assert.equal(ended({ errorDetails: () => undefined }).details, undefined);
});

test('an error in the filter or in the hook does not change the report', async () => {
    const fails = () => { throw Object.create(null); };
    for (const errorDetails of [fails, () => 'text', async () => ({}), () => ({ a: 1n }), () => ({ a: 'x,'.repeat(9000).split(',') })]) {
        const { what, details, log } = ended({ errorDetails });
        assert.deepEqual([what, details, log.length], ['fail', undefined, 1]);
        assert.match(log[0], /^job 7 of kind "k", attempt 1: errorDetails has failed: /);
    }
    const rejected = ended({ onError: async () => { throw new Error('no network'); } });
    await sleep(0);
    assert.match(rejected.log[0], /onError has failed: no network$/);
    assert.match(ended({ onError: fails }).details, /TypeError: ups/);
});

test('details are bounded', () => {
    for (const character of ['x', '\n', '\x01', '\u20ac', '\u{1f600}', '\0', '\ud800', '"']) {
        const text = bounded({ class: character.repeat(100_000), stack: `begins${character.repeat(100_000)}ends` });
        assert.ok(Buffer.byteLength(text) <= 16384, character);
        assert.doesNotMatch(text, /\\u(0000|d8)/);
        assert.match(JSON.parse(text).stack, /^begins.*\n\.\.\. \d+ characters left out \.\.\.\n.*ends$/s);
    }
    assert.equal(JSON.parse(bounded({ stack: 'x'.repeat(12288) })).stack.length, 12288);
});

test('rejected details do not prevent the failure', () => {
    const refused = failed(new Error('no \u20ac'), { details: '{"class":"\u20ac"}', retryIn: 3 });
    const inAscii = afterRefusal(refused, server('22P05'));
    assert.deepEqual([inAscii.text, inAscii.details], ['Error: no ?', '{"class":"?"}']);
    assert.deepEqual([afterRefusal(inAscii, server('22P05')).text, afterRefusal(inAscii, server('22P05')).details], ['Error: no ?', undefined]);
    assert.deepEqual([afterRefusal(refused, server('54001')).text, afterRefusal(refused, server('54001')).retryIn], ['Error: no \u20ac', 3]);
});

test('delays that cannot be sent are errors of the handler', () => {
    for (const delay of [Promise.resolve(3), () => 3, { asSeconds: () => 3 }, new Date(0), true]) {
        assert.throws(() => new Snooze(delay), /^TypeError: delay must be a number of seconds or an interval's text, but is a /);
        assert.throws(() => new Fail('no', { retryIn: delay }), /^TypeError: retryIn must be /);
    }
    for (const retry of ['no', 0, Promise.resolve(false)]) assert.throws(() => new Fail('no', { retry }), /^TypeError: retry must be /);
    assert.deepEqual([new Snooze(3).delay, new Snooze('1 h').delay, new Fail('no', { retryIn: null, retry: false }).retry], [3, '1 h', false]);
});

test('errors are converted to text', () => {
    class Closed extends Error {}
    assert.equal(describe(new Closed('at noon')), 'Closed: at noon');
    assert.equal(describe(new Error('')), 'Error');
    assert.equal(describe(null), 'object: null');
    assert.equal(describe(Object.create(null)), 'object: something without a text');
    assert.equal(toText('a\0b'), 'a\uFFFDb');
    assert.throws(() => toJson(undefined), TypeError);
    assert.deepEqual([toInterval(0.01), toInterval(1e-6), toInterval('1 day'), toInterval(undefined)],
        ['0.010000 s', '0.000001 s', '1 day', undefined]);
});

test('the errors that mean that the connection is broken', () => {
    for (const code of ['08006', '53300', '57P01', '58000', '25006']) assert.ok(isBroken(server(code)), code);
    for (const code of ['42501', '23505', '40001', '40P01', '55000', '22023', 'JQ001']) assert.ok(!isBroken(server(code)), code);
    assert.ok(isBroken(Object.assign(new Error('write EPIPE'), { code: 'EPIPE' })));
});

test('after a canceled statement, the connection can be reused', () => {
    assert.ok(!isBroken(server('57014')));
    assert.ok(isAgain(server('57014')));
});

test('an error that throws when it is read is a failed attempt', () => {
    const throws = () => { throw new Error('trap'); };
    const proxy = new Proxy({}, { get: throws, getPrototypeOf: throws, has: throws });
    class Evil extends Error {
        get message() { throw new Error('getter'); }
    }
    for (const thrown of [proxy, new Evil(), Object.assign(new Error('with a cause'), { cause: proxy })]) {
        assert.equal(ofError(thrown, undefined, undefined).what, 'fail');
        assert.equal(ofError(thrown, 'cancel', undefined).what, 'fail');
        assert.equal(ofError(thrown, 'lost', undefined).what, 'nothing');
    }
    assert.equal(ofReturn(proxy, undefined).what, 'fail');
});

test('a job whose transaction collides is released ten times in a row', () => {
    const collisions = new Collisions();
    const collision = () => ofError(new Error('of an ORM', { cause: server('40001') }), undefined, undefined);
    const decide = (id, outcome) => collisions.decide(id, outcome).what;
    for (let round = 0; round < 10; round += 1) assert.equal(decide('1', collision()), 'release');
    assert.equal(decide('1', collision()), 'fail');
    assert.equal(decide('1', ofError(server('40P01'), undefined, undefined)), 'release');
    assert.equal(decide('1', ofReturn(1, undefined)), 'complete');
    for (let round = 0; round < 10; round += 1) assert.equal(decide('1', collision()), 'release');
    assert.equal(decide('2', ofError(server('23505'), undefined, undefined)), 'fail');
});

test('the report that replaces a rejected report', () => {
    const latin1 = server('22P05');
    const failure = ofError(new Fail('no \u20ac \u{1f600}', { retryIn: 3600, retry: true }), undefined, undefined);
    const stored = afterRefusal(failure, latin1);
    assert.deepEqual([stored.text, stored.retryIn], ['no ? ?', 3600]);
    const told = afterRefusal(stored, server('22007'));
    assert.deepEqual([told.what, told.text, told.retryIn], ['fail', 'the failure was refused: Error: 22007', 3600]);
    assert.equal(afterRefusal(told, server('22007')).retryIn, undefined);
    assert.equal(afterRefusal(afterRefusal(told, server('22007')), server('22007')), null);
    assert.equal(afterRefusal(ofReturn('\0', undefined), latin1).text, 'the result was refused: Error: 22P05');
});

test('a log line contains the hint of the server', () => {
    assert.equal(messageOf(Object.assign(server('42501'), { hint: 'Ask.' })), '42501 (HINT: Ask.)');
    assert.equal(messageOf(server('42501')), '42501');
});

test('pauses double up to five seconds', () => {
    assert.deepEqual([1, 2, 3, 6, 7, 1000].map((failures) => pauseAfter(failures, 1)), [0.1, 0.2, 0.4, 3.2, 5, 5]);
    assert.equal(pauseAfter(1, 0), 0.05);
});

test('no job is claimed after a stop', async () => {
    const hand = { room: () => 1, rooms() {}, takeDone: () => [], goAway() {}, wake() {} };
    const claims = new Claims({ options: checkedOptions({ handlers }), hand, configuration: () => ({}), log: {}, pace: new Pace({ log: {} }) });
    claims.connection = { query: () => Promise.reject(new Error('it claims')) };
    const over = claims.start();
    claims.stop();
    await over;
});

test('behind a pooler, slow answers make a worker poll until all answers have been fast for a minute', () => {
    const lines = [];
    const log = { warn: (text) => lines.push(`warn ${text}`), info: (text) => lines.push(`info ${text}`) };
    const time = { now: 0, interval: Infinity };
    const pace = new Pace({ log, interval: () => time.interval, clock: () => time.now });
    pace.answered(60);
    assert.equal(pace.longestPoll(), undefined);
    pace.pooled = true;
    for (const [interval, fast, late] of [[Infinity, 1, 1.01], [2, 0.5, 0.51], [0.1, 0.25, 0.26]]) {
        time.interval = interval;
        pace.answered(fast);
        assert.equal(pace.longestPoll(), undefined);
        pace.answered(late);
        assert.equal(pace.longestPoll(), 1);
        time.now += 59;
        assert.equal(pace.longestPoll(), 1);
        time.now += 62;
        assert.equal(pace.longestPoll(), undefined);
    }
    assert.deepEqual(lines.map((text) => text.slice(0, 4)), ['warn', 'info', 'info', 'info', 'info', 'info']);
    assert.match(lines[0], /pool/);
});

test('heartbeats are due at the shortest interval, counted from the oldest heartbeat', () => {
    assert.equal(dueAt([]), Infinity);
    assert.equal(dueAt([{ at: 10, every: 20 }]), 30);
    assert.equal(dueAt([{ at: 10, every: 20 }, { at: 12, every: 3 }]), 13);
    assert.equal(dueAt([{ at: 10, every: 20 }], 1), 11);
    assert.equal(dueAt([{ at: 10, every: 20 }, { at: 1, every: 1, told: true }]), 30);
});

test('no heartbeat is sent for a job that another connection is about to change', { timeout: 60_000 }, async () => {
    const heartbeats = new Heartbeats({ configuration: () => ({}), log: {}, heard() {}, progressed() {} });
    const beats = [];
    heartbeats.connection.reopen = async () => {};
    heartbeats.query = async (statement, values) => {
        beats.push(values);
        return [values[0]].flat().map(() => ({ state: 'held' }));
    };
    const until = async (condition) => { while (!condition()) await sleep(5); };
    heartbeats.change([], ['1', '2'].map((lease) => ({ id: lease, lease, every: 0.01 })));
    heartbeats.told(['1'], true);
    heartbeats.progress('1', 1, '{}');
    await until(() => beats.length >= 3);
    assert.deepEqual(beats.flat(), beats.flatMap(() => [['2'], ['2'], null]));
    heartbeats.change(['2'], []);
    beats.length = 0;
    heartbeats.told(['1'], false);
    await until(() => beats.length >= 2);
    assert.deepEqual(beats.slice(0, 2), [[['1'], ['1'], null], ['1', '1', '{}']]);
    await heartbeats.close();
});

test('a job settles only after its heartbeat was answered', { timeout: 60_000 }, async () => {
    const heartbeats = new Heartbeats({ configuration: () => ({}), log: {}, heard() {}, progressed() {} });
    heartbeats.connection.reopen = async () => {};
    let answer;
    const asked = new Promise((resolve) => {
        heartbeats.query = (_, [, leases]) => new Promise((held) => {
            answer = () => held(leases.map(() => ({ state: 'held' })));
            resolve(leases);
        });
    });
    heartbeats.change([], ['1', '2'].map((lease) => ({ id: lease, lease, every: 60 })));
    heartbeats.interval = 0.01;
    heartbeats.told([], false);
    assert.deepEqual(await asked, ['1', '2']);
    const settled = heartbeats.settle('1').then(() => 'settled');
    await heartbeats.settle('3');   // no heartbeat of this job is being sent
    assert.equal(await Promise.race([settled, sleep(50)]), undefined);
    answer();
    assert.equal(await settled, 'settled');
    await heartbeats.close();
});

test('progress that cannot be sent does not delay heartbeats of other jobs', { timeout: 60_000 }, async () => {
    const heartbeats = new Heartbeats({ configuration: () => ({}), log: {}, info: 'info', heard() {}, progressed() {} });
    const beats = [];
    heartbeats.connection.reopen = async () => {};
    heartbeats.query = async (statement, values) => {
        beats.push(values);
        if (values[2] === '{}') throw server('08001');
        return values[0].map(() => ({ state: 'held' }));
    };
    heartbeats.change([], ['1', '2'].map((lease) => ({ id: lease, lease, every: 0.01 })));
    heartbeats.progress('1', 1, '{}');
    while (beats.filter((values) => values[2] === '{}').length < 3) await sleep(5);
    await heartbeats.close();
    const many = beats.filter((values) => values[2] === 'info');
    assert.ok(many.length >= 2);
    assert.deepEqual(many, many.map(() => [['1', '2'], ['1', '2'], 'info']));
});

test('log lines are sent with the next heartbeat and again after the connection broke, and are bounded', { timeout: 60_000 }, async () => {
    const logged = [];
    const heartbeats = new Heartbeats({ configuration: () => ({}), log: { error: (text) => logged.push(text) }, heard() {}, progressed() {} });
    const sent = [];
    heartbeats.connection.reopen = async () => {};
    let failure = server('08001');
    heartbeats.query = async (statement, values) => {
        if (statement !== WRITE_LOG) return values[0].map(() => ({ state: 'held' }));
        if (failure) throw failure;
        return sent.push(values);
    };
    heartbeats.line('1', '1', toLine('one', 'info'));
    await assert.rejects(heartbeats.flush(['1']));
    heartbeats.line('1', '1', toLine('two', 'error'));
    failure = null;
    heartbeats.change([], [{ id: '2', lease: '2', every: 0.01 }]);
    while (!sent.length) await sleep(5);
    assert.deepEqual(sent[0].slice(0, 4), [['1', '1'], ['1', '1'], ['one', 'two'], ['info', 'error']]);
    for (let n = 0; n < 503; n += 1) heartbeats.line('1', '1', toLine(n, 'debug'));
    await heartbeats.flush(['1', '7']);
    assert.match(sent[1][2].at(-1), /^lines dropped before this point: 3 /);
    failure = server('42501');
    heartbeats.line('1', '1', toLine('rejected', 'info'));
    await heartbeats.flush(['1']);
    assert.match(logged.join(), /^log lines of jobs 1 were refused/);
    failure = null;
    await heartbeats.flush();
    assert.equal(sent.length, 2);
    await heartbeats.close();
    assert.equal(toLine(`x${'\u20ac'.repeat(10000)}`, 'info').text, `x${'\u20ac'.repeat(2730)}`);   // three bytes each; the limit counts bytes
    assert.throws(() => toLine('no', 'fatal'), /must be one of debug, info, warning, error, but is "fatal"/);
});

test('an older server gets failures without details', { timeout: 60_000 }, async () => {
    const [sent, logged, reported] = [[], [], []];
    const query = async (statement, values) => {
        sent.push([statement, values.length]);
        if (statement === FAIL) throw server('42883');
        return [{ status: 'failed' }];
    };
    const log = { warn: (text) => logged.push(text), error: (text) => logged.push(text), info() {} };
    const reports = new Reports({ query, writeLog: async () => {}, log, reported: (attempts) => reported.push(...attempts), lost() {} });
    for (const id of ['1', '2']) {
        reports.add([{ row: { id, lease: id, kind: 'mail' }, outcome: { what: 'fail', text: 'no', details: '{}' } }]);
        while (reported.length < Number(id)) await sleep(5);
    }
    assert.deepEqual(sent, [[FAIL, 6], [FAIL_WITHOUT_DETAILS, 5], [FAIL_WITHOUT_DETAILS, 5]]);
    assert.equal(logged.length, 1);
    assert.match(logged[0], /^failures are reported without details/);
});

test('jobs whose completion is sent with a claim get no heartbeats until the answer arrives', () => {
    const told = [];
    const hand = new Hand({
        slots: 1, log: {}, heartbeats: { change() {}, told: (...given) => told.push(given) }, reports: { add() {} },
        away: () => false, run() {}, every: () => 20,
    });
    hand.claimed([{ id: '1', lease: '7', kind: 'mail' }], [], false);
    hand.returned(hand.attempts[0], null);
    const done = hand.takeDone();
    assert.deepEqual(told, [[['7'], true]]);
    hand.report(done);
    assert.deepEqual(told, [[['7'], true], [['7'], false]]);
    assert.deepEqual([hand.takeDone(), told.length], [[], 2]);
});

test('prefetched jobs start when a slot is free, unless they are lost, canceled, or given back', () => {
    const started = [], reported = [];
    const hand = new Hand({
        slots: 1, prefetch: 4, log: { info() {}, warn() {} }, heartbeats: { change() {}, told() {} },
        reports: { add: (attempts) => reported.push(...attempts) },
        away: () => false, run: (attempt) => started.push(attempt), every: () => 20,
    });
    assert.equal(hand.room(), 5);
    hand.claimed([1, 2, 3, 4, 5].map((id) => ({ id, lease: id, queue: 'q', kind: 'mail' })), [], false);
    const ids = (attempts) => attempts.map(({ row }) => row.id);
    assert.deepEqual([ids(started), ids(hand.running), hand.room()], [[1], [1], 0]);
    hand.returned(started[0]);
    assert.deepEqual([ids(started), ids(hand.running), hand.room()], [[1, 2], [2], 1]);
    hand.heard(3, 'lost');
    assert.deepEqual([ids(hand.attempts), hand.room()], [[1, 2, 4, 5], 2]);
    hand.heard(4, 'cancel');
    assert.deepEqual(reported.map(({ row, outcome }) => [row.id, outcome.what, outcome.cancelled]), [[4, 'fail', true]]);
    hand.releasePrefetched();
    assert.deepEqual(reported.slice(1).map(({ row, outcome }) => [row.id, outcome.what]), [[5, 'release']]);
    hand.returned(started[1]);
    assert.deepEqual([ids(started), ids(hand.takeDone()), hand.running], [[1, 2], [1, 2], []]);
});

test('prefetched jobs start within the slots of their queues', () => {
    const started = [];
    const hand = new Hand({
        slots: 2, prefetch: 2, queues: new Map([['a', 1], ['b', 2]]), log: {}, heartbeats: { change() {}, told() {} }, reports: { add() {} },
        away: () => false, run: (attempt) => started.push(attempt), every: () => 20,
    });
    assert.deepEqual([...hand.rooms()], [['a', 3], ['b', 4]]);
    hand.claimed([['a', 1], ['a', 2], ['a', 3], ['b', 4]].map(([queue, id]) => ({ id, lease: id, queue, kind: 'mail' })), [], false);
    const ids = () => started.map(({ row }) => row.id);
    assert.deepEqual([ids(), [...hand.rooms()], hand.room()], [[1, 4], [['b', 3]], 0]);
    hand.returned(started[1]);
    assert.deepEqual(ids(), [1, 4]);
    hand.returned(started[0]);
    assert.deepEqual(ids(), [1, 4, 2]);
});

test('trace contexts are read from and added to metadata', () => {
    const traceId = '0af7651916cd43dd8448eb211c80319c';
    const spanId = 'b7ad6b7169203331';
    const traceparent = `00-${traceId}-${spanId}-01`;
    const span = { traceId, spanId, traceFlags: 1 };
    assert.deepEqual(withContext(undefined, span), { traceparent });
    assert.deepEqual(withContext({ order: 7 }, span), { traceparent, order: 7 });
    assert.deepEqual(withContext({ traceparent: 'mine' }, { ...span, traceState: { serialize: () => 'a=1' } }), { traceparent: 'mine' });
    assert.deepEqual(withContext([1], span), [1]);
    assert.deepEqual(withContext({}, { ...span, traceState: { serialize: () => 'a=1' } }), { traceparent, tracestate: 'a=1' });
    assert.deepEqual(withContext({ a: 1 }, { traceId: '0'.repeat(32), spanId, traceFlags: 0 }), { a: 1 });
    const found = contextOf({ traceparent, tracestate: 'a=1' });
    assert.deepEqual([found.traceId, found.spanId, found.traceFlags, found.isRemote, found.traceState.get('a')],
        [traceId, spanId, 1, true, '1']);
    assert.equal(contextOf({ traceparent: `cc-${traceId}-${spanId}-01-more` }).spanId, spanId);
    for (const wrong of [null, {}, { traceparent: 7 }, { traceparent: `ff-${traceId}-${spanId}-01` },
        { traceparent: `00-${'0'.repeat(32)}-${spanId}-01` }, { traceparent: `${traceparent}x` }]) assert.equal(contextOf(wrong), undefined);
});

test('no file is much longer than 600 lines, and the package contains its exports', () => {
    const here = new URL('..', import.meta.url);
    for (const directory of ['src', 'test', 'types']) {
        for (const file of readdirSync(new URL(directory, here))) {
            const count = readFileSync(new URL(`${directory}/${file}`, here), 'utf8').split('\n').length;
            assert.ok(count <= 600, `${directory}/${file} has ${count} lines`);
        }
    }
    const { exports, files, license, engines } = JSON.parse(readFileSync(new URL('package.json', here), 'utf8'));
    for (const entry of [exports['.'], exports['./testing']]) for (const path of Object.values(entry)) readFileSync(new URL(path, here));
    assert.deepEqual([files, license, engines], [['src', 'types'], 'PostgreSQL', { node: '>=18.13' }]);
});

const pick = ({ error: _error, sent, alone, ...rest }) => {
    assert.deepEqual([sent, alone], [false, false]);
    return rest.text === '' ? (({ text: _text, ...others }) => others)(rest) : rest;
};

function catching(work) {
    try {
        return work();
    } catch (error) {
        return error;
    }
}
