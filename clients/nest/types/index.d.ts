import type { DynamicModule, FactoryProvider, ModuleMetadata } from '@nestjs/common';
import type { ClientConfig, Pool } from 'pg';
import type { EnqueueManyOptions, EnqueueOptions, Enqueued, Id, Producer, WorkerOptions } from 'jobq-client' with { 'resolution-mode': 'import' };

export type { Job } from 'jobq-client' with { 'resolution-mode': 'import' };

export interface JobqModuleOptions {
    /** A connection string or a configuration of pg; default: the environment variables of libpq. */
    connection?: string | ClientConfig;
    /** False if this process only enqueues jobs; default: true. */
    workers?: boolean;
    /** Called if a worker ends with an error. By default, the process gets SIGTERM, and its exit status is 1. */
    onWorkerError?: (error: Error) => void;
}

export declare class JobqModule {
    static forRoot(options?: JobqModuleOptions): DynamicModule;
    static forRootAsync(
        options: Pick<ModuleMetadata, 'imports'> & Pick<FactoryProvider<JobqModuleOptions>, 'inject' | 'useFactory'>,
    ): DynamicModule;
    /** Makes queues injectable with @InjectQueue(). */
    static registerQueue(...queues: string[]): DynamicModule;
}

/** The class has the handlers of a queue. */
export declare function Processor(queue: string, options?: Omit<Partial<WorkerOptions>, 'queue' | 'queues' | 'patterns' | 'handlers' | 'connection'>): ClassDecorator;
/** The method handles the jobs of a kind; '' or omitted: the jobs without a kind. */
export declare function JobHandler(kind?: string): MethodDecorator;
/** Injects a Queue. */
export declare function InjectQueue(queue: string): ParameterDecorator & PropertyDecorator;

export declare class Queue {
    constructor(name: string, pool: Pool);
    readonly name: string;
    /** Enqueues one job and returns its ID. client: the transaction that the job joins. */
    add(kind: string, payload?: unknown, options?: Omit<EnqueueOptions, 'kind'> & { client?: Producer }): Promise<Id>;
    /** Enqueues one job per payload in one statement. */
    addMany(kind: string, payloads: readonly unknown[], options?: Omit<EnqueueManyOptions, 'kind'> & { client?: Producer }): Promise<Enqueued[]>;
}
