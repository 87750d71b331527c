#!/bin/bash
# Runs every test of jobq. Each suite that needs a server gets a throwaway server of its own.
#   make check                     every test
#   make check SUITE=isolation     one suite, or several: SUITE="regress isolation"
#   make check SUITE=controls      planted defects, which the suites must catch, and sanitizers
# JOBQ_AUDIT_JOBS (50000) and JOBQ_FUZZ_CALLS (4000) set the length of two suites. scripts/memcheck.sh sets JOBQ_REGRESS,
# JOBQ_ISOLATION, JOBQ_DRIVERS, JOBQ_PROCESS (run only these tests), JOBQ_SETTINGS (settings of the servers of SQL tests),
# JOBQ_RUN_UNDER (a command under which servers run), and JOBQ_LIMIT (seconds per suite). Exits with an error if a test fails or a
# suite has no tests.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/scratch.sh
. scripts/planted.sh
. scripts/next_release.sh

# The suites. Each line has a name, which is also the name of a function below, a lane, and the files of the suite. The lanes run
# in parallel, and the suites of a lane one after the other, in this order. All suites that use run_make write to one directory,
# so they are in lane 1. A + marks the controls; a - marks suites that run only if they are named.
suites='
exports       1  scripts/exports.sh
unit          1  test/unit/*_test.cpp
sanitizers    3+ test/unit/*_test.cpp
regress       1  sql/*.sql
plain         1  sql/*.sql
isolation     1  test/isolation/specs/*.spec
regress_sql   1  sql/*.sql
isolation_sql 1  test/isolation/specs/*.spec
pgtap         1  test/pgtap/*.sql
process       2  test/process/*.pl
drivers       1  test/drivers/run.sh
docs          1  test/docs/*.py
router        3  router/test/router/*.py
audit         3  test/audit/run.sh
together      3  test/audit/run.sh
calendar      2- test/calendar/croner.mjs
broken        2+ test/planted/lease_not_checked.patch
unpublished   2+ test/planted/jobs_not_published.patch
unlimited     2+ test/planted/limits_by_snapshot.patch
crowded       2+ test/planted/group_head_not_awaited.patch
unheard       2+ test/planted/succession_unnoticed.patch
impatient     2+ test/planted/retry_is_end.patch
raced         2+ test/planted/claim_not_first.patch
miscounted    2+ test/planted/savepoints_counted.patch
copied        1+ test/planted/copy_not_left_alone.patch
undrawn       1+ test/planted/shard_not_locked.patch
overtaken     1+ test/planted/line_not_told.patch
outdated      1+ test/planted/settings_not_asked_again.patch
doubled_key   3+ test/planted/key_not_locked.patch
fired_twice   2+ test/planted/run_not_locked.patch
asleep        1+ test/planted/wait_not_told.patch
unwatched     2+ test/planted/ends_not_watched.patch
zombie        1+ test/planted/lost_lease_committed.patch
ringed        1+ test/planted/ring_not_broken.patch
overlooked    1+ test/planted/dependents_not_locked.patch
uncounted     1+ test/planted/held_not_counted.patch
unpassed      2+ test/planted/left_jobs_not_told.patch
fuzz          3  test/fuzz/run.sh
fuzz_unsorted 3+ test/planted/batch_not_sorted.patch
fuzz_crash    3+ test/planted/null_elements_let_in.patch
fuzz_counters 3+ test/planted/ends_not_counted.patch
upgrade       2- test/upgrade/*.pl
monitoring    2- test/monitoring/check.py
'
preloaded="shared_preload_libraries = 'jobq'"
unvacuumed='autovacuum = off'   # a vacuum that truncates a table locks it, which jobq_explain reports
by_sql='jobq.access = sql'   # access the rows of jobq.jobs by SQL, instead of directly
limit=${JOBQ_LIMIT:-3000}   # seconds per suite, several times what it takes; a suite that takes longer is stopped, and fails

# ---- the suites; the output of a suite goes to its log, and its last lines say how many tests ran

suite_exports() {
    make -s check-exports && echo "1 passed, 0 failed"
}

unit_tests() {  # directory cmake-options...
    local build=build/$1
    shift
    # A build directory contains the path of its checkout, which may have moved.
    grep -qsxF "CMAKE_HOME_DIRECTORY:INTERNAL=$PWD" "$build/CMakeCache.txt" || rm -rf "$build"
    cmake -S . -B "$build" "$@" && cmake --build "$build" -j "$(nproc)" &&
        ctest --test-dir "$build" -j "$(nproc)" --output-on-failure
}
suite_unit() { unit_tests cmake; }
suite_sanitizers() { unit_tests sanitize -DJOBQ_SANITIZE=ON; }

# The expected output is the same with and without preload, because the functions promise the same.
regress() {
    run_make installcheck ISOLATION= ${JOBQ_REGRESS:+REGRESS="$JOBQ_REGRESS"} || with_differences $? regression.diffs
}
isolation() {
    run_make installcheck REGRESS= ${JOBQ_ISOLATION:+ISOLATION="$JOBQ_ISOLATION"} ||
        with_differences $? output_iso/regression.diffs
}
suite_regress() {
    scratch_server regress "$preloaded" "$unvacuumed" "${JOBQ_SETTINGS-}"
    regress
}
suite_plain() {
    scratch_server plain "$unvacuumed" "${JOBQ_SETTINGS-}"
    regress
}

suite_isolation() {
    scratch_server isolation "$preloaded" "$unvacuumed" "${JOBQ_SETTINGS-}"
    isolation
}

# The expected output is the same for both ways to access the rows.
suite_regress_sql() {
    scratch_server regress_sql "$preloaded" "$unvacuumed" "$by_sql"
    regress
}
suite_isolation_sql() {
    scratch_server isolation_sql "$preloaded" "$unvacuumed" "$by_sql"
    isolation
}

suite_pgtap() {
    scratch_server pgtap "$preloaded"
    "$SCRATCH_BIN/createdb" jobq_pgtap
    export PGDATABASE=jobq_pgtap
    "$SCRATCH_BIN/psql" -Xq -c 'CREATE EXTENSION pgtap' -c 'CREATE EXTENSION jobq'
    in_source pg_prove test/pgtap/*.sql
}

# The suite creates about sixty data directories. They are kept in memory if there is enough and root can mount it, because
# otherwise the disk takes most of the time.
memory_for_process() {
    local free
    free=$(awk '/^MemAvailable/ { print int($2 / 1048576) }' /proc/meminfo)
    [ "$(id -u)" = 0 ] && [ "$free" -ge 12 ] && mount -t tmpfs -o size=8g jobq-process "$SCRATCH/process" 2>/dev/null || return 0
    scratch_hook=leave_memory
}
leave_memory() {
    cp -r "$SCRATCH/process/tmp_check/log" "$SCRATCH/logs/process.servers" 2>/dev/null
    umount -l "$SCRATCH/process"
}

for_process() {
    mkdir -p "$SCRATCH/process"
    memory_for_process
    scratch_give "$SCRATCH/process"
    export PERL5LIB=$SCRATCH_PGXS/src/test/perl PG_REGRESS=$SCRATCH_PGXS/src/test/regress/pg_regress
    export TESTDIR=$SCRATCH/process TESTDATADIR=$SCRATCH/process/tmp_check TESTLOGDIR=$SCRATCH/process/tmp_check/log
}
suite_process() {
    for_process
    # One test requires DDL to finish within two seconds, so it runs alone, because the others keep the processors busy. The
    # others mostly wait, and those that wait longest come first.
    local alone=test/process/lifecycle.pl test failed=0
    local others=(test/process/{arrived_leases,restore_order,young_leases,limits,empty_ranges_servers,failover}.pl)
    for test in test/process/*.pl; do
        case " $alone ${others[*]} " in *" $test "*) ;; *) others+=("$test") ;; esac
    done
    if [ -n "${JOBQ_PROCESS-}" ]; then
        alone= others=()
        for test in $JOBQ_PROCESS; do others+=("test/process/$test.pl"); done
    fi
    [ -z "$alone" ] || PGPORT=65432 in_source prove --timer "$alone" || failed=$?
    PGPORT=65432 in_source prove --timer -j 5 "${others[@]}" || failed=$?
    return $failed
}

# Tests all updates: from each release, and with its library.
suite_upgrade() {
    upgrade_tree
    for_process
    PGPORT=65432 in_source prove --timer test/process/extension_update.pl test/upgrade/*.pl
}

suite_drivers() {
    scratch_server drivers "$preloaded" "${JOBQ_SETTINGS-}"
    NODE_PATH=$SCRATCH/node/node_modules:/usr/share/nodejs in_source test/drivers/run.sh ${JOBQ_DRIVERS-}
}

# Checks the links of all pages, and the examples in README and docs/.
suite_docs() {
    local python=/usr/bin/python3 failed=0
    export PYTHONDONTWRITEBYTECODE=1
    make -s check-reference || failed=1
    "$python" test/docs/links.py || failed=1
    scratch_server docs "$preloaded"
    in_source "$python" test/docs/examples_test.py || failed=1
    in_source "$python" test/docs/functions.py || failed=1
    in_source "$python" test/docs/examples.py README.md \
        docs/{concepts,recipes,reference,production,operations,dashboard,metrics,by_hand,server,moving,design}.md || failed=1
    return $failed
}

# Three servers, each with a shard; the first has the routers.
router_servers() {
    local name
    JOBQ_ROUTER_SERVERS=
    for name in 1 2 3; do
        scratch_server "$1$name" "$preloaded"
        JOBQ_ROUTER_SERVERS+="$SCRATCH/$1$name "
    done
    export JOBQ_ROUTER_SERVERS
}
suite_router() {
    router_servers router
    in_source router/test/router/run.sh
}
# The router tests must catch a shard that lets two sessions check a key at once, so that one of them moves the key to another
# shard.
suite_doubled_key() {
    plant_defect key_not_locked
    router_servers doubled_key
    JOBQ_ROUTER_TEST=test_a_key_stays_where_it_has_unfinished_jobs in_source router/test/router/run.sh moves.py >"$SCRATCH/doubled_key.log" 2>&1 && return 1
    grep 'not ok .* the key is on shards 1 and 2' "$SCRATCH/doubled_key.log" && echo "1 passed, 0 failed"
}

suite_audit() {
    scratch_server audit "$preloaded" 'max_connections = 200' 'max_prepared_transactions = 50'
    JOBQ_AUDIT_PARTS='checker_test.py workflow_laws_test.py seeds.py planted.py stranded.py audit.py workflows.py' JOBQ_AUDIT_JOBS=${JOBQ_AUDIT_JOBS:-50000} \
        in_source test/audit/run.sh
}
# Tests all features together, and checks the result against the server's log of changes.
together_server() {
    scratch_server together "$preloaded" 'max_connections = 200' 'max_prepared_transactions = 50' 'wal_level = logical'
}
suite_together() {
    together_server
    JOBQ_AUDIT_PARTS='laws_test.py everything.py' in_source test/audit/run.sh
}

# Compares the runs of cron expressions with another implementation.
suite_calendar() {
    local modules=$JOBQ_ROOT/build/croner
    "$JOBQ_ROOT/scripts/setup.sh" calendar
    [ -d "$modules/node_modules/croner" ] || npm install --silent --no-audit --no-fund --prefix "$modules" croner@11
    tar -C "$modules" -cf - node_modules | run_as tar -C "$source/test/calendar" -xf -
    scratch_server calendar "$preloaded"
    "$SCRATCH_BIN/psql" -Xq -c 'CREATE EXTENSION jobq'
    in_source node test/calendar/croner.mjs
}

# Tests the files in monitoring/ with Debian's Prometheus and exporters, and the types of Grafana's dashboards from npm.
suite_monitoring() {
    local modules=$JOBQ_ROOT/build/monitoring
    "$JOBQ_ROOT/scripts/setup.sh" monitoring
    mkdir -p "$modules"
    [ -d "$modules/node_modules/@grafana/schema" ] ||
        npm install --silent --no-audit --no-fund --ignore-scripts --prefix "$modules" @grafana/schema@13 typescript@5
    mkdir "$SCRATCH/grafana"
    cp -R "$modules/node_modules" "$SCRATCH/grafana/"
    scratch_server monitoring "$preloaded"
    JOBQ_GRAFANA=$SCRATCH/grafana in_source "${PYTHON:-/usr/bin/python3}" -B test/monitoring/check.py
}

# The audit and the promotions of standbys must catch a library that does not check leases.
suite_broken() {
    local failed=0
    plant_defect lease_not_checked
    scratch_server broken "$preloaded" 'max_connections = 200'
    JOBQ_AUDIT_EXPECT=caught JOBQ_AUDIT_JOBS=20000 in_source test/audit/run.sh || failed=1
    scratch_give "$SCRATCH/promoted"
    JOBQ_CHAOS_EXPECT=caught JOBQ_FAILOVERS=1 in_source "${PYTHON:-/usr/bin/python3}" -B test/chaos/failover.py "$SCRATCH/promoted" || failed=1
    return $failed
}
# The audit must catch a library that does not publish new jobs.
suite_unpublished() {
    plant_defect jobs_not_published
    scratch_server unpublished "$preloaded" 'max_connections = 200' 'max_prepared_transactions = 50'
    JOBQ_AUDIT_EXPECT=stranded in_source test/audit/run.sh
}

# The run of all features together must catch limits that count only the committed claims that each claim sees,
suite_unlimited() { caught_together limits_by_snapshot 'limit exceeded'; }
# groups whose next job is unblocked without a check for the active one,
suite_crowded() { caught_together group_head_not_awaited 'group crowded'; }
# a worker that does not notice the heads that commits have made,
suite_unheard() { caught_together succession_unnoticed 'group crowded'; }
# dependencies that count as finished while they wait for a retry,
suite_impatient() { caught_together retry_is_end 'dependency ignored'; }
# claims that do not notice that another claim was first,
suite_raced() { caught_together claim_not_first 'unexplained lease'; }
# and totals that count changes that were rolled back to a savepoint.
suite_miscounted() { caught_together savepoints_counted totals; }

caught_together() {  # defect law
    plant_defect "$1"
    together_server
    JOBQ_AUDIT_EXPECT=$2 JOBQ_AUDIT_SECONDS=10 in_source test/audit/run.sh
}

# The SQL tests must catch a copy of a database that hands out jobs before it is adopted.
suite_copied() {
    plant_defect copy_not_left_alone
    scratch_server copied "$preloaded"
    run_make installcheck ISOLATION= REGRESS='00_install adopt' >"$SCRATCH/copied.log" 2>&1 && return 1
    grep '^-ERROR:  the jobs do not run because database "contrib_regression" is a copy' "$source/regression.diffs" && echo "1 passed, 0 failed"
}

# The tests in which producers race with a session that makes the database a shard must catch a library that does not wait for the
# jobs of the producers.
suite_undrawn() {
    plant_defect shard_not_locked
    scratch_server undrawn "$preloaded"
    run_make installcheck REGRESS= ISOLATION=shard >"$SCRATCH/undrawn.log" 2>&1 && return 1
    grep '^-ERROR:  the database has jobs whose ids do not belong to shard 7' "$source/output_iso/regression.diffs" &&
        echo "1 passed, 0 failed"
}

# The isolation tests of the line of a group must catch a library that does not publish jobs that enter the line at the front.
suite_overtaken() {
    plant_defect line_not_told
    scratch_server overtaken "$preloaded"
    run_make installcheck REGRESS= ISOLATION=groups_line >"$SCRATCH/overtaken.log" 2>&1 && return 1
    grep '^-930000|t' "$source/output_iso/regression.diffs" && echo "1 passed, 0 failed"
}

# The tests in which claims race with changed settings must catch a claim that keeps the settings that it read before it waited.
suite_outdated() {
    plant_defect settings_not_asked_again
    scratch_server outdated "$preloaded"
    run_make installcheck REGRESS= ISOLATION=settings_claim >"$SCRATCH/outdated.log" 2>&1 && return 1
    grep '^+    5' "$source/output_iso/regression.diffs" && echo "1 passed, 0 failed"
}

# The laws of schedules must catch a tick that fires a schedule that another tick is firing.
suite_fired_twice() {
    plant_defect run_not_locked
    for_process
    local try
    for try in {1..5}; do
        JOBQ_FAULTS=1 PGPORT=65433 in_source prove test/process/schedules.pl >"$SCRATCH/fired_twice.log" 2>&1 || break
        rm -rf "$TESTDATADIR"
    done
    grep "got: 'fired twice'" "$SCRATCH/fired_twice.log" && echo "1 passed, 0 failed"
}

# The tests in which a wait races with its signal must catch jobs that are not woken up.
suite_asleep() {
    plant_defect wait_not_told
    scratch_server asleep "$preloaded"
    run_make installcheck REGRESS= ISOLATION=signals >"$SCRATCH/asleep.log" 2>&1 && return 1
    grep '^+sleeps on' "$source/output_iso/regression.diffs" && echo "1 passed, 0 failed"
}

# The test of wake-ups must catch a claim that leaves jobs and does not wake another sleeper.
suite_unpassed() {
    for_process
    # A sleeping session checks the table once a second. No job may depend on that.
    (
        plant_defect sleepers_do_not_look
        PGPORT=65434 in_source prove test/process/wake_shares.pl
    ) >"$SCRATCH/unpassed.log" 2>&1 || { cat "$SCRATCH/unpassed.log"; return 1; }
    rm -rf "$TESTDATADIR"
    plant_defect left_jobs_not_told
    PGPORT=65434 in_source prove test/process/wake_shares.pl >"$SCRATCH/unpassed.log" 2>&1 && return 1
    grep "Failed test 'a claim that leaves jobs wakes the next sleeper'" "$SCRATCH/unpassed.log" && echo "2 passed, 0 failed"
}

# The tests in which two jobs begin to wait for each other must catch a library that lets both wait permanently.
suite_overlooked() {
    plant_defect dependents_not_locked
    scratch_server overlooked "$preloaded"
    run_make installcheck REGRESS= ISOLATION=dependency_by_hand >"$SCRATCH/overlooked.log" 2>&1 && return 1
    grep '^+on a *|pending' "$source/output_iso/regression.diffs" && echo "1 passed, 0 failed"
}

suite_uncounted() {
    plant_defect held_not_counted
    scratch_server uncounted "$preloaded"
    run_make installcheck REGRESS= ISOLATION=limits_changed >"$SCRATCH/uncounted.log" 2>&1 && return 1
    grep -x '+ *2' "$source/output_iso/regression.diffs" && echo "1 passed, 0 failed"
}

suite_ringed() {
    plant_defect ring_not_broken
    scratch_server ringed "$preloaded"
    run_make installcheck REGRESS= ISOLATION=await_each_other >"$SCRATCH/ringed.log" 2>&1 && return 1
    grep '^+sleeps on' "$source/output_iso/regression.diffs" && echo "1 passed, 0 failed"
}

# The run of workflows must catch jobs that are not woken up when their children end.
suite_unwatched() {
    plant_defect ends_not_watched
    scratch_server unwatched "$preloaded" 'max_connections = 200'
    JOBQ_AUDIT_PARTS=workflows.py JOBQ_AUDIT_EXPECT='sleeps for good' JOBQ_AUDIT_SECONDS=10 in_source test/audit/run.sh
}

# The isolation tests of handlers must catch an executor that commits work under a lost lease.
suite_zombie() {
    plant_defect lost_lease_committed
    scratch_server zombie "$preloaded"
    run_make installcheck REGRESS= ISOLATION=handlers >"$SCRATCH/zombie.log" 2>&1 && return 1
    # The work is counted twice instead of once.
    grep -A 1 '^-1$' "$source/output_iso/regression.diffs" | grep -x '+2' && echo "1 passed, 0 failed"
}

# Calls every function with unusual values, and with hostile triggers, indexes, and constraints; `make fuzz` runs longer.
fuzz_server() {  # name
    local settings
    mapfile -t settings <test/fuzz/server.conf
    scratch_server "$1" "${settings[@]}"
    export JOBQ_FUZZ_LOG=$SCRATCH/$1.log
}
suite_fuzz() {
    fuzz_server fuzz
    JOBQ_FUZZ_CALLS=${JOBQ_FUZZ_CALLS:-4000} in_source test/fuzz/run.sh
}
# The fuzz tests must catch an error that is not documented,
suite_fuzz_unsorted() { caught_by_fuzz batch_not_sorted 'undocumented SQLSTATE 27000'; }
# a crash,
suite_fuzz_crash() { caught_by_fuzz null_elements_let_in 'connection lost'; }
# and counters that do not match the rows.
suite_fuzz_counters() { caught_by_fuzz ends_not_counted 'counters:'; }

caught_by_fuzz() {  # defect finding
    plant_defect "$1"
    fuzz_server "$1"
    JOBQ_FUZZ_EXPECT=$2 JOBQ_FUZZ_CALLS=2500 in_source test/fuzz/run.sh
}

# ---- how suites run

# Runs a command in the copy of the tests, as the owner of the servers.
in_source() {
    cd "$source"
    run_group timeout -k 10 "$limit" "$@"
}

run_make() {
    rm -rf "$source/regression.diffs" "$source/output_iso"
    in_source make --no-print-directory PG_CONFIG="$SCRATCH_PG_CONFIG" "$@"
}

# Prints the differences that pg_regress found, and returns its status.
with_differences() {  # status file
    cat "$source/$2" 2>/dev/null
    return "$1"
}

# Tests write into their own directories. The copy keeps the checkout clean, and works if the owner of the servers cannot read the
# checkout.
copy_tests() {
    source=$SCRATCH/source
    mkdir "$source" "$SCRATCH/node"
    cp -R Makefile jobq.control router src sql expected test examples docs README.md CHANGELOG.md debian monitoring scripts "$source/"
    if [ -d build/node/node_modules ]; then cp -R build/node/node_modules "$SCRATCH/node/"; fi
    scratch_give "$source"
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
    local name=$1 log=$logs/$1 begun=$SECONDS status=0 result=ok parts passed failed took findings
    parts=$(awk -v name="$name" '$1 == name { print $3 }' <<<"$suites")
    if compgen -G "$JOBQ_ROOT/$parts" >/dev/null; then
        set +e   # inside a condition, the shell would ignore failures in the suite
        run_apart "suite_$name" >"$log" 2>&1
        status=$?
        set -e
    else
        echo "$parts is missing" >"$log"
        status=1
    fi
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
    printf '%-13s %d passed, %d failed in %d s\n' "$name" "$passed" "$failed" "$took"
}

run_lane() {  # lane
    local name
    for name in $wanted; do
        if grep -q "^$name  *$1[+-]* " <<<"$suites"; then run_suite "$name"; fi
    done
}

scripts/setup.sh check
find_pg_config
all=$(awk 'NF { print $1 }' <<<"$suites")
wanted=${SUITE:-$(awk 'NF && $2 !~ /[+-]/ { print $1 }' <<<"$suites")}
if [ "$wanted" = controls ]; then wanted=$(awk '$2 ~ /[+]/ { print $1 }' <<<"$suites"); fi
for name in $wanted; do
    grep -qx "$name" <<<"$all" || { echo "no such suite: $name; there are:" $all >&2; exit 2; }
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

for lane in 1 2 3; do
    start_apart run_lane "$lane"
done
lanes_ended=0
for child in "${scratch_children[@]}"; do wait "$child" || lanes_ended=$?; done
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
    table+=$(printf '%-13s %6d %6d %8d  %s' "$name" $((passed + failed)) "$failed" "$took" "$result")$'\n'
    total_passed=$((total_passed + passed))
    total_failed=$((total_failed + failed))
done
[ "$total_failed" -eq 0 ] && [ "$lanes_ended" -eq 0 ] || export SCRATCH_KEEP=${SCRATCH_KEEP-1}

printf '\n%-13s %6s %6s %8s  %s\n%s\n' suite tests failed seconds result "$table"
cat "$logs"/*.failures 2>/dev/null || true
echo "$total_passed passed, $total_failed failed"
[ "$total_failed" -eq 0 ] && [ "$lanes_ended" -eq 0 ]
