// See held_jobs.h.
#include "compat/pg.h"

#include "compat/args.h"
#include "compat/memory.h"
#include "compat/spi.h"
#include "core/ablation.h"
#include "edges/edges.h"
#include "finish/ending.h"
#include "finish/held_jobs.h"
#include "finish/overrun.h"
#include "job/change_job.h"
#include "leases/young_leases.h"
#include "queues/directory.h"
#include "row/owner.h"
#include "steps/steps.h"

#include <algorithm>

namespace jobq {

namespace {

// Selects the jobs that a worker holds: the jobs in the rescue index, and the jobs with the ids in $2, which were
// claimed a moment ago and are not in that index yet. Avoids UNION, because UNION might sort.
Statement find_jobs_of_worker = {
    R"(SELECT j.id FROM jobq.jobs j
       WHERE j.id = ANY ($2 || ARRAY (SELECT w.id FROM jobq.jobs w
                                      WHERE w._rescue_indexed AND w.worker_id = $1 AND w.status = 'processing'))
         AND j.worker_id = $1 AND j.status = 'processing' AND )" IN_SCOPE("$3") R"(
       ORDER BY j.id)",
    {TEXTOID, INT8ARRAYOID, TEXTARRAYOID}};

// Selects, for each id and lease, whether the job no longer exists, and whether the lease ended because its worker
// reported the outcome. The lease of a completed job is in _completed_lease; the leases of other ended attempts are in
// jobq.attempts. Nothing more is known about a deleted job. The condition is "= ANY (ARRAY[u.id])" instead of "= u.id"
// so that each id is looked up separately, in order. Otherwise, the planner could use a merge join, which would scan
// the whole primary key if the statistics say that the table is small.
Statement find_ended = {
    R"(SELECT u.id, u.lease, j.id IS NULL,
              coalesce(j._completed_lease = u.lease, false)
              OR EXISTS (SELECT FROM jobq.attempts a
                         WHERE a.job_id = ANY (ARRAY[u.id]) AND a.lease = u.lease AND a.reported)
       FROM unnest($1, $2) AS u(id, lease)
       LEFT JOIN LATERAL (SELECT * FROM jobq.jobs j WHERE j.id = ANY (ARRAY[u.id]) AND )" IN_SCOPE("$3") ") j ON true",
    {INT8ARRAYOID, INT8ARRAYOID, TEXTARRAYOID}};

// Jobs that were deleted on completion.
struct Deleted {
    Edges edges;
    Notes<HeldJob> jobs;
    Notes<Datum> with_history, with_steps;
};

// Keeps in gone->jobs only the jobs at which an edge begins or ends. The check is necessary because another session
// might have added an edge to a job shortly before the job was deleted.
void leave_needed(Deleted *gone) {
    const int count = gone->jobs.count;
    gone->jobs.count = 0;
    for (int i = 0; i < count; i++) {
        const HeldJob job = gone->jobs.items[i];
        if (has_edges_from(&gone->edges, job.id) || has_edges_to(&gone->edges, job.id)) gone->jobs.add(job);
    }
    close_edges(&gone->edges);
}

void forget_job(const HeldJob &job) { forget_edges(job.id, true, job.has_extra ? &job.extra : nullptr); }

// Deletes a completed job that is not kept, without first updating its row. The caller must not
// use this function if a user-defined trigger or a constraint must see the completed row, or if other jobs need the job
// or its result.
bool delete_completed(JobsTable *jobs, const JobState &before, const core::Life &after, Deleted *gone) {
    if (!delete_row(&jobs->table)) return false;
    JobState completed = before;
    completed.life = after;
    log_change(before, completed);
    count_deleted_job(before.queue, before.kind, after.status);
    if (may_have_history(jobs, before.id)) gone->with_history.add(Int64GetDatum(before.id));
    if (before.life.steps) gone->with_steps.add(Int64GetDatum(before.id));
    return true;
}

// The effect of a worker's report: the event that is applied to the job, and the end of its attempt, which is recorded.
struct Report {
    core::Event event;
    AttemptEnd end;
};

template <typename ReportOf>
void end_held(HeldJob *held, int count, const QueueScope *scope, TimestampTz now, ReportOf report_of) {
    if (count == 0) return;
    Endings endings = {};
    change_held(held, count, scope, [&](JobsTable *jobs, const JobState &before, HeldJob *job) {
        const Report report = report_of(before, *job);
        const core::Life after = core::after_event(before.life, report.event);
        job->status = after.status;
        return end_attempt(jobs, before, after, report.end, now, &endings);
    });
    settle_endings_as_owner(endings, now);
}

bool is_of_worker(const JobsTable &jobs, const text *worker_id) {
    bool none;
    const Datum worker = job_value(jobs, kJobWorkerId, &none);
    return has_status(jobs, core::JobStatus::Processing) && !none && view(DatumGetTextPP(worker)) == view(worker_id);
}

// Extends the lease of a job. The extension begins at the time when the row is locked, not at the start of the call.
bool beat(JobsTable *jobs, const JobState &before, HeldJob *job) {
    OtherColumns others = {};
    if (job->has_extra) others.set(kJobProgress, job->extra);
    job->cancel = before.life.cancel_requested_at.has_value();
    return write_life(jobs, before, core::after_event(before.life, {core::EventKind::Heartbeat, GetCurrentTimestamp()}),
                      others);
}

// Returns the job in `held` that has the id and lease of the row. `held` must be sorted.
HeldJob *job_of(HeldJob *held, int count, const Row &row) {
    HeldJob key = {};
    key.id = row.int64_at(1);
    key.lease = row.int64_at(2);
    HeldJob *found = std::lower_bound(held, held + count, key, [](const HeldJob &a, const HeldJob &b) {
        return a.id != b.id ? a.id < b.id : a.lease < b.lease;
    });
    if (found == held + count || found->id != key.id || found->lease != key.lease) key_was_changed(key.id);
    return found;
}

// For each job that the worker does not hold, sets `unheld` to the reason. A job out of scope counts as nonexistent.
// Call it inside with_spi().
void explain_unheld(HeldJob *held, int count, const QueueScope *scope) {
    auto *ids = allocate_array<Datum>(count), *leases = allocate_array<Datum>(count);
    int unheld = 0;
    for (int i = 0; i < count; i++) {
        if (held[i].held) continue;
        ids[unheld] = Int64GetDatum(held[i].id);
        leases[unheld++] = Int64GetDatum(held[i].lease);
    }
    const Rows rows = run(find_ended, Params()
                                          .add(array_of(ids, unheld, INT8OID))
                                          .add(array_of(leases, unheld, INT8OID))
                                          .add_if(scope != nullptr, scope_array(scope)));
    for (uint64 i = 0; i < rows.size(); i++) {
        const Row row = rows[i];
        job_of(held, count, row)->unheld = row.bool_at(3)   ? core::Unheld::Gone
                                           : row.bool_at(4) ? core::Unheld::Finished
                                                            : core::Unheld::Lost;
    }
}

// Returns the current lease of a job that this transaction has claimed. Raises 22004 if this transaction has not
// claimed the job.
int64 lease_claimed_here(int64 job_id) {
    JobsTable jobs;
    int64 lease = 0;
    open_jobs(&jobs);
    renew_snapshot(&jobs);
    const FullTransactionId xid = GetTopFullTransactionIdIfAny();
    if (FullTransactionIdIsValid(xid) && find_job(&jobs, job_id) && has_status(jobs, core::JobStatus::Processing) &&
        job_has(jobs, kJobLease) && job_has(jobs, kJobClaimXid) &&
        FullTransactionIdEquals(DatumGetFullTransactionId(job_value(jobs, kJobClaimXid)), xid))
        lease = DatumGetInt64(job_value(jobs, kJobLease));
    close_jobs(&jobs);
    if (lease != 0) return lease;
    ereport(ERROR, (errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED), errmsg("argument \"lease\" must not be NULL"),
                    errdetail("Job %lld was not claimed in this transaction.", static_cast<long long>(job_id)),
                    errhint("Pass the lease that jobq_claim() returned with the job.")));
    pg_unreachable();
}

}  // namespace

void add_report_hint(void *) {
    if (geterrcode() == ERRCODE_T_R_SERIALIZATION_FAILURE && IsolationUsesXactSnapshot())
        errhint(
            "Report on the job in a READ COMMITTED transaction, or retry the transaction. The job may have been "
            "changed after the snapshot of the transaction was taken.");
}

HeldJob held_argument(FunctionCallInfo fcinfo, int lease_argument) {
    HeldJob job = {};
    job.id = require_int64(fcinfo, 0, "job_id");
    job.lease = given(fcinfo, lease_argument) ? PG_GETARG_INT64(lease_argument) : lease_claimed_here(job.id);
    return job;
}

void lease_is_lost(int64 job) {
    ereport(ERROR,
            (errcode(kErrcodeLeaseLost), errmsg("the lease on job %lld has been lost", static_cast<long long>(job)),
             errhint(JOBQ_LOST_HINT)));
    pg_unreachable();
}

void complete_jobs(HeldJob *held, int count, const QueueScope *scope, TimestampTz now) {
    if (count == 0) return;
    Deleted gone = {};
    Endings endings = {};
    change_held(held, count, scope, [&](JobsTable *jobs, const JobState &before, HeldJob *job) {
        core::Event event = {core::EventKind::Completed, now};
        event.lease = job->lease;
        core::Life after = core::after_event(before.life, event);
        job->status = after.status;
        // A member of a batch is deleted by delete_jobs_and_attempts(), which counts it.
        const bool unkept = settings_for(*find_queue(before.queue), before.kind).keep_completed == 0 &&
                            before.batch == 0 && !has_edges_to(&gone.edges, job->id);
        if (core::built_with(core::Mechanism::DirectDeletion) && unkept && can_delete_rows(jobs->table)) {
            if (!delete_completed(jobs, before, after, &gone)) return false;
            gone.jobs.add(*job);
            if (keeps_key(*jobs)) endings.keys.add(kept_key(*jobs, now));
            return true;
        }
        OtherColumns others = {};
        if (job->has_extra) others.set(kJobResult, job->extra);
        if (!write_life(jobs, before, after, others, &after)) return false;
        note_end(*jobs, before, after, now, &endings);
        return true;
    });
    leave_needed(&gone);
    if (gone.jobs.count > 0 || gone.with_history.count > 0 || gone.with_steps.count > 0)
        with_owner_spi([&] {
            for (int i = 0; i < gone.jobs.count; i++) forget_job(gone.jobs.items[i]);
            delete_attempts(gone.with_history.items, gone.with_history.count);
            delete_steps(gone.with_steps.items, gone.with_steps.count);
        });
    settle_endings_as_owner(endings, now);
}

void fail_jobs(HeldJob *held, int count, const QueueScope *scope, core::Micros retry_in, bool wants_retry,
               TimestampTz now) {
    end_held(held, count, scope, now, [&](const JobState &before, const HeldJob &job) {
        const bool asked = before.life.cancel_requested_at.has_value();
        Report report = {{core::EventKind::Failed, now},
                         {asked ? AttemptOutcome::Cancelled : AttemptOutcome::Failed,
                          truncated_error(job.extra, !job.has_extra), true, job.details}};
        report.event.wants_retry = wants_retry;
        report.event.delay =
            retry_in >= 0 ? retry_in
                          : retry_delay(settings_for(*find_queue(before.queue), before.kind), before.life.attempts);
        report.event.halts_group = before.life.group_active && halts_on_failure(before);
        return report;
    });
}

void fail_stopped_job(HeldJob *held, TimestampTz now) {
    Endings endings = {};
    bool overran = false;
    change_held(held, 1, nullptr, [&](JobsTable *jobs, const JobState &before, HeldJob *) {
        overran = before.life.must_end_at && *before.life.must_end_at <= now;
        return !overran || end_overrun(jobs, before, now, &endings);
    });
    settle_endings_as_owner(endings, now);
    if (held->held && !overran) fail_jobs(held, 1, nullptr, -1, true, now);
}

void give_back_jobs(HeldJob *held, int count, const QueueScope *scope, core::Micros delay, AttemptOutcome outcome,
                    TimestampTz now) {
    end_held(held, count, scope, now, [&](const JobState &, const HeldJob &) {
        Report report = {{core::EventKind::Released, now}, {outcome, nullptr, true}};
        report.event.delay = delay;
        return report;
    });
}

void heartbeat_jobs(HeldJob *held, int count, const QueueScope *scope) {
    if (count == 0) return;
    const bool all = change_held(held, count, scope, [&](JobsTable *jobs, const JobState &before, HeldJob *job) {
        return beat(jobs, before, job);
    });
    if (!all) with_owner_spi([&] { explain_unheld(held, count, scope); });
}

int heartbeat_worker(text *worker_id, const QueueScope *scope, HeldJob **held) {
    const Rows rows = run(find_jobs_of_worker, Params()
                                                   .add(PointerGetDatum(worker_id))
                                                   .add(unindexed_jobs_of_worker(worker_id))
                                                   .add_if(scope != nullptr, scope_array(scope)));
    auto *found = allocate_array<HeldJob>(rows.size());
    int count = 0;
    JobsTable jobs;
    open_jobs(&jobs);
    renew_snapshot(&jobs);
    for (uint64 i = 0; i < rows.size(); i++) {
        HeldJob *job = &found[count];
        *job = {};
        job->id = rows[i].int64_at(1);
        job->held = change_while(
            &jobs, job->id, [&] { return is_of_worker(jobs, worker_id) && is_in_scope(scope, jobs); },
            [&](const JobState &before) { return beat(&jobs, before, job); });
        count += job->held;
    }
    close_jobs(&jobs);
    *held = found;
    return count;
}

}  // namespace jobq
