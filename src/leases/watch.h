// Which running jobs the rescue looks at. A claim leaves its job unwatched for the first second
// (leases/young_leases.h): here those that still run then are marked as `watched`, which enters them into the rescue's
// index.
#pragma once

#include "compat/pg.h"
#include "compat/subtransaction.h"
#include "job/jobs_table.h"
#include "leases/young_leases.h"

namespace jobq {

// How long a claim is left unwatched, unless its lease runs out before.
constexpr core::Micros kUnwatched = core::kSecond;

// Marks the jobs of these leases that still run under them, and returns of how many leases nothing is left to be done,
// at most `at_most`. Jobs that somebody holds are left for the next time.
int watch_leases(const YoungLease *leases, int count, int at_most);

// PREPARE TRANSACTION of the current transaction will mark what it has claimed. For every claim that enters a lease.
void watch_before_prepare();
// For main/jobq.cpp: does so, since a prepared claim may be committed after a restart, which forgets its lease, by a
// session that knows nothing of it.
void watch_own_leases();

// A running job has come with the current transaction that is not watched, and that no claim of this server has
// entered: by replication.
void watch_arrived_job(int64 job, int64 lease, const text *worker_id);
// The same for one without a lease, as it is left by hand.
void watch_unleased_job(int64 job);

struct UnwatchedSearch {
    bool looked;          // into the table: watched jobs may have come the same way, the horizon says nothing of them
    int64 left_out;       // a job that could not be marked; 0: there is none
    FailureText failure;  // why
};
// Jobs that run unwatched without anybody having been told, as a crash leaves them, or a restore with triggers
// disabled: found once after each start and once after each change of the triggers, by reading the whole table. Inside
// with_spi().
UnwatchedSearch find_unwatched_jobs();
// When that is to be done again.
TimestampTz next_search_for_unwatched();

// The ids of the jobs that are not watched yet, as far as they are known: all, or those of a worker.
Datum unwatched_jobs();
Datum unwatched_jobs_of_worker(const text *worker_id);

}  // namespace jobq
