import type { Enqueued, EnqueueManyOptions, EnqueueOptions, Handler, Id, Job, Producer, Spec } from './index.js';

/** A schema of zod, valibot, arktype, or another library that implements Standard Schema (https://standardschema.dev). */
export interface StandardSchema<Input = unknown, Output = Input> {
    readonly '~standard': {
        readonly version: 1;
        readonly vendor: string;
        readonly validate: (value: unknown) => StandardResult<Output> | Promise<StandardResult<Output>>;
        readonly types?: { readonly input: Input, readonly output: Output } | undefined;
    };
}
export type StandardResult<Output> =
    | { readonly value: Output, readonly issues?: undefined }
    | { readonly issues: readonly { readonly message: string, readonly path?: readonly (PropertyKey | { readonly key: PropertyKey })[] | undefined }[] };
type AnySchema = StandardSchema<any, any>;
type InputOf<Schema extends AnySchema> = NonNullable<Schema['~standard']['types']>['input'];
type OutputOf<Schema extends AnySchema> = NonNullable<Schema['~standard']['types']>['output'];

/** Attributes of all jobs of a kind, which each enqueue can override. */
export interface KindOptions extends Omit<EnqueueOptions, 'kind'> {
    queue?: string;
    /** Whether jobs whose payload is invalid are retried, because a later version of the worker may accept it; default: true. */
    retryInvalid?: boolean;
}
type Attributes = Omit<KindOptions, 'retryInvalid'>;

/** Input: the type of the payloads to enqueue. Payload: the type of the handler's job.payload. Result: the type that the handler returns. */
export interface Kind<Input = any, Payload = Input, Result = unknown> {
    readonly name: string;
    /** Returns a job for enqueueJobs(), job.spawn(), or the callbacks of a batch. */
    spec(payload: Input, attributes?: Attributes & { ref?: string }): Promise<Spec>;
    /** Enqueues one job in the caller's transaction and returns its ID. Throws an OptionError if the payload is invalid. */
    enqueue(connection: Producer, payload: Input, attributes?: Attributes): Promise<Id>;
    /** Enqueues one job per payload, in one statement. */
    enqueueMany(connection: Producer, payloads: readonly Input[], attributes?: Omit<EnqueueManyOptions, 'kind'> & { queue?: string }): Promise<Enqueued[]>;
    /** Returns the function as the handler of this kind, for the option handlers of a worker and for the test kit. */
    handler(work: (job: Job<Payload>) => Result | Promise<Result>): Record<string, Handler>;
}

/** Defines a kind of jobs. The schemas check the payload at the enqueue and in the worker, and the result. */
export declare function defineKind<Schema extends AnySchema, Result extends AnySchema>(
    name: string, options: KindOptions & { schema: Schema, result: Result }): Kind<InputOf<Schema>, OutputOf<Schema>, InputOf<Result>>;
export declare function defineKind<Schema extends AnySchema>(
    name: string, options: KindOptions & { schema: Schema }): Kind<InputOf<Schema>, OutputOf<Schema>>;
/** Without schemas, the types are not checked at run time. */
export declare function defineKind<Payload = any, Result = unknown>(name: string, options?: KindOptions): Kind<Payload, Payload, Result>;
