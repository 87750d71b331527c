// The HTTP server for reports: an endpoint that has answered 202 sends the result of the job here. Verifies the signature, and sends the
// signal for which the job waits.
import http from 'node:http';
import { buffer } from 'node:stream/consumers';
import { eventOf } from './delivery.js';
import { forgery } from './signature.js';

const MOST_CONNECTIONS = 100;       // each may hold the body of a report whose signature has not been checked yet
const MOST_BYTES = 1_000_000;       // the default of jobq.max_step_bytes
const REPORT_ID = /^([1-9]\d{0,18})-\d{1,10}-[0-9a-f]{16}$/;

const SIGNAL = `SELECT jobq_signal_job(id, $2, $3::jsonb) AS sent FROM jobq_get($1::bigint) WHERE queue = ANY ($4::text[]) AND kind = ANY ($5::text[])`;

class Refusal extends Error {
    constructor(status, message) {
        super(message);
        this.status = status;
    }
}

/** Returns the report in a body, or throws. */
export function reportOf(body) {
    let report;
    try {
        report = JSON.parse(body.toString());
    } catch (error) {
        throw new Refusal(400, `the body is not valid JSON: ${error.message}`);
    }
    if (typeof report !== 'object' || report === null || Array.isArray(report)) throw new Refusal(400, 'the body must be an object');
    const { report_id: id, status, ...rest } = report;
    if (typeof id !== 'string' || !REPORT_ID.test(id)) throw new Refusal(400, '"report_id" must be the id in "report" of the request');
    if (status !== 'completed' && status !== 'failed') throw new Refusal(400, '"status" must be "completed" or "failed"');
    const known = { completed: ['result'], failed: ['error', 'retry'] }[status];
    const unknown = Object.keys(rest).find((key) => !known.includes(key));
    if (unknown !== undefined) throw new Refusal(400, `a report with the status "${status}" must not have the key ${JSON.stringify(unknown)}`);
    if (status === 'failed' && (typeof rest.error !== 'string' || rest.error === '')) throw new Refusal(400, '"error" must be a text');
    if (!['boolean', 'undefined'].includes(typeof rest.retry)) throw new Refusal(400, '"retry" must be true or false');
    return { id, jobId: REPORT_ID.exec(id)[1], signal: { status, ...rest } };
}

export class Reports {
    #server = http.createServer({ requestTimeout: 30_000 }, (request, response) => this.#answer(request, response));

    /** endpoints: the configured endpoints. path: the path of the option reports.url. query(text, values): runs a statement and returns its rows. */
    constructor({ endpoints, path, query, log, clock = () => Date.now() / 1000 }) {
        Object.assign(this, { query, log, clock });
        this.endpoints = new Map(endpoints.map((endpoint) => [`${path}/${endpoint.name}`, endpoint]));
    }

    listen({ host, port }) {
        this.#server.maxConnections = MOST_CONNECTIONS;
        return new Promise((resolve, reject) => {
            this.#server.once('error', reject).listen(port, host, resolve);
        });
    }

    end() {
        this.#server.close();
        this.#server.closeAllConnections();
    }

    async #answer(request, response) {
        const endpoint = this.endpoints.get(request.url);
        let status = 200;
        let answer;
        try {
            answer = { state: await this.#take(request, endpoint) };
        } catch (error) {
            status = error.status ?? 500;
            answer = { error: error.message };
            if (status !== 400 && endpoint) this.log(`endpoint "${endpoint.name}": a report was rejected: ${error.cause?.message ?? error.message}`);
        }
        response.writeHead(status, { 'content-type': 'application/json', ...(status === 503 && { 'retry-after': '10' }), ...(!request.complete && { connection: 'close' }) });
        response.end(`${JSON.stringify(answer)}\n`);
    }

    async #take(request, endpoint) {
        if (!endpoint) throw new Refusal(404, 'no endpoint has this path');
        if (request.method !== 'POST') throw new Refusal(405, 'the method must be POST');
        const body = await read(request);
        const wrong = forgery(endpoint.keys, request.headers, body, this.clock());
        if (wrong) throw new Refusal(401, wrong);
        const { id, jobId, signal } = reportOf(body);
        const [row] = await this.#send([jobId, eventOf(endpoint.name, id), JSON.stringify(signal), endpoint.queues, endpoint.kinds]);
        if (!row) throw new Refusal(404, `endpoint "${endpoint.name}" has no job ${jobId}`);
        return { true: 'accepted', false: 'duplicate', null: 'finished' }[row.sent];
    }

    async #send(values) {
        try {
            return await this.query(SIGNAL, values);
        } catch (error) {
            // The server rejects these values: class 22, and 54000 for a signal that is too large. Everything else may be temporary.
            const final = error.severity !== undefined && (error.code?.startsWith('22') || error.code === '54000');
            throw Object.assign(new Refusal(final ? 400 : 503, final ? error.message : 'the database did not accept the report; send it again'), { cause: error });
        }
    }
}

async function read(request) {
    const length = Number(request.headers['content-length']);
    if (!Number.isInteger(length)) throw new Refusal(411, 'the header content-length is required');
    if (length > MOST_BYTES) throw new Refusal(413, `a report must not be larger than ${MOST_BYTES} bytes`);
    return buffer(request);
}
