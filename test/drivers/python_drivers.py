"""Calls every public function from Python: psycopg 3 with statements prepared in the server, psycopg 2 without.

One scenario, run three times. What differs is how a driver sends a value:

psycopg 3, untyped   every value is a string (type 0), so the server infers each parameter's type from the
                     function: nothing to cast, lists of strings included.
psycopg 3, typed     integers are sent as smallint, integer or bigint by their size, datetime as timestamptz:
                     all of them have implicit casts to the parameters of the contract. A dict needs Jsonb(...).
psycopg 2            values are written into the statement as literals. A list becomes ARRAY[...], which with
                     strings in it is text[]: for jsonb[] and jobq.job_status[], PostgreSQL has no implicit cast,
                     and %s::jsonb[] or %s::jobq.job_status[] must be written. That is the only place. Ids and
                     leases are Python integers; an array of them needs no cast.
"""

import datetime
import json
import os
import sys

import psycopg
import psycopg2
import psycopg2.extras
from psycopg.types.json import Jsonb

failed = 0


class Driver:
    name = ""
    jsons = "%s"       # a parameter of type jsonb[] in a statement
    statuses = "%s"    # a parameter of type jobq.job_status[] in a statement

    def check(self, ok, label, detail=""):
        global failed
        failed += not ok
        print(f"{'ok' if ok else 'not ok'} - {self.name}: {label}" + ("" if ok else f": {detail!r}"))

    def equal(self, wanted, label, text, *values):
        got = self.value(text, *values)
        self.check(got == wanted, label, (got, wanted))

    def value(self, text, *values):
        return self.rows(text, *values)[0][0]

    def number(self, value):
        return value

    def json(self, value):
        return json.dumps(value)

    def list(self, values):
        return [self.number(value) for value in values]

    def time(self, text):
        return datetime.datetime.fromisoformat(text).replace(tzinfo=datetime.timezone.utc)


class Psycopg3Typed(Driver):
    name = "psycopg 3, typed"

    def __init__(self):
        self.conn = psycopg.connect(autocommit=True)

    def rows(self, text, *values):
        cursor = self.conn.execute(text, values or None, prepare=True)
        return cursor.fetchall() if cursor.description else []

    def json(self, value):
        return Jsonb(value)

    def prepared(self):
        return self.conn.execute("SELECT count(*) FROM pg_prepared_statements").fetchone()[0]


class Psycopg3Untyped(Psycopg3Typed):
    name = "psycopg 3, untyped"

    def number(self, value):
        return str(value)

    def json(self, value):
        return json.dumps(value)

    def time(self, text):
        return text


class Psycopg2(Driver):
    name = "psycopg 2"
    jsons = "%s::jsonb[]"
    statuses = "%s::jobq.job_status[]"

    def __init__(self):
        self.conn = psycopg2.connect("")
        self.conn.autocommit = True

    def rows(self, text, *values):
        with self.conn.cursor() as cursor:
            cursor.execute(text, values or None)
            return cursor.fetchall() if cursor.description else []

    def json(self, value):
        return psycopg2.extras.Json(value)


def scenario(d):
    n, queue = d.number, "python"
    d.check(d.value("SELECT jobq_version()")[0].isdigit(), "jobq_version")
    d.check(d.rows("SELECT * FROM jobq_claim()") == [], "jobq_claim()")
    d.rows("SELECT jobq_create_queue(%s, %s, %s, %s, %s, %s, %s, %s)",
           queue, n(5), "1 s", "1 min", "30 s", n(3), "1 day", "2 days")
    d.rows("SELECT jobq_alter_queue(%s, max_attempts => %s, max_depth => %s, on_full => %s, max_runtime => %s,"
           " on_max_runtime => %s, priority_ageing => %s, round_robin => %s)",
           queue, n(6), n(100000), "drop_oldest", "2 h", "cancel", "1 min", True)
    d.equal(6, "jobq_create_queue, jobq_alter_queue", "SELECT max_attempts FROM jobq.queues WHERE queue = %s", queue)
    d.equal("drop_oldest", "jobq_alter_queue, on_full", "SELECT on_full FROM jobq.queues WHERE queue = %s", queue)
    d.equal("cancel", "jobq_alter_queue, max_runtime",
            "SELECT on_max_runtime FROM jobq.queues WHERE queue = %s AND max_runtime = '2 h' AND round_robin", queue)
    d.rows("SELECT jobq_alter_kind(%s, %s, max_attempts => %s, backoff => %s)", queue, "kind", n(3), "{1 s,1 min}")
    d.equal(3, "jobq_alter_kind", "SELECT max_attempts FROM jobq.kinds WHERE queue = %s AND kind = %s AND backoff = '{1 s,1 min}'", queue, "kind")
    d.equal(True, "jobq_drop_kind", "SELECT jobq_drop_kind(%s, %s, %s)", queue, "kind", "{max_attempts}")
    d.equal(True, "jobq_pause_queue", "SELECT jobq_pause_queue(%s)", queue)
    d.equal(True, "jobq_resume_queue", "SELECT jobq_resume_queue(%s)", queue)

    first = d.value("SELECT jobq_enqueue(%s, %s)", queue, d.json({"n": 1}))
    d.check(isinstance(first, int) and first > 0, "jobq_enqueue by position", first)
    named = d.value("SELECT jobq_enqueue(%s, payload => %s, kind => %s, priority => %s, run_at => %s, max_attempts => %s,"
                    " metadata => %s, concurrency_key => %s, options => %s)",
                    queue, d.json({"n": 2}), "mail", n(-1), d.time("2001-02-03"), n(7), d.json({"who": "me"}), "me",
                    d.json({"version": 2, "requires": ["gpu", 'big, "disk"'], "heartbeat_timeout": "90 s", "max_runtime": "1 h"}))
    job = d.rows("SELECT id, kind, priority, version, requires, payload, metadata FROM jobq_get(%s)", n(named))
    d.check(job == [(named, "mail", -1, 2, ["gpu", 'big, "disk"'], {"n": 2}, {"who": "me"})],
            "jobq_enqueue with named arguments, jobq_get", job)
    every = d.value("SELECT jobq_enqueue(" + ", ".join(["%s"] * 15) + ")", queue, d.json({}), "", n(0), None, None, None,
                    "ignore", None, None, None, None, "cancel", None, None)
    d.check(every > named, "jobq_enqueue with every argument", every)

    unique = d.value("SELECT jobq_enqueue(%s, unique_key => %s, unique_for => %s, run_at => %s)",
                     queue, "u", "1 hour", d.time("2100-01-01"))
    d.equal(unique, "jobq_enqueue with a unique key", "SELECT jobq_enqueue(%s, %s, unique_key => %s, on_conflict => %s,"
            " run_at => %s)", queue, d.json({"n": 9}), "u", "replace", d.time("2100-01-02"))
    rows = d.rows(f"SELECT * FROM jobq_enqueue_many(%s, {d.jsons}, run_at => %s, unique_keys => %s)",
                  queue, [d.json(1), d.json(2)], d.time("2100-01-01"), ["u", None])
    d.check([row[1] for row in rows] == [False, True] and rows[0][0] == unique, "jobq_enqueue_many with unique keys", rows)
    rows = d.rows(f"SELECT * FROM jobq_enqueue_many(%s, {d.jsons}, %s, group_keys => %s)",
                  queue, [d.json(1), d.json(2)], "grouped", ["g", None])
    after = d.value("SELECT jobq_enqueue(%s, kind => %s, group_key => %s)", queue, "grouped", "g")
    d.check(len(rows) == 2 and rows[1][1] is True and after > rows[1][0], "jobs of a group", rows)
    rows = d.rows(f"SELECT * FROM jobq_enqueue_many(%s, {d.jsons}, %s, priorities => %s)",
                  queue, [d.json({"n": 3}), d.json({"n": 4})], "batch", d.list([5, 6]))
    d.check(len(rows) == 2 and rows[0][1] is True and rows[0][0] < rows[1][0], "jobq_enqueue_many", rows)
    rows = d.rows(f"SELECT * FROM jobq_enqueue_many(%s, {d.jsons}, %s)", queue, ['{"n": 5}', '{"n": 6}', "7"], "batch")
    d.check(len(rows) == 3, "jobq_enqueue_many with JSON texts", rows)
    rows = d.rows("SELECT * FROM jobq_enqueue_jobs(%s)",
                  json.dumps([{"queue": queue, "payload": 7, "kind": "spec"}, {"queue": queue, "kind": "spec"}]))
    d.check(len(rows) == 2, "jobq_enqueue_jobs", rows)
    batch = d.rows("SELECT jobq_create_batch(%s, %s)", "a batch", json.dumps({"queue": "batch callbacks"}))[0][0]
    d.equal(True, "jobq_seal_batch", "SELECT jobq_seal_batch(%s)", n(batch))
    rows = d.rows("SELECT total, sealed FROM jobq_get_batch(%s)", n(batch))
    d.check(rows[0][0] == 0 and rows[0][1] is True, "jobq_get_batch", rows)

    rows = d.rows("SELECT id, lease, payload, attempt FROM jobq_claim(%s, %s, %s, %s, %s, %s, %s)",
                  queue, "a worker", n(1), ["mail"], d.list([2]), ["gpu", 'big, "disk"', "more"], "20 s")
    d.check(len(rows) == 1 and rows[0][0] == named and rows[0][2:] == ({"n": 2}, 1), "jobq_claim with every argument", rows)
    job, lease = rows[0][:2]
    d.equal("held", "jobq_heartbeat", "SELECT jobq_heartbeat(%s, %s, %s)", n(job), n(lease), d.json({"percent": 50}))
    rows = d.rows("SELECT * FROM jobq_heartbeat_worker(%s)", "a worker")
    d.check(rows == [(job, "held")], "jobq_heartbeat_worker", rows)
    d.equal(False, "jobq_complete with another lease", "SELECT jobq_complete(%s, %s)", n(job), n(2))
    d.equal(True, "jobq_complete", "SELECT jobq_complete(%s, %s, %s, %s)", n(job), n(lease), d.json({"sent": True}), False)
    d.equal("finished", "jobq_heartbeat after the completion", "SELECT jobq_heartbeat(%s, %s)", n(job), n(lease))
    d.equal(False, "jobq_complete by name", "SELECT jobq_complete(lease => %s, job_id => %s, result => %s)",
            n(lease), n(job), None)

    job, lease = d.rows("SELECT id, lease FROM jobq_claim_any(%s, batch => %s)", ["nowhere", queue], n(1))[0]
    d.equal("scheduled", "jobq_claim_any, jobq_fail", "SELECT jobq_fail(%s, %s, %s, %s, %s)",
            n(job), n(lease), "broke", "1 hour", True)
    d.equal("pending", "jobq_retry", "SELECT jobq_retry(%s)", n(job))
    d.equal("scheduled", "jobq_reschedule", "SELECT jobq_reschedule(%s, %s)", n(job), d.time("2100-01-01"))
    d.equal("cancelled", "jobq_cancel", "SELECT jobq_cancel(%s)", n(job))
    d.equal("cancelled", "jobq_delete", "SELECT jobq_delete(%s)", n(job))
    for call in ("jobq_delete(%s)", "jobq_cancel(%s)", "jobq_retry(%s)", "jobq_reschedule(%s, 'now')"):
        d.equal(None, f"{call} of an unknown '42...' means a job, never a queue", f"SELECT {call}", "42000000000")

    job, lease = d.rows("SELECT id, lease FROM jobq_claim(%s)", queue)[0]
    d.equal(True, "jobq_release", "SELECT jobq_release(%s, %s)", n(job), n(lease))
    job, lease = d.rows("SELECT id, lease FROM jobq_claim(%s)", queue)[0]
    d.check(d.rows("CALL jobq_wait(%s, %s, %s, %s, %s, %s)", queue, "0 s", ["mail"], d.list([2]), ["gpu"], "a worker") == [],
            "jobq_wait")
    d.check(d.rows("CALL jobq_wait_any(%s, %s, patterns => %s, batches => %s)", [queue, "nowhere"], "0 s", ["nowhere%"], d.list([1, 2, 3])) == [],
            "jobq_wait_any")
    d.check(d.rows("SELECT * FROM jobq_claim_any(%s, patterns => %s, weights => %s, batches => %s)",
                   ["nowhere"], ["nowhere%"], d.list([1, 2]), d.list([1, 2])) == [], "jobq_claim_any with patterns, weights, and batches")
    d.equal(0, "jobq_wake", "SELECT jobq_wake(%s)", "a worker")
    d.check(d.rows("CALL jobq_wait(%s, %s, worker_id => %s)", "nothing here", "1 hour", "a worker") == [],
            "jobq_wait of a worker that has been woken")
    d.check(d.rows("SELECT * FROM jobq_step(%s, %s, %s)", n(job), n(lease), "a")[0][0] == "run", "jobq_step")
    d.check(list(d.rows("SELECT * FROM jobq_step_done(%s, %s, %s, %s)", n(job), n(lease), "a", d.json({"n": 1}))[0]) == ["saved", {"n": 1}],
            "jobq_step_done")
    d.check([row[1:3] for row in map(list, d.rows("SELECT * FROM jobq_steps(%s, %s)", d.list([n(job)]), d.list([n(lease)])))] == [["a", "done"]],
            "jobq_steps")
    spawned = d.rows("SELECT * FROM jobq_spawn(%s, %s, %s, %s)", n(job), n(lease), "c", d.json([{"queue": "python children"}]))[0]
    d.check(spawned[0] == "saved" and len(spawned[1]) == 1, "jobq_spawn")
    d.rows("SELECT jobq_complete(id, lease, %s) FROM jobq_claim(%s)", d.json({"n": 3}), "python children")
    state, ended = d.rows("SELECT * FROM jobq_await_jobs(%s, %s, %s, %s)", n(job), n(lease), d.list(list(spawned[1])), "d")[0]
    d.check(state == "ready" and [(end["status"], end["result"]) for end in ended] == [("completed", {"n": 3})], "jobq_await_jobs")
    d.equal("ready", "jobq_sleep", "SELECT jobq_sleep(%s, %s, %s, %s)", n(job), n(lease), "b", "0 s")
    d.equal(True, "jobq_signal", "SELECT jobq_signal(%s, %s, %s)", queue, "python event", d.json({"n": 2}))
    d.check(list(d.rows("SELECT * FROM jobq_await(%s, %s, %s, %s)", n(job), n(lease), "python event", "1 hour")[0]) == ["ready", {"n": 2}],
            "jobq_await")
    d.equal(True, "jobq_snooze", "SELECT jobq_snooze(%s, %s, %s)", n(job), "1 hour", n(lease))
    job = d.value("SELECT jobq_enqueue(%s)", "python results")
    d.check(d.rows("CALL jobq_wait_job(%s, %s)", n(job), "1 ms") == [], "jobq_wait_job of a pending job")
    d.equal(None, "jobq_result of a pending job", "SELECT jobq_result(%s)", n(job))
    d.rows("SELECT jobq_complete(id, lease, %s) FROM jobq_claim(%s)", d.json({"sum": 3}), "python results")
    d.check(d.rows("CALL jobq_wait_job(%s)", n(job)) == [], "jobq_wait_job of a completed job")
    d.equal({"sum": 3}, "jobq_result of a completed job", "SELECT jobq_result(%s)", n(job))
    after = d.value("SELECT jobq_enqueue(%s, depends_on => %s)", "python results", d.list([job]))
    d.equal({"sum": 3}, "depends_on, jobq_dependency_results", "SELECT result FROM jobq_dependency_results(%s)", n(after))
    d.check(d.value("SELECT jobq_dot(%s, %s)", n(after), n(10)).startswith("digraph"), "jobq_dot")
    rows = d.rows("SELECT reason, jobs FROM jobq_explain(%s) UNION ALL SELECT reason, jobs FROM jobq_explain_queue(%s)",
                  n(after), "python nowhere")
    d.check(len(rows) > 1 and rows[-1][0] == "unknown", "jobq_explain, jobq_explain_queue", rows)
    d.equal("direct", "jobq_access", "SELECT way FROM jobq_access()")
    d.rows("BEGIN")
    job = d.value("SELECT id FROM jobq_claim(%s)", queue)
    d.equal(True, "jobq_complete without a lease in the claiming transaction", "SELECT jobq_complete(%s)", n(job))
    d.rows("COMMIT")

    def claims(batch):
        taken = d.rows("SELECT id, lease FROM jobq_claim(%s, batch => %s, kinds => %s)", queue, n(batch), ["batch"])
        return d.list(row[0] for row in taken), d.list(row[1] for row in taken)

    ids, leases = claims(2)
    rows = d.rows("SELECT * FROM jobq_heartbeat_many(%s, %s)", ids, leases)
    d.check([row[1] for row in rows] == ["held"] * 2, "jobq_heartbeat_many", rows)
    d.rows("SELECT count(*) FROM jobq_heartbeat_many('{}', '{}', %s)", d.json({"worker_id": queue, "queues": [queue], "slots": 4}))
    seen = d.rows("SELECT worker_id, slots, state FROM jobq_workers() WHERE worker_id = %s", queue)
    d.check([tuple(row) for row in seen] == [(queue, 4, "idle")], "jobq_workers", seen)
    rows = d.rows("SELECT * FROM jobq_write_log(%s, %s, %s, %s)", ids, leases, ["one", 'a, "b"'], ["info", "error"])
    d.check([row[1] for row in rows] == [1] * 2, "jobq_write_log", rows)
    rows = d.rows("SELECT * FROM jobq_release_many(%s, %s)", ids, leases)
    d.check([row[1] for row in rows] == [True] * 2, "jobq_release_many", rows)
    ids, leases = claims(2)
    rows = d.rows("SELECT * FROM jobq_fail_many(%s, %s, %s, %s, %s, '{NULL,NULL}')", ids, leases, ["no luck", 'a, "b"'], "1 hour", True)
    d.check([row[1] for row in rows] == ["scheduled"] * 2, "jobq_fail_many", rows)
    ids, leases = claims(1)
    following = d.rows(f"SELECT id, lease FROM jobq_complete_and_claim(%s, %s, {d.jsons}, %s, %s, %s, %s)",
                       ids, leases, [d.json({"done": 1})], queue, "a worker", n(1), ["batch"])
    d.check(len(following) == 1 and n(following[0][0]) != ids[0], "jobq_complete_and_claim", following)
    rows = d.rows(f"SELECT * FROM jobq_complete_many(%s, %s, {d.jsons}, %s)",
                  d.list([following[0][0]]), d.list([following[0][1]]), [d.json({"done": 2})], True)
    d.check(rows == [(following[0][0], True)], "jobq_complete_many", rows)
    d.check(d.rows("SELECT * FROM jobq_complete_many(%s, %s)", [], []) == [], "jobq_complete_many of nothing")

    d.equal(2, "jobq_reschedule_jobs", f"SELECT jobq_reschedule_jobs(%s, %s, %s, {d.statuses})",
            queue, d.time("2100-01-01"), "spec", ["pending"])
    d.equal(2, "jobq_cancel_jobs", f"SELECT jobq_cancel_jobs(%s, %s, {d.statuses}, max_jobs => %s)",
            queue, "spec", ["scheduled", "pending"], n(10))
    # An array written as text is untyped with every driver.
    d.equal(2, "jobq_retry_jobs", "SELECT jobq_retry_jobs(%s, %s, %s)", queue, "spec", "{cancelled}")
    d.equal(0, "jobq_delete_jobs by metadata", "SELECT jobq_delete_jobs(%s, metadata => %s)", queue, d.json({"not": "there"}))
    d.equal(2, "jobq_delete_jobs", f"SELECT jobq_delete_jobs(%s, %s, {d.statuses}, %s, %s, %s, %s)",
            queue, "spec", ["pending"], None, None, None, n(10))

    d.rows("SELECT jobq_create_queue(%s, dead_letter_queue => %s)", "letters", "dead")
    d.rows("SELECT jobq_enqueue(%s)", "letters")
    job, lease = d.rows("SELECT id, lease FROM jobq_claim(%s)", "letters")[0]
    d.equal("failed", "jobq_fail without a retry", "SELECT jobq_fail(%s, %s, retry => %s)", n(job), n(lease), False)
    rows = d.rows("SELECT event FROM jobq_log(%s)", n(job))
    d.check([row[0] for row in rows] == ["enqueued", "claimed", "attempt failed", "failed", "dead letter"], "jobq_log", rows)
    d.equal(True, "jobq_set_limit", "SELECT jobq_set_limit(%s, %s, %s, %s, %s)", "limited", "k", n(2), n(5), "1 s")
    d.equal(1, "jobq.limits", "SELECT count(*) FROM jobq.limits WHERE running = 0")
    d.equal(False, "jobq_skip", "SELECT jobq_skip(%s)", n(job))
    d.equal(True, "jobq_set_limit of a kind", "SELECT jobq_set_limit(%s, kind => %s, max_running => %s)", "limited", "a", n(2))
    d.equal(True, "jobq_set_named_limit", "SELECT jobq_set_named_limit(%s, %s, max_running => %s)", "named", ["limited"], n(2))
    d.equal("named", "jobq.named_limits", "SELECT name FROM jobq.named_limits WHERE max_running = 2 AND running = 0")
    d.equal(True, "jobq_drop_named_limit", "SELECT jobq_drop_named_limit(%s)", "named")
    d.equal("a", "jobq.limits of a kind", "SELECT kind FROM jobq.limits WHERE max_running = 2 AND key IS NULL AND running = 0")
    d.equal(1, "jobq_redrive", "SELECT jobq_redrive(%s, %s, %s)", "dead", n(10), n(2))
    d.equal(True, "jobq_drop_queue of the dead letter queue", "SELECT jobq_drop_queue(%s, %s)", "letters", True)

    d.check(len(d.rows("SELECT * FROM jobq_tick(%s)", d.time("2020-01-01"))) > 0, "jobq_tick")
    role, may = os.environ["JOBQ_TEST_ROLE"], "SELECT has_function_privilege(%s, 'jobq_enqueue_jobs(jsonb)', 'execute')"
    d.rows("SELECT jobq_grant(%s, %s)", role, "producer")
    d.equal(True, "jobq_grant", may, role)
    d.rows("SELECT jobq_revoke(%s, %s)", role, "producer")
    d.equal(False, "jobq_revoke", may, role)
    d.check(d.value(f"SELECT jobq_purge_queue(%s, {d.statuses})", queue, ["scheduled"]) > 0, "jobq_purge_queue")
    d.equal(True, "jobq_drop_queue", "SELECT jobq_drop_queue(%s, %s)", queue, True)
    if isinstance(d, Psycopg3Typed):
        d.check(d.prepared() > 30, "the statements were prepared in the server", d.prepared())


def derived(d):
    """Calls the functions that are not in the scenario, with values derived from the types of their arguments."""
    natural = {"bigint": d.number, "integer": d.number, "bigint[]": d.list, "integer[]": d.list, "timestamp with time zone": d.time,
               "jsonb": d.json, "jsonb[]": lambda values: [d.json(value) for value in values]}
    marks = {"jsonb[]": d.jsons, "jobq.job_status[]": d.statuses}
    d.rows("SELECT pg_stat_force_next_flush()")
    for name, procedure, names, types, given in d.rows("SELECT name, procedure, names, types, vals FROM derived_calls"):
        values = [value if value is None or kind not in natural else natural[kind](value) for kind, value in zip(types, given)]
        arguments = ", ".join(f"{argument} => {marks.get(kind, '%s')}" for argument, kind in zip(names, types))
        problem = None
        try:
            d.rows(f"{'CALL' if procedure else 'SELECT * FROM'} {name}({arguments})", *values)
        except (psycopg.Error, psycopg2.Error) as error:
            problem = str(error)
        d.check(problem is None, f"{name} with values of its types", problem)
    d.rows("SELECT pg_stat_force_next_flush()")


def prepared_without_types(d):
    """PREPARE without types, for each number of arguments that a function accepts: the server must infer exactly the declared
    types. This is what drivers in any language do if they send no types."""
    functions = d.rows(
        "SELECT p.oid::regproc::text, p.pronargs, p.pronargdefaults,"
        " ARRAY(SELECT format_type(t, NULL) FROM unnest(p.proargtypes) WITH ORDINALITY AS a (t, o) ORDER BY o)"
        " FROM pg_depend d JOIN pg_extension e ON d.refobjid = e.oid AND e.extname = 'jobq'"
        " JOIN pg_proc p ON d.classid = 'pg_proc'::regclass AND d.objid = p.oid"
        " WHERE d.deptype = 'e' AND p.proname LIKE 'jobq\\_%' AND p.prokind = 'f' ORDER BY 1")
    for name, most, defaults, types in functions:
        wrong = []
        for count in range(most - defaults, most + 1):
            arguments = ", ".join(f"${n + 1}" for n in range(count))
            try:
                d.conn.execute(f"PREPARE untyped AS SELECT * FROM {name}({arguments})")
                inferred = d.conn.execute("SELECT parameter_types::text[] FROM pg_prepared_statements"
                                          " WHERE name = 'untyped'").fetchone()[0]
                d.conn.execute("DEALLOCATE untyped")
                if inferred != types[:count]:
                    wrong.append((count, inferred))
            except psycopg.Error as error:
                wrong.append((count, error.sqlstate, str(error)))
        d.check(not wrong, f"PREPARE without types: {name}", wrong)
    d.check(len(functions) > 30, "PREPARE without types: there are functions", len(functions))


if __name__ == "__main__":
    drivers = {"psycopg3-untyped": Psycopg3Untyped, "psycopg3-typed": Psycopg3Typed, "psycopg2": Psycopg2}
    driver = drivers[sys.argv[1]]()
    try:
        scenario(driver)
        derived(driver)
        if driver.__class__ is Psycopg3Untyped:
            prepared_without_types(driver)
    except (psycopg.Error, psycopg2.Error, IndexError) as problem:
        driver.check(False, "ended early", f"{getattr(problem, 'pgcode', None) or getattr(problem, 'sqlstate', '')} {problem}")
        raise
    sys.exit(1 if failed else 0)
