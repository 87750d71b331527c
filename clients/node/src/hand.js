// The jobs that a worker has in hand: claimed, and not reported yet. Where claims, handlers, heartbeats and reports meet. No server.
import { nothing, ofError, ofReturn, release } from './outcome.js';
import { Attempt } from './attempt.js';
import { Collisions } from './collisions.js';
import { nameOf } from './logger.js';

export class Hand {
    #attempts = new Map();  // by lease: a job may come again before its first handler has ended
    #done = [];             // completions that wait for the next claim
    #busy = 0;              // slots that are taken
    #waiters = [];
    #collisions = new Collisions();

    /** heartbeats, reports: theirs; away(): claims will not take completions along; run(attempt): starts the handler. */
    constructor({ slots, log, heartbeats, reports, away, run, every }) {
        Object.assign(this, { slots, log, heartbeats, reports, away, run, every });
    }

    get size() {
        return this.#attempts.size;
    }

    get done() {
        return this.#done.length;
    }

    get attempts() {
        return [...this.#attempts.values()];
    }

    get running() {
        return this.attempts.filter((attempt) => attempt.running);
    }

    /** Slots that are free, those of completions that the next claim takes along included. */
    room() {
        return this.slots - this.#busy + this.#done.length;
    }

    /** When something has ended, or somebody calls wake(). */
    changed() {
        return new Promise((resolve) => this.#waiters.push(resolve));
    }

    wake() {
        for (const resolve of this.#waiters.splice(0)) resolve();
    }

    // ---- claims

    takeDone() {
        const done = this.#done.splice(0);
        this.#told(done, true);
        return done;
    }

    /** done: what was completed on the way. stopping: what was claimed goes back at once. */
    claimed(rows, done, stopping) {
        const attempts = rows.map((row) => new Attempt(row, this.host));
        this.#heartbeat(done, rows);
        this.#answered(done);
        for (const attempt of attempts) {
            this.#attempts.set(attempt.row.lease, attempt);
            this.#busy += 1;
            if (!stopping) continue;
            attempt.running = false;
            attempt.outcome = release();
        }
        if (stopping) this.reports.add(attempts);
        else attempts.forEach(this.run);
    }

    /** Claims are away: completions go the other way, behind heartbeats or before them. */
    goAway() {
        this.reports.add(this.#done.splice(0));
    }

    /** What a claim was to take along. */
    report(attempts) {
        this.#told(attempts, false);
        this.reports.add(attempts);
    }

    // ---- handlers

    returned(attempt, value) {
        this.#end(attempt, this.#collisions.decide(attempt.row.id, ofReturn(value, attempt.state)));
    }

    threw(attempt, error) {
        this.#end(attempt, this.#collisions.decide(attempt.row.id, ofError(error, attempt.cancelled, attempt.state)));
    }

    /** Its own transaction is about to lock its row; false: has come to its end. */
    told(attempt, told) {
        this.#told([attempt], told);
    }

    /** In its own transaction, or by waiting: no heartbeats any more, though the handler still runs. */
    ended(attempt) {
        this.#heartbeat([attempt], []);
    }

    /** The handler goes on, whoever listens: its job is given back. */
    abandon(attempt) {
        attempt.abandoned = true;
        if (attempt.over) {
            attempt.outcome = nothing(attempt.state);
            this.#answered([attempt]);
            return;
        }
        attempt.outcome = release();
        this.reports.add([attempt]);
    }

    // ---- answers

    /** To reports: slots are free. */
    reported(attempts) {
        this.#heartbeat(attempts, []);
        this.#answered(attempts);
    }

    /** To a report: the lease is lost, and so is what the handler has done. */
    lost(attempt) {
        this.log.warn(`${nameOf(attempt.row)}: the lease is lost, and so is its report`);
        attempt.lost = true;
    }

    /** To a heartbeat. One whose report was handed over is told by that. */
    heard(lease, state) {
        const attempt = this.#attempts.get(lease);
        if (!attempt || attempt.outcome || attempt.completing || attempt.over) return;
        if (state === 'cancel') attempt.stop('cancel');
        else if (state !== 'finished') {
            this.log.warn(`${nameOf(attempt.row)}: the lease is lost`);
            attempt.stop('lost');
        }
    }

    progressed(lease, number) {
        this.#attempts.get(lease)?.progressReported(number);
    }

    /** For what an attempt ends with, when that is known. */
    settled() {}

    #end(attempt, outcome) {
        attempt.running = false;
        if (attempt.outcome) {          // abandoned: its job is another worker's by now
            this.#free(attempt);
            this.wake();
            return;
        }
        attempt.outcome = outcome;
        this.#logEnd(attempt, outcome);
        if (outcome.what === 'nothing') this.#endedWithout(attempt);
        else if (outcome.what === 'complete' && attempt.progress === undefined && !this.away()) this.#done.push(attempt);
        else this.reports.add([attempt]);
        this.wake();
    }

    #logEnd({ row }, { what, text, cancelled, collision }) {
        if (what === 'fail' && cancelled) this.log.info(`${nameOf(row)}: cancelled`);
        else if (what === 'fail') this.log.warn(`${nameOf(row)}: failed: ${text}`);
        else if (what === 'release' && collision) this.log.info(`${nameOf(row)}: collided with another transaction, is given back: ${text}`);
    }

    #endedWithout(attempt) {
        if (attempt.outcome.text === 'lost' && attempt.state !== 'lost') this.log.warn(`${nameOf(attempt.row)}: the lease is lost`);
        this.reported([attempt]);
    }

    // One message for both: it goes to another thread.
    #heartbeat(ended, rows) {
        if (!ended.length && !rows.length) return;
        this.heartbeats.change(ended.map(({ row }) => row.lease),
            rows.map((row) => ({ id: row.id, lease: row.lease, every: this.every(row) })));
    }

    #told(attempts, told) {
        if (attempts.length) this.heartbeats.told(attempts.map(({ row }) => row.lease), told);
    }

    #answered(attempts) {
        if (!attempts.length) return;
        this.#forget(attempts);
        for (const attempt of attempts) this.settled(attempt);
    }

    #forget(attempts) {
        for (const attempt of attempts) {
            this.#attempts.delete(attempt.row.lease);
            if (!attempt.running) this.#free(attempt);
        }
        this.wake();
    }

    #free(attempt) {
        if (attempt.freed) return;
        attempt.freed = true;
        this.#busy -= 1;
    }
}
