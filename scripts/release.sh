#!/bin/bash
# Releases, and what holds of them. CONTRIBUTING.md, "Releases", says when and what else.
#
#   scripts/release.sh VERSION [NEXT]   (make release VERSION=1.0.0) two commits and a tag: the release, and NEXT in the making, by
#                                       default the next minor version
#   scripts/release.sh --check          what `make lint` asks: released scripts are as they were, and from each a way leads to
#                                       the version in the making
set -euo pipefail
cd "$(dirname "$0")/.."
readonly RELEASES=src/sql/releases UPGRADES=src/sql/upgrades SUMS=src/sql/releases/SHA256SUMS

making() { sed -n "s/^default_version *= *'\(.*\)'/\1/p" jobq.control; }
releases() { { find $RELEASES -name 'jobq--*.sql' 2>/dev/null || true; } | sed 's/.*jobq--\(.*\)\.sql/\1/' | sort -V; }
frozen() { echo "$RELEASES/jobq--$1.sql"; }
upgrade() { echo "$UPGRADES/jobq--$1--$2.sql"; }
is_newer() { [ "$1" != "$2" ] && [ "$(printf '%s\n' "$1" "$2" | sort -V | tail -n 1)" = "$1" ]; }
# Beyond comments and the question that each begins with.
statements() { sed -e 's/^ *--.*//' -e '/^SELECT jobq\.require_library();$/d' -e '/^\\echo /d' "$1" | grep -v '^ *$' || true; }

# ---- the check: a line for each thing that is wrong

check_sums() {
    local file version
    [ ! -e $SUMS ] || sha256sum -c --quiet $SUMS 2>/dev/null | sed 's/: FAILED.*/: differs from what was released; what is to change goes into an upgrade script/' || true
    for version in $(releases); do
        file=$(frozen "$version")
        grep -qs " $file\$" $SUMS || echo "$file: is not in $SUMS; scripts/release.sh makes releases"
        grep -qF "## [$version]" CHANGELOG.md || echo "CHANGELOG.md: has no section [$version]"
        # The sums could have been made anew.
        if git rev-parse -q --verify "refs/tags/v$version" >/dev/null 2>&1; then
            git diff --quiet "v$version" -- "$file" || echo "$file: differs from that of the tag v$version"
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
                echo "$file: is missing: no way leads from $newest to $version"
            elif [ "$(grep -vE '^ *(--.*|\\echo .*)?$' "$file" | head -n 1)" != 'SELECT jobq.require_library();' ]; then
                echo "$file: must begin with SELECT jobq.require_library();"
            fi
        fi
        is_newer "$version" "$newest" || echo "jobq.control: $current is not newer than $newest, which is released"
        newest=$version
    done
    newest=$(releases | tail -n 1)
    [ -n "$newest" ] || return 0
    if scripts/install_script.sh | cmp -s - "$(frozen "$newest")"; then return; fi
    if [ "$newest" = "$current" ]; then
        echo "src/sql: makes another script than $(frozen "$current"), which is released"
    elif [ -e "$(upgrade "$newest" "$current")" ] && [ -z "$(statements "$(upgrade "$newest" "$current")")" ]; then
        echo "$(upgrade "$newest" "$current"): has no statements, but src/sql has changed since $newest"
    fi
}

if [ "${1-}" = --check ]; then
    found=$(check_sums; check_way)
    [ -z "$found" ] || { printf '%s\n' "$found"; exit 1; }
    exit
fi

# ---- the release

fail() {
    echo "release: $*" >&2
    exit 1
}

# Also in what the documentation shows of it: rows of versions.
set_version() {  # version
    local old
    old=$(making)
    sed -i "s/^default_version = .*/default_version = '$1'/" jobq.control
    sed -i -e "1s/([^-]*-/($1-/" -e "s/^\( -- .*>\)  .*/\1  $(date -uR)/" debian/changelog
    OLD=$old NEW=$1 perl -pi -e 's/(?<![\d.])\Q$ENV{OLD}\E(?![\d.])/$ENV{NEW}/g if /^[ \d.|tf]+$/' docs/*.md
}

changes() { awk '/^## / { inside = $0 == "## [Unreleased]"; next } inside && NF' CHANGELOG.md; }

version=${1-}
next=${2-}
[[ $version =~ ^[0-9]+\.[0-9]+\.[0-9]+$ ]] || fail "say which version: make release VERSION=1.0.0"
[ -n "$next" ] || next=${version%%.*}.$(($(cut -d. -f2 <<<"$version") + 1)).0
is_newer "$next" "$version" || fail "$next is not newer than $version"
[ -z "$(git status --porcelain)" ] || fail "the tree has changes: commit them first"
! git rev-parse -q --verify "refs/tags/v$version" >/dev/null || fail "there is a tag v$version"
newest=$(releases | tail -n 1)
[ -z "$newest" ] || is_newer "$version" "$newest" || fail "$newest is released already"
[ -n "$(changes)" ] || fail "CHANGELOG.md says nothing under [Unreleased]"
problems=$("$0" --check) || fail "$problems"
if [ -n "$newest" ] && [ "${version%.*}" = "${newest%.*}" ] && ! scripts/install_script.sh | cmp -s - "$(frozen "$newest")"; then
    fail "$version would be a patch of $newest, but src/sql has changed"
fi

was=$(making)
if [ -n "$newest" ] && [ "$was" != "$version" ]; then
    git mv "$(upgrade "$newest" "$was")" "$(upgrade "$newest" "$version")"
fi
set_version "$version"
sed -i "s/^## \[Unreleased\]\$/&\n\n## [$version] - $(date -u +%F)/" CHANGELOG.md
mkdir -p $RELEASES $UPGRADES
scripts/install_script.sh >"$(frozen "$version")"
sha256sum "$(frozen "$version")" ${newest:+"$(upgrade "$newest" "$version")"} >>$SUMS
git add -A jobq.control CHANGELOG.md debian docs src/sql
problems=$("$0" --check) || fail "$problems"
git commit -q -m "Release $version"
git tag -a "v$version" -m "jobq $version"

set_version "$next"
cat >"$(upgrade "$version" "$next")" <<SQL
-- What has changed in src/sql since $version. CONTRIBUTING.md, "Change SQL after a release".
\\echo Use "ALTER EXTENSION jobq UPDATE" to load this file. \\quit

SELECT jobq.require_library();
SQL
git add -A jobq.control debian docs src/sql
problems=$("$0" --check) || fail "$problems"
git commit -q -m "$next in the making"
git log --oneline --decorate -2
