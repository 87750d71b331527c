// Which running jobs the rescue looks at. A claim leaves its job unwatched for the first second (shared/leases.h): here
// those that still run then are marked as `watched`, which enters them into the rescue's index.
#pragma once

#include "pg/pg.h"
#include "store/jobs_table.h"

namespace jobq {

// How long a claim is left unwatched, unless its lease runs out before.
constexpr core::Micros kUnwatched = core::kSecond;

// Marks running jobs whose time as young leases is over, at most `batch`. Jobs that somebody holds are left for the
// next time. Returns false when there were more.
bool watch_due_jobs(TimestampTz now, int batch);

// Jobs that run unwatched since before the server started, as a crash leaves them: found once, by reading the whole
// table. Inside with_spi().
void find_unwatched_jobs();

// Marks these jobs, which run under these leases, as watched.
void watch_jobs(Datum *ids, Datum *leases, int count);

// The ids of the jobs of a worker that are not watched yet, as far as they are known.
Datum unwatched_jobs_of_worker(const text *worker_id);

}  // namespace jobq
