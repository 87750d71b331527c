// The handler's view of a job.
import { AsyncLocalStorage } from 'node:async_hooks';
import { isBroken, isLostLease } from './connection.js';
import { Cancelled, Suspended, checkNames } from './errors.js';
import { enqueuing } from './middleware.js';
import { isFinished } from './outcome.js';
import { AWAIT, AWAIT_JOBS, COMPLETE_MUST_HOLD, SLEEP, SPAWN, STEP, STEP_DONE } from './statements.js';
import { copiesOf, ids as idsOf, specsOf } from './producers.js';
import { timeOf, toJson, toOwnInterval, toTime } from './values.js';

const inTransaction = new AsyncLocalStorage();

export class Job {
    #attempt;

    constructor(attempt) {
        this.#attempt = attempt;
        const { row } = attempt;
        this.id = row.id;
        this.lease = row.lease;
        this.queue = row.queue;
        this.kind = row.kind;
        this.payload = row.payload;
        this.attempt = row.attempt;
        this.maxAttempts = row.max_attempts;
        this.priority = row.priority;
        this.version = row.version;
        this.runAt = timeOf(row.run_at);
        this.createdAt = timeOf(row.created_at);
        this.progress = row.progress;
        this.metadata = row.metadata;
    }

    /** Why the handler should stop: cancel, lost, or stopping; otherwise undefined. */
    get cancelled() {
        return this.#attempt.cancelled;
    }

    /** Aborted when the handler should stop. Its reason is a Cancelled error. */
    get signal() {
        return this.#attempt.signal;
    }

    /** Throws Cancelled if the handler should stop. */
    check() {
        this.#attempt.check();
    }

    /** Reports progress with the next heartbeat, within a second; only the last value is sent. */
    setProgress(value) {
        if (!this.#attempt.over) this.#attempt.setProgress(value);
    }

    /**
     * Writes a line to the log of the job, which jobq_log() and the dashboard show. level: debug, info, warning, or error. The lines
     * are sent with the next heartbeat, or before the report of the job.
     */
    log(text, level = 'info') {
        this.#attempt.log(text, level);
    }

    /** Returns a pg.Client in autocommit mode for the handler's own SQL. All calls of an attempt return the same connection. */
    client() {
        this.#goesOn();
        return this.#attempt.host.client(this.#attempt);
    }

    /**
     * Commits the writes of body(client) together with the completion of the job, whose result body returns. Neither, if the
     * lease is lost.
     */
    completing(body) {
        const attempt = this.#attempt;
        return this.#lastly(async (client) => {
            const result = await this.#transaction(client, async () => {
                const value = await body(client);
                const json = value === undefined ? null : toJson(value, 'the result');
                if (attempt.logged) await attempt.host.writeLines(attempt);   // lines that arrive after the completion count as late
                attempt.completing = true;
                await this.#change(client, COMPLETE_MUST_HOLD, json);
                return value;
            }).finally(() => { attempt.completing = false; });
            attempt.state = 'completed';
            attempt.result = result;
            attempt.host.ended(attempt);
            return result;
        });
    }

    /**
     * Runs a durable step: commits the writes of body(client) together with its result. If the result is already saved, only
     * returns it.
     */
    step(name, body) {
        return this.#exclusively(async (client) => {
            const [{ state, result }] = await this.#ask(client, STEP, name);
            if (state === 'done') return result;
            if (state !== 'run') this.#stopped(state);
            return this.#transaction(client, async () => {
                const json = await body(client);
                const text = json === undefined ? null : toJson(json, 'the result of the step');
                const [saved] = await this.#change(client, STEP_DONE, name, text);
                return saved.result;
            });
        });
    }

    /** Suspends the job until a Date or for a delay (seconds or interval text). The job occupies no worker while it sleeps. */
    sleep(name, time) {
        const [delay, until] = time instanceof Date ? [null, toTime(time, 'time')] : [toOwnInterval(time, 'time'), null];
        return this.#lastly(async (client) => {
            const [{ state }] = await this.#ask(client, SLEEP, name, delay, until);
            this.#answered(state, `the time ${JSON.stringify(name)}`);
        });
    }

    /** Returns {state: ready or timeout, payload} of a signal. Until then the job is given back and occupies no worker. */
    async waitFor(event, options = {}) {
        checkNames(options, ['timeout', 'name'], 'waitFor()');
        const { timeout = null, name = null } = options;
        return this.#lastly(async (client) => {
            const [{ state, payload }] = await this.#ask(client, AWAIT, event, toOwnInterval(timeout, 'timeout'), name);
            this.#answered(state, `the signal ${JSON.stringify(event)}`);
            return { state, payload };
        });
    }

    /** Returns {state: ready or timeout, results: [{jobId, status, result}]} of other jobs. Until then the job is given back. */
    async waitForJobs(ids, name, options = {}) {
        checkNames(options, ['mode', 'timeout'], 'waitForJobs()');
        const { mode = 'all', timeout = null } = options;
        return this.#lastly(async (client) => {
            const [{ state, results }] = await this.#ask(client, AWAIT_JOBS, idsOf(ids, 'ids'), name, mode, toOwnInterval(timeout, 'timeout'));
            this.#answered(state, `other jobs, ${JSON.stringify(name)}`);
            const found = results.map(({ job_id: id, status, result }) => ({ jobId: String(id), status, result: result ?? null }));
            return { state, results: found };
        });
    }

    /** Enqueues child jobs once, even if this job is retried, and returns their IDs. specs: as in enqueueJobs(). */
    spawn(name, specs) {
        return this.#exclusively(async (client) => {
            const children = await enqueuing(copiesOf(specs), async (specs) => {
                const [{ job_ids: ids }] = await this.#ask(client, SPAWN, name, toJson(specsOf(specs)));
                return ids.map((id) => ({ id }));
            });
            return children.map(({ id }) => id);
        });
    }

    // ---- implementation

    /**
     * Runs a call that may end the attempt. Reports progress first, because the server accepts none afterward, and log lines, because
     * later ones count as late.
     */
    #lastly(work) {
        return this.#exclusively(async (client) => {
            await this.#attempt.host.flush(this.#attempt);
            if (this.#attempt.logged) await this.#attempt.host.writeLines(this.#attempt);
            return work(client);
        });
    }

    /** Runs calls on the slot's connection one after the other, because the connection has only one transaction at a time. */
    async #exclusively(work) {
        const attempt = this.#attempt;
        if (inTransaction.getStore() === attempt) {
            throw new Error('a step, a wait, or completing() cannot be called within the transaction of another one: call it before or afterward');
        }
        this.#goesOn();
        const before = attempt.exclusive;
        let done;
        attempt.exclusive = new Promise((resolve) => { done = resolve; });
        try {
            await before;
            this.#goesOn();
            return await work(await attempt.host.client(attempt));
        } catch (error) {
            if (!isLostLease(error)) throw error;
            attempt.stop('lost');
            throw new Cancelled('lost');
        } finally {
            done();
        }
    }

    #transaction(client, body) {
        return this.#committed(client, body).finally(() => this.#attempt.host.resume(this.#attempt));
    }

    /** Commits the writes of body. If the commit gets no answer, asks the server, and throws if it did not commit. */
    async #committed(client, body) {
        const { begin, commit, rollback } = this.#attempt.host.transaction;
        await client.query(begin);
        let value;
        try {
            value = await inTransaction.run(this.#attempt, body);
        } catch (error) {
            await client.query(rollback).catch(() => {});
            // If the answer was lost, the transaction may hold the job's row for a while, and a report or heartbeat would wait
            // for the lock.
            if (this.#attempt.completing && isBroken(error)) await this.#find(error);
            throw error;
        }
        try {
            await client.query(commit);
        } catch (error) {
            if (!this.#attempt.completing || !isBroken(error)) throw error;
            await this.#find(error);
        }
        return value;
    }

    async #find(error) {
        const state = await this.#attempt.host.verify(this.#attempt);
        if (state === 'held' || state === 'cancel') throw error;
        if (!isFinished(state)) this.#stopped('lost');
    }

    #ask(client, text, ...values) {
        return this.#attempt.host.ask(client, text, [this.id, this.lease, ...values]);
    }

    /** Sends the last statement before a commit. It locks the job's row until the commit, which may come late. */
    async #change(client, text, ...values) {
        await this.#attempt.host.settle(this.#attempt);
        return this.#ask(client, text, ...values);
    }

    #answered(state, what) {
        if (state === 'waiting') {
            this.#attempt.state = 'waiting';
            this.#attempt.host.ended(this.#attempt);
            throw new Suspended(what);
        }
        if (state === 'cancelled' || state === 'lost') this.#stopped(state);
    }

    #stopped(state) {
        const reason = state === 'lost' ? 'lost' : 'cancel';
        this.#attempt.stop(reason);
        throw new Cancelled(reason);
    }

    #goesOn() {
        const { state } = this.#attempt;
        if (state === 'waiting') throw new Suspended('something else');
        if (state === 'lost') throw new Cancelled('lost');
        if (state === 'completed') throw new Error('the job has already been completed');
    }
}
