"""Runs the same day of load again and again against two servers, and judges whether anything that it measures has a trend.

soak.py DIRECTORY SOCKETS REPORT

DIRECTORY contains the servers and samples of each variant; if it already does, the run continues with them. README.md describes the
settings. Needs the server's programs in PATH. The last line of the output shows the numbers of passed and failed checks.
"""

import json
import os
import re
import signal
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, "..", "chaos"), os.path.join(HERE, "..", "audit")]
import psycopg  # noqa: E402
from psycopg import sql  # noqa: E402

import day as shape  # noqa: E402
import handled  # noqa: E402
import picture  # noqa: E402
import samples  # noqa: E402
import verdicts  # noqa: E402
from servers import Server, wait_for  # noqa: E402
from support import Results  # noqa: E402

WEEK = 15               # days from one restart, with REINDEX, to the next
PATIENCE = 120          # seconds without progress, after which the run fails
# The times of checkpoints change the number of full-page images, which would hide a trend of the WAL per job.
CONF = """
fsync = off
full_page_writes = off
max_connections = 60
track_functions = none
jobq.max_workers = 2
"""
VARIANTS = {
    # The load of some real minutes is a day, so autovacuum must come more often than once a minute.
    "default": "autovacuum_naptime = 10s\n",
    "aggressive": """
autovacuum_naptime = 1s
autovacuum_vacuum_threshold = 20
autovacuum_vacuum_scale_factor = 0
autovacuum_vacuum_cost_delay = 0
autovacuum_max_workers = 4
""",
}
# A planted leak: the series that the judge must find.
PLANTS = {
    "open_transaction": r"(size|dead): ",
    "unpruned": r"(size|rows): jobs",
    "unvacuumed": r"size: jobs_\w*",
    "memory_kept": r"(used|memory): worker",
}


class Soak:
    def __init__(self, variant, directory, sockets, plant):
        self.results = Results(f"soak {variant}")
        self.variant, self.plant = variant, plant
        base = os.path.join(directory, variant)
        os.makedirs(base, exist_ok=True)
        self.path = os.path.join(base, "samples.json")
        sockets = os.path.join(sockets, variant)
        os.makedirs(sockets, exist_ok=True)
        binaries = subprocess.run(["pg_config", "--bindir"], check=True, capture_output=True, text=True).stdout.strip()
        self.server = Server(binaries, base, sockets, "server", 5701)
        self.days = []
        self.wrong = []
        self.holder = self.conn = None
        self.restarted = False

    # ---- the server

    def begin(self):
        keep = "1 year" if self.plant == "unpruned" else shape.KEEP
        if os.path.exists(self.path):
            with open(self.path, encoding="utf-8") as file:
                self.days = json.load(file)
            with open(os.path.join(self.server.data, "postgresql.conf"), "a", encoding="utf-8") as file:
                file.write(f"unix_socket_directories = '{self.server.sockets}'\n")
            self.start()
            return
        self.server.create(CONF + VARIANTS[self.variant])
        self.start("postgres")
        self.conn.execute("CREATE DATABASE soak")
        self.conn.close()
        self.conn = self.connect()
        self.conn.execute("CREATE EXTENSION jobq")
        shape.set_up(self.conn, keep)
        if self.plant == "unvacuumed":
            self.conn.execute("ALTER TABLE jobq.jobs SET (vacuum_index_cleanup = off)")

    def connect(self, database="soak", **options):
        return psycopg.connect(host=self.server.sockets, port=self.server.port, user="postgres", dbname=database, autocommit=True, **options)

    def start(self, database="soak"):
        self.server.start()
        self.server.up()
        self.conn = self.connect(database)
        self.restarted = True

    def restart(self):
        """Restarts the server under load, alternately in the modes fast and immediate."""
        self.conn.close()
        self.holder = None      # the restart ends its session
        self.server.stop(signal.SIGINT if len(self.days) // WEEK % 2 == 0 else signal.SIGQUIT)
        self.start()

    def reindex(self):
        """Reindexes under load. The tables without CONCURRENTLY are locked for a moment."""
        for table in ("jobs", "edges", "steps"):
            self.conn.execute(sql.SQL("REINDEX TABLE CONCURRENTLY jobq.{}").format(sql.Identifier(table)))
        self.conn.execute("REINDEX TABLE jobq.attempts")

    # ---- a day

    def live(self, load):
        """One day of the load. Returns its sample."""
        number = len(self.days)
        renewed = number % WEEK == 1
        began = time.monotonic()
        self.restarted = self.restarted or number == 0
        self.conn.execute("CHECKPOINT")
        place = self.wal()
        evicted = self.evictions()
        for phase, (name, _) in enumerate(shape.PHASES):
            load.begin_phase(number, phase)
            if name == "morning" and renewed:
                self.restart()
                evicted = {}
            elif name == "morning" and (self.holder is None or self.plant != "open_transaction"):
                self.holder = self.connect()
                self.holder.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
                self.holder.execute("SELECT pg_current_xact_id()")
            elif name == "afternoon" and self.holder is not None and self.plant != "open_transaction":
                self.holder.close()
                self.holder = None
            elif name == "quiet" and renewed:
                self.reindex()
            load.wait()
        self.drain(load)
        jobs = self.check_jobs()
        found = samples.of_server(self.conn)
        for name in [name for name in found if name.startswith("evictions")]:
            found[name] -= evicted.get(name, 0)
        found["wal: bytes per job"] = (self.wal() - place) / jobs
        found |= samples.of_times(load.times())
        found["day: seconds"] = time.monotonic() - began
        found["day: jobs"] = jobs
        restarted, self.restarted = self.restarted, False
        return {"restarted": restarted, "values": found, "processes": self.processes()}

    def wal(self):
        return float(self.conn.execute("SELECT pg_current_wal_insert_lsn() - '0/0'").fetchone()[0])

    def evictions(self):
        return {name: value for name, value in samples.of_server(self.conn).items() if name.startswith("evictions")}

    def drain(self, load):
        """Waits until all jobs have finished and have been deleted, however long that takes, unless nothing changes anymore."""
        seen, since = None, time.monotonic()
        kept = "status <= 'processing'" if self.plant == "unpruned" else "true"
        while True:
            load.check()
            load.take_numbers()
            left = self.conn.execute("SELECT count(*), sum(attempts) FROM jobq.jobs WHERE queue <> 'chores' AND " + kept).fetchone()
            if left[0] == 0:
                # Batches are kept for a real day, so they are made older.
                self.conn.execute("UPDATE jobq.batch_settings SET finished_at = finished_at - interval '1 day', _look_at = _look_at - interval '1 day'"
                                  " WHERE finished_at > now() - interval '1 day'")
                left = ("batches", self.conn.execute("SELECT count(*) FROM jobq.batch_settings").fetchone()[0])
                if left[1] == 0 or self.plant == "unpruned":
                    return
            if left != seen:
                seen, since = left, time.monotonic()
            elif time.monotonic() - since > PATIENCE:
                raise TimeoutError(f"jobs or batches are left: {left}, and nothing has changed for {PATIENCE} s")
            time.sleep(0.1)

    def check_jobs(self):
        """Checks the day's jobs with the law of the audit for effects: each job has exactly one. Returns their number."""
        expected = {job for job, in self.conn.execute("SELECT DISTINCT job FROM work WHERE job <> 0")}
        written = self.conn.execute("SELECT job, lease FROM effects").fetchall()
        jobs = expected | {job for job, _ in written}
        self.wrong += handled.judge([(job, "completed") for job in jobs], written, ())
        self.conn.execute("TRUNCATE work, effects")
        return len(jobs)

    def processes(self):
        """Returns {name: [pid, private bytes, bytes used in memory contexts]}."""
        found = samples.of_processes(self.conn, self.server.postmaster.pid)
        position = self.server.log_size()
        asked = [pid for pid, _ in found.values()
                 if self.conn.execute("SELECT pg_log_backend_memory_contexts(pid) FROM pg_stat_activity WHERE pid = %s", (pid,)).fetchone() == (True,)]
        used = {}

        def told():
            text = self.server.log_since(position)
            used.update({int(pid): int(size) for pid, size in re.findall(r"\[(\d+)\] .*Grand total: .* (\d+) used", text)})
            return all(pid in used or not os.path.exists(f"/proc/{pid}") for pid in asked)
        wait_for(told, "all processes have logged their memory contexts")
        return {name: [pid, size, used.get(pid)] for name, (pid, size) in found.items()}

    # ---- the run

    def run(self, minutes, least):
        """Repeats the day until the time is over and there are enough days."""
        self.begin()
        load = shape.Load(self.connect)
        end = time.monotonic() + 60 * minutes
        before = len(self.days)
        try:
            while time.monotonic() < end or len(self.days) - before < least:
                self.days.append(self.live(load))
                values = self.days[-1]["values"]
                self.results.note(f"day {len(self.days)}: {values['day: jobs']:.0f} jobs in {values['day: seconds']:.1f} s,"
                                  f" {values['wal: bytes per job']:.0f} bytes of WAL per job")
                with open(self.path + ".new", "w", encoding="utf-8") as file:
                    json.dump(self.days, file)
                os.rename(self.path + ".new", self.path)
        finally:
            load.stop()
            self.server.stop(signal.SIGINT)

    def judge(self, short):
        """Prints the checks. Returns the verdicts."""
        judged = verdicts.judge(self.days, short)
        if self.plant:
            found = [verdict.name for verdict in judged if not verdict.passed and verdict.slope is not None]
            wanted = PLANTS[self.plant]
            for verdict in judged:
                if not verdict.passed:
                    self.results.note(str(verdict))
            self.results.check([name for name in found if re.match(wanted, name)], f"found the planted leak {self.plant}", f"found only {found}")
        else:
            for group in samples.BOUNDS:
                of_group = [verdict for verdict in judged if verdict.name.startswith(group + ":")]
                found = "; ".join(str(verdict) for verdict in of_group if not verdict.passed)
                if of_group or not (short and group in samples.LONG_ONLY):
                    self.results.check(of_group and not found, f"{samples.MEANING[group]} without a trend: {len(of_group)} series", found)
        for text in self.wrong[:5]:
            self.results.note(text)
        self.results.equal(len(self.wrong), 0, "each job has run to its end once")
        self.results.check(not re.search(r"TRAP:|XX000|PANIC", self.server.log_since()), "no alarm in the log of the server")
        return judged


def soak(variant, directory, sockets, report, settings):
    run = Soak(variant, directory, sockets, settings["plant"])
    try:
        run.run(settings["minutes"], settings["least"])
        judged = run.judge(settings["short"])
        figures = {"variant": variant, "days": run.days, "verdicts": [vars(verdict) for verdict in judged]}
        with open(os.path.join(report, f"{variant}.json"), "w", encoding="utf-8") as file:
            json.dump(figures, file, indent=1)
        picture.draw(run.days, variant, os.path.join(report, f"{variant}.svg"))
    except Exception:
        run.results.check(False, "the run ended well")
        with open(run.server.log, encoding="utf-8", errors="replace") as log:
            print("".join(log.readlines()[-20:]), flush=True)
        raise
    finally:
        run.server.stop()
        with open(os.path.join(report, f"{variant}.counts"), "w", encoding="utf-8") as file:
            file.write(f"{run.results.passed} {run.results.failed}")


def main(directory, sockets, report):
    short = os.environ.get("SHORT", "") not in ("", "0")
    settings = {"short": short, "minutes": float(os.environ.get("MINUTES") or (3 if short else 45)), "plant": os.environ.get("PLANT") or None,
                "least": verdicts.WARM_UP + 7}
    if settings["plant"] and settings["plant"] not in PLANTS:
        sys.exit(f"PLANT must be one of {', '.join(PLANTS)}, not {settings['plant']}")
    chosen = (os.environ.get("VARIANT") or " ".join(VARIANTS)).split()
    for variant in chosen:
        if variant not in VARIANTS:
            sys.exit(f"VARIANT must be one of {', '.join(VARIANTS)}, not {variant}")
    runs = [shape.processes.Process(target=soak, args=(variant, directory, sockets, report, settings)) for variant in chosen]
    for run in runs:
        run.start()
    for run in runs:
        run.join()
    passed = failed = 0
    for variant in chosen:
        with open(os.path.join(report, f"{variant}.counts"), encoding="utf-8") as file:
            more = [int(number) for number in file.read().split()]
        passed, failed = passed + more[0], failed + more[1]
    print(f"{passed} passed, {failed} failed", flush=True)
    sys.exit(1 if failed or not passed else 0)


if __name__ == "__main__":
    main(*sys.argv[1:])
