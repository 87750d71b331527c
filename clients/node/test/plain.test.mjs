// A server that does not preload jobq, so that no session can end a wait. JOBQ_TEST_PLAIN is the directory of its socket.
import assert from 'node:assert/strict';
import process from 'node:process';
import { test } from 'node:test';
import { enqueue } from '../src/index.js';
import { becomesTrue, newDatabase, reaches, working } from './server.mjs';

const plain = process.env.JOBQ_TEST_PLAIN;
if (plain) process.env.PGHOST = plain;

test('waits are short, and the worker stops', { skip: plain ? false : 'no JOBQ_TEST_PLAIN' }, async () => {
    const database = await newDatabase('plain');
    await working({ queue: 'plain', handlers: { a: () => 7 }, grace: 60 }, async (worker, log) => {
        assert.ok(log.some((line) => /waits are short/.test(line)), log.join('\n'));
        await becomesTrue(() => worker.claims.away);
        const id = await enqueue(database.pool, 'plain', {}, { kind: 'a' });
        assert.equal((await reaches(database, id, 'completed')).result, 7);
        await becomesTrue(() => worker.claims.away);
        assert.equal(await worker.stop(), true);
    });
});
