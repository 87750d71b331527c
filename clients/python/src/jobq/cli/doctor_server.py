"""Checks of the server: vacuum and what holds it back, the clock, and the number of connections."""

from __future__ import annotations

import time
from typing import Iterator

from .database import rows, values
from .finding import OK, PROBLEM, WARNING, Check, Facts, Result
from .output import age
from .output import time as shown

OLD, VERY_OLD = 300.0, 3600.0    # age of a transaction, in seconds
LATE = 600.0                     # time without a vacuum although there are many dead tuples, in seconds
MANY_XIDS = 1_000_000            # age of the xmin of a slot that is in use
CLOCK_DIFFERENCE = 2.0           # seconds
FULL = 0.8                       # fraction of the connections
SETTINGS = "SELECT current_setting('autovacuum')::bool AND current_setting('track_counts')::bool"
TURNED_OFF = """
SELECT c.oid::regclass::text AS name FROM pg_class c, pg_options_to_table(c.reloptions) o
WHERE c.relnamespace = to_regnamespace('jobq') AND c.relkind = 'r' AND o.option_name = 'autovacuum_enabled' AND NOT o.option_value::bool"""
DEAD = """
SELECT n_dead_tup, n_live_tup, greatest(last_autovacuum, last_vacuum) AS at,
       coalesce(extract(epoch FROM now() - greatest(last_autovacuum, last_vacuum)), 'infinity')::float8 > %s AS is_late
FROM pg_stat_all_tables WHERE relid = to_regclass('jobq.jobs')"""
SEES_ALL = "SELECT pg_has_role(current_user, 'pg_read_all_stats', 'USAGE')"
OLD_TRANSACTIONS = """
SELECT pid, coalesce(usename, backend_type) AS name, state, extract(epoch FROM clock_timestamp() - xact_start)::float8 AS seconds
FROM pg_stat_activity
WHERE datname = current_database() AND pid <> pg_backend_pid() AND backend_type NOT LIKE 'autovacuum%%'
  AND (backend_xmin IS NOT NULL OR backend_xid IS NOT NULL) AND xact_start < clock_timestamp() - %s * interval '1 s'
ORDER BY xact_start LIMIT 10"""
PREPARED = """
SELECT gid, extract(epoch FROM clock_timestamp() - prepared)::float8 AS seconds FROM pg_prepared_xacts
WHERE database = current_database() AND prepared < clock_timestamp() - %s * interval '1 s' ORDER BY prepared LIMIT 10"""
SLOTS = """
SELECT slot_name AS name, active, age(xmin) AS xids FROM pg_replication_slots
WHERE xmin IS NOT NULL AND (NOT active OR age(xmin) > %s) ORDER BY age(xmin) DESC LIMIT 10"""
CONNECTIONS = """
SELECT count(*), current_setting('max_connections')::int - current_setting('superuser_reserved_connections')::int
       - coalesce(current_setting('reserved_connections', true)::int, 0)
FROM pg_stat_activity WHERE backend_type = 'client backend'"""


def autovacuum(facts: Facts) -> Iterator[Result]:
    if not values(facts.connection, SETTINGS)[0]:
        yield PROBLEM, "autovacuum is off on this server", "Turn on the settings autovacuum and track_counts, and reload the configuration."
        return
    tables = [row["name"] for row in rows(facts.connection, TURNED_OFF)]
    for table in tables:
        yield PROBLEM, f"autovacuum is off for the table {table}", f"Run ALTER TABLE {table} RESET (autovacuum_enabled)."
    if not tables:
        yield OK, "autovacuum is on for the server and for all tables of jobq", ""


def dead_tuples(facts: Facts) -> Iterator[Result]:
    row = rows(facts.connection, DEAD, (LATE,))[0]
    said = f"jobq.jobs has {row['n_dead_tup']} dead tuples; last vacuum: {shown(row['at']) or 'never'}"
    if row["is_late"] and row["n_dead_tup"] > 10 * (1000 + 0.02 * row["n_live_tup"]):
        yield WARNING, said, "Autovacuum does not keep up. Look for old transactions, and increase autovacuum_vacuum_cost_limit."
    else:
        yield OK, said, ""


def transactions(facts: Facts) -> Iterator[Result]:
    found = rows(facts.connection, OLD_TRANSACTIONS, (OLD,))
    for row in found:
        yield PROBLEM if row["seconds"] > VERY_OLD else WARNING, \
            f"process {row['pid']} ({row['name']}, {row['state']}) has an open transaction for {age(row['seconds'])}, which holds back vacuum", \
            f"End the transaction, or run SELECT pg_terminate_backend({row['pid']})."
    if not values(facts.connection, SEES_ALL)[0]:
        yield WARNING, "the role can only see its own transactions", "Make the role a member of pg_monitor, or use another role."
    elif not found:
        yield OK, f"no transaction is older than {age(OLD)}", ""


def prepared(facts: Facts) -> Iterator[Result]:
    found = rows(facts.connection, PREPARED, (OLD,))
    for row in found:
        yield PROBLEM, f'the prepared transaction "{row["gid"]}" is {age(row["seconds"])} old and holds back vacuum', \
            "Run COMMIT PREPARED or ROLLBACK PREPARED with its name."
    if not found:
        yield OK, f"no prepared transaction is older than {age(OLD)}", ""


def slots(facts: Facts) -> Iterator[Result]:
    found = rows(facts.connection, SLOTS, (MANY_XIDS,))
    for row in found:
        yield WARNING if row["active"] else PROBLEM, \
            f'the replication slot "{row["name"]}" ({"in use" if row["active"] else "not in use"}) holds back vacuum by {row["xids"]} transactions', \
            "Look for old transactions on the standby." if row["active"] else "Start its standby, or drop the slot with pg_drop_replication_slot."
    if not found:
        yield OK, "no replication slot holds back vacuum", ""


def clock(facts: Facts) -> Iterator[Result]:
    """Compares the clocks. The server's answer lies between two readings of the client's clock."""
    before = time.time()
    server = values(facts.connection, "SELECT extract(epoch FROM clock_timestamp())::float8")[0]
    after = time.time()
    difference = max(before - server, server - after, 0.0)
    if difference > CLOCK_DIFFERENCE:
        yield WARNING, f"the clocks of this machine and of the server differ by {age(difference)}", \
            "Synchronize both clocks, because a time that a program computes, such as run_at, is compared with the clock of the server."
    else:
        yield OK, f"the clocks of this machine and of the server differ by less than {CLOCK_DIFFERENCE:g} s", ""


def connections(facts: Facts) -> Iterator[Result]:
    used, most = values(facts.connection, CONNECTIONS)
    said = f"{used} of {most} connections are in use"
    if used >= FULL * most:
        yield WARNING, said, "Increase max_connections, or use a connection pool."
    else:
        yield OK, said, ""


CHECKS = (Check("autovacuum", autovacuum, False), Check("dead tuples", dead_tuples), Check("transactions", transactions, False),
          Check("prepared", prepared, False), Check("slots", slots, False), Check("clock", clock, False),
          Check("connections", connections, False))
