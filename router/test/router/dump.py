#!/usr/bin/python3
"""A router that is dumped and restored."""

import subprocess
import sys

from cluster import ROUTER, SERVERS, fails, host, make_cluster, make_database, make_role, one, router, run


def test_a_router_restored_from_a_dump_that_is_old():
    """The restored router takes over later changes of the map, has the connections and user mappings of the shards, and admits the same roles."""
    make_role("regress_worker")
    keys = [f"key {n}" for n in range(60)]
    with router() as conn:
        conn.execute("SELECT jobq_route_queue('dumped', spread => true)")
        conn.execute("SELECT jobq_route_queue('fixed', shard_id => 1)")
        conn.execute("SELECT jobq_grant('regress_worker', 'worker')")
        jobs = {key: one(conn, "SELECT jobq_enqueue('dumped', unique_key => %s)", key) for key in keys}
        conn.execute("CREATE USER MAPPING FOR regress_worker SERVER jobq_shard_1 OPTIONS (user 'regress_worker', password 'secret')")
        there = ["-h", host(SERVERS[0]), "-p", "5432", "-U", "postgres"]
        dumped = subprocess.run(["pg_dump", *there, ROUTER], check=True, stdout=subprocess.PIPE).stdout
        conn.execute("SELECT jobq_route_queue('fixed', shard_id => 2)")
        conn.execute("SELECT jobq_drain_shard(3)")
        changed = conn.execute("SELECT version, jobq_router.content() FROM jobq_router.map").fetchone()
    make_database(SERVERS[0], ROUTER)
    subprocess.run(["psql", "-q", "-v", "ON_ERROR_STOP=1", *there, ROUTER], check=True, input=dumped, stdout=subprocess.DEVNULL)
    with router(user="regress_worker") as worker:
        assert {j.id for j in worker.execute("SELECT * FROM jobq_claim('dumped', 'w', 1000)")} == set(jobs.values())
    with router() as conn:
        assert conn.execute("SELECT version, jobq_router.content() FROM jobq_router.map").fetchone() == changed
        assert one(conn, "SELECT jobq_enqueue('fixed') %% 1024") == 2
        assert {key: one(conn, "SELECT jobq_enqueue('dumped', unique_key => %s)", key) for key in keys} == jobs
        conn.execute("SELECT jobq_alter_shard(2, weight => 2)")
        assert one(conn, "SELECT version FROM jobq_router.map") == changed[0] + 1
        fails(conn, "42710", "CREATE USER MAPPING FOR regress_worker SERVER jobq_shard_1")


if __name__ == "__main__":
    make_cluster()
    sys.exit(run(globals()))
