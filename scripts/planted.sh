# Library for bash scripts, beside scratch.sh: a server's tree with a library that has a planted defect. What follows, up to
# the end of the function that run_apart() runs, uses that tree.
#
#   plant_defect FLAG   built with -DFLAG, which stands in the sources
#   plant_patch NAME    built from a copy of the sources with test/planted/NAME.patch

plant_defect() {  # flag
    local flag=$1 broken=$SCRATCH/build-$1 unit
    copy_build "$broken"
    for unit in $(grep -rl --include='*.cpp' "$flag" src); do
        rm -f "$broken/${unit%.cpp}.o"
    done
    replace_library "$broken" COPT="-D$flag"
}
plant_patch() {  # name
    local broken=$SCRATCH/build-$1
    copy_build "$broken"
    patch -s -p1 -d "$broken" <"test/planted/$1.patch"
    replace_library "$broken"
}
copy_build() {  # directory
    mkdir "$1"
    cp -Rp Makefile jobq.control exports.txt META.json.in src "$1/"
}
replace_library() {  # directory make-arguments...
    local broken=$1 library
    shift
    make -s -C "$broken" PG_CONFIG="$SCRATCH_PG_CONFIG" "$@" all
    cp -al "$SCRATCH/tree" "$broken/tree"
    SCRATCH_BIN=$broken/tree${SCRATCH_BIN#"$SCRATCH/tree"}
    SCRATCH_PG_CONFIG=$SCRATCH_BIN/pg_config
    export PATH=$SCRATCH_BIN:$PATH
    library=$("$SCRATCH_PG_CONFIG" --pkglibdir)/jobq.so
    rm "$library"   # a link to ours
    cp "$broken/jobq.so" "$library"
}
