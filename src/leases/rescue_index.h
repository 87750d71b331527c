// Enters running jobs into the rescue's index. A claim leaves its job out of the index for the first second
// (leases/young_leases.h). Jobs that run longer are entered here.
#pragma once

#include "compat/pg.h"
#include "compat/subtransaction.h"
#include "leases/young_leases.h"
#include "row/jobs_table.h"

namespace jobq {

// How long a claimed job stays out of the rescue's index, unless its lease expires earlier.
constexpr core::Micros kUnindexed = core::kSecond;

// Marks the jobs that still run under these leases as rescue-indexed. Skips jobs that another transaction holds. Stops
// after `at_most` settled leases. Returns the number of leases for which nothing remains to be done.
int index_leases(const YoungLease *leases, int count, int at_most);

// Makes PREPARE TRANSACTION mark the jobs that the current transaction has claimed. Must be called for each claim that
// enters a lease.
void index_before_prepare();
// For main/jobq.cpp: marks them. Otherwise, the prepared claim could be committed after a restart, which loses its
// lease, by a session that does not know the lease.
void index_own_leases();

// Handles a running job that the current transaction received by replication, if the job is not rescue-indexed. No
// claim of this server has entered its lease.
void index_arrived_job(int64 job, int64 lease, const text *worker_id);
// The same for a job without a lease, which plain SQL can create.
void index_unleased_job(int64 job);

struct UnindexedSearch {
    // the table was read, so more rescue-indexed jobs may have arrived in the same way and the horizon is unknown
    bool looked;
    int64 left_out;       // a job that could not be marked; 0: none
    FailureText failure;  // why it could not be marked
};
// Finds running jobs that have no entry in the rescue index and no young lease, for example after a crash or after a
// restore with disabled triggers. Reads the whole table once after each start and after each change of the triggers.
// Must be called inside with_spi().
UnindexedSearch find_unindexed_jobs();
// Returns when to search again.
TimestampTz next_search_for_unindexed();

// Return the ids of the known running jobs that are not rescue-indexed yet: all such jobs, or the jobs of a worker.
Datum unindexed_jobs();
Datum unindexed_jobs_of_worker(const text *worker_id);

}  // namespace jobq
