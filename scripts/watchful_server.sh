# Library for bash scripts: a PostgreSQL 15 that checks its memory, built from Debian's sources. It has assertions, overwrites
# what it frees, and tells valgrind about every chunk that it allocates.
#
#   watchful_server    builds it unless it exists, and sets PG_CONFIG to it
#
# It is kept in $WATCHFUL (JOBQ_MEMCHECK_DIR, /var/cache/jobq-memcheck). Apt gets its own lists there, and the configuration of
# the system stays as it is.

WATCHFUL=${JOBQ_MEMCHECK_DIR:-/var/cache/jobq-memcheck}

# The options of the build; if this line changes, the server is built again.
watchful_options="--enable-cassert --enable-debug --without-readline --without-zlib --without-icu"
watchful_flags="-O1 -g -fno-omit-frame-pointer -DUSE_VALGRIND"
watchful_cxxflags="-O1 -g -fno-omit-frame-pointer"
watchful_contrib="pageinspect auto_explain"   # used by tests

watchful_apt() {  # command...
    "$@" -o Dir::Etc::SourceList="$WATCHFUL/apt/sources.list" -o Dir::Etc::SourceParts=/dev/null \
        -o Dir::State::Lists="$WATCHFUL/apt/lists" -o Acquire::Check-Valid-Until=false -o APT::Sandbox::User=root
}

# The server is built and installed by a user that can write nowhere else, because an error in its configuration would otherwise
# overwrite the server of the system.
watchful_as_owner() {  # command...
    if [ "$(id -u)" = 0 ]; then runuser -u nobody -- "$@"; else "$@"; fi
}

# Uses only the upstream tarball, because Debian's changes install parts of the server at fixed paths below /usr. A mirror may
# list a version whose files it does not have; then the previous version is used.
watchful_sources() {
    local mirror=${JOBQ_MIRROR:-http://deb.debian.org/debian} key=/usr/share/keyrings/debian-archive-keyring.gpg version
    mkdir -p "$WATCHFUL/apt/lists/partial" "$WATCHFUL/source"
    printf 'deb-src [signed-by=%s] %s main\n' "$key" "$mirror bookworm" \
        "$key" "${mirror%/debian}/debian-security bookworm-security" >"$WATCHFUL/apt/sources.list"
    cd "$WATCHFUL/source"
    watchful_apt apt-get -q update || return 1
    for version in $(watchful_apt apt-cache showsrc postgresql-15 | sed -n 's/^Version: //p' | sort -rV); do
        if watchful_apt apt-get -q source --download-only "postgresql-15=$version"; then
            tar -xf postgresql-15_*.orig.tar.* --strip-components=1 && return
        fi
    done
    return 1
}

watchful_build() {  # directory of the sources, of the server
    set -e
    cd "$1"
    # With these variables of an outer make, it would not generate all headers.
    unset MAKEFLAGS MFLAGS MAKELEVEL
    # shellcheck disable=SC2086
    ./configure -q --prefix="$2" $watchful_options CFLAGS="$watchful_flags" CXXFLAGS="$watchful_cxxflags"
    # Leaves out the files that no test uses.
    sed -i -E '/^\t(pg_(amcheck|archivecleanup|basebackup|checksums|controldata|dump|resetwal|rewind|test_fsync|test_timing|upgrade|verifybackup|waldump)|pgbench) /d' src/bin/Makefile
    sed -i 's/^SUBDIRS = libpq ecpg/SUBDIRS = libpq/' src/interfaces/Makefile
    local part
    for part in . $(printf 'contrib/%s ' $watchful_contrib); do
        nice make -s -j"$(nproc)" -C "$part" install
    done
    cp src/tools/valgrind.supp "$2/"
    cp "$(/usr/lib/postgresql/15/bin/pg_config --sharedir)"/extension/pgtap* "$("$2/bin/pg_config" --sharedir)/extension/"
}

watchful_server() {
    local made="$watchful_options $watchful_flags $watchful_contrib" begun=$SECONDS log=$WATCHFUL/build.log
    export PG_CONFIG=$WATCHFUL/server/bin/pg_config
    # Root runs programs of this server, so a server that belongs to another user is built again.
    [ ! -O "$WATCHFUL/server" ] || [ "$(cat "$WATCHFUL/server/made" 2>/dev/null)" != "$made" ] || return 0
    echo "building a server with assertions in $WATCHFUL (see build.log there)"
    rm -rf "$WATCHFUL/server" "$WATCHFUL/source"
    mkdir -p "$WATCHFUL/server"
    (watchful_sources) >"$log" 2>&1 || { tail -n 20 "$log" >&2; echo "memcheck: no sources of PostgreSQL 15" >&2; return 1; }
    [ "$(id -u)" != 0 ] || chown -R nobody "$WATCHFUL/source" "$WATCHFUL/server"
    export -f watchful_build
    export watchful_options watchful_flags watchful_cxxflags watchful_contrib
    watchful_as_owner bash -c 'watchful_build "$@"' - "$WATCHFUL/source" "$WATCHFUL/server" >>"$log" 2>&1 ||
        { tail -n 30 "$log" >&2; echo "memcheck: the server could not be built" >&2; return 1; }
    [ "$(id -u)" != 0 ] || chown -R root: "$WATCHFUL/server"
    rm -rf "$WATCHFUL/source" "$WATCHFUL/apt"
    echo "$made" >"$WATCHFUL/server/made"
    echo "built in $((SECONDS - begun)) s"
}
