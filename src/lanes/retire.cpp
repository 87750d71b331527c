// See retire.h. The retirement of lanes takes three consecutive transactions. Each of them holds a lock until it has
// committed and sent its invalidation messages.
//
//  1. Mark lanes that have no claimable jobs and were inserted long ago as retiring. Claims ignore the mark. A producer
//     that has received the message about the mark inserts the lane again, as a new row.
//  2. Record the id of the next transaction. A transaction gets its id before it checks whether the lane of a claimable
//     job exists. So all transactions with this id or a higher one see the marks.
//  3. When all transactions with lower ids have ended, including prepared ones, all jobs that they made claimable are
//     visible. Keep the marked lanes that have a claimable job, and delete the others.
#include "compat/pg.h"

#include "compat/args.h"
#include "compat/memory.h"
#include "compat/settings.h"
#include "compat/spi.h"
#include "lanes/lanes.h"
#include "lanes/retire.h"
#include "row/job_scans.h"

extern "C" {
#include "storage/lmgr.h"
}

namespace jobq {

namespace {

// Maximum number of lanes per step. Steps must be short, because the other duties of the round wait for them.
constexpr int kLanesAtOnce = 2000;
// Maximum total number of dead index entries that a step passes in all lanes. Lanes that the step does not reach before
// this maximum are not retired in this step.
constexpr int kMaxPassed = 100000;

Statement get_state = {
    R"(SELECT r.marked_xid IS NOT NULL,
              coalesce(r.marked_xid = pg_current_xact_id_if_assigned(), false),
              r.wait_for IS NOT NULL,
              r.wait_for <= pg_snapshot_xmin(pg_current_snapshot())
       FROM jobq.lane_retirement r)",
    {}};

// Selects lanes that were inserted before $1. Excludes the newest lane of each queue, so that the name of the queue
// remains in the table.
Statement find_old = {
    R"(SELECT o.lane
       FROM (SELECT d.lane, max(d.entered_at) AS entered_at,
                    row_number() OVER (PARTITION BY d.queue ORDER BY max(d.entered_at) DESC, d.lane) AS place
             FROM jobq.lane_directory d WHERE NOT d.retiring GROUP BY d.queue, d.lane) o
       WHERE o.place > 1 AND o.entered_at < $1 ORDER BY o.lane)",
    {TIMESTAMPTZOID},
    Planning::Free};

// Marks the lanes $1 as retiring. Also updates rows that were already marked when a dump was restored, because their
// changed_xid is wrong.
Statement mark = {
    R"(UPDATE jobq.lane_directory d SET retiring = true, changed_xid = pg_current_xact_id()
       WHERE d.ctid = ANY (ARRAY (SELECT m.ctid FROM jobq.lane_directory m
                                  WHERE m.lane = ANY ($1) OR m.retiring
                                  FOR UPDATE SKIP LOCKED)))",
    {INT8ARRAYOID},
    Planning::Free};
Statement note_mark = {
    "UPDATE jobq.lane_retirement r SET marked_xid = pg_current_xact_id(), wait_for = NULL", {}, Planning::Free};
Statement note_next = {"UPDATE jobq.lane_retirement r SET wait_for = $1", {XID8OID}, Planning::Free};

#define MARKED "d.retiring AND d.changed_xid = (SELECT r.marked_xid FROM jobq.lane_retirement r)"
Statement find_marked = {
    "SELECT DISTINCT d.lane FROM jobq.lane_directory d WHERE " MARKED " ORDER BY d.lane", {}, Planning::Free};
#define LOCK_MARKED "ARRAY (SELECT d.ctid FROM jobq.lane_directory d WHERE " MARKED " FOR UPDATE SKIP LOCKED)"
Statement keep_used = {
    "UPDATE jobq.lane_directory d SET retiring = false, entered_at = clock_timestamp(), "
    "changed_xid = pg_current_xact_id() WHERE d.lane = ANY ($1) AND d.ctid = ANY (" LOCK_MARKED ")",
    {INT8ARRAYOID},
    Planning::Free};
Statement delete_unused = {"DELETE FROM jobq.lane_directory d WHERE d.lane <> ALL ($1) AND d.ctid = ANY (" LOCK_MARKED
                           ")",
                           {INT8ARRAYOID},
                           Planning::Free};
Statement note_deleted = {
    "UPDATE jobq.lane_retirement r SET deleted_xid = r.marked_xid, marked_xid = NULL, wait_for = NULL",
    {},
    Planning::Free};

// The time at which the background worker last found no lanes to retire, and the time until which it pauses after that.
// A manual tick ignores the pause.
struct {
    TimestampTz from, until;
} resting;

// Locks jobq.lane_directory. Returns false if another session is retiring lanes or has not yet sent the invalidation
// messages of the transaction in which it retired lanes.
bool lock_directory() {
    const Oid directory = get_relname_relid("lane_directory", get_namespace_oid("jobq", false));
    return ConditionalLockRelationOid(directory, ShareUpdateExclusiveLock);
}

// Returns whether the lane has a claimable job. Also returns true if more than kMaxPassed dead entries have been
// passed. Reads the index and the table instead of the empty ranges, because an empty range can be wrong for a moment
// after a commit.
bool has_claimable_job(JobsTable *jobs, int64 lane, core::ClaimKey key, int *passed) {
    seek_ready(jobs, lane, key);
    while (next_ready(jobs, &key)) {
        CHECK_FOR_INTERRUPTS();
        if (fetch_claimable(jobs) || ++*passed > kMaxPassed) return true;
    }
    return false;
}

// The given lanes in two lists, both in the order of the lane ids: lanes that have claimable jobs, and lanes that have
// none. The second list contains at most kLanesAtOnce lanes, so it may be incomplete.
struct Sorted {
    Datum *used, *unused;
    int used_count, unused_count;
};

Sorted sort_lanes(const Rows &rows) {
    auto *ids = allocate_array<int64>(rows.size());
    for (uint64 i = 0; i < rows.size(); i++) ids[i] = rows[i].int64_at(1);
    Sorted sorted = {allocate_array<Datum>(rows.size()), allocate_array<Datum>(kLanesAtOnce), 0, 0};
    JobsTable jobs;
    open_jobs(&jobs);
    renew_snapshot(&jobs);
    LaneWalk walk = {ids, static_cast<int>(rows.size()), 0};
    int64 id;
    core::ClaimKey first;
    int passed = 0;
    while (next_lane_with_entries(&jobs, &walk, &id, &first))
        if (has_claimable_job(&jobs, id, first, &passed)) sorted.used[sorted.used_count++] = Int64GetDatum(id);
    close_jobs(&jobs);
    int next_used = 0;
    for (uint64 i = 0; i < rows.size() && sorted.unused_count < kLanesAtOnce; i++) {
        if (next_used < sorted.used_count && DatumGetInt64(sorted.used[next_used]) == ids[i])
            next_used++;
        else
            sorted.unused[sorted.unused_count++] = Int64GetDatum(ids[i]);
    }
    pfree(ids);
    return sorted;
}

// Marks unused lanes as retiring. Returns whether it has marked any lanes.
bool mark_unused(TimestampTz now) {
    const core::Micros longest = settings.keep_lanes_s * core::kSecond;
    const Rows old = run(find_old, Params().add(TimestampTzGetDatum(now - longest)));
    const Sorted lanes = sort_lanes(old);
    run(mark, Params().add(array_of(lanes.unused, lanes.unused_count, INT8OID)));
    if (affected() == 0) {
        resting = {now, now + Min(longest / 10, core::kMinute)};
        return false;
    }
    run(note_mark, Params());
    lanes_changed_at_commit();
    return true;
}

void delete_marked() {
    const Rows marked = run(find_marked, Params());
    const Sorted lanes = sort_lanes(marked);
    const Datum kept = array_of(lanes.used, lanes.used_count, INT8OID);
    if (lanes.used_count > 0) run(keep_used, Params().add(kept));
    run(delete_unused, Params().add(kept));
    run(note_deleted, Params());
    lanes_changed_at_commit();
}

}  // namespace

bool retire_lanes(TimestampTz now) {
    // Does nothing at isolation level REPEATABLE READ or higher, because such a transaction might not see recent jobs
    // and lanes.
    if (settings.keep_lanes_s == 0 || IsolationUsesXactSnapshot()) return false;
    if (MyBackendType == B_BG_WORKER && resting.from <= now && now < resting.until) return false;
    if (!lock_directory()) return true;
    const Rows state = run(get_state, Params());
    if (state.size() == 0 || state[0].bool_at(2)) return state.size() > 0;
    if (!state[0].bool_at(1)) return mark_unused(now);
    if (!state[0].bool_at(3)) {
        run(note_next, Params().add(FullTransactionIdGetDatum(ReadNextFullTransactionId())));
    } else if (state[0].bool_at(4)) {
        delete_marked();
        return mark_unused(now);
    }
    return true;
}

}  // namespace jobq
