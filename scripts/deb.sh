#!/bin/bash
# make deb: builds the Debian package for the PostgreSQL of this release of Debian, in a copy of the checkout, and fails if
# lintian finds a problem. The packages are left in build/deb; the tree that they were built from and the logs are in a directory
# next to them.
#   make deb              also installs what it needs
#   make deb PG=17        in a directory with the release of Debian that has this version (scripts/releases.sh), as root
#   make deb TEST=1       then installs them in new directories with that release, as root: runs the first job on a bare system, and
#                         debian/tests on a system with a compiler
# This skips the tests during the build, which dpkg-buildpackage itself runs.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/releases.sh

own_release() {
    case $(cat /etc/debian_version) in
        */sid) echo sid ;;
        *) sed -n 's/^VERSION_CODENAME=//p' /etc/os-release ;;
    esac
}

quietly() {  # log command...
    local log=$1
    shift
    "$@" >>"$log" 2>&1 || { tail -n 40 "$log" >&2; fail "$1 failed; all that was said is in $log"; }
}

build_here() {
    local copy log=$result/build.log
    scripts/setup.sh deb
    copy=$(mktemp -d /tmp/jobq-deb.XXXXXX)
    # shellcheck disable=SC2064
    trap "rm -rf '$copy'" EXIT
    mkdir "$copy/jobq"
    tar -cf - --exclude=./build --exclude=./.git --exclude='*.so' . | tar -xf - -C "$copy/jobq"
    say "building for $release"
    (
        export DEB_BUILD_OPTIONS="nocheck ${DEB_BUILD_OPTIONS-}" DEB_BUILD_PROFILES=nocheck
        cd "$copy/jobq"
        quietly "$OLDPWD/$log" dpkg-buildpackage -us -uc -b
    )
    mv "$copy/jobq" "$result/source"
    mv "$copy"/* "$result/"
    rmdir "$copy"
    trap - EXIT
    say "lintian"
    lintian --allow-root --display-info --fail-on error,warning,info "$result"/*.changes
}

build_inside() {
    local source
    use_release "$release"
    source=$(copy_into "$release")
    # shellcheck disable=SC2016
    inside "$release" bash -c 'cd "$1" && scripts/deb.sh' - "$source"
    mv "$releases/$release$source/$result"/* "$releases/$release$source"/build/deb/*.deb "$result/"
    rm -rf "${releases:?}/$release$source"
}

# Makes a new directory in $root with the release, whose directory in `releases` is the template. Sets `releases`, for inside.
new_system() {
    root=$releases/$release.$$
    # shellcheck disable=SC2064
    trap "rm -rf --one-file-system '$root'" EXIT
    (use_release "$release" && mkdir "$root" && cp -a "$releases/$release" "$root/")
    releases=$root
}

# Installs the package on a system that contains nothing but minbase, and runs the first job there.
test_first_job() {
    local root log=$PWD/$result/first_job.log version
    releases=$releases/bare release_packages=ca-certificates
    new_system
    say "the first job on a bare $release"
    cp scripts/first_job.sh "$result"/postgresql-*-jobq_*.deb "$root/$release/tmp/"
    version=$(basename "$result"/postgresql-*-jobq_*.deb | cut -d- -f2)
    # shellcheck disable=SC2016
    (inside "$release" sh -c 'cd /tmp && ./first_job.sh "$1" ./*.deb' - "$version") >"$log" 2>&1 ||
        { tail -n 40 "$log" >&2; fail "the first job failed; all that was said is in $log"; }
    tail -n 1 "$log"
}

# Runs debian/tests in a new directory that contains only the packages of debootstrap, a compiler, and Python.
test_fresh() {
    local root source log=$PWD/$result/test.log status=0
    releases=$releases/fresh
    new_system
    source=$(cd "$result" && copy_into "$release")
    say "debian/tests, by autopkgtest"
    # shellcheck disable=SC2016
    (inside "$release" sh -ec '
        apt-get -q update
        apt-get -q -y install --no-install-recommends autopkgtest
        cd "$1"
        autopkgtest --no-built-binaries --summary-file=summary ./*.deb source/ -- null' - "$source") >"$log" 2>&1 || status=$?
    cat "$root/$release$source/summary" 2>/dev/null || tail -n 40 "$log"
    [ $status = 0 ] || fail "the tests failed; all that was said is in $log"
}

own=$(own_release)
release=${PG:+$(release_of "$PG")}
release=${release:-$own}
result=build/deb/$release
rm -rf "$result"
mkdir -p "$result"
if [ "$release" = "$own" ]; then build_here; else build_inside; fi
if [ "${TEST-}" = 1 ]; then
    (test_first_job)
    (test_fresh)
fi
mv "$result"/*.deb build/deb/
ls build/deb/*.deb
