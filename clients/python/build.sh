#!/bin/sh
# Builds the source distribution and the wheel into the directory that the argument names. The same sources give the same bytes. Needs
# Debian's packages python3-build, python3-setuptools, and python3-wheel, and no network.
# SOURCE_DATE_EPOCH: the time of the files in the packages (the last commit)
set -eu
umask 022
target=$(realpath "$1")
cd "$(dirname "$0")"
export SOURCE_DATE_EPOCH="${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct -- .)}"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/source" "$work/sdist" "$work/tree"
cp -r pyproject.toml README.md LICENSE src "$work/source"
find "$work/source" -name __pycache__ -o -name '*.egg-info' -prune -exec rm -r {} +
build() { /usr/bin/python3 -W ignore -m build --no-isolation "$@" >"$work/log" 2>&1 || { cat "$work/log" >&2; exit 1; }; }
build --sdist --outdir "$work/sdist" "$work/source"
sdist=$(cd "$work/sdist" && echo *.tar.gz)
# setuptools stores the times, owners, and modes that the files have here.
tar -xzf "$work/sdist/$sdist" -C "$work/tree"
chmod -R a+rX,u+w,go-w "$work/tree"
tar --sort=name --owner=0 --group=0 --numeric-owner --mtime="@$SOURCE_DATE_EPOCH" -C "$work/tree" -cf - "${sdist%.tar.gz}" | gzip -n >"$target/$sdist"
build --wheel --outdir "$target" "$work/tree/${sdist%.tar.gz}"
