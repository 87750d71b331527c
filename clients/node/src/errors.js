// What handlers throw to say what shall become of a job, and what is thrown at them.

// Where the handler throws it: a report with anything else could not be sent.
function checkDelay(name, delay) {
    if (!['number', 'string'].includes(typeof (delay ?? 0))) {
        throw new TypeError(`${name} must be a number of seconds or an interval's text, but is a ${typeof delay}`);
    }
}

/** The attempt has failed: retried after retryIn (seconds or an interval's text) or its backoff; with retry false not at all. */
export class Fail extends Error {
    /** @param {string} message @param {{retryIn?: number | string, retry?: boolean, cause?: unknown}} [how] */
    constructor(message, { retryIn, retry = true, ...options } = {}) {
        super(message, options);
        checkDelay('retryIn', retryIn);
        if (typeof (retry ?? true) !== 'boolean') throw new TypeError(`retry must be true or false, but is a ${typeof retry}`);
        this.name = 'Fail';
        this.retryIn = retryIn;
        this.retry = retry;
    }
}

/** The job is given back for later; the attempt is not counted. */
export class Snooze extends Error {
    /** @param {number | string} delay seconds, or an interval's text */
    constructor(delay) {
        checkDelay('delay', delay);
        super(`for ${delay}${typeof delay === 'number' ? ' s' : ''}`);
        this.name = 'Snooze';
        this.delay = delay;
    }
}

/** The job is given back, claimable at once; the attempt is not counted. */
export class Release extends Error {
    constructor() {
        super('the job is given back');
        this.name = 'Release';
    }
}

const REASONS = {
    cancel: 'the job was asked to be cancelled',
    lost: 'the lease of the job is lost',
    stopping: 'the worker stops',
};

/** The handler shall stop; reason says why. Also the reason of the job's AbortSignal. */
export class Cancelled extends Error {
    /** @param {'cancel' | 'lost' | 'stopping'} reason */
    constructor(reason) {
        super(REASONS[reason]);
        this.name = 'Cancelled';
        this.reason = reason;
    }
}

/** The server has given the job back, and it is claimed anew when what it waits for is there. Not to be caught: who does is told again. */
export class Suspended extends Error {
    constructor(what) {
        super(`the job waits for ${what}, without a worker`);
        this.name = 'Suspended';
    }
}

/** A wrong option; the message names it, its value, and what is allowed. */
export class OptionError extends Error {
    constructor(message) {
        super(message);
        this.name = 'OptionError';
    }
}
