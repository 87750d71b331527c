// Connections for handlers: one per slot that needs it, opened at first use, reused for the next job, and closed with the worker.
import { configurationOf, connect, destroy, isBroken } from './connection.js';
import { pauseAfter, sleep } from './timing.js';
import { messageOf } from './values.js';

export class SlotConnections {
    #idle = [];
    #all = new Map();   // client -> transaction state, which the server sends after each statement
    #closed = false;

    constructor({ connection, applicationName, log }) {
        Object.assign(this, { connection, applicationName, log });
    }

    get size() {
        return this.#all.size;
    }

    /** Returns false if the client is broken or was closed. */
    has(client) {
        return this.#all.has(client);
    }

    /** Returns a connection. Repeats until it succeeds or the signal is aborted. */
    async take(signal) {
        for (let failures = 1; ; failures += 1) {
            const kept = this.#idle.pop();
            if (kept) return kept;
            try {
                return await this.#open();
            } catch (error) {
                if (!isBroken(error) || this.#closed || signal.aborted) throw error;
                this.log.warn(`no connection for a handler, trying again: ${messageOf(error)}`);
            }
            await sleep(pauseAfter(failures), signal);
        }
    }

    /** Takes a connection back after the handler has ended. Closes it if it is broken or still in a transaction. */
    give(client) {
        const state = this.#all.get(client);
        if (state === 'I' && !this.#closed) {
            this.#idle.push(client);
            return;
        }
        if (state === 'T' || state === 'E') this.log.warn('a handler has left a transaction open on its connection, which is closed');
        this.#drop(client);
    }

    close() {
        this.#closed = true;
        for (const client of this.#idle.splice(0)) {
            this.#all.delete(client);
            client.end().catch(() => {});
        }
        for (const client of this.#all.keys()) this.#drop(client);
    }

    async #open() {
        const client = await connect(await configurationOf(this.connection, this.applicationName));
        if (this.#closed) {
            destroy(client);
            throw new Error('the worker has ended');
        }
        this.#all.set(client, 'I');
        client.connection.on('readyForQuery', ({ status }) => this.#all.has(client) && this.#all.set(client, status));
        client.on('error', () => this.#drop(client));
        client.on('end', () => this.#drop(client));
        return client;
    }

    #drop(client) {
        if (!this.#all.delete(client)) return;
        this.#idle = this.#idle.filter((other) => other !== client);
        destroy(client);
    }
}
