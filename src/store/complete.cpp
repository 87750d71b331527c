// See finish.h. What workers do most, complete and heartbeat, below SQL. Each job is looked up by its id, and the row
// must be processing under the lease that the worker names: the fence.
#include "pg/pg.h"

#include "pg/args.h"
#include "shared/counting.h"
#include "shared/leases.h"
#include "store/finish.h"
#include "store/jobs_table.h"
#include "store/owner.h"

namespace jobq {

namespace {

bool is_held(const JobsTable &jobs, int64 lease) {
#ifdef JOBQ_PLANTED_DEFECT_NO_LEASE_CHECK
    // A broken build, made only to show that the audit notices.
    return lease != 0;
#else
    bool none;
    if (DatumGetObjectId(job_value(jobs, kJobStatus)) != processing_status()) return false;
    const Datum current = job_value(jobs, kJobLease, &none);
    return !none && DatumGetInt64(current) == lease;
#endif
}

// Calls change() to write the new values of a job that is held under `lease`, and stores them. False when it is not
// held. Waits for whoever has the row locked, and looks again.
template <typename Change, size_t count>
bool change_held(JobsTable *jobs, int64 id, int64 lease, const AttrNumber (&columns)[count], Change change) {
    for (;;) {
        if (!find_job(jobs, id) || !is_held(*jobs, lease)) return false;
        begin_change(&jobs->table);
        change();
        if (update_row(&jobs->table, columns, count)) return true;
        renew_snapshot(jobs);
    }
}

std::string_view queue_of(const JobsTable &jobs) { return view(DatumGetTextPP(job_value(jobs, kJobQueue))); }

bool is_unkept(const JobsTable &jobs) { return find_queue(queue_of(jobs))->keep_completed == 0; }

}  // namespace

int64 lease_claimed_here(int64 job_id) {
    JobsTable jobs;
    int64 lease = 0;
    open_jobs(&jobs);
    renew_snapshot(&jobs);
    const FullTransactionId xid = GetTopFullTransactionIdIfAny();
    if (FullTransactionIdIsValid(xid) && find_job(&jobs, job_id) &&
        DatumGetObjectId(job_value(jobs, kJobStatus)) == processing_status() && job_has(jobs, kJobLease) &&
        job_has(jobs, kJobClaimXid) &&
        FullTransactionIdEquals(DatumGetFullTransactionId(job_value(jobs, kJobClaimXid)), xid))
        lease = DatumGetInt64(job_value(jobs, kJobLease));
    close_jobs(&jobs);
    if (lease != 0) return lease;
    ereport(ERROR, (errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED), errmsg("argument \"lease\" must not be NULL"),
                    errdetail("Job %lld was not claimed in this transaction.", static_cast<long long>(job_id)),
                    errhint("Pass the lease that jobq_claim() returned with the job.")));
    pg_unreachable();
}

void complete_jobs(HeldJob *held, int count, TimestampTz now) {
    if (count == 0) return;
    constexpr AttrNumber changed[] = {kJobStatus, kJobFinishedAt, kJobResult, kJobLease, kJobWatched};
    auto *unkept = static_cast<Datum *>(palloc(sizeof(Datum) * count));
    int unkept_count = 0;
    JobsTable jobs;
    open_jobs(&jobs);
    renew_snapshot(&jobs);
    for (HeldJob *job = held; job < held + count; job++) {
        job->held = change_held(&jobs, job->id, job->lease, changed, [&] {
            Table *table = &jobs.table;
            set_column(table, kJobStatus, ObjectIdGetDatum(completed_status()));
            set_column(table, kJobFinishedAt, TimestampTzGetDatum(now));
            clear_column(table, kJobResult);
            if (job->has_extra) set_column(table, kJobResult, job->extra);
            clear_column(table, kJobLease);
            clear_column(table, kJobWatched);
        });
        if (!job->held) continue;
        end_lease(job->id, job->lease);
        job->status = core::JobStatus::Completed;
        count_at_commit(queue_of(jobs), core::JobStatus::Processing, core::JobStatus::Completed, 1);
        if (is_unkept(jobs)) unkept[unkept_count++] = Int64GetDatum(job->id);
    }
    close_jobs(&jobs);
    if (unkept_count > 0) as_owner([&] { with_spi([&] { delete_jobs_and_attempts(unkept, unkept_count); }); });
}

void heartbeat_jobs(HeldJob *held, int count, TimestampTz now) {
    if (count == 0) return;
    constexpr AttrNumber changed[] = {kJobLastHeartbeat, kJobProgress};
    JobsTable jobs;
    open_jobs(&jobs);
    renew_snapshot(&jobs);
    for (HeldJob *job = held; job < held + count; job++) {
        job->held = change_held(&jobs, job->id, job->lease, changed, [&] {
            set_column(&jobs.table, kJobLastHeartbeat, TimestampTzGetDatum(now));
            if (job->has_extra) set_column(&jobs.table, kJobProgress, job->extra);
        });
        if (job->held) job->cancel = job_has(jobs, kJobCancelRequestedAt);
    }
    close_jobs(&jobs);
}

}  // namespace jobq
