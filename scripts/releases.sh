# Library for bash scripts: releases of Debian, for versions of PostgreSQL and compilers that this system does not have. Each
# release is in a directory that debootstrap fills once and that is kept for later runs. All of this requires root.
#
#   is_here VERSION             returns whether this system has this PostgreSQL, or packages of it
#   release_of VERSION          prints the name of the release that has it
#   use_release RELEASE         makes its directory, or updates the packages there, and locks it
#   copy_into RELEASE           copies the checkout there, without build files; prints the path inside the directory
#   inside RELEASE COMMAND...   runs a command there; all processes that it has started end with it
#
# JOBQ_MATRIX_DIR: where the directories are (/var/cache/jobq-matrix)
# JOBQ_MIRROR: Debian's archive (http://deb.debian.org/debian); debian-security is expected next to it

releases=${JOBQ_MATRIX_DIR:-/var/cache/jobq-matrix}
# The packages that debootstrap adds to the smallest system. Scripts that need fewer change this list, and `releases`.
release_packages=ca-certificates,ccache,make,g++,util-linux,procps,python3
mirror=${JOBQ_MIRROR:-http://deb.debian.org/debian}

fail() {
    echo "$(basename "$0" .sh): $*" >&2
    exit 2
}
say() { echo "$(basename "$0" .sh): $*"; }

packages_know() { apt-cache pkgnames "postgresql-server-dev-$1" 2>/dev/null | grep -qx "postgresql-server-dev-$1"; }

# Returns whether the version is installed, or among the packages of this system. A new system has no list of packages yet.
is_here() {  # version
    (unset PG_CONFIG; PG=$1 find_pg_config) && return
    if [ "$(id -u)" = 0 ] && [ -z "$(apt-cache pkgnames postgresql-server-dev- 2>/dev/null)" ]; then apt-get -qq update || true; fi
    packages_know "$1"
}

release_of() {  # version
    case $1 in
        15) echo bookworm ;;
        17) echo trixie ;;
        18) echo sid ;;
        19) echo experimental ;;
        *) fail "PostgreSQL $1 is not available, because no release of Debian has it; available are 15 (bookworm), 17 (trixie), 18 (sid), 19 (experimental)" ;;
    esac
}

mirror_has() {  # release
    local answer status=0
    answer=$(mktemp)
    /usr/lib/apt/apt-helper download-file "$mirror/dists/$1/Release" "$answer" >/dev/null 2>&1 || status=1
    rm -f "$answer"
    return $status
}

# experimental is used on top of sid. upgrade-17 and upgrade-18 have the previous version in addition to their own.
base_of() {  # release
    case $1 in
        experimental | upgrade-18) echo sid ;;
        upgrade-17) echo trixie ;;
        *) echo "$1" ;;
    esac
}

# Adds the packages of an older release, for packages that the release itself does not have.
add_older_release() {  # release older
    local apt=$releases/$1/etc/apt
    echo "deb $mirror $2 main" >>"$apt/sources.list"
    printf 'Package: *\nPin: release n=%s\nPin-Priority: 100\n\n' "$2" "$2-security" >"$apt/preferences.d/jobq"
}

write_apt_settings() {  # release
    local apt=$releases/$1/etc/apt
    echo "deb $mirror $(base_of "$1") main" >"$apt/sources.list"
    case $1 in
        sid) ;;
        upgrade-17)
            echo "deb ${mirror%/debian}/debian-security trixie-security main" >>"$apt/sources.list"
            add_older_release "$1" bookworm
            echo "deb ${mirror%/debian}/debian-security bookworm-security main" >>"$apt/sources.list"
            ;;
        # 17.12 dumps an option (pg_attver) that 18.6 does not know, so this pair fails until sid has 18.7.
        upgrade-18) add_older_release "$1" trixie ;;
        experimental)
            echo "deb $mirror experimental main" >>"$apt/sources.list"
            printf 'Package: src:postgresql-19\nPin: release a=experimental\nPin-Priority: 900\n' >"$apt/preferences.d/jobq"
            ;;
        *) echo "deb ${mirror%/debian}/debian-security $1-security main" >>"$apt/sources.list" ;;
    esac
    # The mirror may be an old snapshot, so expiration dates are ignored. Two checks may install packages at the same time, so apt
    # waits for its lock.
    printf '%s\n' 'Acquire::Check-Valid-Until "false";' 'APT::Update::Error-Mode "any";' 'DPkg::Lock::Timeout "600";' \
        >"$apt/apt.conf.d/90jobq"
}

apt_inside() {  # release arguments...
    local release=$1
    shift
    inside "$release" apt-get -q -y "$@" >>"$releases/$release.log" 2>&1
}

make_release() {  # release
    local root=$releases/$1
    mirror_has "$(base_of "$1")" ||
        fail "cannot reach $mirror, or it has no $(base_of "$1"): $root cannot be created. Set JOBQ_MIRROR to another mirror"
    if ! command -v debootstrap >/dev/null; then scripts/setup.sh matrix; fi
    say "making $root, once; it takes a minute or two, and 500 MB"
    rm -rf --one-file-system "$root"
    # debootstrap mounts file systems, and may be interrupted.
    in_namespace debootstrap --variant=minbase --include="$release_packages" \
        "$(base_of "$1")" "$root" "$mirror" >"$root.log" 2>&1 ||
        { tail -n 20 "$root.log" >&2; fail "debootstrap of $1 failed; all it said is in $root.log"; }
    # Packages may not start servers.
    printf '#!/bin/sh\nexit 101\n' >"$root/usr/sbin/policy-rc.d"
    chmod 755 "$root/usr/sbin/policy-rc.d"
    write_apt_settings "$1"
    apt_inside "$1" update && apt_inside "$1" full-upgrade ||
        { tail -n 20 "$root.log" >&2; fail "cannot update the packages of $1; the full output is in $root.log"; }
    touch "$root/complete"
}

# Updates the packages once a day. If that fails although the mirror can be reached, makes the directory again.
refresh_release() {  # release
    local root=$releases/$1
    [ -z "$(find "$root/complete" -mmin -1200)" ] || return 0
    if ! mirror_has "$(base_of "$1")"; then
        say "cannot reach $mirror: $root stays as it was on $(date -r "$root/complete" +%F). JOBQ_MIRROR names another mirror"
        return 0
    fi
    say "bringing $root up to date"
    write_apt_settings "$1"
    if apt_inside "$1" update && apt_inside "$1" full-upgrade && apt_inside "$1" clean; then
        touch "$root/complete"
    else
        make_release "$1"
    fi
}

# A script that makes or changes the directory holds an exclusive lock; scripts that use it hold a shared lock.
use_release() {  # release
    local root=$releases/$1 held
    [ "$(id -u)" = 0 ] || fail "$1 takes a directory made with debootstrap, and that takes root"
    unshare --mount-proc --pid --ipc --fork true 2>/dev/null || fail "may not mount anything here, which $1 in a directory takes"
    mkdir -p "$releases"
    exec {held}>>"$root.lock"
    while
        if flock -n -x "$held"; then
            rm -rf "$root"/tmp/jobq-source.*
            if [ -e "$root/complete" ]; then refresh_release "$1"; else make_release "$1"; fi
        fi
        flock -s "$held"
        [ ! -e "$root/complete" ]
    do :; done
}

copy_into() {  # release
    local copy
    copy=$(mktemp -d "$releases/$1/tmp/jobq-source.XXXXXX")
    chmod 755 "$copy"
    tar -cf - --exclude=./build --exclude=./.git . | tar -xf - -C "$copy"
    echo "/tmp/${copy##*/}"
}

# Runs a command with its own processes, /proc, and shared memory.
inside() {  # release command...
    local root=$releases/$1 setting settings=()
    shift
    for setting in $(compgen -e); do
        case $setting in JOBQ_*) settings+=("$setting=${!setting}") ;; esac
    done
    cp /etc/resolv.conf "$root/etc/resolv.conf"
    # ccache finds what has been compiled before, whatever the directory of the copy is called.
    # shellcheck disable=SC2016
    in_namespace bash -c '
        set -e
        root=$1
        shift
        mount -t proc proc "$root/proc"
        mount --rbind /dev "$root/dev"
        mount -t tmpfs shm "$root/dev/shm"
        status=0
        chroot "$root" env -i PATH=/usr/lib/ccache:/usr/sbin:/usr/bin:/sbin:/bin CCACHE_DIR=/var/cache/ccache CCACHE_NOHASHDIR=1 \
            LC_ALL=C.UTF-8 TERM=dumb DEBIAN_FRONTEND=noninteractive "$@" || status=$?
        exit $status' - "$root" "${settings[@]}" "$@"
}

# Runs a command in its own namespaces. All its processes and mounts end with it, and it ends with this shell. Replaces the traps
# of the calling shell.
in_namespace() {  # command...
    local status=0
    unshare --mount-proc --pid --ipc --fork --kill-child "$@" &
    # The process reacts to no other signal.
    trap "kill -KILL $! 2>/dev/null" EXIT
    trap 'exit 130' INT
    trap 'exit 143' TERM
    wait $! || status=$?
    trap - EXIT
    return $status
}
