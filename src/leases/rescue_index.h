// Enters running jobs into the rescue index, in which the rescue finds expired leases. A claim does not enter its jobs,
// because most jobs end within a second (leases/young_leases.h). The functions in this file enter the jobs that run
// longer.
#pragma once

#include "compat/pg.h"
#include "core/life.h"
#include "leases/young_leases.h"
#include "row/jobs_table.h"

namespace jobq {

// Time after which a claimed job is entered into the rescue index. A job whose lease expires earlier is entered
// earlier.
constexpr core::Micros kUnindexed = core::kSecond;

// Marks as rescue-indexed the jobs that still run under these leases. Skips jobs that another transaction has locked.
// Stops when the number of leases that were not skipped reaches `at_most`, and returns this number.
int index_leases(const YoungLease *leases, int count, int at_most);

// A running job that is not in the rescue index. It has no lease if a plain SQL statement set its status to processing.
struct Unindexed {
    int64 job;
    core::OptInt64 lease;
};
// Marks jobs as rescue-indexed. Returns the number of jobs that it skipped because other transactions had locked them.
int64 index_jobs(const Unindexed *unindexed, int count);

// Makes PREPARE TRANSACTION mark as rescue-indexed the jobs that the current transaction has claimed. Every claim that
// calls enter_lease() must also call this function.
void index_before_prepare();
// Marks as rescue-indexed the jobs that the current transaction has claimed. main/jobq.cpp calls this function during
// PREPARE TRANSACTION. Marking the jobs is necessary because the young leases in shared memory are lost in a restart,
// and the prepared claim might be committed after a restart.
void index_own_leases();

// Enters a running job into the rescue index. The current transaction has received the job through replication, and the
// job is not rescue-indexed yet. This is necessary because the lease of the job was entered only on the server where
// the job was claimed.
void index_arrived_job(int64 job, int64 lease, const text *worker_id);
// Enters a running job without a lease into the rescue index. Plain SQL can create such a job.
void index_unleased_job(int64 job);

}  // namespace jobq
