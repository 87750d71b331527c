"""Tests the verdict, the values, and the calls that are made of them, without a server."""

import random
import re
from collections import Counter

import stock
import transactions
import values
import verdict
from caller import _answer
from catalogue import Argument, Function
from support import Results

ENQUEUE = Function(1, "public", "jobq_enqueue", False, False, "bigint", True, False,
                   (Argument("queue", "text", False), Argument("priority", "integer", True), Argument("lease", "bigint", True)))
WAIT = Function(2, "public", "jobq_wait", True, False, "-", True, False, (Argument("timeout", "interval", True),))
SPECS = Function(3, "public", "jobq_enqueue_jobs", False, True, "record", True, False, (Argument("specs", "jsonb", False),))
GET = Function(6, "public", "jobq_get", False, True, "record", False, False, (Argument("job_id", "bigint", False),))
TRIGGER = Function(4, "jobq", "fill_job", False, False, "trigger", True, False)


def judge_answers(results):
    judge = verdict.Judge(verdict.documented())

    def fault(function, kind, sqlstate, message="", more="", granted=True):
        return judge.fault(function, granted, kind, sqlstate, message, more)

    for label, wrong in (
            ("an internal error", fault(ENQUEUE, "block", "XX000", "cache lookup failed")),
            ("a refusal", fault(ENQUEUE, "block", "42501", 'role "x" is a superuser')),
            ("a corrupt index", fault(ENQUEUE, "block", "XX002", "index is corrupt")),
            ("an undocumented SQLSTATE", fault(ENQUEUE, "block", "22012", 'argument "queue"')),
            ("an argument that is not named", fault(ENQUEUE, "block", "22023", "value out of range")),
            ("an argument of another function", fault(ENQUEUE, "block", "22023", 'argument "delay" is bad')),
            ("a name that is too long, without its argument", fault(ENQUEUE, "block", "42622", "identifier too long")),
            ("a call that is not granted but succeeds", fault(ENQUEUE, "block", None, granted=False)),
            ("a call that is not granted and fails otherwise", fault(ENQUEUE, "block", "22023", 'argument "queue"', granted=False)),
            ("a call that is granted but refused", fault(ENQUEUE, "block", "42501")),
            ("a hang, ended by the timeout", fault(ENQUEUE, "block", "57014")),
            ("a lock that was waited for", fault(ENQUEUE, "autocommit", "55P03")),
            ("a serialization failure in READ COMMITTED", fault(ENQUEUE, "block", "40001")),
            ("25006 where writing is allowed", fault(ENQUEUE, "block", "25006")),
            ("a read-only function that writes", fault(GET, "read only", "25006")),
            ("a function that rejects a transaction block", fault(ENQUEUE, "block", "25001")),
            ("a procedure that rejects autocommit", fault(WAIT, "autocommit", "25001")),
            ("a trigger function that can be called", fault(TRIGGER, "block", None))):
        results.check(wrong, f"the judge finds {label}")
    for label, wrong in (
            ("success", fault(ENQUEUE, "block", None)),
            ("an argument that is named", fault(ENQUEUE, "block", "22003", 'argument "priority" must be between -32768 and 32767, not 40000')),
            ("an argument that the hint names", fault(ENQUEUE, "block", "22023", "no", "Give another priority.")),
            ("a key of a description", fault(SPECS, "block", "22P02", "invalid input syntax", 'key "version"')),
            ("a refusal without a grant", fault(ENQUEUE, "block", "42501", granted=False)),
            ("a timeout of some milliseconds", fault(ENQUEUE, "timeout", "57014")),
            ("a serialization failure", fault(ENQUEUE, "serializable", "40001")),
            ("a key that was enqueued concurrently", fault(SPECS, "block", "40001", "job 7, which has the unique key of an element, was enqueued concurrently")),
            ("a deadlock", fault(ENQUEUE, "block", "40P01")),
            ("a read-only transaction", fault(ENQUEUE, "read only", "25006")),
            ("a procedure in a block", fault(WAIT, "block", "25001")),
            ("a trigger function that is called directly", fault(TRIGGER, "block", "39P01"))):
        results.check(not wrong, f"the judge lets {label} pass", wrong)
    results.equal(_answer(["22023", "no", "", "", 'SQL statement "SELECT f(queue => 1)"'])[2].strip(), "",
                  "the statement itself names no argument")


def draw_values(results):
    for type_name in ("text", "bigint", "interval", "timestamp with time zone", "jsonb", "double precision", "integer[]", "text[]"):
        found = values.nasty(type_name)
        results.check(len(found) > 8 and f"NULL::{type_name}" in found and len(set(found)) == len(found),
                      f"there are nasty values of {type_name}", found[:3])
    results.check(all("(" in value or "::" in value for value in values.nasty("interval")), "each value has its type")
    results.check(values.is_heavy("array_fill(1::bigint, ARRAY[100000])") and not values.is_heavy("('x')::text"),
                  "slow values are known")
    first, again = (stock.Case(ENQUEUE, stock.Stock(), stock.chance_of("7", 3)).values() for _ in range(2))
    results.equal(first, again, "a seed repeats its choices")
    pairs = stock.Case(Function(5, "public", "jobq_complete_many", False, True, "record", True, False, (
        Argument("job_ids", "bigint[]", False), Argument("leases", "bigint[]", False))), stock.Stock(), random.Random(1)).values()
    results.equal(pairs["job_ids"].count(","), pairs["leases"].count(","), "related arrays have the same length")


def make_calls(results):
    results.equal(ENQUEUE.call({"queue": "'q'", "priority": "1"}, True), "SELECT * FROM public.jobq_enqueue('q', 1)",
                  "a positional call")
    results.equal(ENQUEUE.call({"queue": "'q'", "lease": "1"}, True), "SELECT * FROM public.jobq_enqueue(queue => 'q', lease => 1)",
                  "a call that cannot be positional names its arguments")
    results.equal(WAIT.call({"timeout": "'0'"}, False), "CALL public.jobq_wait(timeout => '0')", "a procedure")
    for kind in transactions.NAMES:
        script = transactions.script(kind, "SELECT * FROM f()", "SELECT 1", "x", random.Random(1))
        results.check(script.kind == kind and "f()" in script.parts[0], f"a transaction of kind {kind}", script)
        text = "; ".join(script.parts)
        ended = re.search(r"COMMIT|ROLLBACK", text) is not None
        results.check(ended == ("BEGIN;" in text or "BEGIN " in text and kind != "DO block"), f"it ends: {kind}", text)


def find_useless(results):
    inner = Function(5, "jobq", "round_robin_key_of", False, False, "bigint", False, False, (Argument("key", "text", False),))
    for label, function, succeeded, failed, refused, expected in (
            ("a function that never succeeds", ENQUEUE, 0, 29, 1, "never succeeded"),
            ("a function that never fails", ENQUEUE, 30, 0, 0, "never failed"),
            ("an internal function that never fails", inner, 500, 0, 0, "never failed"),
            ("an internal function that was called too rarely for that", inner, 499, 0, 0, None),
            ("a function that was called too rarely", ENQUEUE, 0, 29, 0, None),
            ("a function that succeeds and fails", ENQUEUE, 1, 99, 0, None),
            ("a function that fails only without the privilege", ENQUEUE, 29, 0, 1, None),
            ("a trigger's function", TRIGGER, 0, 100, 0, None)):
        answers = Counter({(function.name, ""): succeeded, (function.name, "22004"): failed})
        found = verdict.useless([function], answers, Counter({function.name: refused}))
        results.equal(found, [f"{function.name} {expected}"] if expected else [], f"whether a function is tested: {label}")


def main():
    results = Results("verdict_test")
    judge_answers(results)
    draw_values(results)
    make_calls(results)
    find_useless(results)
    results.finish()


if __name__ == "__main__":
    main()
