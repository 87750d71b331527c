#!/bin/bash
# Runs statements in each database of a server that has jobq; the server and the role are those of the environment, as for psql:
#
#   in_each.sh 'ALTER EXTENSION jobq UPDATE'
#
# Says for each database its name and what psql answers. Where the statements fail they do nothing; they are run in the others, and the
# exit status is 1. Databases that allow no connections are left out. The functions of jobq are found in whatever schema they are.
set -uo pipefail

[ $# -eq 1 ] || { echo "usage: in_each.sh STATEMENTS" >&2; exit 2; }

# The name by the environment: to -d some would be a connection string.
ask() {  # database arguments...
    PGDATABASE=$1 psql -XqAt -v ON_ERROR_STOP=1 "${@:2}" </dev/null
}

ask "${PGDATABASE:-postgres}" -0c 'SELECT datname FROM pg_database WHERE datallowconn ORDER BY 1' | {
    failed=0
    while IFS= read -rd '' name; do
        if ! path=$(ask "$name" -c "SELECT concat_ws(', ', nullif(current_setting('search_path'), ''), extnamespace::regnamespace) FROM pg_extension WHERE extname = 'jobq'"); then
            failed=1
        elif [ -n "$path" ]; then
            answer=$(ask "$name" -1c "SET LOCAL search_path = $path" -c "$1") || failed=1
            printf '%s: %s\n' "$name" "$answer"
        fi
    done
    exit $failed
}
