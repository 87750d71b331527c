#!/bin/bash
# Lists what the shared library exports: the C symbols that install scripts name, their pg_finfo_ records, the symbols that the
# server looks up in every library, and the entry points of the background workers.
#
#   scripts/exports.sh SQL...                 prints the list for these scripts, or fragments of a script
#   scripts/exports.sh --check LIST LIBRARY   checks that the library exports exactly what is on the list
set -euo pipefail

# The declaration of a function spans several lines: its name, then AS 'MODULE_PATHNAME' with or without a symbol.
functions() {
    cat "$@" | sed 's/--.*//' | awk '
        match($0, /CREATE( OR REPLACE)? (FUNCTION|PROCEDURE) +[a-z_0-9.]+/) {
            name = substr($0, RSTART, RLENGTH); sub(/.* /, "", name); sub(/.*\./, "", name)
        }
        match($0, /\047MODULE_PATHNAME\047( *, *\047[A-Za-z_0-9]+\047)?/) {
            symbol = substr($0, RSTART, RLENGTH)
            if (symbol !~ /,/) print name
            else { sub(/.*, *\047/, "", symbol); sub(/\047/, "", symbol); print symbol }
        }' | LC_ALL=C sort -u
}

list() {
    local found
    found=$(functions "$@")
    printf '%s\n' Pg_magic_func _PG_init jobq_launcher_main jobq_worker_main jobq_recount_main jobq_executor_main
    printf '%s\n' "$found"
    sed 's/^/pg_finfo_/' <<<"$found"
}

check() {  # list library
    local status=0
    diff -u --label "$1" --label "$2" <(LC_ALL=C sort "$1") <(nm -D --defined-only "$2" | awk '{ print $3 }' | LC_ALL=C sort) || status=1
    # Older minor releases of the server lack this symbol, so a library that needs it could not be loaded there.
    if nm -D --undefined-only "$2" | grep -w heap_datum_check; then
        echo "$2 needs heap_datum_check, which not every minor release has"
        status=1
    fi
    [ $status -ne 0 ] || echo "exports: $(wc -l <"$1") symbols, in agreement"
    return $status
}

if [ "$1" = --check ]; then
    check "$2" "$3"
else
    list "$@"
fi
