"""The entry point of the program: parses the command line, runs the command, and reports errors in one line."""

from __future__ import annotations

import argparse
import os
import sys
from typing import Optional, Sequence

import psycopg

from . import audit, change, completion, doctor, jobs, stats, tail, top, work
from .command import Commands
from .database import message_of
from .problem import Problem, complain

INTERRUPTED, PIPE_CLOSED = 130, 141   # as a shell reports SIGINT and SIGPIPE
MODULES = (stats, top, jobs, change, tail, work, doctor, audit, completion)


def make_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="jobq", description="Inspects and changes the jobs of jobq, and runs workers.", epilog=(
        "Exit status: 0 if the command succeeded; 1 if the server rejected it, if a job does not exist or was not changed, or if doctor found "
        "a problem; 2 if the command line is wrong or the program could not connect."))
    commands = Commands(parser)
    for module in MODULES:
        module.add(commands)
    return parser


def main(arguments: Optional[Sequence[str]] = None) -> int:
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")   # a terminal may not support every character of a job
    try:
        status = _run(arguments)
        sys.stdout.flush()
        return status
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())   # for what Python flushes when it exits
        return PIPE_CLOSED


def _run(arguments: Optional[Sequence[str]]) -> int:
    parser = make_parser()
    args = parser.parse_args(arguments)
    try:
        status: int = args.run(args)
        return status
    except Problem as problem:
        complain(str(problem))
        return problem.status
    except psycopg.Error as error:
        complain(message_of(error))
        return 1 if error.sqlstate else 2
