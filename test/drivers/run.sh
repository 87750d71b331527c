#!/bin/sh
# Calls every function of the public interface with every driver: psql, node-postgres, psycopg 3 (prepared, untyped and typed),
# psycopg 2. Each driver gets a database of its own and executes a scenario. Functions that are not in the scenario are called with
# values that derived.sql makes from the types of their arguments. Afterward, the catalog must show that no function of the
# extension was left out. Then the programs of examples/ and the adapter in bench/harness are run, each in a database of its own.
# Needs a server with jobq installed (PGHOST, PGPORT, PGUSER, PGDATABASE), and node's pg module in NODE_PATH. `run.sh psycopg2` runs
# one driver only.
set -u
here=$(dirname "$0")
python=${PYTHON:-/usr/bin/python3}
export PYTHONDONTWRITEBYTECODE=1 PSQLRC=/dev/null PGOPTIONS="-c client_min_messages=warning"
unique=$$_$(od -An -N3 -tu4 /dev/urandom | tr -d ' ')
home=${PGDATABASE:-postgres}
JOBQ_TEST_ROLE=jobq_drivers_$unique
export JOBQ_TEST_ROLE
output=$(mktemp) || exit 1
database=

clean_up() {
    [ -n "$database" ] && psql -q -d "$home" -c "DROP DATABASE IF EXISTS \"$database\" WITH (FORCE)"
    psql -q -d "$home" -c "DROP ROLE IF EXISTS \"$JOBQ_TEST_ROLE\""
    rm -f "$output"
}
trap clean_up EXIT
trap 'exit 1' HUP INT TERM

call_everything() {
    case $1 in
    psql) psql -X -v ON_ERROR_STOP=1 -v role="$JOBQ_TEST_ROLE" -f "$here/literals.psql" ;;
    node) node "$here/node_postgres.js" ;;
    examples) "$python" "$here/examples.py" && "$python" "$here/order_kills.py" ;;
    harness) "$python" "$here/harness.py" ;;
    *) "$python" "$here/python_drivers.py" "$1" ;;
    esac
}

run_driver() {
    database=jobq_$(echo "$1" | tr - _)_$unique
    psql -q -d "$home" -v ON_ERROR_STOP=1 -c "CREATE DATABASE \"$database\"" \
        -c "ALTER DATABASE \"$database\" SET track_functions = 'all'" &&
        psql -q -d "$database" -v ON_ERROR_STOP=1 -c "CREATE EXTENSION jobq" -f "$here/derived.sql" || {
        echo "not ok - $1: no database to work in"
        return
    }
    if PGDATABASE=$database call_everything "$1"; then
        echo "ok - $1: ended well"
    else
        echo "not ok - $1: did not end well"
    fi
    case $1 in examples | harness) ;; *) calls_everything "$1" ;; esac
    psql -q -d "$home" -c "DROP DATABASE \"$database\" WITH (FORCE)"
    database=
}

calls_everything() {
    left=$(psql -X -A -t -d "$database" -f "$here/uncalled.sql" 2>&1)
    if [ -z "$left" ]; then
        echo "ok - $1: called every function of the extension, and no name has two meanings"
    else
        echo "not ok - $1:" $left
    fi
}

psql -q -d "$home" -v ON_ERROR_STOP=1 -c "CREATE ROLE \"$JOBQ_TEST_ROLE\"" || exit 1
for driver in ${*:-psql node psycopg3-untyped psycopg3-typed psycopg2 examples harness}; do
    run_driver "$driver"
done >"$output" 2>&1
cat "$output"
passed=$(grep -c '^ok ' "$output")
failed=$(grep -c '^not ok ' "$output")
echo "$passed passed, $failed failed"
[ "$passed" -gt 0 ] && [ "$failed" -eq 0 ]
