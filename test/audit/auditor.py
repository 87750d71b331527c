"""Runs `jobq audit` beside a load, as an operator would, and returns what it has reported."""

import json
import os
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from contextlib import contextmanager

import library
from support import wait_until

BEGUN = "the audit has begun"
MOMENT = 300     # seconds: how long it may take to begin, and to judge the last changes, on a busy machine


class Audit:
    """What a run of the program has reported. The fields are set when it has ended."""

    pid = None
    found = Counter()       # law: number of violations
    reports = ()            # the reports, as objects of JSON
    status = None           # the exit status
    said = ""               # the other messages


@contextmanager
def beside(database, *options):
    audit = Audit()
    environment = {**os.environ, "PYTHONPATH": library.SOURCE, "PYTHONDONTWRITEBYTECODE": "1"}
    with tempfile.TemporaryFile("w+") as reports, tempfile.TemporaryFile("w+") as messages:
        # The child gets the signal only from us, not from the terminal.
        child = subprocess.Popen([sys.executable, "-m", "jobq", "audit", "--json", "--interval", "1", "--dsn", f"dbname={database}", *options],
                                 env=environment, stdout=reports, stderr=messages, start_new_session=True)
        try:
            if not wait_until(lambda: child.poll() is not None or BEGUN in _text(messages), MOMENT):
                raise RuntimeError(f"jobq audit does not begin: {_text(messages)}")
            audit.pid = child.pid
            yield audit
            child.send_signal(signal.SIGINT)
            audit.status = child.wait(MOMENT)
        finally:
            child.kill()
            child.wait()
            audit.said = _text(messages)
            audit.reports = [json.loads(line) for line in _text(reports).splitlines()]
            audit.found = Counter(report["law"] for report in audit.reports)


def _text(file):
    file.flush()
    with open(f"/proc/self/fd/{file.fileno()}", encoding="utf-8") as again:     # at a position of its own
        return again.read()
