// See specs.h. The table below has one row per JSON key, with the function that converts the JSON value and sets the
// member of the job.
#include "compat/pg.h"

#include "compat/args.h"
#include "compat/json_keys.h"
#include "compat/memory.h"
#include "enqueue/specs.h"
#include "job/job_arguments.h"
#include "row/payload.h"

#include <algorithm>

namespace jobq {

namespace {

// The input and output of the function that reads the value of a key.
struct Reading {
    const char *key;
    JsonbValue value;
    ParsedSpec *spec;
    const Refs *refs;
};

constexpr size_t kMaxRefBytes = 63;
struct Ref {
    char name[kMaxRefBytes + 1];  // padded with zeros
    int number;
};

void copy_name(std::string_view name, Ref *ref) {
    memset(ref, 0, sizeof(Ref));
    memcpy(ref->name, name.data(), Min(name.size(), kMaxRefBytes));
}

Datum read_with(const Reading &reading, PGFunction input, const char *wanted) {
    const char *words = text_to_cstring(text_of_key(reading.key, reading.value, wanted));
    return DirectFunctionCall3(input, CStringGetDatum(words), ObjectIdGetDatum(InvalidOid), Int32GetDatum(-1));
}

TimestampTz read_time(const Reading &reading) {
    const Datum time = read_with(reading, timestamptz_in, "a string with a timestamp");
    return check_finite(DatumGetTimestampTz(time), reading.key);
}

Datum read_interval(const Reading &reading) { return read_with(reading, interval_in, "a string with an interval"); }

Datum read_batch_id(const Reading &reading) {
    const Datum id = number_of_key(reading.key, reading.value, int8in, "a number");
    if (DatumGetInt64(id) < 1)
        ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
                        errmsg("argument \"%s\" must be at least 1, not %lld", reading.key,
                               static_cast<long long>(DatumGetInt64(id))),
                        errhint("Use the id that jobq_create_batch() returned.")));
    return id;
}

Datum read_names(const Reading &reading) {
    if (reading.value.type != jbvBinary || !JsonContainerIsArray(reading.value.val.binary.data))
        wrong_json_type(reading.key, "an array of strings");
    JsonbContainer *array = reading.value.val.binary.data;
    auto *names = static_cast<Datum *>(palloc(sizeof(Datum) * Max(JsonContainerSize(array), 1)));
    int count = 0;
    JsonbIterator *iterator = JsonbIteratorInit(array);
    JsonbValue value;
    JsonbIteratorNext(&iterator, &value, true);  // the array itself
    while (JsonbIteratorNext(&iterator, &value, true) == WJB_ELEM) {
        if (value.type != jbvString) wrong_json_type(reading.key, "an array of strings");
        names[count++] = PointerGetDatum(cstring_to_text_with_len(value.val.string.val, value.val.string.len));
    }
    return array_of(names, count, TEXTOID);
}

Datum read_json(const Reading &reading) {
    const Datum json = PointerGetDatum(JsonbValueToJsonb(const_cast<JsonbValue *>(&reading.value)));
    check_json_size(json, reading.key);
    return json;
}

int64 element_of_ref(const Refs &refs, std::string_view name) {
    Ref wanted;
    copy_name(name, &wanted);
    const auto *found = refs.table == nullptr || name.size() > kMaxRefBytes
                            ? nullptr
                            : static_cast<Ref *>(hash_search(refs.table, wanted.name, HASH_FIND, nullptr));
    if (found != nullptr) return dependency_on_element(found->number);
    ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
                    errmsg("argument \"depends_on\" names \"@%.*s\", which is not the \"ref\" of an earlier element",
                           shown_bytes(name), name.data()),
                    errhint("Place each element after the elements that it depends on.")));
    pg_unreachable();
}

void read_dependencies(const Reading &reading) {
    if (reading.value.type != jbvBinary || !JsonContainerIsArray(reading.value.val.binary.data))
        wrong_json_type(reading.key, "an array of numbers");
    JsonbContainer *array = reading.value.val.binary.data;
    if (JsonContainerSize(array) > static_cast<uint32>(core::kMaxBatch))
        ereport(ERROR, (errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
                        errmsg("argument \"%s\" has too many elements: %u", reading.key, JsonContainerSize(array)),
                        errhint("At most %d elements are allowed in one call.", core::kMaxBatch)));
    auto *ids = static_cast<Datum *>(palloc(sizeof(Datum) * Max(JsonContainerSize(array), 1)));
    int count = 0;
    JsonbIterator *iterator = JsonbIteratorInit(array);
    JsonbValue value;
    JsonbIteratorNext(&iterator, &value, true);  // the array itself
    while (JsonbIteratorNext(&iterator, &value, true) == WJB_ELEM) {
        if (value.type == jbvNull)
            ereport(ERROR, (errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
                            errmsg("argument \"%s\" must not contain NULL elements", reading.key),
                            errhint("Specify each job by its id.")));
        if (value.type == jbvString && value.val.string.len > 0 && value.val.string.val[0] == '@') {
            const size_t length = static_cast<size_t>(value.val.string.len) - 1;
            ids[count++] = Int64GetDatum(element_of_ref(*reading.refs, {value.val.string.val + 1, length}));
        } else {
            const int64 id = DatumGetInt64(number_of_key(reading.key, value, int8in, "an array of numbers"));
            ids[count++] = Int64GetDatum(Max(id, kLowestDependency));
        }
    }
    take_dependencies(&reading.spec->job, ids, count);
}

// How a call takes an attribute of its jobs: as an argument, or as a key of its options. kSpecOnly means that the call
// takes the attribute in neither way; only the array elements that are passed to jobq_enqueue_jobs can have it.
enum Way { kArgument, kOption, kSpecOnly };

struct Key {
    const char *name;
    Way enqueue, many, schedule;
    void (*read)(const Reading &reading);
    const char *argument_of_many = nullptr;  // if it differs from the key's name
};

// Returns whether JSON null is a valid value of the key. For other keys, null means that the key is absent.
bool null_is_value(const Key &key) { return std::string_view(key.name) == "payload"; }

// All keys, and how each call takes them. Keys that determine the queue or the shard of a job are arguments, because
// the privilege checks and the router read only arguments.
constexpr Key kKeys[] = {
    {"queue", kArgument, kArgument, kArgument,
     [](const Reading &r) { r.spec->job.queue = text_of_key(r.key, r.value); }},
    {"payload", kArgument, kArgument, kArgument, [](const Reading &r) { r.spec->job.payload = read_json(r); },
     "payloads"},
    {"kind", kArgument, kArgument, kArgument, [](const Reading &r) { r.spec->job.kind = text_of_key(r.key, r.value); }},
    {"priority", kArgument, kArgument, kOption,
     [](const Reading &r) { r.spec->job.priority = check_priority(int_of_key(r.key, r.value), r.key); }},
    {"run_at", kArgument, kArgument, kSpecOnly, [](const Reading &r) { r.spec->job.run_at = read_time(r); }},
    {"max_attempts", kArgument, kArgument, kOption,
     [](const Reading &r) {
         r.spec->job.max_attempts = check_positive(int_of_key(r.key, r.value), r.key);
         r.spec->has_max_attempts = true;
     }},
    {"version", kOption, kOption, kOption, [](const Reading &r) { r.spec->job.version = int_of_key(r.key, r.value); }},
    {"requires", kOption, kOption, kOption, [](const Reading &r) { r.spec->job.optional[kRequires] = read_names(r); }},
    {"heartbeat_timeout", kOption, kOption, kOption,
     [](const Reading &r) { r.spec->job.optional[kHeartbeatTimeout] = read_interval(r); }},
    {"max_runtime", kOption, kOption, kOption,
     [](const Reading &r) { r.spec->job.optional[kMaxRuntime] = read_interval(r); }},
    {"expires_at", kOption, kOption, kSpecOnly, [](const Reading &r) { r.spec->job.expires_at = read_time(r); }},
    {"expires_in", kOption, kOption, kOption,
     [](const Reading &r) { r.spec->job.expires_in = check_expires_in(DatumGetIntervalP(read_interval(r))); }},
    {"metadata", kArgument, kOption, kOption, [](const Reading &r) { r.spec->job.optional[kMetadata] = read_json(r); }},
    {"unique_key", kArgument, kArgument, kOption,
     [](const Reading &r) { r.spec->job.unique_key = text_of_key(r.key, r.value); }, "unique_keys"},
    {"unique_for", kArgument, kOption, kOption,
     [](const Reading &r) { r.spec->job.optional[kUniqueFor] = read_interval(r); }},
    {"on_conflict", kArgument, kOption, kOption,
     [](const Reading &r) { r.spec->job.on_conflict = check_on_conflict(text_of_key(r.key, r.value)); }},
    {"on_dependency_failure", kArgument, kSpecOnly, kOption,
     [](const Reading &r) {
         r.spec->job.on_dependency_failure = check_on_dependency_failure(text_of_key(r.key, r.value));
     }},
    {"depends_on", kArgument, kSpecOnly, kSpecOnly, read_dependencies},
    {"ref", kSpecOnly, kSpecOnly, kSpecOnly,
     [](const Reading &r) {
         r.spec->ref = text_of_key(r.key, r.value);
         check_name(view(r.spec->ref), r.key, kMaxRefBytes, false);
     }},
    {"group_key", kArgument, kArgument, kOption,
     [](const Reading &r) { r.spec->job.group_key = text_of_key(r.key, r.value); }, "group_keys"},
    {"concurrency_key", kArgument, kArgument, kOption,
     [](const Reading &r) { r.spec->job.concurrency_key = text_of_key(r.key, r.value); }, "concurrency_keys"},
    {"batch_id", kOption, kOption, kSpecOnly,
     [](const Reading &r) { r.spec->job.optional[kBatchId] = read_batch_id(r); }},
    {"limits", kOption, kOption, kOption, [](const Reading &r) { r.spec->job.optional[kLimits] = read_names(r); }},
};

bool is_about_conflicts(const Key &key) {
    const std::string_view name = key.name;
    return name == "unique_key" || name == "unique_for" || name == "on_conflict" || name == "on_dependency_failure";
}

Way way_of(const Key &key, KeysOf call) {
    // A callback has the attributes of a job of a schedule, but no unique key, so that it is always a new job.
    const bool of_callback = key.schedule != kSpecOnly && !is_about_conflicts(key);
    const Way ways[] = {kOption, key.enqueue, key.many, key.schedule, of_callback ? kOption : kSpecOnly};
    return ways[static_cast<int>(call)];
}

// Raises the error for a key that is an attribute of a job but not an option of this call.
[[noreturn]] void refuse_attribute(const Key &key, KeysOf call) {
    if (way_of(key, call) == kArgument)
        refuse_typed_key(
            "options", key.name,
            call == KeysOf::EnqueueMany && key.argument_of_many != nullptr ? key.argument_of_many : key.name);
    if (call == KeysOf::Callback)
        ereport(ERROR,
                (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
                 errmsg("a callback of a batch must not have the key \"%s\"", key.name),
                 errhint("Remove the key. jobq enqueues the callback as a new job when the batch has ended, and the "
                         "callback cannot join a batch or depend on other jobs.")));
    ereport(
        ERROR,
        (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
         errmsg("argument \"options\" must not have the key \"%s\"", key.name),
         call == KeysOf::Schedule
             ? errhint(
                   "Remove the key. A schedule sets the time of each run, and its jobs cannot depend on other jobs or "
                   "join a batch.")
             : errhint("Use jobq_enqueue_jobs(), which accepts this key in its elements.")));
    pg_unreachable();
}

const Key &find_key(std::string_view name, KeysOf call, const char *argument) {
    for (const Key &key : kKeys) {
        if (name != key.name) continue;
        if (way_of(key, call) != kOption) refuse_attribute(key, call);
        return key;
    }
    UnknownKey unknown(name);
    for (const Key &key : kKeys)
        if (way_of(key, call) == kOption) unknown.add_known(key.name);
    unknown.refuse(argument);
}

void read_key(const JsonKey &given, KeysOf call, const char *argument, ParsedSpec *spec, const Refs &refs) {
    const Key &key = find_key(given.name, call, argument);
    if (given.value.type == jbvNull && !null_is_value(key)) return;
    const Reading reading = {key.name, given.value, spec, &refs};
    with_key_context(key.name, [&] { key.read(reading); });
}

}  // namespace

core::OnConflict check_on_conflict(const text *value) {
    return require_choice<core::OnConflict>("on_conflict", view(value), core::kOnConflictNames);
}

core::OnDependencyFailure check_on_dependency_failure(const text *value) {
    return require_choice<core::OnDependencyFailure>("on_dependency_failure", view(value),
                                                     core::kOnDependencyFailureNames);
}

void take_dependencies(JobSpec *spec, const Datum *ids, int count) {
    spec->depends_on = static_cast<int64 *>(palloc(sizeof(int64) * Max(count, 1)));
    for (int i = 0; i < count; i++) spec->depends_on[i] = DatumGetInt64(ids[i]);
    std::sort(spec->depends_on, spec->depends_on + count);
    spec->depends_on_count =
        static_cast<int>(std::unique(spec->depends_on, spec->depends_on + count) - spec->depends_on);
}

void add_ref(Refs *refs, const text *ref, int number) {
    if (refs->table == nullptr)
        refs->table = make_hash_table("jobq refs", kMaxRefBytes + 1, sizeof(Ref), CurrentMemoryContext);
    Ref added;
    copy_name(view(ref), &added);
    bool found;
    auto *entry = static_cast<Ref *>(hash_search(refs->table, added.name, HASH_ENTER, &found));
    if (found)
        ereport(ERROR,
                (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
                 errmsg("value \"%s\" of argument \"ref\" is already used by element %d", added.name, entry->number),
                 errhint("Specify a unique \"ref\" for each element that other elements depend on.")));
    entry->number = number;
}

ParsedSpec parse_spec(JsonbContainer *object, TimestampTz now, const Refs &refs, KeysOf call, const char *argument) {
    ParsedSpec spec = {};
    spec.job.run_at = now;
    for_each_key(object, [&](const JsonKey &key) { read_key(key, call, argument, &spec, refs); });
    if (spec.job.queue == nullptr) spec.job.queue = make_text(core::kDefaultQueue);
    if (spec.job.kind == nullptr) spec.job.kind = make_text("");
    if (spec.job.payload == Datum(0)) spec.job.payload = DirectFunctionCall1(jsonb_in, CStringGetDatum("{}"));
    return spec;
}

void read_options(const Jsonb *options, KeysOf call, JobSpec *job) {
    require_object(options, "options", "Use an object such as '{\"max_runtime\": \"5 min\"}'.");
    ParsedSpec spec = {*job, false, nullptr};
    for_each_key(const_cast<JsonbContainer *>(&options->root),
                 [&](const JsonKey &key) { read_key(key, call, "options", &spec, Refs{}); });
    *job = spec.job;
}

}  // namespace jobq
