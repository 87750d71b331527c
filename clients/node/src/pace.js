// Whether a worker waits in the server or polls. Behind a pooler that has fewer connections than there are workers, waits take the
// connections from heartbeats: see "Small pools" in clients/README.md of the sources. No server.
import { now } from './timing.js';

export const SHORT_WAIT = 2;    // seconds: longest wait of a worker that cannot be woken, or that shares connections
const LONGEST_POLL = 1;
export const LEAST_LATE = 0.25;
const MOST_LATE = 1;
const CALM = 60;                // the worker waits again when no answer has been late for this time, or for up to twice as long

export class Pace {
    pooled = false;
    #pollsUntil = null;
    #hasWarned = false;

    /** interval(): seconds between heartbeats, Infinity if unknown. */
    constructor({ log, interval, clock = now }) {
        Object.assign(this, { log, interval, clock });
    }

    /** Called after each answer but that of a wait. */
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

    /** The longest pause between polls; undefined: the worker waits in the server. */
    longestPoll() {
        if (this.#pollsUntil !== null && this.clock() >= this.#pollsUntil) {
            this.#pollsUntil = null;
            this.log.info('answers are fast again: waiting instead of polling');
        }
        return this.#pollsUntil === null ? undefined : LONGEST_POLL;
    }
}
