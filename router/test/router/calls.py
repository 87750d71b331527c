#!/usr/bin/python3
"""The effects of jobq's functions through a router: which shards they use, what they return, and what is rejected."""

import json
import os
import subprocess
import sys
import threading
import time

from cluster import ROUTER, SERVERS, fails, host, make_cluster, one, router, run, shard, wait_for


def shards_of(conn, ids):
    return [i % 1024 for i in ids]


def test_one_by_one():
    with router() as conn:
        ids = [one(conn, "SELECT jobq_enqueue(%s, %s)", f"queue {n}", '{"n": %d}' % n) for n in range(30)]
        assert {1, 2, 3} == set(shards_of(conn, ids)), ids
        for n in range(30):
            job = conn.execute("SELECT * FROM jobq_claim(%s, 'w')", (f"queue {n}",)).fetchone()
            assert (job.id, job.payload["n"], job.queue) == (ids[n], n, f"queue {n}")
            assert one(conn, "SELECT jobq_heartbeat(%s, %s)", job.id, job.lease) == "held"
            assert one(conn, "SELECT (jobq_get(%s)).status", job.id) == "processing"
            if n % 3 == 0:
                assert one(conn, "SELECT jobq_complete(%s, %s, '{\"done\": true}')", job.id, job.lease) is True
                assert one(conn, "SELECT jobq_result(%s)", job.id) == {"done": True}
            elif n % 3 == 1:
                assert one(conn, "SELECT jobq_fail(%s, %s, 'no', retry => false, details => '{\"class\": \"No\"}')", job.id, job.lease) == "failed"
                assert one(conn, "SELECT details->>'class' FROM jobq_log(%s) WHERE details IS NOT NULL", job.id) == "No"
            else:
                assert one(conn, "SELECT jobq_release(%s, %s)", job.id, job.lease) is True
        assert one(conn, "SELECT count(*) FROM jobq_claim('queue 0')") == 0


def test_many_are_split_and_answered_in_order():
    with router() as conn:
        conn.execute("SELECT jobq_route_queue('spread', spread => true)")
        keys = [f"key {n % 40}" for n in range(100)]
        rows = conn.execute("SELECT * FROM jobq_enqueue_many('spread', ARRAY(SELECT to_jsonb(n) FROM generate_series(0, 99) n), unique_keys => %s)",
                            (keys,)).fetchall()
        assert {1, 2, 3} == set(shards_of(conn, [r.job_id for r in rows]))
        assert [r.is_new for r in rows] == [n < 40 for n in range(100)]
        assert all(rows[n].job_id == rows[n % 40].job_id for n in range(100))
        specs = [{"queue": f"queue {n}", "payload": n} for n in range(20)] + [{"queue": "spread", "unique_key": "key 7"}]
        rows = conn.execute("SELECT * FROM jobq_enqueue_jobs(%s)", (json.dumps(specs),)).fetchall()
        assert [one(conn, "SELECT (jobq_get(%s)).queue", r.job_id) for r in rows] == [s["queue"] for s in specs]
        jobs = conn.execute("SELECT * FROM jobq_claim('spread', 'w', 100)").fetchall()
        assert len(jobs) == 40 and len({j.id for j in jobs}) == 40, len(jobs)
        ids, leases = [j.id for j in jobs] + [jobs[0].id], [j.lease for j in jobs] + [4711]
        beats = conn.execute("SELECT * FROM jobq_heartbeat_many(%s, %s)", (ids, leases)).fetchall()
        assert [b.job_id for b in beats] == ids
        assert {b.state for b in beats[1:-1]} == {"held"}
        lines = [str(n) for n in range(len(ids))]
        logged = conn.execute("SELECT * FROM jobq_write_log(%s, %s, %s)", (ids, leases, lines)).fetchall()
        assert [w.job_id for w in logged] == ids and {w.stored for w in logged[:-1]} == {1} and logged[-1].stored == 0
        done = conn.execute("SELECT * FROM jobq_complete_many(%s, %s)", (ids[1:-1], leases[1:-1])).fetchall()
        assert [d.job_id for d in done] == ids[1:-1] and all(d.completed for d in done)
        assert one(conn, "SELECT count(*) FROM jobq_fail_many(%s, %s, details => %s::jsonb[])", [ids[0], ids[-2]], [leases[0], 4711],
                   ['{"class": "No"}', '{"class": "Lost"}']) == 2
        assert one(conn, "SELECT details->>'class' FROM jobq_log(%s) WHERE details IS NOT NULL", ids[0]) == "No"
        fails(conn, "2202E", "SELECT * FROM jobq_complete_many('{1,2,3}', '{1}')")
        assert conn.execute("SELECT * FROM jobq_complete_many('{}', '{}')").fetchall() == []


def test_claims_find_what_there_is():
    with router() as conn:
        conn.execute("SELECT jobq_route_queue('few', spread => true)")
        first = [one(conn, "SELECT jobq_enqueue('few')") for _ in range(40)]
        assert {i % 1024 for i in first} == {1, 2, 3}
        claimed = [one(conn, "SELECT id FROM jobq_claim('few', 'w')") for _ in range(25)]
        assert len(set(shards_of(conn, claimed))) == 3, "each claim begins on the same shard"
        rest = conn.execute("SELECT * FROM jobq_claim_any('{none,few}', 'w', 100)").fetchall()
        assert sorted(j.id for j in rest) == sorted(set(first) - set(claimed))
        # A worker that completes jobs of several shards and claims more jobs gets them.
        more = [one(conn, "SELECT jobq_enqueue('few')") for _ in range(10)]
        got = conn.execute("SELECT * FROM jobq_complete_and_claim(%s, %s, queue => 'few', batch => 100)",
                           ([j.id for j in rest], [j.lease for j in rest])).fetchall()
        # A shard that was empty half a second ago may have been skipped.
        while len(got) < len(more):
            got += wait_for("the others", lambda: conn.execute("SELECT * FROM jobq_claim('few', 'w', 100)").fetchall())
        assert sorted(j.id for j in got) == sorted(more)
        assert one(conn, "SELECT count(*) FROM unnest(%s::bigint[]) i, jobq_get(i) g WHERE g.status = 'completed'", [j.id for j in rest]) == 15
        got = conn.execute("SELECT * FROM jobq_complete_and_claim(%s, %s, queue => 'few', batch => 1)", ([got[0].id], [got[0].lease])).fetchall()
        assert got == []


def test_one_worker_serves_several_queues():
    with router() as conn, router() as other:
        queues = [f"several {n}" for n in range(6)]
        ids = {queue: [one(conn, "SELECT jobq_enqueue(%s)", queue) for _ in range(2)] for queue in queues}
        assert len({i % 1024 for found in ids.values() for i in found}) > 1, "all queues are on the same shard"
        got = conn.execute("SELECT * FROM jobq_claim_any(%s, 'w', 4, batches => '{1,1,0,2,2,2}')", (queues,)).fetchall()
        assert [j.queue for j in got] == [queues[0], queues[1], queues[3], queues[3]]
        got += conn.execute("SELECT * FROM jobq_complete_and_claim_any(%s, %s, queues => %s, worker_id => 'w', batch => 100, weights => '{1,2,3,4,5,6,7}')",
                            ([j.id for j in got], [j.lease for j in got], [*queues, "several none"])).fetchall()
        assert sorted(j.id for j in got) == sorted(i for found in ids.values() for i in found)
        assert one(conn, "SELECT status FROM jobq_get(%s)", got[0].id) == "completed"
        more = {one(conn, "SELECT jobq_enqueue(%s, '{\"n\": 1}')", queue) for queue in queues}
        jobs = one(conn, "SELECT jobq_claim_json(%s, 'w', batch => 100, job_ids => %s, leases => %s)", queues, [got[-1].id], [got[-1].lease])
        assert {int(j["id"]) for j in jobs} == more and all(j["payload"] == {"n": 1} and j["run_at"] == j["created_at"] for j in jobs)
        assert one(conn, "SELECT status FROM jobq_get(%s)", got[-1].id) == "completed"
        assert one(conn, "SELECT jobq_claim_json(%s)", queues) == []
        # With one queue, also with a lost lease.
        warnings = []
        conn.add_notice_handler(lambda notice: warnings.append((notice.sqlstate, notice.message_primary)))
        last = one(conn, "SELECT jobq_enqueue(%s)", queues[0])
        jobs = one(conn, "SELECT jobq_claim_json(%s, job_ids => %s, leases => %s)", [queues[0]], [got[0].id], [got[0].lease])
        assert [int(j["id"]) for j in jobs] == [last], jobs
        assert [(state, said.endswith("1 of 1 leases was lost")) for state, said in warnings] == [("JQ001", True)], warnings
        begun = time.monotonic()
        waits = threading.Thread(target=lambda: conn.execute("CALL jobq_wait_any(%s, '1 min', worker_id => 'w')", (queues,)))
        waits.start()
        other.execute("SELECT jobq_enqueue('several 4')")
        waits.join()
        assert conn.execute("SELECT * FROM jobq_claim_any(%s)", (queues,)).fetchone().queue == "several 4"
        waits = threading.Thread(target=lambda: conn.execute("CALL jobq_wait_any(%s, '1 min', worker_id => 'w')", (queues,)))
        waits.start()
        other.execute("SELECT jobq_wake('w')")
        waits.join()
        assert time.monotonic() - begun < 50, "a wait was not ended"
        for call in ("SELECT jobq_claim_any(patterns => '{several %%}')", "SELECT jobq_claim_any('{a}', oldest_first => true)",
                     "SELECT jobq_complete_and_claim_any('{}', '{}', patterns => '{several %%}')", "CALL jobq_wait_any('{a}', '0 s', patterns => '{%%}')"):
            fails(conn, "0A000", call, says="a router does not support")
        for call, state in (("SELECT jobq_claim_any('{a}', weights => '{1,2}')", "2202E"), ("SELECT jobq_claim_any('{a}', batches => '{-1}')", "22023"),
                            ("SELECT jobq_complete_and_claim_any('{}', '{}', queues => '{a}', batches => '{1,2}')", "2202E"),
                            ("SELECT jobq_complete_and_claim_any('{}', '{}', queues => '{a}', batch => NULL)", "22004"),
                            ("SELECT jobq_claim_any()", "22004"), ("CALL jobq_wait_any('{a}', '0 s', batch => 0)", "22023")):
            fails(conn, state, call)


def test_what_a_session_notes_is_not_read_by_its_settings():
    """A time in SQL style with the zone's own abbreviation could not be parsed by a shard."""
    with router() as conn:
        conn.execute("SET datestyle = 'SQL'")
        conn.execute("SET timezone = 'ABC-3'")
        conn.execute("SELECT jobq_route_queue('noted', spread => true)")
        for _ in range(2):
            assert conn.execute("SELECT * FROM jobq_claim('noted')").fetchall() == []
        assert one(conn, "SELECT bool_and(jobq_router.is_empty('noted', n)) FROM generate_series(1, 3) n")
        conn.execute("SELECT set_config('jobq_router.down_1', (extract(epoch FROM clock_timestamp()) + 3600)::text, false)")
        assert one(conn, "SELECT jobq_router.is_down(1)") is False


def test_times_are_what_the_session_says():
    """Whatever the DateStyle of the session: December 5 must not become May 12 on the shard, and IST means the zone of the session."""
    wanted = "2030-12-05 04:30+00"
    with router() as conn:
        conn.execute("SET timezone = 'Asia/Kolkata'")
        for style in ("SQL, DMY", "SQL, MDY", "German", "Postgres, DMY", "ISO, DMY"):
            conn.execute("SELECT set_config('datestyle', %s, false)", (style,))
            many = "SELECT job_id FROM jobq_enqueue_many('times', '{1,2}', run_ats => ARRAY[%s, %s]::timestamptz[])"
            ids = [one(conn, "SELECT jobq_enqueue('times', run_at => %s)", wanted), one(conn, "SELECT jobq_enqueue('times')"),
                   *(r.job_id for r in conn.execute(many, (wanted, wanted)).fetchall())]
            conn.execute("SELECT jobq_reschedule(%s, %s)", (ids[1], wanted))
            for job in ids:
                with shard(job % 1024) as direct:
                    assert one(direct, "SELECT run_at = %s FROM jobq.jobs WHERE id = %s", wanted, job), (style, job)
                assert one(conn, "SELECT run_at = %s FROM jobq_get(%s)", wanted, job), (style, job)
                assert one(conn, "SELECT run_at = %s FROM jobq.jobs WHERE id = %s", wanted, job), (style, job)
            assert one(conn, "SELECT jobq_schedule('times', '@daily', 'times', starts_at => %s) = '2030-12-06 00:00+00'", wanted), style
            assert one(conn, "SELECT next_run = '2030-12-06 00:00+00' FROM jobq.schedules WHERE name = 'times'"), style
            assert one(conn, "SELECT array_agg(r) = '{2030-12-06 00:00+00}' FROM jobq_next_runs('@daily', 'UTC', %s, 1) r", wanted), style
            conn.execute("SELECT jobq_unschedule('times'), jobq_purge_queue('times')")


def test_the_first_call_of_a_worker_by_an_old_map():
    with router() as conn, router() as other:
        other.execute("SELECT jobq_route_queue('first', spread => true), jobq_enqueue('first')")
        conn.execute("UPDATE jobq_router.map SET version = version - 1")
        got = conn.execute("SELECT * FROM jobq_complete_and_claim('{}', '{}', queue => 'first')").fetchall()
        assert len(got) == 1


def test_the_unknown_job():
    with router() as conn, shard(1) as direct:
        for query in ("SELECT count(*) FROM jobq_get(%s)", "SELECT jobq_result(%s)", "SELECT jobq_heartbeat(%s, 1)", "SELECT jobq_complete(%s, 1)",
                      "SELECT jobq_fail(%s, 1)", "SELECT jobq_cancel(%s)"):
            for job in (1 << 40, (1 << 40) + 1, -1):
                assert one(conn, query, job) == one(direct, query, job), query
        for query in ("SELECT jobq_complete(NULL)", "SELECT jobq_enqueue('')", "SELECT jobq_enqueue(NULL)", "SELECT jobq_enqueue('q', max_attempts => 0)",
                      "SELECT jobq_enqueue_jobs(NULL)", "SELECT jobq_enqueue_jobs('{}')", "SELECT jobq_enqueue_jobs('[1]')", "SELECT jobq_claim_any(NULL)",
                      "SELECT jobq_enqueue_many('q', NULL)", "SELECT jobq_enqueue_many('few', '{1,2}', unique_keys => '{a}')",
                      "SELECT jobq_enqueue('q', options => '{\"priority\": 1}')", "SELECT jobq_enqueue_many('few', '{1}', options => '{\"vrsion\": 1}')",
                      "SELECT jobq_cancel_jobs('few', filter => '{\"kind\": \"k\"}')",
                      "SELECT jobq_complete_many('{1}', '{1,2}')", "SELECT jobq_complete_many('{1,NULL}', '{1,2}')", "CALL jobq_wait(timeout => '-1 s')",
                      "CALL jobq_wait(timeout => NULL)", "SELECT jobq_create_queue('q', max_attempts => -1)"):
            errors = []
            for use in (conn, direct):
                try:
                    use.execute(query)
                    errors.append(None)
                except Exception as error:
                    errors.append((error.sqlstate, error.diag.message_primary, error.diag.message_hint))
            assert errors[0] == errors[1] and errors[0], f"{query}: {errors}"


def test_waits():
    with router() as conn, router() as other:
        begun = time.monotonic()
        waits = threading.Thread(target=lambda: conn.execute("CALL jobq_wait('waited', '1 min', worker_id => 'w')"))
        waits.start()
        other.execute("SELECT jobq_enqueue('waited')")
        waits.join()
        job = conn.execute("SELECT * FROM jobq_claim('waited')").fetchone()
        waits = threading.Thread(target=lambda: conn.execute("CALL jobq_wait('waited', '1 min', worker_id => 'w')"))
        waits.start()
        other.execute("SELECT jobq_wake('w')")
        waits.join()
        waits = threading.Thread(target=lambda: conn.execute("CALL jobq_wait_job(%s, '1 min')", (job.id,)))
        waits.start()
        other.execute("SELECT jobq_complete(%s, %s)", (job.id, job.lease))
        waits.join()
        assert time.monotonic() - begun < 50, "a wait was not ended"
        conn.execute("CALL jobq_wait('waited', '0.1 s')")
        conn.execute("SET statement_timeout = '20 s'")
        conn.execute("CALL jobq_wait('waited', '1 min')")


def test_all_shards_know_a_worker_that_waits_until_it_says_goodbye():
    info = {"worker_id": "present", "queues": ["present"]}
    known = "SELECT count(*) FROM jobq.workers WHERE worker_id = 'present'"
    with router() as conn, router() as other:
        shards = one(other, "SELECT count(*) FROM jobq_router.shards")
        for call in ("CALL jobq_wait('present', '1 min', worker_id => 'present', worker_info => %s)",
                     "CALL jobq_wait_any('{present}', '1 min', worker_id => 'present', worker_info => %s)"):
            waits = threading.Thread(target=lambda: conn.execute(call, (json.dumps(info),)))
            waits.start()
            wait_for("all shards to know the worker", lambda: one(other, known) == shards)
            other.execute("SELECT jobq_wake('present')")
            waits.join()
            assert one(other, known) == shards
            conn.execute("SELECT * FROM jobq_heartbeat_many('{}', '{}', %s)", (json.dumps({**info, "expires_in": "0"}),))
            assert one(other, known) == 0
        fails(conn, "22023", "SELECT * FROM jobq_heartbeat_many('{}', '{}', '[]')")
        fails(conn, "22023", "CALL jobq_wait('present', '1 s', worker_info => '{\"queues\": [\"q\"]}')")


def test_who_wakes_or_is_woken_waits_for_nobody():
    """Also in a transaction that has called either function and stays open."""
    with router() as conn, router() as holds:
        conn.execute("SET statement_timeout = '30 s'")
        conn.execute("SELECT jobq_wake(w) FROM unnest('{held,old}'::text[]) w")
        conn.execute("UPDATE jobq_router.wakes SET at = clock_timestamp() - interval '2 hours' WHERE worker_id = 'old'")
        with holds.transaction():
            assert [one(holds, "SELECT jobq_router.take_wake(%s)", worker) for worker in ("held", "old")] == [True, True]
            holds.execute("SELECT jobq_wake('held')")
            conn.execute("CALL jobq_wait('none', '1 s', worker_id => 'held')")
            conn.execute("SELECT jobq_wake(w) FROM unnest('{held,another}'::text[]) w")
            begun = time.monotonic()
            conn.execute("CALL jobq_wait('none', '1 min', worker_id => 'held')")
            assert time.monotonic() - begun < 50, "the wait was not ended"
        left = "SELECT array_agg(worker_id ORDER BY worker_id) FROM jobq_router.wakes WHERE worker_id IN ('another', 'held', 'old')"
        assert one(conn, left) == ["another", "held"]
        for worker in ("another", "held"):
            assert [one(conn, "SELECT jobq_router.take_wake(%s)", worker) for _ in range(2)] == [True, False]


def test_what_depends_on_others_is_on_one_shard():
    with router() as conn:
        conn.execute("SELECT jobq_route_queue('graph', spread => true)")
        parents = {}
        while len(parents) < 2:
            job = one(conn, "SELECT jobq_enqueue('graph')")
            parents[job % 1024] = job
        for number, parent in parents.items():
            assert one(conn, "SELECT jobq_enqueue('graph', depends_on => %s) %% 1024", [parent]) == number
        fails(conn, "0A000", "SELECT jobq_enqueue('graph', depends_on => %s)", list(parents.values()), says="are on different shards")
        rows = conn.execute("SELECT * FROM jobq_enqueue_jobs('[{\"queue\": \"graph\", \"ref\": \"a\"}, {\"queue\": \"graph\", \"depends_on\": [\"@a\"]}]')").fetchall()
        assert len({r.job_id % 1024 for r in rows}) == 1
        fails(conn, "0A000", "SELECT jobq_enqueue('graph', unique_key => 'u', group_key => 'g')", says="several keys")
        conn.execute("SELECT jobq_cancel_jobs('graph')")
        conn.execute("SELECT jobq_route_queue('graph', spread => true, spread_by => 'group_key')")
        assert one(conn, "SELECT jobq_enqueue('graph', unique_key => 'u', group_key => 'g')") == one(conn, "SELECT jobq_enqueue('graph', unique_key => 'u', group_key => 'g')")
        fails(conn, "0A000", "SELECT jobq_enqueue('graph', unique_key => 'u')", says="keys but no")
        fails(conn, "55000", "SELECT jobq_route_queue('graph', shard_id => 1)", says="has unfinished jobs")
        job = conn.execute("SELECT * FROM jobq_claim('graph', 'w')").fetchone()
        row = conn.execute("SELECT * FROM jobq_spawn(%s, %s, 'children', '[{\"queue\": \"graph\"}]')", (job.id, job.lease)).fetchone()
        assert row.job_ids[0] % 1024 == job.id % 1024
        assert one(conn, "SELECT state FROM jobq_step_done(%s, %s, 'one', '1')", job.id, job.lease) == "saved"
        assert one(conn, "SELECT state FROM jobq_await_jobs(%s, %s, %s, 'all')", job.id, job.lease, row.job_ids) == "waiting"
        elsewhere = one(conn, "SELECT q FROM (SELECT 'e' || n AS q FROM generate_series(1, 1000) n) q JOIN jobq_router.buckets b"
                              " ON b.bucket = jobq_router.bucket_of(q) WHERE b.shard_id <> %s LIMIT 1", job.id % 1024)
        fails(conn, "0A000", "SELECT jobq_spawn(%s, %s, 'other', %s)", job.id, job.lease, json.dumps([{"queue": elsewhere}]), says="Children must be on")


def test_what_operators_do():
    with router() as conn:
        conn.execute("SELECT jobq_route_queue('many', spread => true), jobq_create_queue('many', max_attempts => 3)")
        conn.execute("SELECT jobq_enqueue('many') FROM generate_series(1, 60)")
        assert {r.shard: r.max_attempts for r in conn.execute("SELECT shard, max_attempts FROM jobq.queues WHERE queue = 'many'")} == {1: 3, 2: 3, 3: 3}
        conn.execute("SELECT jobq_alter_kind('many', 'mail', max_attempts => 2, backoff => '{1s,1min}')")
        assert {r.shard: (r.max_attempts, r.origin) for r in conn.execute(
            "SELECT shard, max_attempts, origins ->> 'max_attempts' AS origin FROM jobq.kinds WHERE queue = 'many' AND kind = 'mail'")} == dict.fromkeys((1, 2, 3), (2, "kind"))
        assert one(conn, "SELECT jobq_drop_kind('many', 'mail')") is True
        assert one(conn, "SELECT sum(pending) FROM jobq.queue_stats WHERE queue = 'many'") == 60
        assert one(conn, "SELECT jobq_cancel_jobs('many', max_jobs => 50)") == 50
        assert one(conn, "SELECT jobq_cancel_jobs('many', max_jobs => 50)") == 10
        assert one(conn, "SELECT count(*) FROM jobq.jobs WHERE queue = 'many' AND status = 'cancelled'") == 60
        conn.execute("SELECT jobq_enqueue('many', concurrency_key => 'tenant ' || n % 2) FROM generate_series(1, 10) n")
        assert one(conn, "SELECT jobq_cancel_jobs('many', filter => '{\"concurrency_key\": \"tenant 1\"}')") == 5
        assert one(conn, "SELECT jobq_cancel_jobs('many')") == 5
        assert one(conn, "SELECT jobq_purge_queue('many')") == 70
        fails(conn, "0A000", "SELECT jobq_set_limit('many', max_running => 4)", says="is spread")
        fails(conn, "0A000", "SELECT jobq_set_limit('many', kind => 'a', max_running => 4)", says="cannot have a limit of a kind")
        for named in ("jobq_enqueue('many', options => '{\"limits\": [\"n\"]}')", "count(*) FROM jobq_enqueue_many('many', '{1}', options => '{\"limits\": [\"n\"]}')",
                      "count(*) FROM jobq_enqueue_jobs('[{\"queue\": \"many\", \"limits\": [\"n\"]}]')",
                      "jobq_schedule('named', '@daily', 'many', options => '{\"limits\": [\"n\"]}')", "jobq_alter_queue('many', limits => '{n}')",
                      "jobq_alter_kind('many', 'a', limits => '{n}')"):
            fails(conn, "0A000", f"SELECT {named}", says="does not support named limits")
        assert one(conn, "SELECT jobq_set_limit('many', '*', max_running => 1)") is True
        conn.execute("SELECT jobq_enqueue('many', concurrency_key => 'c') FROM generate_series(1, 3)")
        assert one(conn, "SELECT count(*) FROM jobq_claim('many', 'w', 10)") == 1
        said = []
        conn.add_notice_handler(lambda notice: said.append(notice.message_primary))
        for queue in ("many", "home 1", "home 2"):
            conn.execute("SELECT jobq_schedule('often', '@every 1h', %s)", (queue,))
            assert said == [], said
            assert conn.execute("SELECT queue FROM jobq.schedules WHERE name = 'often'").fetchall() == [(queue,)]
        assert one(conn, "SELECT jobq_pause_schedule('often')") is True
        job = one(conn, "SELECT jobq_run_schedule('often')")
        assert one(conn, "SELECT id FROM jobq_claim('home 2')") == job
        assert one(conn, "SELECT jobq_unschedule('often')") is True
        assert one(conn, "SELECT jobq_unschedule('often')") is False
        assert one(conn, "SELECT count(DISTINCT labels ->> 'shard') FROM jobq_metrics()") == 3
        assert one(conn, "SELECT jobq_shard_id() IS NULL")
        for call in ("jobq_adopt()", "jobq_set_shard(1)", "jobq_prometheus()", "jobq_schedules('[]')", "jobq_set_handler('q', 'k', 'sha256(bytea)')"):
            fails(conn, "0A000", f"SELECT {call}")
        fails(conn, "42710", "SELECT jobq_add_shard(2, 'dbname=x')")
        fails(conn, "42704", "SELECT jobq_drain_shard(9)")
        fails(conn, "55000", "SELECT jobq_remove_shard(1)", says="is active")


def test_the_example_worker():
    """Works unchanged, with only another connection string."""
    with router() as conn:
        conn.execute("SELECT jobq_route_queue('work', spread => true)")
        conn.execute("CREATE TABLE IF NOT EXISTS hashes (text text, digest text)")
        ids = [one(conn, "SELECT jobq_enqueue('work', %s, kind => 'hash')", json.dumps({"text": str(n)})) for n in range(40)]
        environment = dict(os.environ, PGHOST=host(SERVERS[0]), PGPORT="5432", PGUSER="postgres", PGDATABASE=ROUTER)
        worker = subprocess.Popen([sys.executable, os.path.join(os.path.dirname(__file__), "../../../examples/worker.py"), "work"], env=environment, stdout=subprocess.DEVNULL)
        try:
            wait_for("the worker", lambda: one(conn, "SELECT count(*) FROM hashes") == 40)
            wait_for("the last job", lambda: one(conn, "SELECT bool_and(g.status = 'completed') FROM unnest(%s::bigint[]) i, jobq_get(i) g", ids))
            worker.terminate()
            assert worker.wait(60) == 0
        finally:
            worker.kill()
        assert {i % 1024 for i in ids} == {1, 2, 3}


if __name__ == "__main__":
    make_cluster()
    sys.exit(run(globals()))
