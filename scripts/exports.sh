#!/bin/bash
# Prints what the shared library must export: the C symbols named in src/sql, their pg_finfo_ records,
# what the server looks for in every library, and where the background workers begin. With --check LIBRARY, compares that list with exports.txt
# and with the library. To renew the list: scripts/exports.sh > exports.txt
set -euo pipefail
cd "$(dirname "$0")/.."

# A function is declared over several lines: its name, then AS 'MODULE_PATHNAME' with or without a symbol.
sql_symbols() {
    cat src/sql/*.sql | sed 's/--.*//' | awk '
        match($0, /CREATE( OR REPLACE)? (FUNCTION|PROCEDURE) +[a-z_0-9.]+/) {
            name = substr($0, RSTART, RLENGTH); sub(/.* /, "", name); sub(/.*\./, "", name)
        }
        match($0, /\047MODULE_PATHNAME\047( *, *\047[A-Za-z_0-9]+\047)?/) {
            symbol = substr($0, RSTART, RLENGTH)
            if (symbol !~ /,/) print name
            else { sub(/.*, *\047/, "", symbol); sub(/\047/, "", symbol); print symbol }
        }' | LC_ALL=C sort -u
}

symbols() {
    local functions
    functions=$(sql_symbols)
    printf '%s\n' Pg_magic_func _PG_init jobq_launcher_main jobq_worker_main jobq_recount_main
    printf '%s\n' "$functions"
    sed 's/^/pg_finfo_/' <<<"$functions"
}

if [ "${1-}" != --check ]; then
    echo '# Exported by the shared library, nothing else. Made by scripts/exports.sh.'
    symbols
    exit
fi

status=0
compare() {
    if ! diff -u --label "$1" --label "$2" <(LC_ALL=C sort "$3") <(LC_ALL=C sort "$4"); then
        status=1
    fi
}
temp=$(mktemp -d)
trap 'rm -rf "$temp"' EXIT
symbols > "$temp/sql"
grep -v '^#' exports.txt | awk '{print $1}' > "$temp/exports"
nm -D --defined-only "$2" | awk '{print $3}' > "$temp/library"
compare sources exports.txt "$temp/sql" "$temp/exports"
compare exports.txt "$2" "$temp/exports" "$temp/library"
# Older minor releases of the server lack this one, so a library that needs it would not load there.
if nm -D --undefined-only "$2" | grep -w heap_datum_check; then
    echo "$2 needs heap_datum_check, which not every minor release has"
    status=1
fi
[ $status -ne 0 ] || echo "exports: $(wc -l < "$temp/exports") symbols, in agreement"
exit $status
