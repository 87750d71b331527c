import type { Client, ClientConfig } from 'pg';

export type Reason = 'cancel' | 'lost' | 'stopping';
/** Seconds, or an interval's text. */
export type Interval = number | string;
export type Time = Date | string;
/** A bigint: a string as the library gives it. */
export type Id = string;
export type IdLike = string | number | bigint;

/** A job, as its handler sees it. */
export interface Job<Payload = any> {
    readonly id: Id;
    readonly lease: string;
    readonly queue: string;
    readonly kind: string;
    readonly payload: Payload;
    readonly attempt: number;
    readonly maxAttempts: number;
    readonly priority: number;
    readonly version: number;
    readonly runAt: Date;
    readonly createdAt: Date;
    /** What an earlier attempt has reported last; null: nothing. */
    readonly progress: any;
    readonly metadata: any;
    /** Why the handler should stop. */
    readonly cancelled: Reason | undefined;
    /** Aborted when the handler should stop; its reason is a Cancelled. */
    readonly signal: AbortSignal;
    /** Throws Cancelled when the handler should stop. */
    check(): void;
    /** Reported with the next heartbeat, within a second; of several the last one. */
    setProgress(value: unknown): void;
    /** A connection for the handler's own SQL, in autocommit mode: the same for all calls of this attempt. */
    client(): Promise<Client>;
    /** What body writes and the completion, with what it returns, commit together, or neither. */
    completing<Result>(body: (client: Client) => Result | Promise<Result>): Promise<Result>;
    /** A durable step: done once, and its result saved with what it writes. */
    step<Result>(name: string, body: (client: Client) => Result | Promise<Result>): Promise<Result>;
    /** Goes on at a Date, or after a delay, without a worker meanwhile. */
    sleep(name: string, time: Date | Interval): Promise<void>;
    waitFor<Payload = any>(event: string, options?: { timeout?: Interval | null, name?: string | null }):
        Promise<{ state: 'ready' | 'timeout', payload: Payload | null }>;
    waitForJobs<Result = any>(ids: readonly IdLike[], name: string, options?: { mode?: 'all' | 'any', timeout?: Interval | null }):
        Promise<{ state: 'ready' | 'timeout', results: { jobId: Id, status: string | null, result: Result | null }[] }>;
    /** Enqueues jobs of this one, once; their ids. */
    spawn(name: string, specs: readonly Spec[]): Promise<Id[]>;
}

export type Handler<Payload = any> = (job: Job<Payload>) => unknown;

/** What pg connects with; a function is called for each connection, for passwords that expire. */
export type Connection = string | ClientConfig | (() => string | ClientConfig | Promise<string | ClientConfig>);

export interface Logger {
    info(line: string): void;
    warn(line: string): void;
    error(line: string): void;
}

/** Times are seconds. */
export interface WorkerOptions {
    /** A function for each kind. */
    handlers: Record<string, Handler>;
    connection?: Connection;
    /** default: 'default' */
    queue?: string;
    /** Handlers at once; default: 1. */
    slots?: number;
    /** Most jobs of one claim; default: slots. */
    batch?: number;
    versions?: number[];
    capabilities?: string[];
    /** Unique to this worker; default: HOST-PID-RANDOM. */
    workerId?: string;
    /** Of the leases of this worker. */
    heartbeatTimeout?: number;
    /** Longest time between two heartbeats; cancellations are seen so soon. */
    heartbeatInterval?: number;
    /** Of one jobq_wait; default: 30. */
    waitTimeout?: number;
    /** Polls, with pauses up to this, instead of waiting in the server. */
    pollInterval?: number;
    /** How long handlers may go on when the worker stops; default: 25. */
    grace?: number;
    /** Heartbeats from a thread, which goes on when a handler blocks the event loop; default: true. */
    heartbeatThread?: boolean;
    /** Prepared statements: not behind a pooler that does not know them; default: false. */
    prepare?: boolean;
    /** The span of an attempt is a child of that of its enqueue, beside being linked with it; default: false. */
    traceAsChild?: boolean;
    /** default: standard error. */
    logger?: Logger;
}

export declare class Worker {
    // Its parts, whose names a class that extends it must not use.
    private options;
    private log;
    private heartbeats;
    private reports;
    private hand;
    private slotConnections;
    private claims;
    constructor(options: WorkerOptions);
    readonly id: string;
    /** Resolves with whether everything was reported when the worker has stopped; rejects with what has ended it. */
    readonly stopped: Promise<boolean>;
    /** Resolves when the worker is at work. */
    start(): Promise<void>;
    /** No claims any more; handlers have the grace, which a second call ends. */
    stop(): Promise<boolean>;
}

/** Runs workers until SIGTERM or SIGINT, the second of which ends the grace: process.exit(await run(worker)). */
export declare function run(...workers: Worker[]): Promise<0 | 1>;

/** The options that JOBQ_QUEUE, JOBQ_SLOTS and the like give. */
export declare function optionsOfEnvironment(environment?: Record<string, string | undefined>): Partial<WorkerOptions>;

export declare class Fail extends Error {
    constructor(message: string, how?: { retryIn?: Interval, retry?: boolean, cause?: unknown });
    readonly retryIn: Interval | undefined;
    readonly retry: boolean;
}
export declare class Snooze extends Error {
    constructor(delay: Interval);
    readonly delay: Interval;
}
export declare class Release extends Error {
    constructor();
}
export declare class Cancelled extends Error {
    constructor(reason: Reason);
    readonly reason: Reason;
}
/** Ends a handler whose job waits without a worker. Not to be caught. */
export declare class Suspended extends Error {
    constructor(what: string);
}
export declare class OptionError extends Error {
    constructor(message: string);
}

// ---- producers

export interface EnqueueOptions {
    kind?: string;
    priority?: number;
    runAt?: Time;
    maxAttempts?: number;
    uniqueKey?: string;
    onConflict?: 'ignore' | 'replace' | 'error';
    uniqueFor?: Interval;
    groupKey?: string;
    concurrencyKey?: string;
    dependsOn?: readonly IdLike[];
    onDependencyFailure?: 'cancel' | 'run';
    version?: number;
    requires?: readonly string[];
    heartbeatTimeout?: Interval;
    maxRuntime?: Interval;
    metadata?: Record<string, unknown>;
}

export interface EnqueueManyOptions {
    kind?: string;
    priority?: number;
    runAt?: Time;
    maxAttempts?: number;
    uniqueKeys?: readonly (string | null)[];
    groupKeys?: readonly (string | null)[];
    concurrencyKeys?: readonly (string | null)[];
    runAts?: readonly Time[];
    priorities?: readonly number[];
}

/** A job of several: ref is a name that the dependsOn of later ones may say as "@ref". */
export interface Spec extends EnqueueOptions {
    queue?: string;
    payload?: unknown;
    ref?: string;
}

export interface Enqueued {
    id: Id;
    /** False: a job with this unique key was there already. */
    isNew: boolean;
}

/** A client, pool or transaction of pg, Knex, or what has a query(text, values) like them. */
export type Producer =
    | { query(text: string, values: any[]): Promise<any> }
    | { raw(sql: string, bindings: any): PromiseLike<any> };

/** One job, in the caller's transaction; its id. */
export declare function enqueue(connection: Producer, queue?: string, payload?: unknown, options?: EnqueueOptions): Promise<Id>;
/** A job for each payload, in one statement. */
export declare function enqueueMany(connection: Producer, queue: string, payloads: readonly unknown[], options?: EnqueueManyOptions):
    Promise<Enqueued[]>;
/** A job for each object, in one statement. */
export declare function enqueueJobs(connection: Producer, specs: readonly Spec[]): Promise<Enqueued[]>;
