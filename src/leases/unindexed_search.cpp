// See unindexed_search.h.
#include "compat/pg.h"

#include "compat/args.h"
#include "compat/memory.h"
#include "compat/spi.h"
#include "leases/rescue_index.h"
#include "leases/unindexed_search.h"
#include "leases/young_leases.h"
#include "shmem/database_state.h"
#include "shmem/memory.h"

namespace jobq {

namespace {

Statement read_unindexed = {
    R"(SELECT j.id, j.lease, j.worker_id FROM jobq.jobs j
       WHERE j.status = 'processing' AND j._rescue_indexed IS NOT TRUE)",
    {},
    Planning::Free};

// Locks the row of jobq.tick_state for a search. Used if the server has no shared memory for jobq. Returns no row if
// another session is searching, or if a search in the current epoch of the triggers has completed since the server
// started. $2 is true while triggers are disabled: there is no epoch then, so an earlier search does not count.
Statement lock_unindexed_unknown = {
    R"(SELECT 1 FROM jobq.tick_state t
       WHERE t.unindexed_found_for IS DISTINCT FROM pg_postmaster_start_time() OR t.unindexed_found_in IS DISTINCT FROM $1
          OR $2
       FOR UPDATE SKIP LOCKED)",
    {INT8OID, BOOLOID},
    Planning::Free};
Statement set_unindexed_found = {
    "UPDATE jobq.tick_state t SET unindexed_found_for = pg_postmaster_start_time(), unindexed_found_in = $1",
    {INT8OID},
    Planning::Free};

struct Unindexable {
    int64 job;  // the first job that could not be marked; 0 if there is none
    int count;
    int64 held;  // number of jobs that other transactions had locked
};

// Marks all jobs in one subtransaction or, if that fails, each job in its own subtransaction.
Unindexable index_all(const Unindexed *unindexed, int count, FailureText *failure) {
    Unindexable left_out = {0, 0, 0};
    change_all_or_each(
        count, [&](int first, int n) { left_out.held += index_jobs(unindexed + first, n); }, [](int) {},
        [&](int i, const FailureText &another) {
            if (left_out.count++ > 0) return;
            left_out.job = unindexed[i].job;
            *failure = another;
        });
    return left_out;
}

// Minimum pause between two searches, as a multiple of the duration of the last search.
constexpr int kLookRest = 50;
// Minimum pause after a search that skipped jobs that other transactions had locked, as a multiple of the duration of
// this search.
constexpr int kHeldLookRest = 10;

// Returns the time at which the whole table must be searched again. `epoch` is the epoch of the triggers
// (trigger_epoch() in row/jobs_catalog.h). A row that was written while triggers were disabled is committed before the
// next epoch begins, so one search per epoch finds the row. There is no epoch while triggers are disabled; during this
// time, the search is repeated periodically. The search is repeated soon if it skipped jobs that other transactions had
// locked.
TimestampTz next_look_for_unindexed(uint64 epoch) {
    const DatabaseState *db = shared_memory_ready() ? session_database() : nullptr;
    if (db == nullptr) return DT_NOEND;
    const bool looked = db->leases_found || db->look_held;
    if (!looked || db->looked_epoch != epoch) return DT_NOBEGIN;
    if (!db->look_held && epoch != kNoEpoch) return DT_NOEND;
    const core::Micros rest = db->look_held ? Max(core::kSecond, kHeldLookRest * db->look_took)
                                            : Max(core::kMinute, kLookRest * db->look_took);
    return GetCurrentTimestamp() < db->looked_at ? DT_NOBEGIN : db->looked_at + rest;
}

void looked_for_unindexed(uint64 epoch, TimestampTz begin, bool held) {
    DatabaseState *db = known_session_database();
    if (db == nullptr) return;
    if (!held) db->leases_found = true;
    db->look_held = held;
    db->looked_epoch = epoch;
    db->looked_at = GetCurrentTimestamp();
    db->look_took = Max(db->looked_at - begin, 0);
}

}  // namespace

UnindexedSearch find_unindexed_jobs() {
    UnindexedSearch search = {};
    // Does not search under an old snapshot, because such a snapshot might show jobs that have ended in the meantime,
    // and does not show jobs that were added after it was taken.
    if (IsolationUsesXactSnapshot()) return search;
    const TimestampTz begin = GetCurrentTimestamp();
    const uint64 epoch = trigger_epoch();
    const Datum epoch_value = Int64GetDatum(static_cast<int64>(epoch));
    // Searches even if the library is not preloaded now, because claims might have left jobs out of the index while the
    // library was preloaded.
    const bool alone = !shared_memory_ready();
    if (alone ? run(lock_unindexed_unknown, Params().add(epoch_value).add(BoolGetDatum(epoch == kNoEpoch))).size() == 0
              : next_look_for_unindexed(epoch) > begin)
        return search;
    search.looked = true;
    const Rows rows = run(read_unindexed, Params());
    auto *not_entered = allocate_array<Unindexed>(rows.size());
    int count = 0;
    for (uint64 i = 0; i < rows.size(); i++) {
        const Row row = rows[i];
        const text *worker_id = row.is_null(3) ? make_text("") : DatumGetTextPP(row.get(3));
        const bool has_lease = !row.is_null(2);
        if (has_lease && enter_found_lease(row.int64_at(1), row.int64_at(2), worker_hash_of(worker_id))) continue;
        not_entered[count++] = {row.int64_at(1), has_lease ? core::OptInt64(row.int64_at(2)) : core::OptInt64()};
    }
    const Unindexable left_out = index_all(not_entered, count, &search.failure);
    search.left_out = left_out.job;
    // Records the search as complete only if no job was locked and a rollback cannot undo the marks that the search has
    // set. Otherwise, the search is repeated.
    if (!alone) {
        if (left_out.held > 0 || count == left_out.count) looked_for_unindexed(epoch, begin, left_out.held > 0);
    } else if (left_out.held == 0) {
        run(set_unindexed_found, Params().add(epoch_value));
    }
    return search;
}

TimestampTz next_search_for_unindexed() {
    const uint64 epoch = trigger_epoch();
    const TimestampTz next = next_look_for_unindexed(epoch);
    // While triggers are disabled, returns a time at most one second from now, because a repair might enable the
    // triggers again, and a search is needed then.
    return epoch == kNoEpoch ? Min(next, GetCurrentTimestamp() + core::kSecond) : next;
}

}  // namespace jobq
