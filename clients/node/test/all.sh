#!/bin/sh
# Types by tsc, what is decided without a server, and workers, producers, the test kit and spans against the server that PGHOST and the
# like name, as a superuser of it. Gets from npm what package.json names. Arguments: files of this directory.
set -eu
cd "$(dirname "$0")/.."
[ $# -gt 0 ] || set -- test/*.test.mjs

# What npm and Prisma print is of interest when they fail. The install scripts of Prisma would download programs that its client does
# not need; a path of such a program avoids the download by its generator.
quietly() { said=$("$@" 2>&1) || { echo "$said" >&2; exit 1; }; }
quietly npm install --ignore-scripts --no-audit --no-fund --no-package-lock
quietly env PRISMA_SCHEMA_ENGINE_BINARY=/bin/true node_modules/.bin/prisma generate --schema test/orms.prisma
node_modules/.bin/tsc -p test/tsconfig.json
# The declarations of these libraries do not pass the check themselves.
node_modules/.bin/tsc -p test/tsconfig.orms.json
# A file at a time: the databases of all would be one load.
failed=0
for file; do node --test "$file" || failed=1; done
exit $failed
