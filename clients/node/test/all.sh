#!/bin/sh
# Types by tsc, what is decided without a server, and workers, producers, the test kit and spans against the server that PGHOST and the
# like name, as a superuser of it. Gets from npm what package.json names. Arguments: files of this directory.
set -eu
cd "$(dirname "$0")/.."
[ $# -gt 0 ] || set -- test/*.test.mjs

# What npm prints is of interest when it fails.
if ! said=$(npm install --no-audit --no-fund --no-package-lock 2>&1); then
    echo "$said" >&2
    exit 1
fi
node_modules/.bin/tsc -p test/tsconfig.json
# A file at a time: the databases of all would be one load.
failed=0
for file; do node --test "$file" || failed=1; done
exit $failed
