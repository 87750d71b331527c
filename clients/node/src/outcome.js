// Derives the report of a job from the value that its handler returned or the error that it threw. Needs no server and no clock.
import { isCollision, isLostLease, sqlstate } from './connection.js';
import { Cancelled, Fail, Release, Snooze, Suspended } from './errors.js';
import { describe, toJson, toText } from './values.js';

/**
 * The report of an attempt. what: complete, fail, snooze, release, or nothing; for nothing, text says why: lost, waiting,
 * completed. sent: it was sent before, but the answer is unknown. alone: a batch with it was rejected or collided, so it is sent
 * alone. collision: the handler's transaction was rolled back because of another transaction.
 */
const outcome = (what, rest) => ({ what, text: '', sent: false, alone: false, ...rest });

export const nothing = (text) => outcome('nothing', { text });
export const release = () => outcome('release');
export const failed = (error, how) => outcome('fail', { text: describe(error), error, ...how });

/**
 * Returns the outcome of a handler that returned. state: completed, waiting, or lost if the attempt ended earlier; otherwise
 * undefined.
 */
export function ofReturn(value, state) {
    if (state) return nothing(state);
    if (value === undefined) return outcome('complete', { result: null });
    try {
        return outcome('complete', { result: toJson(value, 'the result') });
    } catch (error) {
        return failed(error);
    }
}

/** Returns the outcome of a handler that threw. reason: why the handler was asked to stop, if it was. */
export function ofError(error, reason, state) {
    if (state) return nothing(state);
    if (reason === 'lost') return nothing('lost');
    try {
        return ofThrown(error, reason);
    } catch {
        // For example a Proxy or an object with a getter that throws.
        return failed(new Error('the handler threw a value that cannot be converted to text'));
    }
}

function ofThrown(error, reason) {
    if (error instanceof Suspended) return nothing('waiting');
    if (isLostLease(error)) return nothing('lost');
    if (error instanceof Snooze) return outcome('snooze', { delay: error.delay });
    if (error instanceof Release) return release();
    if (error instanceof Fail) return failed(error, { text: toText(error.message), retryIn: error.retryIn, retry: error.retry });
    if (error instanceof Cancelled || (reason && isStop(error))) return ofStop(reason ?? error.reason);
    return failed(error, causes(error).some(isCollision) ? { collision: true } : {});
}

/** Returns the outcome to report instead of a rejected one, or null if there is nothing to report. */
export function afterRefusal(refused, error) {
    const { what, text, retry, retryIn, sent, details } = refused;
    const delay = what === 'fail' ? retryIn : undefined;
    if (sqlstate(error) === '22P05' && what === 'fail' && NOT_ASCII.test(text + (details ?? ''))) {
        return { ...refused, text: text.replace(NOT_ASCII_ALL, '?'), details: details?.replace(NOT_ASCII_ALL, '?') };
    }
    if (details !== undefined) return { ...refused, details: undefined };   // perhaps the server rejects only the details
    if (!refused.refused) {
        return outcome('fail', { text: `the ${REPORTS[what]} was refused: ${describe(error)}`, error, retry, retryIn: delay, sent, alone: true, refused: true });
    }
    return delay === undefined || delay === null ? null : { ...refused, retryIn: undefined };
}

const REPORTS = { complete: 'result', fail: 'failure', snooze: 'snooze', release: 'release' };
const NOT_ASCII = /[^\0-\x7f]/u;
const NOT_ASCII_ALL = /[^\0-\x7f]/gu;

/** Returns whether a heartbeat's answer confirms that an earlier report has arrived. gone: the queue keeps no finished jobs. */
export const isFinished = (state) => state === 'finished' || state === 'gone';

// Names and codes of errors that functions throw when their AbortSignal is aborted, including errors of libraries.
const ABORTS = ['AbortError', 'CanceledError', 'ABORT_ERR', 'ERR_CANCELED'];
const DEEPEST = 8;

const isStop = (error) => causes(error)
    .some((cause) => cause instanceof Cancelled || ABORTS.includes(cause.name) || ABORTS.includes(cause.code));

/** Returns the error and its chain of causes. */
export function causes(error) {
    const found = [];
    for (let cause = error; cause && found.length < DEEPEST; cause = cause.cause) found.push(cause);
    return found;
}

function ofStop(reason) {
    if (reason === 'lost') return nothing('lost');
    return reason === 'stopping' ? release() : outcome('fail', { text: 'cancelled', cancelled: true });
}
