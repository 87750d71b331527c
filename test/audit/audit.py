"""Runs the audit once: sets up a database, starts the clients, terminates sessions, and calls the checker.

As a script it is the main audit: JOBQ_AUDIT_JOBS jobs (default 100,000), 16 workers, all faults.
With JOBQ_AUDIT_EXPECT=caught it passes only if the checker finds that stale leases are accepted.
"""

import multiprocessing
import os
import random
import re
import sys
import tempfile
import time

import checker
import history
from client import Plan, Producer, Worker
from support import Results, connect, scratch_database

UNFINISHED = "SELECT count(*) FROM jobq.jobs WHERE queue = %s AND status <= 'processing'"


def set_up(conn, plan):
    conn.execute("CREATE TABLE effects (id bigint, lease bigint, key text, client text, number int)")
    # max_lost is high. By default, a job that loses its worker three times fails permanently, because it may be the
    # cause. Here workers are killed at random, and among so many jobs some lose their worker three times by chance.
    conn.execute(
        "SELECT jobq_create_queue(%s, max_attempts => 1000, max_lost => 1000, heartbeat_timeout => %s,"
        " backoff_base => '20 ms', backoff_max => '200 ms')",
        (plan.queue, plan.lease_timeout or f"{plan.timeout} s"))


def _produce(plan, number, pids):
    Producer(plan, f"p{number}", plan.workers + number, pids).run()


def _work(plan, slot, pids, claims, stop, deadline):
    Worker(plan, f"w{slot}", slot, pids, claims).run(stop, deadline)


def run(plan, prepare=None, helper=None):
    """Returns the checker's report, the history, and the final state. `prepare(conn)` may plant a defect; `helper(plan, stop)` runs during the load."""
    processes = multiprocessing.get_context("fork")
    pids = processes.Array("i", plan.workers + plan.producers, lock=False)
    claims = processes.Array("q", plan.workers, lock=False)
    stop = processes.Event()
    deadline = time.monotonic() + plan.seconds
    with connect(plan.database) as conn:
        set_up(conn, plan)
        if prepare:
            prepare(conn)
    producers = [processes.Process(target=_produce, args=(plan, number, pids)) for number in range(plan.producers)]
    workers = [processes.Process(target=_work, args=(plan, slot, pids, claims, stop, deadline))
               for slot in range(plan.workers)]
    helpers = [processes.Process(target=helper, args=(plan, stop))] if helper else []
    everybody = [*producers, *workers, *helpers]
    for process in everybody:
        process.start()
    try:
        with connect(plan.database) as conn:
            killed = _disturb(conn, plan, producers, pids, claims, deadline)
            stop.set()
            for process in everybody:
                process.join(max(1, deadline + 20 - time.monotonic()))
            crashed = [p.name for p in everybody if p.exitcode != 0]
            final = _final_state(conn, plan)
    finally:
        for process in everybody:
            if process.is_alive():
                process.kill()
    events = history.read([os.path.join(plan.directory, name) for name in os.listdir(plan.directory)])
    report = checker.check(events, final, plan.timeout)
    report.counts["sessions terminated"] = killed
    for name in crashed:
        report.add("error", f"client {name} did not end normally")
    return report, events, final


def _disturb(conn, plan, producers, pids, claims, deadline):
    """Terminates sessions at random until almost all jobs are done; returns when the queue is drained."""
    chance = random.Random(plan.seed)
    killed, faults, next_look = 0, True, 0.0
    while time.monotonic() < deadline:
        if faults and killed < sum(claims) * plan.kill_share:
            pid = pids[chance.randrange(len(pids))]
            if pid:
                rows = conn.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                                    " WHERE pid = %s AND application_name LIKE 'jobq audit %%'", (pid,)).fetchall()
                killed += sum(1 for row in rows if row[0])
        else:
            time.sleep(0.005)
        looked = time.monotonic()
        if looked >= next_look:
            unfinished = conn.execute(UNFINISHED, (plan.queue,)).fetchone()[0]
            if not any(producer.is_alive() for producer in producers):
                faults = unfinished > plan.jobs * 0.03
                if unfinished == 0:
                    break
            # Counting reads the whole table, so it is done rarely.
            next_look = time.monotonic() + max(0.3, 20 * (time.monotonic() - looked))
    return killed


def _final_state(conn, plan):
    return checker.Final(
        jobs=conn.execute("SELECT id, payload->>'k', status::text FROM jobq.jobs WHERE queue = %s",
                          (plan.queue,)).fetchall(),
        effects=[checker.Effect(*row) for row in
                 conn.execute("SELECT id, lease, key, client, number FROM effects").fetchall()],
        attempts=conn.execute("SELECT job_id, lease, outcome FROM jobq.attempts").fetchall())


def print_counts(results, counts):
    lines = (
        ("enqueued", "enqueues ok", "enqueues fail", "enqueues unknown"),
        ("claimed", "claims with jobs", "claims of one job", "claims of many jobs", "claims ok", "claims fail",
         "claims unknown"),
        ("completed", "completes ok", "completes fail", "completes unknown", "jobs completed", "effects"),
        ("attempts", "attempts failed", "attempts lost"),
        ("faults", "sessions terminated", "zombie completions refused", "zombie completions accepted",
         "late completions refused", "late completions accepted", "zombies fail"))
    for title, *names in lines:
        results.note(f"{title}: " + ", ".join(f"{name} {counts[name]}" for name in names))


def print_violations(results, report):
    for kind, entries in report.violations.items():
        for entry in entries[:5]:
            results.note(f"{kind}: {entry}")
        if len(entries) > 5:
            results.note(f"{kind}: {len(entries) - 5} more")


def print_stories(results, report, events, final):
    """Notes all that is known about the first jobs that violations name."""
    texts = [text for entries in report.violations.values() for text in entries]
    jobs = [int(number) for number in re.findall(r"\bjob (\d+)", "\n".join(texts))]
    for job in list(dict.fromkeys(jobs))[:3]:
        results.note(f"all about job {job}:")
        sent = {}
        for event in events:
            sent.setdefault((event.client, event.number), event.time)
            for item in event.items:
                if item.id == job:
                    results.note(f"  {event.time:.3f} (asked {sent[event.client, event.number]:.3f}) {event.client}"
                                 f" #{event.number} {event.op} {event.phase} lease {item.lease} {event.detail}")
        for effect in final.effects:
            if effect.id == job:
                results.note(f"  effect by {effect.client} #{effect.number} lease {effect.lease}")
        for about, lease, outcome in final.attempts:
            if about == job:
                results.note(f"  jobq.attempts: lease {lease} {outcome}")


def main_audit(results, jobs):
    started = time.monotonic()
    with scratch_database("audit") as database, tempfile.TemporaryDirectory() as directory:
        # The timeout of one second is short enough that jobs are rescued throughout the run.
        seed = int(os.environ.get("JOBQ_AUDIT_SEED", "0")) or random.SystemRandom().randrange(1, 10**6)
        results.note(f"{jobs} jobs, seed {seed}")
        plan = Plan(database, directory, jobs, timeout=1.0, seed=seed, seconds=max(300, jobs / 125))
        report, events, final = run(plan)
    print_counts(results, report.counts)
    print_violations(results, report)
    print_stories(results, report, events, final)
    results.note(f"{time.monotonic() - started:.1f} seconds")
    return report


def judge(results, report, jobs):
    counts = report.counts
    for kind, meaning in checker.KINDS.items():
        results.equal(len(report.violations[kind]), 0, f"no {meaning}")
    results.check(counts["enqueues ok"] >= jobs, f"acknowledged at least the {jobs} jobs planned",
                  str(counts["enqueues ok"]))
    results.check(counts["jobs completed"] >= jobs, "all of them completed", str(counts["jobs completed"]))
    # The run is meaningless if its faults did not happen.
    failed = counts["attempts failed"] / jobs
    results.check(0.03 < failed < 0.08 or jobs < 20000, "about 5 % of the jobs failed and were retried", f"{failed:.3f}")
    killed, wanted = counts["sessions terminated"], counts["claims with jobs"] * 0.02
    results.check(wanted * 0.7 - 2 <= killed <= wanted + 2, "about 2 % of the claims lost a session",
                  f"{killed} of {counts['claims with jobs']}")
    for name in ("attempts lost", "claims of one job", "claims of many jobs", "zombie completions refused",
                 "late completions refused", "late completions accepted", "enqueues fail", "claims fail"):
        if jobs >= 20000:  # a small run may lack some of them by chance
            results.check(counts[name] > 0, f"there were {name}")
    results.equal(counts["zombie completions accepted"], 0, "no completion by a zombie was accepted")


def expect_caught(results, report):
    for kind in ("stale lease accepted", "doubled effect"):
        results.check(report.violations[kind], f"caught: {checker.KINDS[kind]}")


if __name__ == "__main__":
    outcome = Results("audit")
    if os.environ.get("JOBQ_AUDIT_EXPECT") == "caught":
        total = int(os.environ.get("JOBQ_AUDIT_JOBS", "4000"))
        expect_caught(outcome, main_audit(outcome, total))
    elif os.environ.get("JOBQ_AUDIT_EXPECT"):
        sys.exit("JOBQ_AUDIT_EXPECT: only 'caught' is known")
    else:
        total = int(os.environ.get("JOBQ_AUDIT_JOBS", "100000"))
        judge(outcome, main_audit(outcome, total), total)
    outcome.finish()
