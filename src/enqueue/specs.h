// Reads the attributes of a job from the keys of a JSON object: all attributes in an element of jobq_enqueue_jobs, some
// in the options of other calls.
#pragma once

#include "compat/pg.h"
#include "enqueue/enqueue.h"

namespace jobq {

// A job that was read from an object. A null counts as absent.
struct ParsedSpec {
    JobSpec job;
    bool has_max_attempts;
    text *ref;  // nullptr: none
};

// The elements of a call by their "ref". Later elements can name them as "@ref" in their dependencies. Zeroed at first.
struct Refs {
    HTAB *table;
};
// Raises 22023 if an earlier element has the same ref.
void add_ref(Refs *refs, const text *ref, int number);
// Until the jobs have ids, a dependency on an element of the call is the element's number plus PG_INT64_MIN, which is
// below all ids.
constexpr int64 kLowestDependency = PG_INT64_MIN + core::kMaxEnqueue + 1;
constexpr int64 dependency_on_element(int number) { return PG_INT64_MIN + number; }

// The calls that take attributes as keys. The table of keys says which calls have an argument for a key instead.
enum class KeysOf { Specs, Enqueue, EnqueueMany, Schedule };

// Reads one object. Raises 22023 for an unknown key, a key that the call does not take, or a value of the wrong JSON
// type, and the input function's own error (22P02, 22007, ...) for a string that is not a value of its type. The
// context names the key.
ParsedSpec parse_spec(JsonbContainer *object, TimestampTz now, const Refs &refs, KeysOf call = KeysOf::Specs);
// Adds the options of an enqueue to the job that its arguments describe. Raises the same errors.
void read_options(const Jsonb *options, KeysOf call, JobSpec *job);

// Raise 22023 unless the value is one of the choices that jobq_enqueue documents.
core::OnConflict check_on_conflict(const text *value);
core::OnDependencyFailure check_on_dependency_failure(const text *value);

// Sets the dependencies of the job to these ids (int8), without duplicates. Without ids, the job does not wait.
void take_dependencies(JobSpec *spec, const Datum *ids, int count);

}  // namespace jobq
