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

# As npm would publish it: what is in it, and that it can be imported by its names beside the caller's pg.
mkdir "$SCRATCH/package" "$SCRATCH/user"
(cd "$client" && npm pack --silent --pack-destination "$SCRATCH/package" >/dev/null)
tar -tzf "$SCRATCH"/package/jobq-*.tgz | sort >"$SCRATCH/package/files"
for file in LICENSE README.md package.json src/index.js src/testing.js src/heartbeat_thread.js types/index.d.ts types/testing.d.ts; do
    grep -qx "package/$file" "$SCRATCH/package/files" || { echo "node: the package has no $file" >&2; exit 1; }
done
if grep -E '/(test|node_modules)/|scenario' "$SCRATCH/package/files"; then echo "node: this does not belong into the package" >&2; exit 1; fi
mkdir -p "$SCRATCH/user/node_modules/jobq"
tar -xzf "$SCRATCH"/package/jobq-*.tgz -C "$SCRATCH/user/node_modules/jobq" --strip-components=1
ln -s "$client"/node_modules/pg* "$SCRATCH/user/node_modules/"
(cd "$SCRATCH/user" && node --input-type=module -e '
    import { Worker, enqueue } from "jobq";
    import { drain, runInline } from "jobq/testing";
    const { result } = await runInline((job) => job.payload + 1, 1);
    if (result !== 2 || [Worker, enqueue, drain].some((found) => typeof found !== "function")) throw new Error("the package does not work");')

scratch_tree
scratch_server plain
export JOBQ_TEST_PLAIN=$PGHOST
scratch_server server "shared_preload_libraries = 'jobq'"
export PATH=$SCRATCH_BIN:$PATH
# A file at a time: the databases of all would be one load.
for file in "${files[@]}"; do node --test "$file"; done
