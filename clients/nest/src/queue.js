// Enqueues jobs into one queue.
'use strict';

/** jobq is an ES module, which CommonJS can only import dynamically. */
const jobq = () => import('jobq-client');

class Queue {
    /** pool: a pool of pg. */
    constructor(name, pool) {
        Object.assign(this, { name, pool });
    }

    /**
     * Enqueues one job and returns its ID. options: the options of jobq's enqueue(), and client: a client, transaction, or manager of
     * pg, TypeORM, Knex, and so on; the job is enqueued when its transaction commits.
     */
    async add(kind, payload, { client = this.pool, ...options } = {}) {
        return (await jobq()).enqueue(client, this.name, payload, { ...options, kind });
    }

    /** Enqueues one job per payload in one statement. */
    async addMany(kind, payloads, { client = this.pool, ...options } = {}) {
        return (await jobq()).enqueueMany(client, this.name, payloads, { ...options, kind });
    }
}

module.exports = { Queue, jobq };
