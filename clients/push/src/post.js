// Sends requests to one URL.
import http from 'node:http';
import https from 'node:https';
import { notAllowed } from './addresses.js';

// The Agent checks the addresses: in the lookup of a name, and again when a socket is connected, because a URL that contains an address
// needs no lookup.
const checking = (Agent) => class extends Agent {
    createConnection(options, callback) {
        const socket = super.createConnection(options, callback);
        socket.once('connect', () => {
            const address = socket.remoteAddress;      // undefined if the other end has already closed the connection
            if (!address || !options.addresses.isAllowed(address)) socket.destroy(notAllowed(options.host, address));
        });
        return socket;
    }
};
const AGENTS = { 'http:': checking(http.Agent), 'https:': checking(https.Agent) };

export class Post {
    #agent;

    /** url: a URL. timeout: seconds for the whole exchange. maxBytes: how much of an answer is read. addresses: Addresses. */
    constructor({ url, timeout, maxBytes, addresses, resolve }) {
        Object.assign(this, { url, timeout, maxBytes });
        this.#agent = new AGENTS[url.protocol]({ keepAlive: true, addresses, lookup: addresses.lookupWith(resolve) });
    }

    /**
     * Returns {status, headers, body, truncated}. Redirects are not followed. If a connection that was used before turns out to be
     * closed, sends the request again once, with the same headers.
     */
    async send(headers, body, signal) {
        try {
            return await this.#once(headers, body, signal);
        } catch (error) {
            if (!error.stale) throw error;
            return this.#once(headers, body, signal);
        }
    }

    end() {
        this.#agent.destroy();
    }

    async #once(headers, body, signal) {
        const { request: begin } = this.url.protocol === 'https:' ? https : http;
        const request = begin(this.url, { method: 'POST', agent: this.#agent, headers: { ...headers, 'content-length': body.length } });
        let reason;         // why the request was ended here
        const end = (error) => request.destroy(reason = error);
        const abort = () => end(signal.reason);
        const timer = setTimeout(() => end(new Error(`no complete answer within ${this.timeout} s`)), this.timeout * 1000);
        signal.addEventListener('abort', abort);
        if (signal.aborted) abort();
        let response;
        try {
            response = await new Promise((resolve, reject) => {
                request.on('response', resolve).on('error', reject);
                request.end(body);
            });
            return { status: response.statusCode, headers: response.headers, ...await this.#read(response) };
        } catch (error) {
            if (!reason && !response && request.reusedSocket && ['ECONNRESET', 'EPIPE'].includes(error.code)) error.stale = true;
            throw reason ?? error;
        } finally {
            clearTimeout(timer);
            signal.removeEventListener('abort', abort);
        }
    }

    async #read(response) {
        const chunks = [];
        let size = 0;
        for await (const chunk of response) {
            chunks.push(chunk);
            size += chunk.length;
            if (size > this.maxBytes) break;    // this closes the connection
        }
        return { body: Buffer.concat(chunks).subarray(0, this.maxBytes), truncated: size > this.maxBytes };
    }
}
