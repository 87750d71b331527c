// Enters running jobs into the rescue index, in which the rescue finds expired leases. A claim does not enter its job,
// because most jobs end within a second (leases/young_leases.h). This module enters the jobs that run longer.
#pragma once

#include "compat/pg.h"
#include "compat/subtransaction.h"
#include "leases/young_leases.h"
#include "row/jobs_table.h"

namespace jobq {

// Time after which a claimed job is entered into the rescue index. A job whose lease expires earlier is entered
// earlier.
constexpr core::Micros kUnindexed = core::kSecond;

// Marks the jobs that still run under these leases as rescue-indexed. Skips jobs that another transaction has locked.
// Returns the number of leases that were not skipped, and stops when this number reaches `at_most`.
int index_leases(const YoungLease *leases, int count, int at_most);

// Makes PREPARE TRANSACTION mark the jobs that the current transaction has claimed as rescue-indexed. Every claim that
// calls enter_lease() must call this function.
void index_before_prepare();
// Marks the jobs that the current transaction has claimed as rescue-indexed. Called by main/jobq.cpp during PREPARE
// TRANSACTION. This is necessary because the young leases in shared memory are lost in a restart, and the prepared
// claim may be committed after a restart.
void index_own_leases();

// Enters a running job that the current transaction received through replication and that is not rescue-indexed. This
// is necessary because its lease was entered only on the server where the job was claimed.
void index_arrived_job(int64 job, int64 lease, const text *worker_id);
// Enters a running job without a lease into the rescue index. Plain SQL can create such a job.
void index_unleased_job(int64 job);

struct UnindexedSearch {
    // true if the table was read, which happens when rows may have bypassed the triggers, so that the horizon may be
    // wrong
    bool looked;
    int64 left_out;       // a job that could not be marked, or 0 if all were marked
    FailureText failure;  // why it could not be marked
};
// Finds running jobs that have neither an entry in the rescue index nor a young lease, for example after a crash or
// after a restore with disabled triggers, and enters them. Reads the whole table once after each server start and after
// each change to the triggers. Call it inside with_spi().
UnindexedSearch find_unindexed_jobs();
// Returns the time at which to call find_unindexed_jobs() again.
TimestampTz next_search_for_unindexed();

// Return the ids of the running jobs with young leases, which are not rescue-indexed yet: all such jobs, or the jobs of
// one worker.
Datum unindexed_jobs();
Datum unindexed_jobs_of_worker(const text *worker_id);

}  // namespace jobq
