"""Opens the connection of a command and runs its queries."""

from __future__ import annotations

import contextlib
from typing import Any, Dict, Iterator, List, Mapping, Sequence, Tuple, Union

import psycopg
from psycopg.rows import tuple_row

from .. import connect
from .problem import Problem, complain

Connection = psycopg.Connection[Any]
Row = Dict[str, Any]
Parameters = Union[Sequence[Any], Mapping[str, Any]]
NOT_FOUND = ("42883", "42P01", "3F000")   # a function, a table, or a schema does not exist


def open_connection(dsn: str, command: str) -> Connection:
    """Connects in autocommit mode. Raises Problem with status 2 if this fails."""
    try:
        connection = psycopg.connect(**connect.arguments(dsn, {}, f"jobq {command}"))
    except psycopg.Error as error:
        raise Problem(message_of(error), 2) from error
    connection.add_notice_handler(lambda notice: complain(f"{notice.severity}: {notice.message_primary}"))
    return connection


@contextlib.contextmanager
def connected(dsn: str, command: str) -> Iterator[Connection]:
    """Provides a connection. If the connection breaks, the error becomes a Problem with status 2."""
    with contextlib.closing(open_connection(dsn, command)) as connection:
        try:
            yield connection
        except psycopg.Error as error:
            if connection.closed:
                raise Problem(message_of(error), 2) from error
            raise


def rows(connection: Connection, statement: str, parameters: Parameters = ()) -> List[Row]:
    """Returns the rows as objects of JSON: times and intervals are strings, so that a value like infinity is no error."""
    with connection.cursor(row_factory=tuple_row) as cursor:
        cursor.execute(f"SELECT row_to_json(r) FROM ({statement}) r".encode(), parameters)
        return [row[0] for row in cursor.fetchall()]


def values(connection: Connection, statement: str, parameters: Parameters = ()) -> Tuple[Any, ...]:
    """Returns the values of the only row."""
    with connection.cursor(row_factory=tuple_row) as cursor:
        row = cursor.execute(statement.encode(), parameters).fetchone()
    assert row is not None
    return row


def message_of(error: psycopg.Error) -> str:
    """Returns the server's message and hint, or the message of the driver, in one line."""
    text = error.diag.message_primary or str(error) or type(error).__name__
    hint = error.diag.message_hint
    if error.sqlstate in NOT_FOUND and "jobq" in text:
        hint = 'Run "jobq doctor" to check the installation.'
    return " ".join((f"{text} (hint: {hint})" if hint else text).split())
