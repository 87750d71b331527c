# Library for bash scripts: throwaway servers that touch nothing outside one directory in /tmp.
#
#   find_pg_config        sets PG_CONFIG to a complete server installation, of version $PG if that is set, or fails
#   scratch_begin NAME    makes the directory $SCRATCH; it is removed on exit, or kept when SCRATCH_KEEP=1
#   scratch_tree          copies the server's bin, lib and share there and installs jobq into the copy;
#                         sets SCRATCH_PG_CONFIG, SCRATCH_BIN and SCRATCH_PGXS
#   scratch_run_under COMMAND   runs servers that start from now on under this command, such as valgrind
#   scratch_server NAME [SETTING...]   starts a server and sets PGHOST, PGPORT, PGUSER, PGDATABASE to it
#   scratch_stop NAME     stops it
#   run_as COMMAND...     runs a command as the owner of the servers: never root
#   run_group COMMAND...  does the same, for commands that may have to be interrupted
#   run_apart FUNCTION    runs a function and stops the servers that it started
#   start_apart FUNCTION  does the same in the background: wait "${scratch_children[-1]}" returns how it ended
#   scratch_give PATH...  makes directories that do not exist, and gives all of each path to the owner of the servers
#   scratch_fetch FROM TO copies the files of a directory that was given away
#
# The copy is needed because a server looks for extensions only in its own tree, and /usr is not ours to change.
# Servers listen on a socket in a directory that only their owner can enter, hence no port can be taken already.
#
# If root runs a script, $SCRATCH belongs to root, because root runs pg_config, make, and psql of the tree in it: the owner of a
# directory can replace every file below it. A script must neither run nor write anything below a directory that it has given away.

find_pg_config() {
    local candidate candidates
    if [ -n "${PG_CONFIG-}" ]; then
        candidates=$PG_CONFIG
    else
        candidates="pg_config $(ls -d /usr/lib/postgresql/*/bin/pg_config 2>/dev/null | sort -rV)"
    fi
    for candidate in $candidates; do
        if candidate=$(command -v "$candidate") && [ -x "$("$candidate" --bindir)/postgres" ] &&
            [ -e "$("$candidate" --pgxs)" ] && [ -e "$("$candidate" --includedir-server)/postgres.h" ] &&
            [[ $("$candidate" --version) == "PostgreSQL ${PG-}"* ]]; then
            PG_CONFIG=$candidate
            export PG_CONFIG
            return 0
        fi
    done
    return 1
}

# Prints where node finds the driver: in Debian's packages, or in what scripts/setup.sh installed from npm.
node_path() {
    echo "${JOBQ_ROOT:-$PWD}/build/node/node_modules:/usr/share/nodejs"
}

run_as() {
    if [ "$(id -u)" = 0 ]; then
        runuser -u "$SCRATCH_USER" -- "${scratch_home[@]}" "$@"
    else
        "$@"
    fi
}

# Like run_as, but in a separate process group, so that an interrupt can end all of it.
run_group() {
    local status=0
    if [ "$(id -u)" = 0 ]; then
        setsid runuser -u "$SCRATCH_USER" -- "${scratch_home[@]}" "$@" &
    else
        setsid "$@" &
    fi
    scratch_group=$!
    wait "$scratch_group" || status=$?
    scratch_group=
    return $status
}

scratch_begin() {
    JOBQ_ROOT=$PWD
    SCRATCH_USER=$(id -un)
    if [ "$(id -u)" = 0 ]; then
        # PostgreSQL refuses to run as root.
        SCRATCH_USER=postgres
        id postgres >/dev/null 2>&1 || SCRATCH_USER=nobody
    fi
    SCRATCH=$(mktemp -d "/tmp/jobq-$1.XXXXXX")
    scratch_servers=()
    scratch_group='' scratch_children=() scratch_hook=''   # hook: function to call before the servers stop
    trap scratch_end EXIT
    trap 'exit 130' INT
    trap 'exit 143' TERM HUP
    mkdir -m 700 "$SCRATCH/root" "$SCRATCH/home" "$SCRATCH/home/tmp" "$SCRATCH/socket"
    if [ "$(id -u)" = 0 ]; then chmod 711 "$SCRATCH"; fi
    scratch_give "$SCRATCH/home" "$SCRATCH/socket"
    # The caller's configuration must not affect the servers or the clients.
    local name
    for name in $(compgen -e); do
        case $name in PG_CONFIG | PG_COLOR) ;; PG[A-Z]*) unset "$name" ;; esac
    done
    unset MAKEFLAGS MFLAGS MAKELEVEL
    scratch_home=(env HOME="$SCRATCH/home" TMPDIR="$SCRATCH/home/tmp")
    export HOME=$SCRATCH/root TMPDIR=$SCRATCH/root PSQLRC=/dev/null LC_ALL=C.UTF-8
    if [ "$(id -u)" != 0 ]; then export "${scratch_home[@]:1}"; fi
}

scratch_give() {  # path...
    local path
    for path in "$@"; do
        [ -e "$path" ] || mkdir -m 700 "$path"
    done
    if [ "$(id -u)" = 0 ]; then chown -R "$SCRATCH_USER" "$@"; fi
}

# The owner of the servers reads the files and follows their symbolic links, so that root copies only what this owner may read.
scratch_fetch() {  # from to
    run_as tar -C "$1" -chf - . | tar -C "$2" --no-same-owner --unlink-first -xf -
}

# Stops only what was started here, by our own process ids and pid files.
scratch_stop_all() {
    local name try
    set +e
    trap '' INT TERM HUP
    cd /
    if [ ${#scratch_children[@]} -gt 0 ]; then
        kill -TERM "${scratch_children[@]}" 2>/dev/null
        wait "${scratch_children[@]}" 2>/dev/null
    fi
    if [ -n "$scratch_group" ]; then
        kill -TERM -- "-$scratch_group" 2>/dev/null
        wait "$scratch_group" 2>/dev/null
        for try in {1..50}; do
            kill -0 -- "-$scratch_group" 2>/dev/null || break
            sleep 0.1
        done
        kill -KILL -- "-$scratch_group" 2>/dev/null
    fi
    if [ -n "$scratch_hook" ]; then "$scratch_hook"; fi
    for name in "${scratch_servers[@]}"; do
        if [ -e "$SCRATCH/$name/postmaster.pid" ]; then
            scratch_stop "$name" immediate >/dev/null 2>&1
        fi
    done
}

scratch_end() {
    local status=$? pid_file
    trap - EXIT
    scratch_stop_all
    # Stops servers of interrupted tests.
    find "$SCRATCH" -name postmaster.pid 2>/dev/null | while read -r pid_file; do
        run_as "$SCRATCH_BIN/pg_ctl" -D "${pid_file%/*}" -m immediate -w stop >/dev/null 2>&1
    done
    if [ "${SCRATCH_KEEP-}" = 1 ]; then
        echo "kept for inspection: $SCRATCH"
    else
        rm -rf "$SCRATCH"
    fi
    exit "$status"
}

# Runs a function in a subshell, so that the servers that it starts end with it, and its settings are undone.
run_apart() {
    local status=0
    start_apart "$@"
    wait "${scratch_children[-1]}" || status=$?
    unset 'scratch_children[-1]'
    return $status
}

start_apart() {
    (
        set -e
        scratch_servers=() scratch_group='' scratch_children=() scratch_hook=''
        trap scratch_stop_all EXIT
        trap 'exit 143' TERM
        "$@"
    ) &
    scratch_children+=($!)
}

# Prints the longest directory that contains all arguments.
common_directory() {
    local common=$1 path
    for path in "$@"; do
        until [[ $path/ == "$common"/* ]]; do common=${common%/*}; done
    done
    echo "$common"
}

# pg_config and the server compute the paths of their files from their own path, if the relative paths are those that were
# compiled in.
scratch_tree() {
    local bin lib share include prefix path
    bin=$("$PG_CONFIG" --bindir)
    lib=$("$PG_CONFIG" --pkglibdir)
    share=$("$PG_CONFIG" --sharedir)
    include=$("$PG_CONFIG" --includedir-server)
    prefix=$(common_directory "$bin" "$lib" "$share" "$include")
    local root=$SCRATCH/tree
    for path in "$bin" "$lib" "$share"; do
        mkdir -p "$root${path#"$prefix"}"
        # Bitcode is only for the just-in-time compiler and makes up most of the size.
        tar -C "$path" --exclude=./bitcode -cf - . | tar -C "$root${path#"$prefix"}" --no-same-owner -xf -
    done
    path=$root${include#"$prefix"}
    mkdir -p "${path%/*}"
    [ -e "$path" ] || ln -s "$include" "$path"
    SCRATCH_BIN=$root${bin#"$prefix"}
    SCRATCH_PG_CONFIG=$SCRATCH_BIN/pg_config
    if [ "$("$SCRATCH_PG_CONFIG" --sharedir)" != "$root${share#"$prefix"}" ]; then
        echo "$PG_CONFIG: cannot copy its tree, because the copy has the sharedir $("$SCRATCH_PG_CONFIG" --sharedir)" >&2
        return 1
    fi
    SCRATCH_PGXS=$(dirname "$("$SCRATCH_PG_CONFIG" --pgxs)")/../..
    make -s -C "$JOBQ_ROOT" PG_CONFIG="$SCRATCH_PG_CONFIG" install >"$SCRATCH/install.log" 2>&1 ||
        { cat "$SCRATCH/install.log" >&2; return 1; }
    # From here on, everything uses the copy and its programs.
    export PATH=$SCRATCH_BIN:$PATH
}

scratch_run_under() {  # command with its arguments
    mv "$SCRATCH_BIN/postgres" "$SCRATCH_BIN/postgres.bare"
    printf '#!/bin/sh\nexec %s "%s" "$@"\n' "$1" "$SCRATCH_BIN/postgres.bare" >"$SCRATCH_BIN/postgres"
    chmod +x "$SCRATCH_BIN/postgres"
}

# Makes the data directory from which all servers are copied.
scratch_template() {
    [ ! -d "$SCRATCH/template" ] || return 0
    scratch_give "$SCRATCH/template"
    (cd "$SCRATCH" && run_as "$SCRATCH_BIN/initdb" -D "$SCRATCH/template" -U postgres -A trust -E UTF8 \
        --locale=C.UTF-8 --no-sync) >"$SCRATCH/initdb.log" 2>&1 || { cat "$SCRATCH/initdb.log" >&2; return 1; }
}

scratch_server() {
    local name=$1
    shift
    scratch_template
    : >"$SCRATCH/$name.log"
    scratch_give "$SCRATCH/$name" "$SCRATCH/$name.log"
    run_as cp -a "$SCRATCH/template/." "$SCRATCH/$name"
    run_as mkdir -p "$SCRATCH/socket/$name"
    export PGHOST=$SCRATCH/socket/$name PGPORT=5432 PGUSER=postgres PGDATABASE=postgres
    {
        echo "listen_addresses = ''"
        echo "unix_socket_directories = '$PGHOST'"
        echo "port = $PGPORT"
        echo "fsync = off"
        echo "log_line_prefix = '%m [%p] %b '"
        printf '%s\n' "$@"
    } | run_as tee -a "$SCRATCH/$name/postgresql.conf" >/dev/null
    scratch_servers+=("$name")
    (cd "$SCRATCH" && run_as "$SCRATCH_BIN/pg_ctl" -D "$SCRATCH/$name" -l "$SCRATCH/$name.log" -w -s start) ||
        { tail -n 20 "$SCRATCH/$name.log" >&2; return 1; }
}

scratch_stop() {
    run_as "$SCRATCH_BIN/pg_ctl" -D "$SCRATCH/$1" -m "${2-fast}" -w -s stop
}
