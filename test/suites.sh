# The suites of scripts/check.sh: suite NAME is the function suite_NAME. It runs in a shell of its own, in which $source is a copy of
# the tests that belongs to the owner of the servers, and its last lines of output show how many tests ran.

# The suites of `make check`. Those that take longest come first, so that no suite runs alone at the end.
suites='process router audit regress_sql unit isolation isolation_sql plain regress fuzz docs drivers together model pgtap exports'
# These suites run only if they are named.
more_suites='sanitizers upgrade monitoring calendar deploy'

preloaded="shared_preload_libraries = 'jobq'"
unvacuumed='autovacuum = off'   # a vacuum that truncates a table locks it, which jobq_explain reports
no_workers='jobq.enabled = off'
by_sql='jobq.access = sql'   # access the rows of jobq.jobs by SQL, instead of directly

suite_exports() {
    make -s check-exports && echo "1 passed, 0 failed"
}

# ---- unit tests

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

# Checks the models of the protocols with spin.
suite_model() { in_source "${PYTHON:-/usr/bin/python3}" -B test/model/run.py; }

# ---- SQL tests

# The expected output is the same with and without preload, because the functions promise the same, and for both ways to access the
# rows. Background workers do not run in the suites of pg_regress: a tick skips the rows that a background worker has locked, so a
# result would depend on what the worker is doing. The suites "process" and "isolation" test the workers.
suite_regress() { regress "$preloaded" "$no_workers" "${JOBQ_SETTINGS-}"; }
suite_plain() { regress "${JOBQ_SETTINGS-}"; }
suite_regress_sql() { regress "$preloaded" "$no_workers" "$by_sql"; }
suite_isolation() { isolation "$preloaded" "${JOBQ_SETTINGS-}"; }
suite_isolation_sql() { isolation "$preloaded" "$by_sql"; }

regress() {  # setting...
    scratch_server "$name" "$unvacuumed" "$@"
    installcheck ISOLATION= ${JOBQ_REGRESS:+REGRESS="$JOBQ_REGRESS"} || with_differences $? regression.diffs
}
isolation() {  # setting...
    scratch_server "$name" "$unvacuumed" "$@"
    installcheck REGRESS= ${JOBQ_ISOLATION:+ISOLATION="$JOBQ_ISOLATION"} || with_differences $? output_iso/regression.diffs
}
installcheck() { in_source make --no-print-directory PG_CONFIG="$SCRATCH_PG_CONFIG" installcheck "$@"; }

# Prints the differences that pg_regress found and returns its status.
with_differences() {  # status file
    cat "$source/$2" 2>/dev/null
    return "$1"
}

suite_pgtap() {
    scratch_server pgtap "$preloaded"
    "$SCRATCH_BIN/createdb" jobq_pgtap
    export PGDATABASE=jobq_pgtap
    "$SCRATCH_BIN/psql" -Xq -c 'CREATE EXTENSION pgtap' -c 'CREATE EXTENSION jobq'
    in_source pg_prove test/pgtap/*.sql
}

# ---- tests that start servers themselves

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
    [ -z "$alone" ] || in_source prove --timer "$alone" || failed=$?
    in_source prove --timer -j 5 "${others[@]}" || failed=$?
    return $failed
}

# Tests all updates: from each release, and with its library.
suite_upgrade() {
    upgrade_tree
    for_process
    in_source prove --timer test/process/extension_update.pl test/upgrade/*.pl
}

for_process() {
    local data=$SCRATCH/$name
    mkdir -p "$data"
    memory_for_process "$data"
    scratch_give "$data"
    export PERL5LIB=$SCRATCH_PGXS/src/test/perl PG_REGRESS=$SCRATCH_PGXS/src/test/regress/pg_regress PGPORT=65432
    export TESTDIR=$data TESTDATADIR=$data/tmp_check TESTLOGDIR=$data/tmp_check/log
}

# The suite creates about sixty data directories. They are kept in memory if there is enough and root can mount it, because
# otherwise the disk takes most of the time.
memory_for_process() {  # directory
    local free
    free=$(awk '/^MemAvailable/ { print int($2 / 1048576) }' /proc/meminfo)
    [ "$(id -u)" = 0 ] && [ "$free" -ge 12 ] && mount -t tmpfs -o size=8g jobq-process "$1" 2>/dev/null || return 0
    scratch_hook=leave_memory
}
leave_memory() {
    cp -r "$TESTLOGDIR" "$logs/${TESTDIR##*/}.servers" 2>/dev/null
    umount -l "$TESTDIR"
}

# ---- clients and documents

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
    NODE_PATH=$SCRATCH/node/node_modules:/usr/share/nodejs in_source "$python" test/docs/examples.py README.md docs/*/*.md || failed=1
    return $failed
}

# ---- tests under load

suite_audit() {
    audit_server
    JOBQ_AUDIT_PARTS='checker_test.py workflow_laws_test.py seeds.py planted.py stranded.py audit.py workflows.py' JOBQ_AUDIT_JOBS=${JOBQ_AUDIT_JOBS:-50000} \
        in_source test/audit/run.sh
}
# Tests all features together and checks the result against the server's log of changes.
suite_together() {
    audit_server
    JOBQ_AUDIT_PARTS='laws_test.py everything.py' in_source test/audit/run.sh
}
audit_server() { scratch_server "$name" "$preloaded" 'max_connections = 200' 'max_prepared_transactions = 50' 'wal_level = logical'; }

# Calls every function with unusual values, and with hostile triggers, indexes, and constraints; `make fuzz` runs longer.
suite_fuzz() {
    fuzz_server
    JOBQ_FUZZ_CALLS=${JOBQ_FUZZ_CALLS:-4000} in_source test/fuzz/run.sh
}
fuzz_server() {
    local settings
    mapfile -t settings <test/fuzz/server.conf
    scratch_server "$name" "${settings[@]}"
    export JOBQ_FUZZ_LOG=$SCRATCH/$name.log
}

suite_router() {
    router_servers
    in_source router/test/router/run.sh
}
# Three servers, each with a shard; the first has the routers.
router_servers() {
    local number
    JOBQ_ROUTER_SERVERS=
    for number in 1 2 3; do
        scratch_server "$name$number" "$preloaded"
        JOBQ_ROUTER_SERVERS+="$SCRATCH/$name$number "
    done
    export JOBQ_ROUTER_SERVERS
}

# ---- comparisons with other programs, which npm or apt installs

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

# Checks the files in deploy/, with schemas from npm, and runs the programs that they start.
suite_deploy() {
    local modules=$JOBQ_ROOT/build/deploy
    "$JOBQ_ROOT/scripts/setup.sh" deploy
    mkdir -p "$modules"
    [ -d "$modules/node_modules/@kubernetes-models/keda" ] ||
        npm install --silent --no-audit --no-fund --ignore-scripts --prefix "$modules" kubernetes-models@4 @kubernetes-models/keda@0.4 js-yaml@4
    tar -C "$modules" -cf - node_modules | run_as tar -C "$source/test/deploy" -xf -
    tar -C "$JOBQ_ROOT" --exclude=web/test -cf - web deploy docker | run_as tar -C "$source" -xf -
    scratch_server deploy "$preloaded"
    in_source node test/deploy/check.mjs
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
