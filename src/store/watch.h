// Which running jobs the rescue looks at. A claim leaves its job unwatched for the first second (shared/leases.h): here
// those that still run then are marked as `watched`, which enters them into the rescue's index.
#pragma once

#include "pg/pg.h"
#include "shared/leases.h"
#include "store/jobs_table.h"

namespace jobq {

// How long a claim is left unwatched, unless its lease runs out before.
constexpr core::Micros kUnwatched = core::kSecond;

// Marks the jobs of these leases that still run under them. Jobs that somebody holds are left for the next time.
void watch_leases(const YoungLease *leases, int count);

// PREPARE TRANSACTION of the current transaction will mark what it has claimed. For every claim that enters a lease.
void watch_before_prepare();

// Jobs that run unwatched since before the server started, as a crash leaves them: found once after each start, by
// reading the whole table. Inside with_spi().
void find_unwatched_jobs();

// Marks these jobs, as far as they run under these leases and nobody holds them, as watched. Returns how many.
int64 watch_jobs(Datum *ids, Datum *leases, int count);

// The ids of the jobs that are not watched yet, as far as they are known: all, or those of a worker.
Datum unwatched_jobs();
Datum unwatched_jobs_of_worker(const text *worker_id);

}  // namespace jobq
