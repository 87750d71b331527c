// Claims a job for an executor, and ends the attempt of this job.
#pragma once

#include "claim/claim_functions.h"
#include "compat/pg.h"
#include "handlers/known_handlers.h"

namespace jobq {

// The columns that jobq_claim would return, except id and lease.
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

// Worker name of all executors of a database. They share one name so that they run only one suspect at a time
// (leases/suspects.h), because a job that crashes one server process ends all executors. Other workers cannot use a
// name with this prefix (claim/claim_functions.h); otherwise, such a worker could hold a suspect and thus keep the
// executors from claiming one.
constexpr const char kExecutorWorker[] = JOBQ_BACKEND_WORKER "executor";

// Claims a job for the handler and copies its row to `memory`. Returns false if no job can be claimed.
bool claim_for_handler(const KnownHandler &known, MemoryContext memory, HandlerJob *job);

// Returns the argument of the handler: the row as a JSON object. The object is not built during the claim, so that an
// error in building it fails only this job and does not block the jobs after it.
Datum argument_of(const HandlerJob &job);

// Completes the job with the result. Raises JQ001 if the executor does not hold the job, unless the handler has ended
// the job itself in this transaction or in one that has committed.
void complete_handled(const HandlerJob &job, bool has_result, Datum result);
// Records that the handler has failed; `stopped` means that it was interrupted. Returns false and records nothing if
// the executor no longer holds the job.
bool fail_handled(const HandlerJob &job, const char *error, bool stopped);
// Returns the job to its queue. The attempt does not count, because the handler was not called.
void give_back_handled(const HandlerJob &job);

// Sets the job that the session's handler works on; nullptr for none.
void begin_handled(const HandlerJob *job);

// main/jobq.cpp calls the first function when a lease has ended for any reason, and the second one before the
// transaction commits.
void note_lease_end(int64 job, int64 lease);
void note_end_before_commit();

}  // namespace jobq
