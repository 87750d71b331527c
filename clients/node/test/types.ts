// Compiled by tsc but not run: code that the types must accept, and code that they must reject.
import pg from 'pg';
import knex from 'knex';
import { Cancelled, Fail, Release, Snooze, Worker, combinedEnqueue, enqueue, enqueueJobs, enqueueMany, optionsOfEnvironment, run } from 'jobq-client';
import type { Handler, Job, Reason } from 'jobq-client';
import { drain, runInline } from 'jobq-client/testing';

const resize: Handler<{ n: number }> = async (job) => {
    const reason: Reason | undefined = job.cancelled;
    await fetch('http://example.com', { signal: job.signal });
    job.setProgress({ reason });
    job.log('a line', 'warning');
    const { id } = await job.step('a', async (client) => (await client.query<{ id: string }>('SELECT 1 AS id')).rows[0]!);
    const done: number = await job.completing(() => job.payload.n);
    const { state, payload } = await job.waitFor<string>('paid', { timeout: '3 days' });
    return { id, done, state, payload };
};

const worker = new Worker({
    ...optionsOfEnvironment(), handlers: { resize, mail: () => { throw new Snooze(3); } }, connection: async () => ({ host: 'h' }), slots: 4,
    errorDetails: ({ stack, ...others }) => ({ ...others, ...(stack ? { stack: stack.replaceAll('s', '*') } : {}), host: 'h' }),
    onError: (error, job) => console.error(job.id, error),
});
const status: Promise<0 | 1> = run(worker);

async function produce(pool: pg.Pool, client: pg.Client, database: knex.Knex): Promise<string[]> {
    await combinedEnqueue(pool, { most: 10 })('q', { a: 1 }, { kind: 'k', uniqueKey: 'u' });
    await enqueueMany(pool, 'q', [1, 2], { uniqueKeys: ['a', null], uniqueFor: 60, expiresIn: '1 day', metadata: { a: 1 } });
    await enqueueJobs(client, [{ queue: 'q', ref: 'a' }, { dependsOn: ['@a', 3n], runAt: new Date() }]);
    return database.transaction(async (trx) => [await enqueue(trx, 'q', { n: 1 }, { kind: 'resize', uniqueFor: '1 day' })]);
}

async function kit(client: pg.Client): Promise<void> {
    const [ran] = await drain(client, { resize }, { now: new Date(), queue: 'q' });
    const outcome: 'completed' | undefined = ran?.outcome === 'completed' ? ran.outcome : undefined;
    const { result } = await runInline(resize, { n: 1 }, { signals: { paid: 1 } });
    console.log(outcome, result, status);
}

class NoSuchAddress extends Fail {
    override readonly retry = false;
    override name = 'NoSuchAddress';
    override cause = 'a typo';
    constructor(address: string) { super(`no such address: ${address}`); }
}
class Busy extends Snooze {
    override readonly delay = '1 min';
    constructor() { super('1 min'); }
}
class Loud extends Worker {
    starts = 0;
    override async start(): Promise<void> { this.starts += 1; await super.start(); }
    override stop(): Promise<boolean> { return super.stop(); }
}

// @ts-expect-error the worker already has a part with this name
class Clashing extends Worker { log = 1; }
// @ts-expect-error the constructor takes no argument
void new Release('later');
// @ts-expect-error the option does not exist
void new Worker({ handlers: { resize }, slot: 1 });
// @ts-expect-error handlers are required
void new Worker({});
// @ts-expect-error a job does not have this property
const wrong = (job: Job) => job.nmae;
// @ts-expect-error the payload does not have this key
const untyped: Handler<{ n: number }> = (job) => job.payload.m;
// @ts-expect-error a delay is required
void new Snooze();
void [new Fail('m', { retry: false }).retry, new Release(), new Cancelled('lost').reason, produce, kit, wrong, untyped, NoSuchAddress, Busy, Loud, Clashing];
