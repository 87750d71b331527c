"""Finds what must not occur in the server's log: crashes, assertions, internal errors, and duties that failed.

JOBQ_FUZZ_LOG names the log of the server, whose log_line_prefix must be '%m [%p] %b %e '.
"""

import os
import re

FATAL = re.compile(r"PANIC:|TRAP:|was terminated by signal|\(PID \d+\) exited with exit code|stack smashing|invalid memory alloc"
                   r"|could not open relation with OID| XX\d{3} [A-Z]+:")
# For a background worker of jobq, everything above LOG counts.
DUTY = re.compile(r" jobq [a-z ]*?([0-9A-Z]{5}) (ERROR|FATAL|WARNING):")
# The server terminates workers when it stops, and so does DROP DATABASE ... FORCE; no canary terminates a worker.
ENDED = ("57P01",)


class ServerLog:
    """The log from its current position on."""

    def __init__(self):
        self.path = os.environ.get("JOBQ_FUZZ_LOG")
        self.forget()

    def forget(self):
        """The lines that have been logged since."""
        self.begin = os.path.getsize(self.path) if self.path else 0

    def lines(self):
        if not self.path:
            return []
        with open(self.path, encoding="utf-8", errors="replace") as file:
            file.seek(self.begin)
            lines = file.read().splitlines()
        # Lines that a client sent may contain anything.
        return [line for line in lines if re.match(r"\d{4}-", line) and " STATEMENT:  " not in line]

    def culprits(self):
        """The statements of the processes that crashed."""
        return [line[:2000] for line in self.lines() if "Failed process was running" in line]

    def faults(self, duties=True, excused=()):
        found = []
        for line in self.lines():
            duty = DUTY.search(line) if duties else None
            if not FATAL.search(line) and (duty is None or duty.group(1) in ENDED):
                continue
            if not any(message in line for message in excused):
                found.append(line[:300])
        return found
