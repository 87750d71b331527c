// When claims and heartbeats will show their next signs of life, if the server answers at once.
import { now } from './timing.js';

const PATIENCE = 120;   // seconds without a sign of life until claims or heartbeats are stuck. A connection to a vanished server
                        // breaks earlier, and a worker that reconnects is alive

export const [CLAIMS, HEARTBEATS] = [0, 1];

/** Returns the two times, which all threads share: never, until claims and heartbeats begin. */
export const newDue = () => new Float64Array(new SharedArrayBuffer(16)).fill(Infinity);

/** Returns what is stuck, or undefined. */
export const stuckOf = (due, at = now()) => ['claims', 'heartbeats'].find((_, place) => at > due[place] + PATIENCE);
