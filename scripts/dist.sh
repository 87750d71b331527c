#!/bin/bash
# make dist: makes build/jobq-VERSION.zip for PGXN from the committed files, without those that .gitattributes excludes, with
# META.json at the top. Then does what a user does: unpacks it, builds it with PGXS, installs it into a copy of the server's tree,
# and runs some of its tests there; and installs it into an empty directory, as docker/Dockerfile.extension does.
# Also writes build/jobq-VERSION.cdx.json and build/jobq-VERSION-catalog.csv (scripts/describe_release.py).
#   make dist TESTS='claim wait'      runs these tests; TESTS=all: all tests
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/scratch.sh
scripts/setup.sh dist
find_pg_config
TESTS=${TESTS:-00_install access claim report}
# The checkout may belong to another user.
export GIT_CONFIG_COUNT=1 GIT_CONFIG_KEY_0=safe.directory GIT_CONFIG_VALUE_0=$PWD

version=$(git show HEAD:jobq.control | sed -n "s/^default_version *= *'\(.*\)'/\1/p")
name=jobq-$version
zip=$PWD/build/$name.zip
scratch_begin dist
head=$SCRATCH/head
mkdir -p build "$head"
git archive HEAD | tar -xf - -C "$head"
made=(META.json "jobq--$version.sql")
made_router=("jobq_router--$version.sql" "jobq_shard--$version.sql")
make -s -C "$head" PG_CONFIG="$PG_CONFIG" "${made[@]}"
make -s -C "$head/router" PG_CONFIG="$PG_CONFIG" "${made_router[@]}"
git archive --format=zip --prefix="$name/router/" "${made_router[@]/#/--add-file=$head/router/}" \
    --prefix="$name/" "${made[@]/#/--add-file=$head/}" -o "$zip" HEAD
rm -rf "$head"

# Python does not restore execute permissions when it unpacks a file, and neither did PGXN's client.
python3 -m zipfile -e "$zip" "$SCRATCH/unpacked"
[ "$(ls "$SCRATCH/unpacked")" = "$name" ]
python3 scripts/meta.py "$SCRATCH/unpacked/$name/META.json" "$SCRATCH/unpacked/$name"
python3 scripts/describe_release.py "$SCRATCH/unpacked/$name/META.json" "build/$name"
JOBQ_ROOT=$SCRATCH/unpacked/$name
log=$SCRATCH/build.log
make -s -j"$(nproc)" -C "$JOBQ_ROOT" PG_CONFIG="$PG_CONFIG" >"$log" 2>&1 || { cat "$log" >&2; exit 1; }
make -s -C "$JOBQ_ROOT" PG_CONFIG="$PG_CONFIG" install DESTDIR="$SCRATCH/files" datadir=/share pkglibdir=/lib >"$log" 2>&1
(
    cd "$SCRATCH/files"
    [ -e lib/jobq.so ]
    for extension in jobq jobq_router jobq_shard; do
        [ -e share/extension/$extension.control ] && [ -e "share/extension/$extension--$version.sql" ]
    done
    ! find . -type f | grep -vxE '\./lib/jobq\.so|\./share/extension/jobq(_router|_shard)?(--[0-9.-]+\.sql|\.control)'
)
scratch_tree
scratch_server dist "shared_preload_libraries = 'jobq'"
scratch_give "$JOBQ_ROOT"
tests=(ISOLATION= REGRESS="$TESTS")
if [ "$TESTS" = all ]; then tests=(); fi
run_group make -s -C "$JOBQ_ROOT" PG_CONFIG="$SCRATCH_PG_CONFIG" installcheck "${tests[@]}" ||
    { cat "$JOBQ_ROOT"/regression.diffs "$JOBQ_ROOT"/output_iso/regression.diffs 2>/dev/null; exit 1; }
echo "$(($(stat -c %s "$zip") / 1024)) kB, $(python3 -m zipfile -l "$zip" | wc -l) files: ${zip#"$PWD/"}"
