"""Runs the orders of examples/ in Python and Node and kills workers with -9 between any two statements: each effect happens once.

JOBQ_ORDER_KILLS (25) is the number of workers of each language that are killed. Half of the orders are delivered, and the wait of the
others times out.
"""

import os
import pathlib
import random
import signal
import subprocess
import sys
import time

import psycopg

ROOT = pathlib.Path(__file__).resolve().parents[2]
KILLS = int(os.environ.get("JOBQ_ORDER_KILLS", "25"))
MOST_STATEMENTS = 14    # between a claim and the end of the job
PATIENCE = "300 ms"
chance = random.Random(int(os.environ.get("JOBQ_ORDER_SEED", "1")))
conn = psycopg.connect(autocommit=True)
failed = 0

# Kills the process before its n-th statement from the first claim on that finds a job.
PYTHON = """
import os, sys
sys.path.insert(0, {examples!r})
import psycopg
import order
left = int(sys.argv[1])
def dying(method):
    def call(self, query, *args, **kwargs):
        global left
        left -= 1
        if left < 0:
            os.kill(os.getpid(), 9)
        return method(self, query, *args, **kwargs)
    return call
conn = psycopg.connect(autocommit=True)
while not order.serve_one(conn, "python orders", {patience!r}):
    pass
psycopg.Cursor.execute = dying(psycopg.Cursor.execute)
while True:
    order.serve_one(conn, "python orders", {patience!r})
"""
NODE = """
import {{ createRequire }} from 'node:module';
import {{ serveOne }} from {order!r};
const pg = createRequire({order!r})('pg');
let left = Number(process.argv[1]);
const client = new pg.Client();
await client.connect();
while (!(await serveOne(client, 'node orders', {patience!r})));
const query = client.query.bind(client);
client.query = (...args) => {{
  if (--left < 0) process.kill(process.pid, 'SIGKILL');
  return query(...args);
}};
for (;;) await serveOne(client, 'node orders', {patience!r});
"""


def check(got, wanted, label):
    global failed
    failed += got != wanted
    print(f"{'ok' if got == wanted else 'not ok'} - orders: {label}" + ("" if got == wanted else f": {got!r}, not {wanted!r}"))


def value(text, *values):
    return conn.execute(text, values).fetchone()[0]


def keep_busy(queue, first):
    """Enqueues enough orders for the next worker to be killed and sends signals for half of the waiting orders."""
    number = first
    while value("SELECT count(*) FROM jobq.jobs WHERE queue = %s AND status < 'processing'", queue) < 5:
        conn.execute("SELECT jobq_enqueue(%s, jsonb_build_object('order', %s::bigint, 'cents', 1299), run_at => '0044-03-15 BC')", (queue, number))
        number += 1
    conn.execute("""SELECT jobq_signal_job(j.id, 'delivered') FROM jobq.jobs j
                    WHERE j.queue = %s AND j.status = 'blocked' AND (j.payload->>'order')::bigint %% 2 = 0""", (queue,))
    return number


def kill_many(language, command):
    queue = f"{language} orders"
    conn.execute("SELECT jobq_create_queue(%s, heartbeat_timeout => '200 ms', max_lost => 1000000, max_attempts => 1000000, backoff_base => '0')",
                 (queue,))
    number, killed = 1, 0
    while killed < KILLS:
        number = keep_busy(queue, number)
        worker = subprocess.Popen([*command, str(chance.randrange(MOST_STATEMENTS))], stdout=subprocess.DEVNULL, cwd=ROOT / "examples")
        give_up = time.monotonic() + 60
        while worker.poll() is None and time.monotonic() < give_up:
            number = keep_busy(queue, number)
            time.sleep(0.02)
        if worker.poll() is None:
            worker.kill()
        if worker.wait() != -signal.SIGKILL:
            break
        killed += 1
    check(killed, KILLS, f"{language}: workers were killed")
    return number - 1


def finish(language, command, orders):
    """Completes the remaining orders. No worker is killed anymore, and an invalid order does not end its worker either."""
    queue = f"{language} orders"
    bad = value("SELECT jobq_enqueue(%s, 'null', max_attempts => 1, priority => -1)", queue)
    worker = subprocess.Popen([*command, "1000000000"], stdout=subprocess.DEVNULL, cwd=ROOT / "examples")
    give_up = time.monotonic() + 120
    left = "SELECT count(*) FROM jobq.jobs WHERE queue = %s AND status <= 'processing'"
    while value(left, queue) > 0 and worker.poll() is None and time.monotonic() < give_up:
        conn.execute("""SELECT jobq_signal_job(j.id, 'delivered') FROM jobq.jobs j
                        WHERE j.queue = %s AND j.status = 'blocked' AND (j.payload->>'order')::bigint %% 2 = 0""", (queue,))
        time.sleep(0.02)
    worker.kill()
    worker.wait()
    check(value("SELECT string_agg(DISTINCT status::text, ' ') FROM jobq.jobs WHERE queue = %s AND id <> %s", queue, bad), "completed", f"{language}: all orders are done")
    check(value("SELECT status::text FROM jobq_get(%s)", bad), "failed", f"{language}: an invalid order fails, and its worker continues")
    lost = value("SELECT count(*) FROM jobq.attempts a JOIN jobq.jobs j ON j.id = a.job_id WHERE j.queue = %s AND a.outcome = 'lost'", queue)
    check(lost > KILLS / 3, True, f"{language}: {orders} orders; {lost} attempts lost their workers")


def judge(language):
    """The laws: each order is charged and shipped once, and refunded once if it was not delivered, and only then."""
    rows = conn.execute("""
        SELECT (j.payload->>'order')::bigint, (j.result->>'delivered')::boolean,
               (SELECT count(*) FROM charges c WHERE c.order_id = (j.payload->>'order')::bigint),
               (SELECT count(*) FROM shipments s WHERE s.order_id = (j.payload->>'order')::bigint),
               (SELECT count(*) FROM refunds r WHERE r.order_id = (j.payload->>'order')::bigint)
        FROM jobq.jobs j WHERE j.queue = %s AND j.status = 'completed'""", (f"{language} orders",)).fetchall()
    wrong = [row for row in rows if row[2:] != (1, 1, 0 if row[1] else 1)]
    check(wrong, [], f"{language}: each order was charged and shipped once, and refunded once if it was not delivered")
    check(len({row[1] for row in rows}), 2, f"{language}: some orders were delivered, and the waits of some timed out")
    check(value("SELECT count(*) FROM (SELECT order_id FROM charges UNION SELECT order_id FROM shipments UNION SELECT order_id FROM refunds) e"), len(rows),
          f"{language}: no effect belongs to another order")


def main():
    examples = str(ROOT / "examples")
    commands = {"python": [sys.executable, "-B", "-c", PYTHON.format(examples=examples, patience=PATIENCE)],
                "node": ["node", "--input-type=module", "-e", NODE.format(order=f"{examples}/order.mjs", patience=PATIENCE), "--"]}
    for language, command in commands.items():
        conn.execute("DROP TABLE IF EXISTS charges, shipments, refunds")
        conn.execute("CREATE TABLE charges (order_id bigint, cents int); CREATE TABLE shipments (order_id bigint);"
                     "CREATE TABLE refunds (order_id bigint, cents int)")
        orders = kill_many(language, command)
        finish(language, command, orders)
        judge(language)
    sys.exit(failed > 0)


main()
