"""Tests that the laws find violations in handwritten histories, and nothing in correct ones. Needs no server."""

import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "..", "test", "audit"))
import cluster_laws as laws  # noqa: E402
from checker import Effect  # noqa: E402
from history import Event, Item  # noqa: E402
from support import Results  # noqa: E402


def history(*lines):
    return [Event(time, who, number, op, phase, items, "") for time, who, number, op, phase, items in lines]


def two_of_a_group(second_given):
    """Job 1, then job 2 of a group; job 1 is done by a call that began at 5."""
    return history((1, "p0", 1, "enqueue", "invoke", [Item("p0.1")]), (1.1, "p0", 1, "enqueue", "ok", [Item("p0.1", 1)]),
                   (2, "p0", 2, "enqueue", "invoke", [Item("p0.2")]), (2.1, "p0", 2, "enqueue", "ok", [Item("p0.2", 2)]),
                   (3, "w0", 1, "claim", "invoke", []), (3.1, "w0", 1, "claim", "ok", [Item("p0.1", 1, 7, 1)]),
                   (second_given - 0.1, "w1", 1, "claim", "invoke", []), (second_given, "w1", 1, "claim", "ok", [Item("p0.2", 2, 8, 1)]),
                   (5, "w0", 2, "complete", "invoke", [Item("p0.1", 1, 7)]), (5.2, "w0", 2, "complete", "ok", [Item("p0.1", 1, 7)]))


def main(results):
    effects = [Effect(1, 7, "p0.1", "w0", 2)]
    groups = [(1, "p0.1", "g"), (2, "p0.2", "g")]
    results.equal(laws.out_of_order(sorted(two_of_a_group(5.1), key=lambda e: e.time), effects, groups), [], "in order")
    results.equal(len(laws.out_of_order(sorted(two_of_a_group(4.9), key=lambda e: e.time), effects, groups)), 1, "a second job too early")
    for number, found, what in ((2, 1, "the second's"), (1, 0, "the first's")):
        unknown = [event._replace(phase="unknown") if (event.op, event.number, event.phase) == ("enqueue", number, "ok") else event
                   for event in two_of_a_group(4.9)]
        results.equal(len(laws.out_of_order(sorted(unknown, key=lambda e: e.time), effects, groups)), found, f"{what} enqueue was not answered")
    results.equal(laws.out_of_order(sorted(two_of_a_group(4.9), key=lambda e: e.time), effects, [(1, "p0.1", "g"), (2, "p0.2", "h")]), [],
                  "another group need not wait")
    results.equal(laws.held_twice([("q", "k", 1, 1, 2), ("q", "k", 2, 3, 4), ("q", "l", 3, 1, 9), ("r", "k", 4, 1, 9)]), [], "two jobs had the key one after the other")
    results.equal(len(laws.held_twice([("q", "k", 1, 1, 3), ("q", "k", 2, 2, 4)])), 1, "two jobs had the key at the same time")
    results.equal(len(laws.held_twice([("q", "k", 1, 1, None), ("q", "k", 2, 2, 4)])), 1, "two jobs have the key, one of which has not finished")
    shared = history((1, "p0", 1, "once", "invoke", [Item("u1")]), (2, "p0", 1, "once", "ok", [Item("u1", 5)]))
    results.equal(laws.lost_under_keys(shared, {5: "completed"}), [], "an acknowledged job has completed")
    results.equal(len(laws.lost_under_keys(shared, {})), 1, "an acknowledged job is gone")
    results.equal(len(laws.lost_under_keys(shared, {5: "pending"})), 1, "one waits")


if __name__ == "__main__":
    outcome = Results("laws of a cluster")
    main(outcome)
    outcome.finish()
