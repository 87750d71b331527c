"""The options of a worker and their valid values. Their meaning is described in clients/README.md of the source tree."""

from __future__ import annotations

import os
import re
import secrets
import socket
from dataclasses import dataclass, field, fields
from datetime import timedelta
from typing import Any, Mapping, Optional, Sequence, Tuple, Union

from .errors import Delay, OptionError
from .patterns import is_pattern

MOST = 1000
MOST_QUEUES = 1000
MOST_PATTERN_BYTES = 126
LEAST_COUNTS = {"slots": 1, "prefetch": 0, "batch": 1}
QUEUE_ORDERS = ("listed", "random", "oldest")
LEAST_SECONDS = {"heartbeat_timeout": 0.01, "heartbeat_interval": 0.01, "wait_timeout": 0.0, "poll_interval": 0.01, "grace": 0.0}


def new_worker_id() -> str:
    return f"{socket.gethostname()[:200]}-{os.getpid()}-{secrets.token_hex(4)}"


@dataclass(frozen=True)
class Options:
    queue: str = "default"
    slots: int = None   # type: ignore[assignment]  # the default is the sum of the slots of the queues, or 1
    prefetch: int = 0
    batch: Optional[int] = None
    versions: Optional[Sequence[int]] = None
    capabilities: Optional[Sequence[str]] = None
    worker_id: str = field(default_factory=new_worker_id)
    heartbeat_timeout: Optional[Delay] = None
    heartbeat_interval: Optional[Delay] = None
    wait_timeout: Delay = 30
    poll_interval: Optional[Delay] = None
    grace: Delay = 25
    liveness_file: Optional[Union[str, "os.PathLike[str]"]] = None
    liveness_port: Optional[Union[int, str]] = None
    queues: Optional[Union[Mapping[str, int], Sequence[str]]] = None
    patterns: Optional[Union[Mapping[str, int], Sequence[str]]] = None
    queue_order: str = "listed"

    def __post_init__(self) -> None:
        for option in fields(self):
            value = getattr(self, option.name)
            if value is not None or option.default is not None:
                object.__setattr__(self, option.name, _checked(option.name, value))
        for name in ("queues", "patterns"):
            if getattr(self, name) is not None and self.queue != "default":
                raise OptionError(f'options "queue" and "{name}" cannot be combined')
        if self.slots is None:
            own = [slots for given in (self.queues, self.patterns) if isinstance(given, Mapping) for slots in given.values()]
            object.__setattr__(self, "slots", min(sum(own), MOST) if own else 1)
        several = self.queues is not None or self.patterns is not None
        for name in ("queues", "patterns"):   # lists do not contain slots
            given = getattr(self, name) or ()
            if several and not isinstance(given, Mapping):
                object.__setattr__(self, name, {each: self.slots for each in given})

    @property
    def most_claimed(self) -> int:
        most = self.slots + self.prefetch
        return min(MOST, most if self.batch is None else min(self.batch, most))

    @property
    def queue_names(self) -> str:
        """Returns the names of the queues and the patterns, for messages."""
        return ", ".join(map(repr, self.named_queues + self.given_patterns))

    @property
    def named_queues(self) -> list[str]:
        return [self.queue] if self.queues is None else list(self.queues)

    @property
    def given_patterns(self) -> list[str]:
        return list(self.patterns or ())

    @property
    def liveness_address(self) -> Optional[Tuple[str, int]]:
        if self.liveness_port is None:
            return None
        return address_of(str(self.liveness_port))


def address_of(text: str) -> Tuple[str, int]:
    """Splits [HOST:]PORT. The host is empty for all addresses."""
    host, _, port = text.rpartition(":")
    return host.strip("[]"), int(port)


def options_of_environment(environment: Optional[Mapping[str, str]] = None) -> dict[str, Any]:
    """Returns the options in environment variables such as JOBQ_QUEUE and JOBQ_SLOTS, for Worker(..., **...)."""
    environment = os.environ if environment is None else environment
    found: dict[str, Any] = {}
    for option in fields(Options):
        text = environment.get(f"JOBQ_{option.name.upper()}", "")
        if text == "" or option.name in ("versions", "capabilities", "queues", "patterns"):
            continue
        try:
            found[option.name] = _checked(option.name, _of_text(option.name, text))
        except OptionError as error:
            raise OptionError(str(error).replace(f'"{option.name}"', f'"{option.name}" (JOBQ_{option.name.upper()})', 1)) from None
    return found


def _of_text(name: str, text: str) -> Any:
    if name in ("queue", "worker_id", "liveness_file", "liveness_port", "queue_order"):
        return text
    if name in LEAST_COUNTS:
        if not re.fullmatch(r"[0-9]{1,9}", text, re.ASCII):
            raise _wrong(name, text, f"be an integer from {LEAST_COUNTS[name]} to {MOST}")
        return int(text)
    if not re.fullmatch(r"[0-9]{1,12}(\.[0-9]{0,9})?", text, re.ASCII):
        raise _wrong(name, text, "be a number of seconds")
    return float(text)


def _checked(name: str, value: Any) -> Any:
    """Returns the option's value in the type that the worker uses, or raises OptionError."""
    if name in LEAST_SECONDS:
        return _seconds(name, value, LEAST_SECONDS[name])
    if name in LEAST_COUNTS:
        _check_count(name, value, LEAST_COUNTS[name])
    elif name in ("versions", "capabilities"):
        _check_list(name, value, int if name == "versions" else str)
    elif name == "liveness_file":
        value = os.fspath(value) if isinstance(value, os.PathLike) else value
        _check_name(name, value, 4095)
    elif name == "liveness_port":
        _check_port(name, value)
    elif name == "queues":
        value = _queues(name, value, 63)
    elif name == "patterns":
        value = _queues(name, value, MOST_PATTERN_BYTES)
        for pattern in value:
            if not is_pattern(pattern):
                raise _wrong(name, pattern, "not have a pattern that ends with a single backslash", "has")
    elif name == "queue_order":
        if value not in QUEUE_ORDERS:
            raise _wrong(name, value, "be " + " or ".join(repr(order) for order in QUEUE_ORDERS))
    else:
        _check_name(name, value, 63 if name == "queue" else 255)
        if name == "worker_id" and value.startswith("backend:"):
            raise _wrong(name, value, 'not begin with "backend:", which is reserved for workers without a name')
    return value


def _queues(name: str, value: object, most: int) -> Any:
    """Returns the queues or patterns with their slots, or a list of queues or patterns that share the slots of the worker."""
    if isinstance(value, (str, bytes)) or not isinstance(value, (Mapping, Sequence)) or not 1 <= len(value) <= MOST_QUEUES:
        raise _wrong(name, value, f"be a dict or list of 1 to {MOST_QUEUES} {name}")
    for queue in value:
        _check_name(name, queue, most, f"have {name} that are texts of 1 to {most} bytes", "has")
    if not isinstance(value, Mapping):
        return list(value)
    for queue, slots in value.items():
        _check_count(name, slots, 1, f"have an integer from 1 to {MOST} as the slots of {queue!r}", "has")
    return dict(value)


def _wrong(name: str, value: object, rule: str, verb: str = "is") -> OptionError:
    return OptionError(f'option "{name}" must {rule}; it {verb} {value!r}')


def _check_name(name: str, value: object, most: int, rule: Optional[str] = None, verb: str = "is") -> None:
    if not isinstance(value, str) or not 1 <= len(value.encode()) <= most:
        raise _wrong(name, value, rule or f"be a text of 1 to {most} bytes", verb)


def _check_count(name: str, value: object, least: int, rule: Optional[str] = None, verb: str = "is") -> None:
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= MOST:
        raise _wrong(name, value, rule or f"be an integer from {least} to {MOST}", verb)


def _check_port(name: str, value: object) -> None:
    matched = re.fullmatch(r"(?:[^:]+:|\[[^]]+\]:)?([0-9]{1,5})", str(value), re.ASCII)
    if not isinstance(value, (int, str)) or isinstance(value, bool) or matched is None or not 1 <= int(matched[1]) <= 65535:
        raise _wrong(name, value, "be a port from 1 to 65535, or HOST:PORT")


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
