// What becomes of a job, from what its handler returned or threw. No server, no clock.
import { isLostLease } from './connection.js';
import { Cancelled, Fail, Release, Snooze, Suspended } from './errors.js';
import { describe, toJson, toText } from './values.js';

/**
 * The report of an attempt. what: complete, fail, snooze, release, or nothing, of which text says why: lost, waiting, completed.
 * sent: it was sent before, and the answer is unknown; alone: together with others it was refused, or collided.
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
    if (error instanceof Suspended) return nothing('waiting');
    if (reason === 'lost' || isLostLease(error)) return nothing('lost');
    if (error instanceof Snooze) return outcome('snooze', { delay: error.delay });
    if (error instanceof Release) return release();
    if (error instanceof Fail) return failed(error, { text: toText(error.message), retryIn: error.retryIn, retry: error.retry });
    if (error instanceof Cancelled || (reason && isStop(error))) return ofStop(reason ?? error.reason);
    return failed(error);
}

/** What a heartbeat answers after a report of ours: gone where the queue keeps nothing. */
export const isFinished = (state) => state === 'finished' || state === 'gone';

// What an AbortSignal makes functions throw, also what a library has made of that.
const ABORTS = ['AbortError', 'CanceledError', 'ABORT_ERR', 'ERR_CANCELED'];
const DEEPEST = 8;

function isStop(error) {
    for (let [cause, depth] = [error, 0]; cause && depth < DEEPEST; [cause, depth] = [cause.cause, depth + 1]) {
        if (cause instanceof Cancelled || ABORTS.includes(cause.name) || ABORTS.includes(cause.code)) return true;
    }
    return false;
}

function ofStop(reason) {
    if (reason === 'lost') return nothing('lost');
    return reason === 'stopping' ? release() : outcome('fail', { text: 'cancelled', cancelled: true });
}
