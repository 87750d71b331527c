// The worker's view of a claimed job: why the handler should stop, what was reported, and the outcome. job.js is the handler's
// view.
import { Cancelled } from './errors.js';
import { toLine } from './lines.js';
import { toJson } from './values.js';

export class Attempt {
    outcome = null;         // set when the handler has ended or was given up
    running = false;        // whether the handler is running
    cancelled = undefined;  // why the handler should stop
    state = undefined;      // completed, waiting, or lost: no report is needed
    completing = false;     // the handler's transaction is about to complete the job, so heartbeat answers do not matter
    progress = undefined;   // JSON that no heartbeat has reported yet
    progressNumber = 0;
    logged = false;         // there are or were log lines, so the worker makes sure before the report that they have been sent
    client = undefined;     // promise of the connection of the slot
    connected = undefined;  // that connection
    abandoned = false;      // the handler was still running when the grace period ended
    freed = false;          // the slot has been freed for another job
    exclusive = undefined;  // promise that resolves after the last transaction of the handler
    lost = false;           // a report has found the lease lost
    result = undefined;     // the result with which the handler's transaction has completed the job
    span = undefined;
    #abort = null;

    /** row: a job in the result of jobq_claim_json. host: connections and reports, provided by the worker or the test kit. */
    constructor(row, host) {
        this.row = row;
        this.host = host;
    }

    get signal() {
        this.#abort ??= new AbortController();
        if (this.cancelled && !this.#abort.signal.aborted) this.#abort.abort(new Cancelled(this.cancelled));
        return this.#abort.signal;
    }

    /** Asks the handler to stop. The first reason is kept, except that "lost" replaces any other. */
    stop(reason) {
        if (this.cancelled && reason !== 'lost') return;
        this.cancelled = reason;
        if (reason === 'lost') this.state ??= 'lost';
        this.#abort?.abort(new Cancelled(reason));
    }

    /** Throws Cancelled if the handler should stop. */
    check() {
        if (this.cancelled) throw new Cancelled(this.cancelled);
    }

    setProgress(value) {
        this.progress = toJson(value, 'the progress');
        this.progressNumber += 1;
        this.host.progressed(this);
    }

    log(text, level) {
        this.host.logged(this, toLine(text, level));
        this.logged = true;
    }

    progressReported(number) {
        if (number === this.progressNumber) this.progress = undefined;
    }

    get over() {
        return this.state !== undefined;
    }
}
