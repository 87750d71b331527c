// Reads the attributes of a job from the keys of a JSON object. An element of the array that is passed to
// jobq_enqueue_jobs can set all attributes. The options of other calls can set some of them.
#pragma once

#include "compat/pg.h"
#include "enqueue/enqueue.h"

namespace jobq {

// A job that was read from an object. A null value counts as an absent key.
struct ParsedSpec {
    JobSpec job;
    bool has_max_attempts;
    text *ref;  // nullptr: none
};

// Maps the "ref" of each element of a call to the number of the element. Later elements can name the ref as "@ref" in
// their dependencies. Must be zeroed before use.
struct Refs {
    HTAB *table;
};
// Raises 22023 if an earlier element has the same ref.
void add_ref(Refs *refs, const text *ref, int number);
// Until the jobs of the call have ids, a dependency on an element of the call is stored as PG_INT64_MIN plus the number
// of the element. This sum is lower than any job id.
constexpr int64 kLowestDependency = PG_INT64_MIN + core::kMaxEnqueue + 1;
constexpr int64 dependency_on_element(int number) { return PG_INT64_MIN + number; }

// The calls that take attributes as JSON keys. kKeys in specs.cpp says for each key which calls take the attribute as
// an argument instead.
enum class KeysOf { Specs, Enqueue, EnqueueMany, Schedule, Callback };

// Reads one object. Raises 22023 for an unknown key, for a key that the call does not take, and for a value of the
// wrong JSON type. If a string is not a valid value, raises the error of the type's input function (22P02, 22007, ...).
// The error context names the key. `argument` is the name of the argument that contains the object.
ParsedSpec parse_spec(JsonbContainer *object, TimestampTz now, const Refs &refs, KeysOf call, const char *argument);
// Sets those attributes of the job that are in the options of the call. Raises the same errors as parse_spec().
void read_options(const Jsonb *options, KeysOf call, JobSpec *job);

// These functions convert the value, which must be one of the values that are documented for jobq_enqueue. They raise
// 22023 for any other value.
core::OnConflict check_on_conflict(const text *value);
core::OnDependencyFailure check_on_dependency_failure(const text *value);

// Sets the dependencies of the job to these ids (int8), without duplicates. If `count` is 0, the job depends on no
// other job.
void take_dependencies(JobSpec *spec, const Datum *ids, int count);

}  // namespace jobq
