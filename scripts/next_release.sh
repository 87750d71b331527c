# Library for bash scripts, used with scratch.sh: two releases of jobq in a scratch repository, so that updates can be tested
# before anything has been released.
#
#   upgrade_tree   releases the current sources, adds the changes in test/upgrade/next, and installs both versions into a
#                  copy of the server's tree, whose extension its owner may change. Sets JOBQ_OLD_VERSION and
#                  JOBQ_OLD_LIBRARY to the first release, and JOBQ_NEXT_SCRIPT to the script that leads to the second

upgrade_tree() {
    local tree=$SCRATCH/upgrade-tree repository=$SCRATCH/next-release extension lib
    cp -al "$SCRATCH/tree" "$tree"
    SCRATCH_BIN=$tree${SCRATCH_BIN#"$SCRATCH/tree"}
    SCRATCH_PG_CONFIG=$SCRATCH_BIN/pg_config
    export PATH=$SCRATCH_BIN:$PATH
    extension=$("$SCRATCH_PG_CONFIG" --sharedir)/extension
    lib=$("$SCRATCH_PG_CONFIG" --pkglibdir)

    JOBQ_OLD_VERSION=$(sed -n "s/^default_version *= *'\(.*\)'/\1/p" jobq.control)
    JOBQ_OLD_LIBRARY=$SCRATCH/released.so
    cp "$lib/jobq.so" "$JOBQ_OLD_LIBRARY"
    # The copy of the tree shares its files with the tree, so it gets its own files for jobq.
    rm -f "$extension"/jobq* "$lib/jobq.so"
    make_next_release "$repository"
    make -s -C "$repository" -j"$(nproc)" PG_CONFIG="$SCRATCH_PG_CONFIG" install
    if [ "$(id -u)" = 0 ]; then chown "$SCRATCH_USER" "$lib" "$lib/jobq.so" "$extension" "$extension"/jobq*; fi
    export JOBQ_OLD_VERSION JOBQ_OLD_LIBRARY
}

replace_line() {  # file pattern replacement
    grep -q "^$2\$" "$1" || { echo "next_release: $1 has no line $2" >&2; return 1; }
    sed -i "s/^$2\$/$3/" "$1"
}

make_next_release() {  # repository
    local next
    mkdir "$1"
    cp -Rp Makefile jobq.control META.json.in CHANGELOG.md router scripts src docs debian test/upgrade/next "$1/"
    mkdir -p "$1/build"
    cp -Rp build/server build/[0-9]* "$1/build/"
    (
        cd "$1"
        export GIT_AUTHOR_NAME=test GIT_AUTHOR_EMAIL=test@example.com GIT_COMMITTER_NAME=test GIT_COMMITTER_EMAIL=test@example.com
        export GIT_CONFIG_GLOBAL=/dev/null
        printf 'build/\n/jobq--*.sql\n/router/jobq_*--*.sql\n*.so\nMETA.json\n' >.gitignore
        grep -q '^- ' <(sed '/^## \[Unreleased\]/,/^## /!d' CHANGELOG.md) || sed -i 's/^## \[Unreleased\]$/&\n\n- A line.\n/' CHANGELOG.md
        git init -q -b main
        git add -A
        git commit -q -m 'Begin'
        scripts/release.sh "$JOBQ_OLD_VERSION"
        next=$(sed -n "s/^default_version *= *'\(.*\)'/\1/p" jobq.control)
        cp next/statements.sql src/sql/99_next.sql
        cp next/next.cpp src/main/
        # A library that knows the column writes it for each job that it inserts.
        replace_line src/row/job_columns.h '#define JOBQ_LATER_JOB_COLUMNS(COLUMN)' \
            '& COLUMN(Next, "next_column", TEXTOID, false, Refused, Jobq)'
        replace_line src/enqueue/enqueue.cpp '    set_column(row, kJobKind, .*' \
            '&\n    set_column(row, kJobNext, PointerGetDatum(make_text("enqueued")));'
        awk -f scripts/install_script.awk src/core/job_status.h src/core/queue_settings.h src/sql/99_next.sql |
            grep -v '^\\' >>"src/sql/upgrades/jobq--$JOBQ_OLD_VERSION--$next.sql"
        git add -A
        git commit -q -m 'Change the SQL'
        scripts/release.sh --check
    )
}
