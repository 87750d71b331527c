#!/bin/bash
# Makes the table of functions in docs/reference/functions.md from the comments of the functions. src/queues/roles.cpp defines the
# order and the roles. The pages of docs/reference have a section for each function, to which the table links.
#
#   scripts/reference.sh SCRIPT            (make docs) rewrites the table, from the comments in the install script
#   scripts/reference.sh --check SCRIPT    (make check-reference) shows what would change and fails if anything does
set -euo pipefail
cd "$(dirname "$0")/.."
page=docs/reference/functions.md
check=
if [ "$1" = --check ]; then
    check=yes
    shift
fi
new=$(mktemp)
trap 'rm -f "$new"' EXIT

awk '
function fail(why) { print why > "/dev/stderr"; failed = 1; exit 1 }

# The page that describes each function.
pass == "sections" && /^## jobq_[a-z_]+$/ {
    page = FILENAME
    sub(/.*\//, "", page)
    place[$2] = page "#" $2
}

# The comments of the public functions.
pass == "comments" && /^COMMENT ON (FUNCTION|PROCEDURE) jobq_[a-z_]+ IS / {
    text = $0
    sub(/^[^\047]*\047/, "", text)
    sub(/\047;$/, "", text)
    gsub(/\047\047/, "\047", text)
    gsub(/\|/, "\\|", text)
    gsub(/"[a-z]+"/, "`&`", text)
    gsub(/`"|"`/, "`", text)
    gsub(/jobq\.[a-z_]+|[a-z]+(_[a-z]+)+|\047\*\047/, "`&`", text)
    said[$4] = ($3 == "PROCEDURE" ? "`CALL` it: " : "") text
}

pass == "roles" && /^ *\{"jobq_[a-z_]+", [A-Za-z |]+\},$/ {
    name = $1
    gsub(/[^a-z_]/, "", name)
    if (!(name in said)) fail("roles.cpp: " name " is not in the SQL")
    if (!(name in place)) fail("docs/reference has no section " name)
    kinds = $0
    sub(/^[^,]*, /, "", kinds)
    sub(/\},$/, "", kinds)
    group = also = ""
    if (kinds == "kEverybody") group = "all profiles"
    if (kinds == "kNobody") group = "the owner of the extension"
    n = split(kinds, words, / \| /)
    for (i = 1; i <= n && group !~ / /; i++) {
        if (words[i] == "kOfAllQueues") continue
        kind = tolower(substr(words[i], 2)) "s"
        if (group == "") group = kind
        else also = also (also == "" ? "" : ", ") kind
    }
    if (group != before) table = table "| **" group "** | | |\n"
    before = group
    table = table "| [`" name "`](" place[name] ") | " said[name] " | " also (also == "" ? "|" : " |") "\n"
    delete said[name]
}

pass == "page" && /^<!-- functions: / {
    for (name in said) fail("roles.cpp: no profile contains " name)
    print
    printf "\n| | | also for |\n|---|---|---|\n%s\n", table
    inside = done = 1
}
pass == "page" && /^<!-- end of functions / { inside = 0 }
pass == "page" && !inside { print }
END { if (!failed && (!done || inside)) fail("'"$page"' has no table of functions") }
' pass=sections docs/reference/*.md pass=comments "$1" pass=roles src/queues/roles.cpp pass=page "$page" >"$new"

if [ -z "$check" ]; then
    cat "$new" >"$page"
elif diff -u --label "$page" --label 'make docs' "$page" "$new"; then
    echo '1 passed, 0 failed'
else
    echo "not ok - $page is stale: make docs"
    exit 1
fi
