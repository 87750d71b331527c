"""Connections: how they are opened, which errors end them, and those that handlers use in turn."""

from __future__ import annotations

import random
import time
from typing import Any, Callable, Dict, Generic, List, Mapping, Optional, TypeVar, Union

import psycopg
from psycopg.conninfo import conninfo_to_dict

Conninfo = Union[str, Callable[[], str]]

# A pooler may hand each statement to another server connection, and older ones know no prepared statements.
DEFAULTS: Dict[str, Any] = {
    "client_encoding": "utf8", "connect_timeout": 10, "keepalives": 1, "keepalives_idle": 30, "keepalives_interval": 10,
    "keepalives_count": 3, "tcp_user_timeout": 30000,
}
FIRST_PAUSE, LONGEST_PAUSE = 0.1, 5.0
NEW_CONNECTION_CLASSES = ("08", "53", "57", "58")
CANCELED = "57014"   # the statement, by a timeout or a request
AGAIN = ("40001", "40P01", "55P03", CANCELED)
READ_ONLY = "25006"
IDLE_UNSEEN = 1.0


def arguments(conninfo: Conninfo, given: Mapping[str, Any], name: str) -> Dict[str, Any]:
    """Of psycopg.connect(): what the caller gives, over our defaults."""
    text = conninfo() if callable(conninfo) else conninfo
    said = conninfo_to_dict(text)
    defaults = {key: value for key, value in DEFAULTS.items() if key not in said}
    return {"conninfo": text, "autocommit": True, "prepare_threshold": None, "fallback_application_name": name[:63],
            **defaults, **given}


def is_broken(error: BaseException, connection: Optional[Any] = None) -> bool:
    """Whether it takes another connection."""
    if connection is not None and connection.closed:
        return True
    if not isinstance(error, psycopg.Error):
        return False
    code = error.sqlstate
    if code is None:
        return isinstance(error, (psycopg.OperationalError, psycopg.InterfaceError))
    return code[:2] in NEW_CONNECTION_CLASSES and code != CANCELED or code == READ_ONLY


def is_again(error: BaseException) -> bool:
    """Whether the same statement may succeed next time."""
    return isinstance(error, psycopg.Error) and error.sqlstate in AGAIN


def pause_after(failures: int, longest: float = LONGEST_PAUSE) -> float:
    """How long to wait before the next try, after so many: twice as long each time, with jitter."""
    return min(FIRST_PAUSE * 2.0 ** min(failures - 1, 10), longest) * random.uniform(0.5, 1.0)


class Pause:
    """Before tries of the same thing, until it works."""

    def __init__(self) -> None:
        self.failures = 0

    def take(self) -> float:
        self.failures += 1
        return pause_after(self.failures)

    def reset(self) -> None:
        self.failures = 0


Connection = TypeVar("Connection")


class Idle(Generic[Connection]):
    """Connections that no handler uses. Those used last are taken first, so that the others grow old together."""

    def __init__(self) -> None:
        self.all: List[tuple[float, Connection]] = []

    def take(self) -> Optional[tuple[bool, Connection]]:
        """And whether it has been out of sight for so long that it may have broken."""
        if not self.all:
            return None
        since, connection = self.all.pop()
        return time.monotonic() - since > IDLE_UNSEEN, connection

    def give(self, connection: Connection) -> None:
        self.all.append((time.monotonic(), connection))


def is_reusable(connection: Any) -> bool:
    return not connection.closed and connection.info.transaction_status == psycopg.pq.TransactionStatus.IDLE \
        and connection.autocommit
