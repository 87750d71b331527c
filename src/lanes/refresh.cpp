// See refresh.h.
#include "compat/pg.h"

#include "lanes/ready_walk.h"
#include "lanes/refresh.h"
#include "log/logged.h"
#include "shmem/database_state.h"

#include <algorithm>

extern "C" {
#include "storage/lmgr.h"
}

namespace jobq {

namespace {

using core::ClaimKey;
using core::EmptyRanges;

// Maximum number of index entries that a repair reads per round, which takes about 10 ms. The number is limited because
// the other duties of the round wait for the repair, and the index can contain millions of dead entries that cannot be
// removed because of an old snapshot.
constexpr int kRepairPiece = 20000;

// Moves to the first entry at or after `from` in the index of the key space.
void seek(JobsTable *jobs, RangesOf lane, const ClaimKey &from, const ClaimKey &to) {
    switch (lane.space) {
        case core::KeySpace::Due:
            return seek_due(jobs, from, to);
        case core::KeySpace::Running:
            return seek_running(jobs, from, to);
        default:
            return seek_ready_range(jobs, lane.lane, from, to);
    }
}

// Reads the row of the current entry. Returns false if an empty range of the key space may contain the key.
bool fetch(JobsTable *jobs, core::KeySpace space) {
    return space == core::KeySpace::Claimable ? fetch_claimable(jobs) : fetch_ready(jobs);
}

// Returns whether an empty range in this key space is certainly wrong if it contains the key of a visible row.
bool is_refuted_by_rows(core::KeySpace space) {
    return space == core::KeySpace::Claimable || space == core::KeySpace::Due || space == core::KeySpace::Running;
}

// Searches a range for a job, beginning at *key, and reads at most *entries index entries. Sets *key to the key at
// which the next call continues. If the search finds a job, publishes all remaining keys of the range, because there
// might be thousands of unpublished jobs, and finding them at a rate of one job per round would take hours.
bool publish_stranded(JobsTable *jobs, RangesOf lane, const core::KeyRange &keys, ClaimKey *key, int *entries) {
    if (*key < keys.from) *key = keys.from;
    if (keys.to <= *key) return false;
    seek(jobs, lane, *key, keys.to);
    while (*entries > 0 && next_ready(jobs, key) && *key < keys.to) {
        CHECK_FOR_INTERRUPTS();
        --*entries;
        if (!fetch(jobs, lane.space)) continue;
        publish_keys(lane, *key, keys.to);
        return true;
    }
    return false;
}

// Scans the index from `begin` to `end`, but stops after `most` jobs, and publishes the empty ranges that it finds.
void refresh(JobsTable *jobs, RangesOf lane, const ClaimKey &begin, const ClaimKey &end, core::Micros pause, int most) {
    if (has_new_files(jobs->table.relation)) return;
    const uint64 epoch = trigger_epoch();
    const uint64 ticket = begin_refresh(epoch, lane, pause);
    if (ticket == 0) return;
    const EmptyRanges known = read_empty_ranges(epoch, lane);
    renew_snapshot(jobs);
    // With the command ID of the first command, the snapshot does not see changes that this transaction has made, so a
    // job that this transaction has claimed still counts as pending. This is necessary because the claim might be
    // rolled back.
    jobs->table.snapshot->curcid = FirstCommandId;

    EmptyRanges found = {};
    ClaimKey from = begin;
    int64 passed = 0;
    int seen = 0;
    const auto add = [&](const ClaimKey &to) {
        if (from == begin)
            core::add_empty(&found, {from, to}, passed + kWorthUnseen);
        else if (passed >= kWorthKeeping)
            core::add_empty(&found, {from, to}, passed);
    };
    walk_entries(
        jobs, begin, end, [&](const ClaimKey &key) { seek(jobs, lane, key, end); },
        [&](const ClaimKey &key) { return core::skip_empty(known, key); },
        [&](const ClaimKey &key) {
            if (!fetch(jobs, lane.space)) {
                passed++;
                return Step::Next;
            }
            add(key);
            from = core::next_key(key);
            passed = 0;
            return ++seen < most ? Step::Next : Step::Stop;
        });
    if (seen < most) add(end);
    finish_refresh(lane, ticket, found);
}

// Returns the position at which repair_empty_ranges() continues, and resets it. If another background worker starts a
// repair before leave_repair_place() is called, that repair begins with the first lane. Several background workers may
// take turns in one repair.
RepairPlace take_repair_place() {
    DatabaseState *db = known_session_database();
    if (db == nullptr) return kRepairBegins;
    LWLockAcquire(database_states_lock(), LW_EXCLUSIVE);
    const RepairPlace place = db->repaired_to;
    db->repaired_to = kRepairBegins;
    LWLockRelease(database_states_lock());
    return place;
}

void leave_repair_place(const RepairPlace &place) {
    DatabaseState *db = known_session_database();
    if (db == nullptr) return;
    LWLockAcquire(database_states_lock(), LW_EXCLUSIVE);
    db->repaired_to = place;
    LWLockRelease(database_states_lock());
}

}  // namespace

void refresh_lane(JobsTable *jobs, int64 lane, const ClaimKey &end, core::Micros pause, const ClaimKey &begin) {
    refresh(jobs, lane, begin, end, pause, kMaxJobsSeen);
}

EmptyRanges refreshed_ranges(core::KeySpace space, const ClaimKey &end) {
    // Does not wait for a lock on the table, because a duty that has nothing to do must not wait.
    if (IsolationUsesXactSnapshot() || !try_lock_jobs_table()) return {};
    JobsTable jobs;
    open_jobs(&jobs);
    // The rescue reads all running jobs, so this scan must read all of them. The promotion reads only the first due
    // jobs, so this scan need not read the others.
    refresh(&jobs, space, core::kFirstKey, end, 0, space == core::KeySpace::Running ? PG_INT32_MAX : kMaxJobsSeen);
    EmptyRanges empty = has_new_files(jobs.table.relation) ? EmptyRanges{} : read_empty_ranges(trigger_epoch(), space);
    close_jobs(&jobs);
    // Removes from the ranges the keys that this transaction has logged, because these keys will be published only when
    // the transaction commits.
    const LoggedKeys &own = transaction_log().places[static_cast<int>(space)];
    if (own.any) core::forget_empty(&empty, own.first, own.last);
    return empty;
}

int64 repair_empty_ranges() {
    auto *held = static_cast<TrackedLane *>(palloc(sizeof(TrackedLane) * Max(max_tracked_lanes(), 1)));
    const uint64 epoch = trigger_epoch();
    const int count = tracked_lanes(epoch, held, max_tracked_lanes());
    int64 found = 0;
    RepairPlace place = take_repair_place();
    if (count == 0) return found;
    std::sort(held, held + count, [](const TrackedLane &a, const TrackedLane &b) { return a.lane < b.lane; });
    int entries = kRepairPiece;
    JobsTable jobs;
    open_jobs(&jobs);
    for (int i = 0; i < count; i++) {
        const RangesOf lane = held[i].lane, from(place.space, place.lane);
        if (lane < from || !is_refuted_by_rows(lane.space)) continue;
        if (from < lane) place = {lane.space, lane.lane, core::kFirstKey};
        const EmptyRanges empty = read_empty_ranges(epoch, lane);
        renew_snapshot(&jobs);
        bool stranded = false;
        for (int r = 0; r < empty.count && entries > 0; r++)
            stranded |= publish_stranded(&jobs, lane, empty.items[r].keys, &place.key, &entries);
        found += stranded ? 1 : 0;
        if (entries == 0) {
            leave_repair_place(place);
            break;
        }
    }
    close_jobs(&jobs);
    return found;
}

}  // namespace jobq
