"""A cluster of throwaway servers. JOBQ_ROUTER_SERVERS names the directories of the servers, which listen in socket/NAME next to them.
The first server has the routers, and each server has one shard."""

import os
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor

import psycopg
from psycopg import sql
from psycopg.rows import namedtuple_row

SERVERS = os.environ["JOBQ_ROUTER_SERVERS"].split()
ROUTER = "router"
WAIT = 60  # seconds to wait for an expected condition


def host(server):
    return os.path.join(os.path.dirname(server), "socket", os.path.basename(server))


def connect(server, database, user="postgres", **options):
    return psycopg.connect(host=host(server), port=5432, dbname=database, user=user, autocommit=True, row_factory=namedtuple_row, **options)


def router(database=ROUTER, user="postgres"):
    return connect(SERVERS[0], database, user)


def shard(number, user="postgres"):
    """A direct connection to a shard, without the router. Shard N is on server N."""
    return connect(SERVERS[number - 1], f"shard{number}", user)


def connection(number):
    return f"host={host(SERVERS[number - 1])} port=5432 dbname=shard{number}"


def make_database(server, name, *extensions):
    with connect(server, "postgres") as conn:
        conn.execute(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")
        conn.execute(f"CREATE DATABASE {name}")
    with connect(server, name) as conn:
        for extension in extensions:
            conn.execute(f"CREATE EXTENSION {extension} CASCADE")


def make_shard(number):
    make_database(SERVERS[number - 1], f"shard{number}", "jobq", "jobq_shard")


def make_role(name):
    """Creates a role on all servers, unless it exists."""
    for server in SERVERS:
        with connect(server, "postgres") as conn:
            if not one(conn, "SELECT count(*) FROM pg_roles WHERE rolname = %s", name):
                conn.execute(sql.SQL("CREATE ROLE {} LOGIN").format(sql.Identifier(name)))


def make_router(name=ROUTER, shards=(1, 2, 3)):
    make_database(SERVERS[0], name, "jobq_router")
    with router(name) as conn:
        for number in shards:
            conn.execute("SELECT jobq_add_shard(%s, %s)", (number, connection(number)))


def make_cluster(shards=(1, 2, 3)):
    with ThreadPoolExecutor() as at_once:
        list(at_once.map(make_shard, shards))
    make_router(shards=shards)


def control(number, action, *options):
    """Starts or stops the server of a shard."""
    server = SERVERS[number - 1]
    subprocess.run(["pg_ctl", "-D", server, "-l", server + ".log", "-w", "-s", action, *options], check=True, stdout=subprocess.DEVNULL)


def wait_for(what, condition):
    """Waits until condition() is true and returns its value."""
    end = time.monotonic() + WAIT
    while not (found := condition()):
        assert time.monotonic() < end, f"timed out while waiting for: {what}"
        time.sleep(0.02)
    return found


def one(conn, query, *parameters):
    return conn.execute(query, parameters).fetchone()[0]


def fails(conn, state, query, *parameters, says=None):
    """Executes a query that must fail with this SQLSTATE and returns the error."""
    try:
        conn.execute(query, parameters)
    except psycopg.Error as error:
        assert error.sqlstate == state, f"{query}: {error.sqlstate}: {error}"
        assert says is None or says in str(error), f"{query}: {error}"
        return error
    raise AssertionError(f"{query}: no error {state}")


def run(tests):
    """Runs the functions whose names begin with test_ and prints their results like the suites."""
    passed = failed = 0
    for name, test in list(tests.items()):
        if not name.startswith("test_") or os.environ.get("JOBQ_ROUTER_TEST") not in (None, "", name):
            continue
        begun = time.monotonic()
        try:
            test()
            passed += 1
            print(f"{name} ({time.monotonic() - begun:.1f} s)", flush=True)
        except Exception as error:  # an error of the server also fails the test
            failed += 1
            import traceback
            traceback.print_exc()
            print(f"not ok {name}: {type(error).__name__}: {error}", flush=True)
    print(f"{passed} passed, {failed} failed", flush=True)
    return failed != 0
