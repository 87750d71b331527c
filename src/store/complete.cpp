// See finish.h. What workers do most, complete and heartbeat, below SQL. Each job is looked up by its id, and the row
// must be processing under the lease that the worker names: the fence.
#include "pg/pg.h"

#include "pg/args.h"
#include "shared/counting.h"
#include "shared/leases.h"
#include "shared/publish.h"
#include "store/dependencies.h"
#include "store/finish.h"
#include "store/groups.h"
#include "store/jobs_table.h"
#include "store/kept_keys.h"
#include "store/owner.h"
#include "store/slots.h"

namespace jobq {

namespace {

bool is_held(const JobsTable &jobs, int64 lease) {
    bool none;
    if (DatumGetObjectId(job_value(jobs, kJobStatus)) != processing_status()) return false;
    const Datum current = job_value(jobs, kJobLease, &none);
    return !none && DatumGetInt64(current) == lease;
}

// Calls change() for a job in scope that is held under `lease`, in table.row. False when it is not held. change() waits
// for whoever has the row locked; when it answers false, the row has changed meanwhile: look again.
template <typename Change>
bool change_held(JobsTable *jobs, const HeldJob &job, const QueueScope *scope, Change change) {
    for (;;) {
        if (!find_job(jobs, job.id) || !is_held(*jobs, job.lease) || !is_in_scope(scope, *jobs)) return false;
        if (change()) return true;
        renew_snapshot(jobs);
    }
}

std::string_view queue_of(const JobsTable &jobs) { return view(DatumGetTextPP(job_value(jobs, kJobQueue))); }

bool is_unkept(const JobsTable &jobs) { return find_queue(queue_of(jobs))->keep_completed == 0; }

// The lease stands where it stood, under another name: by it a late heartbeat is told that its own worker has completed
// the job. The bytes of the row are the same there, so its WAL record does not grow.
bool write_completion(Table *table, const HeldJob &job, TimestampTz now) {
    constexpr AttrNumber changed[] = {kJobStatus,         kJobFinishedAt, kJobResult,     kJobLease,
                                      kJobCompletedLease, kJobWatched,    kJobUniqueHeld, kJobMustEndAt,
                                      kJobQueueSlot,      kJobKeySlot,    kJobGroupActive};
    begin_change(table);
    set_column(table, kJobStatus, ObjectIdGetDatum(completed_status()));
    set_column(table, kJobFinishedAt, TimestampTzGetDatum(now));
    clear_column(table, kJobResult);
    if (job.has_extra) set_column(table, kJobResult, job.extra);
    clear_column(table, kJobLease);
    set_column(table, kJobCompletedLease, Int64GetDatum(job.lease));
    clear_column(table, kJobWatched);
    clear_column(table, kJobUniqueHeld);
    clear_column(table, kJobMustEndAt);
    clear_column(table, kJobQueueSlot);
    clear_column(table, kJobKeySlot);
    clear_column(table, kJobGroupActive);
    return update_row(table, changed, lengthof(changed));
}

bool write_heartbeat(Table *table, const HeldJob &job, TimestampTz now) {
    constexpr AttrNumber changed[] = {kJobLastHeartbeat, kJobProgress};
    begin_change(table);
    set_column(table, kJobLastHeartbeat, TimestampTzGetDatum(now));
    if (job.has_extra) set_column(table, kJobProgress, job.extra);
    return update_row(table, changed, lengthof(changed));
}

// Jobs that were deleted on their completion.
struct Deleted {
    Edges edges;
    const HeldJob **jobs;
    int count;
};

void add_deleted(Deleted *gone, const HeldJob &job, int room) {
    if (gone->jobs == nullptr) gone->jobs = static_cast<const HeldJob **>(palloc(sizeof(void *) * room));
    gone->jobs[gone->count++] = &job;
}

// Leaves those that have dependencies, or that somebody has made others depend on at the last moment.
void leave_needed(Deleted *gone) {
    int left = 0;
    for (int i = 0; i < gone->count; i++)
        if (has_dependencies(&gone->edges, gone->jobs[i]->id) || has_dependents(&gone->edges, gone->jobs[i]->id))
            gone->jobs[left++] = gone->jobs[i];
    gone->count = left;
    close_edges(&gone->edges);
}

void forget_job(const HeldJob &job) { forget_dependencies(job.id, true, job.has_extra ? &job.extra : nullptr); }

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

void complete_jobs(HeldJob *held, int count, const QueueScope *scope, TimestampTz now) {
    if (count == 0) return;
    // Jobs that a queue does not keep are deleted as they are. Where somebody's trigger or constraint has a say, they
    // are completed first and deleted by SQL then: it sees both, the result too.
    auto *to_delete = static_cast<Datum *>(palloc(sizeof(Datum) * count));
    auto *with_attempts = static_cast<Datum *>(palloc(sizeof(Datum) * count));
    int to_delete_count = 0, with_attempts_count = 0, key_count = 0;
    KeptKey *keys = nullptr;
    Deleted gone = {};
    JobsTable jobs;
    open_jobs(&jobs);
    renew_snapshot(&jobs);
    for (HeldJob *job = held; job < held + count; job++) {
        bool unkept = false, deleted = false;
        job->held = change_held(&jobs, *job, scope, [&] {
            unkept = is_unkept(jobs) && !has_dependents(&gone.edges, job->id);
            deleted = unkept && can_delete_rows(jobs.table);
            return deleted ? delete_row(&jobs.table) : write_completion(&jobs.table, *job, now);
        });
        if (!job->held) continue;
        end_lease(job->id, job->lease);
        job->status = core::JobStatus::Completed;
        publish_finished_at_commit(job->id, true);
        free_slots_at_commit(jobs);
        if (job_has(jobs, kJobGroupActive)) publish_group_free(DatumGetInt64(job_value(jobs, kJobGroupActive)));
        count_at_commit(queue_of(jobs), core::JobStatus::Processing, core::JobStatus::Completed, 1);
        if (keeps_key(jobs)) {
            if (keys == nullptr) keys = static_cast<KeptKey *>(palloc(sizeof(KeptKey) * count));
            keys[key_count++] = kept_key(jobs, now);
        }
        if (deleted) {
            count_deletes_at_commit(queue_of(jobs), core::JobStatus::Completed, 1);
            add_deleted(&gone, *job, count);
            if (may_have_attempts(&jobs, job->id)) with_attempts[with_attempts_count++] = Int64GetDatum(job->id);
        } else if (unkept) {
            to_delete[to_delete_count++] = Int64GetDatum(job->id);
        }
    }
    close_jobs(&jobs);
    leave_needed(&gone);
    if (to_delete_count == 0 && with_attempts_count == 0 && key_count == 0 && gone.count == 0) return;
    as_owner([&] {
        with_spi([&] {
            for (int i = 0; i < gone.count; i++) forget_job(*gone.jobs[i]);
            keep_keys(keys, key_count);
            delete_jobs_and_attempts(to_delete, to_delete_count);
            delete_attempts(with_attempts, with_attempts_count);
        });
    });
}

void heartbeat_jobs(HeldJob *held, int count, const QueueScope *scope, TimestampTz now) {
    if (count == 0) return;
    JobsTable jobs;
    open_jobs(&jobs);
    renew_snapshot(&jobs);
    bool all_held = true;
    for (HeldJob *job = held; job < held + count; job++) {
        job->held = change_held(&jobs, *job, scope, [&] { return write_heartbeat(&jobs.table, *job, now); });
        if (job->held)
            job->cancel = job_has(jobs, kJobCancelRequestedAt);
        else
            all_held = false;
    }
    close_jobs(&jobs);
    if (!all_held) as_owner([&] { with_spi([&] { explain_unheld(held, count, scope); }); });
}

}  // namespace jobq
