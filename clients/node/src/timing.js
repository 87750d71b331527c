// Sleeps and pauses. Times are seconds.

const LONGEST = 86400;      // what setTimeout takes ends at 24 days; who sleeps looks again afterwards
const FIRST_PAUSE = 0.1;
const LONGEST_PAUSE = 5;

export const milliseconds = (seconds) => Math.max(0, Math.min(seconds, LONGEST)) * 1000;

export const now = () => performance.now() / 1000;

/** Until the time is over, or the signal is aborted: either way it resolves. */
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

/** How long to wait before the next try, after so many failures: twice as long each time, with jitter, up to 5 s. */
export const pauseAfter = (failures, random = Math.random()) =>
    Math.min(LONGEST_PAUSE, FIRST_PAUSE * 2 ** Math.min(failures - 1, 10)) * (0.5 + random / 2);

/** True when the promise has settled within the time. */
export async function within(seconds, promise) {
    const ended = new AbortController();
    const settled = promise.then(() => true, () => true);
    const timeout = sleep(seconds, ended.signal).then(() => false);
    const first = await Promise.race([settled, timeout]);
    ended.abort();
    return first;
}
