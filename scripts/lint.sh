#!/bin/bash
# make lint: checks the rules of the source tree. clang-format and clang-tidy check what differs from the upstream branch or is
# not committed. make lint ALL=1: checks everything, and that each rule notices when it is broken.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/scratch.sh
scripts/setup.sh lint
find_pg_config
# The checkout may belong to another user.
export GIT_CONFIG_COUNT=1 GIT_CONFIG_KEY_0=safe.directory GIT_CONFIG_VALUE_0=$PWD
if [ "${ALL-}" = 1 ]; then
    test/lint.sh
    test/lint.sh --self-test
else
    LINT_SINCE=$(git merge-base HEAD '@{upstream}' 2>/dev/null || git rev-parse HEAD) test/lint.sh
fi
