#!/usr/bin/env python3
"""The Python worker with a defect, which the argument names. For selftest.py: each defect is a mistake that a developer might
make."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "python"))
sys.path.insert(0, str(Path(__file__).parent.parent / "python" / "src"))

import scenario_worker  # noqa: E402
from jobq import base, core, cover, hand, job, options, outcome, statements, worker  # noqa: E402

DEFECT = sys.argv.pop(1)


if DEFECT == "no_heartbeats":
    core.Core._heartbeat = lambda self, beat: None
elif DEFECT == "heartbeats_end_with_term":
    due = hand.Hand._take_due
    hand.Hand._take_due = lambda self, now: ([], []) if self.stop_at is not None else due(self, now)
elif DEFECT == "no_cover":
    cover.Cover.start = lambda self: None
elif DEFECT == "cover_outlives":
    # Runs the heartbeat process with a fake parent process ID.
    cover.COMMAND[3:] = ["-c", f"import os; parent = os.getppid(); os.getppid = lambda: parent; __file__ = {cover.__file__!r}; "
                               "exec(compile(open(__file__).read(), __file__, 'exec'))"]
elif DEFECT == "blind_completion":
    # Removes the lease from the table, and ignores the answers to heartbeats.
    hand.Hand.lost = lambda self, job, state: None
    statements.COMPLETE_AND_CLAIM = statements.COMPLETE_AND_CLAIM.replace(
        "%(leases)s::bigint[]", "(SELECT array_agg(lease) FROM jobq.jobs WHERE id = ANY (%(ids)s::bigint[]))")
elif DEFECT == "blind_transfer":
    statements.COMPLETE_HELD = statements.COMPLETE_HELD.replace("must_hold => true", "must_hold => false")
elif DEFECT == "loose_transfer":
    # Runs without a transaction, so writes of a handler that raises are not rolled back.
    worker.psycopg.Connection.transaction = lambda self, *_, **__: worker.contextlib.nullcontext()
elif DEFECT == "deaf_to_cancel":
    job.BaseJob.stop = lambda self, reason: None
elif DEFECT == "deaf_to_loss":
    stop = job.BaseJob.stop
    job.BaseJob.stop = lambda self, reason: None if reason == "lost" else stop(self, reason)
elif DEFECT == "greedy":
    claim = core.Core._claim
    core.Core._claim = lambda self, completions, room: claim(self, completions, room + 2)
elif DEFECT == "one_by_one":
    claim = core.Core._claim
    core.Core._claim = lambda self, completions, room: claim(self, completions, 1)
elif DEFECT == "any_kind":
    parameters = statements.claim_parameters
    statements.claim_parameters = lambda options, kinds, batch: {**parameters(options, kinds, batch), "kinds": None}
elif DEFECT == "claims_after_term":
    next_claim = hand.Hand.next_claim

    def claim_on(self):
        with self.changed:
            if self.stop_at is not None and self.jobs:
                return [], 1
        return next_claim(self)

    hand.Hand.next_claim = claim_on
    hand.Hand.slots = property(lambda self: 5, lambda self, _: None)
    hand.Hand.claimed = lambda self, job: (self.jobs.update({job.lease: job}), self.running.add(job.lease), True)[2]
elif DEFECT == "ignores_term":
    # Sets the flag only, and does not wake the wait.
    core.Core._wake = lambda self: None
    hand.LAST_REPORTS = 3600.0
    base.LAST_REPORTS = 3600.0
elif DEFECT == "ignores_second_term":
    stop = hand.Hand.stop
    hand.Hand.stop = lambda self: True if self.stop_at is not None else stop(self)
elif DEFECT == "fails_instead_of_release":
    hand.RELEASE = outcome.FAIL
    outcome.RELEASE = outcome.FAIL
elif DEFECT == "waits_for_handlers":
    hand.LAST_LOOK = 3600.0
    base.LAST_LOOK = 3600.0
elif DEFECT == "forgets_report":
    hand.Hand.not_reported = lambda self, reports, **_: self.reported([job for job, _ in reports])
elif DEFECT == "never_reconnects":
    core._Line.reconnect = lambda self: self.core.hand.rest(3600)
elif DEFECT == "repeats_steps":
    statements.STEP = "SELECT 'run', NULL::jsonb FROM (SELECT %s::bigint, %s::bigint, %s::text) AS of"
    statements.STEP_DONE = "SELECT 'saved', result FROM (SELECT %s::bigint, %s::bigint, %s::text, %s::jsonb AS result) AS of"
elif DEFECT == "no_progress":
    job.BaseJob.take_progress = lambda self: None
elif DEFECT == "fails_for_good_twice":
    statements.FAIL = statements.FAIL.replace("%s::boolean", "(%s::boolean OR true)")
elif DEFECT == "snoozes_by_failing":
    outcome.SNOOZE = outcome.FAIL
elif DEFECT == "any_option":
    options._checked = lambda name, value: value
elif DEFECT == "cuts_payloads":
    as_json = statements.as_json
    outcome.as_json = lambda value: as_json({key: text[:100000] if isinstance(text, str) else text for key, text in value.items()}
                                            if isinstance(value, dict) else value)
elif DEFECT == "reports_anything":
    outcome.as_json = lambda value: "true"
elif DEFECT == "reads_all_at_once":
    core.set_json_loads = lambda *_: None
elif DEFECT == "repeats_refused_progress":
    # Ignores errors and lets the next round try again. Until the progress is accepted, its job has no other heartbeat.
    with_progress, together, heard = core.Core._heartbeat_with_progress, core.Core._heartbeat_together, core.Core._heard

    def insist(self, one):
        one.taken = False
        with_progress(self, one)
        one.progress_is_new = not one.taken

    def hear(self, one, state):
        one.taken = True
        heard(self, one, state)

    core.Core._heartbeat_with_progress, core.Core._heard = insist, hear
    core.Core._heartbeat_together = lambda self, jobs: together(self, [one for one in jobs if not one.progress_is_new])
else:
    sys.exit(f"planted.py: no such defect: {DEFECT}")

scenario_worker.main()
