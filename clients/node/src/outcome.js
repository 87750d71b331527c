// What becomes of a job, from what its handler returned or threw. No server, no clock.
import { isCollision, isLostLease, sqlstate } from './connection.js';
import { Cancelled, Fail, Release, Snooze, Suspended } from './errors.js';
import { describe, toJson, toText } from './values.js';

/**
 * The report of an attempt. what: complete, fail, snooze, release, or nothing, of which text says why: lost, waiting, completed.
 * sent: it was sent before, and the answer is unknown; alone: together with others it was refused, or collided; collision: the handler's
 * transaction was rolled back because of another one.
 */
const outcome = (what, rest) => ({ what, text: '', sent: false, alone: false, ...rest });

export const nothing = (text) => outcome('nothing', { text });
export const release = () => outcome('release');
export const failed = (error, how) => outcome('fail', { text: describe(error), error, ...how });

/** state: completed, waiting or lost, where the attempt has come to its end while the handler ran; else undefined. */
export function ofReturn(value, state) {
    if (state) return nothing(state);
    if (value === undefined) return outcome('complete', { result: null });
    try {
        return outcome('complete', { result: toJson(value, 'the result') });
    } catch (error) {
        return failed(error);
    }
}

/** reason: why the handler was asked to stop, if it was. */
export function ofError(error, reason, state) {
    if (state) return nothing(state);
    if (reason === 'lost') return nothing('lost');
    try {
        return ofThrown(error, reason);
    } catch {
        // A Proxy or a getter that throws when it is looked at.
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

/** What is reported in place of what the server has refused; null: nothing. */
export function afterRefusal(refused, error) {
    const { what, text, retry, retryIn, sent } = refused;
    const delay = what === 'fail' ? retryIn : undefined;
    if (sqlstate(error) === '22P05' && what === 'fail' && NOT_ASCII.test(text)) return { ...refused, text: text.replace(NOT_ASCII_ALL, '?') };
    if (!refused.refused) {
        return outcome('fail', { text: `the ${REPORTS[what]} was refused: ${describe(error)}`, error, retry, retryIn: delay, sent, alone: true, refused: true });
    }
    return delay === undefined || delay === null ? null : { ...refused, retryIn: undefined };
}

const REPORTS = { complete: 'result', fail: 'failure', snooze: 'snooze', release: 'release' };
const NOT_ASCII = /[^\0-\x7f]/u;
const NOT_ASCII_ALL = /[^\0-\x7f]/gu;

/** What a heartbeat answers after a report of ours: gone where the queue keeps nothing. */
export const isFinished = (state) => state === 'finished' || state === 'gone';

// What an AbortSignal makes functions throw, also what a library has made of that.
const ABORTS = ['AbortError', 'CanceledError', 'ABORT_ERR', 'ERR_CANCELED'];
const DEEPEST = 8;

const isStop = (error) => causes(error)
    .some((cause) => cause instanceof Cancelled || ABORTS.includes(cause.name) || ABORTS.includes(cause.code));

// The error and what has caused it.
function causes(error) {
    const found = [];
    for (let cause = error; cause && found.length < DEEPEST; cause = cause.cause) found.push(cause);
    return found;
}

function ofStop(reason) {
    if (reason === 'lost') return nothing('lost');
    return reason === 'stopping' ? release() : outcome('fail', { text: 'cancelled', cancelled: true });
}
