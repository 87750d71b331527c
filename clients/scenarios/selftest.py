"""Checks that the scenarios find defects. Each defect below is planted into the Python worker, and the scenario next to it must
fail, within a time limit under which the unchanged worker passes."""

from dataclasses import replace
from pathlib import Path

import psycopg

LIMIT = 20
# The defects in planted.py, each with the scenario that must find it.
DEFECTS = {
    "no_heartbeats": "heartbeat",
    "heartbeats_end_with_term": "term",
    "no_cover": "blocked",
    "cover_outlives": "kill_heartbeat",
    "blind_completion": "lost_deaf",
    "blind_transfer": "lost_transfer",
    "loose_transfer": "transfer",
    "deaf_to_cancel": "cancel",
    "deaf_to_loss": "lost",
    "greedy": "slots",
    "one_by_one": "batch",
    "any_kind": "unknown_kind",
    "claims_after_term": "term",
    "ignores_term": "term_idle",
    "ignores_second_term": "term_twice",
    "fails_instead_of_release": "term_grace",
    "waits_for_handlers": "term_deaf",
    "forgets_report": "outage",
    "never_reconnects": "server_restart",
    "repeats_steps": "steps",
    "no_progress": "progress",
    "fails_for_good_twice": "retries",
    "snoozes_by_failing": "snooze",
    "any_option": "errors",
    "cuts_payloads": "large",
    "reports_anything": "echo",
    "reads_all_at_once": "unreadable",
    "repeats_refused_progress": "refused",
}


def selftest(runs, scenarios, programs):
    """Plays the scenarios with the defects that they must find."""
    python = next(program for program in programs if program.name == "python")
    by_name = {scenario.name: scenario for scenario in scenarios}
    runs.limit = LIMIT
    defects = {defect: name for defect, name in DEFECTS.items() if name in by_name}
    runs.play([(python, by_name[name], "direct") for name in sorted(set(defects.values()))])
    controls = {name for (_, name, _), wrong in runs.results.items() if wrong is None}
    planted = [(replace(python, name=defect, directory=Path(__file__).parent, command=["/usr/bin/python3", "planted.py", defect]),
                by_name[name], "direct") for defect, name in defects.items()]
    with psycopg.connect(dbname="work", autocommit=True) as connection:   # a worker that completes jobs under any lease must be
                                                                          # able to see the leases
        connection.execute("GRANT USAGE ON SCHEMA jobq TO workers; GRANT SELECT ON jobq.jobs TO workers")
    print("# what follows must fail")
    runs.play(planted)
    passed = failed = 0
    for defect, name in defects.items():
        found = runs.results[defect, name, "direct"] is not None and name in controls
        passed, failed = passed + found, failed + (not found)
        print(f"{'ok' if found else 'not ok'} - planted: {defect}: found by {name}")
    unnamed = sorted(set(by_name) - set(DEFECTS.values()))
    print(f"# scenarios that no defect was planted for: {', '.join(unnamed)}")
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0
