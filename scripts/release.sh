#!/bin/bash
# Makes releases and checks the rules for them. See CONTRIBUTING.md, "Releases".
#
#   scripts/release.sh VERSION [NEXT]   (make release VERSION=1.0.0) makes two commits and a tag: the release, and the start of the
#                                       development of NEXT, by default the next minor version. On a branch from a tag, for a patch
#                                       release, makes one commit and a tag
#   scripts/release.sh --carry VERSION  makes one commit, which adds the scripts of a release from another branch to this branch
#   scripts/release.sh --check          (make lint) checks that released scripts are unchanged, that there is an upgrade path from
#                                       each release to the version in development, and that no older release is missing here
set -euo pipefail
cd "$(dirname "$0")/.."
# The extensions of a cluster, in router/, have the same version and are released together with jobq.
readonly CONTROLS='jobq.control router/jobq_shard.control router/jobq_router.control' CLUSTER='shard router'

making() { sed -n "s/^default_version *= *'\(.*\)'/\1/p" jobq.control; }
releases() { { find src/sql/releases -name 'jobq--*.sql' 2>/dev/null || true; } | sed 's/.*jobq--\(.*\)\.sql/\1/' | sort -V; }
sql_of() { if [ "$1" = jobq ]; then echo src/sql; else echo router/sql; fi; }                       # extension
frozen() { echo "$(sql_of "${2-jobq}")/releases/${2-jobq}--$1.sql"; }            # version [extension]
upgrade() { echo "$(sql_of "${3-jobq}")/upgrades/${3-jobq}--$1--$2.sql"; }      # from to [extension]
sums_of() { echo "${1%/*/*}/releases/SHA256SUMS"; }                             # frozen or upgrade script
is_newer() { [ "$1" != "$2" ] && [ "$(printf '%s\n' "$1" "$2" | sort -V | tail -n 1)" = "$1" ]; }
cluster_script() { router/scripts/cluster_script.sh "$1" "$2"; }   # shard or router, install script of jobq

# Prints the statements of a script, without comments and the check with which each script begins.
statements() { sed -e 's/^ *--.*//' -e '/^SELECT jobq\.require_library();$/d' -e '/^\\echo /d' "$1" | grep -v '^ *$' || true; }

is_released() { [ -e "$(frozen "$1")" ]; }
tags() { { git tag --list 'v[0-9]*' 2>/dev/null || true; } | sed -n 's/^v\([0-9]*\.[0-9]*\.[0-9]*\)$/\1/p' | sort -V; }
# Prints the release before or after a version, among the releases of this branch. After the last one comes the version in
# development.
before() { releases | while read -r other; do ! is_newer "$1" "$other" || echo "$other"; done | tail -n 1; }
after() { { releases; making; } | while read -r other; do ! is_newer "$other" "$1" || echo "$other"; done | sed -n 1p; }

# ---- the check: prints one line per problem

check_sums() {
    local file version sums
    for sums in {src,router}/sql/releases/SHA256SUMS; do
        [ ! -e $sums ] || sha256sum -c --quiet $sums 2>/dev/null | sed 's/: FAILED.*/: differs from the released file; put the change into an upgrade script/' || true
    done
    for version in $(releases); do
        file=$(frozen "$version")
        grep -qs " $file\$" "$(sums_of "$file")" || echo "$file: is not in $(sums_of "$file"); scripts/release.sh makes releases"
        grep -qF "## [$version]" CHANGELOG.md || echo "CHANGELOG.md: has no section [$version]"
        # The file with the checksums could have been changed, too, so the file is also compared with the tag.
        if git rev-parse -q --verify "refs/tags/v$version" >/dev/null 2>&1; then
            git diff --quiet "v$version" -- "$file" || echo "$file: differs from the file in tag v$version"
        fi
    done
}

check_way() {
    local current newest='' version file
    current=$(making)
    for version in $(releases | grep -vxF "$current") "$current"; do
        if [ -n "$newest" ]; then
            file=$(upgrade "$newest" "$version")
            if [ ! -e "$file" ]; then
                echo "$file is missing: there is no upgrade path from $newest to $version"
            elif [ "$(grep -vE '^ *(--.*|\\echo .*)?$' "$file" | head -n 1)" != 'SELECT jobq.require_library();' ]; then
                echo "$file: must begin with SELECT jobq.require_library();"
            fi
        fi
        is_newer "$version" "$newest" || echo "jobq.control: $current is not newer than $newest, which is released"
        newest=$version
    done
    newest=$(releases | tail -n 1)
    [ -n "$newest" ] || return 0
    check_cluster "$newest" "$current"
    if scripts/install_script.sh | cmp -s - "$(frozen "$newest")"; then return; fi
    if [ "$newest" = "$current" ]; then
        echo "src/sql: the install script differs from $(frozen "$current"), which is released"
    elif [ -e "$(upgrade "$newest" "$current")" ] && [ -z "$(statements "$(upgrade "$newest" "$current")")" ]; then
        echo "$(upgrade "$newest" "$current"): has no statements, but src/sql has changed since $newest"
    fi
}

# Does the same for the extensions of a cluster, which did not exist in the first releases.
check_cluster() {  # newest current
    local name file jobq
    for name in $CLUSTER; do
        [ -e "$(frozen "$1" "jobq_$name")" ] || continue
        file=$(upgrade "$1" "$2" "jobq_$name")
        if [ "$1" != "$2" ] && [ ! -e "$file" ]; then
            echo "$file is missing: there is no upgrade path from $1 to $2"
            continue
        fi
        jobq=$(mktemp -d)/jobq--$2.sql
        scripts/install_script.sh >"$jobq"
        if ! cluster_script "$name" "$jobq" | cmp -s - "$(frozen "$1" "jobq_$name")"; then
            if [ "$1" = "$2" ]; then
                echo "router/sql/$name: the install script differs from $(frozen "$1" "jobq_$name"), which is released"
            elif [ -z "$(statements "$file")" ]; then
                echo "$file: has no statements, but the script of jobq_$name has changed since $1"
            fi
        fi
        rm -r "${jobq%/*}"
    done
}

# Checks that all older tags are releases of this branch. Newer tags belong to branches that continue from this one.
check_tags() {
    local version
    for version in $(tags); do
        is_released "$version" || ! is_newer "$(making)" "$version" ||
            echo "v$version: was released on another branch, and is missing here; run scripts/release.sh --carry $version"
    done
}

if [ "${1-}" = --check ]; then
    found=$(check_sums; check_way; check_tags)
    [ -z "$found" ] || { printf '%s\n' "$found"; exit 1; }
    exit
fi

# ---- functions for --carry and for a release

fail() {
    echo "release: $*" >&2
    exit 1
}

require_clean() { [ -z "$(git status --porcelain)" ] || fail "the tree has changes: commit them first"; }

commit() {  # message
    local problems
    git add -A $CONTROLS CHANGELOG.md debian docs router/sql rpm src/sql
    problems=$(check_sums; check_way)
    [ -z "$problems" ] || fail "$problems"
    git commit -q -m "$1"
}

note_sums() {  # frozen or upgrade script...
    local file
    for file; do sha256sum "$file" >>"$(sums_of "$file")"; done
}

# Also changes the version in the documentation, where it shows rows with versions.
set_version() {  # version
    local old
    old=$(making)
    sed -i "s/^default_version = .*/default_version = '$1'/" $CONTROLS
    sed -i "s/^\(Version: *\).*/\1$1/" rpm/jobq.spec
    OLD=$old NEW=$1 perl -pi -e 's/(?<![\d.])\Q$ENV{OLD}\E(?![\d.])/$ENV{NEW}/g if /^[ \d.|tf]+$/' docs/*/*.md
}

# Changes the entry at the top of debian/changelog, whose version is not released yet, to this version and the current time.
name_entry() {  # version [when]
    sed -i -e "1s/([^-]*-[^)]*)/($1-0jobq1)/" -e "0,/^ -- /s/^\( -- .*>\)  .*/\1  $(date -uR -d "${2:-now}")/" debian/changelog
}

# lintian requires each entry to be later than the entry below it.
readonly behind='1 second'

# Adds another entry at the top.
begin_entry() {  # version
    { sed '/^ -- /q' debian/changelog; echo; cat debian/changelog; } >debian/changelog.new
    mv debian/changelog.new debian/changelog
    name_entry "$1" "$behind"
}

begin_upgrade() {  # from to
    mkdir -p {src,router}/sql/upgrades
    cat >"$(upgrade "$1" "$2")" <<SQL
-- What has changed in src/sql since $1. CONTRIBUTING.md, "Change SQL after a release".
\\echo Use "ALTER EXTENSION jobq UPDATE" to load this file. \\quit

SELECT jobq.require_library();
SQL
    local name
    for name in $CLUSTER; do
        [ ! -e "$(frozen "$1" "jobq_$name")" ] || cat >"$(upgrade "$1" "$2" "jobq_$name")" <<SQL
-- What has changed in jobq_$name since $1. CONTRIBUTING.md, "Change SQL after a release".
\\echo Use "ALTER EXTENSION jobq_$name UPDATE" to load this file. \\quit
SQL
    done
}

# Freezes the scripts of a cluster's extensions for a version whose script of jobq is already frozen.
freeze_cluster() {  # version [newest]
    local name
    for name in $CLUSTER; do
        cluster_script "$name" "$(frozen "$1")" >"$(frozen "$1" "jobq_$name")"
        note_sums "$(frozen "$1" "jobq_$name")"
        [ -z "${2-}" ] || [ ! -e "$(upgrade "$2" "$1" "jobq_$name")" ] || note_sums "$(upgrade "$2" "$1" "jobq_$name")"
    done
}

# Prints the scripts of a cluster's extensions that a tag contains.
cluster_files() {  # tag from version
    local name file
    for name in $CLUSTER; do
        for file in "$(frozen "$3" "jobq_$name")" "$(upgrade "$2" "$3" "jobq_$name")"; do
            ! git cat-file -e "$1:$file" 2>/dev/null || echo "$file"
        done
    done
}

# ---- releases from other branches

if [ "${1-}" = --carry ]; then
    version=${2-}
    tag=v$version
    git rev-parse -q --verify "refs/tags/$tag" >/dev/null || fail "tag $tag does not exist"
    require_clean
    ! is_released "$version" || fail "$version is already here"
    from=$(before "$version")
    to=$(after "$version")
    [ -n "${from:+$to}" ] || fail "$version is not between the releases on this branch and $(making)"
    git cat-file -e "$tag:$(upgrade "$from" "$version")" 2>/dev/null ||
        fail "$tag has no upgrade script from $from: carry the releases between them first"
    # The install scripts must be equal, so that an upgrade script from one release works for the other, too.
    git show "$tag:$(frozen "$version")" | cmp -s - "$(frozen "$from")" || fail "$version is not a patch release of $from, because its SQL differs"
    for file in "$(frozen "$version")" "$(upgrade "$from" "$version")" $(cluster_files "$tag" "$from" "$version"); do
        git show "$tag:$file" >"$file"
        note_sums "$file"
    done
    for name in jobq $(printf 'jobq_%s ' $CLUSTER); do
        [ -e "$(upgrade "$from" "$to" "$name")" ] || continue
        if is_released "$to"; then
            cp "$(upgrade "$from" "$to" "$name")" "$(upgrade "$version" "$to" "$name")"
            note_sums "$(upgrade "$version" "$to" "$name")"
        else
            git mv "$(upgrade "$from" "$to" "$name")" "$(upgrade "$version" "$to" "$name")"
            sed -i "1s/since $from\./since $version./" "$(upgrade "$version" "$to" "$name")"
        fi
    done
    FROM=$from VERSION=$version perl -0pi -e '
        my $other = qx(git show "v$ENV{VERSION}:CHANGELOG.md");
        my ($section) = $other =~ /^(## \[\Q$ENV{VERSION}\E\].*?)(?=^## |\z)/ms;
        s/^(?=## \[\Q$ENV{FROM}\E\])/$section/m' CHANGELOG.md
    FROM=$from VERSION=$version perl -0pi -e '
        my $other = qx(git show "v$ENV{VERSION}:debian/changelog");
        my ($entry) = $other =~ /^(jobq \(\Q$ENV{VERSION}\E-.*?)(?=^jobq \(|\z)/ms;
        s/^(?=jobq \(\Q$ENV{FROM}\E-)/$entry/m' debian/changelog
    is_released "$(making)" || name_entry "$(making)" "$behind"
    commit "$version, released on a branch of its own, belongs to the history"
    git log --oneline --decorate -1
    exit
fi

# ---- the release

changes() { awk '/^## / { inside = $0 == "## [Unreleased]"; next } inside && NF' CHANGELOG.md; }

version=${1-}
next=${2-}
was=$(making)
newest=$(releases | tail -n 1)
[[ $version =~ ^[0-9]+\.[0-9]+\.[0-9]+$ ]] || fail "say which version: make release VERSION=1.0.0"
# On a branch from a tag, no version is in development.
if [ -z "$next" ] && [ "$was" != "$newest" ]; then next=${version%%.*}.$(($(cut -d. -f2 <<<"$version") + 1)).0; fi
[ -z "$next" ] || is_newer "$next" "$version" || fail "$next is not newer than $version"
require_clean
! git rev-parse -q --verify "refs/tags/v$version" >/dev/null || fail "there is a tag v$version"
[ -z "$newest" ] || is_newer "$version" "$newest" || fail "$newest is released already"
if [ "$was" = "$newest" ] && [ "${version%.*}" != "${newest%.*}" ]; then
    fail "this branch begins at v$newest: patches of it are ${newest%.*}.$((${newest##*.} + 1)) and so on"
fi
[ -n "$(changes)" ] || fail "CHANGELOG.md says nothing under [Unreleased]"
problems=$("$0" --check) || fail "$problems"
if [ -n "$newest" ] && [ "${version%.*}" = "${newest%.*}" ] && ! scripts/install_script.sh | cmp -s - "$(frozen "$newest")"; then
    fail "$version would be a patch of $newest, but src/sql has changed: make it on a branch from v$newest"
fi

if [ "$was" = "$newest" ]; then
    begin_upgrade "$newest" "$version"
    begin_entry "$version"
elif [ -n "$newest" ] && [ "$was" != "$version" ]; then
    for name in jobq $(printf 'jobq_%s ' $CLUSTER); do
        [ ! -e "$(upgrade "$newest" "$was" "$name")" ] || git mv "$(upgrade "$newest" "$was" "$name")" "$(upgrade "$newest" "$version" "$name")"
    done
fi
set_version "$version"
name_entry "$version"
sed -i "s/^## \[Unreleased\]\$/&\n\n## [$version] - $(date -u +%F)/" CHANGELOG.md
mkdir -p {src,router}/sql/{releases,upgrades}
scripts/install_script.sh >"$(frozen "$version")"
note_sums "$(frozen "$version")" ${newest:+"$(upgrade "$newest" "$version")"}
freeze_cluster "$version" "$newest"
commit "Release $version"
git tag -a "v$version" -m "jobq $version"

if [ -n "$next" ]; then
    set_version "$next"
    begin_entry "$next"
    begin_upgrade "$version" "$next"
    commit "$next in the making"
fi
git log --oneline --decorate -2
