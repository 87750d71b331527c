// The claims of a worker. A single connection claims jobs, completes finished jobs with the next claim, and waits in the server
// for jobs.
import { Connection, isAgain, isBroken, isCanceled, isLostLease, isPooled } from './connection.js';
import { CLAIMS, newDue } from './due.js';
import { SHORT_WAIT } from './pace.js';
import {
    CLAIM, CLAIM_ANY, COMPLETE_AND_CLAIM, COMPLETE_AND_CLAIM_ANY, MAY_LOOK, OTHER_KINDS, WAIT, WAIT_ANY, claimValues, leasesOf, resultsOf, waitValues,
} from './statements.js';
import { now, pauseAfter, sleep } from './timing.js';
import { messageOf } from './values.js';

const FIRST_POLL = 0.05;
const LOOK_EVERY = 600;     // seconds between checks for jobs of other kinds

export class Claims {
    away = false;       // waiting for jobs or for a connection, so the other connection reports finished jobs
    over = null;        // promise that resolves when no more claims are made
    #stopping = new AbortController();
    #wait;
    #hasToldOfTimeout = false;
    #lookAt = 0;        // time of the next check for jobs of other kinds
    #otherKinds = '';
    #collisions = 0;    // number of collisions since the last successful statement
    #lost = [];         // job IDs from a warning of jobq_claim_json

    /**
     * hand: the jobs that the worker has in hand (hand.js). due: the next signs of life (due.js). info: the argument worker_info
     * (presence.js).
     */
    constructor({ options, hand, configuration, log, pace, due = newDue(), info = null, lookEvery = LOOK_EVERY }) {
        Object.assign(this, { options, hand, log, pace, due, info, lookEvery });
        this.#wait = options.waitTimeout;
        this.connection = new Connection({
            name: 'claims', configuration, log, prepare: options.prepare, answered: (seconds) => pace.answered(seconds),
            expected: (seconds) => this.#expect(seconds),
            notice: (notice) => isLostLease(notice) && this.#lost.push(...notice.detail?.match(/\d+/g) ?? []),
        });
    }

    async open() {
        const client = await this.connection.open();
        this.pace.pooled = this.options.pollInterval === undefined && await isPooled(client);
        if (this.pace.pooled) this.waitShortly(SHORT_WAIT);
    }

    /** Limits the length of waits, because they cannot be woken. */
    waitShortly(longest) {
        this.#wait = Math.min(this.#wait, longest);
    }

    start() {
        this.over = this.#run().finally(() => { this.away = true; this.#expect(Infinity); this.hand.goAway(); });
        return this.over;
    }

    /** Starts no more claims. A wait in the server must be ended with jobq_wake. */
    stop() {
        this.#stopping.abort();
        this.#expect(Infinity);
        this.hand.wake();
    }

    // A worker that is stopping needs no claims.
    #expect(seconds) {
        this.due[CLAIMS] = this.#stopping.signal.aborted ? Infinity : now() + seconds;
    }

    async #run() {
        let polls = 0;
        while (!this.#stopping.signal.aborted) {
            // Report handlers that end at the same moment together.
            await new Promise(setImmediate);
            if (this.#stopping.signal.aborted) return;
            const room = Math.min(this.options.batch, this.hand.room());
            if (room <= 0) {
                this.hand.goAway();     // the other workers of a cluster may have all slots
                this.#expect(Infinity);
                await this.hand.changed();
                continue;
            }
            const rooms = this.hand.rooms();
            const done = this.hand.takeDone();
            const rows = await this.#claim(done, room, rooms);
            if (rows?.length) polls = 0;
            else if (rows && this.hand.done === 0) await this.#rest(polls++, room);
        }
    }

    // Returns the claimed jobs, or undefined if the claim must be repeated after an error that has been handled.
    async #claim(done, room, rooms) {
        const values = claimValues(this.options, room, this.info, rooms);
        const [claim, completeAndClaim] = rooms ? [CLAIM_ANY, COMPLETE_AND_CLAIM_ANY] : [CLAIM, COMPLETE_AND_CLAIM];
        this.#lost = [];
        let rows;
        try {
            [{ jobs: rows }] = done.length
                ? await this.connection.query(completeAndClaim, [...values, ...leasesOf(done), resultsOf(done)])
                : await this.connection.query(claim, values);
        } catch (error) {
            return this.#failed(error, done);
        }
        this.#collisions = 0;
        if (rows.length) this.#expect(Infinity);    // a handler that blocks this thread is not stuck
        for (const attempt of done.filter(({ row }) => this.#lost.includes(row.id))) this.hand.lost(attempt);
        this.hand.claimed(rows, done, this.#stopping.signal.aborted);
        return rows;
    }

    async #failed(error, done) {
        if (!isAgain(error) && !done.length) throw error;
        // Report each completion alone to find out whether the server rejects one of them or the claim itself.
        for (const { outcome } of done) isBroken(error) ? (outcome.sent = true) : (outcome.alone = !isAgain(error));
        this.hand.report(done);
        if (isAgain(error)) await this.#absent(() => this.#again(error));
    }

    // Handles an error after which the claim can be repeated. A broken connection pauses in reopen(), and a collision pauses
    // here.
    async #again(error) {
        if (isBroken(error)) {
            await this.#reconnect();
            return;
        }
        this.log.warn(`a claim is tried again: ${messageOf(error)}`);
        this.#collisions += 1;
        await sleep(pauseAfter(this.#collisions), this.#stopping.signal);
    }

    async #reconnect() {
        while (!this.#stopping.signal.aborted) {
            try {
                await this.connection.reopen();
                return;
            } catch {
                // reopen() has logged the error, and pauses longer the next time.
            }
        }
    }

    async #rest(polls, room) {
        await this.#absent(() => this.#lookForOtherKinds());
        const pollInterval = this.options.pollInterval ?? this.pace.longestPoll();
        if (pollInterval !== undefined) {
            const pause = Math.min(FIRST_POLL * 2 ** Math.min(polls, 20), pollInterval);
            this.#expect(pause);
            await this.#absent(() => sleep(pause, this.#stopping.signal));
            return;
        }
        if (this.hand.room() > 0) await this.#absent(() => this.#sleepInServer(room));     // setSlots(0) may have come during the claim
    }

    async #sleepInServer(room) {
        try {
            const rooms = this.hand.rooms(true);
            await this.connection.query(rooms ? WAIT_ANY : WAIT, waitValues(this.options, room, this.#wait, this.info, rooms), this.#wait);
        } catch (error) {
            if (isCanceled(error)) await this.#endedByServer(error);
            else if (isAgain(error)) await this.#again(error);
            else throw error;
        }
    }

    // Handles a canceled wait in the same way as a wait that has ended and logs the reason once.
    async #endedByServer(error) {
        if (this.#hasToldOfTimeout) return;
        this.#hasToldOfTimeout = true;
        const value = await this.#asked("SELECT current_setting('statement_timeout') AS value").then(([row]) => row.value, () => 'unknown');
        this.log.warn('the server canceled a wait because it cancels each statement after statement_timeout, which is ' +
            `${value} for this role and database: ${messageOf(error)}`);
    }

    #asked(statement, values = []) {
        return this.connection.query(statement, values);
    }

    // Logs which kinds of waiting jobs this worker leaves to others, if that has changed.
    async #lookForOtherKinds() {
        if (now() < this.#lookAt) return;
        this.#lookAt = Infinity;
        try {
            if (!(await this.#asked(MAY_LOOK))[0].may_look) return;
            const rows = await this.#asked(OTHER_KINDS, [
                [...this.options.queues?.keys() ?? [this.options.queue]], [...this.options.patterns?.keys() ?? []], this.options.kinds]);
            this.#lookAt = now() + this.lookEvery;
            const kinds = rows.map(({ kind }) => (kind ? `of kind ${JSON.stringify(kind)}` : 'without a kind')).join(', ');
            if (kinds && kinds !== this.#otherKinds) {
                this.log.warn(`queue ${this.options.queue} has waiting jobs that this worker does not claim: ${kinds}`);
            }
            this.#otherKinds = kinds;
        } catch (error) {
            // A router has other tables. The next wait notices a broken connection.
            if (isAgain(error)) this.#lookAt = now() + this.lookEvery;
        }
    }

    async #absent(work) {
        this.away = true;
        this.hand.goAway();
        try {
            await work();
        } finally {
            this.away = false;
        }
    }
}
