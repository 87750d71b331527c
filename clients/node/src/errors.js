// Errors that handlers throw to decide the outcome of a job, and errors that are thrown in handlers that should stop.

// Rejects an invalid delay when the handler creates the error, because the worker could not report it later.
function checkDelay(name, delay) {
    if (!['number', 'string'].includes(typeof (delay ?? 0))) {
        throw new TypeError(`${name} must be a number of seconds or an interval's text, but is a ${typeof delay}`);
    }
}

/**
 * The attempt has failed. The job is retried after retryIn (seconds or interval text), by default after its backoff; with retry:
 * false, never.
 */
export class Fail extends Error {
    /** @param {string} message @param {{retryIn?: number | string, retry?: boolean, cause?: unknown}} [how] */
    constructor(message, how = {}) {
        checkNames(how, ['retryIn', 'retry', 'cause'], 'Fail');
        const { retryIn, retry = true, ...options } = how;
        super(message, options);
        checkDelay('retryIn', retryIn);
        if (typeof (retry ?? true) !== 'boolean') throw new TypeError(`retry must be true or false, but is a ${typeof retry}`);
        this.name = 'Fail';
        this.retryIn = retryIn;
        this.retry = retry;
    }
}

/** Gives the job back, to run again after the delay. The attempt is not counted. */
export class Snooze extends Error {
    /**
     * @param {number | string} delay seconds, or interval text
     */
    constructor(delay) {
        checkDelay('delay', delay);
        super(`for ${delay}${typeof delay === 'number' ? ' s' : ''}`);
        this.name = 'Snooze';
        this.delay = delay;
    }
}

/** Gives the job back, to run again at once, for example on another worker. The attempt is not counted. */
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

/** The handler should stop; reason contains the cause. Also the abort reason of the job's AbortSignal. */
export class Cancelled extends Error {
    /** @param {'cancel' | 'lost' | 'stopping'} reason */
    constructor(reason) {
        super(REASONS[reason]);
        this.name = 'Cancelled';
        this.reason = reason;
    }
}

/**
 * The server has given the job back, and it is claimed again when it can continue. Do not catch this error; later calls throw it
 * again.
 */
export class Suspended extends Error {
    constructor(what) {
        super(`the job waits for ${what}, without a worker`);
        this.name = 'Suspended';
    }
}

/** An invalid option. The message contains the option's name, its value, and the allowed values. */
export class OptionError extends Error {
    constructor(message) {
        super(message);
        this.name = 'OptionError';
    }
}

/**
 * Throws if the options of a function are not an object, or if one of them is unknown. The message does not show the options, because
 * they may be a misplaced payload.
 */
export function checkNames(options, known, what) {
    if (typeof options !== 'object' || options === null || Array.isArray(options)) {
        throw new OptionError(`the options of ${what} must be an object, but are of type ${Array.isArray(options) ? 'array' : typeof options}`);
    }
    const unknown = Object.keys(options).find((option) => !known.includes(option));
    if (unknown !== undefined) throw new OptionError(`unknown option ${unknown} of ${what}; the options are ${known.join(', ')}`);
}
