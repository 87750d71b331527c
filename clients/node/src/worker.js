// A worker: its parts, its start, and its end.
import { Claims } from './claims.js';
import { configurationOf, sqlstate } from './connection.js';
import { newDue } from './due.js';
import { OptionError } from './errors.js';
import { failuresOf } from './failures.js';
import { Hand } from './hand.js';
import { HeartbeatPort } from './heartbeat_port.js';
import { Heartbeats } from './heartbeats.js';
import { Job } from './job.js';
import { Load } from './load.js';
import { loggerOf } from './logger.js';
import { handling } from './middleware.js';
import { checkedOptions } from './options.js';
import { Pace, SHORT_WAIT } from './pace.js';
import { presenceOf } from './presence.js';
import { leave, watch } from './probes.js';
import { Reports } from './reports.js';
import { SlotConnections } from './slots.js';
import { HEARTBEAT_MANY, WAKE } from './statements.js';
import { sleep, within } from './timing.js';
import { ended, processing } from './tracing.js';
import { messageOf, shown, types } from './values.js';

const LAST_LOOK = 1;        // seconds in which handlers may notice that the worker stops
const LAST_REPORTS = 4;     // seconds in which the last reports must be sent; with the grace period, less than the 30 s of
                            // Kubernetes
const LAST_WORD = 1;        // seconds in which the server must hear that the worker has stopped
const WAKES_AFTER = 5;      // seconds after which a wait that could not be woken is abandoned

const TRANSACTION = { begin: 'BEGIN', commit: 'COMMIT', rollback: 'ROLLBACK' };

export class Worker {
    #stopping = null;       // true after the first stop()
    #hurry = new AbortController();
    #started = false;
    #error = null;
    #settle;
    #hasFailed;

    /** load: for the workers of a cluster, which share it. */
    constructor(options, load = new Load()) {
        this.options = checkedOptions(options);
        this.load = load;
        this.log = loggerOf(this.options);
        /** Resolves after the worker has stopped: true if everything was reported. Rejects with the error that ended the worker. */
        this.stopped = new Promise((resolve, reject) => { this.#settle = { resolve, reject }; });
        this.stopped.catch(() => {});
        /** Resolves as soon as an error ends the worker. Handlers may still use the grace period. */
        this.failed = new Promise((resolve) => { this.#hasFailed = resolve; });
        this.#assemble();
    }

    get id() {
        return this.options.workerId;
    }

    #assemble() {
        const { options, log } = this;
        const applicationName = `jobq ${options.queue} ${options.workerId}`;
        const configuration = () => configurationOf(options.connection, applicationName);
        const pace = new Pace({ log, interval: () => this.#shortest() });
        this.due = newDue();
        this.presence = presenceOf(options);
        const parts = {
            interval: options.heartbeatInterval, prepare: options.prepare, due: this.due, info: this.presence.now, log,
            heard: (lease, state) => this.hand.heard(lease, state),
            progressed: (lease, number) => this.hand.progressed(lease, number),
            answered: (seconds) => pace.answered(seconds),
        };
        this.heartbeats = options.heartbeatThread
            ? new HeartbeatPort({ ...parts, connection: options.connection, applicationName, died: (error) => this.#fail(error) })
            : new Heartbeats({ ...parts, configuration });
        this.reports = new Reports({
            log, query: (statement, values) => this.heartbeats.query(statement, values),
            writeLog: (attempts) => this.heartbeats.flush(attempts.map(({ row }) => row.lease)),
            reported: (attempts) => this.hand.reported(attempts),
            lost: (attempt) => this.hand.lost(attempt),
        });
        const failures = failuresOf({ ...options, log });
        this.hand = new Hand({
            load: this.load, slots: options.slots, prefetch: options.prefetch, queues: options.queues, patterns: options.patterns,
            hasRoom: () => this.#endWait(), log, heartbeats: this.heartbeats, reports: this.reports,
            away: () => this.claims.away, run: (attempt) => this.#handle(attempt), every: (row) => this.#every(row),
            failed: (attempt, outcome) => failures(attempt.row, outcome, () => new Job(attempt)),
        });
        this.hand.settled = ({ span, outcome, lost, abandoned }) =>
            ended(span, lost ? { what: 'nothing', text: 'lost' } : outcome, abandoned ? 'the handler had not ended when the grace was over' : '');
        this.slotConnections = new SlotConnections({ connection: options.connection, applicationName, log });
        this.hand.host = this.#host();
        this.claims = new Claims({ options, hand: this.hand, configuration, log, pace, due: this.due, info: this.presence.now });
    }

    // Returns the worker's functions that attempts need.
    #host() {
        return {
            transaction: TRANSACTION,
            ask: async (client, text, values) => (await client.query({ text, values, types })).rows,
            client: (attempt) => this.#clientOf(attempt),
            flush: (attempt) => this.reports.flush(attempt),
            progressed: ({ row, progressNumber, progress }) => this.heartbeats.progress(row.lease, progressNumber, progress),
            logged: ({ row }, line) => this.heartbeats.line(row.id, row.lease, line),
            writeLines: (attempt) => within(this.#every(attempt.row), this.reports.writeLines(attempt)),
            verify: (attempt) => this.reports.verify(attempt),
            settle: (attempt) => this.hand.settle(attempt),
            resume: (attempt) => this.hand.resume(attempt),
            ended: (attempt) => this.hand.ended(attempt),
        };
    }

    // Returns the attempt's connection, and replaces it if it broke between two calls.
    #clientOf(attempt) {
        if (attempt.connected && !this.slotConnections.has(attempt.connected)) attempt.client = attempt.connected = undefined;
        attempt.client ??= this.slotConnections.take(attempt.signal).then(
            (client) => (attempt.connected = client),
            (error) => {
                attempt.client = undefined;
                throw error;
            });
        return attempt.client;
    }

    // Returns the seconds between two heartbeats of a job.
    #every({ heartbeat_seconds: seconds }) {
        const { heartbeatTimeout = Infinity } = this.options;
        return Math.min(seconds, heartbeatTimeout / 3);
    }

    #shortest() {
        const { heartbeatTimeout = Infinity, heartbeatInterval = Infinity } = this.options;
        return Math.min(heartbeatTimeout / 3, heartbeatInterval, ...this.hand.attempts.map(({ row }) => this.#every(row)));
    }

    #handle(attempt) {
        const handler = this.options.handlers[attempt.row.kind];
        const { span, value } = processing(attempt.row, this.options, async () => handling(new Job(attempt), handler));
        attempt.span = span;
        value.then((result) => this.hand.returned(attempt, result), (error) => this.hand.threw(attempt, error))
            .finally(() => this.#giveBack(attempt));
    }

    // Returns the connection after the handler has ended, including calls that the handler did not await.
    async #giveBack(attempt) {
        if (!attempt.client) return;
        await attempt.exclusive;
        const client = await attempt.client.catch(() => null);
        if (client) this.slotConnections.give(client);
    }

    // ---- start

    /** Resolves when the worker is running. Rejects if the first connections fail. */
    async start() {
        if (this.#started) throw new Error('the worker has already been started');
        this.#started = true;
        try {
            await watch(this);
            await this.claims.open();
            await this.heartbeats.open();
            await this.#mayBeWoken();
        } catch (error) {
            await this.#close();
            this.#settle.reject(error);
            throw error;
        }
        const { queue, kinds, slots } = this.options;
        this.log.info(`serves queue ${queue} with ${slots} slots, kinds ${kinds.map((kind) => kind || "'' (jobs without a kind)").join(', ')}; ` +
            `leaves jobs of other kinds${kinds.includes('') ? '' : ', and jobs without a kind,'} to other workers`);
        this.claims.start().catch((error) => this.#fail(error));
        if (this.#stopping) this.#end();
    }

    async #mayBeWoken() {
        try {
            await this.heartbeats.query(WAKE, [this.id]);
        } catch (error) {
            if (sqlstate(error) === '42883') {
                throw Object.assign(new Error('jobq is not installed, or search_path does not find it: run CREATE EXTENSION jobq in ' +
                    `this database (${error.message})`, { cause: error }), { code: error.code });
            }
            if (sqlstate(error) !== '55000') throw error;
            this.log.info(`waits are short because they cannot be woken up: ${messageOf(error)}`);
            this.claims.waitShortly(SHORT_WAIT);
        }
    }

    // Ends the wait of the claims, because a slot is free in a queue that is not part of the wait.
    #endWait() {
        this.heartbeats.query(WAKE, [this.id]).catch((error) => {
            // Without preload, waits are short.
            if (sqlstate(error) !== '55000') this.log.warn(`a wait could not be ended: ${messageOf(error)}`);
        });
    }

    /**
     * Changes how many handlers may run at the same time, from 0 to the option slots. Running handlers continue. With 0, the worker
     * claims no jobs until the next call.
     */
    setSlots(slots) {
        if (!Number.isInteger(slots) || slots < 0 || slots > this.options.slots) {
            throw new OptionError(`setSlots() needs a whole number from 0 to ${this.options.slots}, but got ${shown(slots)}`);
        }
        this.hand.setSlots(slots);
        // A wait that continued would consume the wake-up of a job that another worker could claim.
        if (slots === 0 && this.claims.over && !this.#stopping) this.#endWait();
    }

    // ---- end

    /** Stops claiming. Handlers may continue for the grace period, which a second call ends. Resolves like the property stopped. */
    stop() {
        if (this.#stopping) {
            if (!this.#hurry.signal.aborted) this.log.info('stopping at once');
            this.#hurry.abort();
        } else {
            this.#stopping = true;
            if (this.claims.over) this.#end();
            else if (!this.#started) this.#settle.resolve(true);
        }
        return this.stopped;
    }

    #fail(error) {
        if (!this.#error) this.log.error(`ends with an error: ${messageOf(error)}`);
        this.#error ??= error;
        if (!this.#stopping) this.stop();
        this.#hasFailed();
    }

    async #end() {
        this.log.info(`stopping: no more claims, ${this.options.grace} s for ${this.hand.size} jobs in hand`);
        this.claims.stop();
        this.hand.releasePrefetched();
        this.#wakeUp();
        const over = this.claims.over.catch(() => {}).then(() => this.#emptied());
        const unwoken = this.#emptied().then(() => within(WAKES_AFTER, over)).then(() => this.claims.away || over);
        await Promise.race([over, unwoken, sleep(this.options.grace, this.#hurry.signal)]);
        this.#hurry.abort();
        await this.#giveBackAll();
        await within(LAST_REPORTS, over);
        if (this.hand.size === 0) await within(LAST_WORD, this.#sayGoodbye());
        await this.#close();
        const left = this.hand.attempts;
        for (const { span } of left) ended(span, { what: 'nothing', text: 'uncertain' }, 'the worker ended before the report had arrived');
        if (left.length) this.log.error(`not reported: ${left.map(({ row }) => `job ${row.id} of kind ${row.kind}`).join(', ')}`);
        this.log.info('stopped');
        if (this.#error) this.#settle.reject(this.#error);
        else this.#settle.resolve(left.length === 0);
    }

    async #wakeUp() {
        let woken = false;
        this.claims.over.catch(() => {}).then(() => { woken = true; });
        while (!woken) {
            try {
                await this.heartbeats.query(WAKE, [this.id]);
                return;
            } catch (error) {
                if (sqlstate(error) === '55000') return;
            }
            await sleep(0.1);
        }
    }

    // The server forgets the worker at once. Without this, it takes a minute.
    async #sayGoodbye() {
        await this.heartbeats.query(HEARTBEAT_MANY, [[], [], this.presence.last]).catch(() => {});
    }

    async #emptied() {
        while (this.hand.size) await this.hand.changed();
    }

    // Called when the grace period ends.
    async #giveBackAll() {
        if (this.hand.size === 0) return;
        for (const attempt of this.hand.running) attempt.stop('stopping');
        await within(LAST_LOOK, this.#emptied());
        for (const attempt of this.hand.running) this.hand.abandon(attempt);
        await within(LAST_REPORTS, this.#emptied());
    }

    async #close() {
        this.hand.leave();
        this.reports.end();
        this.claims.connection.abandon();
        this.slotConnections.close();
        await this.heartbeats.close();
        leave(this);
    }
}
