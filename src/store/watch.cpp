// See watch.h.
#include "pg/pg.h"

#include "core/interval.h"
#include "pg/args.h"
#include "pg/spi.h"
#include "shared/leases.h"
#include "shared/memory.h"
#include "shared/publish.h"
#include "store/watch.h"

namespace jobq {

namespace {

Statement read_unwatched = {
    R"(SELECT j.id, j.lease, j.worker_id FROM jobq.jobs j
       WHERE j.status = 'processing' AND j.watched IS NULL AND j.lease IS NOT NULL)",
    {},
    Planning::Free};

// Rows that somebody holds are left out: they are found again the next time.
Statement watch = {
    R"(UPDATE jobq.jobs j SET watched = true
       WHERE j.id = ANY (ARRAY (
           SELECT h.id FROM unnest($1, $2) AS u(id, lease),
                LATERAL (SELECT h.id FROM jobq.jobs h
                         WHERE h.id = ANY (ARRAY[u.id]) AND h.lease = u.lease AND h.status = 'processing'
                         FOR NO KEY UPDATE SKIP LOCKED) h)))",
    {INT8ARRAYOID, INT8ARRAYOID}};

// Without shared memory: no row when running jobs have been looked for since the server started, or are just now.
Statement lock_unwatched_unknown = {
    R"(SELECT 1 FROM jobq.tick_state t
       WHERE t.unwatched_found_for IS DISTINCT FROM pg_postmaster_start_time() FOR UPDATE SKIP LOCKED)",
    {},
    Planning::Free};
Statement set_unwatched_found = {
    "UPDATE jobq.tick_state t SET unwatched_found_for = pg_postmaster_start_time()", {}, Planning::Free};

bool runs_unwatched(const JobsTable &jobs, int64 lease) {
    return DatumGetObjectId(job_value(jobs, kJobStatus)) == processing_status() && job_has(jobs, kJobLease) &&
           DatumGetInt64(job_value(jobs, kJobLease)) == lease && !job_has(jobs, kJobWatched);
}

TimestampTz deadline_of(const JobsTable &jobs) {
    bool none;
    const Datum timeout = job_value(jobs, kJobLeaseTimeout, &none);
    if (none || !job_has(jobs, kJobLastHeartbeat)) return DT_NOBEGIN;
    const Interval *span = DatumGetIntervalP(timeout);
    const TimestampTz lost = core::saturating_add(DatumGetTimestampTz(job_value(jobs, kJobLastHeartbeat)),
                                                  core::span_micros(span->month, span->day, span->time));
    const Datum must_end = job_value(jobs, kJobMustEndAt, &none);
    return none ? lost : Min(lost, DatumGetTimestampTz(must_end));
}

// `pristine`: the transaction has changed nothing so far, so that what it sees has been committed.
void watch_one(JobsTable *jobs, const YoungLease &young, bool pristine) {
    constexpr AttrNumber changed[] = {kJobWatched};
    if (!find_job(jobs, young.job) || !runs_unwatched(*jobs, young.lease)) {
        if (pristine)
            drop_lease(young.job, young.lease);
        else
            end_lease(young.job, young.lease);
        return;
    }
    if (!lock_row_or_skip(&jobs->table)) return;
    begin_change(&jobs->table);
    set_column(&jobs->table, kJobWatched, BoolGetDatum(true));
    publish_lease_deadline_at_commit(deadline_of(*jobs));
    if (update_row(&jobs->table, changed, lengthof(changed))) end_lease(young.job, young.lease);
}

// The ids of the leases that list(young, room) gives.
template <typename List>
Datum ids_of(List list) {
    const int room = leases_held();
    auto *young = static_cast<YoungLease *>(palloc(sizeof(YoungLease) * Max(room, 1)));
    const int count = room == 0 ? 0 : list(young, room);
    auto *ids = static_cast<Datum *>(palloc(sizeof(Datum) * Max(count, 1)));
    for (int i = 0; i < count; i++) ids[i] = Int64GetDatum(young[i].job);
    return array_of(ids, count, INT8OID);
}

bool callback_registered = false;

// A prepared claim may be committed after a restart, which forgets its entry, by a session that knows nothing of it.
void before_prepare(XactEvent event, void *) {
    if (event != XACT_EVENT_PRE_PREPARE) return;
    const int room = leases_held();
    auto *own = static_cast<YoungLease *>(palloc(sizeof(YoungLease) * room));
    const int count = leases_of_this_transaction(own, room);
    if (count > 0) watch_leases(own, count);
    pfree(own);
}

}  // namespace

void watch_leases(const YoungLease *leases, int count) {
    const bool pristine = !TransactionIdIsValid(GetTopTransactionIdIfAny());
    JobsTable jobs;
    open_jobs(&jobs);
    renew_snapshot(&jobs);
    for (int i = 0; i < count; i++) watch_one(&jobs, leases[i], pristine);
    close_jobs(&jobs);
}

void watch_before_prepare() {
    if (callback_registered) return;
    RegisterXactCallback(before_prepare, nullptr);
    callback_registered = true;
}

void find_unwatched_jobs() {
    // Preloaded before, and not any more: claims of then may have left jobs unwatched.
    const bool alone = !shared_memory_ready();
    if (alone ? run(lock_unwatched_unknown, Params()).size() == 0 : !unwatched_jobs_unknown()) return;
    const Rows rows = run(read_unwatched, Params());
    auto *ids = static_cast<Datum *>(palloc_extended(sizeof(Datum) * (rows.size() + 1), MCXT_ALLOC_HUGE));
    auto *leases = static_cast<Datum *>(palloc_extended(sizeof(Datum) * (rows.size() + 1), MCXT_ALLOC_HUGE));
    int homeless = 0;
    for (uint64 i = 0; i < rows.size(); i++) {
        const Row row = rows[i];
        const text *worker_id = row.is_null(3) ? make_text("") : DatumGetTextPP(row.get(3));
        if (enter_found_lease(row.int64_at(1), row.int64_at(2), worker_hash_of(worker_id))) continue;
        ids[homeless] = row.get(1);
        leases[homeless++] = row.get(2);
    }
    // Some may be held by others: then the next round looks again.
    const bool all = homeless == 0 || watch_jobs(ids, leases, homeless) == homeless;
    if (!all) return;
    if (alone)
        run(set_unwatched_found, Params());
    else if (homeless == 0)
        unwatched_jobs_found();
}

int64 watch_jobs(Datum *ids, Datum *leases, int count) {
    run(watch, Params().add(array_of(ids, count, INT8OID)).add(array_of(leases, count, INT8OID)));
    const int64 watched = affected();
    publish_lease_deadline_at_commit(DT_NOBEGIN);
    return watched;
}

Datum unwatched_jobs() {
    return ids_of([](YoungLease *young, int room) { return visible_leases(young, room); });
}

Datum unwatched_jobs_of_worker(const text *worker_id) {
    return ids_of(
        [&](YoungLease *young, int room) { return leases_of_worker(worker_hash_of(worker_id), young, room); });
}

}  // namespace jobq
