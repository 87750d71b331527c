import type { ClientBase } from 'pg';
import type { Handler, Id, Spec, Time } from './index.js';

export type Outcome = 'completed' | 'retried' | 'failed' | 'cancelled' | 'snoozed' | 'released' | 'waiting' | 'lost';

export interface Ran {
    id: Id;
    kind: string;
    attempt: number;
    outcome: Outcome;
    result: any;
    error: any;
}

/** Runs the jobs of a queue one by one until none is claimable. */
export declare function drain(client: ClientBase, handlers: Record<string, Handler>, options?: {
    queue?: string;
    workerId?: string;
    versions?: number[];
    capabilities?: string[];
    /**
     * The fake clock: jobs, retries, sleeps and timeouts of waits that are due by then run too. Wants what an operator may; where jobs
     * sleep or wait until then, what the owner of jobq may.
     */
    now?: Time;
    /** Attempts after which it ends with an error; default: 10,000. */
    limit?: number;
}): Promise<Ran[]>;

/** Calls a handler with a job that is in no table. */
export declare function runInline(handler: Handler, payload?: unknown, options?: {
    /** What the handler's SQL goes to; default: a connection of its own, by PGHOST and the like. */
    client?: ClientBase;
    queue?: string;
    kind?: string;
    attempt?: number;
    maxAttempts?: number;
    priority?: number;
    version?: number;
    runAt?: Date;
    createdAt?: Date;
    progress?: unknown;
    metadata?: unknown;
    /** Payloads by event; a handler that waits for others ends as waiting. */
    signals?: Record<string, unknown>;
    /** Results of jobs by the name of the wait for them. */
    jobs?: Record<string, unknown[]>;
    /** Results of steps that are done. */
    steps?: Record<string, unknown>;
}): Promise<{ outcome: string, result: any, progress: any, error: any, steps: Record<string, any>, spawned: Spec[] }>;
