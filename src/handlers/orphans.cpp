// See orphans.h.
#include "compat/pg.h"

#include "compat/args.h"
#include "compat/memory.h"
#include "compat/spi.h"
#include "handlers/executor_slots.h"
#include "handlers/orphans.h"
#include "leases/lease_sql.h"

#include <algorithm>

namespace jobq {

namespace {

// Selects the running jobs that have the lease of an executor. The rows must be read before the slots, because a lease
// that is visible in the rows was written to its executor's slot before it was committed, and it stays in the slot
// until the transaction that ends it has committed.
Statement read_endless = {"SELECT j.id, j.lease, coalesce(j.started_at < $1, true) FROM " RUNNING_JOBS(
                              "$2", "$3", "j.id, j.lease, j.started_at",
                              "AND j.lease IS NOT NULL AND j._lease_timeout >= " ENDLESS_LEASE " ORDER BY j.id"),
                          {TIMESTAMPTZOID, INT8ARRAYOID, INT8ARRAYOID}};

// Selects the given leases that have not ended.
Statement read_running = {
    R"(SELECT j.id, j.lease FROM unnest($1, $2) AS u(id, lease),
            LATERAL (SELECT j.id, j.lease FROM jobq.jobs j
                     WHERE j.id = u.id AND j.lease = u.lease AND j.status = 'processing') j)",
    {INT8ARRAYOID, INT8ARRAYOID}};

// Locks the jobs with the given leases. Also selects whether each job is a suspect (a job that has lost a worker
// before) and when its maximum runtime ends.
Statement lock_running = {
    R"(SELECT j.id, j.lease, j.suspect, j._must_end_at FROM unnest($1, $2) AS u(id, lease),
            LATERAL (SELECT j.id, j.lease, )" IS_SUSPECT R"( AS suspect, j._must_end_at
                     FROM jobq.jobs j
                     WHERE j.id = u.id AND j.lease = u.lease AND j.status = 'processing'
                     FOR NO KEY UPDATE SKIP LOCKED) j)",
    {INT8ARRAYOID, INT8ARRAYOID}};

// Stands for the slot number if a lease was found only in the row of its job, not in a slot.
constexpr int kNoSlot = -1;

// The leases of executors that no longer exist. They are sorted by job id, because the jobs are locked in this order.
struct Leases {
    Notes<EndedLease> found;

    void add(const EndedLease &lease) { found.add(lease); }
    void sort() {
        std::sort(found.items, found.items + found.count,
                  [](const EndedLease &a, const EndedLease &b) { return a.lease.job < b.lease.job; });
    }
    const EndedLease *find(int64 job, int64 lease) const {
        const EndedLease *end = found.items + found.count;
        const EndedLease *one = std::find_if(found.items, found.items + found.count, [&](const EndedLease &other) {
            return other.lease.job == job && other.lease.lease == lease;
        });
        return one == end ? nullptr : one;
    }
};

Params params_of(const EndedLease *leases, int count) {
    auto *jobs = allocate_array<Datum>(static_cast<uint64>(count));
    auto *numbers = allocate_array<Datum>(static_cast<uint64>(count));
    for (int i = 0; i < count; i++) {
        jobs[i] = Int64GetDatum(leases[i].lease.job);
        numbers[i] = Int64GetDatum(leases[i].lease.lease);
    }
    return Params().add(array_of(jobs, count, INT8OID)).add(array_of(numbers, count, INT8OID));
}

// Adds the leases of executors that have exited. If the committed rows show that a lease has ended, frees its slot
// instead.
void add_of_ended_executors(Leases *leases) {
    EndedLease ended[2 * kMaxExecutors];
    const int count = ended_executors(ended);
    if (count == 0) return;
    const Rows running = run(read_running, params_of(ended, count));
    for (const EndedLease *one = ended; one < ended + count; one++) {
        bool runs = false;
        for (uint64 i = 0; i < running.size(); i++)
            runs |= running[i].int64_at(1) == one->lease.job && running[i].int64_at(2) == one->lease.lease;
        if (runs)
            leases->add(*one);
        else
            forget_ended_executor(*one);
    }
}

void add_of_index(Leases *leases, const RunningIds &ids) {
    const bool terminated = last_shutdown_was_clean();
    const Rows rows = run(read_endless, Params().add(TimestampTzGetDatum(PgStartTime)).add(ids.first).add(ids.last));
    for (uint64 i = 0; i < rows.size(); i++) {
        const int64 job = rows[i].int64_at(1), lease = rows[i].int64_at(2);
        if (executor_holds(job, lease) || leases->find(job, lease) != nullptr) continue;
        // If the attempt began before a clean shutdown of the server, the job is not suspected of having caused its
        // executor to exit.
        leases->add({.lease = {job, lease},
                     .blameless = terminated && rows[i].bool_at(3),
                     .slot = kNoSlot,
                     .generation = 0,
                     .ended_at = 0});
    }
}

}  // namespace

Orphans lock_orphans(const RunningIds *search, int at_most) {
    Leases leases = {};
    // Does nothing under an old snapshot, which might show leases that ended long ago.
    if (IsolationUsesXactSnapshot()) return {};
    add_of_ended_executors(&leases);
    if (search != nullptr) add_of_index(&leases, *search);
    if (leases.found.count == 0) return {};
    leases.sort();
    const Rows locked = run(lock_running, params_of(leases.found.items, Min(leases.found.count, at_most)));
    const int count = static_cast<int>(locked.size());
    Orphans orphans = {allocate_array<RescuedAttempt>(static_cast<uint64>(count)), count};
    const auto lease_of = [&](const Row &row) { return leases.find(row.int64_at(1), row.int64_at(2)); };
    const auto is_blameless = [](const EndedLease *lease) { return lease != nullptr && lease->blameless; };
    int lost = 0;
    for (int i = 0; i < count; i++) lost += !is_blameless(lease_of(locked[i]));
    for (int i = 0; i < count; i++) {
        const Row row = locked[i];
        const EndedLease *lease = lease_of(row);
        // The attempt has exceeded its maximum runtime if the maximum runtime ended before the executor exited. The
        // current time does not matter, because another transaction might have kept the row locked since the executor
        // exited. If the lease was found only in the row, the attempt ended when the server stopped and is assumed not
        // to have exceeded its maximum runtime.
        const bool overran = lease != nullptr && lease->slot != kNoSlot && !row.is_null(4) &&
                             DatumGetTimestampTz(row.get(4)) <= lease->ended_at;
        orphans.items[i] = {row.int64_at(1), core::end_of_orphan(lost, row.bool_at(3), is_blameless(lease), overran)};
    }
    return orphans;
}

}  // namespace jobq
