#!/bin/bash
# make clients: each program of clients/ runs the scenarios (clients/scenarios/README.md) on a server of its own, directly and
# through PgBouncer.
#   CLIENT="python node" SCENARIO="cancel poison" WAY=direct    some of them
#   SELFTEST=1                                                  whether the scenarios catch planted defects
#   TESTS=1                                                     only the libraries' own tests
#   SPEED=1 [ROUNDS=3] [SECONDS_EACH=3]                         instead: jobs per second of each program, with a handler that does nothing
#   PG=17                                                       in a directory with a newer release of Debian (scripts/releases.sh)
#   TABLE=1                                                     writes the results into clients/CONTRACT.md, or the speeds into clients/README.md
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/scratch.sh
. scripts/releases.sh
if [ -n "${PG-}" ] && ! is_here "$PG"; then
    release=$(release_of "$PG")
    use_release "$release"
    source=$(copy_into "$release")
    # shellcheck disable=SC2016
    inside "$release" PG="$PG" CLIENT="${CLIENT-}" SCENARIO="${SCENARIO-}" WAY="${WAY-}" LIMIT="${LIMIT-}" AT_ONCE="${AT_ONCE-}" TESTS="${TESTS-}" \
        bash -c 'cd "$1" && scripts/clients.sh' - "$source"
    exit
fi
scripts/setup.sh clients
find_pg_config || { echo "clients: no PostgreSQL with its headers: make setup" >&2; exit 1; }

make -s PG_CONFIG="$PG_CONFIG"
scratch_begin clients
scratch_tree

# Programs are built in a copy, as the owner of the server, and connect by TCP, because not all of their drivers support sockets.
mkdir -p "$SCRATCH/clients"
tar -C clients --exclude=node_modules --exclude=__pycache__ -cf - . | tar -C "$SCRATCH/clients" --no-same-owner -xf -
if [ -d build/opentelemetry ]; then
    cp -r build/opentelemetry "$SCRATCH/opentelemetry"
    export JOBQ_OPENTELEMETRY=$SCRATCH/opentelemetry/usr/lib/python3/dist-packages
fi
JOBQ_PASSWORD=$(od -An -N16 -tx8 /dev/urandom | tr -d ' ')
JOBQ_SERVER_PORT=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
printf '%s\n' 'local all all trust' 'host all all 127.0.0.1/32 scram-sha-256' >"$SCRATCH/hba.conf"
scratch_give "$SCRATCH/clients" "$SCRATCH/hba.conf"

scratch_server server "shared_preload_libraries = 'jobq'" 'wal_level = logical' "hba_file = '$SCRATCH/hba.conf'" "listen_addresses = '127.0.0.1'" \
    "port = $JOBQ_SERVER_PORT" "max_connections = 300" "jobq.cancel_grace = '1 h'" \
    "fsync = $([ "${SPEED-}" = 1 ] && echo on || echo off)"
export PGPORT=$JOBQ_SERVER_PORT JOBQ_PASSWORD JOBQ_SERVER_PORT JOBQ_SERVER_DATA=$SCRATCH/server
export NODE_PATH; NODE_PATH=$(node_path)
export PYTHONDONTWRITEBYTECODE=1
export CCACHE_DISABLE=1    # the owner of the server may not be able to write to the cache

arguments=()
for name in ${CLIENT-}; do arguments+=(--client "$name"); done
for name in ${SCENARIO-}; do arguments+=(--scenario "$name"); done
for name in ${WAY-}; do arguments+=(--way "$name"); done
if [ -n "${LIMIT-}" ]; then arguments+=(--limit "$LIMIT"); fi
if [ -n "${AT_ONCE-}" ]; then arguments+=(--at-once "$AT_ONCE"); fi
if [ "${SELFTEST-}" = 1 ]; then arguments+=(--selftest); fi
if [ "${TESTS-}" = 1 ]; then arguments+=(--tests); fi
if [ "${SPEED-}" = 1 ]; then arguments+=(--speed --rounds "${ROUNDS-3}" --seconds "${SECONDS_EACH-3}"); fi
if [ "${TABLE-}" = 1 ]; then arguments+=(--table "$SCRATCH/clients/table.md"); fi
status=0
(cd "$SCRATCH" && run_group /usr/bin/python3 "$SCRATCH/clients/scenarios/runner.py" ${arguments[@]+"${arguments[@]}"}) || status=$?
if [ "${TABLE-}" = 1 ] && [ -e "$SCRATCH/clients/table.md" ]; then
    kind=table page=clients/CONTRACT.md
    if [ "${SPEED-}" = 1 ]; then kind=speeds page=clients/README.md; fi
    run_as cat "$SCRATCH/clients/table.md" >"$SCRATCH/table.md"
    awk -v table="$SCRATCH/table.md" -v kind=$kind '
        $0 == "<!-- end of " kind " -->" { inside = 0 }
        !inside { print }
        index($0, "<!-- " kind ": made by make clients ") == 1 { inside = 1; print ""; while ((getline line < table) > 0) print line; print "" }
    ' $page >"$SCRATCH/page.md"
    cat "$SCRATCH/page.md" >$page
fi
exit $status
