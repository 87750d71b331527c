// Claims a job for an executor, and ends the attempt of this job.
#pragma once

#include "claim/claim_functions.h"
#include "compat/pg.h"
#include "handlers/known_handlers.h"

namespace jobq {

// The columns of a claimed job that jobq_claim would return, except id and lease.
struct HandlerJobRow {
    text *queue, *kind;
    Jsonb *payload, *progress, *metadata;  // nullptr for NULL
    int attempt, max_attempts, priority, version;
    TimestampTz run_at, created_at;
};

struct HandlerJob {
    int64 id, lease;
    bool has_settings;
    HandlerJobRow row;
};

// Name of the worker under which all executors of a database claim jobs. They share one name so that they run only one
// suspect at a time (leases/suspects.h), because a job that crashes one server process ends all executors. Other
// workers cannot use a name with this prefix (claim/claim_functions.h). Otherwise, such a worker could hold a suspect
// and thus keep the executors from claiming another suspect.
constexpr const char kExecutorWorker[] = JOBQ_BACKEND_WORKER "executor";

// Claims a job for the handler and copies its row to `memory`. Returns false if no job can be claimed.
bool claim_for_handler(const KnownHandler &known, MemoryContext memory, HandlerJob *job);

// Returns the argument of the handler, which is the row as a JSON object. The claim does not build the object, so that
// an error while the object is built makes only this job fail and does not block the jobs that come after it.
Datum argument_of(const HandlerJob &job);

// Completes the job with the result. Raises JQ001 if the executor does not hold the job, unless the handler itself has
// ended the job in this transaction or in a transaction that has committed.
void complete_handled(const HandlerJob &job, bool has_result, Datum result);
// Records that the handler has failed with this error, whose text is `text`. `stopped` means that the handler was
// interrupted. Returns false and records nothing if the executor no longer holds the job.
bool fail_handled(const HandlerJob &job, const ErrorData *error, const char *text, bool stopped);
// Gives the job back to its queue. The attempt does not count, because the handler was not called.
void give_back_handled(const HandlerJob &job);

// Sets the job on which the handler in this session is working; nullptr means that no handler is working.
void begin_handled(const HandlerJob *job);

// main/jobq.cpp calls note_lease_end() when a lease has ended for any reason, and note_end_before_commit() before the
// transaction commits.
void note_lease_end(int64 job, int64 lease);
void note_end_before_commit();

}  // namespace jobq
