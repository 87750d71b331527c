// See enqueue_specs.h.
#include "compat/pg.h"

#include "compat/memory.h"
#include "edges/edges.h"
#include "enqueue/enqueue_keyed.h"
#include "enqueue/enqueue_specs.h"
#include "enqueue/specs.h"
#include "finish/batch_members.h"
#include "job/change_job.h"
#include "job/job_arguments.h"
#include "limits/limiter.h"
#include "queues/directory.h"
#include "row/limit_names.h"
#include "row/owner.h"
#include "row/payload.h"

#include <algorithm>

namespace jobq {

namespace {

// Rejects on_conflict for a job without a unique key. Accepts 'ignore', because it is the default, so the caller might
// not have specified it.
void check_conflict_has_key(core::OnConflict on_conflict, bool has_key) {
    if (on_conflict == core::OnConflict::Ignore || has_key) return;
    ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
                    errmsg("argument \"on_conflict\" requires argument \"unique_key\""),
                    errhint("Specify \"unique_key\" or omit \"on_conflict\".")));
}

// One of the jobs of the call. Jobs with a unique key are inserted last, in the order of their keys.
struct Element {
    const JobSpec *spec;
    int number;  // position in the array, from 1
    int64 id;    // set only if the job has a unique key
};

// Adds the new job to *dependents if it depends on other jobs.
void add_dependent(Notes<NewDependent> *dependents, const JobSpec &spec, int64 id, int number) {
    if (spec.depends_on_count > 0) dependents->add(dependent_of(spec, id, number));
}

// Raises an error if the existing job with the key of an element was inserted while this call waited for the key. The
// id of the existing job is then higher than the ids of the jobs that depend on the element, but a job must have a
// higher id than its dependencies, so that no cycle is possible. The error asks the client to retry the transaction, so
// that the dependent jobs get higher ids. Raises no error if the id of the existing job exceeds the last value of the
// sequence, because such an id was set with plain SQL.
void refuse_newcomer(int64 id) {
    if (next_job_id() <= id) return;
    ereport(ERROR, (errcode(ERRCODE_T_R_SERIALIZATION_FAILURE),
                    errmsg("job %lld, which has the unique key of an element, was enqueued concurrently",
                           static_cast<long long>(id)),
                    errdetail("Another element depends on this job but has a lower id than the job."),
                    errhint("Retry the transaction.")));
}

const Enqueued &element_at(const Enqueued *enqueued, int64 dependency) {
    return enqueued[dependency - dependency_on_element(1)];
}

// Returns the elements on which other elements depend and for which a job already exists.
Notes<Enqueued> known_elements(const Notes<NewDependent> &dependents, const Enqueued *enqueued) {
    Notes<Enqueued> known = {};
    for (const NewDependent *one = dependents.items; one < dependents.items + dependents.count; one++)
        for (int i = 0; i < one->count && one->depends_on[i] < kLowestDependency; i++) {
            const Enqueued &element = element_at(enqueued, one->depends_on[i]);
            if (!element.is_new) known.add(element);
        }
    return known;
}

// Ids of finished jobs, in ascending order.
struct OverJobs {
    Datum *ids;
    int count;
};

bool is_among(const OverJobs &jobs, int64 id) {
    return std::binary_search(jobs.ids, jobs.ids + jobs.count, Int64GetDatum(id),
                              [](Datum a, Datum b) { return DatumGetInt64(a) < DatumGetInt64(b); });
}

// Replaces the numbers of elements in the job's dependencies with job ids. Removes dependencies on finished jobs that
// no longer exist. `over` contains the finished jobs that still exist.
void resolve_elements(NewDependent *dependent, const Enqueued *enqueued, const OverJobs &over) {
    int64 *ids = dependent->depends_on;
    int count = 0;
    if (ids[0] >= kLowestDependency) return;
    for (int i = 0; i < dependent->count; i++) {
        int64 id = ids[i];
        if (id < kLowestDependency) {
            const Enqueued &element = element_at(enqueued, id);
            if (element.is_over && !is_among(over, element.id)) continue;
            id = element.id;
            if (id >= dependent->job) refuse_newcomer(id);
        }
        ids[count++] = id;
    }
    std::sort(ids, ids + count);
    dependent->count = static_cast<int>(std::unique(ids, ids + count) - ids);
}

// Calls resolve_elements() for all dependents. Unblocks jobs that have no dependencies left, and removes them from
// *dependents.
void resolve_dependents(Notes<NewDependent> *dependents, const Enqueued *enqueued, TimestampTz now, int *number) {
    const Notes<Enqueued> known = known_elements(*dependents, enqueued);
    OverJobs over = {allocate_array<Datum>(static_cast<uint64>(known.count)), 0};
    *number = 0;
    if (known.count > 0) with_owner_spi([&] { over.count = hold_known(known.items, known.count, over.ids); });
    Notes<Datum> free = {};
    int left = 0;
    for (int i = 0; i < dependents->count; i++) {
        NewDependent &one = dependents->items[i];
        *number = one.number;
        resolve_elements(&one, enqueued, over);
        if (one.count > 0)
            dependents->items[left++] = one;
        else
            free.add(Int64GetDatum(one.job));
    }
    dependents->count = left;
    if (free.count > 0)
        with_owner_spi([&] { apply_event(free.items, free.count, {core::EventKind::DependenciesDone, now}); });
}

// Makes room under max_depth for all jobs of the call before the first job is enqueued. Otherwise, a job of this call,
// or a job on which it depends, could be dropped to make room for the next job of the call.
void admit_elements(const Element *elements, int count, TimestampTz now) {
    auto *newcomers = static_cast<Newcomer *>(palloc_extended(sizeof(Newcomer) * count, MCXT_ALLOC_HUGE));
    int limited = 0;
    for (const Element *element = elements; element < elements + count; element++)
        if (find_queue(view(element->spec->queue))->max_depth > 0)
            newcomers[limited++] = newcomer_of(*element->spec, element->spec->unique_key);
    Notes<int64> needed = {};
    for (const Element *element = elements; limited > 0 && element < elements + count; element++)
        for (int i = 0; i < element->spec->depends_on_count; i++) needed.add(element->spec->depends_on[i]);
    std::sort(needed.items, needed.items + needed.count);
    admit_jobs(newcomers, limited, now, {needed.items, needed.count});
    pfree(newcomers);
}

bool key_comes_first(const Element &a, const Element &b) {
    const std::string_view queue_a = view(a.spec->queue), key_a = view(a.spec->unique_key);
    const std::string_view queue_b = view(b.spec->queue), key_b = view(b.spec->unique_key);
    if (core::key_before(queue_a, key_a, queue_b, key_b)) return true;
    return queue_a == queue_b && key_a == key_b && a.number < b.number;
}

// Returns whether this attribute allows the jobs to be enqueued together in one statement: either neither job
// has a value, or their values can be compared and are equal.
bool same_attribute(const JobSpec &a, const JobSpec &b, int attribute) {
    const Datum one = a.optional[attribute], other = b.optional[attribute];
    if (one == Datum(0) || other == Datum(0)) return one == other;
    return kAttributes[attribute].equal != nullptr && kAttributes[attribute].equal(one, other);
}

// Returns whether two jobs can be enqueued with one call to enqueue_keyed(), that is, whether they differ only in
// members of KeyedJob. A job with metadata, requirements, or dependencies is enqueued alone.
bool go_together(const JobSpec &a, const JobSpec &b) {
    for (int i = 0; i < kOptionalAttributes; i++)
        if (!same_attribute(a, b, i)) return false;
    return view(a.queue) == view(b.queue) && view(a.kind) == view(b.kind) && a.version == b.version &&
           a.max_attempts == b.max_attempts && a.expires_at == b.expires_at && a.expires_in == b.expires_in &&
           a.on_conflict == b.on_conflict && a.depends_on_count == 0 && b.depends_on_count == 0;
}

// Maximum number of elements in one call to enqueue_keyed().
constexpr int kTogether = 1000;

// Enqueues the elements with unique keys. Sets *number to the number of the element that is being enqueued, or to 0 if
// several elements are enqueued together.
void enqueue_keyed_elements(Element *elements, int count, TimestampTz now, int *number, Enqueued *enqueued,
                            Notes<NewDependent> *dependents) {
    std::sort(elements, elements + count, key_comes_first);
    auto *jobs = static_cast<KeyedJob *>(palloc(sizeof(KeyedJob) * kTogether));
    for (int first = 0, end = 0; first < count; first = end) {
        const JobSpec &spec = *elements[first].spec;
        while (end < count && end - first < kTogether && (end == first || go_together(spec, *elements[end].spec))) {
            jobs[end - first] = keyed_job(*elements[end].spec, elements[end].id);
            end++;
        }
        *number = end - first == 1 ? elements[first].number : 0;
        enqueue_keyed(spec, jobs, end - first, now);
        for (int i = first; i < end; i++) {
            const KeyedJob &job = jobs[i - first];
            enqueued[elements[i].number - 1] = {job.id, job.is_new, job.is_over};
            if (job.is_new) add_dependent(dependents, *elements[i].spec, job.id, elements[i].number);
        }
    }
    pfree(jobs);
}

[[noreturn]] void specs_not_objects() {
    ereport(ERROR,
            (errcode(ERRCODE_INVALID_PARAMETER_VALUE), errmsg("argument \"specs\" must be a JSON array of objects"),
             errhint("Use an array such as '[{\"queue\": \"emails\", \"payload\": {}}]'.")));
    pg_unreachable();
}

// Error context callback that adds the number of the element to errors. If the number is 0, an error is not about a
// single element, so nothing is added.
void add_element_context(void *number) {
    const int element = *static_cast<int *>(number);
    if (element > 0) errcontext("element %d of argument \"specs\"", element);
}

// Reads the jobs from the array, checks them, and sets the attributes that depend on their queues. Sets *number to the
// number of the element that is being read.
JobSpec *read_specs(const Jsonb *specs, int count, const QueueScope *scope, TimestampTz now, int64 held_batch,
                    int *number) {
    auto *jobs = allocate_array<JobSpec>(static_cast<uint64>(count));
    Refs refs = {};
    JsonbIterator *iterator = JsonbIteratorInit(const_cast<JsonbContainer *>(&specs->root));
    JsonbValue element;
    JsonbIteratorNext(&iterator, &element, true);  // the array itself
    while (JsonbIteratorNext(&iterator, &element, true) == WJB_ELEM) {
        ++*number;
        if (element.type != jbvBinary || !JsonContainerIsObject(element.val.binary.data)) specs_not_objects();
        ParsedSpec spec = parse_spec(element.val.binary.data, now, refs, KeysOf::Specs, "specs");
        if (spec.ref != nullptr) add_ref(&refs, spec.ref, *number);
        check_spec(&spec.job, spec.has_max_attempts, scope, false, held_batch);
        require_limits(spec.job);
        fill_from_queue(&spec.job, spec.has_max_attempts);
        jobs[*number - 1] = spec.job;
    }
    return jobs;
}

// Replaces absent limits with the limits of the kind or queue, and removes an empty list.
void fill_limits(JobSpec *spec, const core::NameList &limits) {
    Datum *own = &spec->optional[kLimits];
    if (*own == Datum(0) && limits.count > 0) *own = array_of_names(limits.items, limits.count);
    if (*own != Datum(0) && ARR_NDIM(DatumGetArrayTypeP(*own)) == 0) *own = Datum(0);
}

}  // namespace

void check_expiry(const JobSpec &spec, TimestampTz run_at) {
    if (!spec.expires_at) return;
    if (spec.expires_in)
        ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
                        errmsg("arguments \"expires_at\" and \"expires_in\" must not be used together"),
                        errhint("Omit one of them.")));
    if (*spec.expires_at <= run_at)
        ereport(
            ERROR,
            (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
             errmsg("argument \"expires_at\" must be later than argument \"run_at\""),
             errhint("Specify a later \"expires_at\". Without \"run_at\", it must be later than the current time.")));
}

void check_spec(JobSpec *spec, bool has_max_attempts, const QueueScope *scope, bool has_keys, int64 held_batch) {
    check_queue_name(view(spec->queue), "queue");
    check_scope(scope, view(spec->queue));
    check_name(view(spec->kind), "kind", core::kMaxKindBytes, true);
    if (spec->optional[kMetadata] != Datum(0)) check_json_size(spec->optional[kMetadata], "metadata");
    if (ArrayType *required = required_by(*spec); required != nullptr) {
        names_of(required, "requires", core::kMaxCapabilityBytes, core::kMaxCapabilities);
        if (ARR_NDIM(required) == 0) spec->optional[kRequires] = Datum(0);
    }
    if (ArrayType *limits = limits_of(*spec); limits != nullptr) {
        const Names names = canonical_limits(limits);
        spec->optional[kLimits] = array_of_names(names.items, names.count);
    }
    if (has_max_attempts) check_positive(spec->max_attempts, "max_attempts");
    if (spec->unique_key != nullptr) check_unique_key(view(spec->unique_key), "unique_key");
    const bool has_key = has_keys || spec->unique_key != nullptr;
    check_conflict_has_key(spec->on_conflict, has_key);
    for (int i = 0; i < kOptionalAttributes; i++)
        if (spec->optional[i] != Datum(0) && kAttributes[i].check != nullptr)
            kAttributes[i].check(spec->optional[i], has_key);
    check_expiry(*spec, spec->run_at);
    if (spec->concurrency_key != nullptr) check_concurrency_key(view(spec->concurrency_key), "concurrency_key");
    if (spec->group_key != nullptr) check_group_key(view(spec->group_key), "group_key");
    if (spec->optional[kBatchId] != Datum(0)) join_batch(DatumGetInt64(spec->optional[kBatchId]), scope, held_batch);
}

void require_limits(const JobSpec &spec) {
    if (limits_of(spec) == nullptr) return;
    const Queue &queue = *find_queue(view(spec.queue));
    const LimitNames names = names_in_limits(limits_of(spec));
    for (int i = 0; i < names.count; i++) {
        if (named_limit(queue, names.items[i]) != nullptr) continue;
        ereport(ERROR, (errcode(ERRCODE_UNDEFINED_OBJECT),
                        errmsg("queue \"%s\" does not share a limit named \"%.*s\"", text_to_cstring(spec.queue),
                               static_cast<int>(names.items[i].size()), names.items[i].data()),
                        errhint("Check the name, or ask an operator to add the queue to the limit with "
                                "jobq_set_named_limit().")));
    }
}

void fill_from_queue(JobSpec *spec, bool has_max_attempts) {
    const std::string_view name = view(spec->queue);
    lock_jobs_table();
    require_known_queue(name);
    const core::QueueSettings &settings = settings_for(*find_queue(name), view(spec->kind));
    if (!has_max_attempts) spec->max_attempts = settings.max_attempts;
    if (!spec->expires_at && !spec->expires_in) spec->expires_in = settings.expires_in;
    fill_limits(spec, settings.limits);
}

int64 insert_one(JobsTable *jobs, const JobSpec &spec, TimestampTz now) {
    int64 id;
    insert_jobs(jobs, spec, {&spec.payload}, 1, now, &id);
    return id;
}

NewDependent dependent_of(const JobSpec &spec, int64 id, int number) {
    return {.job = id,
            .depends_on = spec.depends_on,
            .count = spec.depends_on_count,
            .on_failure = spec.on_dependency_failure,
            .number = number};
}

Newcomer newcomer_of(const JobSpec &spec, text *unique_key) { return {spec.queue, unique_key, spec.on_conflict}; }

int hold_known(const Enqueued *enqueued, int count, Datum *over) {
    auto *known = allocate_array<Datum>(static_cast<uint64>(count));
    int known_count = 0, over_count = 0;
    for (int i = 0; i < count; i++) {
        if (enqueued[i].is_new) continue;
        if (enqueued[i].is_over)
            over[over_count++] = Int64GetDatum(enqueued[i].id);
        else
            known[known_count++] = Int64GetDatum(enqueued[i].id);
    }
    over_count = jobs_there(over, over_count);
    std::copy(over, over + over_count, known + known_count);
    const int64 gone = hold_jobs(known, known_count + over_count);
    if (gone == 0) return over_count;
    ereport(ERROR, (errcode(ERRCODE_T_R_SERIALIZATION_FAILURE),
                    errmsg("job %lld, which has the unique key of an element, was deleted concurrently",
                           static_cast<long long>(gone)),
                    errhint("Retry the transaction.")));
    pg_unreachable();
}

Enqueued *enqueue_specs(const JobSpec *specs, int count, const QueueScope *scope, TimestampTz now, int *number) {
    auto *enqueued = allocate_array<Enqueued>(static_cast<uint64>(count));
    auto *elements = allocate_array<Element>(static_cast<uint64>(count));
    for (int i = 0; i < count; i++) elements[i] = {specs + i, i + 1, 0};
    Notes<NewDependent> dependents = {};
    *number = 0;
    admit_elements(elements, count, now);
    JobsTable jobs;
    open_jobs(&jobs);
    int keyed_count = 0;
    for (int i = 0; i < count; i++) {
        *number = elements[i].number;
        if (elements[i].spec->unique_key != nullptr) {
            elements[keyed_count] = elements[i];
            elements[keyed_count++].id = next_job_id();
            continue;
        }
        const int64 id = insert_one(&jobs, *elements[i].spec, now);
        enqueued[i] = {id, true, false};
        add_dependent(&dependents, *elements[i].spec, id, *number);
        // Makes this row visible to user-defined triggers that are fired for the next row.
        CommandCounterIncrement();
    }
    close_jobs(&jobs);
    if (keyed_count > 0) enqueue_keyed_elements(elements, keyed_count, now, number, enqueued, &dependents);
    resolve_dependents(&dependents, enqueued, now, number);
    add_dependencies(dependents.items, dependents.count, scope, number);
    return enqueued;
}

Enqueued *enqueue_json(const Jsonb *specs, int limit, const QueueScope *scope, TimestampTz now, int *count,
                       int64 held_batch) {
    if (!JB_ROOT_IS_ARRAY(specs) || JB_ROOT_IS_SCALAR(specs)) specs_not_objects();
    if (JB_ROOT_COUNT(specs) > static_cast<uint32>(limit))
        ereport(ERROR, (errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
                        errmsg("argument \"specs\" has too many elements: %u", JB_ROOT_COUNT(specs)),
                        errhint("At most %d elements are allowed in one call.", limit)));
    *count = static_cast<int>(JB_ROOT_COUNT(specs));
    if (*count == 0) return nullptr;
    int number = 0;
    ErrorContextCallback context = {error_context_stack, add_element_context, &number};
    error_context_stack = &context;
    const JobSpec *jobs = read_specs(specs, *count, scope, now, held_batch, &number);
    Enqueued *enqueued = enqueue_specs(jobs, *count, scope, now, &number);
    error_context_stack = context.previous;
    return enqueued;
}

}  // namespace jobq
