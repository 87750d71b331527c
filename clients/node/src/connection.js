// A connection to the server that is made anew when it breaks. One statement at a time, in the order of the calls.
import { pg } from './driver.js';
import { pauseAfter, milliseconds, now, sleep } from './timing.js';
import { messageOf, types } from './values.js';

const CONNECT_TIMEOUT = 10;
const KEEPALIVE = 10;
const ANSWER_TIMEOUT = 60;  // a server that is gone without a word

/** The five characters of an error of the server; undefined for all that did not come from it. */
export const sqlstate = (error) => (error?.severity === undefined ? undefined : error.code);

/** The connection is of no use any more, and so are answers that have not come. */
export function isBroken(error) {
    const state = sqlstate(error);
    return state === undefined || state === '25006' || (['08', '53', '57', '58'].includes(state.slice(0, 2)) && !isCanceled(error));
}

/** The statement was ended, by a timeout or a request. */
export const isCanceled = (error) => sqlstate(error) === '57014';

/** Its transaction was rolled back because of another one. */
export const isCollision = (error) => ['40001', '40P01'].includes(sqlstate(error));

/** The same statement may well work a moment later. */
export const isAgain = (error) => isBroken(error) || isCollision(error) || isCanceled(error) || sqlstate(error) === '55P03';

/** Whether a pooler is in between: the process ID that it tells the client is one of its own. */
export async function isPooled(client) {
    const { rows: [{ pid }] } = await client.query({ text: 'SELECT pg_backend_pid() AS pid', types });
    return pid !== client.processID;
}

export const isLostLease = (error) => sqlstate(error) === 'JQ001';

/** What pg wants to connect, of what a caller gave: its names win. */
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

/** A connected client. Its errors are those of its statements; one that comes between them is handed to broken. */
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

// What the server says to who wants in (28P01, 3D000, 55000 ...) answers no statement: it may let him in later.
function unanswered(error) {
    throw sqlstate(error) === undefined ? error : Object.assign(new Error(error.message, { cause: error }), { code: error.code, hint: error.hint });
}

/** At once, whatever it does. */
export const destroy = (client) => client.connection?.stream?.destroy();

export class Connection {
    #client = null;
    #opening = null;
    #failures = 0;
    #told = false;
    #closed = new AbortController();

    /**
     * configuration: a function that returns what pg connects with; name and log: for lines on breaks and returns; answered(seconds): called
     * after each answer but those of waits.
     */
    constructor({ name, configuration, log, prepare = false, notice = () => {}, answered = () => {} }) {
        Object.assign(this, { name, configuration, log, prepare, notice, answered });
    }

    /** Once; an error is thrown. Later breaks are mended by query(). */
    async open() {
        if (!this.#client) await (this.#opening ??= this.#connect().finally(() => { this.#opening = null; }));
        return this.#client;
    }

    /** After a break: connects again, after a pause, which is a longer one each time until a statement works. */
    async reopen() {
        if (this.#failures > 0 && !this.#client) await sleep(pauseAfter(this.#failures), this.#closed.signal);
        try {
            return await this.open();
        } catch (error) {
            this.#break(null, error);
            throw error;
        }
    }

    /** The rows. After a break the next call connects again. */
    async query(statement, values, timeout = 0) {
        const client = await this.reopen();
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

    /** At once, in the middle of a statement. */
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

// The name of a prepared statement: the same for the same text.
function nameOf(text) {
    if (!names.has(text)) names.set(text, `jobq_${names.size + 1}`);
    return names.get(text);
}
