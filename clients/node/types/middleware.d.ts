import type { EnqueueManyOptions, Id, Job, Spec } from './index.js';

/** The jobs of enqueueMany() are one object, with the options of this function and the key payloads. */
export type MiddlewareSpec = Spec & Omit<EnqueueManyOptions, keyof Spec> & { payloads?: unknown[] };

export interface Middleware {
    /** Called around each enqueue. specs: the jobs, which the function can change. next: enqueues them and resolves with their IDs. */
    enqueue?(specs: MiddlewareSpec[], next: () => Promise<Id[]>): unknown;
    /** Called around each handler. next: calls the handler. The value that the function returns becomes the result of the job. */
    handle?(job: Job, next: () => Promise<unknown>): unknown;
}

/** Adds middleware to all producers and workers of the process, inside earlier middleware. Returns a function that removes it. */
export declare function use(middleware: Middleware): () => void;
