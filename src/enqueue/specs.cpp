// See specs.h. One row of the table below per key; its reader turns the JSON value into the job's member.
#include "compat/pg.h"

#include "compat/args.h"
#include "compat/memory.h"
#include "enqueue/specs.h"
#include "job/payload.h"

#include <algorithm>

namespace jobq {

namespace {

// What a key's reader works on.
struct Reading {
    const char *key;
    JsonbValue value;
    ParsedSpec *spec;
    const Refs *refs;
};

constexpr size_t kMaxRefBytes = 63;
struct Ref {
    char name[kMaxRefBytes + 1];  // filled up with zeros
    int number;
};

void copy_name(std::string_view name, Ref *ref) {
    memset(ref, 0, sizeof(Ref));
    memcpy(ref->name, name.data(), Min(name.size(), kMaxRefBytes));
}

[[noreturn]] void wrong_type(const Reading &reading, const char *wanted) {
    ereport(ERROR,
            (errcode(ERRCODE_INVALID_PARAMETER_VALUE), errmsg("argument \"%s\" must be %s", reading.key, wanted),
             errhint("The value must be of the JSON type that the parameter of jobq_enqueue() would be written as.")));
    pg_unreachable();
}

char *string_of(const JsonbValue &value) { return pnstrdup(value.val.string.val, value.val.string.len); }

text *read_text(const Reading &reading) {
    if (reading.value.type != jbvString) wrong_type(reading, "a string");
    return cstring_to_text_with_len(reading.value.val.string.val, reading.value.val.string.len);
}

// A number, or a string that reads as one: drivers without 64-bit integers return ids as strings.
Datum read_number(const Reading &reading, const JsonbValue &value, PGFunction input, const char *wanted) {
    if (value.type == jbvString) return DirectFunctionCall1(input, CStringGetDatum(string_of(value)));
    if (value.type != jbvNumeric) wrong_type(reading, wanted);
    return DirectFunctionCall1(input, CStringGetDatum(digits_of(value)));
}

int32 read_int(const Reading &reading) {
    return DatumGetInt32(read_number(reading, reading.value, int4in, "a number"));
}

Datum read_with(const Reading &reading, PGFunction input, const char *wanted) {
    if (reading.value.type != jbvString) wrong_type(reading, wanted);
    return DirectFunctionCall3(input, CStringGetDatum(string_of(reading.value)), ObjectIdGetDatum(InvalidOid),
                               Int32GetDatum(-1));
}

ArrayType *read_names(const Reading &reading) {
    if (reading.value.type != jbvBinary || !JsonContainerIsArray(reading.value.val.binary.data))
        wrong_type(reading, "an array of strings");
    JsonbContainer *array = reading.value.val.binary.data;
    auto *names = static_cast<Datum *>(palloc(sizeof(Datum) * Max(JsonContainerSize(array), 1)));
    int count = 0;
    JsonbIterator *iterator = JsonbIteratorInit(array);
    JsonbValue value;
    JsonbIteratorNext(&iterator, &value, true);  // the array itself
    while (JsonbIteratorNext(&iterator, &value, true) == WJB_ELEM) {
        if (value.type != jbvString) wrong_type(reading, "an array of strings");
        names[count++] = PointerGetDatum(cstring_to_text_with_len(value.val.string.val, value.val.string.len));
    }
    return DatumGetArrayTypeP(array_of(names, count, TEXTOID));
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
                    errmsg("argument \"depends_on\" names \"@%.*s\", which is the ref of no earlier element",
                           shown_bytes(name), name.data()),
                    errhint("An element may depend on those that stand before it in the array.")));
    pg_unreachable();
}

void read_dependencies(const Reading &reading) {
    if (reading.value.type != jbvBinary || !JsonContainerIsArray(reading.value.val.binary.data))
        wrong_type(reading, "an array of numbers");
    JsonbContainer *array = reading.value.val.binary.data;
    if (JsonContainerSize(array) > static_cast<uint32>(core::kMaxBatch))
        ereport(ERROR, (errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
                        errmsg("argument \"%s\" has too many elements: %u", reading.key, JsonContainerSize(array)),
                        errhint("At most %d are allowed in one call.", core::kMaxBatch)));
    auto *ids = static_cast<Datum *>(palloc(sizeof(Datum) * Max(JsonContainerSize(array), 1)));
    int count = 0;
    JsonbIterator *iterator = JsonbIteratorInit(array);
    JsonbValue value;
    JsonbIteratorNext(&iterator, &value, true);  // the array itself
    while (JsonbIteratorNext(&iterator, &value, true) == WJB_ELEM) {
        if (value.type == jbvNull)
            ereport(ERROR, (errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
                            errmsg("argument \"%s\" must not contain NULL elements", reading.key),
                            errhint("Name jobs by their ids.")));
        if (value.type == jbvString && value.val.string.len > 0 && value.val.string.val[0] == '@') {
            const size_t length = static_cast<size_t>(value.val.string.len) - 1;
            ids[count++] = Int64GetDatum(element_of_ref(*reading.refs, {value.val.string.val + 1, length}));
        } else {
            const int64 id = DatumGetInt64(read_number(reading, value, int8in, "an array of numbers"));
            ids[count++] = Int64GetDatum(Max(id, kLowestDependency));
        }
    }
    take_dependencies(&reading.spec->job, ids, count);
}

struct Key {
    const char *name;
    void (*read)(const Reading &reading);
    bool null_is_value;
};

constexpr Key kKeys[] = {
    {"queue", [](const Reading &r) { r.spec->job.queue = read_text(r); }, false},
    {"payload", [](const Reading &r) { r.spec->job.payload = read_json(r); }, true},
    {"kind", [](const Reading &r) { r.spec->job.kind = read_text(r); }, false},
    {"priority", [](const Reading &r) { r.spec->job.priority = check_priority(read_int(r), r.key); }, false},
    {"run_at",
     [](const Reading &r) {
         const Datum run_at = read_with(r, timestamptz_in, "a string with a timestamp");
         r.spec->job.run_at = check_finite(DatumGetTimestampTz(run_at), r.key);
     },
     false},
    {"max_attempts",
     [](const Reading &r) {
         r.spec->job.max_attempts = check_positive(read_int(r), r.key);
         r.spec->has_max_attempts = true;
     },
     false},
    {"version", [](const Reading &r) { r.spec->job.version = read_int(r); }, false},
    {"requires", [](const Reading &r) { r.spec->job.required = read_names(r); }, false},
    {"heartbeat_timeout",
     [](const Reading &r) {
         r.spec->job.heartbeat_timeout = DatumGetIntervalP(read_with(r, interval_in, "a string with an interval"));
     },
     false},
    {"metadata",
     [](const Reading &r) {
         r.spec->job.metadata = read_json(r);
         r.spec->job.has_metadata = true;
     },
     false},
    {"unique_key", [](const Reading &r) { r.spec->job.unique_key = read_text(r); }, false},
    {"unique_for",
     [](const Reading &r) {
         r.spec->job.unique_for = DatumGetIntervalP(read_with(r, interval_in, "a string with an interval"));
     },
     false},
    {"on_conflict", [](const Reading &r) { r.spec->job.on_conflict = check_on_conflict(read_text(r)); }, false},
    {"on_dependency_failure",
     [](const Reading &r) { r.spec->job.on_dependency_failure = check_on_dependency_failure(read_text(r)); }, false},
    {"depends_on", read_dependencies, false},
    {"ref",
     [](const Reading &r) {
         r.spec->ref = read_text(r);
         check_name(view(r.spec->ref), r.key, kMaxRefBytes, false);
     },
     false},
    {"group_key", [](const Reading &r) { r.spec->job.group_key = read_text(r); }, false},
    {"concurrency_key", [](const Reading &r) { r.spec->job.concurrency_key = read_text(r); }, false},
    {"max_runtime",
     [](const Reading &r) {
         r.spec->job.max_runtime = DatumGetIntervalP(read_with(r, interval_in, "a string with an interval"));
     },
     false},
};

const Key &find_key(std::string_view name, const char *argument) {
    for (const Key &key : kKeys)
        if (name == key.name) return key;
    refuse_key(argument, name, "The keys are the names of the parameters of jobq_enqueue().");
}

void add_key_context(void *reading) { errcontext("key \"%s\"", static_cast<Reading *>(reading)->key); }

void read_key(std::string_view name, const JsonbValue &value, const char *argument, ParsedSpec *spec,
              const Refs &refs) {
    const Key &key = find_key(name, argument);
    if (value.type == jbvNull && !key.null_is_value) return;
    Reading reading = {key.name, value, spec, &refs};
    ErrorContextCallback context = {error_context_stack, add_key_context, &reading};
    error_context_stack = &context;
    key.read(reading);
    error_context_stack = context.previous;
}

}  // namespace

char *digits_of(const JsonbValue &number) {
    const Datum trimmed = DirectFunctionCall1(numeric_trim_scale, NumericGetDatum(number.val.numeric));
    return DatumGetCString(DirectFunctionCall1(numeric_out, trimmed));
}

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
        ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
                        errmsg("argument \"ref\" is that of element %d already: \"%s\"", entry->number, added.name),
                        errhint("Give each element that others depend on a ref of its own.")));
    entry->number = number;
}

ParsedSpec parse_spec(JsonbContainer *object, TimestampTz now, const Refs &refs, const char *argument) {
    ParsedSpec spec = {};
    spec.job.run_at = now;
    JsonbIterator *iterator = JsonbIteratorInit(object);
    JsonbValue key;
    JsonbValue value;
    JsonbIteratorNext(&iterator, &key, true);  // the object itself
    while (JsonbIteratorNext(&iterator, &key, true) == WJB_KEY) {
        JsonbIteratorNext(&iterator, &value, true);
        read_key({key.val.string.val, static_cast<size_t>(key.val.string.len)}, value, argument, &spec, refs);
    }
    if (spec.job.queue == nullptr) spec.job.queue = make_text(core::kDefaultQueue);
    if (spec.job.kind == nullptr) spec.job.kind = make_text("");
    if (spec.job.payload == Datum(0)) spec.job.payload = DirectFunctionCall1(jsonb_in, CStringGetDatum("{}"));
    return spec;
}

}  // namespace jobq
