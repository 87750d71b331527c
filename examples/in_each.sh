#!/bin/bash
# Runs statements in each database of a server that has jobq. Connects with the environment variables that psql uses:
#
#   in_each.sh 'ALTER EXTENSION jobq UPDATE'
#
# For each database, prints its name and the output of psql. If the statements fail in a database, they change nothing there, the
# other databases still run them, and the exit status is 1. Databases that allow no connections are skipped.
#
# The owner of a database can set its search_path and put functions and operators of its own there, which a superuser must not
# run. So the script sets search_path to pg_catalog, which is always first, the schema of the extension, and pg_temp.
set -uo pipefail

[ $# -eq 1 ] || { echo "usage: in_each.sh STATEMENTS" >&2; exit 2; }

# Passes the name in the environment, because -d would take some names for connection strings.
ask() {  # database arguments...
    PGDATABASE=$1 psql -XqAt -v ON_ERROR_STOP=1 "${@:2}" </dev/null
}
trusted='SET search_path = pg_temp'

ask "${PGDATABASE:-postgres}" -0 -c "$trusted" -c 'SELECT datname FROM pg_database WHERE datallowconn ORDER BY 1' | {
    failed=0
    while IFS= read -rd '' name; do
        if ! schema=$(ask "$name" -c "$trusted" -c "SELECT extnamespace::regnamespace FROM pg_extension WHERE extname = 'jobq'"); then
            failed=1
        elif [ -n "$schema" ]; then
            answer=$(ask "$name" -1 -c "SET search_path = $schema, pg_temp" -c "$1") || failed=1
            printf '%s: %s\n' "$name" "$answer"
        fi
    done
    exit $failed
}
