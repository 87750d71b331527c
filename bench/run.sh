#!/bin/bash
# Installs the dependencies of the benchmark, builds jobq, starts a temporary server with jobq preloaded, and runs bench/bench.py
# against it, never as root. Writes the results to bench/results, and the report to docs/internals.
#   make bench                            everything, two and a half hours
#   make bench QUICK=1                    the headline figures, under four minutes; docs/internals does not change
#   make bench ONLY="lifecycle batches"   only these groups; with PUBLISH=1 they replace the results in docs/internals
#   make bench ONLY=ablation              the benefit of each mechanism of src/core/ablation.h; WITHOUT="PlaceCache SlotBounds"
#   make bench BASE=HEAD~1                also another commit, on a server of its own; BASE=/some/checkout for a directory
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/scratch.sh

scripts/setup.sh bench
find_pg_config
mkdir -p build bench/results
make -s -j"$(nproc)" all >build/build.log 2>&1 || { cat build/build.log; exit 1; }

scratch_begin bench
scratch_tree
bench/brokers/build.sh
scratch_give "$SCRATCH/results"
cp -r bench "$SCRATCH/bench"
if [ -x build/bench/broker_load ]; then cp build/bench/broker_load "$SCRATCH/bench/"; fi
mkdir "$SCRATCH/bench/node/client"
cp -r clients/node/package.json clients/node/src "$SCRATCH/bench/node/client/"
node=
if [ -e build/bench/node_path ]; then
    node=$(cat build/bench/node_path)
    # Node looks up modules relative to the scripts, and the owner of the server may have no access to this directory.
    cp -rl build/bench/node_modules "$SCRATCH/bench/node/" 2>/dev/null ||
        { rm -rf "$SCRATCH/bench/node/node_modules" && cp -r build/bench/node_modules "$SCRATCH/bench/node/"; }
    case $node in "$PWD"/build/bench/node_modules/*) node=$SCRATCH/bench/node/${node#"$PWD"/build/bench/} ;; esac
fi
export BENCH_NODE=$node BENCH_DATA=$SCRATCH/server BENCH_RESULTS=$SCRATCH/results PYTHONDONTWRITEBYTECODE=1
export BENCH_COMMIT MPLCONFIGDIR=$SCRATCH/home/tmp
BENCH_COMMIT=$(git -c safe.directory="$PWD" describe --always --dirty 2>/dev/null || echo unknown)

# The settings that a DBA would choose on a dedicated machine. The report prints them. No checkpoint may happen during a
# measurement.
settings=("shared_preload_libraries = 'jobq'" "fsync = on" "max_connections = 400"
    "shared_buffers = ${BENCH_SHARED_BUFFERS-1GB}" "max_wal_size = 8GB" "min_wal_size = 2GB" "checkpoint_timeout = 1h" "synchronous_commit = on"
    "track_wal_io_timing = off" "log_checkpoints = off" "max_parallel_workers_per_gather = 0")

# Starts the same server with jobq from another commit or checkout: BENCH_BASE_HOST, BENCH_BASE_DATA.
base_server() {  # commit or directory
    local from=$SCRATCH/before host=$PGHOST tree=$SCRATCH/tree
    if [ -d "$1" ]; then
        mkdir "$from" && (cd "$1" && tar -cf - --exclude=./build --exclude=./.git .) | tar -xf - -C "$from"
    else
        git -c safe.directory="$PWD" archive --prefix=before/ "$1" | tar -xf - -C "$SCRATCH"
    fi
    cp -al "$tree" "$SCRATCH/base-tree"
    SCRATCH_BIN=$SCRATCH/base-tree${SCRATCH_BIN#"$tree"}
    make -s -j"$(nproc)" -C "$from" PG_CONFIG="$SCRATCH_BIN/pg_config" all install >"$SCRATCH/before.log" 2>&1 ||
        { cat "$SCRATCH/before.log" >&2; return 1; }
    scratch_server base "${settings[@]}"
    export BENCH_BASE_HOST=$PGHOST BENCH_BASE_DATA=$SCRATCH/base PGHOST=$host
    SCRATCH_BIN=$tree${SCRATCH_BIN#"$SCRATCH/base-tree"}
}

# Starts servers whose builds lack one mechanism each. BENCH_WITHOUT contains their names, and without-NAME are their directories.
ablated_servers() {
    local name from host=$PGHOST tree=$SCRATCH/tree major
    major=$(cat build/server)
    export BENCH_WITHOUT=${WITHOUT-$(sed -n 's/^    \([A-Z][A-Za-z]*\),$/\1/p' src/core/ablation.h | grep -vx None)}
    for name in $BENCH_WITHOUT; do
        from=$SCRATCH/source-$name
        mkdir "$from"
        # Reuses the build directory, so that only files that include the header are compiled again.
        cp -a --parents Makefile jobq.control META.json.in router src scripts jobq--*.sql build/exports.txt build/server \
            "build/$major" "$from"
        touch "$from/src/core/ablation.h"
        cp -al "$tree" "$SCRATCH/tree-$name"
        SCRATCH_BIN=$SCRATCH/tree-$name${SCRATCH_BIN#"$tree"}
        make -s -j"$(nproc)" -C "$from" PG_CONFIG="$SCRATCH_BIN/pg_config" COPT="-DJOBQ_WITHOUT=$name" all install \
            >"$SCRATCH/without.log" 2>&1 || { cat "$SCRATCH/without.log" >&2; return 1; }
        scratch_server "without-$name" "${settings[@]}"
        SCRATCH_BIN=$tree${SCRATCH_BIN#"$SCRATCH/tree-$name"}
        PGHOST=$host
    done
}

# Starts the same server with pages of 4 kB, if the usual server uses huge pages: BENCH_SMALL_HOST, BENCH_SMALL_DATA.
small_pages_server() {
    local host=$PGHOST
    scratch_server small "${settings[@]}" "huge_pages = off"
    export BENCH_SMALL_HOST=$PGHOST BENCH_SMALL_DATA=$SCRATCH/small PGHOST=$host
}

# Servers that are compared have pages of the same size. There might be enough huge pages for only the first server.
if [ -n "${BASE-}" ] || [[ " ${ONLY-} " = *[\ ,]ablation[\ ,]* ]]; then settings+=("huge_pages = off"); fi
huge_pages=$(awk '$1 == "HugePages_Free:" { print $2 }' /proc/meminfo)
scratch_server server "${settings[@]}"
if [[ "${settings[-1]}" != "huge_pages = off" && "${huge_pages:-0}" -ge "$("$SCRATCH_BIN/psql" -XAtc 'SHOW shared_memory_size_in_huge_pages')" ]]; then
    export BENCH_HUGE_PAGES=1
    case " ${ONLY-workers} " in *[\ ,]workers[\ ,]*) small_pages_server ;; esac
fi
case " ${ONLY-} " in *[\ ,]ablation[\ ,]*) ablated_servers ;; esac
cd "$SCRATCH"
if [ -n "${BASE-}" ]; then
    cd "$JOBQ_ROOT"
    base_server "$BASE"
    cd "$SCRATCH"
fi
status=0
run_group /usr/bin/python3 "$SCRATCH/bench/bench.py" "$@" || status=$?
cd "$JOBQ_ROOT"
rm -f bench/results/*.svg bench/results/report.md
scratch_fetch "$SCRATCH/results" bench/results
# A short run does not update the page of results. Some groups run only if they are named.
if [ -e "$SCRATCH/results/report.md" ] && [ "${QUICK-}" != 1 ] && { [ -z "${ONLY-}" ] || [ "${PUBLISH-}" = 1 ]; }; then
    /usr/bin/python3 bench/publish.py bench/results docs
fi
exit $status
