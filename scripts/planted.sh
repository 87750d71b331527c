# Library for bash scripts, beside scratch.sh: a library with a planted defect in the place of ours, in the scratch tree.
#
#   plant_defect FLAG   built with -DFLAG, which stands in the sources
#   plant_patch NAME    built from a copy of the sources with test/planted/NAME.patch
#
# Both until the servers of run_apart() are stopped, or to the end of a script that calls restore_library.

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
    local broken=$1
    shift
    make -s -C "$broken" PG_CONFIG="$SCRATCH_PG_CONFIG" "$@" all
    local library
    library=$("$SCRATCH_PG_CONFIG" --pkglibdir)/jobq.so
    cp -p "$library" "$SCRATCH/jobq.so"
    cp "$broken/jobq.so" "$library"
    scratch_hook=restore_library
}
restore_library() {
    mv "$SCRATCH/jobq.so" "$("$SCRATCH_PG_CONFIG" --pkglibdir)/jobq.so"
}
