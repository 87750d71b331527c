"""The options of a worker, and what they may be. The names and their meaning: clients/README.md of the sources."""

from __future__ import annotations

import os
import re
import secrets
import socket
from dataclasses import dataclass, field, fields
from datetime import timedelta
from typing import Any, Mapping, Optional, Sequence

from .errors import Delay, OptionError

MOST = 1000


def new_worker_id() -> str:
    return f"{socket.gethostname()[:200]}-{os.getpid()}-{secrets.token_hex(4)}"


@dataclass(frozen=True)
class Options:
    queue: str = "default"
    slots: int = 1
    batch: Optional[int] = None
    versions: Optional[Sequence[int]] = None
    capabilities: Optional[Sequence[str]] = None
    worker_id: str = field(default_factory=new_worker_id)
    heartbeat_timeout: Optional[Delay] = None
    heartbeat_interval: Optional[Delay] = None
    wait_timeout: Delay = 30
    poll_interval: Optional[Delay] = None
    grace: Delay = 25

    def __post_init__(self) -> None:
        _check_name("queue", self.queue, 63)
        _check_name("worker_id", self.worker_id, 255)
        if self.worker_id.startswith("backend:"):
            raise _wrong("worker_id", self.worker_id, 'not begin with "backend:", which stands for workers without a name')
        _check_count("slots", self.slots)
        if self.batch is not None:
            _check_count("batch", self.batch)
        for name, least in (("heartbeat_timeout", 0.01), ("heartbeat_interval", 0.01), ("wait_timeout", 0.0),
                            ("poll_interval", 0.01), ("grace", 0.0)):
            value = getattr(self, name)
            if value is not None or name in ("wait_timeout", "grace"):
                object.__setattr__(self, name, _seconds(name, value, least))
        _check_list("versions", self.versions, int)
        _check_list("capabilities", self.capabilities, str)

    @property
    def most_claimed(self) -> int:
        return self.slots if self.batch is None else min(self.batch, self.slots)


def options_of_environment(environment: Optional[Mapping[str, str]] = None) -> dict[str, Any]:
    """What JOBQ_QUEUE, JOBQ_SLOTS and so on say, for Options(**...) or Worker(..., **...)."""
    environment = os.environ if environment is None else environment
    found: dict[str, Any] = {}
    for option in fields(Options):
        text = environment.get(f"JOBQ_{option.name.upper()}", "")
        if text == "" or option.name in ("versions", "capabilities"):
            continue
        if option.name in ("queue", "worker_id"):
            found[option.name] = text
        elif option.name in ("slots", "batch"):
            if not re.fullmatch(r"[0-9]{1,9}", text, re.ASCII):
                raise _wrong(option.name, text, f"be an integer from 1 to {MOST}")
            found[option.name] = int(text)
        else:
            if not re.fullmatch(r"[0-9]{1,12}(\.[0-9]{0,9})?", text, re.ASCII):
                raise _wrong(option.name, text, "be a number of seconds")
            found[option.name] = float(text)
    return found


def _wrong(name: str, value: object, rule: str) -> OptionError:
    return OptionError(f'option "{name}" must {rule}; it is {value!r}')


def _check_name(name: str, value: object, most: int) -> None:
    if not isinstance(value, str) or not 1 <= len(value.encode()) <= most:
        raise _wrong(name, value, f"be a text of 1 to {most} bytes")


def _check_count(name: str, value: object) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= MOST:
        raise _wrong(name, value, f"be an integer from 1 to {MOST}")


def _check_list(name: str, value: object, kind: type) -> None:
    if value is None:
        return
    if isinstance(value, (str, bytes)) or not isinstance(value, Sequence) or \
            not all(isinstance(element, kind) and not isinstance(element, bool) for element in value):
        raise _wrong(name, value, f"be a list of {kind.__name__}")


def _seconds(name: str, value: object, least: float) -> float:
    if isinstance(value, timedelta):
        value = value.total_seconds()
    most = 365 * 86400
    if not isinstance(value, (int, float)) or isinstance(value, bool) or not least <= value <= most:
        raise _wrong(name, value, f"be a number of seconds from {least:g} to {most}, or a timedelta")
    return float(value)
