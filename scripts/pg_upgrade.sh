#!/bin/bash
# make pg-upgrade: runs pg_upgrade on a server with jobs in every state, by copying its files and by linking them
# (test/pg_upgrade), from PostgreSQL 15 to 17 and from 17 to 18: on this system if it has both versions, and otherwise, as root,
# in a directory with a release of Debian (scripts/releases.sh).
#   make pg-upgrade VERSIONS=15:17       one of them
# JOBQ_MATRIX_DIR, JOBQ_MIRROR: see scripts/releases.sh.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/scratch.sh
. scripts/releases.sh
unset PG   # each build here sets its own version

pg_config_of() { echo "/usr/lib/postgresql/$1/bin/pg_config"; }
is_installed() { [ -x "$(pg_config_of "$1")" ] && (PG_CONFIG=$(pg_config_of "$1") find_pg_config); }

# Runs in the release that has the new version, with the old version from the release that had it.
upgrade_inside() {  # old new
    local release=upgrade-$2 source
    use_release "$release"
    if ! inside "$release" test -x "$(pg_config_of "$1")" -a -x "$(pg_config_of "$2")"; then
        say "installing PostgreSQL $1 and $2 in $releases/$release, once"
        apt_inside "$release" install --no-install-recommends postgresql-common &&
            inside "$release" sed -i 's/^#\?create_main_cluster.*/create_main_cluster = false/' /etc/postgresql-common/createcluster.conf &&
            apt_inside "$release" install --no-install-recommends "postgresql-$1" "postgresql-server-dev-$1" \
                "postgresql-$2" "postgresql-server-dev-$2" perl libipc-run-perl ||
            { tail -n 20 "$releases/$release.log" >&2; fail "cannot install the packages; the full output is in $releases/$release.log"; }
    fi
    source=$(copy_into "$release")
    inside "$release" VERSIONS="$1:$2" "$source/scripts/pg_upgrade.sh"
}

# Both versions are installed in one tree, because their directories have different names.
install_version() {  # version
    export PG_CONFIG
    PG_CONFIG=$(pg_config_of "$1")
    make -s -j"$(nproc)" all >"$SCRATCH/build.log" 2>&1 || { cat "$SCRATCH/build.log" >&2; return 1; }
    scratch_tree
}

upgrade_here() {  # old new
    PG_CONFIG=$(pg_config_of "$2") scripts/setup.sh upgrade
    scratch_begin upgrade
    install_version "$1"
    export JOBQ_OLD_TREE=${SCRATCH_BIN%/bin}
    install_version "$2"
    export JOBQ_NEW_TREE=${SCRATCH_BIN%/bin}
    mkdir "$SCRATCH/test"
    cp -R test/process test/pg_upgrade "$SCRATCH/test/"
    scratch_give "$SCRATCH/test" "$SCRATCH/run"
    export PERL5LIB=$SCRATCH_PGXS/src/test/perl PG_REGRESS=$SCRATCH_PGXS/src/test/regress/pg_regress
    export TESTDIR=$SCRATCH/run TESTDATADIR=$SCRATCH/run/tmp_check TESTLOGDIR=$SCRATCH/run/tmp_check/log
    cd "$SCRATCH"
    run_group timeout -k 10 1200 prove -v --timer test/pg_upgrade/pg_upgrade.pl && return
    SCRATCH_KEEP=1
    return 1
}

failed=
for pair in ${VERSIONS:-15:17 17:18}; do
    old=${pair%:*} new=${pair#*:}
    say "from $old to $new"
    where=inside status=0
    if is_installed "$old" && is_installed "$new"; then where=here; fi
    set +e   # inside a condition, the shell would ignore failures
    (set -e; "upgrade_$where" "$old" "$new")
    status=$?
    set -e
    [ $status -eq 0 ] || failed+=" $pair"
done
say "${failed:+failed:}${failed:-passed}"
[ -z "$failed" ]
