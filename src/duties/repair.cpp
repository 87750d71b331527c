// The duty "repair", which corrects inconsistencies after manual changes, abrupt changes of the system clock, and
// restored dumps.
#include "compat/pg.h"

#include "compat/args.h"
#include "compat/memory.h"
#include "compat/spi.h"
#include "compat/subtransaction.h"
#include "duties/change_jobs.h"
#include "duties/duties.h"
#include "duties/renumber.h"
#include "groups/unblock.h"
#include "lanes/empty_ranges.h"
#include "lanes/lanes.h"
#include "lanes/refresh.h"
#include "lanes/retire.h"
#include "leases/running_ids.h"
#include "limits/limit_settings.h"
#include "log/transaction_log.h"
#include "row/job_scans.h"
#include "shmem/database_state.h"

namespace jobq {

namespace {

Statement find_missing_lanes = {
    R"(SELECT u.lane FROM unnest($1) AS u(lane)
       WHERE NOT EXISTS (SELECT FROM jobq.lane_directory d WHERE d.lane = u.lane AND NOT d.retiring) ORDER BY u.lane)",
    {INT8ARRAYOID}};
constexpr int kLanesAtOnce = 1000;
// Maximum number of index entries that one search reads in lanes that are missing from the directory. The number is
// limited because the index entries of deleted jobs remain while an old snapshot exists.
constexpr int kMissingPiece = 20000;
// Where the next search for lanes that are missing from the directory starts.
struct {
    int64 lane;
    core::ClaimKey key;
} missing_from = {PG_INT64_MIN, core::kFirstKey};

// Selects the triggers that must be enabled as REPLICA but are enabled for normal sessions (ORIGIN). ALTER TABLE ...
// ENABLE TRIGGER USER or ALL, which pg_restore --disable-triggers also executes, leaves them in this state. A trigger
// that an operator has disabled stays disabled.
Statement find_misplaced_triggers = {
    R"(SELECT t.tgname::text FROM pg_catalog.pg_trigger t WHERE t.tgrelid = 'jobq.jobs'::pg_catalog.regclass
       AND t.tgname IN ('tell_job', 'renumber_job') AND t.tgenabled = 'O')",
    {}};
// Lock timeout for enabling the triggers. The timeout is short because other transactions that write to the table must
// wait while this session waits for its lock.
constexpr const char *kLockTimeout = "50ms";

// Locks running jobs without a heartbeat or with a heartbeat in the future. If the clock was set back, a heartbeat in
// the future would prevent the rescue of a dead worker's job until the clock reaches that time again.
Statement lock_unlikely_heartbeats = {
    "SELECT j.id FROM " RUNNING_JOBS(
        "$2", "$3", "j.id",
        "AND (j.last_heartbeat > greatest($1, clock_timestamp()) + interval '5 seconds' OR j.last_heartbeat IS NULL) "
        "ORDER BY j.id FOR NO KEY UPDATE SKIP LOCKED"),
    {TIMESTAMPTZOID, INT8ARRAYOID, INT8ARRAYOID}};
// Reads the index entries of the lane `entries_of`, from *key up to the first visible job, and adds the lane of this
// job to the directory. Advances *key. Returns the number of the added lane, or 0 if it has added none.
int64 enter_lane_of(JobsTable *jobs, int64 entries_of, core::ClaimKey *key, int *entries, DutyOutcome *outcome) {
    seek_ready(jobs, entries_of, *key);
    while (*entries > 0 && next_ready(jobs, key)) {
        CHECK_FOR_INTERRUPTS();
        --*entries;
        if (!fetch_claimable(jobs)) continue;
        int64 lane = 0;
        FailureText failure;
        // The row has bypassed the triggers, so its names have not been checked, and adding the lane can fail.
        const auto enter = [&] {
            lane = ensure_lane(view(DatumGetTextPP(job_value(*jobs, kJobQueue))),
                               view(DatumGetTextPP(job_value(*jobs, kJobKind))),
                               DatumGetInt32(job_value(*jobs, kJobVersion)), array_in(*jobs, kJobRequires),
                               array_in(*jobs, kJobLimits));
        };
        if (!attempt(enter, &failure)) leave_out(outcome, key->id, failure);
        return lane;
    }
    return 0;
}

// Adds lanes that have index entries but are missing from the directory. Skips from lane to lane in the claim index, so
// the cost depends on the number of lanes. Reads all entries of a lane only if the lane is missing.
void add_missing_lanes(DutyOutcome *outcome) {
    Datum lanes[kLanesAtOnce];
    int count = kLanesAtOnce;
    int entries = kMissingPiece;
    auto from = missing_from;
    missing_from = {PG_INT64_MIN, core::kFirstKey};
    JobsTable jobs;
    open_jobs(&jobs);
    renew_snapshot(&jobs);
    for (int64 lane = from.lane == PG_INT64_MIN ? from.lane : from.lane - 1; count == kLanesAtOnce && entries > 0;) {
        for (count = 0; count < kLanesAtOnce && next_lane(&jobs, &lane);) lanes[count++] = Int64GetDatum(lane);
        if (count == 0) break;
        Rows missing = run(find_missing_lanes, Params().add(array_of(lanes, count, INT8OID)));
        // Takes a new snapshot after the directory has been read. If a queue was dropped before the directory was read,
        // the jobs of the queue are not visible under this snapshot.
        if (missing.size() > 0) renew_snapshot(&jobs);
        for (uint64 i = 0; i < missing.size() && entries > 0; i++) {
            const int64 id = missing[i].int64_at(1);
            if (id != from.lane) from = {id, core::kFirstKey};
            if (enter_lane_of(&jobs, id, &from.key, &entries, outcome) == id) outcome->done++;
        }
        missing.free();
    }
    close_jobs(&jobs);
    if (entries > 0) return;
    missing_from = from;
    outcome->goes_on = outcome->unread = true;
}

void pull_back_heartbeats_from_future(TimestampTz now, DutyOutcome *outcome) {
    const RunningIds ids = running_ids();
    const Rows rows =
        run(lock_unlikely_heartbeats, Params().add(TimestampTzGetDatum(now)).add(ids.first).add(ids.last));
    Notes<Datum> unlikely = {};
    for (uint64 i = 0; i < rows.size(); i++) unlikely.add(rows[i].get(1));
    const int64 done_before = outcome->done;
    apply_to_each(unlikely, {core::EventKind::Heartbeat, GetCurrentTimestamp()}, outcome);
    // Makes the rescue check the leases again, because the leases of the changed jobs now expire earlier.
    if (outcome->done > done_before) log_lease_deadline(DT_NOBEGIN);
}

void restore_triggers() {
    if (trigger_epoch() != kNoEpoch) return;
    const Rows misplaced = run(find_misplaced_triggers, Params());
    if (misplaced.size() == 0) return;
    // A session that has called jobq_tick() does not wait for the lock. It may have written to the table, and the
    // background worker has, so both would wait for each other.
    if (MyBackendType != B_BG_WORKER && !try_lock_jobs_table(ShareRowExclusiveLock)) return;
    FailureText failure;
    const int nest_level = NewGUCNestLevel();
    set_config_option("lock_timeout", kLockTimeout, PGC_USERSET, PGC_S_SESSION, GUC_ACTION_SAVE, true, 0, false);
    // If the triggers cannot be enabled because another session holds a conflicting lock, the next repair tries again.
    attempt(
        [&] {
            for (uint64 i = 0; i < misplaced.size(); i++)
                run_text(psprintf("ALTER TABLE jobq.jobs ENABLE REPLICA TRIGGER %s",
                                  text_to_cstring(DatumGetTextPP(misplaced[i].get(1)))));
        },
        &failure);
    AtEOXact_GUC(true, nest_level);
}

}  // namespace

DutyOutcome repair(TimestampTz now, TimestampTz grace_start) {
    DutyOutcome outcome = {};
    restore_triggers();
    renumber_jobs(&outcome);
    add_missing_lanes(&outcome);
    if (heartbeats_doubtful(grace_start)) {
        pull_back_heartbeats_from_future(now, &outcome);
        if (outcome.failed == 0) heartbeats_checked(grace_start);
    }
    settle_slots(now, &outcome);
    outcome.done += repair_empty_ranges();
    repair_unblocking(now);
    change_beside(
        "jobq.lane_directory", [&] { outcome.goes_on |= retire_lanes(now); }, &outcome);
    return outcome;
}

}  // namespace jobq
