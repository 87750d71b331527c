// Suspects are jobs that have lost a worker before. If a worker stops sending heartbeats while it runs several jobs,
// any of these jobs might have crashed the worker. From then on, a worker gets at most one suspect at a time. If the
// worker of a suspect stops sending heartbeats while it runs no other job, that suspect was the cause.
#pragma once

#include "compat/pg.h"
#include "compat/spi.h"
#include "row/jobs_table.h"

namespace jobq {

// Result of find_company_of(). The company of a lost job consists of the other jobs that its worker was running when
// the worker stopped sending heartbeats.
struct Company {
    bool *lost_together;  // for each given job, whether it was lost together with other jobs
    // The members of the company that are still running and whose leases have not expired yet.
    Datum *ids;
    Datum *leases;
    int count;
};

// Determines which of the given jobs were lost together with other jobs, and which other jobs in their company are
// still running. The caller must have locked the given jobs. lost[i] says whether job i has ended because its worker
// stopped sending heartbeats. `before` is a registered snapshot taken before the jobs were locked. If another rescue is
// ending the attempts of other jobs at the same time, these jobs are still running in this snapshot. So if two rescues
// each lock some jobs of a worker, both see all jobs of the worker. Must be called inside with_spi().
Company find_company_of(Datum *ids, const bool *lost, int count, Snapshot before);
// Sets jobs._company_lease of these running jobs, which records that their worker lost other jobs at the same time. The
// rescue uses this record when the leases of these jobs expire. Skips rows that another transaction has locked, because
// that transaction ends the attempt or sends a heartbeat.
void mark_company(const Datum *ids, const Datum *leases, int count);

// Returns whether the job in table.row has lost a worker before.
inline bool is_suspect(const JobsTable &jobs) {
    return job_has(jobs, kJobCompanyLease) || DatumGetInt32(job_value(jobs, kJobLostAttempts)) > 0;
}

// Returns whether the worker runs a suspect on trial (IS_ON_TRIAL in lease_sql.h). Sets *until to the time when the
// trials of all suspects of the worker end if the worker keeps sending heartbeats. Must be called inside with_spi().
bool is_on_trial(text *worker_id, TimestampTz *until);

// Returns whether the worker is allowed to claim a suspect. This is the case if the worker runs no suspect on trial and
// no other transaction is claiming a suspect for it. If the result is true, no other session can claim a suspect for
// this worker until the transaction ends. Must not be called inside with_spi().
bool may_take_suspect(text *worker_id);

}  // namespace jobq
