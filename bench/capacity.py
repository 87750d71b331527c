#!/usr/bin/env python3
"""Computes how many shards and routers a rate of jobs needs. See docs/guides/scaling.md.

    python3 bench/capacity.py [FILE] [NAME=NUMBER ...]

FILE contains the cost of a job, as `make bench ONLY=router` writes it to bench/results/capacity.json. Without FILE, the model uses the
published results in docs/internals/benchmarks/capacity.json. NAME=NUMBER: cores (32) and gbit (10) of each server, share (0.6) of both that may be
used, call_ms (2), the duration of a call of a worker, wal_mb (300), the MB of WAL that the disk of a server can write per second, and
sessions (2000), the number of sessions that a server handles well.

The model is proportional: a job costs the same processor time and bytes at any rate. It does not include limits that more servers cannot
raise: a queue that is not spread, a concurrency key, or a group.
"""
import json
import math
import os
import sys

MEASURED = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "docs", "internals", "benchmarks", "capacity.json")
DEFAULTS = {"cores": 32, "gbit": 10, "share": 0.6, "call_ms": 2, "wal_mb": 300, "sessions": 2000}
RATES = (100_000, 1_000_000, 10_000_000)
MOST_SHARDS = 1024      # a job ID contains the number of its shard


def needed(rate, job, site):
    """Returns what the rate needs. Each part is (number of servers, bottleneck)."""
    cpu = site["cores"] * site["share"] * 1e6
    network = site["gbit"] * site["share"] * 1e9 / 8
    shards = max((rate * job["shard_cpu_us"] / cpu, "processors of shards"), (rate * job["shard_bytes"] / network, "network of shards"),
                 (rate * job["wal_bytes"] / (site["wal_mb"] * 1e6), "disks of shards"))
    sessions = rate * job["calls"] * site["call_ms"] / 1000
    routers = max((rate * job["router_cpu_us"] / cpu, "processors of routers"),
                  (rate * (job["client_bytes"] + job["shard_bytes"]) / network, "network of routers"),
                  (sessions / site["sessions"], "sessions of routers"))
    return shards, routers, sessions


def row(rate, job, site):
    shards, routers, sessions = needed(rate, job, site)
    count, front = math.ceil(shards[0]), math.ceil(routers[0])
    first = max(shards, routers)[1]
    # Each session of a router has a connection of its own to each shard that it calls.
    if sessions > site["sessions"]:
        first = f"connections of a shard: {sessions:,.0f}"
    if count > MOST_SHARDS:
        first = f"numbers of shards: {MOST_SHARDS}"
    return {"shards": count, "routers": front, "sessions": math.ceil(sessions),
            "shard_gbit": rate * job["shard_bytes"] * 8 / 1e9 / count, "router_gbit": rate * (job["client_bytes"] + job["shard_bytes"]) * 8 / 1e9 / front,
            "wal": rate * job["wal_bytes"] / 1e6 / count, "first": first}


def table(measured, site):
    lines = ["| jobs per second | calls | shards | routers | active sessions | network of a shard, of a router, Gbit/s | WAL of a shard, MB/s | first bottleneck |",
             "|---|---|---|---|---|---|---|---|"]
    for rate in RATES:
        for name, job in measured.items():
            r = row(rate, job, site)
            lines.append(f"| {rate:,} | {name} | {r['shards']:,} | {r['routers']:,} | {r['sessions']:,} | {r['shard_gbit']:.2f}, {r['router_gbit']:.2f}"
                         f" | {r['wal']:.0f} | {r['first']} |")
    return "\n".join(lines)


def main(arguments):
    files = [argument for argument in arguments if "=" not in argument]
    site = dict(DEFAULTS)
    for name, number in (argument.split("=", 1) for argument in arguments if "=" in argument):
        if name not in site or not number.replace(".", "", 1).isdigit() or float(number) == 0:
            sys.exit(f"capacity.py: {name}={number}: the names are {', '.join(site)}, and a number is above 0")
        site[name] = float(number)
    with open(files[0] if files else MEASURED, encoding="utf-8") as file:
        measured = json.load(file)
    for name, job in measured.items():
        print(f"{name}, a job: router {job['router_cpu_us']:.0f} us, shards {job['shard_cpu_us']:.0f} us; {job['client_bytes']} bytes between client and"
              f" router, {job['shard_bytes']} between router and shard; {job['wal_bytes']} bytes of WAL")
    print(", ".join(f"{name} {number:g}" for name, number in site.items()) + "\n")
    print(table(measured, site))


if __name__ == "__main__":
    main(sys.argv[1:])
