// Which running jobs the rescue looks at. A claim leaves its job out of the rescue's index for the first second
// (leases/young_leases.h): here those that still run then enter it.
#pragma once

#include "compat/pg.h"
#include "compat/subtransaction.h"
#include "leases/young_leases.h"
#include "row/jobs_table.h"

namespace jobq {

// How long a claim is left out of the rescue's index, unless its lease runs out before.
constexpr core::Micros kUnindexed = core::kSecond;

// Marks the jobs of these leases that still run under them, and returns of how many leases nothing is left to be done,
// at most `at_most`. Jobs that somebody holds are left for the next time.
int index_leases(const YoungLease *leases, int count, int at_most);

// PREPARE TRANSACTION of the current transaction will mark what it has claimed. For every claim that enters a lease.
void index_before_prepare();
// For main/jobq.cpp: does so, since a prepared claim may be committed after a restart, which forgets its lease, by a
// session that knows nothing of it.
void index_own_leases();

// A running job has come with the current transaction that is not rescue-indexed, and that no claim of this server has
// entered: by replication.
void index_arrived_job(int64 job, int64 lease, const text *worker_id);
// The same for one without a lease, as it is left by hand.
void index_unleased_job(int64 job);

struct UnindexedSearch {
    bool looked;     // into the table: rescue-indexed jobs may have come the same way, the horizon says nothing of them
    int64 left_out;  // a job that could not be marked; 0: there is none
    FailureText failure;  // why
};
// Jobs that run outside the rescue's index without anybody having been told, as a crash leaves them, or a restore with
// triggers disabled: found once after each start and once after each change of the triggers, by reading the whole
// table. Inside with_spi().
UnindexedSearch find_unindexed_jobs();
// When that is to be done again.
TimestampTz next_search_for_unindexed();

// The ids of the jobs that are not rescue-indexed yet, as far as they are known: all, or those of a worker.
Datum unindexed_jobs();
Datum unindexed_jobs_of_worker(const text *worker_id);

}  // namespace jobq
