"""Whether an answer may be. Has no connection.

What may be answered is what docs/reference.md documents, what the server says to anybody, and nothing else.
"""

import os
import re

import transactions

# Internal errors that are known, by their message. A name here is a debt.
EXCUSED = ()

# The server's own, of anybody's statement: deadlocks, which the reference explains.
SERVER = ("40P01",)
# What only somebody's triggers and constraints on jobq's tables bring about.
SOMEBODYS = {"09000", "27000", "0A000"}
# These tell of an argument, so they must say of which.
NAMES_ARGUMENT = re.compile("22...|42602|42622|54000")
TRIGGER = "39P01"


def documented(path=None):
    """The SQLSTATEs in the table of errors."""
    path = path or os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "docs", "reference.md")
    with open(path, encoding="utf-8") as file:
        text = file.read()
    table = text.split("\n## Errors\n", 1)[1].split("\n## ", 1)[0]
    found = set(re.findall(r"^\| ([0-9A-Z]{5}) \|", table, re.MULTILINE))
    if len(found) < 10:
        raise ValueError("docs/reference.md has no table of errors any more")
    return found


class Judge:
    def __init__(self, allowed):
        self.allowed = allowed

    def fault(self, function, granted, kind, sqlstate, message, more=""):
        """What is wrong with this answer; None when nothing is. sqlstate None: the call succeeded.

        `more`: what the error says beside its message.
        """
        if not granted:
            if sqlstate in ("42501",) + transactions.KINDS[kind][1]:
                return None
            return f"not granted, but answered {sqlstate or 'without an error'}"
        if sqlstate is None:
            return "a trigger's function was called by hand" if function.trigger else None
        if sqlstate.startswith("XX"):
            return None if message in EXCUSED else "internal error"
        # Who spawns must be a producer, too; and the job that has a key may have come, or be gone, in any kind of transaction.
        if function.name == "jobq_spawn" and sqlstate == "42501" and "jobq_enqueue_jobs" in message:
            return None
        if function.name in ("jobq_spawn", "jobq_enqueue_jobs") and sqlstate == "40001" and "the unique key" in message:
            return None
        if sqlstate == "42501":
            # Of a role that the caller names, or is: whether it may run a handler is another question.
            about_role = function.named("run_as") and re.search('role ".*"', message)
            return None if about_role else "granted, but refused"
        if sqlstate == "25001" and function.procedure:
            return "25001 in autocommit" if kind == "autocommit" else None
        if sqlstate == "25006" and not function.volatile:
            return "25006: it writes, and is not VOLATILE"
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
        # Of an array of descriptions the keys are arguments.
        return function.named("specs") and re.search(r'(argument|key) "\w+"', text) is not None


# Calls of a function, of which some must succeed and some fail. Of fewer none may have been of the kind. A run of 10,000 makes
# some 40 to 600 calls of each. Those for users refuse NULL, which is among the calls in any case; jobq's own mostly take
# anything, and fail for a role without the right only, one call in thirty.
ENOUGH, ENOUGH_REFUSED = 30, 500


def useless(functions, answers, refused):
    """Functions that never succeeded, or never failed: nobody attacks them."""
    found = []
    for function in functions:
        succeeded = answers[function.name, ""]
        failed = refused[function.name] + sum(
            count for (name, sqlstate), count in answers.items() if name == function.name and sqlstate)
        calls = succeeded + failed
        if calls >= ENOUGH and not succeeded and not function.trigger:
            found.append(f"{function.name} never succeeded")
        # There is nothing that could be wrong with a call of the others.
        may_fail = function.arguments and not function.for_everybody
        if calls >= (ENOUGH if function.schema == "public" else ENOUGH_REFUSED) and not failed and may_fail:
            found.append(f"{function.name} never failed")
    return found
