// The map of a cluster, which assigns queues and keys to shards, as the router reads it (router/sql/router/30_place.sql). Needs no
// server.
import { createHash } from 'node:crypto';

/** Returns the parameters in a libpq connection string, such as "host=a.example dbname=shard1". */
export function parametersOf(conninfo) {
    const found = {};
    for (const [, name, quoted, plain] of conninfo.matchAll(/(\w+)\s*=\s*(?:'((?:\\.|[^'\\])*)'|((?:\\.|[^\s\\])*))/gs)) {
        found[name] = (quoted ?? plain).replaceAll(/\\(.)/gs, '$1');
    }
    return found;
}

/** Returns the bucket, from 0 to 1023, of a key of a queue or, without a key, of the queue. */
export function bucketOf(queue, key) {
    const hash = createHash('sha256').update(key === undefined ? queue : `${queue}\n${key}`, 'utf8').digest();
    return hash[0] * 4 + (hash[1] >> 6);
}

export class ShardMap {
    /**
     * version: of the map. shards: [{shard_id, connection, weight, state}]. buckets: [{bucket, shard_id, was_on}]. queues: [{queue,
     * spread, spread_by, shard_id, was_on}], the queues that are spread or whose shard was chosen.
     */
    constructor({ version, shards, buckets, queues }) {
        this.version = version;
        this.shards = new Map(shards.map((shard) => [shard.shard_id, shard]));
        this.buckets = new Map(buckets.map((bucket) => [bucket.bucket, bucket]));
        this.queues = new Map(queues.map((queue) => [queue.queue, queue]));
    }

    /**
     * Returns the shard of a job: its number, "any" if the job can go to any shard, or undefined if only the router can decide, for
     * example because the key is moving to another shard, or because the router rejects the job.
     */
    shardOf({ queue = 'default', unique_key: uniqueKey, group_key: groupKey, concurrency_key: concurrencyKey, ...rest }) {
        if (['depends_on', 'ref', 'batch_id', 'limits'].some((name) => given(rest[name]))) return undefined;
        const route = this.queues.get(queue);
        if (!route?.spread) return settled(route ?? this.buckets.get(bucketOf(queue)));
        const keys = [groupKey, concurrencyKey, uniqueKey].filter(given);
        if (keys.length === 0) return 'any';
        const chosen = { unique_key: uniqueKey, group_key: groupKey, concurrency_key: concurrencyKey }[route.spread_by];
        if (route.spread_by ? !given(chosen) : keys.some((key) => key !== keys[0])) return undefined;
        return settled(this.buckets.get(bucketOf(queue, chosen ?? keys[0])));
    }

    /** Returns an active shard, chosen at random by weight, or undefined if there is none. */
    anyShard(random = Math.random()) {
        const active = [...this.shards.values()].filter(({ state }) => state === 'active');
        let left = random * active.reduce((sum, { weight }) => sum + weight, 0);
        for (const { shard_id: shard, weight } of active) {
            left -= weight;
            if (left < 0) return shard;
        }
        return undefined;
    }
}

const given = (value) => value !== undefined && value !== null;

const settled = (place) => (place && place.was_on.length === 0 ? place.shard_id : undefined);
