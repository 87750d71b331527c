"""Measures jobs per second of each program with a handler that does nothing (the kind `echo`), with one slot and with a hundred
slots, where claims are batches. Runs with synchronous_commit off and on, which cannot be compared with each other. The programs
take turns, each round starts with another program, and each figure is the median of the rounds."""

import json
import os
import signal
import statistics
import subprocess
import time

import psycopg

from places import becomes_true

SLOTS = (1, 100)
DURABILITY = ("off", "on")
WARM = 20   # number of jobs before the measurement begins
FILL = {1: 20_000, 100: 200_000}


def measure(place, user, program, slots, sync, seconds):
    """Returns the jobs claimed and completed per second while at least as many jobs as slots are waiting."""
    queue = f"speed {program.name} {slots}"
    with psycopg.connect(dbname="work", autocommit=True) as connection:
        connection.execute(f"ALTER ROLE {user} SET synchronous_commit = {sync}")
        connection.execute("SELECT jobq_create_queue(%s, keep_completed => '0')", (queue,))
        connection.execute("SELECT count(*) FROM jobq_enqueue_many(%s, array_fill('{}'::jsonb, ARRAY[%s]), kind => 'echo')", (queue, FILL[slots]))
        connection.execute("VACUUM ANALYZE jobq.jobs")
        variables = {**{name: value for name, value in os.environ.items() if not name.startswith(("PG", "JOBQ_"))},
                     "JOBQ_QUEUE": queue, "JOBQ_SLOTS": str(slots), "JOBQ_WAY": "direct", **place.environment(user, "work")}
        with subprocess.Popen(program.command, cwd=program.directory, env=variables, start_new_session=True,
                              stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.STDOUT) as process:
            try:
                becomes_true(lambda: done(connection, queue) >= WARM, f"{program.name} works")
                begun, first = time.monotonic(), done(connection, queue)
                deadline = begun + seconds
                # Stop before the queue runs out of jobs, because the last claims would be smaller.
                while time.monotonic() < deadline and done(connection, queue) < FILL[slots] * 0.9:
                    time.sleep(0.05)
                took, count = time.monotonic() - begun, done(connection, queue) - first
            finally:
                process.send_signal(signal.SIGTERM)
                try:
                    process.wait(60)
                except subprocess.TimeoutExpired:
                    process.kill()
        twice = connection.execute("SELECT count(*) FROM jobq.jobs WHERE queue = %s AND attempts > 1", (queue,)).fetchone()[0]
        connection.execute("SELECT jobq_drop_queue(%s, force => true)", (queue,))
        connection.execute("SELECT jobq_reset_metrics()")
    if twice:
        raise RuntimeError(f"{program.name}: {twice} jobs came twice")
    return count / took


def done(connection, queue):
    return connection.execute("SELECT coalesce(sum(value), 0)::bigint FROM jobq_metrics()"
                              " WHERE name = 'jobq_jobs_completed_total' AND labels @> %s", (json.dumps({"queue": queue}),)).fetchone()[0]


def speeds(place, user, programs, rounds, seconds):
    """Returns (program, slots, durability) -> jobs per second of each round."""
    found = {}
    for sync in DURABILITY:
        for number in range(rounds):
            turn = number % len(programs)
            for program in programs[turn:] + programs[:turn]:
                for slots in SLOTS[:1] if "slots" in program.lacks else SLOTS:
                    rate = measure(place, user, program, slots, sync, seconds)
                    found.setdefault((program.name, slots, sync), []).append(rate)
                    print(f"{program.name}, {slots} slots, synchronous_commit {sync}, round {number + 1}: {rate:,.0f}/s", flush=True)
    return found


def table(programs, found):
    columns = [(slots, sync) for sync in DURABILITY for slots in SLOTS]
    lines = ["| jobs per second | " + " | ".join(f"{slots} {'slot' if slots == 1 else 'slots'}, {sync}" for slots, sync in columns) + " |",
             "|---|" + "--:|" * len(columns)]
    for program in programs:
        rates = [found.get((program.name, *column)) for column in columns]
        lines.append(f"| {program.title} | " + " | ".join("-" if rate is None else f"{statistics.median(rate):,.0f}" for rate in rates) + " |")
    return "\n".join(lines) + "\n"
