"""Checks of the connection, the extension, its background workers, and the grants of the role."""

from __future__ import annotations

from typing import Iterator

from psycopg import sql

from .database import rows, values
from .finding import OK, PROBLEM, WARNING, Check, Facts, Result

PROFILES = {"producer": "jobq_enqueue", "worker": "jobq_claim", "operator": "jobq_cancel", "monitor": "jobq_metrics"}
CALLABLE = """
SELECT coalesce(array_agg(DISTINCT p.proname::text), '{}')
FROM pg_proc p JOIN pg_depend d ON d.classid = 'pg_proc'::regclass AND d.objid = p.oid AND d.deptype = 'e'
JOIN pg_extension e ON d.refclassid = 'pg_extension'::regclass AND d.refobjid = e.oid
WHERE e.extname = 'jobq' AND p.proname = ANY (%s::text[]) AND has_function_privilege(p.oid, 'EXECUTE')"""
BACKGROUND = "SELECT * FROM jobq.background_workers WHERE database IS NULL OR database = current_database() ORDER BY database NULLS FIRST"
PRELOAD = ("Add jobq to shared_preload_libraries and restart the server. Until then, call jobq_tick() every few seconds, because due jobs, lost "
           "workers, and schedules depend on it.")
HEALTHY = ("running", "idle", "starting", "standby")
ADVICE = {
    "copy": "Call jobq_adopt() if the jobs of this copy should run.",
    "disabled": "Turn on jobq.enabled, and include this database in jobq.databases. Otherwise, call jobq_tick() every few seconds.",
    "waiting for a worker slot": "Increase max_worker_processes or jobq.max_workers.",
    "not running": "Read the server log to find out why the launcher does not run.",
}


def connection(facts: Facts) -> Iterator[Result]:
    version, database, role, standby = values(facts.connection, "SELECT current_setting('server_version'), current_database(), current_user, "
                                                                "pg_is_in_recovery()")
    yield OK, f'PostgreSQL {version}, database "{database}", role "{role}"' + (", a standby, which cannot change jobs" if standby else ""), ""


def extension(facts: Facts) -> Iterator[Result]:
    found = rows(facts.connection, "SELECT e.extversion, n.nspname, to_regprocedure('jobq_version()') IS NOT NULL AS visible, "
                                   "has_schema_privilege(n.oid, 'USAGE') AS usable, format('%%I', n.nspname) AS name, "
                                   "format('%%I', current_user) AS role "
                                   "FROM pg_extension e JOIN pg_namespace n ON n.oid = e.extnamespace WHERE e.extname = %s", ("jobq",))
    if not found:
        yield PROBLEM, "the extension is not installed in this database", "Connect to the database of the jobs, or run CREATE EXTENSION jobq."
        return
    row = found[0]
    facts.schema = row["nspname"]
    if not row["usable"]:
        yield PROBLEM, f'the role cannot use the schema "{facts.schema}", which contains the functions', \
            f"Run GRANT USAGE ON SCHEMA {row['name']} TO {row['role']}."
    elif not row["visible"]:
        yield PROBLEM, f'the search_path does not contain the schema "{facts.schema}", which contains the functions', \
            f"Run ALTER ROLE {row['role']} SET search_path = \"$user\", public, {row['name']}, and connect again."
    else:
        yield OK, f'jobq {row["extversion"]} in the schema "{facts.schema}"', ""


def versions(facts: Facts) -> Iterator[Result]:
    assert facts.schema is not None
    call = sql.SQL("SELECT {}.jobq_version(), extversion FROM pg_extension WHERE extname = 'jobq'").format(sql.Identifier(facts.schema))
    library, installed = values(facts.connection, call.as_string(facts.connection))
    if library == installed:
        yield OK, f"the library and the extension have the version {library}", ""
    else:
        yield WARNING, f"the library has the version {library}, but the extension has the version {installed}", \
            "If the library is newer, run ALTER EXTENSION jobq UPDATE. If it is older, install the newer library and restart the server."


def background(facts: Facts) -> Iterator[Result]:
    launcher, *databases = rows(facts.connection, BACKGROUND)
    facts.lists_workers = launcher["state"] == "running"
    if launcher["state"] == "not running" and "shared_preload_libraries" in (launcher["note"] or ""):
        yield WARNING, "jobq is not preloaded, so no background worker runs", PRELOAD
        return
    row = databases[0] if launcher["state"] == "running" and databases else launcher
    said = f'the background worker is "{row["state"]}"' + (f": {row['note']}" if row["note"] else "")
    if row["last_error"] is not None and row["last_error_over_at"] is None:
        yield PROBLEM, f"the last round of the background worker has failed: {row['last_error']}", \
            "Remove the cause of the error. The background worker then continues."
    if row["state"] not in HEALTHY:
        if row["state"] != "backing off":   # the error above explains it
            yield PROBLEM, said, ADVICE.get(row["state"], "")
    elif row["last_error"] is None or row["last_error_over_at"] is not None:
        yield WARNING if row["note"] and row["state"] != "standby" else OK, said, ""


def grants(facts: Facts) -> Iterator[Result]:
    allowed, role = values(facts.connection, f"SELECT ({CALLABLE}), quote_literal(current_user)", (list(PROFILES.values()),))
    profiles = [profile for profile, function in PROFILES.items() if function in allowed]
    if profiles:
        yield OK, "the role can call the functions of the profiles " + ", ".join(profiles), ""
    else:
        yield PROBLEM, "the role cannot call the functions of any profile", \
            f"As the owner of the extension, run SELECT jobq_grant({role}, 'PROFILE') with one of the profiles {', '.join(PROFILES)}."


def pooler(facts: Facts) -> Iterator[Result]:
    if values(facts.connection, "SELECT pg_backend_pid()")[0] == facts.connection.info.backend_pid:
        yield OK, "the connection does not pass through a pooler", ""
    else:
        yield WARNING, "the connection passes through a pooler", \
            "Each waiting worker occupies a connection of the pool, so give the pool one connection per worker and per handler that uses the " \
            "database, or connect the workers directly."


CHECKS = (Check("connection", connection, False), Check("extension", extension, False), Check("versions", versions),
          Check("background", background), Check("grants", grants), Check("pooler", pooler, False))
