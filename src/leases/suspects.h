// Suspects are jobs that have lost a worker before. If a worker stops sending heartbeats while it runs several jobs,
// any of them may have killed it. So a worker gets at most one suspect at a time, until one of them loses its worker
// alone.
#pragma once

#include "compat/pg.h"
#include "compat/spi.h"
#include "row/jobs_table.h"

namespace jobq {

// Result of find_company_of(). The company of a lost job is the other jobs that its worker ran when it stopped sending
// heartbeats.
struct Company {
    bool *lost_together;  // for each given job, whether it was lost together with other jobs
    // jobs in the company of the given jobs that still run because their own leases have not expired yet
    Datum *ids;
    Datum *leases;
    int count;
};

// Finds the jobs that were lost together with the given jobs, which the caller has locked. lost[i] says whether job i
// has ended because its worker stopped sending heartbeats. `before` is a registered snapshot taken before the jobs were
// locked. In this snapshot, jobs whose attempts another rescue ends at the same time still run, so that if two rescues
// each lock some jobs of a worker, both see all of its jobs. Call it inside with_spi().
Company find_company_of(Datum *ids, const bool *lost, int count, Snapshot before);
// Sets jobs._company_lease of these running jobs, which records that their worker lost other jobs at the same time. The
// rescue uses it when the leases of these jobs expire. Skips rows that another transaction has locked, because that
// transaction ends the attempt or sends a heartbeat.
void mark_company(const Datum *ids, const Datum *leases, int count);

// Returns whether the job in table.row has lost a worker before.
inline bool is_suspect(const JobsTable &jobs) {
    return job_has(jobs, kJobCompanyLease) || DatumGetInt32(job_value(jobs, kJobLostAttempts)) > 0;
}

// Returns whether the worker runs a suspect on trial, which means that the last heartbeat of the suspect came less than
// one heartbeat timeout after its claim. Sets *until to the time when the trials of all its suspects end if the worker
// keeps sending heartbeats. Call it inside with_spi().
bool is_on_trial(text *worker_id, TimestampTz *until);

// Returns whether the worker may claim a suspect because it runs no suspect on trial. If it returns true, no other
// session can claim a suspect for this worker until the transaction ends. Do not call it inside with_spi().
bool may_take_suspect(text *worker_id);

}  // namespace jobq
