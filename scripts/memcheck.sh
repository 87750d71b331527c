#!/bin/bash
# Finds memory errors that do not make other tests fail. See "Memory checking" in CONTRIBUTING.md.
#   make memcheck                          every step
#   make memcheck STEP="assert valgrind"   some of them
#   make memcheck CONTROL=1                instead: planted defects, each of which its step must catch
# The last lines say for each step how many tests passed; a finding counts as a failed test. Exits with an error if there is one.
# JOBQ_MEMCHECK_DIR: the directory that keeps the server and the builds for later runs (/var/cache/jobq-memcheck).
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/watchful_server.sh

readonly STEPS='assert discard valgrind asan'

# Tests for steps in which everything takes fifty times as long: they call every function, and some of them test races.
readonly FUNCTIONS='00_install attached attached_indexes attached_triggers bad_input claim combined dependencies explain handlers history '\
'keep_nothing life limits many max_runtime metrics moved_rows next_runs schedule signals steps unknown_queues wait wait_job'
readonly RACES='claim_reap complete_reap index_dropped two_claims'
# Tests for steps in which a statement takes a second. One driver calls every function.
readonly FEW='00_install claim history wait'

# ---- the steps; each sets what scripts/check.sh runs

# Finds failed assertions, references that are not released, and chunks of memory that are written beyond their end or used after
# they are freed.
step_assert() {
    export SUITE='regress plain isolation pgtap drivers'
}

# Makes the server discard all caches whenever it may receive an invalidation of a catalog entry.
step_discard() {
    export SUITE='regress isolation drivers' JOBQ_REGRESS=$FEW JOBQ_ISOLATION=$RACES JOBQ_DRIVERS=psql JOBQ_LIMIT=7200
    export JOBQ_SETTINGS='debug_discard_caches = 1'
}

# Finds reads of uninitialized memory, and accesses outside of allocated chunks.
step_valgrind() {
    export SUITE='regress drivers' JOBQ_REGRESS=$FUNCTIONS JOBQ_DRIVERS=psql JOBQ_LIMIT=7200
    export JOBQ_RUN_UNDER="valgrind --quiet --trace-children=yes --track-origins=yes --num-callers=30 \
        --suppressions=$WATCHFUL/server/valgrind.supp"
}

# Finds accesses outside of arrays on the stack and global arrays, and undefined behavior of C++.
step_asan() {
    export SUITE='regress isolation drivers'
    export COPT='-fsanitize=address,undefined -fno-omit-frame-pointer' JOBQ_RUN_UNDER
    JOBQ_RUN_UNDER="env LD_PRELOAD=$(g++ -print-file-name=libasan.so) \
        ASAN_OPTIONS=detect_leaks=0:detect_stack_use_after_return=0 UBSAN_OPTIONS=print_stacktrace=1"
}

# ---- the defects of test/planted: the step, the suite and its tests that must catch the defect, and the expected output

controls='
assert    list_freed_early     regress  claim              server closed the connection|connection to server was lost
assert    written_beyond       regress  dead_letters       detected write past chunk end
discard   triggers_not_copied  regress  claim              server closed the connection|connection to server was lost
valgrind  name_not_padded      regress  claim              uninitialised value
asan      place_beyond_last    regress  moved_rows         AddressSanitizer: global-buffer-overflow
'

# ---- how steps run

# Makes a copy of the checkout for this server and these flags, which keeps what has been compiled in it.
copy_checkout() {  # name
    local copy=$WATCHFUL/$1
    mkdir -p "$copy"
    find "$copy" -mindepth 1 -maxdepth 1 ! -name build -exec rm -rf {} +
    tar -cf - --exclude=./build --exclude=./.git --exclude='*.so' . | tar -xf - -C "$copy" --no-same-owner
    if [ -d build/node ]; then mkdir -p "$copy/build" && cp -Rp build/node "$copy/build/"; fi
}

run_step() {  # step
    local copy=plain
    [ "$1" != asan ] || copy=asan
    copy_checkout "$copy"
    ("step_$1" && exec "$WATCHFUL/$copy/scripts/check.sh")
}

run_tests_of() {  # step suite tests
    "step_$1"
    export SUITE=$2 JOBQ_REGRESS="00_install $3" JOBQ_ISOLATION=$3 JOBQ_DRIVERS=$3 SCRATCH_KEEP=0
    exec "$control/scripts/check.sh" 2>&1
}

# Does the same with a defect, in a copy of that copy. Passes if the defect is caught.
run_control() {  # defect step suite tests saying
    local copy=plain control=$WATCHFUL/control output status=0
    [ "$2" != asan ] || copy=asan
    copy_checkout "$copy"
    rm -rf "$control"
    ("step_$2" && make -s -j"$(nproc)" -C "$WATCHFUL/$copy" all) >/dev/null
    cp -Rp "$WATCHFUL/$copy" "$control"
    patch -s -p1 -d "$control" <"test/planted/$1.patch"
    output=$(run_tests_of "$2" "$3" "$4") || status=$?
    said=$(grep -m 1 -E "$5" <<<"$output" || true)
    [ $status -ne 0 ] && [ -n "$said" ] || { tail -n 100 <<<"$output"; return 1; }
    # A crash does not show its cause, so the same tests must pass if the caches are kept.
    if [ "$2" = discard ]; then
        output=$(run_tests_of assert "$3" "$4") || { tail -n 100 <<<"$output"; return 1; }
        said+=" (and nothing without it)"
    fi
    rm -rf "$control"
}

# ---- the run

wanted=${STEP:-$STEPS}
for step in $wanted; do
    grep -qw "$step" <<<"$STEPS" || { echo "no such step: $step; there are: $STEPS" >&2; exit 2; }
done
scripts/setup.sh memcheck
watchful_server

table='' passed=0 failed=0
note() {  # name passed failed seconds what
    table+=$(printf '%-26s %6d %6d %8d  %s' "$@")$'\n'
    passed=$((passed + $2))
    failed=$((failed + $3))
}

output=$(mktemp)
trap 'rm -f "$output"' EXIT
if [ -n "${CONTROL-}" ]; then
    while read -r -u 3 step defect suite tests saying; do
        [ -n "$step" ] && grep -qw "$step" <<<"$wanted" || continue
        begun=$SECONDS
        if run_control "$defect" "$step" "$suite" "$tests" "$saying"; then
            note "$defect" 1 0 $((SECONDS - begun)) "caught by $step: $said"
        else
            note "$defect" 0 1 $((SECONDS - begun)) "NOT CAUGHT by $step"
        fi
        tail -n 1 <<<"${table%$'\n'}"
    done 3<<<"$controls"
else
    for step in $wanted; do
        begun=$SECONDS
        echo "---- $step"
        ended_well=1
        run_step "$step" 2>&1 | tee "$output" || ended_well=
        good=0 bad=0
        read -r good bad < <(sed -nE 's/^([0-9]+) passed, ([0-9]+) failed$/\1 \2/p' "$output" | tail -n 1) || true
        [ -n "$ended_well" ] || [ "${bad:-0}" -gt 0 ] || bad=1
        note "$step" "$good" "$bad" $((SECONDS - begun)) ''
    done
fi
printf '\n%-26s %6s %6s %8s\n%s%d passed, %d failed\n' memcheck passed failed seconds "$table" "$passed" "$failed"
[ "$failed" -eq 0 ] && [ "$passed" -gt 0 ]
