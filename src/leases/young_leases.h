// The leases of the last second or so, whose jobs are not in the rescue's index yet. A job that is completed soon never
// enters the index. This saves an index entry at its claim and another at its completion, and the completion can be a
// HOT update. Jobs that still run after this time are entered into the rescue's index.
//
// An entry has the id of the transaction that made it, and the id of the transaction that ended it because it completed
// the job or entered it into the rescue's index. A reader of the entry looks up the outcome of both transactions, so
// nothing has to be corrected after a rollback, a prepare, or a crash.
//
// Memory is bounded. If there is no room, no preload, or no background worker for the database, the claim marks the job
// as rescue-indexed itself. After a restart, the first round finds the forgotten jobs in the table.
#pragma once

#include "compat/pg.h"
#include "core/job.h"
#include "shmem/memory.h"

namespace jobq {

struct YoungLease {
    int64 job;
    int64 lease;
};

// Enters the lease that the current transaction gives. `due` is when the rescue must look at it. Returns false if there
// is no room or no point; the claim must then put the job into the rescue's index.
bool enter_lease(int64 job, int64 lease, uint32 worker_hash, TimestampTz due);
// The same for a job that the table shows as running, claimed by an unknown transaction, unless the lease has been
// entered already.
bool enter_found_lease(int64 job, int64 lease, uint32 worker_hash);

// Ends the lease's entry, if there is one, when the current transaction commits. This only saves work; correctness does
// not depend on it.
void end_lease(int64 job, int64 lease);
// Removes the entry at once, because the job's end is already committed.
void drop_lease(int64 job, int64 lease);

// Returns at most `room` leases of this session's database that are due and whose claim has committed. Removes ended
// entries that it meets.
int due_leases(TimestampTz now, YoungLease *young, int room);
// Return the leases whose claim this transaction sees, due or not: all leases, or the leases of a worker.
int visible_leases(YoungLease *young, int room);
int leases_of_worker(uint32 worker_hash, YoungLease *young, int room);
// Returns leases that the current transaction has entered and not ended.
int leases_of_this_transaction(YoungLease *young, int room);
// Returns the earliest time at which due_leases() will find a lease, or DT_NOEND if there are none.
TimestampTz next_young_due();

// For the launcher: removes the entries of a database that has been dropped or has no jobs any more.
void forget_leases_of(Oid database);

// Returns the hash that represents a worker's name in entries.
uint32 worker_hash_of(const text *worker_id);

// Returns the maximum number of entries; 0 without preload.
int max_young_leases();

// For main/jobq.cpp: the shared memory of this part.
Size young_leases_size();
void make_young_leases(void *memory, bool fresh);
SharedUsage young_leases_usage();

}  // namespace jobq
