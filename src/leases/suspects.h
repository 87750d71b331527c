// Suspects are jobs that have lost a worker before. If several jobs were lost together, each may have killed the
// worker. So they are handed out one at a time, until one of them loses its worker alone.
#pragma once

#include "compat/pg.h"
#include "compat/spi.h"
#include "row/jobs_table.h"

namespace jobq {

// What the rescue has found out about the jobs that it ends.
struct Company {
    bool *lost_together;  // one value per given id
    // Jobs that still run, as far as is known, but whose worker fell silent together with one of the given jobs.
    Datum *ids;
    Datum *leases;
    int count;
};

// Finds the company of locked jobs. lost[i] says whether the worker of job i is silent. `before` is a registered
// snapshot from before the jobs were locked, in which jobs that another rescue ends in the meantime still run. So if
// two rescues share the jobs of a worker, neither mistakes its part for the whole. Must be called inside with_spi().
Company find_company_of(Datum *ids, const bool *lost, int count, Snapshot before);
// Records that these running jobs fell silent together with others, for the time when their own leases expire. Skips
// rows that another transaction holds, because that transaction reports on them.
void mark_company(const Datum *ids, const Datum *leases, int count);

// Returns whether the job in table.row has lost a worker before.
inline bool is_suspect(const JobsTable &jobs) {
    return job_has(jobs, kJobCompanyLease) || DatumGetInt32(job_value(jobs, kJobLostAttempts)) > 0;
}

// Returns whether the worker holds suspects that have not survived a heartbeat timeout yet. Sets *until to the time
// when all of them have survived it, if the worker keeps sending heartbeats. Must be called inside with_spi().
bool is_on_trial(text *worker_id, TimestampTz *until);

// Returns whether the worker may be given a suspect because it holds none on trial. If so, no other session can give
// one to this worker until the transaction ends. Must be called without SPI.
bool may_take_suspect(text *worker_id);

}  // namespace jobq
