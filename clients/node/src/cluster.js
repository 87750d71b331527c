// A cluster of shards behind a router: reads the map from the router, and connects to the shards directly.
import { configurationOf, isBroken, sqlstate } from './connection.js';
import { pg } from './driver.js';
import { ShardMap, parametersOf } from './shard_map.js';
import { now } from './timing.js';
import { types } from './values.js';

const READ_EVERY = 5;       // seconds between two looks at the router's map
const MAP = `SELECT m.version::text,
    (SELECT coalesce(json_agg(s), '[]') FROM jobq_router.shards s) AS shards,
    (SELECT coalesce(json_agg(b), '[]') FROM jobq_router.buckets b) AS buckets,
    (SELECT coalesce(json_agg(q), '[]') FROM jobq_router.queues q) AS queues
    FROM jobq_router.map m`;
// A change of the map that another router has made arrives with this call.
const REFRESH = 'SELECT jobq_router.refresh()';
const STALE = ['JQR01', 'JQR02', 'JQR03'];      // the map of the caller and the map of the shard differ
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
    #turns = new Map();     // shard -> number of configurations that have been returned

    constructor(router, { max = 10 } = {}) {
        Object.assign(this, { router, max });
    }

    /** Returns the map of the cluster. Reads it again after a few seconds, and if it has changed there. */
    async map() {
        if (this.#map && now() < this.#readAt + READ_EVERY) return this.#map;
        await (this.#reading ??= this.#read().finally(() => { this.#reading = null; }));
        return this.#map;
    }

    async #read() {
        this.#readAt = now();
        try {
            const { rows: [row] } = await (await this.#pool()).query({ text: MAP, types });
            this.#map = new ShardMap(row);
        } catch (error) {
            if (!this.#map || !isBroken(error)) throw error;    // without the router, the last map is the best
        }
    }

    /** Lets the router ask the shards for a newer map, and reads it. */
    async refresh() {
        await (await this.#pool()).query(REFRESH);
        this.#readAt = -Infinity;
        return this.map();
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
        const [only] = shards;
        const shard = only === 'any' ? map.anyShard() : only;
        if (shards.size !== 1 || shard === undefined) return this.query({ text, values });
        const checked = `${text}${/ FROM /.test(text) ? ',' : ' FROM'} jobq_shard.require_shard(${shard}), jobq_shard.require_map(${map.version})`;
        const client = await this.#pool(shard).then((pool) => pool.connect()).catch(() => null);
        if (client) {
            const answer = await this.#answerOf(client, { text: checked, values, types });
            if (answer) return answer;
        }
        this.#forget(shard);
        return this.query({ text, values });
    }

    // Returns the answer of a shard, or undefined if the shard has rejected the map.
    async #answerOf(client, statement) {
        let broken;
        try {
            return await client.query(statement);
        } catch (error) {
            broken = isBroken(error) ? error : undefined;
            if (!STALE.includes(sqlstate(error))) throw error;
            return undefined;
        } finally {
            client.release(broken);
        }
    }

    /** Returns the configuration of the next connection to a shard. If the shard has several hosts, they take turns. */
    async configurationOf(shard) {
        const { connection = '' } = (await this.map()).shards.get(shard) ?? {};
        const { host = '', port = '5432', dbname, user, options = READ_COMMITTED } = parametersOf(connection);
        const hosts = host.split(','), ports = port.split(',');
        const turn = (this.#turns.get(shard) ?? -1) + 1;
        this.#turns.set(shard, turn);
        const place = turn % hosts.length;
        const { connectionString: _, ...common } = await configurationOf(this.router, 'jobq');
        const router = new pg.Client(await configurationOf(this.router, 'jobq'));
        const { user: role = router.user, password, ssl } = { user, password: router.password, ssl: router.ssl };
        return {
            ...common, user: role, password, ssl, database: dbname ?? role, host: hosts[place] || undefined,
            port: Number(ports[place] ?? ports[0]), options,
        };
    }

    async end() {
        const pools = [...this.#pools.values()];
        this.#pools.clear();
        await Promise.allSettled(pools.map(async (pool) => (await pool).end()));
    }

    #pool(shard) {
        if (!this.#pools.has(shard)) {
            const opening = this.#open(shard);
            this.#pools.set(shard, opening);
            opening.catch(() => this.#pools.delete(shard));
        }
        return this.#pools.get(shard);
    }

    // The next statement reads the map, and opens new connections to the shard, perhaps to another of its hosts.
    #forget(shard) {
        this.#readAt = -Infinity;
        const pool = this.#pools.get(shard);
        this.#pools.delete(shard);
        pool?.then((opened) => opened.end(), () => {});
    }

    async #open(shard) {
        const configuration = await (shard === undefined ? configurationOf(this.router, 'jobq') : this.configurationOf(shard));
        const pool = new pg.Pool({ ...configuration, max: this.max });
        pool.on('error', () => {});     // an idle connection is broken, and is no longer in the pool
        return pool;
    }
}
