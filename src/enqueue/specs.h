// The attributes of a job as keys of a JSON object: all of them in an element of jobq_enqueue_jobs, some in the options
// of other calls.
#pragma once

#include "compat/pg.h"
#include "enqueue/enqueue.h"

namespace jobq {

// A job as an object describes it. A null counts as absent.
struct ParsedSpec {
    JobSpec job;
    bool has_max_attempts;
    text *ref;  // nullptr: none
};

// The elements of one call that others may name: "ref", and "@ref" among the dependencies of a later one. Zeroed at
// first.
struct Refs {
    HTAB *table;
};
// 22023 when an earlier element has the same.
void add_ref(Refs *refs, const text *ref, int number);
// Until the jobs have ids, the dependency on an element of the call stands for its number, below all ids.
constexpr int64 kLowestDependency = PG_INT64_MIN + core::kMaxEnqueue + 1;
constexpr int64 dependency_on_element(int number) { return PG_INT64_MIN + number; }

// The calls that take attributes as keys. Each key says which call has an argument for it instead.
enum class KeysOf { Specs, Enqueue, EnqueueMany, Schedule };

// Reads one object. Raises 22023 for an unknown key, a key that the call does not take, or a value of the wrong JSON
// type, and the input function's own error (22P02, 22007, ...) for a string that is not a value of its type. The
// context names the key.
ParsedSpec parse_spec(JsonbContainer *object, TimestampTz now, const Refs &refs, KeysOf call = KeysOf::Specs);
// Adds the options of an enqueue to the job that its arguments describe. Raises the same errors.
void read_options(const Jsonb *options, KeysOf call, JobSpec *job);

// 22023 unless it is one of the choices that jobq_enqueue documents.
core::OnConflict check_on_conflict(const text *value);
core::OnDependencyFailure check_on_dependency_failure(const text *value);

// The job depends on these (int8), each once; none at all: it does not wait.
void take_dependencies(JobSpec *spec, const Datum *ids, int count);

}  // namespace jobq
