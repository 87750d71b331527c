"""Decides whether an answer is permitted. Has no connection.

Permitted are the errors that docs/reference/conventions.md documents and the general errors of the server.
"""

import os
import re

import transactions

# Known internal errors, by message. Each entry should be fixed.
EXCUSED = ()

# Errors that the server can raise for any statement: deadlocks, which the reference explains.
SERVER = ("40P01",)
# Errors that only triggers and constraints of users cause.
SOMEBODYS = {"09000", "27000", "0A000"}
# These SQLSTATEs concern an argument, so the message must name the argument.
NAMES_ARGUMENT = re.compile("22...|42602|42622|54000")
TRIGGER = "39P01"


def documented(path=None):
    """The SQLSTATEs in the table of errors."""
    path = path or os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "docs", "reference", "conventions.md")
    with open(path, encoding="utf-8") as file:
        text = file.read()
    table = text.split("\n## Errors\n", 1)[1].split("\n## ", 1)[0]
    found = set(re.findall(r"^\| ([0-9A-Z]{5}) \|", table, re.MULTILINE))
    if len(found) < 10:
        raise ValueError("docs/reference/conventions.md no longer has a table of errors")
    return found


class Judge:
    def __init__(self, allowed):
        self.allowed = allowed

    def fault(self, function, granted, kind, sqlstate, message, more=""):
        """Returns what is wrong with this answer, or None if nothing is. sqlstate None: the call succeeded.

        `more`: the fields of the error besides its message.
        """
        if not granted:
            if sqlstate in ("42501",) + transactions.KINDS[kind][1]:
                return None
            return f"not granted, but the answer is {sqlstate or 'without an error'}"
        if sqlstate is None:
            return "a trigger function was called directly" if function.trigger else None
        if sqlstate.startswith("XX"):
            return None if message in EXCUSED else "internal error"
        # jobq_spawn also requires the privileges of a producer. A job with the same key may have appeared in any kind of
        # transaction.
        if function.name == "jobq_spawn" and sqlstate == "42501" and "jobq_enqueue_jobs" in message:
            return None
        # A new payload requires the privileges of a producer. The answer may come from the second call of a transaction.
        if sqlstate == "42501" and message.startswith("permission denied to change the payload of job"):
            return None
        if sqlstate == "22023" and message.startswith('argument "batch_id" names batch'):
            return None
        if function.name in ("jobq_spawn", "jobq_enqueue_jobs") and sqlstate == "40001" and "has the unique key of an element" in message:
            return None
        if sqlstate == "42501":
            # The role is one that the caller names or is itself; whether it may run a handler is a separate check.
            about_role = function.named("run_as") and re.search('role ".*"', message)
            return None if about_role else "granted, but refused"
        if sqlstate == "25001" and function.procedure:
            return "25001 in autocommit" if kind == "autocommit" else None
        if sqlstate == "25006" and not function.volatile:
            return "25006: it writes but is not VOLATILE"
        if sqlstate in ("25001", "40001", "25006", "57014", "55P03") and sqlstate not in transactions.KINDS[kind][1]:
            return f"{sqlstate} in a transaction of kind {kind}"
        if sqlstate == TRIGGER and function.trigger:
            return None
        if sqlstate in SERVER or sqlstate in transactions.KINDS[kind][1]:
            return None
        if sqlstate not in self.allowed:
            return f"undocumented SQLSTATE {sqlstate}"
        if NAMES_ARGUMENT.match(sqlstate) and not self._names(function, message + " " + more):
            return "the message names no argument"
        return None

    @staticmethod
    def _names(function, text):
        if any(re.search(rf"\b{re.escape(argument.name)}\b", text) for argument in function.arguments):
            return True
        # The keys in an array of descriptions are like arguments.
        return function.named("specs") and re.search(r'(argument|key) "\w+"', text) is not None


# The minimum number of calls to a function of which some must succeed and some must fail. With fewer calls, neither is certain. A
# run of 10,000 calls makes about 40 to 600 calls to each. Public functions reject NULL, which always occurs; the internal functions
# of jobq mostly accept anything and fail only for a role without the privilege, once in thirty calls.
ENOUGH, ENOUGH_REFUSED = 30, 500


def useless(functions, answers, refused):
    """Functions that never succeeded or never failed, so that they are not really tested."""
    found = []
    for function in functions:
        succeeded = answers[function.name, ""]
        failed = refused[function.name] + sum(
            count for (name, sqlstate), count in answers.items() if name == function.name and sqlstate)
        calls = succeeded + failed
        if calls >= ENOUGH and not succeeded and not function.trigger:
            found.append(f"{function.name} never succeeded")
        # The other functions have nothing that could fail.
        may_fail = function.arguments and not function.for_everybody
        if calls >= (ENOUGH if function.schema == "public" else ENOUGH_REFUSED) and not failed and may_fail:
            found.append(f"{function.name} never failed")
    return found
