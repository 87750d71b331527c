"""Parses the messages of pgoutput, the output plugin for logical replication that every server has (protocol version 1)."""

from __future__ import annotations

import struct
from typing import Any, Dict, List, Mapping, Tuple

from .rows import FLAGS, NUMBERS, ROWS, UNCHANGED, Change, Truncation

POSTGRES_EPOCH = 946684800


class Reader:
    """`rows`: the type of the rows of each table."""

    def __init__(self, rows: Mapping[str, Any] = ROWS) -> None:
        self.rows = rows
        self.tables: Dict[int, Tuple[Any, List[str]]] = {}   # number: (type of its rows, names of its columns)
        self.number = 0
        self.open: List[Tuple[Any, Any, bool, bool]] = []   # changes of the transaction that is being parsed
        self.xid = 0

    def read(self, lsn: int, message: bytes) -> List[Change]:
        """Returns the changes of the transaction that this message ends; otherwise nothing."""
        kind = message[:1]
        if kind == b"B":
            _, _, self.xid = struct.unpack_from("!qqI", message, 1)
            self.open = []
        elif kind == b"C":
            _, at, _, micros = struct.unpack_from("!bqqq", message, 1)
            time = micros / 1e6 + POSTGRES_EPOCH
            return [Change(place, (at, 0), time, self.xid, row, deleted, inserted) for place, row, deleted, inserted in self.open]
        elif kind == b"R":
            self._table(message)
        elif kind in b"IUD":
            self._row(lsn, message, kind)
        elif kind == b"T":
            self.number += 1
            self.open.append(((lsn, self.number), Truncation(), True, False))
        return []

    def _table(self, message: bytes) -> None:
        number, = struct.unpack_from("!I", message, 1)
        _, rest = message[5:].split(b"\0", 1)
        name, rest = rest.split(b"\0", 1)
        count, = struct.unpack_from("!h", rest, 1)
        rest, names = rest[3:], []
        for _ in range(count):
            column, rest = rest[1:].split(b"\0", 1)
            names.append(column.decode().lstrip("_"))
            rest = rest[8:]
        self.tables[number] = self.rows[name.decode()], names

    def _row(self, lsn: int, message: bytes, kind: bytes) -> None:
        number, = struct.unpack_from("!I", message, 1)
        make, names = self.tables[number]
        at = 5
        what = message[at:at + 1]   # N: the new row; before it, if the key has changed, K: the old key, or O: the old row
        values, end = _tuple(message, at + 1)
        if what == b"K" and kind == b"U":
            self._add(lsn, make, names, values, True, False)
        if kind == b"U" and what in b"KO":
            values, _ = _tuple(message, end + 1)
        self._add(lsn, make, names, values, kind == b"D", kind == b"I")

    def _add(self, lsn: int, make: Any, names: List[str], values: List[Any], deleted: bool, inserted: bool) -> None:
        wanted = make._fields
        fields = {name: value_of(name, value) for name, value in zip(names, values) if name in wanted}
        self.number += 1
        self.open.append(((lsn, self.number), make(**fields), deleted, inserted))


def _tuple(message: bytes, at: int) -> Tuple[List[Any], int]:
    count, = struct.unpack_from("!h", message, at)
    at += 2
    values: List[Any] = []
    for _ in range(count):
        kind = message[at:at + 1]
        at += 1
        if kind == b"t":
            length, = struct.unpack_from("!i", message, at)
            values.append(message[at + 4:at + 4 + length].decode())
            at += 4 + length
        else:
            values.append(None if kind == b"n" else UNCHANGED)
    return values, at


def value_of(name: str, text: Any) -> Any:
    """Converts PostgreSQL's text of a value of the column."""
    if text is None or text is UNCHANGED:
        return text
    return int(text) if name in NUMBERS else text in ("t", "true") if name in FLAGS else text
