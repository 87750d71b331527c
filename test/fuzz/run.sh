#!/bin/sh
# Runs the attackers: every function with nasty values; hostile triggers, indexes, and constraints; and random queries.
# Needs a server of its own that preloads jobq. See README.md in this directory.
#   JOBQ_FUZZ_PARTS='a b'    only these scripts
#   JOBQ_FUZZ_CALLS=n        number of calls of calls.py (10000)
#   JOBQ_FUZZ_SEED=s         seed of calls.py
#   JOBQ_FUZZ_LOG=file       the server's log
#   JOBQ_FUZZ_SECONDS=n      duration of sqlsmith (0: not at all)
#   JOBQ_FUZZ_EXPECT=text    only calls.py, which passes if the description of a finding contains this text
set -u
here=$(dirname "$0")
python=${PYTHON:-/usr/bin/python3}
output=$(mktemp) || exit 1
trap 'rm -f "$output"' EXIT
# Each attacker is a script in this list.
scripts="verdict_test.py calls.py hostile.py random_queries.py"
[ -z "${JOBQ_FUZZ_EXPECT:-}" ] || scripts=calls.py

# The support functions and the comparison of counters from the audit are used here, too.
export PYTHONDONTWRITEBYTECODE=1 PYTHONPATH=$here/../audit
for script in ${JOBQ_FUZZ_PARTS:-$scripts}; do
    {
        "$python" "$here/$script" && echo "ok - $script ended well" || echo "not ok - $script did not end well"
    } 2>&1 | grep --line-buffered -v '^[0-9]* passed, [0-9]* failed$' | tee -a "$output"
done
passed=$(grep -c '^ok ' "$output")
failed=$(grep -c '^not ok ' "$output")
echo "$passed passed, $failed failed"
[ "$passed" -gt 0 ] && [ "$failed" -eq 0 ]
