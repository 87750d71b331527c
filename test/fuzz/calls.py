"""Calls every function with nasty values: the product of single ones first, then combinations, by four concurrent clients.

The calls are made as each role, in each kind of transaction, and on jobs in every state, while the background worker runs.
Afterwards rows, counters, indexes, duties, and the server's log must be correct. See README.md in this directory.

JOBQ_FUZZ_CALLS=n calls (10000), JOBQ_FUZZ_SEED=s repeats the choices, JOBQ_FUZZ_EXPECT=text passes only if the description
of a finding contains the text.
"""

import multiprocessing
import os
import queue
import random
import time
from collections import Counter

import psycopg

import canary
import catalogue
import invariants
import roles
import stock
import values
import verdict
from caller import BOUND, Caller, Plan
from everything import compare_counters
from server_log import ServerLog
from support import Results, connect, wait_until

processes = multiprocessing.get_context("fork")

CLIENTS = 4
CALLS = 10000
ROUNDS = 10     # maximum number of rounds to find a planted defect
STUCK = 3 * BOUND       # seconds without a new call after which a client counts as hanging
# A duty does not wait long for a lock and is retried, for example while round_robin locks all jobs of a queue. A schedule
# whose queue has got a max_depth from a client reports that the queue is full and is retried, too.
EXCUSED_DUTIES = ("canceling statement due to lock timeout", "deadlock detected", '" is full')
SHOWN = 20              # number of faults that are printed in full


class Quiet(Results):
    """For a library with a planted defect: a finding is not a failure."""

    def check(self, passed, label, detail=""):
        if not passed:
            self.note(f"found: {label}: {detail}"[:2000])
        return bool(passed)


def draw_plan(database, seed, calls):
    with connect(database) as conn:
        conn.execute("SET client_min_messages = error")
        functions = catalogue.functions(conn)
        values.SCALARS.update(values.enumerations(conn))
        types = sorted({argument.type for function in functions for argument in function.arguments})
        nasty = {name: values.accepted(conn, values.nasty(name)) for name in types}
        enqueue = max(functions, key=lambda function: function.name == "jobq_enqueue")
        specs = values.accepted(conn, nasty["jsonb"] + values.nasty_specs([argument.name for argument in enqueue.arguments]))
        granted = roles.may_call(conn, functions)
    # A trigger function has no arguments. It is called, too.
    product = [(function, argument, value) for function in functions for argument in function.arguments
               for value in (specs if argument.name == "specs" else nasty[argument.type])]
    random.Random(seed).shuffle(product)
    judge = verdict.Judge(verdict.documented() - verdict.SOMEBODYS)
    return Plan(database, seed, functions, nasty, specs, product[:calls], calls, granted, judge), len(product)


def _act(plan, number, shown, answers):
    answers.put((number, Caller(plan, number, CLIENTS, shown).run()))


def _supplier(database):
    conn = roles.connect_again(database)
    conn.execute(f"SET lock_timeout = '1 s'; SET statement_timeout = '{BOUND} s'; SET client_min_messages = error")
    return conn


def _supply(conn):
    """Creates jobs in every state; concurrent calls may interfere."""
    try:
        conn.execute(stock.replenish_statement())
    except (psycopg.errors.DeadlockDetected, psycopg.errors.LockNotAvailable, psycopg.errors.QueryCanceled):
        pass


def attack(results, plan):
    """Returns the reports of all clients."""
    answers = processes.Queue()
    shown = [processes.Array("c", 8001, lock=False) for _ in range(CLIENTS)]
    clients = [processes.Process(target=_act, args=(plan, number, shown[number], answers)) for number in range(CLIENTS)]
    for client in clients:
        client.start()
    reports = {}
    told = [(None, time.monotonic())] * CLIENTS
    supplier = None
    hung = []
    while len(reports) < CLIENTS:
        try:
            number, report = answers.get(timeout=0.4)
            reports[number] = report
            continue
        except queue.Empty:
            pass
        try:
            supplier = supplier or _supplier(plan.database)
            _supply(supplier)
        except psycopg.OperationalError:
            supplier = None
        for number, client in enumerate(clients):
            if shown[number].value != told[number][0]:
                told[number] = (shown[number].value, time.monotonic())
            hangs = time.monotonic() - told[number][1] > STUCK
            if number not in reports and (hangs or not client.is_alive() and answers.empty()):
                hung.append(shown[number].value.decode(errors="replace"))
                client.kill()
                reports[number] = None
    for client in clients:
        client.join()
    results.check(not hung, "no call hangs and no client dies", hung)
    return [report for report in reports.values() if report is not None]


def _shares(plan, answers, refused):
    """Returns the outcomes of the calls of each function, one line each."""
    lines = []
    for function in plan.functions:
        own = Counter({sqlstate: count for (name, sqlstate), count in answers.items() if name == function.name})
        total = sum(own.values())
        errors = ", ".join(f"{sqlstate} {count}" for sqlstate, count in own.most_common() if sqlstate)
        share = f"{100 * own[''] / total:3.0f} %" if total else "  -  "
        lines.append(f"{function.name:28} {total:6} calls, {share} succeeded; not granted {refused[function.name]}; {errors}")
    return sorted(set(lines))


def report_calls(results, plan, reports, seconds):
    answers, refused, kinds, times, faults = Counter(), Counter(), Counter(), Counter(), {}
    for report in reports:
        answers += report.answers
        refused += report.refused
        kinds += report.kinds
        times += report.seconds
        for wrong, (count, text) in report.faults.items():
            found = faults.setdefault(wrong, [0, text])
            found[0] += count
    total = sum(kinds.values())
    for line in _shares(plan, answers, refused):
        results.note(line)
    results.note(f"{total} calls in {seconds:.0f} s; by transaction: " + ", ".join(f"{kind} {n}" for kind, n in kinds.most_common()))
    results.note("most time: " + ", ".join(f"{name} {spent:.1f} s" for name, spent in times.most_common(8)))
    for number, (wrong, (count, text)) in enumerate(sorted(faults.items(), key=lambda fault: -fault[1][0])):
        if number < SHOWN:
            results.note(f"{count} times {wrong}")
            results.note(f"    {text[:4000]}")
    results.check(not faults, f"every answer of {total} calls is permitted", f"{len(faults)} kinds of others")
    results.check(total >= plan.calls or faults, "all calls were made", f"{total} of {plan.calls}")
    # If the product was cut short, some functions may not have been called often enough.
    if plan.calls >= 5000:
        useless = verdict.useless(plan.functions, answers, refused)
        results.check(not useless, "every function succeeds sometimes and fails sometimes", useless)
    return list(faults)


def afterwards(results, conn, log):
    found = []
    invariants.check(results, conn)
    found += [f"invariant: {name}" for name in invariants.broken(conn)]
    # The counters are compared first, because the other checks would correct wrong ones. Then every kind of end.
    wrong = []
    wait_until(lambda: not conn.execute("SELECT count(*) FROM jobq.queue_stats WHERE source <> 'counters'").fetchone()[0],
               invariants.MOMENT, pause=0.3)
    conn.execute(stock.replenish_statement())
    # The counters show the current state, and the rows that of a snapshot. Schedules that fire every second would make them differ.
    conn.execute("SELECT jobq_unschedule(name) FROM jobq.schedules")
    compare_counters(conn, wrong, "after the calls")
    results.check(not wrong, "the counters agree with the rows", wrong)
    found += [f"counters: {text}" for text in wrong]
    invariants.check_storage(results, conn)
    # The prune examines a thousand jobs a second. Its backlog is deleted so that it reaches its canary soon.
    conn.execute("DELETE FROM jobq.jobs WHERE status > 'processing'")
    for by_hand in (False, True):
        birds = canary.Canaries(conn).release()
        missing = birds.wait(by_hand)
        results.check(not missing, f"all duties are done, {'by jobq_tick()' if by_hand else 'by the background worker'}", missing)
        results.check(missing or birds.claimable(), "jobs that they made claimable can be claimed")
        found += [f"duty: {duty}" for duty in missing]
    errors = [error for (error,) in conn.execute(
        "SELECT last_error FROM jobq.background_workers WHERE last_error IS NOT NULL AND database = current_database()")
        if not any(excuse in error for excuse in EXCUSED_DUTIES)]
    results.check(not errors, "no background worker reports an error", errors)
    lines = log.faults(excused=EXCUSED_DUTIES)
    results.check(not lines, "the server's log has no error", lines[:5])
    found += [f"log: {line}" for line in lines] + [f"worker: {error}" for error in errors]
    return found


def main():
    results = Results("fuzz")
    seed = os.environ.get("JOBQ_FUZZ_SEED") or str(random.SystemRandom().randrange(10**6))
    calls = int(os.environ.get("JOBQ_FUZZ_CALLS") or CALLS)
    expected = os.environ.get("JOBQ_FUZZ_EXPECT")
    results.note(f"seed {seed}")
    log = ServerLog()
    with roles.database("fuzz", (stock.GRANTEE,)) as name:
        with connect(name) as conn:
            stock.set_up(conn)
        judged = Quiet("caught") if expected else results
        # One round may not find the planted defect.
        for number in range(ROUNDS if expected else 1):
            plan, whole = draw_plan(name, seed + number * "+", calls)
            results.note(f"{len(plan.functions)} functions; single nasty values: {len(plan.product)} of {whole} calls")
            began = time.monotonic()
            reports = attack(judged, plan)
            found = report_calls(judged, plan, reports, time.monotonic() - began)
            for line in log.culprits():
                judged.note(line)
            if expected and any(expected in text for text in found):
                break
            with roles.connect_again(name) as conn:
                conn.execute("SET timezone = 'UTC'")
                found += afterwards(judged, conn, log)
            if expected and any(expected in text for text in found):
                break
    if expected:
        results.check(any(expected in text for text in found), f"finds the planted defect: {expected}", found[:5])
    results.note(f"JOBQ_FUZZ_SEED={seed} repeats it")
    results.finish()


if __name__ == "__main__":
    main()
