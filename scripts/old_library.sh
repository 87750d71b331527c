# Library for bash scripts, beside scratch.sh: a server's tree for the tests of updates, and the library of the last release.
#
#   upgrade_tree   makes both; sets JOBQ_OLD_VERSION and JOBQ_OLD_LIBRARY. test/upgrade/README.md says which library it is
#
# What follows, up to the end of the function that run_apart() runs, uses that tree, whose extension its owner may change.

upgrade_tree() {
    local build=$SCRATCH/old-library tree=$SCRATCH/upgrade-tree extension lib
    cp -al "$SCRATCH/tree" "$tree"
    SCRATCH_BIN=$tree${SCRATCH_BIN#"$SCRATCH/tree"}
    SCRATCH_PG_CONFIG=$SCRATCH_BIN/pg_config
    export PATH=$SCRATCH_BIN:$PATH
    extension=$("$SCRATCH_PG_CONFIG" --sharedir)/extension
    lib=$("$SCRATCH_PG_CONFIG" --pkglibdir)
    # Files of its own instead of links.
    mkdir "$tree/own"
    cp "$extension"/jobq* "$lib/jobq.so" "$tree/own"
    rm "$extension"/jobq* "$lib/jobq.so"
    mv "$tree/own/jobq.so" "$lib"
    mv "$tree"/own/* "$extension"

    JOBQ_OLD_VERSION=$(find src/sql/releases -name 'jobq--*.sql' 2>/dev/null | sed 's/.*jobq--\(.*\)\.sql/\1/' | sort -V | grep -vxF "$(current_version)" | tail -n 1)
    JOBQ_OLD_LIBRARY=$build/jobq.so
    mkdir -p "$build"
    if [ -n "$JOBQ_OLD_VERSION" ] && git -c safe.directory="$PWD" archive "v$JOBQ_OLD_VERSION" 2>/dev/null | tar -C "$build" -xf - 2>/dev/null; then
        echo "# the library $JOBQ_OLD_VERSION, from its tag"
    else
        release_of_now "$build"
    fi
    make -s -C "$build" PG_CONFIG="$SCRATCH_PG_CONFIG" all
    if [ -e "$build/exports" ]; then
        cp "$build/exports" "$build/build/exports.txt"
        rm "$build/jobq.so" "$build/build/exports.list"
        make -s -C "$build" -o build/exports.txt PG_CONFIG="$SCRATCH_PG_CONFIG" jobq.so
        scripts/exports.sh --check "$build/exports" "$build/jobq.so"
    fi
    if [ "$(id -u)" = 0 ]; then chown "$SCRATCH_USER" "$lib" "$lib/jobq.so" "$extension" "$extension"/jobq*; fi
    export JOBQ_OLD_VERSION JOBQ_OLD_LIBRARY
}

current_version() { sed -n "s/^default_version *= *'\(.*\)'/\1/p" jobq.control; }

# The sources of now under the other version, which export what its script names: that is in `exports`.
release_of_now() {  # build
    echo "# the library $JOBQ_OLD_VERSION, of the sources of now"
    cp -Rp Makefile jobq*.control META.json.in scripts src "$1/"
    mkdir -p "$1/build"
    cp -Rp build/server build/[0-9]* "$1/build/"
    sed -i "s/^default_version = .*/default_version = '$JOBQ_OLD_VERSION'/" "$1/jobq.control"
    scripts/exports.sh "src/sql/releases/jobq--$JOBQ_OLD_VERSION.sql" >"$1/exports"
}
