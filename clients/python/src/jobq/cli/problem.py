"""An error that ends the command with one line on standard error."""

from __future__ import annotations

import sys

from .output import printable


class Problem(Exception):
    def __init__(self, message: str, status: int = 1) -> None:
        super().__init__(message)
        self.status = status


def complain(message: str) -> None:
    sys.stdout.flush()
    print(f"jobq: {printable(' '.join(message.split()))}", file=sys.stderr, flush=True)
