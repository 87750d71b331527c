// The leases of the last second or so: jobs that have been claimed and that the rescue's index does not hold yet. A job
// that is completed soon never gets there, which spares its claim and its completion an index entry each, and lets the
// completion be a HOT update. Only a job that still runs when its time here is over enters the rescue's index.
//
// An entry carries the numbers of the transactions that made it and that ended its purpose (completed the job, or
// entered it into the rescue's index). Whoever reads it asks what became of these: nothing has to be put right when one
// rolls back, is prepared, or dies.
//
// Bounded memory: without room, without preload or where no background worker comes by, the claim marks the job as
// rescue-indexed itself. What a restart forgets, the first round after it finds in the table.
#pragma once

#include "compat/pg.h"
#include "core/job.h"

namespace jobq {

struct YoungLease {
    int64 job;
    int64 lease;
};

// Enters the lease that the current transaction gives; `due`: when the rescue shall have a look. False: no room or no
// use, the claim must put the job into the rescue's index.
bool enter_lease(int64 job, int64 lease, uint32 worker_hash, TimestampTz due);
// The same for a job that the table shows as running, claimed by nobody knows whom; unless it has been entered.
bool enter_found_lease(int64 job, int64 lease, uint32 worker_hash);

// The current transaction ends what the entry is for, if there is one. For speed only: nobody relies on it.
void end_lease(int64 job, int64 lease);
// The same, when no transaction can change it: the entry goes.
void drop_lease(int64 job, int64 lease);

// Leases of this session's database that are due and whose claim has committed, at most `room`. Forgets what is over on
// the way.
int due_leases(TimestampTz now, YoungLease *young, int room);
// Those whose claim this transaction sees, due or not: all, or a worker's.
int visible_leases(YoungLease *young, int room);
int leases_of_worker(uint32 worker_hash, YoungLease *young, int room);
// Those that the current transaction has entered and has not ended.
int leases_of_this_transaction(YoungLease *young, int room);
// The earliest time at which due_leases finds one; DT_NOEND: there are none.
TimestampTz next_young_due();

// For the launcher, of a database that is gone, or has no jobs any more: its entries make room.
void forget_leases_of(Oid database);

// What stands for a worker's name in an entry.
uint32 worker_hash_of(const text *worker_id);

// How many there can be; 0 without preload.
int max_young_leases();

// For main/jobq.cpp: its part of the shared memory.
Size young_leases_size();
void make_young_leases(void *memory, bool fresh);

}  // namespace jobq
