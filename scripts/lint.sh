#!/bin/bash
# make lint: the rules of the source tree, and that each of them is noticed when it is broken.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/scratch.sh
scripts/setup.sh lint
find_pg_config
# The checkout may belong to somebody else than who runs this.
export GIT_CONFIG_COUNT=1 GIT_CONFIG_KEY_0=safe.directory GIT_CONFIG_VALUE_0=$PWD
test/lint.sh
test/lint.sh --self-test
