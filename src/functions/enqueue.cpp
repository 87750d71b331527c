// jobq_enqueue, jobq_enqueue_many, jobq_enqueue_jobs: arguments checked, then handed to the store.
#include "pg/pg.h"

#include "functions/payload.h"
#include "functions/result_set.h"
#include "functions/specs.h"
#include "pg/args.h"
#include "shared/publish.h"
#include "store/depth.h"
#include "store/directory.h"
#include "store/enqueue.h"

namespace jobq {

namespace {

TimestampTz run_at_or(TimestampTz now, bool present, TimestampTz run_at) {
    return present ? check_finite(run_at, "run_at") : now;
}

// The checks that all three functions share.
void check_spec(JobSpec *spec, bool has_max_attempts) {
    check_queue_name(view(spec->queue), "queue");
    check_name(view(spec->kind), "kind", core::kMaxKindBytes, true);
    if (spec->has_metadata) check_json_size(spec->metadata, "metadata");
    if (spec->required != nullptr) {
        names_of(spec->required, "requires", core::kMaxCapabilityBytes, core::kMaxCapabilities);
        if (ARR_NDIM(spec->required) == 0) spec->required = nullptr;
    }
    if (spec->heartbeat_timeout != nullptr) check_heartbeat_timeout(spec->heartbeat_timeout);
    if (has_max_attempts) check_positive(spec->max_attempts, "max_attempts");
}

// What the queue decides: whether it has room for so many jobs, and what they do not say.
void ask_queue(JobSpec *spec, bool has_max_attempts, int64 count, TimestampTz now) {
    const std::string_view name = view(spec->queue);
    require_known_queue(name);
    const Queue *queue = find_queue(name);
    if (!has_max_attempts) spec->max_attempts = queue->max_attempts;
    if (queue->max_depth > 0) make_room(name, *queue, count, now);
}

int64 insert_one(JobsTable *jobs, const JobSpec &spec, TimestampTz now) {
    int64 id;
    insert_jobs(jobs, spec, {&spec.payload, nullptr, nullptr}, 1, now, &id);
    return id;
}

[[noreturn]] void specs_not_objects() {
    ereport(ERROR,
            (errcode(ERRCODE_INVALID_PARAMETER_VALUE), errmsg("argument \"specs\" must be a JSON array of objects"),
             errhint("For example '[{\"queue\": \"emails\", \"payload\": {}}]'.")));
    pg_unreachable();
}

// Names the element in every error that its checks and its insert raise.
void add_element_context(void *number) { errcontext("element %d of argument \"specs\"", *static_cast<int *>(number)); }

}  // namespace

extern "C" {

PG_FUNCTION_INFO_V1(jobq_enqueue);
PGDLLEXPORT Datum jobq_enqueue(PG_FUNCTION_ARGS) {
    require_writable(fcinfo);
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
        Version,
        Requires,
        HeartbeatTimeout,
        MaxRuntime,
        Metadata
    };
    if (given(fcinfo, UniqueKey)) unsupported_argument("unique_key");
    if (given(fcinfo, UniqueFor)) unsupported_argument("unique_for");
    if (given(fcinfo, GroupKey)) unsupported_argument("group_key");
    if (given(fcinfo, ConcurrencyKey)) unsupported_argument("concurrency_key");
    if (given(fcinfo, DependsOn)) unsupported_argument("depends_on");
    if (given(fcinfo, MaxRuntime)) unsupported_argument("max_runtime");
    check_on_conflict(require_text(fcinfo, OnConflict, "on_conflict"));
    check_on_dependency_failure(require_text(fcinfo, OnDependencyFailure, "on_dependency_failure"));

    const TimestampTz now = GetCurrentTimestamp();
    JobSpec spec = {};
    spec.queue = require_text(fcinfo, Queue, "queue");
    spec.kind = require_text(fcinfo, Kind, "kind");
    require(fcinfo, Payload, "payload");
    spec.payload = PG_GETARG_DATUM(Payload);
    check_json_size(spec.payload, "payload");
    require(fcinfo, Priority, "priority");
    spec.priority = check_priority(PG_GETARG_INT32(Priority), "priority");
    require(fcinfo, Version, "version");
    spec.version = PG_GETARG_INT32(Version);
    spec.run_at = run_at_or(now, given(fcinfo, RunAt), PG_GETARG_TIMESTAMPTZ(RunAt));
    if (given(fcinfo, MaxAttempts)) spec.max_attempts = PG_GETARG_INT32(MaxAttempts);
    if (given(fcinfo, Requires)) spec.required = PG_GETARG_ARRAYTYPE_P(Requires);
    if (given(fcinfo, HeartbeatTimeout)) spec.heartbeat_timeout = PG_GETARG_INTERVAL_P(HeartbeatTimeout);
    spec.has_metadata = given(fcinfo, Metadata);
    if (spec.has_metadata) spec.metadata = PG_GETARG_DATUM(Metadata);
    check_spec(&spec, given(fcinfo, MaxAttempts));

    ask_queue(&spec, given(fcinfo, MaxAttempts), 1, now);
    JobsTable jobs;
    open_jobs(&jobs);
    const int64 id = insert_one(&jobs, spec, now);
    close_jobs(&jobs);
    PG_RETURN_INT64(id);
}

PG_FUNCTION_INFO_V1(jobq_enqueue_many);
PGDLLEXPORT Datum jobq_enqueue_many(PG_FUNCTION_ARGS) {
    require_writable(fcinfo);
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
        Priorities
    };
    if (given(fcinfo, UniqueKeys)) unsupported_argument("unique_keys");
    if (given(fcinfo, GroupKeys)) unsupported_argument("group_keys");
    if (given(fcinfo, ConcurrencyKeys)) unsupported_argument("concurrency_keys");

    const TimestampTz now = GetCurrentTimestamp();
    JobSpec shared = {};
    shared.queue = require_text(fcinfo, Queue, "queue");
    shared.kind = require_text(fcinfo, Kind, "kind");
    require(fcinfo, Priority, "priority");
    shared.priority = check_priority(PG_GETARG_INT32(Priority), "priority");
    shared.run_at = run_at_or(now, given(fcinfo, RunAt), PG_GETARG_TIMESTAMPTZ(RunAt));
    if (given(fcinfo, MaxAttempts)) shared.max_attempts = PG_GETARG_INT32(MaxAttempts);
    check_spec(&shared, given(fcinfo, MaxAttempts));

    const Elements payloads = require_elements(fcinfo, Payloads, JSONBOID, "payloads", core::kMaxEnqueue);
    for (int i = 0; i < payloads.count; i++) check_json_size(payloads.values[i], "payloads");
    JobColumns columns = {payloads.values, nullptr, nullptr};
    if (given(fcinfo, RunAts)) {
        const Elements run_ats = require_elements(fcinfo, RunAts, TIMESTAMPTZOID, "run_ats", core::kMaxEnqueue);
        check_same_length(payloads.count, "payloads", run_ats.count, "run_ats");
        for (int i = 0; i < run_ats.count; i++) check_finite(DatumGetTimestampTz(run_ats.values[i]), "run_ats");
        columns.run_ats = run_ats.values;
    }
    if (given(fcinfo, Priorities)) {
        const Elements priorities = require_elements(fcinfo, Priorities, INT4OID, "priorities", core::kMaxEnqueue);
        check_same_length(payloads.count, "payloads", priorities.count, "priorities");
        for (int i = 0; i < priorities.count; i++) check_priority(DatumGetInt32(priorities.values[i]), "priorities");
        columns.priorities = priorities.values;
    }

    ResultSet results(fcinfo);
    if (payloads.count == 0) return results.done();
    ask_queue(&shared, given(fcinfo, MaxAttempts), payloads.count, now);
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
    Jsonb *specs = PG_GETARG_JSONB_P(0);
    if (!JB_ROOT_IS_ARRAY(specs) || JB_ROOT_IS_SCALAR(specs)) specs_not_objects();
    if (JB_ROOT_COUNT(specs) > static_cast<uint32>(core::kMaxEnqueue))
        ereport(ERROR, (errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
                        errmsg("argument \"specs\" has too many elements: %u", JB_ROOT_COUNT(specs)),
                        errhint("At most %d are allowed in one call.", core::kMaxEnqueue)));

    const TimestampTz now = GetCurrentTimestamp();
    ResultSet results(fcinfo);
    if (JB_ROOT_COUNT(specs) == 0) return results.done();
    JobsTable jobs;
    open_jobs(&jobs);
    int number = 0;
    ErrorContextCallback context = {error_context_stack, add_element_context, &number};
    error_context_stack = &context;
    JsonbIterator *iterator = JsonbIteratorInit(&specs->root);
    JsonbValue element;
    JsonbIteratorNext(&iterator, &element, true);  // the array itself
    while (JsonbIteratorNext(&iterator, &element, true) == WJB_ELEM) {
        number++;
        if (element.type != jbvBinary || !JsonContainerIsObject(element.val.binary.data)) specs_not_objects();
        ParsedSpec spec = parse_spec(element.val.binary.data, now);
        check_spec(&spec.job, spec.has_max_attempts);
        ask_queue(&spec.job, spec.has_max_attempts, 1, now);
        results.row({Int64GetDatum(insert_one(&jobs, spec.job, now)), BoolGetDatum(true)});
        // Somebody's trigger on the next element sees this one.
        CommandCounterIncrement();
    }
    error_context_stack = context.previous;
    close_jobs(&jobs);
    return results.done();
}

}  // extern "C"

}  // namespace jobq
