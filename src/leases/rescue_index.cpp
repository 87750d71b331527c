// See rescue_index.h.
#include "compat/pg.h"

#include "compat/spi.h"
#include "job/change_job.h"
#include "leases/rescue_index.h"
#include "leases/young_leases.h"
#include "log/transaction_log.h"

namespace jobq {

namespace {

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

// Marks the job of a young lease as rescue-indexed. If the job need not be marked, removes the lease's entry
// (leases/young_leases.h) instead. `pristine` means that this transaction has changed nothing yet, so that everything
// it sees is committed. Returns false if another transaction has locked the job.
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

void index_now(const Unindexed &unindexed) {
    with_spi([&] { index_jobs(&unindexed, 1); });
}

bool has_entered = false;  // whether this session has ever called enter_lease()

// Fires deferred triggers in the same way as PREPARE TRANSACTION, which has already fired them once before it calls
// index_own_leases().
void fire_deferred_triggers() {
    do {
        AfterTriggerFireDeferred();
    } while (PreCommit_Portals(true));
}

}  // namespace

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
    for (;;) {
        const Notes<YoungLease> own = leases_of_this_transaction();
        if (own.count == 0) return;
        index_leases(own.items, own.count, own.count);
        if (leases_of_this_transaction().count == own.count) return;
        // Marking the jobs might have queued users' deferred triggers. Fires these triggers here, because they might
        // claim more jobs.
        fire_deferred_triggers();
    }
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

}  // namespace jobq
