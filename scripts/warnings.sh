#!/bin/bash
# make warnings: compiles and links jobq with each available C++ compiler, and for arm64; warnings are errors. If this system does
# not have a version of PostgreSQL, its headers and the compilers come from a release of Debian in a directory
# (scripts/releases.sh).
#   make warnings            with the headers of 15 (gcc 12, clang 14), 17 (gcc 14), and 18 (the newest compilers)
#   make warnings PG=18      one of them
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/scratch.sh
. scripts/releases.sh

# These replace the options with which the server was compiled, because not every compiler knows them. The warnings of clang do
# not depend on the optimization.
readonly PLAIN='-fPIC -fno-strict-aliasing -fwrapv'
# Options of users who optimize more or use a newer standard.
readonly MORE='-std=c++20 -O3 -flto=auto'

# Gets the headers of the server that depend on the architecture, from its package.
arm64_headers() {  # version; prints the directory
    local apt
    mkdir -p "$work"/apt/{state/lists,cache/archives}/partial "$work/headers"
    : >"$work/apt/status"
    apt=(apt-get -q -o APT::Architecture=arm64 -o APT::Architectures=arm64 -o APT::Sandbox::User=root -o Dir::State="$work/apt/state"
        -o Dir::State::status="$work/apt/status" -o Dir::Cache="$work/apt/cache")
    (cd "$work/apt" && "${apt[@]}" update && "${apt[@]}" download "postgresql-server-dev-$1") >"$work/log" 2>&1 &&
        dpkg-deb -x "$work"/apt/postgresql-server-dev-*.deb "$work/headers" || return
    echo "$work/headers/usr/include/postgresql/$1/server"
}

compiled=0 failed=0
compile() {  # what make-arguments...
    local what=$1 started=$SECONDS status=ok
    shift
    rm -rf "$work/source"
    mkdir "$work/source"
    cp -Rp Makefile jobq.control META.json.in scripts src "$work/source/"
    if ! make -s -j"$(nproc)" -C "$work/source" PG_CONFIG="$PG_CONFIG" "$@" jobq.so >"$work/log" 2>&1; then
        tail -n 60 "$work/log"
        status=FAILED failed=$((failed + 1))
    fi
    compiled=$((compiled + 1))
    printf '%-10s %-44s %s in %d s\n' "$("$PG_CONFIG" --version | awk '{ print $2 }')" "$what" "$status" $((SECONDS - started))
}

name_of() { "$1" --version | head -n 1; }

compile_here() {
    local name compiler headers version
    scripts/setup.sh warnings
    find_pg_config
    version=$("$PG_CONFIG" --version | sed 's/^PostgreSQL \([0-9]*\).*/\1/')
    work=$(mktemp -d /tmp/jobq-warnings.XXXXXX)
    trap 'rm -rf "$work"' EXIT
    trap 'exit 130' INT
    trap 'exit 143' TERM HUP
    unset MAKEFLAGS MFLAGS MAKELEVEL
    compile "$(name_of g++)" COPT=-Werror
    compile "$(name_of g++), $MORE" CXXFLAGS="$PLAIN $MORE" COPT=-Werror
    # A compiler can have several names.
    for compiler in $(compgen -c clang++ | grep -xE 'clang\+\+(-[0-9]+)?' | sort -u); do echo "$(name_of "$compiler")|$compiler"; done |
        sort -u -t '|' -k 1,1 >"$work/clangs"
    while IFS='|' read -r name compiler; do
        compile "$name" CXX="$compiler" CXXFLAGS="$PLAIN" COPT=-Werror
    done <"$work/clangs"
    if command -v aarch64-linux-gnu-g++ >/dev/null; then
        if headers=$(arm64_headers "$version"); then
            compile "$(name_of aarch64-linux-gnu-g++)" CXX=aarch64-linux-gnu-g++ CXXFLAGS="$PLAIN" COPT=-Werror \
                includedir_server="$headers" includedir_internal="${headers%/*}/internal"
        else
            cat "$work/log"
            failed=$((failed + 1))
        fi
    fi
    echo "$compiled compiled, $failed failed"
    [ $failed -eq 0 ]
}

if [ "${1-}" = here ]; then
    compile_here
    exit
fi

versions=${PG:-15 17 18}
status=0
for version in $versions; do
    if is_here "$version"; then
        PG=$version scripts/warnings.sh here || status=1
        continue
    fi
    release=$(release_of "$version")
    # shellcheck disable=SC2016
    (
        use_release "$release"
        source=$(copy_into "$release")
        inside "$release" PG="$version" bash -c 'cd "$1" && scripts/warnings.sh here' - "$source"
    ) || status=1
done
exit $status
