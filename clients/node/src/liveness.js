// Tells the probes of Kubernetes and systemd whether the workers of this process are alive: see "Liveness" in clients/README.md of
// the source tree. A probe restarts the whole process, so the file, the port, and systemd's watchdog cover all of its workers.
// Runs in a thread that no handler can block (liveness_thread.js).
import { closeSync, openSync, utimesSync } from 'node:fs';
import { createServer } from 'node:http';
import { stuckOf } from './due.js';
import { addressOf } from './options.js';

const EVERY = 2;        // seconds between two touches of the file

function touch(file) {
    closeSync(openSync(file, 'a'));
    const time = new Date();
    utimesSync(file, time, time);
}

export class Liveness {
    #workers = new Map();
    #files = new Set();
    #servers = new Map();   // port -> its server, and a promise that resolves when the server listens
    #timers = [];
    #said;

    /** log(text): logs an error. notify(state): tells systemd. */
    constructor({ log, notify, every = EVERY }) {
        Object.assign(this, { log, notify, every });
    }

    /** Covers a worker, until leave(). Throws an error with the name of the option that cannot be used. */
    async watch(number, { id, due, livenessFile: file, livenessPort: port }) {
        this.#workers.set(number, { id, due });
        let option = 'livenessPort';
        try {
            if (port !== undefined) await this.#serverAt(String(port));
            option = 'livenessFile';
            if (file !== undefined) {
                touch(file);
                this.#files.add(file);
            }
        } catch (error) {
            this.leave(number);
            throw new Error(`option ${option} cannot be used: ${error.message}`);
        }
        if (!this.#timers.length) this.#repeat(this.every, () => this.#look());
    }

    leave(number) {
        this.#workers.delete(number);
        if (this.#workers.size) return;
        for (const timer of this.#timers.splice(0)) clearInterval(timer);
        for (const { server } of this.#servers.values()) {
            server.close();
            server.closeAllConnections();
        }
        this.#servers.clear();
        this.#files.clear();
    }

    /** Tells the watchdog of systemd from now on, which ends the process after this number of seconds without being told. */
    ready(seconds) {
        const tell = () => this.reason() ?? this.notify('WATCHDOG=1');
        tell();
        this.#repeat(seconds / 2, tell);
    }

    /** Returns why the process should be restarted, or undefined if it is alive. */
    reason() {
        for (const { id, due } of this.#workers.values()) {
            const stuck = stuckOf(due);
            if (stuck) return `${id}: ${stuck} are stuck`;
        }
        return undefined;
    }

    #repeat(seconds, work) {
        this.#timers.push(setInterval(work, seconds * 1000));
    }

    #look() {
        const reason = this.reason() ?? this.#touchAll();
        if (reason && reason !== this.#said) this.log(`liveness probes fail: ${reason}`);
        this.#said = reason;
    }

    #touchAll() {
        try {
            for (const file of this.#files) touch(file);
        } catch (error) {
            return error.message;
        }
        return undefined;
    }

    #serverAt(address) {
        if (!this.#servers.has(address)) this.#servers.set(address, this.#serve(address));
        return this.#servers.get(address).listening;
    }

    #serve(address) {
        const { host, port } = addressOf(address);
        const server = createServer((_, response) => {
            const reason = this.reason();
            response.writeHead(reason ? 503 : 200, { 'content-type': 'text/plain; charset=utf-8' });
            response.end(`${reason ?? 'ok'}\n`);
        });
        const listening = new Promise((resolve, reject) => {
            server.listen(port, host, resolve).on('error', (error) => {
                this.#servers.delete(address);
                reject(error);
            });
        });
        return { server, listening };
    }
}
