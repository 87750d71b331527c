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

#include "compat/pg.h"
#include "core/job.h"
#include "shmem/memory.h"

namespace jobq {

struct YoungLease {
    int64 job;
    int64 lease;
};

// Creates an entry for the lease of a job that the current transaction claims. `due` is the time at which due_leases()
// returns it if it has not ended. Returns false if there is no free entry or no background worker would read it; in
// this case, the claim must mark the job as rescue-indexed.
bool enter_lease(int64 job, int64 lease, uint32 worker_hash, TimestampTz due);
// Creates an entry for the lease of a running job that was found in the table, unless the lease has an entry. The
// transaction that claimed the job is unknown. Returns false like enter_lease().
bool enter_found_lease(int64 job, int64 lease, uint32 worker_hash);

// Makes the entry of the lease, if there is one, end when the current transaction commits. This only saves work;
// correctness does not depend on it.
void end_lease(int64 job, int64 lease);
// Removes the entry immediately, because the transaction that ended the job has already committed.
void drop_lease(int64 job, int64 lease);

// Returns at most `room` leases of this session's database that are due and whose claims have committed. Also removes
// ended entries.
int due_leases(TimestampTz now, YoungLease *young, int room);
// Return the leases whose claims are visible to this transaction, even if they are not due: all such leases, or the
// leases of one worker.
int visible_leases(YoungLease *young, int room);
int leases_of_worker(uint32 worker_hash, YoungLease *young, int room);
// Returns the leases that the current transaction has entered and has not ended.
int leases_of_this_transaction(YoungLease *young, int room);
// Returns the earliest time at which due_leases() can return a lease, or DT_NOEND if there are no leases.
TimestampTz next_young_due();

// Removes the entries of a database that was dropped or no longer has jobs. Called by the launcher.
void forget_leases_of(Oid database);

// Returns the hash that stands for the name of a worker in the entries.
uint32 worker_hash_of(const text *worker_id);

// Returns the maximum number of entries, which is 0 if the library is not preloaded.
int max_young_leases();

// main/jobq.cpp calls these functions for this part of the shared memory.
Size young_leases_size();
void make_young_leases(void *memory, bool fresh);
SharedUsage young_leases_usage();

}  // namespace jobq
