// Tests the spans that the SDK of OpenTelemetry collects.
import assert from 'node:assert/strict';
import { beforeEach, test } from 'node:test';
import { SpanKind, SpanStatusCode, context, trace } from '@opentelemetry/api';
import { AsyncLocalStorageContextManager } from '@opentelemetry/context-async-hooks';
import { BasicTracerProvider, InMemorySpanExporter, SimpleSpanProcessor } from '@opentelemetry/sdk-trace-base';
import { Snooze, enqueue, enqueueJobs, enqueueMany } from '../src/index.js';
import { becomesTrue, gate, newDatabase, reaches, working } from './server.mjs';

const exporter = new InMemorySpanExporter();
context.setGlobalContextManager(new AsyncLocalStorageContextManager().enable());
trace.setGlobalTracerProvider(new BasicTracerProvider({ spanProcessors: [new SimpleSpanProcessor(exporter)] }));
const tracer = trace.getTracer('test');
const database = await newDatabase('tracing');
const { pool } = database;

beforeEach(() => exporter.reset());
const within = (body) => tracer.startActiveSpan('request', async (span) => {
    try {
        return await body(span.spanContext());
    } finally {
        span.end();
    }
});
const named = (name) => exporter.getFinishedSpans().filter((span) => span.name === name);
const parentOf = (span) => span.parentSpanContext?.spanId ?? span.parentSpanId;

test('an enqueue within a span has its own span, whose context is in the metadata', async () => {
    let request;
    const id = await within((span) => { request = span; return enqueue(pool, 'sent', {}, { kind: 'a', metadata: { order: 7 } }); });
    const [span] = named('send sent');
    assert.equal(span.kind, SpanKind.PRODUCER);
    assert.deepEqual([parentOf(span), span.spanContext().traceId], [request.spanId, request.traceId]);
    assert.deepEqual(span.attributes, {
        'messaging.system': 'jobq', 'messaging.destination.name': 'sent', 'messaging.operation.type': 'send',
        'messaging.operation.name': 'send', 'messaging.message.id': id,
    });
    assert.deepEqual((await database.job(id)).metadata,
        { order: 7, traceparent: `00-${request.traceId}-${span.spanContext().spanId}-01` });
});

test('without an active span, there is no span and no metadata', async () => {
    assert.equal((await database.job(await enqueue(pool, 'alone'))).metadata, null);
    assert.equal(exporter.getFinishedSpans().length, 0);
});

test('the caller\'s own traceparent takes precedence', async () => {
    const id = await within(() => enqueue(pool, 'own', {}, { metadata: { traceparent: 'mine' } }));
    assert.deepEqual((await database.job(id)).metadata, { traceparent: 'mine' });
});

test('a rejected enqueue has a span with the error', async () => {
    await assert.rejects(within(() => enqueue(pool, 'refused', {}, { priority: 40000 })));
    const [span] = named('send refused');
    assert.equal(span.status.code, SpanStatusCode.ERROR);
    assert.deepEqual([span.attributes['error.type'], span.events[0].name], ['DatabaseError', 'exception']);
});

test('a span of many jobs has their number, and the jobs get the context', async () => {
    const [, many] = await within(() => enqueueMany(pool, 'many', [1, 2, 3], { metadata: { order: 7 } }));
    const { traceparent, order } = (await database.job(many.id)).metadata;
    assert.ok(traceparent.includes(named('send many')[0].spanContext().spanId));
    assert.equal(order, 7);
    assert.equal(named('send many')[0].attributes['messaging.batch.message_count'], 3);
    const [job] = await within(() => enqueueJobs(pool, [{ queue: 'specs' }, { queue: 'specs' }]));
    const { spanId } = named('send specs')[0].spanContext();
    assert.ok((await database.job(job.id)).metadata.traceparent.includes(spanId));
    await within(() => enqueueJobs(pool, [{ queue: 'a' }, { queue: 'b' }]));
    assert.deepEqual([named('send')[0].attributes['messaging.destination.name'], named('send').length], [undefined, 1]);
});

for (const traceAsChild of [false, true]) {
    test(`an attempt is linked with its enqueue${traceAsChild ? ' and is its child if requested' : ' and is not its child'}`, async () => {
        const queue = `processed ${traceAsChild}`;
        const id = await within(() => enqueue(pool, queue, {}, { kind: 'a' }));
        const inner = async (job) => { tracer.startActiveSpan('inner', (span) => span.end()); return job.attempt; };
        const workerId = await working({ queue, handlers: { a: inner }, traceAsChild }, async (worker) => {
            await reaches(database, id, 'completed');
            await becomesTrue(() => named(`process ${queue}`).length === 1);
            return worker.id;
        });
        const [sent] = named(`send ${queue}`);
        const [span] = named(`process ${queue}`);
        assert.equal(span.kind, SpanKind.CONSUMER);
        assert.deepEqual(span.links.map(({ context: { traceId, spanId } }) => [traceId, spanId]), [[sent.spanContext().traceId, sent.spanContext().spanId]]);
        assert.equal(parentOf(span), traceAsChild ? sent.spanContext().spanId : undefined);
        assert.equal(span.spanContext().traceId === sent.spanContext().traceId, traceAsChild);
        assert.deepEqual(span.attributes, {
            'messaging.system': 'jobq', 'messaging.destination.name': queue, 'messaging.operation.type': 'process',
            'messaging.operation.name': 'process', 'messaging.message.id': id, 'messaging.client.id': workerId, 'jobq.kind': 'a',
            'jobq.attempt': 1, 'jobq.outcome': 'completed',
        });
        assert.equal(parentOf(named('inner')[0]), span.spanContext().spanId);
    });
}

test('each attempt has a span with its outcome, and a failure has its exception', async () => {
    await pool.query("SELECT jobq_create_queue('outcomes', backoff_base => '10 ms')");
    const fails = await enqueue(pool, 'outcomes', {}, { kind: 'fails' });
    const snoozes = await enqueue(pool, 'outcomes', {}, { kind: 'snoozes' });
    const lost = await enqueue(pool, 'outcomes', {}, { kind: 'lost' });
    const completing = await enqueue(pool, 'outcomes', {}, { kind: 'completing' });
    const { open, opened } = gate();
    const handlers = {
        fails(job) { if (job.attempt === 1) throw new RangeError('too far'); },
        snoozes(job) { if (!job.progress) { job.setProgress(1); throw new Snooze(0); } },
        lost: () => opened,
        completing: (job) => job.completing(() => 1),
    };
    await working({ queue: 'outcomes', handlers, slots: 4 }, async (worker) => {
        await Promise.all([fails, snoozes, completing].map((id) => reaches(database, id, 'completed')));
        await pool.query("UPDATE jobq.jobs SET status = 'cancelled' WHERE id = $1", [lost]);
        open();
        await becomesTrue(() => worker.hand.size === 0);
    });
    const outcomes = named('process outcomes').map(({ attributes: a }) => `${a['jobq.kind']} ${a['jobq.attempt']} ${a['jobq.outcome']}`).sort();
    assert.deepEqual(outcomes,
        ['completing 1 completed', 'fails 1 failed', 'fails 2 completed', 'lost 1 lost', 'snoozes 1 completed', 'snoozes 1 snoozed']);
    const failed = named('process outcomes').find(({ attributes }) => attributes['jobq.outcome'] === 'failed');
    assert.deepEqual([failed.status, failed.attributes['error.type'], failed.events[0].attributes['exception.message']],
        [{ code: SpanStatusCode.ERROR, message: 'too far' }, 'RangeError', 'too far']);
});

test('a handler that has not ended at the end of the grace period has a span with an error, whatever the status of the job is', async () => {
    const { open, opened } = gate();
    const handlers = {
        deaf: () => opened,
        completed: async (job) => { await job.completing(() => 1); await opened; },
    };
    const ids = [await enqueue(pool, 'given up', {}, { kind: 'deaf' }), await enqueue(pool, 'given up', {}, { kind: 'completed' })];
    await working({ queue: 'given up', handlers, slots: 2 }, async (worker) => {
        await reaches(database, ids[1], 'completed');
        await becomesTrue(() => worker.hand.running.length === 2 && worker.hand.attempts.some(({ over }) => over));
        await worker.stop();
    });
    open();
    await becomesTrue(() => named('process given up').length === 2);
    const told = named('process given up').map(({ attributes, status }) => [attributes['jobq.kind'], attributes['jobq.outcome'], status]).sort();
    const status = { code: SpanStatusCode.ERROR, message: 'the handler had not ended when the grace was over' };
    assert.deepEqual(told, [['completed', 'completed', status], ['deaf', 'released', status]]);
    assert.equal(await database.value('SELECT status::text FROM jobq.jobs WHERE id = $1', [ids[0]]), 'pending');
});

test('an attempt that could not be reported has a span with an error', async () => {
    const id = await enqueue(pool, 'unreported', {}, { kind: 'a' });
    const { open, opened } = gate();
    await working({ queue: 'unreported', handlers: { a: () => opened } }, async (worker) => {
        await becomesTrue(() => worker.hand.running.length === 1);
        const holder = await database.client();
        await holder.query('BEGIN');
        await holder.query('SELECT FROM jobq.jobs WHERE id = $1 FOR UPDATE', [id]);
        open();
        await becomesTrue(() => worker.hand.running.length === 0);
        assert.equal(await worker.stop(), false);
        await holder.query('ROLLBACK');
    });
    const [span] = named('process unreported');
    assert.deepEqual([span.attributes['jobq.outcome'], span.status],
        ['uncertain', { code: SpanStatusCode.ERROR, message: 'the worker ended before the report had arrived' }]);
});
