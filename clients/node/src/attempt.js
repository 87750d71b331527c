// A claimed job in the worker's hand: why it shall stop, what was reported of it, what it ended with. job.js is the handler's side.
import { Cancelled } from './errors.js';
import { toJson } from './values.js';

export class Attempt {
    outcome = null;         // when the handler has ended, or was given up
    running = true;         // the handler has not ended
    cancelled = undefined;  // why the handler should stop
    state = undefined;      // completed, waiting, lost: there is nothing to report
    completing = false;     // its own transaction is about to complete it: what heartbeats hear is no news
    progress = undefined;   // JSON that no heartbeat has told the server
    progressNumber = 0;
    client = undefined;     // a promise of the connection of its slot
    connected = undefined;  // that connection
    abandoned = false;      // the handler had not ended when the grace was over
    freed = false;          // its slot is another one's
    exclusive = undefined;  // when the last of the handler's transactions has ended
    lost = false;           // its report has found that the lease is
    result = undefined;     // of what its own transaction has completed it with
    span = undefined;
    #abort = null;

    /** row: as jobq_claim returned it. host: connections and reports, of the worker or of the test kit. */
    constructor(row, host) {
        this.row = row;
        this.host = host;
    }

    get signal() {
        this.#abort ??= new AbortController();
        if (this.cancelled && !this.#abort.signal.aborted) this.#abort.abort(new Cancelled(this.cancelled));
        return this.#abort.signal;
    }

    /** The first reason stays, but lost replaces the others. */
    stop(reason) {
        if (this.cancelled && reason !== 'lost') return;
        this.cancelled = reason;
        if (reason === 'lost') this.state ??= 'lost';
        this.#abort?.abort(new Cancelled(reason));
    }

    /** Throws when the handler should stop. */
    check() {
        if (this.cancelled) throw new Cancelled(this.cancelled);
    }

    setProgress(value) {
        this.progress = toJson(value, 'the progress');
        this.progressNumber += 1;
        this.host.progressed(this);
    }

    progressReported(number) {
        if (number === this.progressNumber) this.progress = undefined;
    }

    get over() {
        return this.state !== undefined;
    }
}
