// Puts the program together: a worker for each endpoint, and the server for reports.
import process from 'node:process';
import { OptionError, Worker, run } from 'jobq-client';
import pg from 'pg';
import { Circuit } from './circuit.js';
import { Delivery, errorDetails } from './delivery.js';
import { ConfigError } from './errors.js';
import { Post } from './post.js';
import { Reports } from './reports.js';

const REPORT_CONNECTIONS = 4;
const PATIENCE = 10_000;        // milliseconds for a connection or a statement of a report

const line = (level) => (text) => process.stderr.write(`${new Date().toISOString()} ${level} ${text}\n`);
const logger = { info: line('INFO'), warn: line('WARN'), error: line('ERROR') };

export class Push {
    #ends = [];

    /** configuration: the value of readConfiguration(). Throws a ConfigError if the worker rejects an option. */
    constructor(configuration) {
        this.configuration = configuration;
        this.workers = configuration.endpoints.map((endpoint) => this.#workerOf(endpoint));
    }

    /** Works until SIGTERM or SIGINT. Returns the exit status. */
    async run() {
        try {
            await this.#open();
        } catch (error) {
            logger.error(`jobq-push: ${error.message || error.code}`);
            return 1;
        }
        const status = await run(...this.workers);
        for (const end of this.#ends) end();
        return status;
    }

    #workerOf(endpoint) {
        const { connection, worker: options, addresses, reports } = this.configuration;
        const { name, url, timeout, maxResponseBytes, concurrency } = endpoint;
        const post = new Post({ url, timeout, maxBytes: maxResponseBytes, addresses });
        const circuit = new Circuit({
            ...endpoint.circuit, slots: concurrency, setSlots: (slots) => worker.setSlots(slots),
            log: (text) => logger.warn(`jobq-push: endpoint "${name}": ${text}`),
        });
        const delivery = new Delivery({ endpoint, post, circuit, reportUrl: reports && `${reports.url}/${name}` });
        const handler = (job) => delivery.handle(job);
        const worker = checked(() => new Worker({
            ...options, connection, logger, errorDetails, queues: endpoint.queues, slots: concurrency,
            handlers: Object.fromEntries(endpoint.kinds.map((kind) => [kind, handler])),
        }));
        this.#ends.push(() => circuit.end(), () => post.end());
        return worker;
    }

    async #open() {
        const { connection, endpoints, reports: options } = this.configuration;
        const pool = new pg.Pool({
            application_name: 'jobq-push reports', keepAlive: true, ...connection,
            max: REPORT_CONNECTIONS, connectionTimeoutMillis: PATIENCE, query_timeout: PATIENCE,
        });
        pool.on('error', (error) => logger.warn(`jobq-push: a connection for reports is broken: ${error.message}`));
        this.#ends.push(() => pool.end().catch(() => {}));
        const query = async (text, values) => (await pool.query(text, values)).rows;
        if ((await query("SELECT FROM pg_catalog.pg_extension WHERE extname = 'jobq_router'")).length) {
            throw new Error('option "connection" must not lead to a router; run one jobq-push for each shard');
        }
        if (!options) return;
        const reports = new Reports({ endpoints, path: options.path, query, log: (text) => logger.warn(`jobq-push: ${text}`) });
        await reports.listen(options).catch((error) => { throw new Error(`option "reports.listen" cannot be used: ${error.message}`); });
        this.#ends.push(() => reports.end());
    }
}

function checked(make) {
    try {
        return make();
    } catch (error) {
        throw error instanceof OptionError ? new ConfigError(error.message.replace(/^option (\w+)(?: \([^)]*\))?/, 'option "worker.$1"')) : error;
    }
}
