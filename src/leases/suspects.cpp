// See suspects.h.
#include "compat/pg.h"

#include "compat/args.h"
#include "compat/memory.h"
#include "compat/own_locks.h"
#include "core/queue_settings.h"
#include "core/retry.h"
#include "core/stable_hash.h"
#include "job/change_job.h"
#include "leases/lease_sql.h"
#include "leases/suspects.h"
#include "leases/young_leases.h"
#include "row/owner.h"

#include <algorithm>

namespace jobq {

namespace {

// Returns whether at least one of the jobs $1 is not yet marked as lost together with other jobs. If the rescue handles
// the jobs of a worker in several batches, the first batch also marks the jobs of the later batches, so the later
// batches need not search for the jobs that were lost together with their own jobs.
Statement find_unmarked = {
    R"(SELECT EXISTS (SELECT FROM jobq.jobs j WHERE j.id = ANY ($1) AND j._company_lease IS DISTINCT FROM j.lease))",
    {INT8ARRAYOID}};

// Selects all running jobs of the workers that run the jobs $1. $2 contains the ids of running jobs that are not
// rescue-indexed yet.
Statement read_held = {
    R"(SELECT h.id, h.worker_id, coalesce(h.last_heartbeat, h.created_at), h._lease_timeout, h.lease,
              h._company_lease = h.lease
       FROM jobq.jobs h
       WHERE h._rescue_indexed AND h.status = 'processing'
         AND h.worker_id = ANY (ARRAY (SELECT j.worker_id FROM jobq.jobs j WHERE j.id = ANY ($1)))
       UNION ALL
       SELECT h.id, h.worker_id, coalesce(h.last_heartbeat, h.created_at), h._lease_timeout, h.lease,
              h._company_lease = h.lease
       FROM jobq.jobs h
       WHERE h.id = ANY ($2) AND h._rescue_indexed IS NOT TRUE AND h.status = 'processing'
         AND h.worker_id = ANY (ARRAY (SELECT j.worker_id FROM jobq.jobs j WHERE j.id = ANY ($1))))",
    {INT8ARRAYOID, INT8ARRAYOID}};
enum HeldColumn { kHeldId = 1, kHeldWorker, kHeldSign, kHeldTimeout, kHeldLease, kHeldMarked };

// Returns when the trials of the suspects that a worker is running end, or NULL if there are none. Excludes a job that
// was marked as lost together with other jobs (mark_company) under its current lease, because the job might not have
// been a suspect when it was claimed.
Statement read_trials = {R"(SELECT max()" TRIAL_END R"() FROM jobq.jobs j
       WHERE j._rescue_indexed AND j.worker_id = $1 AND j.status = 'processing'
         AND )" RUNS_AS_SUSPECT " AND " IS_ON_TRIAL,
                         {TEXTOID}};

core::Micros timeout_at(const Row &row, int column) {
    if (row.is_null(column)) return core::kUsualLease;
    const core::Micros span = span_of(DatumGetIntervalP(row.get(column)));
    return Min(Max(span, 0), core::kHeartbeatTimeout.highest);
}

struct LockedJob {
    int64 id;
    int position;
};

// A running job of a worker that runs at least one of the given jobs. This job can be one of the given jobs.
struct Held {
    core::LastSign sign;
    int row;
    int locked;  // index of the job among the given jobs; -1 if it is not one of them and keeps running
};

Held held_of(const Row &row, int number, const LockedJob *locked, int count, const bool *lost) {
    const int64 id = row.int64_at(kHeldId);
    const LockedJob *found = std::lower_bound(locked, locked + count, id,
                                              [](const LockedJob &job, int64 wanted) { return job.id < wanted; });
    const int position = found < locked + count && found->id == id ? found->position : -1;
    return {{core::stable_hash(row.text_at(kHeldWorker)), DatumGetTimestampTz(row.get(kHeldSign)),
             timeout_at(row, kHeldTimeout), position >= 0 && lost[position]},
            number,
            position};
}

bool is_marked(const Row &row) { return !row.is_null(kHeldMarked) && row.bool_at(kHeldMarked); }

}  // namespace

Company find_company_of(Datum *ids, const bool *lost, int count, Snapshot before) {
    const Datum jobs = array_of(ids, count, INT8OID);
    if (!read(find_unmarked, Params().add(jobs), before)[0].bool_at(1)) {
        Company all = {allocate_array<bool>(count), nullptr, nullptr, 0};
        std::fill_n(all.lost_together, count, true);
        return all;
    }
    const Rows rows = read(read_held, Params().add(jobs).add(unindexed_jobs()), before);
    const int held_count = static_cast<int>(rows.size());
    auto *locked = allocate_array<LockedJob>(count);
    for (int i = 0; i < count; i++) locked[i] = {DatumGetInt64(ids[i]), i};
    std::sort(locked, locked + count, [](const LockedJob &a, const LockedJob &b) { return a.id < b.id; });
    auto *held = allocate_array<Held>(held_count);
    for (int i = 0; i < held_count; i++) held[i] = held_of(rows[i], i, locked, count, lost);
    std::sort(held, held + held_count, [](const Held &a, const Held &b) { return core::earlier_sign(a.sign, b.sign); });
    auto *signs = allocate_array<core::LastSign>(held_count);
    auto *in_company = allocate_array<bool>(held_count);
    for (int i = 0; i < held_count; i++) signs[i] = held[i].sign;
    core::find_company(signs, held_count, in_company);

    Company company = {allocate_array<bool>(count), allocate_array<Datum>(held_count),
                       allocate_array<Datum>(held_count), 0};
    std::fill_n(company.lost_together, count, false);
    for (int i = 0; i < held_count; i++) {
        const Row row = rows[held[i].row];
        if (held[i].locked >= 0) {
            company.lost_together[held[i].locked] = in_company[i] || is_marked(row);
        } else if (in_company[i] && !is_marked(row) && !row.is_null(kHeldLease)) {
            company.ids[company.count] = row.get(kHeldId);
            company.leases[company.count++] = row.get(kHeldLease);
        }
    }
    return company;
}

void mark_company(const Datum *ids, const Datum *leases, int count) {
    JobsTable jobs;
    open_jobs(&jobs);
    renew_snapshot(&jobs);
    for (int i = 0; i < count; i++) {
        CHECK_FOR_INTERRUPTS();
        if (find_job(&jobs, DatumGetInt64(ids[i])) && runs_under(jobs, DatumGetInt64(leases[i])) &&
            lock_row_or_skip(&jobs.table))
            change_locked_job(&jobs, {core::EventKind::InCompany, GetCurrentTimestamp()});
    }
    close_jobs(&jobs);
}

bool is_on_trial(text *worker_id, TimestampTz *until) {
    const Row row = run(read_trials, Params().add(PointerGetDatum(worker_id)))[0];
    if (row.is_null(1)) return false;
    *until = DatumGetTimestampTz(row.get(1));
    return true;
}

bool may_take_suspect(text *worker_id) {
    const LOCKTAG tag = own_lock(OwnLock::Trial, core::stable_hash(view(worker_id)));
    if (LockAcquire(&tag, ExclusiveLock, false, true) == LOCKACQUIRE_NOT_AVAIL) return false;
    TimestampTz until;
    return !with_owner_spi([&] { return is_on_trial(worker_id, &until); });
}

}  // namespace jobq
