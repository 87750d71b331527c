#!/bin/bash
# make web: the tests of the dashboard (web/) in Debian's Chromium, against throw-away servers. Prints ok and not ok lines, and at
# the end "N passed, N failed".
#   WEB_PARTS="units changes"   only these of units, searching, browser, top, rights, changes, troubles
#   SCREENSHOTS=1               writes docs/screenshots anew
#   make web BENCH=1            instead: how long pages take beside BENCH_JOBS (10000000) kept jobs
# WEB_NODE names another node than that of the path.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/scratch.sh

scripts/setup.sh web
find_pg_config
mkdir -p build
make -s -j"$(nproc)" all >build/build.log 2>&1 || { cat build/build.log; exit 1; }

scratch_begin web
scratch_tree
# The owner of the servers may not be allowed into this directory.
mkdir "$SCRATCH/web" "$SCRATCH/pictures"
cp -r web/. "$SCRATCH/web/"
cp examples/top.sql "$SCRATCH/"
if [ "$(id -u)" = 0 ]; then chown "$SCRATCH_USER" "$SCRATCH/pictures"; fi
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
export WEB_SERVER=$SCRATCH/server WEB_PLAIN=$plain WEB_CHROMIUM WEB_TOP=$SCRATCH/top.sql WEB_PARTS
[ -n "${WEB_PARTS-}" ] || unset WEB_PARTS
if [ "${SCREENSHOTS-}" = 1 ]; then export WEB_SCREENSHOTS=$SCRATCH/pictures; fi
run_group "$node" "$SCRATCH/web/test/run.mjs" || status=$?
if [ "${SCREENSHOTS-}" = 1 ] && [ $status = 0 ]; then
    mkdir -p docs/screenshots
    cp "$SCRATCH"/pictures/*.png docs/screenshots/
fi
exit $status
