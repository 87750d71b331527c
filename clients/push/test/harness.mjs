// A receiver, and jobq-push as a process of its own, for the tests. server.mjs of the Node library creates the database.
import { spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import http from 'node:http';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import process from 'node:process';
import { after } from 'node:test';
import { fileURLToPath } from 'node:url';
import { becomesTrue } from '../../node/test/server.mjs';
import { forgery, keyOf, signed } from '../src/signature.js';

const program = fileURLToPath(new URL('../bin/jobq-push.js', import.meta.url));
const directory = mkdtempSync(join(tmpdir(), 'jobq-push-'));
after(() => rmSync(directory, { recursive: true }));
const children = new Set();
process.on('exit', () => children.forEach((child) => child.kill('SIGKILL')));

export const newSecret = () => `whsec_${randomBytes(32).toString('base64')}`;
export const secret = newSecret();
export const now = () => Date.now() / 1000;

export async function freePort() {
    const server = createServer().listen(0, '127.0.0.1');
    await once(server, 'listening');
    const { port } = server.address();
    server.close();
    await once(server, 'close');
    return port;
}

/** Handles requests with answer(request, response), where request is {job, data, report, headers, body}. */
export async function receiver(answer, { create = http.createServer, keys = [keyOf(secret)] } = {}) {
    const found = { requests: [], connections: 0, forged: 0, running: 0, most: 0 };
    const server = create(async (incoming, response) => {
        found.running += 1;
        found.most = Math.max(found.most, found.running);
        response.on('close', () => { found.running -= 1; });
        const chunks = [];
        try {
            for await (const chunk of incoming) chunks.push(chunk);
        } catch {
            return;         // jobq-push was killed
        }
        const body = Buffer.concat(chunks);
        if (forgery(keys, incoming.headers, body, now())) found.forged += 1;
        const { job, data, report, type, timestamp } = JSON.parse(body.toString());
        const request = { job, data, report, type, timestamp, headers: incoming.headers, body, path: incoming.url };
        found.requests.push(request);
        await answer(request, response, incoming);
    });
    server.on('connection', () => { found.connections += 1; });
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    after(() => { server.close(); server.closeAllConnections(); });
    found.of = (id) => found.requests.filter(({ job }) => job.id === id);
    found.port = server.address().port;
    found.url = `http://127.0.0.1:${found.port}/`;
    return found;
}

/** Sends a report as a receiver does. Returns {status, state, error}. */
export async function report(request, rest, { url = request.report.url, signer = secret, at = now(), change = (body) => body, headers = {} } = {}) {
    const body = Buffer.from(JSON.stringify({ report_id: request.report.id, ...rest }));
    const response = await fetch(url, {
        method: 'POST', body: change(body),
        headers: { ...signed([keyOf(signer)], `report_${request.report.id}`, body, at), ...headers },
    });
    return { status: response.status, ...await response.json() };
}

export const json = (response, status, value, headers = {}) => {
    response.writeHead(status, { 'content-type': 'application/json', ...headers });
    response.end(JSON.stringify(value));
};

/** A configuration with endpoints that are near the defaults, for receivers of this machine. */
export function configurationFor(endpoints, rest = {}) {
    return {
        allowedHosts: ['127.0.0.1'], allowedHttpHosts: ['127.0.0.1'], allowedAddresses: ['127.0.0.0/8'],
        worker: { heartbeatTimeout: 3, grace: 60 }, ...rest,
        endpoints: endpoints.map((endpoint) => ({ secrets: [secret], kinds: ['k'], circuit: { failures: 10000 }, ...endpoint })),
    };
}

let files = 0;

export function start(configuration, environment = {}) {
    const file = join(directory, `${files += 1}.json`);
    writeFileSync(file, JSON.stringify(configuration));
    const child = spawn(process.execPath, [program, file], { env: { ...process.env, ...environment }, stdio: ['ignore', 'ignore', 'pipe'] });
    children.add(child);
    const running = { child, output: '', ended: once(child, 'exit').then(([code]) => { children.delete(child); return code; }) };
    child.stderr.on('data', (data) => { running.output += data; });
    running.stop = () => { child.kill('SIGTERM'); return running.ended; };
    return running;
}

/** Runs jobq-push while body runs. */
export async function pushing(configuration, body, environment) {
    const running = start(configuration, environment);
    try {
        await becomesTrue(() => {
            if (running.child.exitCode !== null) throw new Error(`jobq-push ended: ${running.output}`);
            return running.output.split(' serves queue ').length > configuration.endpoints.length;
        }, 'jobq-push serves all endpoints');
        return await body(running);
    } catch (error) {
        error.message += `\nOutput of jobq-push:\n${running.output.slice(-4000)}`;
        throw error;
    } finally {
        running.child.kill('SIGKILL');
        await running.ended;
    }
}
