"""Tests that examples.py notices errors on a page and nothing else. Needs the same server."""
import contextlib
import io
import os
import sys

import examples
import functions

ENQUEUED = "=> SELECT jobq_enqueue('a');\n jobq_enqueue \n--------------\n            1\n"
CLAIMED = "=> SELECT id, lease FROM jobq_claim('a');\n id |      lease       \n----+------------------\n  1 | 4264994705110431\n"
# The contents of a page, and the number of wrong examples.
PAGES = {
    "what is right": (f"```\n{ENQUEUED}\n{CLAIMED}\n"
                      "=> SELECT jobq_complete(1, 4264994705110431);\n jobq_complete \n---------------\n t\n```\n"
                      "```\n=> SELECT run_at FROM jobq_get(1);\n            run_at\n------\n 2026-11-22 10:44:57.401372+00\n```\n", 0),
    "another value": (f"```\n{ENQUEUED.replace('1', '2')}```\n", 1),
    "no output": ("```\n=> SELECT jobq_enqueue('a');\n```\n", 1),
    "an output too many": ("```\n=> SELECT jobq_create_queue('a');\n done\n```\n", 1),
    "another lease than the one shown": (f"```\n{ENQUEUED}\n{CLAIMED}\n=> SELECT jobq_complete(1, 4264994705110432);\n"
                                         " jobq_complete \n---------------\n t\n```\n", 1),
    "another error": ("```\n=> SELECT jobq_enqueue('');\nERROR:  argument \"queue\" is wrong\n```\n", 1),
    "no row is not an empty value": ("```\n=> SELECT id FROM jobq_claim('a');\n```\n", 1),
    "an error that is not shown": ("```sql\nSELECT jobq_enqueue(1, 2);\n```\n", 1),
    "another default": ("```\njobq_wake(worker_id text = 'w') → int\n```\n", 1),
    "another result": ("```\njobq_wake(worker_id text) → bigint\n```\n", 1),
    "no result": ("```\njobq_wake(worker_id text)\n```\n", 1),
    "as another function": ("```\njobq_resume_queue(queue text, ... as jobq_pause_queue) → as jobq_pause_queue\n```\n", 0),
    "not as another function": ("```\njobq_resume_queue(queue text, ... as jobq_drop_queue) → boolean\n"
                                "jobq_resume_queue(queue text) → as jobq_version\n```\n", 2),
    "a notification that does not come": ("```\n=> LISTEN jobq;\nAsynchronous notification \"jobq\" received.\n```\n", 1),
    "a fence that is no example": ("```\nanything\n```\n", 1),
    "a skip without a reason": ("<!-- docs-check: skip -->\n```sql\nSELECT;\n```\n", 1),
    "what it needs fails": ("<!-- docs-check: run SELECT 1/0; -->\n", 1),
    "a program that does nothing": ("<!-- docs-check: until SELECT false -->\n```bash\nsleep 60\n```\n", 1),
    "a command that says something else": ("```\n$ echo this\nthat\n```\n", 1),
}
# A reference, changes that make it wrong, and the contents of the catalog.
REFERENCE = """
| **workers** | | |
| [`jobq_a`](workers.md#jobq_a) | does a, or `b` | operators |
| **the owner of the extension** | | |
| [`jobq_c`](administration.md#jobq_c) | does c | |
## jobq_a

```
jobq_a(b int) → int
```
## jobq_c

```
CALL jobq_c()
```
"""
CATALOGUE = {"jobq_a": "workers, operators", "jobq_c": ""}
UNLIKE = (("`jobq_a`](workers.md#jobq_a", "`jobq_b`](workers.md#jobq_b"), (" operators |", "|"), ("| **the owner of the extension** | | |\n", ""),
          ("CALL jobq_c", "CALL jobq_a"), ("## jobq_c", "### jobq_c"))


def functions_are_found():
    failed = list(functions.faults(REFERENCE, CATALOGUE))
    for there, instead in UNLIKE:
        if not list(functions.faults(REFERENCE.replace(there, instead), CATALOGUE)):
            failed.append(f"{instead} instead of {there} is not found")
    for fault in failed:
        print(f"not ok - examples_test: {fault}")
    return len(failed)


def main():
    examples.prepare()
    examples.PATIENCE, examples.LONGEST = 0.2, 1
    root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    failed = functions_are_found()
    for name, (text, wrong) in PAGES.items():
        said = io.StringIO()
        with contextlib.redirect_stdout(said):
            run = examples.Run(name, text, root)
            run.run()
        if run.failed != wrong:
            failed += 1
            print(f"not ok - examples_test: {name}: {run.failed} found, not {wrong}\n{said.getvalue()}")
    print(f"{len(PAGES) + 1 + len(UNLIKE) - failed} passed, {failed} failed")
    sys.exit(failed > 0)


if __name__ == "__main__":
    main()
