"""All features together: rounds of 60 seconds in which clients, operators, and the server do everything that they may do, at random.

Eight producers, eight workers, two operators, and a client that calls jobq_tick() use every feature in one set of queues, and
handlers run one of the kinds, while sessions, the background worker, and executors are terminated. Then all of them stop, the
counters must agree with the rows, and plain workers must be able to finish all remaining jobs. laws.py judges what happened, based
on the server's log. `jobq audit` runs at the same time and must come to the same result, without the records of the clients.

JOBQ_AUDIT_SEED=n repeats the random choices (but not their timing), and JOBQ_AUDIT_SECONDS=n changes the duration of a round. Rounds
are repeated until everything that jobq must survive has happened, because on a busy machine little happens in one round. With
JOBQ_AUDIT_EXPECT=law, for a library with a planted defect, it passes only if that law is broken in one of them. Needs wal_level =
logical.
"""

import multiprocessing
import os
import random
import re
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field

import psycopg

import auditor
import history
import laws
import statuses
import totals
import witness
from everybody import Operator, Ticker, Worker
from producers import HANDLED, Producer
from support import Results, connect, scratch_database, scratch_role, wait_until

from jobq.audit.laws import LAWS

processes = multiprocessing.get_context("fork")

PRODUCERS, WORKERS, OPERATORS = 8, 8, 2
SECONDS = 60
LAG = 5             # a stall of the machine may delay a job by this factor
ROUNDS = 8          # at most
TERMINATED = 50     # sessions, at least
DRAIN = 40          # seconds in which plain workers must finish what is left
MOMENT = 20         # how long the background worker may take to settle on a busy machine
BATCH = 12          # maximum batch size of producers
BACKLOG = 40        # target backlog of a queue
GRACE = 0.7         # seconds for which a canceled job may keep running

# The settings of the queues. All queues get jobs of all kinds, with keys, groups, dependencies, and times.
COMMON = "max_attempts => 1000, max_lost => 1000, heartbeat_timeout => '1 s', backoff_base => '20 ms', backoff_max => '200 ms'"
QUEUES = {
    "mixed": COMMON + ", limits => '{shared}'",
    "plain": COMMON + ", keep_completed => '0'",
    "limited": COMMON + ", limits => '{shared}'",
    "keyed": COMMON,
    "rejecting": COMMON + ", max_depth => 15",
    "dropping": COMMON + ", max_depth => 12, on_full => 'drop_oldest'",
    "dying": COMMON.replace("1000", "3") + ", dead_letter_queue => 'dead'",
    "hasty": COMMON + ", max_runtime => '400 ms'",
    "rated": COMMON,
    "aging": COMMON + ", priority_ageing => '200 ms'",
    "fair": COMMON + ", round_robin => true",
    "halting": COMMON.replace("1000", "1") + ", group_on_failure => 'halt', dead_letter_queue => 'dead'",
}
HALTING = ("halting",)
DEPTHS = {"rejecting": 15, "dropping": 12}
RATE = 30           # claims a second from queue "rated"
# A handler writes its effect and returns, fails, ends the job itself, or runs so long that it is cancelled.
HANDLER = """
CREATE FUNCTION handle(job jsonb) RETURNS jsonb LANGUAGE plpgsql AS $$
DECLARE
    id bigint := (job->>'id')::bigint;
    lease bigint := (job->>'lease')::bigint;
    fate float := random();
    op text := CASE WHEN fate < 0.05 THEN 'snooze' WHEN fate < 0.1 THEN 'release' ELSE 'effect' END;
BEGIN
    INSERT INTO facts (client, number, op, job, lease) VALUES ('executor ' || pg_backend_pid(), mod(pg_current_xact_id()::text::bigint, 1000000000), op, id, lease);
    PERFORM pg_sleep(random() * CASE WHEN fate > 0.9 THEN 1.0 WHEN fate > 0.5 THEN 0.02 ELSE 0 END);
    CASE
        WHEN fate < 0.05 THEN PERFORM jobq_snooze(id, lease, '50 ms');
        WHEN fate < 0.1 THEN PERFORM jobq_release(id, lease);
        WHEN fate < 0.25 THEN RAISE 'at random';
        WHEN fate < 0.35 THEN PERFORM jobq_complete(id, lease);
        ELSE NULL;
    END CASE;
    RETURN NULL;
END $$;
"""
# queue, concurrency key, largest max_running, kind
LIMITS = (("limited", None, 4, None), ("keyed", "*", 3, None), ("keyed", "c1", 2, None), ("mixed", "c2", 2, None),
          ("limited", None, 2, "a"), ("keyed", None, 4, "*"))
# name, queues that share the limit, largest max_running
NAMED_LIMITS = (("shared", ["limited", "mixed"], 5),)


@dataclass(frozen=True)
class Plan:
    database: str
    directory: str
    seed: int
    until: float                    # end of the load, by time.monotonic()
    drain: object                   # events: plain workers may begin,
    drained: object                 # and may end
    queues: tuple = tuple(QUEUES)
    crowded: tuple = ("limited", "keyed", *HALTING)    # queues that more clients use than others
    halting: tuple = HALTING        # queues in which most jobs have groups
    bounded: tuple = tuple(DEPTHS)
    limits: tuple = LIMITS
    named_limits: tuple = NAMED_LIMITS
    batch: int = BATCH
    backlog: int = BACKLOG
    producer_pause: float = 0.06
    replaced: dict = field(default_factory=dict)


def set_up(conn, runner):
    conn.execute("SELECT set_config('timezone', 'UTC', false)")
    witness.watch(conn)
    conn.execute(HANDLER)
    conn.execute("SELECT jobq_grant(%s, 'worker')", (runner,))
    conn.execute(f"GRANT INSERT ON facts TO {runner}")
    for name, options in QUEUES.items():
        conn.execute(f"SELECT jobq_create_queue('{name}', {options})")
        conn.execute("SELECT jobq_set_handler(%s, %s, 'handle(jsonb)', %s::regrole)", (name, HANDLED, runner))
    for number, (queue, key, most, kind) in enumerate(LIMITS):
        with conn.transaction():
            conn.execute("SELECT jobq_set_limit(%s, %s, kind => %s, max_running => %s)", (queue, key, kind, most))
            conn.execute("INSERT INTO facts (client, number, op) VALUES ('setup', %s, 'limit')", (number,))
    for number, (name, queues, most) in enumerate(NAMED_LIMITS, len(LIMITS)):
        with conn.transaction():
            conn.execute("SELECT jobq_set_named_limit(%s, %s, max_running => %s)", (name, queues, most))
            conn.execute("INSERT INTO facts (client, number, op) VALUES ('setup', %s, 'limit')", (number,))
    conn.execute("INSERT INTO facts (client, number, op) VALUES ('setup', %s, 'answered')", (len(LIMITS) + len(NAMED_LIMITS),))
    conn.execute("SELECT jobq_set_limit('rated', rate => %s, per => '1 s')", (RATE,))


def rules(sessions_lost, executors_lost, standstill):
    return laws.Rules(
        busy=laws.Rules.busy + LAG * standstill,
        dead_letters={"dying": "dead", "halting": "dead"}, halting=HALTING, depths=DEPTHS, ageing={"aging": 0.2}, in_turn=("fair",), max_runtimes={"hasty": 0.4},
        cancel_grace=GRACE, rates={"rated": (RATE, 1.0)}, sessions_lost=sessions_lost,
        executors_lost=executors_lost)


# Counters and ages

# Ages as numbers, because the client cannot represent every time at which a job can be due.
AGE = "extract(epoch FROM {})::float8"
COUNTED = ("SELECT queue, " + ", ".join(f"count(*) FILTER (WHERE status = '{status}')" for status in statuses.ALL)
           + ", " + AGE.format("clock_timestamp() - min(run_at) FILTER (WHERE status = 'pending')")
           + " FROM jobq.jobs GROUP BY queue")
SHOWN = "SELECT queue, " + ", ".join(statuses.ALL) + ", " + AGE.format("oldest_pending_age") + ", source FROM jobq.queue_stats"


def within_reason(age):
    """Limits ages that only a row written without triggers can have to a range of centuries."""
    return min(max(age, -1e10), 1e10)


def disagreement(conn):
    """The differences between jobq.queue_stats and the rows, as text; empty if there are none."""
    counted = {row[0]: row[1:] for row in conn.execute(COUNTED)}
    found = []
    for queue, *shown, oldest, source in conn.execute(SHOWN):
        wanted = counted.pop(queue, (0,) * len(statuses.ALL) + (None,))
        if source != "counters":
            found.append(f"{queue}: no counters but {source}")
        if tuple(shown) != tuple(wanted[:-1]):
            found.append(f"{queue}: {dict(zip(statuses.ALL, zip(shown, wanted)))}")
        if (oldest is None) != (wanted[-1] is None) or (oldest and abs(within_reason(oldest) - within_reason(wanted[-1])) > 1):
            found.append(f"{queue}: the oldest has been pending for {oldest} s, by the rows {wanted[-1]} s")
    found += [f"{queue}: not in jobq.queue_stats" for queue in counted]
    return "; ".join(found)


def compare_counters(conn, report, when):
    """While only the background worker runs, they must agree, and a recount must correct nothing."""
    if not wait_until(lambda: not disagreement(conn), MOMENT, pause=0.2):
        report.append(f"{when}: {disagreement(conn)}")
    corrected = dict(conn.execute("SELECT duty, done FROM jobq_tick()").fetchall())["reconcile"]
    if corrected:
        report.append(f"{when}: the count put {corrected} queues right")
    if not wait_until(lambda: not disagreement(conn), MOMENT, pause=0.2):
        report.append(f"{when}, after the count: {disagreement(conn)}")


# The run

def _act(kind, plan, name, slot, pids, stop, deadline):
    kind(plan, name, slot, pids).run(stop, deadline)


def forget_prepared(conn, older_than):
    """Rolls back old prepared transactions. None is committed, because the next transaction of its client must see the effect."""
    for (gid,) in conn.execute("SELECT gid FROM pg_prepared_xacts WHERE database = current_database()"
                               " AND prepared < clock_timestamp() - %s * interval '1 s'", (older_than,)).fetchall():
        try:
            conn.execute(f"ROLLBACK PREPARED '{gid}'")
        except (psycopg.errors.UndefinedObject, psycopg.errors.ObjectNotInPrerequisiteState):
            pass    # it has ended in the meantime or is just ending


def terminate(conn, condition, *parameters):
    return conn.execute(f"SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE {condition}", parameters).fetchone()[0]


def load(conn, plan, pids, chance):
    """Terminates sessions, and sometimes the background worker or the executors, until the load ends. Returns how many, and the
    longest time for which the machine has stalled."""
    killed = Counter()
    standstill = 0.0
    next_worker = next_executor = time.monotonic() + 5
    while time.monotonic() < plan.until:
        pause = chance.uniform(0.05, 0.35)
        began = time.monotonic()
        time.sleep(pause)
        forget_prepared(conn, 1)
        standstill = max(standstill, time.monotonic() - began - pause)
        pid = pids[chance.randrange(len(pids))]
        if pid:
            killed["sessions"] += terminate(conn, "pid = %s AND application_name LIKE 'jobq audit %%'", pid)
        if time.monotonic() > next_worker:
            next_worker = time.monotonic() + chance.uniform(3, 8)
            killed["background workers"] += terminate(
                conn, "datname = current_database() AND backend_type LIKE 'jobq%%' AND backend_type <> 'jobq executor'")
        if time.monotonic() > next_executor:
            next_executor = time.monotonic() + chance.uniform(1, 4)
            killed["executors"] += terminate(conn, "datname = current_database() AND backend_type = 'jobq executor'")
    return killed, standstill


def end_halts(conn):
    """Skips the failed heads of all halted groups, because plain workers cannot finish the jobs that wait for them."""
    for number, (job,) in enumerate(conn.execute("SELECT job_id FROM jobq.halted_groups").fetchall()):
        with conn.transaction():
            conn.execute("SELECT jobq_skip(%s)", (job,))
            conn.execute("INSERT INTO facts (client, number, op, job) VALUES ('drain', %s, 'skip', %s)", (number, job))


def unfinished(conn):
    """The number of jobs that have not ended, and of sealed batches whose callbacks have not been enqueued."""
    return conn.execute("SELECT (SELECT count(*) FROM jobq.jobs WHERE status <= 'processing')"
                        " + (SELECT count(*) FROM jobq.batch_settings WHERE sealed_at IS NOT NULL AND finished_at IS NULL)").fetchone()[0]


def run(results, database, runner, directory, seed, load_seconds):
    """Returns the report, the changes that were judged, and what `jobq audit` has found."""
    chance = random.Random(seed)
    with connect(database) as conn:
        conn.execute(f"ALTER DATABASE {database} SET jobq.cancel_grace = '{GRACE} s'")
        set_up(conn, runner)
    everybody = ([(Producer, f"p{n}") for n in range(PRODUCERS)] + [(Worker, f"w{n}") for n in range(WORKERS)]
                 + [(Operator, f"o{n}") for n in range(OPERATORS)] + [(Ticker, "t0")])
    pids = processes.Array("i", len(everybody), lock=False)
    stop = processes.Event()
    until = time.monotonic() + load_seconds
    plan = Plan(database, directory, seed, until, processes.Event(), processes.Event())
    deadline = until + 3 * MOMENT + DRAIN
    clients = [processes.Process(target=_act, args=(kind, plan, name, slot, pids, stop, deadline), name=name)
               for slot, (kind, name) in enumerate(everybody)]
    counters = []
    with auditor.beside(database) as audit, connect(database) as conn:
        conn.execute("SET timezone = 'UTC'")
        for client in clients:
            client.start()
        try:
            killed, standstill = load(conn, plan, pids, chance)
            stop.set()
            for client, (kind, _) in zip(clients, everybody):
                if kind is not Worker:
                    client.join(2 * MOMENT)
            forget_prepared(conn, 0)
            left = unfinished(conn)
            compare_counters(conn, counters, "after the load")
            plan.drain.set()
            drained = time.monotonic()
            wait_until(lambda: end_halts(conn) or unfinished(conn) == 0, DRAIN, pause=0.2)
            drained = time.monotonic() - drained
            plan.drained.set()
            for client in clients:
                client.join(MOMENT)
            crashed = [client.name for client in clients if client.exitcode != 0]
        finally:
            for client in clients:
                if client.is_alive():
                    client.kill()
        compare_counters(conn, counters, "in the end")
        began = time.monotonic()
        # Both show the same moment, although the worker may prune: a commit publishes its changes before it releases its locks.
        by_sql = conn.execute("SHOW jobq.access").fetchone()[0] == "sql"
        with conn.transaction():
            conn.execute("LOCK TABLE jobq.jobs IN SHARE MODE")
            told = totals.told(conn)
            changes = witness.changes(conn)
        witness.forget(conn)
    events = history.read([os.path.join(directory, name) for name in os.listdir(directory)])
    errors = [f"{event.client} {event.op}: {event.detail}" for event in events if event.phase == "error"]
    errors += [f"client {name} did not end normally" for name in crashed]
    report = laws.check(changes, rules(killed["sessions"], killed["executors"], standstill), errors, told)
    for text in counters:
        report.add("counters", text)
    report.counts.update({f"{kind} terminated": count for kind, count in killed.items()})
    report.counts["rounds by SQL"] = int(by_sql)
    results.note(f"{len(changes)} changes on record, judged in {time.monotonic() - began:.1f} s; longest standstill {standstill:.1f} s;"
                 f" {left} jobs were left after the load and finished in {drained:.1f} s")
    report.counts.update(f"{event.op} {event.detail}" for event in events if event.phase == "fail" and event.op != "session")
    results.note(f"jobq audit, status {audit.status}: {audit.said.strip()}")
    return report, changes, audit


def story(results, report, changes):
    """All versions of the first jobs that violations name."""
    texts = [text for entries in report.violations.values() for text in entries[:2]]
    jobs = [int(number) for number in re.findall(r"\bjob (\d+)", "\n".join(texts))]
    for job in list(dict.fromkeys(jobs))[:3]:
        results.note(f"all about job {job}:")
        for change in changes:
            row = change.row
            if job in (getattr(row, "id", None), getattr(row, "job", None), getattr(row, "job_id", None)):
                known = {name: value for name, value in row._asdict().items() if value not in (None, "", 0)}
                results.note(f"  {change.place[0]:X} commit {change.commit[0]:X} {change.time:.3f} xid {change.xid}"
                             f" {'deleted' if change.deleted else ''} {type(row).__name__} {known}")


# The run is meaningful only if all of this has happened.
HAPPENED = (
    "groups halted", "skip", "attempts failed", "attempts lost", "attempts released", "attempts snoozed", "cancelled while they ran", "refused",
    "heartbeat", "met", "cancel", "retry", "reschedule", "delete", "redrive", "pause", "limit", "kind", "claims under a setting of their kind", "change", "dead letters",
    "dropped for others", "expired", "batch complete", "batch success", "batch failure", "jobs in groups", "heads made by the server", "let go after their dependencies", "cancelled with a dependency",
    "claims at a rate in rated", "claims that ageing decided", "claims while another key waited",
    "background workers terminated", "executors terminated", "completed by handlers", "handlers that did not complete")


# With jobq.access = sql, commits do not make heads.
BY_COMMITS = "heads made by the end of the one before"


# Defects that the planted defects show only to the clients: a claim returns a lease that no row contains.
UNSEEN = ("unexplained lease",)


def missing(happened):
    """What has not happened in any round."""
    return ([name for name in (*HAPPENED, BY_COMMITS) if not happened[name] and not (name == BY_COMMITS and happened["rounds by SQL"])]
            + ([] if any("53400" in answer for answer in happened) else ["a full queue"])
            + ([] if happened["sessions terminated"] > TERMINATED else ["enough terminated sessions"]))


def judge(results, report, happened, audit):
    for kind, meaning in laws.KINDS.items():
        results.equal(len(report.violations[kind]), 0, f"no {meaning}")
    results.equal(missing(happened), [], "everything that jobq must survive has happened")
    results.equal((audit.status, audit.reports[:3]), (0, []), "jobq audit, which ran at the same time, has found nothing")


def play(results, seed, length):
    results.note(f"seed {seed}, {length:g} seconds")
    with scratch_role("everything") as runner, scratch_database("everything") as database, tempfile.TemporaryDirectory() as directory:
        try:
            return run(results, database, runner, directory, seed, length)
        finally:
            with connect(database) as conn:
                witness.forget(conn)


def main():
    results = Results("everything")
    expected = os.environ.get("JOBQ_AUDIT_EXPECT")
    if expected and expected not in laws.KINDS:
        sys.exit(f"JOBQ_AUDIT_EXPECT: the laws are {', '.join(laws.KINDS)}")
    seed = int(os.environ.get("JOBQ_AUDIT_SEED") or random.SystemRandom().randrange(1, 10**6))
    length = float(os.environ.get("JOBQ_AUDIT_SECONDS") or SECONDS)
    started = time.monotonic()
    happened = Counter()
    for number in range(ROUNDS):
        report, changes, audit = play(results, seed + number, length)
        results.note(f"counts: {dict(sorted(report.counts.items()))}")
        happened.update(report.counts)
        if report.violations[expected] and (audit.found[expected] or expected not in LAWS or expected in UNSEEN) if expected else any(report.violations.values()) or not missing(happened):
            break
    for kind, entries in report.violations.items():
        for entry in entries[:5]:
            results.note(f"{kind}: {entry}")
        if len(entries) > 5:
            results.note(f"{kind}: {len(entries) - 5} more")
    story(results, report, changes)
    if expected:
        results.check(report.violations[expected], f"caught: {laws.KINDS[expected]} ({len(report.violations[expected])})")
        if expected in LAWS and expected not in UNSEEN:
            results.check(audit.status == 1 and audit.found[expected], f"jobq audit has reported it, too ({audit.found[expected]})", audit.said)
    else:
        judge(results, report, happened, audit)
    results.note(f"{time.monotonic() - started:.1f} seconds")
    results.finish()


if __name__ == "__main__":
    main()
