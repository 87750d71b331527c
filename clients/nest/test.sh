#!/bin/sh
# For make clients: installs the packages, checks the types, and runs the tests.
set -eu
cd "$(dirname "$0")"
npm install --silent --no-audit --no-fund --no-package-lock
node_modules/.bin/tsc -p test/tsconfig.json
exec node --test test/
