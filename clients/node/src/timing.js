// Sleeps and pauses. Times are seconds.
import process from 'node:process';

const LONGEST = 86400;      // setTimeout cannot exceed 24 days; callers of sleep() check again afterward
const FIRST_PAUSE = 0.1;
const LONGEST_PAUSE = 5;

export const milliseconds = (seconds) => Math.max(0, Math.min(seconds, LONGEST)) * 1000;

/** Returns the time of a clock that is the same in all threads of the process. */
export const now = () => Number(process.hrtime.bigint()) / 1e9;

/** Resolves when the time is over or the signal is aborted. */
export function sleep(seconds, signal) {
    return new Promise((resolve) => {
        if (signal?.aborted) return resolve();
        const end = () => {
            clearTimeout(timer);
            signal?.removeEventListener('abort', end);
            resolve();
        };
        const timer = setTimeout(end, milliseconds(seconds));
        signal?.addEventListener('abort', end);
    });
}

/** Returns the seconds to wait after this number of failures in a row: each pause is twice as long, with jitter, up to 5 s. */
export const pauseAfter = (failures, random = Math.random()) =>
    Math.min(LONGEST_PAUSE, FIRST_PAUSE * 2 ** Math.min(failures - 1, 10)) * (0.5 + random / 2);

/** Resolves with true if the promise settles within the time. */
export async function within(seconds, promise) {
    const ended = new AbortController();
    const settled = promise.then(() => true, () => true);
    const timeout = sleep(seconds, ended.signal).then(() => false);
    const first = await Promise.race([settled, timeout]);
    ended.abort();
    return first;
}
