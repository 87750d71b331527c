// See watch.h.
#include "compat/pg.h"

#include "compat/args.h"
#include "compat/memory.h"
#include "compat/spi.h"
#include "job/change_job.h"
#include "job/transaction_log.h"
#include "leases/watch.h"
#include "leases/young_leases.h"
#include "shmem/database_state.h"
#include "shmem/memory.h"

extern "C" {
#include "commands/trigger.h"
#include "utils/portal.h"
}

namespace jobq {

namespace {

Statement read_unwatched = {
    R"(SELECT j.id, j.lease, j.worker_id FROM jobq.jobs j
       WHERE j.status = 'processing' AND j._watched IS NOT TRUE)",
    {},
    Planning::Free};

// Without shared memory: no row when running jobs have been looked for since the server started and in this epoch of
// the triggers, or are just now. $2: no epoch, they are switched off.
Statement lock_unwatched_unknown = {
    R"(SELECT 1 FROM jobq.tick_state t
       WHERE t.unwatched_found_for IS DISTINCT FROM pg_postmaster_start_time() OR t.unwatched_found_in IS DISTINCT FROM $1
          OR $2
       FOR UPDATE SKIP LOCKED)",
    {INT8OID, BOOLOID},
    Planning::Free};
Statement set_unwatched_found = {
    "UPDATE jobq.tick_state t SET unwatched_found_for = pg_postmaster_start_time(), unwatched_found_in = $1",
    {INT8OID},
    Planning::Free};

// What came of it.
enum class Watched : uint8 { Yes, NoNeed, Held };

// Marks a job, as far as it runs under this lease, as watched, unless somebody holds it.
Watched watch_one(JobsTable *jobs, int64 job, const core::Maybe &lease) {
    if (!find_job(jobs, job) || !runs_under(*jobs, lease) || job_has(*jobs, kJobWatched)) return Watched::NoNeed;
    if (!lock_row_or_skip(&jobs->table)) return Watched::Held;
    change_locked_job(jobs, {core::EventKind::Watched, GetCurrentTimestamp()});
    if (lease) end_lease(job, *lease);
    return Watched::Yes;
}

// `pristine`: the transaction has changed nothing so far, so that what it sees has been committed. False: somebody
// holds the job.
bool watch_young(JobsTable *jobs, const YoungLease &young, bool pristine) {
    const Watched watched = watch_one(jobs, young.job, young.lease);
    if (watched == Watched::NoNeed) {
        if (pristine)
            drop_lease(young.job, young.lease);
        else
            end_lease(young.job, young.lease);
    }
    return watched != Watched::Held;
}

// The ids of the leases that list(young, room) gives.
template <typename List>
Datum ids_of(List list) {
    const int room = max_recent_claims();
    auto *young = static_cast<YoungLease *>(palloc(sizeof(YoungLease) * Max(room, 1)));
    const int count = room == 0 ? 0 : list(young, room);
    auto *ids = static_cast<Datum *>(palloc(sizeof(Datum) * Max(count, 1)));
    for (int i = 0; i < count; i++) ids[i] = Int64GetDatum(young[i].job);
    return array_of(ids, count, INT8OID);
}

// A running job that nobody watches; without a lease when it was set to processing by hand.
struct Unwatched {
    int64 job;
    core::Maybe lease;
};

// Returns how many of them others hold.
int64 watch_jobs(const Unwatched *unwatched, int count) {
    JobsTable jobs;
    int64 held = 0;
    open_jobs(&jobs);
    renew_snapshot(&jobs);
    for (int i = 0; i < count; i++) {
        CHECK_FOR_INTERRUPTS();
        held += watch_one(&jobs, unwatched[i].job, unwatched[i].lease) == Watched::Held;
    }
    close_jobs(&jobs);
    return held;
}

struct Unwatchable {
    int64 job;  // the first of them, 0: there is none
    int count;
    int64 held;  // by others
};

// At once or, where that fails, one by one.
Unwatchable watch_all(const Unwatched *unwatched, int count, FailureText *failure) {
    Unwatchable left_out = {0, 0, 0};
    change_all_or_each(
        count, [&](int first, int n) { left_out.held += watch_jobs(unwatched + first, n); }, [](int) {},
        [&](int i, const FailureText &another) {
            if (left_out.count++ > 0) return;
            left_out.job = unwatched[i].job;
            *failure = another;
        });
    return left_out;
}

void watch_now(const Unwatched &unwatched) {
    with_spi([&] { watch_jobs(&unwatched, 1); });
}

bool has_entered = false;  // a lease, at some time

// As PREPARE TRANSACTION does before it calls us.
void fire_deferred_triggers() {
    do {
        AfterTriggerFireDeferred();
    } while (PreCommit_Portals(true));
}

}  // namespace

int watch_leases(const YoungLease *leases, int count, int at_most) {
    const bool pristine = !TransactionIdIsValid(GetTopTransactionIdIfAny());
    JobsTable jobs;
    open_jobs(&jobs);
    renew_snapshot(&jobs);
    int settled = 0;
    for (int i = 0; i < count && settled < at_most; i++) {
        CHECK_FOR_INTERRUPTS();
        settled += watch_young(&jobs, leases[i], pristine);
    }
    close_jobs(&jobs);
    return settled;
}

void watch_before_prepare() { has_entered = true; }

void watch_own_leases() {
    if (!has_entered) return;
    const int room = max_recent_claims();
    auto *own = static_cast<YoungLease *>(palloc(sizeof(YoungLease) * Max(room, 1)));
    while (const int count = leases_of_this_transaction(own, room)) {
        watch_leases(own, count, count);
        if (leases_of_this_transaction(own, room) == count) break;
        // Those of before have fired already; and one of somebody's may claim in turn.
        fire_deferred_triggers();
    }
    pfree(own);
}

void watch_arrived_job(int64 job, int64 lease, const text *worker_id) {
    const TimestampTz due = GetCurrentTimestamp() + kUnwatched;
    if (enter_lease(job, lease, worker_hash_of(worker_id), due)) {
        watch_before_prepare();
        publish_due_at_commit(due);
        return;
    }
    watch_now({job, lease});
}

void watch_unleased_job(int64 job) { watch_now({job, {}}); }

UnwatchedSearch find_unwatched_jobs() {
    UnwatchedSearch search = {};
    // What an old snapshot shows may be long over, and what has come since is behind it.
    if (IsolationUsesXactSnapshot()) return search;
    const TimestampTz begin = GetCurrentTimestamp();
    const uint64 epoch = trigger_epoch();
    const Datum epoch_value = Int64GetDatum(static_cast<int64>(epoch));
    // Preloaded before, and not any more: claims of then may have left jobs unwatched.
    const bool alone = !shared_memory_ready();
    if (alone ? run(lock_unwatched_unknown, Params().add(epoch_value).add(BoolGetDatum(epoch == kNoEpoch))).size() == 0
              : next_look_for_unwatched(epoch) > begin)
        return search;
    search.looked = true;
    const Rows rows = run(read_unwatched, Params());
    auto *homeless = room_for<Unwatched>(rows.size());
    int count = 0;
    for (uint64 i = 0; i < rows.size(); i++) {
        const Row row = rows[i];
        const text *worker_id = row.is_null(3) ? make_text("") : DatumGetTextPP(row.get(3));
        const bool has_lease = !row.is_null(2);
        if (has_lease && enter_found_lease(row.int64_at(1), row.int64_at(2), worker_hash_of(worker_id))) continue;
        homeless[count++] = {row.int64_at(1), has_lease ? core::Maybe(row.int64_at(2)) : core::Maybe()};
    }
    const Unwatchable left_out = watch_all(homeless, count, &search.failure);
    search.left_out = left_out.job;
    // Some are held by others, or what was marked may roll back: then it is looked again.
    if (!alone) {
        if (left_out.held > 0 || count == left_out.count) looked_for_unwatched(epoch, begin, left_out.held > 0);
    } else if (left_out.held == 0) {
        run(set_unwatched_found, Params().add(epoch_value));
    }
    return search;
}

TimestampTz next_search_for_unwatched() {
    const uint64 epoch = trigger_epoch();
    const TimestampTz next = next_look_for_unwatched(epoch);
    // The repair sets the role in which a trigger fires right, which then is to be looked behind.
    return epoch == kNoEpoch ? Min(next, GetCurrentTimestamp() + core::kSecond) : next;
}

Datum unwatched_jobs() {
    return ids_of([](YoungLease *young, int room) { return visible_leases(young, room); });
}

Datum unwatched_jobs_of_worker(const text *worker_id) {
    return ids_of(
        [&](YoungLease *young, int room) { return leases_of_worker(worker_hash_of(worker_id), young, room); });
}

}  // namespace jobq
