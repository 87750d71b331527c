#!/usr/bin/python3
"""Keys and queues that move to another shard: a key never has unfinished jobs on two shards, whichever router is called."""

import random
import sys
import threading

import psycopg

from cluster import connection, fails, make_cluster, make_role, make_router, make_shard, one, router, run, shard, wait_for

KEYS = [f"k{n}" for n in range(60)]


def add(number, name="router"):
    with router(name) as conn:
        conn.execute("SELECT jobq_add_shard(%s, %s)", (number, connection(number)))


def test_a_key_stays_where_it_has_unfinished_jobs():
    """Two sessions that check the key see each other. Without the lock of enqueue_known, the second would not see the uncommitted job."""
    make_cluster(shards=(1,))
    make_shard(2)
    with router() as conn, shard(1) as old, router() as second:
        conn.execute("SELECT jobq_route_queue('work', spread => true)")
        for n in range(200):
            conn.execute("SELECT jobq_enqueue('work', concurrency_key => %s)", (f"key {n}",))
        add(2)
        key = next(k for k in (f"key {n}" for n in range(200)) if one(
            conn, "SELECT shard_id FROM jobq_router.buckets WHERE bucket = jobq_router.bucket_of('work', %s)", k) == 2)
        assert one(conn, "SELECT was_on FROM jobq_router.buckets WHERE bucket = jobq_router.bucket_of('work', %s)", key) == [1]
        assert one(conn, "SELECT jobq_enqueue('work', concurrency_key => %s) %% 1024", key) == 1
        # Jobs with options also stay there; no option can be another key.
        job = one(conn, "SELECT jobq_enqueue('work', concurrency_key => %s, options => '{\"version\": 3, \"requires\": null}')", key)
        assert job % 1024 == 1 and one(conn, "SELECT (jobq_get(%s)).version", job) == 3
        for options in ('{"unique_key": "u"}', '{"group_key": null}', '{"ref": "r"}', '{"depends_on": []}', '{"colour": 1}', '[]', 'null'):
            fails(conn, "22023", "SELECT jobq_enqueue('work', concurrency_key => %s, options => %s)", key, options)
            fails(conn, "22023", "SELECT jobq_enqueue_many('work', '{1,2}', concurrency_keys => ARRAY[%s, NULL], options => %s)", key, options)
        version = one(conn, "SELECT version FROM jobq_router.map")
        with old.transaction():
            spec = '[{"queue": "work", "concurrency_key": "%s"}]' % key
            first = one(old, "SELECT job_id FROM jobq_shard.enqueue_known(%s, 'work', NULL, NULL, %s, %s)", version, key, spec)
            with shard(1) as other:
                other.execute("SELECT jobq_cancel(id) FROM jobq.jobs WHERE concurrency_key = %s", (key,))
            found = []
            asks = threading.Thread(target=lambda: found.append(one(second, "SELECT jobq_enqueue('work', concurrency_key => %s)", key)))
            asks.start()
            with shard(1) as other:
                wait_for("the second session checks the key", lambda: found or one(other, "SELECT count(*) FROM pg_locks WHERE locktype = 'transactionid' AND NOT granted"))
        asks.join()
        assert first % 1024 == 1 and found[0] % 1024 == 1, f"the key is on shards {first % 1024} and {found[0] % 1024}"
        # When the last job has finished, the key moves to its own shard.
        old.execute("SELECT jobq_cancel(id) FROM jobq.jobs WHERE concurrency_key = %s AND finished_at IS NULL", (key,))
        assert one(conn, "SELECT jobq_enqueue('work', concurrency_key => %s) %% 1024", key) == 2
        assert one(conn, "SELECT jobq_settle()") > 0
        old.execute("SELECT jobq_cancel_jobs('work', max_jobs => 1000)")
        assert one(conn, "SELECT jobq_settle()") == 0


def test_a_kept_key_stays_with_its_queue():
    """A finished job keeps its unique key on its shard, and the queue continues to check the keys there."""
    make_cluster(shards=(1, 2))
    enqueue = "SELECT jobq_enqueue('kept', unique_key => 'u', unique_for => '1 day')"
    with router() as conn:
        conn.execute("SELECT jobq_route_queue('kept', shard_id => 1)")
        first = one(conn, enqueue)
        job = conn.execute("SELECT * FROM jobq_claim('kept', 'w')").fetchone()
        assert job.id == first and first % 1024 == 1 and one(conn, "SELECT jobq_complete(%s, %s)", job.id, job.lease)
        conn.execute("SELECT jobq_route_queue('kept', shard_id => 2)")
        assert one(conn, enqueue) == first
        assert one(conn, "SELECT jobq_settle()") == 1
        assert one(conn, enqueue) == first
        fails(conn, "55000", "SELECT jobq_route_queue('kept', spread => true)", says="kept keys on shard 1")
        conn.execute("SELECT jobq_drain_shard(1)")
        fails(conn, "55000", "SELECT jobq_remove_shard(1)", says="shard 1 is not empty")
        fails(conn, "55000", "SELECT jobq_route_queue('other', shard_id => 1)", says="is being drained")
        with shard(1) as old:
            old.execute("UPDATE jobq.kept_keys SET kept_until = clock_timestamp() - interval '1 s'")
        assert one(conn, "SELECT jobq_settle()") == 0
        assert one(conn, enqueue) % 1024 == 2
        conn.execute("SELECT jobq_remove_shard(1)")


def test_a_shard_that_is_given_a_job_while_it_leaves_stays():
    make_cluster(shards=(1, 2))
    notices = []
    with router() as conn, router() as second, shard(2) as acts, shard(2) as looks:
        second.add_notice_handler(lambda notice: notices.append(notice.message_primary))
        conn.execute("SELECT jobq_drain_shard(2)")
        assert one(conn, "SELECT jobq_settle()") == 0
        version = one(conn, "SELECT version FROM jobq_router.map")
        with acts.transaction():
            acts.execute("SELECT jobq_shard.require_map(%s)", (version,))
            acts.execute("SELECT jobq_enqueue('late')")
            leaves = threading.Thread(target=lambda: second.execute("SELECT jobq_remove_shard(2)"))
            leaves.start()
            wait_for("the removal waits", lambda: one(looks, "SELECT count(*) FROM pg_locks WHERE NOT granted AND relation = 'jobq_shard.map'::regclass"))
        leaves.join()
        assert any("shard 2 was not removed" in notice for notice in notices), notices
        assert one(conn, "SELECT state FROM jobq_router.shards WHERE shard_id = 2") == "draining"
        job = conn.execute("SELECT * FROM jobq_claim('late', 'w')").fetchone()
        assert job.id % 1024 == 2 and one(conn, "SELECT jobq_complete(%s, %s)", job.id, job.lease)
        conn.execute("SELECT jobq_remove_shard(2)")
        assert one(conn, "SELECT count(*) FROM jobq_router.shards") == 1
        assert one(conn, "SELECT count(*) FROM pg_foreign_server WHERE srvname = 'jobq_shard_2'") == 0


def test_what_jobq_refuses_a_spread_queue_refuses():
    make_cluster()
    with router() as conn:
        conn.execute("SELECT jobq_route_queue('spread', spread => true)")
        for wrong in ("ARRAY[NULL]::jsonb[], unique_keys => '{a}'", "'{1}', unique_keys => '{a}', priorities => '{NULL}'",
                      "'{1}', unique_keys => '{a}', run_ats => '{NULL}'", "'{1}', unique_keys => '{a}', priority => NULL"):
            fails(conn, "22004", f"SELECT * FROM jobq_enqueue_many('spread', {wrong})")
        rows = conn.execute("SELECT * FROM jobq_enqueue_many('spread', '[0:1]={1,2}'::jsonb[], unique_keys => '{a,b}')").fetchall()
        assert [one(conn, "SELECT (jobq_get(%s)).payload", r.job_id) for r in rows] == [1, 2]
        options = "options => '{\"on_conflict\": \"replace\", \"metadata\": {\"m\": 1}}'"
        fails(conn, "22023", f"SELECT jobq_enqueue_many('spread', '{{1}}', concurrency_keys => '{{c}}', {options})", says='requires argument "unique_key"')
        many = conn.execute(f"SELECT * FROM jobq_enqueue_many('spread', '{{3,4}}', unique_keys => '{{a,NULL}}', {options})").fetchall()
        assert [r.is_new for r in many] == [False, True] and many[0].job_id == rows[0].job_id
        assert [one(conn, "SELECT j.payload || j.metadata FROM jobq_get(%s) j", r.job_id) for r in many] == [[3, {"m": 1}], [4, {"m": 1}]]


def test_many_keys_that_move():
    """Any number of jobs. Each is looked up by itself, and only a failed call counts as an attempt."""
    make_cluster(shards=(1,))
    make_shard(2)
    with router() as conn:
        conn.execute("SELECT jobq_route_queue('work', spread => true)")
        enqueue = "SELECT * FROM jobq_enqueue_many('work', array_fill('1'::jsonb, '{4400}'), unique_keys => ARRAY(SELECT 'key ' || n FROM generate_series(1, 4400) n))"
        first = conn.execute(enqueue).fetchall()
        assert all(r.is_new for r in first)
        add(2)
        assert one(conn, "SELECT count(*) FROM generate_series(1, 4400) n JOIN jobq_router.buckets b ON b.bucket = jobq_router.bucket_of('work', 'key ' || n)"
                         " WHERE b.shard_id = 2") > 2000
        again = conn.execute(enqueue).fetchall()
        # Keys of a bucket that has not moved are on the same shard as before.
        assert [(r.job_id, r.is_new) for r in again] == [(r.job_id, False) for r in first]


def test_who_may_only_connect_is_in_nobodys_way():
    """Only its owner can lock what calls lock on a shard, and a change of the map waits for calls that use the previous map."""
    make_cluster(shards=(1,))
    make_role("regress_stranger")
    with router() as conn, router() as second, shard(1) as acts, shard(1) as looks, shard(1, user="regress_stranger") as stranger:
        version = one(conn, "SELECT version FROM jobq_router.map")
        with acts.transaction():
            acts.execute("SELECT jobq_shard.enqueue_known(%s, 'work', 'u', 'g', 'c', '[]')", (version,))
            mine = acts.execute("SELECT locktype, mode FROM pg_locks WHERE pid = pg_backend_pid()").fetchall()
            assert not [m for m in mine if m.locktype == "advisory"], mine
            changes = threading.Thread(target=lambda: second.execute("SELECT jobq_alter_shard(1, weight => 2)"))
            changes.start()
            wait_for("the change waits", lambda: one(looks, "SELECT count(*) FROM pg_locks WHERE NOT granted AND relation = 'jobq_shard.map'::regclass"))
            assert one(looks, "SELECT version FROM jobq_shard.map") == version
        changes.join()
        assert one(looks, "SELECT version FROM jobq_shard.map") == version + 1
        for lock in ("LOCK TABLE jobq_shard.map IN ACCESS SHARE MODE", "LOCK TABLE jobq_shard.locks IN ACCESS SHARE MODE",
                     "SELECT FROM jobq_shard.locks FOR KEY SHARE", "PREPARE p AS UPDATE jobq_shard.map SET version = 1"):
            with stranger.transaction(force_rollback=True):
                fails(stranger, "42501", lock)


def test_a_transaction_that_stays_open_stops_no_call():
    """A granted role can hold the map of a shard. A change of the map then fails, and calls go on while the change waits for its lock."""
    make_cluster(shards=(1, 2))
    make_role("regress_holder")
    with router() as conn, router() as second, shard(2) as looks:
        conn.execute("SELECT jobq_grant('regress_holder', 'producer', '{other}')")
        conn.execute("SET statement_timeout = '30 s'")
        queue = one(conn, "SELECT q FROM (SELECT 'queue ' || n AS q FROM generate_series(1, 1000) n) q JOIN jobq_router.buckets b"
                          " ON b.bucket = jobq_router.bucket_of(q) WHERE b.shard_id = 2 LIMIT 1")
        version = one(conn, "SELECT version FROM jobq_router.map")
        awaited = "SELECT count(*) FROM pg_locks WHERE NOT granted AND relation = 'jobq_shard.map'::regclass"
        errors, calls = [], 0

        def change():
            try:
                second.execute("SELECT jobq_alter_shard(1, weight => 2)")
            except psycopg.Error as error:
                errors.append(error)

        with shard(2, user="regress_holder") as holder:
            holder.execute("SET idle_in_transaction_session_timeout = 0")
            with holder.transaction():
                holder.execute("SELECT jobq_shard.require_map(%s)", (version,))
                changes = threading.Thread(target=change)
                changes.start()
                wait_for("the change waits for the lock", lambda: one(looks, awaited))
                while changes.is_alive():
                    assert one(conn, "SELECT jobq_enqueue(%s)", queue) % 1024 == 2
                    calls += 1
                changes.join()
                assert calls > 0 and [e.sqlstate for e in errors] == ["55P03"], (calls, errors)
                assert str(holder.info.backend_pid) in errors[0].diag.message_detail, errors[0].diag.message_detail
                for number in (1, 2):
                    with shard(number) as there:
                        assert one(there, "SELECT version FROM jobq_shard.map") == version
                assert one(conn, "SELECT jobq_enqueue(%s)", queue) % 1024 == 2
        second.execute("SELECT jobq_alter_shard(1, weight => 2)")
        assert one(looks, "SELECT version FROM jobq_shard.map") == version + 1


def test_a_shard_that_cannot_take_the_map_stops_no_claim():
    """A transaction that holds the old map of one shard while the other shards have a newer one."""
    make_cluster(shards=(1, 2))
    with router() as conn, shard(1) as first, shard(2) as holder:
        conn.execute("SELECT jobq_route_queue('spread', spread => true)")
        version = one(conn, "SELECT version FROM jobq_router.map")
        first.execute("SELECT jobq_enqueue('spread') FROM generate_series(1, 2)")
        with holder.transaction():
            holder.execute("SELECT jobq_shard.require_map(%s)", (version,))
            first.execute("SELECT jobq_shard.take_map(version + 1, content) FROM jobq_shard.map")
            one(conn, "SELECT jobq_router.agree(1)")
            for _ in range(2):
                conn.execute("SELECT jobq_router.note_empty('spread', 1)")  # so that the claim asks shard 2 first
                assert len(conn.execute("SELECT * FROM jobq_claim('spread', 'w')").fetchall()) == 1
            assert one(holder, "SELECT version FROM jobq_shard.map") == version
        # Shard 2 takes over the map when the transaction has ended.
        conn.execute("SELECT jobq_settle()")
        assert one(holder, "SELECT version FROM jobq_shard.map") == version + 1


def test_a_transaction_that_stays_open_on_a_router():
    """It holds the map that it has taken over. Other calls that need the new map fail with 55P03 after a time instead of waiting for it."""
    make_cluster(shards=(1,))
    make_router("router2", shards=(1,))
    with router() as conn, router("router2") as holder, router("router2") as second:
        conn.execute("SELECT jobq_alter_shard(1, weight => 2)")
        with holder.transaction():
            holder.execute("SELECT jobq_enqueue('q')")
            fails(second, "55P03", "SELECT jobq_enqueue('q')")
        assert one(second, "SELECT jobq_enqueue('q')") % 1024 == 1


def test_who_asks_a_shard_sees_what_is_committed():
    """Whatever the default isolation level is: with a snapshot that is older than its locks, a key could be on two shards."""
    make_cluster(shards=(1,))
    make_shard(2)
    with shard(1) as conn:
        conn.execute("ALTER DATABASE shard1 SET default_transaction_isolation = 'repeatable read'")
        conn.execute("ALTER ROLE postgres IN DATABASE shard1 SET default_transaction_isolation = serializable")
    with router() as conn:
        conn.execute("SELECT jobq_route_queue('work', spread => true)")
        for n in range(20):
            conn.execute("SELECT jobq_enqueue('work', concurrency_key => %s)", (f"key {n}",))
        add(2)
        moving = "SELECT array_agg(DISTINCT jobq_enqueue('work', concurrency_key => 'key ' || n) %% 1024) FROM generate_series(0, 19) n"
        assert one(conn, moving) == [1]
        assert one(conn, "SELECT jobq_settle()") > 0
        version = one(conn, "SELECT version FROM jobq_router.map")
        for options, allowed in (("-c lock_timeout=9s", False), (r"-c lock_timeout=9s -c default_transaction_isolation=read\\ committed", True)):
            with router() as second:
                second.execute("UPDATE jobq_router.shards SET connection = %s WHERE shard_id = 1", (f"{connection(1)} options='{options}'",))
                second.execute("SELECT jobq_router.make_servers()")
                if allowed:
                    assert one(second, moving) == [1]
                else:
                    fails(second, "25001", moving, says="READ COMMITTED")
    for level in ("REPEATABLE READ", "SERIALIZABLE"):
        for call in ("require_map(%s)", "take_map(%s, '{}')", "still_here(%s, 'work', 'u', NULL, NULL)", "buckets_in_use(%s, '{1}', '[]')", "queue_in_use(%s, 'none')"):
            with shard(1) as conn:
                conn.execute(f"BEGIN ISOLATION LEVEL {level}")
                fails(conn, "25001", f"SELECT jobq_shard.{call}", version)


def test_a_look_for_a_key_does_not_read_all_jobs():
    """Only the first look-up with a map scans the table, and a look-up of a key that has jobs of which none is pending."""
    make_cluster(shards=(1,))
    with router() as conn, shard(1) as asked, shard(1) as other:
        conn.execute("SELECT jobq_enqueue('work', concurrency_key => k, run_at => now() + t) FROM (VALUES ('pending', '0'::interval), ('later', '1 h')) k (k, t)")
        still_here = "SELECT jobq_shard.still_here((SELECT version FROM jobq_shard.map), 'work', NULL, NULL, %s)"
        reads = "SELECT seq_scan FROM pg_stat_xact_user_tables WHERE relid = 'jobq.jobs'::regclass"

        def look(key):
            before = one(asked, reads)
            return one(asked, still_here, key), one(asked, reads) - before

        with asked.transaction():
            assert look("first") == (False, 1)
            for n in range(5):
                assert look(f"new {n}") == (False, 0)
                assert look("pending") == (True, 0)
            assert look("later") == (True, 1)
        # After the job has ended, the key is looked up by one more scan. With another map the keys may be different.
        other.execute("SELECT jobq_cancel_jobs('work')")
        with asked.transaction():
            assert look("pending") == (False, 1)
            assert look("pending") == (False, 0)
        conn.execute("SELECT jobq_enqueue('work', concurrency_key => 'pending')")
        conn.execute("SELECT jobq_alter_shard(1, weight => 2)")
        with asked.transaction():
            assert look("other") == (False, 1)
            assert look("pending") == (True, 0)


def test_who_looks_what_moves_waits_where_something_has_moved():
    make_cluster(shards=(1,))
    with router() as conn, shard(1) as acts, shard(1) as looks:
        conn.execute("SELECT jobq_enqueue('busy')")
        version = one(conn, "SELECT version FROM jobq_router.map")
        looks.execute("SET lock_timeout = '0.1 s'")
        bucket = one(looks, "SELECT jobq_shard.bucket_of('busy')")
        buckets = "SELECT array_agg(b) FROM jobq_shard.buckets_in_use(%s, %s, '[]') b"
        with acts.transaction():
            acts.execute("SELECT jobq_shard.require_map(%s)", (version,))
            assert one(looks, buckets, version, [bucket]) == [bucket]
            assert one(looks, "SELECT jobq_shard.queue_in_use(%s, 'busy')", version) is True
            fails(looks, "55P03", buckets, version, [bucket, (bucket + 1) % 1024])
            fails(looks, "55P03", "SELECT jobq_shard.queue_in_use(%s, 'free')", version)


def test_a_queue_moves():
    """Jobs are moved together if the queue has a limit as a whole, and otherwise one at a time."""
    make_cluster(shards=(1,))
    make_shard(2)
    with router() as conn:
        for n in range(20):
            conn.execute("SELECT jobq_enqueue(%s)", (f"q{n}",))
        add(2)
        moved = conn.execute("SELECT q FROM (SELECT 'q' || n AS q FROM generate_series(0, 19) n) q JOIN jobq_router.buckets b"
                             " ON b.bucket = jobq_router.bucket_of(q) WHERE b.shard_id = 2").fetchall()
        assert moved
        queue = moved[0].q
        conn.execute("SELECT jobq_set_limit(%s, max_running => 10)", (queue,))
        assert one(conn, "SELECT jobq_enqueue(%s) %% 1024", queue) == 1
        rows = conn.execute("SELECT job_id FROM jobq_enqueue_many(%s, '{1,2}')", (queue,)).fetchall()
        assert [r.job_id % 1024 for r in rows] == [1, 1]
        conn.execute("SELECT jobq_set_limit(%s)", (queue,))
        assert one(conn, "SELECT jobq_enqueue(%s, unique_key => 'u') %% 1024", queue) == 2
        jobs = conn.execute("SELECT * FROM jobq_claim(%s, 'w', 10)", (queue,)).fetchall()
        assert sorted(j.id % 1024 for j in jobs) == [1, 1, 1, 1, 2]
        conn.execute("SELECT jobq_complete_many(%s, %s)", ([j.id for j in jobs], [j.lease for j in jobs]))
        jobs = [j for j in jobs if j.id % 1024 == 1]
        assert one(conn, "SELECT jobq_settle()") == len(moved) - 1
        assert one(conn, "SELECT jobq_enqueue(%s) %% 1024", queue) == 2
        job = conn.execute("SELECT * FROM jobq_claim(%s, 'w', 10)", (queue,)).fetchone()
        assert job.id % 1024 == 2
        # A job that is retried in the previous shard of the queue is found there.
        conn.execute("SELECT jobq_retry(%s)", (jobs[0].id,))
        wait_for("the job that was retried", lambda: conn.execute("SELECT * FROM jobq_claim(%s, 'w')", (queue,)).fetchone())


def test_of_two_changes_of_one_map_one_is_made():
    """The first shard decides: a router that cannot reach it changes nothing."""
    make_cluster(shards=(1, 2))
    make_router("router2", shards=(1,))
    maps = "SELECT version, content FROM jobq_shard.map"
    with router() as conn, router("router2") as second, shard(1) as one_shard, shard(2) as other:
        second.execute("BEGIN")
        assert one(second, "SELECT jobq_router.begin_change()") == 1
        conn.execute("SELECT jobq_alter_shard(2, weight => 2)")
        made = one_shard.execute(maps).fetchone()
        second.execute("UPDATE jobq_router.shards SET weight = 5")
        fails(second, "40001", "SELECT jobq_router.publish(1)", says="was changed concurrently")
        second.execute("ROLLBACK")
        assert one_shard.execute(maps).fetchone() == other.execute(maps).fetchone() == made
        conn.execute("UPDATE jobq_router.shards SET connection = 'host=/nowhere dbname=shard1' WHERE shard_id = 1")
        conn.execute("SELECT jobq_router.make_servers()")
        fails(conn, "08001", "SELECT jobq_alter_shard(2, weight => 7)", says="shard 1 cannot be reached")
        assert one_shard.execute(maps).fetchone() == other.execute(maps).fetchone() == made
        # An address that can be published.
        conn.execute("SELECT jobq_alter_shard(1, %s)", (connection(1) + " connect_timeout=7",))
        second.execute("SELECT jobq_enqueue('q')")
        found = {c.execute("SELECT version FROM jobq_router.map").fetchone() for c in (conn, second)} | {c.execute("SELECT version FROM jobq_shard.map").fetchone() for c in (one_shard, other)}
        assert found == {(made.version + 1,)}, found


def test_a_schedule_keeps_its_shard():
    """Also for a spread queue, because the shard would otherwise continue to fire the schedule when it no longer has the queue."""
    make_cluster(shards=(1, 2))
    with router() as conn:
        conn.execute("SELECT jobq_route_queue('work', spread => true)")
        name = one(conn, "SELECT n FROM (SELECT 's' || n AS n FROM generate_series(1, 1000) n) s JOIN jobq_router.buckets b"
                         " ON b.bucket = jobq_router.bucket_of('work', n) WHERE b.shard_id = 2 LIMIT 1")
        on = "SELECT shard FROM jobq.schedules WHERE name = %s"
        conn.execute("SELECT jobq_schedule(%s, '@every 1h', 'work')", (name,))
        assert one(conn, on, name) == 2
        conn.execute("SELECT jobq_drain_shard(2)")
        fails(conn, "55000", "SELECT jobq_remove_shard(2)", says="schedules: 1")
        conn.execute("SELECT jobq_unschedule(%s), jobq_schedule(%s, '@every 1h', 'work')", (name, name))
        assert one(conn, on, name) == 1
        conn.execute("SELECT jobq_remove_shard(2)")
        assert {r.shard_id for r in conn.execute("SELECT shard_id FROM jobq_router.shards")} == {1}


def test_a_schedule_is_where_its_key_is():
    make_cluster(shards=(1, 2))
    with router() as conn:
        conn.execute("SELECT jobq_route_queue('work', spread => true)")
        for n in range(8):
            job = one(conn, "SELECT jobq_enqueue('work', group_key => %s)", f"key {n}")
            for name in (f"a {n}", f"b {n}"):
                conn.execute("SELECT jobq_schedule(%s, '@every 1h', 'work', options => jsonb_build_object('group_key', %s::text))", (name, f"key {n}"))
                assert one(conn, "SELECT shard FROM jobq.schedules WHERE name = %s", name) == job % 1024
                assert one(conn, "SELECT jobq_run_schedule(%s) %% 1024", name) == job % 1024
        fails(conn, "0A000", "SELECT jobq_schedule('c', '@every 1h', 'work', options => '{\"group_key\": \"a\", \"unique_key\": \"b\"}')", says="several keys")


def test_a_shard_that_is_removed_gets_no_job():
    """A router that has not heard of the change does not create such a job either, with the previous map."""
    make_cluster(shards=(1, 2))
    make_router("router2", shards=(1,))
    with router() as conn, router("router2") as second, shard(1) as left, shard(2) as removed:
        conn.execute("SELECT jobq_route_queue('work', spread => true)")
        old = wait_for("a job on shard 2", lambda: one(conn, "SELECT CASE WHEN id %% 1024 = 2 THEN id END FROM jobq_enqueue('work') id"))
        conn.execute("SELECT jobq_cancel_jobs('work')")
        conn.execute("SELECT jobq_drain_shard(2)")
        assert one(conn, "SELECT jobq_settle()") == 0
        second.execute("SELECT jobq_router.refresh()")
        conn.execute("SELECT jobq_remove_shard(2)")
        assert one(second, "SELECT count(*) FROM jobq_router.shards") == 2
        errors = []
        for use in (left, second):
            try:
                use.execute("SELECT jobq_enqueue('work', depends_on => %s)", ([old],))
                errors.append(None)
            except psycopg.Error as error:
                errors.append(error.sqlstate)
        assert one(removed, "SELECT count(*) FROM jobq.jobs WHERE finished_at IS NULL") == 0
        assert errors[0] == errors[1], errors


def produce(name, queue, stop, ids, errors):
    try:
        with router(name) as conn:
            while not stop.is_set():
                key = random.choice(KEYS)
                call = random.random()
                if call < 0.6:
                    ids.append(one(conn, "SELECT jobq_enqueue(%s, unique_key => %s)", queue, key))
                elif call < 0.8:
                    ids.extend(r.job_id for r in conn.execute("SELECT job_id FROM jobq_enqueue_many(%s, '{1,2,3}', unique_keys => %s)",
                                                              (queue, random.sample(KEYS, 3))))
                else:
                    ids.append(one(conn, "SELECT jobq_enqueue('home', unique_key => %s)", key))
    except Exception as error:
        errors.append(error)


def work(name, queue, stop, done, errors):
    """Claims from both queues in alternating order, because otherwise jobs of the first queue could starve the second."""
    queues = [queue, "home"]
    try:
        with router(name) as conn:
            while not stop.is_set():
                queues.reverse()
                for job in conn.execute("SELECT * FROM jobq_claim_any(%s, %s, 5)", (queues, name)).fetchall():
                    if one(conn, "SELECT jobq_complete(%s, %s)", job.id, job.lease):
                        done.append(job.id)
    except Exception as error:
        errors.append(error)


def intervals(numbers, queue):
    """For each key, the periods in which a job had it, in the order in which they began."""
    lives = {}
    for number in numbers:
        with shard(number) as conn:
            for row in conn.execute("SELECT unique_key, extract(epoch FROM created_at)::float8 AS begins,"
                                    " coalesce(extract(epoch FROM finished_at), 'infinity')::float8 AS ends, id FROM jobq.jobs WHERE queue = %s", (queue,)):
                lives.setdefault(row.unique_key, []).append(row[1:])
    return {key: sorted(life) for key, life in lives.items()}


def test_shards_come_and_go_under_load():
    """Two routers: one makes the changes, and the other one learns of them from the shards."""
    make_cluster(shards=(1, 2))
    make_shard(3)
    make_router("router2", shards=(1,))
    with router() as conn:
        conn.execute("SELECT jobq_route_queue('load', spread => true)")
    stop, ids, done, errors = threading.Event(), [], [], []
    threads = [threading.Thread(target=produce, args=(name, "load", stop, ids, errors)) for name in ("router", "router2")]
    threads += [threading.Thread(target=work, args=(name, "load", stop, done, errors)) for name in ("router", "router2")]
    for thread in threads:
        thread.start()
    try:
        def progress():
            before = len(done)
            wait_for("jobs", lambda: errors or len(done) > before + 60)
        progress()
        add(3)
        wait_for("shard 3 has jobs", lambda: errors or any(i % 1024 == 3 for i in ids))
        progress()
        with router("router2") as conn:
            conn.execute("SELECT jobq_drain_shard(1)")
        progress()
        with router() as conn:
            # Each job of the shard that ends reduces the number of those that are left, so this takes as many calls as it may have
            # jobs.
            for look in range(2 * len(KEYS)):
                try:
                    conn.execute("SELECT jobq_remove_shard(1)")
                    break
                except psycopg.Error as error:
                    assert error.sqlstate == "55000", error
                    progress()
                    assert not errors, errors
            else:
                raise AssertionError("shard 1 does not run empty")
        progress()
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    assert not errors, errors
    with router() as conn:
        left = wait_for("the rest", lambda: conn.execute("SELECT * FROM jobq_claim_any('{load,home}', 'w', 1000)").fetchall() or [None])
        while left and left[0]:
            done += [r.job_id for r in conn.execute("SELECT * FROM jobq_complete_many(%s, %s)", ([j.id for j in left], [j.lease for j in left])) if r.completed]
            left = conn.execute("SELECT * FROM jobq_claim_any('{load,home}', 'w', 1000)").fetchall()
        assert {r.shard_id for r in conn.execute("SELECT shard_id FROM jobq_router.shards")} == {2, 3}
    assert len(done) == len(set(done)), "a job was completed twice"
    assert set(done) == set(ids), f"{len(set(ids) - set(done))} jobs were lost"
    for queue in ("load", "home"):
        lives = intervals((1, 2, 3), queue)
        if queue == "load":
            assert {i % 1024 for life in lives.values() for _, _, i in life} == {1, 2, 3}, "nothing has moved"
        for key, life in lives.items():
            # On one shard an index keeps them apart. By its own clock, the second job was created before it waited for the end of
            # the first one.
            last = {}
            for begins, ends, job in life:
                for number, (end, other) in last.items():
                    assert number == job % 1024 or end <= begins, f"{queue}: key {key} had job {other} and job {job} at once"
                last[job % 1024] = max((ends, job), last.get(job % 1024, (ends, job)))


if __name__ == "__main__":
    sys.exit(run(globals()))
