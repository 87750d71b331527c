#!/bin/bash
# Runs `make check` for other major versions of PostgreSQL than this system has, as root, each in a directory that
# debootstrap fills: 17 from Debian's trixie, 18 from its sid. The directories are kept, and used again.
#   make matrix                          15, 17 and 18, one table of versions and suites
#   make matrix PG="17 18" SUITE="regress isolation"
#   make check PG=17                     one version, here if this system has it
# JOBQ_MATRIX_DIR   where the directories are (/var/cache/jobq-matrix)
# JOBQ_MIRROR       Debian's archive (http://deb.debian.org/debian)
set -euo pipefail
cd "$(dirname "$0")/.."
readonly DIRECTORY=${JOBQ_MATRIX_DIR:-/var/cache/jobq-matrix} MIRROR=${JOBQ_MIRROR:-http://deb.debian.org/debian}
# Suites that say nothing new of another version: what needs no server, and the planted defects.
readonly EVERYWHERE='exports regress plain isolation regress_sql isolation_sql pgtap process drivers audit together fuzz'

fail() {
    echo "matrix: $*" >&2
    exit 2
}

release_of() {  # version
    case $1 in
        15) echo bookworm ;;
        17) echo trixie ;;
        18) echo sid ;;
        *) fail "Debian has no PostgreSQL $1; there are 15 (bookworm), 17 (trixie) and 18 (sid)" ;;
    esac
}

is_here() { [ -x "/usr/lib/postgresql/$1/bin/postgres" ] && [ -e "/usr/lib/postgresql/$1/lib/pgxs/src/makefiles/pgxs.mk" ]; }

# A directory with that release, made once.
make_release() {  # release
    local root=$DIRECTORY/$1
    [ -e "$root/complete" ] && return
    if ! command -v debootstrap >/dev/null; then
        echo "matrix: installing debootstrap"
        apt-get -qq update
        DEBIAN_FRONTEND=noninteractive apt-get -qq install -y debootstrap >/dev/null
    fi
    echo "matrix: making $root"
    rm -rf "$root"
    mkdir -p "$DIRECTORY"
    debootstrap --variant=minbase --include=ca-certificates,make,g++,util-linux,procps,python3 "$1" "$root" "$MIRROR" \
        >"$root.log" 2>&1 || { tail -n 20 "$root.log" >&2; fail "debootstrap of $1 failed"; }
    if [ "$1" != sid ]; then
        echo "deb ${MIRROR%/debian}/debian-security $1-security main" >"$root/etc/apt/sources.list.d/security.list"
    fi
    # A mirror may be a snapshot.
    echo 'Acquire::Check-Valid-Until "false";' >"$root/etc/apt/apt.conf.d/90jobq"
    touch "$root/complete"
}

# A command in the directory, with its own /proc and /dev; what is mounted goes with the command.
inside() {  # release command...
    local root=$DIRECTORY/$1
    shift
    cp /etc/resolv.conf "$root/etc/resolv.conf"
    # shellcheck disable=SC2016
    unshare --mount bash -c '
        set -e
        root=$1
        shift
        mount -t proc proc "$root/proc"
        mount --rbind /dev "$root/dev"
        mount -t tmpfs shm "$root/dev/shm" 2>/dev/null || true
        exec chroot "$root" env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C.UTF-8 TERM=dumb "$@"' - "$root" "$@"
}

check_inside() {  # version suites
    local release
    release=$(release_of "$1")
    make_release "$release"
    local source=$DIRECTORY/$release/jobq
    rm -rf "$source"
    mkdir "$source"
    tar -cf - --exclude=./build --exclude=./.git . | tar -xf - -C "$source"
    inside "$release" sh -c "apt-get -qq update && DEBIAN_FRONTEND=noninteractive apt-get -qq -y upgrade >/dev/null"
    inside "$release" env SUITE="$2" make -C /jobq check
}

check_version() {  # version suites
    if is_here "$1"; then
        SUITE=$2 PG_CONFIG=/usr/lib/postgresql/$1/bin/pg_config scripts/check.sh
    else
        [ "$(id -u)" = 0 ] || fail "PostgreSQL $1 is not installed here; making a directory for it takes root"
        check_inside "$1" "$2"
    fi
}

if [ "${1-}" = one ]; then
    check_version "$PG" "${SUITE-}"
    exit
fi

versions=${PG:-15 17 18}
suites=${SUITE:-$EVERYWHERE}
results=$(mktemp -d)
trap 'rm -rf "$results"' EXIT
status=0
for version in $versions; do
    check_version "$version" "$suites" 2>&1 | tee "$results/$version" || status=1
done

{
    printf '\n%-14s' suite
    printf '%16s' $versions
    echo
    for name in $suites total; do
        printf '%-14s' "$name"
        for version in $versions; do
            printf '%16s' "$(awk -v name="$name" '
                $1 == name && NF >= 5 { found = $3 == 0 && $5 == "ok" ? $2 " ok" : $2 ", " $3 " failed" }
                name == "total" && /^[0-9]+ passed, [0-9]+ failed$/ { found = $1 ", " $3 " failed" }
                END { print found == "" ? "not run" : found }' "$results/$version")"
        done
        echo
    done
}
exit $status
