"""What the soak measures at the end of each day, when all jobs have finished and their rows have been deleted.

A sample is a dictionary from the name of a series to its value. A name is `group: what`, and BOUNDS has the allowed growth of each
group. `memory` and `used` have one series per process; all others have one series per server.
"""

import re

from trend import Bound

KB = 1024
# Allowed growth from the end of the warm-up to the end of the run, or to the next restart if that resets the value.
BOUNDS = {
    "size": Bound(0.3, 256 * KB),               # bytes of a table, of an index, of a TOAST table, and of the catalog
    "rows": Bound(0.1, 40),                     # rows of a table
    "dead": Bound(0.5, 6000),                   # dead tuples
    "entries": Bound(0.1, 40),                  # entries of a table in shared memory
    "evictions": Bound(0.1, 40),                # evictions per day
    "wal": Bound(0.15, 0),                      # bytes of WAL per job
    "memory": Bound(0.1, 512 * KB),             # private bytes of a process of the server, which malloc returns only partly
    "used": Bound(0.04, 128 * KB),              # bytes in use in the memory contexts of a process
    "time": Bound(0.5, 0.5, certain=True),      # times of calls in relation to the time of a plain statement
}
MEANING = {
    "size": "sizes of tables, indexes, and the catalog", "rows": "rows", "dead": "dead tuples", "entries": "entries in shared memory",
    "evictions": "evictions from shared memory per day", "wal": "WAL per job", "memory": "private memory of processes",
    "used": "memory contexts", "time": "times in relation to a plain statement",
}
# Times depend on the machine, so they are judged only in a long run. The times in milliseconds are only reported.
LONG_ONLY = ("time",)

RELATIONS = """
    SELECT CASE WHEN n.nspname = 'jobq' THEN coalesce(o.relname || ' TOAST', c.relname) ELSE 'catalog' END,
           sum(pg_relation_size(c.oid) + CASE WHEN c.relkind <> 'i' THEN pg_relation_size(c.oid, 'fsm') + pg_relation_size(c.oid, 'vm') ELSE 0 END)
    FROM pg_class c
         LEFT JOIN pg_index i ON i.indexrelid = c.oid
         LEFT JOIN pg_class o ON o.reltoastrelid IN (c.oid, i.indrelid)
         JOIN pg_namespace n ON n.oid = coalesce(o.relnamespace, c.relnamespace)
    WHERE c.relkind IN ('r', 'i', 't') AND n.nspname IN ('jobq', 'pg_catalog') AND c.relname !~ '_ccnew|_ccold'
    GROUP BY 1"""
TABLES = "SELECT relname FROM pg_class WHERE relnamespace = 'jobq'::regnamespace AND relkind = 'r' ORDER BY relname"
CONTEXTS = "SELECT sum(used_bytes) FROM pg_backend_memory_contexts"


def percentile(values, share):
    return values[min(len(values) - 1, int(share * len(values)))]


def of_server(conn):
    """Sizes, numbers of rows, dead tuples, and the gauges of shared memory."""
    found = {f"size: {name}": float(size) for name, size in conn.execute(RELATIONS)}
    for (table,) in conn.execute(TABLES).fetchall():
        found[f"rows: {table}"] = conn.execute(f'SELECT count(*) FROM jobq."{table}"').fetchone()[0]
    found["dead: all tables"] = float(conn.execute("SELECT sum(n_dead_tup) FROM pg_stat_all_tables WHERE schemaname = 'jobq'").fetchone()[0])
    for name, part, value in conn.execute("SELECT name, labels->>'part', value FROM jobq_metrics() WHERE name LIKE 'jobq_shared_memory%'"):
        kind = {"jobq_shared_memory_entries": "entries", "jobq_shared_memory_evictions_total": "evictions"}.get(name)
        if kind:
            found[f"{kind}: {part}"] = value
    return found


def private_bytes(pid):
    """Anonymous memory. Unlike `Private_Dirty`, it excludes pages of shared memory that only one process has touched."""
    with open(f"/proc/{pid}/smaps_rollup", encoding="ascii") as file:
        return int(re.search(r"^Anonymous:\s+(\d+) kB", file.read(), re.M).group(1)) * KB


def of_processes(conn, postmaster):
    """Returns {name: (pid, private bytes)} of the processes that live longer than a day."""
    names = {postmaster: "postmaster"}
    for pid, kind, name in conn.execute("SELECT pid, backend_type, application_name FROM pg_stat_activity WHERE pid <> pg_backend_pid()"):
        if kind == "client backend":
            if name.startswith("soak "):
                names[pid] = name.removeprefix("soak ")
        elif kind not in ("autovacuum worker", "walsender"):
            names[pid] = kind
    found = {}
    for pid, name in names.items():
        try:
            found[name if name not in found else f"{name} {pid}"] = (pid, private_bytes(pid))
        except (FileNotFoundError, ProcessLookupError, AttributeError):
            continue    # the process has ended
    return found


def of_times(times):
    """Percentiles of the day in milliseconds, and the median of each time in relation to the median of a plain statement."""
    found = {}
    for kind, values in times.items():
        if values:
            for share in (0.5, 0.95, 0.99):
                found[f"ms: {kind} p{100 * share:g}"] = percentile(values, share)
    statement = found.get("ms: statement p50")
    if statement:
        for kind in ("claim", "wait"):
            if f"ms: {kind} p50" in found:
                found[f"time: {kind}, in plain statements"] = found[f"ms: {kind} p50"] / statement
    return found
