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

// Without shared memory: no row when running jobs have been looked for since the server started and in this epoch of
// the triggers, or are just now. $2: no epoch, they are switched off.
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

// What came of it.
enum class Indexed : uint8 { Yes, NoNeed, Held };

// Marks a job, as far as it runs under this lease, as rescue-indexed, unless somebody holds it.
Indexed index_one(JobsTable *jobs, int64 job, const core::Maybe &lease) {
    if (!find_job(jobs, job) || !runs_under(*jobs, lease) || job_has(*jobs, kJobRescueIndexed)) return Indexed::NoNeed;
    if (!lock_row_or_skip(&jobs->table)) return Indexed::Held;
    change_locked_job(jobs, {core::EventKind::RescueIndexed, GetCurrentTimestamp()});
    if (lease) end_lease(job, *lease);
    return Indexed::Yes;
}

// `pristine`: the transaction has changed nothing so far, so that what it sees has been committed. False: somebody
// holds the job.
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

// The ids of the leases that list(young, room) gives.
template <typename List>
Datum ids_of(List list) {
    const int room = max_young_leases();
    auto *young = static_cast<YoungLease *>(palloc(sizeof(YoungLease) * Max(room, 1)));
    const int count = room == 0 ? 0 : list(young, room);
    auto *ids = static_cast<Datum *>(palloc(sizeof(Datum) * Max(count, 1)));
    for (int i = 0; i < count; i++) ids[i] = Int64GetDatum(young[i].job);
    return array_of(ids, count, INT8OID);
}

// A running job that the rescue's index lacks; without a lease when it was set to processing by hand.
struct Unindexed {
    int64 job;
    core::Maybe lease;
};

// Returns how many of them others hold.
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
    int64 job;  // the first of them, 0: there is none
    int count;
    int64 held;  // by others
};

// At once or, where that fails, one by one.
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

// The search for running jobs that the index lacks rests so many times as long as it took.
constexpr int kLookRest = 50;
// Where it has left out some that were held: those wait for the next look.
constexpr int kHeldLookRest = 10;

// When they must be looked for in the whole table, and that this has been done, begun at `begin`. `epoch`: of the
// triggers, as the look has seen it (trigger_epoch() in row/jobs_table.h). What comes behind the triggers' back has
// been committed before the next epoch begins: one look in each finds it; and where they are switched off for long, one
// now and then. `held`: some were held by others, it must be done again before long.
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

bool has_entered = false;  // a lease, at some time

// As PREPARE TRANSACTION does before it calls us.
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
        // Those of before have fired already; and one of somebody's may claim in turn.
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
    // What an old snapshot shows may be long over, and what has come since is behind it.
    if (IsolationUsesXactSnapshot()) return search;
    const TimestampTz begin = GetCurrentTimestamp();
    const uint64 epoch = trigger_epoch();
    const Datum epoch_value = Int64GetDatum(static_cast<int64>(epoch));
    // Preloaded before, and not any more: claims of then may have left jobs out of the rescue's index.
    const bool alone = !shared_memory_ready();
    if (alone ? run(lock_unindexed_unknown, Params().add(epoch_value).add(BoolGetDatum(epoch == kNoEpoch))).size() == 0
              : next_look_for_unindexed(epoch) > begin)
        return search;
    search.looked = true;
    const Rows rows = run(read_unindexed, Params());
    auto *homeless = room_for<Unindexed>(rows.size());
    int count = 0;
    for (uint64 i = 0; i < rows.size(); i++) {
        const Row row = rows[i];
        const text *worker_id = row.is_null(3) ? make_text("") : DatumGetTextPP(row.get(3));
        const bool has_lease = !row.is_null(2);
        if (has_lease && enter_found_lease(row.int64_at(1), row.int64_at(2), worker_hash_of(worker_id))) continue;
        homeless[count++] = {row.int64_at(1), has_lease ? core::Maybe(row.int64_at(2)) : core::Maybe()};
    }
    const Unindexable left_out = index_all(homeless, count, &search.failure);
    search.left_out = left_out.job;
    // Some are held by others, or what was marked may roll back: then it is looked again.
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
    // The repair sets the role in which a trigger fires right, which then is to be looked behind.
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
