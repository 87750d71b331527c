#!/usr/bin/python3
"""A shard that is down and returns."""

import os
import signal
import sys
import time

import psycopg

from cluster import SERVERS, connection, control, fails, make_cluster, one, router, run, shard, wait_for


def key_on(conn, queue, number):
    return one(conn, "SELECT k FROM (SELECT 'key ' || n AS k FROM generate_series(1, 10000) n) k JOIN jobq_router.buckets b"
                     " ON b.bucket = jobq_router.bucket_of(%s, k) WHERE b.shard_id = %s LIMIT 1", queue, number)


def queue_on(conn, number):
    return one(conn, "SELECT q FROM (SELECT 'queue ' || n AS q FROM generate_series(1, 10000) n) q JOIN jobq_router.buckets b"
                     " ON b.bucket = jobq_router.bucket_of(q) WHERE b.shard_id = %s LIMIT 1", number)


def test_a_shard_is_down_and_comes_back():
    make_cluster()
    with router() as conn, router() as told:
        conn.execute("SELECT jobq_route_queue('spread', spread => true)")
        told.execute("SELECT * FROM jobq.limits")  # through a connection to each
        home, key, there = queue_on(conn, 2), key_on(conn, "spread", 2), key_on(conn, "spread", 3)
        kept = one(conn, "SELECT jobq_enqueue(%s)", home)
        held = conn.execute("SELECT * FROM jobq_claim(%s, 'w')", (home,)).fetchone()
        waits = one(conn, "SELECT jobq_enqueue('spread', unique_key => %s)", key)
        assert kept % 1024 == waits % 1024 == 2
        control(2, "stop", "-m", "immediate")
        try:
            # A broken connection cannot be distinguished from a lost call, so the first call through it fails.
            for conn_is in ("old", "new"):
                states = ("08001", "08007") if conn_is == "old" else ("08001",)
                with router() as conn2:
                    use = conn if conn_is == "old" else conn2
                    for query, parameter in (("SELECT jobq_enqueue(%s)", home), ("SELECT jobq_enqueue('spread', unique_key => %s)", key),
                                             ("SELECT * FROM jobq_claim(%s)", home), ("SELECT jobq_complete(%s)", kept), ("CALL jobq_wait_job(%s, '1 s')", kept)):
                        error = None
                        try:
                            use.execute(query, (parameter,))
                        except Exception as e:
                            error = e
                        assert getattr(error, "sqlstate", None) in states and "shard 2" in str(error), f"{conn_is} {query}: {error!r}"
            # A call that any shard can answer uses another shard, even if a connection has broken.
            for use in (told, conn):
                for _ in range(15):
                    assert one(use, "SELECT jobq_version()") and one(use, "SELECT count(*) FROM jobq_next_runs('@daily', n => 3)") == 3
            others = [one(conn, "SELECT jobq_enqueue('spread', to_jsonb(%s::int))", n) for n in range(30)]
            assert {i % 1024 for i in others} == {1, 3}
            assert one(conn, "SELECT jobq_enqueue('spread', unique_key => %s) %% 1024", there) == 3
            jobs = conn.execute("SELECT * FROM jobq_claim('spread', 'w', 100)").fetchall()
            assert len(jobs) == 31, len(jobs)
            rows = conn.execute("SELECT * FROM jobq_complete_many(%s, %s)", ([j.id for j in jobs], [j.lease for j in jobs])).fetchall()
            assert all(r.completed for r in rows)
            assert conn.execute("SELECT * FROM jobq_claim('spread', 'w')").fetchall() == []
            # The shard does not hold up a worker that has ended no job yet, or that also works for another queue.
            for _ in range(20):
                assert conn.execute("SELECT * FROM jobq_complete_and_claim('{}', '{}', queue => 'spread')").fetchall() == []
            more = one(conn, "SELECT jobq_enqueue('spread', unique_key => %s)", there)
            job = wait_for("the other queue", lambda: conn.execute("SELECT * FROM jobq_claim_any(%s, 'w')", ([home, "spread"],)).fetchone())
            assert job.id == more and one(conn, "SELECT jobq_complete(%s, %s)", job.id, job.lease) is True
            # What is remembered about the shard does not hide an error.
            fails(conn, "08001", "SELECT * FROM jobq_claim_any(%s)", [home], says="shard 2 cannot be reached")
            fails(conn, "08001", "SELECT * FROM jobq_claim(%s)", home, says="shard 2")
            fails(conn, "08001", "SELECT jobq_pause_queue('spread')", says="These shards have executed the call: ")
        finally:
            control(2, "start")
        wait_for("shard 2 answers", lambda: again(conn, "SELECT jobq_resume_queue('spread')"))
        # This session still skips the shard for a moment.
        jobs = wait_for("the jobs of the shard", lambda: conn.execute("SELECT * FROM jobq_claim('spread', 'w', 10)").fetchall())
        assert [j.id for j in jobs] == [waits]
        assert one(conn, "SELECT jobq_complete(%s, %s)", held.id, held.lease) is True
        assert one(conn, "SELECT jobq_enqueue(%s) %% 1024", home) == 2
    found = []
    for number in (1, 2, 3):
        with shard(number) as conn:
            found += [r.payload for r in conn.execute("SELECT payload FROM jobq.jobs WHERE queue = 'spread' AND unique_key IS NULL")]
    assert sorted(found) == list(range(30)), found


def test_a_shard_that_does_not_answer():
    """The server of a shard is stopped, so that connections to it neither succeed nor fail. A session that has lost a call to it asks other shards first."""
    make_cluster()
    with router() as conn, router() as claims, router() as claims_any, router() as enqueues:
        conn.execute("SELECT jobq_route_queue('spread', spread => true)")
        home, key, other_key = queue_on(conn, 2), key_on(conn, "spread", 2), key_on(conn, "spread", 3)
        waits = one(conn, "SELECT jobq_enqueue('spread', unique_key => %s)", key)
        conn.execute("SELECT count(jobq_enqueue('spread', group_key => %s)) FROM generate_series(1, 100)", (other_key,))
        for n in range(30):
            conn.execute("SELECT jobq_enqueue('spread')")
        postmaster = int(open(f"{SERVERS[1]}/postmaster.pid").readline())
        os.kill(postmaster, signal.SIGSTOP)
        try:
            for use, call, arguments in ((claims, "SELECT * FROM jobq_claim('spread', 'w')", ()), (enqueues, "SELECT jobq_enqueue('spread')", ()),
                                         (claims_any, "SELECT * FROM jobq_claim_any(%s, 'w')", ([home, "spread"],))):
                use.execute("SET statement_timeout = '5 s'")
                begun, silent, answered = time.monotonic(), 0, 0
                while answered < 30:
                    assert time.monotonic() - begun < 600, f"{call}: {answered} calls were answered"
                    try:
                        use.execute(call, arguments).fetchall()
                        answered += 1
                    except psycopg.Error as error:
                        # Other shards and the router can also be slow on a busy machine.
                        assert error.sqlstate == "57014", error
                        silent += "Shard 2 had not answered" in (error.diag.message_detail or "")
                    # The shard is asked again after ten times the duration of the lost call.
                    assert silent <= 1 + (time.monotonic() - begun) / 55, f"{call}: {silent} calls failed, {answered} were answered"
                assert silent, f"{call}: no call has reached the shard"
        finally:
            os.kill(postmaster, signal.SIGCONT)
        # The shard is asked again.
        claims.execute("SET statement_timeout = '30 s'")
        wait_for("the job of shard 2", lambda: waits in [j.id for j in claims.execute("SELECT * FROM jobq_claim('spread', 'w', 50)")]
                 or one(conn, "SELECT (jobq_get(%s)).status = 'processing'", waits))


def test_answers_of_one_shard_of_several():
    """What the other shards have done stands, and the call can be repeated."""
    make_cluster()
    with router() as conn:
        conn.execute("SELECT jobq_route_queue('spread', spread => true)")
        keys = [key_on(conn, "spread", number) for number in (1, 2, 3)]
        for key in keys:
            conn.execute("SELECT jobq_enqueue('spread', unique_key => %s)", (key,))
        fired = queue_on(conn, 1)
        conn.execute("SELECT jobq_schedule('fired', '@every 1h', %s)", (fired,))
        jobs = conn.execute("SELECT * FROM jobq_claim('spread', 'w', 3)").fetchall()
        ids, leases = [j.id for j in jobs], [j.lease for j in jobs]
        assert len(jobs) == 3
        control(3, "stop", "-m", "fast")
        try:
            fails(conn, "08001", "SELECT * FROM jobq_complete_many(%s, %s)", ids, leases, says="shard 3")
            with shard(1) as first:
                assert one(first, "SELECT status FROM jobq.jobs WHERE unique_key = %s", keys[0]) == "completed"
                # If one shard answers a call, the call cannot be repeated.
                job = one(conn, "SELECT jobq_run_schedule('fired')")
                assert [r.id for r in first.execute("SELECT id FROM jobq.jobs WHERE queue = %s", (fired,))] == [job]
            fails(conn, "08001", "SELECT jobq_run_schedule('unknown')", says="shard 3")
        finally:
            control(3, "start")
        rows = wait_for("all shards", lambda: again(conn, "SELECT * FROM jobq_complete_many(%s, %s)", ids, leases))
        # The second call reports that the jobs completed by the first one are no longer held.
        assert [(r.job_id, r.completed) for r in rows] == [(i, i % 1024 == 3) for i in ids], (ids, rows)
        assert {one(conn, "SELECT (jobq_get(%s)).status", i) for i in ids} == {"completed"}


def test_an_error_of_one_shard_of_several():
    """Jobs that other shards have handed out are returned, because no other session knows their leases."""
    make_cluster()
    with router() as conn:
        conn.execute("SELECT jobq_route_queue('spread', spread => true)")
        for number in (1, 2, 3):
            for n in range(4):
                key = one(conn, "SELECT k FROM (SELECT 'key ' || n AS k FROM generate_series(1, 10000) n) k JOIN jobq_router.buckets b"
                                " ON b.bucket = jobq_router.bucket_of('spread', k) WHERE b.shard_id = %s OFFSET %s LIMIT 1", number, n)
                conn.execute("SELECT jobq_enqueue('spread', unique_key => %s)", (key,))
        # Otherwise the router would look for another host that accepts writes.
        conn.execute("SELECT jobq_alter_shard(2, %s)", (connection(2) + " target_session_attrs=any",))
    with shard(2) as conn:
        conn.execute("ALTER DATABASE shard2 SET default_transaction_read_only = on")
    warnings = []
    with router() as conn:
        jobs = [job for _ in range(4) for job in conn.execute("SELECT * FROM jobq_claim('spread', 'w', 2)").fetchall()]
        assert sorted(job.id % 1024 for job in jobs) == [1] * 4 + [3] * 4, jobs
        conn.execute("SELECT jobq_release(%s, %s)", (jobs[0].id, jobs[0].lease))
    # A claim for more jobs than there are also asks the broken shard. PL/Proxy itself reports that it reconnects.
    with router() as conn:
        conn.add_notice_handler(lambda n: warnings.append((n.sqlstate, n.message_primary)) if n.sqlstate != "00000" else None)
        again = conn.execute("SELECT * FROM jobq_claim('spread', 'w', 9)").fetchall()
        assert [job.id for job in again] == [jobs[0].id], again
        assert [state for state, _ in warnings] == ["25006"] and "nothing was claimed on shard 2" in warnings[0][1], warnings
        jobs[0] = again[0]
        # If there is no job at all, the claim reports the error, as with invalid input, whichever shard comes first.
        fails(conn, "25006", "SELECT * FROM jobq_claim('spread', 'w', 9)")
        fails(conn, "22004", "SELECT * FROM jobq_claim('spread', 'w', 1, ARRAY['a', NULL])")
        fails(conn, "25006", "SELECT * FROM jobq_claim_any('{spread}', 'w')")
        # The broken shard affects no other queue, whether its home is there or not, and no wait.
        for queue in (queue_on(conn, 1), queue_on(conn, 3)):
            assert conn.execute("SELECT * FROM jobq_claim(%s, 'w')", (queue,)).fetchall() == []
            conn.execute("CALL jobq_wait(%s, '0.1 s')", (queue,))
            conn.execute("SELECT jobq_enqueue(%s)", (queue,))
            assert len(conn.execute("SELECT * FROM jobq_claim_any(%s, 'w')", (["spread", queue],)).fetchall()) == 1
        # The failed claim does not hide the completions. Once a second, the claim from the other queue also looks at the shards that are
        # not its home, and warns about shard 2.
        several = ["spread", queue_on(conn, 1)]
        for call, queues, ended in (("SELECT * FROM jobq_complete_and_claim(%s, %s, queue => %s, batch => 9)", "spread", jobs[:4]),
                                    ("SELECT * FROM jobq_complete_and_claim_any(%s, %s, queues => %s, batch => 9)", several, jobs[4:6]),
                                    ("SELECT json_array_elements(jobq_claim_json(job_ids => %s, leases => %s, queues => %s, batch => 9))",
                                     ["spread"], jobs[6:7]),
                                    ("SELECT json_array_elements(jobq_claim_json(job_ids => %s, leases => %s, queues => %s, batch => 9))",
                                     several, jobs[7:])):
            warnings.clear()
            rows = conn.execute(call, ([job.id for job in ended], [job.lease for job in ended], queues)).fetchall()
            looks = [text for _, text in warnings if queues is several and text.startswith("nothing was claimed on shard 2")]
            assert rows == [] and [state for state, text in warnings if text not in looks] == ["25006"], (call, rows, warnings)
            assert len(looks) <= 1, (call, warnings)
        assert {one(conn, "SELECT (jobq_get(%s)).status", job.id) for job in jobs} == {"completed"}
        fails(conn, "25006", "SELECT * FROM jobq_complete_and_claim('{}', '{}', queue => 'spread', batch => 9)")
    with shard(2) as conn:
        conn.execute("SET default_transaction_read_only = off")
        conn.execute("ALTER DATABASE shard2 RESET default_transaction_read_only")
    with router() as conn:
        assert len(conn.execute("SELECT * FROM jobq_claim('spread', 'w', 9)").fetchall()) == 4


def again(conn, query, *parameters):
    """The answer, or None if a connection has failed."""
    try:
        return conn.execute(query, parameters).fetchall()
    except psycopg.OperationalError as error:
        assert error.sqlstate.startswith("08"), error


if __name__ == "__main__":
    sys.exit(run(globals()))
