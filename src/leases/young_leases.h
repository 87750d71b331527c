// Young leases: the leases of jobs claimed in about the last second, which are not in the rescue index yet. A job that
// is completed within this time is never entered into the index. This saves one index entry at the claim and another at
// the completion, and the completion can be a HOT update. Jobs that still run after this time are entered into the
// rescue index.
//
// Each entry contains the id of the transaction that created it and the id of the transaction that ended it by
// completing the job or entering it into the rescue index. A reader of the entry looks up the outcome of both
// transactions, so entries need no correction after a rollback, a PREPARE TRANSACTION, or a crash.
//
// Memory is bounded. If there is no free entry, the library is not preloaded, or no background worker runs for the
// database, the claim itself marks the job as rescue-indexed. A restart loses the entries, so the first round of the
// background worker finds their jobs in the table.
#pragma once

#include "compat/memory.h"
#include "compat/pg.h"
#include "core/job.h"
#include "shmem/memory.h"

namespace jobq {

struct YoungLease {
    int64 job;
    int64 lease;
};

// Creates an entry for the lease of a job that the current transaction claims. `due` is the time at which due_leases()
// returns the lease if it has not ended. Returns false if there is no free entry or no background worker would read the
// entry; in this case, the claim must mark the job as rescue-indexed.
bool enter_lease(int64 job, int64 lease, uint32 worker_hash, TimestampTz due);
// Creates an entry for the lease of a running job that was found in the table, unless the lease already has an entry.
// The transaction that claimed the job is unknown. Returns false in the same cases as enter_lease().
bool enter_found_lease(int64 job, int64 lease, uint32 worker_hash);

// If the lease has an entry, makes the entry end when the current transaction commits. Ending the entry only saves
// work; correctness does not depend on it.
void end_lease(int64 job, int64 lease);
// Removes the entry of the lease immediately. The transaction that ended the job must already have committed.
void drop_lease(int64 job, int64 lease);

// Returns the leases of this session's database that are due and whose claims have committed. Also removes ended
// entries.
Notes<YoungLease> due_leases(TimestampTz now);
// These functions return the ids (bigint[]) of running jobs with young leases that are not rescue-indexed yet and whose
// claims are visible to the current transaction: all such jobs, or only the jobs of one worker.
Datum unindexed_jobs();
Datum unindexed_jobs_of_worker(const text *worker_id);
// Returns the leases that the current transaction has entered and has not ended.
Notes<YoungLease> leases_of_this_transaction();
// Returns the earliest time at which due_leases() can return a lease, or DT_NOEND if there are no leases.
TimestampTz next_young_due();

// Removes the entries of a database that was dropped or no longer has jobs. The launcher calls this function.
void forget_leases_of(Oid database);

// Returns the hash that stands for the name of a worker in the entries.
uint32 worker_hash_of(const text *worker_id);

// main/jobq.cpp calls these functions to set up the young leases in shared memory and to report their usage.
Size young_leases_size();
void make_young_leases(void *memory, bool fresh);
SharedUsage young_leases_usage();

}  // namespace jobq
