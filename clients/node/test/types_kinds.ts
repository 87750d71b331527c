// Compiled by tsc but not run: typed kinds and middleware that the types must accept, and uses of them that they must reject.
import pg from 'pg';
import * as v from 'valibot';
import { z } from 'zod';
import { Worker, defineKind, enqueueJobs, use } from 'jobq-client';
import type { Kind } from 'jobq-client';
import { drain } from 'jobq-client/testing';

const client = new pg.Client();
const sendMail = defineKind('send_mail', {
    schema: z.object({ to: z.string(), at: z.coerce.date().optional(), copies: z.number().default(1) }), result: z.object({ id: z.string() }),
    queue: 'emails', priority: 3, retryInvalid: false,
});
const resize = defineKind('resize', { schema: v.object({ n: v.pipe(v.string(), v.transform(Number)) }) });
const plain = defineKind<{ n: number }, number>('plain', { queue: 'q' });
const anything: Kind = defineKind('anything');

const handlers = {
    ...sendMail.handler(async (job) => {
        const copies: number = job.payload.copies;
        const at: Date | undefined = job.payload.at;
        return job.completing(() => ({ id: `${job.payload.to} ${copies} ${at?.getTime()}` }));
    }),
    ...resize.handler((job) => job.payload.n.toFixed(2)),
    ...plain.handler((job) => job.payload.n),
    ...anything.handler((job) => job.payload.whatever),
    untyped: () => 1,
};
void new Worker({ handlers });
void drain(client, handlers);

void [
    sendMail.enqueue(client, { to: 'ada' }, { priority: 4, queue: 'bulk' }), sendMail.enqueueMany(client, [{ to: 'ada' }], { uniqueKeys: ['a'] }),
    resize.enqueue(client, { n: '1' }), plain.enqueue(client, { n: 1 }),
    enqueueJobs(client, [await plain.spec({ n: 1 }, { ref: 'a' }), await resize.spec({ n: '1' }, { dependsOn: ['@a'] })]),
];

// @ts-expect-error the payload lacks a key
void sendMail.enqueue(client, {});
// @ts-expect-error the payload has a value of another type
void sendMail.enqueueMany(client, [{ to: 5 }]);
// @ts-expect-error the payload before the transformation is a text
void resize.enqueue(client, { n: 1 });
// @ts-expect-error the payload is missing
void plain.enqueue(client);
// @ts-expect-error the kind cannot be overridden
void plain.enqueue(client, { n: 1 }, { kind: 'other' });
// @ts-expect-error the payload does not have this key
void sendMail.handler((job) => ({ id: job.payload.form }));
// @ts-expect-error the result has another type
void sendMail.handler(() => ({ id: 5 }));
// @ts-expect-error the result has another type
void plain.handler(async () => 'seven');
// @ts-expect-error this is no schema
void defineKind('wrong', { schema: { parse: () => 1 } });

const remove: () => void = use({
    async enqueue(specs, next) {
        for (const spec of specs) spec.metadata = { ...spec.metadata, count: spec.payloads?.length ?? 1 };
        const ids: string[] = await next();
        console.log(ids);
    },
    handle: (job, next) => (job.attempt > 1 ? next() : undefined),
});
// @ts-expect-error the function does not exist
use({ handler: () => remove() });
