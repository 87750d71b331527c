"""The command doctor: checks the installation, the server, and the queues."""

from __future__ import annotations

import argparse
from typing import Iterator, List

import psycopg

from . import doctor_queues, doctor_server, doctor_setup
from .command import Commands
from .database import connected, message_of
from .finding import PROBLEM, WARNING, Check, Facts, Finding
from .output import json_array, printable

CHECKS = (*doctor_setup.CHECKS, *doctor_server.CHECKS, *doctor_queues.CHECKS)


def add(commands: Commands) -> None:
    commands.add("doctor", run, "check the installation, the server, and the queues", (
        "Prints ok, warning, or problem for each check, and what to do. The exit status is 0 if there is no problem, 1 if there is one, and 2 if the "
        "program could not connect. Run the command as the role whose grants it should check. A role without the profile monitor or operator cannot "
        "check the queues, and a role that is not a member of pg_monitor cannot see the transactions of other roles."))


def run(args: argparse.Namespace) -> int:
    with connected(args.dsn, "doctor") as connection:
        findings = list(examine(Facts(connection)))
    if args.json:
        print(json_array(finding._asdict() for finding in findings))
    else:
        print("\n".join(line for finding in findings for line in lines(finding)))
    return 1 if any(finding.level == PROBLEM for finding in findings) else 0


def examine(facts: Facts) -> Iterator[Finding]:
    """Runs the checks. Without the extension, only the checks of the server can run."""
    for check in CHECKS:
        if facts.schema is None and check.needs_jobq:
            continue
        yield from _run(check, facts)


def _run(check: Check, facts: Facts) -> Iterator[Finding]:
    found: List[Finding] = []
    try:
        found.extend(Finding(level, check.name, message, advice) for level, message, advice in check.run(facts))
    except psycopg.Error as error:
        if facts.connection.closed:
            raise
        found.append(Finding(WARNING, check.name, f"could not be checked: {message_of(error)}", check.needs))
    yield from found


def lines(finding: Finding) -> Iterator[str]:
    yield f"{finding.level:<8} {finding.check:<13} {printable(finding.message)}"
    if finding.advice:
        yield f"{'':<22} {printable(finding.advice)}"
