// The test kit: runs handlers in the caller's thread and on the caller's connection, without a worker.
import { Attempt } from './attempt.js';
import { configurationOf, connect, sqlstate } from './connection.js';
import { checkNames } from './errors.js';
import { Job } from './job.js';
import { handling } from './middleware.js';
import { afterRefusal, ofError, ofReturn } from './outcome.js';
import {
    AWAIT, AWAIT_JOBS, CLAIM, COMPLETE_MANY, COMPLETE_MUST_HOLD, FAIL, HEARTBEAT, RELEASE_MANY, SLEEP, SLEEPERS, SNOOZE, SPAWN, STEP,
    STEP_DONE, TICK, WAKE_SLEEPERS, WRITE_LOG, claimValues, logValues,
} from './statements.js';
import { now as monotonic } from './timing.js';
import { toInterval, toJson, toTime, types } from './values.js';

const MANY = 10_000;
const PROPERTIES = ['queue', 'kind', 'attempt', 'maxAttempts', 'priority', 'version', 'runAt', 'createdAt', 'progress', 'metadata'];
const AUTOCOMMIT = { begin: 'BEGIN', commit: 'COMMIT', rollback: 'ROLLBACK' };
const WITHIN = {
    begin: 'SAVEPOINT jobq_handler', commit: 'RELEASE SAVEPOINT jobq_handler',
    rollback: 'ROLLBACK TO SAVEPOINT jobq_handler; RELEASE SAVEPOINT jobq_handler',
};

/**
 * Runs the jobs of a queue one by one until none is claimable: [{id, kind, attempt, outcome, result, error, logged}]. If the connection
 * is in a transaction, all changes are part of it. now sets the clock: jobs, retries, sleeps, and timeouts of waits that are due
 * by then also run.
 */
export async function drain(client, handlers, given = {}) {
    checkNames(given, ['queue', 'workerId', 'versions', 'capabilities', 'now', 'limit'], 'drain()');
    const { queue = 'default', workerId = 'drain', versions, capabilities, now, limit = MANY } = given;
    const options = { queue, workerId, versions, capabilities, kinds: Object.keys(handlers), heartbeatTimeout: 86400 };
    const clock = toTime(now, 'now');
    const kit = await kitOf(client);
    const ran = [];
    for (let ticked = false; ;) {
        const [{ jobs: [row] }] = await kit.ask(CLAIM, claimValues(options, 1));
        if (row) {
            if (ran.length === limit) throw new Error(`drain: there are still jobs after ${limit} attempts (option limit)`);
            ran.push(await kit.attempt(row, handlers[row.kind]));
            ticked = false;
        } else if (clock === undefined || ticked) {
            return ran;
        } else {
            await setClock(kit, clock);
            ticked = true;
        }
    }
}

async function setClock(kit, now) {
    const [{ found }] = await kit.ask(SLEEPERS, [now]);
    if (found) await kit.ask(WAKE_SLEEPERS, [now]);
    await kit.ask(TICK, [now]);
}

/**
 * Calls a handler with a job that is in no table: {outcome, result, progress, error, steps, spawned, logged}. signals: payloads by event.
 * jobs: results by the name of a wait for jobs. steps: results of finished steps. Other options become properties of the job.
 */
export async function runInline(handler, payload = {}, options = {}) {
    checkNames(options, ['client', 'signals', 'jobs', 'steps', ...PROPERTIES], 'runInline()');
    const { client, signals = {}, jobs = {}, steps = {}, ...job } = options;
    const row = {
        id: '1', lease: '1', queue: job.queue ?? 'default', kind: job.kind ?? '', payload: JSON.parse(toJson(payload, 'the payload')),
        attempt: job.attempt ?? 1, max_attempts: job.maxAttempts ?? 20, priority: job.priority ?? 0, version: job.version ?? 0,
        run_at: (job.runAt ?? new Date()) / 1000, created_at: (job.createdAt ?? new Date()) / 1000, progress: job.progress ?? null,
        metadata: job.metadata ?? null,
    };
    const memory = { signals, jobs, steps: new Map(Object.entries(steps)), spawned: [], logged: [] };
    let own = null;
    const wanted = async () => client ?? (own ??= await connect(await configurationOf({}, 'jobq runInline')));
    const attempt = new Attempt(row, {
        transaction: client && await isWithin(client) ? WITHIN : AUTOCOMMIT,
        client: wanted, progressed() {}, flush() {}, settle: async () => {}, resume() {}, ended() {}, verify: async () => 'held',
        logged: (_attempt, line) => memory.logged.push(line), writeLines() {},
        ask: async (_client, text, values) => [ANSWERS.get(text)(memory, ...values.slice(2))],
    });
    try {
        const { outcome, error, value } = await handle(handler, attempt);
        return {
            outcome: NAMES[outcome.what] ?? outcome.text, result: attempt.state === 'completed' ? attempt.result : value, error,
            progress: attempt.progress === undefined ? undefined : JSON.parse(attempt.progress),
            steps: Object.fromEntries(memory.steps), spawned: memory.spawned, logged: memory.logged,
        };
    } finally {
        await own?.end();
    }
}

const NAMES = { complete: 'completed', fail: 'failed', snooze: 'snoozed', release: 'released' };

// The answers that the server would give, for a job without a row.
const ANSWERS = new Map([
    [COMPLETE_MUST_HOLD, () => ({})],
    [STEP, ({ steps }, name) => (steps.has(name) ? { state: 'done', result: steps.get(name) } : { state: 'run' })],
    [STEP_DONE, ({ steps }, name, json) => {
        steps.set(name, JSON.parse(json));
        return { state: 'saved', result: steps.get(name) };
    }],
    [SLEEP, () => ({ state: 'ready' })],
    [AWAIT, ({ signals }, event) => (event in signals ? { state: 'ready', payload: signals[event] } : { state: 'waiting' })],
    [AWAIT_JOBS, ({ jobs }, ids, name) => (name in jobs
        ? { state: 'ready', results: ids.map((id, place) => ({ job_id: id, status: 'completed', result: jobs[name][place] })) }
        : { state: 'waiting' })],
    [SPAWN, ({ spawned }, name, specs) => {
        const first = spawned.length + 2;
        spawned.push(...JSON.parse(specs));
        return { state: 'saved', job_ids: spawned.slice(first - 2).map((_, place) => String(first + place)) };
    }],
]);

// ---- the caller's connection

async function isWithin(client) {
    try {
        await client.query('SAVEPOINT jobq_drain');
        await client.query('RELEASE SAVEPOINT jobq_drain');
        return true;
    } catch (error) {
        if (sqlstate(error) === '25P01') return false;
        throw error;
    }
}

async function kitOf(client) {
    const within = await isWithin(client);
    const ask = async (text, values) => (await client.query({ text, values, types })).rows;
    return { ask, attempt: (row, handler) => attemptOf(row, handler, { client, ask, within }) };
}

async function attemptOf(row, handler, { client, ask, within }) {
    const [logged, unsent] = [[], []];
    const attempt = new Attempt(row, {
        logged: (_attempt, line) => unsent.push({ ...line, id: row.id, lease: row.lease, at: monotonic() }), writeLines: () => writeLines(),
        transaction: within ? WITHIN : AUTOCOMMIT, client: async () => client, progressed() {}, settle: async () => {}, resume() {}, ended() {},
        ask: (_client, text, values) => ask(text, values), flush: () => flush(),
        verify: async () => (await ask(HEARTBEAT, [row.id, row.lease, null]))[0].state,
    });
    const flush = async () => {
        if (attempt.progress !== undefined) await ask(HEARTBEAT, [row.id, row.lease, attempt.progress]);
        attempt.progress = undefined;
    };
    const writeLines = async () => {
        const lines = unsent.splice(0);
        if (lines.length) await ask(WRITE_LOG, logValues(lines, monotonic()));
        logged.push(...lines.map(({ level, text }) => ({ level, text })));
    };
    if (within) await client.query('SAVEPOINT jobq_attempt');
    const { outcome, error, value } = await handle(handler, attempt);
    if (within) await mend(client, 'jobq_attempt');
    await flush();
    await writeLines();
    const told = { id: row.id, kind: row.kind, attempt: row.attempt, logged };
    if (within) await client.query('SAVEPOINT jobq_report');
    try {
        return { ...told, outcome: await report(outcome, row, ask), result: value, error };
    } catch (refused) {
        if (outcome.what !== 'complete') throw refused;
        if (within) await mend(client, 'jobq_report');
        return { ...told, outcome: await report(afterRefusal(outcome, refused), row, ask), result: undefined, error: refused };
    }
}

// Rolls back to the savepoint after a failed statement, so that the caller's transaction can continue.
async function mend(client, savepoint) {
    try {
        await client.query(`RELEASE SAVEPOINT ${savepoint}`);
    } catch (error) {
        if (sqlstate(error) !== '25P02') throw error;
        await client.query(`ROLLBACK TO SAVEPOINT ${savepoint}`);
    }
}

async function handle(handler, attempt) {
    try {
        const value = await handling(new Job(attempt), handler);
        const outcome = ofReturn(value, attempt.state);
        return { outcome, value, error: outcome.error };
    } catch (error) {
        return { outcome: ofError(error, attempt.cancelled, attempt.state), value: undefined, error };
    }
}

// Sends the report and returns the outcome of the job.
async function report(outcome, { id, lease }, ask) {
    const one = async (text, ...values) => (await ask(text, values))[0];
    switch (outcome.what) {
        case 'complete': return (await one(COMPLETE_MANY, [id], [lease], [outcome.result])).completed ? 'completed' : 'lost';
        case 'release': return (await one(RELEASE_MANY, [id], [lease])).released ? 'released' : 'lost';
        case 'snooze': return (await one(SNOOZE, id, lease, toInterval(outcome.delay))).snoozed ? 'snoozed' : 'lost';
        case 'fail': {
            const { status } = await one(FAIL, id, lease, outcome.text, toInterval(outcome.retryIn) ?? null, outcome.retry ?? true, null);
            if (status === null) return 'lost';
            return status === 'scheduled' || status === 'pending' ? 'retried' : status;
        }
        default: return outcome.text;
    }
}
