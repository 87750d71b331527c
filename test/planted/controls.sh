# The controls of scripts/check.sh: each runs a suite on a library with a planted defect, and passes only if the suite finds this
# defect. README.md in this directory describes the defects.

# planted defect, suite (that is, the function find_with_SUITE), test, and what the output of the failed test must contain, or what the
# test must report
controls='
copy_not_left_alone       regress    adopt               ^-ERROR:  the jobs do not run because database "contrib_regression" is a copy
expiry_not_checked        regress    expiry              ^\+ *expired$
shard_not_locked          isolation  shard               ^-ERROR:  the database has jobs whose ids do not belong to shard 7
line_not_told             isolation  groups_line         ^-930000\|t
settings_not_asked_again  isolation  settings_claim      ^\+    5
kinds_not_reread          isolation  kinds               ^\+t *$
seal_not_told             isolation  batches             ^\+added
wait_not_told             isolation  signals             ^\+sleeps on
ring_not_broken           isolation  await_each_other    ^\+sleeps on
dependents_not_locked     isolation  dependency_by_hand  ^\+on a *\|pending
held_not_counted          isolation  limits_changed      ^\+ *2$
lost_lease_committed      isolation  handlers            ^\+2$
run_not_locked            process    schedules           got: .fired twice
left_jobs_not_told        process    wake_shares         Failed test .a claim that leaves jobs wakes the next sleeper
lookout_does_not_scan     process    wake_shares         Failed test .sleepers claim the last job of each burst
unread_queues_not_checked process    wait_any            the sleeper sleeps on
sleepers_do_not_look      nothing    wake_shares wait_any
key_not_locked            router     moves               not ok .* the key is on shards 1 and 2
lease_not_checked         leases     audit               caught
jobs_not_published        audit      stranded            stranded
limits_by_snapshot        audit      everything          limit exceeded
kind_refusal_ignored      audit      everything          limit exceeded
named_refusal_ignored     audit      everything          limit exceeded
group_head_not_awaited    audit      everything          group crowded
failed_head_not_awaited   audit      everything          halt ignored
succession_unnoticed      audit      everything          group crowded
kind_timeout_ignored      audit      everything          kind ignored
retry_is_end              audit      everything          dependency ignored
claim_not_first           audit      everything          unexplained lease
batch_running_ended       audit      everything          batch
savepoints_counted        audit      everything          totals
ends_not_watched          audit      workflows           sleeps permanently
batch_not_sorted          fuzz       calls               undocumented SQLSTATE 27000
null_elements_let_in      fuzz       calls               connection lost
ends_not_counted          fuzz       calls               counters:
'

run_control() {
    local suite test expected output=$SCRATCH/$name.output
    read -r suite test expected < <(sed -n "s/^$name  *//p" <<<"$controls")
    plant_defect "$name"
    "find_with_$suite"
}

# Prints the lines of the file that match the pattern, and the result of a control with one test. Fails if no line matches.
expect_in() {  # file
    grep -E -- "$expected" "$1" && echo "1 passed, 0 failed"
}

find_with_regress() {
    scratch_server "$name" "$preloaded"
    installcheck ISOLATION= REGRESS="00_install $test" >"$output" 2>&1 || expect_in "$source/regression.diffs"
}
find_with_isolation() {
    scratch_server "$name" "$preloaded"
    installcheck REGRESS= ISOLATION="$test" >"$output" 2>&1 || expect_in "$source/output_iso/regression.diffs"
}

# Repeats the test, because the defect may show itself only now and then.
find_with_process() {
    local try
    for_process
    for try in {1..5}; do
        JOBQ_FAULTS=1 in_source prove "test/process/$test.pl" >"$output" 2>&1 || break
        rm -rf "$TESTDATADIR"
    done
    expect_in "$output"
}
# With this defect, the test must still pass: the defect disables a backstop, and jobq must work without it.
find_with_nothing() {
    for_process
    JOBQ_FAULTS=1 in_source prove "test/process/$test.pl" "test/process/$expected.pl"
}

find_with_router() {
    router_servers
    in_source router/test/router/run.sh "$test.py" >"$output" 2>&1 || expect_in "$output"
}

# The tests under load find a law that is broken, or an unexpected result of a call, and pass.
find_with_audit() {
    audit_server
    JOBQ_AUDIT_PARTS=$test.py JOBQ_AUDIT_EXPECT=$expected JOBQ_AUDIT_JOBS=20000 JOBQ_AUDIT_SECONDS=10 in_source test/audit/run.sh
}
find_with_fuzz() {
    fuzz_server
    JOBQ_FUZZ_PARTS=$test.py JOBQ_FUZZ_EXPECT=$expected JOBQ_FUZZ_CALLS=2500 in_source test/fuzz/run.sh
}
# jobq audit, which runs next to everything.py, and the promotions of standbys must find this defect, too.
find_with_leases() {
    local failed=0
    find_with_audit || failed=1
    test=everything expected='stale lease accepted'
    find_with_audit || failed=1
    scratch_give "$SCRATCH/promoted"
    JOBQ_CHAOS_EXPECT=caught JOBQ_FAILOVERS=1 in_source "${PYTHON:-/usr/bin/python3}" -B test/chaos/failover.py "$SCRATCH/promoted" || failed=1
    return $failed
}
