"""Clients that connect to the shards of a cluster directly: where jobs go, what happens when the map changes, and workers of all
shards. The router and the shards are databases of the server that PGHOST and so on select."""

import asyncio
import logging
import os
import threading
import time
import unittest
from concurrent.futures import ThreadPoolExecutor
from unittest import mock

import psycopg

import jobq
from jobq.shard_map import ANY, ShardMap, bucket_of

LIMIT = 120
NAMES = [f"jobq_python_{name}_{os.getpid()}" for name in ("router", "shard1", "shard2", "shard3")]


def on_server(*statements):
    with psycopg.connect(autocommit=True) as connection:
        for statement in statements:
            rows = connection.execute(statement)
        return rows.fetchall() if rows.description else []


def becomes(condition):
    deadline = time.monotonic() + LIMIT
    while not condition():
        assert time.monotonic() < deadline, "did not become true"
        time.sleep(0.05)


def setUpModule():
    logging.getLogger("jobq").setLevel(logging.CRITICAL)
    if not on_server("SELECT 1 FROM pg_available_extensions WHERE name = 'plproxy'"):
        raise unittest.SkipTest("the server has no PL/Proxy")
    on_server(*(f"CREATE DATABASE {name}" for name in NAMES))
    for number, name in enumerate(NAMES):
        with psycopg.connect(dbname=name, autocommit=True) as connection:
            for extension in ("jobq", "jobq_shard") if number else ("jobq_router",):
                connection.execute(f"CREATE EXTENSION {extension} CASCADE")
    for number in (1, 2):
        add(number)
    router("SELECT jobq_route_queue('spread', spread => true), jobq_route_queue('by group', spread => true, spread_by => 'group_key'), "
           "jobq_route_queue('second', shard_id => 2)")
    router("SELECT jobq_settle()")


def tearDownModule():
    on_server(*(f"DROP DATABASE {name} WITH (FORCE)" for name in NAMES))


def router(statement, *parameters):
    with psycopg.connect(dbname=NAMES[0], autocommit=True) as connection:
        return connection.execute(statement, parameters).fetchall()


def shard(number, statement, *parameters):
    with psycopg.connect(dbname=NAMES[number], autocommit=True) as connection:
        return connection.execute(statement, parameters).fetchall()


def add(number):
    socket, port = on_server("SELECT current_setting('unix_socket_directories'), current_setting('port')")[0]
    router("SELECT jobq_add_shard(%s, %s)", number, f"host={socket} port={port} dbname={NAMES[number]}")


class ShardMapTest(unittest.TestCase):
    def test_a_shard_is_chosen_by_its_weight(self):
        shards = [{"shard_id": number, "weight": weight, "state": state} for number, weight, state in
                  ((1, 1, "active"), (2, 3, "active"), (3, 9, "draining"))]
        chosen = ShardMap(1, shards, [], [])
        self.assertEqual([chosen.any_shard(share) for share in (0, 0.24, 0.26, 0.99)], [1, 1, 2, 2])
        self.assertIsNone(ShardMap(1, [], [], []).any_shard())


class ClusterTest(unittest.TestCase):
    def setUp(self):
        self.cluster = jobq.Cluster(f"dbname={NAMES[0]}")
        self.addCleanup(self.cluster.close)
        self.routed = 0
        run = self.cluster.run

        def counted(statement, parameters):
            self.routed += "jobq_enqueue" in statement
            return run(statement, parameters)

        self.cluster.run = counted

    def test_buckets_and_shards_are_those_of_the_router(self):
        found = self.cluster.map()
        for queue, key in (("q", None), ("spread", "a"), ("spread", ""), ("Größe \U0001F600", "ключ"), ("by group", "\n")):
            self.assertEqual(bucket_of(queue, key), router("SELECT jobq_router.bucket_of(%s, %s)", queue, key)[0][0])
        for number in range(40):
            key = f"key {number}"
            for job in ({"queue": f"plain {number}", "unique_key": key}, {"queue": "second", "group_key": key}, {"queue": "spread", "unique_key": key},
                        {"queue": "spread", "concurrency_key": key, "group_key": key}, {"queue": "by group", "group_key": key, "unique_key": "other"}):
                place = router("SELECT CASE WHEN was_on = '{}' THEN shard END FROM jobq_router.place_of(%s, %s, %s, %s)", job["queue"],
                               job.get("unique_key"), job.get("group_key"), job.get("concurrency_key"))
                self.assertEqual(found.shard_of(job), place[0][0], job)
        self.assertEqual(found.shard_of({"queue": "spread"}), ANY)
        for rest in ({"unique_key": "a", "group_key": "b"}, {"depends_on": [1]}, {"batch_id": 5}, {"ref": "a"}, {"limits": []}):
            self.assertIsNone(found.shard_of({"queue": "spread", **rest}))
        self.assertIsNone(found.shard_of({"queue": "by group", "unique_key": "a"}))

    def test_jobs_go_to_their_shards_directly_and_otherwise_to_the_router(self):
        ids = [jobq.enqueue(self.cluster, "second", 1), *(row.job_id for row in jobq.enqueue_many(self.cluster, "second", [2, 3])),
               *(row.job_id for row in jobq.enqueue_jobs(self.cluster, [{"queue": "second"}]))]
        self.assertEqual([job % 1024 for job in ids], [2] * 4)
        router("SELECT jobq_settle()")
        self.cluster.refresh()
        self.routed = 0
        for number in range(20):
            job = jobq.enqueue(self.cluster, "spread", group_key=f"g {number}")
            self.assertEqual(job % 1024, self.cluster.map().shard_of({"queue": "spread", "group_key": f"g {number}"}))
        one = jobq.enqueue_many(self.cluster, "spread", [1, 2], group_keys=["g 1", None])[0].job_id
        self.assertEqual(one % 1024, self.cluster.map().shard_of({"queue": "spread", "group_key": "g 1"}))
        combined = jobq.CombinedEnqueue(self.cluster)
        self.assertEqual(combined("second") % 1024, 2)
        self.assertEqual(asyncio.run(jobq.aenqueue(self.cluster, "second")) % 1024, 2)
        self.assertEqual(self.routed, 0)
        first = jobq.enqueue_jobs(self.cluster, [{"queue": "second", "ref": "a"}, {"queue": "second", "depends_on": ["@a"]}])[0].job_id
        jobq.enqueue(self.cluster, "second", depends_on=[first])
        batch = asyncio.run(jobq.acreate_batch(self.cluster, "b", on_success={"queue": "second"}))
        self.assertEqual(jobq.get_batch(self.cluster, batch)["total"], 0)
        keys = [f"u {number}" for number in range(20)]
        jobq.enqueue_many(self.cluster, "spread", keys, unique_keys=keys)
        self.assertEqual(self.routed, 3)
        with self.assertRaises(psycopg.errors.FeatureNotSupported):
            jobq.enqueue(self.cluster, "spread", unique_key="a", group_key="b")
        with self.assertRaises(psycopg.errors.NumericValueOutOfRange):
            jobq.enqueue(self.cluster, "second", priority=99999)

    def test_after_a_change_of_the_map_each_key_is_still_on_one_shard(self):
        results, ended = [], threading.Event()

        def produce():
            while not ended.is_set():
                key = f"moving {len(results) % 40}"
                results.append((key, jobq.enqueue(self.cluster, "spread", unique_key=key, kind="moving")))

        with ThreadPoolExecutor(4) as threads:
            producers = [threads.submit(produce) for _ in range(4)]
            try:
                becomes(lambda: len(results) >= 40)
                add(3)
                added = len(results)
                becomes(lambda: len(results) >= added + 200)
            finally:
                ended.set()
        for producer in producers:
            producer.result()
        self.assertEqual(len(set(results)), len({key for key, _ in results}))
        self.assertEqual(sum(len(shard(number, "SELECT 1 FROM jobq.jobs WHERE kind = 'moving'")) for number in (1, 2, 3)), len(set(results)))
        self.assertTrue(0 < self.routed < len(results))

    def test_connect_options_of_the_router_do_not_apply_to_shards(self):
        cluster = jobq.Cluster(connect_options={"dbname": NAMES[0], "options": "-c work_mem=1MB", "connect_timeout": 20})
        self.addCleanup(cluster.close)
        self.assertEqual(jobq.enqueue(cluster, "second") % 1024, 2)
        self.assertEqual(cluster.shard_options, {"connect_timeout": 20})
        with self.assertRaisesRegex(psycopg.OperationalError, "shard 99 is not in the map"):
            cluster.conninfo_of(99)

    def test_the_jobs_of_a_shard_that_cannot_be_reached_go_through_the_router(self):
        with mock.patch.object(self.cluster, "conninfo_of", return_value="host=/nowhere"):
            self.assertEqual(jobq.enqueue(self.cluster, "second") % 1024, 2)
        self.assertEqual(self.routed, 1)


class WorkerTest(unittest.TestCase):
    @staticmethod
    def completed(queue):
        return sum(shard(number, "SELECT count(*) FROM jobq.jobs WHERE queue = %s AND status = 'completed'", queue)[0][0] for number in (1, 2, 3))

    def test_a_worker_serves_all_shards_within_its_slots(self):
        lock, go_on, running, most = threading.Lock(), threading.Event(), 0, 0

        def handler(job):
            nonlocal running, most
            with lock:
                running += 1
                most = max(most, running)
            with job.connection() as connection:
                self.assertEqual(connection.execute("SELECT jobq_shard_id()").fetchone()[0], job.id % 1024)
            go_on.wait(LIMIT)
            with lock:
                running -= 1

        for number in (1, 2):
            shard(number, "SELECT jobq_enqueue('served', kind => 'x') FROM generate_series(1, 10)")
        worker = jobq.Worker("served", {"x": handler}, slots=4, conninfo=f"dbname={NAMES[0]}", cluster=True)
        worker.start()
        becomes(lambda: running == 4)
        go_on.set()
        becomes(lambda: self.completed("served") == 20)
        worker.stop()
        self.assertTrue(worker.join(LIMIT))
        self.assertEqual(most, 4)

    def test_a_job_is_completed_although_another_shard_has_all_slots(self):
        go_on, quick = threading.Event(), threading.Event()
        shard(1, "SELECT jobq_enqueue('filled', kind => 'long') FROM generate_series(1, 6)")
        shard(2, "SELECT jobq_enqueue('filled', kind => 'quick')")
        worker = jobq.Worker("filled", {"long": lambda job: go_on.wait(LIMIT), "quick": lambda job: quick.set()}, slots=2,
                             conninfo=f"dbname={NAMES[0]}", cluster=True)
        worker.start()
        becomes(lambda: shard(1, "SELECT count(*) FROM jobq.jobs WHERE queue = 'filled' AND status = 'processing'")[0][0] > 0)
        go_on.set()
        becomes(lambda: self.completed("filled") == 7)
        worker.stop()
        self.assertTrue(worker.join(LIMIT))

    def test_a_worker_of_asyncio_starts_although_a_shard_cannot_be_reached_and_serves_it_later(self):
        reachable = threading.Event()
        conninfo_of = jobq.Cluster.conninfo_of

        async def work():
            async def handler(job):
                async with job.connection() as connection:
                    await connection.execute("SELECT 1")

            worker = jobq.AsyncWorker("reached", {"x": handler}, conninfo=f"dbname={NAMES[0]}", cluster=True)
            await worker.start()
            shard(2, "SELECT jobq_enqueue('reached', kind => 'x')")
            reachable.set()
            await asyncio.to_thread(becomes, lambda: self.completed("reached") == 1)
            worker.stop()
            self.assertTrue(await worker.join(LIMIT))

        with mock.patch.object(jobq.Cluster, "conninfo_of", lambda cluster, number: conninfo_of(cluster, number)
                               if number != 2 or reachable.is_set() else "host=/nowhere"):
            asyncio.run(work())

    def test_a_worker_does_not_start_without_a_router(self):
        worker = jobq.Worker("q", {"x": print}, conninfo="host=/nowhere", cluster=True)
        with self.assertRaises(psycopg.OperationalError):
            worker.start()


if __name__ == "__main__":
    unittest.main()
