#!/usr/bin/env python3
"""An order as a job of several steps: charge, ship, wait for the carrier, and refund if the carrier does not deliver in time.

    python3 order.py [QUEUE]          connects with PGHOST, PGPORT, PGUSER, and PGDATABASE, as psql does

Needs psycopg 3. Its tables:

    CREATE TABLE charges (order_id bigint NOT NULL, cents int NOT NULL);
    CREATE TABLE shipments (order_id bigint NOT NULL);
    CREATE TABLE refunds (order_id bigint NOT NULL, cents int NOT NULL);

Place an order with SELECT jobq_enqueue('orders', '{"order": 1, "cents": 1299}'). Report its delivery with SELECT
jobq_signal_job(ID, 'delivered').

You may kill the worker at any time: each step is saved in the transaction that contains its writes, and the next worker continues
after the last saved step. An effect outside of this database, such as a call to a bank, may happen twice: give the call an
idempotency key, such as "order 1 charge".
"""
import collections
import os
import socket
import sys
import time

try:
    import psycopg
    from psycopg.rows import dict_row
    from psycopg.types.json import Jsonb
except ImportError as error:
    sys.exit(f"order.py: {error}. It needs psycopg 3: apt-get install python3-psycopg, or pip install 'psycopg[binary]'")

WORKER_ID = f"{socket.gethostname()}-{os.getpid()}"
PATIENCE = "3 days"
COLLIDED = ("40001", "40P01")    # the SQLSTATEs of a transaction that collided with another one
MOST_COLLISIONS = 10
COLLISIONS = collections.Counter()


class Stop(Exception):
    """Raised when this worker is done with the job: it waits, was canceled, or belongs to another worker."""


class Workflow:
    """A claimed job that runs step by step."""

    def __init__(self, conn, job):
        self.conn, self.id, self.lease = conn, job["id"], job["lease"]

    def step(self, name, effect):
        """Runs effect(conn), which writes and returns the result, once, even if the job is claimed again."""
        state, result = self.conn.execute("SELECT * FROM jobq_step(%s, %s, %s)", (self.id, self.lease, name)).fetchone()
        if state == "done":
            return result
        if state != "run":
            raise Stop(state)
        with self.conn.transaction():
            result = effect(self.conn)
            # The last statement of the transaction. If the lease is lost, it fails, and the writes of effect() are rolled back.
            self.conn.execute("SELECT jobq_step_done(%s, %s, %s, %s)", (self.id, self.lease, name, Jsonb(result)))
        return result

    def wait(self, event, timeout):
        """Returns (ready or timeout, payload of the signal), or raises Stop while neither has happened."""
        state, payload = self.conn.execute("SELECT * FROM jobq_await(%s, %s, %s, %s)",
                                           (self.id, self.lease, event, timeout)).fetchone()
        if state not in ("ready", "timeout"):
            raise Stop(state)
        return state, payload

    def complete(self, result):
        self.conn.execute("SELECT jobq_complete(%s, %s, %s, must_hold => true)", (self.id, self.lease, Jsonb(result)))


def insert(table, *values):
    marks = ", ".join(["%s"] * len(values))

    def effect(conn):
        conn.execute(f"INSERT INTO {table} VALUES ({marks})", values)
        return {"at": time.time()}
    return effect


def order(workflow, payload, patience=PATIENCE):
    number, cents = payload["order"], payload["cents"]
    workflow.step("charge", insert("charges", number, cents))
    workflow.step("ship", insert("shipments", number))
    state, _ = workflow.wait("delivered", patience)
    if state == "timeout":
        workflow.step("refund", insert("refunds", number, cents))
    workflow.complete({"delivered": state == "ready"})
    return "delivered" if state == "ready" else "refunded"


def fail(conn, workflow, message):
    message = message.encode("utf-8", "replace").decode().replace("\0", "?")
    try:
        conn.execute("SELECT jobq_fail(%s, %s, %s)", (workflow.id, workflow.lease, message))
    except psycopg.errors.UntranslatableCharacter:   # a character does not exist in the encoding of the database
        conn.execute("SELECT jobq_fail(%s, %s, %s)", (workflow.id, workflow.lease, message.encode("ascii", "replace").decode()))


def serve_one(conn, queue, patience=PATIENCE):
    """Returns False if there is no job."""
    with conn.cursor(row_factory=dict_row) as cursor:
        job = cursor.execute("SELECT id, lease, payload FROM jobq_claim(%s, %s)", (queue, WORKER_ID)).fetchone()
    if job is None:
        return False
    workflow = Workflow(conn, job)
    try:
        outcome = order(workflow, job["payload"], patience)
    except Stop as stop:
        outcome = str(stop)
        if outcome in ("cancel", "cancelled"):
            conn.execute("SELECT jobq_release(%s, %s)", (workflow.id, workflow.lease))
    except Exception as error:  # any error fails only this order, not the worker
        if conn.closed:
            raise
        state = getattr(error, "sqlstate", None)
        if state in COLLIDED and COLLISIONS[workflow.id] < MOST_COLLISIONS:
            COLLISIONS[workflow.id] += 1
            outcome = "collided"
            conn.execute("SELECT jobq_release(%s, %s)", (workflow.id, workflow.lease))
        else:
            outcome = "lost" if state == "JQ001" else f"failed: {error!r}"
            fail(conn, workflow, str(error))
    if outcome != "collided":
        COLLISIONS.pop(workflow.id, None)
    print(f"job {job['id']}: {outcome}", flush=True)
    return True


def main():
    queue = sys.argv[1] if len(sys.argv) > 1 else "orders"
    with psycopg.connect(autocommit=True, client_encoding="utf8") as conn:
        while True:
            if serve_one(conn, queue):
                continue
            try:
                conn.execute("CALL jobq_wait(%s, '2 s', worker_id => %s)", (queue, WORKER_ID))
            except psycopg.errors.QueryCanceled as error:   # canceled by statement_timeout: treated as the end of the wait
                print(f"a wait was ended by the server (see the setting statement_timeout): {error}", file=sys.stderr)


if __name__ == "__main__":
    main()
