#!/bin/bash
# Tests of the Node client: types by tsc, what is decided without a server, and workers, producers, the test kit and spans against
# servers of their own, with jobq preloaded and without. Gets from npm what package.json names. Arguments: files of this directory.
set -euo pipefail
cd "$(dirname "$0")/../../.."
. scripts/scratch.sh
find_pg_config || { echo "node: no PostgreSQL with its headers: make setup" >&2; exit 1; }
client=$PWD/clients/node
files=("$@")
[ $# -gt 0 ] || files=("$client"/test/*.test.mjs)

# npm looks into its home; what it prints is of interest when it fails.
log=$(mktemp)
if ! (cd "$client" && npm install --no-audit --no-fund --no-package-lock) >"$log" 2>&1; then
    cat "$log" >&2
    rm -f "$log"
    exit 1
fi
rm -f "$log"
(cd "$client" && node_modules/.bin/tsc -p test/tsconfig.json)

make -s PG_CONFIG="$PG_CONFIG"
scratch_begin node
scratch_tree
scratch_server plain
export JOBQ_TEST_PLAIN=$PGHOST
scratch_server server "shared_preload_libraries = 'jobq'"
export PATH=$SCRATCH_BIN:$PATH
# A file at a time: the databases of all would be one load.
for file in "${files[@]}"; do node --test "$file"; done
