import type { Client, ClientConfig } from 'pg';

export * from './kinds.js';
export * from './middleware.js';

export type Reason = 'cancel' | 'lost' | 'stopping';
/** Seconds, or interval text. */
export type Interval = number | string;
export type Time = Date | string;
/** A bigint, returned as a string because a number may be too small. */
export type Id = string;
export type IdLike = string | number | bigint;

/** The handler's view of a job. */
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
    /** The last progress that an earlier attempt reported, or null. */
    readonly progress: any;
    readonly metadata: any;
    /** Why the handler should stop. */
    readonly cancelled: Reason | undefined;
    /** Aborted when the handler should stop. Its reason is a Cancelled error. */
    readonly signal: AbortSignal;
    /** Throws Cancelled if the handler should stop. */
    check(): void;
    /** Reports progress with the next heartbeat, within a second; only the last value is sent. */
    setProgress(value: unknown): void;
    /** Writes a line to the log of the job. The lines are sent with the next heartbeat, or before the report of the job. */
    log(text: string, level?: 'debug' | 'info' | 'warning' | 'error'): void;
    /** Returns a connection in autocommit mode for the handler's own SQL. All calls of an attempt return the same connection. */
    client(): Promise<Client>;
    /**
     * Commits the writes of body together with the completion of the job, or neither. The result of the job is what body returns.
     */
    completing<Result>(body: (client: Client) => Result | Promise<Result>): Promise<Result>;
    /**
     * Runs a durable step once: commits the writes of body together with its result. Later attempts only return the saved result.
     */
    step<Result>(name: string, body: (client: Client) => Result | Promise<Result>): Promise<Result>;
    /** Suspends the job until a Date or for a delay. The job occupies no worker while it sleeps. */
    sleep(name: string, time: Date | Interval): Promise<void>;
    waitFor<Payload = any>(event: string, options?: { timeout?: Interval | null, name?: string | null }):
        Promise<{ state: 'ready' | 'timeout', payload: Payload | null }>;
    waitForJobs<Result = any>(ids: readonly IdLike[], name: string, options?: { mode?: 'all' | 'any', timeout?: Interval | null }):
        Promise<{ state: 'ready' | 'timeout', results: { jobId: Id, status: string | null, result: Result | null }[] }>;
    /** Enqueues child jobs once, even if this job is retried, and returns their IDs. */
    spawn(name: string, specs: readonly Spec[]): Promise<Id[]>;
}

export type Handler<Payload = any> = (job: Job<Payload>) => unknown;

/** The connection settings of pg. A function is called for each connection, for example because passwords expire. */
export type Connection = string | ClientConfig | (() => string | ClientConfig | Promise<string | ClientConfig>);

export interface Logger {
    info(line: string): void;
    warn(line: string): void;
    error(line: string): void;
}

/** All times are in seconds. */
export interface WorkerOptions {
    /** Maps each kind to a handler. */
    handlers: Record<string, Handler>;
    connection?: Connection;
    /** Default: 'default'. */
    queue?: string;
    /** Serves several queues: their names, or the slots of each queue, that is, how many of its jobs run at the same time. */
    queues?: readonly string[] | Readonly<Record<string, number>>;
    /**
     * Serves all queues whose names match these patterns, including queues that are created later: the patterns, or the slots of
     * each queue that a pattern matches. The patterns have the syntax of LIKE.
     */
    patterns?: readonly string[] | Readonly<Record<string, number>>;
    /**
     * The order in which the worker claims from its queues: as listed, random with chances proportional to the slots of the queues,
     * or the queue whose next job has the earliest runAt; default: 'listed'.
     */
    queueOrder?: 'listed' | 'random' | 'oldest';
    /** Maximum number of handlers that run at the same time; default: the sum of the slots of the queues, or 1. */
    slots?: number;
    /**
     * Maximum number of claimed jobs that wait for a slot; default: 0. For short jobs. The worker sends heartbeats for them and
     * gives them back when it stops.
     */
    prefetch?: number;
    /** Maximum number of jobs per claim; default: slots + prefetch. */
    batch?: number;
    versions?: number[];
    capabilities?: string[];
    /** Must be unique to this worker; default: HOST-PID-RANDOM. */
    workerId?: string;
    /** Heartbeat timeout of the leases of this worker. */
    heartbeatTimeout?: number;
    /** Maximum time between two heartbeats, and so until a cancellation is noticed. */
    heartbeatInterval?: number;
    /** Length of a wait in the server (jobq_wait); default: 30. */
    waitTimeout?: number;
    /** Polls, with pauses up to this length, instead of waiting in the server. */
    pollInterval?: number;
    /** How long handlers may continue when the worker stops; default: 25. */
    grace?: number;
    /** A file that the worker touches every 2 seconds while it is alive. */
    livenessFile?: string;
    /** A port, or 'HOST:PORT', at which the worker answers liveness probes over HTTP. */
    livenessPort?: number | string;
    /** Sends heartbeats from a thread, which continues if a handler blocks the event loop; default: true. */
    heartbeatThread?: boolean;
    /** Uses prepared statements. Keep false with a pooler that does not support them; default: false. */
    prepare?: boolean;
    /** Makes the span of an attempt a child of the enqueue's span, in addition to the link between them; default: false. */
    traceAsChild?: boolean;
    /**
     * Reports the class and the stack trace of an error with the failed attempt; default: true. A function receives the details and the
     * error, and returns the details that may be stored, or undefined.
     */
    errorDetails?: boolean | ((details: ErrorDetails, error: unknown) => ErrorDetails | null | undefined);
    /** Called with the error and the job after each failed attempt. The worker does not wait for a promise. */
    onError?: (error: unknown, job: Job) => unknown;
    /** Default: standard error. */
    logger?: Logger;
}

/** The details of an error. The texts are shortened until the details take at most 16 kB as JSON. */
export interface ErrorDetails {
    class?: string;
    stack?: string;
    [key: string]: unknown;
}

export declare class Worker {
    // Internal parts. A subclass must not use these names.
    private options;
    private log;
    private heartbeats;
    private reports;
    private hand;
    private slotConnections;
    private claims;
    private due;
    constructor(options: WorkerOptions);
    readonly id: string;
    /** Resolves after the worker has stopped: true if everything was reported. Rejects with the error that ended the worker. */
    readonly stopped: Promise<boolean>;
    /** Resolves when the worker is running. */
    start(): Promise<void>;
    /**
     * Changes how many handlers may run at the same time, from 0 to the option slots. Running handlers continue. With 0, the worker
     * claims no jobs until the next call.
     */
    setSlots(slots: number): void;
    /** Stops claiming. Handlers may continue for the grace period, which a second call ends. */
    stop(): Promise<boolean>;
}

/**
 * A cluster of shards behind a router. Used as the connection of enqueue(), enqueueMany(), enqueueJobs(), and combinedEnqueue(), it
 * sends jobs to their shards directly. router: the database with jobq_router.
 */
export declare class Cluster {
    /** max: maximum number of connections to the router and to each shard; default: 10. */
    constructor(router: Connection, options?: { max?: number });
    query(statement: { text: string, values?: unknown[] }): Promise<{ rows: any[] }>;
    /** Closes the connections. */
    end(): Promise<void>;
}

/** A worker of a cluster, which connects to all shards directly. options.connection: the router. The slots are those of all shards together. */
export declare class ClusterWorker {
    private cluster;
    constructor(options: WorkerOptions);
    readonly id: string;
    /** Resolves after the worker has stopped: true if everything was reported. Rejects with the error that ended the worker. */
    readonly stopped: Promise<boolean>;
    /** Resolves when the worker is running on all shards that can be reached. */
    start(): Promise<void>;
    /** Stops claiming. Handlers may continue for the grace period, which a second call ends. */
    stop(): Promise<boolean>;
}

/** Runs workers until SIGTERM or SIGINT; a second signal ends the grace period. Usage: process.exit(await run(worker)). */
export declare function run(...workers: (Worker | ClusterWorker)[]): Promise<0 | 1>;

/** Returns the options in environment variables such as JOBQ_QUEUE and JOBQ_SLOTS. */
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
/** Ends a handler whose job waits without a worker. Do not catch this error. */
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
    expiresAt?: Time;
    expiresIn?: Interval;
    /** A batch, which createBatch() returned. */
    batchId?: Id | number | bigint;
    /** Named limits that include the queue. */
    limits?: readonly string[];
    metadata?: Record<string, unknown>;
}

/** The options apply to all jobs of the call. The arrays have one element per job. */
export interface EnqueueManyOptions
    extends Omit<EnqueueOptions, 'uniqueKey' | 'groupKey' | 'concurrencyKey' | 'dependsOn' | 'onDependencyFailure'> {
    uniqueKeys?: readonly (string | null)[];
    groupKeys?: readonly (string | null)[];
    concurrencyKeys?: readonly (string | null)[];
    runAts?: readonly Time[];
    priorities?: readonly number[];
}

/** A job for enqueueJobs() or spawn(). ref: a name that the dependsOn of later objects can use as "@ref". */
export interface Spec extends EnqueueOptions {
    queue?: string;
    payload?: unknown;
    ref?: string;
}

export interface Enqueued {
    id: Id;
    /** False if a job with this unique key already existed. */
    isNew: boolean;
}

/**
 * A connection or transaction of pg, TypeORM, Knex, Prisma, Kysely, or Drizzle, or another object with a query(text, values) that is similar
 * to that of pg.
 */
export type Producer =
    | { query(text: string, values: any[]): Promise<any> }
    | Cluster
    | { raw(sql: string, bindings: any): PromiseLike<any> }
    | { $queryRawUnsafe(sql: string, ...values: any[]): PromiseLike<any> }
    | { executeQuery(query: any): Promise<any>, withoutPlugins(): any }
    | { execute(query: any): PromiseLike<any> };

/** Enqueues one job in the caller's transaction and returns its ID. */
export declare function enqueue(connection: Producer, queue?: string, payload?: unknown, options?: EnqueueOptions): Promise<Id>;
/** Enqueues one job per payload, in one statement. */
export declare function enqueueMany(connection: Producer, queue: string, payloads: readonly unknown[], options?: EnqueueManyOptions):
    Promise<Enqueued[]>;
/** Enqueues one job per object, in one statement. */
export declare function enqueueJobs(connection: Producer, specs: readonly Spec[]): Promise<Enqueued[]>;

/**
 * Returns a function that enqueues jobs outside a transaction of the caller. Concurrent calls share statements and commits. most: the
 * maximum number of jobs in one statement, 1000 by default.
 */
export declare function combinedEnqueue(pool: Producer, options?: { most?: number }):
    (queue?: string, payload?: unknown, options?: EnqueueOptions) => Promise<Id>;

/** A batch: a set of jobs whose end enqueues the callbacks. */
export interface Batch {
    id: Id;
    name: string;
    total: number;
    pending: number;
    running: number;
    completed: number;
    failed: number;
    cancelled: number;
    /** The share of the jobs that have ended, from 0 to 1; null if the batch has no jobs. */
    progress: number | null;
    sealed: boolean;
    finishedAt: Date | null;
    callbacks: Id[] | null;
    error: string | null;
    metadata: unknown;
}
export interface BatchOptions {
    onComplete?: Spec;
    onSuccess?: Spec;
    onFailure?: Spec;
    metadata?: unknown;
}
/** Creates a batch in the caller's transaction and returns its ID. Jobs join it with the option batchId. */
export declare function createBatch(connection: Producer, name?: string, options?: BatchOptions): Promise<Id>;
/** Seals a batch, so that no more jobs can join it: false if it was already sealed, and null if it does not exist. */
export declare function sealBatch(connection: Producer, batchId: Id | number | bigint): Promise<boolean | null>;
export declare function getBatch(connection: Producer, batchId: Id | number | bigint): Promise<Batch | undefined>;
