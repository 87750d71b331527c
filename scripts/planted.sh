# Library for bash scripts, used with scratch.sh: a server's tree whose library has a planted defect.
#
#   plant_defect NAME   builds the library from a copy of the sources with test/planted/NAME.patch; $planted: the directory of the copy
#
# Later commands use that tree, until the function that run_apart() runs ends. Other functions may run in parallel.

plant_defect() {  # name
    local broken=$SCRATCH/build-$1 library script
    planted=$broken
    mkdir -p "$broken/build" "$broken/clients/python"
    cp -Rp clients/python/src "$broken/clients/python/"
    cp -Rp Makefile jobq.control META.json.in router scripts src "$broken/"
    cp -Rp build/server build/[0-9]* "$broken/build/"
    patch -s -p1 -d "$broken" <"test/planted/$1.patch"
    make -s -C "$broken" PG_CONFIG="$SCRATCH_PG_CONFIG" all
    cp -al "$SCRATCH/tree" "$broken/tree"
    SCRATCH_BIN=$broken/tree${SCRATCH_BIN#"$SCRATCH/tree"}
    SCRATCH_PG_CONFIG=$SCRATCH_BIN/pg_config
    export PATH=$SCRATCH_BIN:$PATH
    library=$("$SCRATCH_PG_CONFIG" --pkglibdir)/jobq.so
    rm "$library"   # a link to our library
    cp "$broken/jobq.so" "$library"
    for script in "$broken"/jobq--*.sql "$broken"/router/jobq_*--*.sql; do
        rm "$("$SCRATCH_PG_CONFIG" --sharedir)/extension/${script##*/}"
        cp "$script" "$("$SCRATCH_PG_CONFIG" --sharedir)/extension/"
    done
}
