// A cluster of shards behind a router: reads the map from the router, and connects to the shards directly.
import { configurationOf, connect, destroy, isBroken, sqlstate } from './connection.js';
import { pg } from './driver.js';
import { ShardMap, parametersOf } from './shard_map.js';
import { now } from './timing.js';
import { types } from './values.js';

const READ_EVERY = 5;       // seconds between two reads of the map
const READ_TIMEOUT = 10;    // seconds
const MAP = `SELECT m.version::text,
    (SELECT coalesce(json_agg(s), '[]') FROM jobq_router.shards s) AS shards,
    (SELECT coalesce(json_agg(b), '[]') FROM jobq_router.buckets b) AS buckets,
    (SELECT coalesce(json_agg(q), '[]') FROM jobq_router.queues q) AS queues
    FROM jobq_router.map m`;
// A change of the map that another router has made arrives with this call.
const REFRESH = 'SELECT jobq_router.refresh()';
const WRONG_SHARD = 'JQR03';
const STALE = ['JQR01', 'JQR02', WRONG_SHARD];  // the map of the caller and the map of the shard differ
const READ_ONLY = '25006';
const READ_COMMITTED = '-c default_transaction_isolation=read\\ committed';

/**
 * A connection to a cluster for enqueue(), enqueueMany(), enqueueJobs(), and combinedEnqueue(). Jobs are sent to their shards directly
 * if the map says where they go, and otherwise to the router. router: a URL, a configuration of pg, or a function that returns one, of
 * a database with jobq_router. max: the maximum number of connections to the router and to each shard.
 */
export class Cluster {
    #pools = new Map();     // shard, or undefined for the router -> promise of the pool
    #map = null;
    #reading = null;
    #readAt = -Infinity;
    #turns = new Map();     // shard -> the host that was writable last
    #ended = false;

    constructor(router, { max = 10 } = {}) {
        Object.assign(this, { router, max });
    }

    /**
     * Returns the map of the cluster. If the last read was more than 5 seconds ago, or if a shard has rejected the map, reads the map
     * again in the background.
     */
    async map() {
        if (!this.#map) await this.#read();
        else if (now() >= this.#readAt + READ_EVERY) this.#read().catch(() => {});      // without the router, the last map is the best
        return this.#map;
    }

    #read() {
        this.#reading ??= this.#readOnce().finally(() => {
            this.#readAt = now();
            this.#reading = null;
        });
        return this.#reading;
    }

    async #readOnce() {
        const { rows: [row] } = await (await this.#pool()).query({ text: MAP, types, query_timeout: READ_TIMEOUT * 1000 });
        this.#map = new ShardMap(row);
    }

    /** Lets the router ask the shards for a newer map, and reads it. */
    async refresh() {
        await (await this.#pool()).query(REFRESH);
        await this.#read();
        return this.#map;
    }

    /** Executes a statement on the router. */
    async query({ text, values }) {
        return (await this.#pool()).query({ text, values, types });
    }

    /**
     * Executes a statement that enqueues these jobs, whose keys are those of jobq_enqueue_jobs, on their shard, or on the router if the
     * map does not assign all jobs to one shard. The statement must end with a FROM clause, or with a SELECT list.
     */
    async enqueue(jobs, { text, values }) {
        const map = await this.map();
        const shards = new Set(jobs.map((job) => map.shardOf(job)));
        if (shards.size === 2) shards.delete('any');
        const [only] = shards;
        const shard = only === 'any' ? map.anyShard() : only;
        if (shards.size !== 1 || shard === undefined) return this.query({ text, values });
        const checks = `jobq_shard.require_shard(${shard}), jobq_shard.require_map(${map.version})`;
        const checked = / FROM /.test(text) ? `${text}, (SELECT ${checks}) checks` : `${text}, ${checks}`;
        return await this.#onShard(shard, { text: checked, values, types }) ?? this.query({ text, values });
    }

    // Returns the answer of a shard, or undefined if the shard has not executed the statement, so that the router can.
    async #onShard(shard, statement) {
        const opening = this.#pool(shard);
        let client, broken;
        try {
            client = await (await opening).connect();
        } catch {
            this.#forget(shard, opening);
            return undefined;
        }
        try {
            return await client.query(statement);
        } catch (error) {
            const state = sqlstate(error);
            if (isBroken(error)) {
                broken = error;
                this.#forget(shard, opening);
            }
            if (![...STALE, READ_ONLY].includes(state)) throw error;
            if (state === WRONG_SHARD) this.#forget(shard, opening);
            this.#readAt = -Infinity;
            return undefined;
        } finally {
            client.release(broken);
        }
    }

    /** Returns the configuration of a connection to a shard. If the shard has several hosts, chooses one that accepts writes. */
    async configurationOf(shard) {
        const { connection } = (await this.map()).shards.get(shard) ?? {};
        if (connection === undefined) throw new Error(`shard ${shard} is not in the map of the cluster`);
        const { host, hostaddr = host ?? '', port = '5432', dbname, user, options = READ_COMMITTED } = parametersOf(connection);
        const { connectionString, ...common } = await configurationOf(this.router, 'jobq');
        const router = new pg.Client({ ...common, connectionString });
        const password = typeof router.password === 'function' ? await router.password() : router.password;
        const role = user ?? router.user;
        const hosts = hostaddr.split(','), ports = port.split(',');
        const candidates = hosts.map((address, place) => ({
            ...common, user: role, password, ssl: plain(router.ssl), database: dbname ?? role, host: address || undefined,
            port: Number(ports[place] ?? ports[0]), options,
        }));
        return candidates.length === 1 ? candidates[0] : this.#writable(shard, candidates);
    }

    async #writable(shard, candidates) {
        const first = this.#turns.get(shard) ?? 0;
        for (let turn = 0; turn < candidates.length; turn += 1) {
            const place = (first + turn) % candidates.length;
            if (!await isWritable(candidates[place])) continue;
            this.#turns.set(shard, place);
            return candidates[place];
        }
        throw new Error(`no host of shard ${shard} accepts writes`);
    }

    async end() {
        this.#ended = true;
        const pools = [...this.#pools.values()];
        this.#pools.clear();
        await Promise.allSettled(pools.map(async (pool) => (await pool).end()));
    }

    #pool(shard) {
        if (this.#ended) throw new Error('the cluster has been ended');
        if (!this.#pools.has(shard)) {
            const opening = this.#open(shard);
            this.#pools.set(shard, opening);
            opening.catch(() => this.#pools.delete(shard));
        }
        return this.#pools.get(shard);
    }

    // The next statement opens new connections to the shard, perhaps to another host. The old pool is not ended, because other calls may
    // use it. It closes its connections when they have been idle for a while.
    #forget(shard, opening) {
        if (this.#pools.get(shard) === opening) this.#pools.delete(shard);
    }

    async #open(shard) {
        const configuration = await (shard === undefined ? configurationOf(this.router, 'jobq') : this.configurationOf(shard));
        const pool = new pg.Pool({ ...configuration, max: this.max });
        pool.on('error', () => {});     // an idle connection is broken, and is no longer in the pool
        return pool;
    }
}

async function isWritable(configuration) {
    let client;
    try {
        client = await connect(configuration);
        const { rows: [row] } = await client.query({ text: 'SHOW transaction_read_only', query_timeout: READ_TIMEOUT * 1000 });
        return row.transaction_read_only === 'off';
    } catch {
        return false;
    } finally {
        if (client) destroy(client);
    }
}

// pg hides the key of a client certificate, so that it would not reach other threads.
const plain = (ssl) => (ssl && typeof ssl === 'object' && ssl.key ? { ...ssl, key: ssl.key } : ssl);
