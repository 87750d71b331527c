// The worker's side of the heartbeat thread, with the interface of Heartbeats.
import { Worker as Thread } from 'node:worker_threads';
import { configurationOf } from './connection.js';
import { OptionError } from './errors.js';

export class HeartbeatPort {
    #thread;
    #calls = new Map();
    #number = 0;
    #dead = null;

    /** died(error): called when the thread ends, which happens only after an error. */
    constructor({ connection, applicationName, interval, prepare, due, info, log, heard, progressed, answered, died }) {
        Object.assign(this, { connection, applicationName, log, heard, progressed, answered, died });
        this.settings = { interval, prepare, due, info };
    }

    async open() {
        const configuration = typeof this.connection === 'function' ? null
            : await configurationOf(this.connection, this.applicationName);
        try {
            this.#thread = new Thread(new URL('./heartbeat_thread.js', import.meta.url),
                { workerData: { ...this.settings, configuration }, name: 'jobq heartbeats' });
        } catch (error) {
            if (error.name !== 'DataCloneError') throw error;
            throw new OptionError(`option connection has a value that cannot be passed to a thread (${error.message}): leave it out, ` +
                'or set heartbeatThread to false');
        }
        this.#thread.on('message', ([name, ...values]) => this.#told[name](...values));
        this.#thread.on('error', (error) => this.#end(error));
        this.#thread.on('exit', () => this.#end(new Error('the thread of the heartbeats has ended')));
        await this.#call('open');
    }

    change(dropped, held) {
        if (!this.#dead) this.#thread.postMessage(['change', dropped, held]);
    }

    told(leases, told) {
        if (!this.#dead) this.#thread.postMessage(['told', leases, told]);
    }

    settle(lease) {
        return this.#call('settle', lease).catch(() => {});   // a dead thread sends no heartbeats
    }

    progress(lease, number, json) {
        if (!this.#dead) this.#thread.postMessage(['progress', lease, number, json]);
    }

    line(id, lease, line) {
        if (!this.#dead) this.#thread.postMessage(['line', id, lease, line]);
    }

    flush(leases) {
        return this.#call('flush', leases);
    }

    query(statement, values) {
        return this.#call('query', statement, values);
    }

    async close() {
        if (!this.#thread || this.#dead) return;
        await this.#call('close').catch(() => {});
        this.#dead = new Error('the worker has ended');
        await this.#thread.terminate();
        this.#rejectAll(this.#dead);
    }

    #call(name, ...values) {
        if (this.#dead) return Promise.reject(this.#dead);
        return new Promise((resolve, reject) => {
            this.#number += 1;
            this.#calls.set(this.#number, { resolve, reject });
            try {
                this.#thread.postMessage([name, this.#number, ...values]);
            } catch (error) {
                // A value that cannot be passed to a thread rejects the call, as if the server had rejected it.
                this.#calls.delete(this.#number);
                reject(Object.assign(new TypeError(error.message, { cause: error }), { severity: 'ERROR', code: '22000' }));
            }
        });
    }

    #told = {
        answer: (number, value, error) => {
            const call = this.#calls.get(number);
            this.#calls.delete(number);
            if (error) call?.reject(Object.assign(new Error(error.message), error));
            else call?.resolve(value);
        },
        heard: (lease, state) => this.heard(lease, state),
        progressed: (lease, number) => this.progressed(lease, number),
        answered: (seconds) => this.answered(seconds),
        log: (level, text) => this.log[level](text),
        configure: () => configurationOf(this.connection, this.applicationName)
            .then((configuration) => this.#thread.postMessage(['configuration', configuration, null]))
            .catch(({ message, code }) => this.#thread.postMessage(['configuration', null, { message, code }])),
    };

    #end(error) {
        if (this.#dead) return;
        this.#dead = error;
        this.#rejectAll(error);
        this.died(error);
    }

    #rejectAll(error) {
        for (const { reject } of this.#calls.values()) reject(error);
        this.#calls.clear();
    }
}
