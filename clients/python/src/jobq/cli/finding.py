"""What the checks of doctor have in common: their results, and what they know about the database."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Callable, Iterator, NamedTuple, Optional, Tuple

from .database import Connection

OK, WARNING, PROBLEM = "ok", "warning", "problem"
MONITOR = "Run the command with a role that has the profile monitor, or operator for all queues."
Result = Tuple[str, str, str]   # level, message, advice


class Finding(NamedTuple):
    level: str
    check: str
    message: str
    advice: str


@dataclass
class Facts:
    """What earlier checks have found out."""
    connection: Connection
    schema: Optional[str] = None   # the schema of the functions; None while the extension has not been found
    lists_workers: bool = True   # false if jobq.workers is known to be empty


@dataclass(frozen=True)
class Check:
    name: str
    run: Callable[[Facts], Iterator[Result]]
    needs_jobq: bool = True
    needs: str = MONITOR   # advice if the check fails for lack of a privilege
