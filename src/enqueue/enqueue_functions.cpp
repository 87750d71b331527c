// jobq_enqueue, jobq_enqueue_many, jobq_enqueue_jobs: arguments checked, then handed on.
#include "compat/pg.h"

#include "compat/args.h"
#include "compat/result_set.h"
#include "edges/dependencies.h"
#include "enqueue/admission.h"
#include "enqueue/depth.h"
#include "enqueue/enqueue.h"
#include "enqueue/enqueue_keyed.h"
#include "enqueue/specs.h"
#include "job/payload.h"
#include "queues/directory.h"
#include "queues/scope.h"

#include <algorithm>

namespace jobq {

namespace {

TimestampTz run_at_or(TimestampTz now, bool present, TimestampTz run_at) {
    return present ? check_finite(run_at, "run_at") : now;
}

// 'ignore' is the default: whether it was given cannot be told.
void check_conflict_has_key(const JobSpec &spec) {
    if (spec.on_conflict == core::OnConflict::Ignore || spec.unique_key != nullptr) return;
    ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE), errmsg("argument \"on_conflict\" needs a \"unique_key\""),
                    errhint("Give the key that another job may have, or leave on_conflict out.")));
}

// The checks that all three functions share.
void check_spec(JobSpec *spec, bool has_max_attempts, const QueueScope *scope) {
    check_queue_name(view(spec->queue), "queue");
    check_scope(scope, view(spec->queue));
    check_name(view(spec->kind), "kind", core::kMaxKindBytes, true);
    if (spec->has_metadata) check_json_size(spec->metadata, "metadata");
    if (spec->required != nullptr) {
        names_of(spec->required, "requires", core::kMaxCapabilityBytes, core::kMaxCapabilities);
        if (ARR_NDIM(spec->required) == 0) spec->required = nullptr;
    }
    if (spec->heartbeat_timeout != nullptr) check_heartbeat_timeout(spec->heartbeat_timeout);
    if (spec->max_runtime != nullptr) check_max_runtime(spec->max_runtime);
    if (has_max_attempts) check_positive(spec->max_attempts, "max_attempts");
    if (spec->unique_key != nullptr) check_unique_key(view(spec->unique_key), "unique_key");
    check_conflict_has_key(*spec);
    if (spec->unique_for != nullptr) check_unique_for(spec->unique_for, spec->unique_key != nullptr);
    if (spec->concurrency_key != nullptr) check_concurrency_key(view(spec->concurrency_key), "concurrency_key");
    if (spec->group_key != nullptr) check_group_key(view(spec->group_key), "group_key");
}

// What the queue decides of what they do not say.
void fill_from_queue(JobSpec *spec, bool has_max_attempts) {
    const std::string_view name = view(spec->queue);
    require_known_queue(name);
    if (!has_max_attempts) spec->max_attempts = find_queue(name)->max_attempts;
}

int64 insert_one(JobsTable *jobs, const JobSpec &spec, TimestampTz now) {
    int64 id;
    insert_jobs(jobs, spec, {&spec.payload, nullptr, nullptr, {}, {}}, 1, now, &id);
    return id;
}

// What a job depends on; `number` is its place among the arguments.
NewDependent dependent_of(const JobSpec &spec, int64 id, int number) {
    return {id, spec.depends_on, spec.depends_on_count, spec.on_dependency_failure, number};
}

void depend(const JobSpec &spec, int64 id, const QueueScope *scope) {
    if (spec.depends_on_count == 0) return;
    int number;
    const NewDependent dependent = dependent_of(spec, id, 1);
    add_dependencies(&dependent, 1, scope, &number);
}

Newcomer newcomer_of(const JobSpec &spec, text *unique_key) { return {spec.queue, unique_key, spec.on_conflict}; }

// A job with a unique key.
KeyedJob enqueue_one_keyed(const JobSpec &spec, TimestampTz now) {
    if (find_queue(view(spec.queue))->max_depth > 0) {
        Newcomer newcomer = newcomer_of(spec, spec.unique_key);
        admit_jobs(&newcomer, 1, now);
    }
    KeyedJob job = {spec.unique_key, spec.payload,         spec.run_at,   spec.priority, 0, 0,
                    false,           spec.concurrency_key, spec.group_key};
    enqueue_keyed(spec, &job, 1, now);
    return job;
}

// The jobs of one call of jobq_enqueue_many when some have unique keys (text[] with NULLs for those that have none).
KeyedJob *keyed_jobs(const JobSpec &shared, const JobColumns &columns, const Elements &keys) {
    auto *jobs = static_cast<KeyedJob *>(palloc_extended(sizeof(KeyedJob) * keys.count, MCXT_ALLOC_HUGE));
    for (int i = 0; i < keys.count; i++)
        jobs[i] = {
            keys.nulls[i] ? nullptr : DatumGetTextPP(keys.values[i]),
            columns.payloads[i],
            columns.run_ats == nullptr ? shared.run_at : DatumGetTimestampTz(columns.run_ats[i]),
            columns.priorities == nullptr ? shared.priority : static_cast<int16>(DatumGetInt32(columns.priorities[i])),
            next_job_id(),
            0,
            false,
            text_in(columns.concurrency_keys, shared.concurrency_key, i),
            text_in(columns.group_keys, shared.group_key, i)};
    return jobs;
}

void admit_keyed(const JobSpec &shared, const KeyedJob *jobs, int count, TimestampTz now) {
    if (find_queue(view(shared.queue))->max_depth == 0) return;
    auto *newcomers = static_cast<Newcomer *>(palloc_extended(sizeof(Newcomer) * count, MCXT_ALLOC_HUGE));
    for (int i = 0; i < count; i++) newcomers[i] = newcomer_of(shared, jobs[i].unique_key);
    admit_jobs(newcomers, count, now);
    pfree(newcomers);
}

// An element of jobq_enqueue_jobs. Those that have a unique key are inserted last, in the order of their keys.
struct Element {
    JobSpec spec;
    int number;  // its place in the array, from 1
    int64 id;    // of one that has a key
};

// Those of the elements of jobq_enqueue_jobs that are new and depend on others.
struct Dependents {
    NewDependent *items;
    int count;
};

void add_dependent(Dependents *dependents, const JobSpec &spec, int64 id, int number, int room) {
    if (spec.depends_on_count == 0) return;
    if (dependents->items == nullptr)
        dependents->items = static_cast<NewDependent *>(palloc_extended(sizeof(NewDependent) * room, MCXT_ALLOC_HUGE));
    dependents->items[dependents->count++] = dependent_of(spec, id, number);
}

// All of a queue at once: what this call enqueues must not be dropped for what it enqueues next.
void admit_elements(const Element *elements, int count, TimestampTz now) {
    auto *newcomers = static_cast<Newcomer *>(palloc_extended(sizeof(Newcomer) * count, MCXT_ALLOC_HUGE));
    int limited = 0;
    for (const Element *element = elements; element < elements + count; element++)
        if (find_queue(view(element->spec.queue))->max_depth > 0)
            newcomers[limited++] = newcomer_of(element->spec, element->spec.unique_key);
    admit_jobs(newcomers, limited, now);
    pfree(newcomers);
}

bool key_comes_first(const Element &a, const Element &b) {
    const std::string_view queue_a = view(a.spec.queue), key_a = view(a.spec.unique_key);
    const std::string_view queue_b = view(b.spec.queue), key_b = view(b.spec.unique_key);
    if (core::key_before(queue_a, key_a, queue_b, key_b)) return true;
    return queue_a == queue_b && key_a == key_b && a.number < b.number;
}

bool same_interval(const Interval *a, const Interval *b) {
    if (a == nullptr || b == nullptr) return a == b;
    return a->month == b->month && a->day == b->day && a->time == b->time;
}

// Whether two jobs can be enqueued together: they differ in nothing but what a KeyedJob says. One with metadata,
// requirements or dependencies goes alone.
bool go_together(const JobSpec &a, const JobSpec &b) {
    return view(a.queue) == view(b.queue) && view(a.kind) == view(b.kind) && a.version == b.version &&
           a.max_attempts == b.max_attempts && a.on_conflict == b.on_conflict && !a.has_metadata && !b.has_metadata &&
           a.required == nullptr && b.required == nullptr && a.depends_on_count == 0 && b.depends_on_count == 0 &&
           same_interval(a.heartbeat_timeout, b.heartbeat_timeout) && same_interval(a.max_runtime, b.max_runtime) &&
           same_interval(a.unique_for, b.unique_for);
}

// So many elements at most are enqueued together.
constexpr int kTogether = 1000;

// `number` is set to the element that is dealt with, 0: several.
void enqueue_keyed_elements(Element *elements, int count, TimestampTz now, int *number, Datum *ids, bool *are_new,
                            Dependents *dependents, int room) {
    std::sort(elements, elements + count, key_comes_first);
    auto *jobs = static_cast<KeyedJob *>(palloc(sizeof(KeyedJob) * kTogether));
    for (int first = 0, end = 0; first < count; first = end) {
        const JobSpec &spec = elements[first].spec;
        while (end < count && end - first < kTogether && (end == first || go_together(spec, elements[end].spec))) {
            const JobSpec &own = elements[end].spec;
            jobs[end - first] = {own.unique_key, own.payload,         own.run_at,   own.priority, elements[end].id, 0,
                                 false,          own.concurrency_key, own.group_key};
            end++;
        }
        *number = end - first == 1 ? elements[first].number : 0;
        enqueue_keyed(spec, jobs, end - first, now);
        for (int i = first; i < end; i++) {
            ids[elements[i].number - 1] = Int64GetDatum(jobs[i - first].id);
            are_new[elements[i].number - 1] = jobs[i - first].is_new;
            if (jobs[i - first].is_new)
                add_dependent(dependents, elements[i].spec, jobs[i - first].id, elements[i].number, room);
        }
    }
    pfree(jobs);
}

TextColumn read_keys(ArrayType *array, const Elements &payloads, const char *name,
                     void (*check)(std::string_view, ArgumentName)) {
    const Elements keys = elements_of(array, TEXTOID, name, core::kMaxEnqueue, NullElements::Allowed);
    check_same_length(payloads.count, "payloads", keys.count, name);
    for (int i = 0; i < keys.count; i++)
        if (!keys.nulls[i]) check(view(DatumGetTextPP(keys.values[i])), {name, i + 1});
    return {keys.values, keys.nulls};
}

[[noreturn]] void specs_not_objects() {
    ereport(ERROR,
            (errcode(ERRCODE_INVALID_PARAMETER_VALUE), errmsg("argument \"specs\" must be a JSON array of objects"),
             errhint("For example '[{\"queue\": \"emails\", \"payload\": {}}]'.")));
    pg_unreachable();
}

// Names the element in every error that its checks and its insert raise; 0: it is about none of them alone.
void add_element_context(void *number) {
    const int element = *static_cast<int *>(number);
    if (element > 0) errcontext("element %d of argument \"specs\"", element);
}

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
    const core::OnConflict on_conflict = check_on_conflict(require_text(fcinfo, OnConflict, "on_conflict"));
    const core::OnDependencyFailure on_dependency_failure =
        check_on_dependency_failure(require_text(fcinfo, OnDependencyFailure, "on_dependency_failure"));

    const TimestampTz now = GetCurrentTimestamp();
    JobSpec spec = {};
    spec.on_dependency_failure = on_dependency_failure;
    if (given(fcinfo, DependsOn)) {
        const Elements ids = elements_of(PG_GETARG_ARRAYTYPE_P(DependsOn), INT8OID, "depends_on", core::kMaxBatch,
                                         NullElements::Refused);
        take_dependencies(&spec, ids.values, ids.count);
    }
    spec.on_conflict = on_conflict;
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
    if (given(fcinfo, UniqueKey)) spec.unique_key = PG_GETARG_TEXT_PP(UniqueKey);
    if (given(fcinfo, UniqueFor)) spec.unique_for = PG_GETARG_INTERVAL_P(UniqueFor);
    if (given(fcinfo, ConcurrencyKey)) spec.concurrency_key = PG_GETARG_TEXT_PP(ConcurrencyKey);
    if (given(fcinfo, GroupKey)) spec.group_key = PG_GETARG_TEXT_PP(GroupKey);
    if (given(fcinfo, Requires)) spec.required = PG_GETARG_ARRAYTYPE_P(Requires);
    if (given(fcinfo, HeartbeatTimeout)) spec.heartbeat_timeout = PG_GETARG_INTERVAL_P(HeartbeatTimeout);
    if (given(fcinfo, MaxRuntime)) spec.max_runtime = PG_GETARG_INTERVAL_P(MaxRuntime);
    spec.has_metadata = given(fcinfo, Metadata);
    if (spec.has_metadata) spec.metadata = PG_GETARG_DATUM(Metadata);
    const QueueScope *scope = scope_of(fcinfo);
    check_spec(&spec, given(fcinfo, MaxAttempts), scope);

    fill_from_queue(&spec, given(fcinfo, MaxAttempts));
    if (spec.unique_key != nullptr) {
        const KeyedJob job = enqueue_one_keyed(spec, now);
        if (job.is_new) depend(spec, job.id, scope);
        PG_RETURN_INT64(job.id);
    }
    make_room(view(spec.queue), 1, now);
    JobsTable jobs;
    open_jobs(&jobs);
    const int64 id = insert_one(&jobs, spec, now);
    close_jobs(&jobs);
    depend(spec, id, scope);
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

    const TimestampTz now = GetCurrentTimestamp();
    JobSpec shared = {};
    shared.queue = require_text(fcinfo, Queue, "queue");
    shared.kind = require_text(fcinfo, Kind, "kind");
    require(fcinfo, Priority, "priority");
    shared.priority = check_priority(PG_GETARG_INT32(Priority), "priority");
    shared.run_at = run_at_or(now, given(fcinfo, RunAt), PG_GETARG_TIMESTAMPTZ(RunAt));
    if (given(fcinfo, MaxAttempts)) shared.max_attempts = PG_GETARG_INT32(MaxAttempts);
    check_spec(&shared, given(fcinfo, MaxAttempts), scope_of(fcinfo));

    const Elements payloads = require_elements(fcinfo, Payloads, JSONBOID, "payloads", core::kMaxEnqueue);
    for (int i = 0; i < payloads.count; i++) check_json_size(payloads.values[i], "payloads");
    JobColumns columns = {payloads.values, nullptr, nullptr, {}, {}};
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
    if (given(fcinfo, ConcurrencyKeys))
        columns.concurrency_keys =
            read_keys(PG_GETARG_ARRAYTYPE_P(ConcurrencyKeys), payloads, "concurrency_keys", check_concurrency_key);
    if (given(fcinfo, GroupKeys))
        columns.group_keys = read_keys(PG_GETARG_ARRAYTYPE_P(GroupKeys), payloads, "group_keys", check_group_key);
    Elements keys = {};
    if (given(fcinfo, UniqueKeys)) {
        keys = elements_of(PG_GETARG_ARRAYTYPE_P(UniqueKeys), TEXTOID, "unique_keys", core::kMaxEnqueue,
                           NullElements::Allowed);
        check_same_length(payloads.count, "payloads", keys.count, "unique_keys");
        for (int i = 0; i < keys.count; i++)
            if (!keys.nulls[i]) check_unique_key(view(DatumGetTextPP(keys.values[i])), {"unique_keys", i + 1});
    }

    ResultSet results(fcinfo);
    if (payloads.count == 0) return results.done();
    fill_from_queue(&shared, given(fcinfo, MaxAttempts));
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
    Jsonb *specs = PG_GETARG_JSONB_P(0);
    if (!JB_ROOT_IS_ARRAY(specs) || JB_ROOT_IS_SCALAR(specs)) specs_not_objects();
    if (JB_ROOT_COUNT(specs) > static_cast<uint32>(core::kMaxEnqueue))
        ereport(ERROR, (errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
                        errmsg("argument \"specs\" has too many elements: %u", JB_ROOT_COUNT(specs)),
                        errhint("At most %d are allowed in one call.", core::kMaxEnqueue)));

    const TimestampTz now = GetCurrentTimestamp();
    const QueueScope *scope = scope_of(fcinfo);
    ResultSet results(fcinfo);
    const int count = static_cast<int>(JB_ROOT_COUNT(specs));
    if (count == 0) return results.done();
    auto *ids = static_cast<Datum *>(palloc_extended(sizeof(Datum) * count, MCXT_ALLOC_HUGE));
    auto *are_new = static_cast<bool *>(palloc_extended(sizeof(bool) * count, MCXT_ALLOC_HUGE));
    auto *elements = static_cast<Element *>(palloc_extended(sizeof(Element) * count, MCXT_ALLOC_HUGE));
    Dependents dependents = {};
    Refs refs = {};
    int number = 0;
    ErrorContextCallback context = {error_context_stack, add_element_context, &number};
    error_context_stack = &context;
    JsonbIterator *iterator = JsonbIteratorInit(&specs->root);
    JsonbValue element;
    JsonbIteratorNext(&iterator, &element, true);  // the array itself
    while (JsonbIteratorNext(&iterator, &element, true) == WJB_ELEM) {
        number++;
        if (element.type != jbvBinary || !JsonContainerIsObject(element.val.binary.data)) specs_not_objects();
        ParsedSpec spec = parse_spec(element.val.binary.data, now, refs);
        if (spec.ref != nullptr) add_ref(&refs, spec.ref, number);
        check_spec(&spec.job, spec.has_max_attempts, scope);
        fill_from_queue(&spec.job, spec.has_max_attempts);
        elements[number - 1] = {spec.job, number, 0};
    }
    number = 0;
    admit_elements(elements, count, now);
    JobsTable jobs;
    open_jobs(&jobs);
    int keyed_count = 0;
    for (int i = 0; i < count; i++) {
        number = elements[i].number;
        if (elements[i].spec.unique_key != nullptr) {
            elements[keyed_count] = elements[i];
            elements[keyed_count++].id = next_job_id();
            continue;
        }
        const int64 id = insert_one(&jobs, elements[i].spec, now);
        ids[number - 1] = Int64GetDatum(id);
        are_new[number - 1] = true;
        add_dependent(&dependents, elements[i].spec, id, number, count);
        // Somebody's trigger on the next element sees this one.
        CommandCounterIncrement();
    }
    close_jobs(&jobs);
    if (keyed_count > 0) enqueue_keyed_elements(elements, keyed_count, now, &number, ids, are_new, &dependents, count);
    for (int i = 0; i < dependents.count; i++)
        resolve_elements(dependents.items[i].depends_on, &dependents.items[i].count, ids);
    add_dependencies(dependents.items, dependents.count, scope, &number);
    error_context_stack = context.previous;
    for (int i = 0; i < count; i++) results.row({ids[i], BoolGetDatum(are_new[i])});
    return results.done();
}

}  // extern "C"

}  // namespace jobq
