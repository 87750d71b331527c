#!/usr/bin/python3
"""Addresses of shards: new ones, wrong ones, and those of databases that are a shard already."""

import sys
import threading

import psycopg

from cluster import connection, fails, make_cluster, make_router, make_shard, one, router, run, shard, wait_for


def test_a_new_address_is_heard_of_from_another_shard():
    """Also for a router that calls only the shard that has moved."""
    make_cluster(shards=(1, 2))
    make_router("router2", shards=(1,))
    with router() as conn, router("router2") as second:
        queue = one(conn, "SELECT q FROM (SELECT 'queue ' || n AS q FROM generate_series(1, 1000) n) q JOIN jobq_router.buckets b"
                          " ON b.bucket = jobq_router.bucket_of(q) WHERE b.shard_id = 2 AND b.was_on = '{}' LIMIT 1")
        second.execute("UPDATE jobq_router.shards SET connection = 'host=/nowhere dbname=shard2' WHERE shard_id = 2")
        second.execute("SELECT jobq_router.make_servers()")
        fails(second, "08001", "SELECT jobq_enqueue(%s)", queue, says="shard 2 cannot be reached")
        conn.execute("SELECT jobq_alter_shard(2, %s)", (connection(2) + " connect_timeout=7",))
        assert one(second, "SELECT jobq_enqueue(%s)", queue) % 1024 == 2
        # If there is only one shard, no other shard can publish its new address.
        for number in (1, 2):
            second.execute("UPDATE jobq_router.shards SET connection = 'host=/nowhere dbname=shard' WHERE shard_id = %s", (number,))
        second.execute("SELECT jobq_router.make_servers()")
        fails(second, "08001", "SELECT jobq_enqueue(%s)", queue, says="shard 2 cannot be reached")
        conn.execute("SELECT jobq_alter_shard(2, weight => 2)")
        second.execute(f"ALTER SERVER jobq_shard_1 OPTIONS (SET p0 '{connection(1)}')")
        second.execute("SELECT jobq_settle()")
        assert one(second, "SELECT jobq_enqueue(%s)", queue) % 1024 == 2


def test_a_shard_of_another_cluster_is_refused():
    """Whichever of the two maps is newer. Otherwise the routers of one cluster would take over the map of the other."""
    make_cluster(shards=(1,))
    make_shard(2)
    make_router("router2", shards=(2,))
    with router() as conn, router("router2") as second, shard(2) as there:
        fails(conn, "55000", "SELECT jobq_add_shard(2, %s)", connection(2), says="belongs to another cluster")
        for weight in (2, 3, 4):
            conn.execute("SELECT jobq_alter_shard(1, weight => %s)", (weight,))
        fails(conn, "55000", "SELECT jobq_add_shard(2, %s)", connection(2), says="belongs to another cluster")
        theirs = "SELECT jobq_shard.take_map(99, (SELECT jsonb_set(content, '{cluster}', to_jsonb(gen_random_uuid())) FROM jobq_shard.map))"
        fails(there, "55000", theirs, says="shard of another cluster")
        there.execute("UPDATE jobq_shard.map SET version = 99, content = jsonb_set(content, '{cluster}', to_jsonb(gen_random_uuid()))")
        fails(second, "55000", "SELECT jobq_enqueue('q')", says="map of another cluster")
        assert {r.shard_id for r in second.execute("SELECT shard_id FROM jobq_router.shards")} == {2}


def test_the_address_of_another_shard_is_refused():
    """jobq_alter_shard does not publish such an address, and a shard rejects every call for another shard."""
    make_cluster()
    make_router("router2", shards=(2,))
    with router() as conn, router("router2") as second, shard(3) as third:
        conn.execute("SELECT jobq_route_queue('spread', spread => true)")
        second.execute("SELECT jobq_settle()")
        maps = "SELECT version, content FROM jobq_shard.map"
        before = third.execute(maps).fetchone()
        for use in (conn, second):
            for number in (1, 2):
                fails(use, "08001", "SELECT jobq_alter_shard(%s, %s)", number, connection(3), says=f"database is shard 3, but the router called shard {number}")
        fails(conn, "08001", "SELECT jobq_alter_shard(2, 'host=/nowhere dbname=shard2')", says="shard 2 cannot be reached")
        assert third.execute(maps).fetchone() == before
        queue = one(conn, "SELECT q FROM (SELECT 'queue ' || n AS q FROM generate_series(1, 1000) n) q JOIN jobq_router.buckets b"
                          " ON b.bucket = jobq_router.bucket_of(q) WHERE b.shard_id = 2 LIMIT 1")
        key = one(conn, "SELECT k FROM (SELECT 'key ' || n AS k FROM generate_series(1, 1000) n) k JOIN jobq_router.buckets b"
                        " ON b.bucket = jobq_router.bucket_of('spread', k) WHERE b.shard_id = 3 LIMIT 1")
        job = one(conn, "SELECT jobq_enqueue(%s)", queue)
        lease = one(conn, "SELECT lease FROM jobq_claim(%s, 'w')", queue)
        there = one(conn, "SELECT jobq_enqueue('spread', unique_key => %s)", key)
        assert (job % 1024, there % 1024) == (2, 3)
        # A router that has such an address anyway.
        second.execute("UPDATE jobq_router.shards SET connection = %s WHERE shard_id = 2", (connection(3),))
        second.execute("SELECT jobq_router.make_servers()")
        says = "database is shard 3, but the router called shard 2"
        for call, argument in (("SELECT jobq_enqueue(%s)", queue), ("SELECT * FROM jobq_claim(%s, 'w')", queue), ("SELECT jobq_complete(%s, '{}')".format(lease), job),
                               ("SELECT jobq_get(%s)", job), ("SELECT * FROM jobq_complete_many(ARRAY[%s], '{{{}}}')".format(lease), job),
                               ("SELECT jobq_pause_queue(%s)", queue), ("SELECT jobq_heartbeat_worker('w'), %s", queue)):
            fails(second, "08001", call, argument, says=says)
        notices = []
        second.add_notice_handler(lambda notice: notices.append(notice.message_detail or ""))
        assert [r.shard for r in second.execute("SELECT shard FROM jobq.queue_stats WHERE queue = 'spread'")] == [3]
        assert any(says in notice for notice in notices), notices
        # Claims of a spread queue skip the shard.
        claimed = second.execute("SELECT * FROM jobq_claim('spread', 'w', 10)").fetchall()
        assert [j.id for j in claimed] == [there]
        assert one(third, "SELECT count(*) FROM jobq.jobs") == 1
        # A newer map of another shard corrects the address.
        conn.execute("SELECT jobq_alter_shard(1, weight => 2)")
        assert one(second, "SELECT jobq_enqueue(%s)", queue) % 1024 == 2
        assert one(second, "SELECT jobq_complete(%s, %s)", job, lease) is True


def test_a_database_is_one_shard():
    """Whatever its address: otherwise two shards of the map would have the same jobs."""
    make_cluster(shards=(1,))
    make_shard(2)
    with router() as conn, shard(2) as there:
        conn.execute("SELECT jobq_add_shard(7, %s)", (connection(2),))
        for address in (connection(2), connection(2) + " connect_timeout=7"):
            fails(conn, "55000", "SELECT jobq_add_shard(8, %s)", address, says="the database is already shard 7")
        assert one(there, "SELECT jobq_shard_id()") == 7
        assert [r.shard_id for r in conn.execute("SELECT shard_id FROM jobq_router.shards ORDER BY 1")] == [1, 7]
        conn.execute("SELECT jobq_drain_shard(7), jobq_settle(), jobq_remove_shard(7)")
        fails(conn, "55000", "SELECT jobq_add_shard(8, %s)", connection(2), says="the database is already shard 7")
        conn.execute("SELECT jobq_add_shard(7, %s)", (connection(2),))
        assert [r.shard_id for r in conn.execute("SELECT shard_id FROM jobq_router.shards ORDER BY 1")] == [1, 7]


def test_two_routers_that_add_one_database_agree():
    """A database takes one number. If two routers give it one at the same time, the second is rejected."""
    make_cluster(shards=(1,))
    make_shard(2)
    make_router("router2", shards=(1,))
    with router() as conn, shard(2) as holds, shard(2) as looks:
        errors = []

        def add_as(name, number):
            try:
                with router(name) as use:
                    use.execute("SELECT jobq_add_shard(%s, %s)", (number, connection(2)))
            except psycopg.Error as error:
                errors.append(error.sqlstate)

        adding = [threading.Thread(target=add_as, args=pair) for pair in (("router", 7), ("router2", 8))]
        with holds.transaction():
            holds.execute("LOCK TABLE jobq_shard.map IN SHARE MODE")
            for thread in adding:
                thread.start()
            wait_for("both routers wait for the database", lambda: one(looks, "SELECT count(*) = 2 FROM pg_stat_activity WHERE datname = 'shard2' AND query LIKE '%%jobq_shard.join%%' AND pid <> pg_backend_pid()"))
        for thread in adding:
            thread.join()
        assert errors == ["55000"], errors
        number = one(looks, "SELECT jobq_shard_id()")
        conn.execute("SELECT jobq_settle()")
        assert [r.shard_id for r in conn.execute("SELECT shard_id FROM jobq_router.shards ORDER BY 1")] == [1, number]


if __name__ == "__main__":
    sys.exit(run(globals()))
