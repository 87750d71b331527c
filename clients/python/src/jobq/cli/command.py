"""Adds commands to the parser, with the options that they share."""

from __future__ import annotations

import argparse
import contextlib
from typing import Callable, Optional

Run = Callable[[argparse.Namespace], int]


class Commands:
    def __init__(self, parser: argparse.ArgumentParser) -> None:
        self.parser = parser
        _add_dsn(parser, "")
        self._all = parser.add_subparsers(metavar="COMMAND", required=True, title="commands")

    def add(self, name: str, run: Run, summary: str, details: str = "", *, connects: bool = True,
            json: Optional[str] = "print a JSON array instead of a table") -> argparse.ArgumentParser:
        """Adds a command. json is the help text of its option --json; None if it has no such option."""
        sentence = summary[0].upper() + summary[1:] + "."
        added: argparse.ArgumentParser = self._all.add_parser(name, help=summary, description=f"{sentence} {details}".strip())
        added.set_defaults(run=run)
        if connects:
            _add_dsn(added, argparse.SUPPRESS)   # keeps a value that was given before the command
        if json is not None:
            added.add_argument("--json", action="store_true", help=json)
        return added


def _add_dsn(parser: argparse.ArgumentParser, default: str) -> None:
    parser.add_argument("--dsn", metavar="CONNINFO_OR_URI", default=default, help=(
        "how to connect; what it does not contain comes from PGHOST, PGDATABASE, and the other environment variables of libpq"))


def positive_int(text: str) -> int:
    if not text.isdecimal() or not 1 <= int(text) < 2**31:
        raise argparse.ArgumentTypeError(f"must be an integer from 1 to {2**31 - 1}: {text!r}")
    return int(text)


def positive_seconds(text: str) -> float:
    with contextlib.suppress(ValueError):
        if 0.01 <= float(text) <= 86400:
            return float(text)
    raise argparse.ArgumentTypeError(f"must be a number of seconds from 0.01 to 86400: {text!r}")
