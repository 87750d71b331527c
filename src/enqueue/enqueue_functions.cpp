// The SQL functions jobq_enqueue, jobq_enqueue_many, and jobq_enqueue_jobs, which check their arguments and enqueue
// jobs.
#include "compat/pg.h"

#include "compat/args.h"
#include "compat/memory.h"
#include "compat/result_set.h"
#include "enqueue/depth.h"
#include "enqueue/enqueue.h"
#include "enqueue/enqueue_keyed.h"
#include "enqueue/enqueue_specs.h"
#include "enqueue/specs.h"
#include "job/job_arguments.h"
#include "queues/directory.h"
#include "queues/scope.h"
#include "row/payload.h"

namespace jobq {

namespace {

// Positions of the arguments of jobq_enqueue and jobq_enqueue_many.
namespace single {
enum {
    Queue,
    Payload,
    Kind,
    Priority,
    RunAt,
    MaxAttempts,
    UniqueKey,
    OnConflict,
    UniqueFor,
    GroupKey,
    ConcurrencyKey,
    DependsOn,
    OnDependencyFailure,
    Metadata,
    Options
};
}  // namespace single
namespace many {
enum {
    Queue,
    Payloads,
    Kind,
    Priority,
    RunAt,
    MaxAttempts,
    UniqueKeys,
    GroupKeys,
    ConcurrencyKeys,
    RunAts,
    Priorities,
    Options
};
}  // namespace many

TimestampTz run_at_or(TimestampTz now, bool present, TimestampTz run_at) {
    return present ? check_finite(run_at, "run_at") : now;
}

// Returns the dependencies of the new job. admit_jobs() must not drop them to make room for the new job.
SparedJobs needed_by(const JobSpec &spec) { return {spec.depends_on, spec.depends_on_count}; }

void depend(const JobSpec &spec, int64 id, const QueueScope *scope) {
    if (spec.depends_on_count == 0) return;
    int number;
    const NewDependent dependent = dependent_of(spec, id, 1);
    add_dependencies(&dependent, 1, scope, &number);
}

// Enqueues a job with a unique key.
KeyedJob enqueue_one_keyed(const JobSpec &spec, TimestampTz now) {
    if (find_queue(view(spec.queue))->max_depth > 0) {
        Newcomer newcomer = newcomer_of(spec, spec.unique_key);
        admit_jobs(&newcomer, 1, now, needed_by(spec));
    }
    KeyedJob job = keyed_job(spec, 0);
    enqueue_keyed(spec, &job, 1, now);
    return job;
}

// Returns the jobs of a call to jobq_enqueue_many in which some jobs have unique keys. `keys` contains one unique key
// (text) per job, or NULL for a job without a key.
KeyedJob *keyed_jobs(const JobSpec &shared, const JobColumns &columns, const Elements &keys) {
    auto *jobs = static_cast<KeyedJob *>(palloc_extended(sizeof(KeyedJob) * keys.count, MCXT_ALLOC_HUGE));
    for (int i = 0; i < keys.count; i++)
        jobs[i] = {.unique_key = keys.nulls[i] ? nullptr : DatumGetTextPP(keys.values[i]),
                   .payload = columns.payloads[i],
                   .run_at = columns.run_ats == nullptr ? shared.run_at : DatumGetTimestampTz(columns.run_ats[i]),
                   .priority = columns.priorities == nullptr ? shared.priority
                                                             : static_cast<int16>(DatumGetInt32(columns.priorities[i])),
                   .concurrency_key = text_in(columns.concurrency_keys, shared.concurrency_key, i),
                   .group_key = text_in(columns.group_keys, shared.group_key, i),
                   .new_id = next_job_id()};
    return jobs;
}

void admit_keyed(const JobSpec &shared, const KeyedJob *jobs, int count, TimestampTz now) {
    if (find_queue(view(shared.queue))->max_depth == 0) return;
    auto *newcomers = static_cast<Newcomer *>(palloc_extended(sizeof(Newcomer) * count, MCXT_ALLOC_HUGE));
    for (int i = 0; i < count; i++) newcomers[i] = newcomer_of(shared, jobs[i].unique_key);
    admit_jobs(newcomers, count, now);
    pfree(newcomers);
}

TextColumn read_keys(ArrayType *array, const Elements &payloads, const char *name,
                     void (*check)(std::string_view, ArgumentName)) {
    const Elements keys = elements_of(array, TEXTOID, name, core::kMaxEnqueue, NullElements::Allowed);
    check_same_length(payloads.count, "payloads", keys.count, name);
    for (int i = 0; i < keys.count; i++)
        if (!keys.nulls[i]) check(view(DatumGetTextPP(keys.values[i])), {name, i + 1});
    return {keys.values, keys.nulls};
}

// Reads the arguments of jobq_enqueue. Does not check whether the arguments contradict each other.
JobSpec spec_of_arguments(FunctionCallInfo fcinfo, TimestampTz now) {
    const core::OnConflict on_conflict = check_on_conflict(require_text(fcinfo, single::OnConflict, "on_conflict"));
    const core::OnDependencyFailure on_dependency_failure =
        check_on_dependency_failure(require_text(fcinfo, single::OnDependencyFailure, "on_dependency_failure"));
    JobSpec spec = {};
    spec.on_dependency_failure = on_dependency_failure;
    if (given(fcinfo, single::DependsOn)) {
        const Elements ids = elements_of(PG_GETARG_ARRAYTYPE_P(single::DependsOn), INT8OID, "depends_on",
                                         core::kMaxBatch, NullElements::Refused);
        take_dependencies(&spec, ids.values, ids.count);
    }
    spec.on_conflict = on_conflict;
    spec.queue = require_text(fcinfo, single::Queue, "queue");
    spec.kind = require_text(fcinfo, single::Kind, "kind");
    require(fcinfo, single::Payload, "payload");
    spec.payload = PG_GETARG_DATUM(single::Payload);
    check_json_size(spec.payload, "payload");
    require(fcinfo, single::Priority, "priority");
    spec.priority = check_priority(PG_GETARG_INT32(single::Priority), "priority");
    spec.run_at = run_at_or(now, given(fcinfo, single::RunAt), PG_GETARG_TIMESTAMPTZ(single::RunAt));
    if (given(fcinfo, single::MaxAttempts)) spec.max_attempts = PG_GETARG_INT32(single::MaxAttempts);
    if (given(fcinfo, single::UniqueKey)) spec.unique_key = PG_GETARG_TEXT_PP(single::UniqueKey);
    if (given(fcinfo, single::UniqueFor)) spec.optional[kUniqueFor] = PG_GETARG_DATUM(single::UniqueFor);
    if (given(fcinfo, single::ConcurrencyKey)) spec.concurrency_key = PG_GETARG_TEXT_PP(single::ConcurrencyKey);
    if (given(fcinfo, single::GroupKey)) spec.group_key = PG_GETARG_TEXT_PP(single::GroupKey);
    if (given(fcinfo, single::Metadata)) spec.optional[kMetadata] = PG_GETARG_DATUM(single::Metadata);
    if (given(fcinfo, single::Options)) read_options(PG_GETARG_JSONB_P(single::Options), KeysOf::Enqueue, &spec);
    return spec;
}

// Enqueues one job and returns its id.
int64 enqueue_one(const JobSpec &spec, const QueueScope *scope, TimestampTz now) {
    if (spec.unique_key != nullptr) {
        const KeyedJob job = enqueue_one_keyed(spec, now);
        if (job.is_new) depend(spec, job.id, scope);
        return job.id;
    }
    make_room(view(spec.queue), 1, now, needed_by(spec));
    JobsTable jobs;
    open_jobs(&jobs);
    const int64 id = insert_one(&jobs, spec, now);
    close_jobs(&jobs);
    depend(spec, id, scope);
    return id;
}

// Reads the array arguments of jobq_enqueue_many other than `unique_keys`. Each array has one element per job.
JobColumns columns_of_arguments(FunctionCallInfo fcinfo, const JobSpec &shared, const Elements &payloads) {
    JobColumns columns = {payloads.values};
    if (given(fcinfo, many::RunAts)) {
        const Elements run_ats = require_elements(fcinfo, many::RunAts, TIMESTAMPTZOID, "run_ats", core::kMaxEnqueue);
        check_same_length(payloads.count, "payloads", run_ats.count, "run_ats");
        for (int i = 0; i < run_ats.count; i++)
            check_expiry(shared, check_finite(DatumGetTimestampTz(run_ats.values[i]), "run_ats"));
        columns.run_ats = run_ats.values;
    }
    if (given(fcinfo, many::Priorities)) {
        const Elements priorities =
            require_elements(fcinfo, many::Priorities, INT4OID, "priorities", core::kMaxEnqueue);
        check_same_length(payloads.count, "payloads", priorities.count, "priorities");
        for (int i = 0; i < priorities.count; i++) check_priority(DatumGetInt32(priorities.values[i]), "priorities");
        columns.priorities = priorities.values;
    }
    if (given(fcinfo, many::ConcurrencyKeys))
        columns.concurrency_keys = read_keys(PG_GETARG_ARRAYTYPE_P(many::ConcurrencyKeys), payloads, "concurrency_keys",
                                             check_concurrency_key);
    if (given(fcinfo, many::GroupKeys))
        columns.group_keys = read_keys(PG_GETARG_ARRAYTYPE_P(many::GroupKeys), payloads, "group_keys", check_group_key);
    return columns;
}

// Returns the elements of the argument `unique_keys` of jobq_enqueue_many, or no elements if the argument is omitted.
Elements unique_keys_argument(FunctionCallInfo fcinfo, const Elements &payloads) {
    if (!given(fcinfo, many::UniqueKeys)) return {};
    const Elements keys = elements_of(PG_GETARG_ARRAYTYPE_P(many::UniqueKeys), TEXTOID, "unique_keys",
                                      core::kMaxEnqueue, NullElements::Allowed);
    check_same_length(payloads.count, "payloads", keys.count, "unique_keys");
    for (int i = 0; i < keys.count; i++)
        if (!keys.nulls[i]) check_unique_key(view(DatumGetTextPP(keys.values[i])), {"unique_keys", i + 1});
    return keys;
}

}  // namespace

extern "C" {

PG_FUNCTION_INFO_V1(jobq_enqueue);
PGDLLEXPORT Datum jobq_enqueue(PG_FUNCTION_ARGS) {
    require_writable(fcinfo);
    const TimestampTz now = GetCurrentTimestamp();
    JobSpec spec = spec_of_arguments(fcinfo, now);
    const QueueScope *scope = scope_of(fcinfo);
    const bool has_max_attempts = given(fcinfo, single::MaxAttempts);
    check_spec(&spec, has_max_attempts, scope);
    require_limits(spec);
    fill_from_queue(&spec, has_max_attempts);
    PG_RETURN_INT64(enqueue_one(spec, scope, now));
}

PG_FUNCTION_INFO_V1(jobq_enqueue_many);
PGDLLEXPORT Datum jobq_enqueue_many(PG_FUNCTION_ARGS) {
    require_writable(fcinfo);
    const TimestampTz now = GetCurrentTimestamp();
    JobSpec shared = {};
    shared.queue = require_text(fcinfo, many::Queue, "queue");
    shared.kind = require_text(fcinfo, many::Kind, "kind");
    require(fcinfo, many::Priority, "priority");
    shared.priority = check_priority(PG_GETARG_INT32(many::Priority), "priority");
    shared.run_at = run_at_or(now, given(fcinfo, many::RunAt), PG_GETARG_TIMESTAMPTZ(many::RunAt));
    if (given(fcinfo, many::MaxAttempts)) shared.max_attempts = PG_GETARG_INT32(many::MaxAttempts);
    if (given(fcinfo, many::Options)) read_options(PG_GETARG_JSONB_P(many::Options), KeysOf::EnqueueMany, &shared);
    check_spec(&shared, given(fcinfo, many::MaxAttempts), scope_of(fcinfo), given(fcinfo, many::UniqueKeys));
    require_limits(shared);

    const Elements payloads = require_elements(fcinfo, many::Payloads, JSONBOID, "payloads", core::kMaxEnqueue);
    for (int i = 0; i < payloads.count; i++) check_json_size(payloads.values[i], "payloads");
    const JobColumns columns = columns_of_arguments(fcinfo, shared, payloads);
    const Elements keys = unique_keys_argument(fcinfo, payloads);

    ResultSet results(fcinfo);
    if (payloads.count == 0) return results.done();
    fill_from_queue(&shared, given(fcinfo, many::MaxAttempts));
    if (keys.count > 0) {
        KeyedJob *keyed = keyed_jobs(shared, columns, keys);
        admit_keyed(shared, keyed, keys.count, now);
        enqueue_keyed(shared, keyed, keys.count, now);
        for (int i = 0; i < keys.count; i++) results.row({Int64GetDatum(keyed[i].id), BoolGetDatum(keyed[i].is_new)});
        return results.done();
    }
    make_room(view(shared.queue), payloads.count, now);
    auto *ids = static_cast<int64 *>(palloc_extended(sizeof(int64) * payloads.count, MCXT_ALLOC_HUGE));
    JobsTable jobs;
    open_jobs(&jobs);
    insert_jobs(&jobs, shared, columns, payloads.count, now, ids);
    close_jobs(&jobs);
    for (int i = 0; i < payloads.count; i++) results.row({Int64GetDatum(ids[i]), BoolGetDatum(true)});
    return results.done();
}

PG_FUNCTION_INFO_V1(jobq_enqueue_jobs);
PGDLLEXPORT Datum jobq_enqueue_jobs(PG_FUNCTION_ARGS) {
    require_writable(fcinfo);
    require(fcinfo, 0, "specs");
    ResultSet results(fcinfo);
    int count;
    const Enqueued *enqueued =
        enqueue_json(PG_GETARG_JSONB_P(0), core::kMaxEnqueue, scope_of(fcinfo), GetCurrentTimestamp(), &count);
    for (int i = 0; i < count; i++) results.row({Int64GetDatum(enqueued[i].id), BoolGetDatum(enqueued[i].is_new)});
    return results.done();
}

}  // extern "C"

}  // namespace jobq
