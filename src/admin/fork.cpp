// See fork.h.
#include "compat/pg.h"

#include "admin/fork.h"
#include "compat/args.h"
#include "compat/spi.h"
#include "enqueue/depth.h"
#include "enqueue/enqueue_specs.h"
#include "row/limit_names.h"
#include "steps/steps.h"

extern "C" {
#include "utils/datum.h"
}

namespace jobq {

namespace {

// Locks the job, so that its steps do not change until the transaction ends.
Statement lock_job = {"SELECT FROM jobq.jobs j WHERE j.id = $1 AND " HOME_IN_SCOPE("$2") " FOR NO KEY UPDATE",
                      {INT8OID, TEXTARRAYOID}};

text *copy_text(const JobsTable &jobs, JobColumn column) {
    return job_has(jobs, column) ? make_text(view(DatumGetTextPP(job_value(jobs, column)))) : nullptr;
}

// Returns the metadata for a copy of the job. If the metadata of the job are an object or absent, adds the key
// "forked_from" with the id of the job.
Datum with_origin(Datum metadata, int64 id) {
    if (metadata != Datum(0) && !JB_ROOT_IS_OBJECT(DatumGetJsonbP(metadata))) return metadata;
    const char *added = psprintf("{\"forked_from\": %lld}", static_cast<long long>(id));
    const Datum origin = DirectFunctionCall1(jsonb_in, CStringGetDatum(added));
    return metadata == Datum(0) ? origin : DirectFunctionCall2(jsonb_concat, metadata, origin);
}

// Returns the attributes of a copy of the job in table.row. The copy has no unique key, because the job might hold the
// key, no dependencies, so that it can run now, and no batch, which might have finished.
JobSpec spec_of(const JobsTable &jobs, TimestampTz now) {
    JobSpec spec = {};
    spec.queue = copy_text(jobs, job_has(jobs, kJobDeadFrom) ? kJobDeadFrom : kJobQueue);
    spec.kind = copy_text(jobs, kJobKind);
    spec.payload = PointerGetDatum(PG_DETOAST_DATUM_COPY(job_value(jobs, kJobPayload)));
    spec.priority = DatumGetInt16(job_value(jobs, kJobPriority));
    spec.run_at = now;
    spec.max_attempts = DatumGetInt32(job_value(jobs, kJobMaxAttempts));
    spec.version = DatumGetInt32(job_value(jobs, kJobVersion));
    for (int i = 0; i < kOptionalAttributes; i++)
        if (i != kUniqueFor && i != kBatchId && job_has(jobs, kAttributes[i].column)) {
            const FormData_pg_attribute *type =
                TupleDescAttr(jobs.table.row->tts_tupleDescriptor, kAttributes[i].column - 1);
            spec.optional[i] = datumCopy(job_value(jobs, kAttributes[i].column), type->attbyval, type->attlen);
        }
    spec.optional[kMetadata] = with_origin(spec.optional[kMetadata], DatumGetInt64(job_value(jobs, kJobId)));
    // A copy of a job without limits must not get the limits of its queue.
    if (spec.optional[kLimits] == Datum(0)) spec.optional[kLimits] = array_of_names(nullptr, 0);
    spec.concurrency_key = copy_text(jobs, kJobConcurrencyKey);
    spec.group_key = copy_text(jobs, kJobGroupKey);
    return spec;
}

}  // namespace

core::OptInt64 fork_job(int64 id, text *step, const QueueScope *scope, TimestampTz now) {
    const Params params = Params().add(Int64GetDatum(id)).add_if(scope != nullptr, scope_array(scope));
    if (run(lock_job, params).size() == 0) return {};
    const int64 end = step == nullptr ? PG_INT64_MAX : require_step(id, step);
    JobsTable jobs;
    open_jobs(&jobs);
    renew_snapshot(&jobs);
    const bool found = find_job(&jobs, id);
    JobSpec spec = found ? spec_of(jobs, now) : JobSpec{};
    close_jobs(&jobs);
    if (!found) return {};
    fill_from_queue(&spec, true);
    make_room(view(spec.queue), 1, now, {&id, 1});
    spec.last_step = last_ended_step(id, end);
    open_jobs(&jobs);
    const int64 copy = insert_one(&jobs, spec, now);
    close_jobs(&jobs);
    if (spec.last_step) copy_ended_steps(id, copy, end);
    return copy;
}

}  // namespace jobq
