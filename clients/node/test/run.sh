#!/bin/bash
# Tests of the Node client on servers of their own, with jobq preloaded and without, and of the package as npm would publish it.
# Arguments: test files, test/job.test.mjs for example. `make clients CLIENT=node` runs all.sh, too, and the scenarios.
set -euo pipefail
cd "$(dirname "$0")/../../.."
. scripts/scratch.sh
find_pg_config || { echo "node: no PostgreSQL with its headers: make setup" >&2; exit 1; }
client=$PWD/clients/node
make -s PG_CONFIG="$PG_CONFIG"
scratch_begin node
scratch_tree
scratch_server plain
export JOBQ_TEST_PLAIN=$PGHOST
scratch_server server "shared_preload_libraries = 'jobq'"
PATH=$SCRATCH_BIN:$PATH "$client/test/all.sh" "$@"

# Checks the contents of the package, that another checkout gives the same bytes, and that its names can be imported together with the
# caller's pg.
mkdir -p "$SCRATCH/package" "$SCRATCH/again/clients/node" "$SCRATCH/user/node_modules/jobq-client"
pack() { (cd "$1" && npm pack --silent --pack-destination "$2" >/dev/null); }
pack "$client" "$SCRATCH/package"
cp LICENSE "$SCRATCH/again"
cp -r "$client"/{package.json,README.md,src,types} "$SCRATCH/again/clients/node"
pack "$SCRATCH/again/clients/node" "$SCRATCH/again"
cmp "$SCRATCH"/package/jobq-client-*.tgz "$SCRATCH"/again/jobq-client-*.tgz
tar -tzf "$SCRATCH"/package/jobq-client-*.tgz | sort >"$SCRATCH/package/files"
for file in LICENSE README.md package.json src/index.js src/testing.js src/heartbeat_thread.js types/index.d.ts types/testing.d.ts; do
    grep -qx "package/$file" "$SCRATCH/package/files" || { echo "node: the package has no $file" >&2; exit 1; }
done
if grep -E '/(test|node_modules)/|scenario' "$SCRATCH/package/files"; then
    echo "node: this does not belong into the package" >&2
    exit 1
fi
tar -xzf "$SCRATCH"/package/jobq-client-*.tgz -C "$SCRATCH/user/node_modules/jobq-client" --strip-components=1
ln -s "$client"/node_modules/pg* "$SCRATCH/user/node_modules/"
(cd "$SCRATCH/user" && node --input-type=module -e '
    import { Worker, enqueue } from "jobq-client";
    import { drain, runInline } from "jobq-client/testing";
    const { result } = await runInline((job) => job.payload + 1, 1);
    if (result !== 2 || [Worker, enqueue, drain].some((found) => typeof found !== "function")) throw new Error("it does not work");')
echo "ok - the package has what it needs"
