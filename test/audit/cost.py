"""Measures what `jobq audit` costs a busy server: pairs of equal loads, one with the audit and one without. Not a part of run.sh.

Each client repeats two transactions: it enqueues 10 jobs, and it claims 10 jobs and completes them. Prints the CPU time per 1,000 jobs of
the clients' server processes in both loads, of the server process that reads the slot, and of the program, the largest memory of the
program, and the WAL that was retained at most. CPU time is what other work on the machine disturbs least.

    JOBQ_AUDIT_PAIRS=6 JOBQ_AUDIT_SECONDS=30 JOBQ_AUDIT_RATE=1000 /usr/bin/python3 test/audit/cost.py

JOBQ_AUDIT_RATE=n: jobs per second; 0: as many as possible, and the throughput of both loads.
"""

import os
import re
import statistics
import subprocess
import tempfile
import threading
from contextlib import nullcontext

import auditor
from support import connect, scratch_database, wait_until

CLIENTS = 4
BATCH = 10
SCRIPT = f"""
SELECT count(*) FROM jobq_enqueue_many('load', array_fill('{{"n": 1}}'::jsonb, ARRAY[{BATCH}]));
SELECT count(jobq_complete(id, lease)) FROM jobq_claim('load', 'w' || :client_id, {BATCH});
"""
TICKS = os.sysconf("SC_CLK_TCK")


def cpu(pid):
    """Seconds of CPU time of a process, or 0 if it has ended."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8") as file:
            fields = file.read().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / TICKS
    except OSError:
        return 0


def memory(pid):
    with open(f"/proc/{pid}/status", encoding="utf-8") as file:
        return int(re.search(r"VmHWM:\s+(\d+)", file.read())[1]) / 1024


def load(database, seconds, rate):
    """Returns jobs per second, and seconds of CPU time of the sessions per 1,000 jobs."""
    with tempfile.NamedTemporaryFile("w", suffix=".sql") as script:
        script.write(SCRIPT)
        script.flush()
        said = subprocess.run(["pgbench", "-n", "-M", "prepared", "-c", str(CLIENTS), "-j", "1", "-T", str(seconds), *(["-R", str(rate / BATCH)] if rate else []),
                              "-f", script.name, database], check=True, capture_output=True, text=True).stdout
    return float(re.search(r"tps = ([0-9.]+)", said)[1]) * BATCH


def watch(conn, ended, seen):
    while not ended.wait(0.1):
        for (pid,) in conn.execute("SELECT pid FROM pg_stat_activity WHERE application_name = 'pgbench' AND datname = current_database()"):
            seen["clients"][pid] = max(seen["clients"].get(pid, 0), cpu(pid))
        for pid, retained in conn.execute("SELECT active_pid, pg_wal_lsn_diff(pg_current_wal_lsn(), restart_lsn)::bigint FROM pg_replication_slots"
                                          " WHERE temporary AND database = current_database()"):
            seen["retained"] = max(seen["retained"], retained or 0)
            seen["reader"] = max(seen["reader"], cpu(pid or 0))


def measured(database, seconds, rate, audited, costs):
    """Runs a load. Returns jobs per second, and seconds of CPU time of the clients' sessions per 1,000 jobs."""
    ended, seen = threading.Event(), {"retained": 0, "reader": 0.0, "clients": {}}
    with connect(database) as conn, (auditor.beside(database, "--interval", "5") if audited else nullcontext()) as audit:
        watching = threading.Thread(target=watch, args=(conn, ended, seen))
        watching.start()
        start = cpu(audit.pid) if audited else 0    # of Python and its modules
        speed = load(database, seconds, rate)
        if audited:
            conn.execute("CREATE TABLE the_end ()")
            end = conn.execute("SELECT pg_current_wal_lsn()").fetchone()[0]
            wait_until(lambda: conn.execute("SELECT confirmed_flush_lsn >= %s::pg_lsn FROM pg_replication_slots WHERE temporary"
                                            " AND database = current_database()", (end,)).fetchone()[0], auditor.MOMENT)
        ended.set()
        watching.join()
        jobs = speed * seconds / 1000
        if audited:
            costs.append((seen["reader"] / jobs, (cpu(audit.pid) - start) / jobs, memory(audit.pid), seen["retained"] / 2**20))
    if audited:
        print(audit.said.strip(), flush=True)
    return speed, sum(seen["clients"].values()) / jobs


def main():
    pairs = int(os.environ.get("JOBQ_AUDIT_PAIRS", "6"))
    seconds = int(os.environ.get("JOBQ_AUDIT_SECONDS", "30"))
    rate = int(os.environ.get("JOBQ_AUDIT_RATE", "1000"))
    speeds, clients, costs = [], [], []
    for pair in range(pairs):
        with scratch_database("cost") as database:
            found = {audited: measured(database, seconds, rate, audited, costs) for audited in (pair % 2 == 0, pair % 2 == 1)}
        speeds.append(found[True][0] / found[False][0])
        clients.append(found[True][1] / found[False][1])
        print(f"pair {pair}: without {found[False][0]:.0f} jobs/s, {found[False][1]:.3f} s of CPU per 1,000 jobs;"
              f" with {found[True][0]:.0f} jobs/s, {found[True][1]:.3f} s; {costs[-1]}", flush=True)
    reader, program, resident, retained = (statistics.median(column) for column in zip(*costs))
    print(f"medians: speed {statistics.median(speeds):.3f}, CPU time of the clients' sessions {statistics.median(clients):.3f}; per 1,000 jobs:"
          f" {reader:.3f} s of the server, {program:.3f} s of the program; {resident:.0f} MB of memory, {retained:.0f} MB of WAL", flush=True)


if __name__ == "__main__":
    main()
