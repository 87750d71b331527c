// See rescue_index.h.
#include "compat/pg.h"

#include "compat/args.h"
#include "compat/memory.h"
#include "compat/spi.h"
#include "job/change_job.h"
#include "leases/rescue_index.h"
#include "leases/young_leases.h"
#include "log/transaction_log.h"
#include "shmem/database_state.h"
#include "shmem/memory.h"

namespace jobq {

namespace {

Statement read_unindexed = {
    R"(SELECT j.id, j.lease, j.worker_id FROM jobq.jobs j
       WHERE j.status = 'processing' AND j._rescue_indexed IS NOT TRUE)",
    {},
    Planning::Free};

// Locks the row of jobq.tick_state for a search, if the server has no shared memory for jobq. Returns no row if a
// search has completed since the server started and in this epoch of the triggers, or if another session is searching.
// $2 is true if there is no epoch because triggers are disabled.
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

// The result of marking a job.
enum class Indexed : uint8 { Yes, NoNeed, Held };

// Marks a job as rescue-indexed if it runs under this lease and no other transaction has locked it.
Indexed index_one(JobsTable *jobs, int64 job, const core::OptInt64 &lease) {
    if (!find_job(jobs, job) || !runs_under(*jobs, lease) || job_has(*jobs, kJobRescueIndexed)) return Indexed::NoNeed;
    if (!lock_row_or_skip(&jobs->table)) return Indexed::Held;
    change_locked_job(jobs, {core::EventKind::RescueIndexed, GetCurrentTimestamp()});
    if (lease) end_lease(job, *lease);
    return Indexed::Yes;
}

// Marks the job of a young lease as rescue-indexed, or removes the entry of the lease if this is no longer needed.
// `pristine` means that this transaction has changed nothing yet, so that everything it sees is committed. Returns
// false if another transaction has locked the job.
bool index_young(JobsTable *jobs, const YoungLease &young, bool pristine) {
    const Indexed indexed = index_one(jobs, young.job, young.lease);
    if (indexed == Indexed::NoNeed) {
        if (pristine)
            drop_lease(young.job, young.lease);
        else
            end_lease(young.job, young.lease);
    }
    return indexed != Indexed::Held;
}

// Returns the job ids of the leases that list(young, room) returns.
template <typename List>
Datum ids_of(List list) {
    const int room = max_young_leases();
    auto *young = static_cast<YoungLease *>(palloc(sizeof(YoungLease) * Max(room, 1)));
    const int count = room == 0 ? 0 : list(young, room);
    auto *ids = static_cast<Datum *>(palloc(sizeof(Datum) * Max(count, 1)));
    for (int i = 0; i < count; i++) ids[i] = Int64GetDatum(young[i].job);
    return array_of(ids, count, INT8OID);
}

// A running job that is not in the rescue index. It has no lease if a plain SQL statement set its status to processing.
struct Unindexed {
    int64 job;
    core::OptInt64 lease;
};

// Marks jobs as rescue-indexed. Returns the number of jobs that it skipped because other transactions had locked them.
int64 index_jobs(const Unindexed *unindexed, int count) {
    JobsTable jobs;
    int64 held = 0;
    open_jobs(&jobs);
    renew_snapshot(&jobs);
    for (int i = 0; i < count; i++) {
        CHECK_FOR_INTERRUPTS();
        held += index_one(&jobs, unindexed[i].job, unindexed[i].lease) == Indexed::Held;
    }
    close_jobs(&jobs);
    return held;
}

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

void index_now(const Unindexed &unindexed) {
    with_spi([&] { index_jobs(&unindexed, 1); });
}

// Minimum pause between two searches, as a multiple of the duration of the last one.
constexpr int kLookRest = 50;
// The same multiple if the last search skipped jobs that other transactions had locked.
constexpr int kHeldLookRest = 10;

// Returns when the whole table must be searched again. `epoch` is the epoch of the triggers (trigger_epoch() in
// row/jobs_catalog.h). A row that was written while triggers were disabled is committed before the next epoch begins,
// so one search per epoch finds it. There is no epoch while triggers are disabled; in this time, the search is repeated
// periodically. It is repeated soon if it skipped jobs that other transactions had locked.
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

bool has_entered = false;  // whether this session has ever called enter_lease()

// Fires deferred triggers in the same way as PREPARE TRANSACTION, which has already done this once before it calls
// index_own_leases().
void fire_deferred_triggers() {
    do {
        AfterTriggerFireDeferred();
    } while (PreCommit_Portals(true));
}

}  // namespace

int index_leases(const YoungLease *leases, int count, int at_most) {
    const bool pristine = !TransactionIdIsValid(GetTopTransactionIdIfAny());
    JobsTable jobs;
    open_jobs(&jobs);
    renew_snapshot(&jobs);
    int settled = 0;
    for (int i = 0; i < count && settled < at_most; i++) {
        CHECK_FOR_INTERRUPTS();
        settled += index_young(&jobs, leases[i], pristine);
    }
    close_jobs(&jobs);
    return settled;
}

void index_before_prepare() { has_entered = true; }

void index_own_leases() {
    if (!has_entered) return;
    const int room = max_young_leases();
    auto *own = static_cast<YoungLease *>(palloc(sizeof(YoungLease) * Max(room, 1)));
    while (const int count = leases_of_this_transaction(own, room)) {
        index_leases(own, count, count);
        if (leases_of_this_transaction(own, room) == count) break;
        // Marking the jobs may have queued deferred triggers of users. Fires them here, because they may claim more
        // jobs.
        fire_deferred_triggers();
    }
    pfree(own);
}

void index_arrived_job(int64 job, int64 lease, const text *worker_id) {
    const TimestampTz due = GetCurrentTimestamp() + kUnindexed;
    if (enter_lease(job, lease, worker_hash_of(worker_id), due)) {
        index_before_prepare();
        log_due(due);
        return;
    }
    index_now({job, lease});
}

void index_unleased_job(int64 job) { index_now({job, {}}); }

UnindexedSearch find_unindexed_jobs() {
    UnindexedSearch search = {};
    // An old snapshot may show jobs that have ended and does not show jobs that were added after it was taken.
    if (IsolationUsesXactSnapshot()) return search;
    const TimestampTz begin = GetCurrentTimestamp();
    const uint64 epoch = trigger_epoch();
    const Datum epoch_value = Int64GetDatum(static_cast<int64>(epoch));
    // Even if the library is not preloaded now, claims may have left jobs out of the index while it was preloaded.
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
    // Records that the search is complete only if no job was locked and a rollback cannot undo what it marked.
    // Otherwise, the search is repeated.
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
    // Searches soon while triggers are disabled, because a repair may enable them again, and then a search is needed.
    return epoch == kNoEpoch ? Min(next, GetCurrentTimestamp() + core::kSecond) : next;
}

Datum unindexed_jobs() {
    return ids_of([](YoungLease *young, int room) { return visible_leases(young, room); });
}

Datum unindexed_jobs_of_worker(const text *worker_id) {
    return ids_of(
        [&](YoungLease *young, int room) { return leases_of_worker(worker_hash_of(worker_id), young, room); });
}

}  // namespace jobq
