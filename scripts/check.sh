#!/bin/bash
# Runs every test of jobq. Each suite that needs a server gets a throwaway server of its own.
#   make check                     every suite
#   make check SUITE=isolation     one suite, or several: SUITE="regress isolation"
#   make check SUITE=controls      planted defects, which the suites must find, and sanitizers
# test/suites.sh has the suites, and test/planted/controls.sh the controls. test/README.md describes both, and the variables that
# change what the suites do. AT_ONCE is the number of suites that run at the same time, and JOBQ_LIMIT the time limit of a suite in
# seconds. scripts/memcheck.sh sets JOBQ_RUN_UNDER, a command under which servers run. Exits with an error if a test fails or a suite
# has no tests.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/scratch.sh
. scripts/planted.sh
. scripts/next_release.sh
. test/suites.sh
. test/planted/controls.sh

limit=${JOBQ_LIMIT:-3000}   # several times what the slowest suite takes
at_once=${AT_ONCE:-$(($(nproc) + 2))}   # suites wait for something half of the time

# Runs a command in the suite's copy of the tests, as the owner of the servers.
in_source() {
    cd "$source"
    run_group timeout -k 10 "$limit" "$@"
}

# Copies the tests, so that they write nothing into the checkout, and run even if the owner of the servers cannot read the checkout.
copy_tests() {
    mkdir "$SCRATCH/source" "$SCRATCH/node"
    cp -R Makefile jobq.control router src sql expected test bench examples clients docs README.md CHANGELOG.md debian monitoring scripts "$SCRATCH/source/"
    if [ -d build/node/node_modules ]; then cp -R build/node/node_modules "$SCRATCH/node/"; fi
    scratch_give "$SCRATCH/source"
}

start_suite() {
    source=$SCRATCH/source-$name
    scratch_give "$source"
    run_as cp -al "$SCRATCH/source/." "$source"
    if grep -q "^$name " <<<"$controls"; then run_control; else "suite_$name"; fi
}

# Adds up the results that the test programs print: TAP scripts, ctest, pg_regress, prove.
count_tests() {  # log
    awk '
        /^[0-9]+ passed, [0-9]+ failed/ { summed = 1; passed += $1; failed += $3 }
        match($0, /[0-9]+ tests failed out of [0-9]+/) {
            split(substr($0, RSTART), word, " "); summed = 1; failed += word[1]; passed += word[6] - word[1]
        }
        /^#? *All [0-9]+ tests passed/ { sub(/^#? */, ""); summed = 1; passed += $2 }
        /^#? *[0-9]+ of [0-9]+ tests failed/ { sub(/^#? */, ""); summed = 1; failed += $1; passed += $3 - $1 }
        /^Files=[0-9]+, Tests=[0-9]+/ { summed = 1; sub(/.*Tests=/, ""); passed += $0 - prove_failed; prove_failed = 0 }
        match($0, /Failed: [0-9]+\)/) { prove_failed += substr($0, RSTART + 8) + 0; failed += substr($0, RSTART + 8) + 0 }
        /^ok [0-9-]/ { ok++ }
        /^not ok [0-9-]/ { not_ok++ }
        END { if (!summed) { passed = ok; failed = not_ok } print passed + 0, failed + 0 }' "$1"
}

# Prints the failed tests of a suite, for readers who only see the end of the output.
name_failures() {  # suite log
    awk -v suite="$1" '
        /Failed test|^not ok|\.\.\. FAILED|\((Failed|Timeout)\)|Dubious/ { more = 5 }
        more > 0 && (more == 5 || /^ *#/) && lines++ < 25 { print suite ": " $0 }
        { more-- }' "$2"
}

# Prints problems that a server, or a tool that watches it, has reported, even if every test has passed.
name_findings() {  # suite
    grep -E 'TRAP: |reference leak|refcount leak|problem in (alloc set|Slab|Generation)|left non-empty SPI stack|runtime error: |AddressSanitizer|^==[0-9]+==|^ +#[0-9]+ 0x' \
        "$SCRATCH/$1.log" 2>/dev/null | head -n 200 || true
}

# Runs one suite. Its output goes to a log, and its result to $logs/NAME.result: passed failed seconds, and a word.
run_suite() {  # name
    local name=$1 log=$logs/$1 begun=$SECONDS status=0 result=ok passed failed took findings
    set +e   # inside a condition, the shell would ignore failures in the suite
    run_apart start_suite >"$log" 2>&1
    status=$?
    set -e
    took=$((SECONDS - begun))
    read -r passed failed < <(count_tests "$log")
    findings=$(name_findings "$name")
    if [ -n "$findings" ]; then
        printf '%s\n' "the server's log:" "$findings" >>"$log"
        failed=$((failed + 1))
    fi
    if [ $status -ne 0 ] || [ "$failed" -ne 0 ] || [ "$passed" -eq 0 ]; then
        result=FAILED
        [ "$failed" -gt 0 ] || failed=1
        # The status of timeout if it had to stop the suite. The numbers then cover only a part of the suite.
        if [ $status -eq 124 ] || [ $status -eq 137 ]; then
            result="CUT OFF after $took s: the rest has not been run"
        fi
        name_failures "$name" "$log" >"$log.failures"
        printf -- '---- %s: %s; the end of its output (%s):\n%s\n----\n' "$name" "$result" "$log" "$(tail -n 150 "$log")"
    fi
    echo "$passed $failed $took $result" >"$log.result"
    printf '%-24s %d passed, %d failed in %d s\n' "$name" "$passed" "$failed" "$took"
}

scripts/setup.sh check
find_pg_config
all_controls="sanitizers $(awk '{ print $1 }' <<<"$controls")"
wanted=${SUITE:-$suites}
if [ "$wanted" = controls ]; then wanted=$all_controls; fi
for name in $wanted; do
    grep -qw -- "$name" <<<"$suites $more_suites $all_controls" ||
        { echo "no such suite: $name; there are:" $suites $more_suites $all_controls >&2; exit 2; }
done

echo "building jobq for $("$PG_CONFIG" --version)"
mkdir -p build
make -s -j"$(nproc)" all >build/build.log 2>&1 || { cat build/build.log; exit 1; }
warnings=$(grep -c 'warning:' build/build.log || true)

scratch_begin check
scratch_tree
scratch_template
[ -z "${JOBQ_RUN_UNDER-}" ] || scratch_run_under "$JOBQ_RUN_UNDER"
copy_tests
logs=$SCRATCH/logs
mkdir "$logs"

for name in $wanted; do
    while [ "$(jobs -rp | wc -l)" -ge "$at_once" ]; do wait -n || true; done
    start_apart run_suite "$name"
done
wait
scratch_children=()

table=
total_passed=0
total_failed=0
if [ "$warnings" -gt 0 ]; then
    grep -A 5 'warning:' build/build.log
    total_failed=1
fi
for name in $wanted; do
    passed=0 failed=1 took=0 result='NOT RUN'
    [ ! -e "$logs/$name.result" ] || read -r passed failed took result <"$logs/$name.result"
    table+=$(printf '%-24s %6d %6d %8d  %s' "$name" $((passed + failed)) "$failed" "$took" "$result")$'\n'
    total_passed=$((total_passed + passed))
    total_failed=$((total_failed + failed))
done
[ "$total_failed" -eq 0 ] || export SCRATCH_KEEP=${SCRATCH_KEEP-1}

printf '\n%-24s %6s %6s %8s  %s\n%s\n' suite tests failed seconds result "$table"
cat "$logs"/*.failures 2>/dev/null || true
echo "$total_passed passed, $total_failed failed"
[ "$total_failed" -eq 0 ]
