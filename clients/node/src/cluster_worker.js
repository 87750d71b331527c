// A worker of a cluster: one Worker for each shard, which share the slots.
import { Cluster } from './cluster.js';
import { isBroken } from './connection.js';
import { Load } from './load.js';
import { loggerOf, stderrLogger } from './logger.js';
import { checkedOptions } from './options.js';
import { sleep } from './timing.js';
import { messageOf } from './values.js';
import { Worker } from './worker.js';

const LOOK_EVERY = 5;       // seconds between two reads of the map
const REFRESH_EVERY = 60;   // seconds after which the router asks the shards for a newer map

export class ClusterWorker {
    #workers = new Map();   // shard -> Worker
    #load = new Load();     // of all shards
    #stopping = new AbortController();
    #ending = new Set();    // workers that have failed, or whose shards have been removed
    #error = null;
    #settle;
    #hasFailed;

    /** options: those of Worker, with the connection of the router. */
    constructor(options) {
        this.options = checkedOptions(options);
        this.log = loggerOf(this.options);
        this.cluster = new Cluster(this.options.connection, { max: 1 });
        /** Like the properties of Worker. */
        this.stopped = new Promise((resolve, reject) => { this.#settle = { resolve, reject }; });
        this.stopped.catch(() => {});
        this.failed = new Promise((resolve) => { this.#hasFailed = resolve; });
        this.given = options;
    }

    get id() {
        return this.options.workerId;
    }

    /** Resolves when the worker is running on all shards that can be reached. Rejects if there is none, or after another error. */
    async start() {
        try {
            const { shards } = await this.cluster.refresh();
            if (shards.size === 0) throw new Error('the router has no shards');
            const errors = await this.#startAll(shards.keys());
            const wrong = errors.find((error) => !isBroken(error)) ?? (this.#workers.size === 0 && errors[0]);
            if (wrong) throw wrong;
        } catch (error) {
            this.#error = error;
            await this.stop().catch(() => {});
            throw error;
        }
        this.#follow();
    }

    // Returns the errors of the shards on which no worker has started.
    async #startAll(shards) {
        const starts = await Promise.allSettled([...shards].map((shard) => this.#startOn(shard)));
        return starts.filter(({ status }) => status === 'rejected').map(({ reason }) => reason);
    }

    async #startOn(shard) {
        if (this.#stopping.signal.aborted) return;
        const logger = this.given.logger ?? stderrLogger;
        const named = (level) => (text) => logger[level](`shard ${shard}: ${text}`);
        const worker = new Worker({
            ...this.given, workerId: this.id, connection: () => this.cluster.configurationOf(shard),
            logger: { info: named('info'), warn: named('warn'), error: named('error') },
        }, this.#load);
        this.#workers.set(shard, worker);
        try {
            await worker.start();
        } catch (error) {
            this.#workers.delete(shard);
            this.log.warn(`shard ${shard} is not served: ${messageOf(error)}`);
            throw error;
        }
        worker.failed.then(() => this.#fail(worker));
        if (this.#stopping.signal.aborted) worker.stop();
    }

    // Compares the running workers with the map every few seconds: starts a worker for each shard that has none, and stops the workers of
    // shards that are no longer in the map.
    async #follow() {
        for (let looks = 1; !this.#stopping.signal.aborted; looks += 1) {
            await sleep(LOOK_EVERY, this.#stopping.signal);
            if (this.#stopping.signal.aborted) return;
            try {
                const { shards } = looks % (REFRESH_EVERY / LOOK_EVERY) ? await this.cluster.map() : await this.cluster.refresh();
                for (const [shard, worker] of this.#workers) if (!shards.has(shard)) this.#endOn(shard, worker);
                await this.#startAll([...shards.keys()].filter((shard) => !this.#workers.has(shard)));
            } catch (error) {
                this.log.warn(`the map of the cluster could not be read: ${messageOf(error)}`);
            }
        }
    }

    #endOn(shard, worker) {
        if (this.#ending.has(worker)) return;
        this.#ending.add(worker);
        worker.stop().catch((error) => this.log.warn(`shard ${shard}: ${messageOf(error)}`)).then(() => this.#workers.delete(shard));
    }

    #fail(worker) {
        worker.stopped.catch((error) => { this.#error ??= error; });
        this.#ending.add(worker);
        this.#hasFailed();
        if (!this.#stopping.signal.aborted) this.#stopAll((other) => !this.#ending.has(other));
    }

    /** Stops all workers, as Worker.stop() does. Resolves to whether everything was reported. */
    stop() {
        this.#stopAll(() => true);
        return this.stopped;
    }

    // A second stop would end the grace period.
    #stopAll(mayStop) {
        const first = !this.#stopping.signal.aborted;
        this.#stopping.abort();
        const workers = [...this.#workers.values()];
        for (const worker of workers.filter(mayStop)) worker.stop();
        if (first) this.#end(workers.map((worker) => worker.stopped));
    }

    async #end(ends) {
        const ended = await Promise.allSettled(ends);
        await this.cluster.end();
        this.#error ??= ended.find(({ status }) => status === 'rejected')?.reason;
        if (this.#error) this.#settle.reject(this.#error);
        else this.#settle.resolve(ended.every(({ value }) => value === true));
    }
}
