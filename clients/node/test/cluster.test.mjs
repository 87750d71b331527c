// Clients that connect to the shards of a cluster directly: where jobs go, what happens when the map changes, and workers of all
// shards. The router and the shards are databases of one server.
import assert from 'node:assert/strict';
import process from 'node:process';
import { after, test } from 'node:test';
import { Cluster, ClusterWorker, combinedEnqueue, enqueue, enqueueJobs, enqueueMany } from '../src/index.js';
import { ShardMap, bucketOf, parametersOf } from '../src/shard_map.js';
import { becomesTrue, countedGate, lines, newDatabase, working } from './server.mjs';

const router = await newDatabase('router', 'jobq_router');
const skip = !router && 'the server has no PL/Proxy';
const shards = skip ? [] : await Promise.all([1, 2, 3].map((number) => newDatabase(`shard${number}`, 'jobq, jobq_shard')));
const ask = (text, values) => router.query(text, values);
const add = async (number) => {
    const [{ unix_socket_directories: socket }] = await ask('SHOW unix_socket_directories');
    const [{ port }] = await ask('SHOW port');
    await ask('SELECT jobq_add_shard($1, $2)', [number, `host=${socket} port=${port} dbname=${shards[number - 1].name}`]);
};
if (!skip) {
    await add(1);
    await add(2);
    await ask("SELECT jobq_route_queue('spread', spread => true), jobq_route_queue('by group', spread => true, spread_by => 'group_key'), jobq_route_queue('second', shard_id => 2)");
    await ask('SELECT jobq_settle()');
}
process.env.PGDATABASE = router?.name ?? '';
const clusters = [];
after(() => Promise.all(clusters.map((cluster) => cluster.end())));

// Counts the statements that go to the router.
function newCluster() {
    const cluster = new Cluster({});
    clusters.push(cluster);
    const counted = { cluster, routed: 0 };
    const { query } = cluster;
    cluster.query = (statement) => {
        counted.routed += 1;
        return query.call(cluster, statement);
    };
    return counted;
}
const shardOf = (id) => Number(BigInt(id) % 1024n);
const all = async (text, values) => (await Promise.all(shards.map((shard) => shard.query(text, values)))).flat();

test('connection strings are read as libpq does', () => {
    assert.deepEqual(parametersOf("host=a.example,b.example port = 5433 dbname='my \\'db\\' \\\\' options=-c\\ x=1"),
        { host: 'a.example,b.example', port: '5433', dbname: "my 'db' \\", options: '-c x=1' });
    assert.deepEqual(parametersOf(''), {});
});

test('buckets and shards are those of the router', { skip }, async () => {
    const { cluster } = newCluster();
    const map = await cluster.map();
    for (const [queue, key] of [['q', undefined], ['spread', 'a'], ['spread', ''], ['Größe \u{1F600}', 'ключ'], ['by group', '\n']]) {
        const [{ bucket }] = await ask('SELECT jobq_router.bucket_of($1, $2) AS bucket', [queue, key ?? null]);
        assert.equal(bucketOf(queue, key), bucket, queue);
    }
    for (let number = 0; number < 60; number += 1) {
        const key = `key ${number}`;
        for (const spec of [
            { queue: `plain ${number}`, unique_key: key }, { queue: 'second', group_key: key }, { queue: 'spread', unique_key: key },
            { queue: 'spread', group_key: key }, { queue: 'spread', concurrency_key: key, group_key: key },
            { queue: 'by group', group_key: key, unique_key: 'other' },
        ]) {
            const [{ shard }] = await ask("SELECT CASE WHEN was_on = '{}' THEN shard END AS shard FROM jobq_router.place_of($1, $2, $3, $4)",
                [spec.queue, spec.unique_key, spec.group_key, spec.concurrency_key]);
            assert.equal(map.shardOf(spec), shard ?? undefined, JSON.stringify(spec));
        }
    }
    assert.equal(map.shardOf({ queue: 'spread' }), 'any');
    for (const rest of [{ unique_key: 'a', group_key: 'b' }, { depends_on: [1] }, { batch_id: '5' }, { ref: 'a' }, { limits: [] }]) {
        assert.equal(map.shardOf({ queue: 'spread', ...rest }), undefined);
    }
    assert.equal(map.shardOf({ queue: 'by group', unique_key: 'a' }), undefined);
});

test('a shard is chosen by its weight', () => {
    const shard = (number, weight, state = 'active') => ({ shard_id: number, weight, state });
    const map = new ShardMap({ shards: [shard(1, 1), shard(2, 3), shard(3, 9, 'draining')], buckets: [], queues: [] });
    assert.deepEqual([0, 0.24, 0.26, 0.99].map((random) => map.anyShard(random)), [1, 1, 2, 2]);
    assert.equal(new ShardMap({ shards: [], buckets: [], queues: [] }).anyShard(), undefined);
});

test('jobs go to their shards directly, and to the router if the map does not decide', { skip }, async () => {
    const counted = newCluster();
    const { cluster } = counted;
    const ids = [await enqueue(cluster, 'second', 1), ...(await enqueueMany(cluster, 'second', [2, 3])).map(({ id }) => id),
        ...(await enqueueJobs(cluster, [{ queue: 'second', payload: 4 }])).map(({ id }) => id)];
    assert.deepEqual(ids.map(shardOf), [2, 2, 2, 2]);
    const keyed = await Promise.all(Array.from({ length: 20 }, (_, n) => enqueue(cluster, 'spread', n, { groupKey: `g ${n}` })));
    const [{ id: one }] = await enqueueMany(cluster, 'spread', [1, 2], { groupKeys: ['g 1', null] });
    const map = await cluster.map();
    assert.equal(shardOf(one), shardOf(keyed[1]));
    keyed.forEach((id, n) => assert.equal(shardOf(id), map.shardOf({ queue: 'spread', group_key: `g ${n}` })));
    const combined = combinedEnqueue(cluster);
    await Promise.all(Array.from({ length: 20 }, (_, n) => combined('spread', n)));
    assert.equal(counted.routed, 0);
    const [{ id: first }] = await enqueueJobs(cluster, [{ queue: 'second', ref: 'a' }, { queue: 'second', dependsOn: ['@a'] }]);
    await enqueue(cluster, 'second', 5, { dependsOn: [first] });
    const keys = Array.from({ length: 20 }, (_, n) => `u ${n}`);
    await enqueueMany(cluster, 'spread', keys, { uniqueKeys: keys });
    assert.equal(counted.routed, 3);
    await assert.rejects(enqueue(cluster, 'spread', 1, { uniqueKey: 'a', groupKey: 'b' }), { code: '0A000' });
    await assert.rejects(enqueue(cluster, 'second', 1, { priority: 99999 }), { code: '22003' });
});

test('after a change of the map, each key is still on one shard', { skip }, async () => {
    const counted = newCluster();
    const { cluster } = counted;
    let ended = false, number = 0;
    const results = [];
    const producers = Array.from({ length: 4 }, async () => {
        for (; !ended || number < 200; number += 1) {
            const key = `moving ${number % 40}`;
            results.push({ key, id: await enqueue(cluster, 'spread', number, { uniqueKey: key, kind: 'moving' }) });
        }
    });
    await becomesTrue(() => number >= 40);
    await add(3);
    const added = number;
    await becomesTrue(() => number >= added + 200);
    ended = true;
    await Promise.all(producers);
    const byKey = new Map();
    for (const { key, id } of results) byKey.set(key, (byKey.get(key) ?? new Set()).add(id));
    for (const [key, ids] of byKey) assert.equal(ids.size, 1, `${key}: ${[...ids]}`);
    assert.equal((await all("SELECT id FROM jobq.jobs WHERE kind = 'moving'")).length, byKey.size);
    assert.equal((await cluster.refresh()).shards.size, 3);
    assert.ok(counted.routed > 0 && counted.routed < results.length);
});

test('of several hosts of a shard, one that accepts writes is used', { skip }, async () => {
    const { cluster } = newCluster();
    const map = await cluster.map();
    const [{ socket }] = await ask("SELECT current_setting('unix_socket_directories') AS socket");
    const [{ port }] = await ask('SHOW port');
    map.shards.set(2, { ...map.shards.get(2), connection: `host=/nowhere,${socket} port=1,${port} dbname=${shards[1].name}` });
    assert.equal((await cluster.configurationOf(2)).host, socket);
    assert.equal(shardOf(await enqueue(cluster, 'second', 8)), 2);
    await assert.rejects(cluster.configurationOf(99), /shard 99 is not in the map/);
});

test('if a shard has moved to another address, its jobs go through the router', { skip }, async () => {
    const { cluster } = newCluster();
    await enqueue(cluster, 'second', 6);
    cluster.configurationOf = async () => ({ ...process.env.PGPORT && { port: 1 }, host: '/nowhere' });
    const other = newCluster();
    other.cluster.configurationOf = cluster.configurationOf;
    assert.equal(shardOf(await enqueue(other.cluster, 'second', 7)), 2);
    assert.equal(other.routed, 1);
});

test('a worker serves all shards within its slots, and those that are added later', { skip }, async () => {
    const jobs = countedGate();
    await all("SELECT jobq_purge_queue('served')");
    for (const shard of shards.slice(0, 2)) await shard.query("SELECT jobq_enqueue('served', kind => 'x') FROM generate_series(1, 10)");
    const count = async (status) => (await all("SELECT count(*)::int AS n FROM jobq.jobs WHERE queue = 'served' AND status::text = $1", [status]))
        .reduce((sum, { n }) => sum + n, 0);
    await working({ queue: 'served', slots: 4, handlers: { x: jobs.handler }, connection: {}, waitTimeout: 3600 }, async (worker, logged) => {
        await becomesTrue(() => jobs.running === 4);
        jobs.open();
        await becomesTrue(async () => await count('completed') === 20);
        assert.equal(jobs.most, 4);
        await shards[2].query("SELECT jobq_enqueue('served', kind => 'x')");
        await becomesTrue(async () => await count('completed') === 21);
        assert.equal(await worker.stop(), true);
        assert.deepEqual(logged.filter((line) => !line.startsWith('info')), []);
    }, ClusterWorker);
});

test('a worker starts although a shard cannot be reached, and serves it later', { skip }, async () => {
    const worker = new ClusterWorker({ queue: 'reached', handlers: { '': () => {} }, logger: lines(), connection: {} });
    const { configurationOf } = Object.getPrototypeOf(worker.cluster);
    let reachable = false;
    worker.cluster.configurationOf = async (shard) => (shard === 2 && !reachable ? { host: '/nowhere' } : configurationOf.call(worker.cluster, shard));
    await worker.start();
    try {
        await shards[1].query("SELECT jobq_enqueue('reached')");
        reachable = true;
        await becomesTrue(async () => (await shards[1].value("SELECT count(*)::int FROM jobq.jobs WHERE queue = 'reached' AND status = 'completed'")) === 1);
    } finally {
        assert.equal(await worker.stop(), true);
    }
});

test('a worker does not start without a shard or with a wrong option', { skip }, async () => {
    assert.throws(() => new ClusterWorker({ handlers: {} }), { name: 'OptionError' });
    const worker = new ClusterWorker({ handlers: { '': () => {} }, logger: lines(), connection: { host: '/nowhere' } });
    await assert.rejects(worker.start());
    await assert.rejects(worker.stopped);
});
