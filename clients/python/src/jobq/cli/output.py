"""Prints rows as a table for people, or as JSON for programs."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any, Callable, Iterable, List, Mapping, Sequence

MOST_TEXT = 60


def printable(text: str) -> str:
    """Escapes characters that a terminal would interpret, because texts of jobs come from anywhere."""
    return "".join(one if one.isprintable() else one.encode("unicode_escape").decode() for one in text)


def plain(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list):
        return ", ".join(map(plain, value))
    return printable(str(value))


def short(value: Any) -> str:
    text = plain(value)
    return text if len(text) <= MOST_TEXT else text[:MOST_TEXT - 3] + "..."


def time(value: Any) -> str:
    """Shortens a time such as 2026-11-23T03:25:05.142021+00:00 to seconds."""
    return re.sub(r"T(\d\d:\d\d:\d\d)(\.\d+)?", r" \1", plain(value))


def moment(value: Any) -> str:
    """Shortens such a time to milliseconds."""
    return re.sub(r"T(\d\d:\d\d:\d\d)(\.\d{1,3})?\d*", r" \1\2", plain(value))


def rate(value: Any) -> str:
    return "" if value is None else f"{value:.1f}"


def age(value: Any) -> str:
    """Formats a number of seconds with two units."""
    if value is None:
        return ""
    if value < 60:
        return f"{value:.1f}s"
    seconds = int(value)
    for size, unit, next_size, next_unit in ((86400, "d", 3600, "h"), (3600, "h", 60, "m"), (60, "m", 1, "s")):
        if seconds >= size:
            return f"{seconds // size}{unit} {seconds % size // next_size}{next_unit}"
    return ""


@dataclass(frozen=True)
class Column:
    name: str   # the key in JSON
    title: str = ""
    show: Callable[[Any], str] = plain

    @property
    def heading(self) -> str:
        return (self.title or self.name.replace("_", " ")).upper()


Columns = Sequence[Column]


def table(columns: Columns, rows: Sequence[Mapping[str, Any]]) -> List[str]:
    """Returns the lines of a table. Columns of numbers and ages are aligned to the right."""
    cells = [[column.heading for column in columns], *([column.show(row[column.name]) for column in columns] for row in rows)]
    widths = [max(map(len, cell)) for cell in zip(*cells)]
    right = [any(isinstance(row[column.name], (int, float)) and not isinstance(row[column.name], bool) for row in rows)
             for column in columns]
    return ["  ".join(text.rjust(width) if at_right else text.ljust(width) for text, width, at_right in zip(line, widths, right)).rstrip()
            for line in cells]


def show(columns: Columns, rows: Sequence[Mapping[str, Any]], as_json: bool) -> None:
    if as_json:
        print(json_array(rows))
    else:
        print("\n".join(table(columns, rows)))


def json_line(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def json_array(rows: Iterable[Any]) -> str:
    """Returns an array with one row per line."""
    lines = ",\n ".join(map(json_line, rows))
    return f"[{lines}]"
