// Middleware: functions of the application that run around each enqueue and around each call of a handler, in all producers and workers
// of the process.
import { OptionError, checkNames } from './errors.js';
import { sending } from './tracing.js';
import { shown } from './values.js';

const functions = { enqueue: [sending], handle: [] };

/**
 * Adds middleware, which runs inside the middleware that has been added before. enqueue(specs, next): specs are the jobs, as objects of
 * enqueueJobs(), which the function can change, and next() enqueues them and resolves with their IDs. The jobs of enqueueMany() are one
 * object, with the key payloads. handle(job, next): next() calls the handler and resolves with its result. Returns a function that
 * removes the middleware.
 */
export function use(given) {
    checkNames(given, Object.keys(functions), 'use()');
    for (const [name, value] of Object.entries(given)) {
        if (typeof value !== 'function') throw new OptionError(`option ${name} must be a function, but is ${shown(value)}`);
    }
    for (const [name, value] of Object.entries(given)) functions[name] = [...functions[name], value];
    return () => {
        for (const [name, value] of Object.entries(given)) functions[name] = functions[name].filter((one) => one !== value);
    };
}

/** Calls the middleware of an enqueue, and then work(specs), which returns [{id}] and whose result is returned. */
export async function enqueuing(specs, work) {
    const all = functions.enqueue;
    let enqueued;
    const call = async (place) => {
        if (place < all.length) await all[place](specs, () => call(place + 1));
        else enqueued = await work(specs);
        return enqueued?.map(({ id }) => id);
    };
    await call(0);
    if (!enqueued) throw new Error('the middleware of an enqueue must call next() and await it');
    return enqueued;
}

/** Calls the middleware of a handler, and then the handler. */
export async function handling(job, handler) {
    const all = functions.handle;
    const call = async (place) => (place < all.length ? all[place](job, () => call(place + 1)) : handler(job));
    return call(0);
}
