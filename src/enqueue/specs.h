// The JSON form of a job: what jobq_enqueue_jobs is given.
#pragma once

#include "compat/pg.h"
#include "enqueue/enqueue.h"

namespace jobq {

// A job as an object describes it. Keys are the names of the parameters of jobq_enqueue, a null counts as absent.
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

// Reads one object. 22023 for an unknown key or a value of the wrong JSON type, the input function's own error (22P02,
// 22007, ...) for a text that is no such value; the context names the key. `argument`: which has the object.
ParsedSpec parse_spec(JsonbContainer *object, TimestampTz now, const Refs &refs, const char *argument = "specs");

// A JSON number as its type's input function reads it: of a whole number in any notation (1.0, 1e2) the digits alone.
char *digits_of(const JsonbValue &number);

// 22023 unless it is one of the choices that jobq_enqueue documents.
core::OnConflict check_on_conflict(const text *value);
core::OnDependencyFailure check_on_dependency_failure(const text *value);

// The job depends on these (int8), each once; none at all: it does not wait.
void take_dependencies(JobSpec *spec, const Datum *ids, int count);

}  // namespace jobq
