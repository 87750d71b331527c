"""Opens connections, classifies their errors, and keeps the idle connections of handlers."""

from __future__ import annotations

import random
import time
from typing import Any, Callable, Dict, Generic, List, Mapping, Optional, TypeVar, Union

import psycopg
from psycopg.conninfo import conninfo_to_dict

Conninfo = Union[str, Callable[[], str]]

# No prepared statements, because a pooler may send each statement to another server connection, and older poolers do not support
# prepared statements.
DEFAULTS: Dict[str, Any] = {
    "client_encoding": "utf8", "connect_timeout": 10, "keepalives": 1, "keepalives_idle": 30, "keepalives_interval": 10,
    "keepalives_count": 3, "tcp_user_timeout": 30000,
}
FIRST_PAUSE, LONGEST_PAUSE = 0.1, 5.0
NEW_CONNECTION_CLASSES = ("08", "53", "57", "58")
CANCELED = "57014"   # the statement was canceled by a timeout or a request
AGAIN = ("40001", "40P01", "55P03", CANCELED)
READ_ONLY = "25006"
IDLE_UNSEEN = 1.0


def arguments(conninfo: Conninfo, given: Mapping[str, Any], name: str) -> Dict[str, Any]:
    """Returns the parameters of psycopg.connect(): the caller's, and defaults for the others."""
    text = conninfo() if callable(conninfo) else conninfo
    said = conninfo_to_dict(text)
    defaults = {key: value for key, value in DEFAULTS.items() if key not in said}
    return {"conninfo": text, "autocommit": True, "prepare_threshold": None, "fallback_application_name": name[:63],
            **defaults, **given}


def is_broken(error: BaseException, connection: Optional[Any] = None) -> bool:
    """Returns whether the error requires a new connection."""
    if connection is not None and connection.closed:
        return True
    if not isinstance(error, psycopg.Error):
        return False
    code = error.sqlstate
    if code is None:
        return isinstance(error, (psycopg.OperationalError, psycopg.InterfaceError))
    return code[:2] in NEW_CONNECTION_CLASSES and code != CANCELED or code == READ_ONLY


def is_again(error: BaseException) -> bool:
    """Returns whether the same statement may succeed if it is repeated."""
    return isinstance(error, psycopg.Error) and error.sqlstate in AGAIN


def pause_after(failures: int, longest: float = LONGEST_PAUSE) -> float:
    """Returns the seconds to wait after this number of failures in a row: each pause is twice as long, with jitter."""
    return min(FIRST_PAUSE * 2.0 ** min(failures - 1, 10), longest) * random.uniform(0.5, 1.0)


class Pause:
    """Pauses before each retry of an operation until the operation succeeds."""

    def __init__(self) -> None:
        self.failures = 0

    def take(self) -> float:
        self.failures += 1
        return pause_after(self.failures)

    def reset(self) -> None:
        self.failures = 0


Connection = TypeVar("Connection")


class Idle(Generic[Connection]):
    """Connections that no handler uses. The most recently used connection is taken first, so that the rest age together."""

    def __init__(self) -> None:
        self.all: List[tuple[float, Connection]] = []

    def take(self) -> Optional[tuple[bool, Connection]]:
        """Returns a connection, and whether it has been idle so long that it may be broken. Returns None if no connection is
        idle."""
        try:
            since, connection = self.all.pop()
        except IndexError:   # perhaps another thread has just taken the last one
            return None
        return time.monotonic() - since > IDLE_UNSEEN, connection

    def give(self, connection: Connection) -> None:
        self.all.append((time.monotonic(), connection))


def is_reusable(connection: Any) -> bool:
    return not connection.closed and connection.info.transaction_status == psycopg.pq.TransactionStatus.IDLE \
        and connection.autocommit


class Connections:
    """Connections in autocommit mode, such as those of the handlers, which are opened when they are needed."""

    def __init__(self, conninfo: Conninfo, options: Mapping[str, Any], name: str) -> None:
        self.conninfo, self.options, self.name = conninfo, options, name
        self.idle: Idle[psycopg.Connection[Any]] = Idle()

    def take(self) -> psycopg.Connection[Any]:
        while (idle := self.idle.take()) is not None:
            unseen, connection = idle
            try:
                if unseen:
                    connection.execute("SELECT")
                return connection
            except psycopg.Error:
                connection.close()
        return psycopg.connect(**arguments(self.conninfo, self.options, self.name))

    def give(self, connection: psycopg.Connection[Any]) -> None:
        if is_reusable(connection):
            self.idle.give(connection)
        else:
            connection.close()

    def close(self) -> None:
        while (idle := self.idle.take()) is not None:
            idle[1].close()
