"""The roles as which functions are called, and a database whose extension belongs to a role that is not a superuser."""

import os
import random
import time
from contextlib import contextmanager

import psycopg
from psycopg import sql

import transactions
from support import connect

GRANTED = ("producer", "worker", "operator", "monitor")
ROLES = ("superuser", "owner") + GRANTED + ("nobody",)
# How often each role is drawn for a call that it may make.
WEIGHTS = {"superuser": 3, "owner": 3, "producer": 4, "worker": 4, "operator": 4, "monitor": 2, "nobody": 1}


_prefix = f"fuzz {os.getpid()}"    # roles exist in all databases, so the name contains the pid


def user(role):
    return f"{_prefix} {role}"


def connect_again(database=None, moment=60, **options):
    """Opens a connection, even if the server has just crashed."""
    end = time.monotonic() + moment
    while True:
        try:
            return connect(database, **options)
        except psycopg.OperationalError:
            if time.monotonic() > end:
                raise
            time.sleep(0.1)


@contextmanager
def database(label, extra_roles=()):
    """A new database with jobq, owned by a role that has since lost its superuser privilege; dropped at the end."""
    name = f"jobq_{label}_{os.getpid()}_{random.SystemRandom().randrange(10**6)}"
    everybody = [user(role) for role in ROLES + extra_roles]
    with connect() as admin:
        for role in everybody:
            rights = "SUPERUSER" if role in (user("superuser"), user("owner")) else "NOSUPERUSER"
            admin.execute(sql.SQL("CREATE ROLE {} LOGIN " + rights).format(sql.Identifier(role)))
        admin.execute(sql.SQL("CREATE DATABASE {} OWNER {}").format(sql.Identifier(name), sql.Identifier(user("owner"))))
    try:
        with connect(name, user=user("owner")) as conn:
            conn.execute("CREATE EXTENSION jobq")
            for role in GRANTED:
                conn.execute("SELECT jobq_grant(%s, %s)", (user(role), role))
        with connect(name) as conn:
            conn.execute(sql.SQL("ALTER ROLE {} NOSUPERUSER").format(sql.Identifier(user("owner"))))
            conn.execute(transactions.HELPERS)
        yield name
    finally:
        end_prepared(name)
        with connect_again() as admin:
            admin.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(name)))
            for role in everybody:
                admin.execute(sql.SQL("DROP ROLE {}").format(sql.Identifier(role)))


def end_prepared(name, beginning=""):
    """Rolls back the prepared transactions of a database whose name has this prefix. Their client may have lost its connection, and
    they keep their locks even after a crash."""
    with connect_again(name) as conn:
        for (gid,) in conn.execute("SELECT gid FROM pg_prepared_xacts WHERE database = %s AND starts_with(gid, %s)",
                                   (name, beginning)).fetchall():
            conn.execute(sql.SQL("ROLLBACK PREPARED {}").format(sql.Literal(gid)))


def may_call(conn, functions):
    """By role: the OIDs of the functions that it may execute."""
    found = {}
    for role in ROLES:
        found[role] = {oid for (oid,) in conn.execute(
            "SELECT f FROM unnest(%s::oid[]) f JOIN pg_proc p ON p.oid = f"
            " WHERE has_function_privilege(%s, f, 'EXECUTE') AND has_schema_privilege(%s, p.pronamespace, 'USAGE')",
            ([function.oid for function in functions], user(role), user(role)))}
    return found
