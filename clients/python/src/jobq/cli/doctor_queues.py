"""Checks of the queues: jobs that no worker takes, and queues that are paused."""

from __future__ import annotations

from typing import Iterator

from .database import rows
from .finding import OK, PROBLEM, WARNING, Check, Facts, Result
from .stats import queue_stats

# A program that does not describe itself is not in jobq.workers, so a queue from which jobs are claimed has a worker.
UNSERVED = """
SELECT s.queue, s.pending FROM jobq.queue_stats s
WHERE s.pending > 0 AND s.processing = 0 AND NOT s.paused AND coalesce(s.claimed_per_second, 0) = 0
  AND NOT EXISTS (SELECT FROM jobq.workers w WHERE s.queue = ANY (w.queues))
  AND NOT EXISTS (SELECT FROM jobq.workers w, jsonb_array_elements_text(w.info->'patterns') p WHERE s.queue LIKE p)
  AND NOT EXISTS (SELECT FROM jobq.handlers h WHERE h.queue = s.queue)
ORDER BY s.pending DESC, s.queue LIMIT 20"""


def workers(facts: Facts) -> Iterator[Result]:
    if not facts.lists_workers:
        yield WARNING, "the connected workers are unknown, because no launcher of jobq runs", ""
        return
    found = rows(facts.connection, UNSERVED)
    for row in found:
        yield PROBLEM, f'queue "{row["queue"]}" has pending jobs ({row["pending"]}), but no worker of the queue is connected', \
            f'Start a worker. To find out more, run jobq explain --queue "{row["queue"]}".'
    if not found:
        yield OK, "every queue with pending jobs has a worker", ""


def paused(facts: Facts) -> Iterator[Result]:
    found = [row["queue"] for row in queue_stats(facts.connection, []) if row["paused"]]
    for queue in found:
        yield WARNING, f'queue "{queue}" is paused', f'When its jobs should run again, run jobq resume "{queue}".'
    if not found:
        yield OK, "no queue is paused", ""


CHECKS = (Check("workers", workers), Check("paused", paused))
