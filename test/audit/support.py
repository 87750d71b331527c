"""Functions for all scripts of the audit: a database of its own for each, and results that are counted.

PGHOST, PGPORT, and PGUSER name the server; new databases are created from a connection to PGDATABASE.
"""

import os
import random
import sys
import time
from contextlib import contextmanager

import psycopg
from psycopg import sql


def connect(database=None, **options):
    """A connection in autocommit mode; tests open transaction blocks explicitly."""
    if database is not None:
        options["dbname"] = database
    return psycopg.connect(autocommit=True, **options)


@contextmanager
def scratch_database(label):
    """A new database with the extension; it is always dropped at the end."""
    name = f"jobq_{label}_{os.getpid()}_{random.SystemRandom().randrange(10**6)}"
    identifier = sql.Identifier(name)
    with connect() as admin:
        admin.execute(sql.SQL("CREATE DATABASE {}").format(identifier))
    try:
        with connect(name) as conn:
            conn.execute("CREATE EXTENSION jobq")
        yield name
    finally:
        with connect() as admin:
            admin.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(identifier))


@contextmanager
def scratch_role(label):
    """A login role for handlers; it is dropped at the end. Databases in which it has privileges must be dropped before."""
    name = f"jobq_{label}_{os.getpid()}_{random.SystemRandom().randrange(10**6)}"
    with connect() as admin:
        admin.execute(sql.SQL("CREATE ROLE {} LOGIN").format(sql.Identifier(name)))
    try:
        yield name
    finally:
        with connect() as admin:
            admin.execute(sql.SQL("DROP ROLE {}").format(sql.Identifier(name)))


def wait_until(condition, seconds, pause=0.02):
    """Polls until condition() is true; returns False if that does not happen in time."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if condition():
            return True
        time.sleep(pause)
    return bool(condition())


class Results:
    """Counts checks, prints one line for each, and ends with the line that the runner reads."""

    def __init__(self, name):
        self.name = name
        self.passed = 0
        self.failed = 0

    def check(self, passed, label, detail=""):
        if passed:
            self.passed += 1
        else:
            self.failed += 1
        suffix = f": {detail}" if detail and not passed else ""
        print(f"{'ok' if passed else 'not ok'} - {self.name}: {label}{suffix}", flush=True)
        return bool(passed)

    def equal(self, got, wanted, label):
        return self.check(got == wanted, label, f"got {got!r}, wanted {wanted!r}")

    def note(self, text):
        print(f"# {self.name}: {text}", flush=True)

    def finish(self):
        print(f"{self.passed} passed, {self.failed} failed", flush=True)
        sys.exit(1 if self.failed or not self.passed else 0)
