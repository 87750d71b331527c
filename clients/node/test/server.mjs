// Creates a database for a test file on the server of PGHOST and so on, and contains what the tests of workers share.
import { createRequire } from 'node:module';
import process from 'node:process';
import { setTimeout as sleep } from 'node:timers/promises';
import { after } from 'node:test';
import { Worker } from '../src/index.js';

const pg = createRequire(import.meta.url)('pg');
const PATIENCE = 120_000;

async function once(database, text) {
    const client = new pg.Client({ database });
    await client.connect();
    try {
        return (await client.query(text)).rows;
    } finally {
        await client.end();
    }
}

const home = process.env.PGDATABASE ?? 'postgres';

/**
 * {name, pool, query, value, client}: a new database with these extensions, dropped after the tests of the file. Returns undefined if
 * the server does not have PL/Proxy but a router needs it.
 */
export async function newDatabase(label, extensions = 'jobq') {
    const name = `jobq_node_${label}_${process.pid}`;
    if (extensions === 'jobq_router' && !(await once(home, "SELECT FROM pg_available_extensions WHERE name = 'plproxy'")).length) return undefined;
    await once(home, `CREATE DATABASE ${name}`);
    for (const extension of extensions.split(', ')) await once(name, `CREATE EXTENSION ${extension} CASCADE`);
    process.env.PGDATABASE = name;
    const pool = new pg.Pool({ database: name, max: 4 });
    const closed = [];
    pool.on('connect', (client) => closed.push(new Promise((resolve) => { client.once('end', resolve); })));
    const clients = [];
    after(async () => {
        // pool.end() does not wait until its connections are closed, and DROP DATABASE would terminate them with an error.
        await Promise.all([pool.end(), ...closed, ...clients.map((client) => client.end())]);
        await once(home, `DROP DATABASE ${name} WITH (FORCE)`);
    });
    const query = async (text, values) => (await pool.query(text, values)).rows;
    const value = async (text, values) => Object.values((await query(text, values))[0] ?? {})[0];
    const client = async () => {
        const connected = new pg.Client({ database: name });
        await connected.connect();
        clients.push(connected);
        return connected;
    };
    const job = async (id) => (await query('SELECT * FROM jobq.jobs WHERE id = $1', [id]))[0];
    return { name, pool, query, value, client, job };
}

/** Waits until it is true, for two minutes. */
export async function becomesTrue(condition, says) {
    for (const until = Date.now() + PATIENCE; ;) {
        const found = await condition();
        if (found) return found;
        if (Date.now() > until) throw new Error(`did not become true: ${says ?? condition}`);
        await sleep(50);
    }
}

/** A promise and what settles it. */
export function gate() {
    let open;
    const opened = new Promise((resolve) => { open = resolve; });
    return { open, opened };
}

/** A handler that waits at a gate, and how many of its calls run now and ran at the same time at most. */
export function countedGate() {
    const { opened, open } = gate();
    const counted = { open, running: 0, most: 0 };
    counted.handler = async () => {
        counted.running += 1;
        counted.most = Math.max(counted.most, counted.running);
        await opened;
        counted.running -= 1;
    };
    return counted;
}

/** Lines instead of a log. */
export function lines() {
    const all = [];
    const add = (level) => (text) => all.push(`${level} ${text}`);
    return { all, info: add('info'), warn: add('warn'), error: add('error') };
}

/** A worker at work while body runs. */
export async function working(options, body, Class = Worker) {
    const logger = options.logger ?? lines();
    const worker = new Class({ grace: 0, ...options, logger });
    await worker.start();
    try {
        return await body(worker, logger.all);
    } finally {
        await worker.stop().catch(() => {});
    }
}

/** Until the job has this status. */
export const reaches = (database, id, status) => becomesTrue(
    async () => {
        const job = await database.job(id);
        return job?.status === status && job;
    }, `job ${id} is ${status}`);
