// A job in the hands of an executor: its claim, and how its attempt ends.
#pragma once

#include "claim/claim_functions.h"
#include "compat/pg.h"
#include "handlers/known_handlers.h"

namespace jobq {

// What jobq_claim would return of it, but for its id and lease.
struct HandlerJobRow {
    text *queue, *kind;
    Jsonb *payload, *progress, *metadata;  // nullptr: NULL
    int attempt, max_attempts, priority, version;
    TimestampTz run_at, created_at;
};

struct HandlerJob {
    int64 id, lease;
    bool has_settings;
    HandlerJobRow row;
};

// What executors are called as workers, all of a database alike: of jobs that have lost a worker before, one at a time
// is run among all of them (leases/suspects.h), since what kills one process of a server ends them all. Nobody else can
// take a name with this prefix (claim/claim_functions.h): with a suspect under it he would keep theirs from them.
constexpr const char kExecutorWorker[] = JOBQ_BACKEND_WORKER "executor";

// Claims a job of the handler. Its row is kept in `memory`. False: there is none.
bool claim_for_handler(const KnownHandler &known, MemoryContext memory, HandlerJob *job);

// What the handler is called with: the row as an object. Not made by the claim: a job of which none can be made has
// failed, and no other waits behind it.
Datum argument_of(const HandlerJob &job);

// Completes the job with the result. JQ001 unless it is held, or the handler has ended it itself in a transaction that
// has committed, or that is this one.
void complete_handled(const HandlerJob &job, bool has_result, Datum result);
// The handler has failed; `stopped`: since it was interrupted. False: the job is not held any more, and nobody hears of
// the error.
bool fail_handled(const HandlerJob &job, const char *error, bool stopped);
// Nobody has tried: the attempt does not count.
void give_back_handled(const HandlerJob &job);

// From now on the job is the one that the session's handler works on; nullptr: none is.
void begin_handled(const HandlerJob *job);

// For main/jobq.cpp: a lease has ended, whoever says so; and before the commit of a transaction in which that was done.
void note_lease_end(int64 job, int64 lease);
void note_end_before_commit();

}  // namespace jobq
