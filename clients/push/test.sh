#!/bin/sh
# For make clients: installs the packages and runs the tests. JOBQ_PUSH_JOBS=100000 runs the load test at full length.
set -eu
cd "$(dirname "$0")"
npm install --silent --no-audit --no-fund --no-package-lock
exec node --test test/
