// Decides whether a worker waits in the server or polls. If a pooler has fewer connections than there are workers, waits occupy
// the connections that heartbeats need: see "Small pools" in clients/CONTRACT.md of the source tree. Needs no server.
import { now } from './timing.js';

export const SHORT_WAIT = 2;    // seconds: longest wait of a worker that cannot be woken or that shares connections
const LONGEST_POLL = 1;
export const LEAST_LATE = 0.25;
const MOST_LATE = 1;
const CALM = 60;                // seconds without a late answer, times 1 to 2 at random, until waits resume

export class Pace {
    pooled = false;
    #pollsUntil = null;
    #hasWarned = false;

    /** interval(): returns the seconds between heartbeats, or Infinity if unknown. */
    constructor({ log, interval, clock = now }) {
        Object.assign(this, { log, interval, clock });
    }

    /** Notes how long an answer took. Called after every statement except waits. */
    answered(seconds) {
        if (!this.pooled || seconds <= LEAST_LATE) return;
        if (seconds <= Math.max(LEAST_LATE, Math.min(this.interval() / 4, MOST_LATE))) return;
        if (this.#pollsUntil === null) {
            this.log[this.#hasWarned ? 'info' : 'warn'](`answers take ${seconds.toFixed(1)} s behind the connection pooler, whose pool ` +
                'may have fewer connections than there are workers: polling instead of waiting');
        }
        this.#hasWarned = true;
        this.#pollsUntil = this.clock() + CALM * (1 + Math.random());
    }

    /** Returns the longest pause between polls, or undefined if the worker waits in the server. */
    longestPoll() {
        if (this.#pollsUntil !== null && this.clock() >= this.#pollsUntil) {
            this.#pollsUntil = null;
            this.log.info('answers are fast again: waiting instead of polling');
        }
        return this.#pollsUntil === null ? undefined : LONGEST_POLL;
    }
}
