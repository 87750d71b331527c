#!/bin/bash
# make web: runs the tests of the dashboard (web/) in Debian's Chromium, against throwaway servers. Prints lines with ok and not
# ok, and at the end "N passed, N failed".
#   WEB_PARTS="units changes"   only these parts of units, searching, browser, top, queues, rights, changes, troubles
#   SCREENSHOTS=1               rewrites docs/screenshots
#   make web BENCH=1            instead: measures how long pages take with BENCH_JOBS (10000000) finished jobs
#   make web CONTROL=1          instead: plants the defects test/planted/web_*.patch, each of which the tests must catch
# WEB_NODE: a node other than the one in the path.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/scratch.sh

scripts/setup.sh web
find_pg_config
mkdir -p build
make -s -j"$(nproc)" all >build/build.log 2>&1 || { cat build/build.log; exit 1; }

scratch_begin web
scratch_tree
# The owner of the servers may be unable to read this directory.
mkdir "$SCRATCH/web"
scratch_give "$SCRATCH/pictures"
cp -r web/. "$SCRATCH/web/"
cp examples/top.sql docs/guides/dashboard.md "$SCRATCH/"
node=${WEB_NODE:-$(command -v node)}
status=0
if [ "${BENCH-}" = 1 ]; then
    scratch_server server "shared_preload_libraries = 'jobq'" "shared_buffers = ${BENCH_SHARED_BUFFERS-1GB}" "max_wal_size = 8GB" \
        "checkpoint_timeout = 1h" "autovacuum = off"
    run_group "$node" "$SCRATCH/web/test/bench.mjs" || status=$?
    exit $status
fi

scratch_server plain
plain=$PGHOST
scratch_server server "shared_preload_libraries = 'jobq'"
WEB_CHROMIUM=$(command -v chromium || command -v chromium-browser)
WEB_PGBOUNCER=$(PATH=$PATH:/usr/sbin command -v pgbouncer)
export WEB_SERVER=$SCRATCH/server WEB_PLAIN=$plain WEB_CHROMIUM WEB_PGBOUNCER WEB_TOP=$SCRATCH/top.sql WEB_DOCS=$SCRATCH/dashboard.md WEB_PARTS
[ -n "${WEB_PARTS-}" ] || unset WEB_PARTS

# Runs these parts with the defect, in a separate database. They must fail, at a test whose output matches the pattern.
caught() {  # defect parts pattern
    local broken=$SCRATCH/$1
    cp -r "$SCRATCH/web" "$broken"
    patch -s -p2 -d "$broken" <"test/planted/$1.patch"
    "$SCRATCH_BIN/createdb" -h "$PGHOST" -U postgres "$1"
    if PGDATABASE=$1 WEB_PARTS=$2 run_group "$node" "$broken/test/run.mjs" >"$SCRATCH/$1.log" 2>&1; then
        echo "not ok - $1 is not caught"
        return 1
    fi
    if ! grep -q "^not ok .*$3" "$SCRATCH/$1.log"; then
        echo "not ok - $1: something else fails"
        tail -n 20 "$SCRATCH/$1.log"
        return 1
    fi
    echo "ok - $1 is caught: $(grep -c '^not ok' "$SCRATCH/$1.log") tests fail, $(grep -m 1 -o "^not ok .*$3.*" "$SCRATCH/$1.log")"
}

if [ "${CONTROL-}" = 1 ]; then
    failed=0 passed=0
    while read -r defect parts pattern; do
        if caught "$defect" "$parts" "$pattern"; then passed=$((passed + 1)); else failed=$((failed + 1)); fi
    done <<'DEFECTS'   # the last defect may leave the server stopped
web_not_escaped browser no name has become markup
web_token_not_checked changes with the token of another session
web_page_loses_jobs searching search .*, 7 of 40
web_filter_not_asked_again changes bulk: only the jobs of the preview
web_writes_on_pages searching the server would reject a change
web_errors_unheard troubles restart: under load, each page
DEFECTS
    echo "$passed passed, $failed failed"
    exit "$((failed > 0))"
fi
if [ "${SCREENSHOTS-}" = 1 ]; then export WEB_SCREENSHOTS=$SCRATCH/pictures; fi
run_group "$node" "$SCRATCH/web/test/run.mjs" || status=$?
if [ "${SCREENSHOTS-}" = 1 ] && [ $status = 0 ]; then
    mkdir -p docs/screenshots
    scratch_fetch "$SCRATCH/pictures" docs/screenshots
fi
exit $status
