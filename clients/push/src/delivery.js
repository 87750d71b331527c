// The handler of an endpoint: posts a job, and decides from the answer how the attempt ends. See docs/guides/push.md of the source tree.
import { createHash } from 'node:crypto';
import { Fail, Snooze } from 'jobq-client';
import { signed } from './signature.js';

const EXCERPT = 500;            // bytes of an answer in the text of an error
const DETAILS = 4096;           // bytes of an answer in the details of an error
// JSON.stringify escapes the character 0 and surrogates without a partner, which jsonb rejects. An escaped backslash precedes no escape.
const NOT_IN_JSONB = /(?<!\\)(\\\\)*\\u(0000|d[89a-f])/i;
const JSON_TYPE = /^application\/([^;\s]+\+)?json\b/i;

const digest = (text) => createHash('sha256').update(text).digest('hex').slice(0, 16);

// Header values must be ASCII.
const header = (text) => text.replace(/[^!-$&-~]/gu, encodeURIComponent);

/** The same for all requests of an attempt: a snoozed or released attempt keeps its number. */
export const idempotencyKey = (job) => `${job.id}-${job.attempt}`;

/** The signal with the report of an endpoint. */
export const eventOf = (endpoint, reportId) => `jobq-push ${endpoint} ${reportId}`;

/** Returns the body of the request: the structure that Standard Webhooks recommends, with the job. */
export function bodyOf(job, report) {
    const { id, queue, kind, attempt, maxAttempts, createdAt, payload } = job;
    return Buffer.from(JSON.stringify({
        type: kind, timestamp: createdAt.toISOString(), data: payload,
        job: { id, queue, kind, attempt, max_attempts: maxAttempts, idempotency_key: idempotencyKey(job) },
        ...(report && { report }),
    }));
}

export function headersOf(job, keys, body, now) {
    const { traceparent, tracestate } = job.metadata ?? {};
    const traced = (name, value) => typeof value === 'string' && /^[ -~]+$/.test(value) && { [name]: value };
    return {
        'content-type': 'application/json',
        'accept-encoding': 'identity',
        'user-agent': 'jobq-push',
        'idempotency-key': idempotencyKey(job),
        'jobq-job-id': job.id,
        'jobq-queue': header(job.queue),
        'jobq-kind': header(job.kind),
        'jobq-attempt': String(job.attempt),
        ...traced('traceparent', traceparent),
        ...traced('tracestate', tracestate),
        ...signed(keys, `job_${job.id}`, body, now),
    };
}

/** Returns the seconds of a Retry-After header, or undefined if it is missing or invalid. now: seconds since 1970. */
export function retryAfter(value, now) {
    if (value === undefined) return undefined;
    if (/^\d{1,9}$/.test(value)) return Number(value);
    const time = /[A-Za-z]/.test(value) ? Date.parse(value) : NaN;
    return Number.isNaN(time) ? undefined : Math.max(0, Math.ceil(time / 1000 - now));
}

/** The option errorDetails of the worker: the answer instead of a stack trace, which would name only lines of this file. */
export const errorDetails = (details, error) => (error?.answer ? { class: details.class, ...error.answer } : details);

const textOf = (error) => error.message || error.errors?.[0]?.message || error.code;    // an AggregateError has no message

export class Delivery {
    /** post: a Post. circuit: a Circuit. reportUrl: undefined if the configuration has no reports. clock: seconds since 1970. */
    constructor({ endpoint, post, circuit, reportUrl, clock = () => Date.now() / 1000 }) {
        Object.assign(this, { endpoint, post, circuit, reportUrl, clock });
    }

    /** The handler of the worker. */
    async handle(job) {
        const accepted = this.#acceptedReport(job);
        return accepted ? this.#report(job, accepted) : this.#deliver(job);
    }

    async #deliver(job) {
        const reportId = `${idempotencyKey(job)}-${digest(job.lease)}`;
        const body = bodyOf(job, this.reportUrl && { url: this.reportUrl, id: reportId });
        const answered = this.circuit.begin();
        let answer;
        try {
            answer = await this.post.send(headersOf(job, this.endpoint.keys, body, this.clock()), body, job.signal);
        } catch (error) {
            if (job.cancelled) throw job.signal.reason;
            answered(false);
            throw new Fail(`the request to endpoint "${this.endpoint.name}" failed: ${textOf(error)}`, { cause: error });
        }
        answered(answer.status < 500);
        return this.#decide(job, answer, reportId);
    }

    #decide(job, answer, reportId) {
        const { status, headers } = answer;
        if (status === 202) return this.#accepted(job, reportId);
        if (status >= 200 && status < 300) return resultOf(job, answer);
        const delay = status === 429 || status === 503 ? retryAfter(headers['retry-after'], this.clock()) : undefined;
        if (delay !== undefined) throw new Snooze(Math.min(Math.max(delay, 1), this.endpoint.maxRetryAfter));
        throw this.#failure(answer);
    }

    #failure({ status, body }) {
        const text = body.subarray(0, EXCERPT).toString();
        const redirect = status >= 300 && status < 400 ? ' (redirects are not followed)' : '';
        const error = new Fail(`endpoint "${this.endpoint.name}" answered ${status}${redirect}${text && `: ${text}`}`, { retry: status !== 410 });
        error.answer = { status, body: body.subarray(0, DETAILS).toString() };
        return error;
    }

    #accepted(job, reportId) {
        if (!this.reportUrl) {
            throw new Fail(`endpoint "${this.endpoint.name}" answered 202, but the configuration has no option "reports", so it cannot report the result`);
        }
        job.setProgress({ jobq_push: { report: reportId, payload: payloadDigest(job) } });
        return this.#report(job, reportId);
    }

    /**
     * Returns the id of the report that this attempt already waits for, which is in the progress of the job. Compares the payload, too,
     * because an operator can change the payload of a waiting job, and the changed job must be posted again.
     */
    #acceptedReport(job) {
        const { report, payload } = job.progress?.jobq_push ?? {};
        return typeof report === 'string' && report.startsWith(`${idempotencyKey(job)}-`) && payload === payloadDigest(job) ? report : undefined;
    }

    async #report(job, reportId) {
        const { name, reportTimeout } = this.endpoint;
        const { state, payload: report } = await job.waitFor(eventOf(name, reportId), { timeout: reportTimeout });
        if (state === 'ready' && report?.status === 'completed') return report.result ?? null;
        job.setProgress(null);      // the next attempt posts the job again, even if it has the same number after a redrive
        if (state === 'timeout') throw new Fail(`endpoint "${name}" did not report the result within ${reportTimeout} s`);
        throw new Fail(`endpoint "${name}" reported a failure: ${report?.error}`, { retry: report?.retry ?? true });
    }
}

const payloadDigest = (job) => digest(JSON.stringify(job.payload));

// A 2xx completes the job even if its result cannot be kept, because another request would repeat the work.
function resultOf(job, { headers, body, truncated }) {
    if (body.length === 0) return null;
    if (truncated) {
        job.log(`the answer is larger than maxResponseBytes, so the job has no result`, 'warning');
        return null;
    }
    if (!JSON_TYPE.test(headers['content-type'] ?? '')) return null;
    try {
        const result = JSON.parse(body.toString());
        if (!NOT_IN_JSONB.test(JSON.stringify(result))) return result;
        job.log('the answer contains a character that jsonb cannot store, so the job has no result', 'warning');
    } catch (error) {
        job.log(`the answer is not valid JSON, so the job has no result: ${error.message}`, 'warning');
    }
    return null;
}
