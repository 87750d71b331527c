#!/bin/bash
# Runs `make check` for several major versions of PostgreSQL: on this system if it has the version, and otherwise, as root, in a
# directory with a release of Debian that has it (scripts/releases.sh).
#   make matrix                          15, 17, and 18; prints one table of versions and suites
#   make matrix PG="17 18" SUITE="regress isolation"
#   make matrix SHORT=1                  17 and 18 in parallel, the most useful suites, in a few minutes
#   make check PG=17                     one version
# AT_ONCE: how many versions run in parallel (1). JOBQ_MATRIX_DIR and JOBQ_MIRROR: see scripts/releases.sh. All variables JOBQ_*
# are passed on to the suites.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/scratch.sh
. scripts/releases.sh

# Must be the last command of the shell that calls it, because it may replace that shell.
check_version() {  # version
    local release source
    if is_here "$1"; then
        unset PG_CONFIG
        export PG=$1
        exec scripts/check.sh
    fi
    release=$(release_of "$1")
    use_release "$release"
    source=$(copy_into "$release")
    # shellcheck disable=SC2016
    inside "$release" PG="$1" SUITE="${SUITE-}" bash -c 'cd "$1" && scripts/check.sh' - "$source" && return
    echo "matrix: the files named above are below $releases/$release"
    return 1
}

if [ "${1-}" = one ]; then
    check_version "$PG"
    exit
fi

if [ "${SHORT-}" = 1 ]; then
    : "${PG:=17 18}" "${SUITE:=regress isolation pgtap process}" "${AT_ONCE:=2}" "${JOBQ_LIFECYCLE_ROUNDS:=3}"
    export JOBQ_LIFECYCLE_ROUNDS
fi
versions=${PG:-15 17 18}
export SUITE=${SUITE-}
results=$(mktemp -d)
leave() {
    local status=$? pid
    for pid in $(cat "$results"/*.pid 2>/dev/null); do kill -TERM "$pid" 2>/dev/null || true; done
    wait
    rm -rf "$results"
    exit $status
}
trap leave EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP

run_version() {  # version
    local status=0
    (trap - EXIT; check_version "$1") &
    echo $! >"$results/$1.pid"
    wait $! || status=$?
    rm "$results/$1.pid"
    echo $status >"$results/$1.status"
}

started=$SECONDS
# Two versions in parallel would both install debootstrap, and one of them could call it before it is complete.
for version in $versions; do is_here "$version" || { scripts/setup.sh matrix; break; }; done
for version in $versions; do
    while [ "$(jobs -rp | wc -l)" -ge "${AT_ONCE:-1}" ]; do wait -n || true; done
    { run_version "$version" 2>&1 | tee "$results/$version" | sed -u "s/^/$version: /"; } &
done
wait

# Each suite is one line of the table at the end of `make check`.
names=$(for version in $versions; do cat "$results/$version"; done |
    awk 'NF >= 5 && $2 ~ /^[0-9]+$/ && $3 ~ /^[0-9]+$/ && $4 ~ /^[0-9]+$/ && !seen[$1]++ { print $1 }')
printf '\n%-14s' suite
printf '%16s' $versions
echo
for name in $names total; do
    printf '%-14s' "$name"
    for version in $versions; do
        printf '%16s' "$(awk -v name="$name" '
            $1 == name && NF >= 5 && $4 ~ /^[0-9]+$/ { found = $3 == 0 && $5 == "ok" ? $2 " ok" : $2 ", " $3 " failed" }
            name == "total" && /^[0-9]+ passed, [0-9]+ failed$/ { found = $1 ", " $3 " failed" }
            END { print found == "" ? "not run" : found }' "$results/$version")"
    done
    echo
done
failed=
for version in $versions; do
    [ "$(cat "$results/$version.status" 2>/dev/null)" = 0 ] || failed+=" $version"
done
echo "matrix: ${failed:+failed:$failed; }$((SECONDS - started)) s"
[ -z "$failed" ]
