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
    /** The log lines of the attempt. */
    logged: Logged[];
}

export interface Logged {
    level: 'debug' | 'info' | 'warning' | 'error';
    text: string;
}

/** Runs the jobs of a queue one by one until none is claimable. */
export declare function drain(client: ClientBase, handlers: Record<string, Handler>, options?: {
    queue?: string;
    workerId?: string;
    versions?: number[];
    capabilities?: string[];
    /**
     * Sets the clock: jobs, retries, sleeps, and timeouts of waits that are due by then also run. Needs the rights of an
     * operator; if jobs sleep or wait until then, the rights of the owner of jobq.
     */
    now?: Time;
    /** Maximum number of attempts, after which drain() rejects; default: 10,000. */
    limit?: number;
}): Promise<Ran[]>;

/** Calls a handler with a job that is in no table. */
export declare function runInline(handler: Handler, payload?: unknown, options?: {
    /** Connection for the handler's SQL; default: a new connection that uses PGHOST and so on. */
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
    /** Payloads by event. If the handler waits for another event, the outcome is waiting. */
    signals?: Record<string, unknown>;
    /** Results of jobs by the name of the wait for them. */
    jobs?: Record<string, unknown[]>;
    /** Results of finished steps. */
    steps?: Record<string, unknown>;
}): Promise<{
    outcome: string, result: any, progress: any, error: any, steps: Record<string, any>, spawned: Spec[], logged: Logged[]
}>;
