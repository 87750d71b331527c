// Spans that follow OpenTelemetry's conventions for messaging, if its API is installed. The trace context of the enqueue is
// stored in the job's metadata as traceparent and tracestate (W3C).
import { openTelemetry } from './driver.js';
import { typeOf } from './values.js';

const TRACEPARENT = /^(?!ff)[0-9a-f]{2}-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(?:-.*)?$/;

const tracer = () => openTelemetry.trace.getTracer('jobq');

const attributesOf = (operation, queue) => ({
    'messaging.system': 'jobq',
    ...(queue === undefined ? {} : { 'messaging.destination.name': queue }),
    'messaging.operation.type': operation,
    'messaging.operation.name': operation,
});

/** Middleware that runs an enqueue in a span, but only inside another span, because a trace of a single INSERT is useless. */
export async function sending(specs, next) {
    if (!openTelemetry?.trace.getActiveSpan?.()) return next();
    const { context, trace, SpanKind } = openTelemetry;
    const queues = new Set(specs.map(({ queue }) => queue ?? 'default'));
    const queue = queues.size === 1 ? [...queues][0] : undefined;
    const attributes = attributesOf('send', queue);
    const count = specs.reduce((sum, { payloads }) => sum + (payloads?.length ?? 1), 0);
    if (count !== 1) attributes['messaging.batch.message_count'] = count;
    const span = tracer().startSpan(queue === undefined ? 'send' : `send ${queue}`, { kind: SpanKind.PRODUCER, attributes });
    for (const spec of specs) spec.metadata = withContext(spec.metadata, span.spanContext());
    try {
        const ids = await context.with(trace.setSpan(context.active(), span), next);
        if (count === 1) span.setAttribute('messaging.message.id', ids[0]);
        return ids;
    } catch (error) {
        fail(span, error);
        throw error;
    } finally {
        span.end();
    }
}

/** Returns the metadata with the context of a span added. The caller's own keys win. */
export function withContext(metadata, { traceId, spanId, traceFlags, traceState }) {
    if (metadata !== undefined && metadata !== null && (typeof metadata !== 'object' || Array.isArray(metadata))) return metadata;
    if (!openTelemetry.isSpanContextValid({ traceId, spanId }) || metadata?.traceparent !== undefined) return metadata;
    const tracestate = traceState?.serialize();
    return {
        traceparent: `00-${traceId}-${spanId}-${traceFlags.toString(16).padStart(2, '0')}`,
        ...(tracestate ? { tracestate } : {}),
        ...metadata,
    };
}

/** Returns the context of the enqueue in a job's metadata, or undefined if there is none. */
export function contextOf(metadata) {
    const found = TRACEPARENT.exec(metadata?.traceparent);
    if (!found) return undefined;
    const { createTraceState, isSpanContextValid } = openTelemetry;
    const traceState = typeof metadata.tracestate === 'string' ? createTraceState(metadata.tracestate) : undefined;
    const producer = { traceId: found[1], spanId: found[2], traceFlags: parseInt(found[3], 16), traceState, isRemote: true };
    return isSpanContextValid(producer) ? producer : undefined;
}

/**
 * Runs work in the context of a span for the attempt. Returns {span, value}; span is undefined without OpenTelemetry. ended()
 * ends it.
 */
export function processing(row, { workerId, traceAsChild }, work) {
    if (!openTelemetry) return { span: undefined, value: work() };
    const { context, trace, ROOT_CONTEXT, SpanKind } = openTelemetry;
    const producer = contextOf(row.metadata);
    const parent = traceAsChild && producer ? trace.setSpanContext(ROOT_CONTEXT, producer) : ROOT_CONTEXT;
    const span = tracer().startSpan(`process ${row.queue}`, {
        kind: SpanKind.CONSUMER,
        links: producer ? [{ context: producer }] : [],
        attributes: {
            ...attributesOf('process', row.queue),
            'messaging.message.id': row.id,
            'messaging.client.id': workerId,
            'jobq.kind': row.kind,
            'jobq.attempt': row.attempt,
        },
    }, parent);
    return { span, value: context.with(trace.setSpan(parent, span), work) };
}

const OUTCOMES = { complete: 'completed', fail: 'failed', snooze: 'snoozed', release: 'released' };

/** Ends the span of an attempt. wrong: an error of the worker that is not part of the outcome. */
export function ended(span, { what, text, error, cancelled }, wrong = '') {
    if (!span) return;
    span.setAttribute('jobq.outcome', cancelled ? 'cancelled' : OUTCOMES[what] ?? text);
    if (what === 'fail' && !cancelled) fail(span, error ?? new Error(text));
    else if (wrong) span.setStatus({ code: openTelemetry.SpanStatusCode.ERROR, message: wrong });
    span.end();
}

function fail(span, error) {
    span.recordException(error instanceof Error ? error : String(error));
    span.setAttribute('error.type', typeOf(error));
    span.setStatus({ code: openTelemetry.SpanStatusCode.ERROR, message: error?.message ?? String(error) });
}
