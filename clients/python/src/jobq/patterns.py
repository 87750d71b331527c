"""Patterns of queue names, with the syntax of LIKE. Needs no server."""

from __future__ import annotations

import re
from typing import Mapping, Optional

_WILDCARDS = {"%": ".*", "_": "."}


def is_pattern(text: str) -> bool:
    """Returns False if the server would reject the pattern because its last backslash precedes no character."""
    return re.fullmatch(r"(?:\\.|[^\\])*", text, re.DOTALL) is not None


def _regex_of(pattern: str) -> re.Pattern[str]:
    return re.compile("".join(_WILDCARDS.get(part) or re.escape(part[-1]) for part in re.findall(r"\\.|.", pattern, re.DOTALL)), re.DOTALL)


class Patterns:
    """slots: the maximum number of running jobs of each queue that a pattern matches."""

    def __init__(self, slots: Mapping[str, int]) -> None:
        self.slots = [(_regex_of(pattern), most) for pattern, most in slots.items()]

    def slots_of(self, queue: str) -> Optional[int]:
        """Returns the slots of the first pattern that matches the queue, as the server does, or None if no pattern matches."""
        return next((most for regex, most in self.slots if regex.fullmatch(queue)), None)
