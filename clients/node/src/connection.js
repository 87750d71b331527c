// A connection that is opened again after it breaks. Runs one statement at a time, in the order of the calls.
import { pg } from './driver.js';
import { pauseAfter, milliseconds, now, sleep } from './timing.js';
import { messageOf, types } from './values.js';

const CONNECT_TIMEOUT = 10;
const KEEPALIVE = 10;
const ANSWER_TIMEOUT = 60;  // seconds without an answer after which the server is considered unreachable

/** Returns the SQLSTATE of a server error, or undefined for any other error. */
export const sqlstate = (error) => (error?.severity === undefined ? undefined : error.code);

/** Returns whether the error makes the connection unusable, including answers that have not arrived. */
export function isBroken(error) {
    const state = sqlstate(error);
    return state === undefined || state === '25006' || (['08', '53', '57', '58'].includes(state.slice(0, 2)) && !isCanceled(error));
}

/** Returns whether the statement was canceled by a timeout or a request. */
export const isCanceled = (error) => sqlstate(error) === '57014';

/** Returns whether the transaction was rolled back because of another transaction. */
export const isCollision = (error) => ['40001', '40P01'].includes(sqlstate(error));

/** Returns whether the same statement may succeed a moment later. */
export const isAgain = (error) => isBroken(error) || isCollision(error) || isCanceled(error) || sqlstate(error) === '55P03';

/** Returns whether the connection passes through a pooler, which tells the client a process ID other than the server's. */
export async function isPooled(client) {
    const { rows: [{ pid }] } = await client.query({ text: 'SELECT pg_backend_pid() AS pid', types });
    return pid !== client.processID;
}

export const isLostLease = (error) => sqlstate(error) === 'JQ001';

/** Returns the configuration for pg from the caller's connection option, whose values take precedence. */
export async function configurationOf(connection, applicationName) {
    const given = typeof connection === 'function' ? await connection() : connection;
    const configuration = typeof given === 'string' ? { connectionString: given } : given;
    return {
        application_name: process.env.PGAPPNAME ?? applicationName,
        connectionTimeoutMillis: CONNECT_TIMEOUT * 1000,
        keepAlive: true,
        keepAliveInitialDelayMillis: KEEPALIVE * 1000,
        ...configuration,
    };
}

/** Returns a connected client. Errors of statements reject the statements; other errors of the connection are passed to broken. */
export async function connect(configuration, broken = () => {}) {
    const client = new pg.Client(configuration);
    client.on('error', broken);
    try {
        await client.connect();
    } catch (error) {
        destroy(client);
        throw error;
    }
    return client;
}

// Hides the SQLSTATE of a rejected connection (28P01, 3D000, 55000 ...), because it does not answer a statement and may be
// temporary.
function unanswered(error) {
    throw sqlstate(error) === undefined ? error : Object.assign(new Error(error.message, { cause: error }), { code: error.code, hint: error.hint });
}

/** Closes the connection at once, even during a statement. */
export const destroy = (client) => client.connection?.stream?.destroy();

export class Connection {
    #client = null;
    #opening = null;
    #failures = 0;
    #told = false;
    #closed = new AbortController();

    /**
     * configuration: function that returns the configuration for pg. name and log: used in log messages about breaks.
     * answered(seconds): called after each answer, except answers to waits. expected(seconds): called before each try, with the
     * time that the statement may wait.
     */
    constructor({ name, configuration, log, prepare = false, notice = () => {}, answered = () => {}, expected = () => {} }) {
        Object.assign(this, { name, configuration, log, prepare, notice, answered, expected });
    }

    /** Connects once, and throws if that fails. After later breaks, query() connects again. */
    async open() {
        if (!this.#client) await (this.#opening ??= this.#connect().finally(() => { this.#opening = null; }));
        return this.#client;
    }

    /** Connects again after a break. The pause before each try grows until a statement succeeds. */
    async reopen(timeout = 0) {
        this.expected(timeout);
        if (this.#failures > 0 && !this.#client) await sleep(pauseAfter(this.#failures), this.#closed.signal);
        try {
            return await this.open();
        } catch (error) {
            this.#break(null, error);
            throw error;
        }
    }

    /** Returns the rows. If the connection breaks, the next call connects again. */
    async query(statement, values, timeout = 0) {
        const client = await this.reopen(timeout);
        try {
            const begun = now();
            const { rows } = await this.#answer(client, statement, values, timeout + ANSWER_TIMEOUT);
            if (timeout === 0) this.answered(now() - begun);
            this.#works();
            return rows;
        } catch (error) {
            if (isBroken(error)) this.#break(client, error);
            throw error;
        }
    }

    async close() {
        this.#closed.abort();
        const client = this.#client;
        this.#client = null;
        if (!client) return;
        const timer = setTimeout(() => destroy(client), 1000);
        await client.end().catch(() => {});
        clearTimeout(timer);
    }

    /** Closes the connection at once, even during a statement. */
    abandon() {
        this.#closed.abort();
        if (this.#client) destroy(this.#client);
        this.#client = null;
    }

    async #connect() {
        if (this.#closed.signal.aborted) throw new Error('the connection was closed');
        let mine = null;
        const client = await connect(await this.configuration(), (error) => mine && this.#break(mine, error)).catch(unanswered);
        if (this.#closed.signal.aborted) {
            destroy(client);
            throw new Error('the connection was closed');
        }
        mine = client;
        client.on('notice', this.notice);
        this.#client = client;
    }

    async #answer(client, text, values, timeout) {
        const silent = new Error(`no answer within ${timeout} s`);
        const timer = setTimeout(() => client.connection.stream.destroy(silent), milliseconds(timeout));
        try {
            return await client.query({ text, values, types, name: this.prepare ? nameOf(text) : undefined });
        } finally {
            clearTimeout(timer);
        }
    }

    #works() {
        if (this.#told) this.log.info(`connected again for ${this.name}`);
        this.#told = false;
        this.#failures = 0;
    }

    #break(client, error) {
        if (client !== this.#client) return;
        if (client) destroy(client);
        this.#client = null;
        this.#failures += 1;
        if (this.#closed.signal.aborted) return;
        if (!this.#told) this.log.warn(`the connection for ${this.name} is broken, trying again: ${messageOf(error)}`);
        this.#told = true;
    }
}

const names = new Map();

// Returns the name of a prepared statement, which is always the same for the same text.
function nameOf(text) {
    if (!names.has(text)) names.set(text, `jobq_${names.size + 1}`);
    return names.get(text);
}
