"""Compares the totals of jobq_metrics with each committed version of each job, as the witness saw it."""

from collections import Counter

from world import FINISHED

TOLD = """
SELECT sum(value) FILTER (WHERE name = 'jobq_jobs_enqueued_total') AS enqueued,
       sum(value) FILTER (WHERE name = 'jobq_jobs_deleted_total') AS deleted,
       sum(value) FILTER (WHERE name = 'jobq_jobs_claimed_total') AS claimed,
       sum(value) FILTER (WHERE name = 'jobq_attempts_ended_total') AS ended,
       sum(value) FILTER (WHERE name = 'jobq_attempts_ended_total' AND labels->>'outcome' = 'lost') AS "ended lost",
       sum(value) FILTER (WHERE name = 'jobq_attempts_ended_total' AND labels->>'outcome' = 'failed') AS "ended failed",
       sum(value) FILTER (WHERE name = 'jobq_jobs_completed_total') AS completed,
       sum(value) FILTER (WHERE name = 'jobq_jobs_failed_total') AS failed,
       sum(value) FILTER (WHERE name IN ('jobq_jobs_cancelled_total', 'jobq_jobs_dropped_total', 'jobq_jobs_expired_total')) AS cancelled,
       sum(value) FILTER (WHERE name = 'jobq_jobs_retried_total') AS retried,
       sum(value) FILTER (WHERE name = 'jobq_job_wait_seconds_count') AS waited,
       sum(value) FILTER (WHERE name = 'jobq_job_run_seconds_count') AS ran,
       sum(value) FILTER (WHERE name = 'jobq_missed_transactions_total') AS missed
FROM jobq_metrics()
"""


def told(conn):
    """The totals of jobq_metrics, summed up over all queues and kinds."""
    cursor = conn.execute(TOLD)
    return {column.name: value or 0 for column, value in zip(cursor.description, cursor.fetchone())}


def happened(world):
    totals = Counter()
    for step in world.steps:
        before, after = step.statuses()
        ran, runs = before == "processing", after == "processing"
        totals["enqueued"] += before is None
        totals["deleted"] += after is None
        totals["claimed"] += runs and not ran
        totals["ended"] += ran and not runs
        # A job that is completed and not kept is deleted at once. No other transaction deletes a running job.
        totals["completed"] += after == "completed" != before or (ran and after is None)
        totals["failed"] += after == "failed" != before
        totals["cancelled"] += after == "cancelled" != before
        totals["retried"] += before in FINISHED and after is not None and after not in FINISHED
    recorded = Counter(change.row.outcome for change in world.attempts if not change.deleted)
    totals["ended lost"], totals["ended failed"] = recorded["lost"], recorded["failed"]
    return totals


def compare(world, says, report):
    for name, number in sorted(happened(world).items()):
        if says[name] != number:
            report.add("totals", f"{name}: {says[name]:.0f}, but it happened {number} times")
    for name in ("waited", "ran"):
        if says[name] > says["claimed"]:
            report.add("totals", f"{says[name]:.0f} jobs have {name}, and {says['claimed']:.0f} were claimed")
    if says["missed"]:
        report.add("totals", f"{says['missed']:.0f} transactions are missing in the totals")
