"""Attaches hostile triggers, indexes, and constraints to jobq.jobs, one at a time. Jobs that they do not concern must not be affected.

The queue 'hostile' contains jobs in every state, and every function is called on them: it may raise its documented errors and those
that the attack raises. In the meantime, canaries in other queues must be processed by the background worker and by jobq_tick().
JOBQ_FUZZ_ATTACKS='text' runs only attacks whose name contains the text.
"""

import os
import re
import time

import psycopg

import catalogue
import invariants
import roles
import verdict
from attacks import ALL, HELPERS, QUEUE
from canary import Canaries
from server_log import ServerLog
from support import Results, connect, wait_until

BOUND = 60      # seconds for one call
MOMENT = 20     # seconds within which an unusable index must be reported

# Jobs for every duty, and some in every state.
SEED = """
SELECT jobq_alter_queue('hostile', heartbeat_timeout => '10 ms', keep_completed => '1 ms', keep_failed => '1 day');
SELECT jobq_enqueue('hostile', jsonb_build_object('n', n), metadata => jsonb_build_object('n', n), concurrency_key => 'k')
FROM generate_series(1, 12) n;
SELECT jobq_enqueue('hostile', run_at => clock_timestamp() + interval '300 ms', metadata => '{"later": 1}');
SELECT jobq_enqueue('hostile', group_key => 'g', metadata => jsonb_build_object('g', n)) FROM generate_series(1, 3) n;
SELECT jobq_enqueue('hostile', unique_key => 'u', metadata => '{"u": 1}');
SELECT jobq_enqueue('hostile', depends_on => ARRAY[id], metadata => '{"d": 1}') FROM jobq.jobs WHERE queue = 'hostile' LIMIT 1;
DO $$
DECLARE
    ids bigint[];
    leases bigint[];
BEGIN
    SELECT array_agg(c.id), array_agg(c.lease) INTO ids, leases FROM jobq_claim('hostile', batch => 6) c;
    PERFORM jobq_complete(ids[1], leases[1]), jobq_fail(ids[2], leases[2], retry => false), jobq_cancel(ids[3]);
END $$;
"""
# Every kind of call, on jobs in a status in which it has an effect. {job} is the id of such a job.
CALLS = (
    ("processing", "SELECT jobq_heartbeat({job}, {lease}, '50')"), ("processing", "SELECT jobq_complete({job}, {lease}, '1')"),
    ("processing", "SELECT jobq_fail({job}, {lease}, 'bad')"), ("processing", "SELECT jobq_release({job}, {lease})"),
    ("processing", "SELECT jobq_snooze({job}, '1 s', {lease})"), ("processing", "SELECT jobq_cancel({job})"),
    ("processing", "SELECT * FROM jobq_complete_many(ARRAY[{job}], ARRAY[{lease}])"),
    ("processing", "SELECT * FROM jobq_fail_many(ARRAY[{job}], ARRAY[{lease}], retry => false)"),
    ("processing", "SELECT * FROM jobq_release_many(ARRAY[{job}], ARRAY[{lease}])"),
    ("processing", "SELECT * FROM jobq_heartbeat_many(ARRAY[{job}], ARRAY[{lease}])"),
    ("processing", "SELECT * FROM jobq_complete_and_claim(ARRAY[{job}], ARRAY[{lease}], queue => 'hostile')"),
    ("processing", "SELECT * FROM jobq_heartbeat_worker('w')"),
    ("pending", "SELECT jobq_reschedule({job}, clock_timestamp() + interval '1 s')"), ("pending", "SELECT jobq_cancel({job})"),
    ("pending", "SELECT jobq_delete({job})"), ("scheduled", "SELECT jobq_retry({job})"),
    ("failed", "SELECT jobq_retry({job})"), ("completed", "SELECT jobq_delete({job})"),
    (None, "SELECT jobq_enqueue('hostile', '1')"),
    (None, "SELECT * FROM jobq_enqueue_many('hostile', '{{1,2,3}}')"),
    (None, "SELECT * FROM jobq_enqueue_jobs('[{{\"queue\": \"hostile\"}}, {{\"queue\": \"hostile\", \"group_key\": \"g\"}}]')"),
    (None, "SELECT jobq_enqueue('hostile', unique_key => 'u', on_conflict => 'replace')"),
    (None, "SELECT jobq_enqueue('hostile', to_jsonb(repeat(md5('x'), 20000) || random()), run_at => now() + interval '1 h')"),
    (None, "INSERT INTO jobq.jobs (queue) VALUES ('hostile')"),
    (None, "UPDATE jobq.jobs SET priority = 1 WHERE queue = 'hostile' AND status = 'pending'"),
    (None, "DELETE FROM jobq.jobs WHERE id = (SELECT min(id) FROM jobq.jobs WHERE queue = 'hostile' AND status <> 'processing')"),
    (None, "SELECT * FROM jobq_claim('hostile', 'w', batch => 3)"),
    (None, "SELECT * FROM jobq_claim_any('{{hostile}}', 'w')"), (None, "SELECT jobq_claim_json('{{hostile}}', 'w')"),
    (None, "SELECT jobq_set_limit('hostile', max_running => 1)"), (None, "SELECT jobq_claim('hostile', 'w')"),
    (None, "SELECT jobq_set_limit('hostile')"),
    (None, "SELECT jobq_alter_queue('hostile', round_robin => true)"), (None, "SELECT jobq_claim('hostile', 'w')"),
    (None, "SELECT jobq_alter_queue('hostile', round_robin => false)"),
    (None, "SELECT jobq_reschedule_jobs('hostile', clock_timestamp())"), (None, "SELECT jobq_retry_jobs('hostile')"),
    (None, "SELECT jobq_cancel_jobs('hostile', max_jobs => 2)"), (None, "SELECT jobq_delete_jobs('hostile', max_jobs => 2)"),
)


def provoke(conn, allowed):
    """Returns the answers that are not permitted."""
    found = []
    for status, call in CALLS:
        if status is None:
            text = call.format()
        else:
            row = conn.execute("SELECT id, coalesce(lease, 1) FROM jobq.jobs WHERE queue = %s AND status::text = %s"
                               " ORDER BY random() LIMIT 1", (QUEUE, status)).fetchone()
            if row is None:
                continue
            text = call.format(job=row[0], lease=row[1])
        try:
            conn.execute(text)
        except psycopg.OperationalError as error:
            if error.sqlstate is None:
                raise
            _unless_allowed(found, allowed, text, error)
        except psycopg.Error as error:
            _unless_allowed(found, allowed, text, error)
    return found


def _unless_allowed(found, allowed, text, error):
    if error.sqlstate not in allowed:
        found.append(f"{error.sqlstate} {str(error).splitlines()[0]} from {text}")


def recover(conn, attack):
    """Without the attack, its jobs can be deleted or made to run again."""
    def gone():
        try:
            conn.execute("SELECT jobq_drop_queue('hostile', force => true)")
        except psycopg.errors.ObjectInUse:
            return False
        return conn.execute("SELECT count(*) FROM jobq.jobs WHERE queue = 'hostile' AND status <> 'processing'").fetchone()[0] == 0
    wait_until(gone, BOUND, pause=0.2)
    conn.execute("DELETE FROM jobq.jobs WHERE queue LIKE 'hostile%'")
    if attack.renames:
        conn.execute("DELETE FROM jobq.attempts a WHERE NOT EXISTS (SELECT FROM jobq.jobs j WHERE j.id = a.job_id)")
        conn.execute("DELETE FROM jobq.dependencies d WHERE NOT EXISTS (SELECT FROM jobq.jobs j WHERE j.id = d.job_id)")


def attempt(results, database, attack, allowed, log):
    with connect(database) as conn:
        conn.execute(f"SET statement_timeout = '{BOUND} s'; SET client_min_messages = error; SET timezone = 'UTC'")
        conn.execute(SEED)
        try:
            conn.execute(attack.set_up)
        except psycopg.Error as error:
            results.check(error.sqlstate in attack.may_refuse, f"{attack.name}: it can be set up", f"{error.sqlstate} {error}")
            return
        try:
            wrong = provoke(conn, allowed | set(attack.may_raise))
            results.check(not wrong, f"{attack.name}: calls that touch its jobs raise only permitted errors", wrong[:4])
            canaries(results, conn, attack.name)
        except psycopg.Error as error:
            results.check(error.sqlstate in attack.may_refuse, f"{attack.name}: other jobs are not affected", f"{error.sqlstate} {error}")
        try:
            if attack.unharmed:
                results.check(conn.execute(attack.unharmed).fetchone()[0], f"{attack.name}: it has its effect")
            conn.execute(attack.tear_down)
            recover(conn, attack)
            wait_until(lambda: not invariants.broken(conn), BOUND, pause=0.1)
            broken = invariants.broken(conn)
            results.check(not broken, f"{attack.name}: the rows are correct after it is removed", broken)
        except psycopg.Error as error:
            results.check(False, f"{attack.name}: jobs recover", f"{error.sqlstate} {error}")
    lines = log.faults(duties=False)
    log.forget()
    results.check(not lines, f"{attack.name}: no internal error in the log", lines[:3])


def canaries(results, conn, name):
    for by_hand in (False, True):
        birds = Canaries(conn).release()
        missing = birds.wait(by_hand)
        who = "jobq_tick()" if by_hand else "the background worker"
        results.check(not missing, f"{name}: {who} performs all duties for other jobs", missing)
        results.check(missing or birds.claimable(), f"{name}: jobs that {who} made claimable can be claimed")


# Indexes of jobq that a cancelled CREATE INDEX CONCURRENTLY has left invalid: calls raise 55000 with a hint or return the right
# answer

def invalid_index(results, database, name, definition):
    with connect(database) as conn, connect(database) as blocker:
        conn.execute("SET client_min_messages = error")
        blocker.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
        # An open transaction keeps the build waiting until the build is cancelled.
        conn.execute(f"DROP INDEX jobq.{name}")
        blocker.execute("UPDATE jobq.jobs SET metadata = metadata WHERE id = (SELECT min(id) FROM jobq.jobs)")
        blocker.execute("SELECT 1 FROM jobq.jobs LIMIT 1")
        conn.execute("SET lock_timeout = '100 ms'")
        try:
            conn.execute(definition.replace("INDEX", "INDEX CONCURRENTLY", 1))
        except psycopg.errors.LockNotAvailable:
            pass
        conn.execute("RESET lock_timeout")
        blocker.execute("ROLLBACK")
        results.check(conn.execute("SELECT NOT indisvalid FROM pg_index WHERE indexrelid = %s::regclass", (f"jobq.{name}",)
                                   ).fetchone()[0], f"{name} invalid: a cancelled build has left it invalid")
        said = ""
        try:
            birds = Canaries(conn).release()
            helped = wait_until(lambda: not birds.missing() or _reported(conn, name), MOMENT, pause=0.1)
            claims = bool(birds.missing()) or birds.claimable()
        except psycopg.errors.ObjectNotInPrerequisiteState as error:
            said = str(error)
            helped = claims = re.search("REINDEX", said) is not None
        except psycopg.Error as error:
            said = f"{error.sqlstate} {error}"
            helped = claims = False
        results.check(helped, f"{name} invalid: all duties are performed, or 55000 says to REINDEX", said or birds.missing())
        results.check(claims, f"{name} invalid: no claimable job is hidden", said)
        conn.execute(f"REINDEX INDEX jobq.{name}")
        try:
            canaries(results, conn, f"{name} built again")
        except psycopg.Error as error:
            results.check(False, f"{name} built again: all works", f"{error.sqlstate} {error}")


def _reported(conn, name):
    return conn.execute("SELECT count(*) FROM jobq.background_workers WHERE last_error LIKE %s", (f"%{name}%",)).fetchone()[0] > 0


# The trigger functions of jobq, attached to a table of a user

def misused_triggers(results, database, log):
    found = []
    with connect(database) as conn:
        conn.execute("SET client_min_messages = error")
        conn.execute("CREATE TABLE fuzz.victim (LIKE jobq.jobs INCLUDING DEFAULTS); INSERT INTO fuzz.victim (id, queue, status,"
                     " max_attempts, run_at, _lane) VALUES (1, 'x', 'pending', 1, now(), 1)")
        for function in catalogue.functions(conn):
            if not function.trigger:
                continue
            for when in ("BEFORE INSERT", "AFTER INSERT", "BEFORE UPDATE", "AFTER UPDATE", "BEFORE DELETE", "AFTER DELETE", "AFTER TRUNCATE"):
                row = "STATEMENT" if "TRUNCATE" in when else "ROW"
                conn.execute(f"CREATE TRIGGER misused {when} ON fuzz.victim FOR EACH {row} EXECUTE FUNCTION jobq.{function.name}()")
                for change in ("INSERT INTO fuzz.victim SELECT * FROM fuzz.victim LIMIT 1", "UPDATE fuzz.victim SET priority = 2",
                               "UPDATE fuzz.victim SET id = id + 1, status = 'processing'", "DELETE FROM fuzz.victim WHERE id = 7",
                               "BEGIN; DELETE FROM fuzz.victim; ROLLBACK", "BEGIN; TRUNCATE fuzz.victim; ROLLBACK"):
                    try:
                        conn.execute(change)
                    except psycopg.Error as error:
                        conn.execute("ROLLBACK")
                        if error.sqlstate != verdict.TRIGGER:
                            found.append(f"{function.name} {when}: {error.sqlstate} {str(error).splitlines()[0]}")
                conn.execute("DROP TRIGGER misused ON fuzz.victim")
        conn.execute("DROP TABLE fuzz.victim")
    results.check(not found, "jobq's triggers on another table do nothing or raise an error that says so", found[:8])
    results.check(not log.faults(duties=False), "jobq's triggers on another table: no internal error", log.faults(duties=False)[:3])
    log.forget()


def main():
    results = Results("hostile")
    only = os.environ.get("JOBQ_FUZZ_ATTACKS", "")
    allowed = verdict.documented() | set(verdict.SERVER)
    log = ServerLog()
    with roles.database("hostile") as name:
        with connect(name) as conn:
            conn.execute(HELPERS)
            indexes = conn.execute("SELECT indexname, indexdef FROM pg_indexes WHERE schemaname = 'jobq' AND tablename = 'jobs'"
                                   " AND indexname <> 'jobs_pkey' ORDER BY 1").fetchall()
            canaries(results, conn, "nothing hostile")
        for attack in ALL:
            if only in attack.name:
                began = time.monotonic()
                try:
                    attempt(results, name, attack, allowed, log)
                except psycopg.OperationalError as error:
                    results.check(False, f"{attack.name}: the server keeps running", error)
                    roles.connect_again(name).close()
                results.note(f"{attack.name}: {time.monotonic() - began:.1f} s")
        for index, definition in indexes:
            if only in f"{index} invalid":
                invalid_index(results, name, index, definition)
        if only in "misused":
            misused_triggers(results, name, log)
    results.finish()


if __name__ == "__main__":
    main()
